"""The small parts: programs and their names, environments, files, allocators, figures as text."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Optional

import pytest
from hakmem import allocators, environment, metrics, paths, settings
from hakmem.errors import Failure
from hakmem.guards import State, expectation, lines
from hakmem.kernel_files import KernelFiles
from hakmem.output import OutputFile, reserve
from hakmem.program import resolve

# ---- Programs.


def executable(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_programs_are_found_in_path(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "one" / "tool").write_text("not executable")
    right = executable(tmp_path / "two" / "tool")
    found = resolve(["tool", "x"], {"PATH": f"{tmp_path}/one:{tmp_path}/two"})
    assert (found.path, found.argv) == (str(right), ("tool", "x"))
    with pytest.raises(Failure) as only_text:
        resolve(["tool"], {"PATH": f"{tmp_path}/one"})
    assert only_text.value.exit_code == 126
    with pytest.raises(Failure) as nothing:
        resolve(["tool"], {"PATH": str(tmp_path)})
    assert nothing.value.exit_code == 127


def test_without_path_the_default_is_searched() -> None:
    assert resolve(["sh"], {}).path in ("/bin/sh", "/usr/bin/sh")


def test_a_text_without_an_interpreter_line(tmp_path: Path) -> None:
    """The shell runs it, and it keeps its name."""
    text = executable(tmp_path / "text", "echo hello\n")
    found = resolve(["text", "x"], {"PATH": str(tmp_path)})
    assert (found.path, found.argv) == ("/bin/sh", ("/bin/sh", str(text), "x"))
    assert found.name == found.named_file == str(text)


def test_an_empty_name_is_not_found() -> None:
    with pytest.raises(Failure) as nothing:
        resolve([""], {})
    assert nothing.value.exit_code == 127


# ---- Environments.


def test_what_steers_allocators_is_left_out() -> None:
    kept, left_out = environment.neutral(
        {
            "MALLOC_ARENA_MAX": "1", "HAKMEM_STATS": "1", "MIMALLOC_VERBOSE": "1", "GLIBC_TUNABLES": "x", "HOME": "/",
            "PYTHONMALLOC": "malloc", "LD_PRELOAD": "/x/libother.so /usr/lib/libjemalloc.so.2",
        }
    )  # fmt: skip
    assert kept == {"HOME": "/", "PYTHONMALLOC": "malloc", "LD_PRELOAD": "/x/libother.so"}
    assert left_out == [
        "GLIBC_TUNABLES",
        "HAKMEM_STATS",
        "MALLOC_ARENA_MAX",
        "MIMALLOC_VERBOSE",
        "LD_PRELOAD (an allocator)",
    ]


@pytest.mark.parametrize("word", ["retain=64M", "RETAIN=64M", "HAKMEM_RETAIN=64M"])
def test_options(word: str) -> None:
    assert environment.options([word]) == {"HAKMEM_RETAIN": "64M"}


@pytest.mark.parametrize("word", ["retain", "=1", "a b=1", "HAKMEM_=1"])
def test_wrong_options(word: str) -> None:
    with pytest.raises(Failure) as wrong:
        environment.options([word])
    assert wrong.value.exit_code == 2


def test_wrong_assignments() -> None:
    assert environment.assignments(["A=b=c"]) == {"A": "b=c"}
    with pytest.raises(Failure):
        environment.assignments(["1A=b"])


# ---- Files.


def test_a_file_appears_whole(tmp_path: Path) -> None:
    target = tmp_path / "file.json"
    file = OutputFile(str(target))
    assert not target.exists()
    file.write("content")
    assert target.read_text() == "content"
    assert [path.name for path in tmp_path.iterdir()] == ["file.json"]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~mask


def test_what_was_not_written_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with pytest.raises(RuntimeError), reserve(str(target), None, str(tmp_path / "other")):
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert target.read_text() == "old"


def test_mode_and_link_of_an_old_file_stay(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    target.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(target)
    OutputFile(str(link)).write("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_devices_are_written_to_and_not_replaced() -> None:
    OutputFile("/dev/null").write("content")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("name", ["/no/such/folder/file", "/proc/file", "."])
def test_what_cannot_be_written_is_refused_early(name: str) -> None:
    with pytest.raises(Failure) as refused:
        OutputFile(name)
    assert refused.value.exit_code == 125


def test_no_permission(tmp_path: Path) -> None:
    if os.getuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o555)
    with pytest.raises(Failure, match="Permission denied"):
        OutputFile(str(tmp_path / "file"))
    tmp_path.chmod(0o755)


# ---- Allocators.


def test_the_linkers_folders_may_have_any_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = b"\tlibpeer.so (libc6,x86-64) => /caf\xe9/libpeer.so\n"
    (tmp_path / "listing").write_bytes(listing)
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda words, **rest: run(["cat", str(tmp_path / "listing")], **rest))
    assert os.fsencode(paths.known_to_linker()["libpeer.so"]) == b"/caf\xe9/libpeer.so"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with nothing in it, on a machine without other allocators."""
    (tmp_path / "build" / "release").mkdir(parents=True)
    (tmp_path / "build" / "peers").mkdir()
    monkeypatch.setattr(paths, "checkout", lambda: tmp_path)
    monkeypatch.setattr(paths, "known_to_linker", dict)
    (tmp_path / "build" / "release" / "libhakmem.so").touch()
    return tmp_path


