"""The pages of docs/recipes: each is run as it stands, with the real programs (recipe_page.py says how).

Pages that say `rest` run where HAKMEM_TEST_RECIPES=all, as in `make test-ci`.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import pytest
from recipe_page import RECIPES, ROOT, Page, read, run

sys.path.insert(0, str(ROOT / "tools"))
import documented_commands

ALL_PAGES = sorted(path for path in RECIPES.glob("*.md") if path.name != "README.md")
# The other pages name the tests of their commands.
PAGES = [path for path in ALL_PAGES if documented_commands.runs_whole(path)]
WITH_ALL = os.environ.get("HAKMEM_TEST_RECIPES") == "all"


@pytest.fixture(scope="session")
def library() -> Path:
    folder = Path(os.environ.get("HAKMEM_TEST_BUILD_DIR", ROOT / "build" / "release"))
    if not (folder / "libhakmem.so").exists():
        pytest.skip("libhakmem.so is not built (make lib)")
    return (folder / "libhakmem.so").resolve()


@pytest.fixture(scope="session")
def tool() -> list[str]:
    pytest.importorskip("click")
    start = f"import sys; sys.path.insert(0, {str(ROOT / 'cli')!r}); from hakmem.main import main; main()"
    return [sys.executable, "-I", "-c", start]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_page(path: Path, tool: list[str], library: Path) -> None:
    page = read(path)
    if page.rest and not WITH_ALL:
        pytest.skip(f"runs in `make test-ci`: {page.rest}")
    if page.missing():
        pytest.skip(f"not installed: {', '.join(page.missing())}")
    # Servers that run as another user have to get there.
    with tempfile.TemporaryDirectory(prefix="recipe-", dir="/tmp") as name:
        os.chmod(name, 0o755)
        run(page, Path(name), tool, library)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_each_page_has_commands_and_says_what_to_expect(path: Path) -> None:
    """Each has commands that run, something to expect that the test finds, and says what to do then."""
    page = read(path)
    headings = re.findall(r"^## (.*)", path.read_text(), re.MULTILINE)
    assert "What to expect" in headings and "What to do then" in headings
    assert len(page.commands) >= 3 and page.expected


def test_every_page_is_in_the_list() -> None:
    text = (RECIPES / "README.md").read_text()
    site = (ROOT / "mkdocs.yml").read_text()
    for path in ALL_PAGES:
        assert f"]({path.name})" in text, path.name
        assert f"docs/recipes/{path.name}" in site, path.name


PAGE = """# A page
<!-- needs: sh (dash) -->
<!-- setup: echo ready >state -->
```sh
cat state file.txt
false || exit {code}
```
```text title="file.txt"
content
```
<!-- expect: {pattern} -->
"""


def page_of(folder: Path, **values: object) -> Page:
    path = folder / "page.md"
    path.write_text(PAGE.format(**{"code": 0, "pattern": "^content$", **values}))
    return read(path)


def test_the_runner_runs(tmp_path: Path) -> None:
    page = page_of(tmp_path)
    assert page.needs == [("sh", "dash")] and page.missing() == []
    page.lines = [line.replace("false || exit 0", "") for line in page.lines]
    assert run(page, tmp_path, ["true"], Path("/lib.so")).startswith("ready\ncontent\n")


@pytest.mark.parametrize(("values", "said"), [({"code": 3}, "ended with 3"), ({"pattern": "^other$"}, "no '\\^other")])
def test_the_runner_fails(tmp_path: Path, values: dict[str, object], said: str) -> None:
    page = page_of(tmp_path, **values)
    page.lines = [line.replace("false || exit 0", "") for line in page.lines]
    with pytest.raises(AssertionError, match=said):
        run(page, tmp_path, ["true"], Path("/lib.so"))
