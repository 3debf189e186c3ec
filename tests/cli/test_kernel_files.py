"""Files of /proc and /sys, read below a root that a test makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hakmem.kernel_files import KernelFiles


def write(root: Path, path: str, text: str) -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize(
    "text, number", [("65530\n", 65530), ("0", 0), ("max\n", None), ("-1", None), ("", None), ("12 13", None)]
)
def test_numbers(tmp_path: Path, text: str, number: int | None) -> None:
    write(tmp_path, "/proc/n", text)
    assert KernelFiles(str(tmp_path)).number("/proc/n") == number


@pytest.mark.parametrize("text, word", [("always [madvise] never\n", "madvise"), ("always", None), ("", None)])
def test_choices(tmp_path: Path, text: str, word: str | None) -> None:
    write(tmp_path, "/sys/c", text)
    assert KernelFiles(str(tmp_path)).chosen("/sys/c") == word


def test_what_is_not_there(tmp_path: Path) -> None:
    files = KernelFiles(str(tmp_path))
    assert files.text("/proc/x") is None and files.number("/proc/x") is None and files.chosen("/proc/x") is None
    assert files.fields("/proc/x") == {} and files.mounts() == []


def test_fields(tmp_path: Path) -> None:
    write(tmp_path, "/proc/status", "Name:\tcat\nno field\nSigBlk:\t00\n")
    assert KernelFiles(str(tmp_path)).fields("/proc/status") == {"Name": "cat", "SigBlk": "00"}


def test_mounts(tmp_path: Path) -> None:
    text = "36 35 98:0 /part /mnt/a\\040b rw,noexec master:1 - ext3 /dev/root rw,errors=continue\nbroken line\n1 - x\n"
    write(tmp_path, "/proc/self/mountinfo", text)
    (mount,) = KernelFiles(str(tmp_path)).mounts()
    assert (mount.shown, mount.where, mount.kind) == ("/part", "/mnt/a b", "ext3")
    assert mount.options == ["rw", "noexec"] and mount.kind_options == ["rw", "errors=continue"]


def test_the_machines_own() -> None:
    assert KernelFiles().fields("/proc/self/status")["Name"]
