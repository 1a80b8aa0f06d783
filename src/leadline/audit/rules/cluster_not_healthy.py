"""cluster-not-healthy: the Ceph cluster did other work, or could not serve the trial."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from leadline.audit.ceph_daemons import DaemonChange, Role, find_changes, stretches
from leadline.audit.evidence import TrialEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.ceph.status import (
    ClusterSample,
    ClusterStatus,
    Health,
    HealthCheck,
    MissedSample,
)
from leadline.formats.result import FormatError
from leadline.inventory.layer import Layer, LayerKind
from leadline.units import format_duration

# The PG states of a status can be this old: OSDs report every 5 s (mgr_stats_period), the manager
# forwards every 2 s (mgr_tick_period), the watch samples every 2 s. Longer states lasted.
REPORT_AGE_S = 9.0

# I/O to these PGs or objects waits for an administrator or a lost OSD.
BLOCKED = frozenset({"down", "incomplete", "peered", "recovery_unfound", "backfill_unfound"})
# I/O to these waits for as long as the state lasts, normally well below a second.
PASSING = frozenset({"peering", "activating", "creating", "unknown", "stale", "laggy", "wait"})
# No OSD has reported these to a manager that just started: they may serve I/O.
UNREPORTED = frozenset({"unknown"})
DEGRADED = frozenset({"degraded", "undersized"})
# `remapped` alone is no work: PGs stay so if CRUSH finds no better place.
RECOVERING = frozenset(
    {"recovering", "recovery_wait", "recovery_toofull", "forced_recovery", "backfilling"}
    | {"backfill_wait", "backfill_toofull", "forced_backfill", "repair", "failed_repair"}
)
TRIMMING = frozenset({"snaptrim"})


class Weight(StrEnum):
    """Effect of a health check on the figures of a trial."""

    UNAVAILABLE = "data unavailable"
    DISTURBED = "disturbed"
    CEPHFS = "disturbed, CephFS only"
    PASSING = "unavailable if it lasts"
    BLIND = "not observed"
    BENIGN = "no influence"


# The page of the rule has the reasons. Codes are from Ceph's documentation of health checks and of
# CephFS, Nautilus to Squid.
_WEIGHTS: Mapping[Weight, str] = {
    Weight.UNAVAILABLE: "OBJECT_UNFOUND OSD_FULL OSD_SCRUB_ERRORS PG_DAMAGED POOL_FULL",
    Weight.PASSING: "PG_AVAILABILITY",
    Weight.DISTURBED: (
        "BLUEFS_SPILLOVER BLUESTORE_FRAGMENTATION BLUESTORE_SLOW_OP_ALERT "
        "BLUESTORE_SPURIOUS_READ_ERRORS CACHE_POOL_NEAR_FULL DB_DEVICE_STALLED_READ_ALERT "
        "DEGRADED_STRETCH_MODE OBJECT_MISPLACED OSD_BACKFILLFULL OSD_DOWN OSD_NEARFULL "
        "OSD_SLOW_PING_TIME_BACK OSD_SLOW_PING_TIME_FRONT OSD_TOO_MANY_REPAIRS OSD_UNREACHABLE "
        "PG_BACKFILL_FULL PG_DEGRADED PG_DEGRADED_FULL PG_RECOVERY_FULL PG_SLOW_SNAP_TRIMMING "
        "POOL_BACKFILLFULL POOL_NEARFULL RECOVERING_STRETCH_MODE REQUEST_SLOW REQUEST_STUCK "
        "SLOW_OPS WAL_DEVICE_STALLED_READ_ALERT BLOCK_DEVICE_STALLED_READ_ALERT"
    ),
    Weight.CEPHFS: (
        "FS_DEGRADED FS_WITH_FAILED_MDS MDS_ALL_DOWN MDS_DAMAGE MDS_HEALTH_READ_ONLY "
        "MDS_SLOW_METADATA_IO MDS_SLOW_REQUEST MDS_TRIM"
    ),
    Weight.BLIND: "MGR_DOWN",
    Weight.BENIGN: (
        "AUTH_BAD_CAPS AUTH_INSECURE_GLOBAL_ID_RECLAIM AUTH_INSECURE_GLOBAL_ID_RECLAIM_ALLOWED "
        "AUTH_INSECURE_SERVICE_TICKETS BLUESTORE_DISK_SIZE_MISMATCH BLUESTORE_LEGACY_STATFS "
        "BLUESTORE_NO_COMPRESSION BLUESTORE_NO_PER_PG_OMAP BLUESTORE_NO_PER_POOL_OMAP "
        "CACHE_POOL_NO_HIT_SET DAEMON_OLD_VERSION DASHBOARD_DEBUG DEVICE_HEALTH "
        "DEVICE_HEALTH_IN_USE DEVICE_HEALTH_TOOMANY FS_INLINE_DATA_DEPRECATED LARGE_OMAP_OBJECTS "
        "MANY_OBJECTS_PER_PG MDS_CACHE_OVERSIZED MDS_CLIENT_LATE_RELEASE MDS_CLIENT_OLDEST_TID "
        "MDS_CLIENT_RECALL MDS_INSUFFICIENT_STANDBY MDS_UP_LESS_THAN_MAX MGR_MODULE_DEPENDENCY "
        "MGR_MODULE_ERROR MON_CLOCK_SKEW MON_DISK_BIG MON_DISK_CRIT MON_DISK_LOW MON_DOWN "
        "MON_MSGR2_NOT_ENABLED OLD_CRUSH_STRAW_CALC_VERSION OLD_CRUSH_TUNABLES OSDMAP_FLAGS "
        "OSD_FILESTORE OSD_FLAGS OSD_NO_DOWN_OUT_INTERVAL OSD_NO_SORTBITWISE OSD_ORPHAN "
        "OSD_OUT_OF_ORDER_FULL OSD_UPGRADE_FINISHED PG_NOT_DEEP_SCRUBBED PG_NOT_SCRUBBED "
        "POOL_APP_NOT_ENABLED POOL_HAS_TARGET_SIZE_BYTES_AND_RATIO POOL_NEAR_FULL "
        "POOL_NO_REDUNDANCY POOL_PG_NUM_NOT_POWER_OF_TWO POOL_TARGET_SIZE_BYTES_OVERCOMMITTED "
        "POOL_TOO_FEW_PGS POOL_TOO_MANY_PGS RECENT_CRASH RECENT_MGR_MODULE_CRASH SMALLER_PGP_NUM "
        "TELEMETRY_CHANGED TOO_FEW_OSDS TOO_FEW_PGS TOO_MANY_PGS"
    ),
}
CHECKS: Mapping[str, Weight] = {
    code: weight for weight, codes in _WEIGHTS.items() for code in codes.split()
}
# OSD_HOST_DOWN, OSD_RACK_DOWN ...: a code for each type of the CRUSH map.
_BUCKET_DOWN = re.compile(r"OSD_\w+_DOWN")
# Flags of OSDMAP_FLAGS that stop client I/O.
_STOPS_IO = re.compile(r"\b(?:pauserd|pausewr|pauserec|full)\b")


def weight(check: HealthCheck) -> Weight | None:
    """Return the effect of a check on a trial; None for an unknown code with a warning.

    An unknown code with an error means unavailable data. A muted check has no effect unless it
    stops I/O: the administrator accepted it, and the states of PGs and OSDs show the rest.
    """
    if check.code == "OSDMAP_FLAGS" and _STOPS_IO.search(check.summary):
        return Weight.UNAVAILABLE
    known = CHECKS.get(check.code)
    if known is None and _BUCKET_DOWN.fullmatch(check.code):
        known = Weight.DISTURBED
    if known is None and check.severity is Health.ERR:
        known = Weight.UNAVAILABLE
    if check.muted and known is not Weight.BLIND:
        return Weight.UNAVAILABLE if check.code in ("OSD_FULL", "POOL_FULL") else Weight.BENIGN
    return known


@rule(
    "cluster-not-healthy",
    "The Ceph cluster recovered, scrubbed, changed or could not serve all data.",
    TrialEvidence,
)
def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    if isinstance(trial.cluster, FormatError):
        yield _unobserved(f"The cluster record is unreadable ({trial.cluster.fact})", {})
        return
    if not trial.cluster:
        return
    all_spans = _spans([sample.elapsed_s for sample in trial.cluster])
    samples = list(zip(trial.cluster, all_spans, strict=True))
    seen = [sample for sample, _ in samples if isinstance(sample, ClusterSample)]
    spans = [span for sample, span in samples if isinstance(sample, ClusterSample)]
    changes = list(find_changes(seen, trial.cluster_before))
    if seen:
        yield from _disturbance(seen, spans, trial, changes)
    missed = [
        index for index, sample in enumerate(trial.cluster) if isinstance(sample, MissedSample)
    ]
    quiet = frozenset[int]().union(
        *(change.samples for change in changes if change.role is Role.MANAGER)
    )
    blind = [index in quiet or _blind(seen, index) for index in range(len(seen))]
    if not missed and not any(blind):
        return
    unobserved_s = sum(all_spans) - sum(
        span for span, bad in zip(spans, blind, strict=True) if not bad
    )
    times = [sample.elapsed_s for sample in trial.cluster]
    causes = (
        [f"{len(missed)} got no answer of a monitor ({_format_times(missed, times)})"]
        if missed
        else []
    )
    causes += [f"{sum(blind)} found no manager, or one without all PGs"] if any(blind) else []
    yield _unobserved(
        f"Of {len(trial.cluster)} samples of the cluster's health {' and '.join(causes)}",
        {
            "samples": len(trial.cluster),
            "missed_samples": len(missed),
            "blind_samples": sum(blind),
            "unobserved_s": unobserved_s,
        },
    )


@dataclass(frozen=True, slots=True)
class _Problem:
    """One kind of problem and its samples. `harmless`: the trial's I/O does not wait for it."""

    name: str
    samples: frozenset[int]
    detail: str = ""
    unavailable: bool = False
    harmless: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """A problem of the cluster from `begin_s` to `end_s`, in seconds since the watch of the trial
    began. Its ends are half way to the samples without it. `detail` has its extent."""

    name: str
    detail: str
    begin_s: float
    end_s: float
    unavailable: bool


