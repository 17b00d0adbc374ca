#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Apply what selftests/broken changes, wherever its place has moved to.

A patch there locates its lines by the function that contains them, not by line numbers and
context. So it still fits when other lines change, and it is an error if its own lines do.
After its head (broken.sh) come files and changes:

    --- kmod/core/prepare.c
    @@ writer_add
             w->before = get_unaligned_le64(col.data);
    -        w->version = 0;
    +        w->version = 1;

After @@ comes the name of the function, structure, array or macro, which must be unique in the
file; or nothing, outside of these. The lines with a blank or a minus must occur exactly once.
Of several changes, each is looked for in the file without the others.

    broken.py apply PATCH TREE    change the tree
    broken.py check PATCH...      print those that do not fit this tree, or name no test of it
    broken.py make < DIFF         convert the output of "git diff" to such changes
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import filter as matching
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
# Where tests are, and the files there that may have some.
TESTED = ('selftests', 'kmod/tests', 'lib', 'tools')
SOURCES = {'.c', '.h', '.go', '.py', '.sh', ''}
# Lines that say nothing of where they are.
PLAIN = re.compile(r'\s*(?:[{}();]*|return [-\w]*;|(break|continue);|(} )?else( \{)?|/?\*/?)\s*')


class Misfit(Exception):
    """What does not fit, and why."""


@dataclass
class Change:
    """Lines of an item: those before and those after, in a row."""

    item: str
    lines: list[str] = field(default_factory=list)

    def side(self, sign: str) -> list[str]:
        return [line[1:] for line in self.lines if line[0] in ' ' + sign]

    @property
    def before(self) -> list[str]:
        return self.side('-')

    @property
    def after(self) -> list[str]:
        return self.side('+')


def end_of_indented(lines: list[str], at: int) -> int:
    """The end of a Python block: before what is not further to the right."""
    depth = len(lines[at]) - len(lines[at].lstrip())
    last = at
    for i in range(at + 1, len(lines)):
        text = lines[i].strip()
        if text and len(lines[i]) - len(lines[i].lstrip()) <= depth and text[0] not in ')]}':
            break
        if text:
            last = i
    return last + 1


def end_of_braces(lines: list[str], at: int) -> int:
    """The end of an item of C, Go or the shell, or `at` if it has no body."""
    for i in range(at, len(lines)):
        if re.search(r'\{.*\}[\s;]*$', lines[i]) and i == at:
            return at + 1
        if lines[i].startswith('{') or lines[i].rstrip().endswith('{'):
            break
        if lines[i].rstrip().endswith(';') or not lines[i].strip():
            return at
    else:
        return at
    for j in range(i, len(lines)):
        if lines[j].startswith('}'):
            return j + 1
    return at


def end_of_macro(lines: list[str], at: int) -> int:
    end = at
    while end < len(lines) and lines[end].endswith('\\'):
        end += 1
    return min(end + 1, len(lines))


def items(lines: list[str], python: bool) -> list[tuple[str, int, int]]:
    """Names of functions and the like, and the lines that they go from and to."""
    found = []
    for at, line in enumerate(lines):
        if python:
            named = re.match(r'\s*(?:async )?(?:def|class) (\w+)', line)
            end = end_of_indented(lines, at) if named else at
        elif named := re.match(r'#\s*define (\w+)', line):
            end = end_of_macro(lines, at)
        elif re.match(r'[A-Za-z_]', line) and not re.match(r'(?:\w+:|case |default:)', line):
            named = (re.match(r'func (?:\(.*?\) )?(\w+)', line) or
                     re.match(r'TEST\w*\((?:\w+, )?(\w+)\)', line) or
                     re.match(r'[^(={]*?(\w+)(?:\[[^]]*\])*\s*(?:\(|=|\{|$)', line))
            end = end_of_braces(lines, at)
        else:
            continue
        if named and end > at:
            found.append((named[1], at, end))
    return found


