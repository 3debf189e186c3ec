"""A running process, as /proc shows it to who wants to ask its allocator something."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import pwd
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterator, Optional, Set

from hakmem.errors import Failure

# In the library's file, and so in a program that is linked with it (src/api/serve_command.c).
_MARK = b"hakmem: this process answers, protocol "
_OPTION = b"HAKMEM_ATTACH_SIGNAL="
# The allocator in its variants; not libhakmem-policy.so, which a tool may have loaded.
_LIBRARY = re.compile(r"libhakmem(-fast|-count)?\.so")
_SIGNAL = 58
_NAMES = {"hup": 1, "sighup": 1, "usr1": 10, "sigusr1": 10, "usr2": 12, "sigusr2": 12, "winch": 28, "sigwinch": 28}
# By this the library tells the tool's signal from the program's own (src/os/os_signal.c).
_VALUE = 0x68616B6D656D
_SI_QUEUE = -1
_SIGINFO_BYTES = 128
_TGSIGQUEUEINFO = {"x86_64": 297, "aarch64": 240}
_AT_SECURE = 23


@dataclass(frozen=True)
class Thread:
    """One thread of it, and the signals it blocks: bit i is signal i + 1."""

    number: int
    name: str
    state: str
    blocked: int


class Watched:
    """A process of ours, or a Failure that says why it is none."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        status = self._status()
        self.user = int(status["Uid"].split()[1])
        self.own_pid = int(status.get("NSpid", str(pid)).split()[-1])
        self.name = status["Name"]
        if status["State"].startswith(("Z", "X")):
            raise Failure(f"process {pid} has ended")
        if os.geteuid() not in (0, self.user):
            raise Failure(f"process {pid} belongs to {_user_name(self.user)}: only that user, or root, can ask it")
        if not self._is_ours():
            raise Failure(f"process {pid} ({self.name}) does not run on hakmem")
        self.signal = self._attach_signal()

    def is_alive(self) -> bool:
        """Whether it still runs."""
        try:
            return not self._status()["State"].startswith(("Z", "X"))
        except Failure:
            return False

    def wake(self) -> None:
        """Asks it to listen, by the signal, in the thread that is disturbed least."""
        thread = self._thread_to_wake()
        number = _TGSIGQUEUEINFO.get(platform.machine())
        if number is None:
            raise Failure(f"hakmem does not run on {platform.machine()}")
        fields = struct.pack("=iiiiiIQ", self.signal, 0, _SI_QUEUE, 0, os.getpid(), os.getuid(), _VALUE)
        library = ctypes.CDLL(None, use_errno=True)
        information = ctypes.create_string_buffer(fields, _SIGINFO_BYTES)
        if library.syscall(number, self.pid, thread.number, self.signal, information) != 0:
            raise Failure(f"process {self.pid} cannot be signalled: {os.strerror(ctypes.get_errno())}")

    def threads(self) -> Iterator[Thread]:
        """Those there are. What ends meanwhile is left out."""
        for folder in sorted(Path(f"/proc/{self.pid}/task").glob("*"), key=lambda path: int(path.name)):
            try:
                fields = _fields((folder / "status").read_bytes())
                yield Thread(int(folder.name), fields["Name"], fields["State"][0], int(fields["SigBlk"], 16))
            except (OSError, KeyError):
                continue

    def _thread_to_wake(self) -> Thread:
        status = self._status()
        bit = 1 << (self.signal - 1)
        if not int(status["SigCgt"], 16) & bit:
            raise Failure(f"process {self.pid} ({self.name}) {self._why_not_caught()}")
        threads = list(self.threads())
        if threads and all(thread.state in "Tt" for thread in threads):
            raise Failure(f"process {self.pid} ({self.name}) is stopped, and cannot answer before it goes on")
        awake = [thread for thread in threads if not thread.blocked & bit and thread.state not in "ZX"]
        if not awake:
            raise Failure(
                f"all threads of process {self.pid} ({self.name}) block signal {self.signal}; "
                "start it with HAKMEM_ATTACH_SIGNAL set to one that it does not block"
            )
        # A wait of the purge thread is nobody's business; the program's own may end early (EINTR).
        return next((thread for thread in awake if thread.name == "hakmem-purge"), awake[0])

    def _why_not_caught(self) -> str:
        if self._is_secure():
            return "runs with raised rights (set-user-ID or file capabilities), where hakmem answers nobody"
        return (
            f"does not listen to signal {self.signal}: it has just started, the program uses the signal itself, "
            "or its hakmem is an older one"
        )

    def _is_secure(self) -> bool:
        vector = self._read("auxv")
        words = struct.unpack(f"={len(vector) // 8}Q", vector)
        return dict(zip(words[::2], words[1::2])).get(_AT_SECURE, 0) != 0

    def _attach_signal(self) -> int:
        for variable in self._read("environ").split(b"\0"):
            if variable.startswith(_OPTION):
                text = variable[len(_OPTION) :].decode(errors="replace").lower()
                number = _NAMES.get(text, int(text) if text.isdecimal() else 0 if text == "none" else _SIGNAL)
                if number == 0:
                    raise Failure(f"process {self.pid} ({self.name}) was started with HAKMEM_ATTACH_SIGNAL={text}")
                return number if number <= 64 else _SIGNAL
        return _SIGNAL

    def _is_ours(self) -> bool:
        files = self._mapped_files()
        if any(_LIBRARY.match(os.path.basename(file)) for file in files):
            return True
        return any(_has_mark(path) for path in [f"/proc/{self.pid}/exe", *(f"/proc/{self.pid}/root{f}" for f in files)])

    def _mapped_files(self) -> Set[str]:
        lines = self._read("maps").decode(errors="surrogateescape").splitlines()
        fields = (line.split(maxsplit=5) for line in lines)
        return {words[5] for words in fields if len(words) == 6 and words[5].startswith("/") and "x" in words[1]}

    def _status(self) -> Dict[str, str]:
        return _fields(self._read("status"))

    def _read(self, name: str) -> bytes:
        try:
            return Path(f"/proc/{self.pid}/{name}").read_bytes()
        except PermissionError:
            raise Failure(
                f"process {self.pid} cannot be looked at: it runs with raised rights, or forbids it (prctl PR_SET_DUMPABLE)"
            ) from None
        except (FileNotFoundError, ProcessLookupError):
            raise Failure(f"there is no process {self.pid}") from None


def _fields(text: bytes) -> Dict[str, str]:
    lines = (line.partition(":") for line in text.decode(errors="replace").splitlines())
    return {name: value.strip() for name, _, value in lines}


def _user_name(number: int) -> str:
    try:
        return f"{pwd.getpwuid(number).pw_name} (user {number})"
    except KeyError:
        return f"user {number}"


def _has_mark(path: str) -> bool:
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            return text.find(_MARK) >= 0
    except (OSError, ValueError):
        return False


def network_of(pid: int) -> Optional[str]:
    """The network namespace, in which abstract sockets have their names."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return None
