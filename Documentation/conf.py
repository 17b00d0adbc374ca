# SPDX-License-Identifier: GPL-2.0
"""Sphinx configuration. "make docs" renders this folder to build/docs."""

import importlib.util
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, 'sphinx'))


def library_version():
    with open(os.path.join(HERE, '..', 'lib', 'Makefile'), encoding='utf-8') as f:
        return re.search(r'^VERSION\s*:=\s*(\S+)', f.read(), re.MULTILINE)[1]


project = 'kvtree'
author = 'the kvtree authors'
release = library_version()
version = release

extensions = ['kerneldoc']
exclude_patterns = ['sphinx']
primary_domain = 'c'
highlight_language = 'none'
smartquotes = False

html_theme = 'alabaster'
if importlib.util.find_spec('sphinx_rtd_theme'):
    html_theme = 'sphinx_rtd_theme'
html_show_copyright = False
