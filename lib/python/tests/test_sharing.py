# SPDX-License-Identifier: LGPL-2.1-only
"""A store shared by threads and processes."""

import multiprocessing
import os
import threading
from typing import Any

import pytest

from kvtree import Cursor, Store
from kvtree._native import lib


def test_threads_share_a_store(store: Store) -> None:
    def work(number: int) -> None:
        for i in range(100):
            store[b'%d-%d' % (number, i)] = b'x' * i
        mine = store.items(prefix=b'%d-' % number)
        assert {len(value) for _, value in mine} == set(range(100))
        done.append(number)

    done: list[int] = []
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [0, 1, 2, 3]
    assert len(store) == 400


@pytest.fixture
def overtaken(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store in which another writer stores "theirs" after the first look at a key."""
    look, first = Store._get, Cursor.first
    times = iter([1])

    def slow_look(self: Store, key: bytes) -> Any:
        found = look(self, key)
        for _ in times:
            self.put(key, b'theirs')
        return found

    def slow_first(self: Cursor[Any]) -> bool:
        found = first(self)
        for _ in times:
            store.put(self.key, b'theirs')
        return found

    monkeypatch.setattr(Store, '_get', slow_look)
    monkeypatch.setattr(Cursor, 'first', slow_first)
    return store


def test_pop_returns_what_it_removed(overtaken: Store) -> None:
    overtaken[b'k'] = b'mine'
    assert overtaken.pop(b'k') == b'theirs'
    assert len(overtaken) == 0


def test_popitem_returns_what_it_removed(overtaken: Store) -> None:
    overtaken[b'k'] = b'mine'
    assert overtaken.popitem() == (b'k', b'theirs')
    assert len(overtaken) == 0


def test_setdefault_returns_what_is_stored(overtaken: Store) -> None:
    assert overtaken.setdefault(b'k', b'mine') == b'theirs'
    assert overtaken[b'k'] == b'theirs'


def test_a_session_lives_as_long_as_a_call_in_it(name: str) -> None:
    """A thread in a call holds the session: this test holds it directly."""
    store = Store(name)
    under_way = store._session()
    fd = store.fileno()
    store.close()
    assert os.fstat(fd)
    del under_way
    with pytest.raises(OSError, match='Bad file descriptor'):
        os.fstat(fd)


def test_closing_takes_nothing_away_from_other_threads(name: str) -> None:
    """Each thread ends with ValueError, and none uses another file's descriptor."""
    for _ in range(5):
        store = Store(name)
        ended: list[str] = []
        ready = threading.Barrier(4)

        def work(store: Store = store, ended: list[str] = ended,
                 ready: threading.Barrier = ready) -> None:
            ready.wait()
            try:
                while True:
                    store.add(b'n', 1)
                    list(store.items())
                    store.get_many([b'n', b'm'])
            except ValueError as e:
                ended.append(str(e))

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        ready.wait()
        store.close()
        for thread in threads:
            thread.join()
        assert ended == ['the store is closed'] * 3


def test_both_sides_of_a_fork_may_use_it(store: Store) -> None:
    store[b'k'] = b'parent'
    pid = os.fork()
    if not pid:
        ok = store[b'k'] == b'parent'
        store[b'child'] = b'was here'
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert store[b'child'] == b'was here'
    assert store[b'k'] == b'parent'


def count(name: str, times: int) -> None:
    with Store(name) as store:
        for _ in range(times):
            store.add(b'n', 1)


def test_processes_share_a_store(store: Store, name: str) -> None:
    context = multiprocessing.get_context('fork')
    workers = [context.Process(target=count, args=(name, 200)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert store.add(b'n', 0) == 400


def test_a_batch_collects_from_many_threads(store: Store) -> None:
    batch = store.batch()

    def work(number: int) -> None:
        for i in range(200):
            batch.put(b'%d-%d' % (number, i), b'')

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(batch.run()) == 600
    assert len(store) == 600


def test_lists_and_cursors_are_used_under_their_locks(
        store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """They belong to one thread at a time, and the library's calls release the GIL."""
    batch, cursor = store.batch(), store.cursor()
    used = set()

    class Watched:
        def __init__(self, lock: threading.Lock) -> None:
            self.lock = lock

        def __getattr__(self, name: str) -> Any:
            call = getattr(lib, name)
            # A cursor is freed when nothing refers to it.
            if not name.startswith('kvtree_') or name == 'kvtree_cursor_close':
                return call

            def watched(*args: Any) -> Any:
                assert self.lock.locked(), name
                used.add(name)
                return call(*args)

            return watched

    monkeypatch.setattr('kvtree._batch.lib', Watched(batch._lock))
    monkeypatch.setattr('kvtree._cursor.lib', Watched(cursor._lock))
    batch.put(b'a', b'1')
    batch.get(b'a')
    batch.get_columns(b'a')
    batch.add(b'n', 1)
    batch.remove(b'absent', missing_ok=True)
    batch.run()
    batch.clear()
    assert cursor.first()
    assert cursor.seek(b'a')
    assert cursor.take(1)
    assert cursor.count_rest() == 0
    assert {'kvtree_ops_run', 'kvtree_ops_value', 'kvtree_ops_clear', 'kvtree_cursor_next',
            'kvtree_cursor_key', 'kvtree_cursor_version'} <= used


def test_a_store_cannot_be_pickled(store: Store) -> None:
    with pytest.raises(TypeError):
        multiprocessing.reduction.ForkingPickler.dumps(store)
