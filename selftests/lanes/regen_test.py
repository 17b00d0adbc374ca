#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests of Documentation/regen.py: what it writes, and that no region is left out unnoticed."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', '..', 'Documentation'))
import regen  # noqa: E402

SPEC = {'scan_flags': [{'name': 'REVERSE', 'doc': 'descending'}], 'ratios': []}
BEGIN = '/* kvtree.yaml: scan_flags */\n'
END = '/* kvtree.yaml: end */\n'
PAGE = f'before\n{BEGIN}old\n{END}between\n/* kvtree.yaml: ratios */\n{END}after\n'
REGIONS = ['scan_flags', 'ratios']


class Regen(unittest.TestCase):
    def test_regions_are_replaced_and_nothing_else(self):
        made = '#define KVTREE_SCAN_REVERSE\t(1u << 0)\t/* descending */\n'
        self.assertEqual(regen.regenerate(SPEC, PAGE, REGIONS), PAGE.replace('old\n', made))

    def test_lost_begin_is_noticed(self):
        self.assertIsNone(regen.regenerate(SPEC, PAGE.replace(BEGIN, ''), REGIONS))

    def test_lost_end_is_noticed(self):
        self.assertIsNone(regen.regenerate(SPEC, PAGE.replace(END, '', 1), REGIONS))

    def test_lost_region_is_noticed(self):
        self.assertIsNone(regen.regenerate(SPEC, 'before\nafter\n', REGIONS))

    def test_misspelled_region_is_noticed(self):
        self.assertIsNone(regen.regenerate(SPEC, PAGE.replace('scan_flags', 'scan_flag'), REGIONS))

    def test_each_region_is_made_in_one_file(self):
        listed = [name for regions in regen.FILES.values() for name in regions]
        self.assertEqual(len(listed), len(set(listed)))
        self.assertTrue(all(callable(getattr(regen, name, None)) for name in listed))


if __name__ == '__main__':
    unittest.main()
