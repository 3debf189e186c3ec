"""Files appear whole or not at all, and a tool that is killed leaves nothing behind."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Iterator, Tuple

import pytest
from cli_support import CLI, ROOT, Compile, Tool
from hakmem import private_folder
from hakmem.errors import Failure
from hakmem.output import OutputFile, reserve
from profile_support import named
from test_learn_merge import record
from watched_support import Watched, wait_until

LOSER = r"""
#include <stdlib.h>
int main(int argc, char **argv) {
  void *volatile lost = malloc(1000);
  lost = NULL;
  return argc > 1 ? atoi(argv[1]) : 0;
}
"""


@pytest.fixture(params=["nameless", "temporary", "without proc"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way to a whole file."""
    opens = os.open

    def open_one(path: Any, flags: int, *others: Any, **named: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "no such files here")
        return opens(path, flags, *others, **named)

    def open_without_proc(path: Any, *others: Any, **named: Any) -> int:
        return opens(str(path).replace("/proc/self/fd", "/no-proc/self/fd"), *others, **named)

    if request.param == "temporary":
        monkeypatch.setattr(os, "open", open_one)
    if request.param == "without proc":
        monkeypatch.setattr(os, "open", open_without_proc)
    return str(request.param)


def test_new_old_and_unwritten_files(way: str, tmp_path: Path) -> None:
    os.umask(0o027)
    file = OutputFile(str(tmp_path / "a.html"))
    assert list(tmp_path.iterdir()) == []
    file.write("first")
    assert stat.S_IMODE((tmp_path / "a.html").stat().st_mode) == 0o640
    (tmp_path / "a.html").chmod(0o604)
    again = OutputFile(str(tmp_path / "a.html"))
    assert (tmp_path / "a.html").read_text() == "first"
    again.write(b"second")
    assert (tmp_path / "a.html").read_text() == "second"
    assert stat.S_IMODE((tmp_path / "a.html").stat().st_mode) == 0o604
    OutputFile(str(tmp_path / "b")).discard()
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


def test_refused_before_the_work(way: str, tmp_path: Path) -> None:
    for name in ("no/such/folder/file", "/proc/nothing", "."):
        with pytest.raises(Failure):
            OutputFile(str(tmp_path / name) if name != "/proc/nothing" else name)
    assert list(tmp_path.iterdir()) == []


def open_files(pid: int) -> Iterator[str]:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # it is closed meanwhile
            yield os.readlink(descriptor)


def is_watched_over(folder: Path) -> bool:
    """Whether the shell runs that removes a folder below this one."""
    for command_line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            words = command_line.read_bytes().decode(errors="replace")
            if "rm -rf " in words and f"\0{folder}/" in words:
                return True
    return False


