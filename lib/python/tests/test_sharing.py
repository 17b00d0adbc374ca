# SPDX-License-Identifier: LGPL-2.1-only
"""A store shared by threads and processes."""

import multiprocessing
import os
import threading

import pytest

from kvtree import Store


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


def test_closing_takes_nothing_away_from_other_threads(name: str) -> None:
    """Each thread ends with ValueError, and none with a descriptor that is another's."""
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


def test_a_store_cannot_be_pickled(store: Store) -> None:
    with pytest.raises(TypeError):
        multiprocessing.reduction.ForkingPickler.dumps(store)
