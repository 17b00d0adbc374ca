#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Keep runs of benchmarks in Documentation/results, and fill the tables of results.rst with them.

keep NAME writes the results of a benchmark to Documentation/results/DATE-NAME.json, without single
rounds, and with the machine and what else ran on it. fill writes the figures of the run that is
named above each table into its cells: those of workloads (rows) and systems (columns), with one
thread unless the row or the column says more, and ratios in the column "Measured".
"""

import argparse
import datetime
import json
import os
import re
import subprocess

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), '..', '..'))
PAGE = os.path.join(TOP, 'Documentation', 'results.rst')
RUNS = os.path.join(TOP, 'Documentation', 'results')
KEPT = ('workload', 'system', 'lane', 'engine', 'key_size', 'threads', 'unit',
        'median', 'min', 'max', 'bytes_per_key')
RATES = {'operations/s', 'pairs/s'}
# What rows may share, and its name in the head.
HEAD = {'keys': 'keys', 'runs': 'rounds', 'pages': 'pages'}
# As rows and columns say it.
THREADS = {'one thread': 1, 'two threads': 2}


def contents(*path):
    with open(os.path.join(*path), encoding='utf-8') as file:
        return file.read()


def run_of(name):
    return json.loads(contents(RUNS, f'{name}.json'))


def decimals(number):
    """How many decimals of a number are kept and shown."""
    return 2 if number < 100 else 1 if number < 1000 else 0


def shortened(number):
    """With about three digits."""
    if not isinstance(number, float):
        return number
    return round(number, decimals(number) or None)


def shown(number):
    return f'{number:.{decimals(number)}f}'


def shared(rows, key):
    """What all rows have; None if they differ."""
    values = {row.get(key) for row in rows}
    return values.pop() if len(values) == 1 else None


def kept_row(row, own):
    """A row as it is kept, with what not all rows share. Only rates are in the run's unit."""
    rate = row.get('unit') in RATES
    kept = {key: row[key] for key in (*KEPT, *own) if row.get(key) is not None}
    if rate:
        del kept['unit']
    else:
        kept |= {key: value for key, value in row.items()
                 if isinstance(value, (int, float)) and key not in HEAD}
    if isinstance(kept.get('bytes_per_key'), dict):
        kept['bytes_per_key'] = round(kept['bytes_per_key']['all'], 1)
    for name, count in row.get('exchanges', {}).items():
        kept[f'{name}_lost_percent'] = round(count['lost_percent'], 4)
    for key in ('median', 'min', 'max'):
        if key in kept:
            kept[key] = shortened(kept[key] / 1e6 if rate else kept[key])
    return kept


def machine():
    info = contents('/proc/cpuinfo')
    model = re.search(r'model name\s*: (.*)', info)
    kind = 'virtual machine, ' if re.search(r'^flags.* hypervisor', info, re.MULTILINE) else ''
    try:
        cache = contents('/sys/devices/system/cpu/cpu0/cache/index3/size').strip()
        cache = f', {int(cache[:-1]) >> 10} MiB of L3 cache'
    except (OSError, ValueError):
        cache = ''
    return f'{kind}{os.cpu_count()} CPUs ({model[1] if model else os.uname().machine}{cache})'


def kept(results, args):
    """A run as it is kept."""
    rows = results['rows']
    commit = subprocess.run(['git', '-C', TOP, 'rev-parse', '--short', 'HEAD'], check=True,
                            capture_output=True, text=True).stdout.strip()
    head = {
        'date': f'{datetime.date.today()}', 'benchmark': args.benchmark,
        'machine': args.machine or machine(), 'load': args.load,
        **{name: shared(rows, key) for key, name in HEAD.items()},
        'unit': args.unit if RATES & {row.get('unit') for row in rows} else None,
        'recorded_by': commit,
        'ratios': {name: shortened(ratio) for name, ratio in results['ratios'].items()},
    }
    head = {name: value for name, value in head.items() if value is not None}
    own = [key for key, name in HEAD.items() if name not in head]
    lines = ',\n'.join(f'  {json.dumps(kept_row(row, own))}' for row in rows)
    return f'{json.dumps(head, indent=1)[:-2]},\n "rows": [\n{lines}\n ]\n}}\n'


