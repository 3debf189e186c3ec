"""The heap profile's probes for tracers, as they stand in the library's notes and as a debugger reaches them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Callable, Dict, List

import pytest
from preload_runner import Runner
from profile_sums import CLI, allocated

assert CLI.is_dir()  # it is on the path from here
from elftools.elf.elffile import ELFFile  # noqa: E402
from hakmem.profile.read import read  # noqa: E402

pytestmark = [pytest.mark.usefixtures("hakmem_only"), pytest.mark.usefixtures("checks_only")]
Program = Callable[[str], Path]


def probes(library: Path) -> Dict[str, Dict[str, int]]:
    """Location, base, semaphore and section of the base, by the probe's name, as pyelftools reads the notes."""
    found: Dict[str, Dict[str, int]] = {}
    with library.open("rb") as file:
        elf = ELFFile(file)
        base = elf.get_section_by_name(".stapsdt.base")
        semaphores = elf.get_section_by_name(".probes")
        for note in elf.get_section_by_name(".note.stapsdt").iter_notes():
            data = note["n_descdata"] if "n_descdata" in note else note["n_desc"]
            data = data if isinstance(data, bytes) else data.encode("latin-1")
            numbers = [int.from_bytes(data[i : i + 8], "little") for i in (0, 8, 16)]
            provider, name, arguments = data[24:].split(b"\0")[:3]
            assert note["n_name"] == "stapsdt" and provider == b"otel_memory"
            assert note["n_type"] in (3, "NT_GNU_BUILD_ID"), "3; pyelftools knows that number of another owner"
            assert numbers[1] == base["sh_addr"]
            assert semaphores["sh_addr"] <= numbers[2] < semaphores["sh_addr"] + semaphores["sh_size"]
            found[name.decode()] = {"at": numbers[0], "semaphore": numbers[2], "arguments": len(arguments.split())}
    return found


def test_the_probes_notes(runner: Runner) -> None:
    """otel_memory:alloc has three arguments, otel_memory:free one."""
    found = probes(runner.library)
    assert {name: probe["arguments"] for name, probe in found.items()} == {"alloc": 3, "free": 1}
    assert len({probe["semaphore"] for probe in found.values()}) == 2


def hits(runner: Runner, program: Path, folder: Path, semaphores: List[int], places: List[int], says: str) -> str:
    """What gdb says that was started at main, has set these semaphores, and stops at these places of the library."""
    gdb = shutil.which("gdb")
    if gdb is None:
        pytest.skip("gdb is not installed")
    script = folder / "script.py"
    script.write_text(f"""
import gdb
maps = open(f"/proc/{{gdb.selected_inferior().pid}}/maps")
base = next(int(line.split("-")[0], 16) for line in maps if "libhakmem" in line)
for semaphore in {semaphores}:
    gdb.selected_inferior().write_memory(base + semaphore, b"\\1\\0")
class Place(gdb.Breakpoint):
    def stop(self):
        {says}
        return False
for place in {places}:
    Place(f"*{{base + place}}")
""")
    words = [gdb, "-nx", "-batch", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off"]
    variables = [f"LD_PRELOAD={runner.library}", "HAKMEM_PROFILE=1", "HAKMEM_PROFILE_RATE=262144"]
    for variable in [*variables, f"HAKMEM_PROFILE_FILE={folder}/of_gdb.pb.gz"]:
        words += ["-iex", f"set environment {variable.replace('=', ' ', 1)}"]
    words += ["-iex", "set startup-with-shell off"]
    for command in ("break main", "run churn", f"source {script}", "continue"):
        words += ["-ex", command]
    done = subprocess.run([*words, str(program)], capture_output=True, text=True, timeout=300, check=False)
    said = done.stdout + done.stderr
    if re.search(r"ptrace: Operation not permitted|Cannot trace|Couldn't get registers", said):
        pytest.skip("gdb may not trace a process here")
    assert "exited normally" in said, said
    return said


def test_the_probes_are_reached_when_somebody_traces(runner: Runner, program: Program, tmp_path: Path) -> None:
    """With the semaphores set each sampled block is told of, with what it stands for; without, nothing is reached."""
    found = probes(runner.library)
    if os.uname().machine != "x86_64":
        pytest.skip("the arguments' registers are those of x86-64")
    semaphores, places = [probe["semaphore"] for probe in found.values()], [probe["at"] for probe in found.values()]
    says = (
        "r = gdb.selected_frame().read_register; "
        "print('probe', int(self.location.rsplit('*')[-1]) - base, int(r('rdi')), int(r('rsi')), int(r('rdx')))"
    )
    said = hits(runner, program("profile_sites"), tmp_path, semaphores, places, says)
    told = [tuple(int(word) for word in line.split()[1:]) for line in said.splitlines() if line.startswith("probe ")]
    allocs = [one[1:] for one in told if one[0] == found["alloc"]["at"] and one[2] == 1000]
    frees = {one[1] for one in told if one[0] == found["free"]["at"]}
    assert len(allocs) > 300 and {pointer for pointer, _, _ in allocs} <= frees
    profile = read(str(tmp_path / "of_gdb.pb.gz"))
    assert abs(sum(weight for _, _, weight in allocs) - allocated(profile)["site_churn"]) <= len(allocs)
    (tmp_path / "of_gdb.pb.gz").unlink()
    assert "probe " not in hits(runner, program("profile_sites"), tmp_path, [], places, says)
