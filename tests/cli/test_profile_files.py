"""Profiles as files: reading and writing, the signs of damaged ones, and the forms of export."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any, Dict, List

import pytest
from hakmem.errors import Failure
from hakmem.profile.export import folded, speedscope, stacks
from hakmem.profile.flame import draw
from hakmem.profile.model import Label
from hakmem.profile.read import parse, read
from hakmem.profile.top import rows, text
from hakmem.profile.write import to_bytes
from profile_support import Message, named

# Stacks, the innermost function first; values are objects and bytes allocated, objects and bytes in use.
SHOP = {
    ("malloc", "append", "grow", "main"): (10, 6000, 4, 3000),
    ("append", "load", "main"): (5, 2000, 1, 500),
    ("grow", "grow", "main"): (2, 2000, 2, 1500),
    ("parse<[u8; 3]>", "main"): (9, 9000, 0, 0),
}
SVG = "{http://www.w3.org/2000/svg}"


def failure(data: bytes) -> str:
    with pytest.raises(Failure) as raised:
        parse(data, "p")
    return raised.value.message


def test_what_is_written_is_what_was_read() -> None:
    message = Message(period=4096, time_nanos=17)
    message.mapping(0x1000, 0x9000, 0x200, "/bin/x", "ab12")
    message.sample([0x1100, 0x1200], (1, 2, 3, -4))
    message.proto.sample[0].label.add(key=message.string("thread"), str=message.string("io"))
    message.proto.comment.append(message.string("a remark"))
    message.proto.duration_nanos = 99
    first = parse(message.data(), "p")
    again = parse(to_bytes(first), "p")
    assert to_bytes(again) == to_bytes(first)
    assert (again.period, again.time_nanos, again.duration_nanos, again.comments) == (4096, 17, 99, ["a remark"])
    assert again.sample_types[3] == ("inuse_space", "bytes") and again.period_type == ("space", "bytes")
    (sample,) = again.samples
    assert sample.values == (1, 2, 3, -4) and sample.labels == (Label("thread", "io"),)
    assert [one.address for one in sample.locations] == [0x1100, 0x1200]
    mapping = sample.locations[0].mapping
    assert mapping is not None and (mapping.start, mapping.limit, mapping.offset) == (0x1000, 0x9000, 0x200)
    assert (mapping.path, mapping.build_id) == ("/bin/x", "ab12")


def test_a_path_that_is_no_utf_8() -> None:
    """It is still the path, and readers that require UTF-8 can read the written file."""
    message = Message()
    message.mapping(0x1000, 0x9000, 0, os.fsdecode(b"/d\xffx/prog"), "")
    message.sample([0x1100], (1, 2, 3, 4))
    profile = parse(message.data(), "p")
    assert os.fsencode(profile.mappings[0].path) == b"/d\xffx/prog"
    assert parse(to_bytes(profile), "p").mappings[0].path == "/d\\udcffx/prog"


def test_not_compressed() -> None:
    assert len(parse(gzip.decompress(named(SHOP)), "p").samples) == 4


def test_go_tool_pprof_reads_it(tmp_path: Path) -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("no go")
    (tmp_path / "p.pb.gz").write_bytes(to_bytes(parse(named(SHOP), "p")))
    done = subprocess.run(
        [go, "tool", "pprof", "-top", "-sample_index=inuse_space", "-unit=B", "p.pb.gz"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if "no such tool" in done.stderr:
        pytest.skip("go without pprof")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["3000B", "60.00%", "60.00%", "3000B", "60.00%", "malloc"] in lines


def test_a_missing_file() -> None:
    with pytest.raises(Failure, match=r"cannot read /no/such: No such file"):
        read("/no/such")


def test_damaged_files() -> None:
    good = named(SHOP)
    assert "is empty" in failure(b"")
    for length in (1, 9, 10, 20, len(good) // 2, len(good) - 9, len(good) - 1):
        assert any(word in failure(good[:length]) for word in ("cut off", "no pprof profile"))
    assert "cut off" in failure(good[: len(good) // 2])
    flipped = bytearray(good)
    flipped[-6] ^= 1  # the checksum
    assert "damaged" in failure(bytes(flipped)) and "CRC" in failure(bytes(flipped))
    flipped = bytearray(good)
    flipped[12] ^= 0xFF
    assert "damaged" in failure(bytes(flipped))


def test_every_flipped_byte_of_the_content_is_read_or_refused() -> None:
    """Never an error of Python's."""
    content = gzip.decompress(named(SHOP))
    refused = 0
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 0x55
        try:
            profile = parse(bytes(damaged), "p")
            to_bytes(profile)
        except Failure:
            refused += 1
    assert refused > len(content) // 10


