"""`hakmem explain`: its reasons for cached memory and for free blocks, and the profiles that it leaves out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

import pytest
from cli_support import Tool
from hakmem import stats_summary
from hakmem.explain import profile_match, reasons, retained
from hakmem.explain.explanation import Evidence, Part
from hakmem.explain.process_memory import Outside
from hakmem.explain.sites import Site, Sites
from hakmem.explain.snapshot import check
from hakmem.profile.model import Mapping, Profile
from report_support import KIB, MIB, heap, save, sites, snapshot


def run(tool: Tool, folder: Path, document: Dict[str, Any]) -> str:
    done = tool("explain", save(folder, "s.json", document))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def text_of(tool: Tool, folder: Path, document: Dict[str, Any]) -> str:
    """All of it in one line."""
    return " ".join(run(tool, folder, document).split())


def free_in_slabs(tool: Tool, folder: Path, document: Dict[str, Any]) -> str:
    """The paragraph of that part in one line."""
    paragraphs = run(tool, folder, document).split("\n\n")
    return next(" ".join(one.split()) for one in paragraphs if one.startswith("free in slabs: "))


def test_the_requests_of_a_site_are_told_to_the_byte() -> None:
    """In KiB, 3,000 bytes in a block of 3 KiB would fit it."""
    part = Part("inside_blocks", "inside blocks", MIB)
    rows = [Site(("remember",), 3000 * 100, 100, block_bytes=3072 * 100)]
    reasons.inside_blocks(part, Evidence(check(snapshot(), "s"), Sites(rows)))
    assert part.why == ["7 KiB by remember, which requests 3,000 bytes on average"]


@pytest.mark.parametrize(
    ("count", "told"),
    [(1, "The stack of 1 thread that ran: it counts"), (2, "The stacks of 2 threads that ran: they count")],
)
def test_the_stacks_of_threads_that_ran_are_unknown(count: int, told: str) -> None:
    part = Part("not_malloc", "not malloc", MIB)
    reasons.not_malloc(part, Evidence(check(snapshot(), "s"), None, outside=Outside(threads_unseen=count)))
    assert f"{told} as other anonymous memory." in part.unknown


def test_no_size_is_told_of_large_blocks(tool: Tool, tmp_path: Path) -> None:
    """They begin above 1 MiB, in the hardened library above 32 KiB."""
    document = snapshot()
    document["bands"] = {
        "run": {"live_blocks": 2, "live_bytes": MIB},
        "large": {"live_blocks": 30, "live_bytes": 9 * MIB},
    }
    assert "9.00 MiB in 30 large blocks; 1.00 MiB in 2 blocks of up to 1 MiB." in text_of(tool, tmp_path, document)


# Cached memory in a program without a purge thread.


def alone(dirty: int, refaulted: int = 0, in_use: int = 2 * MIB, by_heaps: int = MIB) -> Dict[str, Any]:
    """A program of one thread, with dirty extents."""
    document = snapshot()
    changed = {"kept_by_heaps": by_heaps, "dirty_slabs": 0, "large_dirty": dirty}
    document["parts"].update(changed)
    document["memory"].update(resident=sum(document["parts"].values()), in_use=in_use)
    document["events"].update(purged=188 * MIB, refaulted=refaulted)
    document["purge_thread"] = False
    return document


def test_memory_beyond_the_rule_is_kept_because_of_refaults(tool: Tool, tmp_path: Path) -> None:
    told = text_of(tool, tmp_path, alone(57 * MIB, refaulted=50 * MIB, by_heaps=2 * MIB))
    assert (
        "(kept: 49.0 MiB because purged memory was soon requested again, 8.00 MiB because HAKMEM_RETAIN lets 8M stay, "
        "2.00 MiB by heaps for their next blocks)"
    ) in told
    assert "49.0 MiB more stays: the program soon requested 50.0 MiB of purged memory again" in told
    assert "A program that is quiet keeps all of it until its next call." in told
    assert "HAKMEM_MODE=lean keeps" not in told and "HAKMEM_RETAIN=0 allows least" in told
    assert "keeping less would cost such faults again" in told and "a shorter time" not in told


def kept(document: Dict[str, Any]) -> str:
    return retained.kept_because(check(document, "s.json"))


def at(dearness: int, document: Dict[str, Any]) -> Dict[str, Any]:
    """The same document where memory is `dearness` times as dear as in the mode balanced."""
    document["learning"]["dearness"] = dearness
    return document


def with_options(document: Dict[str, Any], **options: str) -> Dict[str, Any]:
    document["options"].update(options)
    return document


def test_memory_within_the_rule_is_kept_by_the_rule() -> None:
    assert kept(alone(7 * MIB, by_heaps=0)) == "kept because HAKMEM_RETAIN lets 8M stay"
    assert kept(alone(9 * MIB, in_use=120 * MIB, by_heaps=0)) == "kept because a twelfth of the memory in use may stay"
    large = alone(9 * MIB, by_heaps=0)
    large["memory"]["large_blocks"] = 118 * MIB
    assert kept(large) == "kept because a twelfth of the memory in use may stay"


def test_the_price_and_the_option_change_the_rule() -> None:
    dear = at(10, with_options(alone(9 * MIB, refaulted=50 * MIB, in_use=120 * MIB, by_heaps=0), retain="512K"))
    assert kept(dear) == (
        "kept: 8.00 MiB because purged memory was soon requested again, 1.00 MiB because 1/120 of the memory in use "
        "may stay"
    )
    assert kept(at(0, with_options(alone(9 * MIB, by_heaps=0), retain="0"))) == "kept by time-outs"


def test_a_snapshot_without_the_figure_has_that_of_its_mode() -> None:
    document = with_options(alone(9 * MIB, in_use=120 * MIB, by_heaps=0), retain="512K")
    del document["learning"]["dearness"]
    assert kept(document) == "kept because a twelfth of the memory in use may stay"
    document["options"]["mode"] = ["no", "word"]  # the file may be anyone's
    assert kept(document) == "kept because a twelfth of the memory in use may stay"
    assert "because 1/120 of the memory in use may stay" in kept(with_options(document, mode="lean"))


def test_more_than_refaults_allow_has_no_known_reason(tool: Tool, tmp_path: Path) -> None:
    told = text_of(tool, tmp_path, alone(57 * MIB, refaulted=MIB))
    assert "49.0 MiB for a reason without a figure" in told
    assert "the refaults so far do not explain all of it, and no other figure does" in told


@pytest.mark.parametrize("has_purge_thread", [False, True])
def test_memory_that_only_heaps_keep_has_their_reason(has_purge_thread: bool) -> None:
    document = alone(0)
    document["purge_thread"] = has_purge_thread
    assert kept(document) == "kept by heaps for their next blocks"


@pytest.mark.parametrize(("dearness", "is_told"), [(0, True), (1, True), (9, True), (10, False), (11, False)])
def test_the_lean_mode_is_advice_where_a_purge_thread_runs_at_a_lower_price(dearness: int, is_told: bool) -> None:
    advice = retained.advice(check(at(dearness, with_options(snapshot(), retain="0")), "s.json"))
    assert ("HAKMEM_MODE=lean keeps it for a shorter time" in advice) is is_told
    assert "HAKMEM_RETAIN=0" not in advice and advice.endswith(".")


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("8M", 8 * MIB), ("3K", 3 * KIB), ("1T", 1 << 40), ("77", 77), ("x", None)]
)
def test_sizes_of_options(text: str, number: int) -> None:
    assert retained.bytes_of(text) == number


# Spans without a live block.


def idle_threads(count: int, has_purge_thread: bool = False) -> Dict[str, Any]:
    """Each has a heap with 64 free blocks of 4 KiB in four spans. Another heap has one live block."""
    row = {"slabs": 4, "free_blocks": 64, "free_bytes": 256 * KIB, "resident": 256 * KIB}
    document = snapshot()
    document["heaps"] = [heap(1, 4 * KIB), *({**heap(2 + i, 0), **row} for i in range(count))]
    document["classes"] = [
        {"bytes": 4096, "band": "mid", "spans": 4 * count + 1, "slabs": 4 * count + 1, "live_blocks": 1,
         "live_bytes": 4096, "free_blocks": 64 * count, "free_bytes": 256 * KIB * count, "spans_nearly_empty": 1},
    ]  # fmt: skip
    document["parts"]["free_in_slabs"] = 256 * KIB * count + 4 * KIB
    document["memory"].update(resident=sum(document["parts"].values()), heaps=count + 1)
    document["purge_thread"] = has_purge_thread
    return document


def test_spans_that_idle_threads_keep_are_no_fragmentation(tool: Tool, tmp_path: Path) -> None:
    told = free_in_slabs(tool, tmp_path, idle_threads(16))
    assert "Free blocks in slabs without a live block, which heaps keep for their threads' next requests." in told
    assert "4.00 MiB in 64 slabs of 16 heaps without a live block" in told
    assert "1,024 free beside 1 live in 65 spans, at least 64 of them without a live block" in told
    assert "the calling thread's heap and the heaps of threads that sleep" in told
    assert "No purge thread runs, so a thread that sleeps keeps its heap's slabs." in told
    for wrong in ("Long-lived blocks among", "nearly empty", "Which sites hold it", "that also have live ones"):
        assert wrong not in told


def test_size_classes_of_the_same_rounded_size_are_told_apart(tool: Tool, tmp_path: Path) -> None:
    document = snapshot()
    row = {"band": "mid", "spans": 5, "slabs": 5, "live_blocks": 9, "free_blocks": 20, "spans_nearly_empty": 0}
    sizes = (2304, 2560, 2816, 1008)
    document["classes"] = [{**row, "bytes": one, "live_bytes": 9 * one, "free_bytes": 20 * one} for one in sizes]
    told = free_in_slabs(tool, tmp_path, document)
    for shown in ("2.25 KiB", "2.5 KiB", "2.75 KiB"):
        assert f"in blocks of {shown}: 20 free beside 9 live" in told


def test_a_purge_thread_takes_the_spans_of_threads_that_sleep(tool: Tool, tmp_path: Path) -> None:
    told = free_in_slabs(tool, tmp_path, idle_threads(16, has_purge_thread=True))
    assert "The purge thread takes heaps of 256 KiB or more from threads that sleep" in told
    assert "No purge thread runs" not in told


def test_spans_of_both_kinds_have_both_reasons(tool: Tool, tmp_path: Path) -> None:
    document = idle_threads(16)
    document["classes"].append({**document["classes"][0], "bytes": 64, "live_blocks": 900, "free_bytes": 8 * MIB})
    document["parts"]["free_in_slabs"] += 8 * MIB
    document["memory"]["resident"] += 8 * MIB
    told = free_in_slabs(tool, tmp_path, document)
    assert "Some of these slabs have no live block." in told
    assert "Long-lived blocks among short-lived ones hold it" in told and "fewer idle threads keep less" in told


def test_spans_beside_live_blocks_of_one_heap_are_counted_by_class(tool: Tool, tmp_path: Path) -> None:
    document = snapshot()
    document["classes"] = [{**document["classes"][0], "spans": 9, "live_blocks": 2}]
    told = free_in_slabs(tool, tmp_path, document)
    assert "At least 7 spans have no live block" in told
    assert "Long-lived blocks among short-lived ones hold it" in told


def test_an_older_librarys_heaps_have_no_count_of_live_blocks(tool: Tool, tmp_path: Path) -> None:
    document = snapshot()
    document["heaps"] = [{"state": "attached", "slabs": 9, "spare_slabs": 1}]
    document["classes"] = [{"bytes": 64, "spans": 5, "free_bytes": 20 * MIB}]
    told = free_in_slabs(tool, tmp_path, document)
    assert "without a live block" not in told and "that also have live ones" in told


def line_of(part: str, document: Dict[str, Any]) -> str:
    document["memory"]["heaps"] = 1
    document["events"].update(huge_asked=0, huge_refused=0, out_of_memory=0, misuse=0)
    lines: List[str] = stats_summary.lines(document, 4711, "shop")
    return next(line for line in lines if line.startswith(f"{part} ")).partition("%  ")[2]


def free_line(document: Dict[str, Any]) -> str:
    return line_of("free", document)


def test_live_memory_has_the_ends_of_slabs_too(tool: Tool, tmp_path: Path) -> None:
    """A slab of 64 KiB with 58 blocks of 1,104 bytes has 1.5 KiB at its end. The part is then more than its blocks."""
    document = snapshot(live=20 * MIB)
    document["live"].update(bytes=19 * MIB, blocks=1)
    assert line_of("live", document) == "19.0 MiB in 1 block, and the ends of their slabs"
    told = tool("explain", save(tmp_path, "ends.json", document)).stdout
    assert "why: 1.00 MiB at the ends of slabs, where no further block fits." in told, told
    document["live"]["bytes"] = document["parts"]["live"] = 20 * MIB
    assert line_of("live", document) == "of 20.0 MiB in 1 block"
    assert "ends of slabs" not in tool("explain", save(tmp_path, "none.json", document)).stdout


def test_the_summary_tells_free_slabs_from_free_blocks_between_others() -> None:
    assert free_line(snapshot()) == "between blocks in use"
    assert free_line(idle_threads(16)) == "of which 4.00 MiB in slabs without a live block"
    document = idle_threads(16)
    document["live"]["blocks"] = 0
    assert free_line(document) == "in slabs without a live block"


# Profiles that cannot be of the process.


def test_sites_that_exceed_the_whole_are_left_out(tool: Tool, tmp_path: Path) -> None:
    known = save(tmp_path, "sites.json", sites("/no/file"))
    done = tool("explain", save(tmp_path, "s.json", snapshot(live=20 * MIB)), "--profile", known)
    told = " ".join(done.stdout.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        "sites.json has 100.0 MiB in use, more than all blocks of the process, 20.0 MiB: it is of another process or "
        "moment: its sites are left out."
    ) in told
    assert "file+0x" not in told and "inside blocks" not in told


def test_an_estimate_may_exceed_the_whole_by_its_spread() -> None:
    taken = check(snapshot(live=2 * MIB), "s.json")
    assert profile_match.doubt(Sites([Site(("f",), 5 * MIB, 10)], rate=512 * KIB), taken, None) == ""
    assert profile_match.doubt(Sites([Site(("f",), 5 * MIB, 10)], rate=512), taken, None) != ""


@pytest.mark.parametrize(("seconds", "is_doubted"), [(-61, True), (-59, False), (600, False)])
def test_a_profile_from_before_the_start_is_of_another_process(seconds: int, is_doubted: bool) -> None:
    taken = check(snapshot(), "s.json")  # up for 60 seconds
    profile = Profile([], [], [], [], time_nanos=(taken.number("time_ms") + 1000 * seconds) * 1_000_000)
    assert (profile_match.doubt(Sites(profile=profile), taken, None) == "is of another process") is is_doubted


def test_a_library_that_was_unloaded_makes_no_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    maps = "".join(f"{i:x}000-{i:x}800 r-xp 00000100 00:00 7 /lib/{i}\n" for i in (1, 2, 3))
    monkeypatch.setattr(profile_match, "mappings", lambda pid: maps)
    taken, places = check(snapshot(), "s.json"), (0x1000, 0x2000, 0x9000)
    files = [Mapping(start, start + 0x800, 0x100, f"/lib/{start}") for start in places]
    assert profile_match.doubt(Sites(profile=Profile([], [], files, [])), taken, 1) == ""
    assert profile_match.doubt(Sites(profile=Profile([], [], files[2:], [])), taken, 1) == "is of another process"
