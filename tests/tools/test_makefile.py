"""The Makefile in a fresh checkout, where its first line sets up the interpreter that a later one starts."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# In place of tools/bootstrap.sh: sets up an interpreter that says so, and ends the recipe.
BOOTSTRAP = r"""#!/bin/sh
mkdir -p build/venv/bin
printf '#!/bin/sh\necho "build/venv starts $1"\nexit 1\n' >build/venv/bin/python
chmod +x build/venv/bin/python
"""


@pytest.mark.parametrize(
    "target", ["docs", "wheel", "test", "test-unit", "test-ci", "test-rest", "environments", "attacks"]
)
def test_the_first_run_takes_the_new_interpreter(target: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name, text in {"tools/bootstrap.sh": BOOTSTRAP, "bin/cmake": "#!/bin/sh\n"}.items():
        file = tmp_path / name
        file.parent.mkdir()
        file.write_text(text)
        file.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["make", target], cwd=tmp_path, env={**os.environ, "PATH": path, "MAKEFLAGS": ""},
        check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert "build/venv starts t" in done.stdout, done.stdout
