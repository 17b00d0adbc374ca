#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Write the regions of sources and pages that are generated from kvtree.yaml.

A region begins after a line with "kvtree.yaml: NAME" and ends at one with "kvtree.yaml: end".
With --check, print the files that are not up to date instead. A file that lacks one of these lines
is an error. Needs PyYAML, but building does not need this: what it writes is in the tree.
"""

import os
import re
import sys
import textwrap

import yaml

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), '..'))
# By file: its regions, in order.
FILES = {
    'uapi/linux/kvtree.h': ['limits', 'op_flags', 'scan_flags', 'counters_enum', 'ioctls', 'sizes'],
    'uapi/kvtree_counters.h': ['counters_list'],
    'tools/cmd_stat.c': ['ratios'],
    'lib/go/abi.go': ['op_flags_go', 'scan_flags_go'],
    'lib/go/stat.go': ['counters_go'],
    'selftests/abi/bad_input.c': ['ioctls_test'],
    'selftests/fuzz/call.c': ['errnos_test'],
    'Documentation/abi.rst': ['limits_page', 'ioctls_page', 'op_flags_page', 'scan_flags_page',
                              'errnos_page'],
    'Documentation/stores-and-limits.rst': ['counters_page'],
    'Documentation/man/kvtree.4.in': ['ioctls_man', 'errnos_man'],
}
MARK = re.compile(r'kvtree\.yaml: (\w+)')
REGION = re.compile(r'(?<=\n)([^\n]*kvtree\.yaml: (?!end)(\w+)[^\n]*\n).*?'
                    r'(?=^[^\n]*kvtree\.yaml: end)', re.DOTALL | re.MULTILINE)


def line(*cells):
    """A line of C, from cells of text and the columns between them."""
    text = cells[0]
    for column, cell in zip(cells[1::2], cells[2::2], strict=True):
        text += '\t' * max(1, -(-(column - len(text.expandtabs())) // 8)) + cell
    return f'{text}\n'


def literal(text):
    """Names of C, in a page."""
    text = re.sub(r'(?<![`:])`(\w+)`', r'``\1``', text)
    names = r'E[A-Z0-9]{3,}|KVTREE_\w+|(?!io_uring)[a-z]+_[a-z_]+|CAP_\w+|\w+\(\)'
    return re.sub(rf'(?<![`\w])({names})(?![\w`])', r'``\1``', text)


def text_of(row):
    """What a page says of it."""
    return literal(row['doc'] + row.get('more', ''))


def man_text(row):
    """What a manual page says of it, with a line for each sentence."""
    text = re.sub(r':\w+:`(.+?) <[\w-]+>`', r'\1', row['doc'] + row.get('more', ''))
    text = re.sub(r'`([\w ]+)`', r'\\fI\1\\fR', text)
    text = re.sub(r'\b(E[A-Z0-9]{3,}|KVTREE_\w+|CAP_\w+)\b', r'\\fB\\%\1\\fR', text)
    return text[0].upper() + text[1:].replace('. ', '.\n') + '.\n'


def table(widths, header, rows):
    """A table for a page, with a line for each row."""
    lines = [f':widths: {widths}', ':delim: |', '', *(' | '.join(row) for row in rows)]
    lines = '\n'.join(f'   {line}'.rstrip() for line in [f':header: {header}', *lines])
    return f'\n.. csv-table::\n{lines}\n\n'


def counters_enum(spec):
    return ''.join(line(f'\tKVTREE_STAT_{c["name"].upper()},', 40,
                        f'/* {"now: " if c.get("now") else ""}{c["doc"]} */')
                   for c in spec['counters'])


def counters_list(spec):
    return ''.join(f'KVT_COUNTER("{c["name"]}", {c.get("now", 0):d}, "{c["doc"]}"),\n'
                   for c in spec['counters'])


def counters_go(spec):
    return ''.join(f'\t{{Name: "{c["name"]}", Text: "{c["doc"]}"'
                   f'{", Now: true" if c.get("now") else ""}}},\n' for c in spec['counters'])


def counters_page(spec):
    rows = [(f'``{c["name"]}``', 'now' if c.get('now') else 'count',
             text_of(c)) for c in spec['counters']]
    rows += [(f'``{r["name"]}``', 'ratio', f'``{r["of"]}`` / ``{r["by"]}``')
             for r in spec['ratios']]
    return table('22 10 68', 'Counter | Kind | Meaning', rows)


def ratios(spec):
    return ''.join(f'\t{{ "{r["name"]}", "now: {r["of"]} / {r["by"]}",\n'
                   f'\t  KVTREE_STAT_{r["of"].upper()}, KVTREE_STAT_{r["by"].upper()} }},\n'
                   for r in spec['ratios'])


def limits(spec):
    return ''.join(line(f'#define KVTREE_{limit["name"]}', 32, limit['value'], 48,
                        f'/* {limit["doc"]} */')
                   for limit in spec['limits'])


def limits_page(spec):
    def number(value):
        factor, _, shift = value.strip('()').replace('u', '').partition(' << ')
        return str(int(factor) << int(shift or 0))

    return table('30 15 35 20', 'Constant | Value | Limits | Above it',
                 [(f'``KVTREE_{limit["name"]}``', number(limit['value']), text_of(limit),
                   literal(limit['above'])) for limit in spec['limits']])


def flags(prefix, rows):
    return ''.join(line(f'#define {prefix}_{flag["name"]}', 32, f'(1u << {bit})', 48, '/* ' +
                        (f'{flag["with"]}: ' if 'with' in flag else '') + flag['doc'] + ' */')
                   for bit, flag in enumerate(rows))


def op_flags(spec):
    return flags('KVTREE_F', spec['op_flags'])


def scan_flags(spec):
    return flags('KVTREE_SCAN', spec['scan_flags'])


def flags_go(prefix, rows):
    """Aligned as gofmt does."""
    names = [prefix + flag['name'].title().replace('_', '') for flag in rows]
    return ''.join(f'\t{name:{max(map(len, names))}} = 1 << {bit}\n'
                   for bit, name in enumerate(names))


def op_flags_go(spec):
    return flags_go('f', spec['op_flags'])


def scan_flags_go(spec):
    return flags_go('scan', spec['scan_flags'])


def op_flags_page(spec):
    return table('30 25 45', 'Flag | With | Meaning',
                 [(f'``KVTREE_F_{flag["name"]}``', flag['with'], text_of(flag))
                  for flag in spec['op_flags']])


def scan_flags_page(spec):
    return table('30 70', 'Flag | Meaning',
                 [(f'``KVTREE_SCAN_{flag["name"]}``', text_of(flag))
                  for flag in spec['scan_flags']])


def ioctls(spec):
    return ''.join(line(f'#define KVTREE_IOC_{c["name"]}', 40,
                        f"_IO{c['dir']}('K', {c['nr']:#x}, struct kvtree_{c['struct']})")
                   for c in spec['ioctls'])


def ioctls_test(spec):
    return ''.join(f'\t{{ KVTREE_IOC_{c["name"]}, KVTREE_{c["struct"].upper()}_SIZE_VER0 }},\n'
                   for c in spec['ioctls'])


def sizes(spec):
    return ''.join(line(f'#define KVTREE_{name.upper()}_SIZE_VER0', 40, f'{size}u')
                   for name, size in {c['struct']: c['size'] for c in spec['ioctls']}.items())


def ioctls_page(spec):
    return table('28 28 8 36', 'ioctl | Structure | Bytes | Does',
                 [(f'``KVTREE_IOC_{c["name"]}``', f'``struct kvtree_{c["struct"]}``',
                   str(c['size']), c['doc']) for c in spec['ioctls']])


def errnos_page(spec):
    return table('16 44 40', 'errno | Meaning | Comes from',
                 [(f'``{e["name"]}``', text_of(e), literal(e['from'])) for e in spec['errnos']])


def errnos_test(spec):
    names = ', '.join(e['name'] for e in spec['errnos'])
    return textwrap.indent(textwrap.fill(f'{names},', 84), '\t\t') + '\n'


def ioctls_man(spec):
    return ''.join(f'.TP\n.BR KVTREE_IOC_{c["name"]} " (\\fIstruct kvtree_{c["struct"]}\\fR)"\n' +
                   man_text(c) for c in spec['ioctls'])


def errnos_man(spec):
    """Those of calls."""
    return ''.join(f'.TP\n.B {e["name"]}\n{man_text(e)}' for e in spec['errnos']
                   if not e['from'].startswith('result'))


def regenerate(spec, text, regions):
    """The text with its regions made from spec; None if they are not these, in this order."""
    if MARK.findall(text) != [mark for name in regions for mark in (name, 'end')]:
        return None
    return REGION.sub(lambda found: found[1] + globals()[found[2]](spec), text)


def main():
    """Return 0, or 1 if a file lacks a mark."""
    lost = False
    with open(os.path.join(TOP, 'Documentation', 'kvtree.yaml'), encoding='utf-8') as f:
        spec = yaml.safe_load(f)
    for name, regions in FILES.items():
        path = os.path.join(TOP, name)
        with open(path, encoding='utf-8') as f:
            old = f.read()
        new = regenerate(spec, old, regions)
        if new is None:
            print(f'{name}: must have these regions, each with its end: {", ".join(regions)}')
            lost = True
        elif new != old and sys.argv[1:] == ['--check']:
            print(f'{name}: run Documentation/regen.py')
        elif new != old:
            with open(path, 'w', encoding='utf-8') as f:
                f.write(new)
    return int(lost)


if __name__ == '__main__':
    sys.exit(main())
