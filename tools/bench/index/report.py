#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Combine the results of the benchmark's parts.

report.py --json FILE --plot FILE.svg RESULTS...

A file of RESULTS is kvt-bench's JSON, or the log of a kernel in which kvtree_bench
ran.  Prints a table of the kernel's rows, and all ratios with targets.
"""

import argparse
import json
import os
import re
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import plots
import results

WORK = {
    "insert": "Insert",
    "get": "Look up",
    "batch32_get": "Look up, 32 at once",
    "scan100": "Scan 100 pairs",
    "put": "Replace",
    "batch32_put": "Replace, 32 at once",
}
KEYS = {
    "W1": "random 8-byte keys",
    "W2": "decimal keys",
    "W3": "keys with a common prefix",
    "uml": "in a kernel",
}

# Minimum ratios.
TARGETS = {
    "get_W1_vs_lmdb": 2.4,
    "get_W2_vs_lmdb": 2.0,
    "insert_W1_vs_lmdb": 2.8,
    "batch32_get_W1_vs_congee": 1.5,
    "batch32_get_W1_vs_get_W1": 3.2,
    "scan100_vs_lmdb": 1.9,
    "get_W1_vs_skiplist": 4,
    "bwtree_scan100_vs_masstree": 1.5,
    "bwtree_get_W1_vs_masstree": 0.55,
    "bwtree_mix_vs_skiplist": 2,
    "uml_get_vs_rbtree_rcu": 2,
    "uml_get_vs_maple": 1.2,
    "uml_put_vs_maple": 2,
    "uml_get_vs_rhashtable": 0.4,
    "scale2_get": 0.95,
    "scale2_put": 0.88,
}

# Maximum ratios.
LIMITS = {
    "uml_put_p999_vs_median": 20,
    "uml_put_p9999_vs_baseline": 1.5,
    "uml_put_over_1ms_vs_baseline": 1.5,
    "uml_put_waiting_vs_bound": 1,
    "uml_held_put_waiting_vs_bound": 1,
    "uml_held_put_stall_ms_past_hold": 50,
    "bwtree_mix_failed_updates_percent": 0.005,
}

# kvtree_bench: get_uml kvtree 1 1000000 2345678
ROW = re.compile(r"kvtree_bench: (\w+) (\w+) (\d+) (\d+) (\d+)\s*$")
# kvtree_bench: latency kvtree p50=1000 ...
LATENCY = re.compile(r"kvtree_bench: latency (\w+) (.*?)\s*$")


def kernel_rows(log):
    """The rows of rates in a kernel's log, and those of single numbers."""
    rates, others = {}, []
    for line in log.splitlines():
        if found := ROW.search(line):
            workload, system, threads, keys, rate = found.groups()
            rates.setdefault((workload, system, int(threads), int(keys)), []).append(int(rate))
        elif found := LATENCY.search(line):
            numbers = dict(pair.split("=") for pair in found[2].split())
            others.append(
                {"workload": "put_latency_uml", "system": found[1], "unit": "ns"}
                | {name: int(n) for name, n in numbers.items()}
            )
    rows = []
    for (workload, system, threads, keys), runs in rates.items():
        rows.append(
            {
                "workload": workload,
                "system": system,
                "pages": "4k",
                "threads": threads,
                "keys": keys,
                "median": statistics.median_low(runs),
                "min": min(runs),
                "max": max(runs),
                "runs": len(runs),
                "unit": "operations/s",
                "values": sorted(runs),
            }
        )
    return rows, others


def kernel_ratios(rows):
    """Ratios of kvtree to every other system in every workload of the kernel."""
    medians = {(r["workload"], r["system"]): r["median"] for r in rows}
    ratios = {}
    for (workload, system), median in medians.items():
        own = medians.get((workload, "kvtree"))
        if own and system != "kvtree":
            name = workload.removesuffix("_uml")
            ratios[f"uml_{name}_vs_{system}"] = own / median
    return ratios


