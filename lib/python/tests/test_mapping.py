# SPDX-License-Identifier: LGPL-2.1-only
"""A store is a mutable mapping of bytes, in the order of its keys."""

import array
import random
from collections.abc import MutableMapping
from typing import Any

import pytest

import kvtree
from kvtree import Store


def test_what_is_stored_is_found(store: Store) -> None:
    store[b'k'] = b'v'
    assert store[b'k'] == b'v'
    assert store.get(b'k') == b'v'
    assert b'k' in store
    del store[b'k']
    assert b'k' not in store
    assert store.get(b'k') is None
    assert store.get(b'k', b'other') == b'other'


def test_it_is_a_mutable_mapping(store: Store) -> None:
    assert isinstance(store, MutableMapping)
    store.update({b'b': b'2', b'a': b'1'})
    assert dict(store) == dict(store.items()) == {b'a': b'1', b'b': b'2'}


def test_a_missing_key_is_a_key_error_that_names_it(store: Store) -> None:
    with pytest.raises(KeyError) as caught:
        store[b'absent']
    assert caught.value.args == (b'absent',)
    with pytest.raises(KeyError):
        del store[b'absent']
    with pytest.raises(KeyError):
        store.pop(b'absent')


@pytest.mark.parametrize('key', [b'', b'\0', b'\0\0', b'\xff' * 16, b'x' * 17, b'y' * 4096],
                         ids=['empty', 'zero', 'zeros', 'inline', 'pointer', 'longest'])
def test_keys_are_any_bytes(store: Store, key: bytes) -> None:
    store[key] = key[::-1]
    assert list(store.items()) == [(key, key[::-1])]


@pytest.mark.parametrize('length', [0, 1, 1023, 1024, 1025, 1 << 20])
def test_values_are_any_bytes(store: Store, length: int) -> None:
    value = random.Random(length).randbytes(length)
    store[b'k'] = value
    assert store[b'k'] == value
    assert list(store.values()) == [value]
    assert b'k' in store


@pytest.mark.parametrize('make', [bytearray, memoryview,
                                  lambda b: array.array('B', b),
                                  lambda b: memoryview(b + b)[:len(b)]],
                         ids=['bytearray', 'memoryview', 'array', 'slice'])
def test_keys_and_values_are_bytes_like(store: Store, make: Any) -> None:
    store[make(b'key')] = make(b'value')
    assert store[make(b'key')] == b'value'
    assert type(store[b'key']) is bytes
    assert make(b'key') in store
    assert make(b'key') in store.keys()
    assert (make(b'key'), b'value') in store.items()
    store.put_columns(make(b'key'), {1: make(b'one')})
    assert store.get_columns(make(b'key')) == {0: b'value', 1: b'one'}
    assert list(store.keys(prefix=make(b'k'), start=make(b'k'), end=make(b'l'))) == [b'key']
    with pytest.raises(kvtree.KeyExists, match="b'key'"):
        store.put(make(b'key'), make(b'other'), create=True)
    assert store.pop(make(b'key')) == b'value'


def test_an_array_counts_in_bytes(store: Store) -> None:
    store[b'k'] = array.array('I', [1, 2, 3])
    assert len(store[b'k']) == 3 * array.array('I').itemsize


@pytest.mark.parametrize('wrong', ['text', 3, None, 1.5, ['k']])
def test_other_types_are_refused(store: Store, wrong: Any) -> None:
    with pytest.raises(TypeError, match='key is a bytes-like object'):
        store[wrong]
    with pytest.raises(TypeError, match='key is a bytes-like object'):
        store[wrong] = b'v'
    with pytest.raises(TypeError, match='key is a bytes-like object'):
        wrong in store  # noqa: B015
    with pytest.raises(TypeError, match='value is a bytes-like object'):
        store[b'k'] = wrong
    assert len(store) == 0


def test_memory_that_is_not_in_one_piece_is_refused(store: Store) -> None:
    with pytest.raises((TypeError, BufferError, ValueError)):
        store[b'k'] = memoryview(b'abcdef')[::2]
    assert len(store) == 0


