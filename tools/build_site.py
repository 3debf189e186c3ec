#!/usr/bin/env python3
"""Builds the documents as a site in build/site: pages with a search, which need no network and no server.

    tools/build_site.py                     build it; a broken link is an error
    tools/build_site.py --output dist/docs  the same, and leave the site there; a missing mkdocs is an error too

The pages keep their places in the repository, so a link works in both. The version of mkdocs-material is pinned in
tools/requirements.txt. Without it nothing is built: another version may load fonts or scripts from elsewhere.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterator, Match

from check_format import pinned_version

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "mkdocs-material"
# The pages of the site, besides those that pages link to: patterns below the root.
PAGES = (
    *("*.md", "docs/**/*.md", "bench/**/*.md", "src/README.md", "tests/README.md"),
    *("bindings/rust/README.md", "packaging/**/*.md"),
)
SCRIPTS = "tools/site"  # the project's own; they go to the site's assets
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")
# An address that a page loads: a tag's src, a style sheet's or font's address. (Links that users follow are left out.)
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']?(?:https?:)?//[^>]*>|<link[^>]*\shref=["']?(?:https?:)?//[^>]*>"""
    r"""|@import\s[^;]*//[^;]*;|url\(["']?(?:https?:)?//[^)]*\)"""
)


def is_installed() -> bool:
    wanted = pinned_version(PACKAGE)
    try:
        found = importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        found = None
    if found != wanted:
        print(f"site: left out: {PACKAGE} {wanted} is not installed (tools/bootstrap.sh test)")
    return found == wanted


def linked_files(root: Path, page: Path) -> Iterator[Path]:
    """The files of the repository that a page shows or links to, except pages."""
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        file = (page.parent / target).resolve()
        if ":" not in target and file.is_file() and file.suffix != ".md" and root in file.parents:
            yield file


def for_mkdocs(text: str) -> str:
    """Removes the escape of a bar in a table's code: GitHub needs it, and mkdocs would show the backslash."""

    def row(line: Match[str]) -> str:
        return re.sub(r"`[^`]*`", lambda code: code.group().replace("\\|", "|"), line.group())

    return re.sub(r"^\|.*", row, text, flags=re.MULTILINE)


def collect(root: Path, source: Path) -> None:
    """Copies pages, and the files that they link to, to their places below `source`."""
    shutil.rmtree(source, ignore_errors=True)
    pages = sorted({page for pattern in PAGES for page in root.glob(pattern)})
    files = {file for page in pages for file in linked_files(root, page)}
    for file in [*pages, *sorted(files)]:
        target = source / file.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        if file in pages:
            target.write_text(for_mkdocs(file.read_text(encoding="utf-8")), encoding="utf-8")
        else:
            shutil.copyfile(file, target)
    shutil.copytree(root / SCRIPTS, source / "assets")


def configuration(root: Path, source: Path) -> str:
    """mkdocs.yml, with each pattern of the navigation replaced by the last page that it matches."""

    def entry(match: Match[str]) -> str:
        pages = sorted(source.glob(match[2]))
        return f"{match[1]}{pages[-1].relative_to(source)}\n" if pages else ""

    text = (root / "mkdocs.yml").read_text(encoding="utf-8")
    return re.sub(r"^( *- .*?)(\S*\*\S*)\n", entry, text, flags=re.MULTILINE)


def loaded_from_elsewhere(site: Path) -> list[str]:
    """The addresses outside the site that a page would load."""
    files = [file for file in sorted(site.rglob("*")) if file.suffix in (".html", ".css")]
    return [
        f"{file.relative_to(site)}: {found.group()[:100]}"
        for file in files
        for found in LOADED.finditer(file.read_text(encoding="utf-8"))
    ]


def build(root: Path, output: Path | None) -> int:
    source, site = root / "build" / "site-source", root / "build" / "site"
    collect(root, source)
    made = root / "build" / "mkdocs.yml"
    text = (
        configuration(root, source).replace("docs_dir: build/", "docs_dir: ").replace("site_dir: build/", "site_dir: ")
    )
    made.write_text(text, encoding="utf-8")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(made)]
    variables = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "NO_COLOR": "1"}
    done = subprocess.run(words, cwd=root, env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(re.sub(r"^INFO .*\n", "", done.stderr, flags=re.MULTILINE) + "site: not clean")
        return 1
    foreign = loaded_from_elsewhere(site)
    for line in foreign:
        print(f"site: loads from elsewhere: {line}")
    if output and not foreign:
        shutil.rmtree(output, ignore_errors=True)
        shutil.copytree(site, output)
    print(f"site: {'not clean' if foreign else 'ok'}: {os.path.relpath(output or site, root)}/index.html")
    return 1 if foreign else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout")
    parser.add_argument("--output", type=Path, help=f"a folder to leave the site in; fail where {PACKAGE} is missing")
    arguments = parser.parse_args()
    if not is_installed():
        return 1 if arguments.output else 0
    return build(arguments.root.resolve(), arguments.output)


if __name__ == "__main__":
    sys.exit(main())
