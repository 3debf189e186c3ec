"""The lines of the live picture: process, parts, trends, size classes, heaps, the learner's decisions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Dict, List, Optional

from rich.text import Text

from hakmem.errors import escaped, printable
from hakmem.folding import fold
from hakmem.metrics import count, exact_size, size
from hakmem.top.figures import PARTS, SELDOM, TRENDS, Trend, duration
from hakmem.top.history import History
from hakmem.top.sparkline import ASCII, BLOCKS, sparkline

_GAP = "  "
_PARTS_WIDTH = 37
_TREND_TITLE_WIDTH = 16
_NOW_WIDTH = 12
_RANGE_WIDTH = 26
_MOST_CURVE = 60
_LEAST_CURVE = 8
_TABLE_WIDTH = 78  # of the classes, without their curves
_EDGES = (23, 35, 47, 59)  # where the columns of figures of each table end
_LONGEST_STATE = 8  # of a heap
_USUAL_WIDTH = 80  # of terminals, below which lines are split
_LEAST_CLASSES = 5
_BIG_PICTURE = 32  # lines from which on it has its optional parts
_BIGGER_PICTURE = 40  # and those that are left out sooner
_MOST_HEAPS = 5
_DECISIONS = 3


@dataclass(frozen=True)
class Frame:
    """The terms of the picture besides the figures."""

    pid: int
    name: str
    interval: Optional[float] = None  # between looks; None where there is one look alone
    trouble: str = ""
    width: int = 100
    height: Optional[int] = None  # None: no bound
    is_ascii: bool = False


def draw(history: History, frame: Frame) -> List[Text]:
    """Returns at most as many lines as the terminal has."""
    now = history.now
    above = [*_head(now, frame), Text(), *_memory(history, frame)]
    learner = [Text(), *_learner(now, frame)]
    bands = [Text(), *_bands(now, frame)] if frame.height is None or frame.height >= _BIG_PICTURE else []
    foot = [] if frame.height is None else [Text("q quits", style="dim")]
    heaps = [Text(), *_heaps(now, frame)] if frame.height is None or frame.height >= _BIGGER_PICTURE else []
    named = _named(now, frame)
    below = [*bands, *named, *heaps, *learner, *foot]
    room = None if frame.height is None else frame.height - len(above) - len(below)
    classes = [Text(), *_classes(history, frame, None if room is None else max(_LEAST_CLASSES, room - 2))]
    body = [*above, *classes, *bands, *named, *heaps, *learner]
    if frame.height is not None:
        # The last line stays where it is.
        body = body[: max(0, frame.height - len(foot))]
        body += [Text()] * (frame.height - len(foot) - len(body))
    lines = [*body, *foot]
    for line in lines:
        line.no_wrap = True
        line.overflow = "ellipsis" if not frame.is_ascii else "crop"
        line.truncate(frame.width, overflow=line.overflow)
    return lines


def waiting(frame: Frame) -> List[Text]:
    """Before there is an answer."""
    return [Text(f"{escaped(frame.name)} ({frame.pid})", style="bold"), Text(escaped(frame.trouble) or "asking …")]


def _head(now: Dict[str, Any], frame: Frame) -> List[Text]:
    memory, live = now["memory"], now["live"]
    title = Text(f"{escaped(frame.name)} ({frame.pid})", style="bold")
    title.append(f"{_GAP}hakmem {now['version']}, up {duration(now['uptime_ms'] / 1000)}", style="dim")
    if frame.interval is not None:
        title.append(f", every {duration(frame.interval)}", style="dim")
    if frame.trouble:
        title = Text(escaped(frame.trouble), style="bold red")
    limit = f", limit {size(memory['limit'])}" if memory["limit"] else ""
    totals = f"resident {size(memory['resident'])} (peak {size(memory['peak'])}{limit})"
    more = f"live {size(live['bytes'])} in {count(live['blocks'])} blocks{_GAP}heaps {count(memory['heaps'])}"
    if frame.width >= _USUAL_WIDTH:
        return [title, Text(f"{totals}{_GAP}{more}")]
    return [title, Text(totals), Text(more)]


def _memory(history: History, frame: Frame) -> List[Text]:
    """Parts and trends, side by side where there is room."""
    parts = _parts(history.now)
    if frame.interval is None:
        return parts
    room = frame.width - _PARTS_WIDTH - 2 * len(_GAP)
    is_beside = room >= _TREND_TITLE_WIDTH + _LEAST_CURVE + _NOW_WIDTH
    trends = _trends(history, room if is_beside else frame.width, frame)
    if not is_beside:
        return [*parts, *trends]
    lines: List[Text] = []
    for left, right in zip_longest(parts, trends, fillvalue=Text()):
        line = left.copy()
        line.pad_right(_PARTS_WIDTH + 2 * len(_GAP) - line.cell_len)
        lines.append(line + right)
    return lines


def _parts(now: Dict[str, Any]) -> List[Text]:
    whole = max(1, sum(now["parts"].values()))
    lines = [Text("resident memory is", style="dim")]
    for key, title, style in PARTS:
        value = now["parts"].get(key, 0) if key in SELDOM else now["parts"][key]
        if key in SELDOM and not value:
            continue
        line = Text(f"{title:<18}", style=style)
        line.append(f"{size(value):>11}{value / whole * 100:>7.1f}%", style="default")
        lines.append(line)
    return lines


def _trends(history: History, width: int, frame: Frame) -> List[Text]:
    lines = [Text(f"over the last {duration(history.seconds)}", style="dim")]
    return [*lines, *(_trend(history, trend, width - _TREND_TITLE_WIDTH - _NOW_WIDTH, frame) for trend in TRENDS)]


def _trend(history: History, trend: Trend, room: int, frame: Frame) -> Text:
    """The curve, the current value, and, where there is room, the lowest and highest."""
    # The first look has nothing to be compared with.
    values = history.rates(trend.value)[1:] if trend.is_counter else history.levels(trend.value)
    line = Text(f"{trend.title:<{_TREND_TITLE_WIDTH}}")
    if not values:
        return line
    has_range = room >= 2 * _LEAST_CURVE + _RANGE_WIDTH
    width = min(_MOST_CURVE, room - _RANGE_WIDTH if has_range else room)
    curve = sparkline(values, width, history.first + (1 if trend.is_counter else 0), _levels(frame))
    line.append(f"{curve:>{max(0, width)}}", style="green")
    line.append(f"{trend.text(values[-1]):>{_NOW_WIDTH}}")
    if has_range:
        line.append(f"{_GAP}{trend.text(min(values))} – {trend.text(max(values))}", style="dim")
    return line


def _levels(frame: Frame) -> str:
    return ASCII if frame.is_ascii else BLOCKS


def _classes(history: History, frame: Frame, rows: Optional[int]) -> List[Text]:
    """The size classes with the most resident memory."""
    classes = sorted(history.now["classes"], key=lambda one: -one["resident"])
    room = min(_MOST_CURVE, frame.width - _TABLE_WIDTH - len(_GAP)) if frame.interval is not None else 0
    title = f"{'block':>10}{'live blocks':>13}{'live':>12}{'free':>12}{'resident':>12}"
    has_spans = frame.width >= _TABLE_WIDTH
    title += f"{'spans':>8}{'near empty':>11}" if has_spans else ""
    lines = [Text(title + (f"{_GAP}live, over time" if room >= _LEAST_CURVE else ""), style="dim")]
    lives = [{one["bytes"]: one["live_bytes"] for one in look.document["classes"]} for look in history.looks]
    for one in classes[:rows]:
        line = Text(
            f"{exact_size(one['bytes']):>10}{count(one['live_blocks']):>13}{size(one['live_bytes']):>12}"
            f"{size(one['free_bytes']):>12}{size(one['resident']):>12}"
        )
        if has_spans:
            line.append(f"{count(one['spans']):>8}{count(one['spans_nearly_empty']):>11}")
        if room >= _LEAST_CURVE:
            values = [live.get(one["bytes"], 0.0) for live in lives]
            line.append(_GAP + sparkline(values, room, history.first, _levels(frame)), style="green")
        lines.append(line)
    return _whole_columns(lines, frame)


def _whole_columns(lines: List[Text], frame: Frame, last: int = 0) -> List[Text]:
    """The table without the columns that do not fit: no figure is cut. `last` is the width of a column of words."""
    if frame.width < _EDGES[-1] + (len(_GAP) + last if last else 0):
        edge = max(edge for edge in _EDGES if edge <= max(frame.width, _EDGES[0]))
        for line in lines:
            line.right_crop(max(0, len(line) - edge))
    return lines


def _bands(now: Dict[str, Any], frame: Frame) -> List[Text]:
    ranges = {"tiny": "to 1 KiB", "mid": "to 32 KiB", "run": "to 1 MiB", "large": "> 1 MiB"}
    lines = [Text(f"{'':>10}{'live blocks':>13}{'live':>12}{'free':>12}{'resident':>12}", style="dim")]
    for name, band in now["bands"].items():
        figures = (size(band[key]) for key in ("live_bytes", "free_bytes", "resident"))
        lines.append(
            Text(
                f"{ranges.get(name, name):>10}{count(band['live_blocks']):>13}"
                + "".join(f"{one:>12}" for one in figures)
            )
        )
    return _whole_columns(lines, frame)


def _heaps(now: Dict[str, Any], frame: Frame) -> List[Text]:
    """The heaps with the most in use. An older library does not tell."""
    heaps = sorted((one for one in now["heaps"] if "live_bytes" in one), key=lambda one: -one["live_bytes"])
    if not heaps:
        return []
    lines = [Text(f"{'heap':>10}{'live blocks':>13}{'live':>12}{'free':>12}{'resident':>12}  state", style="dim")]
    for one in heaps[:_MOST_HEAPS]:
        figures = "".join(f"{size(one[key]):>12}" for key in ("live_bytes", "free_bytes", "resident"))
        lines.append(Text(f"{one['number']:>10}{count(one['live_blocks']):>13}{figures}  {one['state']}"))
    rest = now["memory"]["heaps"] - _MOST_HEAPS
    if rest > 0:
        lines.append(Text(f"{'':>10}  and {count(rest)} more", style="dim"))
    return _whole_columns(lines, frame, _LONGEST_STATE)


def _named(now: Dict[str, Any], frame: Frame) -> List[Text]:
    """The named heaps and tags with the most memory. Most programs have none."""
    rows = sorted(now.get("named", []), key=lambda one: -one["memory"])
    if not rows:
        return []
    title = f"{'':>10}{'live blocks':>13}{'live':>12}{'memory':>12}{'peak':>12}  heap or tag"
    lines = [Text(), Text(title, style="dim")]
    for one in rows[:_MOST_HEAPS]:
        figures = "".join(f"{size(one[key]):>12}" for key in ("live_bytes", "memory", "peak"))
        lines.append(Text(f"{one['kind']:>10}{count(one['live_blocks']):>13}{figures}  {printable(one['name'])}"))
    rest = len(rows) - _MOST_HEAPS
    if rest > 0:
        lines.append(Text(f"{'':>10}  and {count(rest)} more", style="dim"))
    return lines


def _learner(now: Dict[str, Any], frame: Frame) -> List[Text]:
    learning = now["learning"]
    thread = "" if now["purge_thread"] else ", no purge thread"
    text = Text(f"learner: {learning.get('state', '?')}", style="bold")
    told = [
        f"dirty memory stays {duration(learning['timeout_ms'] / 1000)}, ",
        f"break-even {duration(learning['break_even_ms'] / 1000)}, {count(learning['epochs'])} epochs{thread}",
    ]
    lines = [text]
    for words in told if frame.width < _USUAL_WIDTH else ["".join(told)]:
        if frame.width < _USUAL_WIDTH and lines[-1].cell_len + len(_GAP) + len(words) > frame.width:
            lines.append(Text(_GAP))
        lines[-1].append(f"{_GAP if lines[-1] is text else ''}{words}", style="default")
    decisions = learning.get("decisions", [])
    most = _DECISIONS if frame.height is None or frame.height >= _BIG_PICTURE else 1
    # Where there is room below.
    width = frame.width if frame.height is None else None
    told = [line for one in decisions[-most:][::-1] for line in fold(one, width, _GAP * 2, _GAP)]
    return [*lines, *(Text(line, style="dim") for line in told)]
