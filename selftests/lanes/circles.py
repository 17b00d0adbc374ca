#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Print each circle of files of the module that is too long to be understood.

In a circle each file uses definitions of the next one, and so none of them can be read alone.
Up to three files of one folder may form one. The object files show what is used, so the module
must be built. They show neither what headers define, nor calls by pointers.

    circles.py FOLDER    the module's objects; prints nothing if all is well
"""

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

LONGEST = 3

# Tracepoints are defined in main, by the headers that declare them.
TRACE = ("__tracepoint_", "__SCT__tp_func_", "__SCK__tp_func_")

Graph = dict[str, set[str]]


def symbols(top: Path) -> tuple[dict[str, str], dict[str, set[str]]]:
    """Which file defines a symbol, and which symbols a file uses of others."""
    defined: dict[str, str] = {}
    used: dict[str, set[str]] = defaultdict(set)
    files = [f for f in top.rglob("*.o") if f.with_suffix(".c").exists()
             and f.relative_to(top).parts[0] != "tests" and not f.name.endswith(".mod.o")]
    if not files:
        sys.exit(f"{top}: has no objects")
    for file in files:
        name = str(file.relative_to(top).with_suffix(""))
        lines = subprocess.run(["nm", "-g", file], check=True, capture_output=True, text=True)
        for line in lines.stdout.splitlines():
            *_, kind, symbol = line.split()
            if symbol.startswith(TRACE):
                continue
            if kind in "Uwv":
                used[name].add(symbol)
            else:
                defined[symbol] = name
    return defined, used


def calls(top: Path) -> Graph:
    """The files that each file needs."""
    defined, used = symbols(top)
    return {name: {defined[s] for s in used[name] if s in defined} - {name}
            for name in set(defined.values()) | set(used)}


def reached(graph: Graph, start: str) -> set[str]:
    seen: set[str] = set()
    todo = [start]
    while todo:
        for name in graph[todo.pop()] - seen:
            seen.add(name)
            todo.append(name)
    return seen


def circles(graph: Graph) -> set[frozenset[str]]:
    """The largest sets of files each of which needs all others."""
    reach = {name: reached(graph, name) for name in graph}
    return {frozenset(other for other in reach[name] if name in reach[other])
            for name in graph if name in reach[name]}


def main() -> None:
    for circle in sorted(circles(calls(Path(sys.argv[1]))), key=sorted):
        folders = {name.rpartition("/")[0] for name in circle}
        if len(folders) > 1 or len(circle) > LONGEST:
            print("files in a circle: " + " ".join(sorted(circle)))


main()
