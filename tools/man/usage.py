# SPDX-License-Identifier: GPL-2.0
"""The tool's help texts: commands, their arguments and options."""

import os
import re
import subprocess

COMMON = 'Options of all commands:'
OPTION = re.compile(r'  (?:(-\S), |    )(?:--([a-z][\w-]*)(?:=(\S+))?)?(?: +(.*))?$')


class Option:
    def __init__(self, group, short, name, arg, text):
        self.group = group
        self.short = short
        self.name = name
        self.arg = arg
        self.text = text or ''

    def spellings(self):
        return [spelling for spelling in (self.short, self.name and f'--{self.name}')
                if spelling]


class Command:
    """The output of "kvtree help COMMAND"."""

    def __init__(self, name, summary, lines):
        self.name = name
        self.summary = summary
        self.usages = [line.partition(':')[2].strip() for line in lines
                       if re.match(r'Usage:|  or: ', line)]
        self.options = []   # without the common ones
        self.common = []
        self.text = []      # the description
        self.notes = []     # text after the options
        self.read(lines[len(self.usages):])

    def read(self, lines):
        into, text, group = self.options, self.text, ''
        for line in lines:
            option = not self.notes and OPTION.match(line)
            heading = not self.notes and re.match(r' (\S.*):$', line)
            if line.strip() == COMMON:
                into, group = self.common, ''
            elif heading:
                group = heading[1]
            elif option and any(option.groups()[:2]):
                into.append(Option(group, *option.groups()))
                text = self.notes
            elif line.strip() or text:
                text.append(line)

    def arguments(self):
        """The words after the options in each usage."""
        return [usage.partition('[OPTION...]')[2].split() for usage in self.usages]


class Tool:
    def __init__(self, path):
        self.path = path
        text = self.help()
        self.version = self.run('--version').strip()
        listed = text.partition('Commands:')[2].partition('\n\n')[0]
        self.commands = [Command(name, summary, self.help(*name.split()).split('\n'))
                         for name, summary in re.findall(r'^  (\S+(?: \S+)?)  +(.*)', listed,
                                                         re.MULTILINE)]
        self.common = self.commands[0].common

    def help(self, *command):
        return self.run('help', *command)

    def run(self, *args):
        # A line for each option, however long it is.
        env = dict(os.environ, ARGP_HELP_FMT='rmargin=2000,no-dup-args-note', LC_ALL='C')
        return subprocess.run([self.path, *args], env=env, check=True, encoding='utf-8',
                              stdout=subprocess.PIPE).stdout
