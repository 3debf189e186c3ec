#!/usr/bin/env python3
"""Runs the attacks of attacks.toml under each variant of the library, and under other allocators.

    python tests/misuse/attacks.py                             every attack under every variant that the build has
    python tests/misuse/attacks.py --runs 20 --only forgery    some attacks, each twenty times
    python tests/misuse/attacks.py --peers build/peers/peers.json --write tests/misuse/attack_results.json

Prints the attacks whose outcomes are not those of the manifest, and fails where there are any. --write keeps all
outcomes in a file, from which tools/generate_docs.py makes the tables of docs/safety.md. Allocators that take no part
in a run keep their earlier outcomes there. `make attacks` does both.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).resolve().parent
REPOSITORY = FOLDER.parents[1]
MANIFEST = FOLDER / "attacks.toml"
VARIANTS = {"default": "libhakmem.so", "fast": "libhakmem-fast.so", "secure": "libhakmem-secure.so"}
SECONDS = 10.0  # many times the duration of the longest one
KIND = re.compile(r"^hakmem: ([a-z-]+): ", re.MULTILINE)
SIGNALS_OF_ACCESS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGTRAP, signal.SIGFPE)


@dataclass(frozen=True)
class Attack:
    """One attack with blocks of one size. `expected` has the words of the manifest by variant."""

    class_: str
    name: str
    size: int
    does: str
    expected: dict[str, frozenset[str]]

    def __str__(self) -> str:
        return f"{self.class_}.{self.name}.{self.size}"


@dataclass(frozen=True)
class Subject:
    """An allocator: a variant of the library, or another one. None is the C library's own."""

    name: str
    library: Path | None
    version: str = ""


def attacks(manifest: Path = MANIFEST) -> list[Attack]:
    """Returns the attacks of the manifest."""
    rows = tomllib.loads(manifest.read_text(encoding="utf-8"))["attack"]
    return [
        Attack(
            row["class"],
            row["name"],
            size,
            row["does"],
            {variant: frozenset(row[variant].split()) for variant in VARIANTS},
        )
        for row in rows
        for size in row["sizes"]
    ]


def variants(build: Path) -> list[Subject]:
    """Returns the variants of the library that the build has."""
    return [Subject(name, build / file) for name, file in VARIANTS.items() if (build / file).exists()]


