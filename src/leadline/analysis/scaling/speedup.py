"""Speed-up of a larger system and its efficiency: per level, at the peak, at equal latency."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from leadline.analysis.comparison import Side
from leadline.analysis.explain.conditions import kubernetes, only_cluster, recorded_lab, system
from leadline.analysis.noise import NoiseFloors
from leadline.analysis.samples import Samples
from leadline.analysis.scaling.curves import LoadCurve, LoadPoint
from leadline.analysis.scaling.knee import KneeMethod, Shape
from leadline.analysis.scaling.limits import (
    NoThroughput,
    NoThroughputReason,
    Within,
    no_latency,
    within,
)
from leadline.analysis.verdicts import BETWEEN_RUNS, Judgement, Pair, Sample, Verdict, judge
from leadline.analysis.workloads import workload_differences
from leadline.archive.reader import Run
from leadline.inventory.ceph.model import CephInventory, Osd
from leadline.inventory.diff.ceph import serving_osds
from leadline.inventory.facts import find_pool
from leadline.inventory.host import HostInventory
from leadline.inventory.kubernetes.models import KubernetesInventory, MayastorVolumes
from leadline.metrics import Metric
from leadline.plan.facts import ClusterFacts, TargetFacts
from leadline.plan.lab import LabDescription
from leadline.plan.labels import is_number
from leadline.plan.models import LatencyLimit, Target
from leadline.plan.target_url import TargetKind
from leadline.plan.workload import Workload

# --- resources: hosts, OSDs, processor cores, copies --------------------------------------------


class Kind(StrEnum):
    """`capacity` does work. `copies` cause work: no speed-up is divided by them."""

    CAPACITY = "capacity"
    COPIES = "copies"


# Labels that state a target's hardware or its number of copies. Other numbers (a delay, a version)
# are neither.
_CAPACITY = ("hosts", "nodes", "cores", "cpus", "osds", "drives", "disks", "devices", "engines")
_COPIES = ("replicas", "copies", "size", "replication")
_LABELS = {**dict.fromkeys(_CAPACITY, Kind.CAPACITY), **dict.fromkeys(_COPIES, Kind.COPIES)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """The amount of a resource on each system; `told_by` is where it was read."""

    name: str
    kind: Kind
    baseline: float
    candidate: float
    told_by: str

    @property
    def ratio(self) -> float:
        return self.candidate / self.baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemFacts:
    """A system's inventories and plan, read once from its archive. `is_lab`: one machine runs all
    its hosts; `lab` is None where the archive has no description of the lab."""

    side: Side
    ceph: CephInventory | None
    around: KubernetesInventory | None
    host: HostInventory | None
    is_lab: bool
    lab: LabDescription | None

    @classmethod
    def read(cls, side: Side) -> SystemFacts:
        name = only_cluster(side)
        planned = side.run.plan.cluster(name).lab if name else None
        described = recorded_lab(side)
        return cls(
            side=side,
            ceph=system(side),
            around=kubernetes(side),
            host=side.run.inventory("start"),
            is_lab=planned is not None or described is not None,
            lab=described or (planned if isinstance(planned, LabDescription) else None),
        )

    def target(self, subject: str) -> Target:
        return self.side.run.plan.target(self.side.targets[subject])

    def osds(self, subject: str) -> tuple[Osd, ...]:
        """Return the OSDs that are up and in and may hold data of a target."""
        if self.ceph is None:
            return ()
        target = self.target(subject)
        pool = find_pool(self.ceph, target, self.around)
        serving = serving_osds(self.ceph, [pool.name] if pool else [])
        return tuple(osd for osd in serving if osd.up and osd.is_in)

    @property
    def cpu_per_host(self) -> float | None:
        """Cores for the OSDs of each host of a lab; None without such a budget."""
        return self.lab.cpu_per_host if self.lab else None


def resources(baseline: SystemFacts, candidate: SystemFacts, subject: str) -> tuple[Resource, ...]:
    """Return the resources behind a subject that both systems report, the most usual first."""
    found = dict(_amounts(candidate, subject))
    return tuple(
        Resource(name=key[0], kind=key[1], told_by=key[2], baseline=value, candidate=found[key])
        for key, value in _amounts(baseline, subject)
        if key in found and min(value, found[key]) > 0
    )


def stated_resource(ratio: float) -> Resource:
    """Return the added hardware as the user states it: published figures rarely come with an
    inventory."""
    return Resource(
        name="hardware", kind=Kind.CAPACITY, baseline=1.0, candidate=ratio, told_by="the user"
    )


def divisor(found: Sequence[Resource]) -> Resource | None:
    """Return the resource that grew most, which divides a speed-up: the most conservative choice.
    None where no known resource changed."""
    capacity = [resource for resource in found if resource.kind is Kind.CAPACITY]
    most = max(capacity, key=lambda resource: resource.ratio, default=None)
    return None if most is None or most.ratio == 1 else most


def hosts_of(osds: Iterable[Osd]) -> tuple[str, ...]:
    """Return the hosts of OSDs by CRUSH, else as the daemons report them."""
    return tuple(sorted({name for osd in osds if (name := osd.at("host") or osd.host)}))


# Name, kind and origin of a resource, and its amount.
_Amount = tuple[tuple[str, Kind, str], float]


def _amounts(known: SystemFacts, subject: str) -> Iterator[_Amount]:
    target = known.target(subject)
    if known.ceph is not None:
        yield from _of_ceph(target, known.osds(subject), known.ceph, known.around)
    yield from _of_facts(known, target)
    yield from _of_lab(known)
    if known.around is not None:
        yield from _of_kubernetes(target, known.around)
    for key, text in target.labels.items():
        kind = _LABELS.get(key.lower())
        if kind is not None and is_number(text):
            yield (key, kind, "the target's labels"), float(text)


def _of_ceph(
    target: Target, osds: Sequence[Osd], ceph: CephInventory, around: KubernetesInventory | None
) -> Iterator[_Amount]:
    by = "Ceph's inventory"
    yield ("hosts", Kind.CAPACITY, by), len(hosts_of(osds))
    yield ("OSDs", Kind.CAPACITY, by), len(osds)
    pool = find_pool(ceph, target, around)
    if pool is not None:
        name = "chunks of each stripe" if pool.erasure else "copies"
        yield (name, Kind.COPIES, by), pool.size


def _of_facts(known: SystemFacts, target: Target) -> Iterator[_Amount]:
    """What the user gave with imported results, and no inventory reports."""
    name = only_cluster(known.side)
    given = known.side.run.plan.cluster(name).facts if name else None
    cluster, storage = given or ClusterFacts(), target.facts or TargetFacts()
    counts: dict[tuple[str, Kind], float | None] = {("cores", Kind.CAPACITY): storage.cores}
    if known.ceph is None:
        counts[("hosts", Kind.CAPACITY)] = cluster.nodes
        counts[("OSDs", Kind.CAPACITY)] = cluster.osds
        copies = "chunks of each stripe" if storage.chunks else "copies"
        counts[(copies, Kind.COPIES)] = storage.size
    for (resource, kind), count in counts.items():
        if count is not None:
            yield (resource, kind, "the user's facts"), float(count)


def _of_lab(known: SystemFacts) -> Iterator[_Amount]:
    """Processor cores that the OSDs of all hosts may use: at most those of the machine, which they
    share where no budget is set."""
    lab, host = known.lab, known.host
    if lab is None:
        return
    hosts = lab.domains * lab.hosts_per_domain
    budget = None if lab.cpu_per_host is None else hosts * lab.cpu_per_host
    cores = [one for one in (budget, host.cores if host else None) if one is not None]
    if cores:
        yield ("cores for OSDs", Kind.CAPACITY, "the lab"), min(cores)


def _of_kubernetes(target: Target, around: KubernetesInventory) -> Iterator[_Amount]:
    by = "Kubernetes"
    yield ("nodes", Kind.CAPACITY, by), sum(node.ready is not False for node in around.nodes)
    if target.kind is not TargetKind.STORAGE_CLASS:
        return
    item = around.storage_class(target.parsed.location)
    if item is None or not isinstance(item.volumes, MayastorVolumes):
        return
    cores = sum((engine.ready or 0) * len(engine.cores) for engine in around.io_engines)
    yield ("I/O engine cores", Kind.CAPACITY, by), cores
    yield ("disk pools", Kind.CAPACITY, by), len(around.disk_pools)
    yield ("replicas", Kind.COPIES, by), item.volumes.replicas or 1


# --- speed-ups ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """Speed-up divided by the ratio of the resource that grew most; 1 is proportional."""

    value: float
    interval: tuple[float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelSpeedup:
    """Throughput of two levels: `judgement.ratio` = candidate / baseline with its interval,
    evidence and reasons. `efficiency` is None without a ratio or a resource to divide by."""

    baseline: LoadPoint
    candidate: LoadPoint
    judgement: Judgement
    efficiency: Efficiency | None


class Bound(StrEnum):
    """What a ratio at equal latency is: exact, or a bound where the candidate's (`at least`) or the
    baseline's (`at most`) levels do not reach the limit."""

    EXACT = ""
    AT_LEAST = "at least"
    AT_MOST = "at most"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOrigin:
    """Where a latency limit comes from: the request (`metric` is None), or the baseline's latency
    at a level, which is its knee or its peak."""

    metric: Metric | None = None
    at_knee: bool = False
    level: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoEqualLatency:
    """Why there is no ratio at equal latency: a system without a throughput within the limit
    (`side` and `cause`); both None: no level of either system exceeds the limit."""

    side: SystemRole | None = None
    cause: NoThroughput | None = None


