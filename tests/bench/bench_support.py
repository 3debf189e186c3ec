"""Shared by the tests of the benchmarks: the places of things, and a reader of tables. Its name is its own, so that
these tests and those of other folders can be run at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
BENCH = REPOSITORY / "bench"
BUILD = Path(os.environ.get("HAKMEM_TEST_BUILD_DIR", REPOSITORY / "build" / "release")).resolve()

sys.path.insert(0, str(REPOSITORY / "tools"))


Run = Callable[..., "subprocess.CompletedProcess[str]"]


def read_toml(path: Path) -> Dict[str, Any]:
    tomllib = pytest.importorskip("tomllib", reason="reading the tables needs Python 3.11")
    tables: Dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return tables
