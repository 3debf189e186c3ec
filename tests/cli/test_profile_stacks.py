"""A stack of a profile begins where the program calls the allocator, however the allocator came into the program."""

from __future__ import annotations

from typing import List

import pytest
from cli_support import CLI  # noqa: F401 (puts the tool on the path)
from hakmem.profile.model import Frame, Location, Mapping, Sample, names_of


def shown(*names: str, module: str = "program") -> List[str]:
    """The names that are shown of a stack, innermost first."""
    mapping = Mapping(0, 1, 0, f"/lib/{module}")
    return list(names_of(Sample(tuple(Location(i, mapping, [Frame(name)]) for i, name in enumerate(names)), (1,))))


@pytest.mark.parametrize(
    "inside",
    [
        [],
        ["malloc"],
        ["operator new(unsigned long)"],
        # Linked, with and without the frames that tail calls leave out.
        ["alloc_small_slow", "hk_alloc_slow", "malloc"],
        ["alloc_small_slow", "calloc_small"],
        ["alloc_small_slow", "hk_alloc_slow", "move"],
        ["sample_large", "hk_alloc_large", "hakmem_calloc"],
        # Rust: names of debug information, and of the symbol table.
        ["alloc_small_slow", "calloc_small", "alloc_zeroed", "__rust_alloc_zeroed"],
        ["alloc", "__rust_alloc"],
        ["hk_alloc_slow", "<hakmem_alloc::Hakmem as core::alloc::global::GlobalAlloc>::alloc", "__rustc::__rust_alloc"],
    ],
)
def test_the_allocator_is_left_out(inside: List[str]) -> None:
    assert shown(*inside, "caller", "main") == ["caller", "main"]


def test_the_program_s_own_functions_stay() -> None:
    """Those with a name of the library's, too."""
    assert shown("malloc", "move", "main") == ["move", "main"]
    assert shown("alloc_small_slow", "hk_alloc_slow", "caller", "move_large", "main")[0] == "caller"
    assert shown("alloc", "caller", "main") == ["alloc", "caller", "main"]


def test_a_stack_of_the_allocator_alone_is_shown() -> None:
    assert shown("alloc_small_slow", "hk_alloc_slow") == ["alloc_small_slow", "hk_alloc_slow"]


def test_a_preloaded_library_is_left_out_by_its_file() -> None:
    assert shown("anything", module="libhakmem.so.0") == ["anything"], "a stack is never empty"
