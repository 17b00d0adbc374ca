# SPDX-License-Identifier: LGPL-2.1-only
"""Errors, as exceptions."""

import errno

from kvtree._native import ffi, lib

_SHOWN = 80  # bytes of a key in a message


class Error(OSError):
    """A call failed: `errno` is the cause, and the message says what to do.

    `filename` is the key or the store's name of the call. A call that failed has
    changed nothing in the store; but after EIO a change took effect, and `update()`,
    `clear()` and a batch may have executed other operations.
    """

    def __str__(self) -> str:
        about = self.filename
        if not isinstance(about, (bytes, str)) or len(about) <= _SHOWN:
            return super().__str__()
        return f'[Errno {self.errno}] {self.strerror}: {about[:_SHOWN]!r}...'


class NotFound(Error, KeyError):
    """The key does not exist, or no store has this name (ENOENT)."""


class KeyExists(Error):
    """The key exists, or a store has this name already (EEXIST)."""


class VersionMismatch(Error):
    """The key has another version than the one asked for (ECANCELED)."""

    version: int = 0
    """The version found, 0 if the key does not exist."""


class StoreGone(Error):
    """The store was destroyed or detached (ESTALE)."""


class AccessDenied(Error, PermissionError):
    """The store's mode, or how it was opened, do not allow this (EACCES, EPERM)."""


class LimitReached(Error):
    """The store's limit of bytes or keys is reached (EDQUOT)."""


class TooLong(Error):
    """The value is longer than the memory reserved for it (EMSGSIZE)."""

    needed: int = 0
    """The value's length in bytes."""


class Canceled(Error):
    """The operation was canceled while it waited: nothing has changed (ECANCELED)."""


class InvalidArgument(Error, ValueError):
    """A key, a value, a column or a name is out of its range (EINVAL, E2BIG)."""


_CLASSES: dict[int, type[Error]] = {
    errno.ENOENT: NotFound,
    errno.EEXIST: KeyExists,
    errno.ECANCELED: VersionMismatch,
    errno.ESTALE: StoreGone,
    errno.EACCES: AccessDenied,
    errno.EPERM: AccessDenied,
    errno.EDQUOT: LimitReached,
    errno.EMSGSIZE: TooLong,
    errno.EINVAL: InvalidArgument,
    errno.E2BIG: InvalidArgument,
    errno.ENAMETOOLONG: InvalidArgument,
}


def error(err: int, about: object = None, *, version: int = 0, needed: int = 0) -> Error:
    """Make the exception for the result of a call."""
    number = abs(err)
    text = ffi.string(lib.kvtree_strerror(number)).decode()
    cls = _CLASSES.get(number, Error)
    e = cls(number, text) if about is None else cls(number, text, about)
    if isinstance(e, VersionMismatch):
        e.version = version
    elif isinstance(e, TooLong):
        e.needed = needed
    return e


def must(ret: int, about: object = None) -> int:
    """Return the result of a call, or raise its exception."""
    if ret < 0:
        raise error(ret, about)
    return ret
