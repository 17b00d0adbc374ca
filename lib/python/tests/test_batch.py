# SPDX-License-Identifier: LGPL-2.1-only
"""Batches: many operations in one call, each with its own result."""

import pytest

from kvtree import KeyExists, NotFound, Store, TooLong, VersionMismatch


def test_a_batch_is_one_call(store: Store) -> None:
    before = store.stat()
    with store.batch() as batch:
        for i in range(100):
            batch.put(b'%d' % i, b'v')
        assert len(batch) == 100
        assert len(store) == 0
    after = store.stat()
    assert len(store) == 100
    assert after['batch'] - before['batch'] == 1
    assert after['put'] - before['put'] == 100


def test_gets_of_a_batch_are_looked_up_together(store: Store) -> None:
    store.update((b'%d' % i, b'%d' % i) for i in range(64))
    before = store.stat()['get_interleaved']
    assert store.get_many(b'%d' % i for i in range(64)) == [b'%d' % i for i in range(64)]
    assert store.stat()['get_interleaved'] - before == 64


def test_every_operation_has_its_result(store: Store) -> None:
    with store.batch() as batch:
        put = batch.put(b'k', b'v')
        got = batch.get(b'k')
        miss = batch.get(b'absent')
        added = batch.add(b'n', 41)
        again = batch.add(b'n', 1)
        columns = batch.put_columns(b'c', {1: b'one', 2: b'two'})
        some = batch.get_columns(b'c', [2])
        every = batch.get_columns(b'c')
        none = batch.get_columns(b'absent')
        created = batch.cas(b'new', b'v', 0)
        gone = batch.remove(b'k')
        nothing = batch.remove(b'k', missing_ok=True)
        with pytest.raises(RuntimeError, match='not been executed'):
            put.value  # noqa: B018
        assert not put.done
    assert put.done
    assert put.value == put.version == got.version == gone.value > 0
    assert got.value == b'v'
    assert (miss.value, miss.version, miss.error) == (None, 0, None)
    assert (added.value, again.value) == (41, 42)
    assert columns.value == some.version == every.version
    assert some.value == {2: b'two'}
    assert every.value == {1: b'one', 2: b'two'}
    assert none.value is None
    assert store.get_with_version(b'new') == (b'v', created.value)
    assert nothing.value == 0
    assert len(batch.results) == 12


def test_the_first_failure_is_raised_after_all_were_executed(store: Store) -> None:
    store[b'there'] = b'v'
    with pytest.raises(KeyExists) as caught, store.batch() as batch:
        batch.put(b'a', b'1')
        failed = batch.put(b'there', b'2', create=True)
        batch.remove(b'absent')
        last = batch.put(b'b', b'3')
    assert caught.value is failed.error
    assert caught.value.filename == b'there'
    assert 'operation 1 of 4 of the batch, put, and 1 others' in caught.value.__notes__[0]
    assert last.done
    assert sorted(store) == [b'a', b'b', b'there']


def test_without_check_the_results_have_the_errors(store: Store) -> None:
    version = store.put(b'k', b'v')
    with store.batch(check=False) as batch:
        missing = batch.remove(b'absent')
        stale = batch.cas(b'k', b'w', version + 1)
        late = batch.remove(b'k', version=version + 1)
        fine = batch.put(b'k', b'x')
    assert isinstance(missing.error, NotFound)
    with pytest.raises(NotFound):
        missing.value  # noqa: B018
    for result in (stale, late):
        assert isinstance(result.error, VersionMismatch)
        assert result.error.version == version
    assert fine.error is None
    assert store[b'k'] == b'x'


def test_an_exception_in_the_block_executes_nothing(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.batch() as batch:
        batch.put(b'k', b'v')
        1 / 0  # noqa: B018
    assert len(store) == 0


def test_a_value_that_does_not_fit_has_its_length(store: Store) -> None:
    store[b'k'] = bytes(5000)
    store.put_columns(b'c', {1: bytes(300), 2: bytes(300)})
    with store.batch(check=False) as batch:
        short = batch.get(b'k')
        room = batch.get(b'k', room=5000)
        few = batch.get_columns(b'c', room=599)
        enough = batch.get_columns(b'c', room=600)
    assert isinstance(short.error, TooLong)
    assert short.error.needed == 5000
    assert room.value == bytes(5000)
    assert isinstance(few.error, TooLong)
    assert enough.value == {1: bytes(300), 2: bytes(300)}


def test_a_batch_may_be_longer_than_the_kernel_takes_at_once(store: Store) -> None:
    with store.batch() as batch:
        for _ in range(5000):
            batch.add(b'n', 1)
    assert batch.results[-1].value == 5000


def test_a_batch_can_go_on_and_be_used_again(store: Store) -> None:
    batch = store.batch()
    first = batch.put(b'a', b'1')
    assert batch.run() == [first]
    second = batch.get(b'a')
    assert batch.run() == [second]
    assert second.value == b'1'
    assert batch.run() == []
    batch.clear()
    assert len(batch) == 0
    third = batch.get(b'a')
    assert batch.run() == [third]
    assert (second.value, third.value) == (b'1', b'1')


def test_what_the_caller_changes_later_does_not_matter(store: Store) -> None:
    key, value = bytearray(b'x' * 30), bytearray(b'value')
    with store.batch() as batch:
        batch.put(key, value)
        key[:] = b'y' * 30
        value[:] = b'other'
    assert dict(store.items()) == {b'x' * 30: b'value'}


def test_other_types_are_refused_and_leave_the_batch_as_it_is(store: Store) -> None:
    with store.batch() as batch:
        with pytest.raises(TypeError):
            batch.put('k', b'v')  # type: ignore[arg-type]
        with pytest.raises(OverflowError):
            batch.add(b'k', 2**63)
        with pytest.raises(ValueError, match='too long'):
            batch.put(b'k', bytes((1 << 20) + 1))
        assert len(batch) == 0
        batch.put(b'k', b'v')
    assert store[b'k'] == b'v'
