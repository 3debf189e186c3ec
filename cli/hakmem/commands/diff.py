"""`hakmem diff`: what grew between two heap profiles, or between two statistics snapshots."""

from __future__ import annotations

import json
from typing import Any, List, Optional, Tuple

import click

from hakmem import fitting, next_step
from hakmem.debug_dir import debug_dir_option
from hakmem.errors import escaped, say
from hakmem.metrics import size
from hakmem.output import end_with, reserve, write_each
from hakmem.profile.changes import Change, Section, load, of_profiles, of_snapshots, remarks
from hakmem.profile.debug_files import DEBUG_FOLDERS, Search
from hakmem.profile.model import BY, Profile
from hakmem.profile.symbolize import Symbolizer
from hakmem.profile.top import shortened
from hakmem.schemas import SCHEMAS

# The places of the columns before and after, from right to left, and of the name.
_DROPPABLE = ((27, 40), (14, 27))
_NAME_AT = 42


@click.command()
@click.option(
    "--by", type=click.Choice(list(BY)), default="inuse", help="Of profiles: compare live bytes, or all allocated ones."
)
@click.option(
    "--group",
    type=click.Choice(["stack", "function"]),
    default="stack",
    help="Of profiles: a row for each stack (default) or function.",
)
@click.option("--rows", type=click.IntRange(1), default=20, metavar="N", help="Rows of a section; default 20.")
@debug_dir_option
@click.option("--json", "json_file", metavar="FILE", help="Write all rows as JSON; - is stdout, instead of the text.")
@click.argument("before_name", metavar="BEFORE")
@click.argument("after_name", metavar="AFTER")
def diff(
    by: str,
    group: str,
    rows: int,
    folders: Tuple[str, ...],
    json_file: Optional[str],
    before_name: str,
    after_name: str,
) -> None:
    """Show what grew from BEFORE to AFTER: two heap profiles, or two statistics snapshots (JSON)."""
    before, after = load(before_name), load(after_name)
    for remark in remarks(before, after):
        say(f"note: {remark}")
    if isinstance(before, Profile):
        _symbolize([before, after], folders)
        sections = of_profiles(before, after, BY[by], group)
    else:
        sections = of_snapshots(before, after)
    with reserve(json_file) as (output,):
        kind = "profile" if isinstance(before, Profile) else "statistics"
        found = _document(kind, before_name, after_name, sections)
        failures = write_each([(output, lambda: json.dumps(found, indent=1) + "\n")])
    if json_file != "-":
        text = "\n".join(escaped(line) for section in sections for line in _lines(section, rows))
        click.echo(text or "nothing changed")
        next_step.tell(f"hakmem {next_step.words(_next(before, after_name, by, folders))}")
    end_with(failures)


def _next(before: Any, after_name: str, by: str, folders: Tuple[str, ...]) -> List[str]:
    if not isinstance(before, Profile):
        return ["explain", next_step.file(after_name)]
    kept = next_step.options({"--by": by if by != "inuse" else None, "--debug-dir": folders})
    return ["profile", "--input", after_name, *kept, "--flame", "heap.svg"]


def _symbolize(profiles: List[Profile], folders: Tuple[str, ...]) -> None:
    for profile in profiles:
        with Symbolizer(Search(debug_folders=(*folders, *DEBUG_FOLDERS), time_nanos=profile.began_nanos)) as symbolizer:
            symbolizer.symbolize(profile)
        for note in symbolizer.notes.values():
            say(f"note: {note}")


def _document(kind: str, before: str, after: str, sections: List[Section]) -> Any:
    return {
        "schema": SCHEMAS["diff"],
        "kind": kind,
        "before": before,
        "after": after,
        "sections": [
            {
                "name": section.name,
                "unit": section.unit,
                **({"before": section.before, "after": section.after} if section.has_total else {}),
                "rows": [
                    {"name": row.name, "before": row.before, "after": row.after, "change": row.change, **row.detail}
                    for row in section.rows
                ],
            }
            for section in sections
        ],
    }


def _lines(section: Section, most: int) -> List[str]:
    """The rows that changed most, growth first."""
    kept = sorted(sorted(section.rows, key=lambda row: -abs(row.change))[:most], key=lambda row: -row.change)
    head = section.name
    if section.has_total:
        grown = section.after - section.before
        head += f": {_figure(section.before, section.unit)} → {_figure(section.after, section.unit)}"
        head += f", {_signed(grown, section.unit)}"
    lines = fitting.narrowed([head, *(_line(row, section.unit) for row in kept)], _DROPPABLE, _NAME_AT)
    if len(section.rows) > len(kept):
        lines.append(f"  and {len(section.rows) - len(kept):,} rows that changed less")
    return [*lines, ""]


def _line(row: Change, unit: str) -> str:
    figures = f"{_figure(row.before, unit):>12} {_figure(row.after, unit):>12}"
    return f"{_signed(row.change, unit):>14} {figures}  {shortened(row.name)}"


def _figure(value: int, unit: str) -> str:
    if unit != "bytes":
        return f"{value:,}"
    return size(value)


def _signed(value: int, unit: str) -> str:
    return f"{'+' if value >= 0 else '-'}{_figure(abs(value), unit)}"
