"""tools/documented_commands.py: which commands of a page it finds, and which faults it names."""

from __future__ import annotations

import fnmatch
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import build_wheel  # noqa: E402
import documented_commands  # noqa: E402

PAGE = """# Page
<!-- test: tests/a/test_a.py::test_one -->
```sh
make one      # a comment
# a whole line
long \\
  line
```
```python
no = "command"
```
<!-- test: .ci/run -->
```sh
make test
```
"""
ROW = "| way | `make one` | `tests/a/test_a.py::test_one` |\n"


def checkout(folder: Path, readme: str = PAGE, rows: str = ROW * documented_commands.WAYS_COUNT) -> Path:
    (folder / "docs/recipes").mkdir(parents=True)
    (folder / "tests/a").mkdir(parents=True)
    (folder / ".ci").mkdir()
    (folder / "README.md").write_text(readme)
    (folder / "docs/installing.md").write_text(f"| way | command | test |\n|---|---|---|\n{rows}")
    (folder / "tests/a/test_a.py").write_text('PAGE = "README.md"\n\n\ndef test_one() -> None:\n    pass\n')
    (folder / "tests/a/test_b.py").write_text("def test_two() -> None:\n    pass\n")
    (folder / ".ci/run").write_text("make test\n")
    return folder


def test_commands_of_a_page(tmp_path: Path) -> None:
    one, two = documented_commands.blocks("README.md", checkout(tmp_path))
    assert one.lines == ["make one", "long line"] and one.test == "tests/a/test_a.py::test_one"
    assert two.lines == ["make test"] and two.test == ".ci/run"
    assert documented_commands.findings(tmp_path) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("<!-- test: tests/a/test_a.py::test_one -->\n", "", "README.md: `make one`: no test is named"),
        ("test_a.py::test_one", "test_a.py::test_two", "tests/a/test_a.py has no test_two"),
        ("test_a.py::test_one", "test_c.py::test_one", "there is no tests/a/test_c.py"),
        ("test_a.py::test_one", "test_b.py::test_two", "tests/a/test_b.py does not read README.md"),
        ("test_a.py::test_one", "test_a.py", "tests/a/test_a.py names no test of the file"),
        ("make test", "make tests", ".ci/run has no 'make tests'"),
        ("# Page\n", "# Page\n\n    make other\n", "README.md: an indented block"),
    ],
)
def test_a_command_without_a_test(tmp_path: Path, old: str, new: str, said: str) -> None:
    (found,) = documented_commands.findings(checkout(tmp_path, readme=PAGE.replace(old, new)))
    assert said in found


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (ROW * 23, "has 23 rows with a test instead of 24"),
        (ROW * 23 + ROW.replace("`make one`", "make one"), "way: no command"),
        (ROW * 23 + ROW.replace("test_one", "test_three"), "way: tests/a/test_a.py has no test_three"),
    ],
)
def test_a_row_that_is_not_whole(tmp_path: Path, rows: str, said: str) -> None:
    (found,) = documented_commands.findings(checkout(tmp_path, rows=rows))
    assert said in found


def test_a_file_and_a_test(tmp_path: Path) -> None:
    """The file runs what stands in it, the test the other commands."""
    comment = "<!-- test: .ci/run tests/a/test_a.py::test_one -->"
    root = checkout(tmp_path, readme=f"{comment}\n```sh\nmake one\nmake test\n```\n")
    one, two = documented_commands.blocks("README.md", root)
    assert (one.test, one.lines) == (".ci/run", ["make test"])
    assert (two.test, two.lines) == ("tests/a/test_a.py::test_one", ["make one"])
    assert documented_commands.findings(root) == []


def test_a_recipe_is_run_as_a_whole(tmp_path: Path) -> None:
    """Unless it names the tests of its commands."""
    page = tmp_path / "recipe.md"
    page.write_text("```sh\nmake one\n```\n")
    assert documented_commands.runs_whole(page)
    page.write_text(PAGE)
    assert not documented_commands.runs_whole(page)


def test_the_readme_names_one_wheel() -> None:
    """pip refuses two wheels of one package on its command line."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (pattern,) = re.findall(r"\bdist/(\S+\.whl)", text)
    wheels = [f"hakmem-0.1.0-py3-none-{'.'.join((*target.aliases, target.tag))}.whl" for target in build_wheel.TARGETS]
    assert len(fnmatch.filter(wheels, pattern)) == 1
