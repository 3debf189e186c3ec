"""tools/check_layers.py finds what it promises to find, on small made-up trees."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKER = Path(__file__).resolve().parents[2] / "tools" / "check_layers.py"
TABLE = """
| layer | folder | may know | files, in order | idea |
|---|---|---|---|---|
| L0 | `base` | nothing | `units` `bits` | low |
| L1 | `os` | L0 | `lock` | middle |
| L2 | `api` | L0–L1 | `alloc` | high |
| L3 | `override` | L2 | `libc` | top |
"""
GOOD = {
    "src/README.md": TABLE,
    "src/base/units.h": "#include <stddef.h>\n",
    "src/base/bits.h": '#include "base/units.h"\n',
    "src/base/bits.c": '#include "base/bits.h"\n#include "base/units.h"\n',
    "src/os/lock.h": '#include "base/bits.h"\n',
    "src/api/alloc.c": '#include "os/lock.h"\n#include "base/units.h"\n#include <hakmem/hakmem.h>\n',
    "src/override/libc.c": '/* #include "base/units.h" */\n#include "api/alloc.h"\n',
    "src/override/hakmem.map": "{ local: *; };\n",
    "include/hakmem/hakmem.h": "",
}


def run(root: Path, changes: dict[str, str]) -> tuple[int, str]:
    for name, text in {**GOOD, **changes}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, CHECKER, "--root", root], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_a_good_tree_passes(tmp_path: Path) -> None:
    assert run(tmp_path, {}) == (0, "layers: ok\n")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"src/base/units.h": '#include "os/lock.h"\n'}, 'src/base/units.h:1: "os/lock.h": L0 `base` may not know L1'),
        ({"src/base/units.h": '\n#include "base/bits.h"\n'}, 'src/base/units.h:2: "base/bits.h": `bits` comes after'),
        ({"src/override/libc.c": '#  include "base/units.h"\n'}, "L3 `override` may not know L0 `base`"),
        ({"src/os/lock.h": '#include "bits.h"\n'}, 'write it as "folder/file"'),
        ({"src/os/lock.h": '#include "vendor/thing.h"\n'}, "knows no folder `vendor`"),
        ({"src/os/lock.h": '#include "base/list.h"\n'}, "has no `list` in `base`"),
        ({"src/os/lock.h": "#include <hakmem/hakmem.h>\n"}, "only api, inspect, override, report, serve may know it"),
        ({"src/base/extra.c": ""}, "src/base/extra.c: missing in the row of `base`"),
        ({"src/new/thing.c": ""}, "src/new/thing.c: src/README.md does not know its folder"),
        ({"src/README.md": TABLE.replace("`lock`", "`lock` `clock`")}, "`os` lists `clock`, which has no file"),
        ({"src/README.md": "nothing here"}, "no layer table"),
        ({"tests/unit/bits.c": ""}, "tests/unit/bits.c: src/base/bits.c has the same name"),
    ],
)
def test_each_violation_is_named(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    code, output = run(tmp_path, changes)
    assert code == 1
    assert message in output


def test_includes_in_comments_do_not_count(tmp_path: Path) -> None:
    comment = '/* Not:\n#include "api/alloc.c"\n*/\n// #include "api/alloc.c"\n'
    assert run(tmp_path, {"src/base/units.h": comment})[0] == 0
