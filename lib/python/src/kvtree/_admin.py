# SPDX-License-Identifier: LGPL-2.1-only
"""Stores as a whole, and the module's description."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kvtree._errors import error, must
from kvtree._native import ffi, lib

if TYPE_CHECKING:
    from collections.abc import Iterator

_FEATURES = {
    'compat': lib.KVTREE_FEAT_COMPAT,
    'op': lib.KVTREE_FEAT_OP,
    'uring': lib.KVTREE_FEAT_URING,
    'uring_fixed': lib.KVTREE_FEAT_URING_FIXED,
    'uring_multishot': lib.KVTREE_FEAT_URING_MULTISHOT,
    'uring_iopoll': lib.KVTREE_FEAT_URING_IOPOLL,
    'bpf': lib.KVTREE_FEAT_BPF,
    'durable': lib.KVTREE_FEAT_DURABLE,
}

_OPERATIONS = {
    'nop': lib.KVTREE_OP_NOP,
    'get': lib.KVTREE_OP_GET,
    'put': lib.KVTREE_OP_PUT,
    'cas': lib.KVTREE_OP_CAS,
    'remove': lib.KVTREE_OP_REMOVE,
    'add': lib.KVTREE_OP_ADD,
    'scan': lib.KVTREE_OP_SCAN,
    'sync': lib.KVTREE_OP_SYNC,
}


@dataclass(frozen=True, slots=True)
class ModuleInfo:
    """The running module, as info() describes it."""

    version: str
    """The module's version."""
    library: str
    """libkvtree's version."""
    abi_version: int
    key_max: int
    """Maximum bytes in a key."""
    value_max: int
    """Maximum bytes in all columns of a value."""
    cols_max: int
    """Maximum columns in a value."""
    batch_max: int
    """Maximum operations in one system call; longer batches are split."""
    features: frozenset[str]
    """Optional features: "uring" and others, KVTREE_FEAT_* in lower case."""
    operations: frozenset[str]
    """Supported operations: "get", "put" and so on."""


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """A store, as stores() and Store.info() describe it."""

    id: int
    """Never 0, and never reused for another store."""
    name: str
    engine: str
    mode: int
    """Permissions, as for a file."""
    uid: int
    gid: int
    limit_bytes: int
    """Maximum memory in bytes; 0: no limit."""
    limit_keys: int
    """Maximum number of keys; 0: no limit."""
    keys: int
    """Number of keys."""
    bytes: int
    """Memory used, in bytes."""
    page_size: int
    """Page size in bytes at which the engine splits; 0: the engine has no pages."""
    durable: bool
    """It has devices."""
    sync: bool
    """Every change waits until it is durable."""
    attaching: bool
    """It is being recovered, and cannot be opened yet."""
    read_only: bool
    """It was attached read-only."""
    uuid: UUID | None
    """Identifies its devices; None if it has none, or is being recovered."""
    checkpointing: bool
    """A checkpoint is being written."""
    progress: int
    """How much of it is written, in percent, if it writes everything; otherwise 0."""


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A device of a durable store, as probe() describes it."""

    uuid: UUID
    """Of the store."""
    label: str
    """The name by which the store was attached the last time."""
    version: int
    """Of the format."""
    index: int
    """Which of the store's devices it is, from 0."""
    devices: int
    """Number of devices of the store."""
    open: bool
    """It is attached, or was when the machine stopped."""
    bytes: int
    """Bytes of the device that the store uses."""
    segment_bytes: int
    formatted: int
    """When it was formatted, in seconds since 1970."""
    checkpoint_records: int
    """Records of the last checkpoint on this device."""


@contextmanager
def any_session() -> Iterator[Any]:
    """Open a session for calls about stores as a whole."""
    made = ffi.new('struct kvtree **')
    must(lib.kvtree_open(ffi.NULL, lib.KVTREE_OPEN_READ, made))
    try:
        yield made[0]
    finally:
        lib.kvtree_close(made[0])


def _text(array: Any) -> str:
    return str(ffi.string(array).decode())


def module_info(kv: Any) -> ModuleInfo:
    """Describe the module of a session."""
    found = ffi.new('struct kvtree_info *')
    must(lib.kvtree_info(kv, found, ffi.sizeof(found[0])))
    return ModuleInfo(
        _text(found.version), _text(lib.kvtree_version()), found.abi_version,
        found.key_max, found.value_max, found.cols_max, found.batch_max,
        frozenset(name for name, bit in _FEATURES.items() if found.features & bit),
        frozenset(name for name, number in _OPERATIONS.items()
                  if found.ops >> number & 1))


