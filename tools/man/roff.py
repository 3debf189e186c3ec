"""The few words of roff that the man pages are made of."""

from __future__ import annotations

import re
from typing import Iterable, Iterator

MARK = '.\\" Written by tools/generate_man.py (make format).'


def roff(text: str) -> str:
    """Plain text, with code in backquotes, as a line of roff."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", text)
    return f"\\&{text}" if text.startswith((".", "'")) else text


def bold(text: str) -> str:
    return f"\\fB{roff(text)}\\fR"


def head(title: str, section: int, version: str, part: str) -> list[str]:
    """The first lines of a page. It has no date: the page of the same sources is the same."""
    return [MARK, f'.TH {roff(title.upper())} {section} "" "hakmem {version}" "{part}"']


def name(title: str, summary: str) -> list[str]:
    """What `man -k` and `whatis` find."""
    return [".SH NAME", f"{roff(title)} \\- {roff(summary)}"]


def paragraphs(text: str) -> Iterator[str]:
    """Text whose paragraphs stand between empty lines."""
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text.strip())):
        yield from (".PP",) if number else ()
        yield roff(" ".join(paragraph.split()))


def items(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Names in bold, and what each means."""
    for word, meaning in rows:
        yield from (".TP", bold(word), roff(meaning))


def see_also(*pages: str) -> list[str]:
    """References such as hakmem(1), in the order of their sections."""
    ordered = sorted(pages, key=lambda page: (page[-2], page))
    return [".SH SEE ALSO", ",\n".join(re.sub(r"^(.*)(\(\d\))$", _reference, page) for page in ordered)]


def _reference(match: re.Match[str]) -> str:
    return f"{bold(match[1])}{match[2]}"


def page(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"