@pytest.mark.parametrize("command", ["run", "leaks"])
def test_a_kill_leaves_no_folder(tool: Tool, tmp_path: Path, command: str) -> None:
    """Of the tool, and of all its session."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    environment = {**os.environ, "TMPDIR": str(folder)}
    process = tool.start(command, "--", "sleep", "30", env=environment, start_new_session=True)
    with process:
        wait_until(lambda: is_watched_over(folder) and any(folder.iterdir()))  # that shell also makes it
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    wait_until(lambda: not any(folder.iterdir()))


def test_a_kill_while_the_folder_is_made(tmp_path: Path) -> None:
    """The shell that makes it finds its input at the end, and no reader of its output."""
    reader, writer = os.pipe()
    os.close(reader)
    words = ["/bin/sh", "-c", private_folder.KEEP, "sh", str(tmp_path / "folder")]
    subprocess.run(words, stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.DEVNULL, timeout=60, check=False)
    os.close(writer)
    assert list(tmp_path.iterdir()) == []


def test_a_private_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a shell, and without one."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for keep in (private_folder.KEEP, "exit 1"):
        monkeypatch.setattr(private_folder, "KEEP", keep)
        with private_folder.PrivateFolder("test", ".json") as folder:
            (made,) = tmp_path.iterdir()
            assert stat.S_IMODE(made.stat().st_mode) == 0o700
            (made / "4711.json").touch()
            assert [number for number, _ in folder.files()] == [4711]
        assert list(tmp_path.iterdir()) == []


def test_a_kill_leaves_nothing(tool: Tool, watched: Watched, tmp_path: Path) -> None:
    process = tool.start("report", "--seconds", "60", "-o", "int.html", watched.pid)
    with process:
        wait_until(lambda: any("/#" in target or "deleted" in target for target in open_files(process.pid)))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir() if "int" in path.name] == []


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    """On a file system of one page."""
    if os.getuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode != 0:
        pytest.skip("needs root, to mount")
    code = (
        "from hakmem.output import OutputFile\n"
        "from hakmem.errors import Failure\n"
        f"file = OutputFile('{tmp_path}/full/page')\n"
        "try:\n"
        "    file.write(b'x' * 1000000)\n"
        "except Failure as failure:\n"
        "    print(failure.message)\n"
    )
    script = f"mount -t tmpfs -o size=8k none '{tmp_path}/full' && echo old >'{tmp_path}/full/page' && "
    script += f"{sys.executable} -c \"$1\"; cat '{tmp_path}/full/page'; ls -A '{tmp_path}/full'"
    (tmp_path / "full").mkdir()
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", f"import sys; sys.path.insert(0, {str(CLI)!r})\n{code}"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines()[1:] == ["old", "page"] and "No space left" in done.stdout, done.stderr


def test_an_option_without_its_file(tool: Tool, tmp_path: Path) -> None:
    """`--json -- PROGRAM`: no file of the name `--`."""
    done = tool("doctor", "--json", "--", "true")
    assert done.returncode == 2 and "FILE of an option is missing" in done.stderr and done.stderr.count("\n") == 1
    assert not (tool.folder / "--").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("profile", "-o", "same", "--flame", "./same", "--", "touch", "started"),
        ("report", "-o", "link", "--json", "same", "--", "touch", "started"),
        ("compare", "--json", "same", "--csv", "same", "--", "touch", "started"),
    ],
)
def test_two_results_in_one_file(tool: Tool, words: Tuple[str, ...]) -> None:
    """By any spelling: wrong usage, and nothing begins."""
    (tool.folder / "link").symlink_to("same")
    done = tool(*words)
    assert done.returncode == 2 and "each needs a file of its own" in done.stderr and done.stderr.count("\n") == 1
    assert [path.name for path in tool.folder.iterdir()] == ["link"]


def test_devices_take_several_results(tmp_path: Path) -> None:
    with reserve("/dev/null", None, "/dev/null", None, str(tmp_path / "-"), "-"):
        pass
    with pytest.raises(Failure, match="standard output"), reserve("-", "-"):
        pass


@pytest.mark.parametrize("name", ["/dev/stderr", "/dev/fd/2", "/proc/self/fd/2", "link"])
@pytest.mark.parametrize("mode", [">", ">>"])
def test_a_descriptor_of_a_file_is_written_at_its_position(tool: Tool, name: str, mode: str) -> None:
    (tool.folder / "link").symlink_to("/dev/stderr")
    log = tool.folder / "log"
    log.write_text("earlier\n")
    inode = log.stat().st_ino
    script = f'{{ echo before >&2; "$@"; echo after >&2; }} 2{mode}log'
    words = tool.words("doctor", "--json", name, "--", "true")
    done = subprocess.run(["sh", "-c", script, "sh", *words], cwd=tool.folder, timeout=60, check=False)
    assert done.returncode == 0 and log.stat().st_ino == inode
    first, *result, last = log.read_text().replace("earlier\n", "" if mode == ">>" else "?").splitlines()
    assert (first, last) == ("before", "after") and "findings" in json.loads("\n".join(result))


def test_a_descriptor_of_another_process_appends(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("earlier\n")
    with log.open("r+") as held, subprocess.Popen(["sleep", "60"], stdout=held) as other:
        try:
            OutputFile(f"/proc/{other.pid}/fd/1").write("new\n")
        finally:
            other.kill()
    assert log.read_text() == "earlier\nnew\n"


def test_a_file_and_a_descriptor_of_it_are_two_results_in_one_file(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as held:
        names = [f"/dev/fd/{held.fileno()}", str(tmp_path / "log")]
        for pair in (names, names[::-1]):
            with pytest.raises(Failure, match="a file of its own"), reserve(*pair):
                pass


def test_a_folder_that_was_removed(tool: Tool, tmp_path: Path) -> None:
    """The current one: a name in it leads nowhere, other names do."""

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        gone = tmp_path / "gone"
        gone.mkdir()
        script = ["sh", "-c", 'cd gone && rmdir ../gone && exec "$@"', "sh", *tool.words(*words)]
        return subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    done = run("doctor", "--json", "x.json")
    assert (done.returncode, done.stderr) == (125, "hakmem: cannot write x.json: the current folder was removed\n")
    done = run("run", "--library", "x.so", "--", "true")
    assert done.returncode == 125 and done.stderr.startswith("hakmem: the current folder was removed")
    assert run("run", "--json", "-", "--", "true").returncode == 0
    assert run("run", "--json", tmp_path / "x.json", "--", "true").returncode == 0


def test_what_cannot_be_written_is_shown(tool: Tool, library: Path, watched: Watched, tmp_path: Path) -> None:
    """On a full disk: what was measured cannot be measured again. The other files are written."""
    (tmp_path / "p.pb.gz").write_bytes(named({("append", "main"): (3, 3000, 3, 3000)}))
    (tmp_path / "a.learned").write_bytes(record().to_bytes())
    program = [sys.executable, "-c", "pass"]
    for words, shown in (
        (["profile", "--json", "/dev/full", "--folded", "folded", "--input", "p.pb.gz"], "append"),
        (["profile", "--seconds", "0.01", "--rate", "1", "-o", "/dev/full", watched.pid], "in use"),
        (["profile", "--seconds", "0.01", "--by", "lifetime", "-o", "/dev/full", watched.pid], "allocated"),
        (["profile", "-o", "/dev/full", "--folded", "folded", "--", *program], "in use"),
        (["leaks", "--json", "/dev/full", "--rate", "4096", "--", *program], "not freed"),
        (["compare", "-q", "--rounds", "1", "--warmup", "0", "--allocators", "hakmem", "--json", "/dev/full", "--csv",
          "folded", "--", *program], "peak resident"),
        (["report", "--json", "/dev/full", "-o", "folded", "--seconds", "0", watched.pid], ""),
        (["learn", "merge", "-o", "/dev/full", "--json", "folded", "a.learned"], "1 run"),
        (["learn", "replay", "--json", "/dev/full", ROOT / "bench/learn_traces/redis.level"], "The last decisions:"),
        (["explain", "--json", "/dev/full", watched.pid], "next: hakmem report"),
        (["diff", "--json", "/dev/full", "p.pb.gz", "p.pb.gz"], "inuse_space: "),
        (["doctor", "--json", "/dev/full"], "working here"),
    ):  # fmt: skip
        (tmp_path / "folded").unlink(missing_ok=True)
        done = tool(*words)
        told = "hakmem: cannot write /dev/full: No space left on device\n"
        assert (done.returncode, shown in done.stdout + done.stderr) == (125, True), (words, done)
        assert done.stderr.endswith(told) and done.stderr.count("cannot write") == 1, (words, done.stderr)
        assert (tmp_path / "folded").exists() is ("folded" in words)


def test_a_stdout_that_is_lost_takes_no_file_with_it(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "a.learned").write_bytes(record().to_bytes())
    words = tool.words("learn", "merge", "--json", "-", "-o", "merged", "a.learned")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(words, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    told = "hakmem: cannot write to standard output: No space left on device\n"
    assert (done.returncode, done.stderr, (tmp_path / "merged").exists()) == (125, told, True)


@pytest.mark.parametrize(("wanted", "own", "code"), [(0, 0, 125), (9, 0, 9), (9, 3, 3)])
def test_leaks_that_cannot_be_written(
    tool: Tool, library: Path, compile_c: Compile, wanted: int, own: int, code: int
) -> None:
    """The program's exit code goes before, and leaks count as ever."""
    loser = compile_c("loser_and_code", LOSER, "-fno-builtin")
    done = tool("leaks", "--json", "/dev/full", "--error-exitcode", wanted, "--", loser, own)
    assert done.returncode == code and "1,000 bytes in 1 block not freed" in done.stderr, done
    assert done.stderr.endswith("cannot write /dev/full: No space left on device\n")
