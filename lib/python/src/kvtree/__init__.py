# SPDX-License-Identifier: LGPL-2.1-only
"""kvtree: the ordered key-value index in the Linux kernel, as a Python mapping.

>>> import kvtree
>>> store = kvtree.Store()
>>> store[b'hello'] = b'world'
>>> store.get(b'hello')
b'world'
>>> [key for key in store.keys(prefix=b'h')]
[b'hello']
>>> store.close()

Store is a session on a store, Cursor goes through its records, Batch executes many
operations in one system call, and Ring keeps many in progress. create_store(),
set_store(), destroy_store() and stores() manage stores as a whole; attach(), detach()
and probe() manage the devices of durable stores. Errors are exceptions of the
class Error.

The package calls libkvtree; Documentation/python.rst is its page.
"""

from importlib.metadata import version as _version

from kvtree._admin import (
    DeviceInfo,
    ModuleInfo,
    StoreInfo,
    destroy_store,
    detach,
    info,
    probe,
    set_store,
    stores,
)
from kvtree._batch import Batch
from kvtree._create import attach, create_store
from kvtree._cursor import Cursor
from kvtree._errors import (
    AccessDenied,
    Canceled,
    Error,
    InvalidArgument,
    KeyExists,
    LimitReached,
    NotFound,
    StoreGone,
    TooLong,
    VersionMismatch,
)
from kvtree._result import Result
from kvtree._ring import Operation, Ring
from kvtree._store import Store

__version__ = _version('kvtree')

__all__ = [
    'AccessDenied',
    'Batch',
    'Canceled',
    'Cursor',
    'DeviceInfo',
    'Error',
    'InvalidArgument',
    'KeyExists',
    'LimitReached',
    'ModuleInfo',
    'NotFound',
    'Operation',
    'Result',
    'Ring',
    'Store',
    'StoreGone',
    'StoreInfo',
    'TooLong',
    'VersionMismatch',
    'attach',
    'create_store',
    'destroy_store',
    'detach',
    'info',
    'probe',
    'set_store',
    'stores',
]
