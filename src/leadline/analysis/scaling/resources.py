"""What one system has more of than another: hosts, OSDs, processor cores, copies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from leadline.analysis.comparison import Side
from leadline.analysis.conditions import kubernetes, system
from leadline.errors import LeadlineError
from leadline.inventory.ceph import CephInventory, Osd
from leadline.inventory.differences.clusters import serving
from leadline.inventory.kubernetes.models import KubernetesInventory
from leadline.inventory.kubernetes.target_class import pool_of_class
from leadline.inventory.kubernetes.volumes import MayastorVolumes
from leadline.inventory.lab import described_lab
from leadline.inventory.models import HostInventory
from leadline.inventory.target_pool import pool_of
from leadline.plan.lab_description import LabDescription
from leadline.plan.models import Target
from leadline.plan.target_url import TargetKind

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
    return tuple(osd for osd in serving(ceph, [pool.name] if pool else []) if osd.up and osd.is_in)


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
