"""What a larger system gives beside what was added to it: per level, at the peak, and within the
same latency."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from leadline.analysis.comparison import Side
from leadline.analysis.explain.conditions import kubernetes, system
from leadline.analysis.noise import NoiseFloors
from leadline.analysis.scaling.curves import LoadCurve, LoadPoint
from leadline.analysis.scaling.knee import KneeMethod, Shape
from leadline.analysis.scaling.limits import Within, no_latency, within
from leadline.analysis.verdicts import Judgement, Pair, Sample, Samples, Verdict, judge
from leadline.analysis.workloads import unlike
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.inventory.ceph.dumps import described_lab
from leadline.inventory.ceph.model import CephInventory, Osd, pool_of
from leadline.inventory.diff.ceph import serving_osds
from leadline.inventory.host import HostInventory
from leadline.inventory.kubernetes.classes import pool_of_class
from leadline.inventory.kubernetes.models import KubernetesInventory, MayastorVolumes
from leadline.metrics import Metric
from leadline.plan.lab import LabDescription
from leadline.plan.models import LatencyLimit, Target
from leadline.plan.target_url import TargetKind

# What one system has more of than another: hosts, OSDs, processor cores, copies.

# Labels by which people say how much hardware a target has, or how often it keeps each byte; any
# other number (a delay, a version) is none of the two.
_CAPACITY = ("hosts", "nodes", "cores", "cpus", "osds", "drives", "disks", "devices", "engines")
_COPIES = ("replicas", "copies", "size", "replication")


class Kind(StrEnum):
    """`capacity` does work; `copies` make work: they are shown, and nothing is divided by them."""

    CAPACITY = "capacity"
    COPIES = "copies"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """How much of something each side has, and where it is told."""

    name: str
    kind: Kind
    baseline: float
    candidate: float
    told_by: str

    @property
    def ratio(self) -> float:
        return self.candidate / self.baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A side with what its archive tells of the system, read once. `is_lab`: one machine plays all
    its hosts; `lab` is None where nobody describes it."""

    side: Side
    ceph: CephInventory | None
    around: KubernetesInventory | None
    host: HostInventory | None
    is_lab: bool
    lab: LabDescription | None

    @classmethod
    def of(cls, side: Side) -> Known:
        plan = side.run.plan
        clusters = {plan.target(name).cluster for name in side.targets.values()} - {""}
        name = clusters.pop() if len(clusters) == 1 else ""
        planned = plan.cluster(name).lab if name else None
        try:
            told = described_lab(side.run.system_dumps("start", name)) if name else None
        except LeadlineError:
            told = None  # the section on the cluster says so
        return cls(
            side=side,
            ceph=system(side),
            around=kubernetes(side),
            host=side.run.inventory("start"),
            is_lab=planned is not None or told is not None,
            lab=told or (planned if isinstance(planned, LabDescription) else None),
        )

    def target(self, subject: str) -> Target:
        return self.side.run.plan.target(self.side.targets[subject])


def resources(ours: Known, theirs: Known, subject: str) -> tuple[Resource, ...]:
    """What both sides tell of what stands behind a subject; of what one side alone tells nothing
    can be said. In the order of what people name first."""
    found = {(one.name, one.told_by): one.value for one in _amounts(theirs, subject)}
    return tuple(
        Resource(
            name=one.name,
            kind=one.kind,
            baseline=one.value,
            candidate=other,
            told_by=one.told_by,
        )
        for one in _amounts(ours, subject)
        if (other := found.get((one.name, one.told_by))) is not None and min(one.value, other) > 0
    )


def as_told(ratio: float) -> Resource:
    """What the user says was added; published figures seldom come with an inventory."""
    return Resource(
        name="hardware", kind=Kind.CAPACITY, baseline=1.0, candidate=ratio, told_by="the user"
    )


