"""Pages of the documents as plain text, for `hakmem help`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, Iterator, List, Optional

from hakmem.folding import columns, fold

# Copies of pages in docs/, which tools/generate_docs.py keeps up to date.
_FOLDER = Path(__file__).resolve().parent / "pages"
_KINDS = "errors"
_SUFFIX = ".md"
_WIDTH = 100


def names() -> List[str]:
    """The pages."""
    return sorted(path.stem for path in _FOLDER.glob(f"*{_SUFFIX}"))


def kinds() -> List[str]:
    """The kinds of error messages."""
    return list(sections(_read(_KINDS)))


def of_topic(topic: str) -> Optional[str]:
    """A kind's section, or a page by its name; `.md` behind it tells it from a command of that name."""
    found = sections(_read(_KINDS)).get(topic)
    if found is None and topic.removesuffix(_SUFFIX) in names():
        found = _read(topic.removesuffix(_SUFFIX))
    return plain(found) if found is not None else None


def _read(name: str) -> str:
    return (_FOLDER / f"{name}{_SUFFIX}").read_text(encoding="utf-8")


def sections(page: str) -> Dict[str, str]:
    """The sections of the page that have the name of a kind: one word."""
    pieces = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    found = (piece.partition("\n") for piece in pieces)
    return {title: f"{title}\n{text}".rstrip() for title, _, text in found if " " not in title}


def plain(text: str) -> str:
    """Links within the page and to other pages as their words; `hakmem help` leads to the former."""
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    in_sections = "|".join(map(re.escape, sections(text)))
    text = re.sub(rf"\[([^]]+)\]\(#({in_sections or '(?!)'})\)", r"\1 (hakmem help \2)", text)
    text = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text)
    width = columns(_WIDTH)
    return "\n\n".join("\n".join(_fitted(piece, width)) for piece in re.split(r"\n{2,}", text.strip("\n")))


def _fitted(paragraph: str, width: int) -> Iterator[str]:
    """Code and titles keep their lines where they fit; a row of a table is a paragraph."""
    lines = paragraph.splitlines()
    if paragraph.startswith("|"):
        yield from _table(lines, width)
    elif paragraph.startswith(("    ", "#", "```")):
        for line in (re.sub(r" {2,}#", "  #", one) for one in lines if not one.startswith("```")):
            margin = line[: len(line) - len(line.lstrip())]
            yield from fold(line.lstrip(), width, f"{margin}  ", margin)
    else:
        for item in re.split(r"\n(?=- |\* |\d+\. )", paragraph):
            is_item = re.match(r"- |\* |\d+\. ", item) is not None
            yield from fold(" ".join(item.split()), width, "  " if is_item else "")


def _table(lines: List[str], width: int) -> Iterator[str]:
    """The first cell, then the others, with the titles that there are."""
    titles, _, *rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])] for line in lines]
    for row in rows:
        told = [f"{title}: {cell}" if title else cell for title, cell in zip(titles[1:], row[1:]) if cell]
        text = ": ".join([row[0], "; ".join(told)] if told else [row[0]])
        yield from fold(text.replace("\\|", "|"), width, "    ")
