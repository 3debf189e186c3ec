"""A profile in the forms that flame graph programs read: folded stacks, and speedscope's JSON."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Tuple

from hakmem.profile.model import Frame, Profile, names_of, stack_of

_SPEEDSCOPE = "https://www.speedscope.app/file-format-schema.json"


def stacks(profile: Profile, sample_type: str) -> Dict[Tuple[str, ...], int]:
    """Bytes by stack of function names, the outermost first; stacks of nothing are left out."""
    column = profile.column(sample_type)
    found: Dict[Tuple[str, ...], int] = {}
    for sample in profile.samples:
        if sample.values[column]:
            names = tuple(reversed(names_of(sample))) or ("[no stack]",)
            found[names] = found.get(names, 0) + sample.values[column]
    return found


def folded(profile: Profile, sample_type: str) -> str:
    """A line a stack, `main;grow;append 4096`. A semicolon in a name (Rust's arrays) becomes a comma."""
    lines = [
        f"{';'.join(name.replace(';', ',').replace(chr(10), ' ') for name in names)} {value}"
        for names, value in stacks(profile, sample_type).items()
    ]
    return "".join(f"{line}\n" for line in sorted(lines))


def speedscope(profile: Profile, name: str, sample_types: List[str]) -> str:
    """One document with a view for each sample type."""
    frames: Dict[Tuple[str, str, int], int] = {}
    document: Dict[str, Any] = {
        "$schema": _SPEEDSCOPE,
        "exporter": "hakmem",
        "name": name,
        "activeProfileIndex": 0,
        "profiles": [_view(profile, sample_type, frames) for sample_type in sample_types],
    }
    document["shared"] = {"frames": [_frame(*key) for key in frames]}
    return json.dumps(document) + "\n"


def _view(profile: Profile, sample_type: str, frames: Dict[Tuple[str, str, int], int]) -> Dict[str, Any]:
    column = profile.column(sample_type)
    samples: List[List[int]] = []
    weights: List[int] = []
    for sample in profile.samples:
        if sample.values[column]:
            stack = [frame for frame, _ in reversed(stack_of(sample))]
            samples.append([frames.setdefault(_key(frame), len(frames)) for frame in stack])
            weights.append(sample.values[column])
    return {
        "type": "sampled", "name": sample_type, "unit": "bytes", "startValue": 0, "endValue": sum(weights),
        "samples": samples, "weights": weights,
    }  # fmt: skip


def _key(frame: Frame) -> Tuple[str, str, int]:
    return frame.function, frame.file, frame.line


def _frame(function: str, file: str, line: int) -> Dict[str, Any]:
    place: Dict[str, Any] = {"file": file} if file else {}
    return {"name": function, **place, **({"line": line} if line else {})}
