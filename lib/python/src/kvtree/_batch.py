# SPDX-License-Identifier: LGPL-2.1-only
"""Many operations in one system call."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from kvtree._args import (
    ColumnIds,
    Columns,
    column_array,
    column_dict,
    column_ids,
    flags_of,
    slice_of,
)
from kvtree._errors import error, must
from kvtree._native import ffi, lib
from kvtree._result import Result

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer

    from kvtree._store import Store

@dataclass(slots=True)
class _Entry:
    """An operation of the list: where to put its result, and how to find it."""

    result: Result[Any]
    found: Callable[[Any, int], Any]
    missing: tuple[Any] | None = None   # the value if the key does not exist

    def finish(self, ops: Any, n: int) -> None:
        """Take the result of operation n, which has been executed."""
        ret = lib.kvtree_ops_result(ops, n)
        version = lib.kvtree_ops_version(ops, n)
        if ret >= 0:
            self.result._succeed(self.found(ops, n), version)
        elif ret == -errno.ENOENT and self.missing:
            self.result._succeed(self.missing[0], version)
        else:
            length = ffi.new('size_t *')
            if ret == -errno.EMSGSIZE:
                lib.kvtree_ops_value(ops, n, length)
            self.result._fail(error(ret, self.result._key, version=version,
                                    needed=length[0]), version)


def new_list() -> Any:
    """Make a list of the library's."""
    made = ffi.new('struct kvtree_ops **')
    must(lib.kvtree_ops_new(made))
    return ffi.gc(made[0], lib.kvtree_ops_free)


def _value(ops: Any, n: int) -> bytes:
    length = ffi.new('size_t *')
    value = lib.kvtree_ops_value(ops, n, length)
    return bytes(ffi.buffer(value, length[0]))


def _columns(ops: Any, n: int) -> dict[int, bytes]:
    return column_dict(lib.kvtree_ops_columns(ops, n))


def _version(ops: Any, n: int) -> int:
    return int(lib.kvtree_ops_version(ops, n))


def _sum(ops: Any, n: int) -> int:
    return int(lib.kvtree_ops_sum(ops, n))


