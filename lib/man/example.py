# SPDX-License-Identifier: LGPL-2.1-only
"""Programs that pages show, and what they print.

The comment at the top of an example says what it shows, in which pages, and,
after "Prints:", its output, in which "..." matches anything.
"""

import os
import re

import roff

HEAD = re.compile(r'// SPDX[^\n]*\n/\*\n((?: \*[^\n]*\n)+?) \*/\n')
PAGE = re.compile(r'(\w+)\(\d\)')


class Example:
    def __init__(self, path):
        self.name = os.path.splitext(os.path.basename(path))[0]
        self.path = path
        with open(path, encoding='utf-8') as f:
            source = f.read()
        head = HEAD.match(source)
        if not head:
            raise ValueError(f'{path}: no comment that says what it shows')
        text = '\n'.join(re.sub(r'^ \* ?', '', line) for line in head[1].split('\n'))
        about, _, rest = text.partition('Shown in:')
        pages, _, output = rest.partition('Prints:')
        self.about = ' '.join(about.split())
        self.pages = PAGE.findall(pages)
        self.output = [line[1:] for line in output.strip('\n').split('\n')]
        self.code = source[head.end():].strip('\n').split('\n')
        if not self.pages or not output:
            raise ValueError(f'{path}: "Shown in:" or "Prints:" is missing')

    def calls(self, function):
        return re.search(rf'\b{function}\b', '\n'.join(self.code))

    def roff(self, text):
        return (['.P'] + text.paragraph(self.about) + ['.P'] + roff.literal(self.code) +
                ['.P', 'It prints:', '.P'] + roff.literal(self.output))


def read_all(folder):
    """The examples in a folder, in the order of their names."""
    return [Example(os.path.join(folder, name)) for name in sorted(os.listdir(folder))
            if name.endswith('.c')]
