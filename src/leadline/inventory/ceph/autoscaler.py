"""Recompute Ceph's PG autoscaler: the number of placement groups of each pool.

Source of the rules: src/pybind/mgr/pg_autoscaler/module.py of the releases named at each. An oracle
test compares with that of 16.2.15 (tests/unit/inventory/ceph/test_autoscaler_oracle.py).

For the pools of one CRUSH root, with `osds` below it:

    budget = osds x mon_target_pg_per_osd                      PG replicas
    ratio  = max(share used, target ratio / sum of target ratios x (1 - share of target bytes))
    share  = ratio x budget        up to Octopus
             ratio x what is left  since Pacific; pools in order of their id, and whole PGs of each
                                   share are taken from what is left
    raw    = share / size x bias                               size is k + m of erasure-coded pools
    pg_num = max(pg_num_min or 32, power of two nearest to raw, the upper one in a tie)

A pool with the `bulk` flag is served after the others: with its own ratio if that is more than an
even part of what is left, otherwise with an even part. pg_num is changed only if the result is more
than `threshold` times, or less than 1/threshold of, the current value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

DEFAULT_TARGET_PG_PER_OSD = 100
DEFAULT_THRESHOLD = 3.0
SMALLEST_PG_NUM = 32


class Rule(StrEnum):
    """How a release shares the budget."""

    WHOLE_BUDGET = "whole-budget"  # Nautilus 14.2.10 to Octopus
    WHAT_IS_LEFT = "what-is-left"  # Pacific to Tentacle 20.2.0
    EAGER_LARGE = "eager-large"  # Tentacle 20.2.1: lower thresholds towards large pg_num
    UNKNOWN = "unknown"


class Mode(StrEnum):
    """`pg_autoscale_mode` of a pool."""

    ON = "on"
    WARN = "warn"
    OFF = "off"


class Reason(StrEnum):
    """Why a pool is changed, or not."""

    WOULD_CHANGE = "would change"
    WITHIN_THRESHOLD = "within threshold"
    AS_WANTED = "as wanted"
    MODE = "mode not on"
    NO_AUTOSCALE = "noautoscale set"
    OVERCOMMITTED = "ratio above 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDemand:
    """The autoscaler's input for one pool.

    `raw_rate` is raw bytes per stored byte (the size, or (k + m) / k); `raw_used_bytes` is the
    result of `compute_used`.
    """

    pool_id: int
    name: str
    size: int
    raw_rate: float
    pg_num: int
    raw_used_bytes: float = 0.0
    target_ratio: float = 0.0
    target_bytes: int = 0
    bias: float = 1.0
    bulk: bool = False
    pg_num_min: int | None = None
    pg_num_max: int | None = None
    mode: Mode = Mode.ON


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of all pools of a root."""

    rule: Rule
    osds: int
    capacity_bytes: int
    target_pg_per_osd: int = DEFAULT_TARGET_PG_PER_OSD
    threshold: float = DEFAULT_THRESHOLD
    no_autoscale: bool = False

    @property
    def budget(self) -> int:
        """PG replicas of all pools together."""
        return self.osds * self.target_pg_per_osd


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAdvice:
    """The computation for one pool.

    `budget` is the whole budget or what is left of it, `share` is `ratio` of it in PG replicas,
    `raw` are PGs before rounding, `final` after it.
    """

    pool: PoolDemand
    effective_target_ratio: float
    ratio: float
    budget: float
    share: float
    raw: float
    nearest: int
    final: int
    threshold: float
    acts: bool
    reason: Reason


def find_rule(version: tuple[int, ...]) -> Rule:
    """Return the rule of a release by its version number (`(16, 2, 15)`)."""
    padded = (*version, 0, 0, 0)[:3]
    if (14, 2, 10) <= padded < (16,):
        return Rule.WHOLE_BUDGET
    if (16,) <= padded < (20, 2, 1):
        return Rule.WHAT_IS_LEFT
    if (20, 2, 1) <= padded < (21,):
        return Rule.EAGER_LARGE
    return Rule.UNKNOWN


def compute_used(
    version: tuple[int, ...], stored_bytes: int, used_bytes: int, raw_rate: float
) -> float:
    """Return the raw bytes that the autoscaler counts as used.

    Up to Pacific these are stored bytes times the rate; later, the bytes on the OSDs (`bytes_used`
    of `df`), with compression and padding.
    """
    return float(used_bytes) if version[:1] >= (17,) else stored_bytes * raw_rate


def nearest_power_of_two(raw: float) -> int:
    """Return the power of two nearest to `raw`, the upper one in a tie; 0 below 1, 1 below 2.

    Like Ceph, the fraction is cut off before powers are compared.
    """
    whole = int(raw)
    if whole < 1:
        return 0
    lower = 1 << (whole.bit_length() - 1)
    if whole == lower:
        return lower
    return lower if 2 * lower - raw > raw - lower else 2 * lower


