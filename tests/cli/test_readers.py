"""The readers of foreign files, under hypothesis: a file of another kind ends in a Failure, never in a Python error; a
file that the tool has written is read the same."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any, Callable, List, Tuple

import cli_support
import pytest

assert cli_support.CLI
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(cli_support.ROOT / "build" / "hypothesis"))
pytest.importorskip("hypothesis", reason="hypothesis is missing (tools/bootstrap.sh test)")

from hakmem import leaks, leaks_report, learn_record, level_trace  # noqa: E402
from hakmem.commands.diff import _lines  # noqa: E402
from hakmem.doctor.control_group import is_hidden, tightest  # noqa: E402
from hakmem.elf_check import defines, needed, read_executable  # noqa: E402
from hakmem.errors import Failure  # noqa: E402
from hakmem.explain import process_memory, snapshot  # noqa: E402
from hakmem.kernel_files import KernelFiles  # noqa: E402
from hakmem.page.document import document as page  # noqa: E402
from hakmem.page.files import of_files  # noqa: E402
from hakmem.process_files import auxiliary, mapped_files  # noqa: E402
from hakmem.profile import changes, read, sites  # noqa: E402
from hakmem.profile.debug_files import Search  # noqa: E402
from hakmem.profile.model import Frame, Label, Location, Mapping, Profile, Sample  # noqa: E402
from hakmem.profile.symbolize import Symbolizer  # noqa: E402
from hakmem.profile.write import to_bytes  # noqa: E402
from hypothesis import HealthCheck, example, given, settings  # noqa: E402
from hypothesis import strategies as some  # noqa: E402
from profile_support import build, compiler, named  # noqa: E402

# Of each test, at a scale of 1. No time decides, and no folder is left behind.
EXAMPLES = max(20, int(400 * float(os.environ.get("HAKMEM_TEST_SCALE") or 1)))
few_lines = settings(
    max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=True
)

# Also numbers that no figure can be, and nesting that no reader can follow.
numbers = some.one_of(
    some.integers(-1, 70), some.integers(), some.floats(), some.sampled_from([10**400, -(10**400), 1 << 63, 1 << 64])
)
scalars = some.one_of(some.none(), some.booleans(), numbers, some.text(max_size=8))
values = some.recursive(
    scalars,
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def reads(reader: Callable[[], Any]) -> Any:
    """Returns the reader's result, None where it fails with a Failure."""
    try:
        return reader()
    except Failure as failure:
        assert failure.message
        return None


@some.composite
def damaged(draw: some.DrawFn, document: Any) -> Any:
    """The document with a few of its values replaced or left out."""
    changed = json.loads(json.dumps(document))
    for _ in range(draw(some.integers(1, 3))):
        place = changed
        while True:
            keys: List[Any] = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(some.sampled_from(keys))
            inner = place[key]
            if isinstance(inner, (dict, list)) and inner and draw(some.booleans()):
                place = inner
                continue
            if draw(some.integers(0, 4)) == 0:
                del place[key]
            else:
                place[key] = draw(values)
            break
    return changed


@some.composite
def damaged_bytes(draw: some.DrawFn, data: bytes) -> bytes:
    """The bytes with a few of them changed, left out or cut off."""
    changed = bytearray(data)
    for _ in range(draw(some.integers(1, 4))):
        place = draw(some.integers(0, max(len(changed) - 1, 0)))
        how = draw(some.integers(0, 5))
        if how == 0:
            del changed[place:]
        elif how == 1:
            del changed[place : place + draw(some.integers(1, 16))]
        elif how == 2:
            changed[place:place] = draw(some.binary(max_size=16))
        else:
            changed[place : place + 1] = draw(some.binary(min_size=1, max_size=8 if how == 3 else 1))
    return bytes(changed)


# ---- Answers in JSON.

