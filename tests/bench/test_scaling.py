"""bench/scaling.py: the queueing model against results that are known without it."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

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


def speed_up(scaling: ModuleType, work: float, stations: dict[str, float], cores: int) -> float:
    demand = scaling.Demand(work, stations)
    result: float = scaling.throughput(demand, cores) / scaling.throughput(demand, 1)
    return result


@pytest.mark.parametrize("cores", [1, 64, 1024])
def test_what_shares_nothing_scales_with_the_cores(scaling: ModuleType, cores: int) -> None:
    assert speed_up(scaling, 10.0, {"locks": 0.0}, cores) == pytest.approx(cores)
    assert scaling.saturation(scaling.Demand(10.0, {"locks": 0.0})) == float("inf")


def test_what_is_all_under_one_lock_does_not_scale(scaling: ModuleType) -> None:
    assert speed_up(scaling, 0.0, {"locks": 5.0}, 64) == pytest.approx(1.0)
    assert scaling.saturation(scaling.Demand(0.0, {"locks": 5.0})) == 1.0


def test_two_cores_at_one_station_by_hand(scaling: ModuleType) -> None:
    """Work 1, service 1: alone 1/2; together the second meets the first at the station half of the time: 2 / 2.5."""
    assert speed_up(scaling, 1.0, {"locks": 1.0}, 2) == pytest.approx(0.8 / 0.5)


def test_no_more_than_the_busiest_station_can_do(scaling: ModuleType) -> None:
    demand = scaling.Demand(99.0, {"locks": 1.0, "shared lines": 0.5})
    assert scaling.throughput(demand, 1024) == pytest.approx(1.0, rel=1e-3)
    assert scaling.throughput(demand, 1024) <= 1.0
    assert scaling.saturation(demand) == pytest.approx(100.5)


def test_the_table_is_made_of_counts_and_times(
    scaling: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counted = {
        "name": "w", "threads": 2, "operations": 1000, "failure": None,
        "counters": {"lock_take": 10, "shared_update": 0},
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
    limit = (40.0 + scaling.LOCK_HOLD_NS / 100) / (scaling.LOCK_HOLD_NS / 100)
    assert lines[2].startswith("| w | ") and lines[2].endswith(f" | {limit:,.0f} | locks |")
    assert lines[6].startswith("| w | ") and lines[6].endswith(f" | {limit:,.0f} | space lock |")


def test_bunched_cores_that_share_nothing_scale(scaling: ModuleType) -> None:
    assert scaling.bunched_speed_up(scaling.Demand(10.0, {"lock_space_take": 0.0}), 64, 2) == 64.0
    rare = scaling.Demand(1e9, {"lock_space_take": scaling.LOCK_HOLD_NS})
    assert scaling.bunched_speed_up(rare, 64, 2) == pytest.approx(64.0, rel=0.01)


def test_bunched_cores_wait_for_all_others_at_one_lock(scaling: ModuleType) -> None:
    demand = scaling.Demand(1.0, {"lock_space_take": scaling.LOCK_HOLD_NS})
    assert scaling.bunched_speed_up(demand, 64, 2) == pytest.approx(1.0, rel=0.01)


def test_bunched_arrivals_are_worse_than_spread_ones(scaling: ModuleType) -> None:
    demand = scaling.Demand(100 * scaling.LOCK_HOLD_NS, {"lock_space_take": scaling.LOCK_HOLD_NS})
    spread = scaling.throughput(demand, 64) / scaling.throughput(demand, 1)
    assert 10.0 < scaling.bunched_speed_up(demand, 64, 2) < spread


def test_the_line_of_an_owner_is_shared_by_one_group_of_cores(scaling: ModuleType) -> None:
    demand = scaling.Demand(1.0, {scaling.INCOMING: scaling.LINE_TRANSFER_NS})
    assert scaling.bunched_speed_up(demand, 64, 4) == pytest.approx(16.0, rel=0.01)
    assert scaling.bunched_speed_up(demand, 64, 64) == pytest.approx(1.0, rel=0.01)


def test_a_batch_is_two_updates_of_its_owners_line(scaling: ModuleType) -> None:
    counters = {"lock_space_take": 5, "shared_update": 30, "remote_batch": 10}
    demand = scaling.split_demand_of({"operations": 10, "threads": 3, "counters": counters}, 7.0)
    assert demand.work == 21.0
    assert demand.stations[scaling.INCOMING] == 2 * scaling.LINE_TRANSFER_NS
    assert demand.stations["other lines"] == scaling.LINE_TRANSFER_NS
    assert demand.stations["lock_space_take"] == 0.5 * scaling.LOCK_HOLD_NS
    assert demand.stations["lock_pool_take"] == 0.0