def find_disturbances(
    cluster: Sequence[ClusterSample | MissedSample], stack: Sequence[Layer]
) -> list[Disturbance]:
    """Return what disturbed the cluster during a trial, by time; `stack` are the layers of its
    target."""
    times = [sample.elapsed_s for sample in cluster]
    places = [at for at, sample in enumerate(cluster) if isinstance(sample, ClusterSample)]
    samples = [sample for sample in cluster if isinstance(sample, ClusterSample)]
    if not samples:
        return []
    edges = _edges(times)
    problems = _problems(samples, list(find_changes(samples)), cephfs=_may_use_cephfs(stack))
    found = [
        Disturbance(
            name=problem.name,
            detail=problem.detail,
            begin_s=edges[places[stretch[0]]],
            end_s=edges[places[stretch[-1]] + 1],
            unavailable=problem.unavailable,
        )
        for problem in problems
        if not problem.harmless
        for stretch in stretches(sorted(problem.samples))
    ]
    return sorted(found, key=lambda one: (one.begin_s, one.name))


def _problems(
    samples: list[ClusterSample], changes: list[DaemonChange], *, cephfs: bool
) -> Iterator[_Problem]:
    yield from _availability(samples)
    yield from _checks(samples, cephfs)
    yield from _work(samples)
    yield from _changes(samples)
    yield from _daemons(changes, cephfs)