class SystemRole(StrEnum):
    BASELINE = "baseline"
    CANDIDATE = "candidate"


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualLatency:
    """Highest throughputs within one latency. `limit` is None where the baseline has no latency
    to hold both systems to; `chosen` is its origin.

    `judgement.ratio` is set where both throughputs are known. `bound` is set where the levels of
    one system do not reach the limit, so that the ratio is only a bound. `absence` is set where
    there is no ratio."""

    limit: LatencyLimit | None
    chosen: LimitOrigin | None
    baseline: Within
    candidate: Within
    judgement: Judgement
    efficiency: Efficiency | None
    bound: Bound
    absence: NoEqualLatency | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Speedup:
    """One curve on both systems. `levels` are closed-loop levels of equal load, by rising load;
    `baseline_alone` and `candidate_alone` are levels without a partner. `peak` compares the highest
    levels of both, whatever their load. `divisor` is the resource that grew most, None where none
    is known. `peaks_last`: whether the peaks of baseline and candidate are their last levels."""

    subject: str
    baseline: LoadCurve
    candidate: LoadCurve
    resources: tuple[Resource, ...]
    divisor: Resource | None
    levels: tuple[LevelSpeedup, ...]
    baseline_alone: tuple[str, ...]
    candidate_alone: tuple[str, ...]
    peak: LevelSpeedup | None
    equal_latency: EqualLatency
    peaks_last: tuple[bool, bool] = (False, False)

    @property
    def label(self) -> str:
        return self.candidate.label


