"""A running process as /proc shows it, for a request to its allocator."""

from __future__ import annotations

import os
import platform
import pwd
import time
from dataclasses import dataclass
from typing import Callable, Dict, Iterator, List, Optional

from hakmem import attach_signal, linked, process_files
from hakmem.errors import Failure
from hakmem.wake import TGSIGQUEUEINFO, wake

_OPTION = f"{attach_signal.VARIABLE}=".encode()
_AT_SECURE = 23
# The C library blocks all signals while it forks or makes a thread.
_BLOCKED_FOR_A_MOMENT_SECONDS = 0.3


@dataclass(frozen=True)
class Thread:
    """One of its threads, and the signals that it blocks: bit i is signal i + 1."""

    number: int
    name: str
    state: str
    blocked: int


class Watched:
    """Returns a process on hakmem, or raises a Failure with the reason."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        began = process_files.start_of(pid)
        status = self._status()
        if int(status.get("Tgid", pid)) != pid:
            raise Failure(f"{pid} is a thread of process {status['Tgid']} ({status['Name']}): that PID is needed")
        self.user = int(status["Uid"].split()[1])
        self.own_pid = int(status.get("NSpid", str(pid)).split()[-1])
        self.name = status["Name"]
        if began is None:
            raise Failure(f"process {pid} has ended")
        self._began = began
        if os.geteuid() not in (0, self.user):
            raise Failure(f"process {pid} belongs to {_user_name(self.user)}: only that user, or root, gets an answer")
        if not runs_on_hakmem(pid):
            raise Failure(
                f"process {pid} ({self.name}) does not run on hakmem: `hakmem run` starts a program on it, and "
                "`hakmem env` prints the line for services (see: hakmem help run)"
            )
        self.signal = self._attach_signal()
        self._auxiliary = self._read("auxv")

    def is_alive(self) -> bool:
        """Whether this process still runs, and no other one has its number."""
        return process_files.start_of(self.pid) == self._began

    def runs_another_program(self) -> bool:
        """Whether the process has replaced its program since (exec): the kernel places each one at random addresses,
        which its auxiliary vector has."""
        try:
            return self.is_alive() and self._read("auxv") != self._auxiliary
        except Failure:
            return False

    def wake(self) -> None:
        """Makes it listen, by the signal, in the thread that is disturbed least."""
        if platform.machine() not in TGSIGQUEUEINFO:
            raise Failure(f"hakmem does not run on {platform.machine()}")
        thread = self._thread_to_wake()
        try:
            wake(self.pid, thread.number, self.signal, self._still_listens)
        except OSError as error:
            if not self.is_alive():
                raise Failure(f"process {self.pid} has ended") from None
            if not isinstance(error, ProcessLookupError):
                raise Failure(f"process {self.pid} cannot be signalled: {error.strerror}") from None
            # The thread has ended, or runs another program: the caller that waits for an answer looks again.

    def _still_listens(self) -> bool:
        """Whether this process still has a handler, which exec takes away: the signal would end the next program. A
        wait for threads that block it may be long, so this looks right before the signal."""
        try:
            return self.is_alive() and self._catches(self._status())
        except Failure:
            return False

    def _catches(self, status: Dict[str, str]) -> bool:
        return bool(int(status["SigCgt"], 16) & (1 << (self.signal - 1)))

    def threads(self) -> Iterator[Thread]:
        """Its threads, without those that end meanwhile."""
        for folder in process_files.thread_folders(self.pid):
            try:
                told = process_files.status_fields((folder / "status").read_text(errors="replace"))
                yield Thread(int(folder.name), told["Name"], told["State"][0], int(told["SigBlk"], 16))
            except (OSError, KeyError):
                continue

    def _thread_to_wake(self) -> Thread:
        bit = 1 << (self.signal - 1)
        if not self._catches(self._status()):
            raise Failure(f"process {self.pid} ({self.name}) {self._why_not_caught()}")
        awake = self._threads_without(bit)
        until = time.monotonic() + _BLOCKED_FOR_A_MOMENT_SECONDS
        while not awake and time.monotonic() < until:
            time.sleep(0.01)
            awake = self._threads_without(bit)
        if not awake:
            raise Failure(
                f"all threads of process {self.pid} ({self.name}) block signal {self.signal}; "
                f"start it with {attach_signal.VARIABLE} set to one that it does not block"
            )
        # Ending a wait of the purge thread is harmless; the program's own waits may end early (EINTR).
        return next((thread for thread in awake if thread.name == "hakmem-purge"), awake[0])

    def _threads_without(self, bit: int) -> List[Thread]:
        """Those that do not block the signal."""
        threads = list(self.threads())
        if threads and all(thread.state in "Tt" for thread in threads):
            raise Failure(f"process {self.pid} ({self.name}) is stopped, and cannot answer before it goes on")
        return [thread for thread in threads if not thread.blocked & bit and thread.state not in "ZX"]

    def _why_not_caught(self) -> str:
        if self._is_secure():
            return "runs with raised rights (set-user-ID or file capabilities), where hakmem does not answer"
        if self._may_be_killed():
            return (
                "does not listen: it runs under a system call filter (seccomp) that may end it for a signal handler; "
                "where the filter permits system calls, or refuses them and does not kill, start it with "
                "HAKMEM_SANDBOX=off"
            )
        return (
            f"does not listen to signal {self.signal}: it has just started, the program uses the signal itself, "
            "or its hakmem is an older one"
        )

    def _may_be_killed(self) -> bool:
        return self._status().get("Seccomp", "0") != "0"

    def _is_secure(self) -> bool:
        return bool(process_files.auxiliary(self._read("auxv"), _AT_SECURE))

    def _attach_signal(self) -> int:
        for variable in self._read("environ").split(b"\0"):
            if variable.startswith(_OPTION):
                text = variable[len(_OPTION) :].decode(errors="replace")
                number = attach_signal.number(text)
                if number == 0:
                    raise Failure(f"process {self.pid} ({self.name}) was started with {attach_signal.VARIABLE}={text}")
                return number
        return attach_signal.DEFAULT

    def _status(self) -> Dict[str, str]:
        return process_files.status(self.pid)

    def _read(self, name: str) -> bytes:
        return process_files.read(self.pid, name)


def runs_on_hakmem(pid: int, has_mark: Optional[Callable[[str], bool]] = None) -> bool:
    """Whether the process has mapped the library, or a program that is linked with it. `has_mark` says of a file
    whether it has the library's mark; by default the file is read."""
    maps = process_files.read(pid, "maps").decode(errors="surrogateescape")
    files = {path for rights, path in process_files.mapped_files(maps) if "x" in rights}
    if any(map(linked.is_library, files)):
        return True
    # A kernel thread, and a process that ends, have no mappings.
    paths = [f"/proc/{pid}/exe", *(process_files.roots(pid)[0] + f for f in sorted(files))] if maps else []
    return any((has_mark or linked.has_hakmem)(path) for path in paths)


def _user_name(number: int) -> str:
    try:
        return f"{pwd.getpwuid(number).pw_name} (user {number})"
    except KeyError:
        return f"user {number}"
