"""The summary picture of `hakmem bench`: time beside resident memory, a point for each allocator."""

from __future__ import annotations

import io
from typing import Any, Dict, List, Tuple

from hakmem.allocators import HAKMEM
from hakmem.bench_means import Means
from hakmem.plot import colours, pyplot_module

_TICKS = (0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
_MARGIN = 1.12  # between the outermost points and the frame
_WORD_SPACE = 1.22  # right of the outermost point, for its name


def draw(means: Means) -> bytes:
    """An SVG whose words stay words: a reader's search finds them, and the file is small."""
    pyplot = pyplot_module()
    with pyplot.rc_context({"svg.hashsalt": "hakmem", "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure, axes = pyplot.subplots(figsize=(8.0, 4.6), layout="constrained")
        _points(axes, means.places)
        _scale(axes.set_xlim, axes.set_xscale, axes.xaxis, [place[0] for place in means.places.values()], _WORD_SPACE)
        _scale(axes.set_ylim, axes.set_yscale, axes.yaxis, [place[1] for place in means.places.values()], 1.0)
        axes.set_xlabel("time, × the best peer of each workload (logarithmic; left is faster)", fontsize=9)
        axes.set_ylabel("peak resident memory, × the median peer\n(logarithmic; down is leaner)", fontsize=9)
        axes.set_title(f"geometric means over {means.workload_count} workloads", fontsize=10)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        figure.supxlabel(_caption(means), fontsize=7, color="#888888")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
        pyplot.close(figure)
    return buffer.getvalue()


def _points(axes: Any, places: Dict[str, Tuple[float, float]]) -> None:
    colour = colours(list(places))
    for name, (time, memory) in places.items():
        ours = name == HAKMEM
        axes.scatter([time], [memory], s=110 if ours else 60, color=colour[name], zorder=3)
        axes.annotate(
            name, (time, memory), xytext=(8, 0), textcoords="offset points", va="center", fontsize=10 if ours else 9,
            fontweight="bold" if ours else "normal",
        )  # fmt: skip


def _scale(set_limits: Any, set_scale: Any, axis: Any, values: List[float], space: float) -> None:
    low, high = min(values, default=1.0) / _MARGIN, max(values, default=1.0) * _MARGIN * space
    set_scale("log")
    set_limits(low, high)
    ticks = [tick for tick in _TICKS if low <= tick <= high]
    axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=8)
    axis.set_ticks([], minor=True)


def _caption(means: Means) -> str:
    settings = means.settings
    words = [
        str(settings["time_utc"])[:10], str(settings.get("machine", "")), f"{settings.get('cores', '?')} cores",
        f"kernel {settings.get('kernel', '?')}", str(settings.get("c_library", "")),
        f"commit {settings.get('commit', '?')}",
    ]  # fmt: skip
    return ", ".join(word for word in words if word)
