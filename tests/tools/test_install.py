"""`make install` installs what people use beside the library: the tool, man pages, completions, documents, gdb's
script."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = os.environ.get("HAKMEM_TEST_BUILD_DIR", str(ROOT / "build/release"))
COMMANDS = {path.stem for path in (ROOT / "cli/hakmem/commands").glob("[a-z]*.py")}


def run(*command: str | Path, **variables: str) -> str:
    done = subprocess.run(
        command, env={**os.environ, **variables}, check=False, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("install") / "prefix"
    run("cmake", "--install", BUILD, "--prefix", folder)
    return folder


@pytest.fixture(scope="module")
def tool(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A command `hakmem` that starts the installed tool by this Python, which has the packages that the tool needs."""
    starter = tmp_path_factory.mktemp("bin") / "hakmem"
    starter.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I "{prefix}/bin/hakmem" "$@"\n')
    starter.chmod(0o755)
    return starter


# ---- The tool.


def test_the_tool_runs_programs(tool: Path, prefix: Path, tmp_path: Path) -> None:
    """By the installed library, from any folder, and without a place to write to."""
    copied = tmp_path / "moved"
    shutil.copytree(prefix, copied, symlinks=True)
    for folder in (prefix, copied):
        told = run(sys.executable, "-I", folder / "bin/hakmem", "run", "--", "cat", "/proc/self/maps", HOME="/nowhere")
        assert re.search(rf"r-xp .* {re.escape(str(folder))}/lib\S*/libhakmem\.so\.\d+\.\d+\.\d+\n", told)


def test_the_tool_finds_its_other_files(tool: Path) -> None:
    assert "time-out" in run(tool, "learn", "replay", ROOT / "bench/learn_traces/redis.level")
    assert re.search(r"\bhakmem\b", run(tool, "compare", "--rounds", "1", "--allocators", "hakmem", "--", "true"))


def test_a_relative_prefix(tmp_path: Path) -> None:
    """As in `make install PREFIX=prefix`."""
    command = ["cmake", "--install", BUILD, "--prefix", "prefix"]
    subprocess.run(command, cwd=tmp_path, stdout=subprocess.DEVNULL, timeout=60, check=True)
    prefix = tmp_path / "prefix"
    assert (prefix / "share/hakmem/python/hakmem/native/libhakmem.so").resolve().is_relative_to(prefix)
    assert os.access(prefix / "bin/hakmem", os.X_OK)


def test_folders_outside_the_prefix(tmp_path: Path) -> None:
    """Where the Python package has a folder of its own, and the prefix is another one than the configured one."""
    build, prefix, python = tmp_path / "build", tmp_path / "other/prefix", tmp_path / "python"
    run("cmake", "-G", "Ninja", "-S", ROOT, "-B", build, "-DHK_TESTS=OFF", f"-DHK_PYTHON_DIR={python}")
    for built in Path(BUILD).glob("*hakmem*"):
        if not built.is_dir() and not (build / built.name).exists():
            shutil.copy(built, build, follow_symlinks=False)
    run("cmake", "--install", build, "--prefix", prefix)
    assert (python / "hakmem/native/libhakmem.so").resolve().is_relative_to(prefix)
    (way,) = re.findall(r'os\.path\.join\(here, "(.*)"\)', (prefix / "bin/hakmem").read_text())
    assert (prefix / "bin" / way).resolve() == python


def test_the_first_line_names_a_python(prefix: Path) -> None:
    assert (prefix / "bin/hakmem").read_text().startswith("#!/usr/bin/python3 -IS\n")
    assert os.access(prefix / "bin/hakmem", os.X_OK)


