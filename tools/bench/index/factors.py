#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Show what single measures bring (after Figure 8 of the Masstree paper).

factors.py --json FILE --plot FILE.svg BUILD=RESULTS...

RESULTS is kvt-bench's JSON with both kinds of pages; BUILD says how it was compiled.
"""

import json

import plots

WORKLOADS = ("insert_W1", "get_W1", "batch32_get_W1", "scan100_W1")
PAGES = {"4k": "4 KiB pages", "huge": "huge pages"}


def read(parts):
    """A row for each workload, build and kind of pages."""
    rows = []
    for part in parts:
        name, path = part.split("=", 1)
        with open(path, encoding="utf-8") as f:
            for row in json.load(f)["rows"]:
                if row["workload"] in WORKLOADS:
                    rows.append({"build": f"{name}, {PAGES[row['pages']]}"} | row)
    return rows


def beside_first(rows):
    """The rates by workload, in the order of the builds, as multiples of the first one's."""
    by = {}
    for r in rows:
        by.setdefault(r["workload"], []).append(r["median"])
    return {name: [n / rates[0] for n in rates] for name, rates in by.items()}


def plot(rows, path):
    """Bars for each workload."""
    builds = list(dict.fromkeys(r["build"] for r in rows))
    plots.bars(path, builds, beside_first(rows), f"operations, of those with: {builds[0]}")


def main():
    args = plots.arguments(__doc__, "BUILD=RESULTS")
    rows = sorted(read(args.results), key=lambda r: list(PAGES).index(r["pages"]))
    print(f"{'workload':16} {'build':28} {'median':>8} {'min':>8} {'max':>8}")
    for r in rows:
        print(f"{r['workload']:16} {r['build']:28} {plots.rates(r, '8.3f')}")
    plots.write(args.json, rows)
    plot(rows, args.plot)


main()
