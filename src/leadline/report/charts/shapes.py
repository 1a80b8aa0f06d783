"""Marks, hatches and texts of charts. A series has a colour, and a second cue in its shape, dash
or hatch: whoever sees no colours or prints without them reads the same."""

from __future__ import annotations

import html
import re

from leadline.visible import visible

# What XML cannot hold even escaped, and `visible` lets through.
_NOT_XML = re.compile("[\ufffe\uffff\ud800-\udfff]")

SHAPES = ("circle", "square", "triangle", "diamond")
_HATCHES = 4
_SERIES = 8

_VERDICTS = {
    "better": "up",
    "worse": "down",
    "same": "square",
    "inconclusive": "circle",
    "not comparable": "cross",
}
SYMBOLS = {
    "better": "▲",
    "worse": "▼",
    "same": "■",
    "inconclusive": "○",
    "not comparable": "×",
}

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
            (2, 0, "M0 3H6"),
            (3, 45, "M0 0V6M0 3H6"),
        )
    )
    + "</defs>"
)


def escaped(text: str) -> str:
    """Text for an element or an attribute of HTML or XML."""
    return html.escape(_NOT_XML.sub("\ufffd", visible(text)))


def titled(text: str) -> str:
    """What a pointer that rests on a mark is told."""
    return f"<title>{escaped(text)}</title>" if text else ""


def colour(series: int) -> str:
    """The class that colours a series."""
    return f"s{series % _SERIES}"


def shape(series: int) -> str:
    return SHAPES[series % len(SHAPES)]


def mark(kind: str, style: str, x: str, y: str, title: str = "") -> str:
    """A shape of DEFINITIONS with its middle at (x, y); `style` is its class."""
    told = titled(title)
    end = f">{told}</use>" if told else "/>"
    return f'<use href="#shape-{kind}" class="{style}" x="{x}" y="{y}"{end}'


def verdict_mark(verdict: str, x: str, y: str, title: str = "") -> str:
    return mark(_VERDICTS.get(verdict, "circle"), verdict_class(verdict), x, y, title)


def verdict_class(verdict: str) -> str:
    """`v-not-comparable`; `v-none` for what is no verdict."""
    return f"v-{verdict.replace(' ', '-')}" if verdict in _VERDICTS else "v-none"


def bar(series: int, width: str, *, refused: bool) -> str:
    """A bar from zero in a track: pale, with a firm end; an outline only where it is refused."""
    style = colour(series)
    if refused:
        return f'<rect class="bar {style} refused" x="0" y="4" width="{width}" height="12"/>'
    hatch = series % _HATCHES
    over = f'<rect class="hatch-{hatch}" x="0" y="4" width="{width}" height="12"/>' if hatch else ""
    return (
        f'<rect class="bar {style}" x="0" y="4" width="{width}" height="12"/>{over}'
        f'<line class="edge {style}" x1="{width}" x2="{width}" y1="4" y2="16"/>'
    )