SUMS = {"samples": 1, "blocks": 2, "bytes": 3000}
LEAKS = {
    "schema": 1, "rate": 4096, "samples": 9, "lost": 1, "scan": "done", "left_out": 0,
    "threads": {"others": 3, "asked": 2}, "unreachable": SUMS, "reachable": SUMS, "unjudged": SUMS,
    "mappings": [{"start": "0x1000", "end": "0x9000", "offset": "0x0", "path": "/bin/x", "build_id": "ab"}],
    "sites": [{
        "frames": ["0x1100", "0x2200"], "shared": False, "unreachable": SUMS, "reachable": SUMS, "unjudged": SUMS,
    }],
}  # fmt: skip
SITES = {
    "schema": 1, "rate": 4096, "mappings": LEAKS["mappings"],
    "sites": [{
        "frames": ["0x1100"], "shared": False, "lifetimes": [0] * 16, "block_bytes": 8, "pinned": {"bytes": 3},
        "alloc_objects": 1, "alloc_bytes": 2, "inuse_objects": 1, "inuse_bytes": 2,
    }],
}  # fmt: skip
STATS = {
    "schema": 2, "version": "1", "pid": 7, "time_ms": 5, "memory": {"resident": 4096},
    "parts": {name: 512 for name in snapshot.PARTS}, "bands": {"tiny": {"resident": 5, "live_bytes": 1}},
    "classes": [{"bytes": 16, "resident": 4096, "live_bytes": 32, "free_bytes": 5}], "heaps": [],
    "events": {"refill": 3},
}  # fmt: skip


MAP = {
    "schema": 1, "superslabs": [{"address": "0x1000", "huge": True, "slabs": [
        {"state": "span", "resident": 5, "class_bytes": 64, "live_permille": 250}, {"state": "idle", "resident": 0},
    ]}],
    "big": [{"address": "0x2000", "state": "live", "bytes": 9, "resident": 2}], "left_out": 0,
}  # fmt: skip


def encoded(document: Any) -> bytes:
    return json.dumps(document).encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("start", [b"[", b'{"a":'], ids=["lists", "objects"])
@pytest.mark.parametrize("parse", [leaks.parse, sites.parse, snapshot.parse], ids=["leaks", "sites", "snapshot"])
def test_nested_too_deep(parse: Callable[[bytes, str], Any], start: bytes) -> None:
    with pytest.raises(Failure):
        parse(start * 200_000, "f")


def test_nested_too_deep_to_compare(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b'{"a":' * 200_000)
    with pytest.raises(Failure, match="nested too deep"):
        changes.load(str(tmp_path / "f"))


@few_lines
@given(damaged(LEAKS).map(encoded) | damaged_bytes(encoded(LEAKS)) | values.map(encoded) | some.binary(max_size=64))
@example(encoded({**LEAKS, "rate": float("inf")}))
@example(encoded({**LEAKS, "rate": 10**400}))
@example(encoded(LEAKS))
def test_leaks(data: bytes) -> None:
    found = reads(lambda: leaks.parse(data, "f"))
    if found is not None:
        found.merge()
        assert leaks_report.lines(found, 3)
        assert isinstance(leaks_report.notes(found), list)
        json.dumps(leaks_report.document([(1, found)]))


@few_lines
@given(damaged(SITES).map(encoded) | damaged_bytes(encoded(SITES)) | values.map(encoded) | some.binary(max_size=64))
@example(encoded(SITES))
def test_sites(data: bytes) -> None:
    found = reads(lambda: sites.parse(data, "f"))
    if found is not None:
        assert len(found.rows) == len(found.profile.samples)
        assert all(min(row.lifetimes) >= 0 and row.block_bytes >= 0 for row in found.rows)


@pytest.mark.parametrize("path", ["/\ud800", "/\udc7f", "/\udcff", "/\\udc80\ud800", "/a\0b"])
def test_names_that_no_file_has(path: str) -> None:
    """As JSON can name them: the addresses have no names then."""
    mapping = {**LEAKS["mappings"][0], "path": path}  # type: ignore[index]
    found = sites.parse(encoded({**SITES, "mappings": [mapping]}), "f").profile
    leaking = leaks.parse(encoded({**LEAKS, "mappings": [mapping]}), "f").profile
    with Symbolizer(Search(debug_folders=["/nowhere"])) as symbolizer:
        for profile in (found, leaking):
            symbolizer.symbolize(profile)
            assert profile.locations and all(one.frames for one in profile.locations)


