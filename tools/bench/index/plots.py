# SPDX-License-Identifier: GPL-2.0
"""What the programs share that draw one figure."""

import argparse
import json
import re
import subprocess


def arguments(doc, metavar):
    """Where results come from, and where they go."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--json", required=True, help="where all results go")
    parser.add_argument("--plot", required=True, help="where the picture goes")
    parser.add_argument("results", nargs="+", metavar=metavar)
    return parser.parse_args()


def write(path, rows):
    """The rows as JSON."""
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"rows": rows}, f, indent=1)
        f.write("\n")


def rates(row, form):
    """The median, the least and the most of a row, in millions."""
    return " ".join(f"{row[name] / 1e6:{form}}" for name in ("median", "min", "max"))


def draw(path, settings, blocks, lines):
    """An SVG picture: blocks of data by their names, and what is drawn of them."""
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


def bars(path, names, table, label):
    """A group of bars for each line of the table, which has a number for each of the names."""
    data = [f'"{k}" ' + " ".join(f"{n:.4f}" for n in v) for k, v in table.items()]
    lines = [
        f"$all using {i + 2}{'' if i else ':xtic(1)'} title '{name}'"
        for i, name in enumerate(names)
    ]
    settings = [
        "set style data histogram",
        "set style fill solid 0.7 border -1",
        f"set ylabel '{label}'",
        "set yrange [0:*]",
        "set xtics rotate by -30",
        "set grid y",
    ]
    draw(path, settings, {"all": data}, lines)


def _gets(path, pattern, column):
    """The rows whose workload has a number, which becomes a column."""
    rows = []
    with open(path, encoding="utf-8") as f:
        for row in json.load(f)["rows"]:
            if found := re.match(pattern, row["workload"]):
                rows.append({column: int(found[1])} | row)
    return rows


def curves(doc, pattern, column, settings):
    """A table, and a line for each system with the least and the most of the rounds."""
    args = arguments(doc, "RESULTS")
    rows = [row for path in args.results for row in _gets(path, pattern, column)]
    blocks = {}
    print(f"{column:>9} {'system':11} {'median':>8} {'min':>8} {'max':>8}")
    for r in rows:
        print(f"{r[column]:9} {r['system']:11} {rates(r, '8.3f')}")
        blocks.setdefault(r["system"], []).append(f"{r[column]} {rates(r, '.4f')}")
    lines = [f"${name} using 1:2:3:4 with yerrorlines title '{name}'" for name in blocks]
    write(args.json, rows)
    always = ["set ylabel 'million gets per second'", "set yrange [0:*]", "set grid y"]
    draw(args.plot, settings + always, blocks, lines)
