"""flat-ceiling: a rate that no number of I/Os in flight and no block size changes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from leadline.audit.cell_rates import Kind, Rate, cell_rates
from leadline.audit.evidence import CellEvidence, RunEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.units import format_size

# Bandwidth under a limit repeats within 1 %.
SAME = 1.02
# More I/Os in flight by this factor, beginning at one or two, give storage more to do: its rate at
# least doubles. From a larger number on, a flat rate may be the storage's own maximum.
DEPTH_RATIO = 8
LARGEST_OVER_DEPTH = 8192
SAME_OVER_DEPTH = 1.10
SHALLOW = 2
# Large blocks fill the bandwidth of any device, small ones do not.
SMALL_BLOCK = 16384
BLOCK_RATIO = 16
FEWEST_BLOCKS = 3
# A rate near one of these times a power of ten is probably that limit: by chance one in 25 is.
ROUND_NUMBERS, ROUND = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.5, 8.0, 10.0), 0.005
# Payload of Ethernet links in bytes per second: 94 to 95 % of the bits, less with small blocks.
_LINKS = (("1 GbE", 110e6, 119e6), ("10 GbE", 1.1e9, 1.19e9), ("25 GbE", 2.75e9, 2.98e9))


@rule(
    "flat-ceiling",
    "The rate is the same with any number of I/Os in flight, or the bandwidth with any block size.",
    RunEvidence,
)
def check(run: RunEvidence) -> Iterator[RuleFinding]:
    for target, cells in run.by_target().items():
        yield from _over_depth(target, cells)
        yield from _over_blocks(target, cells)


def _over_depth(target: str, cells: Sequence[CellEvidence]) -> Iterator[RuleFinding]:
    sweeps: dict[tuple[str | None, int, str], list[Rate]] = {}
    for rate in cell_rates(cells, Kind.IOPS):
        # One large I/O in flight may fill the bandwidth of a device.
        small = rate.block_bytes <= LARGEST_OVER_DEPTH
        if small and rate.in_flight is not None and rate.of_target and rate.pattern is not None:
            key = (rate.pattern, round(rate.block_bytes), rate.direction)
            sweeps.setdefault(key, []).append(rate)
    for (pattern, block, direction), rates in sweeps.items():
        depths = [rate.in_flight or 0 for rate in rates]
        if (
            min(depths) > SHALLOW
            or max(depths) < DEPTH_RATIO * min(depths)
            or not _flat(rates, SAME_OVER_DEPTH)
        ):
            continue
        iops = statistics.median(rate.value for rate in rates)
        random = (pattern or "").startswith("rand")
        yield RuleFinding(
            # A hard disk has one sequential rate for all depths.
            severity=Severity.WARNING if random else Severity.INFO,
            target=target,
            evidence={
                "iops": iops,
                "cells": len(rates),
                "fewest_in_flight": min(depths),
                "most_in_flight": max(depths),
            },
            message=f"{Kind.IOPS.shown(iops)} of {pattern} {format_size(block)} within "
            f"{SAME_OVER_DEPTH - 1:.0%} with {min(depths)} to {max(depths)} I/Os in flight. "
            f"{_limit(iops, iops * block)} was measured, or storage whose rate does not grow with "
            f"its queue ({'one I/O at a time, a full write cache' if random else 'a hard disk'}).",
            remedy="Remove the limit or state it. Latency in these cells is the wait for the "
            f"limit, and the cells show no difference between targets ({direction}s).",
        )


def _over_blocks(target: str, cells: Sequence[CellEvidence]) -> Iterator[RuleFinding]:
    sweeps: dict[tuple[str, str], list[Rate]] = {}
    for rate in cell_rates(cells, Kind.BANDWIDTH):
        # The kernel reads ahead and merges: buffered I/O has one bandwidth for all block sizes.
        if rate.pattern is not None and rate.direct is not False:
            sweeps.setdefault((rate.pattern, rate.direction), []).append(rate)
    for (pattern, direction), rates in sweeps.items():
        blocks = [rate.block_bytes for rate in rates]
        if len(set(blocks)) < FEWEST_BLOCKS or not _flat(rates, SAME):
            continue
        if min(blocks) > SMALL_BLOCK or max(blocks) < BLOCK_RATIO * min(blocks):
            continue
        bps = statistics.median(rate.value for rate in rates)
        random = pattern.startswith("rand")
        yield RuleFinding(
            # A hard disk has one sequential bandwidth for all block sizes.
            severity=Severity.WARNING if random else Severity.INFO,
            target=target,
            evidence={
                "bandwidth_bps": bps,
                "cells": len(rates),
                "smallest_block_bytes": min(blocks),
                "largest_block_bytes": max(blocks),
            },
            message=f"{Kind.BANDWIDTH.shown(bps)} of {pattern} within {SAME - 1:.0%} from "
            f"{format_size(min(blocks))} to {format_size(max(blocks))}. {_limit(None, bps)} was "
            "measured" + ("." if random else ", or the sequential rate of the medium."),
            remedy="Remove the limit or state it. These cells show no difference between targets "
            f"({direction}s).",
        )


def _flat(rates: Sequence[Rate], ratio: float) -> bool:
    values = [rate.value for rate in rates]
    return len({rate.cell for rate in rates}) > 1 and max(values) <= ratio * min(values)


def _limit(iops: float | None, bps: float) -> str:
    """Return the likely limit as the subject of a sentence."""
    for name, low, high in _LINKS:
        if low <= bps <= high:
            return f"A {name} link"
    if iops:
        power = 10.0 ** math.floor(math.log10(iops))
        for number in ROUND_NUMBERS:
            if abs(iops / (number * power) - 1) <= ROUND:
                return f"A limit of {number * power:,.0f} IOPS (QoS, cloud tier)"
    return "A limit (QoS, cloud tier, network link)"
