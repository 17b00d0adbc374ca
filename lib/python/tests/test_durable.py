# SPDX-License-Identifier: LGPL-2.1-only
"""Durable stores: what was made durable is still there when they are attached again."""

import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import kvtree
from kvtree import AccessDenied, Error, KeyExists, NotFound, Store, StoreGone

TOOL = Path(__file__).resolve().parents[3] / 'tools/kvtree'


def call(*command: str | Path) -> str:
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


@pytest.fixture
def devices(tmp_path: Path) -> Iterator[list[str]]:
    """Two devices, formatted."""
    files = [tmp_path / f'{i}.img' for i in range(2)]
    made = []
    try:
        for file in files:
            with open(file, 'wb') as out:
                out.truncate(132 << 20)
            made.append(call('losetup', '--find', '--show', file))
        call(TOOL, 'store', 'format', *made)
        yield made
    finally:
        for device in made:
            call('losetup', '--detach', device)


@pytest.fixture
def durable(name: str) -> Iterator[str]:
    """The name of a store that the test attaches."""
    durable = f'{name}-durable'
    yield durable
    if durable in [store.name for store in kvtree.stores()]:
        kvtree.detach(durable)


def test_a_store_can_be_attached_only_to_be_read(durable: str, devices: list[str]) -> None:
    with kvtree.attach(durable, *devices) as store:
        store.put(b'a', b'1', sync=True)
        then = store.stat()['log_durable']
        store.put(b'a', b'2', sync=True)
    kvtree.detach(durable)
    for until, value in (0, b'2'), (then, b'1'):
        with kvtree.attach(durable, *devices, read_only=True, until=until) as reader:
            assert reader[b'a'] == value
            with pytest.raises(AccessDenied):
                reader[b'a'] = b'3'
        with Store(durable) as store:
            assert store.info().read_only
            assert store[b'a'] == value
            with pytest.raises(Error) as caught:
                store[b'a'] = b'3'
            assert caught.value.errno == errno.EROFS
        kvtree.detach(durable)
    with pytest.raises(Error) as caught:
        kvtree.attach(durable, *devices, read_only=True, until=then + 1000)
    assert caught.value.errno == errno.ERANGE


def test_what_was_put_is_there_again(durable: str, devices: list[str]) -> None:
    with kvtree.attach(durable, *devices, mode=0o640, limit_keys=9) as store:
        store[b'a'] = b'1'
        store.put(b'b', b'2', sync=True)
        store.sync()
        store.checkpoint()
        stat = store.stat()
        assert stat['log_checkpoints_full'] == 1
        assert 1 <= stat['log_ranges'] <= stat['log_pieces']
        assert 0 < stat['log_record_bytes'] < stat['log_bytes']
        store[b'c'] = b'3'
        kvtree.detach(durable)
        with pytest.raises(StoreGone):
            store[b'd'] = b'4'
    # In any order, and as a Path.
    with kvtree.attach(durable, Path(devices[1]), devices[0], sync=True) as store:
        assert list(store.items()) == [(b'a', b'1'), (b'b', b'2'), (b'c', b'3')]
        info = store.info()
    assert (info.durable, info.sync, info.attaching) == (True, True, False)
    assert (info.checkpointing, info.progress) == (False, 0)
    assert info.uuid == kvtree.probe(devices[0]).uuid


def test_devices_name_their_store(durable: str, devices: list[str], tmp_path: Path) -> None:
    fresh = [kvtree.probe(device) for device in devices]
    assert [info.index for info in fresh] == [0, 1]
    assert {info.devices for info in fresh} == {2}
    assert fresh[0].uuid == fresh[1].uuid
    assert (fresh[0].label, fresh[0].open, fresh[0].version) == ('', False, 1)
    assert fresh[0].bytes <= 132 << 20
    kvtree.attach(durable, *devices)
    with Store(durable) as store:
        for i in range(100):
            store[b'%d' % i] = b'x' * 1000
        store.checkpoint()
    infos = [kvtree.probe(Path(device)) for device in devices]
    assert {(info.label, info.open) for info in infos} == {(durable, True)}
    assert sum(info.checkpoint_records for info in infos) == 100
    kvtree.detach(durable)
    assert not kvtree.probe(devices[0]).open

    nothing = tmp_path / 'nothing'
    nothing.write_bytes(bytes(1 << 20))
    for path, code in ((nothing, errno.ENODATA), (tmp_path / 'none', errno.ENOENT)):
        with pytest.raises(Error) as caught:
            kvtree.probe(path)
        assert caught.value.errno == code


def test_a_damaged_superblock_is_found_out(devices: list[str], tmp_path: Path) -> None:
    image = tmp_path / '0.img'
    with open(image, 'r+b') as file:
        for copy in (0, 16):
            file.seek(copy * 4096 + 100)
            byte = file.read(1)[0] ^ 1
            file.seek(copy * 4096 + 100)
            file.write(bytes([byte]))
            file.flush()
            if not copy:
                # The other one is as good.
                assert kvtree.probe(image).index == 0
    with pytest.raises(Error) as caught:
        kvtree.probe(image)
    assert caught.value.errno == errno.EBADMSG


def test_what_cannot_be_attached(durable: str, name: str, devices: list[str]) -> None:
    for paths, code in ((devices[:1], errno.ENODEV), ([], errno.EINVAL),
                        (['/dev/kvt-none'], errno.ENOENT), (['/proc/version'], errno.ENOTBLK),
                        (devices * 5, errno.EINVAL)):
        with pytest.raises(Error) as caught:
            kvtree.attach(durable, *paths)
        assert caught.value.errno == code
    with pytest.raises(KeyExists):
        kvtree.attach(name, *devices)
    with pytest.raises(NotFound):
        kvtree.detach(durable)
    # It has no devices.
    with pytest.raises(Error) as caught:
        kvtree.detach(name)
    assert caught.value.errno == errno.EOPNOTSUPP
    with Store(name) as store, pytest.raises(Error) as caught:
        store.checkpoint()
    assert caught.value.errno == errno.EOPNOTSUPP
