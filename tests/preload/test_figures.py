"""The figures of real programs: they add up to what the kernel says, seen from outside, and the readers of each form
accept it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Set, Tuple

import jsonschema
import pytest
from preload_runner import Runner
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_prometheus
from under_allocator import environment

pytestmark = pytest.mark.usefixtures("hakmem_only")
REPOSITORY = Path(__file__).resolve().parents[2]
MATERIAL = Path(__file__).resolve().parent / "material"
SCHEMA = REPOSITORY / "docs" / "stats.schema.json"
MIB = 1 << 20

# ---- They add up.


class Look:
    """What the shim wrote of one process."""

    def __init__(self, path: Path) -> None:
        head, mappings = path.read_text().split("\n\n", 1)
        self.figures = {name: int(value) for name, value in (line.split() for line in head.splitlines())}
        self.resident = 0
        self.foreign = 0
        self._read(mappings)

    def _read(self, mappings: str) -> None:
        """hakmem's mappings are anonymous and have no name. A mapping directly behind a file's is the file's zero data,
        unless it is large enough for one of hakmem's. A mapping behind a guard is a thread's stack."""
        is_ours, end, is_file, is_guard = False, 0, False, False
        for line in mappings.splitlines():
            head = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ (\d+)\s*(.*)", line)
            if head is not None:
                start, name = int(head[1], 16), head[5]
                is_zero_data = is_file and start == end and int(head[2], 16) - start < MIB
                is_stack = is_guard and start == end
                is_ours = name == "" and not is_zero_data and not is_stack
                end, is_file, is_guard = int(head[2], 16), int(head[4]) != 0, head[3] == "---p"
            elif line.startswith("Rss:"):
                bytes_ = int(line.split()[1]) << 10
                self.resident += bytes_
                self.foreign += 0 if is_ours else bytes_

    def check(self) -> None:
        """Each part may be wrong by what the others cannot hide."""
        allowed = self.resident // 50 + MIB
        parts = {name: value for name, value in self.figures.items() if name != "resident"}
        assert abs(self.figures["resident"] - self.resident) <= allowed, self.figures
        assert abs(sum(parts.values()) - self.resident) <= allowed, parts
        assert abs(parts["not_malloc"] - self.foreign) <= allowed, (parts, self.foreign)


@pytest.fixture
def looks(runner: Runner, shim: Callable[[str], Path], tmp_path: Path) -> Callable[..., List[Look]]:
    """Runs a program, and gives the looks at it and its children, the largest first."""
    folder = tmp_path / "looks"
    folder.mkdir()

    def run(command: List[object], env: Dict[str, str], **how: Any) -> List[Look]:
        beside = shim("figures_and_mappings")
        outcome = runner.under(command, also=[beside], env={**env, "FIGURES_FOLDER": str(folder)}, **how)
        assert outcome.code == 0, outcome.errors()
        return sorted((Look(file) for file in folder.iterdir()), key=lambda look: -look.resident)

    return run


# Of every band, some of it freed; then a look while the rest is in use.
PYTHON = """
import ctypes, random, sys
state = random.Random(7)
held = [bytes(b"x" * state.choice((40, 300, 900, 3000, 20000, 90000, 700000, 3 << 20))) for _ in range(400)]
small = [str(i) * 5 for i in range(400000)]
del small[::3]
del held[::2]
ctypes.CDLL(None).figures_and_mappings()
import os
os._exit(0)
"""


def test_of_cpython(looks: Callable[..., List[Look]]) -> None:
    found = looks([sys.executable, "-c", PYTHON], {"PYTHONMALLOC": "malloc"})
    assert found[0].resident > 100 * MIB
    assert found[0].figures["live"] > 80 * MIB and found[0].figures["free_in_slabs"] > 4 * MIB
    found[0].check()


@pytest.mark.parametrize("mode", [{}, {"HAKMEM_RETAIN": "1T"}, {"HAKMEM_HUGE_PAGES": "always"}])
def test_of_sqlite(looks: Callable[..., List[Look]], mode: Dict[str, str]) -> None:
    if shutil.which("sqlite3") is None:
        pytest.skip("not installed: sqlite3")
    script = (MATERIAL / "tables.sql").read_bytes()
    for look in looks(["sqlite3", ":memory:"], mode, stdin=script):
        look.check()


def test_of_perl_and_its_children(looks: Callable[..., List[Look]]) -> None:
    """A child of fork shares its parent's memory, and counts it as its own."""
    if shutil.which("perl") is None:
        pytest.skip("not installed: perl")
    script = 'my @a = map { "x" x ($_ % 2000) } 1..50000; my $child = fork(); wait; push @a, "y" x 3e7; exit 0'
    found = looks(["perl", "-e", script], {})
    assert len(found) == 2 and found[1].resident > 8 * MIB
    for look in found:
        look.check()


