# SPDX-License-Identifier: GPL-2.0
"""What the programs share that draw one figure."""

import argparse
import json
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
