"""The standard set: bench/workloads.toml (own programs) and bench/programs.toml (real ones), which explain each key."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from hakmem.errors import EXIT_USAGE, Failure

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROGRAM_GROUP = "program"
_OWN_FILE = "workloads.toml"
_PROGRAM_FILE = "programs.toml"
_DEFAULT_EXPECTED_SECONDS = 1.0


@dataclass(frozen=True)
class ServerPart:
    """A server's port, and the command of its load."""

    port: int
    load: Tuple[str, ...]


@dataclass(frozen=True)
class Workload:
    """One row of the table. `own`: it prints its operations as JSON. `floors`: commands that show the machine's limit.
    `on_request`: it runs only when it is named. `for_cost`: it is in the set of --cost."""

    name: str
    group: str
    what: str
    command: Tuple[str, ...]
    threads: int = 1
    floors: Tuple[Tuple[str, ...], ...] = ()
    own: bool = False
    environment: Tuple[Tuple[str, str], ...] = ()
    prepare: Tuple[Tuple[str, ...], ...] = ()
    same_output: bool = False
    server: Optional[ServerPart] = None
    expected_seconds: float = _DEFAULT_EXPECTED_SECONDS
    missing: Optional[str] = None
    on_request: bool = False
    for_cost: bool = False


@dataclass(frozen=True)
class Places:
    """The values of the braces in the two files, and the folder of the built programs."""

    bench: Path
    work: Path
    programs: Path

    def fill(self, text: str, port: Optional[int] = None) -> str:
        """One word of a command, completed."""
        values = {"{bench}": str(self.bench), "{work}": str(self.work), "{python}": sys.executable, "{port}": str(port)}
        for name, value in values.items():
            text = text.replace(name, value)
        return text

    def fill_all(self, words: Sequence[str], port: Optional[int] = None) -> Tuple[str, ...]:
        """A command, completed."""
        return tuple(self.fill(str(word), port) for word in words)


def inputs_digest(workload: Workload, places: Places) -> str:
    """Changes when the commands that make the input change, or a file of the checkout that they name."""
    digest = hashlib.sha256(repr(workload.prepare).encode())
    for file in _named_files(workload, places):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _named_files(workload: Workload, places: Places) -> List[Path]:
    """A word may name a file after an equals sign: `--from=FILE`. Generated files do not count."""
    words = [
        part for command in workload.prepare for word in command for part in (word, word.partition("=")[2]) if part
    ]
    files = [Path(word).resolve() for word in words if Path(word).is_file()]
    root = places.bench.resolve().parent
    made = {places.work.resolve(), root / "build"}
    return [file for file in files if root in file.parents and not made.intersection(file.parents)]


def load(places: Places, seed: int) -> List[Workload]:
    """Both files, in their order. Names are unique over both."""
    if not any((places.bench / name).is_file() for name in (_OWN_FILE, _PROGRAM_FILE)):
        raise Failure(f"{places.bench} has neither {_OWN_FILE} nor {_PROGRAM_FILE}", EXIT_USAGE)
    own = [_own(entry, places, seed) for entry in _entries(places.bench / _OWN_FILE, "workload")]
    real = [_real(entry, places) for entry in _entries(places.bench / _PROGRAM_FILE, "program")]
    names = [workload.name for workload in [*own, *real]]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Failure(f"{places.bench}: these names are there twice: {', '.join(twice)}")
    return [*own, *real]


def _entries(file: Path, key: str) -> List[Dict[str, Any]]:
    if not file.is_file():
        return []
    try:
        entries = tomllib.loads(file.read_text(encoding="utf-8")).get(key, [])
    except (OSError, ValueError) as error:
        raise Failure(f"{file} is invalid: {error}") from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) and "name" in entry for entry in entries):
        raise Failure(f"{file}: expected [[{key}]] tables that each have a name")
    return entries


def _required(entry: Mapping[str, Any], key: str, file: str) -> Any:
    if key not in entry:
        raise Failure(f"{file}: {entry['name']} has no {key}")
    return entry[key]


def _own(entry: Mapping[str, Any], places: Places, seed: int) -> Workload:
    arguments = (*places.fill_all(entry.get("arguments", [])), "--seed", str(seed))
    path = places.programs / str(_required(entry, "program", _OWN_FILE))
    floors = [places.programs / str(name) for name in entry.get("floors", [])]
    absent = [file.name for file in (path, *floors) if not file.is_file()]
    return Workload(
        name=entry["name"],
        group=entry.get("group", "micro"),
        what=entry.get("what", ""),
        command=(str(path), *arguments),
        threads=entry.get("threads", 1),
        floors=tuple((str(file), *arguments) for file in floors),
        own=True,
        expected_seconds=entry.get("expected_seconds", _DEFAULT_EXPECTED_SECONDS),
        missing=f"not built: {', '.join(absent)}" if absent else None,
        on_request=entry.get("on_request", False),
        for_cost=entry.get("for_cost", False),
    )


def _real(entry: Mapping[str, Any], places: Places) -> Workload:
    absent = [name for name in entry.get("needs", []) if shutil.which(name) is None]
    server = entry.get("server")
    return Workload(
        name=entry["name"],
        group=PROGRAM_GROUP,
        what=entry.get("what", ""),
        command=tuple(_required(entry, "command", _PROGRAM_FILE)),  # completed when the port is known
        environment=tuple((name, places.fill(str(value))) for name, value in entry.get("environment", {}).items()),
        prepare=tuple(places.fill_all(command) for command in entry.get("prepare", [])),
        same_output=entry.get("output") == "same",
        server=ServerPart(server["port"], tuple(server["load"])) if server else None,
        expected_seconds=entry.get("expected_seconds", _DEFAULT_EXPECTED_SECONDS),
        missing=f"not installed: {', '.join(absent)} (package {entry.get('package', 'unknown')})" if absent else None,
        on_request=entry.get("on_request", False),
        for_cost=entry.get("for_cost", False),
    )


def select(
    workloads: Sequence[Workload], only: Optional[str], for_cost: bool = False, all_of_them: bool = False
) -> List[Workload]:
    """The workloads whose name or group matches a word of `only`; `*` and `?` as in a shell. Without words the set of
    --cost, or all but those on request."""
    if only is None and for_cost:
        return [workload for workload in workloads if workload.for_cost]
    if only is None:
        return [workload for workload in workloads if all_of_them or not workload.on_request]
    words = [word.strip() for word in only.split(",") if word.strip()]
    for word in words or [only]:
        if not any(_means(word, workload) for workload in workloads):
            names = ", ".join(workload.name for workload in workloads)
            groups = ", ".join(dict.fromkeys(workload.group for workload in workloads))
            raise Failure(f"no workload or group {word!r}. Groups: {groups}. Workloads: {names}", EXIT_USAGE)
    return [workload for workload in workloads if any(_means(word, workload) for word in words)]


def _means(word: str, workload: Workload) -> bool:
    return word in (workload.group, f"{workload.group}s") or fnmatch.fnmatchcase(workload.name, word)


def default_places(root: Path, catalogue: Optional[str], programs: Optional[str]) -> Places:
    """In a checkout."""
    own = Path(os.path.abspath(catalogue)) if catalogue else None
    return Places(
        bench=own or root / "bench",
        work=own / "work" if own else root / "build" / "bench-work",
        programs=Path(os.path.abspath(programs)) if programs else root / "build" / "release" / "bench",
    )
