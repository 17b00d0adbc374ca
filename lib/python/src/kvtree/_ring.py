# SPDX-License-Identifier: LGPL-2.1-only
"""Many operations in progress at once.

An operation of a ring is in one of three places: it waits for a free slot of the
library's ring (`_waiting`), it is in progress until its event comes (`_flying`), or it
has ended and waits to be reaped (`_ended`). Operations in progress keep the memory
alive that the kernel reads and writes, even if the program drops everything else: if
nothing refers to the Ring any more, the library's ring is closed first.

A signal handler may run, and raise, after each call. So an operation is added to its
new place before it is removed from the old one, and _settle() completes an interrupted
step before it could be repeated. A handler that uses the ring it interrupted gets an
error.
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
from threading import Lock, get_ident
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kvtree._args import flags_of, number, slice_of
from kvtree._errors import Canceled, Error, error, must
from kvtree._native import ffi, lib
from kvtree._result import Result

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer

    from kvtree._batch import Batch
    from kvtree._store import Store

T = TypeVar('T')

# Memory for a value; the kernel fills it in, so it need not be cleared.
_allocate = ffi.new_allocator(should_clear_after_alloc=False)

# The kernel has no memory for a submission: the operations are still queued.
_LATER = (-errno.EAGAIN, -errno.EBUSY, -errno.ENOMEM)
_PAUSE = 0.001

# Memory that the kernel may still write to: the ring could not wait for its operations.
_abandoned: list[Any] = []


class Operation(Result[T]):
    """An operation of a Ring.

    `await operation`, or operation.wait() without an event loop, waits until it is done,
    and returns its value or raises its error.
    """

    def __init__(self, ring: Ring, what: str, key: Any, call: Any, args: tuple[Any, ...],
                 found: Callable[[tuple[Any, ...], Any], T],
                 missing: tuple[T] | None = None, compares: bool = False) -> None:
        super().__init__(what, key)
        self._ring = weakref.ref(ring)
        self._call = call
        self._args = args   # for the library, with the memory they point to
        self._found = found
        self._missing = missing     # the value if the key does not exist
        self._compares = compares   # ECANCELED may mean another version
        self._canceled = False
        self._number = 0    # changes each time it is begun
        self._waiters: list[asyncio.Future[None]] = []

    def wait(self, timeout: float | None = None) -> T:
        """Wait until it is done; TimeoutError after this many seconds."""
        end = None if timeout is None else monotonic() + timeout
        while not self._done:
            left = None if end is None else max(end - monotonic(), 0)
            ring = self._of()
            ring._step(1, left, self)
            ring._ended.clear()
            pending = ring.pending
            if not self._done and not pending:
                raise RuntimeError('the ring has lost the operation')
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
            # A signal handler may have completed it meanwhile.
            if self.done:
                self._tell(None)
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

    def _finish(self, event: Any) -> bool:
        """Take the result of an event; False if the operation must begin again."""
        args = self._args
        ret = event.result
        if self._done:
            pass
        elif ret >= 0:
            self._succeed(self._found(args, event), event.version)
        elif ret == -errno.ENOENT and self._missing:
            self._succeed(self._missing[0])
        elif ret == -errno.EMSGSIZE and not self._canceled:
            self._args = (args[0], _allocate('char[]', event.len), event.len)
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
        """End an operation that was not begun."""
        self._fail(e)
        self._over()

    def _over(self) -> None:
        self._args = ()
        self._tell(None)

    def _tell(self, e: Error | None) -> None:
        """Wake the tasks that await it."""
        while self._waiters:
            waiter = self._waiters[0]
            if waiter.done() or waiter.get_loop().is_closed():
                pass
            elif e is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(e)
            del self._waiters[0]


class _BatchOperation(Operation[list[Result[Any]]]):
    """A batch; the ring owns it until it is done."""

    def __init__(self, ring: Ring, batch: Batch) -> None:
        super().__init__(ring, 'batch', b'', lib.kvtree_ring_ops, (batch._lend(self),),
                         lambda args, event: [])
        self._batch = batch
        self._first = batch._done

    def _has_batch(self) -> bool:
        """Whether it is queued or being executed."""
        ring = self._ring()
        return not self._done and ring is not None and not ring.closed and (
            self._number in ring._flying or self in ring._waiting)

    def _cancellation(self, executed: int = 0) -> Error:
        if not executed:
            return super()._cancellation()
        return Canceled(errno.ECANCELED, f'the batch was canceled after {executed} of its '
                        'operations; see Batch.results', self._key)

    def _finish(self, event: Any) -> bool:
        new = self._batch._reap(self._first)
        if self._done:
            pass
        elif event.result == -errno.ECANCELED:
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


# Convert arguments and events to results.

def _value(args: tuple[Any, ...], event: Any) -> bytes:
    return bytes(ffi.buffer(args[1], event.result))


def _version(args: tuple[Any, ...], event: Any) -> int:
    return int(event.version)


def _sum(args: tuple[Any, ...], event: Any) -> int:
    return int(event.sum)


def _nothing(args: tuple[Any, ...], event: Any) -> None:
    return None


def _end(kv: Any, ring: Any, flying: dict[int, Operation[Any]], thread: int) -> None:
    """Close the library's ring when nothing refers to the Ring any more."""
    lib.kvtree_ring_close(ring)
    # Only the ring's thread can wait for operations in progress.
    if flying and get_ident() != thread:
        _abandoned.append(flying)


