#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Fill in a page.

    page.py TEMPLATE PAGE [TOOL]

Lines of the template that are replaced:

    .\\" @options@         the common options of the tool's commands
    .\\" @letters@         the meanings of one-letter options
    .\\" @commands@        the commands, from the tool's help texts
    .\\" @example FILE@    a program of the folder "examples" beside the template,
                          and its output; or a session of the shell

and of its title @DATE@ and @VERSION@. TOOL is the tool to ask.

help2man makes a page of one command's help; kvtree(1) has those of all commands.
"""

import os
import re
import sys

import usage

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', '..', 'lib', 'man'))
# pylint: disable=wrong-import-position
import example  # noqa: E402
import roff  # noqa: E402

MARK = re.compile(r'\.\\" @(\w+)(?: (\S+))?@$')


class Help(roff.Text):
    """Help texts: options and arguments are marked as such."""

    INLINE = re.compile(
        r'(?<![\w-])(?P<option>--?[A-Za-z][\w-]*|--?(?=[\s.,;]|$))'
        r'|(?P<argument>\b[A-Z]{2,}(?:=[A-Z]+)?\b(?!-))')
    # Words in capitals that are not placeholders.
    WORDS = ('ID', 'JSON', 'UTF', 'HH')

    def mark(self, found):
        if found['option']:
            return roff.font('B', found['option'])
        word = found['argument']
        return word if word in self.WORDS else roff.font('I', word)


def synopsis(words):
    """A usage: words in capitals are placeholders."""
    out = []
    for word in words.split():
        for part in re.split(r'([A-Z]+(?:<tab>)?[A-Z]*)', word):
            out.append('' if not part else
                       roff.font('I', part) if re.match('[A-Z]', part) else
                       roff.escape_literal(part) if re.fullmatch(r'[][.=|,]+', part) else
                       roff.font('B', part))
        out.append(r'\~' if word.startswith('--') else ' ')
    return ''.join(out).rstrip()


def tag(option):
    """"-f, --file=FILE" """
    names = ', '.join(roff.bold(spelling) for spelling in option.spellings())
    return names + (f"={roff.font('I', option.arg)}" if option.arg else '')


class Page:
    def __init__(self, template, tool):
        self.folder = os.path.dirname(os.path.abspath(template))
        self.tool = tool and usage.Tool(tool)
        self.text = Help(())
        sources = [template, *(shown.path for shown in self.programs())]
        if tool:
            sources.append(tool)
        self.date = roff.date(max(os.path.getmtime(path) for path in sources))
        with open(template, encoding='utf-8') as f:
            self.lines = f.read().rstrip('\n').split('\n')

    def programs(self):
        folder = os.path.join(self.folder, 'examples')
        return example.read_all(folder) if os.path.isdir(folder) else []

    def fill(self):
        out = []
        for line in self.lines:
            mark = MARK.match(line)
            if mark:
                out += getattr(self, mark[1])(*filter(None, [mark[2]]))
            elif line.startswith('.TH'):
                out.append(line.replace('@DATE@', self.date)
                           .replace('@VERSION@', roff.version_of_library()))
            else:
                out.append(line)
        return roff.tidy(out)

    def options(self):
        return self.described(self.tool.common)

    def letters(self):
        """The options with a letter, and the commands that have them."""
        where = {}
        for command in self.tool.commands:
            for option in command.options:
                if option.short and option.name:
                    where.setdefault((option.short, option.name), []).append(command.name)
        out = ['.nf', '.ta 5m 16m']
        for short, name in sorted(where, key=lambda pair: (pair[0].lower(), pair[0])):
            out.append(f"{roff.bold(short)}\t{roff.bold('--' + name)}\t"
                       + roff.escape(', '.join(where[short, name])))
        return out + ['.fi']

    def described(self, options):
        out, group = [], ''
        for option in options:
            if option.group != group:
                group = option.group
                out += ['.P', *self.text.paragraph(group + ':')]
            out += ['.TP', tag(option), *self.text.paragraph(option.text.rstrip('.') + '.')]
        return out

    def commands(self):
        out = []
        for command in self.tool.commands:
            out += [f'.SS {command.name}', '.nf',
                    *(synopsis(re.sub(r'\[OPTION\.\.\.\]', '[OPTION]...', line))
                      for line in command.usages),
                    '.fi', *self.prose(command.text),
                    *self.described(command.options), *self.prose(command.notes)]
        return out

    def prose(self, lines):
        """Paragraphs; text indented by blanks is literal."""
        return self.text.blocks([re.sub('^ +', '\t', line) for line in lines])

    def example(self, name):
        if name.endswith('.c'):
            shown = example.Example(os.path.join(self.folder, 'examples', name))
            return shown.roff(roff.Text(()))
        with open(os.path.join(self.folder, 'examples', name), encoding='utf-8') as f:
            return roff.literal(f.read().rstrip('\n').split('\n'))


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit('usage: page.py TEMPLATE PAGE [TOOL]')
    lines = Page(sys.argv[1], sys.argv[3] if len(sys.argv) == 4 else None).fill()
    os.makedirs(os.path.dirname(sys.argv[2]), exist_ok=True)
    with open(sys.argv[2], 'w', encoding='utf-8') as f:
        f.write('\n'.join(lines) + '\n')


if __name__ == '__main__':
    main()