def span(lines: list[str], path: str, item: str) -> tuple[int, int]:
    """The lines of an item."""
    if not item:
        return 0, len(lines)
    spans = [(start, end) for name, start, end in items(lines, path.endswith('.py'))
             if name == item]
    if len(spans) != 1:
        raise Misfit(f'{path}: there are {len(spans)} of {item}')
    return spans[0]


def places(lines: list[str], start: int, end: int, wanted: list[str]) -> list[int]:
    return [at for at in range(start, end - len(wanted) + 1)
            if lines[at:at + len(wanted)] == wanted]


def place(lines: list[str], path: str, change: Change) -> int:
    start, end = span(lines, path, change.item)
    found = places(lines, start, end, change.before)
    if not change.before or len(found) != 1:
        first = change.before[0].strip() if change.before else ''
        raise Misfit(f'{path}: {change.item or "the file"}: '
                     f'{len(found)} times there: {first}')
    return found[0]


def changed(lines: list[str], path: str, changes: list[Change]) -> list[str]:
    """A file with its changes."""
    found = sorted(((place(lines, path, change), change) for change in changes),
                   key=lambda pair: pair[0])
    result, at = [], 0
    for start, change in found:
        if start < at:
            raise Misfit(f'{path}: {change.item}: two changes of one line')
        result += lines[at:start] + change.after
        at = start + len(change.before)
    return result + lines[at:]


def parse(text: str, name: str) -> dict[str, list[Change]]:
    """The changes of a patch, by file."""
    files: dict[str, list[Change]] = {}
    here: list[Change] | None = None
    for line in text.split('\n'):
        if line.startswith('--- '):
            here = files.setdefault(line[4:], [])
        elif here is None:
            continue
        elif line.startswith('@@'):
            here.append(Change(line[2:].strip()))
        elif here and (not line or line[0] in ' -+'):
            here[-1].lines.append(line or ' ')
        elif not line:
            continue
        else:
            raise Misfit(f'{name}: what is this: {line}')
    for changes in files.values():
        for change in changes:
            # Empty lines at the end separate it from what follows.
            while change.lines and change.lines[-1] == ' ':
                change.lines.pop()
    if not any(files.values()):
        raise Misfit(f'{name}: it changes nothing')
    return files


def apply(patch: Path, tree: Path, write: bool) -> None:
    for name, changes in parse(patch.read_text(), patch.name).items():
        path = tree / name
        if not path.is_file():
            raise Misfit(f'{name}: there is no such file')
        result = '\n'.join(changed(path.read_text().split('\n'), name, changes))
        if write:
            path.write_text(result)


def words_of_tests(tree: Path) -> set[str]:
    """All words of the sources of tests, with the names of tests among them."""
    words: set[str] = set()
    for path in (path for part in TESTED for path in (tree / part).rglob('*')):
        if path.suffix in SOURCES and path.is_file():
            text = path.read_text(errors='replace')
            # Programs that were built there may be older.
            if '\0' not in text:
                words.update(re.findall(r'\w+', text))
    return words


def missing_tests(patch: str, words: Iterable[str]) -> list[str]:
    """Names of tests that a patch selects (Tests: SUITE.NAME) or expects to fail, and that no
    test has."""
    head = dict(re.findall('^(Tests|Expect):(.*)', patch, re.MULTILINE))
    names = [name for test in head.get('Tests', '').split() for name in test.split('.')[1:]]
    # Shorter ones may be functions of the kernel.
    names += [f'*{name}*' for name in re.findall(r'[a-zA-Z0-9]+(?:_[a-zA-Z0-9]+){3,}',
                                                 head.get('Expect', ''))]
    # Python's tests are listed without the beginning of their names.
    return [name for name in names
            if not matching(words, name) and not matching(words, f'test_{name}')]


def check(patch: Path, words: Iterable[str]) -> None:
    apply(patch, TOP, write=False)
    missing = missing_tests(patch.read_text(), words)
    if missing:
        raise Misfit(f'no such test: {" ".join(missing)}')


def item_of(lines: list[str], path: str, first: int, last: int) -> str:
    """The name of the smallest item that has these lines, if the file has one such."""
    known = items(lines, path.endswith('.py'))
    for name, _, _ in sorted((entry for entry in known if entry[1] <= first and last <= entry[2]),
                             key=lambda entry: entry[2] - entry[1]):
        if sum(entry[0] == name for entry in known) == 1:
            return name
    return ''


