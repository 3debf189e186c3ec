"""The demo of `make run` in a checkout where it cannot work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_path_that_cannot_be_preloaded(tmp_path: Path) -> None:
    """The library that is there is not run: LD_PRELOAD would take the first half of the path for its name."""
    library = tmp_path / "my work" / "libhakmem.so"
    library.parent.mkdir()
    library.write_bytes(b"")
    command = [sys.executable, str(ROOT / "tools" / "demo.py"), "--build", str(library.parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"demo: LD_PRELOAD cannot name {library}: the path has a space")
