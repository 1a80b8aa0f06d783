"""cluster-not-healthy: the Ceph cluster did other work than the trial's, or could not serve it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from leadline.audit.evidence import TrialEvidence
from leadline.audit.rule import Doubt, Rule
from leadline.findings import Severity
from leadline.formats.ceph.status import ClusterSample, ClusterStatus, Health, HealthCheck
from leadline.formats.result import FormatError
from leadline.units import format_duration

# What a status tells of PGs can be this old: OSDs report every 5 s (mgr_stats_period), the manager
# passes it on every 2 s (mgr_tick_period), the watch asks every 2 s. What is seen longer lasted.
REPORT_AGE_S = 9.0

# I/O to these PGs or objects waits until an administrator or a lost OSD comes.
BLOCKED = frozenset({"down", "incomplete", "peered", "recovery_unfound", "backfill_unfound"})
# I/O to these waits for as long as the state lasts, rightly well below a second.
PASSING = frozenset({"peering", "activating", "creating", "unknown", "stale", "laggy", "wait"})
# No OSD has told a manager that just started of these: they may well be serving.
UNTOLD = frozenset({"unknown"})
DEGRADED = frozenset({"degraded", "undersized"})
# `remapped` alone is no work: PGs can rest so for ever where CRUSH finds no better place.
RECOVERING = frozenset(
    {"recovering", "recovery_wait", "recovery_toofull", "forced_recovery", "backfilling"}
    | {"backfill_wait", "backfill_toofull", "forced_backfill", "repair", "failed_repair"}
)
TRIMMING = frozenset({"snaptrim"})


class Weight(StrEnum):
    """What a health check says of the figures of a trial."""

    UNAVAILABLE = "data unavailable"
    DISTURBED = "disturbed"
    CEPHFS = "disturbed, CephFS only"
    PASSING = "unavailable if it lasts"
    BLIND = "not observed"
    BENIGN = "no influence"


# The page of the rule gives the reason of each. Codes from Ceph's documentation of its health
# checks and of CephFS's, Nautilus to Squid.
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
# OSD_HOST_DOWN, OSD_RACK_DOWN ...: one for each type of the CRUSH map.
_BUCKET_DOWN = re.compile(r"OSD_\w+_DOWN")
# Of the flags that OSDMAP_FLAGS names, those that stop clients' I/O.
_STOPS_IO = re.compile(r"\b(?:pauserd|pausewr|pauserec|full)\b")


def weight(check: HealthCheck) -> Weight | None:
    """What a check says of a trial; None for a code that is not known and that Ceph only warns of.

    One that is not known and that Ceph calls an error is held for unavailable data. A muted check
    says nothing, except that I/O is stopped: the administrator judged it, and what it hides shows
    in the states of PGs and OSDs.
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


def check(trial: TrialEvidence) -> Iterator[Doubt]:
    if isinstance(trial.cluster, FormatError):
        yield _unobserved(f"The record of the cluster cannot be read ({trial.cluster.fact})", {})
        return
    if not trial.cluster:
        return
    all_spans = _spans([sample.elapsed_s for sample in trial.cluster])
    looks = list(zip(trial.cluster, all_spans, strict=True))
    seen = [sample for sample, _ in looks if isinstance(sample, ClusterSample)]
    spans = [span for sample, span in looks if isinstance(sample, ClusterSample)]
    if seen:
        yield from _disturbance(seen, spans)
    missed = len(trial.cluster) - len(seen)
    blind = [_blind(seen, index) for index in range(len(seen))]
    if not missed and not any(blind):
        return
    unobserved_s = sum(all_spans) - sum(
        span for span, bad in zip(spans, blind, strict=True) if not bad
    )
    causes = [f"{missed} went unanswered"] if missed else []
    causes += (
        [f"{sum(blind)} met a manager that was absent or knew not all PGs"] if any(blind) else []
    )
    yield _unobserved(
        f"Of {len(trial.cluster)} looks at the cluster's health {' and '.join(causes)}",
        {
            "samples": len(trial.cluster),
            "missed_samples": missed,
            "blind_samples": sum(blind),
            "unobserved_s": unobserved_s,
        },
    )


@dataclass(frozen=True, slots=True)
class _Trouble:
    """One kind of trouble: in which samples, and what it is called."""

    name: str
    samples: frozenset[int]
    detail: str = ""
    unavailable: bool = False


