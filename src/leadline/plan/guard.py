"""The guard of a run on a shared cluster: a budget, limits that stop it, and quiet hours."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Self
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from leadline.plan.prometheus import PrometheusServer
from leadline.units import format_duration, parse_duration, parse_size

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_S = 24 * 3600
_WEEK_S = 7 * _DAY_S
_WINDOW = re.compile(
    r"(?:(?P<days>[A-Za-z,-]+)\s+)?(?P<h1>\d{1,2}):(?P<m1>\d\d)\s*-\s*(?P<h2>\d{1,2}):(?P<m2>\d\d)"
)
_EXAMPLE = "such as 'mon-fri 08:00-18:00' or '22:00-06:00'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Seconds of a week, from Monday 00:00, of one stretch of quiet hours. `end_s` is after
    `begin_s`, and beyond the week for a stretch that passes Sunday's midnight."""

    begin_s: int
    end_s: int
    text: str


def parse_windows(text: str) -> tuple[Window, ...]:
    """`mon-fri 08:00-18:00`, or `22:00-06:00` of every day. A stretch that passes midnight belongs
    to the day on which it begins. Raises ValueError with a sentence for the user."""
    found = _WINDOW.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no quiet time; write it {_EXAMPLE}")
    begin_s = _clock(found["h1"], found["m1"], text)
    end_s = _clock(found["h2"], found["m2"], text)
    if begin_s in (end_s, _DAY_S):
        raise ValueError(f"{text!r} begins where it ends; a whole day is 00:00-24:00")
    if end_s < begin_s:
        end_s += _DAY_S
    days = _days(found["days"], text) if found["days"] else range(7)
    return tuple(
        Window(begin_s=day * _DAY_S + begin_s, end_s=day * _DAY_S + end_s, text=text)
        for day in days
    )


def _clock(hours: str, minutes: str, text: str) -> int:
    seconds = int(hours) * 3600 + int(minutes) * 60
    if int(minutes) > 59 or seconds > _DAY_S:
        raise ValueError(f"{text!r} has the time {hours}:{minutes}, and a day ends at 24:00")
    return seconds


def _days(text: str, whole: str) -> list[int]:
    found: set[int] = set()
    for part in text.lower().split(","):
        ends = part.split("-")
        if len(ends) > 2 or not all(end in DAYS for end in ends):
            raise ValueError(f"{whole!r} has the days {text!r}; the days are {', '.join(DAYS)}")
        first, last = DAYS.index(ends[0]), DAYS.index(ends[-1])
        found |= {(first + step) % 7 for step in range((last - first) % 7 + 1)}
    return sorted(found)


def _overlap(windows: Sequence[Window]) -> tuple[str, str] | None:
    """The texts of two stretches that overlap, across the end of the week too."""
    ordered = sorted(windows, key=lambda window: window.begin_s)
    for one, following in pairwise(ordered):
        if following.begin_s < one.end_s:
            return one.text, following.text
    if ordered and ordered[-1].end_s - _WEEK_S > ordered[0].begin_s:
        return ordered[-1].text, ordered[0].text
    return None


def _find_zone(name: str) -> tzinfo | None:
    """The time zone of a name; None for that of this machine. Raises ValueError."""
    if name == "local":
        return None
    if name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"{name!r} is no time zone that this machine knows; write local, UTC or a name "
            "such as Europe/Berlin"
        ) from error


def _positive(value: float) -> float:
    if value <= 0:
        raise ValueError("must be more than zero")
    return value


def _health_code(value: str) -> str:
    if not re.fullmatch(r"[A-Z][A-Z0-9_]{2,63}", value):
        raise ValueError(
            f"{value!r} is no code of Ceph's health; write HEALTH_ERR, HEALTH_WARN or a check such "
            "as SLOW_OPS"
        )
    return value


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


_Duration = Annotated[float, BeforeValidator(parse_duration)]
_Value = Annotated[float, Field(allow_inf_nan=False)]


class PrometheusLimit(PrometheusServer):
    """A limit on the answer of an instant query to Prometheus. The run is stopped when the value
    was `above`, or `below`, for the time `for`. Of several samples the worst counts."""

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
    query: Annotated[str, Field(min_length=1, max_length=4000)]
    above: _Value | None = None
    below: _Value | None = None
    for_s: _Duration = Field(default=0.0, alias="for", ge=0, le=_DAY_S)

    @model_validator(mode="after")
    def _limits(self) -> Self:
        if self.above is None and self.below is None:
            raise ValueError(f"{self.name!r} needs above or below")
        if self.above is not None and self.below is not None and self.below >= self.above:
            raise ValueError(
                f"{self.name!r}: every value is above {self.above:g} or below {self.below:g}; the "
                "limits are reversed"
            )
        return self

    def __str__(self) -> str:
        """`above 0.02 for 15 s`."""
        parts = [
            "" if self.above is None else f"above {self.above:g}",
            "" if self.below is None else f"below {self.below:g}",
        ]
        held = f" for {format_duration(self.for_s)}" if self.for_s else ""
        return " or ".join(filter(None, parts)) + held

    def excess(self, value: float) -> float:
        """How far a value is beyond the limit; negative within it."""
        beyond = -math.inf if self.above is None else value - self.above
        return max(beyond, -math.inf if self.below is None else self.below - value)


