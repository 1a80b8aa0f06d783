"""Which target to use, why, what it costs, and what would change the answer."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from leadline import errors
from leadline.analysis.figures import CellFigure
from leadline.analysis.objectives import Access, UseCase
from leadline.analysis.ranking import Ranking, Standing
from leadline.analysis.verdicts import Evidence, Judgement, Verdict
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.findings import Severity
from leadline.inventory.ceph.model import CephInventory, Crypt, Pool, pool_of
from leadline.inventory.host import HostInventory
from leadline.plan.models import Target
from leadline.plan.target_url import TargetKind
from leadline.text import visible

# What a target promises besides speed: failures survived, raw space, access, encryption.
#  All of it from the inventory of the run's clusters; what that does not tell is unknown, never
# assumed. None is "not known" throughout.

# CRUSH's levels as Ceph makes them, the smallest first.
LEVELS = (
    "osd", "host", "chassis", "rack", "row", "pdu", "pod", "room", "datacenter", "zone", "region",
)  # fmt: skip
_SHARED_FILESYSTEMS = ("ceph", "fuse.ceph", "fuse.ceph-fuse", "nfs", "nfs4", "cifs", "smb3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """`copies` of a replicated pool, `data` and `coding` chunks of an erasure-coded one (k, m).
    `domain` is the CRUSH level that copies or chunks do not share. `losses` counts the domains that
    may be lost with no data lost, `writable` those with which I/O goes on. `overhead` is raw bytes
    per stored byte. `at_rest`: True where every OSD of the pool encrypts."""

    pool: str = ""
    copies: int | None = None
    data: int | None = None
    coding: int | None = None
    domain: str | None = None
    losses: int | None = None
    writable: int | None = None
    overhead: float | None = None
    at_rest: bool | None = None
    access: tuple[Access, ...] | None = None

    @property
    def known(self) -> bool:
        return self.losses is not None

    def survives(self, level: str) -> bool | None:
        """Whether no data is lost with any one bucket of a level."""
        if self.losses is None:
            return None
        if self.losses == 0:
            return False
        if self.domain not in LEVELS:
            return None
        return LEVELS.index(self.domain) >= LEVELS.index(level)


def protections(run: Run) -> Mapping[str, Protection]:
    """By target, for every target of the plan."""
    clusters: dict[str, CephInventory] = {}
    for cluster in run.plan.clusters:
        try:
            inventory = run.cluster("start", cluster.name)
        except LeadlineError:
            continue  # dumps that cannot be understood are told where they are shown
        if inventory is not None:
            clusters[cluster.name] = inventory
    host = run.inventory("start")
    return {
        target.name: _protection(target, clusters.get(target.cluster), host)
        for target in run.plan.targets
    }


def _protection(
    target: Target, inventory: CephInventory | None, host: HostInventory | None
) -> Protection:
    access = _access(target, host)
    pool = pool_of(inventory, target.parsed) if inventory and target.url else None
    if pool is None or inventory is None:
        return Protection(access=access)
    code = pool.erasure
    losses = code.m if code else pool.size - 1
    return Protection(
        pool=pool.name,
        copies=None if code else pool.size,
        data=code.k if code else None,
        coding=code.m if code else None,
        domain=pool.rule.failure_domain if pool.rule else None,
        losses=losses,
        writable=max(0, min(losses, pool.size - pool.min_size)),
        overhead=pool.raw_rate,
        at_rest=_at_rest(pool, inventory),
        access=access,
    )


def _access(target: Target, host: HostInventory | None) -> tuple[Access, ...] | None:
    if not target.url:
        return None
    both = (Access.RWO, Access.RWX)
    kind = target.parsed.kind
    if kind is TargetKind.CEPHFS:
        return both
    if kind is TargetKind.RADOS:
        return ()
    if kind is TargetKind.HOSTS:
        return None  # what stores it is behind the hosts
    if kind is TargetKind.DIR:
        mounts = [one.mount for one in host.targets if one.target == target.name] if host else []
        filesystem = mounts[0].filesystem if mounts and mounts[0] else None
        if filesystem is None:
            return None
        return both if filesystem in _SHARED_FILESYSTEMS else (Access.RWO,)
    return (Access.RWO,)


def _at_rest(pool: Pool, inventory: CephInventory) -> bool | None:
    """None as soon as one OSD that may hold a part of the pool does not tell."""
    rule = pool.rule
    osds = [
        osd
        for osd in inventory.osds
        if osd.is_in
        and (rule is None or rule.device_class in (None, osd.device_class))
        and (
            rule is None or rule.root is None or any(one.name == rule.root for one in osd.location)
        )
    ]
    return True if osds and all(osd.dm_crypt is Crypt.YES for osd in osds) else None


# What a target must fulfil before its speed counts: `survive=zone,access=rwx,encrypted`.

_KINDS = ("survive", "access", "encrypted")
SURVIVE = ("osd", "host", "rack", "zone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One of `survive=LEVEL`, `access=MODE` and `encrypted`, `value` empty."""

    kind: str
    value: str = ""

    def __str__(self) -> str:
        return f"{self.kind}={self.value}" if self.value else self.kind

    def unmet(self, given: Protection) -> str:
        """Why the target does not fulfil it; empty where it does. What is not known is not met."""
        if self.kind == "survive":
            return _not_surviving(given, self.value)
        if self.kind == "access":
            if given.access is None:
                return "how it can be mounted is not known"
            if Access(self.value) in given.access:
                return ""
            one = "it cannot be mounted at all" if not given.access else "one node mounts it"
            return f"{one}; {self.value} needs another kind of storage"
        if given.at_rest:
            return ""
        # A cluster knows of the keys that its monitors keep; an operator keeps them elsewhere.
        return "whether it is encrypted at rest is not known"