def _disturbance(
    samples: list[ClusterSample],
    spans: list[float],
    trial: TrialEvidence,
    changes: list[DaemonChange],
) -> Iterator[RuleFinding]:
    before = trial.cluster_before
    found = [
        *_problems(samples, changes, cephfs=_may_use_cephfs(trial.stack)),
        *(_since(before.status, samples) if before else ()),
    ]
    problems = [problem for problem in found if not problem.harmless]
    harmless = [problem for problem in found if problem.harmless]
    times = [sample.elapsed_s for sample in samples]

    def seconds(of: list[_Problem]) -> float:
        return sum(
            spans[index] for index in frozenset[int]().union(*(problem.samples for problem in of))
        )

    if harmless:
        listed = "; ".join(_format_problem(problem, times) for problem in harmless)
        yield RuleFinding(
            severity=Severity.INFO,
            evidence={
                "samples": len(samples),
                "watched_s": sum(spans),
                "affected_s": seconds(harmless),
                "changes": len(harmless),
            },
            message="Daemons of the cluster changed that the I/O of this trial does not pass: "
            f"{listed}.",
            remedy="Look at the log of the daemon (`ceph crash ls`), and start it before the next "
            "run.",
        )
    if not problems:
        return
    unavailable = [problem for problem in problems if problem.unavailable]
    affected_s, unavailable_s = seconds(problems), seconds(unavailable)
    shown = f"{format_duration(affected_s)} of the {format_duration(sum(spans))} watched"
    begun = (
        f"Data was unavailable or damaged for {format_duration(unavailable_s)}, and the cluster "
        "was disturbed"
        if unavailable
        else "The cluster was disturbed"
    )
    listed = "; ".join(_format_problem(problem, times) for problem in problems)
    yield RuleFinding(
        severity=Severity.ERROR if unavailable else Severity.WARNING,
        evidence={
            "samples": len(samples),
            "watched_s": sum(spans),
            "affected_s": affected_s,
            "unavailable_s": unavailable_s,
            **_numbers(samples),
        },
        message=f"{begun} for {shown}: {listed}.",
        remedy="Bring the cluster to HEALTH_OK with all PGs active+clean, and run the trial again."
        if unavailable
        else "Wait for the end of recovery, disable scrubs during the run (`ceph osd set noscrub`, "
        "`nodeep-scrub`; unset both afterwards), and run the trial again.",
    )


