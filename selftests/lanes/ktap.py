#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Summarise KTAP results.

    ktap.py [--counts FILE] [--failures FILE] RESULT...
        List what failed and end with "N passed, N failed[, N skipped]".
        With --counts, also write the three numbers to FILE.
        With --failures, also write a line for each failure to FILE: the result's file, the
        test's name and the test that was running when the output ended, separated by tabs.
        With --least, fewer than that many that passed are a failure.
        Exits 1 if anything failed.

    ktap.py --split CONSOLE DIRECTORY
        Cut the KUnit results out of a lane's console log, one file per test
        module, at the marks that guest.sh leaves there.

    ktap.py --reports CONSOLE
        Print the reports of the kernel's own checkers found in the log.
        Exits 1 if there are any.

Leaf results are counted: a result with subtests sums them up, and counts
itself only if it failed although none of them did. A plan that is missing or
that was not carried out counts as failed, as does a program that ended with
an error after reporting only successes.

The kernel has kunit_parser.py, but in its source, which most lanes do not need.
"""

import argparse
import os
import re
import sys

PREFIX = re.compile(r'^(?:<\d+>)?\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? ?')
VERSION = re.compile(r'^( *)K?TAP version \d+')
PLAN = re.compile(r'^( *)1\.\.(\d+)(?: # SKIP ?(.*))?$')
RESULT = re.compile(r'^( *)(ok|not ok) (\d+)(?: - | |$)(.*)$')
DIRECTIVE = re.compile(r'\s*# (SKIP|TODO|XFAIL|XPASS)\b', re.IGNORECASE)
SUBTEST = re.compile(r'^( *)# Subtest: (.*)$')
# The test harness says what it begins with.
RUN = re.compile(r'^ *#  RUN +(\S+) \.\.\.$')
BAIL = re.compile(r'^ *Bail out!(.*)$')
# Left by guest.sh after the program's own output: why it was stopped, how it ended.
STOPPED = re.compile(r'^# kvtree-lane: stopped: (.*)')
EXIT = re.compile(r'^# kvtree-lane: exit (\d+)')
START = 'kvtree-lane: start'
MARK = re.compile(r'kvtree-lane: (begin|end) (\S+)')

REPORT = re.compile(
    r'WARNING: |BUG: |BUG |KASAN: |UBSAN: |ODEBUG: |KFENCE: |KCSAN: '
    r'|Kernel panic|Oops|general protection fault|Unable to handle kernel'
    r'|INFO: task .* blocked for more|INFO: trying to register non-static key'
    r'|INFO: rcu_\w+ .*(?:stall|detected)|rcu: INFO: |kthread starved'
    r'|INFO: lockdep is turned off|DEBUG_LOCKS_WARN_ON|soft lockup|hard LOCKUP'
    r'|list_(?:add|del) corruption|refcount_t: |scheduling while atomic'
    r'|new suspected memory leaks|unreferenced object 0x'
    r'|Objects remaining|still has objects|bad unlock balance'
    r'|usercopy: Kernel memory|workqueue lockup')

CUT = '[ cut here ]'
STATE = re.compile(r'Modules linked in:|CPU: ')

SKIP_EXIT = 4


class Block:
    """The results under one plan, at one level of indentation."""

    def __init__(self, indent, name=''):
        self.indent = indent
        self.name = name
        self.planned = None
        self.seen = 0
        self.failed_inside = False


class Summary:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        # (file, test, test that was running when the output ended)
        self.failures = []

    def total(self):
        return self.passed + self.failed + self.skipped

    def fail(self, where, name, running=''):
        self.failed += 1
        self.failures.append((where, name, running))

    def __str__(self):
        text = f'{self.passed} passed, {self.failed} failed'
        if self.skipped:
            text += f', {self.skipped} skipped'
        return text


class Parser:
    """Reads one result file into a Summary."""

    def __init__(self, where, summary):
        self.where = where
        self.summary = summary
        self.stack = []
        self.failed = 0
        self.before = summary.total()
        self.skipped_before = summary.skipped
        # Blocks closed since the last result: the subtests of the next one.
        self.children = []
        self.subtest_name = ''
        self.running = ''
        self.exit = None
        self.stopped = []

    def path(self, name):
        parts = [b.name for b in self.stack if b.name] + [name]
        return '.'.join(p for p in parts if p)

    def fail(self, name):
        self.failed += 1
        for block in self.stack:
            block.failed_inside = True
        self.summary.fail(self.where, name, self.running)

    def open(self, indent):
        self.close_deeper(indent)
        if self.stack and self.stack[-1].indent == indent:
            self.close()
        name, self.subtest_name = self.subtest_name, ''
        self.stack.append(Block(indent, name))

    def close(self, complete=False):
        block = self.stack[-1]
        if block.planned is None:
            # KUnit has none for generated parameters: there the result that
            # the subtests belong to says that they are all there.
            if not complete or not block.seen:
                self.fail(self.path('(no test plan)'))
        elif block.seen < block.planned:
            self.fail(self.path(f'({block.planned - block.seen} of '
                                f'{block.planned} planned tests not run)'))
        elif block.seen > block.planned:
            self.fail(self.path(f'({block.seen} results for '
                                f'{block.planned} planned tests)'))
        self.stack.pop()
        self.children.append(block)

    def close_deeper(self, indent, complete=False):
        while self.stack and self.stack[-1].indent > indent:
            self.close(complete)

    def plan(self, indent, count, skip):
        self.close_deeper(indent)
        if not self.stack or self.stack[-1].indent < indent:
            self.open(indent)
        self.stack[-1].planned = count
        if count == 0 and skip is not None:
            self.summary.skipped += 1

    def result(self, indent, ok, text):
        self.close_deeper(indent, complete=True)
        children = [b for b in self.children if b.indent > indent and b.seen]
        failed_inside = any(b.failed_inside for b in self.children)
        self.children = []
        if not self.stack or self.stack[-1].indent != indent:
            # A result outside any plan: the start of the output was lost.
            self.open(indent)
        self.stack[-1].seen += 1
        directive = DIRECTIVE.search(text)
        name = DIRECTIVE.split(text)[0].strip()
        if name == self.running:
            self.running = ''
        kind = directive.group(1).upper() if directive else ''
        if kind in ('SKIP', 'TODO', 'XFAIL'):
            if not children:
                self.summary.skipped += 1
        elif not ok or kind == 'XPASS':
            if not failed_inside:
                self.fail(self.path(name))
        elif not children:
            self.summary.passed += 1

    def line(self, line):
        if (m := STOPPED.match(line)):
            self.stopped.append(m[1])
        elif (m := EXIT.match(line)):
            self.exit = int(m[1])
        elif (m := VERSION.match(line)):
            self.open(len(m[1]))
        elif (m := PLAN.match(line)):
            self.plan(len(m[1]), int(m[2]), m[3])
        elif (m := RESULT.match(line)):
            self.result(len(m[1]), m[2] == 'ok', m[4])
        elif (m := RUN.match(line)):
            self.running = m[1]
        elif (m := SUBTEST.match(line)):
            # KUnit names a block after its version line, kselftest has none.
            if self.stack and self.stack[-1].indent == len(m[1]) and \
                    self.stack[-1].planned is None:
                self.stack[-1].name = m[2]
            else:
                self.subtest_name = m[2]
        elif (m := BAIL.match(line)):
            self.fail(self.path(f'(bailed out:{m[1]})'))

    def finish(self):
        self.close_deeper(-1)
        if self.summary.total() == self.before:
            self.fail('(no results)')
        for reason in self.stopped:
            self.fail(f'(stopped: {reason})')
        if self.exit in (None, 0) or self.failed:
            return
        # It says that all was skipped: nothing else may have come out.
        counted = self.summary.total() - self.before
        skipped = self.summary.skipped - self.skipped_before
        if self.exit != SKIP_EXIT or counted != skipped:
            self.fail(f'(exit code {self.exit})')


def lines_of(path):
    """Lines of a log, without the kernel's time stamps."""
    with open(path, errors='replace') as f:
        for line in f:
            yield PREFIX.sub('', line.rstrip('\r\n').replace('\r', ''))


