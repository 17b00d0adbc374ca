# SPDX-License-Identifier: LGPL-2.1-only
"""Examples in docstrings, Documentation/python.rst and READMEs run; nothing is left out."""

import asyncio
import doctest
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kvtree
from kvtree import Batch, Cursor, Operation, Result, Ring, Store

TREE = Path(__file__).resolve().parents[3]
PAGE = TREE / 'Documentation/python.rst'
READMES = (TREE / 'README.md', TREE / 'lib/python/README.md')
CLASSES = (Store, Cursor, Batch, Result, Ring, Operation)


def public_members() -> Iterator[tuple[type, str, Any]]:
    """What the classes themselves define; a mapping's own methods are not repeated."""
    for cls in CLASSES:
        for name, member in vars(cls).items():
            if not name.startswith('_'):
                yield cls, name, member


@pytest.fixture(autouse=True)
def as_default(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Redirect the store "default", which examples use, to an empty store."""
    init = Store.__init__

    def __init__(self: Store, store: str | None = None,  # noqa: N807
                 *args: Any, **kwargs: Any) -> None:
        init(self, store or name, *args, **kwargs)

    monkeypatch.setattr(Store, '__init__', __init__)


def run(test: doctest.DocTest) -> None:
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, ''.join(said)


DOCSTRINGS = [test for owner in (kvtree, *CLASSES)
              for test in doctest.DocTestFinder(recurse=False).find(
                  owner, globs={'kvtree': kvtree, 'asyncio': asyncio})
              if test.examples]


@pytest.mark.parametrize('test', DOCSTRINGS, ids=[test.name for test in DOCSTRINGS])
def test_examples_of_docstrings(test: doctest.DocTest) -> None:
    run(test)


@pytest.mark.parametrize('page', [PAGE, *READMES],
                         ids=lambda page: str(page.relative_to(TREE)))
def test_examples_of_pages(page: Path) -> None:
    text = page.read_text()
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    assert test.examples
    before = kvtree.stores()
    run(test)
    assert [store.name for store in kvtree.stores()] == [store.name for store in before]


def test_the_page_names_everything() -> None:
    text = PAGE.read_text()
    names = {*kvtree.__all__, *(name for _, name, _ in public_members())}
    assert [name for name in sorted(names) if not re.search(rf'\b{name}\b', text)] == []


def test_everything_public_has_a_docstring() -> None:
    missing = [name for name in kvtree.__all__ if not getattr(kvtree, name).__doc__]
    missing += [f'{cls.__name__}.{name}' for cls, name, member in public_members()
                if not inspect.getdoc(getattr(member, '__func__', member))]
    assert missing == []


def test_the_version_is_the_librarys() -> None:
    assert kvtree.__version__ == kvtree.info().library
