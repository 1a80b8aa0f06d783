"""Superlinear scaling: a speed-up larger than the added resources, and its possible causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

from leadline.analysis.explain.conditions import Conditions
from leadline.analysis.scaling.curves import LoadCurve
from leadline.analysis.scaling.speedup import (
    LevelSpeedup,
    Resource,
    Speedup,
    SystemFacts,
    hosts_of,
)
from leadline.analysis.verdicts import REPEATS_FACTOR, Evidence, Judgement, Verdict
from leadline.inventory.ceph.model import CephInventory
from leadline.inventory.diff import Difference, Topic
from leadline.inventory.facts import find_pool
from leadline.metrics import Metric, Op
from leadline.plan.footprint import footprint_of

_DEPTH = "queue-depth-not-reached"
# Default of osd_memory_target since Nautilus.
_OSD_MEMORY_BYTES = 4 << 30
# A smaller difference does not explain an excess worth a finding.
_NOTABLE = 0.05
# Difference of used raw space above which two systems differ in fill.
_FILL = 0.1
# Topics that the resources already cover.
_ADDED = (Topic.TOPOLOGY, Topic.CAPACITY)


class Stance(StrEnum):
    """Whether the archives support a cause."""

    SUPPORTED = "supported"
    OPEN = "open"
    CONTRADICTED = "contradicted"


class CauseCode(StrEnum):
    CACHES = "caches"
    PLACEMENT = "placement"
    FIXED_OVERHEAD = "fixed-overhead"
    SERVICES = "co-located-services"
    FILL_AND_AGE = "fill-and-age"
    LOAD = "load"
    OTHERS = "other-differences"


class CauseCase(StrEnum):
    """What the archives show of a cause. The report has one template for each."""

    DATA_UNKNOWN = "data-unknown"
    DATA_FITS_LARGER = "data-fits-larger"
    DATA_FITS_BOTH = "data-fits-both"
    DATA_FITS_NEITHER = "data-fits-neither"
    DATA_IS_WRITTEN = "data-is-written"
    PLACEMENT_UNKNOWN = "placement-unknown"
    PLACEMENT_UNEVEN = "placement-uneven"
    PLACEMENT_EVEN = "placement-even"
    OVERHEAD_IN_BUDGET = "overhead-in-budget"
    OVERHEAD_WITHOUT_BUDGET = "overhead-without-budget"
    SERVICES_OUTSIDE_BUDGETS = "services-outside-budgets"
    SERVICES_SHARE_MACHINE = "services-share-machine"
    SERVICES_UNKNOWN = "services-unknown"
    SERVICES_COUNTED = "services-counted"
    FILL_UNKNOWN = "fill-unknown"
    FILL_COUNTED = "fill-counted"
    LOAD_NOT_REACHED = "load-not-reached"
    LOAD_PEAK_IS_LAST = "load-peak-is-last"
    LOAD_PAST_PEAK = "load-past-peak"
    LOAD_REACHED = "load-reached"
    NOT_COMPARED = "not-compared"
    NO_DIFFERENCE = "no-difference"
    DIFFERENCES = "differences"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A candidate. `numbers` of both systems are pairs of baseline and candidate, in base units.
    `differences` are configuration differences, `unknown` their paths that one system lacks;
    `created` are the creation times of both systems where they differ."""

    code: CauseCode
    stance: Stance
    case: CauseCase
    numbers: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    differences: tuple[Difference, ...] = ()
    unknown: tuple[str, ...] = ()
    created: tuple[str, str] | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(difference.path for difference in self.differences)


def causes(
    speedup: Speedup,
    at: LevelSpeedup,
    baseline: SystemFacts,
    candidate: SystemFacts,
    differing: Conditions,
) -> tuple[Cause, ...]:
    """Return every candidate, those that the evidence supports first."""
    found = [
        _caches(speedup, at, baseline, candidate),
        _placement(baseline.ceph, candidate.ceph),
        _overhead(baseline, candidate),
        _services(baseline, candidate, speedup.subject),
        _fill(baseline.ceph, candidate.ceph),
        _load(speedup, at),
        _others(speedup, differing),
    ]
    order = list(Stance)
    return tuple(sorted(found, key=lambda cause: order.index(cause.stance)))


