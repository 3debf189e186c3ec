"""Starts programs, waits for them, samples their memory, and handles signals meanwhile. Independent of allocators.

    with Watch(signals, on_signal) as watch:
        child = watch.start(Launch(program, environment))
        watch.until(lambda: child.ended is not None, deadline)

One loop serves everything: it sleeps in sigtimedwait until the next sample is due, a signal arrives, or a program ends
(SIGCHLD). Signals are blocked while the watch is open, and go to `on_signal` with their sender.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Callable, Dict, Iterable, List, Mapping, Optional, Set, Type

from hakmem.errors import EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, EXIT_SIGNAL_BASE, Failure
from hakmem.launcher import launcher
from hakmem.memory import MemorySampler
from hakmem.program import Program

_LONGEST_SLEEP = 0.25
_INHERIT = -1


@dataclass(frozen=True)
class Launch:
    """A program to start, and how. File descriptors of -1 are the caller's own."""

    program: Program
    environment: Mapping[str, str]
    stdin: int = _INHERIT
    stdout: int = _INHERIT
    stderr: int = _INHERIT
    own_group: bool = False
    sample: bool = True
    library: Optional[str] = None
    shared_once: bool = False


@dataclass(frozen=True)
class Outcome:
    """How a program ended and what it used, with the children that it waited for.

    The peak is of its largest process.
    """

    status: int
    wall_seconds: float
    user_seconds: float
    system_seconds: float
    peak_bytes: int
    minor_faults: int
    major_faults: int

    @property
    def signal(self) -> Optional[int]:
        """The signal that killed it."""
        return os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else None

    @property
    def exit_code(self) -> int:
        """The exit code as a shell reports it."""
        return os.WEXITSTATUS(self.status) if self.signal is None else EXIT_SIGNAL_BASE + self.signal

    def describe(self) -> str:
        """`exit code 3`, `killed by SIGSEGV (core dumped)`."""
        if self.signal is None:
            return f"exit code {self.exit_code}"
        dumped = " (core dumped)" if os.WCOREDUMP(self.status) else ""
        return f"killed by {signal_name(self.signal)}{dumped}"


def signal_name(number: int) -> str:
    """`SIGTERM`, or the number of one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@dataclass
class Child:
    """A program that was started. `ended` is set when it is over, `stopped_by` while job control holds it."""

    launch: Launch
    launcher_pid: int
    report: int
    pid: int
    handle: Optional[int]
    sampler: Optional[MemorySampler]
    ended: Optional[Outcome] = None
    stopped_by: Optional[int] = None
    _text: bytes = field(default=b"", repr=False)

    def signal(self, number: int) -> None:
        """Send the program a signal; nothing happens when it is over."""
        try:
            if self.handle is not None:
                signal.pidfd_send_signal(self.handle, number)  # type: ignore[attr-defined,unused-ignore]
            elif self.ended is None:
                os.kill(self.pid, number)
        except ProcessLookupError:
            pass

    def kill_all(self) -> None:
        """Ends the program and its children. Processes that left both its group and its tree are not found."""
        others = self.sampler.processes() - {self.pid} if self.sampler else set()
        self.signal(signal.SIGKILL)
        if self.launch.own_group:
            _kill_group(self.pid)
        for pid in others if self.ended is None else ():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def read_report(self) -> None:
        """Reads the launcher's new output."""
        while True:
            try:
                chunk = os.read(self.report, 4096)
            except BlockingIOError:
                break
            if not chunk:
                break
            self._text += chunk
        *lines, self._text = self._text.split(b"\n")
        for line in lines:
            self._take(line.split())

    def _take(self, words: List[bytes]) -> None:
        if words[0] == b"stopped":
            self.stopped_by = int(words[1])
        elif words[0] == b"continued":
            self.stopped_by = None
        elif words[0] == b"end":
            status, wall, user, system, peak, minor, major = (int(word) for word in words[1:])
            # Kernels before 6.16 add a process's pages up roughly, in the peak or in the samples: the higher one is
            # nearer.
            largest = self.sampler.largest if self.sampler else 0
            self.ended = Outcome(status, wall / 1e9, user / 1e6, system / 1e6, max(peak * 1024, largest), minor, major)

    def close(self) -> None:
        """Closes the descriptors."""
        os.close(self.report)
        if self.handle is not None:
            os.close(self.handle)
        if self.sampler:
            self.sampler.close()


