"""The structs of the figures in C, Python and Rust, and the tool's module of their earlier names."""

from __future__ import annotations

import textwrap
from typing import Mapping

from definitions import calls, literal
from figure_tables import figures, old_figures

COLUMNS = 120


def commented(name: str, help_: str, indent: str) -> str:
    """Returns a struct's field with its comment: behind it, or above it where one line is too short."""
    line = f"{indent}uint64_t {name}; /* {help_} */"
    if len(line) <= COLUMNS:
        return line
    comment = textwrap.wrap(f"{help_} */", COLUMNS - len(f"{indent}/* "))
    return f"{indent}/* " + f"\n{indent} * ".join(comment) + f"\n{indent}uint64_t {name};"


def field(name: str, help_: str, old: str | None = None) -> str:
    """Returns a field of a struct; where it has an earlier name, a union of both."""
    if old is None:
        return commented(name, help_, "  ")
    return (
        f"  __extension__ union {{\n{commented(name, help_, '    ')}\n"
        f"    uint64_t {old}; /* the earlier name of {name} */\n  }};"
    )


def old_field(old: Mapping[str, Mapping[str, str]], section: str, name: str) -> str | None:
    earlier = old.get(section, {}).get(name)
    return None if earlier is None else f"{section}_{earlier}"


# Name, help text and earlier name of a struct's field.
Field = tuple[str, str, "str | None"]


def struct_fields(figure_text: str, stat_text: str, old_text: str) -> dict[str, list[Field]]:
    """The fields of the public structs, by the struct's name between hakmem_ and _t."""
    kinds, old = figures(figure_text), old_figures(old_text)
    head: list[Field] = [
        ("version", "HAKMEM_STATS_VERSION of the library", None),
        ("filled", "number of bytes of this struct that the library fills", None),
    ]
    fields: dict[str, list[Field]] = {
        "stats": head
        + [
            (f"{section}_{name}", f"{section}: {help_}", old_field(old, section, name))
            for section, name, _, help_ in kinds["figure"]
        ],
        "stats_events": head
        + [(arguments[0], literal(arguments[2]), old["events"].get(arguments[0])) for _, arguments in calls(stat_text)],
    }
    for kind in ("band", "class", "heap"):
        names = old.get(f"{kind}s", {})
        fields[f"stats_{kind}"] = [(name, help_, names.get(name)) for name, _, help_ in kinds[kind]]
    return fields


def structs(figure_text: str, stat_text: str, old_text: str) -> str:
    """The public structs."""
    texts = [
        "typedef struct {\n" + "\n".join(field(*each) for each in fields) + f"\n}} hakmem_{name}_t;"
        for name, fields in struct_fields(figure_text, stat_text, old_text).items()
    ]
    return "/* clang-format off */\n" + "\n\n".join(texts) + "\n/* clang-format on */"


def python_field(name: str, help_: str) -> list[str]:
    """Returns a field of a named tuple, with its comment behind it, or above it where one line is too short."""
    line = f"    {name}: int  # {help_}"
    if len(line) <= COLUMNS:
        return [line]
    return [*textwrap.wrap(help_, COLUMNS, initial_indent="    # ", subsequent_indent="    # "), f"    {name}: int"]


def own_figures_module(figure_text: str, stat_text: str) -> str:
    """Returns the module with the structs of a process's own figures as Python has them."""
    head = [("version", "HAKMEM_STATS_VERSION of the library"), ("filled", "bytes that the library fills")]
    rows = {
        ("Stats", "hakmem_stats_t: the figures of this process."): [
            (f"{section}_{name}", f"{section}: {help_}") for section, name, _, help_ in figures(figure_text)["figure"]
        ],
        ("Events", "hakmem_stats_events_t: the counters of this process."): [
            (arguments[0], literal(arguments[2])) for _, arguments in calls(stat_text)
        ],
    }
    lines = [
        '"""The structs of hakmem.h, as tools/generate_docs.py writes them from figure.def and stat.def."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import NamedTuple",
    ]
    for (name, text), fields in rows.items():
        lines += ["", "", f"class {name}(NamedTuple):", f'    """{text}"""', ""]
        lines += [line for field_name, help_ in [*head, *fields] for line in python_field(field_name, help_)]
    return "\n".join(lines)


def old_figures_module(text: str) -> str:
    """Returns the module by which the command line tool reads older snapshots."""
    lines = [
        '"""The earlier names of figures, as tools/generate_docs.py writes them from src/policy/old_figure.def."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Dict",
        "",
        "OLD_FIGURES: Dict[str, Dict[str, str]] = {",
    ]
    for section, names in old_figures(text).items():
        lines += [f'    "{section}": {{', *(f'        "{old}": "{name}",' for name, old in names.items()), "    },"]
    return "\n".join([*lines, "}"])


# The Rust names of the structs, with their texts.
RUST_STRUCTS = {
    "stats": ("Stats", "Figures of the whole process: `hakmem_stats_t`."),
    "stats_events": ("Events", "Counters of the whole process: `hakmem_stats_events_t`."),
    "stats_band": ("Band", "Figures of the blocks of a band of sizes: `hakmem_stats_band_t`."),
    "stats_class": ("Class", "Figures of a size class: `hakmem_stats_class_t`."),
    "stats_heap": ("Heap", "Figures of a heap: `hakmem_stats_heap_t`."),
}


def rust_structs(figure_text: str, stat_text: str, old_text: str) -> str:
    """Returns the module of the crate that has the public structs. Fields have their present names alone."""
    lines = ["//! The public structs of `hakmem/hakmem.h`, as tools/generate_docs.py writes them from src/policy.", ""]
    for name, fields in struct_fields(figure_text, stat_text, old_text).items():
        rust, help_ = RUST_STRUCTS[name]
        lines += [f"/// {help_}", "#[repr(C)]", "#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]"]
        lines += ["#[non_exhaustive]", f"pub struct {rust} {{"]
        for each, text, _ in fields:
            lines += [f"    /// {line}" for line in textwrap.wrap(text, COLUMNS - len("    /// "))]
            lines.append(f"    pub {each}: u64,")
        lines += ["}", ""]
    return "\n".join(lines[:-1])
