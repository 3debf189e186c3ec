"""hakmem-options(7): the variables of src/policy/option.def and old_option.def."""

from __future__ import annotations

from pathlib import Path
from typing import Iterator

from man.roff import bold, head, items, name, page, paragraphs, roff, see_also
from option_tables import old_option_rows, option_rows

NOTES = (
    "hakmem reads these environment variables once, when a program starts. An invalid value, and a `HAKMEM_` name that "
    "is no option, give one line on stderr each; the default stays. Programs that run with more rights than their "
    "caller (setuid, file capabilities) ignore all of them.",
    "Sizes are whole numbers of bytes; the suffixes K, M, G and T stand for powers of 1,024. Switches, and choices "
    "that have `on` and `off`, also take 1, 0, yes, no, true and false. Words may be in upper or lower case.",
)


def options_page(policy: Path, version: str) -> str:
    return page(_lines(policy, version))


def _lines(policy: Path, version: str) -> Iterator[str]:
    yield from head("hakmem-options", 7, version, "Miscellaneous")
    yield from name("hakmem-options", "environment variables of the hakmem memory allocator")
    yield from (".SH SYNOPSIS", "\\fBHAKMEM_\\fR\\fINAME\\fR\\fB=\\fR\\fIVALUE\\fR \\fIPROGRAM\\fR")
    yield ".br"
    yield "\\fBhakmem run \\-\\-set\\fR \\fIname\\fR\\fB=\\fR\\fIvalue\\fR \\fB\\-\\-\\fR \\fIPROGRAM\\fR"
    yield ".SH DESCRIPTION"
    yield from paragraphs("\n\n".join(NOTES))
    yield ".SH OPTIONS"
    definitions = (policy / "option.def").read_text(encoding="utf-8")
    for variable, values, default, meaning in option_rows(definitions, (policy / "price.h").read_text()):
        yield from (".TP", bold(variable.strip("`")), roff(meaning), ".br")
        yield f"Values: {roff(values)}. Default: {roff(default)}."
    yield ".SH EARLIER NAMES"
    old = old_option_rows((policy / "old_option.def").read_text(encoding="utf-8"))
    yield from items((variable.strip("`"), f"{meaning.rstrip('.')}.") for variable, meaning in old)
    yield from see_also("hakmem(1)", "hakmem-run(1)", "hakmem(3)", "ld.so(8)")
