"""A program to watch, started by a plain LD_PRELOAD, without any option."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Callable, Dict

DEADLINE_SECONDS = 60.0
BLOCK_BYTES = 48_000  # of a size that nothing else in the program has

# Obeys the lines of its stdin, and prints `ok` after each: `grow N`, N more blocks. It ends at the end of its stdin.
SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
  alarm(900); /* the longest that the tests of a file take on a busy machine */
  for (size_t bytes = 16; bytes < 20000; bytes *= 2) memset(malloc(bytes), 1, bytes);
  char line[64];
  while (fgets(line, sizeof line, stdin)) {
    int count = 0;
    sscanf(line, "grow %d", &count);
    while (count-- > 0) memset(malloc(48000), 1, 48000);
    puts("ok");
    fflush(stdout);
  }
  return 0;
}
"""


class Watched:
    """The program, and the lines it obeys."""

    def __init__(self, command: Path, library: Path, **options: str) -> None:
        self.name = command.name
        self.process = subprocess.Popen(
            [str(command)], env={**plain(library), **options}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self.process.pid
        self.do("begin")

    def do(self, line: str) -> None:
        """Returns when it is done."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ok\n"

    def end(self) -> None:
        """It ends by itself, and well."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(DEADLINE_SECONDS) == 0

    def threads(self) -> Dict[str, int]:
        """Their numbers by their names."""
        found = {}
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                found[(task / "comm").read_text().strip()] = int(task.name)
        return found


def plain(library: Path) -> Dict[str, str]:
    """Nothing but the preload."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
    return {**clean, "LD_PRELOAD": str(library)}


def wait_until(condition: Callable[[], bool]) -> None:
    """For what comes when it comes."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < end, "it does not come about"
        time.sleep(0.01)
