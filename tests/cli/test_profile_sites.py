"""`hakmem profile --by lifetime` and `--by pinned`: how long blocks of a site live, and what free memory they hold."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Dict, Iterator, List, Sequence

import pytest
from cli_support import Compile, Tool
from hakmem.errors import Failure
from hakmem.explain.sites import of_file
from hakmem.profile import live
from hakmem.profile.model import Frame
from hakmem.profile.site_tables import bars, lifetimes_text, median, pinned_text, short_share
from hakmem.profile.sites import LIFETIMES, SiteList, parse
from report_support import TERMINAL
from watched_support import Watched

KIB = 1 << 10
MIB = 1 << 20


def histogram(**of_bucket: int) -> List[int]:
    """`histogram(b0=5)`: five blocks in the first bucket."""
    return [of_bucket.get(f"b{i}", 0) for i in range(LIFETIMES)]


def site(frame: int, lifetimes: Sequence[int], **changes: Any) -> Dict[str, Any]:
    return {
        "frames": [hex(frame), "0x3011"], "shared": False, "samples": 9, "inuse_samples": 3, "alloc_objects": 100,
        "alloc_bytes": MIB, "inuse_objects": 16, "inuse_bytes": 96 * KIB, "requested": 96 * KIB,
        "block_bytes": 100 * KIB, "lifetimes": list(lifetimes), "pinned": {"bytes": 300 * KIB}, **changes,
    }  # fmt: skip


def answer(*sites: Any, path: str = "/no/file", **changes: Any) -> bytes:
    mapping = {"start": "0x1000", "end": "0x4000", "offset": "0x0", "path": path, "build_id": None}
    return json.dumps({"schema": 1, "rate": 524288, "sites": sites, "mappings": [mapping], **changes}).encode()


QUICK = site(
    0x1011, histogram(b0=300, b3=100), alloc_bytes=4 * MIB, inuse_objects=0, inuse_bytes=0, pinned={"bytes": 0}
)
HELD = site(0x1021, histogram(b7=5, b15=2))
STAYS = site(0x1031, histogram(), alloc_bytes=MIB // 2, pinned={"bytes": 100 * KIB})
NAMES = {0x1010: "quick", 0x1020: "held", 0x1030: "stays", 0x1040: "held", 0x3010: "main"}


def read(*sites: Any, **changes: Any) -> SiteList:
    """With names, as the symbolizer gives them."""
    found = parse(answer(*sites, **changes), "it")
    for location in found.profile.locations:
        location.frames = [Frame(NAMES[location.address])]
    return found


def test_bars_and_words() -> None:
    assert bars(histogram(b0=800, b1=1, b2=100, b15=400)) == "█▁▁············▄"
    assert bars(histogram(b4=1)) == "····█···········"
    words = {
        0: "under 1 ms",
        1: "1 to 2 ms",
        9: "256 to 512 ms",
        10: "0.5 to 1 s",
        11: "1 to 2 s",
        14: "8 to 16 s",
        15: "over 16 s",
    }
    for bucket, word in words.items():
        assert median(histogram(**{f"b{bucket}": 1})) == word
    assert median(histogram(b0=5, b9=5)) == "under 1 ms"
    assert median(histogram(b0=5, b9=6)) == "256 to 512 ms"
    assert median(histogram()) == "none freed"
    assert short_share(histogram(b0=1, b4=2, b5=1)) == 0.75
    assert short_share(histogram()) is None


def test_lifetimes() -> None:
    """The site that allocated most comes first; a site without freed blocks has no bars."""
    assert lifetimes_text(read(STAYS, HELD, QUICK), 20) == [
        "5.50 MiB allocated; about 407 blocks freed, 98.3% of them within 16 ms, from a sample every 512 KiB",
        "   allocated     in use        freed  <1 ms      >16 s  median          <16 ms  blocks of",
        "    4.00 MiB          0          400  █··▃············  under 1 ms      100.0%  quick ← main",
        "    1.00 MiB         16            7  ·······█·······▄  64 to 128 ms      0.0%  held ← main",
        "     512 KiB         16            0                    none freed              stays ← main",
    ]
    assert lifetimes_text(read(STAYS, HELD, QUICK), 1)[-1] == "and 2 more sites"
    assert lifetimes_text(read(), 20) == ["0 B allocated; about 0 blocks freed, from a sample every 512 KiB"]


def test_pinned() -> None:
    """What holds most comes first; what holds nothing is left out."""
    assert pinned_text(read(STAYS, HELD, QUICK), 20) == [
        "400 KiB free between live blocks, which hold it, from a sample every 512 KiB",
        "        free   free%        in use     blocks   empty  held by blocks of",
        "     300 KiB   75.0%        96 KiB         16   75.0%  held ← main",
        "     100 KiB   25.0%        96 KiB         16   50.0%  stays ← main",
    ]
    assert pinned_text(read(STAYS, HELD, QUICK), 1)[-1] == "and 1 more site"
    assert pinned_text(read(site(0x1011, histogram(), pinned=None)), 20)[0].startswith(
        "it is unknown which sites hold free memory"
    )


def test_sites_of_one_name_are_one() -> None:
    """Stacks that differ further out, or inside a function of which no lines are known."""
    text = lifetimes_text(read(HELD, site(0x1041, histogram(b0=93))), 20)
    assert len(text) == 3 and text[2].split()[:5] == ["2.00", "MiB", "32", "100", "█······▁·······▁"]
    assert pinned_text(read(HELD, site(0x1041, histogram())), 20)[2].split()[:3] == ["600", "KiB", "100.0%"]


def test_stacks_that_could_not_be_told_apart() -> None:
    shared = site(0x1011, histogram(b0=1), frames=[], shared=True)
    assert lifetimes_text(read(shared), 20)[-1].endswith("stacks that share one entry for want of room")


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"null", b"[]", b'{"parts": {}}', b"\x1f\x8b" + bytes(20), answer(QUICK)[:300],
        answer(QUICK, schema=2), answer({}), answer(5), answer(site(0x1011, [0] * 15)),
        answer(site(0x1011, histogram(b0=-1))),
        answer(site(0x1011, histogram(), block_bytes=-5)), answer(site(0x1011, histogram(), pinned={"free": 1})),
        answer(site(0x1011, histogram(), frames=["x"])), answer(site(0x1011, histogram(), alloc_bytes=float("inf"))),
        answer(QUICK, mappings=[{}]),
    ],
)  # fmt: skip
def test_damaged_answers(data: bytes) -> None:
    with pytest.raises(Failure, match=r"^it (is|has) "):
        parse(data, "it")


def test_a_saved_answer(tool: Tool, tmp_path: Path) -> None:
    """By each of the four; names are those of a file that is not there, and cannot reach the terminal."""
    (tmp_path / "s.json").write_bytes(answer(STAYS, HELD, QUICK, path=f"/no/{TERMINAL}"))
    by = {one: tool("profile", "--sites", "s.json", "--by", one) for one in ("lifetime", "pinned", "inuse", "alloc")}
    assert [one.returncode for one in by.values()] == [0] * 4
    assert by["lifetime"].stdout.startswith("5.50 MiB allocated; about 407 blocks freed")
    assert "evil?[2J?name+0x10 ← evil?[2J?name+0x2010" in by["lifetime"].stdout
    assert by["pinned"].stdout.startswith("400 KiB free between live blocks")
    assert by["inuse"].stdout.startswith("192 KiB in use, about 32 blocks")
    assert by["alloc"].stdout.startswith("5.50 MiB allocated, about 300 blocks")
    for one in by.values():
        assert "\x1b" not in one.stdout + one.stderr and "evil?[2J?name: the file is no longer there" in one.stderr
    done = tool("profile", "--sites", "s.json", "--by", "pinned", "-q", "-o", "copy.json")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "copy.json").read_bytes() == (tmp_path / "s.json").read_bytes()


def test_files_that_are_none(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "cut").write_bytes(answer(QUICK)[:200])
    done = tool("profile", "--by", "lifetime", "--sites", "cut")
    assert (done.returncode, done.stdout) == (125, "") and done.stderr.startswith(
        "hakmem: cut is no answer to `profile sites`"
    )
    assert (
        tool("profile", "--by", "lifetime", "--sites", "no-such").stderr
        == "hakmem: cannot read no-such: No such file or directory\n"
    )


@pytest.mark.parametrize("by", ["lifetime", "pinned"])
def test_only_a_process_tells(tool: Tool, tmp_path: Path, by: str) -> None:
    """Not a program that is started here, whose profile is written at its end, and no pprof file."""
    for words in (["--", "touch", "ran"], ["--input", "heap.pb.gz"]):
        done = tool("profile", "--by", by, *words)
        assert done.returncode == 2 and f"--by {by} needs a process that runs" in done.stderr, words
    assert not (tmp_path / "ran").exists()
    for option in ("--folded", "--speedscope", "--flame"):
        done = tool("profile", "--by", by, option, "f", "--sites", "s.json")
        assert done.returncode == 2 and "draw bytes" in done.stderr
    for words in (
        ["--sites", "s.json", "1"],
        ["--sites", "s.json", "--input", "i"],
        ["--sites", "s.json", "--rate", "5"],
    ):
        assert tool("profile", *words).returncode == 2, words


@pytest.mark.parametrize("running", [False, True])
def test_a_process_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch, running: bool) -> None:
    asked: List[str] = []

    def ask(request: str) -> bytes:
        asked.append(request)
        return json.dumps({"running": running, "rate": 4096}).encode() if request == "profile state" else answer(QUICK)

    slept: List[float] = []
    monkeypatch.setattr(live.time, "sleep", slept.append)
    notes: List[str] = []
    assert live.take_sites(ask, 7, 3.0, None, notes) == answer(QUICK)
    between = ["profile sites"] if running else ["profile start 524288", "profile sites", "profile stop"]
    assert (asked, sum(slept), len(notes)) == (["profile state", *between], 3.0, 1)
    assert ("is read, and left running" if running else "blocks from before the profile") in notes[0]


# `go`: one site allocates blocks that are freed at once, one blocks that stay, and a third one blocks most of which are
# freed 100 ms later.
LIVES = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define SITE(name) \
  __attribute__((noinline, noclone)) void *name(size_t bytes) { \
    void *volatile block = malloc(bytes); \
    return block; \
  }
SITE(at_once)
SITE(stays)
SITE(later)
static void *kept[4000], *late[4000];
static void go(void) {
  for (int i = 0; i < 100000; i++) free(at_once(1000));
  for (int i = 0; i < 4000; i++) kept[i] = stays(6000);
  for (int i = 0; i < 4000; i++) late[i] = later(3000);
  usleep(100 * 1000);
  for (int i = 0; i < 4000; i++)
    if (i % 16) free(late[i]);
}
int main(void) {
  char line[64];
  alarm(100);
  while (fgets(line, sizeof line, stdin)) {
    if (line[0] == 'g') go();
    puts("ok");
    fflush(stdout);
  }
  return kept[0] == late[0];
}
"""
RATE = "8192"  # some 12,000, 2,900, and 1,500 samples: is_near allows more than ten times their error


