# SPDX-License-Identifier: LGPL-2.1-only
"""Rings: many operations in progress, with and without asyncio."""

import asyncio
import errno
import gc
import mmap
import os
import random
import select
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import kvtree
from kvtree import (
    Canceled,
    InvalidArgument,
    KeyExists,
    NotFound,
    Operation,
    Ring,
    Store,
    StoreGone,
    VersionMismatch,
)
from kvtree._native import lib

WAYS: dict[str, dict[str, Any]] = {
    'default': {}, 'by_pointer': {'by_pointer': True}, 'system_calls': {'uring': False},
}


@pytest.fixture(params=WAYS)
def ring(store: Store, request: pytest.FixtureRequest) -> Iterator[Ring]:
    """A ring of each kind, with a small depth."""
    with store.ring(16, **WAYS[request.param]) as ring:
        yield ring


def test_it_is_an_io_uring_where_the_kernel_has_one(store: Store) -> None:
    offered = 'uring' in kvtree.info().features
    with store.ring() as ring, store.ring(uring=False) as calls:
        assert ring.uses_uring == offered
        assert not calls.uses_uring
        before = store.stat()
        assert ring.put(b'k', b'v').wait() > 0
        assert store.stat()['uring'] - before['uring'] == offered
        assert calls.get(b'k').wait() == b'v'
        assert store.stat()['uring'] - before['uring'] == offered


def test_every_operation_does_what_the_stores_does(store: Store, ring: Ring) -> None:
    put = ring.put(b'k', b'v')
    version = put.wait()
    assert store.get_with_version(b'k') == (b'v', version)
    assert put.version == version
    got = ring.get(bytearray(b'k'))
    assert got.wait() == b'v'
    assert got.version == version
    assert ring.get(b'absent').wait() is None
    swapped = ring.cas(b'k', memoryview(b'w'), version)
    assert swapped.wait() > version
    assert ring.add(b'n', 41).wait() == 41
    assert ring.add(b'n', -43).wait() == -2
    assert ring.add(b'n', 3, col=7).wait() == 3
    assert ring.remove(b'k', version=swapped.value).wait() == swapped.value
    assert ring.remove(b'k', missing_ok=True).wait() == 0
    assert ring.put(b'x' * 100, b'long key').wait() > 0
    assert ring.get(b'x' * 100).wait() == b'long key'
    assert sorted(store) == [b'n', b'x' * 100]


def test_an_operation_has_its_error(store: Store, ring: Ring) -> None:
    version = store.put(b'k', b'v')
    for operation, kind in ((ring.put(b'k', b'w', create=True), KeyExists),
                            (ring.put(b'absent', b'w', replace=True), NotFound),
                            (ring.cas(b'k', b'w', version + 1), VersionMismatch),
                            (ring.remove(b'k', version=version + 1), VersionMismatch),
                            (ring.remove(b'absent'), NotFound),
                            (ring.put(bytes(4097), b''), InvalidArgument),
                            (ring.put(bytes(70000), b''), InvalidArgument),
                            (ring.get(bytes(4097)), InvalidArgument),
                            (ring.add(b'k', 1), InvalidArgument),
                            (ring.add(b'k', 1, col=256), InvalidArgument)):
        with pytest.raises(kind):
            operation.wait()
        assert isinstance(operation.error, kind)
        if isinstance(operation.error, VersionMismatch):
            assert operation.error.version == version
    assert not ring.pending
    assert dict(store.items()) == {b'k': b'v'}


def test_what_cannot_be_is_refused_at_once(store: Store, ring: Ring) -> None:
    with pytest.raises(TypeError):
        ring.put('k', b'v')  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ring.put(b'k', None)  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        ring.add(b'k', 2**63)
    with pytest.raises(OverflowError):
        ring.cas(b'k', b'v', -1)
    assert not ring.pending
    with pytest.raises(ValueError, match='at least 1'):
        store.ring(0)
    with pytest.raises(InvalidArgument):
        store.ring(1 << 20)


