"""The files of .github: the workflows are sound and cover both processors, and the forms of issues are whole."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
yaml = pytest.importorskip("yaml", reason="mkdocs brings it (tools/requirements.txt)")


def read(path: Path) -> Dict[Any, Any]:
    found: Dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def test_continuous_integration_runs_on_both_processors() -> None:
    job = read(GITHUB / "workflows" / "ci.yml")["jobs"]["test"]
    assert job["strategy"]["matrix"]["runner"] == ["ubuntu-24.04", "ubuntu-24.04-arm"]
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_the_artefacts_of_a_release() -> None:
    """Each target of the Makefile that leaves an artefact in dist/, and each artefact in a clean place."""
    jobs = read(GITHUB / "workflows" / "release.yml")["jobs"]
    made = [(entry["target"], entry["runner"]) for entry in jobs["make"]["strategy"]["matrix"]["include"]]
    assert {target for target, _ in made} == {"wheel", "crate", "deb", "docs"}
    assert {runner for target, runner in made if target == "deb"} == {"ubuntu-24.04", "ubuntu-24.04-arm"}
    matrix = jobs["install"]["strategy"]["matrix"]
    assert matrix["runner"] == ["ubuntu-24.04", "ubuntu-24.04-arm"]
    assert {way["name"] for way in matrix["way"]} == {"wheel", "crate", "deb"}
    assert jobs["draft"]["needs"] == "install" and "--draft" in jobs["draft"]["steps"][-1]["run"]


def test_actions_are_pinned() -> None:
    """By the hash of a commit, which unlike a tag stays what it is."""
    pinned = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    for workflow in WORKFLOWS:
        uses = re.findall(r"uses: (.+)", workflow.read_text(encoding="utf-8"))
        assert uses and all(pinned.fullmatch(action) for action in uses), workflow


CHECKERS = {
    "check-jsonschema": ("--builtin-schema", "vendor.github-workflows"),  # the form: SchemaStore's schema
    "actionlint": (),  # expressions, contexts, runners, needs
    "zizmor": ("--offline", "--quiet"),  # what an attacker could use
}


@pytest.mark.parametrize("name", CHECKERS)
def test_workflows_are_sound(name: str) -> None:
    checker = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if checker is None:
        pytest.skip(f"{name} is not installed (tools/bootstrap.sh test-all)")
    words = [checker, *CHECKERS[name], *map(str, WORKFLOWS)]
    done = subprocess.run(words, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["bug", "feature"])
def test_forms_of_issues(name: str) -> None:
    form = read(GITHUB / "ISSUE_TEMPLATE" / f"{name}.yml")
    assert form["name"] and form["description"]
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert all(field["attributes"]["label"] for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)
