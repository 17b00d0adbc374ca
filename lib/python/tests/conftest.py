# SPDX-License-Identifier: LGPL-2.1-only
"""Every test gets a new store. The tests need root and the module."""

import itertools
import os
from collections.abc import Iterator

import pytest

import kvtree

_numbers = itertools.count()


@pytest.fixture
def name() -> Iterator[str]:
    """The name of a new store."""
    name = f'pytest-{os.getpid()}-{next(_numbers)}'
    kvtree.create_store(name).close()
    yield name
    if name in [store.name for store in kvtree.stores()]:
        kvtree.destroy_store(name)


@pytest.fixture
def store(name: str) -> Iterator[kvtree.Store]:
    """A new store, open for reading and writing."""
    with kvtree.Store(name) as store:
        yield store
