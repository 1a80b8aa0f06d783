"""Where an interval lies against the band, what one trial's own seconds say, and what it would take
to decide. The rules and the reasons for them are in docs/adr/0013-verdicts.md."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

from leadline.stats.power import detectable, trials_needed

LEVEL = 0.05
# Of 180 groups of three runs on a production Ceph cluster nine in ten had a coefficient of
# variation below this (methodology, section 1): what one trial cannot show.
REPEATS_DEVIATION = 0.135
_NORMAL = 1.959964
# Two single runs of one thing lie closer than this factor in 95 % of such cases.
REPEATS_FACTOR = math.exp(_NORMAL * math.sqrt(2) * REPEATS_DEVIATION)
# 105 / 100 is not beyond 5 %, whatever the last binary digit says.
_ROUNDING = 1e-9
# `same` needs both ends inside: 90 % each.
_POWER_OF_SAME = 0.9


class Place(Enum):
    """Of an interval, seen from the band."""

    BELOW = "below"
    INSIDE = "inside"
    ABOVE = "above"
    ACROSS = "across"


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """The ratios that count as one: from 1 - share to 1 + share, as people say "+-5 %".

    `factor` moves both edges further out: what repeats may differ by.
    """

    asked: float
    noise: float = 0.0
    factor: float = 1.0

    @property
    def share(self) -> float:
        return max(self.asked, self.noise)

    @property
    def low(self) -> float:
        return min(max(1 - self.share, 0.0), 1 / self.factor)

    @property
    def high(self) -> float:
        return max(1 + self.share, self.factor)

    def widened(self, factor: float) -> Band:
        return replace(self, factor=factor)

    def place(self, interval: tuple[float, float]) -> Place:
        low, high = interval
        if low > self.high * (1 + _ROUNDING):
            return Place.ABOVE
        if high < self.low * (1 - _ROUNDING):
            return Place.BELOW
        inside = low >= self.low * (1 - _ROUNDING) and high <= self.high * (1 + _ROUNDING)
        return Place.INSIDE if inside else Place.ACROSS


@dataclass(frozen=True, slots=True, kw_only=True)
class OneSide:
    """A side's trials (all positive) and, for each, the standard error of its mean as a share."""

    values: tuple[float, ...]
    within: tuple[float | None, ...]

    def error(self) -> float | None:
        """The standard error of the side's figure, as a share; None where nothing tells it."""
        number = len(self.values)
        known = [one for one in self.within if one is not None]
        inside = (
            math.sqrt(sum(one**2 for one in known)) / number
            if number and len(known) == number
            else None
        )
        if number < 2:
            return inside
        logs = [math.log(one) for one in self.values]
        mean = math.fsum(logs) / number
        between = math.sqrt(math.fsum((one - mean) ** 2 for one in logs) / ((number - 1) * number))
        return max(between, inside or 0.0)


def ratio_of(baseline: float | None, candidate: float | None) -> float | None:
    """candidate / baseline; None where either is missing, zero, or no number."""
    if baseline is None or candidate is None:
        return None
    return candidate / baseline if 0 < baseline < math.inf and 0 < candidate < math.inf else None


def within_run_interval(
    ratio: float, baseline: OneSide, candidate: OneSide
) -> tuple[float, float] | None:
    """95 %, of the seconds that were measured alone: it knows nothing of another trial."""
    errors = baseline.error(), candidate.error()
    if errors[0] is None or errors[1] is None:
        return None
    margin = math.exp(_NORMAL * math.hypot(errors[0], errors[1]))
    return ratio / margin, ratio * margin


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """`scale` / sqrt(n) is the standard error of the logarithm of the ratio; `number` the trials
    that there are a side."""

    scale: float
    paired: bool
    number: int

    def detectable(self, band: Band) -> float:
        """The smallest increase, as a share, that lies beyond the band visibly enough: 80 %."""
        return band.high * math.exp(detectable(self.scale, self.number, paired=self.paired)) - 1

    def trials_needed(self, ratio: float, band: Band, family: int) -> int | None:
        """Trials a side that would decide it, were the ratio and the scatter as measured. `family`
        counts the p values adjusted together: as the least of them this one must be."""
        lower = math.log(band.low) if band.low > 0 else -math.inf
        upper, at = math.log(band.high), math.log(ratio)
        outside = max(at - upper, lower - at)
        if outside <= 0:
            return self._needed(-outside, power=_POWER_OF_SAME)
        beyond = self._needed(outside)
        tested = self._needed(abs(at), level=LEVEL / max(1, family))
        return max(beyond, tested) if beyond and tested else None

    def _needed(self, difference: float, *, level: float = LEVEL, power: float = 0.8) -> int | None:
        return trials_needed(
            difference,
            self.scale,
            paired=self.paired,
            more_than=self.number,
            level=level,
            power=power,
        )
