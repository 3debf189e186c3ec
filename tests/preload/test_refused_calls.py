"""Refuses each system call of the library, at each occurrence, by each error that the kernel may give for it: once, and
from then on until the refusals end. `refuse_nth` refuses, `syscall_faults` is the program.

HAKMEM_TEST_SCALE says how many refusals are tried: a sample that is spread over calls, occurrences and errors, or all.
"""

from __future__ import annotations

import errno
import itertools
import random
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

import pytest
from preload_runner import SKIPPED
from under_allocator import environment

pytestmark = pytest.mark.usefixtures("hakmem_only")

Program = Callable[[str], Path]
Report = Callable[[str, object], None]

STEPS = 120
# Refusals that are tried of each course at scale 1.
SAMPLE = 40
# Of a kind of call with more occurrences than this only a sample is tried.
MOST_TURNS = 400

# What a filter answers that refuses and does not kill, and the kernel's own answers. An interrupted call is made again.
FILTER = ("EPERM", "ENOSYS")
FILES = (*FILTER, "EACCES", "ENOENT", "EMFILE", "ENFILE", "ENOMEM", "EINTR")
TRANSFER = ("EIO", "EINTR", "EAGAIN", "EBADF", "ENOSPC", "EPERM")
SOCKET = (*FILTER, "EACCES", "EMFILE", "ENFILE", "ENOBUFS", "ENOMEM", "EBADF")
THREAD = (*FILTER, "EAGAIN", "ENOMEM")
ERRORS: dict[str, tuple[str, ...]] = {
    "mmap": ("ENOMEM", "EAGAIN", "EPERM", "EACCES", "EEXIST", "ENOSYS"),
    "munmap": ("ENOMEM", "EINVAL", "EPERM", "ENOSYS"),
    "mremap": ("ENOMEM", "EAGAIN", "EFAULT", "EINVAL", "EPERM", "ENOSYS"),
    "mprotect": ("ENOMEM", "EACCES", "EPERM", "ENOSYS"),
    "madvise": ("ENOMEM", "EAGAIN", "EINVAL", "EBUSY", "EFAULT", "EIO", "EPERM", "ENOSYS"),
    "mincore": ("ENOMEM", "EAGAIN", "EFAULT", *FILTER),
    "futex": (*FILTER, "EAGAIN", "EINTR", "ETIMEDOUT"),
    "clone": THREAD,
    "clone3": THREAD,
    "openat": FILES,
    "newfstatat": FILES,
    "statx": FILES,
    "faccessat": FILES,
    "unlinkat": (*FILES, "EBUSY", "EROFS"),
    "renameat2": (*FILES, "EXDEV", "EROFS", "EINVAL"),
    "fchmod": (*FILTER, "EROFS", "EIO"),
    "read": TRANSFER,
    "pread64": TRANSFER,
    "write": (*TRANSFER, "EFBIG", "EPIPE", "EDQUOT"),
    "pwritev": (*TRANSFER, "EFBIG"),
    "close": ("EIO", "EINTR", "EBADF"),
    "socket": SOCKET,
    "bind": (*SOCKET, "EADDRINUSE"),
    "listen": (*SOCKET, "EADDRINUSE"),
    "accept4": (*SOCKET, "EAGAIN", "EINTR", "ECONNABORTED"),
    "getsockname": SOCKET,
    "getsockopt": SOCKET,
    "sendto": (*SOCKET, "EPIPE", "ECONNRESET", "EAGAIN", "EINTR"),
    "recvfrom": (*SOCKET, "ECONNRESET", "EAGAIN", "EINTR"),
    "shutdown": (*SOCKET, "ENOTCONN"),
    "ppoll": (*FILTER, "EINTR", "ENOMEM"),
    "process_vm_readv": (*FILTER, "ENOMEM", "EFAULT", "ESRCH"),
    "prlimit64": (*FILTER, "ESRCH"),
    "fcntl": (*FILTER, "EMFILE", "EBADF"),
    "getdents64": (*FILTER, "ENOENT", "EIO"),
    "sched_getaffinity": (*FILTER, "EINVAL"),
    "sched_setscheduler": (*FILTER, "EINVAL"),
}
# The end of a thread. A call with a detail may be one too (can_be_refused of refuse_nth.c).
NEVER_REFUSED = ("exit", "exit_group")


@dataclass(frozen=True)
class Course:
    """What runs while calls are refused."""

    name: str
    threads: int
    options: dict[str, str]
    is_served: bool = False
    steps: int = STEPS


