"""The same work in every environment a program may find itself in: the result is glibc's, and so is the memory.

One program (environment.c) allocates in every band of sizes, in one thread and in four, and verifies all contents. Each
row of the table below puts it into an environment, once under glibc and once under the library. The checksums are the
same, and the peak of resident memory (ru_maxrss of the program itself) is at most MOST_MEMORY times glibc's, unless the
row states another figure and its reason. Most of what can go wrong in one of these environments has a test of its own,
which verifies more than this table: the row names it. HAKMEM_TEST_SCALE=1 runs the full numbers of threads.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Optional

import pytest
from conftest import HERE, compile_program
from preload_runner import Runner
from test_limits import joining, memory_cgroup
from under_allocator import environment

MIB = 1024 * 1024
MOST_MEMORY = 1.2
GLIBC_USABLE_BYTES = 104  # of a block of 100
NOBODY = 65534


@dataclass(frozen=True)
class Row:
    """An environment: the program's change of itself, and the command that starts it."""

    name: str
    setting: str = "nothing"
    count: int = 0
    scales: bool = False  # `count` follows HAKMEM_TEST_SCALE
    live_mib: int = 16
    start: tuple[str, ...] = ()  # before the program's own words
    variables: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    is_for_root: bool = False
    also: str = ""  # the test that asks more
    most_memory: float = MOST_MEMORY
    why: str = ""  # for another figure than MOST_MEMORY


def hidden(*folders: str) -> tuple[str, ...]:
    """Empty folders in the place of these, in a mount namespace of its own."""
    mounts = "; ".join(f"mount -t tmpfs none {folder}" for folder in folders)
    return ("unshare", "-m", "sh", "-c", f'set -e; {mounts}; exec "$0" "$@"')


NESTED = ("unshare", "--user", "--map-root-user", "--pid", "--fork") * 2
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")