def _disturbance(samples: list[ClusterSample], spans: list[float]) -> Iterator[Doubt]:
    troubles = [*_availability(samples), *_checks(samples), *_work(samples), *_changes(samples)]
    if not troubles:
        return
    times = [sample.elapsed_s for sample in samples]

    def seconds(of: list[_Trouble]) -> float:
        return sum(spans[index] for index in frozenset[int]().union(*(one.samples for one in of)))

    unavailable = [trouble for trouble in troubles if trouble.unavailable]
    affected_s, unavailable_s = seconds(troubles), seconds(unavailable)
    shown = f"{format_duration(affected_s)} of the {format_duration(sum(spans))} watched"
    begun = (
        f"Data were unavailable or damaged for {format_duration(unavailable_s)}, and the cluster "
        "disturbed"
        if unavailable
        else "The cluster was disturbed"
    )
    told = "; ".join(_told(trouble, times) for trouble in troubles)
    yield Doubt(
        severity=Severity.ERROR if unavailable else Severity.WARNING,
        evidence={
            "samples": len(samples),
            "watched_s": sum(spans),
            "affected_s": affected_s,
            "unavailable_s": unavailable_s,
            **_numbers(samples),
        },
        message=f"{begun} for {shown}: {told}.",
        remedy="Bring the cluster to HEALTH_OK with all PGs active+clean, and run the trial again."
        if unavailable
        else "Wait until recovery is over, keep scrubs away from the run (`ceph osd set noscrub`, "
        "`nodeep-scrub`, both unset afterwards), and run the trial again.",
    )


def _availability(samples: list[ClusterSample]) -> Iterator[_Trouble]:
    """PGs and objects that served no I/O."""
    blocked = _where(samples, lambda status: _blocked(status) > 0)
    if blocked:
        most = max(_blocked(samples[index].status) for index in blocked)
        yield _Trouble("PGs down, incomplete or short of copies", blocked, str(most), True)
    unfound = _where(samples, lambda status: status.unfound_objects > 0)
    if unfound:
        most = max(samples[index].status.unfound_objects for index in unfound)
        yield _Trouble("objects not found", unfound, str(most), True)
    for stretch in _stretches(_where(samples, _paused)):
        states = [samples[index].status for index in stretch]
        lasted = samples[stretch[-1]].elapsed_s - samples[stretch[0]].elapsed_s
        if lasted < REPORT_AGE_S and all(_inactive(one, UNTOLD) == 0 for one in states):
            continue  # a manager started: told as not observed
        if lasted < REPORT_AGE_S and _old_news(samples, stretch[0]) and _settling(states):
            continue  # a pool was made just before: OSDs have not all told that it is ready
        most = max(_inactive(one) for one in states)
        raised = any(Weight.PASSING in _weights(one) for one in states)
        yield _Trouble(
            "PG_AVAILABILITY, PGs not active" if raised else "PGs not active",
            frozenset(stretch),
            f"{most} of {states[0].pgs}",
            lasted >= REPORT_AGE_S,
        )


def _checks(samples: list[ClusterSample]) -> Iterator[_Trouble]:
    """Ceph's own checks, each once."""
    codes: dict[str, set[int]] = {}
    severe: set[str] = set()
    for index, sample in enumerate(samples):
        for one in sample.status.checks:
            weighed = weight(one)
            if weighed in (Weight.UNAVAILABLE, Weight.DISTURBED, Weight.CEPHFS):
                codes.setdefault(one.code, set()).add(index)
                severe |= {one.code} if weighed is Weight.UNAVAILABLE else set()
    for code, seen in codes.items():
        yield _Trouble(code, frozenset(seen), unavailable=code in severe)


def _work(samples: list[ClusterSample]) -> Iterator[_Trouble]:
    """What OSDs did besides serving clients."""
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
            most = max(seen, key=lambda index: counts[index])
            yield _Trouble(name, seen, f"{counts[most]} of {samples[most].status.pgs}")


def _changes(samples: list[ClusterSample]) -> Iterator[_Trouble]:
    """What was another at a sample than at the one before."""
    states = [sample.status for sample in samples]
    for name, values in (
        ("OSDs up", [one.osds_up for one in states]),
        ("OSDs in", [one.osds_in for one in states]),
        ("monitors in quorum", [one.monitors_in_quorum for one in states]),
        ("PGs", [one.pgs for one in states]),
    ):
        changed = [
            index
            for index, (before, after) in enumerate(pairwise(values), start=1)
            if before != after and not (name == "PGs" and _old_news(samples, index))
        ]
        if changed:
            steps = [values[changed[0] - 1], *(values[index] for index in changed)]
            yield _Trouble(name, frozenset(changed), " -> ".join(map(str, steps)))
    for name, marks in (
        ("an OSD went down and came back", [(one.osds_up, one.up_changed_at_s) for one in states]),
        ("an OSD went out and came in", [(one.osds_in, one.in_changed_at_s) for one in states]),
    ):
        flapped = frozenset(
            index
            for index, (before, after) in enumerate(pairwise(marks), start=1)
            if before[0] == after[0] and 0 < before[1] < after[1]
        )
        if flapped:
            yield _Trouble(name, flapped)


