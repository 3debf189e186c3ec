"""Requests answers from a running program on hakmem. The program needs no option for it.

A signal makes the library listen on a socket that only the same user and root may use (docs/cli.md). A process that
listens already needs no signal.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
import threading
import time
from types import TracebackType
from typing import List, Optional, Type

from hakmem import own_memory
from hakmem.errors import Failure
from hakmem.process_files import network_of
from hakmem.watched import Watched

ANSWER_SECONDS = 5.0
_GREETING_SECONDS = 1.0
_LOOK_SECONDS = 0.002
_SIGNAL_AGAIN_SECONDS = 1.0
_NAME_COUNT = 8  # src/serve/server.c
_PROTOCOL = b"hakmem: this process answers, protocol 1\n"
_CLONE_NEWNET = 0x40000000
_LONGEST_HEAD = 512


class Refused(Failure):
    """The process refused the request."""


class Replaced(Failure):
    """The process has replaced its program by another (exec), and the connection ended with the first."""


class _Lost(Exception):
    """The connection cannot be used."""


class Attached:
    """A connection to one process. One thread sends one request after the other."""

    def __init__(self, process: Watched, connection: socket.socket) -> None:
        self.process = process
        self._connection = connection

    @property
    def pid(self) -> int:
        """The process's number."""
        return self.process.pid

    def ask(self, command: str, seconds: float = ANSWER_SECONDS) -> bytes:
        """Returns the answer. Raises Refused with the process's own words, Replaced after an exec, or Failure
        when no answer comes."""
        try:
            answer = self._ask(command, seconds)
            return own_memory.completed(answer, self.pid) if command == "stats json" else answer
        except _Lost:
            if not self.process.is_alive():
                raise Failure(f"process {self.pid} has ended") from None
            told = f"process {self.pid} ({self.process.name})"
            if self.process.runs_another_program():
                raise Replaced(f"{told} has replaced its program by another (exec)") from None
            raise Failure(f"{told} gives no answer") from None

    def greet(self, seconds: float) -> bool:
        """Whether the other end speaks the protocol."""
        try:
            return self._ask("protocol", seconds) == _PROTOCOL
        except _Lost:
            return False

    def close(self) -> None:
        """Ends the connection. The process stops listening when its last client leaves."""
        with contextlib.suppress(OSError):
            self._connection.sendall(b"end\n")
        self._connection.close()

    def __enter__(self) -> Attached:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def _ask(self, command: str, seconds: float) -> bytes:
        end = time.monotonic() + seconds
        try:
            self._connection.settimeout(seconds)
            self._connection.sendall(command.encode() + b"\n")
            head = b""
            while not head.endswith(b"\n") and len(head) < _LONGEST_HEAD:
                head += self._receive(1, end)
            word, _, rest = head.decode(errors="replace").strip().partition(" ")
            if word == "error":
                raise Refused(f"process {self.pid} ({self.process.name}) answers: {rest}")
            if word != "ok" or not rest.isdecimal():
                raise _Lost
            return self._receive(int(rest), end)
        except OSError:
            raise _Lost from None

    def _receive(self, count: int, end: float) -> bytes:
        pieces: List[bytes] = []
        while count > 0:
            left = end - time.monotonic()
            if left <= 0:
                raise _Lost
            self._connection.settimeout(left)
            piece = self._connection.recv(min(count, 1 << 20))
            if not piece:
                raise _Lost
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)


def attach(pid: int, seconds: float = ANSWER_SECONDS) -> Attached:
    """Returns a connection to this process, or raises a Failure with the reason, after a time limit at the latest."""
    process = Watched(pid)
    found = _find(process)
    end = time.monotonic() + seconds
    signal_at = 0.0
    while found is None:
        now = time.monotonic()
        if now >= end:
            raise Failure(_why_silent(process))
        if now >= signal_at:
            process.wake()
            signal_at = now + _SIGNAL_AGAIN_SECONDS
        time.sleep(_LOOK_SECONDS)
        found = _find(process)
        if found is None and not process.is_alive():
            raise Failure(
                f"process {pid} has ended, perhaps by signal {process.signal}: a wait of the program returns early for "
                "it (EINTR), and not every program expects that (see: hakmem help stats)"
            )
    return found


def _why_silent(process: Watched) -> str:
    return (
        f"process {process.pid} ({process.name}) does not answer to signal {process.signal}: the program may have "
        "taken the signal for itself, or may not be allowed a thread or a socket (limits, a sandbox)"
    )


def _find(process: Watched) -> Optional[Attached]:
    """Connects to the process that listens under one of the names."""
    for turn in range(_NAME_COUNT):
        name = f"\0hakmem/{process.own_pid}" + (f".{turn}" if turn else "")
        connection = _connect(process, name)
        if connection is None:
            continue
        attached = Attached(process, connection)
        try:
            if attached.greet(_GREETING_SECONDS):
                return attached
        except Refused:
            connection.close()
            raise
        connection.close()
    return None


def _connect(process: Watched, name: str) -> Optional[socket.socket]:
    connection = _new_socket(process)
    connection.settimeout(_GREETING_SECONDS)
    try:
        connection.connect(name)
        if _is_process(connection, process):
            return connection
    except OSError:
        pass
    connection.close()
    return None


def _is_process(connection: socket.socket, process: Watched) -> bool:
    """Any process can take a name; the kernel tells which process listens."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, user, _ = struct.unpack("3i", peer)
    return (pid, user) == (process.pid, process.user)


def _new_socket(process: Watched) -> socket.socket:
    """A socket in the network namespace of the process."""
    there = network_of(process.pid)
    if there is None or there == network_of(os.getpid()):
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made: List[socket.socket] = []
    thread = threading.Thread(target=_make_socket_in, args=(process.pid, made))
    thread.start()
    thread.join()
    if not made:
        raise Failure(
            f"process {process.pid} ({process.name}) is in another network namespace: run the command there, or as root"
        )
    return made[0]


def _make_socket_in(pid: int, made: List[socket.socket]) -> None:
    """Runs in a thread of its own, because a namespace belongs to a thread."""
    try:
        with open(f"/proc/{pid}/ns/net", "rb") as namespace:
            if ctypes.CDLL(None).setns(namespace.fileno(), _CLONE_NEWNET) == 0:
                made.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    except OSError:
        pass
