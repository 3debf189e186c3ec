"""Fits tables into the width of a terminal: no figure is broken in two. Files and pipes get lines of one width."""

from __future__ import annotations

from typing import List, Sequence, Tuple

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from hakmem.errors import escaped
from hakmem.folding import columns, fold, known_columns

__all__ = ["columns", "console", "known_columns", "narrowed", "print_table", "print_words"]

_WIDTH_OF_FILES = 110
# The room below which the last column of a table of lines, a name, takes that of other columns.
_LEAST_NAME = 18


def console(width_of_files: int = _WIDTH_OF_FILES) -> Console:
    """Stdout. A file or pipe gets lines of one width."""
    return Console(width=columns(width_of_files), highlight=False)


def print_words(out: Console, text: str, style: str = "", indent: str = "") -> None:
    """Prints a text, folded at words; the lines after the first begin with `indent`."""
    for line in fold(escaped(text), out.width, indent):
        out.print(Text(line, style=style), soft_wrap=True)


def print_table(out: Console, table: Table, droppable: Sequence[int] = ()) -> None:
    """Leaves out columns, in this order, until it fits. A table that still does not becomes a list: a line for each
    figure."""
    titles = [column.header for column in table.columns]
    for index in droppable:
        if _fits(out, table):
            break
        _drop(table, titles[index])
    if _fits(out, table):
        out.print(table)
    else:
        _print_list(out, table)


def _fits(out: Console, table: Table) -> bool:
    """Columns of a fixed width have titles that wrap."""
    return Measurement.get(out, out.options.update(max_width=10_000), table).maximum <= out.width


def _drop(table: Table, title: object) -> None:
    """Titles that are droppable are unique."""
    table.columns = [column for column in table.columns if column.header is not title]
    for index, column in enumerate(table.columns):
        column._index = index  # the table's own numbering


def _print_list(out: Console, table: Table) -> None:
    """The first cell of each row as a head, the others below it with their titles."""
    rows = zip(*(list(column.cells) for column in table.columns))
    titles = [_words(column.header) for column in table.columns]
    for number, (head, *cells) in enumerate(rows):
        if number:
            out.print()
        out.print(_text(head), soft_wrap=True)
        for title, cell in zip(titles[1:], cells):
            text = _text(cell)
            # A word without a title that says nothing: a dash.
            if text.plain.strip(" –" if not title else None):
                out.print(Text(f"  {title}{': ' if title else ''}").append_text(text), soft_wrap=True)


def _words(header: object) -> str:
    return " ".join(str(header).split())


def _text(cell: object) -> Text:
    return cell.copy() if isinstance(cell, Text) else Text(str(cell))


def narrowed(lines: List[str], droppable: Sequence[Tuple[int, int]], name_at: int) -> List[str]:
    """The same for a table of lines, whose last column is a name that begins at `name_at`. `droppable` are the places
    of columns, each as it is where those before it are gone; the first line is no row."""
    width = known_columns()
    if width is None or all(len(line) <= width for line in lines):
        return lines
    head, *rows = lines
    told = fold(head, width, "  ")
    for start, end in droppable:
        if width - name_at >= _LEAST_NAME:
            break
        rows = [row[:start] + row[end:] if len(row) > name_at else row for row in rows]
        name_at -= end - start
    return [*told, *(row if len(row) <= width else f"{row[: width - 1]}…" for row in rows)]