def _numbers(samples: list[ClusterSample]) -> dict[str, float]:
    statuses = [sample.status for sample in samples]

    def most(value: Callable[[ClusterStatus], float]) -> float:
        return max(value(status) for status in statuses)

    unclean = DEGRADED | RECOVERING | TRIMMING | PASSING | BLOCKED | {"scrubbing", "premerge"}
    unknown = {one.code for status in statuses for one in status.checks if weight(one) is None}
    return {
        "pgs": most(lambda one: one.pgs),
        "pgs_affected_max": most(lambda one: one.pgs_with(*unclean)),
        "pgs_inactive_max": most(_inactive),
        "pgs_scrubbing_max": most(lambda one: one.scrubbing_pgs),
        "pgs_deep_scrubbing_max": most(lambda one: one.deep_scrubbing_pgs),
        "scrubbing_share_max": most(lambda one: one.scrubbing_pgs / max(1, one.pgs)),
        "degraded_ratio_max": most(lambda one: one.degraded_ratio),
        "misplaced_ratio_max": most(lambda one: one.misplaced_ratio),
        "recovering_bps_max": most(lambda one: one.recovering_bps),
        "osds_down_max": most(lambda one: max(0, one.osds_in - one.osds_up)),
        "osdmap_epochs": statuses[-1].osdmap_epoch - statuses[0].osdmap_epoch,
        "unknown_checks": len(unknown),
    }


def _weights(status: ClusterStatus) -> set[Weight | None]:
    return {weight(one) for one in status.checks}


def _blind(samples: list[ClusterSample], index: int) -> bool:
    """Whether the sample speaks of PGs without knowing them all."""
    status = samples[index].status
    untold = status.pgs_with(*UNTOLD) > 0 and not _old_news(samples, index)
    return untold or Weight.BLIND in _weights(status)


def _blocked(status: ClusterStatus) -> int:
    """PGs that cannot serve all I/O for want of copies."""
    return status.pgs_with(*BLOCKED)


def _inactive(status: ClusterStatus, besides: frozenset[str] = frozenset()) -> int:
    """PGs that serve nothing at the moment, whatever the reason, without those `besides`."""
    total = 0
    for state, count in status.pg_states.items():
        flags = set(state.split("+"))
        if ("active" not in flags or flags & PASSING) and not flags & besides:
            total += count
    return total


def _paused(status: ClusterStatus) -> bool:
    """PGs serve nothing in a way that should pass, or Ceph says so."""
    return Weight.PASSING in _weights(status) or _inactive(status, BLOCKED) > 0


def _settling(states: list[ClusterStatus]) -> bool:
    """Whether nothing was wrong but that PGs were not yet reported active."""
    first = states[0]
    return all(
        one.osds_up >= one.osds_in
        and (one.osds_up, one.up_changed_at_s) == (first.osds_up, first.up_changed_at_s)
        and not one.pgs_with(*DEGRADED, *RECOVERING, *BLOCKED, "stale")
        and Weight.DISTURBED not in _weights(one)
        for one in states
    )


def _old_news(samples: list[ClusterSample], index: int) -> bool:
    """Whether what this sample tells of PGs can be late reports of before the trial: early, and
    the map of OSDs and pools is the one that the trial began with."""
    first, this = samples[0], samples[index]
    early = this.elapsed_s - first.elapsed_s < REPORT_AGE_S
    return early and this.status.osdmap_epoch == first.status.osdmap_epoch


def _where(samples: list[ClusterSample], holds: Callable[[ClusterStatus], bool]) -> frozenset[int]:
    return frozenset(index for index, sample in enumerate(samples) if holds(sample.status))


def _stretches(indices: Iterable[int]) -> Iterator[list[int]]:
    """Runs of indices that follow one another."""
    run: list[int] = []
    for index in sorted(indices):
        if run and index != run[-1] + 1:
            yield run
            run = []
        run.append(index)
    if run:
        yield run


def _spans(times: list[float]) -> list[float]:
    """Seconds that each sample stands for: half of the way to its neighbours."""
    edges = [times[0], *((before + after) / 2 for before, after in pairwise(times)), times[-1]]
    return [after - before for before, after in pairwise(edges)]


def _told(trouble: _Trouble, times: list[float]) -> str:
    detail = f" {trouble.detail}" if trouble.detail else ""
    stretches = [
        f"{times[run[0]]:.0f} s" if len(run) == 1 else f"{times[run[0]]:.0f}-{times[run[-1]]:.0f} s"
        for run in _stretches(trouble.samples)
    ]
    shown = stretches if len(stretches) <= 3 else [*stretches[:2], "...", stretches[-1]]
    return f"{trouble.name}{detail} ({', '.join(shown)})"


def _unobserved(fact: str, numbers: dict[str, float]) -> Doubt:
    return Doubt(
        severity=Severity.INFO,
        evidence=numbers,
        message=f"{fact}: whether it was undisturbed in that time is not known.",
        remedy="Look whether monitors and managers could be reached from here during the run.",
    )


RULE = Rule(
    code="cluster-not-healthy",
    summary="The Ceph cluster recovered, scrubbed, changed or could not serve all data.",
    looks_at=TrialEvidence,
    check=check,
)
