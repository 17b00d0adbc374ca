#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Print each #include of the module that goes up, or sideways into another part.

A file may include files of its own part and of lower layers. The order is that of
Documentation/architecture.rst: api and bpf call core, core calls the engines and the log, and
these use base: values, memory, counters.

    layers.py [FOLDER]    the module's source, kmod if not told; prints nothing if all is well
"""

import os
import re
import sys
from pathlib import Path

# From the bottom up: parts of one line may not include each other.
LAYERS = [
    [["compat"]],
    [["log/format/"]],
    [["base/"]],
    [["masstree/"], ["bwtree/"], ["log/"]],
    [["core/"]],
    [["bpf/"]],
    [["api/"]],
    [["main"], ["bwtree_main"]],
]

# What others may include of the log.
LOG_API = "log/log.h"

# The same within the log, where files of one layer may include each other: see kmod/log/state.h.
LOG = [
    ["store_env", "sizes"],
    ["state"],
    ["dev", "device", "disk"],
    ["space", "table", "room", "live", "append"],
    ["ranges"],
    ["stream", "encode", "chunk", "note", "events"],
    ["commit", "carry"],
    ["checkpoint", "step", "measure", "plan", "save", "saved", "supers"],
    ["life", "log", "sleep", "replay", "restore", "recount", "audit"],
]

INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)


def place(name: str) -> tuple[int, int]:
    """Layer and part: a file's own name counts before its folder's."""
    for exact in True, False:
        for layer, parts in enumerate(LAYERS):
            for part, prefixes in enumerate(parts):
                for prefix in prefixes:
                    if (name.rsplit(".", 1)[0] == prefix if exact
                            else prefix.endswith("/") and name.startswith(prefix)):
                        return layer, part
    sys.exit(f"{name}: in no layer, see {Path(__file__).name}")


def of_log(name: str) -> bool:
    return name.rpartition("/")[0] == "log"


def floor(name: str) -> int:
    """The layer within the log."""
    file = name.rpartition("/")[2]
    for known in file, file.rsplit(".", 1)[0]:
        for layer, files in enumerate(LOG):
            if known in files:
                return layer
    sys.exit(f"{name}: in no layer of the log, see {Path(__file__).name}")


def hidden(name: str, target: str) -> bool:
    """Whether the log hides a file from another: its lower layers', and all but its API."""
    if not of_log(target):
        return False
    return floor(target) > floor(name) if of_log(name) else target != LOG_API


def main() -> None:
    top = Path(sys.argv[1] if len(sys.argv) > 1 else "kmod")
    files = [f for f in sorted(top.rglob("*.[ch]"))
             if f.relative_to(top).parts[0] != "tests" and not f.name.endswith(".mod.c")]
    for file in files:
        name = str(file.relative_to(top))
        for header in INCLUDE.findall(file.read_text()):
            found = [p for p in (file.parent / header, top / header) if p.exists()]
            if not found:
                continue    # the kernel's
            target = os.path.relpath(found[0], top)
            above, below = place(name), place(target)
            if (below != above and below[0] >= above[0]) or hidden(name, target):
                print(f"{file}: includes {target}, which is not below it")


main()