def test_any_number_of_operations_may_be_queued(store: Store, ring: Ring) -> None:
    puts = [ring.put(b'%d' % i, b'%d' % i * 9) for i in range(200)]
    assert ring.pending == 200
    assert not puts[0].done
    done = ring.wait(200)
    assert len(done) == 200
    assert set(done) == set(puts)
    assert len(store) == 200
    gets = [ring.get(b'%d' % i) for i in range(201)]
    ring.drain()
    assert [get.value for get in gets] == [b'%d' % i * 9 for i in range(200)] + [None]


def test_wait_returns_what_has_completed(store: Store, ring: Ring) -> None:
    assert ring.wait() == []
    first = ring.put(b'a', b'1')
    with pytest.raises(RuntimeError, match='not been executed'):
        first.value  # noqa: B018
    second = ring.put(b'b', b'2')
    assert ring.submit() == 2
    done = ring.wait(1)
    while len(done) < 2:
        done += ring.wait(1)
    assert set(done) == {first, second}
    assert ring.wait(0) == []
    assert ring.wait(5, timeout=10) == []
    assert first.wait() == first.value > 0


def test_a_long_value_is_asked_for_again(store: Store, ring: Ring) -> None:
    store.update({b'%d' % i: bytes([i]) * 1000 * i for i in range(20)})
    found = [ring.get(b'%d' % i, room=10 * i) for i in range(20)]
    ring.drain()
    assert [get.value for get in found] == [bytes([i]) * 1000 * i for i in range(20)]


def test_memory_that_is_not_there_yet_is_waited_for(store: Store, ring: Ring) -> None:
    """The kernel hands such an operation to a worker; it completes later."""
    with mmap.mmap(-1, 1 << 20) as fresh:
        put = ring.put(b'zeros', fresh)
        assert put.wait() > 0
        del put
    store[b'k'] = value = random.Random(1).randbytes(1 << 20)
    gets = [ring.get(key, room=1 << 20) for key in (b'zeros', b'k', b'k')]
    assert [get.wait() for get in gets] == [bytes(1 << 20), value, value]


def test_a_batch_is_one_operation(store: Store, ring: Ring) -> None:
    batch = store.batch()
    stored = batch.put_columns(b'k', {1: b'one'})
    found = batch.get_columns(b'k')
    for _ in range(500):
        batch.add(b'n', 1)
    operation = ring.run(batch)
    for use in (batch.run, batch.clear, lambda: batch.get(b'k'), lambda: ring.run(batch)):
        with pytest.raises(RuntimeError, match='in progress'):
            use()
    assert operation.wait() == batch.results
    assert (stored.done, found.value) == (True, {1: b'one'})
    assert batch.results[-1].value == 500
    batch.clear()
    batch.put(b'k', b'', create=True)
    with pytest.raises(KeyExists) as caught:
        ring.run(batch).wait()
    assert 'operation 0 of 1' in caught.value.__notes__[0]


def test_a_batch_of_another_session_is_refused(store: Store, ring: Ring, name: str) -> None:
    with Store(name) as other, pytest.raises(ValueError, match='another store'):
        ring.run(other.batch())


def test_what_was_not_submitted_can_be_canceled(store: Store, ring: Ring) -> None:
    puts = [ring.put(b'%d' % i, b'') for i in range(40)]
    assert ring.cancel(puts[3]) == 1
    assert ring.cancel(puts[30]) == 1
    assert len(ring.wait(40)) == 40
    for number, put in enumerate(puts):
        if number in (3, 30):
            assert isinstance(put.error, Canceled)
        else:
            assert put.error is None
    assert len(store) == 38
    more: list[Operation[Any]] = [ring.put(b'more', b''), ring.cas(b'more', b'', 0),
                                  ring.run(store.batch())]
    assert ring.cancel() == 3
    ring.drain()
    assert all(isinstance(operation.error, Canceled) for operation in more)
    assert ring.cancel() == 0
    assert b'more' not in store


