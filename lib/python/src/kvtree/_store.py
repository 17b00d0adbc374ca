# SPDX-License-Identifier: LGPL-2.1-only
"""A session on a store, as a mapping."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

from kvtree._admin import ModuleInfo, StoreInfo, module_info, name_of, store_info
from kvtree._args import (
    ColumnIds,
    Columns,
    buffer,
    column_array,
    column_dict,
    column_ids,
    flags_of,
    key_of,
    slice_of,
)
from kvtree._batch import Batch, new_list
from kvtree._cursor import Cursor, Range
from kvtree._errors import KeyExists, VersionMismatch, error, must
from kvtree._native import ffi, lib
from kvtree._ring import Ring
from kvtree._views import StoreItems, StoreKeys, StoreSlice, StoreValues

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer

D = TypeVar('D')

Mode = Literal['r', 'w', 'rw']

# Operations per call, if there may be any number of them.
_CHUNK = 1024
_CHUNK_BYTES = 1 << 20

_MISSING: Any = object()


class Store(MutableMapping[bytes, bytes]):
    """An open store: a mutable mapping of bytes to bytes, in the order of its keys.

    `name` is the store's name, None means "default"; `mode` is "r", "w" or "rw".
    Permissions are checked once, at opening, from the caller's user and groups and the
    store's owner and mode, as for a file.

    >>> with kvtree.Store() as store:
    ...     store[b'hello'] = b'world'
    ...     store[b'hello']
    b'world'

    Keys and values are bytes-like objects; results are bytes. Keys are ordered as bytes
    are. A value has a version, a number above 0. Each change of a key gives it a greater
    one, also when the key is removed and stored again.

    A slice, store[b'a':b'c'], is a read-only mapping of the keys from b'a' on and below
    b'c', in order. It reads the store each time it is used.

    Any number of threads may use a store at the same time; calls release the GIL.
    Both sides of a fork() may use it. A call in progress completes even if another
    thread closes the store.

    Unlike a dict two stores are equal only if they are the same object.
    """

    def __init__(self, name: str | None = None, mode: Mode = 'rw') -> None:
        if mode not in ('r', 'w', 'rw'):
            raise ValueError(f"a mode is 'r', 'w' or 'rw', not {mode!r}")
        flags = (('r' in mode and lib.KVTREE_OPEN_READ) |
                 ('w' in mode and lib.KVTREE_OPEN_WRITE))
        made = ffi.new('struct kvtree **')
        must(lib.kvtree_open(ffi.NULL if name is None else name_of(name), flags, made), name)
        self._hold(made[0])

    @classmethod
    def from_fd(cls, fd: int) -> Self:
        """Make one from a descriptor of /dev/kvtree, or one received from a process.

        The store then owns the descriptor.
        """
        made = ffi.new('struct kvtree **')
        must(lib.kvtree_from_fd(fd, made))
        store = cls.__new__(cls)
        store._hold(made[0])
        return store

    def _hold(self, kv: Any) -> None:
        # The session ends when nothing refers to it any more: calls of other threads, cursors
        # and rings keep it alive after close().
        self._kv = ffi.gc(kv, lib.kvtree_close)

    def _session(self) -> Any:
        if self._kv is None:
            raise ValueError('the store is closed')
        return self._kv

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None,
                 tb: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        state = 'closed' if self._kv is None else f'fd {self.fileno()}'
        return f'<kvtree.Store, {state}>'

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def close(self) -> None:
        """Close it. Later calls raise ValueError, also those of cursors."""
        self._kv = None

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._kv is None

    def fileno(self) -> int:
        """Return the descriptor, to pass it to a process; the store still owns it."""
        return int(lib.kvtree_fd(self._session()))

    def info(self) -> StoreInfo:
        """Describe the store: its name, owner, mode, limits and size."""
        return store_info(self._session())

    def module(self) -> ModuleInfo:
        """Describe the running module; see kvtree.info()."""
        return module_info(self._session())

    def stat(self) -> dict[str, int]:
        """Read the store's counters.

        Documentation/stores-and-limits.rst describes them. Counters that the running
        module does not know are left out; the counters of the store's engine are included.
        """
        values = ffi.new('uint64_t[]', lib.KVTREE_STAT_NR)
        known = must(lib.kvtree_stat(self._session(), values, len(values)))
        found = {ffi.string(lib.kvtree_stat_name(i)).decode(): values[i]
                 for i in range(min(known, len(values)))}
        one = ffi.new('struct kvtree_engine_stat *')
        while lib.kvtree_engine_stat(self._session(), one, ffi.sizeof(one[0])) == 0:
            found[ffi.string(one.name).decode()] = one.value
            one.nr += 1
        return found

    def sync(self) -> None:
        """Wait until all changes of this session are durable.

        Error with EOPNOTSUPP if the store is not durable.
        """
        must(lib.kvtree_sync(self._session()))

    def checkpoint(self) -> None:
        """Write what has changed in a durable store, so that attaching it takes less time.

        Needs CAP_SYS_ADMIN. The module does so by itself before the log is full. Error
        with EOPNOTSUPP if the store is not durable.
        """
        must(lib.kvtree_checkpoint(self._session()))

    # One key.

    @overload
    def __getitem__(self, key: Buffer) -> bytes: ...
    @overload
    def __getitem__(self, key: slice) -> StoreSlice: ...

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return StoreSlice(self, Range.of_slice(key))
        found = self._get(key)
        if found is None:
            raise KeyError(key)
        return found[0]

    def __setitem__(self, key: Buffer, value: Buffer) -> None:
        self.put(key, value)

    def __delitem__(self, key: Buffer) -> None:
        if self._remove(key, 0, None) == 0:
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        name = slice_of(key, 'key')  # type: ignore[arg-type]
        ret = lib.kvtree_get_into(self._session(), name, ffi.NULL, 0, ffi.NULL, ffi.NULL)
        # A get without room for the value is enough to find the key.
        if ret in (0, -errno.EMSGSIZE):
            return True
        if ret == -errno.ENOENT:
            return False
        raise error(ret, key_of(key))

    @overload
    def get(self, key: Buffer, default: None = None, /) -> bytes | None: ...
    @overload
    def get(self, key: Buffer, default: bytes, /) -> bytes: ...
    @overload
    def get(self, key: Buffer, default: D, /) -> bytes | D: ...

    def get(self, key: Buffer, default: Any = None, /) -> Any:
        """Look a key up; `default` if it does not exist."""
        found = self._get(key)
        return default if found is None else found[0]

    def get_with_version(self, key: Buffer) -> tuple[bytes | None, int]:
        """Look a key up; the value and its version, (None, 0) if it does not exist.

        cas() accepts a version of 0 for a key that must not exist.
        """
        return self._get(key) or (None, 0)

    def put(self, key: Buffer, value: Buffer, *, create: bool = False,
            replace: bool = False, sync: bool = False) -> int:
        """Store a value, which replaces all columns, and return its version.

        create: only if the key does not exist (KeyExists). replace: only if it does
        (NotFound). sync: return when it is durable.
        """
        version = ffi.new('uint64_t *')
        ret = lib.kvtree_put(self._session(), slice_of(key, 'key'), slice_of(value, 'value'),
                             flags_of(create=create, replace=replace, sync=sync), version)
        return _version(ret, key, version)

    def cas(self, key: Buffer, value: Buffer, version: int, *, sync: bool = False) -> int:
        """Store a value if the key has this version, and return the new one.

        A version of 0 means that the key must not exist. VersionMismatch, with the version
        found, if the key has another one.
        """
        new = ffi.new('uint64_t *', version)
        ret = lib.kvtree_cas(self._session(), slice_of(key, 'key'), slice_of(value, 'value'),
                             flags_of(sync=sync), new)
        return _version(ret, key, new)

    def remove(self, key: Buffer, *, version: int | None = None, missing_ok: bool = False,
               sync: bool = False) -> int:
        """Remove a key, and return its last version.

        version: remove only this version (VersionMismatch). NotFound if the key does not
        exist; with missing_ok, the result is 0 instead.
        """
        found = self._remove(key, flags_of(sync=sync), version)
        if not found and not missing_ok:
            raise error(errno.ENOENT, key_of(key))
        return found

    def add(self, key: Buffer, delta: int, col: int = 0, *, replace: bool = False,
            sync: bool = False) -> int:
        """Add to the number in a column, and return the sum.

        The number is 8 bytes, little-endian, signed; the sum wraps around. A key or
        column that does not exist counts as 0 and is created, unless `replace` (NotFound).
        InvalidArgument if the column is not 8 bytes long.
        """
        total = ffi.new('struct kvtree_sum *')
        ret = lib.kvtree_add(self._session(), slice_of(key, 'key'), col, delta,
                             flags_of(replace=replace, sync=sync), total)
        if ret < 0:
            raise error(ret, key_of(key))
        return int(total.sum)

    # Columns.

    @overload
    def get_columns(self, key: Buffer,
                    columns: ColumnIds = 'all') -> dict[int, bytes] | None: ...
    @overload
    def get_columns(self, key: Buffer, columns: ColumnIds = 'all', *,
                    default: D) -> dict[int, bytes] | D: ...

    def get_columns(self, key: Buffer, columns: ColumnIds = 'all', *,
                    default: Any = None) -> Any:
        """Read columns of a value, all of one version; `default` if there is no key.

        `columns` are their ids. Columns that the value lacks are left out.
        """
        found = self._get_columns(key, columns)
        return default if found is None else found[0]

    def get_columns_with_version(
            self, key: Buffer,
            columns: ColumnIds = 'all') -> tuple[dict[int, bytes] | None, int]:
        """Read columns and the value's version; (None, 0) if the key does not exist."""
        return self._get_columns(key, columns) or (None, 0)

    def put_columns(self, key: Buffer, columns: Columns, *, whole: bool = False,
                    create: bool = False, replace: bool = False, sync: bool = False) -> int:
        """Change columns of a value, all at once, and return its version.

        None as data removes a column. Other columns stay, unless `whole`.
        The other arguments are those of put().
        """
        array, nr, _kept = column_array(columns)
        version = ffi.new('uint64_t *')
        ret = lib.kvtree_put_cols(
            self._session(), slice_of(key, 'key'), array, nr,
            flags_of(create=create, replace=replace, sync=sync, whole=whole), version)
        return _version(ret, key, version)

    def cas_columns(self, key: Buffer, columns: Columns, version: int, *,
                    whole: bool = False, sync: bool = False) -> int:
        """Change columns of a value if it has this version; see cas()."""
        array, nr, _kept = column_array(columns)
        new = ffi.new('uint64_t *', version)
        ret = lib.kvtree_cas_cols(self._session(), slice_of(key, 'key'), array, nr,
                                  flags_of(whole=whole, sync=sync), new)
        return _version(ret, key, new)

    # All keys, or a range of them.

    def __len__(self) -> int:
        return self.info().keys

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.keys())

    def __reversed__(self) -> Iterator[bytes]:
        return reversed(self.keys())

    def keys(self, *, prefix: Buffer = b'', start: Buffer | None = None,
             end: Buffer | None = None, reverse: bool = False) -> StoreKeys:
        """Keys in order: those with a prefix, from `start` on, below `end`.

        The range is the same set of keys in either direction: with `reverse` the
        first key is the greatest one below `end`.
        """
        return StoreKeys(self, Range.of(prefix, start, end, reverse), None)

    @overload
    def values(self, *, prefix: Buffer = b'', start: Buffer | None = None,
               end: Buffer | None = None, reverse: bool = False,
               columns: None = None) -> StoreValues[bytes]: ...
    @overload
    def values(self, *, prefix: Buffer = b'', start: Buffer | None = None,
               end: Buffer | None = None, reverse: bool = False,
               columns: ColumnIds) -> StoreValues[dict[int, bytes]]: ...

    def values(self, *, prefix: Buffer = b'', start: Buffer | None = None,
               end: Buffer | None = None, reverse: bool = False,
               columns: ColumnIds | None = None) -> StoreValues[Any]:
        """Values in the order of their keys; see items()."""
        return StoreValues(self, Range.of(prefix, start, end, reverse), columns)

    @overload
    def items(self, *, prefix: Buffer = b'', start: Buffer | None = None,
              end: Buffer | None = None, reverse: bool = False,
              columns: None = None) -> StoreItems[bytes]: ...
    @overload
    def items(self, *, prefix: Buffer = b'', start: Buffer | None = None,
              end: Buffer | None = None, reverse: bool = False,
              columns: ColumnIds) -> StoreItems[dict[int, bytes]]: ...

    def items(self, *, prefix: Buffer = b'', start: Buffer | None = None,
              end: Buffer | None = None, reverse: bool = False,
              columns: ColumnIds | None = None) -> StoreItems[Any]:
        """Pairs of key and value in order: see keys().

        With `columns` a value is a dict of these columns, or of all with "all".

        The result is a view, like a dict's: each iteration reads the store anew, with
        read-ahead, as a Cursor does. Keys may be stored and removed meanwhile.
        """
        return StoreItems(self, Range.of(prefix, start, end, reverse), columns)

    @overload
    def cursor(self, *, prefix: Buffer = b'', start: Buffer | None = None,
               end: Buffer | None = None, reverse: bool = False, columns: None = None,
               keys_only: Literal[False] = False, read_ahead: int = 0) -> Cursor[bytes]: ...
    @overload
    def cursor(self, *, prefix: Buffer = b'', start: Buffer | None = None,
               end: Buffer | None = None, reverse: bool = False, columns: ColumnIds,
               keys_only: Literal[False] = False,
               read_ahead: int = 0) -> Cursor[dict[int, bytes]]: ...
    @overload
    def cursor(self, *, prefix: Buffer = b'', start: Buffer | None = None,
               end: Buffer | None = None, reverse: bool = False, columns: None = None,
               keys_only: Literal[True], read_ahead: int = 0) -> Cursor[None]: ...

    def cursor(self, *, prefix: Buffer = b'', start: Buffer | None = None,
               end: Buffer | None = None, reverse: bool = False,
               columns: ColumnIds | None = None, keys_only: bool = False,
               read_ahead: int = 0) -> Cursor[Any]:
        """Make a cursor for a range of keys; see keys() and Cursor.

        read_ahead: maximum records to read in one system call, 0 for as many as are
        useful.
        """
        return Cursor(self, Range.of(prefix, start, end, reverse), columns=columns,
                      keys_only=keys_only, read_ahead=read_ahead)

    # Many keys.

    def batch(self, *, check: bool = True) -> Batch:
        """Collect operations and execute them in one system call: see Batch."""
        return Batch(self, check)

    def ring(self, depth: int = 256, *, sqpoll: bool = False, by_pointer: bool = False,
             uring: bool = True, idle_ms: int = 0) -> Ring:
        """Keep many operations in progress at once, with or without asyncio: see Ring.

        depth: the maximum number of them. sqpoll: a kernel thread submits; it sleeps after
        `idle_ms` without work. by_pointer: smaller queue entries. uring=False: use system
        calls instead of io_uring.
        """
        return Ring(self, depth, sqpoll=sqpoll, by_pointer=by_pointer, uring=uring,
                    idle_ms=idle_ms)

    @overload
    def get_many(self, keys: Iterable[Buffer]) -> list[bytes | None]: ...
    @overload
    def get_many(self, keys: Iterable[Buffer], default: D) -> list[bytes | D]: ...

    def get_many(self, keys: Iterable[Buffer], default: Any = None) -> list[Any]:
        """Look many keys up, in as few system calls as possible.

        Returns the values in the order of the keys, `default` for those that do not exist.
        """
        found: list[Any] = []
        rest = iter(keys)
        ops, length = new_list(), ffi.new('size_t *')
        while chunk := list(islice(rest, _CHUNK)):
            # Without the objects of a Batch, which would take longer than the gets.
            for key in chunk:
                must(lib.kvtree_ops_get(ops, slice_of(key, 'key'), ffi.NULL,
                                        _CHUNK_BYTES // _CHUNK))
            must(lib.kvtree_ops_run(ops, self._session()))
            for n, key in enumerate(chunk):
                value = lib.kvtree_ops_value(ops, n, length)
                if value:
                    found.append(ffi.buffer(value, length[0])[:])
                    continue
                ret = lib.kvtree_ops_result(ops, n)
                if ret not in (-errno.ENOENT, -errno.EMSGSIZE):
                    raise error(ret, key_of(key))
                found.append(default if ret == -errno.ENOENT else self.get(key, default))
            lib.kvtree_ops_clear(ops)
        return found

    def update(  # type: ignore[override] # keywords would be keys, and those are str
            self, other: Mapping[bytes, Buffer] | Iterable[tuple[Buffer, Buffer]] = (),
            /) -> None:
        """Store many values, in as few system calls as possible.

        They are stored in order and independently.
        """
        batch, size = self.batch(), 0
        for key, value in other.items() if isinstance(other, Mapping) else other:
            batch.put(key, value)
            size += memoryview(value).nbytes
            if len(batch) >= _CHUNK or size >= _CHUNK_BYTES:
                batch.run()
                batch.clear()
                size = 0
        batch.run()

    def clear(self) -> None:
        """Remove all keys; keys stored meanwhile may stay."""
        keys = iter(self.keys())
        while chunk := list(islice(keys, _CHUNK)):
            with self.batch() as batch:
                for key in chunk:
                    batch.remove(key, missing_ok=True)

    # Methods that a mutable mapping executes in two steps, as one atomic step here.

    @overload
    def pop(self, key: Buffer, /) -> bytes: ...
    @overload
    def pop(self, key: Buffer, /, default: bytes) -> bytes: ...
    @overload
    def pop(self, key: Buffer, /, default: D) -> bytes | D: ...

    def pop(self, key: Buffer, /, default: Any = _MISSING) -> Any:
        """Remove a key and return its value; `default`, or KeyError, if there is none."""
        while found := self._get(key):
            value, version = found
            try:
                if self._remove(key, 0, version):
                    return value
            except VersionMismatch:
                continue  # changed meanwhile: retry
        if default is _MISSING:
            raise KeyError(key)
        return default

    def popitem(self, last: bool = True) -> tuple[bytes, bytes]:
        """Remove the greatest key, or the least, and return it with its value."""
        with self.cursor(reverse=last, read_ahead=1) as cursor:
            while cursor.first():
                try:
                    if self._remove(cursor.key, 0, cursor.version):
                        return cursor.key, cursor.value
                except VersionMismatch:
                    continue
        raise KeyError('popitem(): the store is empty')

    def setdefault(self, key: Buffer, default: Buffer = b'', /) -> bytes:
        """Return a key's value, after storing `default` if the key does not exist."""
        while True:
            found = self._get(key)
            if found is not None:
                return found[0]
            try:
                self.put(key, default, create=True)
            except KeyExists:
                continue
            return bytes(buffer(default, 'value'))

    # Helpers that call the library.

    def _get(self, key: Buffer) -> tuple[bytes, int] | None:
        value, length = ffi.new('void **'), ffi.new('size_t *')
        version = ffi.new('uint64_t *')
        ret = lib.kvtree_get(self._session(), slice_of(key, 'key'), value, length, version)
        if ret == -errno.ENOENT:
            return None
        if ret < 0:
            raise error(ret, key_of(key))
        try:
            return ffi.buffer(value[0], length[0])[:], version[0]
        finally:
            lib.free(value[0])

    def _get_columns(self, key: Buffer,
                     columns: ColumnIds) -> tuple[dict[int, bytes], int] | None:
        ids, nr = column_ids(columns)
        found = ffi.new('struct kvtree_columns **')
        ret = lib.kvtree_get_cols(self._session(), slice_of(key, 'key'), ids, nr, found)
        if ret == -errno.ENOENT:
            return None
        if ret < 0:
            raise error(ret, key_of(key))
        try:
            return column_dict(found[0]), found[0].version
        finally:
            lib.free(found[0])

    def _remove(self, key: Buffer, flags: int, version: int | None) -> int:
        """Remove a key; return its version, 0 if it did not exist."""
        found = ffi.new('uint64_t *', version or 0)
        if version is not None:
            flags |= lib.KVTREE_F_VERSION
        ret = lib.kvtree_del(self._session(), slice_of(key, 'key'), flags, found)
        return 0 if ret == -errno.ENOENT else _version(ret, key, found)

    def _value_or_columns(self, key: Buffer, columns: ColumnIds | None) -> Any:
        return self.get(key) if columns is None else self.get_columns(key, columns)


def _version(ret: int, key: Any, version: Any) -> int:
    """Return the version that a call stored, or raise its exception."""
    if ret < 0:
        raise error(ret, key_of(key), version=version[0])
    return int(version[0])

