# SPDX-License-Identifier: LGPL-2.1-only
"""Results of keys(), values(), items() and slices: ranges of a store, read when used."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from kvtree._args import ColumnIds, key_of
from kvtree._cursor import Cursor, Range
from kvtree._native import lib

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from kvtree._store import Store

V = TypeVar('V')

# Records fetched from the library's cursor at once: few enough that a loop which ends early
# wastes little, many enough that a long one is fast.
_TAKE_MAX = 64


def _key(key: Any) -> bytes | None:
    """Return the key as bytes, or None if it cannot be a key of a store."""
    try:
        data = key_of(key)
    except (TypeError, ValueError, BufferError):
        return None
    return data if len(data) <= lib.KVTREE_KEY_MAX else None


class _View(Generic[V]):
    """A range of a store. Each iteration makes a cursor of its own."""

    def __init__(self, store: Store, keys: Range, columns: ColumnIds | None) -> None:
        self._store = store
        self._keys = keys
        self._columns = columns if columns is None or columns == 'all' else tuple(columns)

    def __repr__(self) -> str:
        return f'<{type(self).__name__} of {self._store!r}, {self._keys}>'

    def __len__(self) -> int:
        """Count the keys, by reading them all."""
        if self._keys.everything():
            return len(self._store)
        with self._cursor(self._keys, keys_only=True) as cursor:
            return cursor.count_rest()

    def _cursor(self, keys: Range, *, keys_only: bool = False) -> Cursor[Any]:
        return Cursor(self._store, keys, columns=None if keys_only else self._columns,
                      keys_only=keys_only)

    def _records(self, keys: Range, keys_only: bool = False) -> Iterator[tuple[bytes, V]]:
        with self._cursor(keys, keys_only=keys_only) as cursor:
            most = 1
            while records := cursor.take(most):
                yield from records
                most = min(2 * most, _TAKE_MAX)


class StoreKeys(_View[None], KeysView[bytes]):
    """The keys of a range, in order. A set: supports `in`, `&`, `|` and `-`."""

    def __iter__(self) -> Iterator[bytes]:
        return (key for key, _ in self._records(self._keys, keys_only=True))

    def __reversed__(self) -> Iterator[bytes]:
        return (key for key, _ in self._records(self._keys.turned(), keys_only=True))

    def __contains__(self, key: object) -> bool:
        data = _key(key)
        return data is not None and data in self._keys and data in self._store


class StoreValues(_View[V], ValuesView[V]):
    """The values of a range, in the order of their keys."""

    def __iter__(self) -> Iterator[V]:
        return (value for _, value in self._records(self._keys))

    def __reversed__(self) -> Iterator[V]:
        return (value for _, value in self._records(self._keys.turned()))

    def __contains__(self, value: object) -> bool:
        return any(value == found for found in self)


class StoreItems(_View[V], ItemsView[bytes, V]):
    """Pairs of key and value of a range, in the order of the keys."""

    def __iter__(self) -> Iterator[tuple[bytes, V]]:
        return self._records(self._keys)

    def __reversed__(self) -> Iterator[tuple[bytes, V]]:
        return self._records(self._keys.turned())

    def __contains__(self, item: object) -> bool:
        match item:
            case tuple((key, value)):
                data = _key(key)
                if data is not None and data in self._keys:
                    found = self._store._value_or_columns(data, self._columns)
                    return found is not None and bool(found == value)
        return False


class StoreSlice(Mapping[bytes, bytes]):
    """A range of a store, in the order of its keys, as a read-only mapping.

    Slicing a store returns one, and slicing that returns a part of it. Each use reads the
    store anew.
    """

    def __init__(self, store: Store, keys: Range) -> None:
        self._store = store
        self._keys = keys

    def __repr__(self) -> str:
        return f'<{type(self).__name__} of {self._store!r}, {self._keys}>'

    @overload
    def __getitem__(self, key: Buffer) -> bytes: ...
    @overload
    def __getitem__(self, key: slice) -> StoreSlice: ...

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return StoreSlice(self._store, self._keys.within(Range.of_slice(key)))
        if key_of(key) not in self._keys:
            raise KeyError(key)
        return self._store[key]

    def __contains__(self, key: object) -> bool:
        return key in self.keys()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.keys())

    def __reversed__(self) -> Iterator[bytes]:
        return reversed(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __bool__(self) -> bool:
        # One key is enough.
        return any(True for _ in self)

    def keys(self) -> StoreKeys:
        """Return the keys of the range, in order."""
        return StoreKeys(self._store, self._keys, None)

    def values(self) -> StoreValues[bytes]:
        """Return the values, in the order of their keys."""
        return StoreValues(self._store, self._keys, None)

    def items(self) -> StoreItems[bytes]:
        """Return pairs of key and value, in order."""
        return StoreItems(self._store, self._keys, None)