def test_closing_cancels_what_was_not_submitted(store: Store) -> None:
    for way in WAYS.values():
        ring = store.ring(4, **way)
        puts = [ring.put(b'%d' % i, b'') for i in range(10)]
        ring.close()
        assert all(isinstance(put.error, Canceled) for put in puts)
        ring.close()
        assert ring.closed
        assert 'closed' in repr(ring)
        for use in (lambda r=ring: r.get(b'k'), ring.wait, ring.submit, ring.fileno):
            with pytest.raises(ValueError, match='the ring is closed'):
                use()
    assert len(store) == 0


def test_the_end_of_the_block_waits(store: Store) -> None:
    with store.ring(4) as ring:
        puts = [ring.put(b'%d' % i, b'') for i in range(10)]
    assert all(put.value > 0 for put in puts)
    with pytest.raises(ZeroDivisionError), store.ring() as ring:
        late = ring.put(b'late', b'')
        1 / 0  # noqa: B018
    assert isinstance(late.error, Canceled)
    assert len(store) == 10


def test_a_destroyed_store_is_reported(store: Store, ring: Ring, name: str) -> None:
    kvtree.destroy_store(name)
    with pytest.raises(StoreGone):
        ring.put(b'k', b'v').wait()


def test_it_belongs_to_its_thread(store: Store) -> None:
    seen: list[BaseException] = []

    def work() -> None:
        for use in (lambda: mine.get(b'k'), mine.wait, mine.close):
            try:
                use()
            except RuntimeError as e:
                seen.append(e)

    with store.ring() as mine:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert len(seen) == 3
        assert mine.put(b'k', b'v').wait() > 0


def test_each_thread_may_have_a_ring(store: Store) -> None:
    def work(number: int) -> None:
        with store.ring(8) as ring:
            for i in range(100):
                ring.put(b'%d-%d' % (number, i), b'')
            ring.drain()
            done.append(number)

    done: list[int] = []
    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [0, 1, 2]
    assert len(store) == 300


def test_a_ring_that_nobody_has_is_closed(store: Store) -> None:
    before = len(os.listdir('/proc/self/fd'))
    operations: list[Operation[Any]] = []
    for submit in (False, True) * 5:
        ring = store.ring(8)
        operations += [ring.get(b'k', room=1 << 16) for _ in range(20)]
        if submit:
            ring.submit()
        del ring
    gc.collect()
    assert len(os.listdir('/proc/self/fd')) == before
    assert not any(operation.done for operation in operations)
    with pytest.raises(ValueError, match='the ring is closed'):
        operations[0].wait()
    assert store.put(b'k', b'v') > 0