def _caches(speedup: Speedup, at: LevelSpeedup, small: SystemFacts, large: SystemFacts) -> Cause:
    """More nodes have more memory, and each holds less of the same data."""
    cause = partial(Cause, code=CauseCode.CACHES)
    before = _raw_per_osd(small, speedup.subject, at.baseline.cell)
    after = _raw_per_osd(large, speedup.subject, at.candidate.cell)
    if before is None or after is None:
        return cause(stance=Stance.OPEN, case=CauseCase.DATA_UNKNOWN)
    memory = _osd_memory_bytes(small.ceph), _osd_memory_bytes(large.ceph)
    stance, case = Stance.OPEN, CauseCase.DATA_FITS_NEITHER
    if before > memory[0] and after <= memory[1]:
        stance, case = Stance.SUPPORTED, CauseCase.DATA_FITS_LARGER
    elif before <= memory[0] and after <= memory[1]:
        stance, case = Stance.CONTRADICTED, CauseCase.DATA_FITS_BOTH
    elif speedup.candidate.op is Op.WRITE:
        stance, case = Stance.CONTRADICTED, CauseCase.DATA_IS_WRITTEN
    numbers = {"data_per_osd_bytes": (before, after), "memory_per_osd_bytes": memory}
    return cause(stance=stance, case=case, numbers=numbers)


def _raw_per_osd(known: SystemFacts, subject: str, cell: int) -> float | None:
    """Bytes of the workload's data on each OSD, with all copies."""
    target, osds = known.target(subject), known.osds(subject)
    pool = find_pool(known.ceph, target, known.around)
    data = footprint_of([known.side.run.plan.cells[cell].workload]).total_bytes
    return data * pool.raw_rate / len(osds) if pool and data and osds else None


def _osd_memory_bytes(ceph: CephInventory | None) -> float:
    settings = (ceph.configuration if ceph else None) or ()
    values = [setting.value for setting in settings if setting.name == "osd_memory_target"]
    return float(values[0]) if values and values[0].isdecimal() else float(_OSD_MEMORY_BYTES)


def _pgs_per_osd(ceph: CephInventory | None) -> tuple[float, float] | None:
    """Placement groups of the mean OSD, and of the fullest as a multiple of it."""
    spread = ceph.pgs_per_osd if ceph else None
    return (spread.mean, spread.highest / spread.mean) if spread and spread.mean else None


def _placement(small: CephInventory | None, large: CephInventory | None) -> Cause:
    """Uneven data on the smaller system."""
    cause = partial(Cause, code=CauseCode.PLACEMENT)
    baseline, candidate = _pgs_per_osd(small), _pgs_per_osd(large)
    if baseline is None or candidate is None:
        return cause(stance=Stance.OPEN, case=CauseCase.PLACEMENT_UNKNOWN)
    numbers = {"fullest_osd": (baseline[1], candidate[1])}
    if baseline[1] / candidate[1] > 1 + _NOTABLE:
        return cause(stance=Stance.SUPPORTED, case=CauseCase.PLACEMENT_UNEVEN, numbers=numbers)
    return cause(stance=Stance.CONTRADICTED, case=CauseCase.PLACEMENT_EVEN, numbers=numbers)


def _overhead(small: SystemFacts, large: SystemFacts) -> Cause:
    """Work of each OSD without clients (heartbeats, placement groups) that leaves less for I/O."""
    baseline, candidate = _pgs_per_osd(small.ceph), _pgs_per_osd(large.ceph)
    numbers = {}
    if baseline and candidate and candidate[0] < baseline[0]:
        numbers["pgs_per_osd"] = (baseline[0], candidate[0])
    case, stance = CauseCase.OVERHEAD_WITHOUT_BUDGET, Stance.OPEN
    if small.cpu_per_host is not None:
        case = CauseCase.OVERHEAD_IN_BUDGET
        stance = Stance.SUPPORTED if numbers else Stance.OPEN
        numbers["cores_per_host"] = (small.cpu_per_host, large.cpu_per_host or small.cpu_per_host)
    return Cause(code=CauseCode.FIXED_OVERHEAD, stance=stance, case=case, numbers=numbers)


