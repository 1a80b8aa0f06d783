"""What the layers below a target saw of a trial's reads, held against what the engine read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leadline.archive.records import Layer, LayerKind
from leadline.formats.host_counters import HostSample, MissedHostSample, Role

# The counters were read over at least that share of the time in which the engine read.
_COVERED = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBelow:
    """Bytes that were read from `devices` during a trial, ramp and other processes included: more
    than the trial's own reads, never less. `cache` is what lies above them."""

    read_bytes: int
    devices: tuple[str, ...]
    through_zfs: bool


def read_below(
    stack: Sequence[Layer], samples: Iterable[HostSample | MissedHostSample], ran_s: float
) -> ReadBelow | None:
    """The highest layer of which every device was counted from the trial's start to its end on the
    one machine that made the load; None where there is none. `ran_s`: seconds of the reading."""
    found = [one for one in samples if isinstance(one, HostSample) and Role.CLIENT in one.roles]
    if len(found) < 2 or len({one.machine for one in found}) > 1:
        return None
    first, last = found[0], found[-1]
    if last.elapsed_s - first.elapsed_s < _COVERED * ran_s:
        return None
    for number, layer in enumerate(stack):
        names = layer.devices
        if not names or not all(name in one.disks for name in names for one in (first, last)):
            continue
        grown = [last.disks[name].read_bytes - first.disks[name].read_bytes for name in names]
        if min(grown) < 0:
            return None  # a device that went and came back
        zfs = any(one.kind is LayerKind.ZFS for one in stack[: number + 1])
        return ReadBelow(read_bytes=sum(grown), devices=names, through_zfs=zfs)
    return None


def compressing(stack: Iterable[Layer]) -> Layer | None:
    """The layer that compresses what is written, where one is told to."""
    for layer in stack:
        word = layer.facts.get("compression", "off")
        if layer.kind is LayerKind.ZFS and word not in ("off", "-", ""):
            return layer
    return None
