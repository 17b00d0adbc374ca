#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Show what lengths of the Bw-tree's chains bring (Figure 5 of its paper).

chains.py --json FILE --plot FILE.svg LEVEL-LENGTH=RESULTS...

RESULTS is kvt-bench's JSON, of an engine whose leaves, or inner pages, are consolidated
at LENGTH records: leaf-8, inner-4.
"""

import json

import plots

LEVELS = {"leaf": "leaves", "inner": "inner pages"}

WORKLOADS = {
    "insert_W9": "8-byte keys, inserts",
    "synthetic_W9": "8-byte keys",
    "gamers_W10": "94-byte keys, 1200-byte values",
}


def read(parts):
    """A row for each level, length and workload."""
    rows = []
    for part in parts:
        name, path = part.split("=", 1)
        level, length = name.split("-")
        with open(path, encoding="utf-8") as f:
            for row in json.load(f)["rows"]:
                if row["workload"] in WORKLOADS:
                    rows.append({"level": level, "length": int(length)} | row)
    return rows


def plot(rows, path):
    """A line for each workload, with the least and the most of the rounds."""
    blocks, lines = {}, []
    for level, level_title in LEVELS.items():
        for name, title in WORKLOADS.items():
            block = f"{level}_{name}"
            blocks[block] = []
            for r in rows:
                if r["level"] == level and r["workload"] == name:
                    blocks[block].append(f"{r['length']} {plots.rates(r, '.4f')}")
            lines.append(
                f"${block} using 1:2:3:4 with yerrorlines title '{level_title}: {title}'"
            )
    settings = [
        "set xlabel 'records in a chain when it is consolidated'",
        "set ylabel 'million operations per second'",
        "set yrange [0:*]",
        "set grid y",
    ]
    plots.draw(path, settings, blocks, lines)


def main():
    args = plots.arguments(__doc__, "LEVEL-LENGTH=RESULTS")
    rows = read(args.results)
    print(f"{'level':5} {'records':>7} {'workload':14} {'median':>8} {'min':>8} {'max':>8}")
    for r in rows:
        print(f"{r['level']:5} {r['length']:7} {r['workload']:14} {plots.rates(r, '8.3f')}")
    plots.write(args.json, rows)
    plot(rows, args.plot)


main()
