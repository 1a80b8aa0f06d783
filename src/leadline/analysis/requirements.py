"""Requirements of a recommendation: the protection of targets, and what they do not meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from leadline import errors
from leadline.analysis.figures import CellFigure, MetricFigure
from leadline.archive.reader import Run
from leadline.audit.physics import NETWORK_FILESYSTEMS
from leadline.errors import LeadlineError
from leadline.findings import Severity
from leadline.inventory.ceph.model import CephInventory
from leadline.inventory.facts import target_facts
from leadline.inventory.host import HostInventory
from leadline.inventory.kubernetes.models import KubernetesInventory
from leadline.metrics import Op
from leadline.plan.facts import LEVELS, Access
from leadline.plan.models import LatencyLimit, Target, parse_latency_limit
from leadline.plan.target_url import TargetKind
from leadline.text import did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """How a target protects its data, by `inventory.facts`; None is unknown.

    `copies` of a replicated pool; data and coding chunks (k, m) of an erasure-coded one.
    `failure_domain` is the CRUSH level that no two copies or chunks share. `failures_survived`
    counts the failure domains that can be lost without loss of data, `failures_writable` those with
    which I/O continues. `raw_per_stored` is raw bytes per stored byte. `encrypted_at_rest`: True
    where every OSD of the pool encrypts. `access` are values of `Access`. `price` of a stored TiB,
    from the user's facts."""

    pool: str | None = None
    copies: int | None = None
    data_chunks: int | None = None
    coding_chunks: int | None = None
    failure_domain: str | None = None
    failures_survived: int | None = None
    failures_writable: int | None = None
    raw_per_stored: float | None = None
    encrypted_at_rest: bool | None = None
    access: tuple[str, ...] | None = None
    price: float | None = None

    @property
    def known(self) -> bool:
        return self.failures_survived is not None


def protections(run: Run) -> Mapping[str, Protection]:
    """Return the protection of every target of the plan, by its name."""
    host = run.inventory("start")
    clusters: dict[str, tuple[CephInventory | None, KubernetesInventory | None]] = {}
    for cluster in run.plan.clusters:
        # The inventory section reports dumps that cannot be read.
        with suppress(LeadlineError):
            name = cluster.name
            clusters[name] = run.cluster("start", name), run.kubernetes("start", name)
    return {
        target.name: _protection(target, *clusters.get(target.cluster, (None, None)), host=host)
        for target in run.plan.targets
    }


def _protection(
    target: Target,
    inventory: CephInventory | None,
    around: KubernetesInventory | None = None,
    *,
    host: HostInventory | None = None,
) -> Protection:
    known = target_facts(inventory, target, around)
    access = _access(target, host)
    access = known.access if access is None else access
    size, chunks = known.size, known.chunks
    if size is None:
        return Protection(
            pool=known.pool,
            failure_domain=known.failure_domain,
            raw_per_stored=known.raw_rate,
            encrypted_at_rest=known.encrypted,
            access=access,
            price=known.price,
        )
    losses = chunks[1] if chunks else size - 1
    writable = None if known.min_size is None else max(0, min(losses, size - known.min_size))
    return Protection(
        pool=known.pool,
        copies=known.copies,
        data_chunks=chunks[0] if chunks else None,
        coding_chunks=chunks[1] if chunks else None,
        failure_domain=known.failure_domain,
        failures_survived=losses,
        failures_writable=writable if losses else 0,
        raw_per_stored=known.raw_rate,
        encrypted_at_rest=known.encrypted,
        access=access,
        price=known.price,
    )


def _access(target: Target, host: HostInventory | None) -> tuple[str, ...] | None:
    if not target.url:
        return None
    both = (Access.RWO, Access.RWX)
    kind = target.parsed.kind
    if kind is TargetKind.CEPHFS:
        return both
    if kind is TargetKind.RADOS:
        return ()
    if kind is TargetKind.HOSTS:
        return None  # the storage behind the hosts is unknown
    if kind is TargetKind.DIR:
        mounts = (
            [mounted.mount for mounted in host.targets if mounted.target == target.name]
            if host
            else []
        )
        filesystem = mounts[0].filesystem if mounts and mounts[0] else None
        if filesystem is None:
            return None
        return both if filesystem in NETWORK_FILESYSTEMS else (Access.RWO,)
    return (Access.RWO,)