def tables(page):
    """Simple tables of a page: the paragraph above, the text, and the cells of all lines."""
    blocks = re.split(r'\n\n+', page)
    for above, block in zip(blocks, blocks[1:]):
        rule, *lines = block.splitlines()
        if not re.fullmatch(r'=+(  =+)+', rule):
            continue
        places = [slice(*column.span()) for column in re.finditer(r'=+', rule)]
        places[-1] = slice(places[-1].start, None)
        yield above, block, [[line[place].strip() for place in places]
                             for line in lines if not line.startswith('=')]


def named(text):
    """The runs that a text names."""
    return re.findall(r'``(\d{4}-\d\d-\d\d-[\w-]+)``', text)


def laid_out(cells):
    widths = [max(map(len, column)) for column in zip(*cells)]
    rule = '  '.join('=' * width for width in widths)
    lines = ['  '.join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
             for row in cells]
    return '\n'.join([rule, lines[0], rule, *lines[1:], rule])


def figures(text):
    return [float(number) for number in re.findall(r'\d+(?:\.\d+)?', text)]


def rows_of(run, label, column):
    """The rows of a workload and a system. A column for a number of threads is for any system."""
    workload, *threads = label.split(', ')
    workload = workload.strip('`')
    system = column
    if column.lower() in THREADS:
        threads, system = [column.lower()], None
    if not set(threads) <= set(THREADS):
        return []
    wanted = THREADS[threads[0]] if threads else 1
    return [row for row in run.get('rows', []) if row['workload'] == workload
            and system in (row['system'], None) and row.get('threads', 1) == wanted]


def cell_of(run, label, column, was):
    """The cell of a workload and a system, or of a ratio; as it was if the run has neither."""
    text = was
    found = rows_of(run, label, column)
    if len(found) > 1:
        raise SystemExit(f'several rows of the run are {label} of {column}')
    if column == 'Measured' and (name := label.strip('`')) in run.get('ratios', {}):
        text = f'{run["ratios"][name]:g}'
    for row in found:
        text = '{} ({} to {})'.format(*(shown(row[key]) for key in ('median', 'min', 'max')))
    return was if figures(text) == figures(was) else text


def filled(page):
    """A page with the figures of its runs."""
    for above, block, (head, *rows) in tables(page):
        if len(named(above)) != 1 or 'Run' in head:
            continue
        run = run_of(*named(above))
        for row in rows:
            row[1:] = [cell_of(run, row[0], *cell) for cell in zip(head[1:], row[1:])]
        page = page.replace(block, laid_out([head, *rows]))
    return page


def write(path, text):
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n', maxsplit=1)[0])
    commands = parser.add_subparsers(required=True, dest='command')
    keep = commands.add_parser('keep', help='keep the results of a benchmark')
    keep.add_argument('name', help='what was measured, in a word')
    keep.add_argument('--results', default='build/bench.json', metavar='FILE')
    keep.add_argument('--benchmark', required=True, help='the command that measured it')
    keep.add_argument('--unit', default='million operations per second',
                      help='of rates, default: "%(default)s"')
    keep.add_argument('--machine', help='default: what /proc and /sys say')
    keep.add_argument('--load', default='nothing else ran', help='default: "%(default)s"')
    commands.add_parser('fill', help='fill the tables of results.rst')
    args = parser.parse_args()

    if args.command == 'fill':
        write(PAGE, filled(contents(PAGE)))
    else:
        path = os.path.join(RUNS, f'{datetime.date.today()}-{args.name}.json')
        write(path, kept(json.loads(contents(args.results)), args))
        print(path)


if __name__ == '__main__':
    main()
