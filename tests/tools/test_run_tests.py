"""What tools/run_tests.py shows of a stage that failed, and the order of its stages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import run_tests
import stages

GOOGLETEST = """\
[ RUN      ] Stress.Third
third: live 16391 KiB, peak 36120
tests/stress/asymmetry_test.cc:60: Failure
Expected: (highest) <= (bound), actual: 31 vs 30
after this much work nothing new may be needed
to repeat it: HAKMEM_TEST_SEED=0x1
[  FAILED  ] Stress.Third (2689 ms)
[ RUN      ] Stress.Fourth
[       OK ] Stress.Fourth (1 ms)
"""
PYTEST = """\
12:     def test_two():
12: >       assert one == 2
12: E       assert 1 == 2
12: E        +  where 1 = one
12:
12: FAILED tests/cli/test_x.py::test_two
"""


def test_a_googletest_check_is_shown_with_its_values() -> None:
    assert run_tests.failed_checks(GOOGLETEST) == [
        "tests/stress/asymmetry_test.cc:60: Failure\n"
        "    Expected: (highest) <= (bound), actual: 31 vs 30\n"
        "    after this much work nothing new may be needed"
    ]


def test_a_pytest_check_is_shown_with_its_values() -> None:
    assert run_tests.failed_checks(PYTEST) == ["E       assert 1 == 2\n    E        +  where 1 = one"]


def test_a_check_that_ctest_shows_twice_is_shown_once() -> None:
    again = PYTEST.replace("12: ", "").replace("12:", "")
    assert len(run_tests.failed_checks(PYTEST + again)) == 1


def test_a_stage_that_passed_has_no_failed_check() -> None:
    assert run_tests.failed_checks("1: [       OK ] Stress.Fourth (1 ms)\n100% tests passed\n") == []


@pytest.mark.parametrize("what", stages.WHOLE_RUNS)
def test_no_stage_waits_for_ever(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stage's need comes before it in its lane, or in another lane, where nothing waits for it in turn."""
    for name in ("arm64", "musl", "zig", "clang", "wheel", "cargo"):
        monkeypatch.setattr(stages, f"have_{name}", lambda: None)
    lanes = stages.WHOLE_RUNS[what]("OFF", 2)
    names = [stage.name for lane in lanes for stage in lane]
    assert len(names) == len(set(names))
    ended: set[str] = set()
    while any(lanes):
        ready = [lane for lane in lanes if lane and (lane[0].needs is None or lane[0].needs in ended)]
        assert ready, f"{[lane[0].name for lane in lanes if lane]} wait for ever"
        ended.update(lane.pop(0).name for lane in ready)
    assert {stage.needs for lane in stages.WHOLE_RUNS[what]("OFF", 2) for stage in lane} - {None} <= ended


def test_tests_of_python_alone_run_after_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make test ONLY=` with a pattern that no ctest matches: the stages before pytest then run no test."""
    for module in (stages, run_tests):
        monkeypatch.setattr(module, "LOGS", tmp_path)
    monkeypatch.setattr(run_tests, "SECONDS", tmp_path / "seconds.json")
    monkeypatch.setattr(run_tests, "build", lambda *_: [["true"]])
    test, ran = tmp_path / "test_one.py", tmp_path / "ran"
    test.write_text(f"import pathlib\n\n\ndef test_one() -> None:\n    pathlib.Path({str(ran)!r}).touch()\n")
    monkeypatch.setattr(run_tests, "matching_sources", lambda _: ([], [str(test)]))
    assert run_tests.run_only("test_one", None, "OFF", 1) and ran.exists()


def test_a_stage_of_ctest_without_a_test_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (stages, run_tests):
        monkeypatch.setattr(module, "LOGS", tmp_path)
    monkeypatch.setattr(run_tests, "SECONDS", tmp_path / "seconds.json")
    assert not run_tests.Run([[stages.Stage("tests", [["ctest", "--version"]], 1)]]).run()


def test_a_pattern_that_is_no_regular_expression(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run_tests.py", "only", "refill("])
    with pytest.raises(SystemExit):
        run_tests.main()
    assert "refill( is no regular expression" in capsys.readouterr().err


def test_a_pattern_finds_the_model_checks_that_ctest_has() -> None:
    build = os.environ.get("HAKMEM_TEST_BUILD_DIR", stages.REPOSITORY / "build" / "release")
    said = subprocess.run(
        ["ctest", "--test-dir", build, "-N", "-L", "model_check"], capture_output=True, text=True, check=True
    )
    there = sorted(re.findall(r"Test +#\d+: (\S+)", said.stdout))
    assert there and run_tests.matching_sources("^model_check") == (there, [])