def test_a_child_may_close_it_and_the_parent_still_uses_it(store: Store) -> None:
    with store.ring() as ring:
        assert ring.put(b'a', b'1').wait() > 0
        queued = ring.put(b'b', b'2')
        pid = os.fork()
        if not pid:
            ring.close()
            os._exit(0 if store[b'a'] == b'1' else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert queued.wait() > 0
        assert ring.get(b'b').wait() == b'2'


def test_the_store_outlives_its_ring(name: str) -> None:
    store = Store(name)
    ring = store.ring()
    put = ring.put(b'k', b'v')
    store.close()
    assert put.wait() > 0
    ring.close()


def test_the_descriptor_is_readable_when_something_completed(store: Store, ring: Ring) -> None:
    poll = select.poll()
    poll.register(ring, select.POLLIN)
    assert poll.poll(0) == []
    put = ring.put(b'k', b'v')
    ring.submit()
    done: list[Operation[Any]] = []
    while not done:
        assert poll.poll(60_000)
        os.eventfd_read(ring.fileno())
        done = ring.wait(0)
    assert done == [put]
    assert poll.poll(0) == []


def test_random_operations_agree_with_a_dict(store: Store, ring: Ring) -> None:
    """Concurrent operations use different keys, because they are not ordered."""
    rng = random.Random(7)
    model: dict[bytes, bytes] = {}
    for _ in range(25):
        expected: list[tuple[Operation[Any], Any]] = []
        for number in rng.sample(range(100), 30):
            key = b'%d' % number * rng.choice((1, 20))
            match rng.randrange(3):
                case 0:
                    model[key] = value = rng.randbytes(rng.randrange(2000))
                    expected.append((ring.put(key, value), None))
                case 1:
                    expected.append((ring.get(key), model.get(key)))
                case 2:
                    there = model.pop(key, None) is not None
                    expected.append((ring.remove(key, missing_ok=True), there))
        ring.drain()
        for operation, value in expected:
            match value:
                case None if operation.value is not None:
                    assert operation.value > 0
                case bool():
                    assert (operation.value > 0) == value
                case _:
                    assert operation.value == value
    assert dict(store.items()) == model


def test_awaiting_gives_the_value(store: Store, ring: Ring) -> None:
    async def main() -> None:
        version = await ring.put(b'k', b'v')
        assert await ring.get(b'k') == b'v'
        assert await ring.get(b'absent') is None
        assert await ring.cas(b'k', b'w', version) > version
        with pytest.raises(VersionMismatch):
            await ring.cas(b'k', b'x', version)
        operation = ring.get(b'k')
        assert await operation == await operation == operation.value == b'w'

    asyncio.run(main())
    assert not ring.pending


def test_many_tasks_share_a_ring(store: Store, ring: Ring) -> None:
    async def task(number: int) -> int:
        key = b'%d' % number
        await ring.put(key, key * 400)
        assert await ring.get(key) == key * 400
        total = await ring.add(b'n', 1)
        await ring.remove(key)
        return total

    async def main() -> list[int]:
        return await asyncio.gather(*(task(n) for n in range(80)))

    assert sorted(asyncio.run(main())) == list(range(1, 81))
    assert list(store) == [b'n']


def test_what_tasks_queue_begins_together(store: Store) -> None:
    async def main() -> None:
        await asyncio.gather(*(calls.put(b'%d' % i, b'') for i in range(100)))

    with store.ring(uring=False) as calls:
        before = store.stat()['batch']
        asyncio.run(main())
        assert store.stat()['batch'] - before == 1


def test_the_loop_runs_while_operations_wait(store: Store, ring: Ring) -> None:
    """Fresh memory makes an io_uring complete later, and the loop must notice."""
    async def main() -> None:
        with mmap.mmap(-1, 1 << 20) as fresh:
            assert await ring.put(b'k', fresh) > 0
        values = await asyncio.gather(*(ring.get(b'k', room=1 << 20) for _ in range(5)))
        assert all(value == bytes(1 << 20) for value in values)

    asyncio.run(asyncio.wait_for(main(), 120))


def test_a_canceled_task_leaves_the_ring_usable(store: Store, ring: Ring) -> None:
    async def main() -> None:
        batch = store.batch()
        for _ in range(1000):
            batch.add(b'n', 1)
        slow = asyncio.ensure_future(ring.run(batch))
        waiting = [asyncio.ensure_future(ring.put(b'%d' % i, b'')) for i in range(50)]
        await asyncio.sleep(0)
        for task in (slow, *waiting[::2]):
            task.cancel()
        results = await asyncio.gather(slow, *waiting, return_exceptions=True)
        for i, result in enumerate(results[1:]):
            # Those that were executed before they could be canceled are done.
            if not isinstance(result, asyncio.CancelledError):
                assert isinstance(result, int)
                assert b'%d' % i in store
        assert await ring.get(b'1') == b''
        while ring.pending:
            await asyncio.sleep(0.01)
        batch.clear()

    asyncio.run(main())
    assert not ring.pending


def test_async_with_waits_without_holding_up_the_loop(store: Store) -> None:
    async def main() -> None:
        async with store.ring(4) as ring:
            puts = [ring.put(b'%d' % i, b'') for i in range(20)]
            failing = ring.put(b'0', b'', replace=True, create=True)
        assert ring.closed
        assert all(put.value > 0 for put in puts)
        assert failing.error is not None
        with pytest.raises(ZeroDivisionError):
            async with store.ring() as ring:
                ring.put(b'late', b'')
                1 / 0  # noqa: B018

    asyncio.run(main())
    assert len(store) == 20


def test_one_loop_after_the_other(store: Store, ring: Ring) -> None:
    async def main() -> bytes | None:
        await ring.put(b'k', b'v')
        return await ring.get(b'k', room=1 << 20)

    assert asyncio.run(main()) == b'v'
    assert asyncio.run(main()) == b'v'
    assert ring.get(b'k').wait() == b'v'


def test_a_signal_is_handled_while_a_ring_waits(store: Store, ring: Ring) -> None:
    """The handler runs while the library waits, and waiting continues."""
    seen: list[int] = []
    old = signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        # On a busy machine the first signal may come too early.
        while True:
            ring.put(b'k', b'v')
            assert len(ring.wait(1, timeout=60)) == 1
            if seen:
                break
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert store[b'k'] == b'v'


class Refusing:
    """The library with a kernel that refuses the first submissions."""

    def __init__(self, times: int) -> None:
        self.left = times

    def __getattr__(self, name: str) -> Any:
        return getattr(lib, name)

    def kvtree_ring_wait(self, *args: Any) -> int:
        if not self.left:
            return int(lib.kvtree_ring_wait(*args))
        self.left -= 1
        return -errno.EAGAIN


def test_what_the_kernel_refuses_is_submitted_later(
        store: Store, ring: Ring, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        refusing.left = 5
        assert await ring.add(b'n', 1) == 1
        assert not refusing.left
        refusing.left = 5
        assert sorted(await asyncio.gather(*(ring.add(b'n', 1) for _ in range(40)))) == [
            *range(2, 42)]
        assert not refusing.left

    refusing = Refusing(0)
    monkeypatch.setattr('kvtree._ring.lib', refusing)
    asyncio.run(asyncio.wait_for(main(), 120))
    refusing.left = 5
    assert ring.add(b'n', 1).wait() == 42
    refusing.left = 5
    adds = [ring.add(b'n', 1) for _ in range(40)]
    assert len(ring.wait(40)) == 40
    assert max(add.value for add in adds) == 82
    assert not refusing.left


def test_a_child_leaves_the_parents_loop_alone(store: Store, ring: Ring) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        seen = loop.create_future()

        def readable() -> None:
            os.eventfd_read(ring.fileno())
            if not seen.done():
                seen.set_result(None)

        ring._readable = readable  # type: ignore[method-assign]
        ring._loop = loop
        ring._watch()
        pid = os.fork()
        if not pid:
            ring.close()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        os.eventfd_write(ring.fileno(), 1)
        await asyncio.wait_for(seen, 60)

    asyncio.run(main())


def test_a_canceled_batch_reports_how_far_it_came(store: Store, ring: Ring) -> None:
    batch = store.batch()
    for _ in range(5000):
        batch.add(b'n', 1)
    operation = ring.run(batch)
    ring.submit()
    # The first call requeues the rest of a list that is longer than one system call.
    for _ in range(2):
        ring.cancel(operation)
    ring.drain()
    executed = sum(result.done for result in batch.results)
    assert int.from_bytes(store[b'n'], 'little') == executed
    if not ring.uses_uring:
        assert executed == 5000
    else:
        assert isinstance(operation.error, Canceled)
        assert executed == 4096
        assert 'after 4096 of its operations' in str(operation.error)
    waiting = ring.run(store.batch())
    ring.cancel(waiting)
    ring.drain()
    assert 'nothing has changed' in str(waiting.error)


def test_a_time_limit_ends_waiting(store: Store, ring: Ring) -> None:
    put = ring.put(b'k', b'v')
    assert put.wait(timeout=60) > 0
    start = time.monotonic()
    assert ring.wait(1, timeout=0) == []
    assert time.monotonic() >= start
