"""Runs programs with and without the library preloaded, and compares what they say."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence

from under_allocator import environment, files_of_malloc

DEFAULT_TIMEOUT = 120.0
SKIPPED = 77  # a program of this folder that finds its machine unfit, and says why on stdout


@dataclass(frozen=True)
class Outcome:
    """What can be seen of a program from outside. A negative code is a signal's number, as in subprocess."""

    code: int
    stdout: bytes
    stderr: bytes

    def text(self) -> str:
        """Standard output as text."""
        return self.stdout.decode(errors="replace")

    def errors(self) -> str:
        """Standard error as text."""
        return self.stderr.decode(errors="replace")


class Runner:
    """Runs programs under one library."""

    def __init__(self, library: Path, repeat: int) -> None:
        self.library = library
        self.repeat = repeat

    def plain(self, command: Sequence[object], **how: Any) -> Outcome:
        """Run a program as it is."""
        return _run(command, None, **how)

    def under(self, command: Sequence[object], also: Sequence[Path] = (), first: bool = True, **how: Any) -> Outcome:
        """Runs a program with the library preloaded, `also` behind it, or before it unless the library is `first`."""
        order = [self.library, *also] if first else [*also, self.library]
        return _run(command, " ".join(str(file) for file in order), **how)

    def expect(self, command: Sequence[object], stdout: str, **how: Any) -> None:
        """Under the library the program must end well, print exactly this and nothing on stderr."""
        assert self.under(command, **how) == Outcome(0, stdout.encode(), b"")

    def same(
        self,
        command: Sequence[object],
        prepare: Optional[Callable[[], None]] = None,
        normalise: Callable[[Outcome], object] = lambda outcome: outcome,
        **how: Any,
    ) -> Outcome:
        """Requires the same outcome with the library as without, in each repetition. Returns the outcome."""
        prepare = prepare or (lambda: None)
        prepare()
        without = self.plain(command, **how)
        for turn in range(self.repeat):
            prepare()
            with_it = self.under(command, **how)
            assert normalise(with_it) == normalise(without), f"run {turn + 1} of {self.repeat} differs"
        return without

    def assert_malloc_is_ours(
        self, command: Sequence[object], env: Optional[Mapping[str, str]] = None, cwd: Optional[Path] = None
    ) -> None:
        """In the program and all that it starts, malloc and free must be bound to the library and to nothing else."""
        bound = files_of_malloc([str(word) for word in command], environment(self.library, env), cwd)
        assert bound == {self.library}


def _run(
    command: Sequence[object],
    preload: Optional[str],
    env: Optional[Mapping[str, str]] = None,
    cwd: Optional[Path] = None,
    stdin: bytes = b"",
    timeout: float = DEFAULT_TIMEOUT,
) -> Outcome:
    variables = environment(None, env)
    if preload is not None:
        variables["LD_PRELOAD"] = preload
    done = subprocess.run(
        [str(word) for word in command],
        env=variables, cwd=cwd, input=stdin, capture_output=True, timeout=timeout, check=False,
    )  # fmt: skip
    return Outcome(done.returncode, done.stdout, done.stderr)


def with_limit(flag: str, kib: int, command: Sequence[object]) -> Sequence[object]:
    """The command under `ulimit FLAG KIB`, in force from the program's first instruction."""
    return ["/bin/sh", "-c", f'ulimit {flag} {kib}; exec "$@"', "sh", *command]


def without_times(text: str) -> str:
    """The text without durations such as `0.123s` and `in 4 sec`."""
    return re.sub(r"\d+(\.\d+)?\s?(ms|s|sec|seconds?)\b", "TIME", text)
