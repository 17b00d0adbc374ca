#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Write the completion for bash, with what the tool says of its options.

    generate.py TEMPLATE COMPLETION TOOL
"""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'man'))
# pylint: disable=wrong-import-position
import usage  # noqa: E402

# Arguments that can be completed; choices such as "a|b" can be, too.
KINDS = ('COUNTER', 'DEVICE', 'FILE', 'GROUP', 'KEY', 'PREFIX', 'USER')
CHOICE = re.compile(r'[a-z][\w-]*(\|[a-z][\w-]*)+')


def can_complete(kind):
    return kind in KINDS or CHOICE.fullmatch(kind or '')


class Tables:
    """What stands in place of the lines "# @NAME@"."""

    def __init__(self, tool):
        self.tool = tool

    def commands(self):
        groups = {}
        for command in self.tool.commands:
            first, _, second = command.name.partition(' ')
            groups.setdefault(first, []).append(second)
        out = [f"\t'') echo help {' '.join(groups)};;"]
        return out + [f"\t{first}) echo {' '.join(words)};;"
                      for first, words in groups.items() if any(words)]

    def options(self):
        out = [self.case(f"'{command.name}'", command.options + command.common)
               for command in self.tool.commands]
        return out + [self.case("''|help", self.tool.common)]

    @staticmethod
    def case(pattern, options):
        return f'\t{pattern}) echo ' + ' '.join(f"'--{option.name}'" for option in options
                                               if option.name) + ';;'

    def option_arguments(self):
        return [f"\t'{command.name} {spelling}') takes={self.kind(option.arg)};;"
                for command in self.tool.commands for option in command.options
                if option.arg for spelling in option.spellings()]

    def arguments(self):
        """From the first usage; in another one options stand for arguments, or it
        begins with other words to choose from."""
        out = []
        for command in self.tool.commands:
            usages = [[word.strip('[]') for word in words] for words in command.arguments()]
            choices = [words[0] for words in usages if words and
                       re.fullmatch(r'[a-z][a-z|-]*', words[0])]
            words = ['|'.join(choices)] + usages[0][1:] if choices else usages[0]
            for number, word in enumerate(words):
                kind = word.removesuffix('...')
                if can_complete(kind):
                    at = f"'{command.name} '*" if kind != word else f"'{command.name} {number}'"
                    out.append(f'\t{at}) takes={self.kind(kind)};;')
        return out

    @staticmethod
    def kind(arg):
        # What cannot be completed is an argument nevertheless.
        return f"'{arg}'" if can_complete(arg) else 'OTHER'

    def fill(self, lines):
        for line in lines:
            mark = re.match(r'# @(\w+)@$', line)
            if mark:
                yield from getattr(self, mark[1])()
            else:
                yield line


def main():
    if len(sys.argv) != 4:
        sys.exit('usage: generate.py TEMPLATE COMPLETION TOOL')
    template, completion, tool = sys.argv[1:]
    with open(template, encoding='utf-8') as f:
        lines = list(Tables(usage.Tool(tool)).fill(f.read().rstrip('\n').split('\n')))
    with open(completion, 'w', encoding='utf-8') as f:
        f.write('\n'.join(lines) + '\n')


if __name__ == '__main__':
    main()
