"""What a profile says of a program, function by function."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Dict

import pytest

CLI = Path(__file__).resolve().parents[2] / "cli"
sys.path.insert(0, str(CLI))
for module in ("click", "google.protobuf", "elftools"):
    pytest.importorskip(module, reason="the packages of cli/requirements.txt are missing (./hakmem installs them)")

from hakmem.profile.debug_files import Search  # noqa: E402
from hakmem.profile.model import Profile, stack_of  # noqa: E402
from hakmem.profile.symbolize import Symbolizer  # noqa: E402


def by_function(profile: Profile, sample_type: str) -> Dict[str, int]:
    """Bytes by the innermost function that the tool shows."""
    with Symbolizer(Search(("",))) as symbolizer:
        symbolizer.symbolize(profile)
    column = profile.column(sample_type)
    sums: Dict[str, int] = {}
    for sample in profile.samples:
        stack = stack_of(sample)
        name = stack[0][0].function if stack else ""
        sums[name] = sums.get(name, 0) + sample.values[column]
    return sums


def in_use(profile: Profile) -> Dict[str, int]:
    return by_function(profile, "inuse_space")


def allocated(profile: Profile) -> Dict[str, int]:
    return by_function(profile, "alloc_space")
