"""Marks, hatches, shades and axes of SVG charts.

A series has a colour, and a second cue in its shape, dash or hatch for readers without colours.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from leadline.report.document import HeatCell, HeatMap, Scale
from leadline.text import visible

SHAPES = ("circle", "diamond", "square", "triangle")
_HATCHES = 4
_HUES = 10

# Verdict -> its shape in a chart and its symbol in a text.
_VERDICTS = {
    "better": ("up", "▲"),
    "worse": ("down", "▼"),
    "same": ("square", "■"),
    "inconclusive": ("circle", "○"),
    "not comparable": ("cross", "×"),
}
SYMBOLS = {verdict: symbol for verdict, (_, symbol) in _VERDICTS.items()}

DEFINITIONS = (
    "<defs>"
    '<circle id="shape-circle" r="3.6"/>'
    '<rect id="shape-square" x="-3.3" y="-3.3" width="6.6" height="6.6"/>'
    '<path id="shape-triangle" d="M-4 3.2L0-4.2L4 3.2z"/>'
    '<path id="shape-diamond" d="M-4.4 0L0-4.4L4.4 0L0 4.4z"/>'
    '<path id="shape-up" d="M-5.2 4L0-5.2L5.2 4z"/>'
    '<path id="shape-down" d="M-5.2-4L0 5.2L5.2-4z"/>'
    '<path id="shape-cross" d="M-4-4L4 4M-4 4L4-4"/>'
    '<circle id="shape-hit" r="6"/>'
    '<circle id="shape-speck" r="2.2"/>'
    '<circle id="shape-ring" r="7"/>'
    '<marker id="cap" markerUnits="userSpaceOnUse" markerWidth="2" markerHeight="10" refX="1"'
    ' refY="5"><path class="cap" d="M1 1V9"/></marker>'
    + "".join(
        f'<pattern id="hatch-{number}" width="6" height="6" patternUnits="userSpaceOnUse"'
        f' patternTransform="rotate({angle})"><path class="stripe" d="{path}"/></pattern>'
        for number, angle, path in (
            (1, 45, "M0 0V6"),
            (2, -45, "M0 0V6"),
            (3, 45, "M0 0V6M0 3H6"),
        )
    )
    + '<pattern id="hatch-lost" width="5" height="5" patternUnits="userSpaceOnUse"'
    ' patternTransform="rotate(45)"><path class="gap" d="M0 0V5"/></pattern></defs>'
)


def xml_text(text: str) -> str:
    """Escape text for an element or an attribute of HTML or XML, which cannot hold what `visible`
    spells out."""
    return html.escape(visible(text))


def titled(text: str) -> str:
    """The tooltip of a mark."""
    return f"<title>{xml_text(text)}</title>" if text else ""


def colour(hue: int) -> str:
    """The class of a colour."""
    return f"s{hue % _HUES}"


def shape(hue: int) -> str:
    return SHAPES[hue % len(SHAPES)]


def mark(kind: str, style: str, x: str, y: str, title: str = "") -> str:
    """A shape of DEFINITIONS with its middle at (x, y); `style` is its class, empty for that of the
    element around it."""
    tooltip = titled(title)
    end = f">{tooltip}</use>" if tooltip else "/>"
    own = f' class="{style}"' if style else ""
    return f'<use href="#shape-{kind}"{own} x="{x}" y="{y}"{end}'


def verdict_mark(verdict: str, x: str, y: str, title: str = "") -> str:
    return mark(_VERDICTS.get(verdict, ("circle", ""))[0], verdict_class(verdict), x, y, title)


def verdict_class(verdict: str) -> str:
    """`v-not-comparable`; `v-none` for what is no verdict."""
    return f"v-{verdict.replace(' ', '-')}" if verdict in _VERDICTS else "v-none"


def verdict_style(verdict: str) -> str:
    """The class of a text with a verdict: `is-better`; empty for what is no verdict."""
    return verdict_class(verdict).replace("v-", "is-", 1) if verdict in _VERDICTS else ""


def bar(hue: int, width: str, *, refused: bool) -> str:
    """A bar from zero in a track: pale, with a firm end; an outline only where it is refused."""
    style = colour(hue)
    if refused:
        return f'<rect class="bar {style} refused" x="0" y="4" width="{width}" height="12"/>'
    hatch = hue % _HATCHES
    over = f'<rect class="hatch-{hatch}" x="0" y="4" width="{width}" height="12"/>' if hatch else ""
    return (
        f'<rect class="bar {style}" x="0" y="4" width="{width}" height="12"/>{over}'
        f'<line class="edge {style}" x1="{width}" x2="{width}" y1="4" y2="16"/>'
    )


# Where values lie on an axis, and which of its ticks have room for their texts.

# Pixels that a character of an axis takes at 11 px, and the least room between two texts.
_CHARACTER = 6.3
_GAP = 10.0


def share(axis: Scale, value: float) -> float:
    """Where `value` lies between the axis's ends: 0 to 1; what lies beyond, at that end."""
    low, high, at = axis.low, axis.high, value
    if axis.log:
        if value <= 0 or low <= 0:
            return 0.0
        low, high, at = math.log(low), math.log(high), math.log(value)
    if not high > low:
        return 0.5
    return min(max((at - low) / (high - low), 0.0), 1.0)


