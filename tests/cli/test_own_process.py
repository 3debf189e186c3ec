"""`import hakmem`: the figures of a Python program that runs on hakmem."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import hakmem
import pytest
from cli_support import CLI, ROOT, Compile

MIB = 1 << 20


def run(code: str, preload: object = "") -> subprocess.CompletedProcess[str]:
    """Runs Python code that may import hakmem."""
    words = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(CLI)!r}); import hakmem\n{code}"]
    environment = {"LD_PRELOAD": str(preload)} if preload else {}
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


def told(code: str, preload: object) -> Dict[str, Any]:
    """What the code leaves in `said`."""
    done = run(f"import json\n{code}\nprint(json.dumps(said))", preload)
    assert done.returncode == 0, done.stderr
    found: Dict[str, Any] = json.loads(done.stdout)
    return found


def fields(struct: str) -> list[str]:
    """A struct's fields as the public header has them; of a union the first."""
    text = (ROOT / "include" / "hakmem" / "hakmem.h").read_text()
    (body,) = re.findall(r"typedef struct \{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\} " + struct, text)
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    body = re.sub(r"union \{\s*(uint64_t \w+;)[^}]*\};", r"\1", body)
    return re.findall(r"uint64_t (\w+);", body)


def test_the_tuples_are_the_structs() -> None:
    assert list(hakmem.Stats._fields) == fields("hakmem_stats_t")
    assert list(hakmem.Events._fields) == fields("hakmem_stats_events_t")


GROW = """
import ctypes, os
names = ctypes.CDLL(None)
names.malloc.restype, names.malloc.argtypes, names.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
names.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
before, events_before = hakmem.stats(), hakmem.events()
blocks = [names.malloc(8 << 20) for _ in range(4)]
for block in blocks: names.memset(block, 1, 8 << 20)
after, events_after = hakmem.stats(), hakmem.events()
for block in blocks: names.free(block)
freed = hakmem.stats()
collected = hakmem.collect()
end = hakmem.stats()
resident = int(open('/proc/self/statm').read().split()[1]) * os.sysconf('SC_PAGE_SIZE')
said = {'before': before._asdict(), 'after': after._asdict(), 'freed': freed._asdict(), 'end': end._asdict(),
        'events_before': events_before._asdict(), 'events_after': events_after._asdict(), 'collected': collected,
        'resident': resident, 'page': os.sysconf('SC_PAGE_SIZE'), 'active': hakmem.is_active()}
"""


@pytest.mark.parametrize("name", ["libhakmem.so", "libhakmem-fast.so"])
def test_figures_follow_the_program(library: Path, name: str) -> None:
    said = told(GROW, library.with_name(name))
    before, after, freed, end = (said[name] for name in ("before", "after", "freed", "end"))
    assert said["active"] is True
    assert after["live_bytes"] - before["live_bytes"] >= 32 * MIB
    assert after["live_bytes"] - freed["live_bytes"] >= 32 * MIB
    assert after["memory_resident"] - before["memory_resident"] >= 31 * MIB
    assert said["events_after"]["large_alloc"] - said["events_before"]["large_alloc"] == 4
    assert said["collected"] >= freed["memory_resident"] - end["memory_resident"] - MIB
    assert said["collected"] > 0 and end["memory_dirty"] <= freed["memory_dirty"]
    assert abs(end["memory_resident"] - said["resident"]) < 2 * MIB
    assert before["process_page_bytes"] == said["page"]
    assert before["version"] == 1 and before["filled"] == 8 * len(hakmem.Stats._fields)


def test_without_hakmem() -> None:
    done = run(
        "assert hakmem.is_active() is False\n"
        "for call in (hakmem.stats, hakmem.events, hakmem.collect):\n"
        "    try: call()\n"
        "    except hakmem.NotActiveError as error: print(error)"
    )
    assert done.returncode == 0, done.stderr
    first, *others = done.stdout.splitlines()
    assert others == [first, first]
    assert first.startswith("this process does not run on hakmem: start it by `hakmem run -- python")


def test_loaded_behind_another_malloc(library: Path, compile_c: Compile) -> None:
    other = compile_c(
        "libbump.so",
        "#include <string.h>\nstatic char room[1 << 26]; static unsigned long used;\n"
        "void *malloc(unsigned long n) { char *p = room + used; used += (n + 31) & ~15ul; "
        "*(long *)p = n; return p + 16; }\n"
        "void free(void *p) { (void)p; }\n"
        "void *calloc(unsigned long a, unsigned long b) { return malloc(a * b); }\n"
        "void *realloc(void *p, unsigned long n) { void *q = malloc(n); if (!p) return q; unsigned long m = "
        "*(long *)((char *)p - 16); return memcpy(q, p, m < n ? m : n); }\n",
        "-shared", "-fPIC", "-fno-builtin",
    )  # fmt: skip
    done = run("hakmem.stats()", f"{other}:{library}")
    assert done.returncode == 1
    assert "NotActiveError: hakmem is loaded, but another library serves malloc" in done.stderr
