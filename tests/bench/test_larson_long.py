"""bench/larson_long.py: a short run of it keeps its limits, and each limit can be broken."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Dict

import pytest
from bench_support import BENCH, BUILD, Run

SCRIPT = BENCH / "larson_long.py"


@pytest.fixture(scope="module")
def larson_long() -> ModuleType:
    spec = importlib.util.spec_from_file_location("larson_long", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["larson_long"] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def test_three_seconds(programs: Path, hakmem: Path) -> None:
    """Checks no speed and no number of threads: other programs may be at work. In so short a run each slab may be in
    use to the end."""
    limits = ["--least-ratio", "0", "--least-released", "0", "--most-superslabs", "128"]
    words = [sys.executable, str(SCRIPT), "--build", str(BUILD), "--seconds", "3", *limits, "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    result = json.loads(done.stdout)
    assert 3 <= result["seconds"] < 60 and result["ops_per_second"] > 0
    assert result["last_to_first"] > 0
    assert 0 < result["superslabs_at_end"] <= result["most_superslabs"]
    assert 1 < result["peak_resident_mib"] < 40
    assert 0 <= result["slabs_released"] <= result["slabs_acquired"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"peak_resident_mib": 40.0}, "40.0 MiB were resident"),
        ({"most_superslabs": 33}, "up to 33 superslabs"),
        ({"slabs_released": 0}, "0 spans of slabs were given up"),
        ({"in_use_at_end_mib": 8.1}, "8.1 MiB of slabs in use at the end"),
        ({"last_to_first": 0.79}, "throughput fell to 0.79"),
    ],
)
def test_each_limit_can_be_broken(larson_long: ModuleType, change: Dict[str, Any], said: str) -> None:
    good = larson_long.Result(60.0, 1e8, 0.8, 39.9, 32, 4, 8.0, 10, 1)
    assert larson_long.broken(good, larson_long.Limits()) == []
    (complaint,) = larson_long.broken(replace(good, **change), larson_long.Limits())
    assert complaint.startswith(said)


def test_what_was_reported_is_taken_from_where_it_stands(larson_long: ModuleType) -> None:
    line = {"seconds": 60.0, "ops_per_second": 5.0, "first_window_ops": 200, "last_window_ops": 150}
    memory = {"peak": 6 << 20, "superslabs": 8 << 20, "in_use": 3 << 20}
    report = {"memory": memory, "events": {"slab_acquire": 9, "slab_release": 7}}
    result = larson_long.result_of(line, report, resident=5 << 20, writable=(11 << 20) + 1)
    assert result == larson_long.Result(60.0, 5.0, 0.75, 6.0, 5, 4, 3.0, 9, 7)


def test_without_a_build(tmp_path: Path) -> None:
    words = [sys.executable, str(SCRIPT), "--build", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and done.stderr.startswith("larson_long: no ") and done.stdout == ""


def test_windows_are_parts_of_the_whole(run: Run) -> None:
    done = run("larson", "--seconds", "1.5", "--window-ms", "500", "--life", "500")
    line = json.loads(done.stdout)
    assert 0 < line["first_window_ops"] < line["ops"] and 0 < line["last_window_ops"] < line["ops"]
    assert line["first_window_ops"] + line["last_window_ops"] < line["ops"]
    assert "first_window_ops" not in json.loads(run("larson", "--ops", "2000").stdout)