def list_peers(checkout: Path, entries: object) -> None:
    (checkout / "build" / "peers" / "peers.json").write_text(json.dumps(entries))


def test_peers_are_read(checkout: Path) -> None:
    (checkout / "build" / "peers" / "libpeer.so").touch()
    list_peers(
        checkout,
        [
            {"name": "glibc", "library": None, "version": "2.36", "notes": ""},
            {"name": "peer", "library": "libpeer.so", "version": "1.2", "notes": "fine"},
            {"name": "gone", "library": "/nowhere/lib.so", "version": "1", "notes": ""},
        ],
    )
    found = allocators.present()
    assert list(found) == ["glibc", "hakmem", "peer"]
    assert found["peer"] == allocators.Allocator("peer", str(checkout / "build/peers/libpeer.so"), "1.2", "fine")


@pytest.mark.parametrize("entries", [{"a": 1}, [{"name": "x"}], ["x"], 3])
def test_a_damaged_list_of_peers_is_told(checkout: Path, entries: object) -> None:
    list_peers(checkout, entries)
    with pytest.raises(Failure, match=r"peers\.json"):
        allocators.present()


def test_distributed_allocators_join_unless_they_are_listed(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jemalloc, mimalloc = checkout / "libjemalloc.so.2", checkout / "libmimalloc.so.2"
    jemalloc.touch()
    mimalloc.touch()
    monkeypatch.setattr(paths, "known_to_linker", lambda: {"libjemalloc.so.2": jemalloc, "libmimalloc.so.2": mimalloc})
    list_peers(checkout, [{"name": "jemalloc-debian", "library": str(jemalloc), "version": "5.3", "notes": ""}])
    assert list(allocators.present()) == ["glibc", "hakmem", "jemalloc-debian", "mimalloc"]


def test_choosing(checkout: Path) -> None:
    assert [a.name for a in allocators.choose(None, "glibc")] == ["glibc", "hakmem"]
    assert [a.name for a in allocators.choose("hakmem", "glibc")] == ["glibc", "hakmem"]
    assert [a.name for a in allocators.choose("glibc", "hakmem")] == ["hakmem", "glibc"]
    with pytest.raises(Failure, match=r"unknown allocator 'nope'.*glibc, hakmem") as unknown:
        allocators.choose("nope", "glibc")
    assert unknown.value.exit_code == 2
    with pytest.raises(Failure):
        allocators.choose("glibc", "glibc")
    (checkout / "build" / "release" / "libhakmem.so").unlink()
    with pytest.raises(Failure, match="make lib"):
        allocators.choose(None, "glibc")


# ---- Figures.


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0000015, "2 µs"),
        (0.0123, "12.3 ms"),
        (0.9999, "1.00 s"),
        (1.234, "1.23 s"),
        (123.4, "123 s"),
        (0.0009994, "999 µs"),
        (0.0009996, "1.00 ms"),
        (99.994, "99.99 s"),
        (99.996, "100 s"),
    ],
)
def test_seconds(value: float, text: str) -> None:
    assert metrics.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (512, "512 B"), (1 << 20, "1.00 MiB"), (1.5 * (1 << 30), "1.50 GiB"),
        # Where the figure, rounded, belongs to the next unit, or has a digit more before the point.
        (1023.6, "1 KiB"), ((1 << 20) - 513, "1023 KiB"), ((1 << 20) - 512, "1.00 MiB"), ((1 << 20) - 1, "1.00 MiB"),
        (9.994 * (1 << 20), "9.99 MiB"), (9.996 * (1 << 20), "10.0 MiB"), (1023.94 * (1 << 20), "1023.9 MiB"),
        ((1 << 30) - 1, "1.00 GiB"),
    ],
)  # fmt: skip
def test_sizes(value: float, text: str) -> None:
    assert metrics.size(value) == text


@pytest.mark.parametrize(
    ("rate", "often"), [(1, "1 hit on average, with 99% after 1."), (1000, "1,000 hits on average")]
)
def test_after_how_many_hits_a_guard_finds_a_bug(rate: int, often: str) -> None:
    assert f" is caught after {often}" in expectation(rate)[0]


def test_what_guards_do_is_told_with_thousands_and_singulars() -> None:
    told = lines(State(0, 1000000, 1024, 129, 1100, 4096, 0, 0, 1, 2000, 1), 7, "server")
    assert told[1] == "slots       1,100 in use (4 KiB), 0 protected after their free, of 1,153"
    assert told[2] == "so far      1 allocation guarded, 2,000 without a slot, 1 error found"


def test_settings_name_the_machine_but_not_the_host() -> None:
    found = settings.collect()
    assert found["kernel"] and found["cores"] and "thp" in found
    assert os.uname().nodename not in [str(value) for value in found.values()]
    assert "cores" in settings.one_line(found)


@pytest.mark.parametrize(
    ("text", "processor"),
    [
        ("cpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n", "AMD EPYC family 25 model 17"),
        ("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", "implementer 0x41 part 0xd0c"),
        ("BogoMIPS\t: 50.00\n", None),
        (None, None),
    ],
)
def test_settings_tell_processors_of_one_name_apart(
    tmp_path: Path, text: Optional[str], processor: Optional[str]
) -> None:
    if text is not None:
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/cpuinfo").write_text(text)
    assert settings.processor(KernelFiles(str(tmp_path))) == processor
