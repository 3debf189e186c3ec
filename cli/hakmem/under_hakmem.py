"""A PROGRAM that a command starts on hakmem: its options, and the start that follows from them."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import click

from hakmem import environment, linked, musl, next_step, paths
from hakmem.elf_check import find_obstacle, follow
from hakmem.errors import EXIT_USAGE, Failure
from hakmem.preload_plan import FORCE_HINT, check_preload
from hakmem.program import Program, resolve

Command = Callable[..., None]


@dataclass(frozen=True)
class How:
    """The values of --set, --library, --secure and --force."""

    settings: Tuple[str, ...] = ()
    library: Optional[str] = None
    secure: bool = False
    force: bool = False

    @property
    def file(self) -> str:
        """The name of the library's file, unless --library names one."""
        return paths.SECURE_LIBRARY if self.secure else paths.LIBRARY

    def words(self) -> List[str]:
        """The options as they are typed."""
        return next_step.options(
            {"--set": self.settings, "--library": self.library, "--secure": self.secure, "--force": self.force}
        )

    def refuse(self, other: str = "") -> None:
        """Raises a Failure when options for programs were given without a program. `other` is one more such option."""
        if self != How() or other:
            names = ", ".join(name for name in (other, "--set", "--library", "--secure and --force") if name)
            raise Failure(f"{names} are for a PROGRAM that is started here", EXIT_USAGE)


@dataclass(frozen=True)
class Start:
    """The program to start, and the warnings before it. `can_map` is false where, with --force, the program is known
    not to load the library. `is_linked` is true for a program that has hakmem without a preload."""

    program: Program
    variables: Dict[str, str]
    library: str
    warnings: List[str]
    can_map: bool = True
    is_linked: bool = False


def start_options(of: str = "of a PROGRAM: ") -> Callable[[Command], Command]:
    """Adds the options, which the command gets as one argument, `how`.

    `of` begins their texts where other arguments exist.
    """

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def called(settings: Tuple[str, ...], library: Optional[str], secure: bool, force: bool, **others: Any) -> None:
            if secure and library is not None:
                raise Failure("--secure and --library both name a library", EXIT_USAGE)
            command(how=How(settings, library, secure, force), **others)

        # The last is shown first.
        for words, details in reversed(_OPTIONS):
            told = of + details["help"]
            called = click.option(*words, **{**details, "help": told[0].upper() + told[1:]})(called)
        return called

    return decorate


_OPTIONS: List[Tuple[Tuple[str, ...], Dict[str, Any]]] = [
    (
        ("--set", "settings"),
        {"multiple": True, "metavar": "NAME=VALUE", "help": "an option of hakmem, HAKMEM_NAME. Repeatable."},
    ),
    (("--library",), {"metavar": "FILE", "help": "the library to preload, instead of the one that is found."}),
    (("--secure",), {"is_flag": True, "help": "preload the hardened library, libhakmem-secure.so."}),
    (("--force",), {"is_flag": True, "help": "run also where preloading has no effect."}),
]


def prepare(command: Sequence[str], how: How) -> Start:
    """The program with the caller's environment, the options and the preload; a Failure where that cannot work.

    A program that is linked with hakmem gets no preload."""
    variables = {**environment.of_caller(), **environment.options(how.settings)}
    program = resolve(command, variables)
    chain = follow(program.named_file, variables)
    own = linked.of_program(chain, variables)
    if own is not None:
        return _of_linked(program, variables, own, how)
    interpreter = chain.executable.interpreter if chain.executable else None
    library = str(musl.require_library(how.library, interpreter, how.file))
    variables = environment.with_preload(variables, library)
    warnings = check_preload(program, library, variables, how.force)
    obstacle = find_obstacle(chain, library) if warnings else None
    return Start(program, variables, library, warnings, obstacle is None or not obstacle.hides_library)


def _of_linked(program: Program, variables: Dict[str, str], own: str, how: How) -> Start:
    """--library or --secure would bring a second hakmem into the process, or have no effect."""
    is_other = how.library is not None and os.path.realpath(how.library) != own
    if is_other or (how.secure and not os.path.basename(own).startswith(paths.SECURE_LIBRARY)):
        message = (
            f"{'--secure' if how.secure else '--library'} has no effect: {program.name} is linked with hakmem ({own})"
        )
        if not how.force:
            raise Failure(f"{message}. {FORCE_HINT}")
        return Start(program, variables, own, [message], is_linked=True)
    return Start(program, variables, own, [], is_linked=True)