def effective_target_ratio(
    pool: PoolDemand, total_ratio: float, total_bytes: float, capacity_bytes: int
) -> float:
    """Return a target ratio as a share of all, after pools with target bytes."""
    ratio = pool.target_ratio / total_ratio if total_ratio else pool.target_ratio
    if total_bytes and capacity_bytes:
        ratio *= 1.0 - min(1.0, total_bytes / capacity_bytes)
    return ratio


def advise(pools: Iterable[PoolDemand], settings: Settings) -> tuple[PoolAdvice, ...]:
    """Compute the pools of one root, in the order of their ids.

    Empty for an unknown rule and for a root without capacity.
    """
    in_order = sorted(pools, key=lambda pool: pool.pool_id)
    if settings.rule is Rule.UNKNOWN or settings.capacity_bytes <= 0 or not in_order:
        return ()
    total_ratio = sum(pool.target_ratio for pool in in_order)
    total_bytes = sum(
        pool.target_bytes * pool.raw_rate for pool in in_order if not pool.target_ratio
    )
    targets = {
        pool.pool_id: effective_target_ratio(
            pool, total_ratio, total_bytes, settings.capacity_bytes
        )
        for pool in in_order
    }
    advice = _shared(in_order, targets, settings)
    return tuple(advice[pool.pool_id] for pool in in_order)


def _wanted(pool: PoolDemand, target: float, settings: Settings) -> float:
    """Return the share of the root that a pool uses or is intended to use."""
    meant = 0.0 if pool.target_ratio else pool.target_bytes * pool.raw_rate
    return max(max(pool.raw_used_bytes, meant) / settings.capacity_bytes, target)


def _shared(
    pools: Sequence[PoolDemand], targets: Mapping[int, float], settings: Settings
) -> dict[int, PoolAdvice]:
    """Share the budget: pools without the bulk flag, then large bulk pools, then the others."""
    left = settings.budget
    advice: dict[int, PoolAdvice] = {}

    def give(pool: PoolDemand, ratio: float) -> float:
        target = targets[pool.pool_id]
        result = _advice(pool, target, ratio, float(left), settings)
        advice[pool.pool_id] = result
        return result.share

    if settings.rule is Rule.WHOLE_BUDGET:
        for pool in pools:
            give(pool, _wanted(pool, targets[pool.pool_id], settings))
        return advice
    for pool in pools:
        if not pool.bulk:
            left -= int(give(pool, _wanted(pool, targets[pool.pool_id], settings)))
    even = []
    for pool in pools:
        if pool.bulk:
            ratio = _wanted(pool, targets[pool.pool_id], settings)
            if ratio > 1 / (len(pools) - len(advice)):
                left -= int(give(pool, ratio))
            else:
                even.append(pool)
    # These pools get equal shares of the rest.
    for pool in even:
        give(pool, 1 / len(even))
    return advice


def _advice(
    pool: PoolDemand, target: float, ratio: float, budget: float, settings: Settings
) -> PoolAdvice:
    share = ratio * budget
    raw = share / pool.size * pool.bias
    nearest = nearest_power_of_two(raw)
    final = max(SMALLEST_PG_NUM if pool.pg_num_min is None else pool.pg_num_min, nearest)
    if pool.pg_num_max and pool.pg_num_max < final:
        final = pool.pg_num_max
    threshold = _threshold(pool, final, settings)
    reason = _reason(pool, final, ratio, threshold, settings)
    return PoolAdvice(
        pool=pool,
        effective_target_ratio=target,
        ratio=ratio,
        budget=budget,
        share=share,
        raw=raw,
        nearest=nearest,
        final=final,
        threshold=threshold,
        acts=reason is Reason.WOULD_CHANGE,
        reason=reason,
    )


def _threshold(pool: PoolDemand, final: int, settings: Settings) -> float:
    """Return the tolerated factor. 20.2.1 grows to 512 and 1024 at once and to 2048 from a half
    (ceph pull request 66871, not checked against its source)."""
    if settings.rule is Rule.EAGER_LARGE and final > pool.pg_num:
        return {512: 1.0, 1024: 1.0, 2048: 2.0}.get(final, settings.threshold)
    return settings.threshold


def _reason(
    pool: PoolDemand, final: int, ratio: float, threshold: float, settings: Settings
) -> Reason:
    if final == pool.pg_num:
        return Reason.AS_WANTED
    if pool.pg_num / threshold <= final <= pool.pg_num * threshold:
        return Reason.WITHIN_THRESHOLD
    if not 0.0 <= ratio <= 1.0:
        return Reason.OVERCOMMITTED
    if settings.no_autoscale:
        return Reason.NO_AUTOSCALE
    return Reason.WOULD_CHANGE if pool.mode is Mode.ON else Reason.MODE
