"""A profile, and guards, that start in a program whose threads allocate and free the same blocks again and again."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path
from typing import Iterator

import pytest
from cli_support import Compile, Tool

# Prints a line when both threads are at work.
STEADY = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *turns(void *unused) {
  for (;;) {
    void *volatile block = malloc(64);
    free(block);
  }
  return unused;
}

int main(void) {
  pthread_t thread;
  alarm(120);
  if (pthread_create(&thread, NULL, turns, NULL) != 0) return 1;
  for (unsigned round = 0;; ++round) {
    void *volatile block = malloc(100);
    free(block);
    if (round == 10000) puts("steady"), fflush(stdout);
    if (round % 100 == 0) usleep(1000);
  }
}
"""


@pytest.fixture
def steady(compile_c: Compile, library: Path) -> Iterator[int]:
    program = compile_c("steady", STEADY, "-fno-builtin", "-pthread")
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    with subprocess.Popen([program], env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "steady\n"
        try:
            yield process.pid
        finally:
            process.kill()


def test_a_profile_sees_all_threads(tool: Tool, steady: int) -> None:
    done = tool("profile", "--seconds", "1", "--by", "alloc", steady)
    assert done.returncode == 0, done.stderr
    for function in ("turns", "main"):
        found = re.search(rf"^ *([0-9.]+) [KMGT]?i?B .* {function}$", done.stdout, re.MULTILINE)
        assert found is not None and float(found[1]) > 0, done.stdout


def test_a_thread_is_no_process(tool: Tool, steady: int) -> None:
    (thread, *_) = (name for name in os.listdir(f"/proc/{steady}/task") if int(name) != steady)
    done = tool("stats", thread)
    expected = f"hakmem: {thread} is a thread of process {steady} (steady): that PID is needed\n"
    assert (done.returncode, done.stderr) == (125, expected)


def test_guards_see_all_threads(tool: Tool, steady: int) -> None:
    assert tool("guard", "--rate", "10", steady).returncode == 0
    for _ in range(300):
        found = re.search(r"(\d+) allocations guarded", tool("guard", steady).stdout)
        assert found is not None
        if int(found[1]) > 0:
            return
        time.sleep(0.1)
    pytest.fail("no allocation was guarded")
