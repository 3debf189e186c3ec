"""`hakmem describe` in a real gdb: in a process it calls the library, in a core file it reads the descriptors."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Callable

import pytest
from conftest import REPOSITORY
from preload_runner import Runner

COMMANDS = REPOSITORY / "tools" / "gdb" / "hakmem_gdb.py"
GDB = shutil.which("gdb")

pytestmark = [
    pytest.mark.usefixtures("hakmem_only"),
    pytest.mark.skipif(GDB is None, reason="gdb is not installed"),
]


def gdb(*words: object) -> str:
    """What a batch of gdb's prints."""
    command = [GDB, "-nx", "-batch", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off"]
    done = subprocess.run(
        [*command, *(str(word) for word in words)], capture_output=True, text=True, timeout=300, check=False
    )
    said = done.stdout + done.stderr
    if re.search(r"ptrace: Operation not permitted|Couldn't get registers|Cannot trace", said):
        pytest.skip("gdb may not trace a process here")
    return said


def commands(*texts: str) -> list[str]:
    return [word for text in texts for word in ("-ex", text)]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A file of gdb commands that describes all addresses."""
    folder = tmp_path_factory.mktemp("gdb")

    def write(how: str) -> Path:
        path = folder / f"describe{how}.gdb"
        path.write_text(
            f"source {COMMANDS}\npython\n"
            "for i in range(int(gdb.parse_and_eval('address_count'))):\n"
            f"  text = gdb.execute(f'hakmem describe {how} addresses[{{i}}]', to_string=True)\n"
            "  print('address: ' + text.strip())\nend\n",
            encoding="utf-8",
        )
        return path

    return write


def started(library: Path, told: Path) -> list[str]:
    """The commands that run the program up to where it stops itself."""
    return commands("set startup-with-shell off", f"set environment LD_PRELOAD {library}", f"set args {told}", "run")


def of_program(told: Path, said: str) -> list[str]:
    """What the program said of each address."""
    assert told.is_file(), said
    lines = told.read_text(encoding="utf-8").splitlines()
    assert len(lines) > 40 and all(re.match("0x[0-9a-f]+ is ", line) for line in lines), (lines, said)
    return lines


def of_gdb(said: str) -> list[str]:
    return re.findall(r"^address: (.*)$", said, re.MULTILINE)


def without_thread(lines: list[str]) -> list[str]:
    """Which thread has a heap cannot be read."""
    return [re.sub("of this thread|of another live thread", "of a live thread", line) for line in lines]


@pytest.fixture
def calls(program: Callable[[str], Path], tmp_path: Path) -> None:
    """gdb 13 can call nothing on processors with more state than it knows; then it reads, as in the next test."""
    started_alone = commands("set startup-with-shell off", f"set args {tmp_path / 'alone'}", "break main", "run")
    said = gdb(*started_alone, *commands("print ((int (*)(void))getpid)()"), program("describe_addresses"))
    if "Couldn't write extended state status" in said:
        pytest.skip("gdb may call no function in a process here: Couldn't write extended state status")


@pytest.mark.usefixtures("calls")
def test_a_process_is_asked(
    runner: Runner, program: Callable[[str], Path], script: Callable[[str], Path], tmp_path: Path
) -> None:
    said = gdb(*started(runner.library, tmp_path / "told"), "-x", script(""), program("describe_addresses"))
    told = of_program(tmp_path / "told", said)
    assert of_gdb(said) == told
    kinds = ["live block", "free block", "that was never handed out", "in free memory", "whose thread has ended",
             "(large)"]  # fmt: skip
    is_hardened = "-secure" in runner.library.name
    kinds += ["live block of 0 bytes", "free block of 0 bytes"] if is_hardened else ["run of"]
    for kind in kinds:
        assert any(kind in line for line in told), kind


@pytest.mark.usefixtures("checks_only")
def test_reading_says_the_same(
    runner: Runner, program: Callable[[str], Path], script: Callable[[str], Path], tmp_path: Path
) -> None:
    said = gdb(*started(runner.library, tmp_path / "told"), "-x", script("--read"), program("describe_addresses"))
    assert of_gdb(said) == without_thread(of_program(tmp_path / "told", said))


@pytest.mark.usefixtures("checks_only")
def test_a_core_file_of_a_stripped_library_is_read(
    runner: Runner, program: Callable[[str], Path], script: Callable[[str], Path], tmp_path: Path
) -> None:
    library = tmp_path / "libhakmem.so"
    subprocess.run(["strip", "-o", library, runner.library], check=True)
    core = tmp_path / "core"
    saving = commands(f"generate-core-file {core}")
    said = gdb(*started(library, tmp_path / "told"), *saving, program("describe_addresses"))
    told = of_program(tmp_path / "told", said)
    read = gdb(program("describe_addresses"), core, "-x", script(""))
    assert of_gdb(read) == without_thread(told), read


def test_what_it_cannot_do_it_says(program: Callable[[str], Path]) -> None:
    load = commands(f"source {COMMANDS}")
    assert "hakmem describe: of which address?" in gdb(*load, *commands("hakmem describe"))
    said = gdb("-batch", program("describe_addresses"), *load, *commands("hakmem describe --read 0x1234"))
    assert "no hakmem in this program" in said
    assert "which block, in use or free, and whose" in gdb(*load, *commands("help hakmem describe"))
