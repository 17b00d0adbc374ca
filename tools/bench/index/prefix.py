#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Show what bytes cost that all keys have in common (Figure 9 of the Masstree paper).

prefix.py --json FILE --plot FILE.svg RESULTS

RESULTS is kvt-bench's JSON of the workload W12.
"""

import plots

SETTINGS = [
    "set xlabel 'bytes that all keys begin with, before eight that differ'",
    "set xtics 8",
]

plots.curves(__doc__, r"get_common(\d+)_W12$", "common", SETTINGS)