def _not_surviving(given: Protection, level: str) -> str:
    survives = given.survives(level)
    if survives:
        return ""
    if not given.known:
        return "how it protects its data is not known"
    if given.losses == 0:
        return "it keeps no second copy"
    if survives is None:
        domain = given.domain or "nothing that the inventory tells"
        return f"its copies are apart by {domain}, of which nobody knows how it compares to {level}"
    return f"its parts are apart by {given.domain} only: two may share one {level}"


def parse_requirements(texts: Sequence[str]) -> tuple[Requirement, ...]:
    """Of `--require`, each a list with commas. Raises LeadlineError(`usage`) with the nearest."""
    found = [_parsed(part.strip()) for text in texts for part in text.split(",") if part.strip()]
    return tuple(dict.fromkeys(found))


def _parsed(text: str) -> Requirement:
    kind, _, value = (part.strip().lower() for part in text.partition("="))
    if kind not in _KINDS:
        raise _unknown(text, "a requirement", kind, _KINDS)
    known = {
        "survive": (*SURVIVE, *(one for one in LEVELS if one not in SURVIVE)),
        "access": tuple(one.value for one in Access),
        "encrypted": ("",),
    }[kind]
    if value not in known:
        shown = SURVIVE if kind == "survive" else known
        if kind == "encrypted":
            raise LeadlineError(errors.USAGE, "'encrypted' takes no value", hint="write encrypted")
        raise _unknown(text, kind, value, shown)
    return Requirement(kind=kind, value=value)


def _unknown(text: str, what: str, word: str, known: Sequence[str]) -> LeadlineError:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return LeadlineError(
        errors.USAGE,
        f"the requirement {text!r} is not understood",
        context=[
            f"{what}s: {', '.join(known)}"
            if what == "requirement"
            else f"{what}: {', '.join(known)}",
            "forms: survive=osd|host|rack|zone, access=rwo|rwx, encrypted",
        ],
        hint=f"did you mean {near[0]!r}?" if near else "`leadline recommend --help`",
    )


# A target that is not told from the fastest may stand in for it within so many bands.
_NEAR_BANDS = 2


