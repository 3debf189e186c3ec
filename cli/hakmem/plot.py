"""The plot of a comparison: bars with intervals, and resident memory over time. Needs matplotlib, which is optional."""

from __future__ import annotations

import importlib.util
import io
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

from hakmem import paths
from hakmem.contest import Contest, Row
from hakmem.errors import EXIT_USAGE, Failure, escaped, shown
from hakmem.metrics import HEADLINE, Metric
from hakmem.statistics import coverage

FORMATS = (".svg", ".png")
# Okabe and Ito's colours, which people with any colour vision can tell apart; hakmem's is the strongest, glibc grey.
_COLOURS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#F0E442",
    "#8C564B",
    "#9467BD",
    "#17BECF",
    "#BCBD22",
)
_OURS = "#D55E00"
_GREY = "#888888"
_MIB = 1024.0 * 1024.0
_BAR_HEIGHT = 0.28
_LONGEST_TITLE = 100


def check(name: str) -> None:
    """Raises a Failure, before any run, when this plot cannot be made."""
    if Path(name).suffix.lower() not in FORMATS:
        raise Failure(f"--plot {shown(name)}: expected a name that ends with {' or '.join(FORMATS)}", EXIT_USAGE)
    check_matplotlib()


def check_matplotlib() -> None:
    """Raises a Failure when it cannot be imported. Another process tries: the import starts threads, which would get
    signals that are meant for the measuring loop."""
    reason = "no such module" if importlib.util.find_spec("matplotlib") is None else _import_elsewhere()
    if reason is not None:
        raise _missing(reason)


def _import_elsewhere() -> Optional[str]:
    # From the folders that this process imports from, and no other.
    code = "import sys; sys.path[:] = sys.argv[1:]; import matplotlib.pyplot"
    words = [sys.executable, "-I", "-c", code, *sys.path]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr.strip().rpartition("\n")[2]


def drawable(text: str) -> str:
    """A text that matplotlib can draw as it stands. It fails for bytes that are no UTF-8, takes what stands between two
    dollar signs for a formula, and writes control characters into files that then are no XML."""
    return escaped(text).encode("utf-8", "replace").decode("utf-8").replace("$", r"\$")


def _missing(reason: str) -> Failure:
    how = "build/venv/bin/pip install 'matplotlib>=3.6,<4'"
    if paths.checkout() is None:
        how = "pip install 'hakmem[plot]'" if paths.is_of_pip() else "install the distribution's python3-matplotlib"
    return Failure(f"plots need matplotlib, which cannot be imported ({reason}): {how}")


def pyplot_module() -> Any:
    """matplotlib.pyplot without a display, or a Failure that says how to get it."""
    try:
        import matplotlib

        # Without a home folder it says that it keeps its cache elsewhere.
        logging.getLogger("matplotlib").setLevel(logging.ERROR)
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError as error:
        raise _missing(str(error)) from None
    return pyplot


def colours(names: List[str]) -> Dict[str, str]:
    """A colour a name, the same in every part of a plot."""
    others = [name for name in names if not name.startswith("hakmem") and name != "glibc"]
    chosen = {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(others)}
    for name in names:
        if name.startswith("hakmem"):
            chosen[name] = _OURS if name == "hakmem" else "#F4A582"
    return {name: chosen.get(name, _GREY) for name in names}


def draw(contest: Contest, title: str, settings: str, file_format: str) -> bytes:
    """The picture."""
    pyplot = pyplot_module()
    pyplot.rcParams["svg.hashsalt"] = "hakmem"
    metrics = [metric for metric in HEADLINE if len(contest.rows_of(metric)) > 0]
    names = [name for name in contest.names if name not in contest.failed]
    height = 1.1 + _BAR_HEIGHT * len(names)
    figure = pyplot.figure(figsize=(11, 2 * height + 4.2), layout="constrained")
    grid = figure.add_gridspec(3, 2, height_ratios=[height, height, 3.4])
    colour = colours(contest.names)
    for number, metric in enumerate(metrics[:4]):
        _bars(figure.add_subplot(grid[number // 2, number % 2]), contest, metric, colour)
    _curves(figure.add_subplot(grid[2, :]), contest, colour)
    shown = title if len(title) <= _LONGEST_TITLE else f"{title[:_LONGEST_TITLE]}…"
    figure.suptitle(drawable(shown), fontsize=11)
    figure.supxlabel(settings, fontsize=7, color=_GREY)
    buffer = io.BytesIO()
    metadata = {"Date": None} if file_format == "svg" else {}
    figure.savefig(buffer, format=file_format, dpi=130, metadata=metadata)
    pyplot.close(figure)
    return buffer.getvalue()


def _bars(axes: Any, contest: Contest, metric: Metric, colour: Dict[str, str]) -> None:
    """Ratios to the base with their intervals; medians in figures at the bars."""
    rows: Dict[str, Row] = {row.allocator: row for row in contest.rows_of(metric)}
    names = [name for name in contest.names if name in rows and (rows[name].ratio or name == contest.base)]
    names.reverse()
    values = [_value(rows[name]) for name in names]
    lows = [max(0.0, value - _low(rows[name])) for name, value in zip(names, values)]
    highs = [max(0.0, _high(rows[name]) - value) for name, value in zip(names, values)]
    axes.barh(names, values, xerr=[lows, highs], color=[colour[name] for name in names], capsize=3, height=0.7)
    for position, name in enumerate(names):
        text = f" {metric.text(rows[name].spread.median)}"
        axes.text(max(_high(rows[name]), values[position]), position, text, va="center", fontsize=8)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xlim(0, 1.25 * max([_high(rows[name]) for name in names] + [1.0]))
    sure = coverage(max((rows[name].spread.count for name in names), default=0)) * 100
    axes.set_title(f"{metric.title}, × {contest.base} (less is better; {sure:.0f}% intervals)", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)


def _value(row: Row) -> float:
    return row.ratio.value if row.ratio else 1.0


def _low(row: Row) -> float:
    return row.ratio.low if row.ratio else 1.0


def _high(row: Row) -> float:
    return row.ratio.high if row.ratio else 1.0


def _curves(axes: Any, contest: Contest, colour: Dict[str, str]) -> None:
    """Resident memory of each allocator's typical run."""
    for name, run in contest.typical_runs().items():
        seconds = [sample.seconds for sample in run.samples]
        resident = [sample.resident / _MIB for sample in run.samples]
        width = 2.0 if name.startswith("hakmem") else 1.2
        axes.plot(seconds, resident, label=name, color=colour[name], linewidth=width)
    axes.set_title("resident memory over time, the run of the median wall time", fontsize=9)
    axes.set_xlabel("seconds", fontsize=8)
    axes.set_ylabel("MiB", fontsize=8)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    if contest.typical_runs():
        axes.legend(fontsize=8, frameon=False, ncols=2)
