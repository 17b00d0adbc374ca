#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Show what bytes cost that all keys have in common (Figure 9 of the Masstree paper).

prefix.py --json FILE --plot FILE.svg RESULTS

RESULTS is kvt-bench's JSON of the workload W12.
"""

import json
import re

import plots

GET = re.compile(r"get_common(\d+)_W12$")


def read(path):
    """The gets, with the bytes in common."""
    rows = []
    with open(path, encoding="utf-8") as f:
        for row in json.load(f)["rows"]:
            if found := GET.match(row["workload"]):
                rows.append({"common": int(found[1])} | row)
    return rows


def plot(rows, path):
    """A line for each system, with the least and the most of the rounds."""
    blocks = {}
    for r in rows:
        point = f"{r['common']} {plots.rates(r, '.4f')}"
        blocks.setdefault(r["system"], []).append(point)
    lines = [f"${name} using 1:2:3:4 with yerrorlines title '{name}'" for name in blocks]
    settings = [
        "set xlabel 'bytes that all keys begin with, before eight that differ'",
        "set ylabel 'million gets per second'",
        "set xtics 8",
        "set yrange [0:*]",
        "set grid y",
    ]
    plots.draw(path, settings, blocks, lines)


def main():
    args = plots.arguments(__doc__, "RESULTS")
    rows = [row for path in args.results for row in read(path)]
    print(f"{'in common':>9} {'system':11} {'median':>8} {'min':>8} {'max':>8}")
    for r in rows:
        print(f"{r['common']:9} {r['system']:11} {plots.rates(r, '8.3f')}")
    plots.write(args.json, rows)
    plot(rows, args.plot)


main()