def outcome(attack: Attack, subject: Subject, build: Path) -> str:
    """Runs an attack once, and returns how it ended: a word of the manifest, or `report` for another allocator's."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HAKMEM_")}
    environment.pop("LD_PRELOAD", None)
    environment["HAKMEM_SHARDS"] = "1"  # with several, a thread's processor decides whose heap it takes over
    if subject.library is not None:
        environment["LD_PRELOAD"] = str(subject.library)
    command = [str(build / "tests" / "misuse" / f"attack_{attack.class_}"), attack.name, str(attack.size)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "hang"
    if done.returncode == 0 and done.stdout in ("reached\n", "held\n"):
        return "reached" if done.stdout == "reached\n" else "harmless"
    kind = KIND.search(done.stderr)
    if done.returncode == -signal.SIGABRT:
        return kind[1] if kind else "report"
    if -done.returncode in SIGNALS_OF_ACCESS:
        return "fault"
    raise RuntimeError(f"{attack} under {subject.name}: exit code {done.returncode}: {done.stdout} {done.stderr}")


def is_expected(word: str, expected: frozenset[str]) -> bool:
    """Returns whether the manifest allows an outcome."""
    return word in expected or ("stopped" in expected and word not in ("reached", "harmless", "hang"))


def run_all(
    chosen: list[Attack], subjects: list[Subject], build: Path, runs: int
) -> dict[str, dict[str, Counter[str]]]:
    """Returns the outcomes of each attack under each subject."""
    found: dict[str, dict[str, Counter[str]]] = {
        str(attack): {subject.name: Counter() for subject in subjects} for attack in chosen
    }
    once = [(attack, subject) for attack in chosen for _ in range(runs) for subject in subjects]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        words = pool.map(lambda pair: outcome(*pair, build), once)
        for (attack, subject), word in zip(once, words):
            found[str(attack)][subject.name][word] += 1
    return found


def unexpected(chosen: list[Attack], found: dict[str, dict[str, Counter[str]]]) -> list[str]:
    """Returns a line for each outcome that the manifest does not have."""
    return [
        f"{attack} under {variant}: {word} in {count} runs, expected {' or '.join(sorted(attack.expected[variant]))}"
        for attack in chosen
        for variant, words in found[str(attack)].items()
        if variant in attack.expected
        for word, count in words.items()
        if not is_expected(word, attack.expected[variant])
    ]


def peers(file: Path, names: list[str]) -> list[Subject]:
    """Returns allocators of the file that `make peers` writes: all of them, or those that are named."""
    rows = json.loads(file.read_text(encoding="utf-8"))
    return [
        Subject(row["name"], Path(row["library"]) if row["library"] else None, row["version"])
        for row in rows
        if not names or row["name"] in names
    ]


def with_earlier(file: Path, found: dict[str, dict[str, Counter[str]]], subjects: list[Subject], runs: int) -> str:
    """Returns the results as text, a line for each attack. One word stands for an outcome of all runs. Allocators that
    did not take part keep the results that the file has of the same attacks."""
    earlier = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    kept = earlier.get("subjects", {}) if set(earlier.get("results", ())) == set(found) else {}
    today = time.strftime("%Y-%m-%d", time.gmtime())
    new = {subject.name: {"version": subject.version, "date": today, "runs": runs} for subject in subjects}
    both = {**kept, **new}
    ordered = sorted(both, key=lambda name: list(VARIANTS).index(name) if name in VARIANTS else len(VARIANTS))
    machine = f"{platform.machine()}, Linux {platform.release().split('-')[0]}, {' '.join(platform.libc_ver())}"
    head = {"machine": machine, "subjects": {name: both[name] for name in ordered}}
    lines = []
    for attack, by_subject in found.items():
        short = {name: next(iter(words)) if len(words) == 1 else dict(words) for name, words in by_subject.items()}
        if kept:
            short = {**earlier["results"][attack], **short}
        lines.append(f'  "{attack}": {json.dumps(short, sort_keys=True)}')
    text = json.dumps(head, indent=1)[:-2]
    return text + ',\n "results": {\n' + ",\n".join(lines) + "\n }\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=REPOSITORY / "build" / "release", help="a build with its tests")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="how often each attack runs (1)")
    parser.add_argument("--only", default="", metavar="PATTERN", help="the attacks whose class.name.size matches")
    parser.add_argument("--variants", nargs="*", metavar="NAME", help=f"of {', '.join(VARIANTS)}: those that are built")
    parser.add_argument("--peers", type=Path, metavar="FILE", help="other allocators too: peers.json of `make peers`")
    parser.add_argument("--names", nargs="*", default=[], metavar="NAME", help="the peers to take (all)")
    another = ("NAME", "VERSION", "FILE")
    parser.add_argument("--library", nargs=3, action="append", default=[], metavar=another, help="one more allocator")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write all outcomes there, beside earlier ones")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    subjects = [s for s in variants(build) if arguments.variants is None or s.name in arguments.variants]
    subjects += [Subject(name, Path(file), version) for name, version, file in arguments.library]
    subjects += peers(arguments.peers, arguments.names) if arguments.peers else []
    chosen = [attack for attack in attacks() if re.search(arguments.only, str(attack))]
    found = run_all(chosen, subjects, build, arguments.runs)
    wrong = unexpected(chosen, found)
    for line in wrong:
        print(line)
    if arguments.write:
        text = with_earlier(arguments.write, found, subjects, arguments.runs)
        arguments.write.write_text(text, encoding="utf-8")
    names = ", ".join(subject.name for subject in subjects)
    print(f"attacks: {len(chosen)} attacks, {arguments.runs} runs each under {names}: {len(wrong)} not as expected")
    return 1 if wrong or not found or not subjects else 0


if __name__ == "__main__":
    sys.exit(main())