def test_length_is_the_number_of_keys(store: Store) -> None:
    assert len(store) == 0
    assert not store
    for i in range(100):
        store[b'%d' % i] = b''
    assert len(store) == 100
    del store[b'7']
    assert len(store) == 99
    assert store


def test_iteration_is_in_the_order_of_bytes(store: Store) -> None:
    keys = [b'', b'\0', b'\0\0', b'A', b'a', b'a\0', b'ab', b'b', b'\x7f', b'\x80', b'\xff']
    for key in random.Random(1).sample(keys, len(keys)):
        store[key] = key
    assert list(store) == sorted(keys)
    assert list(reversed(store)) == sorted(keys, reverse=True)


def test_pop_returns_and_removes(store: Store) -> None:
    store[b'k'] = b'v'
    assert store.pop(b'k') == b'v'
    assert len(store) == 0
    assert store.pop(b'k', None) is None
    assert store.pop(b'k', default=b'd') == b'd'


def test_popitem_takes_the_ends(store: Store) -> None:
    store.update({b'a': b'1', b'b': b'2', b'c': b'3'})
    assert store.popitem() == (b'c', b'3')
    assert store.popitem(last=False) == (b'a', b'1')
    assert store.popitem() == (b'b', b'2')
    with pytest.raises(KeyError):
        store.popitem()


def test_setdefault_stores_only_what_is_missing(store: Store) -> None:
    assert store.setdefault(b'k', b'first') == b'first'
    assert store.setdefault(b'k', b'second') == b'first'
    assert store[b'k'] == b'first'
    assert store.setdefault(b'empty') == b''


def test_update_takes_what_a_dict_takes(store: Store) -> None:
    store.update({b'a': b'1'})
    store.update([(b'b', b'2'), (b'c', b'3')])
    store.update((b'%d' % i, b'x' * 1000) for i in range(1500))
    store.update()
    assert len(store) == 1503
    assert store[b'1499'] == b'x' * 1000


def test_clear_removes_everything(store: Store) -> None:
    store.update((b'%d' % i, b'') for i in range(1100))
    store.clear()
    assert len(store) == 0
    assert list(store) == []


def test_get_many_keeps_the_order_of_its_keys(store: Store) -> None:
    store.update({b'a': b'1', b'long': b'x' * 70000, b'c': b'3', b'empty': b''})
    keys = [b'c', b'absent', b'long', b'a', b'c', b'empty']
    found = [b'3', None, b'x' * 70000, b'1', b'3', b'']
    assert store.get_many(keys) == found
    assert store.get_many(iter(keys), b'-') == [b'-' if v is None else v for v in found]
    assert store.get_many([]) == []
    store.update((b'%d' % i, b'%d' % i) for i in range(1100))
    assert store.get_many(b'%d' % i for i in range(1100)) == [b'%d' % i for i in range(1100)]


def test_stores_are_equal_only_to_themselves(store: Store, name: str) -> None:
    with Store(name) as other:
        assert store == store
        assert store != other
        assert store != {}
        assert len({store, other}) == 2


def test_random_changes_agree_with_a_dict(store: Store) -> None:
    rng = random.Random(20)
    model: dict[bytes, bytes] = {}
    for step in range(800):
        key = rng.choice((b'', b'layer-of-keys-', b'k')) + b'%d' % rng.randrange(60)
        match rng.randrange(8):
            case 0 | 1 | 2:
                store[key] = model[key] = rng.randbytes(rng.randrange(40))
            case 3:
                assert store.pop(key, None) == model.pop(key, None)
            case 4:
                assert store.setdefault(key, b'd') == model.setdefault(key, b'd')
            case 5:
                assert (key in store) == (key in model)
            case 6:
                low, high = sorted((key, b'k%d' % rng.randrange(60)))
                expected = sorted(item for item in model.items() if low <= item[0] < high)
                assert list(store.items(start=low, end=high)) == expected
            case 7:
                assert store.get(key) == model.get(key)
        if step % 200 == 0:
            assert list(store.items()) == sorted(model.items())
            assert len(store) == len(model)
    assert list(store.items(reverse=True)) == sorted(model.items(), reverse=True)
