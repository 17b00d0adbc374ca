# SPDX-License-Identifier: LGPL-2.1-only
"""keys(), values(), items() and slices: ranges, in order, read while they are used."""

import itertools
import random
from collections.abc import Mapping, MutableMapping
from typing import Any

import pytest

from kvtree import Store

PREFIXES = [b'', b'a', b'a/', b'b\xff', b'\xff']
KEYS = sorted(b'%s%d' % (prefix, i) for prefix in PREFIXES for i in range(8))


@pytest.fixture
def full(store: Store) -> Store:
    store.update((key, key * 2) for key in KEYS)
    return store


BOUNDS = [b'', b'a', b'a3', b'a/', b'b\xff4', b'\xff']


def test_every_range_is_what_a_list_has(full: Store) -> None:
    for prefix, start, end, reverse in itertools.product(
            [*PREFIXES, b'none'], [None, *BOUNDS], [None, *BOUNDS], [False, True]):
        # No key is below the empty one.
        expected = [key for key in KEYS if key.startswith(prefix) and key >= (start or b'') and
                    (end is None or key < end)]
        expected.sort(reverse=reverse)
        keys = full.keys(prefix=prefix, start=start, end=end, reverse=reverse)
        assert list(keys) == expected


def test_views_agree_with_each_other(full: Store) -> None:
    for reverse in (False, True):
        keys = list(full.keys(prefix=b'a', reverse=reverse))
        assert keys == sorted((k for k in KEYS if k.startswith(b'a')), reverse=reverse)
        assert list(full.values(prefix=b'a', reverse=reverse)) == [k * 2 for k in keys]
        assert list(full.items(prefix=b'a', reverse=reverse)) == [(k, k * 2) for k in keys]


def test_reversed_turns_a_view_around(full: Store) -> None:
    for view in (full.keys(prefix=b'a'), full.values(prefix=b'a'), full.items(prefix=b'a'),
                 full.items(reverse=True), full.items(columns='all')):
        assert list(reversed(view)) == list(view)[::-1]


def test_a_view_can_be_read_again_and_sees_changes(full: Store) -> None:
    view = full.items(prefix=b'new')
    assert list(view) == []
    full[b'new1'] = b'x'
    assert list(view) == [(b'new1', b'x')]
    assert list(view) == [(b'new1', b'x')]


def test_length_of_a_range_is_counted(full: Store) -> None:
    assert len(full.keys()) == len(full.items()) == len(full.values()) == len(KEYS)
    assert len(full.items(prefix=b'a/')) == 8
    assert len(full.keys(prefix=b'none')) == 0
    assert len(full.values(start=b'b', reverse=True)) == 16


def test_membership_respects_the_range(full: Store) -> None:
    assert b'a1' in full.keys(prefix=b'a')
    assert b'a1' not in full.keys(prefix=b'b')
    assert b'a1' not in full.keys(end=b'a1')
    assert b'a1' not in full.keys(end=b'')
    assert b'a1' not in full.keys(start=b'a2')
    assert b'absent' not in full.keys()
    assert 'a1' not in full.keys()
    assert (b'a1', b'a1a1') in full.items()
    assert (b'a1', b'a1') not in full.items()
    assert (b'absent', None) not in full.items()
    assert (b'absent', None) not in full.items(columns='all')
    assert full.items() & {(b'absent', None)} == set()
    assert not {(b'absent', None)} <= full.items()
    assert 'a1' not in full.keys()
    assert ('a1', b'a1a1') not in full.items()
    assert 7 not in full.items()
    assert [b'a1', b'a1a1'] not in full.items()
    assert b'k' * 5000 not in full.keys()
    assert (b'k' * 5000, b'') not in full.items()
    assert memoryview(b'a1a1')[::2] not in full.keys()
    assert (b'a1', b'a1a1') not in full.items(prefix=b'b')
    assert (b'a1', {0: b'a1a1'}) in full.items(columns=[0])
    assert b'a1a1' in full.values()
    assert b'a1a1' not in full.values(prefix=b'b')


def test_keys_and_items_are_sets(full: Store) -> None:
    assert full.keys(prefix=b'a/') & {b'a/1', b'a1'} == {b'a/1'}
    assert full.keys(prefix=b'b') - {b'b\xff0'} == {b'b\xff%d' % i for i in range(1, 8)}
    assert full.keys(prefix=b'\xff') == {b'\xff%d' % i for i in range(8)}
    assert full.items(prefix=b'a/', end=b'a/1') | set() == {(b'a/0', b'a/0a/0')}


def test_columns_are_read_along(store: Store) -> None:
    store.put_columns(b'a', {0: b'0', 1: b'1', 2: b'2'})
    store.put_columns(b'b', {2: b'two'})
    store[b'c'] = b'plain'
    assert dict(store.items()) == {b'a': b'0', b'b': b'', b'c': b'plain'}
    assert dict(store.items(columns=[2, 1])) == {
        b'a': {1: b'1', 2: b'2'}, b'b': {2: b'two'}, b'c': {}}
    assert list(store.values(columns='all', reverse=True)) == [
        {0: b'plain'}, {2: b'two'}, {0: b'0', 1: b'1', 2: b'2'}]
    view = store.items(columns=iter([1]))
    assert list(view) == list(view) == [(b'a', {1: b'1'}), (b'b', {}), (b'c', {})]


