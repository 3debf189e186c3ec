"""`hakmem doctor`: every finding about the machine, on machines that are made up."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Iterable, List

import pytest
from fake_machine import GROUP, THP, FakeMachine
from hakmem.doctor import control_group, huge_page_checks, memory_checks, system_checks
from hakmem.doctor.finding import Finding, Level, ok, worst

MIB = 1 << 20


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path / "machine")


def examine(machine: FakeMachine, **environment: str) -> List[Finding]:
    return [
        *system_checks.check(machine.files, environment),
        *memory_checks.check(machine.files),
        *huge_page_checks.check(machine.files),
    ]


def remarkable(findings: Iterable[Finding]) -> List[Finding]:
    """All but OKs; each of them is complete."""
    found = [finding for finding in findings if finding.level is not Level.OK]
    assert all(finding.found and finding.why and finding.todo for finding in found)
    return found


def only(machine: FakeMachine, **environment: str) -> Finding:
    (finding,) = remarkable(examine(machine, **environment))
    return finding


def test_a_machine_without_fault(machine: FakeMachine) -> None:
    findings = examine(machine)
    assert remarkable(findings) == []
    assert len({finding.subject for finding in findings}) == len(findings) >= 11


def test_a_machine_that_tells_nothing(tmp_path: Path) -> None:
    """Nothing is guessed, nothing raised. Without its file there are no huge pages."""
    machine = FakeMachine(tmp_path)
    for file in [*tmp_path.rglob("*")]:
        if file.is_file():
            file.unlink()
    assert only(machine).found == "the kernel has none"


def test_a_machine_without_sys(machine: FakeMachine) -> None:
    """A chroot or a container may lack it: the tool says that it could not look, and claims nothing."""
    shutil.rmtree(machine.root / "sys")
    found = {finding.subject: finding for finding in remarkable(examine(machine))}
    assert found.keys() == {"huge pages", "control group"}
    assert all("not visible here" in finding.found for finding in found.values())
    assert all(finding.level is Level.NOTE for finding in found.values())


@pytest.mark.parametrize("release, level", [("4.4.0-19041-Microsoft", Level.WARNING), ("5.15.0", Level.NOTE)])
def test_an_old_kernel(machine: FakeMachine, release: str, level: Level) -> None:
    machine.write("/proc/sys/kernel/osrelease", release)
    finding = only(machine)
    assert (finding.subject, finding.level) == ("kernel", level)


def test_seccomp(machine: FakeMachine) -> None:
    machine.replace("/proc/self/status", "Seccomp:\t0", "Seccomp:\t2")
    assert only(machine).subject == "seccomp"


def test_no_new_privileges_is_told(machine: FakeMachine) -> None:
    machine.replace("/proc/self/status", "NoNewPrivs:\t0", "NoNewPrivs:\t1")
    assert remarkable(examine(machine)) == []
    assert any(finding.subject == "no_new_privs" for finding in examine(machine))


@pytest.mark.parametrize("mask, word", [("SigBlk:\t", "blocked"), ("SigIgn:\t", "ignored")])
def test_the_attach_signal(machine: FakeMachine, mask: str, word: str) -> None:
    machine.replace("/proc/self/status", f"{mask}00", f"{mask}02")
    finding = only(machine)
    assert finding.subject == "attach signal" and f"58 is {word}" in finding.found
    assert remarkable(examine(machine, HAKMEM_ATTACH_SIGNAL="40")) == []


def test_no_attach_signal(machine: FakeMachine) -> None:
    """By its number or by its name, as the library reads it."""
    for text in ("0", "none"):
        assert only(machine, HAKMEM_ATTACH_SIGNAL=text).found == f"none: HAKMEM_ATTACH_SIGNAL is {text}"


def test_an_attach_signal_with_a_name(machine: FakeMachine) -> None:
    machine.replace("/proc/self/status", "SigBlk:\t0000000000000000", f"SigBlk:\t{1 << 9:016x}")
    assert "10 is blocked" in only(machine, HAKMEM_ATTACH_SIGNAL="usr1").found


@pytest.mark.parametrize("scope, who", [(1, "parent, or root"), (2, "root may"), (3, "nobody")])
def test_ptrace(machine: FakeMachine, scope: int, who: str) -> None:
    machine.write("/proc/sys/kernel/yama/ptrace_scope", f"{scope}\n")
    assert who in only(machine).found


@pytest.mark.parametrize("pages", [16384, 65536])
def test_large_pages(machine: FakeMachine, pages: int) -> None:
    machine.page_bytes(pages)
    assert only(machine).found == f"{pages // 1024} KiB"


def test_few_mappings(machine: FakeMachine) -> None:
    machine.write("/proc/sys/vm/max_map_count", "1000")
    assert (only(machine).subject, only(machine).level) == ("vm.max_map_count", Level.WARNING)


def test_few_mappings_for_much_memory(machine: FakeMachine) -> None:
    machine.replace("/proc/meminfo", "16000000", "160000000")
    assert (only(machine).subject, only(machine).level) == ("vm.max_map_count", Level.NOTE)
    machine.write("/proc/sys/vm/max_map_count", "1048576")
    assert remarkable(examine(machine)) == []


@pytest.mark.parametrize("mode, used, level", [(1, 0, None), (2, 7000000, Level.NOTE), (2, 7900000, Level.WARNING)])
def test_overcommit(machine: FakeMachine, mode: int, used: int, level: Level | None) -> None:
    machine.write("/proc/sys/vm/overcommit_memory", f"{mode}\n")
    machine.replace("/proc/meminfo", "Committed_AS:   7000000", f"Committed_AS:   {used}")
    found = remarkable(examine(machine))
    assert [finding.level for finding in found] == ([level] if level else [])
    assert not found or "are left" in found[0].found


@pytest.mark.parametrize("name, subject", [("Max address space", "ulimit -v"), ("Max data size    ", "ulimit -d")])
@pytest.mark.parametrize("limit, level", [(1 << 30, Level.NOTE), (32 * MIB, Level.WARNING)])
def test_limits_of_the_process(machine: FakeMachine, name: str, subject: str, limit: int, level: Level) -> None:
    machine.replace("/proc/self/limits", f"{name}         unlimited", f"{name}         {limit}")
    assert (only(machine).subject, only(machine).level) == (subject, level)


@pytest.mark.parametrize(
    "limit, use, level",
    [
        ("max", 500 * MIB, None), (f"{1000 * MIB}", 600 * MIB, None), (f"{1000 * MIB}", 700 * MIB, Level.NOTE),
        (f"{1000 * MIB}", 960 * MIB, Level.WARNING), (f"{32 * MIB}", MIB, Level.WARNING), ("0", 0, Level.WARNING),
    ],
)  # fmt: skip
@pytest.mark.parametrize("file", ["memory.max", "memory.high"])
def test_a_control_group(machine: FakeMachine, file: str, limit: str, use: int, level: Level | None) -> None:
    machine.group(limit, use, file)
    assert [finding.level for finding in remarkable(examine(machine))] == ([level] if level else [])


def test_files_that_nobody_uses_do_not_count(machine: FakeMachine) -> None:
    machine.group(f"{1000 * MIB}", 960 * MIB, idle_files=900 * MIB)
    assert remarkable(examine(machine)) == []


def test_the_group_above_counts(machine: FakeMachine) -> None:
    machine.group(f"{1000 * MIB}", 10 * MIB)
    machine.write("/sys/fs/cgroup/a/memory.max", f"{500 * MIB}")
    machine.write("/sys/fs/cgroup/a/memory.current", f"{490 * MIB}")
    assert "/sys/fs/cgroup/a/memory.max" in only(machine).found


def test_version_1(machine: FakeMachine) -> None:
    machine.write("/proc/self/cgroup", "5:cpu:/x\n4:cpuset,memory:/outer/job\n0::/\n")
    mounts = (
        "35 31 0:32 /outer /cg\\040m rw - cgroup cgroup rw,cpuset,memory\n41 31 0:38 / /unified rw - cgroup2 c rw\n"
    )
    machine.write("/proc/self/mountinfo", mounts)
    machine.write("/cg m/job/memory.limit_in_bytes", f"{1000 * MIB}")
    machine.write("/cg m/job/memory.usage_in_bytes", f"{990 * MIB}")
    machine.write("/cg m/job/memory.stat", f"inactive_file {980 * MIB}\ntotal_inactive_file {5 * MIB}\n")
    machine.write("/cg m/memory.limit_in_bytes", "9223372036854771712")
    machine.write("/cg m/memory.usage_in_bytes", "1")
    tightest = control_group.tightest(machine.files)
    assert tightest is not None and (tightest.limit, tightest.use) == (1000 * MIB, 985 * MIB)
    assert only(machine).level is Level.WARNING


def test_a_group_whose_name_begins_with_dots(machine: FakeMachine) -> None:
    machine.group(f"{1000 * MIB}", 10 * MIB)
    machine.write("/proc/self/cgroup", "0::/..box\n")
    machine.write("/sys/fs/cgroup/..box/memory.max", "5000000")
    machine.write("/sys/fs/cgroup/..box/memory.current", "10")
    tightest = control_group.tightest(machine.files)
    assert tightest is not None and tightest.limit == 5_000_000


@pytest.mark.parametrize("name, is_hidden", [("0::/a/b\n", True), ("4:memory:/job\n0::/\n", True), ("0::/\n", False)])
def test_a_group_that_cannot_be_seen(machine: FakeMachine, name: str, is_hidden: bool) -> None:
    machine.write("/proc/self/cgroup", name)
    assert [finding.subject for finding in remarkable(examine(machine))] == (["control group"] if is_hidden else [])


def test_a_mount_that_shows_another_part(machine: FakeMachine) -> None:
    machine.group(f"{32 * MIB}", MIB)
    machine.replace("/proc/self/mountinfo", " / /sys/fs/cgroup", " /other /sys/fs/cgroup")
    assert "are not visible" in only(machine).found
    assert (machine.root / GROUP.lstrip("/")).is_dir()


@pytest.mark.parametrize("text, found", [("always madvise [never]", "never"), ("[always] madvise never", "always")])
def test_huge_pages(machine: FakeMachine, text: str, found: str) -> None:
    machine.write(f"{THP}/enabled", text)
    assert (only(machine).subject, only(machine).found) == ("huge pages", found)


def test_huge_pages_forbidden_to_the_process(machine: FakeMachine) -> None:
    machine.replace("/proc/self/status", "THP_enabled:\t1", "THP_enabled:\t0")
    assert only(machine).found == "forbidden to this process"


def test_defragmentation_in_faults(machine: FakeMachine) -> None:
    machine.write(f"{THP}/defrag", "[always] defer never")
    assert only(machine).subject == "huge pages, defrag"


@pytest.mark.parametrize("file, value", [("pages_to_scan", 0), ("max_ptes_none", 0)])
def test_khugepaged_matters_on_old_kernels(machine: FakeMachine, file: str, value: int) -> None:
    machine.write(f"{THP}/khugepaged/{file}", f"{value}\n")
    assert remarkable(examine(machine)) == []
    machine.write("/proc/sys/kernel/osrelease", "5.15.0")
    assert [finding.subject for finding in remarkable(examine(machine))] == ["kernel", "khugepaged"]


def test_the_worst() -> None:
    note, problem = Finding(Level.NOTE, "a", "b", "c", "d"), Finding(Level.PROBLEM, "a", "b", "c", "d")
    assert worst([]) is Level.OK
    assert worst([ok("a", "b"), note]) is Level.NOTE
    assert worst([problem, note]) is Level.PROBLEM
