#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests of broken.py: a patch changes exactly the place that it was made for, or fails."""

import difflib
import tempfile
import unittest
from pathlib import Path

import broken

SOURCE = '''\
#define TWICE(x)	\\
	((x) + \\
	 (x))

static int one(int a);

static const int table[] = {
	1,
	2,
};

static int one(int a)
{
	int b = a;

	if (!b)
		return -1;
	b++;
	return b;
}

int two(int a,
	int c)
{
	if (!a)
		return -1;
	a++;
	c++;

	a++;
	return a + c;
}
'''
PYTHON = '''\
class Store:
    def get(self):
        return self.one

    def put(self):
        if self.one:
            return self.two

        return self.one


def get():
    return 1
'''


def changed(text, patch, name='a.c'):
    files = broken.parse(f'What it breaks.\n\nTests: x\n\n--- {name}\n{patch}', 'patch')
    return '\n'.join(broken.changed(text.split('\n'), name, files[name]))


def made(before, after, name='a.c'):
    """What "make" prints for two versions of a file, without the file's name."""
    with tempfile.TemporaryDirectory() as tree:
        (Path(tree) / name).write_text(before)
        diff = difflib.unified_diff(before.splitlines(True), after.splitlines(True),
                                    f'a/{name}', f'b/{name}')
        return broken.make(''.join(diff), Path(tree)).split('\n', 1)[1]


class Broken(unittest.TestCase):
    def refuses(self, patch, why, text=SOURCE):
        with self.assertRaisesRegex(broken.Misfit, why):
            changed(text, patch)

    def test_a_line_is_looked_for_in_its_function(self):
        begin, middle, end = SOURCE.split('return -1;')
        for name, wanted in (('one', f'{begin}return 0;{middle}return -1;{end}'),
                             ('two', f'{begin}return -1;{middle}return 0;{end}')):
            self.assertEqual(changed(SOURCE, f'@@ {name}\n-\t\treturn -1;\n+\t\treturn 0;\n'),
                             wanted)

    def test_it_is_found_where_it_has_moved_to(self):
        patch = '@@ one\n-\tb++;\n'
        moved = SOURCE.replace('\tint b = a;\n', '\tint b = a, c = 0;\n\n\tc++;\n')
        moved = '/* More. */\n' + moved.replace('\treturn b;', '\tb += c;\n\treturn b;')
        self.assertEqual(changed(moved, patch), moved.replace('\tb++;\n', ''))

    def test_what_is_not_there_once_is_refused(self):
        self.refuses('@@ one\n-\ta++;\n', 'one: 0 times there: a')
        self.refuses('@@ two\n-\ta++;\n', 'two: 2 times there: a')
        self.refuses('@@ three\n-\ta++;\n', 'there are 0 of three')
        self.refuses('@@ one\n-\tb++;\n', 'there are 2 of one', SOURCE + SOURCE)
        self.refuses('@@\n-\tb++;\n', 'the file: 2 times there', SOURCE + SOURCE)
        self.refuses('@@ one\n+\tb++;\n', '0 times there')
        self.refuses('@@ one\n-\tb++;\n@@ one\n \tb++;\n-\treturn b;\n', 'two changes')
        self.refuses('', 'changes nothing')
        self.refuses('@@ one\nb++;\n', 'what is this: b')

    def test_lines_around_decide_which_is_meant(self):
        self.assertEqual(changed(SOURCE, '@@ two\n \tc++;\n\n-\ta++;\n'),
                         SOURCE.replace('\n\ta++;\n\treturn a', '\n\treturn a'))

    def test_changes_of_a_file_do_not_see_each_other(self):
        self.assertEqual(changed(SOURCE, '@@ two\n-\tc++;\n@@ one\n-\tb++;\n+\tc++;\n'),
                         SOURCE.replace('\tc++;\n', '').replace('\tb++;\n', '\tc++;\n'))

    def test_tables_and_macros_have_names(self):
        self.assertEqual(changed(SOURCE, '@@ table\n-\t2,\n'), SOURCE.replace('\t2,\n', ''))
        self.assertEqual(changed(SOURCE, '@@ TWICE\n-\t((x) + \\\n+\t((x) - \\\n'),
                         SOURCE.replace('((x) +', '((x) -'))

    def test_methods_have_names(self):
        self.assertEqual(changed(PYTHON, '@@ put\n-        return self.one\n', 'a.py'),
                         PYTHON.replace('\n\n        return self.one\n', '\n\n'))
        with self.assertRaisesRegex(broken.Misfit, 'there are 2 of get'):
            changed(PYTHON, '@@ get\n-    return 1\n', 'a.py')

    def test_it_names_tests_that_exist(self):
        words = {'suite', 'a_test_of_one', 'test_in_python'}
        for tests in ('suite', 'suite.a_test_of_one', 'suite.*of_o* other', 'suite.in_python'):
            self.assertEqual(broken.missing_tests(f'Head.\n\nTests:  {tests}\n', words), [])
        self.assertEqual(broken.missing_tests('Tests: suite.*one suite.*two x.three\n', words),
                         ['*two', 'three'])

    def test_it_expects_tests_that_exist_to_fail(self):
        words = {'suite', 'a_test_of_one'}
        for expected in ('a_test_of_one', 'of_one', '.*a_test_of_.*', 'data-race in bw_commit'):
            self.assertEqual(broken.missing_tests(f'Expect: not ok {expected}\n', words), [])
        self.assertEqual(broken.missing_tests('Expect: not ok .*(a_test_of_one|a_test_of_two)\n',
                                              words), ['*a_test_of_two*'])

    def test_a_patch_is_made_of_a_difference(self):
        self.assertEqual(made(SOURCE, SOURCE.replace('b++', 'b--')), '@@ one\n-\tb++;\n+\tb--;\n')
        # What is there twice has lines around it; so has what is new.
        self.assertEqual(made(SOURCE, SOURCE.replace('a++;\n\tc', 'c')),
                         '@@ two\n \t\treturn -1;\n-\ta++;\n')
        self.assertEqual(made(SOURCE, SOURCE.replace('\tc++;\n', '\tc++;\n\tc++;\n')),
                         '@@ two\n \tc++;\n+\tc++;\n')
        self.assertEqual(made(PYTHON, PYTHON.replace('self.two', 'None'), 'a.py'),
                         '@@ put\n-            return self.two\n+            return None\n')

    def test_functions_of_go_have_their_names(self):
        source = 'func (s *Store) Get(key []byte) error {\n\treturn nil\n}\n\n'
        source += 'func Open() error {\n\treturn nil\n}\n'
        self.assertEqual(made(source, source.replace('nil', 'err', 1), 'a.go'),
                         '@@ Get\n-\treturn nil\n+\treturn err\n')

    def test_what_is_made_is_what_was_changed(self):
        lines = SOURCE.split('\n')
        for at in range(len(lines) - 1):
            for after in ([], [lines[at], 'new'], ['new', lines[at]], ['new'], ['', 'new', '']):
                wanted = '\n'.join(lines[:at] + after + lines[at + 1:])
                if wanted != SOURCE:
                    self.assertEqual(changed(SOURCE, made(SOURCE, wanted)), wanted, (at, after))


if __name__ == '__main__':
    unittest.main()