def test_files_of_other_kinds() -> None:
    assert "is JSON" in failure(b'{"schema": 1}')
    assert "text form of other allocators" in failure(b"heap profile: 1: 2 [3: 4] @ heapprofile\n")
    assert "no pprof profile" in failure(b"hello\n")
    assert "no pprof profile" in failure(gzip.compress(b"\0" * 100))


def test_references_to_what_is_not_there() -> None:
    message = Message()
    message.proto.sample.add(location_id=[7], value=(1, 1, 1, 1))
    assert failure(message.data()) == "p is damaged: it refers to location 7, which it does not contain"
    message = Message()
    message.proto.location.add(id=1, mapping_id=3)
    assert "mapping 3" in failure(message.data())
    message = Message()
    message.proto.location.add(id=1).line.add(function_id=4)
    assert "function 4" in failure(message.data())
    message = Message()
    message.proto.mapping.add(id=1, filename=1000)
    assert "string 1000" in failure(message.data())
    message = Message()
    message.sample([1], (1, 2))
    assert "2 values, and there are 4 sample types" in failure(message.data())


def test_a_profile_of_something_else() -> None:
    message = Message()
    del message.proto.sample_type[:]
    message.proto.sample_type.add(type=message.string("cpu"), unit=message.string("nanoseconds"))
    profile = parse(message.data(), "p")
    with pytest.raises(Failure, match="p has no inuse_space, only cpu: it is no heap profile"):
        rows(profile, "inuse_space")


def test_flat_and_cumulative() -> None:
    """The allocator's own frame counts for no function; a recursive function counts once."""
    found = {
        row.function: (row.flat, row.cumulative, row.objects) for row in rows(parse(named(SHOP), "p"), "inuse_space")
    }
    assert found == {
        "append": (3500, 3500, 5),
        "grow": (1500, 4500, 2),
        "main": (0, 5000, 0),
        "load": (0, 500, 0),
    }
    by_alloc = rows(parse(named(SHOP), "p"), "alloc_space")
    assert [row.function for row in by_alloc] == ["parse<[u8; 3]>", "append", "grow", "main", "load"]


def test_the_table() -> None:
    lines = text(parse(named(SHOP), "p"), "inuse_space", 2)
    assert lines[0] == "5 KiB in use, about 7 blocks, from a sample every 512 KiB"
    assert lines[2].split() == ["3", "KiB", "70.0%", "70.0%", "3", "KiB", "70.0%", "5", "append"]
    assert lines[3].split()[2:4] == ["30.0%", "100.0%"]
    assert lines[4] == "and 2 more functions"
    assert text(parse(named({}), "p"), "inuse_space", 5) == ["0 B in use, about 0 blocks, from a sample every 512 KiB"]


def test_folded() -> None:
    assert (
        folded(parse(named(SHOP), "p"), "inuse_space")
        == "main;grow;append 3000\nmain;grow;grow 1500\nmain;load;append 500\n"
    )
    assert "main;parse<[u8, 3]> 9000\n" in folded(parse(named(SHOP), "p"), "alloc_space")


def test_speedscope() -> None:
    document = json.loads(speedscope(parse(named(SHOP), "p"), "shop", ["inuse_space", "alloc_space"]))
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    inuse, alloc = document["profiles"]
    assert (inuse["type"], inuse["unit"], inuse["endValue"]) == ("sampled", "bytes", 5000)
    assert alloc["endValue"] == 19000
    assert [[frames[one] for one in stack] for stack in inuse["samples"]] == [
        ["main", "grow", "append"],
        ["main", "load", "append"],
        ["main", "grow", "grow"],
    ]
    assert inuse["weights"] == [3000, 500, 1500]