def _described(found: Any) -> StoreInfo:
    return StoreInfo(found.id, _text(found.name), _text(found.engine), found.mode,
                     found.uid, found.gid, found.limit_bytes, found.limit_keys,
                     found.keys, found.bytes, found.page_size,
                     bool(found.flags & lib.KVTREE_STORE_DURABLE),
                     bool(found.flags & lib.KVTREE_STORE_SYNC),
                     bool(found.flags & lib.KVTREE_STORE_ATTACHING),
                     bool(found.flags & lib.KVTREE_STORE_READ_ONLY),
                     UUID(bytes=bytes(found.uuid)) if any(found.uuid) else None,
                     bool(found.flags & lib.KVTREE_STORE_CHECKPOINTING), found.progress)


def store_info(kv: Any) -> StoreInfo:
    """Describe the store of a session."""
    found = ffi.new('struct kvtree_store_info *')
    must(lib.kvtree_store_self(kv, found, ffi.sizeof(found[0])))
    return _described(found)


def info() -> ModuleInfo:
    """Describe the running module: version, limits, features."""
    with any_session() as kv:
        return module_info(kv)


def stores() -> list[StoreInfo]:
    """Describe all stores, oldest first. Needs no privilege."""
    found = ffi.new('struct kvtree_store_info *')
    listed = []
    with any_session() as kv:
        while (ret := lib.kvtree_store_next(kv, found, ffi.sizeof(found[0]))) == 0:
            listed.append(_described(found))
    if ret != -errno.ENOENT:
        raise error(ret)
    return listed


def name_of(name: str) -> bytes:
    """A store's name as the library wants it."""
    data = name.encode()
    if b'\0' in data:
        raise ValueError(f'the name {name!r} has a zero byte')
    return data


def described_store(name: str, mode: int, uid: int | None, gid: int | None,
                     limit_bytes: int, limit_keys: int, engine: str,
                     page_size: int) -> dict[str, Any]:
    """A struct kvtree_store_create."""
    data, engine_data = name_of(name), name_of(engine)
    if len(data) >= lib.KVTREE_NAME_MAX or len(engine_data) >= lib.KVTREE_ENGINE_MAX:
        raise error(errno.ENAMETOOLONG, name)
    return {
        'name': data, 'engine': engine_data, 'mode': mode,
        'uid': os.getuid() if uid is None else uid,
        'gid': os.getgid() if gid is None else gid,
        'limit_bytes': limit_bytes, 'limit_keys': limit_keys, 'page_size': page_size,
    }


def set_store(name: str, *, mode: int | None = None, uid: int | None = None,
              gid: int | None = None, limit_bytes: int | None = None,
              limit_keys: int | None = None) -> None:
    """Change settings of a store while it is used.

    Arguments of None change nothing; limits of 0 mean no limit. The store's owner may
    change the mode; everything else needs CAP_SYS_ADMIN. Mode and owner apply to sessions
    opened later. A store may hold more than its new limits: changes that need more space
    fail with LimitReached until enough is removed.
    """
    data = name_of(name)
    if len(data) >= lib.KVTREE_NAME_MAX:
        raise error(errno.ENAMETOOLONG, name)
    fields = {
        'mode': (mode, lib.KVTREE_SET_MODE),
        'uid': (uid, lib.KVTREE_SET_UID),
        'gid': (gid, lib.KVTREE_SET_GID),
        'limit_bytes': (limit_bytes, lib.KVTREE_SET_LIMIT_BYTES),
        'limit_keys': (limit_keys, lib.KVTREE_SET_LIMIT_KEYS),
    }
    given = {field: value for field, (value, _) in fields.items() if value is not None}
    args = ffi.new('struct kvtree_store_set *', {
        'name': data, 'set': sum(fields[field][1] for field in given), **given})
    with any_session() as kv:
        must(lib.kvtree_store_set(kv, args, ffi.sizeof(args[0])), name)


def destroy_store(name: str) -> None:
    """Destroy a store and everything in it; needs CAP_SYS_ADMIN.

    Sessions on it get StoreGone from then on.
    """
    with any_session() as kv:
        must(lib.kvtree_store_destroy(kv, name_of(name)), name)


def detach(name: str) -> None:
    """Make everything durable and release the store's devices; needs CAP_SYS_ADMIN.

    The devices keep the store. Sessions on it get StoreGone from then on. Error with
    EIO if the last changes could not be written.
    """
    with any_session() as kv:
        must(lib.kvtree_store_detach(kv, name_of(name)), name)


def probe(device: str | os.PathLike[str]) -> DeviceInfo:
    """Describe the durable store that a device belongs to; needs no module.

    Error with ENODATA if the device holds no store, with EBADMSG if it is damaged.
    """
    found = ffi.new('struct kvtree_device *')
    path = os.fsencode(device)
    must(lib.kvtree_probe(path, found, ffi.sizeof(found[0])), os.fsdecode(path))
    return DeviceInfo(
        UUID(bytes=bytes(found.uuid)), os.fsdecode(ffi.string(found.label)), found.version,
        found.index, found.nr_devices, bool(found.flags & lib.KVTREE_DEVICE_OPEN),
        found.bytes, found.segment_bytes, found.formatted, found.checkpoint_records)
