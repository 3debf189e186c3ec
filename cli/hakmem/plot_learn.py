"""The picture of `hakmem learn replay`: bytes in use, the time-out in force, and costs. Needs matplotlib."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from hakmem.learn_replay import Replay, timeout_text
from hakmem.plot import drawable, pyplot_module
from hakmem.policy_library import NEVER_MS

_OURS = "#D55E00"
_BEST = "#0072B2"
_GREY = "#BBBBBB"
_MIB = float(1 << 20)
_MS_PER_SECOND = 1000.0
_NS_PER_SECOND = 1e9
_MOST_POINTS = 1500


def draw(result: Replay, file_format: str) -> bytes:
    """SVG or PNG."""
    pyplot = pyplot_module()
    pyplot.rcParams["svg.hashsalt"] = "hakmem"
    figure, (level, timeout, cost) = pyplot.subplots(
        3, 1, figsize=(9, 7), sharex=True, layout="constrained", height_ratios=[2, 1.5, 2.5]
    )
    _level(level, result)
    _timeout(timeout, result)
    _cost(cost, result)
    for axes in (level, timeout, cost):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
        axes.grid(alpha=0.25)
    cost.set_xlabel("seconds", fontsize=8)
    price = f"{result.price:,} ns of CPU for a MiB-second"
    figure.suptitle(drawable(f"{Path(result.trace.name).stem}: {price}"), fontsize=11)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=file_format, dpi=110, metadata={"Date": None} if file_format == "svg" else {})
    pyplot.close(figure)
    return buffer.getvalue()


def _seconds(result: Replay, time_ms: int) -> float:
    return (time_ms - result.trace.times_ms[0]) / _MS_PER_SECOND


def _level(axes: Any, result: Replay) -> None:
    """Reduces a long trace to the highest and lowest value of each part, which looks the same."""
    times, in_use = result.trace.times_ms, result.trace.in_use_bytes
    step = max(1, 2 * len(times) // _MOST_POINTS)
    parts = [range(start, min(start + step, len(times))) for start in range(0, len(times), step)]
    points = [extreme(part, key=in_use.__getitem__) for part in parts for extreme in (max, min)] if step > 1 else None
    chosen = sorted(set(points)) if points else range(len(times))
    axes.step(
        [_seconds(result, times[i]) for i in chosen], [in_use[i] / _MIB for i in chosen], where="post",
        color="black", linewidth=0.7,
    )  # fmt: skip
    axes.set_ylabel("MiB in use", fontsize=8)
    axes.set_ylim(bottom=0)


def _timeout(axes: Any, result: Replay) -> None:
    """By candidates: their steps are factors."""
    timeouts = list(result.candidates.timeouts_ms)
    start = result.candidates.break_even
    times, places = [0.0], [start]
    for epoch in result.learned.epochs:
        times.append(_seconds(result, epoch.end_ms))
        places.append(timeouts.index(epoch.timeout_ms))
    times.append(_seconds(result, result.trace.times_ms[-1]))
    places.append(places[-1])
    axes.step(times, places, where="post", color=_OURS, linewidth=1.5)
    axes.axhline(result.best, color=_BEST, linewidth=1, linestyle="--")
    shown = [i for i, value in enumerate(timeouts) if i % 2 == 1 or value == NEVER_MS or i == 0]
    axes.set_yticks(shown, [timeout_text(timeouts[i]) for i in shown])
    axes.set_ylabel("time-out", fontsize=8)


def _cost(axes: Any, result: Replay) -> None:
    """The costs up to each time. Candidates that cost more than three times the best leave the picture."""
    ends = [_seconds(result, epoch.end_ms) for epoch in result.learned.epochs]
    end = _seconds(result, result.trace.times_ms[-1])

    def line(costs: Any, total: int, **style: Any) -> None:
        values = [cost / _NS_PER_SECOND for cost in (0, *costs, total)]
        axes.plot([0.0, *ends, end], values, **style)

    for number, (costs, total) in enumerate(zip(result.fixed_by_epoch_ns, result.fixed_ns)):
        if number != result.best:
            line(costs, total, color=_GREY, linewidth=0.8)
    best = timeout_text(result.candidates.timeouts_ms[result.best])
    label = f"best in hindsight: {best}"
    line(result.fixed_by_epoch_ns[result.best], result.fixed_ns[result.best], color=_BEST, linewidth=1.5, label=label)
    learner = [epoch.cost_ns for epoch in result.learned.epochs]
    line(learner, result.learned.cost_ns, color=_OURS, linewidth=2, label=f"learner: × {result.regret:.3f}")
    highest = max(result.fixed_ns[result.best], result.learned.cost_ns, 1) / _NS_PER_SECOND
    axes.set_ylim(0, 3 * highest)
    axes.set_ylabel("paid, seconds of CPU", fontsize=8)
    axes.legend(fontsize=8, frameon=False, loc="upper left")