def _services(small: SystemFacts, large: SystemFacts, subject: str) -> Cause:
    """Monitors, metadata servers and clients on the hosts of the OSDs."""
    cause = partial(Cause, code=CauseCode.SERVICES)
    if small.is_lab or large.is_lab:
        if small.cpu_per_host is not None and large.cpu_per_host is not None:
            return cause(stance=Stance.CONTRADICTED, case=CauseCase.SERVICES_OUTSIDE_BUDGETS)
        return cause(stance=Stance.SUPPORTED, case=CauseCase.SERVICES_SHARE_MACHINE)
    found = [
        (len(set(system.ceph.monitors.names) & set(hosts)), len(hosts))
        for system in (small, large)
        if system.ceph and (hosts := hosts_of(system.osds(subject)))
    ]
    if len(found) < 2:
        return cause(stance=Stance.OPEN, case=CauseCase.SERVICES_UNKNOWN)
    (before, hosts_before), (after, hosts_after) = found
    # Monitor names may differ from host names, as with Rook.
    stance = Stance.CONTRADICTED if before else Stance.OPEN
    if before / hosts_before > after / hosts_after:
        stance = Stance.SUPPORTED
    numbers = {"monitors": (before, after), "hosts": (hosts_before, hosts_after)}
    return cause(stance=stance, case=CauseCase.SERVICES_COUNTED, numbers=numbers)


def _fill(small: CephInventory | None, large: CephInventory | None) -> Cause:
    """A smaller system that is fuller or older."""
    cause = partial(Cause, code=CauseCode.FILL_AND_AGE)
    if small is None or large is None:
        return cause(stance=Stance.OPEN, case=CauseCase.FILL_UNKNOWN)
    before, after = (
        ceph.capacity.used_bytes / ceph.capacity.total_bytes if ceph.capacity.total_bytes else 0.0
        for ceph in (small, large)
    )
    created = None
    if small.created and large.created and small.created != large.created:
        created = small.created, large.created
    stance = Stance.OPEN if created else Stance.CONTRADICTED
    return cause(
        stance=Stance.SUPPORTED if before > after + _FILL else stance,
        case=CauseCase.FILL_COUNTED,
        numbers={"used_share": (before, after)},
        created=created,
    )


def _load(speedup: Speedup, at: LevelSpeedup) -> Cause:
    """A smaller system with less load than the larger, or with more than it can use."""
    cause = partial(Cause, code=CauseCode.LOAD)
    short = [_DEPTH in point.throughput.findings for point in (at.baseline, at.candidate)]
    if short[0] and not short[1]:
        return cause(stance=Stance.SUPPORTED, case=CauseCase.LOAD_NOT_REACHED)
    if at is speedup.peak and speedup.peaks_last[0]:
        return cause(stance=Stance.SUPPORTED, case=CauseCase.LOAD_PEAK_IS_LAST)
    top = speedup.peak.baseline if speedup.peak else at.baseline
    here, peak = at.baseline.usable(Metric.IOPS), top.usable(Metric.IOPS)
    if at is not speedup.peak and here and peak and here < peak * (1 - _NOTABLE):
        numbers = {"baseline_here_and_peak_iops": (here, peak)}
        return cause(stance=Stance.SUPPORTED, case=CauseCase.LOAD_PAST_PEAK, numbers=numbers)
    return cause(stance=Stance.CONTRADICTED, case=CauseCase.LOAD_REACHED)


def _others(speedup: Speedup, differing: Conditions) -> Cause:
    """Configuration differences other than the added resources."""
    cause = partial(Cause, code=CauseCode.OTHERS)
    added = {f"targets.{speedup.subject}.labels.{resource.name}" for resource in speedup.resources}
    found = tuple(
        difference
        for difference in differing.differences
        if difference.topic not in _ADDED
        and difference.path not in added
        and difference.target in ("", speedup.subject)
    )
    if found:
        return cause(stance=Stance.OPEN, case=CauseCase.DIFFERENCES, differences=found)
    if not differing.identical:
        return cause(stance=Stance.OPEN, case=CauseCase.NOT_COMPARED)
    stance = Stance.OPEN if differing.unknown else Stance.CONTRADICTED
    return cause(stance=stance, case=CauseCase.NO_DIFFERENCE, unknown=differing.unknown)


