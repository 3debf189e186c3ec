"""`hakmem symbolize`: names for the calls in the reports of a log."""

from __future__ import annotations

import json
import sys
from typing import List, Optional, Tuple

import click

from hakmem import bounded
from hakmem.debug_dir import debug_dir_option
from hakmem.errors import Failure, escaped, say
from hakmem.profile.log import named, names_of
from hakmem.schemas import SCHEMAS

_MOST_BYTES = 1 << 30
_ADVICE = ": give the part that has the reports"


@click.command()
@debug_dir_option
@click.option("--json", "is_json", is_flag=True, help="Print the places and their names as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="No notes.")
@click.argument("file", required=False, metavar="[FILE]")
def symbolize(folders: Tuple[str, ...], is_json: bool, quiet: bool, file: Optional[str]) -> None:
    """Print FILE, or stdin, with names behind the addresses of hakmem's reports.

    The reports of guards and of crashes have them, as `path+0x1234`. The named files must be on this machine.
    """
    lines = _lines(_read(file))
    names, notes = names_of(lines, folders)
    if is_json:
        places = [
            {
                "module": path,
                "offset": f"{offset:#x}",
                "functions": [{"name": one.function, "file": one.file, "line": one.line} for one in found],
            }
            for (path, offset), found in names.items()
        ]
        click.echo(json.dumps({"schema": SCHEMAS["symbolize"], "places": places}, indent=1))
    else:
        for line in lines:
            for part in named(line, names):
                click.echo(_shown(part))
    for note in () if quiet else notes:
        say(f"note: {note}")


def _lines(text: str) -> List[str]:
    """Of a log, whose lines may have the other characters that end a line for Python."""
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


def _shown(line: str) -> str:
    """The log's own line, with its tabs. Other control characters must not reach a terminal."""
    return "\t".join(map(escaped, line.split("\t")))


def _read(file: Optional[str]) -> str:
    if file is None or file == "-":
        if sys.stdin is None:
            raise Failure("cannot read standard input: it is closed")
        data = bounded.read_whole(sys.stdin.buffer, "standard input", _MOST_BYTES, _ADVICE)
    else:
        data = bounded.read_file(file, _MOST_BYTES, _ADVICE)
    return data.decode("utf-8", "surrogateescape")
