"""The examination of `hakmem doctor`, from the machine to the program."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from hakmem import linked
from hakmem.doctor import huge_page_checks, library_checks, memory_checks, probe, program_checks, system_checks
from hakmem.doctor.finding import Finding, Level, worst
from hakmem.elf_check import Chain, follow
from hakmem.errors import Failure
from hakmem.kernel_files import KernelFiles
from hakmem.program import Program, resolve
from hakmem.schemas import SCHEMAS

_STAND_IN = "true"


@dataclass(frozen=True)
class Examination:
    """The findings, in the order of the checks."""

    program: Optional[str]
    library: Optional[str]
    findings: Tuple[Finding, ...]

    @property
    def works(self) -> bool:
        """Whether nothing keeps hakmem from working."""
        return worst(self.findings) is not Level.PROBLEM

    def as_json(self) -> Dict[str, Any]:
        """For programs."""
        return {
            "schema": SCHEMAS["doctor"],
            "program": self.program,
            "library": self.library,
            "works": self.works,
            "worst": worst(self.findings).value,
            "findings": [finding.as_json() for finding in self.findings],
        }


def examine(
    files: KernelFiles, environment: Mapping[str, str], library: Optional[Path], program: Optional[Program]
) -> Examination:
    """`environment` is the environment of started programs, without the preload."""
    findings: List[Finding] = []
    chain = follow(program.named_file, environment) if program is not None else None
    own = linked.of_program(chain, environment) if chain is not None else None
    if own is None:
        findings += _library(files, library)
    findings += library_checks.check_preloads(files, environment, library)
    findings += library_checks.check_other_settings(environment)
    findings += system_checks.check(files, environment)
    findings += memory_checks.check(files)
    findings += huge_page_checks.check(files)
    if chain is not None and own is not None:
        findings += program_checks.check_linked(chain, own, environment)
    else:
        findings += _program(chain, library, environment)
    name = program.name if program is not None else None
    return Examination(name, own or (str(library) if library else None), tuple(findings))


def _library(files: KernelFiles, library: Optional[Path]) -> Iterator[Finding]:
    if library is not None:
        yield from library_checks.check_file(files, library)
        return
    yield Finding(
        Level.PROBLEM,
        "library",
        "libhakmem.so was not found",
        "There is no library to preload.",
        "Build it with `make lib` in the checkout, or name it by --library.",
    )


def _program(named: Optional[Chain], library: Optional[Path], environment: Mapping[str, str]) -> Iterator[Finding]:
    """Checks the named program, or a harmless one; then runs a harmless one."""
    stand_in = _find_stand_in(environment)
    chain = named or (follow(stand_in.path, environment) if stand_in is not None else None)
    if chain is None:
        return
    findings = tuple(program_checks.check(chain, str(library or ""), environment))
    yield from findings
    if library is None or any(finding.level is Level.PROBLEM for finding in findings):
        return
    if chain.executable is not None:
        yield from probe.check_binding(chain.executable, library, environment)
    if stand_in is not None and program_checks.is_possible(follow(stand_in.path, environment), str(library)):
        yield from probe.check_start(stand_in.path, library, environment)


def _find_stand_in(environment: Mapping[str, str]) -> Optional[Program]:
    try:
        return resolve([_STAND_IN], environment)
    except Failure:
        return None
