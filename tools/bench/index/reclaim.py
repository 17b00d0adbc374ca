#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Show what it costs to free memory sooner or later, and more or less at once.

reclaim.py --json FILE --plot FILE.svg LOG

The trade-off of Figure 4 in "Analyzing the tradeoff between throughput and latency in
multicore scalable in-memory database systems".  LOG is that of a kernel in which
kvtree_bench ran after lines that say what followed: "kvtree_bench: reclaim MS OBJECTS".
"""

import argparse
import json
import re
import subprocess

WITH = re.compile(r"kvtree_bench: reclaim (\d+) (\d+)\s*$")
LATENCY = re.compile(r"kvtree_bench: latency kvtree (.*?)\s*$")
COLUMNS = ("p50", "p99", "p999", "p9999", "max", "waiting_max")


def read(path):
    """A row for each interval and batch; the number of puts tells the throughput."""
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
    blocks, lines = {}, []
    for r in rows:
        point = f"{r['p9999'] / 1e3:.3f} {r['count'] / most:.4f} {r['interval_ms']}ms"
        blocks.setdefault(f"batch_{r['batch']}", []).append(point)
    for block in blocks:
        title = block.replace("batch_", "batches of ")
        lines.append(f"${block} using 1:2 with linespoints title '{title}'")
        lines.append(f"${block} using 1:2:3 with labels offset 0,0.7 notitle")
    settings = [
        "set xlabel '99.99th percentile of a put, us'",
        "set ylabel 'puts, of the most that were made'",
        "set logscale x",
        "set yrange [0:*]",
        "set grid",
    ]
    script = [
        "set terminal svg size 800,480 noenhanced font 'sans-serif,11' background '#ffffff'",
        f"set output '{path}'",
        "set key outside right top",
        *settings,
    ]
    for name, data in blocks.items():
        script += [f"${name} << END", *data, "END"]
    script.append("plot " + ", ".join(lines))
    subprocess.run(["gnuplot"], input="\n".join(script), text=True, check=True)


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
    with open(args.json, "w", encoding="utf-8") as f:
        json.dump({"rows": rows}, f, indent=1)
        f.write("\n")
    plot(rows, args.plot)


main()
