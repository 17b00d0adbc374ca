#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Show the cost of freeing memory sooner or later, and in larger or smaller batches.

reclaim.py --json FILE --plot FILE.svg LOG

The trade-off of Figure 4 in "Analyzing the tradeoff between throughput and latency in
multicore scalable in-memory database systems".  LOG is the log of a kernel in which
kvtree_bench ran, with a line "kvtree_bench: reclaim MS OBJECTS" before each result.
"""

import argparse
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import plots
import results

WITH = re.compile(r"kvtree_bench: reclaim (\d+) (\d+)\s*$")
LATENCY = re.compile(r"kvtree_bench: latency kvtree (.*?)\s*$")
COLUMNS = ("p50", "p99", "p999", "p9999", "max", "waiting_max")


def read(path):
    """A row for each interval and batch; the number of puts is the throughput."""
    rows = []
    with open(path, encoding="utf-8", errors="replace") as f:
        for line in f:
            if found := WITH.search(line):
                interval, batch = map(int, found.groups())
            elif found := LATENCY.search(line):
                numbers = {k: int(v) for k, v in (pair.split("=") for pair in found[1].split())}
                rows.append({"interval_ms": interval, "batch": batch} | numbers)
    return rows


def plot(rows, path):
    """A line for each batch: puts over their 99.99th percentile, from interval to interval."""
    most = max(r["count"] for r in rows)
    slow = [r["p9999"] / 1e3 for r in rows]
    lines = {}
    for r in rows:
        point = (r["p9999"] / 1e3, r["count"] / most, f"{r['interval_ms']} ms")
        lines.setdefault(f"batches of {r['batch']}", []).append(point)
    chart = plots.Chart("Puts, by how long the slowest take",
                        [plots.Line(*line) for line in lines.items()],
                        plots.Axis("99.99th percentile of a put, us", min(slow), max(slow) * 1.2, log=True),
                        plots.Axis("puts, of the most", 0, 1))
    with open(path, "w", encoding="utf-8") as f:
        f.write(plots.draw([chart], "User-Mode Linux, two threads that put.", columns=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", required=True, help="where all results go")
    parser.add_argument("--plot", required=True, help="where the picture goes")
    parser.add_argument("results", nargs="+", metavar="LOG")
    args = parser.parse_args()
    rows = [row for path in args.results for row in read(path)]
    print("ms between  at once      puts " + " ".join(f"{name:>10}" for name in COLUMNS))
    for r in rows:
        numbers = " ".join(f"{r[name]:10}" for name in COLUMNS)
        print(f"{r['interval_ms']:10} {r['batch']:8} {r['count']:9} {numbers}")
    results.write(args.json, {}, rows)
    plot(rows, args.plot)


main()
