"""docs/experiments/README.md leads to each note, under the note's own question."""

from __future__ import annotations

import re
from pathlib import Path

NOTES = Path(__file__).resolve().parents[2] / "docs" / "experiments"


def test_each_note_has_one_row_with_its_date_and_question() -> None:
    index = (NOTES / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\S+) \| \[(.+)\]\((\S+)\) \|$", index, re.MULTILINE)
    notes = sorted(note for note in NOTES.glob("*.md") if note.name != "README.md")
    assert notes
    assert sorted(name for _, _, name in rows) == [note.name for note in notes]
    for date, question, name in rows:
        assert name.startswith(date), name
        heading = (NOTES / name).read_text(encoding="utf-8").splitlines()[0]
        assert heading == f"# {question}", name
