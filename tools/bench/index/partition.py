#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Show what a tree for each thread brings, and costs (Figure 11 of the Masstree paper).

partition.py --json FILE --plot FILE.svg RESULTS

RESULTS is kvt-bench's JSON of the workload W13.
"""

import plots

SETTINGS = [
    "set xlabel 'requests of the first part of the keys: so many times more than of another'",
    "set xtics 1",
]

plots.curves(__doc__, r"get_skew(\d+)_W13$", "skew", SETTINGS)