class Basis(StrEnum):
    """What the choice rests on. `speed`: told apart from every other candidate. `alone`: there is
    no other candidate. `trade-off`: as fast as far as anybody can tell, and better protected or
    cheaper. `figure`: nothing tells the candidates apart, the higher figure is named first.
    `none`: nothing can be recommended."""

    SPEED = "speed"
    ALONE = "alone"
    TRADE_OFF = "trade-off"
    FIGURE = "figure"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A target with its place, its promises, and why it does not fulfil what is required."""

    standing: Standing
    protection: Protection
    unmet: tuple[tuple[Requirement, str], ...] = ()

    @property
    def name(self) -> str:
        return self.standing.target

    @property
    def eligible(self) -> bool:
        return self.standing.complete and not self.unmet


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """`candidates` are all targets, those first that may be chosen, the best first. `tied` names
    those that cannot be told from the fastest eligible one, itself included. `trade_off` says which
    property decided among them. `faster` are complete targets that are better than the choice and
    fall short of a requirement. `not_shared`: the use case wants access by many, and no target is
    known to allow it. `runner_up` is the best eligible target beside the choice. `warnings` are the
    codes of what the audit warns of in the choice's figures."""

    case: UseCase
    requirements: tuple[Requirement, ...]
    ranking: Ranking
    candidates: tuple[Candidate, ...]
    chosen: Candidate | None
    basis: Basis
    tied: tuple[str, ...] = ()
    trade_off: str = ""
    faster: tuple[str, ...] = ()
    runner_up: Candidate | None = None
    not_shared: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def against_runner_up(self) -> Judgement | None:
        """Of the choice and the runner-up; the candidate is the one of the higher score."""
        if self.chosen is None or self.runner_up is None:
            return None
        return self.ranking.between(self.chosen.name, self.runner_up.name)

    @property
    def evidence(self) -> Evidence:
        """What tells, or does not tell, the choice from the runner-up."""
        judgement = self.against_runner_up
        return judgement.evidence if judgement else Evidence.NONE

    @property
    def trials_needed(self) -> int | None:
        """Trials a side that would probably tell the runner-up apart; None where nobody can say,
        or it is told apart, or shown to be the same."""
        judgement = self.against_runner_up
        if judgement is None or judgement.verdict is not Verdict.INCONCLUSIVE:
            return None
        return judgement.trials_needed


def recommend(
    ranking: Ranking,
    case: UseCase,
    protections: Mapping[str, Protection],
    requirements: Sequence[Requirement] = (),
    *,
    figures: Sequence[CellFigure] = (),
    imposed: Mapping[str, str] = MappingProxyType({}),
) -> Recommendation:
    """The fastest target that has every number and fulfils what is required. Those that cannot be
    told from it are tied with it, and the better protected, then the one that takes less raw space
    is chosen. Where the use case needs access by many by nature, targets that allow it go first.

    `figures` are those that the ranking is made of; `imposed` maps targets that are another one
    under a condition of the experiment, which nobody can choose, to that one."""
    required = tuple(requirements)
    candidates = [
        Candidate(
            standing=one,
            protection=protections[one.target],
            unmet=(
                *_no_choice(imposed.get(one.target)),
                *(
                    (requirement, why)
                    for requirement in required
                    if (why := requirement.unmet(protections[one.target]))
                ),
            ),
        )
        for one in ranking.standings
    ]
    eligible = [one for one in candidates if one.eligible]
    shared = [one for one in eligible if _shared(one, case.access)]
    not_shared = case.access is not None and not shared
    if case.access is not None:
        # What cannot be mounted by many is no answer, however fast; what nobody knows of is one
        # only where nothing better is known.
        wanted = Requirement(kind="access", value=case.access.value)
        kept = shared or [one for one in eligible if one.protection.access is None]
        candidates = [
            one if one in kept or not one.eligible else _refused(one, wanted) for one in candidates
        ]
        eligible = kept
    # The first is the one that the fewest are better than, and of those the highest figure.
    tied = [one for one in eligible if not _apart(ranking, eligible[0], one)]
    chosen, trade_off = _chosen([one for one in tied if _near(ranking, tied[0], one)])
    rest = [one for one in eligible if chosen is None or one.name != chosen.name]
    # Who is tied with the choice is what could take its place.
    runner_up = next((one for one in rest if one in tied), rest[0] if rest else None)
    ordered = sorted(
        candidates,
        key=lambda one: (one is not chosen, not one.eligible, not one.standing.complete),
    )
    return Recommendation(
        case=case,
        requirements=required,
        ranking=ranking,
        candidates=tuple(ordered),
        chosen=chosen,
        basis=_basis(eligible, tied, trade_off),
        tied=tuple(one.name for one in tied) if len(tied) > 1 else (),
        trade_off=trade_off,
        faster=tuple(
            one.name
            for one in candidates
            if chosen
            and one.standing.complete
            and not one.eligible
            and one.name not in imposed
            and _faster(ranking, one, chosen)
        ),
        runner_up=runner_up,
        not_shared=not_shared,
        warnings=_warnings(figures, ranking, chosen.name) if chosen else (),
    )