def test_a_missing_package_is_named(prefix: Path, tmp_path: Path) -> None:
    """By a Python without any package."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path)
    done = subprocess.run(
        [tmp_path / "bin/python", "-I", prefix / "bin/hakmem", "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 125 and "has no module click" in done.stderr and "python3-click" in done.stderr


def test_an_old_python(prefix: Path) -> None:
    """RHEL 8 has 3.6, for which the first module of the tool is no valid Python."""
    old = "import runpy, sys; sys.version_info = (3, 6, 8, 'final', 0); runpy.run_path(sys.argv[1])"
    words = [sys.executable, "-I", "-c", old, prefix / "bin/hakmem", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 125 and "is Python 3.6, and the tool needs 3.9 or later" in done.stderr, done.stderr


@pytest.mark.parametrize("python", ["python3", "/usr/bin/env python3"])
def test_a_python_that_no_first_line_can_name(python: str, tmp_path: Path) -> None:
    """The kernel would look for another file, and the installed tool would not start."""
    words = ("cmake", "-G", "Ninja", "-S", ROOT, "-B", tmp_path, "-DHK_TESTS=OFF", f"-DHK_TOOL_PYTHON={python}")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and f'HK_TOOL_PYTHON is "{python}"' in done.stderr, done.stderr


@pytest.mark.parametrize(("destdir", "name"), [("", "prefix"), ("image", "prefix"), ("", "hakmem [1]")])
def test_uninstall(destdir: str, name: str, tmp_path: Path) -> None:
    """Files of others stay, and the folders that hakmem shares with them; what Python wrote beside its own goes."""
    image = str(tmp_path / destdir) if destdir else ""
    prefix = Path(f"{image}{tmp_path}/{name}")
    foreign = {prefix / "lib/libother.so", prefix / "share/man/man1/other.1", prefix / "share/hakmem/own.txt"}
    run("cmake", "--install", BUILD, "--prefix", tmp_path / name, DESTDIR=image)
    written = prefix / "share/hakmem/python/hakmem/commands/__pycache__"
    written.mkdir()
    for file in (*foreign, written / "run.pyc"):
        file.write_text("")
    told = run(ROOT / "tools/uninstall.sh", BUILD, tmp_path / name, DESTDIR=image)
    assert re.search(r"^removed \d{3} files below ", told), told
    assert {path for path in prefix.rglob("*") if not path.is_dir() or path.is_symlink()} == foreign
    assert [path.relative_to(prefix) for path in prefix.rglob("hakmem")] == [Path("share/hakmem")]
    assert (prefix / "include").is_dir()


# ---- Man pages.


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_man_finds_each_page(prefix: Path) -> None:
    """By section and name: the tool, each command, the interface, each of its functions, the options."""
    header = (ROOT / "include/hakmem/hakmem.h").read_text()
    functions = re.findall(r"^HAKMEM_EXPORT [^(]*?\b(hakmem_\w+)\(", header, re.MULTILINE)
    assert len(functions) > 20
    pages = [("1", "hakmem"), *(("1", f"hakmem-{command}") for command in COMMANDS), ("3", "hakmem")]
    pages += [("7", "hakmem-options"), *(("3", function) for function in functions)]
    manual = {"MANPATH": str(prefix / "share/man")}
    found = run("man", "-w", *(f"{name}({section})" for section, name in pages), **manual).splitlines()
    assert len(found) == len(pages)
    shown = run("man", "-P", "cat", "hakmem_good_size", **manual)
    assert "HAKMEM(3)" in shown and "size_t hakmem_good_size(size_t size);" in shown


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_no_page_has_a_mistake() -> None:
    for page in sorted((ROOT / "docs/man").iterdir()):
        assert run("groff", "-man", "-ww", "-z", "-K", "utf8", page) == "", page


def test_the_interface_page_has_each_function_and_figure() -> None:
    page = (ROOT / "docs/man/hakmem.3").read_text()
    header = (ROOT / "include/hakmem/hakmem.h").read_text()
    for function in re.findall(r"^HAKMEM_EXPORT [^(]*?\b(hakmem_\w+)\(", header, re.MULTILINE):
        assert re.search(rf"^\\fB[\w *]+\b{function}\(.*\);\\fR$", page, re.MULTILINE), function
    fields = set(re.findall(r"^\.TP\n\\fB(\w+)\\fR\n", page, re.MULTILINE))
    assert {"version", "memory_resident", "parts_live", "refill", "spans_nearly_empty", "requested_estimate"} <= fields
    assert "memory_idle" not in fields, "an earlier name"


def test_the_options_page_has_each_option() -> None:
    page = (ROOT / "docs/man/hakmem-options.7").read_text()
    for option in re.findall(r"^HK_(?:TEXT_)?OPTION\((\w+),", (ROOT / "src/policy/option.def").read_text(), re.M):
        assert f"\n\\fBHAKMEM_{option.upper()}\\fR\n" in page, option


# ---- Completions.


def complete(shell: str, prefix: Path, tool: Path, line: str) -> list[str]:
    """What the shell offers for a command line, by the installed file."""
    path = f"{tool.parent}:{os.environ['PATH']}"
    share = prefix / "share"
    if shell == "bash":
        words = line.split(" ")
        script = (
            f"source {share}/bash-completion/completions/hakmem; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
            '_hakmem_completion hakmem 2>/dev/null; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        return run("bash", "--norc", "-c", script, PATH=path).split()
    if shell == "fish":
        script = f"source {share}/fish/vendor_completions.d/hakmem.fish; complete -C '{line}'"
        return [one.split("\t")[0] for one in run("fish", "--no-config", "-c", script, PATH=path).splitlines()]
    # zsh completes in a terminal only. The function's own helpers are replaced by ones that print.
    script = (
        "function compdef compopt { }; function _describe { print -l -- ${(P)3%%:*} ${(P)3}; }; "
        "function compadd { print -l -- $completions; }; "
        f"fpath=({share}/zsh/site-functions $fpath); autoload -Uz _hakmem; words=({line}); "
        f"CURRENT={len(line.split(' '))}; _hakmem"
    )
    return [one.partition(":")[0] for one in run("zsh", "-f", "-c", script, PATH=path).split("\n")]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str, prefix: Path, tool: Path) -> None:
    """Commands, options, choices; by the shell where it is there."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert {"run", "report"} <= set(complete(shell, prefix, tool, "hakmem r"))
    assert "--library" in complete(shell, prefix, tool, "hakmem run --l")


