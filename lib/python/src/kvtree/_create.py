# SPDX-License-Identifier: LGPL-2.1-only
"""Creating stores: empty, or recovered from their devices."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from kvtree._admin import any_session, described_store, destroy_store, detach, stores
from kvtree._errors import Error, error, must
from kvtree._native import ffi, lib
from kvtree._store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable


def _id_of(name: str) -> int | None:
    """The id of the store with this name, or None."""
    return next((store.id for store in stores() if store.name == name), None)


def _opened(name: str, mode: Mode, undo: Callable[[str], None]) -> Store:
    """Open a store that was just created; if that fails, remove it again."""
    made = _id_of(name)
    try:
        return Store(name, mode)
    except BaseException:
        # Remove only this store, not a newer one of its name. Keep the first exception.
        with suppress(Error):
            if _id_of(name) == made:
                undo(name)
        raise


def create_store(name: str, *, mode: int = 0o600, uid: int | None = None,
                 gid: int | None = None, limit_bytes: int = 0, limit_keys: int = 0,
                 engine: str = '', page_size: int = 0) -> Store:
    """Create a store and open it, to read and to write; needs CAP_SYS_ADMIN.

    The name consists of letters, digits and "._-". `mode` is the permissions, as for a
    file; the owner is the caller unless `uid` and `gid` say otherwise. Limits of 0 mean
    no limit. `engine` is "masstree" or "bwtree"; the default is the module's choice.
    `page_size` is for engines with pages, 0 is their default. KeyExists if a store has
    this name. AccessDenied, and no store, if the caller may not open it: opening another
    user's store needs CAP_DAC_OVERRIDE.
    """
    args = ffi.new('struct kvtree_store_create *', described_store(
        name, mode, uid, gid, limit_bytes, limit_keys, engine, page_size))
    with any_session() as kv:
        must(lib.kvtree_store_create(kv, args, ffi.sizeof(args[0])), name)
    return _opened(name, 'rw', destroy_store)


def attach(name: str, *devices: str | os.PathLike[str], mode: int = 0o600,
           uid: int | None = None, gid: int | None = None, limit_bytes: int = 0,
           limit_keys: int = 0, engine: str = '', page_size: int = 0,
           sync: bool = False, read_only: bool = False, until: int = 0) -> Store:
    """Recover a durable store from its devices and open it; needs CAP_SYS_ADMIN.

    Name all devices of the store, in any order; "kvtree store format" prepares them.
    sync: every change waits until it is durable. read_only: write nothing to the
    devices; changes fail with EROFS. until: the epoch at the end of which to show the
    store, even if later data is damaged. The other arguments are as for create_store(),
    except that with read_only the store is opened for reading only. Returns when
    everything is recovered.
    """
    paths = [ffi.new('char[]', os.fsencode(device)) for device in devices]
    if not 0 < len(paths) <= lib.KVTREE_DEVICES_MAX:
        raise error(errno.EINVAL, f'{len(paths)} devices')
    pointers = ffi.new('uint64_t[]', [int(ffi.cast('uintptr_t', path)) for path in paths])
    store = ffi.new('struct kvtree_store_create *', described_store(
        name, mode, uid, gid, limit_bytes, limit_keys, engine, page_size))
    args = ffi.new('struct kvtree_store_attach *', {
        'store': int(ffi.cast('uintptr_t', store)), 'store_size': ffi.sizeof(store[0]),
        'devices': int(ffi.cast('uintptr_t', pointers)), 'nr_devices': len(paths),
        'flags': ((lib.KVTREE_ATTACH_SYNC if sync else 0) |
                  (lib.KVTREE_ATTACH_READ_ONLY if read_only else 0)),
        'until': until,
    })
    with any_session() as kv:
        must(lib.kvtree_store_attach(kv, args, ffi.sizeof(args[0])), name)
    return _opened(name, 'r' if read_only else 'rw', detach)
