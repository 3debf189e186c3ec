"""The versions of the JSON that the commands write: the number in `schema`.

docs/cli.schema.json describes each document. A field that goes or changes its meaning raises the number of its command.
A new field does not."""

from __future__ import annotations

from typing import Dict

# stats and top print the library's own statistics: docs/stats.schema.json.
SCHEMAS: Dict[str, int] = {
    "bench": 2,
    "compare": 1,
    "diff": 1,
    "doctor": 1,
    "env": 1,
    "explain": 1,
    "guard": 1,
    "help": 1,
    "leaks": 1,
    "learn merge": 1,
    "learn replay": 1,
    "metrics": 1,
    "profile": 1,
    "report": 1,
    "run": 1,
    "stats": 2,
    "symbolize": 1,
    "top": 2,
}
