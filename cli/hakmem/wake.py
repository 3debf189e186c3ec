"""Sends a thread of a process the signal that makes its library listen; never a thread of a later process with that
number."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from typing import Callable

# This value tells the library the tool's signal from the program's own (src/os/os_signal.c).
_VALUE = 0x68616B6D656D
_SI_QUEUE = -1
_SIGINFO_BYTES = 128
_PIDFD_SEND_SIGNAL = 424  # on both machines
# By the machines that hakmem runs on.
TGSIGQUEUEINFO = {"x86_64": 297, "aarch64": 240}
_PIDFD_THREAD = os.O_EXCL


def wake(process: int, thread: int, signal: int, is_the_same: Callable[[], bool]) -> None:
    """Raises an OSError when the thread has ended. `is_the_same` tells whether the process still has its number."""
    try:
        descriptor = os.pidfd_open(thread, _PIDFD_THREAD)
    except (OSError, AttributeError):
        # Before Linux 6.9 a descriptor stands for whole processes alone, whose signals any thread may get.
        _check(is_the_same)
        _call(TGSIGQUEUEINFO[platform.machine()], process, thread, signal, _information(signal))
        return
    try:
        # Checked after the descriptor is open: from here on the descriptor stands for this process alone.
        _check(lambda: os.path.exists(f"/proc/{process}/task/{thread}") and is_the_same())
        _call(_PIDFD_SEND_SIGNAL, descriptor, signal, _information(signal), 0)
    finally:
        os.close(descriptor)


def _check(is_the_same: Callable[[], bool]) -> None:
    if not is_the_same():
        raise ProcessLookupError


def _information(signal: int) -> object:
    fields = struct.pack("=iiiiiIQ", signal, 0, _SI_QUEUE, 0, os.getpid(), os.getuid(), _VALUE)
    return ctypes.create_string_buffer(fields, _SIGINFO_BYTES)


def _call(number: int, *arguments: object) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.syscall(number, *arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
