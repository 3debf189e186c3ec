"""The parts of symbolizing, each alone: range lists, symbol tables, readable names."""

from __future__ import annotations

from typing import Dict

import pytest
from cli_support import Compile
from hakmem.profile.demangle import demangle_all
from hakmem.profile.dwarf_ranges import Ranges
from hakmem.profile.module import ElfModule
from profile_support import compiler


def test_range_lists() -> None:
    """Both forms, with a base that changes on the way, and without what the linker threw away."""

    def numbers(*values: int) -> bytes:
        return b"".join(value.to_bytes(8, "little") for value in values)

    old = numbers(0x10, 0x20, (1 << 64) - 1, 0x9000, 1, 2, 0, 0, 0x77, 0x78)
    table = numbers(0, 0x4000, 0x4100)
    new = b"".join([
        b"\x04\x10\x20", b"\x05", numbers(0x8000), b"\x04\x01\x82\x01", b"\x01\x01", b"\x04\x01\x02", b"\x02\x01\x02",
        b"\x03\x02\x08", b"\x06", numbers(0x50, 0x60), b"\x07", numbers(0x70), b"\x05", b"\x07", numbers(0), b"\x05",
        b"\0",
    ])  # fmt: skip
    ranges = Ranges(old, new, table, 8)
    at = [ranges.address(8 * index) for index in range(3)]
    assert list(ranges.read(4, "DW_FORM_sec_offset", 0, 0, 0x100, at.__getitem__)) == [(0x110, 0x120), (0x9001, 0x9002)]
    assert list(ranges.read(5, "DW_FORM_sec_offset", 0, 0, 0x100, at.__getitem__)) == [
        (0x110, 0x120), (0x8001, 0x8082), (0x4001, 0x4002), (0x4000, 0x4100), (0x4100, 0x4108), (0x50, 0x60),
        (0x70, 0x75),
    ]  # fmt: skip
    with pytest.raises(IndexError):
        list(Ranges(b"", b"\x06\1\2", b"", 8).read(5, "DW_FORM_sec_offset", 0, 0, 0, at.__getitem__))


def test_what_lies_behind_the_last_symbol_has_no_name(compile_c: Compile) -> None:
    module = ElfModule(str(compile_c("plain", "int main(void) { return 0; }")))
    table = module.symbols()
    fini = module.elf.get_section_by_name(".fini")
    if fini is None:
        pytest.skip("no .fini")
    end = fini["sh_addr"] + fini["sh_size"]
    assert table.find(end - 1) == "_fini" and table.find(end) is None
    module.close()


MANGLED: Dict[str, str] = {
    "_ZN3FooC4Ev": "Foo::Foo()",
    "_ZNSt6vectorIiSaIiEE9push_backEOi.part.0": "std::vector<int, std::allocator<int> >::push_back(int&&)",
    "_RNvCs1234_7mycrate3foo": "mycrate::foo",
    "_ZN4core3fmt3num50_$LT$impl$u20$core..fmt..Debug$u20$for$u20$u32$GT$3fmt17h5ba3bb4e8a1c2f2dE": (
        "core::fmt::num::<impl core::fmt::Debug for u32>::fmt"
    ),
    "main": "main",
    "_Zbroken": "_Zbroken",
    "": "",
}


@pytest.mark.parametrize("hidden", [False, True], ids=["c++filt", "without"])
def test_demangling(monkeypatch: pytest.MonkeyPatch, hidden: bool) -> None:
    """With binutils and without."""
    if hidden:
        pytest.importorskip("rust_demangler")
        monkeypatch.setenv("PATH", "/nonexistent")
    else:
        compiler("c++filt")
    assert demangle_all(MANGLED) == MANGLED
