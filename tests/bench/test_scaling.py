"""bench/scaling.py: the queueing model against results that are known without it."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def scaling() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scaling", REPOSITORY / "bench" / "scaling.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["scaling"] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def demand(scaling: ModuleType, work: float, group: int = 1, **kinds: float) -> Any:
    """The demand with a service at stations by the names of their constants in the module."""
    return scaling.Demand(work, {getattr(scaling, name): service for name, service in kinds.items()}, group)


@pytest.mark.parametrize("cores", [1, 64, 1024])
def test_what_shares_nothing_scales_with_the_cores(scaling: ModuleType, cores: int) -> None:
    alone = demand(scaling, 10.0, COMMON_LOCK=0.0)
    assert scaling.spread_speed_up(alone, cores) == pytest.approx(cores)
    assert scaling.saturation(alone) == float("inf")


def test_what_is_all_under_one_lock_does_not_scale(scaling: ModuleType) -> None:
    locked = demand(scaling, 0.0, COMMON_LOCK=5.0)
    assert scaling.spread_speed_up(locked, 64) == pytest.approx(1.0)
    assert scaling.saturation(locked) == 1


def test_two_cores_at_one_station_by_hand(scaling: ModuleType) -> None:
    """Work 1, service 1: alone 1/2; together the second meets the first at the station half of the time: 2 / 2.5."""
    assert scaling.spread_speed_up(demand(scaling, 1.0, COMMON_LOCK=1.0), 2) == pytest.approx(0.8 / 0.5)


def test_no_more_than_the_busiest_station_can_do(scaling: ModuleType) -> None:
    two = demand(scaling, 99.0, COMMON_LOCK=1.0, OTHER=0.5)
    assert scaling.throughput(two, 1024) == pytest.approx(1.0, rel=1e-3)
    assert scaling.throughput(two, 1024) <= 1.0
    assert scaling.saturation(two) == 101, "the first whole number above 100.5"
    assert scaling.busiest(two, 101) == scaling.COMMON_LOCK


@pytest.mark.parametrize(("cores", "shards"), [(1, 1), (8, 8), (32, 32), (33, 32), (1024, 32)])
def test_each_core_has_a_shard_as_far_as_there_are_shards(scaling: ModuleType, cores: int, shards: int) -> None:
    locked = demand(scaling, 1.0, SHARD_LOCK=1.0)
    assert locked.copies(scaling.SHARD_LOCK, cores) == shards
    assert {locked.station(scaling.SHARD_LOCK, core) for core in range(cores)} == set(range(shards))
    assert locked.copies(scaling.COMMON_LOCK, cores) == 1


def test_cores_of_different_shards_do_not_wait_for_each_other(scaling: ModuleType) -> None:
    """All the time is under the lock: each shard does the work of one core."""
    locked = demand(scaling, 0.0, SHARD_LOCK=scaling.LOCK_HOLD_NS)
    assert scaling.throughput(locked, 64) * scaling.LOCK_HOLD_NS == pytest.approx(64 / (1 + 63 / 32), rel=0.01)
    assert scaling.bunched_speed_up(locked, 64) == pytest.approx(32.0, rel=0.01)


@pytest.mark.parametrize(("part", "cores"), [(0.5, 64), (1 / 8, 256), (1 / 50, 1600)])
def test_a_shards_lock_is_saturated_by_its_own_cores(scaling: ModuleType, part: float, cores: int) -> None:
    """32 locks that take a part of the time are busy with 32 divided by it cores."""
    assert scaling.saturation(demand(scaling, 1.0 - part, SHARD_LOCK=part)) == pytest.approx(cores, abs=1)


def test_the_table_is_made_of_counts_and_times(
    scaling: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("lock_pool_take", "lock_space_take", "lock_meta_take", "common_lock", "remote_batch")
    counted = {
        "name": "w", "threads": 2, "operations": 1000, "failure": None,
        "counters": {**dict.fromkeys(names, 0), "lock_meta_take": 10, "shared_update": 0, "slot_update": 0},
    }  # fmt: skip
    alone = {**counted, "name": "one_thread", "threads": 1}
    broken = {**counted, "name": "broken", "failure": "it crashed"}
    figures = {"hakmem": {"ns_per_operation": [30.0, 10.0, 20.0]}}
    workload = {"name": "w", "time_metric": "ns_per_operation", "figures": figures}
    file = tmp_path / "results.json"
    file.write_text(json.dumps({"counts": [counted, alone, broken], "workloads": [workload]}))
    scaling.main([str(file)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 + 1 + 3, "two tables"
    # 2 threads at 20 ns: 40 ns of work, and a hundredth of a lock.
    limit = math.ceil((40.0 + scaling.LOCK_HOLD_NS / 100) / (scaling.LOCK_HOLD_NS / 100))
    for line in (lines[2], lines[6]):
        assert line.startswith("| w | ") and line.endswith(f" | {limit:,.0f} | meta lock |")


def test_bunched_cores_that_share_nothing_scale(scaling: ModuleType) -> None:
    assert scaling.bunched_speed_up(demand(scaling, 10.0, COMMON_LOCK=0.0), 64) == 64.0
    rare = demand(scaling, 1e9, COMMON_LOCK=scaling.LOCK_HOLD_NS)
    assert scaling.bunched_speed_up(rare, 64) == pytest.approx(64.0, rel=0.01)


def test_bunched_cores_wait_for_all_others_at_one_lock(scaling: ModuleType) -> None:
    assert scaling.bunched_speed_up(demand(scaling, 1.0, COMMON_LOCK=scaling.LOCK_HOLD_NS), 64) == pytest.approx(
        1.0, rel=0.01
    )


def test_bunched_arrivals_are_worse_than_spread_ones(scaling: ModuleType) -> None:
    locked = demand(scaling, 100 * scaling.LOCK_HOLD_NS, COMMON_LOCK=scaling.LOCK_HOLD_NS)
    assert 10.0 < scaling.bunched_speed_up(locked, 64) < scaling.spread_speed_up(locked, 64)


def test_the_line_of_an_owner_is_shared_by_one_group_of_cores(scaling: ModuleType) -> None:
    for group, speed_up in ((4, 16.0), (64, 1.0)):
        sent = demand(scaling, 1.0, group, OWNER=scaling.LINE_TRANSFER_NS)
        assert scaling.bunched_speed_up(sent, 64) == pytest.approx(speed_up, rel=0.01)


def test_each_count_is_the_demand_of_one_kind(scaling: ModuleType) -> None:
    counters = {
        "lock_space_take": 5, "common_lock": 2, "lock_pool_take": 0, "lock_meta_take": 1,
        "shared_update": 35, "slot_update": 5, "remote_batch": 10,
    }  # fmt: skip
    found = scaling.demand_of({"operations": 10, "threads": 3, "counters": counters}, 7.0)
    assert found.work == 21.0
    assert found.group == 3
    visits = {kind: need / scaling.service_ns(kind) for kind, need in found.stations.items()}
    assert visits == pytest.approx(
        {
            scaling.SHARD_LOCK: 0.3, scaling.COMMON_LOCK: 0.2, scaling.POOL_LOCK: 0.0, scaling.META_LOCK: 0.1,
            scaling.SLOTS: 0.5, scaling.OWNER: 2.0, scaling.OTHER: 1.0,
        }
    )  # fmt: skip