@few_lines
@given(damaged(STATS).map(encoded) | damaged_bytes(encoded(STATS)) | values.map(encoded) | some.binary(max_size=64))
@example(encoded(STATS))
def test_snapshots(data: bytes) -> None:
    found = reads(lambda: snapshot.parse(data, "f"))
    if found is not None:
        assert 1 <= found.schema <= snapshot.NEWEST_SCHEMA and found.pid >= 0
        assert found.number("memory", "resident") >= 0
        assert all(value >= 0 for value in found.parts.values() if isinstance(value, int))


@few_lines
@given(damaged(STATS), damaged(MAP))
@example({**STATS, "memory": {"resident": 4096, "peak": 10**400}}, MAP)
@example(STATS, {**MAP, "superslabs": [{"slabs": [{"state": []}, {"live_permille": 10**400, "class_bytes": 1}]}]})
@example(STATS, MAP)
def test_pages(tmp_path_factory: pytest.TempPathFactory, stats: Any, drawn: Any) -> None:
    paths = [tmp_path_factory.getbasetemp() / name for name in ("stats.json", "map.json")]
    for path, document in zip(paths, (stats, drawn)):
        path.write_bytes(encoded(document))
    course = reads(lambda: of_files([str(path) for path in paths], None))
    if course is not None:
        assert page(course).endswith("</html>\n")


