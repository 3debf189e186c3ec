"""Makes a contest of each workload: its commands, its allocators, and the check of its output."""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from hakmem.allocators import Allocator
from hakmem.contest import Contest, Runner
from hakmem.cost import Price
from hakmem.errors import Failure
from hakmem.measure import Run, Task, run_program
from hakmem.metrics import TIME_PER_OPERATION
from hakmem.preload_plan import Prepared, plan
from hakmem.program import Program, resolve
from hakmem.server import Service, accepts, run_service
from hakmem.workloads import Places, Workload, inputs_digest

FLOOR = "floor: "
_HOST = "127.0.0.1"
_PREPARE_SECONDS = 600

Tick = Callable[[], None]


def is_floor(name: str) -> bool:
    """Whether an entrant of a contest is a floor and no allocator."""
    return name.startswith(FLOOR)


def prepare_inputs(workload: Workload, places: Places) -> None:
    """Runs the commands that make a program's input, unless the same commands made the existing one."""
    places.work.mkdir(parents=True, exist_ok=True)
    stamp = places.work / f".{workload.name}.inputs"
    digest = inputs_digest(workload, places)
    if not workload.prepare or (stamp.is_file() and stamp.read_text(encoding="ascii") == digest):
        return
    stamp.unlink(missing_ok=True)
    for command in workload.prepare:
        try:
            done = subprocess.run(
                list(command), stdin=subprocess.DEVNULL, capture_output=True, timeout=_PREPARE_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failure(f"its input could not be made: {error}") from None
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip()[-500:]
            raise Failure(f"its input could not be made: {' '.join(command)} ended with {done.returncode}: {said}")
    stamp.write_text(digest, encoding="ascii")


def make_contest(
    workload: Workload,
    places: Places,
    allocators: Sequence[Allocator],
    environment: Mapping[str, str],
    rounds: int,
    seed: int,
    timeout: float,
    tick: Tick,
    prices: Sequence[Price] = (),
) -> Tuple[Contest, List[str]]:
    """The workload's contest, and notes. The base is the first of `allocators`."""
    prepare_inputs(workload, places)
    variables = {**environment, **dict(workload.environment)}
    port = _free_port(workload.server.port) if workload.server else None
    command = places.fill_all(workload.command, port)
    program = resolve(command, variables)
    the_plan = plan(program, allocators, variables, {}, force=False)
    floors = {_floor_name(words): Program(words[0], tuple(words)) for words in workload.floors}
    entrants = [*the_plan.prepared, *(Prepared(Allocator(name, None), variables, None) for name in floors)]
    task = Task(program, timeout=timeout, keep_output=workload.own or workload.same_output)
    service = _service(workload, places, task, variables, port)
    runner = _service_runner(service, tick) if service else _program_runner(workload, task, floors, tick)
    contest = Contest(entrants, allocators[0].name, runner, rounds, own_seed(seed, workload.name), prices=prices)
    return contest, list(the_plan.notes)


def own_seed(seed: int, workload: str) -> int:
    """A workload's seed, for the order of its runs and for the intervals of its ratios.

    Page faults cost less after a run that has just freed memory: in a virtual machine whose host takes back free
    memory, up to 30 times less. One order for all workloads would give an allocator the same neighbours in each.
    """
    return zlib.crc32(f"{seed} {workload}".encode())


def _floor_name(words: Sequence[str]) -> str:
    return FLOOR + Path(words[0]).name


def _service(
    workload: Workload, places: Places, task: Task, variables: Mapping[str, str], port: Optional[int]
) -> Optional[Service]:
    if workload.server is None or port is None:
        return None
    load = resolve(places.fill_all(workload.server.load, port), variables)
    return Service(replace(task, keep_output=False), load, variables, _HOST, port)


def _service_runner(service: Service, tick: Tick) -> Runner:
    return lambda prepared, number: run_service(service, prepared, number, tick)


def _program_runner(workload: Workload, task: Task, floors: Mapping[str, Program], tick: Tick) -> Runner:
    first_output: Dict[str, str] = {}

    def run(prepared: Prepared, number: int) -> Run:
        name = prepared.allocator.name
        run = run_program(replace(task, program=floors.get(name, task.program)), prepared, number, tick)
        if run.failure is None and run.exit_code != 0:
            run.failure = f"exit code {run.exit_code}"
        if run.failure is None and workload.own:
            read_result(run)
        if run.failure is None and workload.same_output:
            digest = hashlib.sha256(run.output.encode()).hexdigest()
            if first_output.setdefault("digest", digest) != digest:
                run.failure = "it printed other output than in its first run under the base"
        return run

    return run


def read_result(run: Run) -> None:
    """An own program's last line: its operations, and that it checked its data."""
    try:
        result = json.loads(run.output.strip().splitlines()[-1])
        operations, seconds = float(result["ops"]), float(result["seconds"])
        checked = result["checked"]
    except (ValueError, KeyError, IndexError, TypeError):
        run.failure = f"its last line is no result: {run.output.strip()[-100:]!r}"
        return
    if checked is not True:
        run.failure = f"its data was damaged: {result.get('error', 'checked is not true')}"
    elif operations <= 0 or seconds <= 0:
        run.failure = f"no operations: {operations:g} in {seconds:g} s"
    else:
        run.figures[TIME_PER_OPERATION.key] = seconds / operations * 1e9


def _free_port(wanted: int) -> int:
    """Returns the wanted port, or another when a process has it."""
    if not accepts(_HOST, wanted):
        return wanted
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])
