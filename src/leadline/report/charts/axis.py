"""Where values lie on an axis, and which of its ticks have room for their texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

# Pixels that a character of an axis takes at 11 px, and the least room between two texts.
_CHARACTER = 6.3
_GAP = 10.0


class Axis(Protocol):
    """What `Scale` and `DotPlot` have in common."""

    @property
    def log(self) -> bool: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def ticks(self) -> tuple[tuple[float, str], ...]: ...


def share(axis: Axis, value: float) -> float:
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
    """A share of a plot's width or height as SVG writes it: `42.13%`."""
    return f"{100 * part:.4g}%"


def at(axis: Axis, value: float) -> str:
    return percent(share(axis, value))


def within(axis: Axis, value: float) -> bool:
    return axis.low <= value <= axis.high


def anchor(part: float) -> str:
    """Texts at an end stay inside the plot."""
    return "start" if part < 0.02 else "end" if part > 0.98 else "middle"


def fitting(axis: Axis, width: float) -> Sequence[tuple[float, str]]:
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