def anchored(lines: list[str], path: str, first: int, after: list[str], last: int,
             low: int, high: int) -> Change | None:
    """A change of the lines from first to before last, with as few around it as tell where it is.

    Those are from low to before high. None if they are not enough.
    """
    def told(up: int, down: int) -> bool:
        before = lines[first - up:last + down]
        return (not all(PLAIN.fullmatch(line) for line in before) and
                len(places(lines, start, end, before)) == 1)

    item = item_of(lines, path, first, last)
    start, end = span(lines, path, item)
    low, high = max(low, start), min(high, end)
    for around in range(high - low - (last - first) + 1):
        # A line before it rather than one after it.
        for up in range(around, -1, -1):
            down = around - up
            if first - up >= low and last + down <= high and told(up, down):
                return Change(item, [' ' + line for line in lines[first - up:first]] +
                              ['-' + line for line in lines[first:last]] +
                              ['+' + line for line in after] +
                              [' ' + line for line in lines[last:last + down]])
    return None


def runs(text: list[str]) -> list[tuple[int, int, list[str]]]:
    """Of a hunk's lines: which of the old ones are replaced, and by what."""
    found: list[tuple[int, int, list[str]]] = []
    at, fresh = 0, True
    for line in text:
        if line[0] == ' ':
            at, fresh = at + 1, True
            continue
        if fresh:
            found.append((at, at, []))
            fresh = False
        start, end, after = found[-1]
        if line[0] == '-':
            at += 1
            found[-1] = (start, at, after)
        else:
            after.append(line[1:])
    return found


def make_file(path: str, hunks: list[tuple[int, list[str]]], lines: list[str]) -> list[Change]:
    """The changes of a file, from the first lines and the lines of a diff's hunks."""
    edits = [(first + start, first + end, after) for first, text in hunks
             for start, end, after in runs(text)]
    changes = []
    low = 0
    while edits:
        first, last, after = edits.pop(0)
        high = edits[0][0] if edits else len(lines)
        change = anchored(lines, path, first, after, last, low, high)
        if change:
            changes.append(change)
            low = last
        elif edits:
            # Together with the next one.
            start, end, more = edits.pop(0)
            edits.insert(0, (first, end, after + lines[last:start] + more))
        else:
            raise Misfit(f'{path}: what is around line {first + 1} does not tell where it is')
    return changes


def make(diff: str, tree: Path) -> str:
    """A diff of a tree, as changes: the tree is as it was before."""
    printed = []
    for part in re.split(r'^(?=--- )', diff, flags=re.MULTILINE)[1:]:
        path = re.sub(r'^a/', '', part.split('\n')[0][4:].split('\t')[0])
        hunks: list[tuple[int, list[str]]] = []
        for line in part.split('\n')[2:]:
            if begun := re.match(r'@@ -(\d+)', line):
                hunks.append((int(begun[1]) - 1, []))
            elif line.startswith(('diff ', 'index ')):
                break
            elif hunks and (not line or line[0] in ' +-'):
                # Editors like to take away the blank of an empty line.
                hunks[-1][1].append(line or ' ')
        printed.append(f'--- {path}')
        for change in make_file(path, hunks, (tree / path).read_text().split('\n')):
            printed += [f'@@ {change.item}'.rstrip(),
                        *('' if line == ' ' else line for line in change.lines)]
    return '\n'.join(printed) + '\n'


def main() -> int:
    match sys.argv[1:]:
        case ['apply', patch, tree]:
            apply(Path(patch), Path(tree), write=True)
        case ['check', *patches]:
            words = words_of_tests(TOP)
            for patch in patches:
                try:
                    check(Path(patch), words)
                except Misfit as misfit:
                    print(f'{patch}: {misfit}')
        case ['make']:
            print(make(sys.stdin.read(), TOP), end='')
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == '__main__':
    try:
        sys.exit(main())
    except Misfit as misfit:
        sys.exit(str(misfit))