def percent(part: float) -> str:
    """A share of a plot's width or height as SVG writes it: `42.1%`, less than a pixel off."""
    return f"{100 * part:.3g}%"


def at(axis: Scale, value: float) -> str:
    return percent(share(axis, value))


def within(axis: Scale, value: float) -> bool:
    return axis.low <= value <= axis.high


def anchor(part: float) -> str:
    """Texts at an end stay inside the plot."""
    return "start" if part < 0.02 else "end" if part > 0.98 else "middle"


def fitting(axis: Scale, width: float) -> Sequence[tuple[float, str]]:
    """(share, text) of the ticks whose texts do not touch one another where the axis is `width`
    pixels wide: every one, every second, every third and so on."""
    ticks = [(share(axis, value), text) for value, text in axis.ticks]
    return next(
        (chosen for step in range(1, len(ticks)) if _apart(chosen := ticks[::step], width)),
        ticks[:1],
    )


def _apart(ticks: Sequence[tuple[float, str]], width: float) -> bool:
    taken = -math.inf
    for part, text in ticks:
        long = len(text) * _CHARACTER
        start = part * width - {"start": 0.0, "middle": long / 2, "end": long}[anchor(part)]
        if start < taken:
            return False
        taken = start + long + _GAP
    return True


# How far a figure of a heat map lies from that of the baseline, as a shade and as a text.

# Shades in each direction, and the ratio at which the last one is reached.
LEVELS = 6
FULL_RATIO = 4.0


def shade(ratio: float, higher_is_better: bool) -> float:
    """-1 (worst) to 1 (best) of a figure that is `ratio` times the baseline's: its logarithm,
    with the ends at a fourth and at four times. The page's script computes the same."""
    if ratio <= 0:
        return -1.0 if higher_is_better else 1.0
    part = math.log(ratio) / math.log(FULL_RATIO)
    return min(max(part if higher_is_better else -part, -1.0), 1.0)


def level(value: float | None, *, tested: bool = False) -> str:
    """The class of a shade: `b6` best, `b0` as the baseline, `w6` worst; empty without one. Where
    changes were `tested`, a better or worse cell always has a shade."""
    if value is None:
        return ""
    step = round(abs(value) * LEVELS)
    if tested and value:
        step = max(step, 1)
    return f"w{step}" if value < 0 and step else f"b{step}"


def ratio_text(ratio: float) -> str:
    digits = 2 if ratio < 10 else 1 if ratio < 100 else 0
    return f"×{ratio:,.{digits}f}"


def ratio(chart: HeatMap, column: int, cell: HeatCell) -> float | None:
    """Divide a figure by the baseline's; None where one of them is missing or refused."""
    if not 0 <= chart.baseline < len(chart.cells):
        return None
    base = chart.cells[chart.baseline][column]
    if cell.value is None or cell.refused or not base.value or base.refused:
        return None
    return cell.value / base.value


def heat_ratio(chart: HeatMap, column: int, cell: HeatCell) -> str:
    """Format how many times the baseline's figure a figure is.

    Empty in the baseline's own row, and where the figures are changes already.
    """
    if chart.relative or cell is chart.cells[chart.baseline][column]:
        return ""
    found = ratio(chart, column, cell)
    return "" if found is None else ratio_text(found)
