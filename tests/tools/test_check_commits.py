"""What tools/check_commits.py says of a subject, and which commits it looks at."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import check_commits  # noqa: E402

NOBODY = {
    **os.environ,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}
Git = Callable[..., str]


@pytest.mark.parametrize(
    "subject",
    [
        "Return idle TLS heaps after glibc's stack cache frees them",
        "Process signals in order", "Pass the price", "Focus on one row", "Embed the page", "Feed the cache",
        "Bring the limits back", "Re-use spans",
        'Revert "Return idle TLS heaps after glibc\'s stack cache frees them all"',
        "W" + "x" * 71,
    ],
)  # fmt: skip
def test_good_subjects(subject: str) -> None:
    assert check_commits.complaint(subject) is None


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        ("W" + "x" * 72, "73 characters"), ("Return spans.", "full stop"), ("return spans", "capital"),
        ("Returned spans", "Returned"), ("Returning spans", "Returning"), ("Returns spans", "Returns"),
        ("Tests: more of them", "verb"), ("64 MiB at once", "verb"), ("", "verb"), ("fixup! Return spans", "verb"),
    ],
)  # fmt: skip
def test_bad_subjects(subject: str, said: str) -> None:
    assert said in (check_commits.complaint(subject) or "")


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """git(*words) in a repository of the test's own, which has one commit."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    root = tmp_path / "checkout"
    root.mkdir()

    def run(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=root, env=NOBODY, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    run("init", "-q", "-b", "main")
    commit(run, "the first one, before the rule.")
    return run


def commit(git: Git, subject: str) -> str:
    git("commit", "-q", "--allow-empty", "-m", subject, "-m", "a body.")
    return git("rev-parse", "HEAD")


def check(root: Path, first: str = check_commits.FIRST) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(ROOT / "tools/check_commits.py"), "--root", str(root), "--first", first]
    return subprocess.run(words, env=NOBODY, capture_output=True, text=True, check=False)


def test_commits_after_the_first(git: Git, tmp_path: Path) -> None:
    root, first = tmp_path / "checkout", git("rev-parse", "HEAD")
    commit(git, "Add a file")
    assert check(root, first).stdout == "commits: ok: 1 subjects\n"
    assert check(root).returncode == 1  # of an unknown first commit all are newer
    commit(git, "Added a file")
    done = check(root, first)
    assert done.returncode == 1 and "Added a file: `Added` is no imperative" in done.stdout


def test_merges_are_left_out(git: Git, tmp_path: Path) -> None:
    first = git("rev-parse", "HEAD")
    git("checkout", "-q", "-b", "side")
    commit(git, "Add a file")
    git("checkout", "-q", "main")
    git("merge", "-q", "--no-ff", "-m", "merge of side.", "side")
    assert check(tmp_path / "checkout", first).stdout == "commits: ok: 1 subjects\n"


def test_commits_since_the_last_tag(git: Git, tmp_path: Path) -> None:
    commit(git, "Added before the tag")
    git("tag", "v1")
    assert check(tmp_path / "checkout").stdout == "commits: ok: 0 subjects\n"
    for number in range(check_commits.MOST_COMMITS + 5):
        commit(git, f"Add {number}")
    done = check(tmp_path / "checkout")
    assert done.stdout == f"commits: ok: {check_commits.MOST_COMMITS + 5} subjects\n"


def test_the_last_ones_without_a_tag(git: Git, tmp_path: Path) -> None:
    for number in range(check_commits.MOST_COMMITS):
        commit(git, f"Add {number}")
    assert check(tmp_path / "checkout").stdout == f"commits: ok: {check_commits.MOST_COMMITS} subjects\n"


def test_a_shallow_clone(git: Git, tmp_path: Path) -> None:
    first = git("rev-parse", "HEAD")
    for number in range(3):
        commit(git, f"Add {number}")
    git("clone", "-q", "--depth", "2", f"file://{tmp_path / 'checkout'}", str(tmp_path / "shallow"))
    assert check(tmp_path / "shallow", first).stdout == "commits: ok: 2 subjects\n"


@pytest.mark.parametrize("inside", [False, True], ids=["no repository", "in another's repository"])
def test_a_folder_without_history(git: Git, tmp_path: Path, inside: bool) -> None:
    folder = (tmp_path / "checkout" if inside else tmp_path) / "unpacked"
    folder.mkdir()
    done = check(folder)
    assert (done.returncode, done.stdout) == (0, "commits: left out: no git, or no history here\n")


def test_a_machine_without_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert check_commits.commits(ROOT, check_commits.FIRST) is None