def _kill_group(group: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(group, signal.SIGKILL)


SignalHandler = Callable[[signal.struct_siginfo], None]


class Watch:
    """Runs programs. When it closes, each of its programs has ended, and their descriptors are closed."""

    def __init__(
        self, signals: Iterable[int], on_signal: SignalHandler, on_tick: Callable[[], None] = lambda: None
    ) -> None:
        self._awaited: Set[int] = {*signals, signal.SIGCHLD}
        self._on_signal = on_signal
        self._on_tick = on_tick
        self._old_mask: Set[int] = set()
        self._children: List[Child] = []

    def __enter__(self) -> Watch:
        launcher()  # built before signals are blocked
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if the caller ignores it, it would never arrive
        self._old_mask = {int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, self._awaited)}
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        for child in self._children:
            if child.ended is None:
                child.kill_all()
                os.waitpid(child.launcher_pid, 0)
            elif child.launch.own_group:
                _kill_group(child.pid)
            child.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, self._old_mask)

    def start(self, launch: Launch) -> Child:
        """Start a program. A Failure with the shell's exit code when it cannot be executed."""
        reading, writing = os.pipe()
        os.set_inheritable(writing, True)
        try:
            launcher_pid = self._spawn(launch, writing)
        finally:
            os.close(writing)
        pid = _first_line(launch, reading, launcher_pid)
        os.set_blocking(reading, False)
        sampler = MemorySampler(pid, launch.library, launch.shared_once) if launch.sample else None
        child = Child(launch, launcher_pid, reading, pid, _open_handle(pid), sampler)
        self._children.append(child)
        return child

    def _spawn(self, launch: Launch, report: int) -> int:
        environment: Dict[str, str] = dict(launch.environment)
        preload = environment.pop("LD_PRELOAD", "-") or "-"
        mask = sum(1 << (number - 1) for number in self._old_mask)
        words = [launcher(), str(report), f"{mask:x}", str(os.getpid()), str(int(launch.own_group)), preload]
        given = ((launch.stdin, 0), (launch.stdout, 1), (launch.stderr, 2))
        return os.posix_spawn(
            words[0],
            [*words, launch.program.path, *launch.program.argv],
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, source, target) for source, target in given if source != _INHERIT],
            setsigdef=_ignored_by_python(),
        )

    def until(self, done: Callable[[], bool], deadline: Optional[float] = None) -> bool:
        """Watches until `done()`. False when `deadline`, on time.monotonic()'s clock, came first."""
        while True:
            self._collect()
            if done():
                return True
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                return False
            self._sample(now)
            self._on_tick()
            heard = signal.sigtimedwait(self._awaited, max(0.0, self._next_event(deadline) - time.monotonic()))
            if heard is not None and heard.si_signo != signal.SIGCHLD:
                self._on_signal(heard)

    def _running(self) -> List[Child]:
        return [child for child in self._children if child.ended is None]

    def _sample(self, now: float) -> None:
        for child in self._running():
            if child.sampler and child.stopped_by is None and child.sampler.due <= now:
                child.sampler.take()

    def _next_event(self, deadline: Optional[float]) -> float:
        times = [child.sampler.due for child in self._running() if child.sampler and child.stopped_by is None]
        if deadline is not None:
            times.append(deadline)
        return min([*times, time.monotonic() + _LONGEST_SLEEP])

    def _collect(self) -> None:
        """Reads reports and the ends of launchers."""
        for child in self._running():
            gone, _ = os.waitpid(child.launcher_pid, os.WNOHANG)
            child.read_report()
            if gone and child.ended is None:
                # The launcher itself was killed: the program's figures are unknown, and it may still run.
                child.kill_all()
                child.ended = Outcome(signal.SIGKILL, time.monotonic() - _started(child), 0.0, 0.0, 0, 0, 0)


def _ignored_by_python() -> List[int]:
    """The signals that Python ignores from its start on, and that this process's caller did not ignore. `./hakmem`
    tells Python the caller's mask. An installed tool does not know it, and assumes that the caller ignores none."""
    told = sys._xoptions.get("ignored")
    try:
        callers = int(told, 16) if isinstance(told, str) else 0
    except ValueError:  # /proc is not mounted
        callers = 0
    return [number for number in (signal.SIGPIPE, signal.SIGXFSZ) if not callers >> (number - 1) & 1]


def _started(child: Child) -> float:
    return child.sampler.start if child.sampler else time.monotonic()


def _open_handle(pid: int) -> Optional[int]:
    """A descriptor that stands for this process even when its number is used again. None on kernels before 5.3."""
    try:
        return os.pidfd_open(pid)  # type: ignore[attr-defined,unused-ignore]
    except (AttributeError, OSError):
        return None


def _first_line(launch: Launch, report: int, launcher_pid: int) -> int:
    """The program's process id, from the launcher's first line."""
    text = b""
    while not text.endswith(b"\n") and (byte := os.read(report, 1)):
        text += byte
    words = text.split()
    if len(words) == 2 and words[0] == b"pid":
        return int(words[1])
    os.close(report)
    os.waitpid(launcher_pid, 0)
    number = int(words[1]) if len(words) == 2 else 0
    code = EXIT_NOT_FOUND if number in (errno.ENOENT, errno.ENOTDIR) else EXIT_NOT_EXECUTABLE
    hint = ""
    if number == errno.ENOENT and os.path.exists(launch.program.path):
        hint = " (the interpreter that it names is missing)"
    raise Failure(f"cannot execute {launch.program.path}: {os.strerror(number)}{hint}", code)