class Ring:
    """A ring keeps many operations in progress at once.

    Store.ring() makes one. Each call queues an operation and returns it. Operations
    begin with submit(), with wait(), or from the event loop, and complete in any order.
    With asyncio, await an operation:

    >>> async def both(store):
    ...     async with store.ring() as ring:
    ...         await ring.put(b'a', b'1')
    ...         return await asyncio.gather(ring.get(b'a'), ring.get(b'b'))
    >>> with kvtree.Store() as store:
    ...     asyncio.run(both(store))
    [b'1', None]

    Without asyncio, wait() returns the completed operations:

    >>> with kvtree.Store() as store, store.ring() as ring:
    ...     stored = [ring.put(b'%d' % i, b'') for i in range(100)]
    ...     done = ring.wait(100)
    >>> len(done)
    100

    Any number of operations may be queued: they wait here for a free slot of the ring.
    Their arguments are not copied: do not modify a bytearray until the operation is
    done.

    The ring is an io_uring if the kernel supports that for kvtree, and uses system
    calls otherwise. It belongs to the thread that made it. Keep it as long as its
    operations are in progress.
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
        self._ended: dict[Operation[Any], None] = {}    # in order
        self._numbers = itertools.count(1)      # the next `data`
        self._starting = 0      # `data` of the operation being started, or 0
        self._reaping = False   # an interrupted reap may have left events
        self._lock = Lock()     # held where a signal handler must not use the ring
        self._refused = False       # the kernel refused the last submission
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
                with suppress(Error):   # the operation reports it
                    await operation
        finally:
            self.close()

    def __repr__(self) -> str:
        state = 'closed' if self.closed else f'{self.pending} operations'
        return f'<kvtree.Ring of {self._store!r}, {state}>'

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._handle is None

    @property
    def pending(self) -> int:
        """Number of operations that are queued, in progress, or not yet reaped."""
        self._mine()
        return len(self._waiting) + len(self._flying) + len(self._ended)

    @property
    def uses_uring(self) -> bool:
        """Whether it is an io_uring; False if it uses system calls."""
        return bool(lib.kvtree_ring_uses_uring(self._mine()))

    def fileno(self) -> int:
        """Return a descriptor for event loops, readable when events can be reaped.

        Read 8 bytes from it, then call wait(0). The ring still owns it. Not needed with
        asyncio.
        """
        return must(lib.kvtree_ring_eventfd(self._mine()))

    # Queueing.

    def get(self, key: Buffer, *, room: int = 1024) -> Operation[bytes | None]:
        """Look a key up; the value is None if it does not exist.

        `room` is the memory reserved for the value, in bytes. The ring repeats the get if
        the value is longer.
        """
        operation: Operation[bytes | None] = Operation(
            self, 'get', key, lib.kvtree_ring_get,
            (slice_of(key, 'key'), _allocate('char[]', room), room), _value, (None,))
        return self._queue(operation)

    def put(self, key: Buffer, value: Buffer, *, create: bool = False,
            replace: bool = False, sync: bool = False) -> Operation[int]:
        """Store a value; see Store.put()."""
        return self._queue(Operation(
            self, 'put', key, lib.kvtree_ring_put,
            (slice_of(key, 'key'), slice_of(value, 'value'),
             flags_of(create=create, replace=replace, sync=sync)), _version))

    def cas(self, key: Buffer, value: Buffer, version: int, *,
            sync: bool = False) -> Operation[int]:
        """Store a value if nobody has changed it; see Store.cas()."""
        return self._queue(Operation(
            self, 'cas', key, lib.kvtree_ring_cas,
            (slice_of(key, 'key'), slice_of(value, 'value'), flags_of(sync=sync),
             number('uint64_t', version)), _version, compares=True))

    def remove(self, key: Buffer, *, version: int | None = None, missing_ok: bool = False,
               sync: bool = False) -> Operation[int]:
        """Remove a key; see Store.remove()."""
        flags = flags_of(sync=sync) | (0 if version is None else lib.KVTREE_F_VERSION)
        return self._queue(Operation(
            self, 'remove', key, lib.kvtree_ring_del,
            (slice_of(key, 'key'), flags, number('uint64_t', version or 0)), _version,
            (0,) if missing_ok else None, compares=version is not None))

    def add(self, key: Buffer, delta: int, col: int = 0, *, replace: bool = False,
            sync: bool = False) -> Operation[int]:
        """Add to a number; see Store.add()."""
        return self._queue(Operation(
            self, 'add', key, lib.kvtree_ring_add,
            (slice_of(key, 'key'), number('unsigned int', col), number('int64_t', delta),
             flags_of(replace=replace, sync=sync)), _sum))

    def sync(self) -> Operation[None]:
        """Wait until the changes completed before its submission are durable."""
        return self._queue(Operation(self, 'sync', b'', lib.kvtree_ring_sync, (), _nothing))

    def run(self, batch: Batch) -> Operation[list[Result[Any]]]:
        """Execute a batch of the same store as one operation; see Batch.run()."""
        self._mine()
        if batch._store is not self._store:
            raise ValueError('the batch belongs to another store')
        return self._queue(_BatchOperation(self, batch))

    def _queue(self, operation: Operation[T]) -> Operation[T]:
        with self._own():
            self._settle()
            if self._waiting or not self._start(operation):
                self._waiting.append(operation)
        return operation

    def _start(self, operation: Operation[Any]) -> bool:
        """Pass an operation to the library; False if no slot is free."""
        data = next(self._numbers)
        pointer = ffi.cast('void *', data)
        # No call, and so no signal handler, between this and the library's call.
        operation._number = self._starting = data
        self._flying[data] = operation
        ret = operation._call(self._handle, *operation._args, (ffi.NULL, pointer))
        if ret < 0:
            if ret != -errno.EAGAIN:
                operation._stop(error(ret, operation._key))
                self._ended[operation] = None
            self._flying.pop(data, None)
        self._starting = 0
        return bool(ret != -errno.EAGAIN)

    def _refill(self) -> None:
        while self._waiting:
            operation = self._waiting[0]
            # An interrupted call may have begun or canceled it without removing it from here.
            if not (operation._done or operation._number in self._flying or
                    self._start(operation)):
                return
            self._waiting.popleft()

    def _settle(self) -> None:
        """Complete a step that an exception of a signal handler interrupted."""
        if self._reaping:
            self._take(self._depth)
            self._reaping = False
        operation = self._flying.get(self._starting)
        # Did the library take the operation?
        if operation and len(self._flying) > lib.kvtree_ring_pending(self._handle):
            if operation not in self._waiting and not operation._done:
                self._waiting.appendleft(operation)
            self._flying.pop(self._starting, None)
        self._starting = 0

    # Completing.

    def submit(self) -> int:
        """Begin queued operations, as far as slots are free; return how many began.

        If the kernel has no memory for them now, none begins, and they stay queued.
        """
        with self._own():
            self._settle()
            self._refill()
            n = lib.kvtree_ring_submit(self._handle)
        return 0 if n in _LATER else must(n)

    def wait(self, at_least: int = 1, timeout: float | None = None) -> list[Operation[Any]]:
        """Begin queued operations, and return those that have completed.

        Waits until that many operations have completed or none is pending, and at most
        `timeout` seconds. wait(0) does not wait.
        """
        end = None if timeout is None else monotonic() + timeout
        while True:
            left = None if end is None else max(end - monotonic(), 0)
            self._step(at_least, left)
            ended = len(self._ended)
            if ended >= at_least or self.pending == ended or left == 0:
                done, self._ended = list(self._ended), {}
                return done

    def drain(self) -> None:
        """Wait until no operation is pending. Each holds its result."""
        while pending := self.pending:
            self._step(pending, None)
            self._ended.clear()

    def cancel(self, operation: Operation[Any] | None = None) -> int:
        """Cancel an operation that waits, or all that wait; return how many were canceled.

        They end with Canceled, or with their result if it was too late.
        """
        with self._own():
            self._settle()
            # An interrupted call may have begun one without removing it from here.
            chosen = [o for o in self._waiting if operation in (None, o) and
                      o._number not in self._flying]
            for waiting in chosen:
                waiting._stop(waiting._cancellation())
                self._ended[waiting] = None
                self._waiting.remove(waiting)
            numbers = [n for n, o in self._flying.items() if operation in (None, o)]
            for n in numbers:
                self._flying[n]._canceled = True
            if self._loop is not None and not self._loop.is_closed():
                self._flush_later()
            if not numbers:
                return len(chosen)
            data = ffi.NULL if operation is None else ffi.cast('void *', numbers[0])
            return len(chosen) + must(lib.kvtree_ring_cancel(self._handle, data))

    def close(self) -> None:
        """Cancel operations that wait, wait for the others, and close the ring."""
        if self.closed:
            return
        # A child of fork() only closes its own copy.
        mine = os.getpid() == self._pid and self._own()
        try:
            while mine and self.pending:
                self.cancel()
                # A running operation may begin to wait later.
                self._step(self.pending, 0.05)
                self._ended.clear()
        finally:
            self._unwatch()
            self._handle = None
            self._finalizer()
            self._flying.clear()

    def _mine(self) -> Any:
        """The library's ring, if this thread owns it."""
        if self._handle is None:
            raise ValueError('the ring is closed')
        if get_ident() != self._thread:
            raise RuntimeError('the ring belongs to another thread')
        if os.getpid() != self._pid:
            raise RuntimeError('the ring belongs to another process')
        return self._handle

    def _own(self) -> Lock:
        """Take exclusive use of the ring, for `with`."""
        self._mine()
        if self._lock.locked():
            raise RuntimeError('a signal handler uses the ring that it has interrupted')
        return self._lock

    def _oldest(self) -> Operation[Any] | None:
        return next(itertools.chain(self._flying.values(), self._waiting), None)

    def _step(self, at_least: int, timeout: float | None,
              until: Operation[Any] | None = None) -> None:
        """Begin operations, wait until n of them or `until` have ended, and reap once."""
        with self._own():
            self._settle()
            if until is not None and until._done:
                return
            self._refill()
            wanted = max(at_least - len(self._ended), 0)
            ms = -1 if timeout is None else math.ceil(timeout * 1000)
            self._reaping = True
            n = lib.kvtree_ring_wait(self._handle, self._events, self._depth, wanted, ms)
            self._refused = n in _LATER
            # After a signal, its handler runs before Python gets here.
            if n in (-errno.EINTR, -errno.ETIME, *_LATER):
                n = 0
            self._take(must(n))
            self._reaping = False
        if self._refused and at_least > 0 and timeout != 0:
            sleep(_PAUSE if timeout is None else min(_PAUSE, timeout))

    def _take(self, n: int) -> None:
        """Take the first n events that were not taken before."""
        for i in range(n):
            event = self._events[i]
            data = int(ffi.cast('uintptr_t', event.data))
            operation = self._flying.get(data)
            if operation is None:
                continue
            if operation._finish(event):
                self._ended[operation] = None
            elif operation not in self._waiting:
                self._waiting.appendleft(operation)
            self._flying.pop(data, None)

    # The event loop.

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let a loop begin queued operations and reap completed ones."""
        self._mine()
        if self._loop is not loop:
            if self._watched >= 0 and self._loop is not None and not self._loop.is_closed():
                raise RuntimeError('the ring has operations in progress in another event loop')
            self._loop = loop
            self._watched = -1
            self._flush_soon = False
        self._flush_later()

    def _serving(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None
        return self._loop

    def _flush_later(self) -> None:
        # Begin later: one system call then begins everything that was queued until then.
        if not self._flush_soon:
            self._serving().call_soon(self._flush)
            self._flush_soon = True

    def _flush(self) -> None:
        self._flush_soon = False
        if self.closed:
            return
        try:
            self._step(0, 0)
            self._ended.clear()
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
        except BaseException:   # raised by a signal handler: there may be more to reap
            self._flush_later()
            raise

    def _watch(self) -> None:
        if self._watched < 0 and self._loop is not None:
            self._watched = self.fileno()
            self._loop.add_reader(self._watched, self._readable)

    def _unwatch(self) -> None:
        # In a child, epoll still belongs to the parent: do not remove its registration.
        if (self._watched >= 0 and os.getpid() == self._pid and self._loop is not None and
                not self._loop.is_closed()):
            self._loop.remove_reader(self._watched)
        self._watched = -1

    def _readable(self) -> None:
        with suppress(BlockingIOError):     # already read
            os.eventfd_read(self._watched)
        self._flush()