ROWS = [
    Row("as it is"),
    Row("no variables", start=("env", "-i", "LD_PRELOAD={preload}")),
    Row("bound at the start", variables={"LD_BIND_NOW": "1"}, also="test_start_and_exit"),
    Row("no proc", start=hidden("/proc"), needs=("unshare",), is_for_root=True, also="test_rights"),
    Row("no sys", start=hidden("/sys"), needs=("unshare",), is_for_root=True),
    Row("no proc, no sys", start=hidden("/proc", "/sys"), needs=("unshare",), is_for_root=True),
    Row("chroot of its own", "leave_root", is_for_root=True, also="test_rights"),
    Row("started in a chroot", start=("chroot", "{root}"), needs=("chroot", "ldd"), is_for_root=True),
    Row("nested user and pid namespaces", start=NESTED, needs=("unshare",), also="test_pid_namespace"),
    Row("no descriptor may be made", "limit_descriptors", 0, also="test_attach"),
    Row("three descriptors at the most", "limit_descriptors", 3, also="test_attach"),
    Row("started without descriptors", start=("sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-'),
        variables={"HAKMEM_STATS": "1"}, also="test_start_and_exit"),
    Row("a stack of 256 KiB", start=("sh", "-c", 'ulimit -s 256; exec "$0" "$@"'), also="test_small_stack_exit"),
    Row("no random addresses", start=("setarch", "-R"), needs=("setarch",)),
    Row("addresses from below", start=("setarch", "-L"), needs=("setarch",)),
    Row("readable memory is executable", start=("setarch", "-X"), needs=("setarch",)),
    Row("all descriptors closed", "close_all", also="test_attach, test_trace"),
    Row("all descriptors closed, files being written", "close_all", variables={"HAKMEM_STATS_FILE": "{folder}/stats.%p",
        "HAKMEM_STATS_INTERVAL": "1", "HAKMEM_TRACE": "{folder}/trace.%p"}),
    Row("descriptors used again", "reuse_descriptors", variables={"HAKMEM_STATS_FILE": "{folder}/stats.%p",
        "HAKMEM_STATS_INTERVAL": "1", "HAKMEM_TRACE": "{folder}/trace.%p"}, also="test_attach"),
    Row("an auditor", variables={"LD_AUDIT": "{shims}/audit.so"}, also="test_start_and_exit"),
    Row("dlmopen", "other_namespace", variables={"ENVIRONMENT_MODULE": "{shims}/environment_module.so"},
        also="test_deepbind"),
    Row("memory locked", "lock_memory", is_for_root=True),
    Row("threads cancelled at any instruction", "cancel_threads", 200, also="test_signals::test_cancelled_threads"),
    Row("SIGPROF each millisecond", "profile_signals", also="test_signals::test_signals"),
    Row("handlers on a stack of their own", "signals_on_own_stack", 20, also="test_crash_report"),
    Row("vfork", "vfork", 20, also="test_fork::test_children_that_share_the_memory"),
    Row("posix_spawn", "spawn", 20, also="test_fork::test_spawn"),
    Row("clone", "clone", 20, also="test_fork::test_fork_from_many_threads"),
    Row("fork beside threads", "fork", 40, also="test_fork"),
    Row("coroutines of 4 KiB", "coroutines", 200, variables={"LD_BIND_NOW": "1"}, also="test_stack_use"),
    Row("50,000 short threads", "many_short_threads", 50000, scales=True, also="test_thread_ends"),
    Row("3,000 living threads", "many_living_threads", 3000, scales=True, most_memory=2.0,
        why="threads that are awake at once have a heap each, with a record of 6.8 KiB and pages for their blocks, "
        "where glibc's threads share 16 arenas; heaps of threads that sleep serve the others"),
]  # fmt: skip

CONTROL_GROUPS = [64, 128, 256]


@dataclass(frozen=True)
class Result:
    """The record that the program writes at its end."""

    checksum: int
    peak_kib: int
    is_glibc: bool


class Environments:
    """Starts the program under glibc and under the library."""

    def __init__(self, library: Path, program: Path, folder: Path, shims: Path) -> None:
        self.library, self.program, self.folder, self.shims = library, program, folder, shims

    def run(
        self, row: Row, preload: Optional[str], count: int, program: Optional[Path] = None, group: Optional[Path] = None
    ) -> Result:
        program = program or self.program
        outside = inside = self.folder / "result"
        root = Path("/")
        if "{root}" in row.start:
            root = self.root_with(program)
            outside, inside = root / "result", Path("/result")
        outside.write_bytes(bytes(4096))
        outside.chmod(0o666)
        names = {"preload": preload or "", "root": root, "folder": self.folder, "shims": self.shims}
        variables = environment(None, {name: value.format(**names) for name, value in row.variables.items()})
        if preload:
            variables["LD_PRELOAD"] = preload
        start = [word.format(**names) for word in row.start]
        command = [*start, program, row.setting, inside, row.live_mib, count]
        if group is not None:
            command = list(joining(group, command))
        # A shell that forks: the peak of a program begins with that of the process that forked it.
        command = ["sh", "-c", '"$@"; exit $?', "sh", *command]
        done = subprocess.run(
            [str(word) for word in command], env=variables, capture_output=True, timeout=900, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), (done.returncode, done.stderr.decode())
        is_done, checksum, peak_kib, usable_bytes = struct.unpack("=QQQQ", outside.read_bytes()[:32])
        assert is_done == 1
        return Result(checksum, peak_kib, usable_bytes == GLIBC_USABLE_BYTES)

    def root_with(self, program: Path) -> Path:
        """A root that has the program, the libraries that it needs, and nothing else."""
        root = self.folder / "root"
        if root.exists():
            return root
        listing = subprocess.run(["ldd", program, self.library], capture_output=True, text=True, check=True).stdout
        files = {word for line in listing.splitlines() for word in line.split() if word.startswith("/")}
        for file in {*(name.rstrip(":") for name in files), str(program), str(self.library)}:
            target = root / file.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
        return root

    def compare(
        self, row: Row, count: int, pair: Callable[[], tuple[Result, Result]], record: Callable[[str, object], None]
    ) -> None:
        """Peaks differ a little from run to run: after one too high two more pairs run, and the median counts."""
        pairs = [pair()]
        if ratio(pairs[0]) > row.most_memory:
            pairs += [pair(), pair()]
        for without, with_it in pairs:
            assert with_it.checksum == without.checksum
            assert (without.is_glibc, with_it.is_glibc) == (True, False)
        middle = sorted(pairs, key=ratio)[len(pairs) // 2]
        figures = f"{middle[1].peak_kib} KiB, glibc {middle[0].peak_kib}, {ratio(middle):.2f} times"
        record("row", row.name)  # tools/environment_table.py makes a table of these
        record("glibc_kib", middle[0].peak_kib)
        record("hakmem_kib", middle[1].peak_kib)
        record("also", row.also)
        record("reason", row.why)
        assert ratio(middle) <= row.most_memory, figures


def ratio(pair: tuple[Result, Result]) -> float:
    return pair[1].peak_kib / pair[0].peak_kib


@pytest.fixture
def environments(runner: Runner, program: Callable[[str], Path], shim: Callable[[str], Path]) -> Iterator[Environments]:
    """In a folder that other users may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="hakmem-environment-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        shims = {shim(name).parent for name in ("audit", "environment_module")}.pop()
        yield Environments(runner.library, program("environment"), folder, shims)


def leave_out_unless_possible(row: Row) -> None:
    missing = [name for name in row.needs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    if row.is_for_root and os.geteuid() != 0:
        pytest.skip("only root can make it")
    if row.start[:1] == ("unshare",) and subprocess.run([*row.start, "true"], capture_output=True).returncode != 0:
        pytest.skip("this user may make no such namespace")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name.replace(" ", "_").replace(",", ""))
def test_environment(
    environments: Environments, row: Row, scaled: Callable[[int], int], record_property: Callable[[str, object], None]
) -> None:
    leave_out_unless_possible(row)
    count = max(row.count // 10, scaled(row.count)) if row.scales else row.count

    def pair() -> tuple[Result, Result]:
        return environments.run(row, None, count), environments.run(row, str(environments.library), count)

    environments.compare(row, count, pair, record_property)


@pytest.mark.parametrize("limit_mib", CONTROL_GROUPS)
def test_control_group(
    environments: Environments, limit_mib: int, record_property: Callable[[str, object], None]
) -> None:
    """Live is 0.6 of what the kernel permits; test_limits has the groups that are tighter."""
    row = Row(f"control group of {limit_mib} MiB", live_mib=limit_mib * 6 // 10)

    def pair() -> tuple[Result, Result]:
        with memory_cgroup(limit_mib * MIB) as group:
            without = environments.run(row, None, 0, group=group)
        with memory_cgroup(limit_mib * MIB) as group:
            return without, environments.run(row, str(environments.library), 0, group=group)

    environments.compare(row, 0, pair, record_property)


def test_two_copies(environments: Environments, record_property: Callable[[str, object], None]) -> None:
    """Under another name it is another library to ld.so: the first one serves, and the second has nothing to do."""
    row = Row("two copies of the library")
    copy = environments.folder / "libcopy.so"
    shutil.copyfile(environments.library, copy)

    def pair() -> tuple[Result, Result]:
        return environments.run(row, None, 0), environments.run(row, f"{environments.library} {copy}", 0)

    environments.compare(row, 0, pair, record_property)


def test_linked_and_preloaded(
    environments: Environments, linked: Callable[..., Path], record_property: Callable[[str, object], None]
) -> None:
    """The program's own copy serves it, whatever is preloaded."""
    ours = linked("environment.c", "-rdynamic")
    row = Row("linked with the archive, and preloaded")

    def pair() -> tuple[Result, Result]:
        return environments.run(row, None, 0), environments.run(row, str(environments.library), 0, ours)

    environments.compare(row, 0, pair, record_property)


@pytest.mark.parametrize("flag", ["-static-pie", "-static"])
def test_linked_statically(
    environments: Environments, linked: Callable[..., Path], flag: str, record_property: Callable[[str, object], None]
) -> None:
    """The checksum of a program without ld.so."""
    ours = linked("environment.c", flag, "-Wl,--no-warnings")
    plain = environments.folder / "plain"
    compile_program("cc", [HERE / "environment.c"], plain, [flag, "-pthread", "-Wl,--no-warnings"])
    row = Row(f"linked with {flag}")

    def pair() -> tuple[Result, Result]:
        return environments.run(row, None, 0, plain), environments.run(row, None, 0, ours)

    environments.compare(row, 0, pair, record_property)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can raise a program's rights")
@pytest.mark.parametrize("how", ["setuid", "file capabilities"])
def test_raised_rights(
    environments: Environments, linked: Callable[..., Path], how: str, record_property: Callable[[str, object], None]
) -> None:
    """ld.so drops a preload there: a program that is linked with the archive, started by another user. See also
    test_start_and_exit::test_options_are_ignored_with_raised_rights."""
    missing = [name for name in ("setpriv", *(("setcap",) if how != "setuid" else ())) if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    row = Row(how, start=AS_NOBODY)
    plain, ours = environments.folder / "plain", environments.folder / "ours"
    compile_program("cc", [HERE / "environment.c"], plain, ["-pthread"])
    shutil.copyfile(linked("environment.c"), ours)
    for file in (plain, ours):
        file.chmod(0o4755 if how == "setuid" else 0o755)
        if how != "setuid":
            subprocess.run(["setcap", "cap_net_bind_service+ep", file], check=True)

    def pair() -> tuple[Result, Result]:
        return environments.run(row, None, 0, plain), environments.run(row, None, 0, ours)

    environments.compare(row, 0, pair, record_property)
