"""The commands of docs/recipes/musl.md, as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
RECIPE = REPOSITORY / "docs" / "recipes" / "musl.md"
# Does some work in two threads, so that there is something to serve.
PROGRAM = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void *work(void *unused) {
  for (volatile int i = 1; i < 100000; i++) free(malloc((size_t)i % 1000));
  return unused;
}
int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, work, NULL);
  work(NULL);
  pthread_join(thread, NULL);
  puts("done");
  return 0;
}
"""
CXX_PROGRAM = r"""
#include <cstdio>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>
extern "C" bool hakmem_check_owned(const void *address);
struct alignas(256) Wide { char bytes[256]; };
int main() {
  std::map<std::string, std::vector<int>> map;
  for (int i = 0; i < 1000; i++) map[std::to_string(i)].assign(100, i);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back([] { for (int j = 1; j < 1000; j++) delete new std::string(j, 'x'); });
  for (auto &thread : threads) thread.join();
  Wide *volatile wide = new Wide;
  bool is_thrown = false;
  try {
    volatile std::size_t bytes = std::size_t{1} << 60;
    char *volatile block = new char[bytes];
    delete[] block;
  } catch (const std::bad_alloc &) {
    is_thrown = true;
  }
  std::printf("owned %d, thrown %d\n", hakmem_check_owned(wide), is_thrown);
  delete wide;
}
"""


@pytest.fixture
def checkout(build: Path, tmp_path: Path) -> Path:
    """A folder that looks like the checkout after `make musl`, and has program.c."""
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "musl").symlink_to(build)
    (tmp_path / "hakmem").symlink_to(REPOSITORY / "hakmem")
    (tmp_path / "program.c").write_text(PROGRAM)
    (tmp_path / "program.cc").write_text(CXX_PROGRAM)
    return tmp_path


def shell(text: str, folder: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{path}{os.environ['PATH']}", "HAKMEM_STATS": "1"}
    return subprocess.run(
        ["bash", "-eu", "-c", text],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,  # for what hangs; zig may have to build its C++ library first
        check=False,
    )


def test_the_blocks_of_the_page(checkout: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", RECIPE.read_text(), re.DOTALL)
    assert len(blocks) == 2 and blocks[0].startswith("make musl\n")
    linked = shell(blocks[0].replace("make musl\n", ""), checkout)
    assert (linked.returncode, linked.stdout) == (0, "done\n"), linked.stderr
    assert "hakmem: memory" in linked.stderr
    preloaded = shell(blocks[1], checkout)
    assert (preloaded.returncode, preloaded.stdout) == (0, "done\ndone\n"), preloaded.stderr
    assert "served malloc" in preloaded.stderr and preloaded.stderr.count("hakmem: memory") == 2


def test_cxx_by_zig(checkout: Path) -> None:
    zig = next(REPOSITORY.glob("build/venv/lib/python3*/site-packages/ziglang/zig"), None)
    if zig is None:
        pytest.skip("there is no zig in build/venv")
    found = re.search(r"`(zig c\+\+ [^`]*)`", RECIPE.read_text())
    assert found is not None
    done = shell(f"{found[1]} -o program && ./program", checkout, f"{zig.parent}:")
    assert (done.returncode, done.stdout) == (0, "owned 1, thrown 1\n"), done.stderr