def latency_ratios(others):
    """Puts compared with the machine's own latencies: an empty loop, and a hash table."""
    by = {r["system"]: r for r in others if r["workload"] == "put_latency_uml"}
    ratios = {}
    own, held = by.get("kvtree"), by.get("kvtree_held")
    beside = [by[name] for name in ("empty", "rhashtable") if name in by]
    if own and len(beside) == 2:
        ratios["uml_put_p999_vs_median"] = own["p999"] / own["p50"]
        for name in ("p9999", "over_1ms"):
            baseline = sum(r[name] for r in beside)
            ratios[f"uml_put_{name}_vs_baseline"] = own[name] / max(baseline, 1)
        ratios["uml_put_waiting_vs_bound"] = own["waiting_max"] / own["waiting_bound"]
    if held:
        ratios["uml_held_put_waiting_vs_bound"] = held["waiting_max"] / held["waiting_bound"]
        ratios["uml_held_put_stall_ms_past_hold"] = held["max"] / 1e6 - held["hold_ms"]
    return ratios


def read(path):
    """A part's ratios, its rows of rates and the others."""
    with open(path, encoding="utf-8", errors="replace") as f:
        text = f.read()
    if text.startswith("{"):
        part = json.loads(text)
        return part["ratios"], part["rows"], []
    rows, others = kernel_rows(text)
    if not rows and not others:
        sys.exit(f"report.py: {path}: there are no results")
    return kernel_ratios(rows) | latency_ratios(others), rows, others


def print_kernel(rows, others):
    """Print the kernel's rows, which kvt-bench does not print."""
    print(f"{'workload':20} {'system':11} {'median':>10} {'min':>8} {'max':>8}")
    for r in rows:
        print(
            f"{r['workload']:20} {r['system']:11} {r['median'] / 1e6:10.3f}"
            f" {r['min'] / 1e6:8.3f} {r['max'] / 1e6:8.3f}"
        )
    print("Millions of operations per second in the kernel (User-Mode Linux).")
    for r in others:
        numbers = (f"{k} {v}" for k, v in r.items() if isinstance(v, int))
        print(f"{r['workload']:20} {r['system']:11} {', '.join(numbers)}")


def print_ratios(ratios):
    """Print the ratios with targets, and whether they reach them."""
    print(f"{'ratio':34} {'is':>7} {'to be':>6}")
    for name, target in TARGETS.items():
        if name not in ratios:
            continue
        missed = "" if ratios[name] >= target else "  missed"
        print(f"{name:34} {ratios[name]:7.2f} {target:6.2f}{missed}")
    for name, limit in LIMITS.items():
        if name in ratios:
            missed = "" if ratios[name] <= limit else "  missed"
            print(f"{name:34} {ratios[name]:7.4f} {limit:6.4f}{missed}")


def in_words(workload):
    """The title of a panel, such as "get_W1"."""
    work, _, keys = workload.rpartition("_")
    return f"{WORK.get(work, work)}, {KEYS.get(keys, keys)}"


def plot(rows, path):
    """Write an SVG of all rows with one thread, with a panel for each workload."""
    panels = {}
    for r in rows:
        if "median" in r and r["threads"] == 1 and "chase" not in (r["workload"], r["system"]):
            pages = ", huge pages" if r["pages"] == "huge" else ""
            bar = plots.Bar(r["system"], *(r[key] / 1e6 for key in ("median", "min", "max")))
            panels.setdefault(in_words(r["workload"]) + pages, []).append(bar)
    caption = "Million operations (pairs, for scans) per second, one thread: median, least and most."
    with open(path, "w", encoding="utf-8") as f:
        f.write(plots.draw([plots.Panel(*panel) for panel in panels.items()], caption))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", required=True, help="where all results go")
    parser.add_argument("--plot", help="where a picture goes")
    parser.add_argument("results", nargs="+")
    args = parser.parse_args()

    ratios, rows = {}, []
    for path in args.results:
        some_ratios, some_rows, others = read(path)
        ratios |= some_ratios
        rows += some_rows + others
        if others or not path.endswith(".json"):
            print_kernel(some_rows, others)
    print_ratios(ratios)
    results.write(args.json, ratios, rows)
    if args.plot:
        plot(rows, args.plot)


main()
