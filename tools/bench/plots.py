#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Draw results as small multiples: panels of bars, one for each system, and charts of lines.

plots.py draws the pictures of Documentation/results.rst from the runs in Documentation/results;
plots.py --check reports pictures that differ from these runs; plots.py --results reads the JSON
of kvtree bench from standard input and writes a picture to standard output.
"""

import json
import math
import os
import re
import sys
import textwrap
from collections import namedtuple
from xml.sax.saxutils import escape

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
RUNS = os.path.join(TOP, "Documentation", "results")
FOLDER = os.path.join(TOP, "Documentation", "plots")

WIDTH, COLUMNS, MARGIN = 780, 3, 14
LABEL, NUMBER = 84, 42  # room before a bar, and after it
ROW, LINE = 21, 15
CURVE_STEP = 0.02  # for kvtree bench's curves: in powers of ten of the slower share
CHART = 190  # height of a chart's axes
COLORS = ("#0969da", "#cf222e", "#1a7f37", "#8250df", "#bf8700", "#1b7c83", "#bc4c00", "#57606a")
STYLE = """\
text { font: 11px sans-serif; fill: #1b1f24 }
.title { font-weight: bold } .number { font-size: 10px } .caption { fill: #57606a }
.ours { fill: #0969da } .other { fill: #c4cad1 } .spread { stroke: #1b1f24 }"""


def is_ours(system):
    return system.startswith("kvtree")


def title_lines(title):
    return textwrap.wrap(title, 36)


def draw_title(title, x, y):
    """The SVG of a title, and where the content below it begins."""
    lines = title_lines(title)
    svg = [f'<text class="title" x="{x}" y="{y + at * LINE + 11}">{escape(line)}</text>'
           for at, line in enumerate(lines)]
    return svg, y + len(lines) * LINE + 4


def number(value):
    """Two digits, or three above 1; thousands with commas."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.{2 + (value >= 1)}g}"


def draw_bar(bar, left, y, scale):
    """A bar from zero, the spread as a thin line, the number after both."""
    middle = y + 8
    if bar.color:
        look = f'fill="{bar.color}"'
    else:
        look = f'class="{"ours" if is_ours(bar.system) else "other"}"'
    end = left + max(bar.value, bar.most) * scale
    svg = [
        f'<text x="{left - 5}" y="{y + 12}" text-anchor="end">{escape(bar.system)}</text>',
        f'<rect {look} x="{left}" y="{y + 1}" width="{bar.value * scale:.1f}" height="14"/>',
        f'<text class="number" x="{end + 4:.1f}" y="{y + 12}">{number(bar.value)}</text>',
    ]
    if bar.most > bar.least:
        ends = f'x1="{left + bar.least * scale:.1f}" x2="{left + bar.most * scale:.1f}"'
        svg.append(f'<line class="spread" {ends} y1="{middle}" y2="{middle}"/>')
    return svg


# A bar's value, and the minimum and maximum measured.
Bar = namedtuple("Bar", "system value least most color", defaults=[None])


class Panel(namedtuple("Panel", "title bars")):
    """Bars below a title, the longest first."""

    def height(self):
        return len(title_lines(self.title)) * LINE + len(self.bars) * ROW + 16

    def draw(self, x, y, width):
        svg, y = draw_title(self.title, x, y)
        label = max(LABEL, max(len(bar.system) for bar in self.bars) * 6)
        longest = max(max(bar.value, bar.most) for bar in self.bars) or 1
        for bar in sorted(self.bars, key=lambda bar: -bar.value):
            svg += draw_bar(bar, x + label, y, (width - label - NUMBER) / longest)
            y += ROW
        return svg


class Axis:
    """A scale from one number to another. Ticks are pairs of a number and its text."""

    def __init__(self, title, least, most, ticks=None, log=False):
        self.title, self.map = title, math.log10 if log else float
        self.least, self.most = self.map(least), self.map(most)
        self.ticks = ticks or (self.decades() if log else self.steps())

    def decades(self):
        """1, 2 and 5 of each power of ten; in a wide range only the powers."""
        first, last = math.floor(self.least), math.ceil(self.most)
        digits = (1, 2, 5) if last - first < 3 else (1,)
        numbers = [digit * 10.0 ** power for power in range(first, last + 1) for digit in digits]
        return [(n, f"{n:g}") for n in numbers if self.least <= math.log10(n) <= self.most]

    def steps(self):
        width = 10.0 ** math.floor(math.log10((self.most - self.least) or 1))
        if (self.most - self.least) / width < 3:
            width /= 4
        first = math.ceil(self.least / width)
        return [(n * width, f"{n * width:g}") for n in range(first, int(self.most / width) + 1)]

    def place(self, number):
        """The position of a number, from 0 to 1."""
        return (self.map(number) - self.least) / ((self.most - self.least) or 1)


# Points are (x, y), or (x, y, text).
Line = namedtuple("Line", "name points")


class Chart(namedtuple("Chart", "title lines across up")):
    """Lines below a title, over two axes; each line's name is below in its colour."""

    def height(self):
        return len(title_lines(self.title)) * LINE + CHART + (2 + len(self.lines)) * LINE + 16

    def draw(self, x, y, width):
        svg, y = draw_title(self.title, x, y)
        svg.append(f'<text class="number" x="{x}" y="{y + 9}">{escape(self.up.title)}</text>')
        box = Box(x + 40, y + LINE, round(x + width - 12), y + CHART)
        svg += draw_grid(box, self.across, self.up)
        for at, line in enumerate(self.lines):
            color = COLORS[at % len(COLORS)]
            svg += draw_line(box, line, color, self.across, self.up)
            svg.append(f'<text x="{box.left}" y="{box.bottom + 12 + (2 + at) * LINE}"'
                       f' style="fill: {color}">{escape(line.name)}</text>')
        return svg


class Box(namedtuple("Box", "left top right bottom")):
    """The area of the lines."""

    def across(self, place):
        return self.left + (self.right - self.left) * place

    def up(self, place):
        return self.bottom - (self.bottom - self.top) * place


def draw_grid(box, across, up):
    """Lines at the ticks of both axes, and their texts."""
    svg = []
    for tick, text in up.ticks:
        y = box.up(up.place(tick))
        svg += [f'<line stroke="#d8dee4" x1="{box.left}" x2="{box.right}" y1="{y:.1f}" y2="{y:.1f}"/>',
                f'<text class="number" x="{box.left - 4}" y="{y + 3:.1f}" text-anchor="end">{text}</text>']
    for tick, text in across.ticks:
        x = box.across(across.place(tick))
        svg += [f'<line stroke="#d8dee4" x1="{x:.1f}" x2="{x:.1f}" y1="{box.top}" y2="{box.bottom}"/>',
                f'<text style="font-size: 9px" x="{x:.1f}" y="{box.bottom + 12}"'
                f' text-anchor="middle">{text}</text>']
    svg.append(f'<text class="number" x="{(box.left + box.right) / 2:.0f}" y="{box.bottom + 12 + LINE}"'
               f' text-anchor="middle">{escape(across.title)}</text>')
    return svg


def draw_line(box, line, color, across, up):
    """A line, with a dot at each point that has a text."""
    places = [(box.across(across.place(point[0])), box.up(up.place(point[1]))) for point in line.points]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    svg = [f'<polyline fill="none" stroke="{color}" points="{points}"><title>{escape(line.name)}</title></polyline>']
    for point, (x, y) in zip(line.points, places):
        if len(point) > 2:
            svg += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{color}"/>',
                    f'<text class="number" x="{x + 3:.1f}" y="{y - 3:.1f}">{escape(point[2])}</text>']
    return svg


def draw(panels, caption, columns=COLUMNS):
    """The text of an SVG of panels and charts, in this many columns."""
    width = (WIDTH - MARGIN * (columns + 1)) / columns
    svg, y = [], MARGIN
    for at in range(0, len(panels), columns):
        row = panels[at:at + columns]
        for column, panel in enumerate(row):
            if panel:
                svg += panel.draw(round(MARGIN + column * (width + MARGIN)), y, width)
        y += max(panel.height() for panel in row if panel)
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


class Run:
    """A file of Documentation/results: the results of one run of a benchmark."""

    def __init__(self, name):
        with open(os.path.join(RUNS, f"{name}.json"), encoding="utf-8") as f:
            results = json.load(f)
        self.ratios, self.rows = results.get("ratios", {}), results.get("rows", [])

    def bar(self, workload, system, name):
        """The bar for one thread, if there are runs with several."""
        row = next(row for row in self.rows
                   if (row["workload"], row["system"]) == (workload, system) and row.get("threads", 1) == 1)
        return Bar(name, *(row.get(key, row["median"]) for key in ("median", "min", "max")))

    def bars(self, workload, names):
        """A bar for each of the systems measured in the run."""
        measured = {row["system"] for row in self.rows if row["workload"] == workload}
        return [self.bar(workload, system, name) for system, name in names.items() if system in measured]


def compared(name, ratio):
    """A system's rate or time, divided by that of another."""
    return Bar(name, ratio, ratio, ratio)


def one(name):
    """The system that the others are compared with."""
    return compared(name, 1)


def index():
    small, large = Run("2026-11-30-index"), Run("2026-11-30-index-1e7")
    names = {"kvtree": "kvtree", "lmdb": "LMDB", "skiplist": "skip list", "congee": "ART (congee)",
             "treeindex": "B+ tree"}

    def panel(title, run, workload, batch=None):
        batches = [run.bar(batch, "kvtree", "kvtree, by 32")] if batch else []
        return Panel(title, run.bars(workload, names) + batches)

    return [
        panel("Look up one of a million random 8-byte keys", small, "get_W1", "batch32_get_W1"),
        panel("Insert a million random 8-byte keys", small, "insert_W1"),
        panel("Scan 100 pairs of a million", small, "scan100_W1"),
        panel("Look up one of 10 million keys", large, "get_W1", "batch32_get_W1"),
        panel("Insert 10 million keys", large, "insert_W1"),
        panel("Scan 100 pairs of 10 million", large, "scan100_W1"),
    ], ("Million operations (pairs, for scans) per second, one thread; the line is the least and the most of 5"
        " rounds, 3 for 10 million keys. \"by 32\": in batches of 32. Virtual machine, AMD EPYC.")


def user():
    ratios, cached = Run("2026-11-29-redis").ratios, Run("2026-11-29-bpf")
    return [
        Panel("One get at a time (Redis = 1)",
              [one("Redis"), compared("kvtree ioctl", ratios["get_ioctl_vs_redis"])]),
        Panel("64 gets at once (Redis = 1)",
              [one("Redis"), compared("kvtree batch", ratios["get_batch64_vs_redis_p64"]),
               compared("kvtree uring", ratios["get_uring64_vs_redis_p64"])]),
        Panel("Gets from memcached per second",
              cached.bars("gets", {"memcached": "memcached", "example cache": "kvtree cache"})),
    ], ("Gets per second. Redis over a Unix socket, for 64 at once with pipelines; memcached alone, and behind the"
        " example cache in XDP. Emulated machine, Debian's kernel 6.12.")


def bpf():
    ratios = Run("2026-11-29-bpf").ratios
    return [
        Panel(f"{title}, {size} bytes ({other} = 1)",
              [one(other), compared("kvtree", ratios[f"{ratio}_{size}"])])
        for title, other, ratio in (("Exact", "hash map", "lookup_time_vs_hash"),
                                    ("Longest prefix", "LPM trie", "lpm_time_vs_lpm_trie"))
        for size in (8, 16, 64)
    ], ("Time of a lookup; shorter is faster. XDP programs, 100,000 keys or prefixes,"
        " emulated machine, Debian's kernel 6.12.")


def durable():
    ratios = Run("2026-11-29-durable").ratios
    return [
        Panel(f"{place} (kvtree = 1)",
              [one("kvtree"),
               *(compared(name, 1 / ratios[f"{lane}sync256_vs_{other}"])
                 for name, other in (("LMDB, sync", "lmdb_sync"), ("Redis, always", "redis_aof_always"),
                                     ("RocksDB, sync", "rocksdb_sync")))])
        for place, lane in (("null_blk, emulated", ""), ("disk, emulated", "disk_"))
    ], ("Durable puts per second, 256 under way. null_blk completes a request after 100 us and has no cache;"
        " disk is a file of the host. Emulated machine, Debian's kernel 6.12.")


def pictures():
    """The text of each picture of the page, by its path."""
    return {os.path.join(FOLDER, f"{make.__name__}.svg"): draw(*make())
            for make in (index, user, bpf, durable)}


def stale():
    """The pictures that differ from the runs."""
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


def way(row):
    return row["system"].removeprefix("kvtree ")


def rates(title, rows):
    """A workload's throughput, in the colours of the lines of its latencies."""
    return Panel(title, [Bar(way(row), *(row[key] / 1e3 for key in ("median", "min", "max")), color)
                         for row, color in zip(rows, COLORS * len(rows))])


def latencies(title, rows):
    """A workload's latencies by percentile; every power of ten takes the same room."""
    lines = [Line(way(row), [(at * CURVE_STEP, max(ns, 1) / 1e3) for at, ns in enumerate(row["curve_ns"])])
             for row in rows]
    every = [point for line in lines for point in line.points]
    end = max(x for x, _ in every)
    ticks = [(-math.log10(1 - float(name) / 100), name)
             for name in ("50", "90", "99", "99.9", "99.99", "99.999")]
    return Chart(title, lines,
                 Axis("percentile", 0, end, [tick for tick in ticks if tick[0] <= end + 1e-6]),
                 Axis("us", min(y for _, y in every), max(y for _, y in every), log=True))


def measured(results):
    """The panels and charts of kvtree bench's results, and their caption."""
    workloads = {}
    for row in results["rows"]:
        mix = ", ".join(f"{100 * share:.4g}% {kind}" for kind, share in row["mix"].items())
        workloads.setdefault(f"{row['workload']}: {mix}", []).append(row)
    panels = [rates(*workload) for workload in workloads.items()]
    panels += [None] * (-len(panels) % COLUMNS)
    panels += [latencies(title, rows) for title, rows in workloads.items()
               if any(row["curve_ns"] for row in rows)]
    plan = results["settings"]
    return panels, (
        f"Thousand operations per second (median, least and most of {plan['runs']} runs), and latencies."
        f" {plan['records']} records of {plan['fields']} x {plan['field_size']} bytes,"
        f" {plan['processes']} x {plan['threads']} threads. Linux {results['environment']['kernel']}.")


def main():
    if sys.argv[1:] == ["--check"]:
        return "\n".join(stale()) or 0
    if sys.argv[1:] == ["--help"]:
        print(__doc__)
        return 0
    if sys.argv[1:] == ["--results"]:
        sys.stdout.write(draw(*measured(json.load(sys.stdin))))
        return 0
    os.makedirs(FOLDER, exist_ok=True)
    for path, svg in pictures().items():
        with open(path, "w", encoding="utf-8") as f:
            f.write(svg)
    return 0


if __name__ == "__main__":
    sys.exit(main())
