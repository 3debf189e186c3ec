"""One measured run of a program under one allocator, and the order of many."""

from __future__ import annotations

import os
import random
import signal
import stat
import tempfile
import time
from dataclasses import dataclass, field
from typing import IO, Any, Callable, List, Optional, Sequence

from hakmem.engine import Child, Launch, Outcome, Watch
from hakmem.errors import STOPPING_SIGNALS, Failure, Interrupted, cannot_read
from hakmem.memory import Sample
from hakmem.metrics import CPU, MAJOR, MEAN, MINOR, PEAK, PEAK_TREE, WALL, Figures
from hakmem.preload_plan import Prepared
from hakmem.program import Program

_TAIL_BYTES = 2000
_TAIL_LINES = 6
_MOST_OUTPUT_BYTES = 1 << 20


@dataclass(frozen=True)
class Task:
    """The task that is run again and again."""

    program: Program
    stdin: Optional[str] = None
    timeout: Optional[float] = None
    shared_once: bool = False
    show_output: bool = False
    keep_output: bool = False


@dataclass
class Run:
    """One run: its figures, or the reason why it has none."""

    allocator: str
    round: int
    figures: Figures = field(default_factory=dict)
    exit_code: Optional[int] = None
    failure: Optional[str] = None
    detail: str = ""
    mapped: Optional[bool] = None
    peak_of_all: Optional[int] = None  # of all processes, also where there was one
    samples: List[Sample] = field(default_factory=list)
    output: str = ""


def stop(heard: signal.struct_siginfo) -> None:
    """A watch's answer to STOPPING_SIGNALS."""
    raise Interrupted(heard.si_signo)


def orders(names: Sequence[str], rounds: int, seed: int, first: Optional[str] = None) -> List[List[str]]:
    """The order of runs: every round all allocators, shuffled by the seed. `first` opens the first round."""
    generator = random.Random(seed)
    plan: List[List[str]] = []
    for _ in range(rounds):
        order = list(names)
        generator.shuffle(order)
        plan.append(order)
    if first is not None and plan:
        plan[0].sort(key=lambda name: name != first)
    return plan


def run_program(task: Task, prepared: Prepared, number: int, on_tick: Callable[[], None]) -> Run:
    """The program, from its start to its end."""
    run = Run(prepared.allocator.name, number)
    with Streams(task) as streams, Watch(STOPPING_SIGNALS, stop, on_tick) as watch:
        child = watch.start(streams.launch(task.program, prepared))
        deadline = time.monotonic() + task.timeout if task.timeout else None
        if not watch.until(lambda: child.ended is not None, deadline):
            child.kill_all()
            watch.until(lambda: child.ended is not None)
            run.failure = f"timed out after {task.timeout:g} s"
        ended = child.ended
        assert ended is not None
        _note_end(run, child, ended)
        run.figures = {**figures_of(child, ended, 0.0, ended.wall_seconds), WALL.key: ended.wall_seconds}
        run.output = streams.output()
        if run.failure is not None or ended.exit_code != 0:
            run.detail = streams.tail()
    return run


def _note_end(run: Run, child: Child, ended: Outcome) -> None:
    if run.failure is None:
        run.exit_code = ended.exit_code
        if ended.signal is not None:
            run.failure = ended.describe()
    if child.sampler is not None:
        run.mapped = child.sampler.mapped
        run.samples = child.sampler.samples
        run.peak_of_all = child.sampler.peak_together(ended.peak_bytes)


def figures_of(child: Child, ended: Outcome, begin: float, end: float) -> Figures:
    """The kernel's counts, and the mean over a window of the samples."""
    sampler = child.sampler
    tree = sampler.peak_together(ended.peak_bytes) if sampler and sampler.most_processes > 1 else None
    return {
        CPU.key: ended.user_seconds + ended.system_seconds,
        PEAK.key: float(ended.peak_bytes),
        PEAK_TREE.key: float(tree) if tree is not None else None,
        MEAN.key: sampler.mean(begin, end) if sampler else None,
        MINOR.key: float(ended.minor_faults),
        MAJOR.key: float(ended.major_faults),
    }


def compare_exit(run: Run, expected: Optional[int]) -> None:
    """A run that ended otherwise than the base's did has failed."""
    if run.failure is None and expected is not None and run.exit_code != expected:
        run.failure = f"exit code {run.exit_code}, not {expected} as under the base"


def _scratch() -> IO[Any]:
    """A file without a name: in memory where no folder for temporary files can be written to."""
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return os.fdopen(os.memfd_create("hakmem"), "w+b")


class Streams:
    """The standard streams of a measured program: no input or a file, no output, the end of stderr kept."""

    def __init__(self, task: Task, merge_output: bool = False) -> None:
        self._task = task
        self._errors: IO[Any] = _scratch()
        self._output: Optional[IO[Any]] = _scratch() if task.keep_output else None
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._input = self._open_input()
        self._merge_output = merge_output

    def _open_input(self) -> int:
        if self._task.stdin is None:
            return self._null
        try:
            mode = os.stat(self._task.stdin).st_mode
            if stat.S_ISDIR(mode):
                raise Failure(f"cannot read {self._task.stdin}: it is a directory")
            if stat.S_ISFIFO(mode):
                raise Failure(
                    f"{self._task.stdin} is a pipe: only the first run could read it, and each needs all of it"
                )
            return os.open(self._task.stdin, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            if self._task.stdin == "-":
                raise Failure(
                    "cannot read -: --stdin takes a file, which each run reads from its start, not the tool's own input"
                ) from None
            raise cannot_read(self._task.stdin, error) from None

    def launch(self, program: Program, prepared: Prepared, sample: bool = True) -> Launch:
        """How to start a program with these streams."""
        stdout, stderr = self._null, self._errors.fileno()
        if self._task.show_output:
            stdout = stderr = 2
        elif self._output is not None:
            stdout = self._output.fileno()
        elif self._merge_output:
            stdout = stderr
        return Launch(
            program=program,
            environment=prepared.environment,
            stdin=self._input,
            stdout=stdout,
            stderr=stderr,
            own_group=True,
            sample=sample,
            library=prepared.allocator.library,
            shared_once=self._task.shared_once,
        )

    def output(self) -> str:
        """The output, if it is kept."""
        if self._output is None:
            return ""
        self._output.seek(0)
        return str(self._output.read(_MOST_OUTPUT_BYTES).decode(errors="replace"))

    def tail(self) -> str:
        """The end of its stderr."""
        size = os.fstat(self._errors.fileno()).st_size
        self._errors.seek(max(0, size - _TAIL_BYTES))
        lines = self._errors.read(_TAIL_BYTES).decode(errors="replace").splitlines()
        return "\n".join(lines[-_TAIL_LINES:])

    def __enter__(self) -> Streams:
        return self

    def __exit__(self, *_: object) -> None:
        self._errors.close()
        if self._output is not None:
            self._output.close()
        if self._input != self._null:
            os.close(self._input)
        os.close(self._null)
