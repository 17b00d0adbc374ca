# SPDX-License-Identifier: LGPL-2.1-only
"""Many operations under way at once.

An operation of a ring is in one of three places: it waits until the library's ring
has a place for it, it flies until its event comes, and if it ended in another way it
stands among those that ended until somebody reaps. What flies is kept alive with the
memory that the kernel reads and writes, whatever becomes of the rest: if nobody has
the ring any more, the library's ring is closed first.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import math
import os
import weakref
from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from threading import get_ident
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kvtree._args import buffer, flags_of, number
from kvtree._errors import Canceled, Error, error, must
from kvtree._native import ffi, lib
from kvtree._result import Result

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer

    from kvtree._batch import Batch
    from kvtree._store import Store

T = TypeVar('T')

# Memory for a value, which the kernel fills in: it need not be zeros before.
_allocate = ffi.new_allocator(should_clear_after_alloc=False)

# What the kernel says if it has no memory for what is submitted: it is still queued.
_LATER = (-errno.EAGAIN, -errno.EBUSY, -errno.ENOMEM)
_PAUSE = 0.001

# Memory of operations whose end could not be waited for: the kernel may write to it.
_abandoned: list[Any] = []


class Operation(Result[T]):
    """An operation of a Ring.

    `await operation`, or operation.wait() where there is no event loop, waits until
    it is done, and returns its value or raises its error.
    """

    def __init__(self, ring: Ring, what: str, key: Any, call: Any, args: tuple[Any, ...],
                 found: Callable[[tuple[Any, ...], Any], T],
                 missing: tuple[T] | None = None, compares: bool = False) -> None:
        super().__init__(what, key)
        self._ring = weakref.ref(ring)
        self._call = call
        self._args = args   # the library's, with the memory that they point to
        self._found = found
        self._missing = missing     # the value if the key is not there
        self._compares = compares   # ECANCELED may mean another version
        self._canceled = False
        self._waiters: list[asyncio.Future[None]] = []

    def wait(self, timeout: float | None = None) -> T:
        """Wait until it is done, at most so many seconds: TimeoutError after that."""
        end = None if timeout is None else monotonic() + timeout
        while not self._done:
            left = None if end is None else max(end - monotonic(), 0)
            ring = self._of()
            ring._step(1, left)
            if not self._done and not ring.pending:
                raise RuntimeError('an exception of a signal handler took its event away')
            if not self._done and left == 0:
                raise TimeoutError(f'{self!r} after {timeout} s')
        return self.value

    def __await__(self) -> Generator[Any, None, T]:
        if not self._done:
            loop = asyncio.get_running_loop()
            ring = self._of()
            ring._serve(loop)
            waiter = loop.create_future()
            self._waiters.append(waiter)
            try:
                yield from waiter
            except asyncio.CancelledError:
                if not self._done and not ring.closed:
                    ring.cancel(self)
                raise
        return self.value

    def _of(self) -> Ring:
        ring = self._ring()
        if ring is None:
            raise ValueError('the ring is closed')
        return ring

    def _begin(self, ring: Any, data: Any) -> int:
        return int(self._call(ring, *self._args, ffi.NULL, data))

    def _finish(self, event: Any) -> bool:
        """Take an event over; False if the operation has to be begun once more."""
        ret = event.result
        if ret >= 0:
            self._succeed(self._found(self._args, event), event.version)
        elif ret == -errno.ENOENT and self._missing:
            self._succeed(self._missing[0])
        elif ret == -errno.EMSGSIZE and not self._canceled:
            key, length, *_ = self._args
            self._args = (key, length, _allocate('char[]', event.len), event.len)
            return False
        elif ret == -errno.ECANCELED and (self._canceled or not self._compares):
            self._fail(self._cancellation())
        else:
            self._fail(error(ret, self._key, version=event.version, needed=event.len),
                       event.version)
        self._over()
        return True

    def _cancellation(self) -> Error:
        return Canceled(errno.ECANCELED, 'the operation was canceled: nothing has changed',
                        self._key)

    def _stop(self, e: Error) -> None:
        """End without having been begun."""
        self._fail(e)
        self._over()

    def _over(self) -> None:
        self._args = ()
        self._tell(None)

    def _tell(self, e: Error | None) -> None:
        """Wake those who await it."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if waiter.done() or waiter.get_loop().is_closed():
                continue
            if e is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(e)