def divisor(found: Sequence[Resource]) -> Resource | None:
    """The resource that grew most, by which a speed-up is divided: the most careful choice; None
    where nothing is known to have been added or taken away."""
    able = [one for one in found if one.kind is Kind.CAPACITY]
    most = max(able, key=lambda one: one.ratio, default=None)
    return None if most is None or most.ratio == 1 else most


def osds_of(target: Target, ceph: CephInventory) -> tuple[Osd, ...]:
    """OSDs at work that may hold data of the target."""
    pool = pool_of(ceph, target.parsed) if target.url else None
    return tuple(
        osd for osd in serving_osds(ceph, [pool.name] if pool else []) if osd.up and osd.is_in
    )


def hosts_of(osds: Iterable[Osd]) -> tuple[str, ...]:
    """The hosts that OSDs stand in, by CRUSH, else by what the daemons say."""
    return tuple(sorted({name for osd in osds if (name := osd.at("host") or osd.host)}))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Amount:
    name: str
    kind: Kind
    value: float
    told_by: str


def _amounts(known: Known, subject: str) -> Iterable[_Amount]:
    target = known.target(subject)
    if known.ceph is not None:
        yield from _of_ceph(target, known.ceph, known.around)
    yield from _of_lab(known)
    if known.around is not None:
        yield from _of_kubernetes(target, known.around)
    yield from _of_labels(target)


def _of_ceph(
    target: Target, ceph: CephInventory, around: KubernetesInventory | None
) -> Iterable[_Amount]:
    by = "Ceph's inventory"
    osds = osds_of(target, ceph)
    yield _Amount(name="hosts", kind=Kind.CAPACITY, value=len(hosts_of(osds)), told_by=by)
    yield _Amount(name="OSDs", kind=Kind.CAPACITY, value=len(osds), told_by=by)
    pool = pool_of(ceph, target.parsed) if target.url else None
    if pool is None and around is not None and target.kind is TargetKind.STORAGE_CLASS:
        pool = ceph.pool(pool_of_class(around, target.parsed.location))
    if pool is not None:
        name = "chunks of each stripe" if pool.erasure else "copies"
        yield _Amount(name=name, kind=Kind.COPIES, value=pool.size, told_by=by)


def _of_lab(known: Known) -> Iterable[_Amount]:
    """Processor cores that the OSDs of all hosts may use: never more than the machine has, which
    is what they share where no budget is set."""
    lab, host = known.lab, known.host
    if lab is None:
        return
    hosts = lab.domains * lab.hosts_per_domain
    budget = None if lab.cpu_per_host is None else hosts * lab.cpu_per_host
    cores = [one for one in (budget, host.cores if host else None) if one is not None]
    if cores:
        yield _Amount(
            name="cores for OSDs", kind=Kind.CAPACITY, value=min(cores), told_by="the lab"
        )


def _of_kubernetes(target: Target, around: KubernetesInventory) -> Iterable[_Amount]:
    by = "Kubernetes"
    ready = [node for node in around.nodes if node.ready is not False]
    yield _Amount(name="nodes", kind=Kind.CAPACITY, value=len(ready), told_by=by)
    if target.kind is not TargetKind.STORAGE_CLASS:
        return
    item = around.storage_class(target.parsed.location)
    if item is None or not isinstance(item.volumes, MayastorVolumes):
        return
    engines = [(one.ready, len(one.cores)) for one in around.io_engines]
    cores = sum(count * each for count, each in engines if count is not None)
    yield _Amount(name="I/O engine cores", kind=Kind.CAPACITY, value=cores, told_by=by)
    yield _Amount(name="disk pools", kind=Kind.CAPACITY, value=len(around.disk_pools), told_by=by)
    yield _Amount(name="replicas", kind=Kind.COPIES, value=item.volumes.replicas or 1, told_by=by)