def test_of_redis(library: Path, shim: Callable[[str], Path], tmp_path: Path) -> None:
    server, client = shutil.which("redis-server"), shutil.which("redis-cli")
    if server is None or client is None:
        pytest.skip("not installed: redis-server")
    socket = tmp_path / "socket"
    variables = environment(None, {"FIGURES_FOLDER": str(tmp_path)})
    variables["LD_PRELOAD"] = f"{library} {shim('figures_and_mappings')}"
    variables["MALLOC_CONF"] = (
        "thp:never"  # what jemalloc, if it is linked with it, sets up for itself would count as ours
    )
    command = [server, "--port", "0", "--unixsocket", "socket", "--save", "", "--dir", str(tmp_path)]
    running = subprocess.Popen(command, env=variables, cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while not socket.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        ask = [client, "-s", "socket"]  # the whole path may be longer than a socket may have it
        fill = "for i = 1, 200000 do redis.call('set', 'key' .. i, string.rep('x', 150)) end"
        subprocess.run([*ask, "eval", fill, "0"], cwd=tmp_path, check=True, capture_output=True, timeout=60)
        subprocess.run([*ask, "shutdown", "nosave"], cwd=tmp_path, check=False, capture_output=True, timeout=60)
        assert running.wait(timeout=60) == 0
    finally:
        running.kill()
    look = Look(tmp_path / str(running.pid))
    assert look.figures["live"] > 20 * MIB
    look.check()


# ---- Each form.

BLOCKS = 'x = [bytes(n) for n in (100, 5000, 100000, 3 << 20)]; y = "a" * 5'


def statistics(runner: Runner, file: Path, **variables: str) -> str:
    command = [sys.executable, "-c", BLOCKS]
    outcome = runner.under(command, env={"HAKMEM_STATS_FILE": str(file), **variables})
    assert (outcome.code, outcome.errors()) == (0, "")
    return file.read_text()


def document(runner: Runner, file: Path, **variables: str) -> Dict[str, Any]:
    read: Dict[str, Any] = json.loads(statistics(runner, file, **variables))
    return read


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_json_keeps_to_its_schema(runner: Runner, tmp_path: Path, validator: Any) -> None:
    read = document(runner, tmp_path / "a.json")
    validator.validate(read)
    assert sum(read["parts"].values()) == read["memory"]["resident"]
    assert abs(read["time_ms"] / 1000 - time.time()) < 600 and read["page_bytes"] == os.sysconf("SC_PAGESIZE")
    assert [heap["state"] for heap in read["heaps"]] == ["attached"]
    assert {one["band"] for one in read["classes"]} == {"tiny", "mid"}
    assert sum(band["live_blocks"] for band in read["bands"].values()) == read["live"]["blocks"]


def old_figures() -> List[Tuple[str, str, str]]:
    """(section, earlier name, name)"""
    text = (SCHEMA.parents[1] / "src/policy/old_figure.def").read_text(encoding="utf-8")
    return re.findall(r"^HK_OLD_FIGURE\((\w+), (\w+), (\w+)\)$", text, re.MULTILINE)


def test_earlier_names_say_the_same(runner: Runner, tmp_path: Path) -> None:
    read = document(runner, tmp_path / "a.json")
    assert len(old_figures()) >= 10
    for section, old, name in old_figures():
        if section == "heaps":
            assert all(heap[old] == heap[name] for heap in read["heaps"])
        elif section != "parts":
            assert read[section][old] == read[section][name]
    sums = {
        sample.name: sample.value
        for family in read_openmetrics(statistics(runner, tmp_path / "a.om"))
        for sample in family.samples
    }
    assert sums["hakmem_purged_bytes_total"] == sums["hakmem_purged_bytes_total"]
    assert sums["hakmem_parts_idle_bytes"] == sums["hakmem_parts_dirty_slabs_bytes"]
    assert sums["hakmem_heap_refill_carve_total"] == sums["hakmem_heap_refill_carve_total"]


# ---- Many heaps.

MANY = 3000
# The thread that starts the purge thread has a block for it.
ALONE = {"HAKMEM_PURGE_THREAD": "0"}
# What has a sample for each heap, and one for all that are more than these.
MOST_HEAPS = 64


def of_heaps(families: Any) -> Dict[str, Dict[str, float]]:
    """By the figure's name and the heap's."""
    found: Dict[str, Dict[str, float]] = {}
    for family in families:
        for sample in family.samples:
            if "heap" in sample.labels:
                found.setdefault(sample.name, {})[sample.labels["heap"]] = sample.value
    return found


def test_thousands_of_heaps(runner: Runner, program: Callable[[str], Path], tmp_path: Path, validator: Any) -> None:
    """Each thread's heap has exactly its blocks, and all of them have what small blocks there are."""
    file = tmp_path / "a.json"
    command: List[object] = [program("many_heaps"), MANY]
    outcome = runner.under(command, env={"HAKMEM_STATS": "1", "HAKMEM_STATS_FILE": str(file), **ALONE})
    assert outcome.code == 0
    read = json.loads(file.read_text())
    validator.validate(read)
    heaps, small = read["heaps"], [read["bands"][band] for band in ("tiny", "mid")]
    assert len(heaps) == read["memory"]["heaps"] == MANY + 1
    assert [heap["number"] for heap in heaps] == list(range(MANY + 1, 0, -1)), "the newest first"
    for heap in heaps[:-1]:
        assert (heap["live_blocks"], heap["live_bytes"], heap["state"]) == (2, 96 + 5120, "attached")
    for figure in ("live_blocks", "live_bytes", "free_bytes", "slabs", "resident"):
        assert sum(heap[figure] for heap in heaps) == sum(band[figure] for band in small), figure
    (table,) = re.findall(r"^hakmem: heaps\n(.*)", outcome.errors(), re.MULTILINE | re.DOTALL)
    lines = table.splitlines()
    assert len(lines) == 1 + 16 + 1 and lines[-1] == f"  and {MANY + 1 - 16} more with less in use"
    assert lines[1].split()[:2] == ["1", "attached"], "the first thread has what the others were made of"


def test_metrics_of_thousands_of_heaps(runner: Runner, program: Callable[[str], Path], tmp_path: Path) -> None:
    """Never more samples than a database can bear, and their sum is what there is."""
    file = tmp_path / "a.om"
    command: List[object] = [program("many_heaps"), MANY]
    assert runner.under(command, env={"HAKMEM_STATS_FILE": str(file), **ALONE}).code == 0
    families = list(read_openmetrics(file.read_text()))
    found = of_heaps(families)
    assert all(list(of) == [*map(str, range(1, MOST_HEAPS + 1)), "others"] for of in found.values())
    assert found["hakmem_heap_live_blocks"]["others"] == 2 * (MANY + 1 - MOST_HEAPS)
    assert found["hakmem_heap_slab_acquire_total"]["others"] == 2 * (MANY + 1 - MOST_HEAPS)
    assert all(value == 2 for heap, value in found["hakmem_heap_live_blocks"].items() if heap not in ("1", "others"))
    samples = {sample.name: 0.0 for family in families for sample in family.samples}
    for family in families:
        for sample in family.samples:
            if sample.labels.get("band") in ("tiny", "mid"):
                samples[sample.name] += sample.value
    for figure in ("live_blocks", "live_bytes", "free_bytes", "slabs", "resident_bytes"):
        assert sum(found[f"hakmem_heap_{figure}"].values()) == samples[f"hakmem_band_{figure}"], figure


@pytest.mark.parametrize(
    "damage",
    [
        lambda read: read.update(schema=1),
        lambda read: read["parts"].pop("dirty_slabs"),
        lambda read: read["bands"]["run"].update(resident=-1),
        lambda read: read["classes"][0].update(band="run"),
        lambda read: read["heaps"][0].update(more=1),
    ],
)
def test_the_schema_refuses_what_is_wrong(
    runner: Runner, tmp_path: Path, validator: Any, damage: Callable[[Dict[str, Any]], None]
) -> None:
    read = document(runner, tmp_path / "a.json")
    damage(read)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(read)


def test_options_are_those_that_were_set(runner: Runner, tmp_path: Path, validator: Any) -> None:
    file = tmp_path / 'a "quoted" \\ näme.json'
    read = document(runner, file, HAKMEM_MODE="lean", HAKMEM_RETAIN="8M")
    validator.validate(read)
    assert read["options"] == {"mode": "lean", "stats_file": str(file)}, "8M is the default"


def declared() -> Set[str]:
    """Of each counter and figure its name as a metric, without its unit."""
    texts = {name: (REPOSITORY / "src" / "policy" / f"{name}.def").read_text() for name in ("stat", "figure")}
    names = {f"hakmem_{name}" for name in re.findall(r"^HK_STAT\((\w+),", texts["stat"], re.MULTILINE)}
    for section, name in re.findall(r"^HK_FIGURE\((\w+), (\w+),", texts["figure"], re.MULTILINE):
        names.add(f"hakmem_{section}_{name}")
    which = {("CLASS", "bytes"), ("HEAP", "node"), ("HEAP", "number")}
    for kind, name, unit in re.findall(r"^HK_(BAND|CLASS|HEAP)_FIGURE\((\w+), (\w+),", texts["figure"], re.MULTILINE):
        if unit != "WORD" and (kind, name) not in which:
            names.add(f"hakmem_{kind.lower()}_{name}")
    return {re.sub("_(bytes|ms)$", "", name) for name in names}


def test_openmetrics_is_read(runner: Runner, tmp_path: Path) -> None:
    text = statistics(runner, tmp_path / "a.om")
    assert text.endswith("# EOF\n")
    families = {family.name: family for family in read_openmetrics(text)}
    groups = {"events": "", "heaps": "heap_"}
    earlier = {f"hakmem_{groups.get(section, section + '_')}{old}" for section, old, _ in old_figures()}
    assert {re.sub("_(bytes|seconds)$", "", name) for name in families} == declared() | earlier | {"hakmem_build"}
    assert all(family.documentation for family in families.values())
    units = {family.unit for family in families.values()}
    assert units == {"", "bytes", "seconds"}
    assert families["hakmem_refill"].type == "counter"
    assert [sample.name for sample in families["hakmem_refill"].samples] == ["hakmem_refill_total"]
    assert families["hakmem_purged_bytes"].type == "counter"
    assert families["hakmem_parts_live_bytes"].type == "gauge"
    assert {sample.labels["band"] for sample in families["hakmem_band_live_bytes"].samples} == {
        "tiny",
        "mid",
        "run",
        "large",
    }
    assert abs(families["hakmem_process_time_seconds"].samples[0].value - time.time()) < 600
    assert families["hakmem_heap_refill"].type == "counter" and families["hakmem_heap_live_bytes"].type == "gauge"
    assert set(of_heaps(families.values())["hakmem_heap_live_bytes"]) == {"1"}, "there is no sum of others"
    for name, limit in (("hakmem_class_live_blocks", 1), ("hakmem_class_resident_bytes", 4096)):
        assert max(sample.value for sample in families[name].samples) >= limit


def test_the_text_format_of_prometheus_is_read(runner: Runner, tmp_path: Path) -> None:
    text = statistics(runner, tmp_path / "a.prom")
    assert "# UNIT" not in text and "# EOF" not in text
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    helped = re.findall(r"^# HELP (\S+) \S", text, re.MULTILINE)
    sampled = {re.split(r"[ {]", line)[0] for line in text.splitlines() if not line.startswith("#")}
    assert set(types) == set(helped) == sampled, "each sample has a type and a help text"
    assert all(name.endswith("_total") == (kind == "counter") for name, kind in types.items())
    families = {family.name: family for family in read_prometheus(text)}
    assert families["hakmem_refill"].samples[0].value > 0


def test_both_formats_say_the_same(runner: Runner, tmp_path: Path) -> None:
    names = {
        sample.name for family in read_openmetrics(statistics(runner, tmp_path / "a.om")) for sample in family.samples
    }
    old = statistics(runner, tmp_path / "a.prom")
    assert names == {sample.name for family in read_prometheus(old) for sample in family.samples}
