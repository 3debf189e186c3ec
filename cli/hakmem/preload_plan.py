"""Decides, before any run, how a program is started under each allocator, and whether that has an effect."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence

from hakmem import linked, musl
from hakmem.allocators import GLIBC, Allocator
from hakmem.dynamic_linker import Binding, bind
from hakmem.elf_check import Chain, find_obstacle, follow
from hakmem.environment import with_preload
from hakmem.errors import Failure
from hakmem.program import Program

FORCE_HINT = "`hakmem doctor` says more, and --force runs it all the same"


@dataclass(frozen=True)
class Prepared:
    """How to start a program under one allocator. `serves` is the file whose malloc it will call, if known."""

    allocator: Allocator
    environment: Mapping[str, str]
    serves: Optional[str]


@dataclass(frozen=True)
class Plan:
    """Every allocator, ready to start, and notes for the reader."""

    prepared: Sequence[Prepared]
    notes: Sequence[str]


def check_preload(program: Program, library: str, environment: Mapping[str, str], force: bool) -> List[str]:
    """Checks a library that `environment` preloads: a Failure, or warnings with --force."""
    chain = follow(program.named_file, environment)
    obstacle = find_obstacle(chain, library)
    if obstacle is not None:
        message = f"preloading has no effect: {obstacle.message}"
        return _fail_or_warn(message, force)
    binding = bind(chain.executable, environment) if chain.executable else None
    if binding is None:
        return []
    server = binding.server()
    if server is not None and server != os.path.realpath(library):
        return _fail_or_warn(f"{_told(binding, server)}, not {library}", force)
    return []


def _fail_or_warn(message: str, force: bool) -> List[str]:
    if not force:
        raise Failure(f"{message}. {FORCE_HINT}")
    return [message]


def _told(binding: Binding, server: str) -> str:
    complaint = f" ({binding.complaint.splitlines()[0]})" if binding.complaint else ""
    return f"malloc would be served by {server}{complaint}"


def plan(
    program: Program,
    allocators: Sequence[Allocator],
    environment: Mapping[str, str],
    options: Mapping[str, str],
    force: bool,
) -> Plan:
    """Every allocator that can serve the program. `options` are for ours alone."""
    chain = follow(program.named_file, environment)
    notes: List[str] = []
    if chain.executable is not None and musl.runs_on_musl(chain.executable.interpreter):
        allocators = _for_musl(str(chain.executable.interpreter), allocators, notes)
    obstacle = next((o for a in allocators if a.library and (o := find_obstacle(chain, a.library))), None)
    if obstacle is not None and linked.of_program(chain, environment) is not None:
        message = f"preloading has no effect: {program.path} has hakmem in it. `hakmem run` measures it as it is"
        notes += _fail_or_warn(message, force)
    elif obstacle is not None:
        notes += _fail_or_warn(f"preloading has no effect: {obstacle.message}", force)
    elif chain.executable is None:
        notes.append(f"{program.path} could not be examined: it is unknown whether the allocators take effect")
    prepared: List[Prepared] = []
    for allocator in allocators:
        try:
            prepared.append(_prepare(chain, allocator, environment, options, notes))
        except Failure as failure:
            if not force and allocator is allocators[0]:
                raise
            notes.append(f"left out: {allocator.name}: {failure.message}")
    return Plan(prepared, notes)


def _for_musl(interpreter: str, allocators: Sequence[Allocator], notes: List[str]) -> List[Allocator]:
    """The allocators that serve programs of musl, each with its library for musl. Without a library it is musl's."""
    notes.append(f"the program runs on musl: {GLIBC} stands for musl's own malloc")
    chosen: List[Allocator] = []
    for allocator in allocators:
        library = allocator.library
        if library is not None and allocator.is_ours and not musl.is_for_musl(library):
            found = musl.library_for(interpreter, Path(library).name)
            if found is None:
                raise Failure(f"{library} is for glibc, and the program runs on musl: {musl.HOW_TO_BUILD}")
            chosen.append(replace(allocator, library=str(found)))
        elif library is None or musl.is_for_musl(library):
            chosen.append(allocator)
        else:
            notes.append(f"left out: {allocator.name}: its library is for glibc")
    return chosen


def _prepare(
    chain: Chain, allocator: Allocator, environment: Mapping[str, str], options: Mapping[str, str], notes: List[str]
) -> Prepared:
    variables: Dict[str, str] = dict(environment)
    if allocator.is_ours:
        variables.update(options)
    variables.update(allocator.variables)
    if allocator.library is not None:
        variables = with_preload(variables, allocator.library)
    binding = bind(chain.executable, variables) if chain.executable else None
    server = binding.server() if binding else None
    if binding is None or server is None or chain.executable is None or server == chain.executable.path:
        return Prepared(allocator, variables, server)
    if allocator.library is None:
        return _under_glibc(binding, server, allocator, variables, notes)
    if server != os.path.realpath(allocator.library):
        raise Failure(_told(binding, server))
    return Prepared(allocator, variables, server)


def _under_glibc(
    binding: Binding, server: str, allocator: Allocator, variables: Dict[str, str], notes: List[str]
) -> Prepared:
    """Preloads the C library itself into programs that are linked with another allocator."""
    c_library = binding.library("libc.so.6")
    if c_library is None or server == c_library:
        return Prepared(allocator, variables, server)
    notes.append(
        f"the program is linked with {Path(server).name}; for {allocator.name}, {c_library} is preloaded so that its "
        "malloc serves"
    )
    return Prepared(allocator, with_preload(variables, c_library), c_library)
