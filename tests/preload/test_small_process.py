"""A small program has little of the library resident: its instruments' code and data lie apart (hakmem-order.ld.in)."""

from __future__ import annotations

import re
import statistics
import subprocess
from pathlib import Path
from typing import Callable, Dict, List, Optional, Set

import pytest

pytestmark = pytest.mark.usefixtures("hakmem_only")
Program = Callable[[str], Path]
REPOSITORY = Path(__file__).resolve().parents[2]
NAMES = REPOSITORY / "src/override/first_functions.txt"
RUNS = 9
PAIRS = 20_000
# The kernel makes such a step of a file resident at once. The first code lies in one step, or over the end of one.
STEP_KIB = 64
# Above glibc's malloc: 244 and 264 measured, 444 and 480 without the order. The program's own calls and the addresses
# decide which steps of the C library are resident.
EXCESS_KIB = 340
# Pages of the library that a small program writes to. After PAIRS: 28 measured, 44 without the arrays' order
# (hakmem-order.ld.in); one page more is another linker's.
WRITTEN_KIB = {0: 28, PAIRS: 32}


class Smaps:
    """Sums of /proc/PID/smaps, in KiB."""

    def __init__(self, text: str, library: Optional[Path]) -> None:
        self.resident = sum(map(int, re.findall(r"^Rss: +(\d+)", text, re.M)))
        self.code = self.written = 0
        self.is_aligned = False
        mappings = re.findall(r"^([0-9a-f]+-[0-9a-f]+ \S+) \S+ \S+ \S+ *(.*)\n((?:\w+: .*\n)+)", text, re.M)
        own = [library is not None and Path(name.strip()) == library for _, name, _ in mappings]
        for index, (rights, _, figures) in enumerate(mappings):
            # A mapping without a name behind the library's is its .bss, until the next mapping with a name.
            if own[index] and rights.endswith("xp"):
                self.code += figure(figures, "Rss")
                self.is_aligned = int(rights.split("-")[0], 16) % (STEP_KIB << 10) == 0
            elif own[index] or self.is_bss(mappings, own, index):
                self.written += figure(figures, "Anonymous")

    @staticmethod
    def is_bss(mappings: List[tuple], own: List[bool], index: int) -> bool:
        return index > 0 and own[index - 1] and not mappings[index][1].strip()


def figure(text: str, name: str) -> int:
    found = re.search(rf"^{name}: +(\d+)", text, re.M)
    assert found, text
    return int(found[1])


def run(program: Path, library: Optional[Path], *arguments: object) -> Smaps:
    environment: Dict[str, str] = {"LD_PRELOAD": str(library)} if library else {}
    done = subprocess.run([program, *map(str, arguments)], env=environment, capture_output=True, text=True, check=True)
    return Smaps(done.stdout, library)


@pytest.mark.parametrize("pairs", [0, PAIRS])
def test_a_small_program_is_not_much_larger_than_on_glibc(program: Program, library: Path, pairs: int) -> None:
    small, library = program("small_process"), library.resolve()
    ours = [run(small, library, pairs) for _ in range(RUNS)]
    theirs = [run(small, None, pairs) for _ in range(RUNS)]
    excess = statistics.median(run.resident for run in ours) - statistics.median(run.resident for run in theirs)
    assert excess <= EXCESS_KIB
    for process in ours:
        require_steps(process, 1)
    assert 0 < statistics.median(run.written for run in ours) <= WRITTEN_KIB[pairs]


def require_steps(process: Smaps, most: int) -> None:
    assert 0 < process.code <= (most if process.is_aligned else most + 1) * STEP_KIB, (
        f"a function is not in {NAMES.name}"
    )


@pytest.mark.parametrize("use, steps", [("few", 1), ("many", 2)])
def test_a_small_program_with_blocks_of_several_sizes_runs_few_steps(
    program: Program, library: Path, use: str, steps: int
) -> None:
    require_steps(run(program("small_process"), library.resolve(), PAIRS, use), steps)


# The first code of the hardened library is longer than a step.
@pytest.mark.parametrize("name, steps", [("libhakmem-fast.so", 1), ("libhakmem-secure.so", 2)])
def test_a_small_program_runs_little_code_of_each_variant(
    program: Program, library: Path, name: str, steps: int
) -> None:
    variant = library.with_name(name)
    if not variant.exists():
        pytest.skip(f"{name} is not built")
    require_steps(run(program("small_process"), variant.resolve(), PAIRS), steps)


def entries() -> List[str]:
    lines = [line for line in NAMES.read_text().splitlines() if not line.startswith("#")]
    return [entry for line in lines for entry in line.split()]


def first_names() -> List[str]:
    return [re.sub(r"^(?:\w+:|(?:unlikely|startup|exit)\.)", "", entry) for entry in entries()]


def test_each_file_of_a_first_function_has_it() -> None:
    for entry in entries():
        file, colon, name = entry.partition(":")
        sources = list((REPOSITORY / "src").rglob(f"{file}.c")) if colon else []
        assert len(sources) == len(colon), f"{NAMES.name}: {entry}"
        for source in sources:
            definition = rf"^(?:static|HK_\w+|__attribute__).*\b{name}\("
            assert re.search(definition, source.read_text(), re.M), f"{NAMES.name}: {entry}"


def test_each_first_function_exists() -> None:
    sources = [path for folder in ("src", "include") for path in (REPOSITORY / folder).rglob("*") if path.is_file()]
    words = {word for path in sources if path != NAMES for word in re.findall(r"\w+", path.read_text())}
    missing = [name for name in first_names() if name not in words]
    assert not missing, f"{NAMES.name} names functions that are gone: {missing}"


def functions(library: Path, section: str) -> List[Set[str]]:
    """The functions of a section, each by the names of its address, without the compilers' endings."""
    table = subprocess.run(["objdump", "-t", library], capture_output=True, text=True, check=True).stdout
    names: Dict[str, Set[str]] = {}
    for address, name in re.findall(rf"^(\S+) .{{6}}F {re.escape(section)}\s+\S+ +(?:\.hidden )?(\S+)$", table, re.M):
        names.setdefault(address, set()).add(name.split(".")[0])
    return list(names.values())


def test_the_first_code_has_the_listed_functions_alone(library: Path) -> None:
    first = functions(library, ".text.first")
    if not functions(library, ".text"):
        pytest.skip("the library has no symbols")
    if not first:
        pytest.skip("the library was linked without an order")
    listed = set(first_names())
    runtime = {
        "deregister_tm_clones",
        "register_tm_clones",
        "frame_dummy",
        "hk_syscall_raw",
        "pthread_atfork",
        "syscall",
    }
    others = [names for names in first if not names & (listed | runtime) and not any(map(is_reserved, names))]
    assert not others
    # Most names are there: a compiler that inlines others has few of its own.
    found = set().union(*first)
    assert len(found & listed) >= 0.8 * len(listed)
    assert {"malloc", "free", "hk_refill"} <= found and "hk_unwind" not in found


def test_no_other_file_s_function_comes_with_one_of_a_named_file(library: Path) -> None:
    first = functions(library, ".text.first")
    if not first:
        pytest.skip("the library was linked without an order, or has no symbols")
    for name in {entry.partition(":")[2] for entry in entries() if ":" in entry}:
        assert sum(name in names for names in first) <= first_names().count(name), f"{NAMES.name}: {name}"


def is_reserved(name: str) -> bool:
    """Of the compiler's runtime."""
    return name.startswith("__")
