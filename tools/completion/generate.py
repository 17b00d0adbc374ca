#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Write the completion for a shell, from the tool's help texts.

    generate.py TEMPLATE COMPLETION TOOL
"""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'man'))
# pylint: disable=wrong-import-position
import usage  # noqa: E402

# Arguments that can be completed; choices such as "a|b" can be, too.
KINDS = ('COUNTER', 'DEVICE', 'FILE', 'GROUP', 'KEY', 'PREFIX', 'STORE', 'USER')
CHOICE = re.compile(r'[a-z][\w-]*(\|[a-z][\w-]*)+')


def can_complete(kind):
    return kind in KINDS or CHOICE.fullmatch(kind or '')

# Commands with a NAME that is an existing store.
ON_STORES = ('store set', 'store destroy', 'store attach', 'store detach', 'store sync', 'store checkpoint')


def quoted(text):
    """In single quotes, for all shells."""
    return "'" + text.replace("'", "'\\''") + "'"


def first_part(text):
    """A text short enough for a list of options."""
    return re.split(r'[:;(]', text)[0].strip()


def zsh_text(text):
    return re.sub(r'([][:\\])', r'\\\1', text)


class Tables:
    """Replacements of the lines "# @NAME@"."""

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
        out = []
        for command in self.tool.commands:
            for number, word in enumerate(self.words_of(command)):
                kind = word.removesuffix('...')
                if can_complete(kind):
                    at = f"'{command.name} '*" if kind != word else f"'{command.name} {number}'"
                    out.append(f'\t{at}) takes={self.kind(kind)};;')
        return out

    # For zsh and fish, each option and argument has its help text.

    def words_of(self, command):
        """The arguments, as kinds; one that may be repeated ends with "...".

        From the first usage; others have options instead of arguments, or begin with
        alternative words."""
        usages = [[word.strip('[]') for word in words] for words in command.arguments()]
        choices = [words[0] for words in usages if words and
                   re.fullmatch(r'[a-z][a-z|-]*', words[0])]
        words = ['|'.join(choices)] + usages[0][1:] if choices else usages[0]
        if command.name in ON_STORES:
            words = ['STORE'] + words[1:]
        return words

    def groups(self):
        return ['\t\t' + ' '.join(dict.fromkeys(command.name.split()[0]
                                                 for command in self.tool.commands
                                                 if ' ' in command.name))]

    def by_group(self):
        """The commands of each group, and of none (''), with their summaries."""
        found = {'': {'help': 'show the commands, or what one does'}}
        for command in self.tool.commands:
            first, _, second = command.name.partition(' ')
            if second:
                found[''].setdefault(first, 'manage stores')
                found.setdefault(first, {})[second] = command.summary
            else:
                found[''][first] = command.summary
        return found

    def fish(self):
        takes = [spelling for command in self.tool.commands
                 for option in command.options + command.common if option.arg
                 for spelling in option.spellings()]
        out = ['set -g __kvtree_with_argument ' + ' '.join(dict.fromkeys(takes)),
               'complete -c kvtree -f']
        for group, words in self.by_group().items():
            for word, summary in words.items():
                out.append(f"complete -c kvtree -n '__kvtree_exactly {group}' -a {word} "
                           f"-d {quoted(summary)}")
                if not group:
                    out.append(f"complete -c kvtree -n '__kvtree_exactly help' -a {word}")
                else:
                    out.append(f"complete -c kvtree -n '__kvtree_exactly help {group}' "
                               f"-a {word}")
        out += [self.fish_option('', option) for option in self.tool.common]
        for command in self.tool.commands:
            here = f"-n '__kvtree_in {command.name}' "
            out += [self.fish_option(here, option) for option in command.options]
            for word in self.words_of(command)[:1]:
                completed = self.fish_kind(word.removesuffix('...'))
                if completed:
                    out.append(f'complete -c kvtree {here}{completed}')
        return out

    def fish_option(self, here, option):
        out = f'complete -c kvtree {here}'
        out += f'-s {quoted(option.short[1:])} ' if option.short else ''
        out += f'-l {option.name} ' if option.name else ''
        if option.arg:
            out += '-r ' + (self.fish_kind('STORE' if option.name == 'store' else option.arg)
                            or '') + ' '
        return out + f'-d {quoted(first_part(option.text))}'

    @staticmethod
    def fish_kind(kind):
        if CHOICE.fullmatch(kind):
            return f"-a {quoted(kind.replace('|', ' '))}"
        return {'FILE': '-F', 'DEVICE': '-F', 'STORE': "-a '(__kvtree_stores)'",
                'COUNTER': "-a '(__kvtree_counters)'", 'KEY': "-a '(__kvtree_keys)'",
                'PREFIX': "-a '(__kvtree_keys)'", 'USER': "-a '(__fish_complete_users)'",
                'GROUP': "-a '(__fish_complete_groups)'"}.get(kind)

    def zsh_commands(self):
        return [f"\t{group or quoted('')}) commands=(" + ' '.join(
                    quoted(f'{word}:{summary}') for word, summary in words.items()) + ');;'
                for group, words in self.by_group().items()]

    def zsh_common(self):
        return [f'\t\t{self.zsh_option(option)}' for option in self.tool.common]

    def zsh_arguments(self):
        out = []
        for command in self.tool.commands:
            parts = [self.zsh_option(option) for option in command.options]
            for number, word in enumerate(self.words_of(command), 1):
                kind = word.removesuffix('...')
                at = '*' if kind != word else number
                parts.append(quoted(f'{at}:{zsh_text(kind)}:{self.zsh_kind(kind)}'))
            out += [f"\t{quoted(command.name)}) _arguments -S : $common \\"]
            out += [f'\t\t{part} \\' for part in parts] + ['\t\t;;']
        return out

    def zsh_option(self, option):
        text = f'[{zsh_text(first_part(option.text))}]'
        kind = ''
        if option.arg:
            completed = self.zsh_kind('STORE' if option.name == 'store' else option.arg)
            kind = f':{zsh_text(option.arg)}:{completed}'
        return ' '.join(
            quoted(f"*{spelling}{'=' if kind and spelling.startswith('--') else ''}{text}{kind}")
            for spelling in option.spellings())

    @staticmethod
    def zsh_kind(kind):
        if CHOICE.fullmatch(kind):
            return f"({kind.replace('|', ' ')})"
        return {'FILE': '_files', 'DEVICE': '_files', 'STORE': '_kvtree_stores',
                'COUNTER': '_kvtree_counters', 'KEY': '_kvtree_keys',
                'PREFIX': '_kvtree_keys', 'USER': '_users', 'GROUP': '_groups'}.get(kind, ' ')

    @staticmethod
    def kind(arg):
        # It is an argument even if it cannot be completed.
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