@pytest.fixture
def lives(compile_c: Compile, library: Path) -> Iterator[Watched]:
    """The program, which samples from its start."""
    options = {"HAKMEM_PROFILE": "1", "HAKMEM_PROFILE_RATE": RATE, "HAKMEM_PROFILE_FILE": "-"}
    found = Watched(compile_c("lives", LIVES, "-fno-builtin"), library, **options)
    with found.process:
        try:
            yield found
        finally:
            found.process.kill()


def row_of(name: str, output: str) -> List[str]:
    (line,) = (line for line in output.splitlines() if f" {name} " in line)
    return line.split()


def is_near(text: str, truth: int) -> bool:
    return abs(int(text.replace(",", "")) - truth) < 0.3 * truth


def test_a_real_process(lives: Watched, tool: Tool, tmp_path: Path) -> None:
    """A busy machine makes lives longer, never shorter, and not those of most blocks that are freed at once."""
    lives.do("go")
    done = tool("profile", lives.pid, "--by", "lifetime", "-o", "s.json")
    assert done.returncode == 0 and "is read, and left running" in done.stderr
    quick, stays, later = (row_of(name, done.stdout) for name in ("at_once", "stays", "later"))
    # Allocated (two words), in use, freed, bars, median, share of the short-lived.
    assert quick[2] == "0" and is_near(quick[3], 100000) and quick[4][0] == "█"
    assert quick[5:8] == ["under", "1", "ms"] and float(quick[8].rstrip("%")) > 50
    assert is_near(stays[2], 4000) and stays[3:6] == ["0", "none", "freed"]
    assert is_near(later[3], 3750) and later[4].startswith("······") and "0.0%" in later
    # A slab in 16 of theirs is full, and they hold the rest; blocks that stay lie side by side.
    done = tool("profile", "--by", "pinned", "--sites", "s.json")
    held = row_of("later", done.stdout)
    assert done.stdout.splitlines()[2].split() == held, "it comes first"
    free = 3750 * 3000 / MIB
    assert 0.5 * free < float(held[0]) < 1.5 * free and held[1] == "MiB" and float(held[6].rstrip("%")) > 80
    assert " at_once " not in done.stdout
    assert json.loads((tmp_path / "s.json").read_bytes())["rate"] == int(RATE)
    assert of_file(str(tmp_path / "s.json")).pinning[0].names[0] == "later", "hakmem explain finds it, too"
    # The page of hakmem report has the same row.
    assert tool("report", lives.pid, "--seconds", "0", "-o", "page.html").returncode == 0
    page = (tmp_path / "page.html").read_text()
    (row,) = (
        row
        for row in page.split('id="lifetimes-table"')[1].split("</table>")[0].split("<tr>")
        if row.startswith('<th scope="row" title="later ')
    )
    assert is_near(re.findall(r'data-value="(\d+)"', row)[2], 3750) and f">{later[4]}</span>" in row
    lives.end()
