#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests of ktap.py: all that a broken lane may leave must count as failed."""

import contextlib
import io
import os
import tempfile
import unittest

import ktap

SUITE = '''KTAP version 1
1..1
    KTAP version 1
    # Subtest: suite
    1..3
    ok 1 one
        KTAP version 1
        # Subtest: params
        ok 1 a
        {b}
    {params}
    ok 3 three # SKIP no device
# suite: pass:2 fail:0 skip:1 total:3
{suite}
'''
GOOD = SUITE.format(b='ok 2 b', params='ok 2 params', suite='ok 1 suite')
BAD = SUITE.format(b='not ok 2 b', params='not ok 2 params',
                   suite='not ok 1 suite')
HARNESS = 'TAP version 13\n1..2\n# RUN x\nok 1 x\nok 2 y\n'


def summarise(text):
    """(passed, failed, skipped, names of what failed) for one file."""
    summary = ktap.Summary()
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, 'result')
        with open(path, 'w') as f:
            f.write(text)
        parser = ktap.Parser(path, summary)
        for line in ktap.lines_of(path):
            parser.line(line)
        parser.finish()
    return (summary.passed, summary.failed, summary.skipped,
            [name for _, name, _ in summary.failures])


class Ktap(unittest.TestCase):
    def check(self, text, passed, failed, skipped, names=None):
        result = summarise(text)
        self.assertEqual(result[:3], (passed, failed, skipped), result)
        if names is not None:
            self.assertEqual(result[3], names)

    def test_leaves_are_counted(self):
        self.check(GOOD, 3, 0, 1)

    def test_failed_leaf_is_named_once(self):
        self.check(BAD, 2, 1, 1, ['suite.params.b'])

    def test_time_stamps_and_noise_are_ignored(self):
        text = ''.join(f'[    1.{i:06d}][   T42] {line}\n[    2.0] noise ok 1\n'
                       for i, line in enumerate(GOOD.splitlines()))
        self.check(text, 3, 0, 1)

    def test_suite_that_failed_by_itself_counts(self):
        text = SUITE.format(b='ok 2 b', params='ok 2 params',
                            suite='not ok 1 suite')
        self.check(text, 3, 1, 1, ['suite'])

    def test_output_cut_anywhere_fails(self):
        lines = GOOD.splitlines(keepends=True)
        for n in range(len(lines) - 1):
            with self.subTest(lines=n):
                self.assertGreater(summarise(''.join(lines[:n]))[1], 0)

    def test_missing_start_fails(self):
        lines = GOOD.splitlines(keepends=True)
        self.assertGreater(summarise(''.join(lines[2:]))[1], 0)
        self.assertGreater(summarise('ok 1 x\n')[1], 0)

    def test_result_missing_in_the_middle_fails(self):
        self.assertGreater(summarise(GOOD.replace('    ok 1 one\n', ''))[1], 0)

    def test_nothing_fails(self):
        self.check('', 0, 1, 0)
        self.check('Segmentation fault\n', 0, 1, 0)

    def test_exit_code_counts_when_no_result_failed(self):
        self.check(HARNESS + '# kvtree-lane: exit 0 after 1 s\n', 2, 0, 0)
        self.check(HARNESS + '# kvtree-lane: exit 139 after 1 s\n', 2, 1, 0)
        self.check(HARNESS.replace('ok 2', 'not ok 2') +
                   '# kvtree-lane: exit 1 after 1 s\n', 1, 1, 0)

    def test_what_was_stopped_fails_by_that_name(self):
        self.check(HARNESS + '# kvtree-lane: stopped: it ran for ever\n'
                   '# kvtree-lane: exit 143 after 9 s\n', 2, 1, 0,
                   ['(stopped: it ran for ever)'])
        self.check(HARNESS + '# kvtree-lane: stopped: it left processes\n'
                   '# kvtree-lane: exit 0 after 1 s\n', 2, 1, 0)

    def test_failure_names_what_was_running(self):
        text = ('TAP version 13\n1..3\n#  RUN           x.one ...\nok 1 x.one\n'
                '#  RUN           x.two ...\n{}# kvtree-lane: exit 1 after 9 s\n')
        stopped = '# kvtree-lane: stopped: it said nothing\n'
        for rest, running in ((stopped, {'x.two'}), ('not ok 2 x.two\nok 3 x.three\n', {''})):
            with tempfile.TemporaryDirectory() as directory:
                path, failures = (os.path.join(directory, name) for name in ('result', 'failures'))
                with open(path, 'w') as f:
                    f.write(text.format(rest))
                with contextlib.redirect_stdout(io.StringIO()):
                    self.assertEqual(ktap.summarise([path], None, 0, failures), 1)
                with open(failures) as f:
                    rows = [line.rstrip('\n').split('\t') for line in f]
                self.assertEqual({row[0] for row in rows}, {path})
                self.assertEqual({row[2] for row in rows}, running)

    def test_skipped_program(self):
        self.check('TAP version 13\n1..0 # SKIP no device\n'
                   '# kvtree-lane: exit 4 after 0 s\n', 0, 0, 1)

    def test_program_is_skipped_as_a_whole(self):
        self.check(HARNESS + '# kvtree-lane: exit 4 after 0 s\n', 2, 1, 0)
        self.check(HARNESS.replace('ok 2 y', 'ok 2 y # SKIP no device') +
                   '# kvtree-lane: exit 4 after 0 s\n', 1, 1, 1)

    def test_report_has_the_text_of_the_warning(self):
        cut = '------------[ cut here ]------------\n'
        where = 'WARNING: kmod/a.c:5 at f+0x1/0x2, CPU#0: x/1\n'
        state = 'Modules linked in: kvtree(O)\n'
        for text, reported in ((f'{cut}what\n{where}{state}', f'what\n{where}'),
                               (f'{cut}{where}what\n{state}', f'{where}what\n'),
                               (f'{cut}{where}{state}', where),
                               (f'{where}{state}', where)):
            with tempfile.NamedTemporaryFile('w') as f:
                f.write(text)
                f.flush()
                out = io.StringIO()
                with contextlib.redirect_stdout(out):
                    self.assertEqual(ktap.reports(f.name), 1)
                self.assertEqual(out.getvalue(), reported)

    def test_fewer_than_are_known_fail(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, 'result')
            with open(path, 'w') as f:
                f.write(HARNESS)
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(ktap.summarise([path], None, 2), 0)
                self.assertEqual(ktap.summarise([path], None, 3), 1)

    def test_empty_plan_without_skip_fails(self):
        self.check('TAP version 13\n1..0\n', 0, 1, 0)

    def test_bail_out_fails(self):
        self.assertGreater(summarise('TAP version 13\n1..1\nBail out! x\n')[1], 0)


if __name__ == '__main__':
    unittest.main()