def _availability(samples: list[ClusterSample]) -> Iterator[_Problem]:
    """Yield PGs and objects that served no I/O."""
    blocked = _where(samples, lambda status: _blocked(status) > 0)
    if blocked:
        most = max(_blocked(samples[index].status) for index in blocked)
        yield _Problem("PGs down, incomplete or short of copies", blocked, str(most), True)
    unfound = _where(samples, lambda status: status.unfound_objects > 0)
    if unfound:
        most = max(samples[index].status.unfound_objects for index in unfound)
        yield _Problem("objects not found", unfound, str(most), True)
    # PGs serve no I/O temporarily, or Ceph reports so.
    paused = _where(
        samples,
        lambda status: Weight.PASSING in _weights(status) or _inactive(status, BLOCKED) > 0,
    )
    for stretch in stretches(sorted(paused)):
        states = [samples[index].status for index in stretch]
        lasted = samples[stretch[-1]].elapsed_s - samples[stretch[0]].elapsed_s
        if lasted < REPORT_AGE_S and all(_inactive(status, UNREPORTED) == 0 for status in states):
            continue  # a manager started: reported as not observed
        if lasted < REPORT_AGE_S and _old_news(samples, stretch[0]) and _settling(states):
            continue  # a new pool: not all OSDs have reported that it is ready
        most = max(_inactive(status) for status in states)
        raised = any(Weight.PASSING in _weights(status) for status in states)
        yield _Problem(
            "PG_AVAILABILITY, PGs not active" if raised else "PGs not active",
            frozenset(stretch),
            f"{most} of {states[0].pgs}",
            lasted >= REPORT_AGE_S,
        )


def _may_use_cephfs(stack: Sequence[Layer]) -> bool:
    """Whether the trial's I/O may need an MDS: it does not on an image, or in a pool itself."""
    kinds = {layer.kind for layer in stack}
    return LayerKind.IMAGE not in kinds and kinds != {LayerKind.POOL}


def _daemons(changes: list[DaemonChange], cephfs: bool) -> Iterator[_Problem]:
    """Yield daemons that died, left or restarted."""
    disturbing = {Role.MONITOR, Role.METADATA} if cephfs else {Role.MONITOR}
    for change in changes:
        yield _Problem(
            change.text,
            change.samples,
            change.detail,
            harmless=change.role not in disturbing,
        )


