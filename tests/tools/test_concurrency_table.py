"""Each atomic of src has a row in docs/concurrency.md, with the orders by which the code reads and writes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECTION = "## The atomics"
SUFFIXES = (".c", ".h")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")

# `_Atomic(type) name, name[count];` A star before the name makes it a pointer to an atomic that is declared elsewhere.
DECLARATION = re.compile(r"(typedef\s+|const\s+)?\b_Atomic\([^()]*\)\s*([^;()=]*)(.)")
# Where the atomics themselves are made.
OPERATIONS = "base/atomic.h"
ACCESS = re.compile(
    r"\bhk_(?:load|store|exchange|compare_exchange|add|sub|or|and|bump|publish)(?:_weak|_strong)?_"
    r"(?P<order>relaxed|acquire|release|acq_rel|once|in_turn)(?P<second>_load)?(?:_weak|_strong)?\(|"
    r"\batomic_\w+_explicit\(|\b__atomic_\w+\("
)
ORDER_OF = {"once": "acq_rel", "in_turn": "acq_rel"}
RAW_ORDER = re.compile(r"(?:memory_order_|__ATOMIC_)(relaxed|acquire|release|acq_rel)", re.IGNORECASE)


@dataclass(frozen=True)
class Atomic:
    """A declared atomic. `is_local` in one source file: its row names the module."""

    name: str
    module: str
    is_local: bool


@dataclass(frozen=True)
class Row:
    line: int
    tokens: tuple[str, ...]  # what the first cell has in backticks
    names: frozenset[str]  # the last identifier of each
    orders: str

    def is_about(self, name: str, module: str | None) -> bool:
        return name in self.names and (module is None or any(module in IDENTIFIER.findall(at) for at in self.tokens))


def last_identifier(expression: str) -> str:
    """`heap->state[i].active` is `active`; an index does not count."""
    while "[" in expression:
        shorter = re.sub(r"\[[^\[\]]*\]", "", expression)
        if shorter == expression:
            break
        expression = shorter
    found = IDENTIFIER.findall(expression)
    return found[-1] if found else ""


def read_rows(document: str) -> list[Row]:
    rows: list[Row] = []
    is_inside = False
    for number, line in enumerate(document.splitlines(), 1):
        if line.startswith("## "):
            is_inside = line == SECTION
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not is_inside or not line.startswith("|") or len(cells) != 4 or cells[0] in ("object", "---"):
            continue
        tokens = tuple(re.findall(r"`([^`]+)`", cells[0]))
        names = frozenset(last_identifier(token) for token in tokens)
        rows.append(Row(number, tokens, names, f"{cells[2]} {cells[3]}"))
    return rows


def read_sources(src: Path) -> dict[str, str]:
    """The text of each file, without comments and with its lines kept."""
    texts = {}
    for file in sorted(path for path in src.rglob("*") if path.suffix in SUFFIXES):
        name = str(file.relative_to(src))
        if name != OPERATIONS:
            text = file.read_text(encoding="utf-8")
            texts[name] = COMMENT.sub(lambda comment: "\n" * comment.group().count("\n"), text)
    return texts


def declared(texts: dict[str, str]) -> tuple[set[Atomic], dict[str, set[str]]]:
    """The atomics, and for each file its pointers to atomics."""
    atomics: set[Atomic] = set()
    pointers: dict[str, set[str]] = {name: set() for name in texts}
    types: set[str] = set()

    def note(file: str, declarators: str) -> None:
        for declarator in declarators.split(","):
            name = last_identifier(declarator)
            if name and "*" in declarator:
                pointers[file].add(name)
            elif name:
                is_local = file.endswith(".c") and not name.startswith("hk_")
                atomics.add(Atomic(name, Path(file).stem, is_local))

    for file, text in texts.items():
        for found in DECLARATION.finditer(text):
            if (found[1] or "").startswith("typedef"):
                types.add(last_identifier(found[2]))
            elif "*" in found[2] or not found[1]:
                is_parameter = found[3] in "()" or ("*" in found[2] and "," in found[2])
                note(file, found[2].split(",")[0] if is_parameter else found[2])
    of_type = re.compile(rf"\b(?:{'|'.join(sorted(types)) or '-'})\b(?!\))\s*(\*?\s*[a-z]\w*)\s*[\[;=,)]")
    for file, text in texts.items():
        for found in of_type.finditer(text):
            if "typedef" not in text[text.rfind("\n", 0, found.start()) : found.start()]:
                note(file, found[1])
    return atomics, pointers


def argument(text: str, start: int) -> str:
    """The first argument of the call whose parenthesis is before `start`."""
    depth = 0
    for end in range(start, len(text)):
        if text[end] in "([":
            depth += 1
        elif text[end] in ")]":
            depth -= 1
        if depth < 0 or (depth == 0 and text[end] == ","):
            return text[start:end].strip()
    return text[start:]


def statement(text: str, start: int) -> str:
    return text[start : text.find(";", start)]


def is_alias(target: str, pointers: set[str]) -> bool:
    """Whether the target is a pointer to an atomic, or a call that returns one: what it points to has its row."""
    name, _, call = target.partition("(")
    if call:
        return name in pointers or ACCESS.match(target) is not None
    return "&" not in target and last_identifier(target) in pointers


def check_declarations(rows: list[Row], atomics: set[Atomic]) -> list[str]:
    errors = []
    for atomic in sorted(atomics, key=lambda one: (one.module, one.name)):
        if not any(row.is_about(atomic.name, atomic.module if atomic.is_local else None) for row in rows):
            of = f" of `{atomic.module}`" if atomic.is_local else ""
            errors.append(f"{atomic.module}: no row for `{atomic.name}`{of}")
    return errors


def check_accesses(rows: list[Row], texts: dict[str, str]) -> list[str]:
    atomics, pointers = declared(texts)
    names = {atomic.name for atomic in atomics}
    errors = []
    for file, text in texts.items():
        module = Path(file).stem
        for found in ACCESS.finditer(text):
            where = f"{file}:{text.count(chr(10), 0, found.start()) + 1}"
            target = argument(text, found.end())
            if found["second"]:  # hk_add_relaxed_load has the object behind another operand
                target = argument(text, found.end() + len(target) + 1)
            if is_alias(target, pointers[file]):
                continue
            name = last_identifier(target)
            if found["order"]:
                orders = {ORDER_OF.get(found["order"], found["order"])}
            else:
                orders = {order.lower() for order in RAW_ORDER.findall(statement(text, found.start()))}
            about = [row for row in rows if row.is_about(name, module)] or [
                row for row in rows if name in names and row.is_about(name, None)
            ]
            if not about and not found["order"]:  # of plain memory: the row names the module
                about = [row for row in rows if module in row.names]
            if not about:
                errors.append(f"{where}: no row for `{target}`")
                continue
            said = " ".join(row.orders for row in about)
            errors += [f"{where}: the row of `{name}` says nothing of {order}" for order in orders if order not in said]
    return errors


def check_rows(rows: list[Row], texts: dict[str, str]) -> list[str]:
    """Each identifier that a row names is there."""
    known = set(IDENTIFIER.findall(" ".join(texts.values()))) | {Path(file).stem for file in texts}
    known |= {part for file in texts for part in Path(file).parts}
    return [
        f"docs/concurrency.md:{row.line}: nothing is called `{name}`"
        for row in rows
        for token in row.tokens
        for name in IDENTIFIER.findall(token)
        if name not in known
    ]


def check(src: Path, document: str) -> list[str]:
    rows, texts = read_rows(document), read_sources(src)
    return check_declarations(rows, declared(texts)[0]) + check_accesses(rows, texts) + check_rows(rows, texts)


def test_each_atomic_has_its_row() -> None:
    assert check(ROOT / "src", (ROOT / "docs/concurrency.md").read_text(encoding="utf-8")) == []


SOURCE = """
typedef struct {
  _Atomic(bool) is_there;
  _Atomic(uint32_t *) first, last;
} pool_t;
static _Atomic(uint64_t) writer; /* hk_load_acquire(&comment) */
static void put(pool_t *pool, _Atomic(uint64_t) *place) {
  hk_store_release(&pool->is_there, true);
  (void)hk_load_relaxed(place);
  if (hk_publish_once(&pool->first, &none, made) && hk_load_relaxed(&pool[at[0]].last)) return;
  (void)atomic_fetch_add_explicit(&writer, 0, memory_order_acq_rel);
}
"""
ROWS = [
    "| `pool.is_there` of `thing` | any | release | the reader |",
    "| `first`, `last` of `thing` | any | compare-exchange, acq_rel; relaxed | each other |",
    "| `writer` of `thing` | any | acq_rel | itself |",
]


def check_text(tmp_path: Path, rows: list[str], source: str = SOURCE) -> list[str]:
    (tmp_path / "heap").mkdir()
    (tmp_path / "heap/thing.c").write_text(source, encoding="utf-8")
    table = ["| object | written by | order | partner |", "|---|---|---|---|", *rows]
    return check(tmp_path, "\n".join(["# Title", "| `no` | row | of | it |", SECTION, *table, "## End", "| `x` |"]))


def test_a_whole_table_passes(tmp_path: Path) -> None:
    assert check_text(tmp_path, ROWS) == []


@pytest.mark.parametrize(
    ("rows", "source", "error"),
    [
        (ROWS[:2], SOURCE, "thing: no row for `writer` of `thing`"),
        ([*ROWS[:2], "| `writer` of `pool_t` | any | acq_rel | itself |"], SOURCE, "no row for `writer` of `thing`"),
        ([ROWS[0].replace("release", "relaxed"), *ROWS[1:]], SOURCE, "the row of `is_there` says nothing of release"),
        ([ROWS[0], ROWS[1].replace("acq_rel", "?"), ROWS[2]], SOURCE, "the row of `first` says nothing of acq_rel"),
        ([*ROWS[:2], ROWS[2].replace("acq_rel", "?")], SOURCE, "the row of `writer` says nothing of acq_rel"),
        (ROWS, SOURCE.replace("(place)", "(&other->seen)"), "heap/thing.c:9: no row for `&other->seen`"),
        ([*ROWS, "| `gone` of `thing` | any | relaxed | none |"], SOURCE, "nothing is called `gone`"),
    ],
)
def test_each_gap_is_named(tmp_path: Path, rows: list[str], source: str, error: str) -> None:
    assert error in "\n".join(check_text(tmp_path, rows, source))
