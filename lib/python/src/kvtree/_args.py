# SPDX-License-Identifier: LGPL-2.1-only
"""Convert Python's arguments for the library, and its results for Python."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from kvtree._errors import error
from kvtree._native import ffi, lib

if TYPE_CHECKING:
    from typing_extensions import Buffer

Columns = Mapping[int, 'Buffer | None']
"""Columns to store: the id, and the data or None to remove the column."""

ColumnIds = Iterable[int] | Literal['all']
"""Columns to read: their ids, or "all"."""


def buffer(data: Buffer, what: str) -> Any:
    """Bytes, or other memory without copying it, for a `const void *`.

    len() of the result is in bytes. The caller must keep the result as long as the
    library uses the memory.
    """
    if type(data) is bytes:
        return data
    try:
        return ffi.from_buffer(data)
    except TypeError as e:
        hint = ': encode it' if isinstance(data, str) else ''
        raise TypeError(f'a {what} is a bytes-like object, not {type(data).__name__}'
                        f'{hint}') from e


def pinned(data: Buffer, what: str) -> Any:
    """Like buffer(), as a pointer that can be stored in a structure."""
    memory = buffer(data, what)
    return ffi.from_buffer(memory) if type(memory) is bytes else memory


def slice_of(data: Buffer, what: str) -> tuple[Any, int]:
    """Like buffer(), as a `struct kvtree_slice`."""
    memory = pinned(data, what)
    return memory, len(memory)


def key_of(data: Any) -> bytes:
    """A key, or the result of buffer(), as bytes to compare and to put into messages."""
    memory = data if isinstance(data, ffi.CData) else buffer(data, 'key')
    return memory if type(memory) is bytes else bytes(ffi.buffer(memory))


def flags_of(*, create: bool = False, replace: bool = False, sync: bool = False,
             whole: bool = False) -> int:
    """KVTREE_F_* of a change."""
    return int((create and lib.KVTREE_F_CREATE) | (replace and lib.KVTREE_F_REPLACE) |
               (sync and lib.KVTREE_F_SYNC) | (whole and lib.KVTREE_F_WHOLE))


def number(ctype: str, value: int) -> int:
    """An integer that fits into a C type; OverflowError if it does not."""
    return int(ffi.new(f'{ctype} *', value)[0])


def column_ids(columns: ColumnIds) -> tuple[Any, int]:
    """Ids as an array and their number; NULL for all columns."""
    if columns == 'all':
        return ffi.NULL, 0
    ids = sorted(set(columns))
    return ffi.new('uint16_t[]', ids), len(ids)


def column_array(columns: Columns) -> tuple[Any, int, list[Any]]:
    """Columns as an array, their number, and the memory that the array points to."""
    array = ffi.new('struct kvtree_column[]', len(columns))
    kept = []
    for column, number in zip(array, sorted(columns), strict=True):
        data = columns[number]
        column.id = number
        if data is None:
            column.len = lib.KVTREE_COL_ABSENT
            continue
        memory = pinned(data, 'column')
        # Otherwise cffi would truncate the length to 32 bits.
        if len(memory) > lib.KVTREE_VALUE_MAX:
            raise error(errno.E2BIG)
        column.len = len(memory)
        column.data = memory
        kept.append(memory)
    return array, len(columns), kept


def column_dict(found: Any) -> dict[int, bytes]:
    """Convert a `struct kvtree_columns`; absent columns are left out."""
    columns = [found.col[i] for i in range(found.nr)]
    return {column.id: ffi.buffer(column.data, column.len)[:] for column in columns
            if column.len != lib.KVTREE_COL_ABSENT}
