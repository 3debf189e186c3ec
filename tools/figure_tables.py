"""The figures that figure.def, stat.def and old_figure.def of src/policy declare, and the tables of docs/stats.md."""

from __future__ import annotations

from definitions import DefinitionError, calls, literal
from markdown_table import table

UNITS_OF_FIGURES = {"BYTES": "bytes", "COUNT": "count", "MS": "ms", "WORD": "word"}


def figures(text: str) -> dict[str, list[list[str]]]:
    """Returns the rows of each kind (figure, band, class, heap): name, unit, help; for a figure the section first.

    The name of an estimate ends in `_estimate`, and no other name does.
    """
    found: dict[str, list[list[str]]] = {"figure": [], "band": [], "class": [], "heap": []}
    for macro, arguments in calls(text):
        kind = {"HK_FIGURE": "figure", "HK_ESTIMATE": "figure"}.get(
            macro, macro.removeprefix("HK_").removesuffix("_FIGURE").removesuffix("_ESTIMATE").lower()
        )
        if kind not in found or len(arguments) != (4 if kind == "figure" else 3):
            raise DefinitionError(f"{macro} with {len(arguments)} arguments")
        *names, unit, help_ = arguments
        if unit not in UNITS_OF_FIGURES:
            raise DefinitionError(f"{names[-1]}: unknown unit {unit}")
        if macro.endswith("ESTIMATE") != names[-1].endswith("_estimate"):
            raise DefinitionError(f"{names[-1]}: the name of an estimate ends in _estimate, and no other")
        found[kind].append([*names, unit, literal(help_)])
    return found


def figures_table(text: str) -> str:
    rows = [
        [f"`{section}`", f"`{name}`", UNITS_OF_FIGURES[unit], help_]
        for section, name, unit, help_ in figures(text)["figure"]
    ]
    return table(["Section", "Figure", "Unit", "Meaning"], rows)


def parts_table(text: str) -> str:
    """Returns the table of the figures of bands, classes and heaps."""
    kinds = figures(text)
    rows = [
        [kind, f"`{name}`", UNITS_OF_FIGURES[unit], help_]
        for kind in ("band", "class", "heap")
        for name, unit, help_ in kinds[kind]
    ]
    return table(["Of each", "Figure", "Unit", "Meaning"], rows)


def old_figures(text: str) -> dict[str, dict[str, str]]:
    """Returns the earlier names of each section, by the present one."""
    found: dict[str, dict[str, str]] = {}
    for macro, arguments in calls(text):
        if macro != "HK_OLD_FIGURE" or len(arguments) != 3:
            raise DefinitionError(f"{macro} with {len(arguments)} arguments")
        section, old, name = arguments
        found.setdefault(section, {})[name] = old
    return found


def old_figures_table(text: str) -> str:
    rows = [
        [f"`{section}`", f"`{old}`", f"`{name}`"]
        for section, names in old_figures(text).items()
        for name, old in names.items()
    ]
    return table(["Section", "Earlier name", "Now"], rows)


def stats_table(text: str) -> str:
    rows: list[list[str]] = []
    for macro, arguments in calls(text):
        if macro != "HK_STAT" or len(arguments) != 3:
            raise DefinitionError(f"{macro} with {len(arguments)} arguments")
        rows.append([f"`{arguments[0]}`", arguments[1].lower(), literal(arguments[2])])
    return table(["Counter", "Unit", "Meaning"], rows)
