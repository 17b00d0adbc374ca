# SPDX-License-Identifier: LGPL-2.1-only
"""A signal handler that raises or uses the same ring, and a child, at every boundary."""

import dis
import os
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

import kvtree
from kvtree import Batch, Operation, Ring, Store

PACKAGE = os.path.dirname(kvtree.__file__)


class Interrupted(Exception):
    """Raised by a handler."""


class Handler:
    """Called at the nth place where Python may run a signal handler in the package."""

    def __init__(self, nth: int, handle: Callable[[], object]) -> None:
        self.nth = nth
        self.handle = handle
        self.places = 0
        self.last: dict[FrameType, int] = {}

    def is_place(self, frame: FrameType) -> bool:
        """Whether Python looks at signals between the last instruction and this one."""
        last = self.last.get(frame)
        self.last[frame] = frame.f_lasti
        if last is None:
            return True
        name = dis.opname[frame.f_code.co_code[last]]
        return name.startswith(('CALL', 'RESUME', 'JUMP_BACKWARD', 'POP_JUMP_BACKWARD'))

    def trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes = True
        if event == 'opcode' and self.is_place(frame):
            self.places += 1
            if self.places == self.nth:
                sys.settrace(None)
                self.handle()
        return self.trace

    def run(self, work: Callable[[], object]) -> bool:
        """Do the work; return whether it passed that many places."""
        sys.settrace(self.trace)
        try:
            work()
        except Interrupted:
            return True
        finally:
            sys.settrace(None)
        return self.places >= self.nth


def interrupt() -> None:
    raise Interrupted


def use_batch(batch: Batch) -> None:
    for key in (b'a', b'b', b'c'):
        batch.put(key, b'v')
    batch.run()
    batch.put(b'd', b'v')
    batch.clear()
    batch.put(b'e', b'v')
    batch.run()


def test_an_interrupted_batch_mixes_nothing_up(store: Store) -> None:
    nth, more = 0, True
    while more:
        nth += 1
        batch = store.batch()
        more = Handler(nth, interrupt).run(partial(use_batch, batch))
        last = batch.put(b'last', b'v')
        assert batch.run()[-1] is last
        assert len(batch) == len(batch.results)
        for result in batch.results:
            assert result.version == store.get_with_version(result._key)[1], nth
    assert nth > 50


WAYS = {'io_uring': True, 'system_calls': False}
LONG = b'x' * 100


def use_ring(store: Store, ring: Ring, kept: list[Operation[Any]]) -> None:
    """Queue more operations than slots, and keep them."""
    kept.append(ring.get(b'long', room=1))
    kept.extend(ring.add(b'%d' % i, 1) for i in range(3))
    ring.submit()
    kept[0].wait()
    ring.wait(2)
    batch = store.batch()
    batch.add(b'3', 1)
    kept.append(ring.run(batch))
    ring.drain()
    batch.run()


@pytest.mark.parametrize('uring', WAYS.values(), ids=WAYS)
@pytest.mark.parametrize('drains', [True, False])
def test_an_interrupted_ring_does_everything_once(store: Store, uring: bool,
                                                  drains: bool) -> None:
    nth, more = 0, True
    while more:
        nth += 1
        for i in range(4):
            store.pop(b'%d' % i, None)
        store[b'long'] = LONG
        kept: list[Operation[Any]] = []
        with store.ring(2, uring=uring) as ring:
            more = Handler(nth, interrupt).run(partial(use_ring, store, ring, kept))
            for operation in [] if drains else kept:
                operation.wait(60)
            ring.drain()
            assert not ring._flying, nth
            assert all(operation.done for operation in kept), nth
        assert [operation.value for operation in kept[:4]] == \
            [LONG, 1, 1, 1][:len(kept)], nth
        for i in range(4):
            times = int.from_bytes(store.get(b'%d' % i, b''), 'little')
            assert times <= 1, nth
            assert times == 1 or len(kept) < i + 2, nth
    assert nth > 100


def test_a_handler_cannot_use_the_ring_that_it_interrupts(store: Store) -> None:
    refused = 0

    def use_it() -> None:
        nonlocal refused
        try:
            ring.get(b'a').wait(60)
        except RuntimeError:
            refused += 1

    nth, more = 0, True
    while more:
        nth += 1
        with store.ring(2) as ring:
            more = Handler(nth, use_it).run(lambda: ring.add(b'n', 1).wait(60))
    assert int.from_bytes(store[b'n'], 'little') == nth
    assert 0 < refused < nth


def in_child(work: Callable[[], object]) -> str:
    """Do the work in a child, and return its outcome."""
    pid = os.fork()
    if not pid:
        try:
            work()
        except RuntimeError:
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return {0: 'done', 1: 'refused'}.get(status, str(status))


@pytest.mark.parametrize('uring', WAYS.values(), ids=WAYS)
def test_a_child_cannot_use_the_parents_ring(store: Store, uring: bool) -> None:
    with store.ring(uring=uring) as ring:
        queued = ring.add(b'n', 1)
        assert in_child(lambda: ring.add(b'n', 1)) == 'refused'
        assert in_child(lambda: ring.run(store.batch())) == 'refused'
        assert in_child(ring.submit) == 'refused'
        assert in_child(ring.wait) == 'refused'
        assert in_child(ring.drain) == 'refused'
        assert in_child(ring.cancel) == 'refused'
        assert in_child(ring.fileno) == 'refused'
        assert in_child(queued.wait) == 'refused'
        assert in_child(ring.close) == 'done'
        assert queued.wait() == 1
    assert int.from_bytes(store[b'n'], 'little') == 1
