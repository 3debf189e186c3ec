"""Makes profiles as the library writes them, with addresses and mappings but no names, of programs that print both."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import cli_support  # puts the package on the path
import pytest

assert cli_support.CLI
pytest.importorskip(
    "google.protobuf", reason="the packages of cli/requirements.txt are missing (./hakmem installs them)"
)

from hakmem.profile.module import ElfModule  # noqa: E402
from hakmem.profile.schema import profile_class  # noqa: E402

TYPES = ("alloc_objects", "alloc_space", "inuse_objects", "inuse_space")


class Message:
    """A profile.proto in the making, filled field by field as the library does, without the package's own writer."""

    def __init__(self, period: int = 524288, time_nanos: int = 0, duration_nanos: int = 0) -> None:
        self.proto: Any = profile_class()()
        self.strings: List[str] = [""]
        for name in TYPES:
            unit = "count" if name.endswith("objects") else "bytes"
            self.proto.sample_type.add(type=self.string(name), unit=self.string(unit))
        self.proto.period_type.type = self.string("space")
        self.proto.period_type.unit = self.string("bytes")
        self.proto.period = period
        self.proto.time_nanos = time_nanos
        self.proto.duration_nanos = duration_nanos
        self.locations: Dict[int, int] = {}

    def string(self, text: str) -> int:
        if text not in self.strings:
            self.strings.append(text)
        return self.strings.index(text)

    def mapping(self, start: int, end: int, offset: int, path: str, build_id: str) -> None:
        self.proto.mapping.add(
            id=len(self.proto.mapping) + 1, memory_start=start, memory_limit=end, file_offset=offset,
            filename=self.string(path), build_id=self.string(build_id),
        )  # fmt: skip

    def maps(self, text: str) -> None:
        """Executable lines of a /proc/PID/maps."""
        for line in text.splitlines():
            words = line.split(None, 5)
            if len(words) == 6 and "x" in words[1]:
                start, end = (int(word, 16) for word in words[0].split("-"))
                path = words[5]
                build_id = ElfModule(path).build_id if Path(path).is_file() else ""
                self.mapping(start, end, int(words[2], 16), path, build_id)

    def sample(self, addresses: Sequence[int], values: Sequence[int]) -> None:
        self.proto.sample.add(location_id=[self.location(one) for one in addresses], value=values)

    def location(self, address: int) -> int:
        if address not in self.locations:
            number = self.locations[address] = len(self.locations) + 1
            mapping = next((m.id for m in self.proto.mapping if m.memory_start <= address < m.memory_limit), 0)
            self.proto.location.add(id=number, mapping_id=mapping, address=address)
        return self.locations[address]

    def data(self) -> bytes:
        del self.proto.string_table[:]
        self.proto.string_table.extend(text.encode("utf-8", "surrogateescape") for text in self.strings)
        return gzip.compress(bytes(self.proto.SerializeToString()))


def named(stacks: Dict[Tuple[str, ...], Sequence[int]], period: int = 524288, time_nanos: int = 0) -> bytes:
    """A profile with names already: stacks of functions, the innermost first."""
    message = Message(period, time_nanos)
    numbers: Dict[str, int] = {}
    for names, values in stacks.items():
        for name in names:
            if name not in numbers:
                number = numbers[name] = len(numbers) + 1
                message.proto.function.add(id=number, name=message.string(name))
                message.proto.location.add(id=number, address=0x1000 + number).line.add(function_id=number, line=number)
        message.proto.sample.add(location_id=[numbers[name] for name in names], value=values)
    return message.data()


def run(program: Path) -> Tuple[List[int], str]:
    """The stack that a program prints, the innermost address first, and its maps."""
    done = subprocess.run([program], capture_output=True, text=True, timeout=60, check=True)
    first, _, maps = done.stdout.partition("\n")
    # Return addresses; a profile has the call's, one before.
    return [int(word, 16) - 1 for word in first.split()], maps


def profile_of(program: Path, values: Sequence[int] = (1, 4096, 1, 4096), **options: int) -> bytes:
    """The profile of one stack."""
    stack, maps = run(program)
    message = Message(**options)
    message.maps(maps)
    message.sample(stack, values)
    return message.data()


def compiler(name: str) -> str:
    found: Optional[str] = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name}")
    return found


def build(folder: Path, name: str, source: str, words: Sequence[str]) -> Path:
    """Compile `source` by these words, which name the compiler; the source's suffix stands in the name."""
    text = folder / name
    text.write_text(source)
    target = folder / Path(name).stem
    done = subprocess.run(
        [*words, "-o", str(target), str(text)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return target


# Prints the return addresses of its own stack, the innermost first, and its maps: what a sampler would have seen.
PRINT_STACK = r"""
#include <stdio.h>
static void print_stack(void **frame) {
  for (void **end = (void **)__builtin_frame_address(0) + 4096; frame && frame < end; frame = (void **)*frame) {
    printf("%p ", frame[1]);
    if ((void **)*frame <= frame) break;
  }
  printf("\n");
  FILE *maps = fopen("/proc/self/maps", "r");
  for (int c; (c = getc(maps)) != EOF;) putchar(c);
}
"""
