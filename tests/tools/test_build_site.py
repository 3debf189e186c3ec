"""The documents are a site that loads nothing from elsewhere, has a search, and has no link that leads nowhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import build_site  # noqa: E402

# The beginning of an item of a list.
ITEM = re.compile(r"[*-] |\d+\. ")

PAGES = {
    "README.md": "# Start\n\n[more](docs/more.md#a-part) [code](include/code.h) ![plot](docs/plot.svg)\n",
    "docs/more.md": "# More\n\n## A part\n\nsilo\n",
    "docs/plot.svg": '<svg xmlns="http://www.w3.org/2000/svg"/>',
    "include/code.h": "int code;",
    "mkdocs.yml": (ROOT / "mkdocs.yml").read_text().partition("nav:\n")[0] + "nav: [README.md, docs/more.md]\n",
    "tools/site/iframe-worker.js": "",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in PAGES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def build(root: Path) -> subprocess.CompletedProcess[str]:
    if not build_site.is_installed():
        pytest.skip("mkdocs-material is not installed in the pinned version")
    words = [
        sys.executable,
        str(ROOT / "tools/build_site.py"),
        "--root",
        str(root),
        "--output",
        str(root / "dist/docs"),
    ]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_each_list_stands_behind_an_empty_line() -> None:
    """GitHub begins a list after a line of a paragraph, mkdocs does not: it makes the list a part of the paragraph."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "cli").rglob("*.md"), ROOT / "src/README.md"]
    for page in pages:
        before, is_code = "", False
        for number, line in enumerate(page.read_text().splitlines(), 1):
            is_code ^= line.lstrip().startswith("```")
            is_first = re.match(r"[*-] |1\. ", line) and before and not ITEM.match(before) and before[0] != " "
            assert is_code or not is_first, f"{page.relative_to(ROOT)}:{number}: {line}"
            before = line


def test_pages_keep_their_places(checkout: Path) -> None:
    done = build(checkout)
    assert done.returncode == 0, done.stdout
    site = checkout / "dist" / "docs"
    assert {"index.html", "docs/more.html", "docs/plot.svg", "include/code.h"} <= {
        str(file.relative_to(site)) for file in site.rglob("*")
    }
    found = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    assert any("silo" in entry["text"] for entry in found)


@pytest.mark.parametrize("link", ["absent.md", "../absent.svg", "more.md#no-part", "../include/", "/docs/more.md"])
def test_a_link_that_leads_nowhere(checkout: Path, link: str) -> None:
    (checkout / "docs" / "more.md").write_text(f"# More\n\n## A part\n\n[link]({link})\n")
    done = build(checkout)
    assert done.returncode == 1
    assert "docs/more.md" in done.stdout and link in done.stdout and "not clean" in done.stdout


def test_a_page_that_the_navigation_lacks(checkout: Path) -> None:
    (checkout / "docs" / "lost.md").write_text("# Lost\n")
    done = build(checkout)
    assert done.returncode == 1 and "docs/lost.md" in done.stdout


@pytest.mark.parametrize(
    "text", ['<script src="https://example.org/a.js"></script>', "<img src='//example.org/a.png'>"]
)
def test_a_page_that_loads_from_elsewhere(checkout: Path, text: str) -> None:
    (checkout / "docs" / "more.md").write_text(f"# More\n\n## A part\n\n{text}\n")
    done = build(checkout)
    assert done.returncode == 1 and "loads from elsewhere: docs/more.html" in done.stdout


def test_a_bar_in_the_code_of_a_table(checkout: Path) -> None:
    (checkout / "docs" / "more.md").write_text("# More\n\n## A part\n\n| a | b |\n|---|---|\n| `x\\|y` | z |\n")
    assert build(checkout).returncode == 0
    assert "<td><code>x|y</code></td>" in (checkout / "build/site/docs/more.html").read_text()


def test_what_counts_as_loading(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("@import 'https://x/y.css'; p { background: url(data:image/png;base64,AA) }")
    (tmp_path / "b.css").write_text("@font-face { src: url(https://x/y.woff) }")
    (tmp_path / "c.html").write_text('<a href="https://x/">x</a><link rel=icon href=a.png><script src=a.js></script>')
    (tmp_path / "d.html").write_text('<link rel="stylesheet" href="https://x/y.css">')
    found = [line.partition(":")[0] for line in build_site.loaded_from_elsewhere(tmp_path)]
    assert found == ["a.css", "b.css", "d.html"]


def test_the_documents_of_the_checkout(tmp_path: Path) -> None:
    """The README's plot is on the first page, and every document of docs/ has a page."""
    for file in [*ROOT.glob("*"), *ROOT.glob("bench/**/*.md"), *ROOT.glob("bench/results/*")]:
        if file.is_file() and not file.is_symlink():
            target = tmp_path / file.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
    for folder in ("docs", "include", "packaging", "tools/site"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    for name in ("src/README.md", "tests/README.md", "bindings/rust/README.md", "bindings/rust/examples/service.rs"):
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    done = build(tmp_path)
    assert done.returncode == 0, done.stdout
    site = tmp_path / "build" / "site"
    assert "docs/time_beside_memory.svg" in (site / "index.html").read_text()
    for page in (ROOT / "docs").glob("[a-z]*.md"):
        assert (site / "docs" / f"{page.stem}.html").exists()


def test_documents_and_comments_name_sources_that_are_there() -> None:
    """A file that moves keeps its old name in sentences and in the figures, which no link checker reads."""
    folders = "|".join(sorted(folder.name for folder in (ROOT / "src").iterdir() if folder.is_dir()))
    name = re.compile(rf"(?<![\w./-])(?:src/)?((?:{folders})/\w+\.(?:c|h|cc|def|txt))\b")
    texts = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/figures").glob("*.svg")]
    texts += [path for path in (ROOT / "src").rglob("*") if path.suffix in (".md", ".c", ".h", ".cc", ".def")]
    named = {(found, path.name) for path in texts for found in name.findall(path.read_text())}
    assert len(named) > 500
    assert not sorted(pair for pair in named if not (ROOT / "src" / pair[0]).is_file())


def test_the_page_of_the_tests_has_each_folder() -> None:
    page = (ROOT / "tests/README.md").read_text()
    folders = [path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name[0] not in "._"]
    assert len(folders) > 10
    assert not [name for name in folders if not re.search(rf"`{name}/|^## {name}/", page, re.MULTILINE)]