class Batch:
    """A list of operations that are executed together, in one system call.

    Store.batch() makes one. Used as a context manager, it executes the operations at
    the end of the block, unless the block ends with an exception:

    >>> with kvtree.Store() as store, store.batch() as batch:
    ...     stored = batch.put(b'a', b'1')
    ...     found = batch.get(b'a')
    >>> found.value
    b'1'

    The operations are executed in order and independently: one that fails does not
    stop the next, and other processes may see the state in between. Each call
    returns a Result that is filled in when the batch has run.

    With `check` the batch raises the exception of the first failed operation,
    after executing all; a get of a missing key does not count as failed.
    """

    def __init__(self, store: Store, check: bool = True) -> None:
        self._store = store
        self._check = check
        self._lock = Lock()
        self._operation: Any = None     # the last one that used the list on a ring
        self._entries: list[_Entry] = []
        self._done = 0
        self._ops = new_list()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None,
                 tb: TracebackType | None) -> None:
        if kind is None:
            self.run()

    def __len__(self) -> int:
        return int(lib.kvtree_ops_count(self._ops))

    def __bool__(self) -> bool:
        return True

    @property
    def results(self) -> list[Result[Any]]:
        """The results, in the order of the operations."""
        return [entry.result for entry in self._entries[:len(self)]]

    def get(self, key: Buffer, *, room: int = 4096) -> Result[bytes | None]:
        """Look a key up; the value is None if it does not exist.

        `room` is the memory reserved for the value, in bytes; TooLong if the value is
        longer.
        """
        return self._add(_Entry(Result('get', key), _value, (None,)),
                         lib.kvtree_ops_get, key, ffi.NULL, room)

    def get_columns(self, key: Buffer, columns: ColumnIds = 'all', *,
                    room: int = 4096) -> Result[dict[int, bytes] | None]:
        """Read columns of a value; `room` is for the data of all of them."""
        return self._add(_Entry(Result('get_columns', key), _columns, (None,)),
                         lib.kvtree_ops_get_cols, key, *column_ids(columns), room)

    def put(self, key: Buffer, value: Buffer, *, create: bool = False,
            replace: bool = False, sync: bool = False) -> Result[int]:
        """Store a value; see Store.put()."""
        return self._add(_Entry(Result('put', key), _version),
                         lib.kvtree_ops_put, key, slice_of(value, 'value'),
                         flags_of(create=create, replace=replace, sync=sync))

    def put_columns(self, key: Buffer, columns: Columns, *, whole: bool = False,
                    create: bool = False, replace: bool = False,
                    sync: bool = False) -> Result[int]:
        """Change columns of a value; see Store.put_columns()."""
        array, nr, _kept = column_array(columns)
        return self._add(_Entry(Result('put_columns', key), _version),
                         lib.kvtree_ops_put_cols, key, array, nr,
                         flags_of(create=create, replace=replace, sync=sync, whole=whole))

    def cas(self, key: Buffer, value: Buffer, version: int, *,
            sync: bool = False) -> Result[int]:
        """Store a value if nobody has changed it; see Store.cas()."""
        return self._add(_Entry(Result('cas', key), _version),
                         lib.kvtree_ops_cas, key, slice_of(value, 'value'),
                         flags_of(sync=sync), version)

    def remove(self, key: Buffer, *, version: int | None = None, missing_ok: bool = False,
               sync: bool = False) -> Result[int]:
        """Remove a key; see Store.remove()."""
        flags = flags_of(sync=sync) | (0 if version is None else lib.KVTREE_F_VERSION)
        return self._add(_Entry(Result('remove', key), _version,
                                (0,) if missing_ok else None),
                         lib.kvtree_ops_del, key, flags, version or 0)

    def add(self, key: Buffer, delta: int, col: int = 0, *, replace: bool = False,
            sync: bool = False) -> Result[int]:
        """Add to a number; see Store.add()."""
        return self._add(_Entry(Result('add', key), _sum),
                         lib.kvtree_ops_add, key, col, delta,
                         flags_of(replace=replace, sync=sync))

    def run(self) -> list[Result[Any]]:
        """Execute the operations that have not been executed, and return their results.

        If the call itself fails, operations after the last one that is `done` were not
        executed; call run() again to retry them.
        """
        with self._lock:
            ret = lib.kvtree_ops_run(self._mine(), self._store._session())
            new = self._reap()
        must(ret)
        self._raise(new)
        return new

    def clear(self) -> None:
        """Drop the operations, to collect others. Earlier results stay valid."""
        with self._lock:
            ops = self._mine()
            self._done = 0
            lib.kvtree_ops_clear(ops)
            self._entries = []

    def _mine(self) -> Any:
        """The library's list, for the holder of the lock; an error while a ring uses it."""
        if self._operation is not None and self._operation._has_batch():
            raise RuntimeError('the batch is in progress on a ring')
        return self._ops

    def _lend(self, operation: Any) -> Any:
        """Let an operation of a ring use the library's list until it is done."""
        with self._lock:
            ops = self._mine()
            self._operation = operation
        return ops

    def _add(self, entry: _Entry, call: Any, key: Buffer, *args: Any) -> Result[Any]:
        name = slice_of(key, 'key')
        with self._lock:
            ops = self._mine()
            # First: a signal handler may raise as soon as the library has the operation. If
            # the library did not take it, the next one replaces the entry.
            self._entries[len(self):] = [entry]
            must(call(ops, name, *args), entry.result._key)
        return entry.result

    def _reap(self, first: int | None = None) -> list[Result[Any]]:
        """Take the results of executed operations; return the new ones, or all from first."""
        done = lib.kvtree_ops_done(self._ops)
        new = self._entries[self._done if first is None else first:done]
        for n, entry in enumerate(new, done - len(new)):
            # Results taken before a signal handler raised are kept.
            if not entry.result._done:
                entry.finish(self._ops, n)
        self._done = done
        return [entry.result for entry in new]

    def _raise(self, new: list[Result[Any]]) -> None:
        failed = [n for n, result in enumerate(new) if result._error is not None]
        if not self._check or not failed:
            return
        first = new[failed[0]]
        assert first._error is not None
        more = f', and {len(failed) - 1} others failed' if len(failed) > 1 else ''
        first._error.add_note(f'operation {failed[0]} of {len(new)} of the batch, '
                              f'{first._what}{more}; see Batch.results')
        raise first._error
