"""The heap profile's files, read by what others wrote: Python's gzip and json, protobuf, go tool pprof."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import BUILD

TYPES = ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"]
SPACE = 3000  # what each of the three sites has allocated; one of them has freed it


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with profile.pb.gz and sites.json, as the unit test writes them."""
    folder = tmp_path_factory.mktemp("profile")
    program = BUILD / "tests" / "unit"
    if not program.is_file():
        pytest.fail(f"no {program}: build the tests (`make test-unit`)")
    command = [program, "--gtest_filter=Pprof.FilesForOthers"]
    environment = {**os.environ, "HAKMEM_TEST_PROFILE_FOLDER": str(folder)}
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=60)
    return folder


def profile_message() -> Any:
    """The class of profile.proto's outermost message, as far as it is looked at."""
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="profiles", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto

    def add(name: str, *fields: tuple[str, int, str, bool]) -> None:
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            added = message.field.add(name=field, number=number, label=label)
            if kind in ("int64", "uint64", "string", "bool"):
                added.type = getattr(kinds, f"TYPE_{kind.upper()}")
            else:
                added.type, added.type_name = kinds.TYPE_MESSAGE, f".profiles.{kind}"

    add("ValueType", ("type", 1, "int64", False), ("unit", 2, "int64", False))
    add("Sample", ("location_id", 1, "uint64", True), ("value", 2, "int64", True))
    add(
        "Mapping",
        ("id", 1, "uint64", False),
        ("memory_start", 2, "uint64", False),
        ("memory_limit", 3, "uint64", False),
    )
    mapping = file.message_type[-1]
    for field, number in (("file_offset", 4), ("filename", 5), ("build_id", 6)):
        mapping.field.add(name=field, number=number, label=kinds.LABEL_OPTIONAL, type=kinds.TYPE_INT64)
    add("Line", ("function_id", 1, "uint64", False))
    add(
        "Location",
        ("id", 1, "uint64", False),
        ("mapping_id", 2, "uint64", False),
        ("address", 3, "uint64", False),
        ("line", 4, "Line", True),
    )
    add("Function", ("id", 1, "uint64", False), ("name", 2, "int64", False))
    add(
        "Profile",
        ("sample_type", 1, "ValueType", True),
        ("sample", 2, "Sample", True),
        ("mapping", 3, "Mapping", True),
        ("location", 4, "Location", True),
        ("function", 5, "Function", True),
        ("string_table", 6, "string", True),
        ("period_type", 11, "ValueType", False),
        ("period", 12, "int64", False),
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("profiles.Profile"))


def test_protobuf_reads_the_profile(files: Path) -> None:
    """Every number leads somewhere, and build IDs are those of the files."""
    profile = profile_message().FromString(gzip.decompress((files / "profile.pb.gz").read_bytes()))
    texts = profile.string_table
    assert [texts[kind.type] for kind in profile.sample_type] == TYPES
    assert [texts[kind.unit] for kind in profile.sample_type] == ["count", "bytes"] * 2
    assert (texts[profile.period_type.type], texts[profile.period_type.unit]) == ("space", "bytes")
    locations = {location.id: location for location in profile.location}
    mappings = {mapping.id: mapping for mapping in profile.mapping}
    assert len(locations) == len(profile.location)
    assert sorted(sample.value[1] for sample in profile.sample) == [SPACE] * 3
    assert sorted(sample.value[3] for sample in profile.sample) == [0, SPACE, SPACE]
    for number in (number for sample in profile.sample for number in sample.location_id):
        location = locations[number]
        if location.address:
            mapping = mappings[location.mapping_id]
            assert mapping.memory_start <= location.address < mapping.memory_limit
            assert Path(texts[mapping.filename]).is_file()
    own = next(mapping for mapping in profile.mapping if texts[mapping.filename].endswith("/tests/unit"))
    notes = subprocess.run(["readelf", "-n", texts[own.filename]], capture_output=True, text=True, check=True).stdout
    assert f"Build ID: {texts[own.build_id]}\n" in notes


def test_go_reads_the_profile(files: Path) -> None:
    """`go tool pprof` finds the program that was profiled, where go is."""
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        pytest.skip("no go here")
    environment = {**os.environ, "PPROF_TMPDIR": str(files)}
    if not environment.keys() & {"HOME", "XDG_CACHE_HOME", "GOCACHE"}:
        environment["GOCACHE"] = str(files / "go")  # go has to have one
    for kind in TYPES:
        command = [
            go,
            "tool",
            "pprof",
            "-top",
            "-cum",
            "-nodefraction=0",
            f"-sample_index={kind}",
            files / "profile.pb.gz",
        ]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        assert f"Type: {kind}" in done.stdout
        # By the function's name where go's own symbolizer gets along with the tools that are installed.
        assert "[unit]" in done.stdout or "MakeSites" in done.stdout
        assert "[no stack]" in done.stdout


def test_the_list_of_sites_is_json(files: Path) -> None:
    """All fields are there, and the sums fit the profile."""
    sites = json.loads((files / "sites.json").read_text())
    assert (sites["schema"], sites["rate"]) == (1, 524288)
    assert sorted(site["alloc_bytes"] for site in sites["sites"]) == [SPACE] * 3
    assert sorted(site["block_bytes"] for site in sites["sites"]) == [0, 3072, 3072]
    assert all(len(site["lifetimes"]) == 16 for site in sites["sites"])
    assert sum(sum(site["lifetimes"]) for site in sites["sites"]) == 3
    own = next(mapping for mapping in sites["mappings"] if mapping["path"].endswith("/tests/unit"))
    inner = [int(site["frames"][0], 16) for site in sites["sites"] if site["frames"]]
    assert inner and all(int(own["start"], 16) < frame <= int(own["end"], 16) for frame in inner)
    assert len(own["build_id"]) == 40
