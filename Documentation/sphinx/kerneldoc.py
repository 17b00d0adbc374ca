# SPDX-License-Identifier: GPL-2.0
"""The directive "docblock": a DOC comment of a C file, rendered.

    .. docblock:: kmod/masstree/masstree.c
       :name: The Masstree engine

The path is relative to the top of the tree. The comment is one that begins
with "DOC: NAME", as scripts/kernel-doc of the kernel knows it; its text is
reStructuredText. The kernel's own extension needs a kernel's source.
"""

import os
import re

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from docutils.statemachine import StringList

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), '..', '..'))
COMMENT = re.compile(r'^/\*\*\n \* DOC: *([^\n]*)\n(.*?)\n? \*/', re.MULTILINE | re.DOTALL)


def doc_block(path, name):
    """The lines of a DOC comment with their numbers, or None."""
    with open(path, encoding='utf-8') as f:
        source = f.read()
    for comment in COMMENT.finditer(source):
        if comment[1].strip() != name:
            continue
        first = source.count('\n', 0, comment.start(2)) + 1
        lines = [re.sub(r'^ \* ?', '', line).expandtabs()
                 for line in comment[2].split('\n')]
        return list(enumerate(lines, first))
    return None


class DocBlock(Directive):
    required_arguments = 1
    option_spec = {'name': directives.unchanged_required}

    def run(self):
        path = os.path.join(TOP, self.arguments[0])
        env = self.state.document.settings.env
        env.note_dependency(path)
        block = doc_block(path, self.options.get('name', ''))
        if block is None:
            raise self.error(f'no "DOC: {self.options.get("name")}" in {path}')
        content = StringList()
        for number, line in block:
            content.append(line, path, number - 1)
        node = nodes.section()
        node.document = self.state.document
        self.state.nested_parse(content, 0, node)
        return node.children


def setup(app):
    app.add_directive('docblock', DocBlock)
    return {'parallel_read_safe': True}
