"""tools/check_language.py finds what it promises to find, on small made-up trees."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKER = Path(__file__).resolve().parents[2] / "tools" / "check_language.py"
LONG = "word " * 30
GLOSSARY = """
| term | meaning | other |
|---|---|---|
| attach, detach | Makes a heap a thread's own. | - |
| carve | Cuts blocks. | - |
| free list | A list of free blocks. | - |
| span | Slabs with blocks of one class. | page |
"""
GOOD = {
    "README.md": "A reader who looks here finds 1.22 of [the result](results/7.77.md), and 64 KiB.\n",
    "docs/glossary.md": GLOSSARY,
    "docs/design.md": "**Carving.** Of **spans**, **a span's** blocks and **the free list**; it took 3.4 µs, 180 ms.\n",
    "docs/experiments/2026-01-01-time.md": "| 3.4 | 1,234 |\n",
    "bench/results/2026.md": "1.22\n",
    "src/README.md": "| L0 | `base` |\n",
    "src/base/units.h": "#define SLAB_BYTES (64 * HK_KIB) /* the slab */\n#define WAIT_MS 180\n",
    "src/base/list.c": 'static int bins; /* a reader, who knows */\nconst char *text = "who is there";\n',
    "tests/unit/list_test.cc": "TEST(list, first) {}\n",
}


def run(root: Path, changes: dict[str, str], *arguments: str) -> tuple[int, str]:
    for name, text in {**GOOD, **changes}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    command = [sys.executable, str(CHECKER), "--root", str(root), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_a_good_tree_passes(tmp_path: Path) -> None:
    assert run(tmp_path, {}, "--strict") == (0, "language: ok\n")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"src/base/list.c": f"int one;\n/* {LONG}*/\n"}, "src/base/list.c:2: 155 columns"),
        ({"docs/design.md": f"{LONG}\n"}, "docs/design.md:1: 150 columns"),
        ({"tests/unit/list_test.cc": f"// {LONG}\n"}, "tests/unit/list_test.cc:1: 153 columns"),
        ({"src/base/list.c": "/* Who frees it\n * is asked. */\n"}, 'src/base/list.c:1: "Who": name what acts'),
        ({"src/base/list.c": "/* Who frees it\n * is asked. */\n"}, 'src/base/list.c:2: "is asked": name what acts'),
        ({"docs/design.md": "It keeps what is idle.\n"}, 'docs/design.md:1: "what is idle"'),
        ({"docs/design.md": "Then nobody waits.\n"}, 'docs/design.md:1: "nobody"'),
        ({"docs/design.md": "It takes so many bytes.\n"}, 'docs/design.md:1: "so many"'),
        ({"tools/tool.py": '"""Says who came."""\n'}, 'tools/tool.py:1: "who"'),
        ({"tools/tool.py": "x = 1  # for somebody\n"}, 'tools/tool.py:1: "somebody"'),
        ({"src/policy/option.def": 'HK_OPTION(a, "by somebody")\n'}, 'src/policy/option.def:1: "somebody"'),
        ({"docs/design.md": "A **wild bin** is none.\n"}, "docs/design.md:1: **wild bin** is not in docs/glossary.md"),
        ({"src/README.md": "\n* **A shard** is one.\n"}, "src/README.md:2: **A shard** is not in docs/glossary.md"),
        ({"src/base/list.c": "int hk_sink_push;\n"}, "src/base/list.c:1: hk_sink_push has the old name sink"),
        ({"src/base/far_bytes.h": ""}, "src/base/far_bytes.h:1: the file's name has the old name far_bytes"),
        ({"README.md": "It takes 1.23 of it.\n"}, "README.md:1: 1.23: no note, result, test or constant has it"),
        ({"README.md": "One has 128 KiB.\n"}, "README.md:1: 128 KiB: no note, result, test or constant has it"),
        ({"docs/design.md": "It waits 64 ms.\n"}, "docs/design.md:1: 64 ms: no note, result, test or constant has it"),
        ({"docs/design.md": "word\n" * 2501}, "docs/design.md:1: 2501 words, at most 2500"),
    ],
)
def test_each_violation_is_named(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    code, output = run(tmp_path, changes, "--strict")
    assert code == 1
    assert message in output


@pytest.mark.parametrize(
    "changes",
    [
        {"docs/design.md": f"| {LONG} |\n\n```\n{LONG}\nwho is **there** in 9.99 s\n```\n"},
        {"docs/design.md": f"<https://example.org/{'a' * 120}>\n"},
        {"README.md": "Users and people\nwho read it, and `who` it is. C17 and glibc 2.36 are enough.\n"},
        {"docs/design.md": "**What it costs.** **Blocks never cross from one slab into the next.** **172**\n"},
        {"src/base/list.c": "int trailing, sinking, spotless; /* the sink is no identifier */\n"},
        {"README.md": "1,234 calls of 3.4 µs; 0.18 s; 4 KiB.\n"},
        {"docs/design.md": "word\n" * 2500},
        {"tests/fuzz/corpus/long.md": f"{LONG}\n", "bench/results/2026.md": f"1.22 nobody {LONG}\n"},
    ],
)
def test_what_is_good_is_not_named(tmp_path: Path, changes: dict[str, str]) -> None:
    assert run(tmp_path, changes, "--strict") == (0, "language: ok\n")


def test_elsewhere_findings_are_counted(tmp_path: Path) -> None:
    changes = {"NOTES.md": f"{LONG}\nNobody.\n", "docs/glossary.md": f"{GLOSSARY}\nsomebody\n"}
    code, output = run(tmp_path, changes, "columns", "calques", "--list")
    assert code == 1  # the glossary has to be clean
    assert 'docs/glossary.md:9: "somebody"' in output
    assert "language: columns: 1 in 1 files that need not be clean yet" in output
    assert "     1 calques NOTES.md" in output
    assert run(tmp_path, {**changes, "docs/glossary.md": GLOSSARY})[0] == 0


def test_an_unknown_check_is_refused(tmp_path: Path) -> None:
    assert run(tmp_path, {}, "spelling")[0] == 2
