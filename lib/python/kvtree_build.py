# SPDX-License-Identifier: LGPL-2.1-only
"""Build kvtree._native: the calls of libkvtree.

cffi gets the declarations of <kvtree.h> and <linux/kvtree.h> from the compiler, which then
fills in the values of constants.

The library is looked for, in this order,

* under KVTREE_PREFIX, which is a prefix of "make install" or a source tree in
  which "make lib" was run;
* where pkg-config says;
* under /usr/local and /usr, if there is no pkg-config to ask;
* in the source tree around this file, if "make lib" was run there.

If there is none, the package contains the library, compiled from that tree.
"""

import os
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from cffi import FFI

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1]
USUAL = (Path('/usr/local'), Path('/usr'))

NOT_FOUND = """
libkvtree was not found. Install it ("make install" in the source tree of kvtree),
or install this package from the source tree, or name the prefix under which it is
installed with KVTREE_PREFIX=DIR.
"""


def is_tree(folder: Path) -> bool:
    """Whether it is kvtree's source tree, with the library built."""
    return (folder / 'lib/kvtree.h').exists() and (folder / 'lib/libkvtree.so').exists()


def is_prefix(folder: Path) -> bool:
    """Whether the library is installed there."""
    return (folder / 'include/kvtree.h').exists()


def under(folder: Path) -> dict[str, Any]:
    """Tell the compiler about a prefix or a tree."""
    if is_tree(folder):
        return flags([folder / 'lib', folder / 'uapi'], [folder / 'lib'])
    return flags([folder / 'include'], [folder / 'lib'])


def flags(include: list[Path], library: list[Path]) -> dict[str, Any]:
    """Arguments of set_source(); the loader is told where the library is, too."""
    return {
        'include_dirs': [str(path) for path in include],
        'library_dirs': [str(path) for path in library],
        'runtime_library_dirs': [str(path) for path in library],
        'libraries': ['kvtree'],
    }


def compiled_in(tree: Path) -> dict[str, Any]:
    """Compile the library of a tree into the package, as its lib/Makefile does.

    setuptools wants relative names of sources.
    """
    makefile = (tree / 'lib/Makefile').read_text()
    version = re.search(r'^VERSION\s*:=\s*(\S+)', makefile, re.MULTILINE)
    assert version
    return {
        'sources': [os.path.relpath(path, HERE)
                    for path in sorted((tree / 'lib').glob('*.c'))],
        'include_dirs': [str(tree / 'lib'), str(tree / 'uapi')],
        'define_macros': [('_GNU_SOURCE', '1'),
                          ('KVTREE_LIB_VERSION', f'"{version[1]}"')],
        'libraries': ['uring'],
    }


def pkg_config(option: str) -> list[Path] | None:
    """Folders that pkg-config names; None if there is no pkg-config, or no kvtree."""
    program = os.environ.get('PKG_CONFIG', 'pkg-config')
    try:
        done = subprocess.run([program, option, 'kvtree'], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return [Path(word[2:]) for word in shlex.split(done.stdout)]


def find() -> dict[str, Any]:
    """Find the library: see the top of this file."""
    prefix = os.environ.get('KVTREE_PREFIX')
    if prefix:
        folder = Path(prefix).resolve()
        if is_tree(folder) or is_prefix(folder):
            return under(folder)
        sys.exit(f'KVTREE_PREFIX={prefix}: no libkvtree there.\n{NOT_FOUND}')
    include = pkg_config('--cflags-only-I')
    library = pkg_config('--libs-only-L')
    if include is not None and library is not None:
        return flags(include, library)
    for folder in USUAL:
        if is_prefix(folder):
            return under(folder)
    if is_tree(TREE):
        return under(TREE)
    if (TREE / 'lib/kvtree.h').exists():
        return compiled_in(TREE)
    sys.exit(NOT_FOUND)


def declarations(include: list[str]) -> str:
    """What the headers declare, for cffi: "..." is for the compiler to fill in."""
    compiler = os.environ.get('CC') or sysconfig.get_config_var('CC') or 'cc'
    flags = f'{os.environ.get("CPPFLAGS", "")} {os.environ.get("CFLAGS", "")}'
    command = [*shlex.split(compiler), *(f'-I{path}' for path in include),
               *shlex.split(flags), '-E', '-dD']
    done = subprocess.run([*command, '-x', 'c', '-'], input='#include <kvtree.h>\n',
                          stdout=subprocess.PIPE, text=True, check=True)
    found = [f'typedef int... __{sign}{bits};' for sign in 'su' for bits in (8, 16, 32, 64)]
    ours = False
    # cffi takes no inline functions.
    text = re.sub(r'^static inline .*?^}$', '', done.stdout, flags=re.DOTALL | re.MULTILINE)
    for line in text.splitlines():
        if marker := re.match(r'# \d+ "(.*?)"', line):
            ours = marker[1].endswith('/kvtree.h')
        elif constant := re.match(r'#define (KVTREE_\w+)[ \t]+\(?\d', line):
            found.append(f'#define {constant[1]} ...')
        elif ours and not re.match('#|_Static_assert', line):
            found.append(line)
    return '\n'.join([*found, 'void free(void *p);'])


native = find()
ffi = FFI()
ffi.cdef(declarations(native['include_dirs']))
ffi.set_source('kvtree._native', '#include <stdlib.h>\n#include <kvtree.h>\n', **native)

if __name__ == '__main__':
    ffi.compile(verbose=True)