def summarise(paths, counts, least, failures=None):
    summary = Summary()
    for path in paths:
        parser = Parser(path, summary)
        try:
            for line in lines_of(path):
                parser.line(line)
        except OSError as e:
            print(f'{path}: {e.strerror}', file=sys.stderr)
        parser.finish()
    if summary.passed + summary.failed < least:
        summary.fail(f'at least {least} are known', '(tests are missing)')
    for where, name, _ in summary.failures:
        print(f'FAILED {name}  ({where})')
    print(summary)
    if counts:
        with open(counts, 'w') as f:
            f.write(f'{summary.passed} {summary.failed} {summary.skipped}\n')
    if failures:
        with open(failures, 'w') as f:
            f.writelines('\t'.join(failure) + '\n' for failure in summary.failures)
    return 1 if summary.failed else 0


def split(console, directory):
    out = None
    for line in lines_of(console):
        mark = MARK.search(line)
        if mark and mark[1] == 'begin':
            if out:
                out.close()
            out = open(os.path.join(directory, f'{mark[2]}.ktap'), 'w')
        elif mark and out:
            out.close()
            out = None
        elif out:
            out.write(line + '\n')
    if out:
        out.close()
    return 0


def reports(console):
    found = 0
    lines = list(lines_of(console))
    start = next((i for i, line in enumerate(lines) if START in line), 0)
    for i in range(start, len(lines)):
        # Test output talks about such things without being one.
        if not lines[i].lstrip().startswith('#') and REPORT.search(lines[i]):
            print(''.join(f'{line}\n' for line in warning(lines, i)), end='')
            found = 1
    return found


def warning(lines, i):
    """A report, and what WARN() says: a line before or after it, by kernel."""
    if not lines[i].startswith('WARNING: '):
        return [lines[i]]
    if i > 1 and CUT in lines[i - 2]:
        return lines[i - 1:i + 1]
    if i > 0 and CUT in lines[i - 1] and not STATE.match(''.join(lines[i + 1:i + 2])):
        return lines[i:i + 2]
    return [lines[i]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--counts', metavar='FILE')
    parser.add_argument('--failures', metavar='FILE')
    parser.add_argument('--least', metavar='N', type=int, default=0)
    parser.add_argument('--split', action='store_true')
    parser.add_argument('--reports', action='store_true')
    parser.add_argument('paths', nargs='+')
    args = parser.parse_args()
    if args.split:
        return split(*args.paths)
    if args.reports:
        return reports(*args.paths)
    return summarise(args.paths, args.counts, args.least, args.failures)


if __name__ == '__main__':
    sys.exit(main())