def graph(values: Dict[Any, Any]) -> ElementTree.Element:
    return ElementTree.fromstring(draw(stacks(parse(named(values), "p"), "inuse_space"), "shop <1>"))


def frames_of(svg: ElementTree.Element) -> List[ElementTree.Element]:
    return [one for one in svg.iter(f"{SVG}g") if one.get("class") == "frame"]


def test_a_flame_graph_adds_up() -> None:
    """Each frame lies within its parent, and the frames of each level do not overlap."""
    found = frames_of(graph(SHOP))
    parts = [
        (one.get("data-name"), float(one.get("data-x", "")), float(one.get("data-w", "")), one.get("data-depth"))
        for one in found
    ]
    assert {(name, round(width, 6), depth) for name, _, width, depth in parts} == {
        ("all", 1.0, "0"), ("main", 1.0, "1"), ("grow", 0.9, "2"), ("load", 0.1, "2"),
        ("append", 0.6, "3"), ("grow", 0.3, "3"), ("append", 0.1, "3"),
    }  # fmt: skip
    for _, begin, width, depth in parts:
        if depth != "0":
            assert any(
                int(other or 0) == int(depth or 0) - 1
                and start - 1e-6 <= begin
                and begin + width <= start + wide + 1e-6
                for _, start, wide, other in parts
            )
    for level in "0123":
        row = sorted((begin, width) for _, begin, width, depth in parts if depth == level)
        assert all(begin + width <= following + 1e-6 for (begin, width), (following, _) in zip(row, row[1:]))
    titles = [one.findtext(f"{SVG}title") for one in found]
    assert "append: 3 KiB, 60.0%" in titles


def test_a_flame_graph_of_odd_names() -> None:
    """It stays XML, and loads nothing from anywhere."""
    odd = 'operator<< "&<>\x01\n]]>'
    svg = graph({(odd, "main"): (1, 1, 1, 1)})
    assert [one.get("data-name") for one in frames_of(svg)][-1] == 'operator<< "&<>??]]>'
    drawn = draw(stacks(parse(named(SHOP), "p"), "inuse_space"), "shop")
    assert "http" not in drawn.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert len(frames_of(graph({}))) == 1


def test_a_flame_graph_in_a_browser(tmp_path: Path) -> None:
    """Search marks its matches and says their share; zoom stretches one frame over the width and hides the others."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no browser")
    (tmp_path / "f.svg").write_text(draw(stacks(parse(named(SHOP), "p"), "inuse_space"), "shop"))

    def dumped(part: str) -> ElementTree.Element:
        words = [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path}/home",
            "--dump-dom",
        ]
        done = subprocess.run(
            [*words, f"file://{tmp_path}/f.svg#{part}"], capture_output=True, text=True, timeout=120, check=False
        )
        # The page as the browser has it: from the SVG's own element on.
        begin, end = done.stdout.find("<svg"), done.stdout.rfind("</svg>")
        assert begin >= 0, done.stderr
        return ElementTree.fromstring(done.stdout[begin : end + 6])

    for words, names, told in (
        ("^append", ["append", "append"], "2 frames, 70.0%"),
        ("GROW|append", ["append", "append", "grow", "grow"], "4 frames, 100.0%"),  # one within the other counts once
    ):
        svg = dumped(f"find={words}")
        found = [one for one in svg.iter(f"{SVG}g") if "found" in one.get("class", "").split()]
        assert sorted(str(one.get("data-name")) for one in found) == names
        status = next(one for one in svg.iter(f"{SVG}text") if one.get("id") == "status")
        assert status.text == f"{words}: {told}"
    svg = dumped("zoom=load")
    shown = {
        one.get("data-name"): float(one.find(f"{SVG}rect").get("width"))  # type: ignore[union-attr,arg-type]
        for one in svg.iter(f"{SVG}g")
        if "frame" in one.get("class", "").split() and "hidden" not in one.get("class", "").split()
    }
    assert set(shown) == {"all", "main", "load", "append"}
    assert all(width > 1170 for width in shown.values()), shown
