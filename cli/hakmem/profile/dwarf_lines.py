"""The line table of one unit: which line of which file an address comes from."""

from __future__ import annotations

import os
from bisect import bisect_right
from typing import Any, Dict, List, Sequence, Tuple

_Row = Tuple[int, int, int]  # address, file, line


class LineTable:
    """Rows in order of address, a sequence of code after the other. `unit` is pyelftools'."""

    def __init__(self, dwarf: Any, unit: Any) -> None:
        self._program = dwarf.line_program_for_CU(unit)
        top = unit.get_top_DIE().attributes
        self._folder = _text(top["DW_AT_comp_dir"].value) if "DW_AT_comp_dir" in top else ""
        self._names: Dict[int, str] = {}
        self._sequences: List[List[_Row]] = []
        self._starts: List[int] = []

    def find(self, addresses: Sequence[int]) -> Dict[int, Tuple[str, int]]:
        """File and line of each address that the table covers."""
        if self._program is None:
            return {}
        if not self._sequences:
            self._read()
        found: Dict[int, Tuple[str, int]] = {}
        for address in addresses:
            index = bisect_right(self._starts, address) - 1
            if index < 0 or address >= self._sequences[index][-1][0]:
                continue
            rows = self._sequences[index]
            _, file, line = rows[bisect_right(rows, (address, 1 << 62, 0)) - 1]
            found[address] = self.file(file), line
        return found

    def _read(self) -> None:
        sequences: List[List[_Row]] = []
        rows: List[_Row] = []
        for entry in self._program.get_entries():
            state = entry.state
            if state is None:
                continue
            rows.append((state.address, state.file, state.line))
            if state.end_sequence:
                if rows[0][0] and rows[-1][0] > rows[0][0]:  # from 0: code that the linker threw away
                    sequences.append(rows)
                rows = []
        self._sequences = sorted(sequences)
        self._starts = [rows[0][0] for rows in self._sequences]

    def file(self, number: int) -> str:
        """The path of a file by its number in the table, empty when it has none."""
        if self._program is None:
            return ""
        if number not in self._names:
            self._names[number] = self._path(number)
        return self._names[number]

    def _path(self, number: int) -> str:
        """Version 5 counts files and folders from 0; before, files from 1, and folder 0 is the unit's own."""
        header = self._program.header
        modern = header["version"] >= 5
        files, folders = header["file_entry"], header["include_directory"]
        index = number if modern else number - 1
        if not 0 <= index < len(files):
            return ""
        entry = files[index]
        folder = entry["dir_index"] - (0 if modern else 1)
        base = _text(folders[folder]) if 0 <= folder < len(folders) else ""
        return os.path.normpath(os.path.join(self._folder, base, _text(entry["name"])))


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
