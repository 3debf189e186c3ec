"""The figures of this process, from the library that it runs on: hakmem_stats_get and its relatives, by ctypes.

ctypes is imported on the first call, because the command line tool imports this module too and calls nothing here.
"""

from __future__ import annotations

import errno
import os
from functools import lru_cache
from typing import Any, Type, TypeVar

from hakmem.own_figures import Events, Stats

Struct = TypeVar("Struct", Stats, Events)


class NotActiveError(RuntimeError):
    """This process does not run on hakmem, or on a build of it without these functions."""


def is_active() -> bool:
    """Returns whether this process runs on hakmem: whether hakmem serves malloc here."""
    try:
        _library()
    except NotActiveError:
        return False
    return True


def stats() -> Stats:
    """Returns the figures of this process, in bytes, milliseconds and counts. Looks at all memory of the allocator,
    which takes some ms for 10 GiB. A figure that the library is too old to know is 0."""
    return _filled(Stats, "hakmem_stats_get")


def events() -> Events:
    """Returns the counters of this process. Takes no time worth mention. A counter that the library is too old to know
    is 0."""
    return _filled(Events, "hakmem_stats_get_events")


def collect() -> int:
    """Purges dirty memory: of this thread, of threads that sleep and of none. Returns the bytes that went back to the
    system. Python's own free objects stay where they are: `gc.collect()` comes first."""
    return int(_function("hakmem_collect")())


@lru_cache(maxsize=None)
def _library() -> Any:
    """The names of this process, once it is known that hakmem serves its malloc."""
    import ctypes

    names = ctypes.CDLL(None)
    try:
        owned = names.hakmem_check_owned
    except AttributeError:
        raise NotActiveError(
            "this process does not run on hakmem: start it by `hakmem run -- python ...`, or set LD_PRELOAD as "
            "`hakmem env` says"
        ) from None
    owned.argtypes, owned.restype = [ctypes.c_void_p], ctypes.c_bool
    names.malloc.argtypes, names.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    names.free.argtypes, names.free.restype = [ctypes.c_void_p], None
    block = names.malloc(64)
    is_ours = bool(owned(block))
    names.free(block)
    if not is_ours:
        raise NotActiveError("hakmem is loaded, but another library serves malloc in this process")
    return names


@lru_cache(maxsize=None)
def _function(name: str) -> Any:
    import ctypes

    types = {
        "hakmem_collect": ([], ctypes.c_size_t),
        "hakmem_stats_get": ([ctypes.c_void_p, ctypes.c_size_t], ctypes.c_int),
        "hakmem_stats_get_events": ([ctypes.c_void_p, ctypes.c_size_t], ctypes.c_int),
    }
    try:
        function = getattr(_library(), name)
    except AttributeError:
        raise NotActiveError(f"the hakmem of this process was built without {name}") from None
    function.argtypes, function.restype = types[name]
    return function


def _filled(kind: Type[Struct], name: str) -> Struct:
    """Calls a function that fills a struct of 64-bit numbers."""
    import ctypes

    get = _function(name)
    struct = (ctypes.c_uint64 * len(kind._fields))()
    error = get(ctypes.byref(struct), ctypes.sizeof(struct))
    if error == errno.ENOMEM:
        raise MemoryError(f"{name} found no memory")
    if error != 0:
        raise OSError(error, f"{name}: {os.strerror(error)}")
    return kind(*struct)
