"""Tables of Markdown for the generated documents."""

from __future__ import annotations


def table(header: list[str], rows: list[list[str]]) -> str:
    """A table. Vertical bars in cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
