# SPDX-License-Identifier: GPL-2.0
"""The declarations of the headers, and code of the scripts that compare pages with them."""

import os
import re

from ktap import Failure

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), '..', '..'))


def read(*path):
    with open(os.path.join(TOP, *path), encoding='utf-8') as f:
        return f.read()


def without_comments(source):
    return re.sub(r'/\*.*?\*/', '', source, flags=re.DOTALL)


def require(page, names):
    missing = [name for name in names
               if not re.search(rf'(?<![\w-]){re.escape(name)}(?!\w)', page)]
    if missing:
        raise Failure('not in the page: ' + ', '.join(missing))


def uapi_names():
    source = without_comments(read('uapi', 'linux', 'kvtree.h'))
    names = re.findall(r'#define (KVTREE_\w+)', source)
    names += re.findall(r'^\t(KVTREE_\w+)', source, re.MULTILINE)
    names += re.findall(r'^(?:struct|enum) (kvtree_\w+) \{', source, re.MULTILINE)
    return sorted(set(names))


def uapi_fields():
    source = without_comments(read('uapi', 'linux', 'kvtree.h'))
    fields = set()
    for body in re.findall(r'^struct kvtree_\w+ \{(.*?)^\};', source,
                           re.MULTILINE | re.DOTALL):
        fields.update(re.findall(r'(\w+)(?:\[\w+\])?;', body))
    return sorted(fields)


def lib_functions():
    source = read('lib', 'kvtree.h') + read('lib', 'kvtree_uring.h')
    return sorted(set(re.findall(r'\b(kvtree_\w+)\(', without_comments(source))))
