"""tools/build_recipe.py where the manager's tool is missing; tests/packages/test_rpm_arch.py builds the packages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import build_recipe


@pytest.mark.parametrize("kind, tool, package", [("rpm", "rpmbuild", "rpm-build"), ("arch", "makepkg", "pacman")])
def test_a_missing_tool_is_named_with_its_package(
    kind: str, tool: str, package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "argv", ["build_recipe.py", kind])
    assert build_recipe.main() == 1
    assert f"there is no {tool}: the package {package} has it" in capsys.readouterr().err
