# SPDX-License-Identifier: LGPL-2.1-only
"""A place in a store, and records read ahead from there."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from kvtree._args import ColumnIds, column_dict, column_ids, key_of, pinned, slice_of
from kvtree._errors import error, must
from kvtree._native import ffi, lib

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer

    from kvtree._store import Store

# Bytes after which take() stops.
_TAKE_BYTES = 1 << 16

V = TypeVar('V')
"""The type of a record's value: bytes, columns, or None if only keys are read."""


@dataclass(frozen=True, slots=True)
class Range:
    """A set of keys, and the order in which to go through them."""

    prefix: bytes = b''
    start: bytes = b''
    end: bytes | None = None
    reverse: bool = False

    @classmethod
    def of(cls, prefix: Buffer, start: Buffer | None, end: Buffer | None,
           reverse: bool) -> Range:
        """Make one from the arguments that items() and the like take."""
        return cls(key_of(prefix), b'' if start is None else key_of(start),
                   None if end is None else key_of(end), reverse)

    @classmethod
    def of_slice(cls, keys: slice) -> Range:
        """Make one from a slice, which must have no step."""
        if keys.step is not None:
            raise ValueError('a slice of a store takes no step: use reversed()')
        return cls.of(b'', keys.start, keys.stop, False)

    def __contains__(self, key: bytes) -> bool:
        return (key.startswith(self.prefix) and key >= self.start and
                (self.end is None or key < self.end))

    def everything(self) -> bool:
        """Whether all keys are in it."""
        return self.end is None and not (self.prefix or self.start)

    def within(self, other: Range) -> Range:
        """The intersection with the range of a slice."""
        ends = [end for end in (self.end, other.end) if end is not None]
        return Range(self.prefix, max(self.start, other.start), min(ends, default=None),
                     self.reverse)

    def turned(self) -> Range:
        """The same keys in the other order."""
        return Range(self.prefix, self.start, self.end, not self.reverse)


def _close(kv: Any, cursor: Any) -> None:
    """Free a cursor; `kv` keeps the session alive until then."""
    lib.kvtree_cursor_close(cursor)


def _open(kv: Any, keys: Range, columns: ColumnIds | None, keys_only: bool,
          read_ahead: int) -> Any:
    ids, nr = (ffi.NULL, 0) if columns is None else column_ids(columns)
    flags = ((keys.reverse and lib.KVTREE_CURSOR_REVERSE) |
             (keys_only and lib.KVTREE_CURSOR_KEYS_ONLY) |
             (columns == 'all' and lib.KVTREE_CURSOR_ALL_COLS) |
             (keys.end is not None and lib.KVTREE_CURSOR_END))
    start, end, prefix = (pinned(k, 'key') for k in (keys.start, keys.end or b'', keys.prefix))
    opts = ffi.new('struct kvtree_cursor_opts *', {
        'size': ffi.sizeof('struct kvtree_cursor_opts'), 'flags': flags,
        'max_records': read_ahead, 'cols': ids, 'ncols': nr,
        'start': start, 'start_len': len(start), 'end': end, 'end_len': len(end),
        'prefix': prefix, 'prefix_len': len(prefix),
    })
    made = ffi.new('struct kvtree_cursor **')
    must(lib.kvtree_cursor_open(kv, opts, made))
    return ffi.gc(made[0], partial(_close, kv))


def _size(value: Any) -> int:
    """Return the length of a value, or of all its columns."""
    if isinstance(value, dict):
        return sum(map(len, value.values()))
    return 0 if value is None else len(value)


