"""hakmem(3): the functions of include/hakmem/hakmem.h with their comments, and the figures of its structs."""

from __future__ import annotations

import re
from typing import Iterator, NamedTuple

from man.roff import bold, head, items, name, page, paragraphs, roff, see_also

PART = "Library Functions"
SECTION = re.compile(r"^/\* ---- (.*?)\.? -+ \*/$", re.MULTILINE)
# A comment, and the declarations right behind it.
DOCUMENTED = re.compile(r"^/\*(?!\s*----)((?:[^*]|\*(?!/))*)\*/\n((?:HAKMEM_EXPORT (?:[^;]*);\n)+)", re.MULTILINE)
STRUCT = re.compile(r"^typedef struct \{\n(.*?)^\} (hakmem_\w+);", re.MULTILINE | re.DOTALL)
# A field, with its comment on the line before or behind it.
FIELD = re.compile(r"(?:/\*((?:[^*]|\*(?!/))*)\*/\s*)?uint64_t (\w+);(?:[ \t]*/\*((?:[^*]|\*(?!/))*)\*/)?")
EARLIER = "the earlier name of"


class Entry(NamedTuple):
    """Functions that one comment explains."""

    prototypes: list[str]
    text: str


def interface_page(header: str, version: str) -> str:
    return page(_lines(header, version))


def function_names(header: str) -> list[str]:
    """Every public function, in the header's order."""
    return re.findall(r"^HAKMEM_EXPORT [^;(]*?\b(hakmem_\w+)\(", header, re.MULTILINE)


def _lines(header: str, version: str) -> Iterator[str]:
    yield from head("hakmem", 3, version, PART)
    # The functions' own names, so that man -k finds each.
    yield from name(", ".join(("hakmem", *function_names(header))), "the interface of the hakmem memory allocator")
    yield from (".SH SYNOPSIS", ".nf", bold("#include <hakmem/hakmem.h>"), ".sp")
    yield from (bold("cc program.c $(pkg-config --cflags --libs hakmem)"), ".fi")
    yield ".SH DESCRIPTION"
    introduction = _prose(re.match(r"/\*(.*?)\*/", header, re.DOTALL)[1])  # type: ignore[index]
    yield from paragraphs(introduction.partition("\n\n")[2])
    parts = SECTION.split(header)
    for title, text in zip(parts[1::2], parts[2::2]):
        yield f'.SH "{roff(title.upper())}"'
        for number, entry in enumerate(_entries(text)):
            yield from (".PP",) if number else ()
            yield from (".nf", *(bold(prototype) for prototype in entry.prototypes), ".fi", ".RS 4")
            yield from paragraphs(entry.text)
            yield ".RE"
    yield ".SH FIGURES"
    yield "The fields of the structs, all of the type \\fBuint64_t\\fR."
    for body, struct in STRUCT.findall(header):
        yield f".SS {struct}"
        yield from items(_fields(body))
    yield from see_also("hakmem(1)", "malloc(3)", "hakmem-options(7)")


def _entries(text: str) -> Iterator[Entry]:
    for comment, declarations in DOCUMENTED.findall(text):
        prototypes = [
            " ".join(re.sub(r"HAKMEM_EXPORT |HAKMEM_NOEXCEPT|HAKMEM_READS_NOT\(\d\)", "", one).split())
            .replace(" ;", ";")
            .strip()
            + ";"
            for one in declarations.split(";")[:-1]
        ]
        yield Entry(prototypes, _prose(comment))


def _fields(body: str) -> Iterator[tuple[str, str]]:
    for before, field, behind in FIELD.findall(body):
        meaning = " ".join(_prose(behind or before).split())
        if not meaning.startswith(EARLIER):
            yield field, meaning[:1].upper() + meaning[1:].rstrip(".") + "."


def _prose(comment: str) -> str:
    """A comment's text without the stars of its lines; headers write no backquotes."""
    return re.sub(r"^[ \t]*\* ?", "", comment, flags=re.MULTILINE).strip()