def _since(before: ClusterStatus, samples: list[ClusterSample]) -> Iterator[_Problem]:
    """Yield what the cluster lost or gained between the run's first trial and this one."""
    now, everywhere = samples[0].status, frozenset(range(len(samples)))
    for name, then, value, harmless in (
        ("OSDs up", before.osds_up, now.osds_up, False),
        ("OSDs in", before.osds_in, now.osds_in, False),
        ("monitors in quorum", before.monitors_in_quorum, now.monitors_in_quorum, True),
    ):
        if then != value:
            detail = f"{then} -> {value} since the run's first trial"
            yield _Problem(name, everywhere, detail, harmless=harmless)


def _checks(samples: list[ClusterSample], cephfs: bool) -> Iterator[_Problem]:
    """Yield Ceph's own checks, each once."""
    codes: dict[str, set[int]] = {}
    severe: set[str] = set()
    unused: set[str] = set()
    for index, sample in enumerate(samples):
        for reported in sample.status.checks:
            weighed = weight(reported)
            if weighed in (Weight.UNAVAILABLE, Weight.DISTURBED, Weight.CEPHFS):
                codes.setdefault(reported.code, set()).add(index)
                severe |= {reported.code} if weighed is Weight.UNAVAILABLE else set()
                unused |= {reported.code} if weighed is Weight.CEPHFS and not cephfs else set()
    for code, seen in codes.items():
        yield _Problem(code, frozenset(seen), unavailable=code in severe, harmless=code in unused)


def _work(samples: list[ClusterSample]) -> Iterator[_Problem]:
    """Yield work of the OSDs other than serving clients."""
    for name, flags in (
        ("PGs degraded or undersized", DEGRADED),
        ("PGs in or waiting for recovery or backfill", RECOVERING),
        ("PGs being scrubbed", frozenset({"scrubbing"})),
        ("PGs trimming snapshots", TRIMMING),
        ("PGs about to be merged", frozenset({"premerge"})),
    ):
        counts = [sample.status.pgs_with(*flags) for sample in samples]
        seen = frozenset(index for index, count in enumerate(counts) if count)
        if seen:
            most = max(sorted(seen), key=lambda index: counts[index])
            yield _Problem(name, seen, f"{counts[most]} of {samples[most].status.pgs}")


def _changes(samples: list[ClusterSample]) -> Iterator[_Problem]:
    states = [sample.status for sample in samples]
    for name, values in (
        ("OSDs up", [status.osds_up for status in states]),
        ("OSDs in", [status.osds_in for status in states]),
        ("monitors in quorum", [status.monitors_in_quorum for status in states]),
        ("PGs", [status.pgs for status in states]),
    ):
        changed = [
            index
            for index, (before, after) in enumerate(pairwise(values), start=1)
            if before != after and not (name == "PGs" and _old_news(samples, index))
        ]
        if changed:
            steps = [values[changed[0] - 1], *(values[index] for index in changed)]
            yield _Problem(name, frozenset(changed), " -> ".join(map(str, steps)))
    for name, marks in (
        (
            "an OSD went down and came back",
            [(status.osds_up, status.up_changed_at_s) for status in states],
        ),
        (
            "an OSD went out and came in",
            [(status.osds_in, status.in_changed_at_s) for status in states],
        ),
    ):
        flapped = frozenset(
            index
            for index, (before, after) in enumerate(pairwise(marks), start=1)
            if before[0] == after[0] and 0 < before[1] < after[1]
        )
        if flapped:
            yield _Problem(name, flapped)


