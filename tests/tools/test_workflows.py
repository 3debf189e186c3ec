"""The files of .github: continuous integration runs .ci/run on both processors, and the forms of issues are whole."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict

import pytest

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"
yaml = pytest.importorskip("yaml", reason="mkdocs brings it (tools/requirements.txt)")


def read(path: Path) -> Dict[Any, Any]:
    found: Dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def test_continuous_integration_runs_on_both_processors() -> None:
    job = read(GITHUB / "workflows" / "ci.yml")["jobs"]["test"]
    assert job["strategy"]["matrix"]["runner"] == ["ubuntu-24.04", "ubuntu-24.04-arm"]
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_actions_are_pinned() -> None:
    for workflow in (GITHUB / "workflows").glob("*.yml"):
        uses = re.findall(r"uses: (\S+)", workflow.read_text(encoding="utf-8"))
        assert uses and all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+\.\d+\.\d+", action) for action in uses), workflow


@pytest.mark.parametrize("name", ["bug", "feature"])
def test_forms_of_issues(name: str) -> None:
    form = read(GITHUB / "ISSUE_TEMPLATE" / f"{name}.yml")
    assert form["name"] and form["description"]
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert all(field["attributes"]["label"] for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)
