"""The tables of docs/safety.md, for tools/generate_docs.py: the attacks of tests/misuse/attacks.toml, and the outcomes
that tests/misuse/attacks.py has written to tests/misuse/attack_results.json."""

from __future__ import annotations

import json
import sys
import textwrap
from collections import Counter
from dataclasses import dataclass

from markdown_table import table

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

COLUMNS = 120
TITLES = {
    "overflow": "overflow",
    "underflow": "underflow",
    "stale_read": "use after free, reading",
    "stale_write": "use after free, writing",
    "double_free": "double free",
    "invalid_free": "invalid free",
    "forgery": "forged metadata",
    "confusion": "type and size confusion",
    "spray": "heap spraying",
    "uninitialised": "uninitialised reads",
}
SUBJECTS = {"default": "hakmem", "fast": "hakmem-fast", "secure": "hakmem-secure"}
DETECTED, CHANCE, MISSED, REACHED = "detected", "by chance", "missed", "reached"
MARKS = {DETECTED: "●", CHANCE: "◐", MISSED: "○", REACHED: "×"}


class ResultsError(Exception):
    """The results are not those of the manifest."""


@dataclass(frozen=True)
class Results:
    """The attacks in the order of the manifest, and how each ended: a verdict by attack and allocator."""

    rows: list[dict]
    head: dict
    verdicts: dict[str, dict[str, str]]

    @property
    def subjects(self) -> list[str]:
        return list(self.head["subjects"])


def verdict(outcomes: str | dict[str, int]) -> str:
    """Returns what all runs of an attack say together."""
    words = {outcomes} if isinstance(outcomes, str) else set(outcomes)
    if words == {"reached"}:
        return REACHED
    if "reached" in words:
        return CHANCE
    return MISSED if words & {"harmless", "hang"} else DETECTED


def read(manifest: str, results: str) -> Results:
    """Reads both files. Raises ResultsError where the results are of other attacks."""
    rows = tomllib.loads(manifest)["attack"]
    head = json.loads(results)
    outcomes = head.pop("results")
    names = [f"{row['class']}.{row['name']}.{size}" for row in rows for size in row["sizes"]]
    if sorted(names) != sorted(outcomes):
        raise ResultsError("the results are not of the attacks of the manifest: run `make attacks`")
    verdicts = {name: {subject: verdict(words) for subject, words in outcomes[name].items()} for name in names}
    return Results(rows, head, verdicts)


def title(results: Results, subject: str) -> str:
    version = results.head["subjects"][subject]["version"]
    return SUBJECTS.get(subject, f"{subject} {version}".strip())


def cell(counts: Counter[str]) -> str:
    return " / ".join(str(counts[each]) for each in (DETECTED, MISSED, CHANCE, REACHED))


def whole_mechanisms(results: Results, subject: str) -> int:
    """Returns how many attacks reach their goal at none of their sizes."""
    names = {name.rpartition(".")[0] for name in results.verdicts}
    reached = {
        name.rpartition(".")[0] for name, verdicts in results.verdicts.items() if verdicts[subject] in (CHANCE, REACHED)
    }
    return len(names - reached)


def by_class(manifest: str, results: str) -> str:
    """The counts of each class under each allocator, and where they come from."""
    read_ = read(manifest, results)
    counts: dict[str, dict[str, Counter[str]]] = {
        class_: {subject: Counter() for subject in read_.subjects} for class_ in (*TITLES, "all")
    }
    for name, verdicts in read_.verdicts.items():
        for subject, word in verdicts.items():
            counts[name.partition(".")[0]][subject][word] += 1
            counts["all"][subject][word] += 1
    rows = []
    for class_, by_subject in counts.items():
        total = sum(by_subject[read_.subjects[0]].values())
        rows.append([TITLES.get(class_, "**all**"), str(total), *map(cell, by_subject.values())])
    stopped = [str(c[DETECTED] + c[MISSED]) for c in counts["all"].values()]
    rows.append(["**never reached**", str(len(read_.verdicts)), *stopped])
    mechanisms = {name.rpartition(".")[0] for name in read_.verdicts}
    whole = [str(whole_mechanisms(read_, subject)) for subject in read_.subjects]
    rows.append(["**never, at any size**", str(len(mechanisms)), *whole])
    made: dict[str, list[str]] = {}
    for subject, how in read_.head["subjects"].items():
        made.setdefault(f"{how['runs']} runs on {how['date']}", []).append(SUBJECTS.get(subject, subject))
    runs = "; ".join(f"{', '.join(subjects)}: {how}" for how, subjects in made.items())
    head = textwrap.fill(f"{read_.head['machine']}. {runs}.", COLUMNS, break_long_words=False)
    return head + "\n\n" + table(["class", "attacks", *(title(read_, subject) for subject in read_.subjects)], rows)


def by_attack(manifest: str, results: str) -> str:
    """The verdicts of each attack under each allocator, a mark for each of its sizes."""
    read_ = read(manifest, results)
    attacks: dict[tuple[str, str], dict] = {}
    for row in read_.rows:
        entry = attacks.setdefault((row["class"], row["name"]), {"sizes": [], "does": row["does"]})
        entry["sizes"] = sorted([*entry["sizes"], *row["sizes"]])
    parts = []
    for class_, heading in TITLES.items():
        rows = []
        for (its_class, name), entry in attacks.items():
            if its_class != class_:
                continue
            marks = [
                "".join(MARKS[read_.verdicts[f"{class_}.{name}.{size}"][subject]] for size in entry["sizes"])
                for subject in read_.subjects
            ]
            sizes = ", ".join(f"{size:,}" for size in entry["sizes"])
            rows.append([f"`{name}`", entry["does"], sizes, *marks])
        names = [SUBJECTS.get(subject, subject) for subject in read_.subjects]
        header = ["attack", "what the attacker does", "bytes", *names]
        parts.append(f"### {heading[0].upper()}{heading[1:]}\n\n{table(header, rows)}")
    return "\n\n".join(parts)