def imposed_conditions(run: Run) -> Mapping[str, str]:
    """Targets that a lab's delay was put on, each with the same target without one, where the run
    has that."""
    plain = {
        (target.cluster, target.subject): target.name
        for target in run.plan.targets
        if target.url and target.parsed.inter_zone_rtt_s is None and target.subject
    }
    return {
        target.name: plain[target.cluster, target.subject]
        for target in run.plan.targets
        if target.url
        and target.parsed.inter_zone_rtt_s is not None
        and (target.cluster, target.subject) in plain
    }


def _no_choice(same: str | None) -> Iterator[tuple[Requirement, str]]:
    if same is not None:
        why = f"it is {visible(same)} with another delay put on the network, which is no choice"
        yield Requirement(kind="condition"), why


def _warnings(figures: Sequence[CellFigure], ranking: Ranking, target: str) -> tuple[str, ...]:
    """Codes of the warnings about the numbers that a target was ranked by."""
    by_key = {(one.workload, one.level, one.op): one for one in figures if one.target == target}
    found = (
        doubt.code
        for objective in ranking.question.objectives
        if (figure := by_key.get(objective.key)) is not None
        for doubt in figure.metric(objective.metric).doubts
        if doubt.severity is Severity.WARNING
    )
    return tuple(dict.fromkeys(found))


def _shared(candidate: Candidate, access: Access | None) -> bool:
    return access is None or access in (candidate.protection.access or ())


def _refused(candidate: Candidate, wanted: Requirement) -> Candidate:
    return Candidate(
        standing=candidate.standing,
        protection=candidate.protection,
        unmet=((wanted, wanted.unmet(candidate.protection)),),
    )


def _apart(ranking: Ranking, one: Candidate, other: Candidate) -> bool:
    return one.name != other.name and ranking.told_apart(one.name, other.name)


def _near(ranking: Ranking, one: Candidate, other: Candidate) -> bool:
    """Whether `other` may be chosen in `one`'s place for its protection: shown to be the same, or
    not told apart by trials and by its own figure not far behind. What nobody could tell apart for
    want of trials may be far slower."""
    if one is other:
        return True
    judgement = ranking.between(one.name, other.name)
    ratio = (other.standing.score or 0.0) / (one.standing.score or 1.0)
    close = ratio > (1 + ranking.band) ** -_NEAR_BANDS
    return judgement.verdict is Verdict.SAME or (judgement.evidence is not Evidence.NONE and close)


def _faster(ranking: Ranking, one: Candidate, other: Candidate) -> bool:
    mine, its = one.standing.score, other.standing.score
    return mine is not None and its is not None and mine > its and _apart(ranking, one, other)


def _basis(eligible: Sequence[Candidate], tied: Sequence[Candidate], trade_off: str) -> Basis:
    if not eligible:
        return Basis.NONE
    if len(eligible) == 1:
        return Basis.ALONE
    if len(tied) == 1:
        return Basis.SPEED
    return Basis.TRADE_OFF if trade_off else Basis.FIGURE


def _chosen(tied: Sequence[Candidate]) -> tuple[Candidate | None, str]:
    """Of those that cannot be told apart: the one that survives most, then the one that takes the
    least raw space; otherwise the first. With what decided first, empty where nothing did."""
    if not tied:
        return None, ""
    known = [one for one in tied if one.protection.known]
    if len(known) < len(tied):
        return tied[0], ""  # what is not known cannot be weighed
    decided = ""
    for said, worth in (
        ("it survives more losses", _losses),
        ("its copies are further apart", _distance),
        ("I/O goes on with more lost", _writable),
        ("it takes less raw space", _thrift),
    ):
        best = max(worth(one) for one in known)
        left = [one for one in known if worth(one) == best]
        decided = decided or (said if len(left) < len(known) else "")
        known = left
    return known[0], decided


def _losses(one: Candidate) -> float:
    return one.protection.losses or 0


def _distance(one: Candidate) -> float:
    domain = one.protection.domain
    return LEVELS.index(domain) if domain in LEVELS else -1


def _writable(one: Candidate) -> float:
    return one.protection.writable or 0


def _thrift(one: Candidate) -> float:
    return -(one.protection.overhead or 0.0)