@dataclass(frozen=True, slots=True, kw_only=True)
class OneSystem:
    """One system's curve with its shape and the run it comes from."""

    run: Run
    shape: Shape
    samples: Samples
    floors: NoiseFloors

    @property
    def curve(self) -> LoadCurve:
        return self.shape.curve

    def sample(self, point: LoadPoint) -> Sample:
        return self.samples.sample(point.throughput, self.curve.op)

    def workload(self, point: LoadPoint) -> Workload:
        return self.run.plan.cells[point.cell].workload

    def noise(self, point: LoadPoint) -> float:
        where = (point.figure.workload, point.level, self.curve.op, Metric.IOPS)
        return self.floors.get(where, 0.0)


def speedup(
    subject: str,
    baseline: OneSystem,
    candidate: OneSystem,
    found: tuple[Resource, ...],
    *,
    limit: LatencyLimit | None,
    band: float,
    between_runs: float = BETWEEN_RUNS,
) -> Speedup:
    """Compute the speed-up between two curves that are partners (`partners`); `band` is the
    equivalence margin, `between_runs` the standard deviation of a system between runs, as
    shares."""
    first, second = baseline.curve, candidate.curve
    chosen = divisor(found)
    pairs = [
        (one, other) for one in first.closed for other in second.closed if one.load == other.load
    ]
    peaks = baseline.shape.peak, candidate.shape.peak
    top = (peaks[0].point, peaks[1].point) if peaks[0] and peaks[1] else None
    points = [*pairs, top] if top else pairs
    judgements = judge(
        [_pair(one, other, baseline, candidate) for one, other in points],
        band,
        between_runs=between_runs,
    )
    # Figures that are refused or of different workloads have no ratio.
    usable = [
        replace(judgement, ratio=None, interval=None)
        if judgement.verdict is Verdict.NOT_COMPARABLE
        else judgement
        for judgement in judgements
    ]
    levels = [
        LevelSpeedup(
            baseline=one,
            candidate=other,
            judgement=judgement,
            efficiency=efficiency(judgement, chosen),
        )
        for (one, other), judgement in zip(points, usable, strict=True)
    ]
    return Speedup(
        subject=subject,
        baseline=first,
        candidate=second,
        resources=found,
        divisor=chosen,
        levels=tuple(levels[: len(pairs)]),
        baseline_alone=_alone(first, [one for one, _ in pairs]),
        candidate_alone=_alone(second, [other for _, other in pairs]),
        peak=levels[-1] if top else None,
        equal_latency=_equal_latency(
            baseline, candidate, chosen, limit, band=band, between_runs=between_runs
        ),
        peaks_last=(bool(peaks[0] and peaks[0].last), bool(peaks[1] and peaks[1].last)),
    )


