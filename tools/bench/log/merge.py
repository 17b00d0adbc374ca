#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Put together what bench-log has measured in several lanes.

merge.py --json FILE LANE=RESULTS...

All rows are kept, which say themselves where they were measured. Ratios of the first
lane keep their names; those of the others begin with the lane's.
"""

import argparse
import json


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", required=True, metavar="FILE", help="where to write all")
    parser.add_argument("parts", nargs="+", metavar="LANE=RESULTS")
    args = parser.parse_args()

    merged = {"ratios": {}, "rows": []}
    for number, part in enumerate(args.parts):
        lane, path = part.split("=", 1)
        with open(path, encoding="utf-8") as file:
            results = json.load(file)
        prefix = f"{lane}_" if number else ""
        merged["ratios"] |= {prefix + name: n for name, n in results["ratios"].items()}
        merged["rows"] += results["rows"]
    with open(args.json, "w", encoding="utf-8") as file:
        json.dump(merged, file, indent=2)
        file.write("\n")


if __name__ == "__main__":
    main()
