#!/usr/bin/env python3
"""Checks the project's language as far as a program can: docs/glossary.md has the words.

    columns     no line of a source, a test, a tool or a document has more than 120 columns
    calques     no sentence has a clause or a stand-in for its subject (CALQUES has the patterns)
    terms       a term that is **bold** in docs/design.md or src/README.md is in docs/glossary.md
    names       no identifier of src has a word that the glossary's terms have replaced, or one for persons
    figures     a figure in README.md or docs/design.md is in an experiment's note, a result, a test or the code
    words       docs/design.md is no longer than a newcomer reads at once (MOST_WORDS)

CLEAN says for each check which files and folders have to be clean: all of the project's. Elsewhere findings are counted
and do not fail, so a new page or folder is entered there. --strict fails everywhere, --list shows every finding.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

COLUMNS = 120

PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md")
FOLDERS = ("bench", "bindings", "cli", "cmake", "docs", "include", "packaging", "src", "tests", "tools")

# For each check what has to be clean: files, or folders with all that is in them.
CLEAN: dict[str, tuple[str, ...]] = {
    "columns": (*PAGES, *FOLDERS),
    "calques": (*PAGES, *FOLDERS),
    "terms": ("docs/design.md", "src/README.md"),
    "names": ("src",),
    "figures": ("README.md", "docs/design.md"),
    "words": ("docs/design.md",),
}

# The words that terms have replaced, and words for persons: whole words of identifiers, or several with the lines
# between them.
OLD_NAMES = (
    *("sink", "shelf", "bell", "surplus", "trough", "misfit", "trail", "spot", "rescue", "purger", "tend", "home"),
    *("huge_wish", "far_bytes", "wants", "ignorant"),
)
# The files that list them on purpose, for readers of old names.
LISTS_OF_OLD_NAMES = ("src/policy/old_figure.def", "src/policy/old_option.def")

C_SUFFIXES = (".c", ".h", ".cc", ".cpp", ".hpp", ".def")
SUFFIXES = (*C_SUFFIXES, ".py", ".md", ".sh", ".cmake")
# Recorded and generated files, and inputs as they were found.
NOT_WRITTEN = ("bench/results", "bench/traces", "bench/learn_traces", "docs/experiments", "tests/fuzz/corpus")
NOT_OURS = {"build", "target", "__pycache__", ".venv"}


@dataclass(frozen=True)
class Finding:
    check: str
    file: str
    line: int
    text: str


def is_below(file: str, places: tuple[str, ...]) -> bool:
    return any(file == place or file.startswith(f"{place}/") for place in places)


def written_files(root: Path) -> list[str]:
    """The files that people write and read. Uses no git: an unpacked archive has none."""
    files = [file for file in root.iterdir() if file.suffix == ".md" and file.is_file()]
    for folder in FOLDERS:
        files += [file for file in (root / folder).rglob("*") if file.suffix in SUFFIXES and file.is_file()]
    names = [file.relative_to(root) for file in files]
    return sorted(
        str(name) for name in names if NOT_OURS.isdisjoint(name.parts) and not is_below(str(name), NOT_WRITTEN)
    )


def read(root: Path, file: str) -> str:
    path = root / file
    return path.read_text(encoding="utf-8") if path.is_file() else ""


# ---- Prose: the sentences of a file.


def without_code(markdown: str) -> list[str]:
    """The lines of a document, those of code blocks empty."""
    lines, is_code = [], False
    for line in markdown.splitlines():
        is_fence = line.lstrip().startswith("```")
        is_code = is_code != is_fence
        lines.append("" if is_code or is_fence else line)
    return lines


C_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|' + r"'(?:\\.|[^'\\\n])*'", re.DOTALL)


def c_prose(text: str, has_texts: bool) -> list[str]:
    """The comments, each at its line; for tables of texts the strings too."""
    kept = [" " if character != "\n" else "\n" for character in text]
    for found in C_TOKEN.finditer(text):
        if found[0].startswith("/") or (has_texts and found[0].startswith('"')):
            kept[found.start() : found.end()] = text[found.start() : found.end()]
    return "".join(kept).splitlines()


def python_prose(text: str) -> list[str]:
    """The comments and the docstrings."""
    lines = [""] * (text.count("\n") + 1)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            lines[token.start[0] - 1] = token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            string = node.body[0]
            for number in range(string.lineno - 1, string.end_lineno or string.lineno):
                lines[number] = text.splitlines()[number]
    return lines


def prose(file: str, text: str) -> list[str]:
    """The sentences of a file, at the lines where they stand; the other lines are empty."""
    if file.endswith(".md"):
        return [re.sub(r"`[^`]*`|\]\([^)]*\)", "`", line) for line in without_code(text)]
    if file.endswith(C_SUFFIXES):
        return c_prose(text, file.endswith(".def"))
    if file.endswith(".py"):
        return python_prose(text)
    return [line if line.lstrip().startswith("#") else "" for line in text.splitlines()]


# ---- Columns.


def is_breakable(file: str, line: str) -> bool:
    """A table's row stands in one line, and so does a word without a space, as an address."""
    if file.endswith(".md") and line.startswith("|"):
        return False
    return " " in line.lstrip(" #*/-")[:COLUMNS]