def test_iteration_survives_changes(store: Store) -> None:
    store.update((b'%04d' % i, b'x' * 100) for i in range(500))
    rng = random.Random(3)
    seen = []
    for key in store.keys():
        seen.append(key)
        store.pop(b'%04d' % rng.randrange(500), None)
        store[b'%04d+' % rng.randrange(500)] = b''
    assert seen == sorted(set(seen))


def test_a_store_can_be_emptied_while_it_is_read(store: Store) -> None:
    store.update((b'%04d' % i, b'') for i in range(700))
    for key in store:
        del store[key]
    assert len(store) == 0


def test_records_are_read_ahead(store: Store) -> None:
    store.update((b'%04d' % i, b'') for i in range(1000))
    before = store.stat()
    assert sum(1 for _ in store.items()) == 1000
    after = store.stat()
    assert after['scan_records'] - before['scan_records'] == 1000
    assert after['scan'] - before['scan'] < 12
    assert after['get'] == before['get']


def test_reading_is_lazy(store: Store) -> None:
    store.update((b'%04d' % i, bytes(1000)) for i in range(500))
    before = store.stat()['scan_records']
    items = iter(store.items())
    assert store.stat()['scan_records'] == before
    assert next(items) == (b'0000', bytes(1000))
    assert store.stat()['scan_records'] - before < 10


def test_a_slice_is_a_mapping_of_its_range(full: Store) -> None:
    for start, end in itertools.product([None, *BOUNDS], [None, *BOUNDS]):
        expected = {key: key * 2 for key in KEYS
                    if key >= (start or b'') and (end is None or key < end)}
        part = full[start:end]
        assert list(part) == list(expected)
        assert list(reversed(part)) == list(expected)[::-1]
        assert list(part.keys()) == list(expected.keys())
        assert list(part.values()) == list(expected.values())
        assert list(part.items()) == list(expected.items())
        assert part == expected
        assert (len(part), bool(part)) == (len(expected), bool(expected))


def test_a_slice_of_a_slice_is_what_both_have(full: Store) -> None:
    bounds = [None, b'', b'a3', b'b\xff4', b'\xff']
    for first, second in itertools.product(itertools.product(bounds, bounds), repeat=2):
        expected = [key for key in KEYS
                    if all(key >= (low or b'') and (high is None or key < high)
                           for low, high in (first, second))]
        assert list(full[first[0]:first[1]][second[0]:second[1]]) == expected


def test_a_slice_has_the_keys_of_its_range_alone(full: Store) -> None:
    part = full[b'a1':b'a3']
    assert part[b'a1'] == b'a1a1'
    assert part.get(b'a2') == b'a2a2'
    assert b'a2' in part
    for key in (b'a0', b'a3', b'b\xff1', b'a11'):
        assert key not in part
        assert part.get(key) is None
        with pytest.raises(KeyError) as caught:
            part[key]
        assert caught.value.args == (key,)
    assert part.get(b'a3', b'-') == b'-'
    assert part.keys() & {b'a1', b'a5'} == {b'a1'}
    assert (b'a2', b'a2a2') in part.items()
    assert (b'a3', b'a3a3') not in part.items()


def test_a_slice_sees_changes_and_makes_none(full: Store) -> None:
    part: Any = full[b'n':b'o']
    assert not part
    full[b'new'] = b'x'
    assert part == {b'new': b'x'}
    assert issubclass(type(part), Mapping)
    assert not issubclass(type(part), MutableMapping)
    with pytest.raises(TypeError):
        part[b'new'] = b'y'
    with pytest.raises(TypeError):
        del part[b'new']
    wrong: Any = full
    for use in (lambda: wrong.__setitem__(slice(b'a', b'b'), b''),
                lambda: wrong.__delitem__(slice(b'a', b'b')),
                lambda: slice(b'a', b'b') in wrong):
        with pytest.raises(TypeError, match='a key is a bytes-like object, not slice'):
            use()
    assert len(full) == len(KEYS) + 1


def test_a_slice_takes_keys_and_no_step(full: Store) -> None:
    assert list(full[bytearray(b'a/'):memoryview(b'a/2')]) == [b'a/0', b'a/1']
    wrong: Any = full
    for step in (1, -1, 2, b'a'):
        with pytest.raises(ValueError, match='takes no step'):
            wrong[b'a':b'b':step]
        with pytest.raises(ValueError, match='takes no step'):
            wrong[b'a':b'b'][::step]
    for bound in ('a', 3, ['a']):
        with pytest.raises(TypeError, match='a key is a bytes-like object'):
            wrong[bound:]
        with pytest.raises(TypeError, match='a key is a bytes-like object'):
            wrong[:bound]
        with pytest.raises(TypeError, match='a key is a bytes-like object'):
            wrong[b'a':][bound]


def test_whether_a_slice_is_empty_takes_no_counting(store: Store) -> None:
    store.update((b'%04d' % i, b'') for i in range(1000))
    before = store.stat()['scan_records']
    assert store[b'0':]
    assert not store[b'1':]
    assert store.stat()['scan_records'] - before < 300