class _BatchOperation(Operation[list[Result[Any]]]):
    """A batch; it belongs to the ring until it is done."""

    def __init__(self, ring: Ring, batch: Batch) -> None:
        super().__init__(ring, 'batch', b'', lib.kvtree_ring_ops, (batch._lend(),),
                         lambda args, event: [])
        self._batch = batch

    def _cancellation(self, executed: int = 0) -> Error:
        if not executed:
            return super()._cancellation()
        return Canceled(errno.ECANCELED, f'the batch was canceled after {executed} of its '
                        'operations; see Batch.results', self._key)

    def _finish(self, event: Any) -> bool:
        new = self._batch._reap()
        if event.result == -errno.ECANCELED:
            self._fail(self._cancellation(len(new)))
        elif event.result < 0:
            self._fail(error(event.result))
        else:
            try:
                self._batch._raise(new)
            except Error as e:
                self._fail(e)
            else:
                self._succeed(new)
        self._over()
        return True

    def _over(self) -> None:
        self._batch._give_back()
        super()._over()


# What operations return, of their arguments and their events.

def _value(args: tuple[Any, ...], event: Any) -> bytes:
    return bytes(ffi.buffer(args[2], event.result))


def _version(args: tuple[Any, ...], event: Any) -> int:
    return int(event.version)


def _sum(args: tuple[Any, ...], event: Any) -> int:
    return int(event.sum)


def _nothing(args: tuple[Any, ...], event: Any) -> None:
    return None


def _end(kv: Any, ring: Any, flying: dict[int, Operation[Any]], thread: int) -> None:
    """Close the library's ring when nobody has its Ring any more."""
    lib.kvtree_ring_close(ring)
    # Only its own thread can wait for what is under way.
    if flying and get_ident() != thread:
        _abandoned.append(flying)


