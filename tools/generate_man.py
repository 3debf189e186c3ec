#!/usr/bin/env python3
"""Writes the man page docs/man/hakmem.1 from the tool's own commands, options and examples, and from option.def.

With --check the tool writes nothing, and a stale page is an error. Without click (cli/requirements.txt) it does
nothing.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any, Iterator

import generate_docs

ROOT = Path(__file__).resolve().parents[1]
PAGE = "docs/man/hakmem.1"
EXIT_CODES = (
    ("0", "Success. For a program that hakmem ran: the program's own code, from 0 to 124."),
    ("1", "compare, bench: the program failed under at least one allocator."),
    ("2", "Wrong usage, an unknown allocator or workload."),
    ("125", "hakmem cannot do its part: the line on stderr has the reason. doctor: there is a problem."),
    ("126, 127", "The program is not executable; it does not exist."),
    ("128+n", "Signal n ended the program, or hakmem."),
)


def roff(text: str) -> str:
    """Plain text, with code in backquotes, as a line of roff."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", text)
    return f"\\&{text}" if text.startswith((".", "'")) else text


def bold(text: str) -> str:
    return f"\\fB{roff(text)}\\fR"


def first_sentence(text: str) -> str:
    """The text up to a full stop behind a word; brackets may have full stops of their own."""
    match = re.match(r"(?:\([^)]*\)|[^.]|\.(?=\S))*(?:\.|$)", text)
    return (match.group() if match else text).rstrip(":")


def option_lines(parameter: Any) -> list[str]:
    words = ", ".join(bold(word) for word in (*parameter.opts, *parameter.secondary_opts))
    value = ""
    if not parameter.is_flag:
        kind = parameter.type
        choices = getattr(kind, "choices", None)
        given = "|".join(choices) if choices else parameter.metavar or "N"
        value = f" \\fI{roff(given)}\\fR"
    help_ = parameter.help or ""
    if parameter.show_default:
        default = parameter.default
        help_ += f" Default: {default:g}." if isinstance(default, float) else f" Default: {default}."
    return [".TP", f"{words}{value}", roff(help_)]


def example_lines(examples: tuple[tuple[str, str], ...]) -> Iterator[str]:
    yield ".EX"
    for line, what in examples:
        yield roff(f"# {what}")
        yield roff(line)
    yield ".EE"


def command_lines(words: str, command: object) -> Iterator[str]:
    """The section of a command, and those of its subcommands."""
    import click
    from hakmem.examples import EXAMPLES

    assert isinstance(command, click.Command)
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from command_lines(f"{words} {name}", inner)
        return
    context = click.Context(command, info_name=words)
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f".SS hakmem {words}"
    yield f"{bold(f'hakmem {words}')} {roff(pieces)}"
    for paragraph in re.split(r"\n\s*\n", (command.help or "").strip()):
        yield ".PP"
        yield roff(" ".join(paragraph.split()))
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield from option_lines(parameter)
    yield ".PP"
    yield from example_lines(EXAMPLES[words])


def environment_lines(definitions: str) -> Iterator[str]:
    for macro, arguments in generate_docs.calls(definitions):
        if macro in ("HK_OPTION", "HK_TEXT_OPTION"):
            yield ".TP"
            yield bold(f"HAKMEM_{arguments[0].upper()}")
            yield roff(first_sentence(generate_docs.literal(arguments[-1])))


def page(root: Path) -> str:
    import click
    from hakmem import __version__
    from hakmem.examples import EXAMPLES
    from hakmem.main import cli

    lines = [
        '.\\" Written by tools/generate_man.py (make format).',
        f'.TH HAKMEM 1 "" "hakmem {__version__}" "User Commands"',
        ".SH NAME",
        "hakmem \\- run programs under the hakmem memory allocator, measure it, and look inside",
        ".SH SYNOPSIS",
        "\\fBhakmem\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR]... [\\fIARGUMENT\\fR]...",
        ".br",
        "\\fBLD_PRELOAD=\\fR\\fI/path/to/\\fR\\fBlibhakmem.so\\fR \\fIPROGRAM\\fR [\\fIARGUMENT\\fR]...",
        ".SH DESCRIPTION",
        roff(
            "hakmem is a general-purpose memory allocator for 64-bit Linux. Preloaded or linked, `libhakmem.so` "
            "serves the "
            "C library's `malloc` and its relatives, and the C++ operators `new` and `delete`. The command `hakmem` "
            "runs "
            "programs under it, compares allocators, and shows where the memory of a running program is."
        ),
        ".PP",
        roff(
            "Everything after the first word that is no option, or after `--`, is the program and its arguments. A "
            "command "
            "with a PID works on a program that was started without any option."
        ),
        ".SH COMMANDS",
    ]
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        lines += command_lines(name, command)
    lines += [".SH ENVIRONMENT", roff("The library reads these variables once, when the program starts.")]
    lines += environment_lines((root / "src/policy/option.def").read_text(encoding="utf-8"))
    lines.append(".SH EXIT STATUS")
    for code, what in EXIT_CODES:
        lines += [".TP", bold(code), roff(what)]
    lines.append(".SH EXAMPLES")
    lines += example_lines(EXAMPLES[""])
    lines += [
        ".SH SEE ALSO",
        "\\fBmalloc\\fR(3), \\fBld.so\\fR(8)",
        ".PP",
        roff(
            "docs/cli.md, docs/options.md, docs/stats.md, docs/profile.md and docs/errors.md in the sources of hakmem"
        ),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the page is stale")
    check = parser.parse_args().check
    sys.path.insert(0, str(ROOT / "cli"))
    try:
        new = page(ROOT)
    except ModuleNotFoundError as error:
        print(f"man: left out: no module {error.name} (tools/bootstrap.sh test)")
        return 0
    path = ROOT / PAGE
    if path.exists() and path.read_text(encoding="utf-8") == new:
        print("man: ok")
        return 0
    if check:
        print(f"man: stale: {PAGE} (make format writes it)")
        return 1
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(new, encoding="utf-8")
    print(f"man: written: {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
