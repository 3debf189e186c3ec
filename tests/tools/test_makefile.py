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


@pytest.mark.parametrize(
    "prefix, expected",
    [
        ("a folder", "a folder"), ("~/.local", "HOME/.local"), ("~/a folder", "HOME/a folder"), ("", "/usr/local"),
        ("~", "HOME"), ("~/o'brien (b)", "HOME/o'brien (b)"), ("a/~/b", "a/~/b"),
        *((name, name) for name in ("a (b)", "o'brien", 'a "b"', "a&b", "a;b", "a#b", "a*")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("target", ["install", "uninstall"])
def test_the_prefix_is_one_word(target: str, prefix: str, expected: str, tmp_path: Path) -> None:
    """Also with spaces, quotes and what else a shell reads. One that does not expand `PREFIX=~/.local` leaves
    that to the recipe's."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    show = '#!/bin/sh\nfor word in "$@"; do echo "<$word>"; done\n'
    for name in ("tools/bootstrap.sh", "tools/uninstall.sh", "bin/cmake"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(show if "bootstrap" not in name else "#!/bin/sh\n")
        file.chmod(0o755)
    variables = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "MAKEFLAGS": "", "HOME": "HOME"}
    done = subprocess.run(
        ["make", "-s", target, f"PREFIX={prefix}"], cwd=tmp_path, env={**os.environ, **variables},
        check=True, text=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == f"<{expected}>", done.stdout


def test_every_user_reads_what_is_installed(tmp_path: Path) -> None:
    """Where the umask of root is 077, CMake makes folders that no other user may enter."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    texts = {
        "tools/bootstrap.sh": "#!/bin/sh\n",
        "bin/cmake": '#!/bin/sh\n[ "$1" != --install ] || mkdir "$4"\n',
    }
    for name, text in texts.items():
        file = tmp_path / name
        file.parent.mkdir()
        file.write_text(text)
        file.chmod(0o755)
    variables = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "MAKEFLAGS": ""}
    prefix = tmp_path / "prefix"
    subprocess.run(
        ["sh", "-c", f"umask 077; exec make -s install PREFIX={prefix}"], cwd=tmp_path,
        env={**os.environ, **variables}, check=True,
    )  # fmt: skip
    assert prefix.stat().st_mode & 0o777 == 0o755


# In place of CMake: an installation ends with the list of its files, which has to be the user's own.
CMAKE = r"""#!/bin/sh
[ "$1" = --install ] || exit 0
[ ! -e "$2/install_manifest.txt" ] || exit 1
"""


@pytest.mark.parametrize("target", ["install", "uninstall"])
def test_another_users_list_of_files_is_replaced(target: str, tmp_path: Path) -> None:
    """After `sudo make install` the list is root's, and `make install PREFIX=~/.local` comes next."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    texts = {
        "tools/bootstrap.sh": "#!/bin/sh\n", "tools/uninstall.sh": (ROOT / "tools/uninstall.sh").read_text(),
        "bin/cmake": CMAKE, "build/release/install_manifest.txt": "",
    }  # fmt: skip
    for name, text in texts.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    variables = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "MAKEFLAGS": ""}
    done = subprocess.run(
        ["make", target, f"PREFIX={tmp_path / 'prefix'}"], cwd=tmp_path, env={**os.environ, **variables},
        check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