# --- the excess ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Superlinear:
    """A speed-up that exceeds `over`, the resource that grew most.

    `at` is the pair of levels that exceeds it most clearly, `at_peak` whether these are the peaks.
    Of `levels` levels of equal load the figures of `levels_beyond` exceed it. `causes` are
    candidates, supported ones first."""

    curve: LoadCurve
    over: Resource
    at: LevelSpeedup
    at_peak: bool
    levels: int
    levels_beyond: int
    causes: tuple[Cause, ...]

    @property
    def evidence(self) -> dict[str, float]:
        """The numbers of the finding, in base units."""
        judgement, over = self.at.judgement, self.over
        ratio = judgement.ratio or 0.0
        low, high = judgement.interval or (None, None)
        numbers = {
            "speedup": ratio,
            "speedup_low": low,
            "speedup_high": high,
            "resource_ratio": over.ratio,
            "resource_baseline": over.baseline,
            "resource_candidate": over.candidate,
            "efficiency": ratio / over.ratio,
            "band_share": judgement.band,
            "baseline_iops": self.at.baseline.usable(Metric.IOPS),
            "candidate_iops": self.at.candidate.usable(Metric.IOPS),
            "baseline_trials": len(self.at.baseline.throughput.trials),
            "candidate_trials": len(self.at.candidate.throughput.trials),
            "levels_beyond": self.levels_beyond,
            "levels": self.levels,
        }
        return {name: float(value) for name, value in numbers.items() if value is not None}


def superlinear(
    speedup: Speedup, baseline: SystemFacts, candidate: SystemFacts, differing: Conditions
) -> Superlinear | None:
    """Test one curve of both systems; None where no added resource is known, or the throughput
    grew no more than it.

    A speed-up exceeds the ratio of the resource that grew most where the low end of its interval
    exceeds it by more than the equivalence margin, at any level or at the peaks. Single numbers
    have no scatter: they must exceed it by the factor between two single runs of one system
    (REPEATS_FACTOR).
    """
    over = speedup.divisor
    found = exceeding(speedup.levels, speedup.peak, over) if over else None
    if over is None or found is None:
        return None
    return Superlinear(
        curve=speedup.candidate,
        over=over,
        at=found.at,
        at_peak=found.at is speedup.peak,
        levels=len(speedup.levels),
        levels_beyond=found.levels,
        causes=causes(speedup, found.at, baseline, candidate, differing),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """The pair of levels that exceeds the added resource most clearly; `levels` counts the levels
    whose figures do."""

    at: LevelSpeedup
    levels: int


def exceeding(
    levels: Sequence[LevelSpeedup], peak: LevelSpeedup | None, over: Resource
) -> Excess | None:
    """Apply the rule of `superlinear` to numbers alone."""
    if over.ratio <= 1:
        return None
    pairs = [*levels, *([peak] if peak else [])]
    sure = [pair for pair in pairs if _low(pair.judgement) > _edge(pair.judgement, over)]
    at = max(sure, key=lambda pair: _low(pair.judgement), default=None)
    if at is None:
        return None
    return Excess(at=at, levels=sum(_by_figure(level.judgement, over) for level in levels))


def _edge(judgement: Judgement, over: Resource) -> float:
    return over.ratio * (1 + judgement.band)


def _by_figure(judgement: Judgement, over: Resource) -> bool:
    if judgement.verdict is Verdict.NOT_COMPARABLE or judgement.ratio is None:
        return False
    return judgement.ratio > _edge(judgement, over)


def _low(judgement: Judgement) -> float:
    """The lower bound of the speed-up; 0 where none is known."""
    if judgement.verdict is Verdict.NOT_COMPARABLE:
        return 0.0
    if judgement.evidence is Evidence.ONE_NUMBER:
        return (judgement.ratio or 0.0) / REPEATS_FACTOR
    if judgement.interval is None:
        return 0.0
    return judgement.interval[0]
