"""The heap profile of this package: objects that refer to each other, instead of numbers and a string table."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import List, Optional, Sequence, Tuple

from hakmem.errors import EXIT_USAGE, Failure

# The values of --by, and the sample type of each.
BY = {"inuse": "inuse_space", "alloc": "alloc_space"}
OBJECTS_OF = {"inuse_space": "inuse_objects", "alloc_space": "alloc_objects"}


@dataclass(frozen=True)
class Frame:
    """One function of a stack: its readable name, its name in the symbol table, its file and line. Line 0: unknown."""

    function: str
    system_name: str = ""
    file: str = ""
    line: int = 0


@dataclass(eq=False)
class Mapping:
    """A range of addresses, and the file that is mapped there."""

    start: int
    limit: int
    offset: int
    path: str
    build_id: str = ""
    has_functions: bool = False
    has_filenames: bool = False
    has_lines: bool = False
    has_inlined: bool = False

    @property
    def name(self) -> str:
        """The file's own name, as `module+0x…` shows it."""
        return os.path.basename(self.path)


@dataclass(eq=False)
class Location:
    """An address of code. `frames` are its functions, the innermost inlined one first; empty: not known yet."""

    address: int
    mapping: Optional[Mapping] = None
    frames: List[Frame] = field(default_factory=list)

    def shown(self) -> List[Frame]:
        """The frames, or the address where there are none."""
        return self.frames or [Frame(self.where())]

    def where(self) -> str:
        """`module+0x…`, the offset in the file, which is the same in every run; the bare address where no file is
        known."""
        if self.mapping is None or not self.mapping.name:
            return f"{self.address:#x}"
        return f"{self.mapping.name}+{self.address - self.mapping.start + self.mapping.offset:#x}"


@dataclass(frozen=True)
class Label:
    """A tag of a sample."""

    key: str
    text: str = ""
    number: int = 0
    unit: str = ""


@dataclass
class Sample:
    """A stack, the innermost location first, and a value for each of the profile's sample types."""

    locations: Tuple[Location, ...]
    values: Tuple[int, ...]
    labels: Tuple[Label, ...] = ()


@dataclass
class Profile:
    """A whole profile. Sample types are pairs of type and unit."""

    sample_types: List[Tuple[str, str]]
    samples: List[Sample]
    mappings: List[Mapping]
    locations: List[Location]
    period_type: Tuple[str, str] = ("space", "bytes")
    period: int = 0
    time_nanos: int = 0
    duration_nanos: int = 0
    comments: List[str] = field(default_factory=list)
    default_sample_type: str = ""
    drop_frames: str = ""
    keep_frames: str = ""
    name: str = ""

    @property
    def began_nanos(self) -> int:
        """The time of its start; 0 where it is unknown. `time_nanos` is the time when it was taken."""
        return max(self.time_nanos - self.duration_nanos, 0)

    def column(self, sample_type: str) -> int:
        """The index of this type in the samples' values."""
        for index, (name, _) in enumerate(self.sample_types):
            if name == sample_type:
                return index
        has = ", ".join(name for name, _ in self.sample_types)
        raise Failure(
            f"{self.name or 'the profile'} has no {sample_type}, only {has}: it is no heap profile", EXIT_USAGE
        )

    def total(self, sample_type: str) -> int:
        """The sum over all samples."""
        column = self.column(sample_type)
        return sum(sample.values[column] for sample in self.samples)


# The functions of the allocator's surface, where it is linked into the program instead of preloaded.
_ALLOCATOR = frozenset(
    [
        "malloc",
        "calloc",
        "realloc",
        "reallocarray",
        "memalign",
        "aligned_alloc",
        "posix_memalign",
        "valloc",
        "pvalloc",
        "hakmem_malloc",
        "hakmem_calloc",
        "hakmem_realloc",
        "hakmem_aligned_alloc",
        "hakmem_aligned_calloc",
        "hakmem_aligned_realloc",
    ]
)


# Functions of the library without its prefix: the one that takes the sample, and its callers up to the surface. A tail
# call may leave no frame of the surface.
_SAMPLERS = frozenset(["alloc_small_slow", "sample_large", "move_large"])
_INSIDE = _SAMPLERS | frozenset(
    ["calloc_small", "calloc_aligned", "move", "realloc_aligned", "realloc_unusual", "realloc_large"]
)
# Rust's way to its global allocator, and the crate hakmem-alloc.
_RUST = ("__rust_alloc", "__rust_realloc", "__rustc::__rust_", "<hakmem_alloc::Hakmem as ")

# A preloaded library leaves its own frames out. In a program that is linked with it, the innermost frames are its
# functions: some with its prefix, and between them others, whose names do not tell.
_MOST_INSIDE = 16


def stack_of(sample: Sample) -> List[Tuple[Frame, Location]]:
    """A sample's frames, innermost first, without the allocator's own at the inner end."""
    frames = [(frame, location) for location in sample.locations for frame in location.shown()]
    inside = [i for i, (frame, location) in enumerate(frames[:_MOST_INSIDE]) if _is_allocator(frame, location)]
    is_linked = any(frame.function.startswith(("hk_", *_RUST)) for frame, _ in frames[:_MOST_INSIDE])
    first = max(inside, default=-1) + 1 if is_linked else 0
    if first > 0 or any(frame.function in _SAMPLERS for frame, _ in frames[:1]):
        while first < len(frames) and frames[first][0].function in _INSIDE:
            first += 1
    while first < len(frames) and _is_allocator(*frames[first]):
        first += 1
    return frames[first:] or frames


def _is_allocator(frame: Frame, location: Location) -> bool:
    if location.mapping is not None and location.mapping.name.startswith("libhakmem"):
        return True
    return frame.function in _ALLOCATOR or frame.function.startswith(("operator new", "hk_", *_RUST))


def names_of(sample: Sample) -> Sequence[str]:
    """The functions of a sample's stack, innermost first."""
    return [frame.function for frame, _ in stack_of(sample)]
