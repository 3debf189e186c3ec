"""The pictures of `hakmem bench`: a coloured table of ratios, workloads by allocators."""

from __future__ import annotations

import io
import math
from typing import Mapping, Sequence

from hakmem.plot import pyplot_module

# Ratios from a half to double span the whole range of colours.
_COLOUR_SPAN = math.log(2.0)
_ROW_INCHES = 0.25
_COLUMN_INCHES = 0.95


def draw(title: str, names: Sequence[str], ratios: Mapping[str, Mapping[str, float]]) -> bytes:
    """An SVG. Blue is below 1, red above; a cell without a figure stays white."""
    pyplot = pyplot_module()
    pyplot.rcParams["svg.hashsalt"] = "hakmem"
    workloads = list(ratios)
    size = (2.6 + _COLUMN_INCHES * len(names), 1.2 + _ROW_INCHES * len(workloads))
    figure, axes = pyplot.subplots(figsize=size, layout="constrained")
    table = [[_logarithm(ratios[workload].get(name)) for name in names] for workload in workloads]
    axes.imshow(table, cmap="RdBu_r", vmin=-_COLOUR_SPAN, vmax=_COLOUR_SPAN, aspect="auto")
    for row, workload in enumerate(workloads):
        for column, name in enumerate(names):
            value = ratios[workload].get(name)
            if value is not None:
                strong = abs(_logarithm(value)) > 0.75 * _COLOUR_SPAN
                axes.text(
                    column,
                    row,
                    f"{value:.2f}",
                    ha="center",
                    va="center",
                    fontsize=7,
                    color="white" if strong else "black",
                )
    axes.set_xticks(range(len(names)), names, fontsize=8, rotation=20, ha="left")
    axes.set_yticks(range(len(workloads)), workloads, fontsize=8)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(title, fontsize=10)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    return buffer.getvalue()


def _logarithm(value: object) -> float:
    return math.log(value) if isinstance(value, float) and value > 0 else math.nan