FILE = "HAKMEM_STATS_FILE"
PROFILE = "HAKMEM_PROFILE_FILE"
COURSES = [
    Course("alone", 0, {}),
    Course("threads", 3, {}),
    Course(
        *("lean", 2),
        {"HAKMEM_MODE": "lean", "HAKMEM_PURGE": "free", "HAKMEM_RETAIN": "0", "HAKMEM_MEMORY_LIMIT": "64M"},
    ),
    Course("huge", 1, {"HAKMEM_HUGE_PAGES": "always", "HAKMEM_SPARE_SLABS": "0", "HAKMEM_PURGE_THREAD": "off"}),
    Course("profile", 2, {"HAKMEM_PROFILE": "1", "HAKMEM_PROFILE_RATE": "1500", PROFILE: "%p.pb.gz", FILE: "%p.json"}),
    Course("served", 1, {"HAKMEM_STATS_SIGNAL": "usr2", FILE: "%p.json"}, is_served=True, steps=STEPS // 2),
    Course("renewed", 2, {"HAKMEM_STATS_INTERVAL": "1", FILE: "%p.prom"}),
]  # fmt: skip


@dataclass(frozen=True)
class Wish:
    """One refusal: the NTH call of a kind, which `detail` tells from others of its name."""

    call: str
    detail: int
    nth: int
    how: str
    error: str

    def line(self) -> str:
        number = getattr(errno, self.error) if self.error else 0
        return f"{self.call} {self.detail} {self.nth} {self.how} {number}\n"


@dataclass
class Answer:
    code: int
    hits: int
    text: str
    counts: dict[tuple[str, int], int]
    process: int


NOTHING = Wish("none", 0, 0, "once", "")
ALL_OF_THEM = [Wish("any", 0, nth, "lasting", error) for error in FILTER for nth in (1, 30, 200)]
# A serving thread needs the process's number, from getpid or gettid.
AFTER_THE_START = [wish for wish in ALL_OF_THEM if wish.nth > 100]
# The library's messages when it cannot follow an option.
EXCUSE = re.compile(r"hakmem: (warning: |no report: )[^\n]*\n")


class Supervisor:
    """refuse_nth, at work on one course."""

    def __init__(self, library: Path, program: Program, course: Course, folder: Path) -> None:
        self.course = course
        self.folder = folder
        options = {"HAKMEM_SANDBOX": "off", **course.options}
        for name in (FILE, PROFILE):
            if name in options:
                options[name] = str(folder / options[name])
        words = [program("refuse_nth"), library.resolve(), program("syscall_faults"), 1, course.steps, course.threads]
        self.process = subprocess.Popen(
            [*map(str, words), "served" if course.is_served else "alone"],
            env=environment(None, options), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def run(self, wish: Wish) -> Answer:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(wish.line().encode())
        self.process.stdin.flush()
        code, hits, text_bytes, kinds, process = map(int, self.process.stdout.readline().split())
        text = self.process.stdout.read(text_bytes).decode(errors="replace")
        counts = {}
        for _ in range(kinds):
            call, detail, count = self.process.stdout.readline().decode().split()
            counts[call, int(detail)] = int(count)
        return Answer(code, hits, text, counts, process)

    def files(self, answer: Answer) -> dict[str, int]:
        """Removes the files that the run has left; returns their lengths by kind."""
        lengths = {}
        for path in self.folder.glob(f"{answer.process}.*"):
            lengths[path.name.partition(".")[2]] = path.stat().st_size
            path.unlink()
        return lengths

    def end(self) -> None:
        self.process.communicate()


@pytest.fixture
def supervisor(library: Path, program: Program, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Supervisor]:
    supervisor = Supervisor(library, program, request.param, tmp_path)
    yield supervisor
    supervisor.end()


def problem_of(supervisor: Supervisor, wish: Wish, answer: Answer) -> Optional[str]:
    """Says why a run failed; None when all is well."""
    files = supervisor.files(answer)
    said = EXCUSE.sub("", answer.text)
    if answer.code != 0 or said:
        return f"{wish}: {answer.code}, {said or answer.text}"
    for option in (FILE, PROFILE):
        pattern = supervisor.course.options.get(option)
        # One that was found hopeless at the start is not written, which is said as far as `write` is permitted.
        if pattern is None or wish.how == "once" or wish.call in ("any", "write") or "hakmem: " in answer.text:
            continue
        if files.get(pattern.partition(".")[2], 0) == 0:
            return f"{wish}: no file of {option} though nothing was refused at the end"
    return None


def all_wishes(counts: dict[tuple[str, int], int]) -> list[list[Wish]]:
    """All refusals of a course, a list a kind of call."""
    kinds = []
    for (call, detail), count in sorted(counts.items()):
        if call in NEVER_REFUSED or (call in ("futex", "rt_sigprocmask") and detail != 0):
            continue
        turns = range(1, count + 1, max(1, -(-count // MOST_TURNS)))
        kinds.append([
            Wish(call, detail, nth, how, error)
            for nth, how, error in itertools.product(turns, ("once", "lasting"), ERRORS.get(call, FILTER))
        ])  # fmt: skip
    return kinds


def sample(kinds: list[list[Wish]], count: int) -> list[Wish]:
    """Draws as many of each kind, or all of a kind that has fewer."""
    chosen: list[Wish] = []
    draw = random.Random(count)
    for place, kind in enumerate(sorted(kinds, key=len)):
        share = -(-(count - len(chosen)) // (len(kinds) - place))
        chosen += draw.sample(kind, min(max(share, 1), len(kind)))
    return chosen


@pytest.mark.parametrize("supervisor", COURSES, ids=lambda course: course.name, indirect=True)
def test_refused_calls(supervisor: Supervisor, scaled: Callable[[int], int], record_property: Report) -> None:
    """No crash, no hang, errno right, contents right; and once the refusals end all works again."""
    record = supervisor.run(NOTHING)
    if record.code == SKIPPED:
        pytest.skip("this kernel or container has no seccomp filter that a supervisor answers")
    assert (record.code, record.text) == (0, "")
    all_of_them = AFTER_THE_START if supervisor.course.is_served else ALL_OF_THEM
    wishes = [*all_of_them, *sample(all_wishes(record.counts), scaled(SAMPLE))]
    refused: Counter[str] = Counter()
    hit, problems = 0, []
    for wish in wishes:
        answer = supervisor.run(wish)
        hit += answer.hits > 0
        refused[wish.call] += answer.hits
        problem = problem_of(supervisor, wish, answer)
        if problem is not None:
            problems.append(problem)
    calls = f"{sum(refused.values())} calls refused: {dict(refused)}"
    summary = f"{supervisor.course.name}: {len(wishes)} refusals tried, {hit} met, {calls}"
    record_property("refusals", summary)
    print(summary)
    assert not problems, "\n".join([f"{len(problems)} of {len(wishes)}", *problems])
