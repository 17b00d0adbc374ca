# SPDX-License-Identifier: LGPL-2.1-only
"""Values that are divided into columns."""

import pytest

from kvtree import InvalidArgument, KeyExists, NotFound, Store


def test_columns_that_are_not_named_stay(store: Store) -> None:
    store.put_columns(b'k', {0: b'zero', 7: b'seven', 255: b''})
    store.put_columns(b'k', {7: b'new'})
    assert store.get_columns(b'k') == {0: b'zero', 7: b'new', 255: b''}
    assert store[b'k'] == b'zero'


def test_none_removes_a_column(store: Store) -> None:
    store.put_columns(b'k', {0: b'zero', 7: b'seven'})
    store.put_columns(b'k', {0: None, 9: None})
    assert store.get_columns(b'k') == {7: b'seven'}
    assert store[b'k'] == b''


def test_whole_leaves_no_other_columns(store: Store) -> None:
    store.put_columns(b'k', {0: b'zero', 7: b'seven'})
    store.put_columns(b'k', {1: b'one'}, whole=True)
    assert store.get_columns(b'k') == {1: b'one'}
    store.put_columns(b'k', {}, whole=True)
    assert store.get_columns(b'k') == {}


def test_a_put_replaces_all_columns(store: Store) -> None:
    store.put_columns(b'k', {1: b'one'})
    store[b'k'] = b'v'
    assert store.get_columns(b'k') == {0: b'v'}


def test_only_the_columns_asked_for_are_read(store: Store) -> None:
    store.put_columns(b'k', {i: b'%d' % i for i in range(256)})
    assert store.get_columns(b'k', [200, 3]) == {3: b'3', 200: b'200'}
    assert store.get_columns(b'k', iter([3, 3])) == {3: b'3'}
    assert store.get_columns(b'k', []) == {}
    assert store.get_columns(b'k', 'all') == {i: b'%d' % i for i in range(256)}
    store.put_columns(b'k', {3: None})
    assert store.get_columns(b'k', [3, 4]) == {4: b'4'}


def test_a_missing_key_has_no_columns(store: Store) -> None:
    assert store.get_columns(b'absent') is None
    assert store.get_columns(b'absent', [1], default={}) == {}
    with pytest.raises(NotFound):
        store.put_columns(b'absent', {1: b'1'}, replace=True)
    store.put_columns(b'k', {1: b'1'}, create=True)
    with pytest.raises(KeyExists):
        store.put_columns(b'k', {1: b'1'}, create=True)


def test_columns_may_be_long(store: Store) -> None:
    columns = {i: bytes([i]) * (100_000 + i) for i in (1, 2, 200)}
    store.put_columns(b'k', columns)
    assert store.get_columns(b'k') == columns
    assert dict(store.items(columns='all')) == {b'k': columns}


def test_what_is_out_of_range_is_refused(store: Store) -> None:
    with pytest.raises(InvalidArgument):
        store.put_columns(b'k', {256: b''})
    with pytest.raises(InvalidArgument):
        store.get_columns(b'k', [256])
    with pytest.raises(InvalidArgument):
        store.put_columns(b'k', {1: bytes(1 << 20), 2: b'x'})
    with pytest.raises(InvalidArgument):
        store.put_columns(b'k', {1: bytes((1 << 20) + 1)})
    with pytest.raises(OverflowError):
        store.put_columns(b'k', {-1: b''})
    with pytest.raises(TypeError, match='column is a bytes-like'):
        store.put_columns(b'k', {1: 'text'})  # type: ignore[dict-item]
    assert b'k' not in store
