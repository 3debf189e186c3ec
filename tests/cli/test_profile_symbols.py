"""Symbolizing: the names of real programs' addresses, and the notes where there are none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Callable, List, Tuple

import elftools
import pytest
from hakmem.profile.debug_files import Search
from hakmem.profile.model import Frame, Profile
from hakmem.profile.read import parse
from hakmem.profile.symbolize import Symbolizer
from profile_support import PRINT_STACK, Message, build, compiler, profile_of, run

C = (
    PRINT_STACK
    + r"""
#define AFTER __asm__ volatile("")
__attribute__((noinline)) static void sampled(void) { print_stack((void **)__builtin_frame_address(0)); AFTER; }
static inline __attribute__((always_inline)) void append(void) {
  sampled(); /* the append line */
  AFTER;
}
static inline __attribute__((always_inline)) void grow(void) {
  append(); /* the grow line */
  AFTER;
}
__attribute__((noinline)) void load(void) {
  grow(); /* the load line */
  AFTER;
}
int main(void) {
  load(); /* the main line */
  return 0;
}
"""
)
FRAMES = ("-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls")
Flags = Tuple[str, ...]


def line_of(source: str, text: str) -> int:
    return next(number for number, line in enumerate(source.splitlines(), 1) if text in line)


def symbolized(data: bytes, *folders: Path) -> Tuple[Profile, List[str]]:
    profile = parse(data, "p")
    with Symbolizer(Search(debug_folders=[str(one) for one in folders], time_nanos=profile.began_nanos)) as symbolizer:
        symbolizer.symbolize(profile)
    return profile, list(symbolizer.notes.values())


def frames(profile: Profile) -> List[Frame]:
    return [frame for location in profile.samples[0].locations for frame in location.frames]


def names(profile: Profile) -> List[str]:
    return [frame.function for frame in frames(profile)]


Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """The C program, by these flags."""

    def one(*flags: str, name: str = "program.c") -> Path:
        return build(tmp_path, name, C, [compiler("cc"), *FRAMES, *flags])

    return one


@pytest.mark.parametrize("flags", [("-pie", "-fPIE"), ("-no-pie",), ("-gdwarf-4",), ("-gdwarf-5", "-gz")], ids=" ".join)
def test_inlined_functions_in_order(make: Make, flags: Flags) -> None:
    program = make("-g", *flags)
    profile, _ = symbolized(profile_of(program))
    assert names(profile)[:4] == ["append", "grow", "load", "main"]
    for frame in frames(profile)[:4]:
        assert Path(frame.file) == program.parent / "program.c"
        assert frame.line == line_of(C, f"the {frame.function} line")
    mapping = profile.samples[0].locations[0].mapping
    assert mapping is not None and mapping.has_functions and mapping.has_lines and mapping.has_inlined


def test_clang(tmp_path: Path) -> None:
    """It writes neither .debug_aranges nor where entries end, and its ranges and addresses by index."""
    if elftools.__version__ == "0.29":  # the distribution's, where there is no package index
        pytest.skip("that pyelftools does not know all of its DWARF 5")
    program = build(tmp_path, "program.c", C, [compiler("clang"), *FRAMES, "-g", "-gdwarf-5"])
    profile, _ = symbolized(profile_of(program))
    assert [(one.function, one.line) for one in frames(profile)[:4]] == [
        (name, line_of(C, f"the {name} line")) for name in ("append", "grow", "load", "main")
    ]


def test_a_unit_behind_another(make: Make, tmp_path: Path) -> None:
    """What refers to places in a unit counts from its own begin."""
    (tmp_path / "first.c").write_text("struct pair { int a, b; }; int first(struct pair *p) { return p->a + p->b; }\n")
    profile, notes = symbolized(profile_of(make("-g", str(tmp_path / "first.c"))))
    assert names(profile)[:4] == ["append", "grow", "load", "main"]
    assert not any("program" in note for note in notes)


CPLUSPLUS = (
    PRINT_STACK
    + r"""