def check_columns(root: Path, files: list[str]) -> Iterator[Finding]:
    for file in files:
        text = read(root, file)
        lines = without_code(text) if file.endswith(".md") else text.splitlines()
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS and is_breakable(file, line):
                yield Finding("columns", file, number, f"{len(line)} columns")


# ---- Calques.

# A relative clause is good after the word for a person.
PERSON = r"(?:readers?|users?|people|persons?|maintainers?|developers?|newcomers?|attackers?|authors?|those|anyone)"
CALQUES = (
    re.compile(r"\b[Ww]ho(?:ever)?\b"),
    re.compile(r"\b(?:no|some|any|every)body\b", re.IGNORECASE),
    re.compile(r"\b[Ww]hat (?:is|was|are|were) (?!checked\b|measured\b)\w+"),
    re.compile(r"\bso (?:many|much)\b(?! (?:that|as)\b)", re.IGNORECASE),
    re.compile(r"\bOf (?:that|those|these|it|them|what|all)\b|\bof that(?=[.,;:)]|$)"),
    re.compile(r"\b(?:is|are|was|were) asked\b"),
)
AFTER_PERSON = re.compile(rf"\b{PERSON}\s*,?\s*$", re.IGNORECASE)


def calques_in(line: str, before: str) -> list[str]:
    """`before` ends with the line before: a person may stand there."""
    found = []
    for pattern in CALQUES:
        for match in pattern.finditer(line):
            is_who = match[0].lower().startswith("who")
            if is_who and AFTER_PERSON.search(f"{before.strip()} {line[: match.start()]}"):
                continue
            found.append(match[0])
    return found


def check_calques(root: Path, files: list[str]) -> Iterator[Finding]:
    for file in files:
        before = ""
        for number, line in enumerate(prose(file, read(root, file)), 1):
            if not line.startswith("#") or not file.endswith(".md"):
                for calque in calques_in(line, before):
                    yield Finding("calques", file, number, f'"{calque}": name what acts')
            before = line


# ---- Terms.

# Bold words that are no terms: the subject of a paragraph, or emphasis.
NO_TERMS = {
    *("always", "earlier", "instruments", "it", "lazily", "locked", "mappings", "never", "next", "no", "not", "pace"),
    *("realloc", "sizes", "system", "taken"),
}
BOLD = re.compile(r"\*\*([^*]+)\*\*")
ARTICLES = ("a", "an", "the")


def word_stems(word: str) -> set[str]:
    """The forms under which the glossary may have a word: carving is in it as carve, spans as span."""
    stems = {word, word.removesuffix("s"), word.removesuffix("es")}
    if word.endswith("ing"):
        stems |= {word[:-3], f"{word[:-3]}e"}
    return stems


def glossary_terms(glossary: str) -> set[str]:
    """The first cells of its tables; a cell may have several terms."""
    terms: set[str] = set()
    for line in glossary.splitlines():
        cell = line.split("|")[1].strip().lower().replace("`", "") if line.startswith("|") else ""
        if cell and cell != "term" and not cell.startswith("--"):
            terms |= {term.strip() for term in cell.split(",")}
    return terms


def is_defined(phrase: list[str], terms: set[str]) -> bool:
    """Whether the phrase is a term, or begins or ends with one: "an old superslab", "spans that move"."""
    for length in range(len(phrase), 0, -1):
        for words in (phrase[:length], phrase[-length:]):
            rest, last = words[:-1], words[-1]
            if any(" ".join([*rest, stem]) in terms for stem in word_stems(last)):
                return True
    return False


