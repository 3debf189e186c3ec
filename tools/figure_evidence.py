"""The figures of a document, and the evidence for them: experiments' notes, results, the code and the tests."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from prose import C_SUFFIXES

NUMBER = r"\d[\d,]*(?:\.\d+)?"
UNITS = {
    **{unit: "bytes" for unit in ("KiB", "MiB", "GiB", "TiB", "KB", "MB", "GB", "kB")},
    **{unit: "time" for unit in ("ns", "µs", "us", "ms", "s", "seconds", "second", "minutes")},
    **{unit: "share" for unit in ("%", "times")},
    **{unit: "count" for unit in ("instructions", "bytes", "B", "misses", "faults", "calls")},
}
FIGURE = re.compile(rf"(?<![\w./-])({NUMBER})(?:\s?({'|'.join(map(re.escape, UNITS))})(?![\w-]))?")
SCALE = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
SECONDS = {"ns": 1e-9, "µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1, "second": 1, "seconds": 1, "minutes": 60}
# Figures of the system or of a standard: a page, a huge page, a block's alignment, all of it.
GIVEN = frozenset({"4 KiB", "2 MiB", "16 bytes", "100%"})


def number_of(digits: str) -> float:
    return float(digits.replace(",", ""))


def numbers_in(text: str) -> set[float]:
    return {number_of(digits) for digits in re.findall(rf"(?<![\w.]){NUMBER}(?![\w.]*\w)|{NUMBER}(?=[a-zµ%])", text)}


@dataclass
class Evidence:
    """The evidence for figures: notes, results, and constants that the code has or a test asserts."""

    notes: set[float] = field(default_factory=set)
    sizes: set[float] = field(default_factory=set)  # in bytes
    times: set[float] = field(default_factory=set)  # of lines that say a unit of time
    counts: set[float] = field(default_factory=set)

    def holds(self, digits: str, unit: str) -> bool:
        value = number_of(digits)
        if value in self.notes or f"{digits}{'' if unit == '%' else ' '}{unit}" in GIVEN:
            return True
        if unit in SCALE:
            return value * SCALE[unit] in self.sizes
        if unit in SECONDS:
            return any(round(value * SECONDS[unit] / scale, 9) in self.times for scale in SECONDS.values())
        return value in self.counts

    def add_note(self, text: str) -> None:
        self.notes |= numbers_in(text)

    def add_code(self, text: str) -> None:
        code = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
        for before, unit, unit_first, behind in CODE_BYTES.findall(code):
            self.sizes.add(int(before or behind) * SCALE[(unit or unit_first).replace("IB", "iB")])
        self.sizes |= {float(1 << int(a or b)) for a, b in CODE_SHIFT.findall(code) if int(a or b) < 64}
        for line in code.splitlines():
            numbers = {float(digits) for digits in CODE_NUMBER.findall(line)}
            self.counts |= numbers
            if CODE_TIME.search(line):
                self.times |= numbers


CODE_BYTES = re.compile(r"\b(\d+)\s*\*\s*HK_(KIB|MIB|GIB|TIB)\b|\bHK_(KIB|MIB|GIB|TIB)\s*\*\s*(\d+)\b")
CODE_SHIFT = re.compile(r"_SHIFT\s*=?\s*(\d+)\b|1u?l*\s*<<\s*(\d+)\b", re.IGNORECASE)
CODE_NUMBER = re.compile(r"(?<![\w.])(\d+)(?=[uUlL]*\b)")
CODE_TIME = re.compile(r"(?:^|[\W_])(?:ms|ns|us|seconds?)(?:[\W_]|$)", re.IGNORECASE)


def collect_evidence(root: Path) -> Evidence:
    evidence = Evidence()
    for folder in ("docs/experiments", "bench/results"):
        for file in sorted((root / folder).rglob("*.md")):
            evidence.add_note(file.read_text(encoding="utf-8"))
    for folder in ("src", "tests"):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in C_SUFFIXES and file.is_file():
                evidence.add_code(file.read_text(encoding="utf-8"))
    return evidence


def figures_in(line: str) -> list[tuple[str, str]]:
    """(digits, unit) of the numbers with a unit or a fraction: a bare whole number may count anything."""
    line = re.sub(r"`[^`]*`|\]\([^)]*\)|\b[vV]ersion \S+|\bLinux \d[\d.]*|\bglibc \d[\d.]*|C\+*\d\d", " ", line)
    return [(digits, unit) for digits, unit in FIGURE.findall(line) if unit or "." in digits]