class Guard(_Model):
    """Protects a system that other people use.

    `iops` and `bandwidth` (bytes per second) are a budget for all clients of the run together. Each
    of `ceph_health` and `prometheus` is a limit that stops the run; limits are read `every` few
    seconds, and one that has no reading for `silence` stops the run too. No trial runs in
    `quiet_hours` of the time `zone`.
    """

    iops: float | None = Field(default=None, gt=0, le=1e9)
    bandwidth: Annotated[int, BeforeValidator(parse_size), AfterValidator(_positive)] | None = None
    ceph_health: tuple[Annotated[str, AfterValidator(_health_code)], ...] = ()
    prometheus: Annotated[tuple[PrometheusLimit, ...], Field(max_length=20)] = ()
    every: _Duration = Field(default=5.0, ge=1, le=60)
    silence: _Duration = Field(default=30.0, ge=5, le=3600)
    quiet_hours: tuple[str, ...] = ()
    zone: str = "local"

    @field_validator("ceph_health", "quiet_hours", mode="before")
    @classmethod
    def _one_word(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @field_validator("prometheus")
    @classmethod
    def _names(cls, value: tuple[PrometheusLimit, ...]) -> tuple[PrometheusLimit, ...]:
        names = [limit.name for limit in value]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two limits are called {name!r}")
        return value

    @field_validator("quiet_hours")
    @classmethod
    def _hours(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        windows = [window for text in value for window in parse_windows(text)]
        overlapping = _overlap(windows)
        if overlapping is not None:
            first, second = overlapping
            both = f"{first!r} and {second!r} overlap" if first != second else f"{first!r} overlaps"
            raise ValueError(f"{both}; write each time once")
        if sum(window.end_s - window.begin_s for window in windows) >= _WEEK_S:
            raise ValueError("leaves no time for any trial")
        return value

    @field_validator("zone")
    @classmethod
    def _zone(cls, value: str) -> str:
        _find_zone(value)
        return value

    @model_validator(mode="after")
    def _something(self) -> Self:
        kinds = ("iops", "bandwidth", "ceph_health", "prometheus", "quiet_hours")
        if not any(getattr(self, kind) for kind in kinds):
            raise ValueError(f"needs one at least of {', '.join(kinds)}")
        if self.silence < self.every:
            raise ValueError("silence is shorter than every, so each limit would be unread")
        return self

    @property
    def has_budget(self) -> bool:
        return self.iops is not None or self.bandwidth is not None

    @property
    def has_limits(self) -> bool:
        return bool(self.ceph_health or self.prometheus)

    def budget_bps(self, block_size: int) -> float | None:
        """The bytes per second that all clients together may do in blocks of that size; None
        without a budget."""
        known = [
            limit
            for limit in (
                None if self.iops is None else self.iops * block_size,
                self.bandwidth,
            )
            if limit is not None
        ]
        return min(known) if known else None

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """The quiet hours in the order of the week; those that touch are one."""
        parsed = (window for text in self.quiet_hours for window in parse_windows(text))
        found: list[Window] = []
        for window in sorted(parsed, key=lambda one: one.begin_s):
            if found and found[-1].end_s == window.begin_s:
                last = found.pop()
                text = last.text if last.text == window.text else f"{last.text}, {window.text}"
                window = Window(begin_s=last.begin_s, end_s=window.end_s, text=text)
            found.append(window)
        return tuple(found)

    @property
    def longest_gap_s(self) -> float:
        """The longest time between two quiet hours."""
        windows = self.windows
        if not windows:
            return math.inf
        following = [window.begin_s for window in windows[1:]] + [windows[0].begin_s + _WEEK_S]
        return max(
            begin_s - window.end_s for window, begin_s in zip(windows, following, strict=True)
        )

    def quiet_until(self, now: datetime, takes_s: float) -> datetime | None:
        """When work of `takes_s` seconds may begin, where not `now`: it would reach into quiet
        hours. `now` has a time zone. Where clocks change before it, it may be an hour off."""
        if not self.windows:
            return None
        local = now.astimezone(_find_zone(self.zone))
        second = (
            local.weekday() * _DAY_S
            + local.hour * 3600
            + local.minute * 60
            + local.second
            + local.microsecond / 1e6
        )
        begin_s = second
        for window in self._from(second):
            if begin_s + takes_s <= window.begin_s:
                break
            begin_s = max(begin_s, window.end_s)
        return None if begin_s == second else local + timedelta(seconds=begin_s - second)

    def _from(self, second: float) -> Iterator[Window]:
        """The stretches that end after a second of the week, in their order, for two weeks."""
        for week in (-1, 0, 1, 2):
            for window in self.windows:
                shift_s = week * _WEEK_S
                if window.end_s + shift_s > second:
                    yield Window(
                        begin_s=window.begin_s + shift_s,
                        end_s=window.end_s + shift_s,
                        text=window.text,
                    )