def partners(baseline: LoadCurve, candidate: LoadCurve) -> bool:
    """Whether two curves of a subject share workload and operation, and either the depth or a level
    of equal load."""
    if (baseline.workload, baseline.op) != (candidate.workload, candidate.op):
        return False
    fixed = [(one.axis, one.numjobs, one.iodepth) for one in (baseline, candidate)]
    loads = [{point.load for point in one.closed} for one in (baseline, candidate)]
    return bool(loads[0] and loads[1]) and (fixed[0] == fixed[1] or bool(loads[0] & loads[1]))


def efficiency(judgement: Judgement, over: Resource | None) -> Efficiency | None:
    """Compute a speed-up as a share of the added resource."""
    if judgement.ratio is None or over is None:
        return None
    ends = judgement.interval
    return Efficiency(
        value=judgement.ratio / over.ratio,
        interval=None if ends is None else (ends[0] / over.ratio, ends[1] / over.ratio),
    )


def _pair(one: LoadPoint, other: LoadPoint, baseline: OneSystem, candidate: OneSystem) -> Pair:
    # Peaks may lie at different loads of one workload.
    equal = one.load == other.load
    differs = equal and workload_differences(baseline.workload(one), candidate.workload(other))
    return Pair(
        metric=Metric.IOPS,
        baseline=baseline.sample(one),
        candidate=candidate.sample(other),
        noise=max(baseline.noise(one), candidate.noise(other)),
        differs=("workload-differs",) if differs else (),
    )


def _alone(curve: LoadCurve, matched: Sequence[LoadPoint]) -> tuple[str, ...]:
    return tuple(level.level for level in curve.closed if level not in matched)


# --- at equal latency ---------------------------------------------------------------------------


def _equal_latency(
    baseline: OneSystem,
    candidate: OneSystem,
    over: Resource | None,
    limit: LatencyLimit | None,
    *,
    band: float,
    between_runs: float,
) -> EqualLatency:
    empty = Sample(value=None)
    origin: LimitOrigin | None = LimitOrigin()
    if limit is None:
        limit, origin = _reference(baseline.shape)
    if limit is None:
        # Only the peak and the knee are references: with a latency elsewhere there is none either.
        reason = no_latency(baseline.curve, Metric.LATENCY_P99) or NoThroughput(
            reason=NoThroughputReason.LATENCY_MISSING
        )
        first = second = Within(iops=None, absence=reason, sample=empty)
    else:
        first = within(baseline.curve, limit, baseline.samples)
        second = within(candidate.curve, limit, candidate.samples)
    absence = _absence(first, second)
    sides = (first.sample, second.sample) if absence is None else (empty, empty)
    pair = Pair(metric=Metric.IOPS, baseline=sides[0], candidate=sides[1])
    (judgement,) = judge([pair], band, between_runs=between_runs)
    bound = Bound.AT_MOST if first.at_least else Bound.EXACT
    if second.at_least:
        bound = Bound.AT_LEAST
    return EqualLatency(
        limit=limit,
        chosen=origin,
        baseline=first,
        candidate=second,
        judgement=judgement,
        efficiency=efficiency(judgement, over),
        bound=bound if absence is None else Bound.EXACT,
        absence=absence,
    )


def _absence(baseline: Within, candidate: Within) -> NoEqualLatency | None:
    for side, throughput in ((SystemRole.BASELINE, baseline), (SystemRole.CANDIDATE, candidate)):
        if throughput.absence is not None:
            return NoEqualLatency(side=side, cause=throughput.absence)
    return NoEqualLatency() if baseline.at_least and candidate.at_least else None


def _reference(shape: Shape) -> tuple[LatencyLimit | None, LimitOrigin | None]:
    """The latency that both systems are held to: the baseline's p99, else its mean, at the knee,
    else at the peak."""
    knee = shape.knee(KneeMethod.GAIN)
    at_knee = [
        point
        for point in shape.curve.closed
        if knee.load is not None and (point.level or None) == knee.level
    ]
    at_peak = [shape.peak.point] if shape.peak else []
    for is_knee, points in ((True, at_knee), (False, at_peak)):
        for metric in (Metric.LATENCY_P99, Metric.LATENCY_MEAN):
            for point in points:
                value = point.usable(metric)
                if value:
                    origin = LimitOrigin(metric=metric, at_knee=is_knee, level=point.level)
                    return LatencyLimit(metric=metric, below_s=value), origin
    return None, None
