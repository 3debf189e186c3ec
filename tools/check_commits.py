#!/usr/bin/env python3
"""Checks commit subjects: at most 72 characters, capitalised, imperative as far as a program can tell, no full stop.

Checks the commits since the last tag, or the last 50, without merges. FIRST and its ancestors are older than
this check and left out: 100 of those 159 subjects break it. A folder without git, or without a history of its own,
passes with a line that says so.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import Optional

ROOT = Path(__file__).resolve().parents[1]
FIRST = "ef71e79536c2a78c52ad929d2a9ce87e5f60483c"
MOST_CHARACTERS = 72
MOST_COMMITS = 50
# Verbs with an ending that no imperative has.
VERBS_IN_ED = {
    "bleed",
    "breed",
    "embed",
    "exceed",
    "feed",
    "heed",
    "need",
    "proceed",
    "seed",
    "shed",
    "speed",
    "succeed",
}
VERBS_IN_ING = {"bring", "cling", "fling", "ping", "ring", "sling", "spring", "string", "swing", "wring"}
VERBS_IN_S = {"alias", "bias", "canvas", "focus"}


def complaint(subject: str) -> Optional[str]:
    """Returns the fault of a subject, or None."""
    if re.match(r'Revert "', subject):
        return None  # git's own words, around a checked subject
    if len(subject) > MOST_CHARACTERS:
        return f"{len(subject)} characters, {MOST_CHARACTERS} at most"
    if subject.endswith("."):
        return "a full stop at its end"
    word = re.match(r"[A-Za-z][\w'’-]*(?=\s|$)", subject)
    if word is None:
        return "does not begin with a verb"
    if not word.group()[0].isupper():
        return "does not begin with a capital"
    verb = word.group().lower()
    if verb.endswith("ed") and verb not in VERBS_IN_ED:
        return f"`{word.group()}` is no imperative"
    if verb.endswith("ing") and verb not in VERBS_IN_ING:
        return f"`{word.group()}` is no imperative"
    if verb.endswith("s") and not verb.endswith("ss") and verb not in VERBS_IN_S:
        return f"`{word.group()}` is no imperative"
    return None


def git(root: Path, *words: str) -> Optional[str]:
    """Returns the output of a git command; None where it fails, or there is no git."""
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def commits(root: Path, first: str) -> Optional[list[tuple[str, str]]]:
    """Hash and subject of each commit to check, the newest first. None without a repository of this folder's own."""
    top = git(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != root.resolve():
        return None
    tag = git(root, "describe", "--tags", "--abbrev=0")
    # A shallow clone may lack the first commit: then all its commits are newer.
    known = git(root, "merge-base", "--is-ancestor", first, "HEAD") is not None
    without = [f"^{commit}" for commit in ([tag] if tag else []) + ([first] if known else [])]
    limit = [] if tag else [f"--max-count={MOST_COMMITS}"]
    listed = git(root, "log", "--no-merges", "--format=%h %s", *limit, "HEAD", *without)
    if listed is None:
        return None
    return [(commit, subject) for commit, _, subject in (line.partition(" ") for line in listed.splitlines())]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout")
    parser.add_argument("--first", default=FIRST, metavar="COMMIT", help="check only the commits after this one")
    arguments = parser.parse_args()
    found = commits(arguments.root, arguments.first)
    if found is None:
        print("commits: left out: no git, or no history here")
        return 0
    wrong = [(commit, subject, reason) for commit, subject in found if (reason := complaint(subject))]
    for commit, subject, reason in wrong:
        print(f"{commit} {subject}: {reason}")
    print(f"commits: {'not clean' if wrong else 'ok'}: {len(found)} subjects")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