_KINDS = ("survive", "access", "encrypted")
_LATENCY = "latency"
SURVIVE = ("osd", "host", "rack", "zone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One of `survive=LEVEL`, `access=MODE`, `encrypted` (`value` empty), and a latency limit such
    as `write p99<10ms`, whose `limit` holds for every trial of the use's I/O; `workload` and `op`
    narrow it."""

    kind: str
    value: str = ""
    limit: LatencyLimit | None = None
    workload: str = ""
    op: Op | None = None

    def __str__(self) -> str:
        if self.limit is not None:
            return " ".join(filter(None, (self.workload, self.op or "", str(self.limit))))
        return f"{self.kind}={self.value}" if self.value else self.kind

    def check(self, given: Protection) -> UnmetCause | None:
        """Return why a target does not meet the requirement, None where it does. An unknown
        property does not meet it."""
        if self.kind == "survive":
            return _survival(given, self.value)
        if self.kind == "access":
            if given.access is None:
                return UnmetCause.ACCESS_UNKNOWN
            if self.value in given.access:
                return None
            return UnmetCause.ONE_NODE if given.access else UnmetCause.NOT_MOUNTABLE
        # A cluster knows the keys that its monitors keep; an operator keeps keys elsewhere.
        if given.encrypted_at_rest is None:
            return UnmetCause.ENCRYPTION_UNKNOWN
        return None if given.encrypted_at_rest else UnmetCause.NOT_ENCRYPTED

    def unmet(self, given: Protection, figures: Sequence[CellFigure]) -> Unmet | None:
        """Return how a target with these figures of the use's I/O does not meet the requirement;
        None where it does."""
        if self.limit is None:
            cause = self.check(given)
            return None if cause is None else Unmet(requirement=self, cause=cause)
        tested = [
            figure.metric(self.limit.metric)
            for figure in figures
            if self.op in (None, figure.op) and self.workload in ("", figure.workload)
        ]
        values = [
            None if figure.severity is Severity.ERROR else value
            for figure in tested
            for value in _every_trial(figure)
        ]
        known = [value for value in values if value is not None]
        if any(value >= self.limit.below_s for value in known):
            return Unmet(requirement=self, cause=UnmetCause.LATENCY_ABOVE, latency_s=max(known))
        if not known or len(known) < len(values):
            return Unmet(requirement=self, cause=UnmetCause.LATENCY_UNKNOWN)
        return None


def _every_trial(figure: MetricFigure) -> tuple[float | None, ...]:
    """Return the values of all trials and that of the cell, if it has one: percentiles of imported
    trials have no histograms to merge."""
    trials = tuple(trial.value for trial in figure.trials)
    return trials if figure.value is None and trials else (figure.value, *trials)


class UnmetCause(StrEnum):
    """Why a target does not meet a requirement, or cannot be chosen."""

    PROTECTION_UNKNOWN = "protection-unknown"
    NO_SECOND_COPY = "no-second-copy"
    DOMAIN_UNKNOWN = "domain-unknown"
    DOMAIN_TOO_SMALL = "domain-too-small"
    ACCESS_UNKNOWN = "access-unknown"
    NOT_MOUNTABLE = "not-mountable"
    ONE_NODE = "one-node"
    ENCRYPTION_UNKNOWN = "encryption-unknown"
    NOT_ENCRYPTED = "not-encrypted"
    LATENCY_ABOVE = "latency-above"
    LATENCY_UNKNOWN = "latency-unknown"
    IMPOSED_CONDITION = "imposed-condition"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmet:
    """A requirement that a target does not meet. `same_as` is the target that it equals except for
    a condition of the experiment (cause IMPOSED_CONDITION); `latency_s` the highest latency of a
    trial (cause LATENCY_ABOVE)."""

    requirement: Requirement
    cause: UnmetCause
    same_as: str = ""
    latency_s: float | None = None


def _survival(given: Protection, level: str) -> UnmetCause | None:
    """Return why data may be lost with one bucket of a CRUSH level; None where none is."""
    if given.failures_survived is None:
        return UnmetCause.PROTECTION_UNKNOWN
    if given.failures_survived == 0:
        return UnmetCause.NO_SECOND_COPY
    if given.failure_domain not in LEVELS:
        return UnmetCause.DOMAIN_UNKNOWN
    large_enough = LEVELS.index(given.failure_domain) >= LEVELS.index(level)
    return None if large_enough else UnmetCause.DOMAIN_TOO_SMALL


def parse_requirements(texts: Sequence[str]) -> tuple[Requirement, ...]:
    """Parse the values of `--require`, each a list with commas.

    Raises LeadlineError(`usage`) with the nearest valid word.
    """
    found = [_parsed(part.strip()) for text in texts for part in text.split(",") if part.strip()]
    return tuple(dict.fromkeys(found))


def _parsed(text: str) -> Requirement:
    if "<" in text:
        return _latency_limit(text)
    kind, _, value = (part.strip().lower() for part in text.partition("="))
    if kind not in _KINDS:
        raise _unknown(text, "a requirement", kind, _KINDS)
    known = {
        "survive": (*SURVIVE, *(level for level in LEVELS if level not in SURVIVE)),
        "access": tuple(access.value for access in Access),
        "encrypted": ("",),
    }[kind]
    if value not in known:
        shown = SURVIVE if kind == "survive" else known
        if kind == "encrypted":
            raise LeadlineError(errors.USAGE, "'encrypted' takes no value", hint="write encrypted")
        raise _unknown(text, kind, value, shown)
    return Requirement(kind=kind, value=value)


def _latency_limit(text: str) -> Requirement:
    """Parse `[WORKLOAD] [read|write|total] METRIC<TIME`. Raises LeadlineError (`usage`)."""
    words, _, time = text.partition("<")
    *where, metric = words.split() or [""]
    try:
        limit = parse_latency_limit(f"{metric}<{time.strip()}")
    except ValueError as error:
        raise LeadlineError(
            errors.USAGE,
            f"the requirement {text!r} is not understood: {error}",
            hint="write it as '[WORKLOAD] [read|write|total] p99<10ms'",
        ) from error
    op = next((Op(word.lower()) for word in where if word.lower() in set(Op)), None)
    workload = " ".join(word for word in where if word.lower() not in set(Op))
    return Requirement(kind=_LATENCY, limit=limit, op=op, workload=workload)


def _unknown(text: str, what: str, word: str, known: Sequence[str]) -> LeadlineError:
    return LeadlineError(
        errors.USAGE,
        f"the requirement {text!r} is not understood",
        context=[
            f"{what}: {', '.join(known)}",
            "forms: survive=osd|host|rack|zone, access=rwo|rwx, encrypted, 'write p99<10ms'",
        ],
        hint=did_you_mean(word, known, "`leadline recommend --help`", cutoff=0.5),
    )
