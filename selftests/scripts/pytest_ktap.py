# SPDX-License-Identifier: GPL-2.0
"""A plugin for pytest that reports in KTAP: a line for each test, as it ends.

Comments in front of a test's line have its output, and the reason of its failure. A test that
waits for more than KVT_TEST_LONGEST seconds, other than inside of one system call, fails.
"""

import os
import signal
import time

import pytest

LONGEST = float(os.environ.get('KVT_TEST_LONGEST', 150))
AGAIN = 5  # seconds after which one that goes on all the same is interrupted again


def hangs(number, frame):
    pytest.fail(f'the test takes more than {LONGEST} s')


class Ktap:
    def __init__(self):
        self.number = 0
        self.errors = []    # reports of files that could not be collected
        self.parts = []     # reports of the test under way: setup, call, teardown
        self.start = 0.0
        self.times = []     # seconds and names

    def line(self, text):
        print(text, flush=True)

    def comment(self, text):
        for line in text.rstrip().split('\n'):
            self.line(f'# {line}'.rstrip())

    def result(self, report, failed, note=''):
        self.number += 1
        if failed:
            self.comment(report.longreprtext)
            for title, text in report.sections:
                self.comment(f'{title}:\n{text}')
        name = report.nodeid.removeprefix('tests/').replace('#', '%23').replace('\n', ' ')
        self.line(f'{"not ok" if failed else "ok"} {self.number} {name}{note}')

    def pytest_sessionstart(self):
        self.line('KTAP version 1')

    def pytest_collectreport(self, report):
        if report.failed:
            self.errors.append(report)

    def pytest_collection_finish(self, session):
        self.line(f'1..{len(session.items) + len(self.errors)}')
        for report in self.errors:
            self.result(report, True)

    def pytest_runtest_logstart(self):
        self.parts = []
        self.start = time.monotonic()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self):
        old = signal.signal(signal.SIGALRM, hangs)
        signal.setitimer(signal.ITIMER_REAL, LONGEST, AGAIN)
        yield
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)

    def pytest_runtest_logreport(self, report):
        self.parts.append(report)

    def pytest_runtest_logfinish(self):
        failed = [part for part in self.parts if part.failed]
        skipped = [part for part in self.parts if part.skipped]
        self.times.append((time.monotonic() - self.start, self.parts[0].nodeid))
        if failed:
            self.result(failed[0], True)
        elif skipped:
            why = skipped[0].longrepr
            self.result(skipped[0], False,
                        f' # SKIP {why[2] if isinstance(why, tuple) else why}')
        else:
            self.result(self.parts[-1], False)

    def pytest_sessionfinish(self):
        self.comment(f'{sum(took for took, _ in self.times):.1f} s, of which')
        for took, name in sorted(self.times, reverse=True)[:10]:
            self.comment(f'{took:6.1f} s {name}')

    def pytest_internalerror(self, excrepr):
        self.comment(str(excrepr))


def pytest_configure(config):
    config.pluginmanager.register(Ktap(), 'ktap-reporter')
