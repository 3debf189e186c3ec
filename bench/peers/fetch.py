#!/usr/bin/env python3
"""Fetches, builds and verifies the allocators of peers.toml into build/peers, and lists them in build/peers/peers.json.

    bench/peers/fetch.py [--only NAME,NAME] [--again] [--jobs N] [--output build/peers]

The list: [{"name", "library" (absolute, null for glibc), "version", "notes"}]. It has only allocators that serve
malloc: a probe runs with each preloaded, and the dynamic linker must have taken malloc, free and their relatives, and a
function that only this allocator has, from its file. An allocator that fails is reported and left out;
the others go on. The exit code is 2 when nothing but glibc is on the list.

An existing build stays as long as peers.toml builds it from the same sources by the same commands; --again builds it
anew, after a change of compiler for instance.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tools"))

from under_allocator import environment  # noqa: E402

try:
    import tomllib
except ModuleNotFoundError:  # Python before 3.11
    try:
        import tomli as tomllib
    except ModuleNotFoundError:
        sys.exit("fetch: reading peers.toml needs Python 3.11, or the package tomli")

TABLE = Path(__file__).with_name("peers.toml")
PROBE_SOURCE = Path(__file__).with_name("peer_probe.c")
NETWORK_SECONDS = 600
PROBE_SECONDS = 60

Table = Mapping[str, Any]


class Unavailable(Exception):
    """The reason why a peer is left out."""


@dataclass(frozen=True)
class Peer:
    """A line of the list."""

    name: str
    library: Optional[str]
    version: Optional[str]
    notes: str


def say(message: str) -> None:
    """Progress and reports, beside what the tools print."""
    print(f"peers: {message}", file=sys.stderr, flush=True)


def run(command: Sequence[str], log: Path, cwd: Path, seconds: Optional[float] = None) -> None:
    """Runs a tool; its output goes to a log, whose end is shown on failure."""
    with log.open("ab") as output:
        output.write(f"$ {' '.join(command)}\n".encode())
        output.flush()
        try:
            done = subprocess.run(
                command, cwd=cwd, env=environment(None), stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, timeout=seconds, check=False,
            )  # fmt: skip
        except FileNotFoundError:
            raise Unavailable(f"{command[0]} is not installed") from None
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{command[0]} took more than {seconds:g} s: see {log}") from None
    if done.returncode != 0:
        last = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
        raise Unavailable(f"{' '.join(command[:3])} ... failed, see {log}\n{last}")


class Crates:
    """The sources that cargo fetches, all at once, on first use."""

    def __init__(self, peers: Sequence[Table], folder: Path) -> None:
        self._wanted = {peer["crate"]: peer for peer in peers if "crate" in peer}
        self._folder = folder

    def source(self, peer: Table) -> Path:
        """The unpacked crate. Its sum is that of peers.toml."""
        source = self._find(peer)
        if source is None:
            self._fetch()
            source = self._find(peer)
        if source is None:
            raise Unavailable(f"cargo did not bring {peer['crate']} {peer['crate_version']}")
        found = json.loads((source / ".cargo-checksum.json").read_text()).get("package")
        if found != peer["sha256"]:
            raise Unavailable(f"{source.name} has the sum {found}, not that of peers.toml")
        return source

    def _find(self, peer: Table) -> Optional[Path]:
        # The part behind a plus belongs to the folder's name, not to the version.
        name = f"{peer['crate']}-{peer['crate_version']}"
        found = [*self._folder.glob(f"vendor/{name}"), *self._folder.glob(f"vendor/{name}+*")]
        return found[0] if found else None

    def _fetch(self) -> None:
        """A package that depends on the crates; cargo unpacks them, and nothing of it is compiled."""
        say("fetching sources with cargo")
        shutil.rmtree(self._folder, ignore_errors=True)
        (self._folder / "src").mkdir(parents=True)
        (self._folder / "src" / "lib.rs").touch()
        lines = ["[package]", 'name = "peers"', 'version = "0.0.0"', 'edition = "2021"', "", "[dependencies]"]
        lines += [f'{name} = "={peer["crate_version"]}"' for name, peer in self._wanted.items()]
        (self._folder / "Cargo.toml").write_text("\n".join([*lines, "", "[workspace]", ""]))
        log = self._folder / "cargo.log"
        run(["cargo", "vendor", "--versioned-dirs", "vendor"], log, self._folder, NETWORK_SECONDS)


def build(peer: Table, crates: Crates, output: Path, jobs: int, again: bool) -> Path:
    """The library, built unless it was already from the same description."""
    library, work = output / f"{peer['name']}.so", output / "work" / peer["name"]
    stamp = output / f"{peer['name']}.stamp"
    made_from = {key: peer[key] for key in ("crate_version", "sha256", "build") if key in peer}
    description = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()
    if not again and library.is_file() and stamp.is_file() and stamp.read_text() == description:
        return library
    source = crates.source(peer)
    say(f"building {peer['name']} {peer['version']}")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    result, log = work / f"{peer['name']}.so", output / f"{peer['name']}.log"
    log.unlink(missing_ok=True)
    # cmake and configure know a folder "."; the compiler knows paths.
    values = {"source": str(source), "output": str(result), "jobs": str(jobs)}
    for command in peer["build"]:
        run([word.format_map(values) for word in command], log, work)
    if not result.is_file():
        raise Unavailable(f"its commands made no {result.name}: see {log}")
    os.replace(result, library)
    stamp.write_text(description)
    shutil.rmtree(work)
    return library


def find_installed(library: str) -> Path:
    """A library that the dynamic linker knows."""
    ldconfig = next((path for path in ("/sbin/ldconfig", "/usr/sbin/ldconfig") if os.path.exists(path)), "ldconfig")
    try:
        listing = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        listing = ""
    for line in listing.splitlines():
        name, _, path = line.strip().partition(" => ")
        if name.startswith(f"{library} (libc6,") and ("x86-64" in name or "AArch64" in name):
            return Path(path).resolve()
    raise Unavailable(f"{library} is not installed")


def installed_version(package: str) -> Optional[str]:
    """The distribution's version, where it has dpkg."""
    try:
        asked = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return asked.stdout.strip() or None if asked.returncode == 0 else None


