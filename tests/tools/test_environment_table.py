"""tools/environment_table.py: each row of a JUnit file becomes a line, whether it passes, fails or is left out."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as xml
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import environment_table

PROPERTIES = """<properties><property name="row" value="3,000 threads"/><property name="glibc_kib" value="1000"/>
<property name="hakmem_kib" value="1500"/><property name="also" value="test_a, test_b::one"/>
<property name="reason" value="each has a heap"/></properties>"""


def row(inside: str) -> environment_table.Row:
    return environment_table.row_of(xml.fromstring(f'<testcase name="test_environment[x]">{inside}</testcase>'))


def test_a_row_that_passes() -> None:
    assert row(PROPERTIES).line() == "| 3,000 threads | same | 1000 | 1500 | 1.50 | `test_a`, `test_b::one` |\n"


def test_rows_that_fail_or_are_left_out() -> None:
    assert row(PROPERTIES + "<failure/>").line().startswith("| 3,000 threads | fails | 1000 | 1500 | 1.50 |")
    assert row("<skipped/>").line() == "| test_environment[x] | left out |  |  |  |  |\n"
    assert row("<error/>").result == "fails"


def test_the_sums() -> None:
    text = environment_table.document([row(PROPERTIES), row("<skipped/>")])
    assert "- 1 of 2 rows gave the same result; 0 of 1 took at most 1.2 times glibc's memory.\n" in text
    assert "1.50 times glibc's in the geometric mean, 1.50 at the most" in text
    assert text.endswith("Rows that may be above 1.2 times:\n\n- 3,000 threads: each has a heap.\n")
