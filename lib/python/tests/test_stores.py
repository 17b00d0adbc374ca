# SPDX-License-Identifier: LGPL-2.1-only
"""Stores as a whole: making, listing and destroying them, rights and limits."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import kvtree
from kvtree import (
    AccessDenied,
    Error,
    InvalidArgument,
    KeyExists,
    LimitReached,
    NotFound,
    Store,
    StoreGone,
)

NOBODY = 65534


def as_nobody(use: Callable[[], object]) -> str:
    """Run something as an unprivileged user: the name of the error, or the result."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if not pid:
        # This copy of pytest must exit, whatever happens.
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            os.write(write_end, repr(use()).encode())
        except BaseException as e:
            os.write(write_end, type(e).__name__.encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with open(read_end, encoding='utf-8') as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return said


def test_a_store_is_described(name: str) -> None:
    kvtree.create_store(f'{name}-b', mode=0o640, uid=3, gid=4, limit_bytes=1 << 20,
                        limit_keys=7, engine='bwtree', page_size=1024)
    try:
        found = {store.name: store for store in kvtree.stores()}
        assert {'default', name, f'{name}-b'} <= set(found)
        mine, other = found[name], found[f'{name}-b']
        assert (mine.mode, mine.uid, mine.gid) == (0o600, os.getuid(), os.getgid())
        assert (mine.limit_bytes, mine.limit_keys, mine.keys) == (0, 0, 0)
        assert (other.mode, other.uid, other.gid) == (0o640, 3, 4)
        assert (other.limit_bytes, other.limit_keys) == (1 << 20, 7)
        assert (other.engine, other.page_size) == ('bwtree', 1024)
        with Store(f'{name}-b') as store:
            assert store.stat()['bw_map_bytes'] > 0
        assert other.id > mine.id > 0
        with Store(name) as store:
            store[b'k'] = b'v'
            assert store.info().name == name
            assert store.info().keys == 1
            assert store.info().bytes > 0
    finally:
        kvtree.destroy_store(f'{name}-b')
    assert f'{name}-b' not in [store.name for store in kvtree.stores()]


def test_a_new_store_is_open(name: str) -> None:
    with kvtree.create_store(f'{name}-b', limit_keys=2) as store:
        store[b'k'] = b'v'
        assert store[b'k'] == b'v'
        assert store.info().name == f'{name}-b'
        with Store(f'{name}-b') as other:
            assert dict(other) == {b'k': b'v'}
    assert store.closed
    kvtree.destroy_store(f'{name}-b')


def test_a_new_store_that_cannot_be_opened_does_not_stay(
        name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> Store:
        raise AccessDenied(errno.EACCES, 'not this one')

    monkeypatch.setattr('kvtree._create.Store', refuse)
    before = kvtree.stores()
    with pytest.raises(AccessDenied, match='not this one'):
        kvtree.create_store(f'{name}-b')
    assert [store.name for store in kvtree.stores()] == [store.name for store in before]
    # An existing store stays.
    with pytest.raises(KeyExists):
        kvtree.create_store(name)
    assert name in [store.name for store in kvtree.stores()]


def test_settings_change_one_by_one(name: str) -> None:
    def settings() -> tuple[int, ...]:
        with Store(name) as store:
            found = store.info()
        return found.mode, found.uid, found.gid, found.limit_bytes, found.limit_keys

    mine = settings()
    kvtree.set_store(name, mode=0o640)
    assert settings() == (0o640, *mine[1:])
    kvtree.set_store(name, uid=3, gid=4, limit_bytes=1 << 20, limit_keys=1)
    assert settings() == (0o640, 3, 4, 1 << 20, 1)
    with Store(name) as store:
        store[b'1'] = b''
        with pytest.raises(LimitReached):
            store[b'2'] = b''
        kvtree.set_store(name, limit_keys=0)
        store[b'2'] = b''
    for wrong in ({}, {'mode': 0o777}, {'uid': 2**32 - 1}):
        with pytest.raises(InvalidArgument):
            kvtree.set_store(name, **wrong)
    with pytest.raises(NotFound):
        kvtree.set_store('no-such-store', mode=0o600)
    assert as_nobody(lambda: kvtree.set_store(name, mode=0o666)) == 'AccessDenied'


def test_names_that_are_taken_or_not_there(name: str) -> None:
    with pytest.raises(KeyExists) as taken:
        kvtree.create_store(name)
    assert taken.value.filename == name
    with pytest.raises(NotFound) as absent:
        Store('no-such-store')
    assert absent.value.errno == errno.ENOENT
    assert absent.value.filename == 'no-such-store'
    with pytest.raises(NotFound):
        kvtree.destroy_store('no-such-store')


@pytest.mark.parametrize('wrong', ['', '..', 'a/b', 'a b', 'é', 'x' * 64])
def test_names_that_cannot_be(wrong: str) -> None:
    with pytest.raises(InvalidArgument):
        kvtree.create_store(wrong)


def test_a_name_has_no_zero_byte(name: str) -> None:
    for call in (Store, kvtree.create_store, kvtree.set_store, kvtree.destroy_store):
        with pytest.raises(ValueError, match='zero byte'):
            call(f'{name}\0x')


def test_a_destroyed_store_is_reported(store: Store, name: str) -> None:
    store[b'k'] = b'v'
    cursor = store.cursor()
    kvtree.destroy_store(name)
    with pytest.raises(StoreGone) as caught:
        store[b'k']
    assert caught.value.errno == errno.ESTALE
    assert 'destroyed' in str(caught.value)
    with pytest.raises(StoreGone):
        cursor.next()
    with pytest.raises(StoreGone), store.batch() as batch:
        batch.put(b'k', b'v')


def test_the_mode_bounds_what_a_session_may_do(store: Store, name: str) -> None:
    store[b'k'] = b'v'
    with Store(name, 'r') as reader, Store(name, mode='w') as writer:
        assert reader[b'k'] == b'v'
        with pytest.raises(PermissionError):
            reader[b'k'] = b'w'
        writer[b'k'] = b'w'
        with pytest.raises(AccessDenied):
            writer[b'k']
        with pytest.raises(AccessDenied):
            list(writer)
        with pytest.raises(AccessDenied):
            b'k' in writer  # noqa: B015
        assert reader[b'k'] == b'w'
    with pytest.raises(ValueError, match="a mode is 'r', 'w' or 'rw'"):
        Store(name, 'x')  # type: ignore[arg-type]


def test_rights_are_those_of_the_opener(name: str) -> None:
    assert as_nobody(lambda: Store(name)) == 'AccessDenied'
    assert as_nobody(lambda: kvtree.create_store(f'{name}-x')) == 'AccessDenied'
    assert as_nobody(lambda: kvtree.destroy_store(name)) == 'AccessDenied'
    assert as_nobody(lambda: name in [store.name for store in kvtree.stores()]) == 'True'
    assert issubclass(AccessDenied, PermissionError)


def test_the_limit_of_keys_holds(name: str) -> None:
    small = f'{name}-small'
    kvtree.create_store(small, limit_keys=10)
    try:
        with Store(small) as store:
            with pytest.raises(LimitReached) as caught, store.batch() as batch:
                for i in range(11):
                    batch.put(b'%d' % i, b'')
            assert caught.value.errno == errno.EDQUOT
            assert len(store) == 10
            del store[b'0']
            store[b'10'] = b''
    finally:
        kvtree.destroy_store(small)


def test_what_is_too_long_is_a_value_error(store: Store) -> None:
    for change in (lambda: store.put(bytes(4097), b''),
                   lambda: store.put(b'k', bytes((1 << 20) + 1)),
                   lambda: store.get(bytes(4097)),
                   lambda: store.get(bytes(70000))):
        with pytest.raises(ValueError, match='too long') as caught:
            change()
        assert isinstance(caught.value, InvalidArgument)


def test_a_long_key_is_cut_in_the_message_alone(store: Store) -> None:
    with pytest.raises(Error) as caught:
        store.put(bytes(4097), b'')
    assert caught.value.filename == bytes(4097)
    assert str(caught.value).endswith(f': {bytes(80)!r}...')


def test_errors_are_os_errors_in_the_librarys_words(store: Store) -> None:
    with pytest.raises(OSError, match='the key has another version') as caught:
        store.cas(b'the-key', b'', 3)
    assert isinstance(caught.value, Error)
    assert caught.value.errno == errno.ECANCELED
    assert str(caught.value).endswith(": b'the-key'")


def test_sync_refuses_a_store_that_is_not_durable(store: Store) -> None:
    with pytest.raises(Error) as caught:
        store.sync()
    assert caught.value.errno == errno.EOPNOTSUPP


def test_a_closed_store_is_reported(name: str) -> None:
    with Store(name) as store:
        assert not store.closed
        store[b'k'] = b'v'
        assert f'fd {store.fileno()}' in repr(store)
    assert store.closed
    assert 'closed' in repr(store)
    store.close()
    for use in (lambda: store[b'k'], lambda: list(store), lambda: len(store),
                lambda: store.batch().run(), store.stat, store.fileno, store.cursor):
        with pytest.raises(ValueError, match='the store is closed'):
            use()


def test_closing_gives_the_descriptor_back(name: str) -> None:
    fds = Path('/proc/self/fd')
    before = len(list(fds.iterdir()))
    for _ in range(20):
        store = Store(name)
        store.cursor().next()
        store.close()
    assert len(list(fds.iterdir())) == before


def test_a_descriptor_can_be_wrapped(store: Store) -> None:
    store[b'k'] = b'v'
    with Store.from_fd(os.dup(store.fileno())) as other:
        assert other[b'k'] == b'v'
        assert other.info().id == store.info().id
    assert store[b'k'] == b'v'
    read_end, write_end = os.pipe()
    try:
        with pytest.raises(Error) as caught:
            Store.from_fd(read_end)
        assert caught.value.errno == errno.ENOTTY
    finally:
        os.close(read_end)
        os.close(write_end)


def test_the_module_is_described(store: Store) -> None:
    info = kvtree.info()
    assert info == store.module()
    assert (info.key_max, info.value_max, info.cols_max) == (4096, 1 << 20, 256)
    assert {'get', 'put', 'cas', 'remove', 'add', 'scan'} <= info.operations
    assert info.version
    assert info.library


def test_counters_count(store: Store) -> None:
    before = store.stat()
    store[b'k'] = b'v'
    store.get(b'k')
    store.get(b'absent')
    after = store.stat()
    changed = {name: after[name] - before[name]
               for name in ('keys', 'put', 'get', 'get_miss', 'remove')}
    assert changed == {'keys': 1, 'put': 1, 'get': 2, 'get_miss': 1, 'remove': 0}
