# SPDX-License-Identifier: LGPL-2.1-only
"""Results of operations that are executed later."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from kvtree._args import key_of
from kvtree._errors import Error

T = TypeVar('T')


class Result(Generic[T]):
    """The result of an operation of a Batch or, as an Operation, of a Ring."""

    def __init__(self, what: str, key: Any = b'') -> None:
        self._what = what
        self._key = key_of(key)
        self._value: T | None = None
        self._error: Error | None = None
        self._version = 0
        self._done = False

    def __repr__(self) -> str:
        if not self._done:
            state = 'not executed'
        elif self._error is not None:
            state = repr(self._error)
        else:
            state = repr(self._value)
        return f'<{self._what} {self._key!r}: {state}>'

    @property
    def done(self) -> bool:
        """Whether it was executed."""
        return self._done

    @property
    def error(self) -> Error | None:
        """Why it failed; None if it did not."""
        self._look()
        return self._error

    @property
    def value(self) -> T:
        """What the same method of Store returns. Raises what that would raise."""
        self._look()
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    @property
    def version(self) -> int:
        """The version found or made; 0 if there is none."""
        self._look()
        return self._version

    def _look(self) -> None:
        if not self._done:
            raise RuntimeError('the operation has not been executed')

    def _succeed(self, value: T, version: int = 0) -> None:
        self._value = value
        self._version = version
        self._done = True

    def _fail(self, error: Error, version: int = 0) -> None:
        self._error = error
        self._version = version
        self._done = True
