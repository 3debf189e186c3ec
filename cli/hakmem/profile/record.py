"""Heap profiles of a program that this tool starts: one for each process, which the library writes at the process's
end."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

from hakmem.engine import Outcome
from hakmem.errors import EXIT_USAGE, Failure, plural
from hakmem.private_folder import COULD_NOT_WRITE, PrivateFolder
from hakmem.profile.model import Profile
from hakmem.profile.read import read

FILE_VARIABLE = "HAKMEM_PROFILE_FILE"
RATE_VARIABLE = "HAKMEM_PROFILE_RATE"
# More processes than this are a build or a shell script: the smallest profiles are left out.
_MOST_OTHERS = 32


class Recording:
    """A private folder that the library writes to; removed at the end."""

    def __init__(self) -> None:
        try:
            self._folder = PrivateFolder("profile", ".pb.gz")
        except OSError as error:
            raise Failure(f"no temporary folder for the profiles: {error.strerror}") from None

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: Any) -> None:
        self._folder.remove()

    def ask(self, environment: Mapping[str, str], rate: Optional[int]) -> Dict[str, str]:
        """The environment in which the library samples, and writes here."""
        if environment.get(FILE_VARIABLE):
            raise Failure(
                f"{FILE_VARIABLE} is set already: without `hakmem profile` the program writes there", EXIT_USAGE
            )
        asked = {**environment, "HAKMEM_PROFILE": "1", FILE_VARIABLE: self._folder.pattern}
        if rate is not None:
            asked[RATE_VARIABLE] = str(rate)
        return asked

    def collect(self, pid: int, sample_type: str) -> Tuple[Optional[Profile], List[Tuple[int, Profile]], List[str]]:
        """The profile of this process, those of the others, the biggest first, and notes about damaged ones."""
        notes: List[str] = []
        found: List[Tuple[int, Profile]] = []
        for number, file in self._folder.files():
            try:
                found.append((number, _read(str(file), number)))
            except Failure as failure:
                notes.append(failure.message)
        own = next((profile for number, profile in found if number == pid), None)
        others = [one for one in found if one[0] != pid]
        others.sort(key=lambda one: (-one[1].total(sample_type), one[0]))
        if len(others) > _MOST_OTHERS:
            notes.append(f"{plural(len(others) - _MOST_OTHERS, 'smaller profile')} of more processes left out")
        return own, others[:_MOST_OTHERS], notes


def _read(file: str, pid: int) -> Profile:
    name = f"the profile of process {pid}"
    try:
        profile = read(file)
    except Failure as failure:
        raise Failure(failure.message.replace(file, name)) from None
    profile.name = name
    return profile


def why_none(ended: Outcome, written: str = "a profile is", lacking: str = "profiles") -> str:
    """The reason why a process wrote no file, whose content is `written`. Some libraries are without `lacking`."""
    if ended.signal is not None:
        return f"it was {ended.describe()}, and {written} written at exit"
    return (
        "either it ended by _exit, past its exit handlers, or the library did not serve its malloc, "
        f"or is one without {lacking}, or {COULD_NOT_WRITE}"
    )


def beside(name: str, pid: int) -> str:
    """The file of another process's profile: `out.4711.pb.gz` beside `out.pb.gz`."""
    for suffix in (".pb.gz", ".pprof.gz", Path(name).suffix):
        if suffix and name.endswith(suffix):
            return f"{name[: -len(suffix)]}.{pid}{suffix}"
    return f"{name}.{pid}"
