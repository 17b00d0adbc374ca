#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Write the regions of sources and pages that are generated from kvtree.yaml.

A region begins after a line with "kvtree.yaml: NAME" and ends at one with "kvtree.yaml: end".
With --check, print the files that are not up to date instead. Needs PyYAML, but building does
not need this: what it writes is in the tree.
"""

import os
import re
import sys

import yaml

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), '..'))
FILES = ('uapi/linux/kvtree.h', 'uapi/kvtree_counters.h', 'tools/cmd_stat.c', 'lib/go/stat.go',
         'Documentation/stores-and-limits.rst')
REGION = re.compile(r'(?<=\n)([^\n]*kvtree\.yaml: (?!end)(\w+)[^\n]*\n).*?'
                    r'(?=^[^\n]*kvtree\.yaml: end)', re.DOTALL | re.MULTILINE)


def comment(declaration, text, column=40):
    """A line of C with a comment at a column, or at the next tab."""
    width = len(declaration.expandtabs())
    return f'{declaration}{chr(9) * max(1, -(-(column - width) // 8))}/* {text} */\n'


def literal(text):
    """Names of C, in a page."""
    names = r'E[A-Z0-9]{3,}|(?!io_uring)[a-z]+_[a-z_]+'
    return re.sub(rf'(?<![`\w])({names})(?![\w`])', r'``\1``', text)


def table(widths, header, rows):
    """A table for a page, with a line for each row."""
    lines = [f':widths: {widths}', ':delim: |', '', *(' | '.join(row) for row in rows)]
    lines = '\n'.join(f'   {line}'.rstrip() for line in [f':header: {header}', *lines])
    return f'\n.. csv-table::\n{lines}\n\n'


def counters_enum(spec):
    return ''.join(comment(f'\tKVTREE_STAT_{c["name"].upper()},',
                           ('now: ' if c.get('now') else '') + c['doc'])
                   for c in spec['counters'])


def counters_list(spec):
    return ''.join(f'KVT_COUNTER("{c["name"]}", {c.get("now", 0):d}, "{c["doc"]}"),\n'
                   for c in spec['counters'])


def counters_go(spec):
    return ''.join(f'\t{{Name: "{c["name"]}", Text: "{c["doc"]}"'
                   f'{", Now: true" if c.get("now") else ""}}},\n' for c in spec['counters'])


def counters_page(spec):
    rows = [(f'``{c["name"]}``', 'now' if c.get('now') else 'count',
             literal(c['doc'] + c.get('more', ''))) for c in spec['counters']]
    rows += [(f'``{r["name"]}``', 'ratio', f'``{r["of"]}`` / ``{r["by"]}``')
             for r in spec['ratios']]
    return table('22 10 68', 'Counter | Kind | Meaning', rows)


def ratios(spec):
    return ''.join(f'\t{{ "{r["name"]}", "now: {r["of"]} / {r["by"]}",\n'
                   f'\t  KVTREE_STAT_{r["of"].upper()}, KVTREE_STAT_{r["by"].upper()} }},\n'
                   for r in spec['ratios'])


def main():
    with open(os.path.join(TOP, 'Documentation', 'kvtree.yaml'), encoding='utf-8') as f:
        spec = yaml.safe_load(f)
    for name in FILES:
        path = os.path.join(TOP, name)
        with open(path, encoding='utf-8') as f:
            old = f.read()
        new = REGION.sub(lambda found: found[1] + globals()[found[2]](spec), old)
        if new != old and sys.argv[1:] == ['--check']:
            print(f'{name}: run Documentation/regen.py')
        elif new != old:
            with open(path, 'w', encoding='utf-8') as f:
                f.write(new)


if __name__ == '__main__':
    main()