#include <vector>
namespace shop {
template <class T> struct Basket {
  __attribute__((noinline)) void add(const std::vector<T> &) {
    print_stack((void **)__builtin_frame_address(0));
    __asm__ volatile("");
  }
  inline __attribute__((always_inline)) Basket(int) { add({}); __asm__ volatile(""); }
};
namespace { __attribute__((noinline)) void fill(unsigned long) { Basket<int> one(1); __asm__ volatile(""); } }
}
int main() { shop::fill(3); __asm__ volatile(""); }
"""
)


def test_cplusplus(tmp_path: Path) -> None:
    """A template, a constructor that was inlined, and a function that has no name for other files."""
    words = [compiler("c++"), *FRAMES]
    profile, _ = symbolized(profile_of(build(tmp_path, "with.cc", CPLUSPLUS, [*words, "-g"])))
    assert names(profile)[:3] == [
        "shop::Basket<int>::Basket(int)",
        "shop::(anonymous namespace)::fill(unsigned long)",
        "main",
    ]
    assert frames(profile)[0].system_name.startswith("_ZN4shop6Basket")
    profile, _ = symbolized(profile_of(build(tmp_path, "without.cc", CPLUSPLUS, words)))
    assert names(profile)[:2] == ["shop::(anonymous namespace)::fill(unsigned long)", "main"]


RUST = r"""
use std::arch::asm;
mod shop {
    pub struct Basket<T>(pub T);
    impl<T: Copy> Basket<T> {
        #[inline(always)] pub fn add(&self) { crate::sampled(); unsafe { core::arch::asm!("") } }
        #[inline(never)] pub fn fill<F: Fn() -> u8>(&self, f: F) { self.add(); std::hint::black_box(f()); }
    }
}
#[inline(never)] fn sampled() {
    let mut frame: *const usize; unsafe { asm!("mov {}, rbp", out(reg) frame) }
    for _ in 0..4 { unsafe { print!("{:#x} ", *frame.add(1)); frame = *frame as *const usize } }
    println!(); print!("{}", std::fs::read_to_string("/proc/self/maps").unwrap());
}
fn main() { shop::Basket(3u16).fill(|| 7); unsafe { asm!("") } }
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program reads rbp")
def test_rust(tmp_path: Path) -> None:
    words = [compiler("rustc"), "--edition", "2021", "-O", "-g", "-C", "force-frame-pointers=yes"]
    profile, _ = symbolized(profile_of(build(tmp_path, "basket.rs", RUST, words)))
    found = names(profile)
    # With the compiler's version the name of the impl changes, <shop::Basket<u16>>::add or shop::Basket<T>::add.
    assert re.search(r"\bshop::Basket<\w+>+::add$", found[0]), found
    assert re.search(r"\bshop::Basket<\w+>+::fill\b", found[1]), found
    assert re.search(r"^basket::main$", found[2]), found
    assert frames(profile)[0].line == line_of(RUST, "pub fn add")
    assert not any("_R" in name or "_ZN" in name for name in found[:3])


def test_no_debug_information(make: Make) -> None:
    profile, notes = symbolized(profile_of(make()))
    assert names(profile)[:2] == ["load", "main"]
    assert frames(profile)[0].file == "" and frames(profile)[0].line == 0
    assert not any("program" in note for note in notes)


def test_stripped(make: Make) -> None:
    """Exported functions have their names; the others have their place in the file, not the nearest name."""
    program = make("-s", "-rdynamic")
    profile, _ = symbolized(profile_of(program))
    assert names(profile)[:2] == ["load", "main"]
    program = make("-s", "-fvisibility=hidden", name="bare.c")
    _stack, _maps = run(program)
    profile, notes = symbolized(profile_of(program))
    assert all(re.fullmatch(r"bare\+0x[0-9a-f]+", name) for name in names(profile)[:2])
    assert any("no debug information" in note and "bare" in note for note in notes)
    # The offset in the file, the same in every run.
    assert names(symbolized(profile_of(program))[0])[:2] == names(profile)[:2]


def debug_file(program: Path, target: Path) -> None:
    objcopy = compiler("objcopy")
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([objcopy, "--only-keep-debug", str(program), str(target)], check=True)
    subprocess.run([objcopy, "--strip-all", str(program)], check=True)


def build_id(data: bytes) -> str:
    return next(one.build_id for one in parse(data, "p").mappings if one.path.endswith("/program"))


@pytest.mark.parametrize("flags", [("-pie", "-fPIE"), ("-no-pie",)], ids=" ".join)
def test_a_separate_debug_file_by_build_id(make: Make, tmp_path: Path, flags: Flags) -> None:
    """Also when the program itself is no longer there."""
    program = make("-g", "-Wl,--build-id", *flags)
    data = profile_of(program)
    known = build_id(data)
    folder = tmp_path / "debug"
    debug_file(program, folder / ".build-id" / known[:2] / f"{known[2:]}.debug")
    profile, notes = symbolized(data, folder)
    assert names(profile)[:4] == ["append", "grow", "load", "main"]
    assert not any("program" in note for note in notes)
    program.unlink()
    profile, notes = symbolized(data, folder)
    assert names(profile)[:4] == ["append", "grow", "load", "main"]
    # One of another build is none.
    other = make("-g", "-O2", "-Wl,--build-id", *flags, name="other.c")
    shutil.copy(other, folder / ".build-id" / known[:2] / f"{known[2:]}.debug")
    profile, notes = symbolized(data, folder)
    assert names(profile)[0].startswith("program+0x")