class Cursor(Generic[V]):
    """A cursor goes through the records of a range of keys, in both directions.

    Store.cursor() makes one. It is at a record, before the first or after the last
    one; a new one is before the first. "First", "next" and "last" follow the cursor's
    order, which is descending with `reverse`.

    The methods that move it return whether it is at a record; `key`, `value` and
    `version` then describe the record. Iterating continues from the current record.

    The cursor reads records ahead, many in one system call, and each shows the value
    at the time of reading; seek() reads afresh. A scan is not a snapshot: keys stored or
    removed during the scan may or may not be seen. Any other key of the range is seen
    exactly once, and keys come strictly in order.
    """

    def __init__(self, store: Store, keys: Range, *, columns: ColumnIds | None = None,
                 keys_only: bool = False, read_ahead: int = 0) -> None:
        self._store = store
        self._lock = Lock()
        self._length = ffi.new('size_t *')  # a result buffer, under the lock
        self._read = self._no_value if keys_only else (
            self._whole_value if columns is None else self._columns)
        self._cursor = _open(store._session(), keys, columns, keys_only, read_ahead)
        self._here: tuple[bytes, V, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None,
                 tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Free it. Other calls raise ValueError from now on."""
        self._cursor = None

    @property
    def key(self) -> bytes:
        """The record's key. LookupError if the cursor is not at a record."""
        return self._record()[0]

    @property
    def value(self) -> V:
        """The record's value, in the form that the cursor reads."""
        return self._record()[1]

    @property
    def version(self) -> int:
        """The version of the record's value."""
        return self._record()[2]

    def next(self) -> bool:
        """Go to the next record; False: there is none, the cursor is after the last."""
        return self._move(lib.kvtree_cursor_next)

    def prev(self) -> bool:
        """Go to the previous record; False: there is none, the cursor is before the first."""
        return self._move(lib.kvtree_cursor_prev)

    def first(self) -> bool:
        """Go to the first record."""
        return self._move(lib.kvtree_cursor_first)

    def last(self) -> bool:
        """Go to the last record."""
        return self._move(lib.kvtree_cursor_last)

    def seek(self, key: Buffer) -> bool:
        """Go to the record with this key or, if it does not exist, the next one."""
        return self._move(lib.kvtree_cursor_seek, slice_of(key, 'key'))

    def __iter__(self) -> Iterator[tuple[bytes, V]]:
        while self._move(lib.kvtree_cursor_next):
            key, value, _ = self._record()
            yield key, value

    def take(self, most: int) -> list[tuple[bytes, V]]:
        """Advance by at most this many records, and return them: faster than a loop of next().

        Returns fewer if they are long, none only at the end. The cursor is then at the last
        of them, or after all records at the end.
        """
        if most < 1:
            raise ValueError('take at least 1 record')
        records: list[tuple[bytes, V]] = []
        size = ret = 0
        with self._lock:
            cursor = self._handle()
            while not ret and len(records) < most and size < _TAKE_BYTES:
                ret = lib.kvtree_cursor_next(cursor)
                if not ret:
                    records.append(self._key_and_value(cursor))
                    size += _size(records[-1][1])
            if ret == -errno.ENOENT:
                self._here = None
            elif records:
                self._here = (*records[-1], lib.kvtree_cursor_version(cursor))
        # Return the records first: the next call sees the error again.
        if ret < 0 and ret != -errno.ENOENT and not records:
            raise error(ret)
        return records

    def count_rest(self) -> int:
        """Go after the last record, and return how many records were passed."""
        with self._lock:
            cursor = self._handle()
            n = 0
            while (ret := lib.kvtree_cursor_next(cursor)) == 0:
                n += 1
            self._here = None
        if ret != -errno.ENOENT:
            raise error(ret)
        return n

    def _handle(self) -> Any:
        self._store._session()
        if self._cursor is None:
            raise ValueError('the cursor is closed')
        return self._cursor

    def _record(self) -> tuple[bytes, V, int]:
        if self._here is None:
            raise LookupError('the cursor is not at a record')
        return self._here

    def _move(self, call: Any, *args: Any) -> bool:
        # The library's cursor belongs to one thread at a time, and the record is valid
        # only until the cursor moves.
        with self._lock:
            cursor = self._handle()
            ret = call(cursor, *args)
            if ret == 0:
                self._here = (*self._key_and_value(cursor),
                              lib.kvtree_cursor_version(cursor))
                return True
            if ret == -errno.ENOENT:
                self._here = None
                return False
        raise error(ret)

    def _key_and_value(self, cursor: Any) -> tuple[bytes, V]:
        length = self._length
        key = lib.kvtree_cursor_key(cursor, length)
        return ffi.buffer(key, length[0])[:], self._read(cursor, length)

    # How to read the record's value.

    @staticmethod
    def _no_value(cursor: Any, length: Any) -> Any:
        return None

    @staticmethod
    def _whole_value(cursor: Any, length: Any) -> Any:
        value = lib.kvtree_cursor_value(cursor, length)
        return ffi.buffer(value, length[0])[:]

    @staticmethod
    def _columns(cursor: Any, length: Any) -> Any:
        return column_dict(lib.kvtree_cursor_columns(cursor))