def _of_labels(target: Target) -> Iterable[_Amount]:
    for key, text in target.labels.items():
        kind = {**dict.fromkeys(_CAPACITY, Kind.CAPACITY), **dict.fromkeys(_COPIES, Kind.COPIES)}
        try:
            value = float(text)
        except ValueError:
            continue
        if key.lower() in kind:
            yield _Amount(
                name=key, kind=kind[key.lower()], value=value, told_by="the target's labels"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """Speed-up over the ratio of the resource that grew most: 1 is in proportion."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualLatency:
    """Highest throughputs within one latency. `chosen` says where the limit comes from; None where
    the baseline has no latency that could be one.

    `judgement.ratio` is that of the two where both are known. `bound` is `at least` where the
    candidate's levels, and `at most` where the baseline's, do not reach the limit: the ratio is
    then no more than that; both: nothing can be said, and `absence` says so. `absence` also says
    why there is no ratio otherwise, else it is empty."""

    limit: LatencyLimit | None
    chosen: str
    baseline: Within
    candidate: Within
    judgement: Judgement
    efficiency: Efficiency | None
    bound: str
    absence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Speedup:
    """One curve on both systems. `levels` are closed-loop levels of equal load, by rising load;
    `baseline_alone` and `candidate_alone` are levels without a partner. `peak` holds the highest
    levels of both against each other, whatever their load: the highest of several is chosen after
    looking, on both sides. `divisor` is the resource that grew most, None where none is known."""

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
    """A curve with what is said of it, and the run it comes from."""

    run: Run
    shape: Shape
    samples: Samples
    floors: NoiseFloors

    @property
    def curve(self) -> LoadCurve:
        return self.shape.curve


def speedup(
    subject: str,
    baseline: OneSystem,
    candidate: OneSystem,
    found: tuple[Resource, ...],
    *,
    limit: LatencyLimit | None,
    band: float,
) -> Speedup:
    """Of two curves that are partners (`partners`)."""
    ours, theirs = baseline.curve, candidate.curve
    chosen = divisor(found)
    pairs = [
        (one, other) for one in ours.closed for other in theirs.closed if one.load == other.load
    ]
    peaks = baseline.shape.peak, candidate.shape.peak
    top = (peaks[0].point, peaks[1].point) if peaks[0] and peaks[1] else None
    asked = [*pairs, top] if top else pairs
    pairs_judged = judge([_pair(one, other, baseline, candidate) for one, other in asked], band)
    judged = [_believed(one) for one in pairs_judged]
    levels = [
        LevelSpeedup(
            baseline=one,
            candidate=other,
            judgement=judgement,
            efficiency=efficiency(judgement, chosen),
        )
        for (one, other), judgement in zip(asked, judged, strict=True)
    ]
    return Speedup(
        subject=subject,
        baseline=ours,
        candidate=theirs,
        resources=found,
        divisor=chosen,
        levels=tuple(levels[: len(pairs)]),
        baseline_alone=_alone(ours, [one for one, _ in pairs]),
        candidate_alone=_alone(theirs, [other for _, other in pairs]),
        peak=levels[-1] if top else None,
        equal_latency=_equal_latency(baseline, candidate, chosen, limit, band),
        peaks_last=(bool(peaks[0] and peaks[0].last), bool(peaks[1] and peaks[1].last)),
    )


def partners(ours: LoadCurve, theirs: LoadCurve) -> bool:
    """Whether two curves of one subject are of one workload and operation, and of one depth or at
    least one level of equal load."""
    if (ours.workload, ours.op) != (theirs.workload, theirs.op):
        return False
    fixed = [(one.axis, one.numjobs, one.iodepth) for one in (ours, theirs)]
    loads = [{point.load for point in one.closed} for one in (ours, theirs)]
    return bool(loads[0] and loads[1]) and (fixed[0] == fixed[1] or bool(loads[0] & loads[1]))


def efficiency(judgement: Judgement, over: Resource | None) -> Efficiency | None:
    """A speed-up as a share of what was added."""
    if judgement.ratio is None or over is None:
        return None
    ends = judgement.interval
    return Efficiency(
        value=judgement.ratio / over.ratio,
        interval=None if ends is None else (ends[0] / over.ratio, ends[1] / over.ratio),
    )


def _pair(one: LoadPoint, other: LoadPoint, baseline: OneSystem, candidate: OneSystem) -> Pair:
    sides = ((one, baseline), (other, candidate))
    samples = [side.samples.of(point.throughput, side.curve.op) for point, side in sides]
    workloads = [side.run.plan.cells[point.cell].workload for point, side in sides]
    # Peaks may lie at different loads, which is no other workload.
    differs = unlike(workloads[0], workloads[1]) if one.load == other.load else ()
    keys = [(point.figure.workload, point.level, side.curve.op) for point, side in sides]
    noise = [
        side.floors.get((*key, Metric.IOPS), 0.0)
        for (_, side), key in zip(sides, keys, strict=True)
    ]
    return Pair(
        metric=Metric.IOPS,
        baseline=samples[0],
        candidate=samples[1],
        noise=max(noise),
        differs=("workload-differs",) if differs else (),
    )


def _believed(judgement: Judgement) -> Judgement:
    """Figures that are refused, or of another workload, have no ratio."""
    if judgement.verdict is not Verdict.NOT_COMPARABLE:
        return judgement
    return replace(judgement, ratio=None, interval=None)


def _alone(curve: LoadCurve, matched: Sequence[LoadPoint]) -> tuple[str, ...]:
    return tuple(one.level for one in curve.closed if one not in matched)


# --- within the same latency --------------------------------------------------------------------


def _equal_latency(
    baseline: OneSystem,
    candidate: OneSystem,
    over: Resource | None,
    limit: LatencyLimit | None,
    band: float,
) -> EqualLatency:
    chosen = "asked for"
    if limit is None:
        limit, chosen = _reference(baseline.shape)
    if limit is None:
        reason = no_latency(baseline.curve, Metric.LATENCY_P99) or "no level to hold both to"
        ours = theirs = Within(iops=None, absence=reason, sample=Sample(value=None))
    else:
        ours = within(baseline.curve, limit, baseline.samples)
        theirs = within(candidate.curve, limit, candidate.samples)
    absence = _absence(ours, theirs)
    empty = Sample(value=None)
    pair = Pair(
        metric=Metric.IOPS,
        baseline=empty if absence else ours.sample,
        candidate=empty if absence else theirs.sample,
    )
    (judgement,) = judge([pair], band)
    bound = "at least" if theirs.at_least else "at most" if ours.at_least else ""
    return EqualLatency(
        limit=limit,
        chosen=chosen,
        baseline=ours,
        candidate=theirs,
        judgement=judgement,
        efficiency=efficiency(judgement, over),
        bound="" if absence else bound,
        absence=absence,
    )


def _absence(ours: Within, theirs: Within) -> str:
    for name, one in (("baseline", ours), ("candidate", theirs)):
        if one.absence:
            return f"{name}: {one.absence}"
    if ours.at_least and theirs.at_least:
        return "no level of either passes the limit: higher loads would tell"
    return ""


def _reference(shape: Shape) -> tuple[LatencyLimit | None, str]:
    """The latency that both are held to: the p99, else the mean, at the knee, else at the peak."""
    knee = shape.knee(KneeMethod.GAIN)
    at_knee = [
        one for one in shape.curve.closed if knee.load is not None and one.level == knee.level
    ]
    at_peak = [shape.peak.point] if shape.peak else []
    for points, where in ((at_knee, "knee"), (at_peak, "peak")):
        for metric, name in ((Metric.LATENCY_P99, "p99"), (Metric.LATENCY_MEAN, "mean")):
            for point in points:
                value = point.usable(metric)
                if value:
                    level = f" ({point.level})" if point.level else ""
                    limit = LatencyLimit(metric=metric, below_s=value)
                    return limit, f"the baseline's {name} at its {where}{level}"
    return None, ""