def term_of(bold: str) -> list[str]:
    """The words that may be a term; none of a sentence, a number or a question."""
    words = bold.lower().rstrip(".:,").split()
    owner = next((i for i, word in enumerate(words) if word.endswith("'s")), None)
    if owner is not None and len(words) <= 4:
        words = [*words[:owner], words[owner].removesuffix("'s")]
    while words and words[0] in ARTICLES:
        words = words[1:]
    is_term = 0 < len(words) <= 3 and all(re.fullmatch(r"[a-z-]+", word) for word in words)
    return words if is_term and words[0] not in ("what", "when", "why", "how", "where") else []


def check_terms(root: Path, _files: list[str]) -> Iterator[Finding]:
    terms = glossary_terms(read(root, "docs/glossary.md"))
    for file in ("docs/design.md", "src/README.md"):
        for number, line in enumerate(without_code(read(root, file)), 1):
            for bold in BOLD.findall(line):
                words = term_of(bold)
                if words and NO_TERMS.isdisjoint(words) and not is_defined(words, terms):
                    yield Finding("terms", file, number, f"**{bold}** is not in docs/glossary.md")


# ---- Names.

IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def old_name_in(identifier: str) -> str | None:
    padded = f"_{identifier.lower()}_"
    return next((name for name in OLD_NAMES if f"_{name}_" in padded or f"_{name}s_" in padded), None)


def check_names(root: Path, files: list[str]) -> Iterator[Finding]:
    for file in files:
        if not file.startswith("src/") or not file.endswith(C_SUFFIXES) or file in LISTS_OF_OLD_NAMES:
            continue
        name = old_name_in(Path(file).stem)
        if name:
            yield Finding("names", file, 1, f"the file's name has the old name {name}")
        text = C_TOKEN.sub(lambda found: "\n" * found[0].count("\n"), read(root, file))
        for number, line in enumerate(text.splitlines(), 1):
            for identifier in IDENTIFIER.findall(line):
                if old_name_in(identifier):
                    yield Finding("names", file, number, f"{identifier} has the old name {old_name_in(identifier)}")


# ---- Figures.

DOCUMENTS = ("README.md", "docs/design.md")
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


def check_figures(root: Path, _files: list[str]) -> Iterator[Finding]:
    evidence = collect_evidence(root)
    for file in DOCUMENTS:
        for number, line in enumerate(without_code(read(root, file)), 1):
            for digits, unit in figures_in(line):
                if not evidence.holds(digits, unit):
                    figure = f"{digits} {unit}".strip()
                    yield Finding("figures", file, number, f"{figure}: no note, result, test or constant has it")


# ---- Words.

# As `wc -w` counts them. Detail belongs to the heads of the headers that the page names.
MOST_WORDS = {"docs/design.md": 2500}


def check_words(root: Path, _files: list[str]) -> Iterator[Finding]:
    for file, most in MOST_WORDS.items():
        words = len(read(root, file).split())
        if words > most:
            yield Finding("words", file, 1, f"{words} words, at most {most}")


CHECKS = {
    "columns": check_columns,
    "calques": check_calques,
    "terms": check_terms,
    "names": check_names,
    "figures": check_figures,
    "words": check_words,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1], help="the checkout")
    parser.add_argument("--strict", action="store_true", help="all files have to be clean")
    parser.add_argument("--list", action="store_true", help="show findings that do not fail, too, with counts by file")
    parser.add_argument("checks", nargs="*", metavar="check", help=f"some of: {', '.join(CHECKS)}")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.checks if name not in CHECKS]
    if unknown:
        parser.error(f"no check {unknown[0]}: {', '.join(CHECKS)}")
    files = written_files(arguments.root)
    errors = 0
    for name in arguments.checks or CHECKS:
        findings = list(CHECKS[name](arguments.root, files))
        for finding in findings:
            fails = arguments.strict or is_below(finding.file, CLEAN[name])
            errors += fails
            if fails or arguments.list:
                print(f"{finding.file}:{finding.line}: {finding.text}")
        left = Counter(finding.file for finding in findings if not is_below(finding.file, CLEAN[name]))
        if arguments.list:
            for file, count in left.most_common():
                print(f"  {count:4d} {name} {file}")
        if left and not arguments.strict:
            print(f"language: {name}: {sum(left.values())} in {len(left)} files that need not be clean yet")
    print(f"language: {f'{errors} errors' if errors else 'ok'}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
