"""Fixtures of the tests of the command line tool: the tool itself, and tiny programs to run under it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Iterator

import pytest
from cli_support import Compile, Tool
from hakmem.paths import find_library
from watched_support import SOURCE, Watched


@pytest.fixture(scope="session", autouse=True)
def heard_interrupts() -> None:
    """A shell starts a background job with SIGINT ignored, and the tool would inherit that."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest-xdist gives its workers a width, and so does readline, which pytest imports, behind os.environ. Programs
    would take it for the user's."""
    for name in ("COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
        os.unsetenv(name)


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    """The tool, at home in a folder of the test's own."""
    return Tool(tmp_path)


@pytest.fixture
def library() -> Path:
    """Our library."""
    found = find_library()
    if found is None:
        pytest.skip("libhakmem.so is not built (make lib)")
    return found


@pytest.fixture(scope="session")
def compile_c(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Compiles a C program. One name is one program, in all tests."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("programs")

    def compile_one(name: str, source: str, *flags: str) -> Path:
        target, text = folder / name, folder / f"{name}.c"
        if target.exists():
            assert text.read_text() == source, f"another test has another program {name}"
        else:
            text.write_text(source)
            done = subprocess.run(
                [compiler, "-O1", "-o", str(target), str(text), *flags], capture_output=True, check=False
            )
            is_optional = any(flag.startswith(("-static", "-fsanitize")) for flag in flags)
            if done.returncode != 0 and is_optional:
                pytest.skip(f"cc {' '.join(flags)} does not work here")
            assert done.returncode == 0, done.stderr.decode()
        return target

    return compile_one


# Ends as its arguments say, but only where LD_PRELOAD has the word: `fails WORD abort|sleep|exit N`.
FAILS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
  const char *preload = getenv("LD_PRELOAD");
  void *volatile block = malloc(1000);
  free(block);
  if (argc < 3 || !preload || !strstr(preload, argv[1])) return 0;
  fprintf(stderr, "about to %s\n", argv[2]);
  if (!strcmp(argv[2], "abort")) abort();
  if (!strcmp(argv[2], "sleep")) sleep(1000);
  return atoi(argv[3]);
}
"""


@pytest.fixture
def fails(compile_c: Compile) -> Path:
    """A program that fails under some allocators."""
    return compile_c("fails", FAILS)


@pytest.fixture
def busy(compile_c: Compile) -> Path:
    """A program that holds memory for a moment: `busy MIB MILLISECONDS`. A test that asks all processes of the machine
    interrupts its sleep."""
    return compile_c(
        "busy",
        r"""
#include <stdlib.h>
#include <string.h>
#include <time.h>
int main(int argc, char **argv) {
  size_t bytes = strtoul(argv[1], NULL, 10) << 20;
  char *volatile block = malloc(bytes);
  memset(block, 1, bytes);
  long ms = atol(argv[2]);
  struct timespec rest = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&rest, &rest) != 0) continue;
  return block[bytes - 1] != 1;
}
""",
    )


@pytest.fixture
def as_root() -> None:
    """Only root may give files away."""
    if os.getuid() != 0:
        pytest.skip("needs root")


@pytest.fixture
def watched(compile_c: Compile, library: Path) -> Iterator[Watched]:
    """A program that runs on hakmem and knows nothing of it."""
    found = Watched(compile_c("holder", SOURCE), library)
    with found.process:
        try:
            yield found
        finally:
            found.process.kill()
