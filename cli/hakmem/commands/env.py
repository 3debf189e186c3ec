"""`hakmem env`: the line that sets LD_PRELOAD, for shells, systemd, Dockerfiles and others."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from typing import Callable, Dict, List, Mapping, Optional, Tuple

import click

from hakmem import environment, next_step, paths
from hakmem.errors import EXIT_USAGE, Failure
from hakmem.one_of import one_of
from hakmem.schemas import SCHEMAS

_PRELOAD = "LD_PRELOAD"


def _sh(name: str, value: str) -> str:
    return f"export {name}={shlex.quote(value)}"


def _fish(name: str, value: str) -> str:
    return f"set -gx {name} '" + re.sub(r"([\\'])", r"\\\1", value) + "'"


def _systemd(name: str, value: str) -> str:
    escaped = re.sub(r'([\\"])', r"\\\1", value).replace("%", "%%")
    return f'Environment="{name}={escaped}"'


def _docker(name: str, value: str) -> str:
    return f'ENV {name}="' + re.sub(r'([\\"$])', r"\\\1", value) + '"'


def _plain(name: str, value: str) -> str:
    return f"{name}={value}"


# By the option's name: what the lines are for, and how a variable is written.
_FORMS: Dict[str, Tuple[str, Callable[[str, str], str]]] = {
    "shell": ("For a POSIX shell; the default.", _sh),
    "fish": ("For the shell fish.", _fish),
    "systemd": ("For the [Service] section of a systemd unit.", _systemd),
    "docker": ("For a Dockerfile.", _docker),
    "plain": ("NAME=VALUE, as env, docker run --env-file and systemd's EnvironmentFile= read it.", _plain),
}
# Lines of these forms are for the caller's own environment, and keep its other preloads.
_OF_CALLER = ("shell", "fish")
_JSON, _PATH = "json", "path"
_TEXTS = {
    **{name: text for name, (text, _) in _FORMS.items()},
    _JSON: "The variables as JSON.",
    _PATH: "The library's path alone.",
}


@click.command()
@one_of("form", {name: (f"--{name}", text) for name, text in _TEXTS.items()})
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="An option of hakmem too. Repeatable.")
@click.option("--fast", is_flag=True, help="The library without checks, libhakmem-fast.so.")
@click.option("--secure", is_flag=True, help="The hardened library, libhakmem-secure.so.")
@click.option("--library", metavar="FILE", help="The library to preload, instead of the one that is found.")
def env(form: Optional[str], settings: Tuple[str, ...], fast: bool, secure: bool, library: Optional[str]) -> None:
    """Print the line that sets LD_PRELOAD, for a shell, systemd or a Dockerfile.

    In a shell, `eval "$(hakmem env)"` puts all programs that are started later on hakmem.
    """
    named = [name for name, is_given in (("--fast", fast), ("--secure", secure), ("--library", library)) if is_given]
    if len(named) > 1:
        raise Failure(f"{named[0]} and {named[1]} both name a library", EXIT_USAGE)
    variant = paths.FAST_LIBRARY if fast else paths.SECURE_LIBRARY if secure else paths.LIBRARY
    # The line outlives this release, in a unit or an image. An update removes the file of the old version.
    found = str(paths.require_lasting(library, variant))
    options = environment.options(settings)
    if form == _JSON:
        click.echo(json.dumps({"schema": SCHEMAS["env"], "variables": {_PRELOAD: found, **options}}))
    elif form == _PATH:
        if options:
            raise Failure("--path has no place for --set", EXIT_USAGE)
        click.echo(found)
    else:
        for line in _lines(form or "shell", found, options):
            click.echo(line)
        if form in (None, "shell") and sys.stdout.isatty():
            typed = next_step.options({"--set": settings, "--fast": fast, "--secure": secure, "--library": library})
            next_step.tell(f'eval "$(hakmem {next_step.words(["env", *typed])})"', on_stderr=True)


def _lines(form: str, library: str, options: Mapping[str, str]) -> List[str]:
    preload = _added(library, os.environ) if form in _OF_CALLER else library
    _, written = _FORMS[form]
    lines = []
    for name, value in {_PRELOAD: preload, **options}.items():
        if form not in _OF_CALLER and re.search(r"[\r\n]", value):
            raise Failure(f"{name} has a line break, which --{form} cannot express", EXIT_USAGE)
        lines.append(written(name, value))
    return lines


def _added(library: str, variables: Mapping[str, str]) -> str:
    """The caller's preload with the library in the place of another allocator. The same when it is added again."""
    entries = environment.preload_list(variables.get(_PRELOAD, ""))
    return ":".join([*(entry for entry in entries if not environment.is_allocator(entry)), library])
