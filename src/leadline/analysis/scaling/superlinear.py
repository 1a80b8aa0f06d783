"""`superlinear-scaling`: a speed-up larger than what was added, as a finding to be explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from leadline.analysis.explain.conditions import Conditions
from leadline.analysis.scaling.curves import SUPERLINEAR
from leadline.analysis.scaling.speedup import (
    Known,
    LevelSpeedup,
    Resource,
    Speedup,
    hosts_of,
    osds_of,
)
from leadline.analysis.verdicts import REPEATS_FACTOR, Evidence, Judgement, Verdict
from leadline.findings import Finding, Severity
from leadline.inventory.ceph.model import CephInventory, pool_of
from leadline.inventory.diff import Topic
from leadline.metrics import Metric, Op
from leadline.plan.footprint import footprint_of
from leadline.plan.models import Plan, Target
from leadline.text import visible
from leadline.units import format_size

# What may make a system grow by more than was added to it, and what speaks for or against each.

_DEPTH = "queue-depth-not-reached"
# What an OSD may hold in memory unless it is told otherwise (osd_memory_target, since Nautilus).
_OSD_MEMORY_BYTES = 4 << 30
# Less of a difference explains no excess worth a finding.
_NOTABLE = 0.05
# Shares of the raw space by which two systems are of one age.
_FILL = 0.1
# What is told by the resources themselves.
_ADDED = (Topic.TOPOLOGY, Topic.CAPACITY)


class Stance(StrEnum):
    SUPPORTED = "supported"
    OPEN = "open"
    CONTRADICTED = "contradicted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A candidate: `code` names it, `text` is a sentence with the numbers it goes by. `paths` are
    those of the configuration's differences that it names."""

    code: str
    stance: Stance
    text: str
    paths: tuple[str, ...] = ()


