"""The outputs of `hakmem profile`: the table, the command after it, and the files that its options name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, List, Optional, Sequence, Tuple

from hakmem import next_step
from hakmem.errors import Failure, say
from hakmem.output import Content, OutputFile, write_each
from hakmem.profile import perf_map, top
from hakmem.profile.debug_files import DEBUG_FOLDERS, Search
from hakmem.profile.document import of_profile
from hakmem.profile.export import folded, speedscope, stacks
from hakmem.profile.flame import draw
from hakmem.profile.model import BY, Profile
from hakmem.profile.write import to_bytes


@dataclass
class Outputs:
    """The outputs of one profile. `rest` is the rest of the command, for the next one."""

    by: str
    rows: int
    quiet: bool
    output_name: Optional[str]
    folders: Tuple[str, ...]
    is_on_stdout: bool = False
    pid: Optional[int] = None
    rest: Sequence[str] = ()
    has_flame: bool = False
    files: Sequence[Optional[OutputFile]] = (None, None, None, None, None)

    @property
    def shows_table(self) -> bool:
        """Whether the table and the next command are printed. Stdout may be a file's."""
        return not (self.quiet or self.is_on_stdout)

    def search(self, roots: Sequence[str] = ("",), pid: Optional[int] = None) -> Search:
        """Where the symbolizer looks for files: in these roots, and in the debug folders."""
        maps = perf_map.paths_of(pid, roots) if pid is not None else ()
        return Search(roots, (*self.folders, *DEBUG_FOLDERS), perf_maps=maps)

    def lines(self, profile: Profile) -> List[str]:
        """The table, where it is printed."""
        return top.text(profile, BY[self.by], self.rows) if self.shows_table else []

    def tell_next(self, profile: Profile, on_stderr: bool = False) -> None:
        """Prints the command after the table: for a picture, or for all allocations where no bytes are in use."""
        if not self.shows_table:
            return
        if profile.total(BY[self.by]):
            by = [] if self.by == "inuse" else ["--by", self.by]
            tip = None if self.has_flame else [*by, "--flame", "heap.svg"]
        else:
            tip = ["--by", "alloc"] if self.by == "inuse" and profile.samples else None
        if tip is not None:
            self.tell_again(tip, on_stderr)

    def tell_no_samples(self, profile: Profile, remedy: str) -> None:
        """Says, of an empty profile that this command began, what makes it take samples."""
        if not (self.quiet or profile.samples) and profile.period > 1:
            say(f"note: too little was allocated for a sample: {remedy} than {profile.period} takes more")

    def tell_again(self, options: Sequence[str], on_stderr: bool = False) -> None:
        """Prints the command for the same profile with other options for its result."""
        next_step.tell(f"hakmem profile {next_step.words([*options, *self.rest])}", on_stderr)

    def write(self, profile: Profile, title: str) -> List[Failure]:
        """Writes every requested file that can be written. Returns the failures."""
        sample_type = BY[self.by]
        others = [one for one in BY.values() if one != sample_type]
        contents: List[Callable[[], Content]] = [
            lambda: to_bytes(profile),
            lambda: folded(profile, sample_type),
            lambda: speedscope(profile, title, [sample_type, *others]),
            lambda: draw(stacks(profile, sample_type), f"{title}: {sample_type}"),
            lambda: of_profile(profile, self.by, self.pid),
        ]
        return write_each(zip(self.files, contents))
