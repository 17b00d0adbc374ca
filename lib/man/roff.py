# SPDX-License-Identifier: LGPL-2.1-only
"""Turn plain text of comments into man(7).

Paragraphs are separated by blank lines. What is indented by a tab is a list of
errors ("-ENOENT<tabs>text") or else literal text. In a paragraph @name is an
argument, name() a function, NAME_NAME a constant, `text` literal.
"""

import datetime
import os
import re
import textwrap

# Functions of others that comments speak of, and the section of their pages.
OTHERS = {'epoll': 7, 'exec': 3, 'fork': 2, 'free': 3, 'ioctl': 2, 'memcmp': 3, 'poll': 2}

ERROR_LINE = re.compile(r'\t(-E\w+(?:, -E\w+)*)[\t ]+(.*)')


def escape(text):
    """Text in which nothing has a meaning to roff."""
    return text.replace('\\', '\\e')


def escape_literal(text):
    """The same for what is to be copied from the page: ASCII stays ASCII."""
    text = escape(text)
    for char, name in (('-', r'\-'), ("'", r'\(aq'), ('`', r'\(ga'), ('^', r'\(ha'),
                       ('~', r'\(ti')):
        text = text.replace(char, name)
    return text


def guard(line):
    """A line of text that begins like a request."""
    return r'\&' + line if line[:1] in ('.', "'") else line


def font(letter, text):
    return rf'\f{letter}{escape_literal(text)}\fR'


# Names are not to be hyphenated: "\%" in front of a word says so.

def bold(name):
    return font('B', name).replace('B', r'B\%', 1)


def italic(name):
    return font('I', name).replace('I', r'I\%', 1)


def reference(name, section):
    return rf'{bold(name)}({section})'


class Text:
    """Turns text into roff, with references to the pages that there are."""

    INLINE = re.compile(
        r'`(?P<literal>[^`]+)`'
        r'|\*?@(?P<argument>\w+)'
        r'|(?P<function>\b[a-z_]\w*)\(\)'
        r'|(?P<error>-E[A-Z0-9]+\b)'
        r'|(?P<page>\b(?:lib)?kvtree\w*)\((?P<section>[134])\)'
        r'|(?P<constant>\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b\*?)'
        r'|(?P<type>\b(?:struct|enum) kvtree\w*|<[a-z/]+\.h>)')

    def __init__(self, pages, own=''):
        self.pages = pages
        self.own = own

    def inline(self, text):
        out = []
        at = 0
        for found in self.INLINE.finditer(text):
            out.append(escape(text[at:found.start()]))
            out.append(self.mark(found))
            at = found.end()
        out.append(escape(text[at:]))
        # In a word it would be a place to hyphenate.
        return re.sub(r'(?<=[^\s(])(\\f[BI])\\%', r'\1', ''.join(out))

    def mark(self, found):
        kind = found.lastgroup
        if kind == 'literal':
            return bold(found['literal'])
        if kind == 'argument':
            return italic(found[0].replace('@', ''))
        if kind == 'function':
            return self.function(found['function'])
        if kind == 'section':
            return reference(found['page'], found['section'])
        if kind == 'type':
            return italic(found[0])
        return bold(found[0])

    def function(self, name):
        if name == self.own:
            return f'{bold(name)}()'
        if name in self.pages:
            return reference(name, 3)
        if name in OTHERS:
            return reference(name, OTHERS[name])
        return f'{bold(name)}()'

    def paragraph(self, text):
        """Lines of a paragraph, a sentence on a line of its own."""
        lines = []
        for sentence in re.split(r'(?<=[.:])\s+(?=[A-Z"(])', ' '.join(text.split())):
            lines += textwrap.wrap(self.inline(sentence), 78, break_long_words=False,
                                   break_on_hyphens=False)
        return [guard(line) for line in lines]

    def errors(self, errors):
        """Pairs of names and texts, as a list."""
        out = []
        for names, text in errors:
            out += ['.TP', ', '.join(bold(name) for name in names)]
            out += self.paragraph(sentence(text))
        return out

    def blocks(self, lines):
        """Lines of text with paragraphs, literal text and errors."""
        out = []
        for kind, block in split(lines):
            if kind == 'errors':
                out += self.errors(read_errors(block))
            elif kind == 'literal':
                out += ['.P'] + literal([line[1:] for line in block])
            else:
                out += ['.P'] + self.paragraph(' '.join(block))
        return out


def sentence(text):
    """Text as a sentence: with a capital letter and a full stop."""
    if re.match(r'[a-z]+(?![\w(])', text):
        text = text[0].upper() + text[1:]
    return text if text.endswith(('.', ':')) else text + '.'


def split(lines):
    """Blocks of text, as pairs of a kind and the lines."""
    block, kind = [], None
    for line in lines + ['']:
        here = (None if not line.strip() else
                'errors' if ERROR_LINE.match(line) else
                'errors' if kind == 'errors' and line.startswith('\t\t') else
                'literal' if line.startswith('\t') else 'text')
        # A blank line in literal text is a part of it if more follows.
        if kind == 'literal' and here is None:
            block.append('')
            continue
        if here != kind and block:
            yield kind, strip(block)
            block = []
        kind = here
        if here:
            block.append(line)
    if block:
        yield kind, strip(block)


def strip(block):
    while not block[-1].strip():
        block = block[:-1]
    return block


def read_errors(lines):
    """Pairs of the names of errors and what they mean."""
    found = []
    for line in lines:
        first = ERROR_LINE.match(line)
        if first:
            found.append((first[1].split(', '), first[2]))
        elif line.strip() and found:
            found[-1] = (found[-1][0], f'{found[-1][1]} {line.strip()}')
    return found


def literal(lines):
    """Lines of a program or of its output."""
    text = [guard(escape_literal(line.expandtabs(8))) for line in lines]
    return ['.EX', *text, '.EE']


def date(newest):
    """The date of a page, from the time of its newest source."""
    when = int(os.environ.get('SOURCE_DATE_EPOCH') or newest)
    return str(datetime.datetime.fromtimestamp(when, datetime.timezone.utc).date())


def tidy(lines):
    """Without paragraphs that a heading, a list or another paragraph follows."""
    out = []
    for line in lines:
        if out and out[-1] == '.P' and re.match(r'\.(P|SH|SS|TP|IP|RS)\b', line):
            out.pop()
        if line == '.P' and out and re.match(r'\.(SH|SS)\b', out[-1]):
            continue
        out.append(line)
    return out


def version_of_library():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'Makefile')
    with open(path, encoding='utf-8') as f:
        return re.search(r'^VERSION\s*:=\s*(\S+)', f.read(), re.MULTILINE)[1]
