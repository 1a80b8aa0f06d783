"""What a layer did in a trial, figure by figure, each with where it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from leadline.analysis.layers.sizes import Sizes
from leadline.archive.records import LayerKind
from leadline.metrics import Op

DIRECTIONS = (Op.READ, Op.WRITE)
# Seconds since the watch began, and bytes until then.
Series = Sequence[tuple[float, float]]


class Basis(StrEnum):
    """Over which seconds a layer's figures are. `totals`: all that it did in the trial, held
    against all that the engine did, which is exact where there was no ramp. `window`: the seconds
    that the engine's figures are of. `whole trial`: means over ramp and measured seconds
    together, since counters were read before and after only, or over the part of the trial in
    which there were counters."""

    TOTALS = "totals"
    WINDOW = "window"
    WHOLE_TRIAL = "whole trial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number in base units, who told it (`source`), or None and why not (`absent`)."""

    value: float | None = None
    source: str = ""
    absent: str = ""

    @classmethod
    def of(cls, value: float | None, source: str, absent: str) -> Figure:
        """`value` where there is one, else the reason."""
        return cls(value=value, source=source) if value is not None else cls(absent=absent)


UNKNOWN = Figure(absent="not told by this layer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One direction at one layer. `rate` operations and `bandwidth` bytes per second, `merged`
    requests per second that went into others before they were counted, `latency` mean seconds of
    an operation, `in_flight` operations at the same time on average. `sizes` is None where nobody
    counted them, and `sizes_absent` says why."""

    op: Op
    rate: Figure = UNKNOWN
    bandwidth: Figure = UNKNOWN
    merged: Figure = UNKNOWN
    latency: Figure = UNKNOWN
    in_flight: Figure = UNKNOWN
    sizes: Sizes | None = None
    sizes_absent: str = ""

    @property
    def mean_size_bytes(self) -> float | None:
        """Bytes of an operation; where operations are not counted, of those of which the size
        is known."""
        if self.rate.value and self.bandwidth.value is not None:
            return self.bandwidth.value / self.rate.value
        return self.sizes.mean_bytes if self.sizes else None


def by_little(rate: Figure, latency: Figure) -> Figure:
    """Operations in flight from rate and latency (Little's law: N = X R)."""
    if rate.value is None or latency.value is None:
        return Figure(absent=rate.absent or latency.absent)
    return Figure(value=rate.value * latency.value, source="rate x latency")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """The seconds that a layer's bytes are of: `spans` of (begin, end) since the watch began, each
    end of which may as well lie up to `late_s` later. `divided_by_s` is what its bytes were divided
    by to make its bandwidth; there may have been `at_most_times` as many of them."""

    spans: tuple[tuple[float, float], ...]
    late_s: float
    divided_by_s: float
    at_most_times: float = 1.0

    @property
    def length_s(self) -> float:
        return sum(end_s - begin_s for begin_s, end_s in self.spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFlow:
    """A layer of a trial. `kind` is None for the engine on top. `flows` hold the directions in
    which anything was done; `in_flight` both together. `shared`: others use the layer, too, so
    that its figures are not the trial's alone, and why. `unobserved` says why nothing is known of
    the layer at all; `notes` what is missing or known beside its figures.

    `seconds` tell when its bytes were counted, None where that is not known or all of the trial;
    `counted` are its bytes by seconds since the watch began, where they were read again and again.
    `parts` is how many leaf vdevs its figures are of, 0 where it has none."""

    kind: LayerKind | None
    name: str
    devices: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    basis: Basis = Basis.TOTALS
    flows: Mapping[Op, Flow] = field(default_factory=dict)
    in_flight: Figure = UNKNOWN
    shared: str = ""
    unobserved: str = ""
    notes: tuple[str, ...] = ()
    seconds: Seconds | None = None
    counted: Mapping[Op, Series] = field(default_factory=dict)
    parts: int = 0

    @property
    def observed(self) -> bool:
        return not self.unobserved

    @property
    def label(self) -> str:
        """`engine fio`, `block loop1`, `pool rep3`."""
        return f"{self.kind.value if self.kind else 'engine'} {self.name}"

    def size_fact(self, key: str) -> int | None:
        """A fact that is a size in bytes."""
        text = self.facts.get(key, "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None