class Ring:
    """A ring has many operations under way at once.

    Store.ring() makes one. Each call queues an operation and returns it; they begin
    with submit(), with wait(), or when an event loop comes to it, and complete in any
    order. With asyncio an operation is awaited:

    >>> async def both(store):
    ...     async with store.ring() as ring:
    ...         await ring.put(b'a', b'1')
    ...         return await asyncio.gather(ring.get(b'a'), ring.get(b'b'))
    >>> with kvtree.Store() as store:
    ...     asyncio.run(both(store))
    [b'1', None]

    Without, wait() returns those that have completed:

    >>> with kvtree.Store() as store, store.ring() as ring:
    ...     stored = [ring.put(b'%d' % i, b'') for i in range(100)]
    ...     done = ring.wait(100)
    >>> len(done)
    100

    Any number of operations may be queued: those for which there is no place under
    way wait here. What they are given is not copied: a bytearray is not to be changed
    until the operation is done.

    The ring is an io_uring where the kernel offers kvtree on one, and does the same
    by system calls where it does not. It belongs to the thread that made it, and has
    to be kept as long as its operations are under way.
    """

    def __init__(self, store: Store, depth: int = 256, *, sqpoll: bool = False,
                 by_pointer: bool = False, uring: bool = True, idle_ms: int = 0) -> None:
        if depth < 1:
            raise ValueError('a ring has a depth of at least 1')
        opts = ffi.new('struct kvtree_ring_opts *', {
            'size': ffi.sizeof('struct kvtree_ring_opts'), 'depth': depth,
            'flags': ((sqpoll and lib.KVTREE_RING_SQPOLL) |
                      (by_pointer and lib.KVTREE_RING_BY_POINTER) |
                      (not uring and lib.KVTREE_RING_NO_URING)),
            'idle_ms': idle_ms,
        })
        made = ffi.new('struct kvtree_ring **')
        kv = store._session()
        must(lib.kvtree_ring_open(kv, opts, made))
        self._store = store
        self._handle: Any = made[0]
        self._thread = get_ident()
        self._pid = os.getpid()
        self._depth = depth
        self._events = ffi.new('struct kvtree_event[]', depth)
        self._waiting: deque[Operation[Any]] = deque()
        self._flying: dict[int, Operation[Any]] = {}    # by the `data` of their events
        self._ended: list[Operation[Any]] = []
        self._numbers = itertools.count(1)      # the `data` to be given
        self._refused = False       # the kernel did not take what was submitted last
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watched = -1  # the descriptor that the loop watches
        self._flush_soon = False
        self._finalizer = weakref.finalize(self, _end, kv, made[0], self._flying,
                                           self._thread)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None,
                 tb: TracebackType | None) -> None:
        try:
            if kind is None:
                self.drain()
        finally:
            self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, e: BaseException | None,
                        tb: TracebackType | None) -> None:
        try:
            while kind is None and (operation := self._oldest()):
                with suppress(Error):   # the operation tells it
                    await operation
        finally:
            self.close()

    def __repr__(self) -> str:
        state = 'closed' if self.closed else f'{self.pending} operations'
        return f'<kvtree.Ring of {self._store!r}, {state}>'

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._handle is None

    @property
    def pending(self) -> int:
        """How many operations are queued, under way, or not yet reaped."""
        return (len(self._waiting) + len(self._ended) +
                int(lib.kvtree_ring_pending(self._mine())))

    @property
    def uses_uring(self) -> bool:
        """Whether it is an io_uring; False if it does system calls."""
        return bool(lib.kvtree_ring_uses_uring(self._mine()))

    def fileno(self) -> int:
        """Return a descriptor for event loops, readable if there is something to reap.

        Read 8 bytes of it, then call wait(0). It stays the ring's. With asyncio it is
        not needed.
        """
        return must(lib.kvtree_ring_eventfd(self._mine()))

    # Queueing.

    def get(self, key: Buffer, *, room: int = 1024) -> Operation[bytes | None]:
        """Look a key up; the value is None if it is not there.

        `room` is the memory set aside for the value, in bytes. A value that is longer
        is asked for again.
        """
        memory = buffer(key, 'key')
        operation: Operation[bytes | None] = Operation(
            self, 'get', memory, lib.kvtree_ring_get,
            (memory, len(memory), _allocate('char[]', room), room),
            _value, (None,))
        return self._queue(operation)

    def put(self, key: Buffer, value: Buffer, *, create: bool = False,
            replace: bool = False, sync: bool = False) -> Operation[int]:
        """Store a value; see Store.put()."""
        memory, data = buffer(key, 'key'), buffer(value, 'value')
        return self._queue(Operation(
            self, 'put', memory, lib.kvtree_ring_put,
            (memory, len(memory), data, len(data),
             flags_of(create=create, replace=replace, sync=sync)), _version))

    def cas(self, key: Buffer, value: Buffer, version: int, *,
            sync: bool = False) -> Operation[int]:
        """Store a value if nobody has changed it; see Store.cas()."""
        memory, data = buffer(key, 'key'), buffer(value, 'value')
        return self._queue(Operation(
            self, 'cas', memory, lib.kvtree_ring_cas,
            (memory, len(memory), data, len(data), flags_of(sync=sync),
             number('uint64_t', version)), _version, compares=True))

    def remove(self, key: Buffer, *, version: int | None = None, missing_ok: bool = False,
               sync: bool = False) -> Operation[int]:
        """Remove a key; see Store.remove()."""
        memory = buffer(key, 'key')
        flags = flags_of(sync=sync) | (0 if version is None else lib.KVTREE_F_VERSION)
        return self._queue(Operation(
            self, 'remove', memory, lib.kvtree_ring_del,
            (memory, len(memory), flags, number('uint64_t', version or 0)), _version,
            (0,) if missing_ok else None, compares=version is not None))

    def add(self, key: Buffer, delta: int, col: int = 0, *, replace: bool = False,
            sync: bool = False) -> Operation[int]:
        """Add to a number; see Store.add()."""
        memory = buffer(key, 'key')
        return self._queue(Operation(
            self, 'add', memory, lib.kvtree_ring_add,
            (memory, len(memory), number('unsigned int', col), number('int64_t', delta),
             flags_of(replace=replace, sync=sync)), _sum))

    def sync(self) -> Operation[None]:
        """Wait until what had completed when this was submitted is durable."""
        return self._queue(Operation(self, 'sync', b'', lib.kvtree_ring_sync, (), _nothing))

    def run(self, batch: Batch) -> Operation[list[Result[Any]]]:
        """Execute a batch of the same store as one operation; see Batch.run()."""
        self._mine()
        if batch._store is not self._store:
            raise ValueError("the batch is another store's")
        return self._queue(_BatchOperation(self, batch))

    def _queue(self, operation: Operation[T]) -> Operation[T]:
        self._mine()
        if self._waiting or not self._start(operation):
            self._waiting.append(operation)
        return operation

    def _start(self, operation: Operation[Any]) -> bool:
        """Give an operation to the library; False if it has no place."""
        data = next(self._numbers)
        # First: as soon as the library has it, a signal handler may raise.
        self._flying[data] = operation
        ret = operation._begin(self._handle, ffi.cast('void *', data))
        if ret >= 0:
            return True
        del self._flying[data]
        if ret == -errno.EAGAIN:
            return False
        operation._stop(error(ret, operation._key))
        self._ended.append(operation)
        return True

    def _refill(self) -> None:
        while self._waiting:
            # Never in both places: it would be begun twice.
            operation = self._waiting.popleft()
            if not self._start(operation):
                self._waiting.appendleft(operation)
                return

    # Completing.

    def submit(self) -> int:
        """Begin what was queued, as far as there is place; return how many began.

        If the kernel has no memory for them now none does, and they are still queued.
        """
        ring = self._mine()
        self._refill()
        n = lib.kvtree_ring_submit(ring)
        return 0 if n in _LATER else must(n)

    def wait(self, at_least: int = 1, timeout: float | None = None) -> list[Operation[Any]]:
        """Begin what was queued, and return what has completed.

        Waits until so many operations have completed or none is pending, and not longer
        than `timeout` seconds. wait(0) does not wait.
        """
        end = None if timeout is None else monotonic() + timeout
        done: list[Operation[Any]] = []
        while True:
            left = None if end is None else max(end - monotonic(), 0)
            done += self._step(at_least - len(done), left)
            if len(done) >= at_least or not self.pending or left == 0:
                return done

    def drain(self) -> None:
        """Wait until no operation is pending. Each tells what became of it."""
        while pending := self.pending:
            self._step(pending, None)

    def cancel(self, operation: Operation[Any] | None = None) -> int:
        """Cancel an operation that waits, or all; return how many were canceled.

        They end with Canceled, or with what became of them if it was too late.
        """
        ring = self._mine()
        chosen = [o for o in self._waiting if operation in (None, o)]
        for waiting in chosen:
            self._waiting.remove(waiting)
            waiting._stop(waiting._cancellation())
            self._ended.append(waiting)
        numbers = [n for n, o in self._flying.items() if operation in (None, o)]
        for n in numbers:
            self._flying[n]._canceled = True
        if self._loop is not None and not self._loop.is_closed():
            self._flush_later()
        if not numbers:
            return len(chosen)
        data = ffi.NULL if operation is None else ffi.cast('void *', numbers[0])
        return len(chosen) + must(lib.kvtree_ring_cancel(ring, data))

    def close(self) -> None:
        """Cancel what waits, wait for the rest, and end the ring."""
        if self.closed:
            return
        self._mine()
        try:
            # In a child of its process it is closed for the child alone.
            while os.getpid() == self._pid and self.pending:
                self.cancel()
                # What runs now may come to wait later.
                self._step(self.pending, 0.05)
        finally:
            self._unwatch()
            self._handle = None
            self._finalizer()
            self._flying.clear()

    def _mine(self) -> Any:
        """The library's ring, for the thread that it belongs to."""
        if self._handle is None:
            raise ValueError('the ring is closed')
        if get_ident() != self._thread:
            raise RuntimeError('the ring belongs to another thread')
        return self._handle

    def _oldest(self) -> Operation[Any] | None:
        # If the library has none, an exception of a signal handler came between.
        if lib.kvtree_ring_pending(self._handle):
            return next(iter(self._flying.values()), None)
        return self._waiting[0] if self._waiting else None

    def _step(self, at_least: int, timeout: float | None) -> list[Operation[Any]]:
        """Begin what can begin, wait and reap once; what has completed."""
        ring = self._mine()
        self._refill()
        done, self._ended = self._ended, []
        ms = -1 if timeout is None else math.ceil(timeout * 1000)
        n = lib.kvtree_ring_wait(ring, self._events, self._depth,
                                 max(at_least - len(done), 0), ms)
        self._refused = n in _LATER
        if self._refused and at_least > 0 and timeout != 0:
            sleep(_PAUSE if timeout is None else min(_PAUSE, timeout))
        # After a signal, its handler runs before Python gets here.
        if n in (-errno.EINTR, -errno.ETIME, *_LATER):
            n = 0
        for i in range(must(n)):
            event = self._events[i]
            operation = self._flying.pop(int(ffi.cast('uintptr_t', event.data)))
            if operation._finish(event):
                done.append(operation)
            else:
                self._waiting.appendleft(operation)
        return done

    # The event loop.

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have a loop begin what is queued and reap what completes."""
        self._mine()
        if self._loop is not loop:
            if self._watched >= 0 and self._loop is not None and not self._loop.is_closed():
                raise RuntimeError('the ring has operations under way in another event loop')
            self._loop = loop
            self._watched = -1
            self._flush_soon = False
        self._flush_later()

    def _serving(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None
        return self._loop

    def _flush_later(self) -> None:
        # Not at once: all that is queued until then begins with one system call.
        if not self._flush_soon:
            self._flush_soon = True
            self._serving().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_soon = False
        if self.closed:
            return
        try:
            self._step(0, 0)
            under_way = lib.kvtree_ring_pending(self._handle)
            if self._refused:
                self._flush_soon = True
                self._serving().call_later(_PAUSE, self._flush)
            elif self._waiting and under_way < self._depth:
                self._flush_later()
            if under_way:
                self._watch()
            else:
                self._unwatch()
        except Error as e:
            for operation in [*self._flying.values(), *self._waiting]:
                operation._tell(e)

    def _watch(self) -> None:
        if self._watched < 0 and self._loop is not None:
            self._watched = self.fileno()
            self._loop.add_reader(self._watched, self._readable)

    def _unwatch(self) -> None:
        # A child of the process has the parent's epoll: the registration is not its own.
        if (self._watched >= 0 and os.getpid() == self._pid and self._loop is not None and
                not self._loop.is_closed()):
            self._loop.remove_reader(self._watched)
        self._watched = -1

    def _readable(self) -> None:
        with suppress(BlockingIOError):     # somebody else was faster
            os.eventfd_read(self._watched)
        self._flush()