def glibc_version() -> Optional[str]:
    """The C library of this process."""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")[2] or None
    except (ValueError, OSError):
        return None


def build_probe(output: Path) -> Path:
    """The compiled probe. Without a compiler nothing can be verified."""
    probe = output / "peer_probe"
    command = ["cc", "-O1", "-D_GNU_SOURCE", "-fno-builtin", "-pthread", "-o", str(probe), str(PROBE_SOURCE), "-ldl"]
    run(command, output / "peer_probe.log", output)
    return probe


def verify(probe: Path, library: Path, symbol: str) -> None:
    """Raises Unavailable unless `library`, preloaded, works and serves every function of the probe."""
    try:
        done = subprocess.run(
            [str(probe), symbol], env=environment(library), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=PROBE_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Unavailable(f"a small program hangs under {library}") from None
    if done.returncode != 0:
        raise Unavailable(f"a small program ends with {done.returncode} under {library}: {done.stderr.strip()}")
    homes = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    foreign = [
        f"{name} ({home})" for name, home in homes.items() if home == "-" or Path(home).resolve() != library.resolve()
    ]
    if foreign:
        raise Unavailable(f"{library} does not serve {', '.join(foreign)}")


def make_peer(peer: Table, crates: Crates, probe: Path, arguments: argparse.Namespace) -> Peer:
    """Fetched or found, built, verified."""
    if "crate" in peer:
        library = build(peer, crates, arguments.output, arguments.jobs, arguments.again)
        version = str(peer["version"])
    else:
        library = find_installed(peer["library"])
        version = installed_version(peer["package"]) or None
    verify(probe, library, peer["symbol"])
    return Peer(peer["name"], str(library), version, peer["notes"])


def write_list(peers: Sequence[Peer], path: Path) -> None:
    """The whole list or the old one, never half a list."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps([asdict(peer) for peer in peers], indent=2) + "\n")
    os.replace(temporary, path)


def parse_arguments(names: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Fetch, build and verify the allocators to compare with.")
    parser.add_argument("--only", metavar="NAME,...", help=f"these alone: {', '.join(names)}")
    parser.add_argument("--again", action="store_true", help="build existing ones again")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="number of files to compile at once")
    parser.add_argument("--output", type=Path, default=REPOSITORY / "build" / "peers", help="default build/peers")
    arguments = parser.parse_args()
    arguments.output = arguments.output.resolve()
    arguments.only = [name.strip() for name in arguments.only.split(",")] if arguments.only is not None else list(names)
    unknown = sorted(set(arguments.only) - set(names))
    if unknown:
        parser.error(f"no such peer: {', '.join(unknown)} (there are {', '.join(names)})")
    if arguments.jobs < 1:
        parser.error("--jobs must be 1 or more")
    return arguments


def main() -> int:
    """One peer after the other; then the list."""
    table: List[Dict[str, Any]] = tomllib.loads(TABLE.read_text(encoding="utf-8"))["peer"]
    arguments = parse_arguments([peer["name"] for peer in table])
    wanted = [peer for peer in table if peer["name"] in arguments.only]
    listed: List[Peer] = [Peer("glibc", None, glibc_version(), "no preload")]
    try:
        arguments.output.mkdir(parents=True, exist_ok=True)
        crates = Crates(table, arguments.output / "sources")
        probe = build_probe(arguments.output)
        for peer in wanted:
            try:
                listed.append(make_peer(peer, crates, probe, arguments))
            except Unavailable as reason:
                say(f"left out: {peer['name']}: {reason}")
        write_list(listed, arguments.output / "peers.json")
    except (Unavailable, OSError) as error:
        say(str(error))
        return 2
    for peer in listed:
        print(f"{peer.name:<16} {peer.version or 'unknown':<12} {peer.library or 'the C library'}")
    if len(listed) <= len(wanted):
        say(f"{len(wanted) + 1 - len(listed)} of {len(wanted)} were left out: see above")
    return 0 if len(listed) > 1 else 2


if __name__ == "__main__":
    sys.exit(main())
