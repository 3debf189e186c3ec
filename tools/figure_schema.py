"""docs/stats.schema.json, from the figures that src/policy declares and those of named heaps and tags."""

from __future__ import annotations

import json
import re
from typing import Mapping

from definitions import calls, literal
from figure_tables import figures, old_figures

NUMBER = {"type": "integer", "minimum": 0}
TEXT = {"type": "string"}
# The JSON form has these words instead of the numbers (inspect/snapshot.c).
WORDS = {
    ("band", "band"): ["tiny", "mid", "run", "large"],
    ("class", "band"): ["tiny", "mid"],
    ("heap", "state"): ["attached", "idle", "orphan", "lost"],
}


def json_object(properties: Mapping[str, object], more: bool = False) -> dict[str, object]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        **({} if more else {"additionalProperties": False}),
    }


def renamed(names: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """The schema's entries of earlier names."""
    return {
        old: {"type": "integer", "minimum": 0, "deprecated": True, "description": f"the earlier name of {name}"}
        for name, old in names.items()
    }


def named_figures(named_text: str) -> list[tuple[str, str, bool]]:
    """The figures of named heaps and tags: name, meaning, whether only tags have it."""
    found = re.findall(r'^    TEXT(_OF_TAG)?\((\w+), .*?"(.*)"\),?$', named_text, re.MULTILINE)
    return [(name, help_, bool(of_tag)) for of_tag, name, help_ in found]


def about(name: str, help_: str) -> dict[str, object]:
    """The schema of a figure."""
    if name.endswith("_estimate"):
        return {**NUMBER, "type": ["integer", "null"], "description": f"{help_}; null where no sample is in use"}
    return {**NUMBER, "description": help_}


def elements(figure_text: str, old_text: str) -> dict[str, dict[str, object]]:
    """The schemas of the figures of a band, a size class and a heap. A band's name is its key."""
    kinds = figures(figure_text)
    found: dict[str, dict[str, object]] = {
        kind: {
            name: {"enum": WORDS[kind, name]} if unit == "WORD" else about(name, help_)
            for name, unit, help_ in kinds[kind]
        }
        for kind in ("band", "class", "heap")
    }
    found["heap"].update(renamed(old_figures(old_text)["heaps"]))
    found["band"].pop("band")
    return found


def schema(figure_text: str, stat_text: str, old_text: str, named_text: str = "") -> str:
    """Returns the schema of the JSON form. Later versions may add names at the top, and nowhere else."""
    sections: dict[str, dict[str, object]] = {}
    for section, name, _, help_ in figures(figure_text)["figure"]:
        sections.setdefault(section, {})[name] = about(name, help_)
    for section, names in old_figures(old_text).items():
        if section in sections and section != "parts":  # whose sum is the resident memory
            sections[section].update(renamed(names))
    process = sections.pop("process")
    sections["learning"]["state"] = TEXT
    sections["learning"]["decisions"] = {"type": "array", "items": TEXT}
    element = elements(figure_text, old_text)
    bands = WORDS["band", "band"]
    events = {arguments[0]: {**NUMBER, "description": literal(arguments[2])} for _, arguments in calls(stat_text)}
    events.update(renamed(old_figures(old_text)["events"]))
    top: dict[str, object] = {"schema": {"const": 2}, "version": TEXT, "pid": NUMBER, **process}
    top["memory"] = json_object(sections.pop("memory"))
    top["events"] = json_object(events)
    top["learning"] = json_object(sections.pop("learning"))
    top.update({name: json_object(properties) for name, properties in sections.items()})
    top["purge_thread"] = {"type": "boolean"}
    top["options"] = {"type": "object", "additionalProperties": TEXT}
    top["bands"] = json_object({name: json_object(element["band"]) for name in bands})
    top["classes"] = {"type": "array", "items": json_object(element["class"])}
    top["heaps"] = {"type": "array", "items": json_object(element["heap"])}
    whole = json_object(top, more=True)
    named = json_object({"name": TEXT, "kind": {"enum": ["heap", "tag", "heaps", "tags"]}}, more=True)
    named["properties"].update({name: about(name, help_) for name, help_, _ in named_figures(named_text)})
    whole["properties"] = {
        **top, "named": {"type": "array", "items": named},
        "costs": {"type": "object", "additionalProperties": NUMBER},
    }  # fmt: skip
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Statistics of hakmem, schema 2",
        "description": "Written by tools/generate_docs.py. Sizes are in bytes.",
    }
    return json.dumps({**head, **whole}, indent=1)
