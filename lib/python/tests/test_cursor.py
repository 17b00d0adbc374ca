# SPDX-License-Identifier: LGPL-2.1-only
"""Cursors: a position in a range, and steps from there."""

import threading

import pytest

import kvtree
from kvtree import Store


@pytest.fixture
def full(store: Store) -> Store:
    store.update((b'%02d' % i, b'v%d' % i) for i in range(0, 100, 2))
    return store


def test_a_new_cursor_stands_before_the_first_record(full: Store) -> None:
    with full.cursor() as cursor:
        with pytest.raises(LookupError, match='not at a record'):
            cursor.key  # noqa: B018
        assert not cursor.prev()
        assert cursor.next()
        assert (cursor.key, cursor.value) == (b'00', b'v0')
        assert cursor.version == full.get_with_version(b'00')[1]


def test_it_steps_both_ways_and_over_the_ends(full: Store) -> None:
    with full.cursor(start=b'10', end=b'16') as cursor:
        keys = []
        while cursor.next():
            keys.append(cursor.key)
        assert keys == [b'10', b'12', b'14']
        with pytest.raises(LookupError):
            cursor.value  # noqa: B018
        assert not cursor.next()
        assert cursor.prev()
        assert cursor.key == b'14'
        assert cursor.prev()
        assert cursor.key == b'12'
        assert cursor.next()
        assert cursor.key == b'14'
        assert cursor.first()
        assert cursor.key == b'10'
        assert not cursor.prev()
        assert cursor.last()
        assert cursor.key == b'14'


def test_seek_finds_the_key_or_the_next(full: Store) -> None:
    with full.cursor() as up, full.cursor(reverse=True) as down:
        for cursor, wanted, found in ((up, b'20', b'20'), (up, b'21', b'22'),
                                      (up, b'', b'00'), (down, b'20', b'20'),
                                      (down, b'21', b'20'), (down, b'\xff', b'98')):
            assert cursor.seek(wanted)
            assert cursor.key == found
        assert not up.seek(b'99')
        assert not down.seek(b'')
        assert up.prev()
        assert up.key == b'98'


def test_reverse_turns_first_and_next_around(full: Store) -> None:
    with full.cursor(prefix=b'4', reverse=True) as cursor:
        assert cursor.first()
        assert cursor.key == b'48'
        assert cursor.next()
        assert cursor.key == b'46'
        assert cursor.last()
        assert cursor.key == b'40'


def test_iterating_continues_from_the_position(full: Store) -> None:
    with full.cursor() as cursor:
        assert cursor.seek(b'94')
        assert list(cursor) == [(b'96', b'v96'), (b'98', b'v98')]
        assert list(cursor) == []


def test_take_is_a_loop_of_next(full: Store) -> None:
    with full.cursor(start=b'90') as cursor:
        assert cursor.take(2) == [(b'90', b'v90'), (b'92', b'v92')]
        assert cursor.key == b'92'
        assert cursor.version == full.get_with_version(b'92')[1]
        assert cursor.next()
        assert cursor.key == b'94'
        assert cursor.take(9) == [(b'96', b'v96'), (b'98', b'v98')]
        with pytest.raises(LookupError):
            cursor.key  # noqa: B018
        assert cursor.take(9) == []
        assert cursor.prev()
        assert cursor.key == b'98'
        with pytest.raises(ValueError, match='at least 1'):
            cursor.take(0)
    full.clear()
    full.update((b'%d' % i, bytes(40000)) for i in range(9))
    full.put_columns(b'9', {i: bytes(20000) for i in range(9)})
    with full.cursor() as cursor, full.cursor(columns='all') as columns:
        assert len(cursor.take(9)) == 2
        assert columns.seek(b'8')
        assert len(columns.take(9)) == 1


def test_what_is_read(full: Store) -> None:
    full.put_columns(b'00', {1: b'one'})
    with full.cursor(keys_only=True) as keys, full.cursor(columns=[1]) as some, \
            full.cursor(columns='all') as every:
        assert keys.next()
        assert some.next()
        assert every.next()
        assert keys.value is None
        assert some.value == {1: b'one'}
        assert every.value == {0: b'v0', 1: b'one'}


def test_keys_alone_and_columns_exclude_each_other(full: Store) -> None:
    with pytest.raises(kvtree.InvalidArgument):
        full.cursor(keys_only=True, columns=[1])  # type: ignore[call-overload]


def test_read_ahead_bounds_what_is_read(full: Store) -> None:
    before = full.stat()['scan_records']
    with full.cursor(read_ahead=3) as cursor:
        assert cursor.next()
        assert full.stat()['scan_records'] - before == 3
        full[b'04'] = b'changed'
        assert cursor.next()
        assert cursor.next()
        assert cursor.value == b'v4'
        assert cursor.seek(b'04')
        assert cursor.value == b'changed'


def test_a_closed_cursor_is_reported(full: Store) -> None:
    cursor = full.cursor()
    assert cursor.next()
    cursor.close()
    cursor.close()
    with pytest.raises(ValueError, match='the cursor is closed'):
        cursor.next()


def test_closing_the_store_ends_its_cursors(full: Store) -> None:
    cursor = full.cursor()
    items = iter(full.items())
    next(items)
    full.close()
    with pytest.raises(ValueError, match='the store is closed'):
        cursor.next()
    with pytest.raises(ValueError, match='the store is closed'):
        next(items)


def test_threads_may_take_turns(full: Store) -> None:
    seen: list[bytes] = []
    cursor = full.cursor(keys_only=True, read_ahead=1)
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                if not cursor.next():
                    return
                seen.append(cursor.key)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [b'%02d' % i for i in range(0, 100, 2)]
