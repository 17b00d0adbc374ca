#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Draw results as small multiples: a panel for each kind of work, a bar for each system.

plots.py draws the pictures of Documentation/results.rst from the tables of that page;
plots.py --check only says whether they are what it would draw.
"""

import os
import re
import sys
import textwrap
from collections import namedtuple
from xml.sax.saxutils import escape

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
PAGE = os.path.join(TOP, "Documentation", "results.rst")
FOLDER = os.path.join(TOP, "Documentation", "plots")

# A bar's value, and the least and the most that was measured.
Bar = namedtuple("Bar", "system value least most")
Panel = namedtuple("Panel", "title bars")

WIDTH, COLUMNS, MARGIN = 780, 3, 14
LABEL, NUMBER = 84, 42  # room in front of a bar, and behind it
ROW, LINE = 21, 15
STYLE = """\
text { font: 11px sans-serif; fill: #1b1f24 }
.title { font-weight: bold } .number { font-size: 10px } .caption { fill: #57606a }
.ours { fill: #0969da } .other { fill: #c4cad1 } .spread { stroke: #1b1f24 }"""


def is_ours(system):
    return system.startswith("kvtree")


def title_lines(panel):
    return textwrap.wrap(panel.title, 36)


def panel_height(panel):
    return len(title_lines(panel)) * LINE + len(panel.bars) * ROW + 16


def number(value):
    """Two digits, and a third above 1; thousands with commas."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.{2 + (value >= 1)}g}"


def draw_bar(bar, x, y, scale):
    """A bar from zero, the spread as a thin line, the number behind both."""
    left = x + LABEL
    middle = y + 8
    kind = "ours" if is_ours(bar.system) else "other"
    end = left + max(bar.value, bar.most) * scale
    svg = [
        f'<text x="{left - 5}" y="{y + 12}" text-anchor="end">{escape(bar.system)}</text>',
        f'<rect class="{kind}" x="{left}" y="{y + 1}" width="{bar.value * scale:.1f}" height="14"/>',
        f'<text class="number" x="{end + 4:.1f}" y="{y + 12}">{number(bar.value)}</text>',
    ]
    if bar.most > bar.least:
        ends = f'x1="{left + bar.least * scale:.1f}" x2="{left + bar.most * scale:.1f}"'
        svg.append(f'<line class="spread" {ends} y1="{middle}" y2="{middle}"/>')
    return svg


def draw_panel(panel, x, y, width):
    svg = []
    for number, line in enumerate(title_lines(panel)):
        svg.append(f'<text class="title" x="{x}" y="{y + number * LINE + 11}">{escape(line)}</text>')
    y += len(title_lines(panel)) * LINE + 4
    scale = (width - LABEL - NUMBER) / max(max(bar.value, bar.most) for bar in panel.bars)
    for bar in sorted(panel.bars, key=lambda bar: -bar.value):
        svg += draw_bar(bar, x, y, scale)
        y += ROW
    return svg


def draw(panels, caption):
    """The text of an SVG picture."""
    width = (WIDTH - MARGIN * (COLUMNS + 1)) / COLUMNS
    svg, y = [], MARGIN
    for at in range(0, len(panels), COLUMNS):
        row = panels[at:at + COLUMNS]
        for column, panel in enumerate(row):
            svg += draw_panel(panel, round(MARGIN + column * (width + MARGIN)), y, width)
        y += max(panel_height(panel) for panel in row)
    for line in textwrap.wrap(caption, 130):
        svg.append(f'<text class="caption" x="{MARGIN}" y="{y + 8}">{escape(line)}</text>')
        y += LINE
    return "\n".join([
        '<?xml version="1.0" encoding="UTF-8"?>',
        "<!-- SPDX-License-Identifier: GPL-2.0 -->",
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 8}" role="img">',
        f"<style>{STYLE}</style>",
        f'<rect fill="#ffffff" width="{WIDTH}" height="{y + 8}"/>',
        *svg,
        "</svg>",
        "",
    ])


def tables(text):
    """The tables of a page in order: a list of the header's cells, and rows by their first."""
    for body in re.findall(r"^\.\. list-table::.*?\n\n(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL):
        rows = [[" ".join(cell.split()).strip("`")
                 for cell in re.split(r"^ {5}- ?", row, flags=re.MULTILINE)]
                for row in re.split(r"^ {3}\* - ", body, flags=re.MULTILINE)[1:]]
        yield rows[0], {row[0]: dict(zip(rows[0], row)) for row in rows[1:]}


def table(text, row, *columns):
    """The first table that has this row and these columns."""
    return next(rows for head, rows in tables(text)
                if row in rows and set(columns) <= set(head))


def bar(system, cell, of=None):
    """A cell: "2.3 (1.9 to 2.5)", a median and its spread; "1.8, 2.0", two runs; or "2.3".
    With of, a ratio that is turned around: of / cell."""
    values = [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*\.?\d*", cell)]
    if of is not None:
        values = [of / value for value in values]
    if len(values) == 3:
        return Bar(system, *values)
    return Bar(system, sum(values) / len(values), min(values), max(values))


def index(text):
    small = table(text, "get_W1", "lmdb", "skiplist", "congee")
    large = table(text, "get_W1", "mtbeta", "mtrow")
    names = {"kvtree": "kvtree", "lmdb": "LMDB", "congee": "ART (congee)", "skiplist": "skip list",
             "mtbeta": "masstree-beta", "mtrow": "beta, rows"}

    def panel(title, rows, work, batch=None):
        bars = [bar(names[key], cell) for key, cell in rows[work].items() if key in names and cell]
        if batch:
            bars.append(bar("kvtree, by 32", rows[batch]["kvtree"]))
        return Panel(title, bars)

    return [
        panel("Look up one of a million random 8-byte keys", small, "get_W1", "batch32_get_W1"),
        panel("Insert a million random 8-byte keys", small, "insert_W1"),
        panel("Scan 100 pairs of a million", small, "scan100_W1"),
        panel("Look up one of 10 million keys", large, "get_W1", "batch32_get_W1"),
        panel("Insert 10 million keys", large, "insert_W1"),
        panel("Scan 100 pairs of 10 million", large, "scan100_W1"),
    ], ("Million operations (pairs, for scans) per second, one thread; the line is the least and the most of 5"
        " rounds. \"by 32\": in batches of 32; \"rows\": with a block for each value, as kvtree has. Virtual"
        " machine, AMD EPYC.")


def user(text):
    ratios = table(text, "get_ioctl_vs_redis", "Measured")
    gets = table(text, "memcached", "Runs")
    return [
        Panel("One get at a time (Redis = 1)",
              [Bar("Redis", 1, 1, 1), bar("kvtree ioctl", ratios["get_ioctl_vs_redis"]["Measured"])]),
        Panel("64 gets at once (Redis = 1)",
              [Bar("Redis", 1, 1, 1), bar("kvtree batch", ratios["get_batch64_vs_redis_p64"]["Measured"]),
               bar("kvtree uring", ratios["get_uring64_vs_redis_p64"]["Measured"])]),
        Panel("Gets from memcached per second",
              [bar("memcached", gets["memcached"]["Runs"]),
               bar("kvtree cache", gets["with the example cache"]["Runs"])]),
    ], ("Gets per second. Redis over a Unix socket, for 64 at once with pipelines; memcached alone, and behind the"
        " example cache in XDP. Emulated machine, Debian's kernel 6.12.")


def bpf(text):
    exact, prefix = "time of a lookup beside the hash map", "time of a longest-prefix lookup beside the trie"
    rows = table(text, exact, "8 bytes")
    return [
        Panel(f"{title}, {size} ({other} = 1)",
              [Bar(other, 1, 1, 1), bar("kvtree", rows[row][size])])
        for title, other, row in (("Exact", "hash map", exact), ("Longest prefix", "LPM trie", prefix))
        for size in ("8 bytes", "16 bytes", "64 bytes")
    ], ("Time of a lookup; shorter is faster. XDP programs, 100,000 keys or prefixes, middle of two runs,"
        " emulated machine, Debian's kernel 6.12.")


def durable(text):
    rows = table(text, "sync256_vs_rocksdb_sync", "Target")
    places = [key for key in next(iter(rows.values())) if key not in ("Ratio", "Target")]
    return [
        Panel(f"{place.replace('`', '')} (kvtree = 1)",
              [Bar("kvtree", 1, 1, 1),
               bar("Redis, always", rows["sync256_vs_redis_aof_always"][place], of=1),
               bar("RocksDB, sync", rows["sync256_vs_rocksdb_sync"][place], of=1)])
        for place in places
    ], ("Durable puts per second, 256 under way. null_blk completes a request after 100 us and has no cache;"
        " disk is a file of the host. LMDB was measured beside them, but its rate was not kept.")


def pictures():
    """By the path: the text of each picture of the page."""
    with open(PAGE, encoding="utf-8") as f:
        text = f.read()
    return {os.path.join(FOLDER, f"{make.__name__}.svg"): draw(*make(text))
            for make in (index, user, bpf, durable)}


def stale():
    """The pictures that are not what the tables say."""
    wrong = []
    for path, svg in pictures().items():
        try:
            with open(path, encoding="utf-8") as f:
                same = f.read() == svg
        except FileNotFoundError:
            same = False
        if not same:
            wrong.append(os.path.relpath(path, TOP))
    return wrong


def main():
    if sys.argv[1:] == ["--check"]:
        return "\n".join(stale()) or 0
    os.makedirs(FOLDER, exist_ok=True)
    for path, svg in pictures().items():
        with open(path, "w", encoding="utf-8") as f:
            f.write(svg)
    return 0


if __name__ == "__main__":
    sys.exit(main())
