"""Runs one program in the foreground, as if it had been started directly: its signals and its stops are its own."""

from __future__ import annotations

import os
import signal
from typing import Callable, FrozenSet, Optional

from hakmem.engine import Child, Launch, Watch

# Signals that are not passed on: those that cannot be caught, that the kernel sends for a process's own faults, and
# that job control sends to a background process that touches the terminal.
_OWN = {
    signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL,
    signal.SIGSYS, signal.SIGTRAP, signal.SIGPIPE, signal.SIGTTIN, signal.SIGTTOU, signal.SIGXCPU, signal.SIGXFSZ,
}  # fmt: skip
_FORWARDED: FrozenSet[int] = frozenset(int(number) for number in signal.valid_signals()) - {int(n) for n in _OWN}


def run_to_end(
    launch: Launch, look: Callable[[], None] = lambda: None, on_start: Callable[[Child], None] = lambda _: None
) -> Child:
    """Runs the program to its end. Calls `look` meanwhile, and `on_start` once, while signals are blocked."""
    passer = _Passer()

    def tick() -> None:
        passer.stop_with_program()
        look()

    with Watch(_FORWARDED, passer.pass_on, tick) as watch:
        passer.child = watch.start(launch)
        on_start(passer.child)
        watch.until(lambda: passer.child is not None and passer.child.ended is not None)
    assert passer.child is not None
    return passer.child


class _Passer:
    """Passes signals to the program, and its stops to the parent of this tool."""

    def __init__(self) -> None:
        self.child: Optional[Child] = None

    def pass_on(self, heard: signal.struct_siginfo) -> None:
        """Passes a signal on, unless the program has it already: the terminal signals the whole process group."""
        if self.child is None or _is_from_kernel(heard) or heard.si_pid == self.child.pid:
            return
        self.child.signal(heard.si_signo)

    def stop_with_program(self) -> None:
        """Stops this tool when job control stops the program, so that a shell sees it. The launcher continues both."""
        if self.child is None:
            return
        self.child.read_report()
        if self.child.stopped_by is not None and self.child.ended is None:
            os.kill(os.getpid(), signal.SIGSTOP)
            self.child.stopped_by = None


def _is_from_kernel(heard: signal.struct_siginfo) -> bool:
    """Whether the kernel sent the signal: its si_code is above zero, a process's is zero or below."""
    return heard.si_code > 0
