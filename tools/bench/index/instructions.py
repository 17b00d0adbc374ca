#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Show how many instructions an operation takes, as callgrind counts them.

instructions.py --json FILE --plot FILE.svg WORKLOAD:SYSTEM=PROFILE...

PROFILE is what callgrind has written of kvt-bench with one workload and one system. What
counts is what a system does between its call by the driver and its return.
"""

import re

import plots

# The driver's functions, and what a system's function does.
DRIVER = ("put_one", "get_one", "scan_one", "get_batches", "insert_all", "get_some", "scan_some")
CALLEE = re.compile(r"\b\w\w_(put|get|get_batch|scan)\b")
# What a call does: its operation as it is shown, and how many of them it does.
OPERATIONS = {"put": ("insert", 1), "get": ("get", 1), "get_batch": ("batch32_get", 32),
              "scan": ("scan100", 100)}
NAME = re.compile(r"(c?fn)=\((\d+)\)(?: (.*))?")


def count(path):
    """Calls and instructions by what was called."""
    names, caller, callee, calls, total = {}, "", "", 0, {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            if found := NAME.match(line):
                name = names.setdefault(found[2], found[3])
                if found[1] == "fn":
                    caller = name
                else:
                    callee = name
            elif line.startswith("calls="):
                calls = int(line[6:].split()[0])
            elif calls:
                is_system = CALLEE.search(callee)
                if is_system and caller.split(".")[0] in DRIVER:
                    sums = total.setdefault(is_system[1], [0, 0])
                    sums[0] += calls
                    sums[1] += int(line.split()[1])
                calls = 0
    return total


def read(parts):
    """A row for each workload, system and operation."""
    rows = []
    for part in parts:
        what, path = part.split("=", 1)
        workload, system = what.split(":")
        for kind, (calls, instructions) in count(path).items():
            name, each = OPERATIONS[kind]
            rows.append({"workload": f"{name}_{workload}", "system": system,
                         "operations": calls * each,
                         "instructions": instructions / calls / each})
    return rows


def plot(rows, path):
    """Bars for each operation."""
    systems = list(dict.fromkeys(r["system"] for r in rows))
    by = {}
    for r in rows:
        by.setdefault(r["workload"], {})[r["system"]] = r["instructions"]
    table = {name: [row.get(s, float("nan")) for s in systems] for name, row in by.items()}
    plots.bars(path, systems, table, "instructions for an operation (scans: for a pair)")


def main():
    args = plots.arguments(__doc__, "WORKLOAD:SYSTEM=PROFILE")
    rows = read(args.results)
    print(f"{'workload':16} {'system':11} {'instructions':>12}")
    for r in rows:
        print(f"{r['workload']:16} {r['system']:11} {r['instructions']:12.1f}")
    plots.write(args.json, rows)
    plot(rows, args.plot)


main()