@few_lines
@given(damaged(STATS).map(encoded) | damaged_bytes(encoded(STATS)))
@example(encoded({**STATS, "memory": {"resident": 10**400}}))
@example(encoded(STATS))
def test_what_is_compared(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "compared.json"
    path.write_bytes(data)
    found = reads(lambda: changes.load(str(path)))
    if isinstance(found, dict):
        remarks = reads(lambda: changes.remarks(found, STATS))
        if remarks is not None:
            for section in changes.of_snapshots(STATS, found):
                assert _lines(section, 5)


# ---- Traces.

records = some.lists(
    some.tuples(some.integers(0, 100_000), some.integers(0, level_trace.MAX_IN_USE_BYTES >> 16)), max_size=40
)


def trace_of(found: List[Tuple[int, int]], path: Path) -> bytes:
    """Steps and slabs, as a file has them."""
    now = 0
    absolute = []
    for step, units in found:
        now += step
        absolute.append((now, units << 16))
    level_trace.write(path, absolute, price=250_000)
    return path.read_bytes()


@few_lines
@given(records)
def test_a_trace_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, found: List[Tuple[int, int]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "written.level"
    trace_of(found, path)
    trace = level_trace.read(str(path))
    assert [units << 16 for _, units in found] == list(trace.in_use_bytes)
    assert trace.duration_ms() == sum(step for step, _ in found[1:]) and trace.price == 250_000


@some.composite
def sealed_traces(draw: some.DrawFn) -> bytes:
    """Chunks with good checksums, and anything in them."""
    start = struct.pack("<8sHHIQ", level_trace.MAGIC, 1, 28, draw(some.sampled_from([0, 1, 65536, 0xFFFFFFFF])), 0)
    content = start + struct.pack("<I", zlib.crc32(start))
    for payload in draw(some.lists(some.binary(max_size=40), max_size=4)):
        count = draw(some.integers(0, 20) | some.just(0xFFFFFFFF))
        sizes = struct.pack("<II", len(payload), count)
        content += sizes + struct.pack("<I", zlib.crc32(sizes + payload)) + payload
    return content


@few_lines
@given(sealed_traces() | some.binary(max_size=80))
def test_traces(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.level"
    path.write_bytes(data)
    trace = reads(lambda: level_trace.read(str(path)))
    if trace is not None:
        assert len(trace.times_ms) == len(trace.in_use_bytes)
        assert list(trace.times_ms) == sorted(trace.times_ms) and trace.duration_ms() >= 0
        assert all(0 <= one <= level_trace.MAX_IN_USE_BYTES for one in trace.in_use_bytes)


# ---- Profiles.

names = some.text(some.characters(codec="utf-8"), max_size=12)
unsigned = some.integers(0, (1 << 64) - 1)
signed = some.integers(-(1 << 63), (1 << 63) - 1)


@some.composite
def profiles(draw: some.DrawFn) -> Profile:
    mappings = draw(some.lists(some.builds(Mapping, unsigned, unsigned, unsigned, names, names), max_size=3))
    frames = some.lists(some.builds(Frame, names, names, names, signed), max_size=3)
    modules = some.none() | some.sampled_from(mappings) if mappings else some.none()
    locations = draw(some.lists(some.builds(Location, unsigned, modules, frames), max_size=4))
    stacks = some.lists(some.sampled_from(locations), max_size=4).map(tuple) if locations else some.just(())
    labels = some.lists(some.builds(Label, names, names, signed, names), max_size=2).map(tuple)
    types = draw(some.lists(some.tuples(names, names), min_size=1, max_size=3))
    counts = some.tuples(*[signed] * len(types))
    samples = draw(some.lists(some.builds(Sample, stacks, counts, labels), max_size=4))
    return Profile(
        types, samples, mappings, locations, period_type=draw(some.tuples(names, names)), period=draw(signed),
        time_nanos=draw(signed), duration_nanos=draw(signed), comments=draw(some.lists(names, max_size=2)),
    )  # fmt: skip


@few_lines
@given(profiles())
def test_a_profile_is_read_as_it_was_written(profile: Profile) -> None:
    data = to_bytes(profile)
    again = read.parse(data, "f")
    assert to_bytes(again) == data
    assert [one.values for one in again.samples] == [one.values for one in profile.samples]
    assert [[place.address for place in one.locations] for one in again.samples] == [
        [place.address for place in one.locations] for one in profile.samples
    ]
    assert again.sample_types == profile.sample_types and again.comments == profile.comments


SHOP = named({("malloc", "append", "main"): (10, 6000, 4, 3000), ("parse<[u8; 3]>", "main"): (9, 9000, 0, 0)})


@few_lines
@given(damaged_bytes(SHOP) | damaged_bytes(gzip.decompress(SHOP)) | some.binary(max_size=64))
def test_profiles(data: bytes) -> None:
    found = reads(lambda: read.parse(data, "f"))
    if found is not None:
        assert to_bytes(read.parse(to_bytes(found), "f")) == to_bytes(found)


# ---- ELF files and debug information.

SOURCE = """
static inline __attribute__((always_inline)) int inner(int a) { return a * 3; }
__attribute__((noinline)) int outer(int a) { return inner(a) + inner(a + 1); }
int main(int count, char **words) { (void)words; return outer(count); }
"""


@pytest.fixture(scope="module", params=["-gdwarf-4", "-gdwarf-5"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("elf"), "program.c", SOURCE, [compiler("cc"), "-O1", str(request.param)])


@settings(few_lines, max_examples=max(20, EXAMPLES // 4))
@given(some.data())
def test_elf_files(program: Path, data: some.DataObject) -> None:
    """Its name and its symbols are known or not; a note says what could not be read."""
    whole = program.read_bytes()
    changed = bytearray(whole)
    start, end = data.draw(some.sampled_from([(0, 64), (64, 0x400), (0, len(whole)), (len(whole) - 4096, len(whole))]))
    for _ in range(data.draw(some.integers(1, 8))):
        changed[data.draw(some.integers(start, end - 1))] = data.draw(some.integers(0, 255))
    path = program.with_name("damaged")
    path.write_bytes(changed[: data.draw(some.just(len(whole)) | some.integers(0, len(whole)))])
    for forgotten in (needed, defines):
        forgotten.cache_clear()
    read_executable(str(path))
    needed(str(path))
    defines(str(path), "malloc")
    mapping = Mapping(0, len(whole), 0, str(path))
    places = [Location(address, mapping, []) for address in range(0x1000, 0x1200, 8)]
    profile = Profile([("space", "bytes")], [Sample(tuple(places), (1,), ())], [mapping], places)
    with Symbolizer(Search(debug_folders=[])) as symbolizer:
        symbolizer.symbolize(profile)
    assert all(one.frames for one in places)


# ---- Learn files.


@few_lines
@given(some.binary(max_size=200), some.binary(min_size=learn_record.LENGTH - 16, max_size=learn_record.LENGTH - 16))
def test_learn_records(content: bytes, numbers: bytes) -> None:
    """Anything, and anything behind a good beginning with a good checksum. A record is written as it was read."""
    head = learn_record.MAGIC + struct.pack("<IHBB", learn_record.VERSION, learn_record.LENGTH, 1, 7)
    sealed = (head + numbers)[: learn_record.LENGTH - 4]
    sealed += struct.pack("<I", zlib.crc32(sealed))
    for one in (content, learn_record.MAGIC + content, sealed):
        record = reads(lambda one=one: learn_record.parse(one, "it"))
        assert record is None or record.to_bytes() == one
    has_price = numbers[:8] != bytes(8)
    assert (reads(lambda: learn_record.parse(sealed, "it")) is not None) is has_price


# ---- The kernel's files.

lines = some.lists(
    some.text(some.characters(codec="utf-8", exclude_characters="\n"), max_size=20)
    | some.sampled_from(
        [
            "0::/box", "0::", "4:cpu,memory:/box", "0::/../x", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
            "35 31 0:32 /a /m rw - cgroup cgroup rw,memory", "1 2 3 / here rw - cgroup2 a b",
            "1 2 3  / rw - cgroup2 a b", "55d0-55d1 r-xp 0 08:01 1 /bin/x", "Rss: 4 kB", "Rss:", "Rss: x kB",
            "inactive_file 4096", "max", "4096",
            "always [madvise] never", "9" * 5000, "٣", "55d0-55d1 r-xp 0 08:01 1 /bin/x\nRss:", "Seccomp:\t0",
        ]
    ),
    max_size=6,
).map("\n".join)  # fmt: skip


@few_lines
@given(lines, lines, lines)
@example("0::/box", "1 2 3 / here rw - cgroup2 a b", "4096")
@example("0::", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw", "9" * 5000)
def test_kernel_files(tmp_path_factory: pytest.TempPathFactory, groups: str, mounts: str, figure: str) -> None:
    root = tmp_path_factory.getbasetemp() / "kernel"
    shutil.rmtree(root, ignore_errors=True)
    for name, content in {
        "proc/self/cgroup": groups, "proc/self/mountinfo": mounts, "sys/fs/cgroup/memory.max": figure,
        "sys/fs/cgroup/memory.current": figure, "m/memory.limit_in_bytes": figure, "m/memory.usage_in_bytes": "1",
        "sys/fs/cgroup/memory.stat": figure,
    }.items():  # fmt: skip
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content, encoding="utf-8")
    files = KernelFiles(str(root))
    limit = tightest(files)
    assert limit is None or (limit.limit >= 0 and limit.use >= 0)
    assert isinstance(is_hidden(files), bool)
    files.chosen("/proc/self/cgroup")
    assert isinstance(files.fields("/proc/self/mountinfo"), dict)


@few_lines
@given(lines)
def test_mappings(text: str) -> None:
    found = list(process_memory.areas(text))
    assert all(area.resident >= 0 for area in found)
    outside = process_memory.sort(found, [0x55D0], 0, 1 << 20)
    assert sum(outside.kinds.values()) - outside.too_much == 1 << 20
    assert all(path.startswith("/") for _, path in mapped_files(text))


@few_lines
@given(some.binary(max_size=100), some.integers(0, 60))
def test_auxiliary_vector(vector: bytes, kind: int) -> None:
    found = auxiliary(vector, kind)
    assert found is None or 0 <= found < 1 << 64
