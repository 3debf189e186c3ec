"""What the tests of the command line tool share: where it is, and how it is started. Its name is its own, so that these
tests and those of other folders can be run at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Callable, Dict, List, Optional

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLI = ROOT / "cli"
sys.path[:0] = [str(CLI), str(ROOT / "tests")]

for module in ("click", "rich", "elftools"):
    pytest.importorskip(module, reason="the packages of cli/requirements.txt are missing (./hakmem installs them)")

START = f"import sys; sys.path.insert(0, {str(CLI)!r}); from hakmem.main import main; main()"
Compile = Callable[..., Path]


class Tool:
    """Starts the command line tool as a program of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def words(self, *arguments: object) -> List[str]:
        """The whole command."""
        return [sys.executable, "-I", "-c", START, *map(str, arguments)]

    def __call__(
        self, *arguments: object, environment: Optional[Dict[str, str]] = None, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(*arguments), cwd=self.folder, env=environment, input=stdin,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip

    def start(self, *arguments: object, **options: object) -> subprocess.Popen[str]:
        """Without waiting."""
        pipe = subprocess.PIPE
        return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
            self.words(*arguments), cwd=self.folder, stdout=pipe, stderr=pipe, text=True, **options
        )