def test_completion_of_arguments(prefix: Path, tool: Path, tmp_path: Path) -> None:
    """Programs of PATH, and processes that run on hakmem, but no others."""
    assert "sleep" in complete("bash", prefix, tool, "hakmem run -- slee")
    library = Path(BUILD) / "libhakmem.so"
    with (
        subprocess.Popen(["sleep", "60"]) as other,
        subprocess.Popen(["sleep", "60"], env={**os.environ, "LD_PRELOAD": str(library)}) as ours,
    ):
        try:
            subprocess.run(["sh", "-c", f"until grep -q libhakmem /proc/{ours.pid}/maps; do :; done"], check=True)
            found = complete("bash", prefix, tool, "hakmem top ''")
            assert str(ours.pid) in found and str(other.pid) not in found
        finally:
            ours.kill()
            other.kill()


# ---- Documents, and gdb's script.


def test_documents_lead_to_each_other(prefix: Path) -> None:
    """Each link of an installed document leads to an installed file."""
    folder = prefix / "share/doc/hakmem"
    for page in folder.rglob("*.md"):
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        links = {link for link in re.findall(r"\]\(([^)#\s]+)", text) if ":" not in link}
        assert not {link for link in links if not (page.parent / link).exists()}, page
    assert len(list(folder.rglob("*.md"))) > 50


def test_the_files_for_monitoring(prefix: Path) -> None:
    """Each file in the table of their page."""
    folder = prefix / "share/doc/hakmem/packaging/monitoring"
    names = re.findall(r"^\| `([\w.-]+)` \|", (folder / "README.md").read_text(), re.MULTILINE)
    assert len(names) > 5
    assert not [name for name in names if not (folder / name).is_file()]


def test_every_user_reads_gdbs_script(tmp_path: Path) -> None:
    """Also from a checkout that only its owner reads, as git makes it with the umask 077."""
    source = ROOT / "tools/gdb/hakmem_gdb.py"
    closed = Path(shutil.copy(source, tmp_path / "script.py"))
    closed.chmod(0o600)
    rules = Path(BUILD, "cmake_install.cmake").read_text()
    assert str(source) in rules
    (tmp_path / "install.cmake").write_text(rules.replace(str(source), str(closed)))
    run("cmake", f"-DCMAKE_INSTALL_PREFIX={tmp_path / 'prefix'}", "-P", tmp_path / "install.cmake")
    scripts = list((tmp_path / "prefix/share").rglob("*-gdb.py"))
    assert len(scripts) == 3 and all(script.stat().st_mode & 0o777 == 0o644 for script in scripts)


@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
def test_gdb_loads_its_script(prefix: Path, tmp_path: Path) -> None:
    """Where gdb's own data folder would be that of this prefix, it knows `hakmem describe` without being told."""
    scripts = prefix / "share/gdb/auto-load"
    folders = ("-iex", f"set auto-load scripts-directory {scripts}", "-iex", f"set auto-load safe-path {scripts}")
    preload = f"set environment LD_PRELOAD {next(prefix.glob('lib*/**/libhakmem.so'))}"
    words = ("-batch", "-nx", *folders, "-ex", preload, "-ex", "break getenv", "-ex", "run", "-ex", "help hakmem")
    told = run("gdb", *words, "/bin/true", DEBUGINFOD_URLS="")
    if "ptrace" in told:
        pytest.skip("gdb may not trace here")
    assert "hakmem describe" in told, told


# ---- Static programs.

STATIC = """
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) void *remember(size_t bytes) { return memset(malloc(bytes), 1, bytes); }
__attribute__((noinline)) void fill(void *volatile *list) { for (int i = 0; i < 50; i++) list[i] = remember(100000); }
void *volatile kept[50], *volatile lost[50];
int main(void) { fill(kept); fill(lost); for (int i = 0; i < 50; i++) lost[i] = NULL; return 0; }
"""


@pytest.mark.parametrize("kind", ["-static", "-static-pie"])
def test_stacks_of_static_programs(kind: str, prefix: Path, tool: Path, tmp_path: Path) -> None:
    """By the options of pkg-config: gcc by itself leaves the unwind tables' index out of a program with -static."""
    (tmp_path / "program.c").write_text(STATIC)
    described = next(prefix.rglob("hakmem.pc"))
    private = re.search(r"^Libs.private: (.*)", described.read_text(), re.MULTILINE)
    assert private
    program, profile = tmp_path / "program", tmp_path / "profile.pb.gz"
    archive = next(prefix.rglob("libhakmem.a"))
    run("cc", "-O1", "-g", kind, "-o", program, tmp_path / "program.c", archive, *private[1].split())
    run(program, HAKMEM_PROFILE="on", HAKMEM_PROFILE_RATE="1000", HAKMEM_PROFILE_FILE=str(profile))
    table = run(tool, "profile", "--input", profile)
    assert re.search(r"remember\n", table) and re.search(r"fill\n", table) and "main" in table, table
    assert "[no stack]" not in table
    leaks = run(tool, "leaks", "--scan", "--", program)
    assert "remember" in leaks and "fill" in leaks, leaks
