# SPDX-License-Identifier: LGPL-2.1-only
"""What the comments and declarations of kvtree.h say."""

import re

import roff

COMMENT = re.compile(r'/\*\*?\n((?: \*.*\n)*?) \*/\n')
HEADING = re.compile(r'(.+)\n=+(?:\n|$)')
SHORT = re.compile(r'(?:(struct|typedef) )?(\w+)(?:\(\))? - (.*)')
DEFINE = re.compile(r'#define (\w+)[ \t]+(\S.*?)[ \t]*/\* (.*) \*/')


class Function:
    """A call, as its kernel-doc comment describes it."""

    def __init__(self, section, name, short, body, declaration):
        self.section = section
        self.name = name
        self.short = short
        self.parameters, self.text, self.returns = read_body(body)
        self.inline = declaration.startswith('static inline ')
        self.declaration = ' '.join(declaration.removeprefix('static inline ').split())
        found = re.match(r'(.*?)(\w+)\((.*)\)$', self.declaration)
        self.type = found[1]
        self.arguments = [] if found[3] == 'void' else found[3].split(', ')

    def takes(self, pattern):
        """Whether an argument looks like this."""
        return any(re.fullmatch(pattern, argument) for argument in self.arguments)

    def is_change(self):
        """Whether it changes a store: what does so takes flags."""
        return (self.takes(r'const struct kvtree \*kv') and
                self.takes('struct kvtree_slice key') and self.takes('unsigned int flags'))

    def returns_errors(self):
        return re.search(r'negative errno|-E[A-Z]+|^as kvtree', ' '.join(self.returns)) and \
            self.type.strip() == 'int' and 'INPROGRESS' not in ' '.join(self.returns)


class Structure:
    def __init__(self, name, short, body, declaration):
        self.name = name
        self.short = short
        self.fields, self.text, _ = read_body(body)
        self.declaration = declaration


class Section:
    """A part of a header: a comment with a heading, and the calls behind it."""

    def __init__(self, include, title, text):
        self.include = include
        self.title = title
        self.text = text
        self.functions = []
        self.structures = []


class Header:
    """All headers, of which the first introduces the library."""

    def __init__(self, sources):
        self.sections, self.defines, self.introduction = [], [], None
        for name, source in sources:
            self.defines += [(define, text) for define, _, text in DEFINE.findall(source)]
            comments = list(COMMENT.finditer(source))
            self.introduction = self.introduction or uncomment(comments[0][1])
            for found in comments[1:]:
                self.add(name, found, source[found.end():])
        self.functions = {function.name: function
                          for section in self.sections for function in section.functions}

    def add(self, include, found, behind):
        lines = uncomment(found[1])
        heading = HEADING.match('\n'.join(lines))
        if heading:
            self.sections.append(Section(include, heading[1], lines[2:]))
            return
        short = SHORT.match(lines[0])
        if not found[0].startswith('/**') or not short:
            return
        section, (kind, name, text) = self.sections[-1], short.groups()
        if kind:
            end = re.search(r'^};\n' if kind == 'struct' else r';\n', behind, re.MULTILINE)
            section.structures.append(Structure(name, text, lines[1:], behind[:end.end()]))
        else:
            # Without the body of an inline function.
            end = re.search(r';\n|\n{\n', behind)
            section.functions.append(
                Function(section, name, text, lines[1:], behind[:end.start()]))

    def structure(self, name):
        for section in self.sections:
            for structure in section.structures:
                if structure.name == name:
                    return structure
        return None


def uncomment(text):
    return [re.sub(r'^ \* ?', '', line).rstrip() for line in text.rstrip('\n').split('\n')]


def read_body(lines):
    """Parameters, as pairs; other text; what is returned."""
    parameters, text, returns = [], [], []
    into = text
    for line in lines:
        parameter = re.match(r'@(\w+): (.*)', line)
        if parameter:
            parameters.append((parameter[1], parameter[2]))
            into = None
        elif line.startswith('Return: '):
            into = returns
            into.append(line[len('Return: '):])
        elif into is None and line.strip():
            name, so_far = parameters[-1]
            parameters[-1] = (name, f'{so_far} {line.strip()}')
        elif into is None:
            into = text
        else:
            into.append(line)
    return parameters, text, returns


def interface_structures(source):
    """Declarations of the structures of the kernel interface, by name."""
    return {name: text for text, name in
            re.findall(r'^(struct (\w+) \{.*?^\};\n)', source, re.MULTILINE | re.DOTALL)}


def versions(source):
    """In which version of the library each symbol came, from its map."""
    return {symbol: version for version, body in
            re.findall(r'LIBKVTREE_([\d.]+) \{(.*?)\}', source, re.DOTALL)
            for symbol in re.findall(r'\b(kvtree_\w+);', body)}


def parse_errors(lines):
    return [error for kind, block in roff.split(lines) if kind == 'errors'
            for error in roff.read_errors(block)]
