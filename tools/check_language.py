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
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from figure_evidence import collect_evidence, figures_in
from prose import C_SUFFIXES, C_TOKEN, prose, without_code

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
