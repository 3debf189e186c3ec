"""For all suites: a test that finds something not built is left out where a person runs it by hand, and fails where the
build runs it, which built everything before. Otherwise a file in another place would leave out a whole suite, which
would pass."""

from __future__ import annotations

import os
from typing import Generator

import pytest

OF_THE_BUILD = {"misuse", "preload", "tools", "bench", "cli"}


def is_run_by_the_build(item: pytest.Item) -> bool:
    is_whole = os.environ.get("HAKMEM_TEST_LIBC") != "musl"
    return is_whole and "HAKMEM_TEST_BUILD_DIR" in os.environ and item.path.parent.name in OF_THE_BUILD


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, object, None]:
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.skipped and "is not built" in str(report.longrepr) and is_run_by_the_build(item):
        report.outcome, report.longrepr = "failed", f"left out, though the build runs it: {report.longrepr}"