def _numbers(samples: list[ClusterSample]) -> dict[str, float]:
    statuses = [sample.status for sample in samples]

    def most(value: Callable[[ClusterStatus], float]) -> float:
        return max(value(status) for status in statuses)

    unclean = DEGRADED | RECOVERING | TRIMMING | PASSING | BLOCKED | {"scrubbing", "premerge"}
    checks = [reported for status in statuses for reported in status.checks]
    unknown = {reported.code for reported in checks if weight(reported) is None}
    return {
        "pgs": most(lambda status: status.pgs),
        "pgs_affected_max": most(lambda status: status.pgs_with(*unclean)),
        "pgs_inactive_max": most(_inactive),
        "pgs_scrubbing_max": most(lambda status: status.scrubbing_pgs),
        "pgs_deep_scrubbing_max": most(lambda status: status.deep_scrubbing_pgs),
        "scrubbing_share_max": most(lambda status: status.scrubbing_pgs / max(1, status.pgs)),
        "degraded_ratio_max": most(lambda status: status.degraded_ratio),
        "misplaced_ratio_max": most(lambda status: status.misplaced_ratio),
        "recovering_bps_max": most(lambda status: status.recovering_bps),
        "osds_down_max": most(lambda status: max(0, status.osds_in - status.osds_up)),
        "osdmap_epochs": statuses[-1].osdmap_epoch - statuses[0].osdmap_epoch,
        "unknown_checks": len(unknown),
    }


def _weights(status: ClusterStatus) -> set[Weight | None]:
    return {weight(reported) for reported in status.checks}


def _blind(samples: list[ClusterSample], index: int) -> bool:
    """Whether the sample does not have all PGs."""
    status = samples[index].status
    unreported = status.pgs_with(*UNREPORTED) > 0 and not _old_news(samples, index)
    return unreported or Weight.BLIND in _weights(status)


def _blocked(status: ClusterStatus) -> int:
    """PGs that cannot serve all I/O because copies are missing."""
    return status.pgs_with(*BLOCKED)


def _inactive(status: ClusterStatus, besides: frozenset[str] = frozenset()) -> int:
    """PGs that serve no I/O in this sample, for any reason, without those `besides`."""
    total = 0
    for state, count in status.pg_states.items():
        flags = set(state.split("+"))
        if ("active" not in flags or flags & PASSING) and not flags & besides:
            total += count
    return total


def _settling(states: list[ClusterStatus]) -> bool:
    """Whether the only problem is PGs that were not yet reported active."""
    first = states[0]
    return all(
        status.osds_up >= status.osds_in
        and (status.osds_up, status.up_changed_at_s) == (first.osds_up, first.up_changed_at_s)
        and not status.pgs_with(*DEGRADED, *RECOVERING, *BLOCKED, "stale")
        and Weight.DISTURBED not in _weights(status)
        for status in states
    )


def _old_news(samples: list[ClusterSample], index: int) -> bool:
    """Whether the PG states of this sample can be from before the trial: it is early, and the map
    of OSDs and pools is the first one."""
    first, this = samples[0], samples[index]
    early = this.elapsed_s - first.elapsed_s < REPORT_AGE_S
    return early and this.status.osdmap_epoch == first.status.osdmap_epoch


def _where(samples: list[ClusterSample], holds: Callable[[ClusterStatus], bool]) -> frozenset[int]:
    return frozenset(index for index, sample in enumerate(samples) if holds(sample.status))


def _spans(times: list[float]) -> list[float]:
    """Return the seconds of each sample: half of the time to its neighbours."""
    return [after - before for before, after in pairwise(_edges(times))]


def _edges(times: list[float]) -> list[float]:
    return [times[0], *((before + after) / 2 for before, after in pairwise(times)), times[-1]]


def _format_problem(problem: _Problem, times: list[float]) -> str:
    detail = f" {problem.detail}" if problem.detail else ""
    return f"{problem.name}{detail} ({_format_times(problem.samples, times)})"


def _format_times(indices: Iterable[int], times: list[float]) -> str:
    """Format the times of samples: `2-6 s, 10 s`."""
    shown = [
        f"{times[run[0]]:.0f} s" if len(run) == 1 else f"{times[run[0]]:.0f}-{times[run[-1]]:.0f} s"
        for run in stretches(sorted(indices))
    ]
    return ", ".join(shown if len(shown) <= 3 else [*shown[:2], "...", shown[-1]])


def _unobserved(fact: str, numbers: dict[str, float]) -> RuleFinding:
    return RuleFinding(
        severity=Severity.INFO,
        evidence=numbers,
        message=f"{fact}. Disturbances in that time are unknown.",
        remedy="Check whether monitors and managers were reachable from this machine.",
    )
