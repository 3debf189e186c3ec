"""hakmem(1), and a page for each command of the tool: from its own commands, options and examples."""

from __future__ import annotations

import re
from typing import Any, Iterator

from man.roff import bold, head, items, name, page, paragraphs, roff, see_also

PART = "User Commands"
EXIT_CODES = (
    ("0", "Success. For a program that hakmem ran: the program's own code, from 0 to 124."),
    ("1", "compare, bench: the program failed under at least one allocator."),
    ("2", "Wrong usage, an unknown allocator or workload."),
    ("125", "hakmem cannot do its part: the line on stderr has the reason. doctor: there is a problem."),
    ("126, 127", "The program is not executable; it does not exist."),
    ("128+n", "Signal n ended the program, or hakmem."),
)


def tool_pages() -> Iterator[tuple[str, str]]:
    """The pages, by file name."""
    import click
    from hakmem.main import cli

    context = click.Context(cli)
    commands = {word: cli.get_command(context, word) for word in cli.list_commands(context)}
    yield "hakmem.1", page(_overview(commands))
    for word, command in commands.items():
        yield f"hakmem-{word}.1", page(_command_page(word, command))


def _overview(commands: dict[str, Any]) -> Iterator[str]:
    from hakmem import __version__
    from hakmem.examples import EXAMPLES

    yield from head("hakmem", 1, __version__, PART)
    yield from name("hakmem", "run programs under the hakmem memory allocator, measure it, and look inside")
    yield ".SH SYNOPSIS"
    yield "\\fBhakmem\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR]... [\\fIARGUMENT\\fR]..."
    yield ".br"
    yield "\\fBLD_PRELOAD=\\fR\\fI/path/to/\\fR\\fBlibhakmem.so\\fR \\fIPROGRAM\\fR [\\fIARGUMENT\\fR]..."
    yield ".SH DESCRIPTION"
    yield roff(
        "hakmem is a general-purpose memory allocator for 64-bit Linux. Preloaded or linked, `libhakmem.so` serves the "
        "C library's `malloc` and its relatives, and the C++ operators `new` and `delete`. The command `hakmem` runs "
        "programs under it, compares allocators, and shows where the memory of a running program is."
    )
    yield ".PP"
    yield roff(
        "Everything after the first word that is no option, or after `--`, is the program and its arguments. A command "
        "with a PID works on a program that was started without any option."
    )
    yield ".SH COMMANDS"
    for word, command in commands.items():
        yield from (".TP", f"{bold(f'hakmem-{word}')}(1)", roff(command.get_short_help_str(limit=1000)))
    yield ".SH ENVIRONMENT"
    yield "The library reads the variables of \\fBhakmem\\-options\\fR(7) once, when a program starts."
    yield ".SH EXIT STATUS"
    yield from items(EXIT_CODES)
    yield ".SH EXAMPLES"
    yield from _example_lines(EXAMPLES[""])
    others = (f"hakmem-{word}(1)" for word in commands)
    yield from see_also(*others, "hakmem(3)", "malloc(3)", "hakmem-options(7)", "ld.so(8)")


def _command_page(word: str, command: Any) -> Iterator[str]:
    """A command's page; its subcommands are sections of it."""
    import click
    from hakmem import __version__

    yield from head(f"hakmem-{word}", 1, __version__, PART)
    yield from name(f"hakmem-{word}", _summary(command))
    inner = {f"{word} {one}": found for one, found in _subcommands(command).items()} or {word: command}
    yield ".SH SYNOPSIS"
    for number, (words, one) in enumerate(inner.items()):
        context = click.Context(one, info_name=words)
        yield from (".br",) if number else ()
        yield f"{bold(f'hakmem {words}')} {roff(' '.join(one.collect_usage_pieces(context)))}"
    yield ".SH DESCRIPTION"
    yield from paragraphs(_plain(command.help))
    for words, one in inner.items():
        if one is not command:
            yield f".SH HAKMEM {roff(words.upper())}"
            yield from paragraphs(_plain(one.help))
        options = [parameter for parameter in one.params if isinstance(parameter, click.Option)]
        if options:
            yield ".SS Options" if one is not command else ".SH OPTIONS"
        for option in options:
            yield from _option_lines(option)
    yield ".SH EXIT STATUS"
    yield "As of \\fBhakmem\\fR(1)."
    yield from _examples_of(word, inner)
    yield from see_also("hakmem(1)", "hakmem-options(7)")


def _subcommands(command: Any) -> dict[str, Any]:
    return dict(getattr(command, "commands", {}))


def _examples_of(word: str, inner: dict[str, Any]) -> Iterator[str]:
    from hakmem.examples import EXAMPLES

    found = [example for words in dict.fromkeys((word, *inner)) for example in EXAMPLES.get(words, ())]
    if found:
        yield ".SH EXAMPLES"
        yield from _example_lines(tuple(found))


def _summary(command: Any) -> str:
    """The first sentence of the help, as man pages write it: no capital, no full stop."""
    text = command.get_short_help_str(limit=1000).rstrip(".")
    return text[:1].lower() + text[1:]


def _plain(help_: str | None) -> str:
    """click's mark for a paragraph that it should not wrap is none of the text."""
    return (help_ or "").replace("\b", "").partition("\f")[0]


def _option_lines(parameter: Any) -> list[str]:
    words = ", ".join(bold(word) for word in (*parameter.opts, *parameter.secondary_opts))
    value = ""
    if not parameter.is_flag:
        choices = getattr(parameter.type, "choices", None)
        given = "|".join(map(str, choices)) if choices else parameter.metavar or "N"
        value = f" \\fI{roff(given)}\\fR"
    help_ = parameter.help or ""
    if parameter.show_default:
        default = parameter.default
        help_ += f" Default: {default:g}." if isinstance(default, float) else f" Default: {default}."
    return [".TP", f"{words}{value}", roff(help_)]


def _example_lines(examples: tuple[tuple[str, str], ...]) -> Iterator[str]:
    yield ".EX"
    for line, what in examples:
        yield roff(f"# {what}")
        yield roff(re.sub(r"\s+", " ", line))
    yield ".EE"