def test_a_separate_debug_file_by_its_link(make: Make, tmp_path: Path) -> None:
    """It is believed when its checksum is the one that the program has."""
    program = make("-g", "-Wl,--build-id=none")
    debug = tmp_path / ".debug" / "program.debug"
    debug_file(program, debug)
    subprocess.run([compiler("objcopy"), f"--add-gnu-debuglink={debug}", str(program)], check=True)
    assert names(symbolized(profile_of(program))[0])[:3] == ["append", "grow", "load"]
    with open(debug, "ab") as file:
        file.write(b"\0")
    assert names(symbolized(profile_of(program))[0])[0].startswith("program+0x")


def test_a_module_that_is_gone(make: Make) -> None:
    program = make("-g")
    data = profile_of(program)
    program.unlink()
    profile, notes = symbolized(data)
    assert names(profile)[0].startswith("program+0x")
    assert [note for note in notes if "program" in note] == [
        f"{program}: the file is no longer there; 2 addresses in it without a name"
    ]


def test_a_module_that_was_replaced(make: Make) -> None:
    program = make("-g", "-Wl,--build-id")
    data = profile_of(program)
    program.write_bytes(make("-g", "-O2", "-Wl,--build-id", name="other.c").read_bytes())
    profile, notes = symbolized(data)
    assert names(profile)[0].startswith("program+0x")
    assert any("has been replaced since: its build ID was " + build_id(data)[:12] in note for note in notes)


def test_a_module_without_build_id(make: Make) -> None:
    """Its time tells."""
    program = make("-g", "-Wl,--build-id=none")
    modified = program.stat().st_mtime_ns
    assert names(symbolized(profile_of(program, time_nanos=modified + 1))[0])[0] == "append"
    for times in ({"time_nanos": modified - 1}, {"time_nanos": modified + 5, "duration_nanos": 6}):
        profile, notes = symbolized(profile_of(program, **times))
        assert names(profile)[0].startswith("program+0x")
        assert any("newer than the profile" in note for note in notes)


def section_place(program: Path, name: str) -> Tuple[int, int]:
    from elftools.elf.elffile import ELFFile

    with open(program, "rb") as file:
        section = ELFFile(file).get_section_by_name(name)
        return section["sh_offset"], section["sh_size"]


@pytest.mark.parametrize(
    "section", [".debug_info", ".debug_abbrev", ".debug_line", ".debug_aranges", ".symtab", ".strtab"]
)
def test_damaged_debug_information(make: Make, section: str) -> None:
    """Never more than a worse name."""
    program = make("-g", "-Wl,--build-id")
    data = profile_of(program)
    offset, size = section_place(program, section)
    content = bytearray(program.read_bytes())
    content[offset : offset + size] = b"\xff" * size
    program.write_bytes(content)
    profile, notes = symbolized(data)
    assert len(names(profile)) >= 2 and all(names(profile))
    if section in (".debug_info", ".debug_abbrev", ".debug_line"):
        assert names(profile)[:2] == ["load", "main"] or names(profile)[:4] == ["append", "grow", "load", "main"]
        assert any("cannot be read" in note for note in notes), notes


def test_a_file_that_is_cut_off(make: Make) -> None:
    program = make("-g")
    data = profile_of(program)
    for share in (0.0, 0.01, 0.5, 0.9):
        content = program.read_bytes()
        program.write_bytes(content[: int(len(content) * share)])
        profile, _notes = symbolized(data)
        assert all(names(profile))
        assert names(profile)[0].startswith("program+0x") or names(profile)[0] in ("append", "load")
        program.write_bytes(content)


def test_addresses_that_belong_to_no_file() -> None:
    message = Message()
    message.mapping(0x7000, 0x9000, 0, "[vdso]", "")
    message.mapping(0x10000, 0x20000, 0, "//anon", "")
    message.sample([0x7123, 0x10040, 0x99999], (1, 1, 1, 1))
    profile, notes = symbolized(message.data())
    assert names(profile) == ["[vdso]+0x123", "anon+0x40", "0x99999"]
    assert notes == []


def test_two_thousand_addresses_read_each_unit_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes a big program bearable: not a unit an address."""
    from hakmem.profile import dwarf

    program = make("-g")
    stack, maps = run(program)
    message = Message()
    message.maps(maps)
    for address in range(stack[0] - 1000, stack[0] + 1000):
        message.sample([address], (1, 1, 1, 1))
    read: List[int] = []
    table = dwarf.LineTable

    def counted(info: object, unit: object) -> dwarf.LineTable:
        read.append(unit.cu_offset)  # type: ignore[attr-defined]
        return table(info, unit)

    monkeypatch.setattr(dwarf, "LineTable", counted)
    symbolized(message.data())
    assert read and len(read) == len(set(read))
