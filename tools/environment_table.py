#!/usr/bin/env python3
"""Runs tests/preload/test_environment.py whole, and writes its rows as docs/tested-environments.md.

    tools/environment_table.py [--build build/release] [--write FILE]

Each test records its row's figures (record_property); pytest hands them on in its JUnit file. Without --write the
document goes to stdout. Ends with 1 when a row fails, which the table shows.
"""

from __future__ import annotations

import argparse
import datetime
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
import xml.etree.ElementTree as xml
from dataclasses import dataclass
from pathlib import Path

from real_programs import machine
from under_allocator import REPOSITORY

TESTS = REPOSITORY / "tests" / "preload" / "test_environment.py"
MOST = 1.2  # times glibc's memory, that a row may take without a reason

HEADER = """# Tested environments

One program allocates in every band of sizes, in one thread and in four, and verifies every byte. Each row puts it into
an environment, once under glibc's malloc and once under hakmem. A result is the same when both checksums are. Memory is
the peak of the program (ru_maxrss), in KiB. The last column names tests that verify more.

`make environments` runs the rows at full numbers of threads and writes this file. `make test` runs them too, with fewer
threads. A row fails above 1.2 times glibc's memory, unless its reason is stated below the table.

"""


@dataclass(frozen=True)
class Row:
    name: str
    result: str
    glibc_kib: int
    hakmem_kib: int
    also: str
    reason: str

    def ratio(self) -> float:
        return self.hakmem_kib / self.glibc_kib if self.glibc_kib else 0.0

    def line(self) -> str:
        figures = f"{self.glibc_kib} | {self.hakmem_kib} | {self.ratio():.2f}" if self.glibc_kib else " |  | "
        also = ", ".join(f"`{name}`" for name in self.also.split(", ") if name)
        return f"| {self.name} | {self.result} | {figures} | {also} |\n"


def row_of(case: xml.Element) -> Row:
    properties = {one.get("name", ""): one.get("value", "") for one in case.iter("property")}
    result = "same"
    if case.find("skipped") is not None:
        result = "left out"
    elif case.find("failure") is not None or case.find("error") is not None:
        result = "fails"
    return Row(
        properties.get("row", case.get("name", "")),
        result,
        int(properties.get("glibc_kib", 0)),
        int(properties.get("hakmem_kib", 0)),
        properties.get("also", ""),
        properties.get("reason", ""),
    )


def measure(build: Path) -> list[Row]:
    variables = {**os.environ, "HAKMEM_TEST_SCALE": "1", "HAKMEM_TEST_BUILD_DIR": str(build.resolve())}
    with tempfile.TemporaryDirectory(prefix="hakmem-environment-table-") as folder:
        report = Path(folder) / "report.xml"
        options = ["-q", "-p", "no:cacheprovider", "-o", "junit_family=xunit1", f"--junitxml={report}"]
        subprocess.run([sys.executable, "-m", "pytest", *options, TESTS], env=variables, stdout=sys.stderr, check=False)
        return [row_of(case) for case in xml.parse(report).iter("testcase")]


def wrapped(item: str) -> str:
    return textwrap.fill(item, 120, subsequent_indent="  ", break_on_hyphens=False) + "\n"


def document(rows: list[Row]) -> str:
    measured = [row for row in rows if row.glibc_kib]
    ratios = [row.ratio() for row in measured]
    same, lean = sum(row.result == "same" for row in rows), sum(one <= MOST for one in ratios)
    lines = [
        HEADER,
        f"- Machine: {machine()}.\n",
        f"- Date: {datetime.date.today()}.\n",
        f"- {same} of {len(rows)} rows gave the same result; {lean} of {len(ratios)} took at most "
        f"{MOST} times glibc's memory.\n",
        f"- Memory is {statistics.geometric_mean(ratios):.2f} times glibc's in the geometric mean, "
        f"{max(ratios):.2f} at the most.\n\n",
        "| environment | result | glibc | hakmem | times | see also |\n| --- | --- | --- | --- | --- | --- |\n",
        *(row.line() for row in rows),
    ]
    reasons = [wrapped(f"- {row.name}: {row.reason}.") for row in rows if row.reason]
    if reasons:
        lines += [f"\nRows that may be above {MOST} times:\n\n", *reasons]
    return "".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="The environment matrix as a document.")
    parser.add_argument("--build", type=Path, default=REPOSITORY / "build" / "release")
    parser.add_argument("--write", type=Path, metavar="FILE", help="the document; else it goes to stdout")
    arguments = parser.parse_args()
    rows = measure(arguments.build)
    text = document(rows)
    if arguments.write is not None:
        arguments.write.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 1 if any(row.result == "fails" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
