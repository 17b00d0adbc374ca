# SPDX-License-Identifier: LGPL-2.1-only
"""Versions make a change depend on what was read."""

import threading

import pytest

from kvtree import KeyExists, NotFound, Store, VersionMismatch


def test_each_change_gives_a_greater_version(store: Store) -> None:
    seen = [store.put(b'k', b'1'), store.put(b'k', b'2')]
    store.remove(b'k')
    seen.append(store.put(b'k', b'3'))
    seen.append(store.put_columns(b'k', {1: b'c'}))
    store.add(b'k', 1, col=2)
    assert store.get_with_version(b'k')[1] > seen[-1]
    assert seen[0] > 0
    assert seen == sorted(set(seen))


def test_get_with_version_returns_the_version_of_the_put(store: Store) -> None:
    version = store.put(b'k', b'v')
    assert store.get_with_version(b'k') == (b'v', version)
    assert store.get_with_version(b'absent') == (None, 0)
    assert store.get_columns_with_version(b'k') == ({0: b'v'}, version)
    assert store.get_columns_with_version(b'absent') == (None, 0)


def test_cas_takes_place_only_at_its_version(store: Store) -> None:
    first = store.cas(b'k', b'1', 0)
    second = store.cas(b'k', b'2', first)
    assert store.get_with_version(b'k') == (b'2', second)
    with pytest.raises(VersionMismatch) as caught:
        store.cas(b'k', b'3', first)
    assert caught.value.version == second
    assert caught.value.filename == b'k'
    assert store[b'k'] == b'2'
    with pytest.raises(VersionMismatch) as caught:
        store.cas(b'absent', b'3', first)
    assert caught.value.version == 0
    with pytest.raises(VersionMismatch):
        store.cas(b'k', b'3', 0)


def test_cas_columns_takes_place_only_at_its_version(store: Store) -> None:
    first = store.put_columns(b'k', {0: b'a', 1: b'b'})
    second = store.cas_columns(b'k', {1: b'c'}, first)
    assert store.get_columns_with_version(b'k') == ({0: b'a', 1: b'c'}, second)
    with pytest.raises(VersionMismatch) as caught:
        store.cas_columns(b'k', {1: b'd'}, first)
    assert caught.value.version == second
    store.cas_columns(b'k', {7: b'e'}, second, whole=True)
    assert store.get_columns(b'k') == {7: b'e'}


def test_create_and_replace(store: Store) -> None:
    with pytest.raises(NotFound):
        store.put(b'k', b'v', replace=True)
    version = store.put(b'k', b'1', create=True)
    with pytest.raises(KeyExists) as caught:
        store.put(b'k', b'2', create=True)
    assert caught.value.filename == b'k'
    assert store.put(b'k', b'2', replace=True) > version
    assert store[b'k'] == b'2'


def test_remove_returns_the_version_that_was_there(store: Store) -> None:
    version = store.put(b'k', b'v')
    with pytest.raises(VersionMismatch) as caught:
        store.remove(b'k', version=version + 1)
    assert caught.value.version == version
    assert store.remove(b'k', version=version) == version
    with pytest.raises(NotFound):
        store.remove(b'k')
    with pytest.raises(KeyError):
        store.remove(b'k', version=version)
    assert store.remove(b'k', missing_ok=True) == 0


def test_add_counts(store: Store) -> None:
    assert store.add(b'n', 5) == 5
    assert store.add(b'n', -7) == -2
    assert store[b'n'] == (-2).to_bytes(8, 'little', signed=True)
    assert store.add(b'n', 1, col=3) == 1
    assert store.add(b'max', 2**63 - 1) == 2**63 - 1
    assert store.add(b'max', 1) == -2**63
    with pytest.raises(NotFound):
        store.add(b'absent', 1, replace=True)
    with pytest.raises(OverflowError):
        store.add(b'n', 2**63)
    store[b'text'] = b'no number'
    with pytest.raises(ValueError, match='invalid'):
        store.add(b'text', 1)


def test_no_increment_is_lost_between_threads(store: Store) -> None:
    def work() -> None:
        for _ in range(50):
            store.add(b'added', 1)
            while True:
                value, version = store.get_with_version(b'swapped')
                try:
                    store.cas(b'swapped', b'%d' % (int(value or b'0') + 1), version)
                except VersionMismatch:
                    continue
                break

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.add(b'added', 0) == 200
    assert store[b'swapped'] == b'200'


def test_an_item_is_popped_by_one_thread_alone(store: Store) -> None:
    store.update((b'%03d' % i, b'%d' % i) for i in range(200))
    popped: list[bytes] = []

    def work() -> None:
        while True:
            try:
                popped.append(store.popitem()[0])
            except KeyError:
                return

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(popped) == [b'%03d' % i for i in range(200)]
