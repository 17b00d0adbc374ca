# SPDX-License-Identifier: LGPL-2.1-only
"""The compiled part; everything else is in pyproject.toml."""

import tempfile

from setuptools import setup

# Not in the tree: the next build would reuse what was compiled for another library, and
# install files that no longer exist.
with tempfile.TemporaryDirectory(prefix='kvtree-python-') as build:
    setup(
        cffi_modules=['kvtree_build.py:ffi'],
        options={
            'build': {'build_base': build},
            # One build serves every CPython from here on.
            'bdist_wheel': {'py_limited_api': 'cp311'},
        },
    )
