"""Runs the tool in forks of one process that has imported all of it: most of a start's time is the imports.

As a program it reads a line of JSON for each run, and prints a line with the exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, NoReturn

CLI = Path(__file__).resolve().parents[2] / "cli"
_OUTPUT = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


@dataclass(frozen=True)
class Done:
    """The end of a run."""

    returncode: int
    stdout: str
    stderr: str


class ForkedTool:
    """Starts runs one after the other, in a folder."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self._folder = folder
        self._out, self._err = scratch / "out", scratch / "err"
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([sys.executable, "-I", __file__], stdin=pipe, stdout=pipe, text=True)

    def __call__(self, words: List[str], stdout: str = "", **variables: str) -> Done:
        """`stdout` is a file's name, `closed`, or `gone`: a pipe without a reader."""
        assert self._process.stdin is not None and self._process.stdout is not None
        # compare would name variables of the tests in a note.
        environment = {name: text for name, text in os.environ.items() if not name.startswith("HAKMEM_TEST_")}
        order = {
            "words": words, "folder": str(self._folder), "environment": {**environment, **variables},
            "out": stdout or str(self._out), "err": str(self._err),
        }  # fmt: skip
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        return Done(code, "" if stdout else self._out.read_text(), self._err.read_text())

    def close(self) -> None:
        """The process ends at the end of its input."""
        self._process.communicate()


def _serve() -> None:
    import importlib

    sys.path.insert(0, str(CLI))
    tool = importlib.import_module("hakmem.main")
    for names in tool.GROUPS.values():
        for name in names:
            importlib.import_module(f"hakmem.commands.{name}")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _run(tool, json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status), flush=True)


def _run(tool: Any, order: Dict[str, Any]) -> NoReturn:
    code: Any = 70
    try:
        os.chdir(order["folder"])
        os.environ.clear()
        os.environ.update(order["environment"])
        sys.argv = ["hakmem", *order["words"]]
        _redirect(order["out"], order["err"])
        tool.main()
    except SystemExit as ended:
        code = ended.code or 0
    finally:
        os._exit(code)


def _redirect(out: str, err: str) -> None:
    """As a shell does it. Python starts without a stream where its descriptor is closed."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(err, _OUTPUT), 2)
    if out == "closed":
        os.close(1)
        sys.stdout = None  # type: ignore[assignment]
    elif out == "gone":
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, 1)
        os.close(writer)
    else:
        os.dup2(os.open(out, _OUTPUT), 1)


if __name__ == "__main__":
    _serve()
