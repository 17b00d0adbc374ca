#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Results of benchmarks as JSON: {"ratios": {NAME: NUMBER}, "rows": [ROW]}.

results.py --json FILE LANE=RESULTS... merges the results of one benchmark in several lanes. It
keeps all rows, with the names of their lanes. Ratios of the first lane keep their names; those of
the others begin with the lane's name.
"""

import argparse
import json


def write(path, ratios, rows):
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"ratios": ratios, "rows": rows}, file, indent=1)
        file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", required=True, metavar="FILE", help="where to write all")
    parser.add_argument("parts", nargs="+", metavar="LANE=RESULTS")
    args = parser.parse_args()

    ratios, rows = {}, []
    for number, part in enumerate(args.parts):
        lane, path = part.split("=", 1)
        with open(path, encoding="utf-8") as file:
            results = json.load(file)
        prefix = f"{lane}_" if number else ""
        ratios |= {prefix + name: n for name, n in results["ratios"].items()}
        rows += results["rows"]
    write(args.json, ratios, rows)


if __name__ == "__main__":
    main()