def causes(
    speedup: Speedup, at: LevelSpeedup, ours: Known, theirs: Known, differing: Conditions
) -> tuple[Cause, ...]:
    """Every candidate, those that the evidence supports first."""
    sides = [_SideFacts.of(one, speedup.subject) for one in (ours, theirs)]
    found = [
        _caches(sides[0], sides[1], at, speedup.candidate.op),
        _placement(sides[0], sides[1]),
        _overhead(sides[0], sides[1]),
        _services(sides[0], sides[1]),
        _fill(sides[0], sides[1]),
        _driven(speedup, at),
        _others(speedup, differing),
    ]
    order = list(Stance)
    return tuple(sorted(found, key=lambda one: order.index(one.stance)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _SideFacts:
    """One system as far as its inventory tells. `quota` are cores for the OSDs of each host of a
    lab, None where there is no such budget; `is_lab`: one machine plays all hosts."""

    plan: Plan
    target: Target
    ceph: CephInventory | None
    hosts: tuple[str, ...]
    osds: int
    is_lab: bool
    quota: float | None

    @classmethod
    def of(cls, known: Known, subject: str) -> _SideFacts:
        target = known.target(subject)
        osds = osds_of(target, known.ceph) if known.ceph else ()
        return cls(
            plan=known.side.run.plan,
            target=target,
            ceph=known.ceph,
            hosts=hosts_of(osds),
            osds=len(osds),
            is_lab=known.is_lab,
            quota=known.lab.cpu_per_host if known.lab else None,
        )

    @property
    def pgs_per_osd(self) -> tuple[float, float] | None:
        """Placement groups of the mean OSD, and of the fullest as a multiple of it."""
        spread = self.ceph.pgs_per_osd if self.ceph else None
        return (spread.mean, spread.highest / spread.mean) if spread and spread.mean else None

    def raw_per_osd(self, cell: int) -> float | None:
        """Bytes of the workload's data on each OSD, every copy counted."""
        if self.ceph is None or not self.osds or not self.target.url:
            return None
        pool = pool_of(self.ceph, self.target.parsed)
        data = footprint_of([self.plan.cells[cell].workload]).total_bytes
        return data * pool.raw_rate / self.osds if pool and data else None

    @property
    def osd_memory_bytes(self) -> float:
        settings = (self.ceph.configuration if self.ceph else None) or ()
        told = [one.value for one in settings if one.name == "osd_memory_target"]
        return float(told[0]) if told and told[0].isdecimal() else float(_OSD_MEMORY_BYTES)


def _caches(ours: _SideFacts, theirs: _SideFacts, at: LevelSpeedup, op: Op) -> Cause:
    code = "caches"
    before = ours.raw_per_osd(at.baseline.cell)
    after = theirs.raw_per_osd(at.candidate.cell)
    what = "more nodes have more memory, and the same data is less on each"
    if before is None or after is None:
        return Cause(
            code=code,
            stance=Stance.OPEN,
            text=f"Caches: {what}; how much data and memory each node has is not told.",
        )
    room = ours.osd_memory_bytes, theirs.osd_memory_bytes
    text = (
        f"Caches: {what}: {format_size(int(before))} against {format_size(int(after))} on each "
        f"OSD, which may use {format_size(int(room[0]))} of memory"
    )
    if room[0] != room[1]:
        text += f" (candidate: {format_size(int(room[1]))})"
    if before > room[0] and after <= room[1]:
        return Cause(code=code, stance=Stance.SUPPORTED, text=f"{text}: it fits the larger only.")
    if before <= room[0] and after <= room[1]:
        ending = "it fits both, so that the larger gains nothing"
        return Cause(code=code, stance=Stance.CONTRADICTED, text=f"{text}: {ending}.")
    ending = "it fits neither, and a larger part of it is in memory on the larger"
    if op is Op.WRITE:
        ending = "it fits neither, and these are writes, which memory does not answer"
        return Cause(code=code, stance=Stance.CONTRADICTED, text=f"{text}: {ending}.")
    return Cause(code=code, stance=Stance.OPEN, text=f"{text}: {ending}.")


def _placement(ours: _SideFacts, theirs: _SideFacts) -> Cause:
    code = "placement"
    told = ours.pgs_per_osd, theirs.pgs_per_osd
    if told[0] is None or told[1] is None:
        text = "Placement: whether data lies more unevenly on the smaller system is not told."
        return Cause(code=code, stance=Stance.OPEN, text=text)
    uneven = told[0][1], told[1][1]
    gain = uneven[0] / uneven[1]
    text = (
        f"Placement: the fullest OSD has x{uneven[0]:.2f} the placement groups of the mean OSD on "
        f"the smaller system and x{uneven[1]:.2f} on the larger"
    )
    if gain > 1 + _NOTABLE:
        text += f"; where it is the limit, that alone is worth x{gain:.2f}."
        return Cause(code=code, stance=Stance.SUPPORTED, text=text)
    return Cause(
        code=code,
        stance=Stance.CONTRADICTED,
        text=f"{text}, which does not favour the larger.",
    )


def _overhead(ours: _SideFacts, theirs: _SideFacts) -> Cause:
    code = "fixed-overhead"
    what = "what each OSD does without clients (heartbeats, placement groups) leaves less for I/O"
    told = ours.pgs_per_osd, theirs.pgs_per_osd
    fewer = (
        f", and placement groups per OSD fall from {told[0][0]:.0f} to {told[1][0]:.0f}"
        if told[0] and told[1] and told[1][0] < told[0][0]
        else ""
    )
    if ours.quota is not None:
        text = (
            f"Fixed overhead: a budget of {ours.quota:g} cores a host is small, and {what}"
            f"{fewer}; a cost that is the same on every host gives no more than proportion, one "
            "that falls with their number does."
        )
        return Cause(code=code, stance=Stance.SUPPORTED if fewer else Stance.OPEN, text=text)
    text = f"Fixed overhead: where processors are the limit, {what}{fewer}; no budget is told."
    return Cause(code=code, stance=Stance.OPEN, text=text)


def _services(ours: _SideFacts, theirs: _SideFacts) -> Cause:
    code = "co-located-services"
    if ours.is_lab or theirs.is_lab:
        if ours.quota is not None and theirs.quota is not None:
            text = (
                "Co-located services: monitors, manager, MDS and the load generator run on the "
                "lab's machine, but outside the hosts' budgets, of which they take nothing."
            )
            return Cause(code=code, stance=Stance.CONTRADICTED, text=text)
        text = (
            "Co-located services: in a lab OSDs, monitors and the load generator share one "
            "machine, whose processors did not grow; what was added is not what limits."
        )
        return Cause(code=code, stance=Stance.SUPPORTED, text=text)
    if ours.ceph is None or theirs.ceph is None or not ours.hosts or not theirs.hosts:
        text = (
            "Co-located services: monitors, metadata servers or clients may take more of a smaller "
            "system's hosts; where they run is not told."
        )
        return Cause(code=code, stance=Stance.OPEN, text=text)
    shares = [
        (len(set(one.ceph.monitors.names) & set(one.hosts)), len(one.hosts))
        for one in (ours, theirs)
        if one.ceph
    ]
    text = (
        f"Co-located services: {shares[0][0]} of {shares[0][1]} hosts carry a monitor on the "
        f"smaller system, {shares[1][0]} of {shares[1][1]} on the larger"
    )
    if shares[0][0] / shares[0][1] > shares[1][0] / shares[1][1]:
        return Cause(code=code, stance=Stance.SUPPORTED, text=f"{text}.")
    # Monitors may be called otherwise than their hosts, as Rook's are.
    stance = Stance.CONTRADICTED if shares[0][0] else Stance.OPEN
    return Cause(code=code, stance=stance, text=f"{text}, by their names.")


def _fill(ours: _SideFacts, theirs: _SideFacts) -> Cause:
    code = "fill-and-age"
    if ours.ceph is None or theirs.ceph is None:
        text = "Fill and age: a fuller or older system is slower; neither is told of both."
        return Cause(code=code, stance=Stance.OPEN, text=text)
    used = [
        one.capacity.used_bytes / one.capacity.total_bytes if one.capacity.total_bytes else 0.0
        for one in (ours.ceph, theirs.ceph)
    ]
    created = ours.ceph.created, theirs.ceph.created
    born = (
        f"; created {created[0]} and {created[1]}"
        if created[0] and created[1] and created[0] != created[1]
        else ""
    )
    text = (
        f"Fill and age: {used[0]:.0%} of the smaller system's raw space is used, {used[1]:.0%} of "
        f"the larger's{born}"
    ).replace("%", " %")
    if used[0] > used[1] + _FILL:
        return Cause(code=code, stance=Stance.SUPPORTED, text=f"{text}.")
    stance = Stance.OPEN if born else Stance.CONTRADICTED
    return Cause(code=code, stance=stance, text=f"{text}.")


def _driven(speedup: Speedup, at: LevelSpeedup) -> Cause:
    """Whether the smaller system was driven as far as the larger."""
    code = "load"
    short = [_DEPTH in point.throughput.findings for point in (at.baseline, at.candidate)]
    if short[0] and not short[1]:
        text = "Load: on the smaller system fewer I/Os were in flight than asked for (the audit)."
        return Cause(code=code, stance=Stance.SUPPORTED, text=text)
    if at is speedup.peak and speedup.peaks_last[0]:
        text = (
            "Load: the smaller system's highest level is the last that was measured, so that more "
            "load may give it more."
        )
        return Cause(code=code, stance=Stance.SUPPORTED, text=text)
    top = speedup.peak.baseline if speedup.peak else at.baseline
    iops = at.baseline.usable(Metric.IOPS), top.usable(Metric.IOPS)
    if at is not speedup.peak and iops[0] and iops[1] and iops[0] < iops[1] * (1 - _NOTABLE):
        text = (
            f"Load: at this level the smaller system gives {iops[0]:,.0f} IOPS, and at another "
            f"{iops[1]:,.0f}: overload holds it back, not what it lacks."
        )
        return Cause(code=code, stance=Stance.SUPPORTED, text=text)
    text = "Load: both were driven by as many I/Os in flight as asked for, as far as is told."
    return Cause(code=code, stance=Stance.CONTRADICTED, text=text)


def _others(speedup: Speedup, differing: Conditions) -> Cause:
    code = "other-differences"
    added = {f"targets.{speedup.subject}.labels.{one.name}" for one in speedup.resources}
    found = [
        one
        for one in differing.differences
        if one.topic not in _ADDED and one.path not in added and one.target in ("", speedup.subject)
    ]
    if not found:
        unknown = ", ".join(map(visible, differing.unknown[:3]))
        ending = f"; not told of both: {unknown}" if unknown else ""
        known = bool(differing.identical)
        text = f"Other differences: none in what both inventories tell{ending}."
        if not known:
            text = "Other differences: the two have no inventories to be compared."
        return Cause(
            code=code,
            stance=Stance.CONTRADICTED if known and not unknown else Stance.OPEN,
            text=text,
        )
    shown = "; ".join(
        f"{visible(one.path)}: {visible(one.baseline)}, then {visible(one.candidate)}"
        for one in found[:3]
    )
    rest = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return Cause(
        code=code,
        stance=Stance.OPEN,
        text=f"Other differences: {shown}{rest}.",
        paths=tuple(one.path for one in found),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Superlinear:
    """`at` is the pair of levels that exceeds the added resources most clearly. `certain`: its
    interval does, else its figure alone. `causes` are candidates, those that the evidence supports
    first."""

    finding: Finding
    at: LevelSpeedup
    certain: bool
    causes: tuple[Cause, ...]


def superlinear(
    speedup: Speedup, ours: Known, theirs: Known, differing: Conditions
) -> Superlinear | None:
    """The finding on one curve of both systems; None where nothing was added that is known, or the
    throughput grew no more than it.

    `warning` where the low end of an interval exceeds the ratio of the resource that grew most by
    more than the band, at any level or at the peaks; `info` where the peaks' figure alone does: of
    several levels' figures some would, whatever the truth. Of one own trial a side the interval
    counts as far as repeats are known to scatter (REPEATS_FACTOR); figures that somebody else
    summarised are judged by the band alone, as in a comparison, and the message says so.
    """
    over = speedup.divisor
    found = exceeding(speedup.levels, speedup.peak, over) if over else None
    if over is None or found is None:
        return None
    return Superlinear(
        finding=_finding(speedup, found, over),
        at=found.at,
        certain=found.certain,
        causes=causes(speedup, found.at, ours, theirs, differing),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """Where a speed-up exceeds what was added most clearly; `levels` counts the levels whose
    figures do."""

    at: LevelSpeedup
    certain: bool
    levels: int


def exceeding(
    levels: Sequence[LevelSpeedup], peak: LevelSpeedup | None, over: Resource
) -> Excess | None:
    """The rule of `superlinear`, on numbers alone."""
    if over.ratio <= 1:
        return None
    asked = [*levels, *([peak] if peak else [])]
    sure = [one for one in asked if _low(one.judgement) > _edge(one.judgement, over)]
    at = max(sure, key=lambda one: _low(one.judgement), default=None)
    if at is None and peak is not None and _by_figure(peak.judgement, over):
        at = peak
    if at is None:
        return None
    beyond = sum(_by_figure(one.judgement, over) for one in levels)
    return Excess(at=at, certain=bool(sure), levels=beyond)


def _edge(judgement: Judgement, over: Resource) -> float:
    return over.ratio * (1 + judgement.band)


def _by_figure(judgement: Judgement, over: Resource) -> bool:
    if judgement.verdict is Verdict.NOT_COMPARABLE or judgement.ratio is None:
        return False
    return judgement.ratio > _edge(judgement, over)


def _low(judgement: Judgement) -> float:
    """The least that the speed-up is, as far as anything tells; 0 where nothing does."""
    if judgement.verdict is Verdict.NOT_COMPARABLE:
        return 0.0
    if judgement.evidence is Evidence.ONE_NUMBER:
        return judgement.ratio or 0.0
    if judgement.interval is None:
        return 0.0
    doubt = REPEATS_FACTOR if judgement.evidence is Evidence.WITHIN_RUN else 1.0
    return judgement.interval[0] / doubt


def _finding(speedup: Speedup, found: Excess, over: Resource) -> Finding:
    at, certain = found.at, found.certain
    judgement = at.judgement
    assert judgement.ratio is not None
    point = at.candidate
    peak = at is speedup.peak
    where = "at the highest level of each" if peak else f"at {point.level or 'the one level'}"
    low, high = judgement.interval or (None, None)
    said = "" if low is None else f" (95 % interval {low:.2f} to {high:.2f})"
    levels = len(speedup.levels)
    more = f" The figures are beyond it at {found.levels} of {levels} levels." if levels > 1 else ""
    verdict = (
        "more than in proportion, which more of the same hardware does not give"
        if certain
        else "which could be superlinear; more trials would tell"
    )
    message = (
        f"Throughput grew by x{judgement.ratio:.2f}{said} {where}, {visible(over.name)} by "
        f"x{over.ratio:.2f} ({over.baseline:g} to {over.candidate:g}): {verdict}.{more}"
        f"{_doubt(judgement)}"
    )
    numbers = {
        "speedup": judgement.ratio,
        "speedup_low": low,
        "speedup_high": high,
        "resource_ratio": over.ratio,
        "resource_baseline": over.baseline,
        "resource_candidate": over.candidate,
        "efficiency": judgement.ratio / over.ratio,
        "band_share": judgement.band,
        "baseline_iops": at.baseline.usable(Metric.IOPS),
        "candidate_iops": point.usable(Metric.IOPS),
        "baseline_trials": len(at.baseline.throughput.trials),
        "candidate_trials": len(point.throughput.trials),
        "levels_beyond": found.levels,
        "levels": levels,
    }
    return Finding(
        code=SUPERLINEAR,
        severity=Severity.WARNING if certain else Severity.INFO,
        target=speedup.candidate.target,
        workload=speedup.candidate.workload,
        level=point.level,
        op=speedup.candidate.op,
        evidence={name: float(value) for name, value in numbers.items() if value is not None},
        message=message,
        remedy=_remedy(judgement),
    )


def _doubt(judgement: Judgement) -> str:
    alone = (
        f" (single-trial: two single runs of one thing lie up to x{REPEATS_FACTOR:.2f} apart, and "
        "nothing here tells how far these do)"
    )
    if judgement.evidence is Evidence.ONE_NUMBER:
        return f" Judged by the figures alone{alone}."
    if judgement.evidence in (Evidence.WITHIN_RUN, Evidence.NONE):
        return f" One side has no second trial{alone}."
    return ""


def _remedy(judgement: Judgement) -> str:
    if judgement.evidence is Evidence.TRIALS:
        return (
            "Look for what else changed beside the resources, and change one thing at a time; do "
            "not extend the line to more of them."
        )
    return (
        "Repeat both systems, six trials a side, before anything is made of it; then look for what "
        "else changed beside the resources."
    )
