"""The tool where it is installed: built files are found in the package, and neither a home, a compiler nor a checkout
is needed. tests/wheel does the same with the real wheel."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Dict, Sequence

import pytest
from cli_support import CLI, START, Tool
from hakmem import paths, plot
from hakmem.errors import Failure
from hakmem.launcher import PROGRAM, launcher
from profile_support import named


@pytest.fixture
def installed(tmp_path: Path, library: Path) -> Path:
    """A folder with the package as a wheel brings it."""
    native = tmp_path / "site" / "hakmem" / "native"
    shutil.copytree(CLI / "hakmem", native.parent, ignore=shutil.ignore_patterns("__pycache__"))
    native.mkdir()
    for name in (paths.LIBRARY, paths.FAST_LIBRARY, PROGRAM):
        shutil.copy(library.with_name(name), native / name)
    return native.parent


def start(installed: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the console script of an installation: no home, and no program on PATH."""
    script = installed.parent / "hakmem-script"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(installed.parent)!r})\nfrom hakmem.entry import main\nmain()\n"
    )
    environment: Dict[str, str] = {"PATH": "/nonexistent", "HOME": "/nonexistent", **variables}
    return subprocess.run(
        [sys.executable, str(script), *arguments], env=environment, cwd="/", capture_output=True, text=True,
        stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def test_run_needs_no_home_compiler_or_checkout(installed: Path) -> None:
    done = start(installed, "run", "-v", "--", "/bin/sh", "-c", "echo $HOME; exit 7")
    assert (done.returncode, done.stdout) == (7, "/nonexistent\n")
    assert f"({installed / 'native' / paths.LIBRARY})" in done.stderr
    assert not Path("/nonexistent").exists()


def test_run_needs_no_folder_to_write_to(tool: Tool, library: Path) -> None:
    done = tool("run", "--", "/bin/true", environment={"HOME": "/nonexistent", "TMPDIR": "/nonexistent", "PATH": ""})
    assert done.returncode == 0
    assert "served malloc" in done.stderr or "preloaded" in done.stderr


def test_python_variables_are_the_programs(installed: Path, tmp_path: Path) -> None:
    """Modules of the program's, which have the names of the tool's, do not run in the tool."""
    for name in ("click.py", "signal.py", "rich.py"):
        (tmp_path / name).write_text("raise SystemExit(f'{__file__} was imported')\n")
    done = start(installed, "run", "-q", "--", "/usr/bin/env", PYTHONPATH=str(tmp_path), PYTHONINSPECT="1")
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == [
        "HOME=/nonexistent",
        f"LD_PRELOAD={installed / 'native' / paths.LIBRARY}",
        "PATH=/nonexistent",
        "PYTHONINSPECT=1",
        f"PYTHONPATH={tmp_path}",
    ]


def test_the_packages_files_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "_PACKAGED", tmp_path)
    before = paths.find_library()
    assert before is None or before.parent != tmp_path
    (tmp_path / paths.LIBRARY).touch()
    assert paths.find_library() == tmp_path / paths.LIBRARY
    assert paths.hakmem_version() is not None
    monkeypatch.setattr(paths, "checkout", lambda: None)
    assert paths.find_built(PROGRAM) is None
    launcher.cache_clear()
    with pytest.raises(Failure, match=r"hakmem-launch was not found.*make lib") as refused:
        launcher()
    assert refused.value.exit_code == 125


@pytest.mark.parametrize(
    ("of_pip", "how"),
    [(True, r"pip install 'hakmem\[plot\]'"), (False, "install the distribution's python3-matplotlib")],
)
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, of_pip: bool, how: str) -> None:
    monkeypatch.setattr(plot.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(paths, "checkout", lambda: None)
    monkeypatch.setattr(paths, "is_of_pip", lambda: of_pip)
    with pytest.raises(Failure, match=rf"plots need matplotlib.*: {how}$") as refused:
        plot.check("x.svg")
    assert refused.value.exit_code == 125


@pytest.mark.parametrize(
    ("module", "package", "words"),
    [
        ("elftools", "pyelftools", ("run", "--", "true")),
        ("rich", "rich", ("--help",)),
        ("google", "protobuf", ("diff", "p.pb.gz", "p.pb.gz")),
        ("prometheus_client", "prometheus-client", ("metrics", "1")),
    ],
)
def test_a_missing_package_is_named(tool: Tool, module: str, package: str, words: Sequence[str]) -> None:
    """`make install` brings none."""
    (tool.folder / "p.pb.gz").write_bytes(named({("main",): (1, 1, 1, 1)}))
    code = f"import sys; sys.modules[{module!r}] = None\n{START}"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, *words], cwd=tool.folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (125, "", 1), done.stderr
    assert f"apt-get install python3-{package}" in done.stderr or f"package {package} is missing" in done.stderr


def install(library: Path, prefix: Path, share: Path) -> Path:
    """Installs what the tool needs as `make install` does. Returns its script."""
    package = share / "hakmem" / "python" / "hakmem"
    shutil.copytree(CLI / "hakmem", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "native").symlink_to("../../../../lib/hakmem")
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib" / "hakmem").mkdir(parents=True)
    shutil.copy(library, prefix / "lib" / "libhakmem.so.0.1.0")
    (prefix / "lib" / "libhakmem.so.0").symlink_to("libhakmem.so.0.1.0")
    (prefix / "lib" / "hakmem" / paths.LIBRARY).symlink_to("../libhakmem.so.0")
    shutil.copy(library.with_name(PROGRAM), prefix / "lib" / "hakmem" / PROGRAM)
    script = prefix / "bin" / "hakmem"
    script.write_text((CLI / "hakmem.in").read_text().replace("@to_python@", "../share/hakmem/python"))
    return script


def start_script(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", str(script), *arguments], cwd="/", capture_output=True, text=True, check=False
    )


def test_a_prefix_whose_share_is_a_link(library: Path, tmp_path: Path) -> None:
    """From there no relative way leads back to the libraries."""
    prefix, share = tmp_path / "usr", tmp_path / "another" / "disk" / "share"
    script = install(library, prefix, share)
    (prefix / "share").symlink_to(share)
    done = start_script(script, "run", "-v", "--", "/bin/sh", "-c", "exit 7")
    assert done.returncode == 7, done.stderr
    assert f"({prefix / 'lib' / 'libhakmem.so.0.1.0'})" in done.stderr
    assert start_script(script, "env", "--path").stdout == f"{prefix}/lib/libhakmem.so.0\n"


def test_env_names_the_library_by_the_prefix_that_was_called(library: Path, tmp_path: Path) -> None:
    """A link to the newest of several releases leads elsewhere after an update, and the older one is gone."""
    release, current, bin_folder = tmp_path / "hakmem-0.1", tmp_path / "hakmem", tmp_path / "bin"
    install(library, release, release / "share")
    current.symlink_to(release.name)
    bin_folder.symlink_to("hakmem/bin")
    own = tmp_path / "own-hakmem"
    own.symlink_to(current / "bin" / "hakmem")
    for script in (current / "bin" / "hakmem", own):
        done = start_script(script, "env", "--path")
        assert (done.stdout, done.stderr) == (f"{current}/lib/libhakmem.so.0\n", "")
    # From the name of this folder, as from that of a /bin that leads to /usr/bin, there is no way to the package.
    assert start_script(bin_folder / "hakmem", "env", "--path").stdout == f"{release}/lib/libhakmem.so.0\n"
