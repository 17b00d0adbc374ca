# SPDX-License-Identifier: LGPL-2.1-only
"""The compiled part; everything else is in pyproject.toml."""

from setuptools import setup

setup(
    cffi_modules=['kvtree_build.py:ffi'],
    # One build serves every CPython from here on.
    options={'bdist_wheel': {'py_limited_api': 'cp311'}},
)
