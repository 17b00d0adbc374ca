# SPDX-License-Identifier: GPL-2.0
"""Results in KTAP, for test scripts in Python.

A script runs all its tests, or with -t PATTERN those with a matching name. It exits with
0 if all of them passed, with 1 if not, and with 4 if it can run none here.
"""

import argparse
import fnmatch
import os
import time
import traceback

DEVICE = '/dev/kvtree'
SKIP = 4


class Failure(Exception):
    """Something is not as it should be."""


def check(condition, *what):
    """Fail with a reason unless the condition holds."""
    if not condition:
        raise Failure(' '.join(str(w) for w in what))


def same(got, wanted, what):
    """Fail unless two values are the same."""
    check(got == wanted, f'{what}: {got!r} instead of {wanted!r}')


def comment(text):
    """Lines that are no results."""
    for line in str(text).rstrip('\n').split('\n'):
        print(f'# {line}')


def skip_all(why):
    """No test can run here: the exit status."""
    print('KTAP version 1')
    print(f'1..0 # SKIP {why}', flush=True)
    return SKIP


class Report:
    """The results of one script, which are numbered as they come."""

    def __init__(self):
        parser = argparse.ArgumentParser()
        parser.add_argument('-t', metavar='PATTERN', default='*',
                            help='run only the tests with a matching name')
        self.pattern = parser.parse_args().t
        self.number = 0
        self.failed = 0
        print('KTAP version 1')

    def selected(self, name):
        return fnmatch.fnmatchcase(name, self.pattern)

    def result(self, ok, name, note=''):
        self.number += 1
        self.failed += not ok
        print(f'{"ok" if ok else "not ok"} {self.number} {name}{note}', flush=True)

    def skip(self, name, why):
        if self.selected(name):
            self.result(True, name, f' # SKIP {why}')

    def run(self, name, function, *args):
        """Run one test. Returns its result; None if it failed, or was not selected."""
        value = None
        if not self.selected(name):
            return value
        start = time.monotonic()
        ok = True
        try:
            value = function(*args)
        except Failure as e:
            ok = False
            comment(e)
        except Exception:  # pylint: disable=broad-except
            ok = False
            comment(traceback.format_exc())
        if time.monotonic() - start > 1:
            comment(f'{time.monotonic() - start:.1f} s')
        self.result(ok, name)
        return value

    def run_all(self, tests, *args):
        """Run functions as tests of the same names."""
        for test in tests:
            self.run(test.__name__, test, *args)

    def end(self):
        """The plan, and the script's exit status."""
        print(f'1..{self.number}', flush=True)
        return 1 if self.failed else 0


def main(tests, setup=None, teardown=None):
    """Run functions that take what setup() returns; the exit status."""
    if not os.path.exists(DEVICE):
        return skip_all(f'there is no {DEVICE}')
    report = Report()
    state = setup() if setup else None
    try:
        report.run_all(tests, state)
    finally:
        if teardown:
            teardown(state)
    return report.end()
