"""Words of load curves and scaling: one template for each fact of the analysis."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from string import Formatter

from leadline.analysis.bottleneck.suspects import Bottleneck, Reason, Suspect
from leadline.analysis.scaling.curves import SUPERLINEAR, Axis, LoadCurve, LoadPoint
from leadline.analysis.scaling.knee import NoKnee, NoKneeReason
from leadline.analysis.scaling.limits import (
    LatencyGap,
    LatencyGapReason,
    NoThroughput,
    NoThroughputReason,
)
from leadline.analysis.scaling.speedup import LimitOrigin, NoEqualLatency, Resource
from leadline.analysis.scaling.superlinear import Cause, CauseCase, Superlinear
from leadline.analysis.scaling.trend import Gain
from leadline.analysis.verdicts import REPEATS_FACTOR, Evidence
from leadline.findings import Finding, Severity
from leadline.metrics import Metric
from leadline.report.words import (
    absence_text,
    count_text,
    evidence_text,
    level_name,
    listed,
    share_text,
    title,
    value_text,
)
from leadline.stats.usl import LEAST_LEVELS, NoFit, Unfitted

# --- numbers ------------------------------------------------------------------------------------


def short_title(metric: Metric) -> str:
    """Format a metric as `p99` or `mean`."""
    return title(metric).split()[0]


def level_text(point: LoadPoint) -> str:
    """Format a level by its name; imported levels without one by their I/Os in flight."""
    return level_name(point.level) or f"{point.load.in_flight:,} in flight"


def load_text(curve: LoadCurve, load: float) -> str:
    """Format a load as `3 clients`, `64 I/Os in flight`; fitted loads as `3.4 clients`."""
    one, many = (
        ("client", "clients") if curve.axis is Axis.CLIENTS else ("I/O in flight", "I/Os in flight")
    )
    if load.is_integer():
        return count_text(int(load), one, many)
    return f"{number_text(load)} {many}"


def number_text(value: float) -> str:
    """Format a number with about three digits: `0.0312`, `3.4`, `12,300`, `∞`."""
    if math.isinf(value):
        return "∞"
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def interval_text(low: float, high: float, *, before: bool = False, beyond: bool = False) -> str:
    """Format an interval as `2 to 4`; `< 2` and `> 4` for ends outside the measured levels."""
    first = f"{'< ' if before else ''}{number_text(low)}"
    last = f"{'> ' if beyond else ''}{number_text(high)}"
    return first if first == last else f"{first} to {last}"


def iops_interval(interval: tuple[float, float]) -> str:
    low, high = (value_text(Metric.IOPS, end) for end in interval)
    return f"{low} to {high}"


def ratio_text(ratio: float, interval: tuple[float, float] | None) -> str:
    """Format a ratio as `× 1.94 (1.70 to 2.20)`."""
    between = "" if interval is None else f" ({interval[0]:.2f} to {interval[1]:.2f})"
    return f"× {ratio:.2f}{between}"


def gain_text(gain: Gain) -> str:
    """Format growth as `+3.2 % for twice the load (-1 % to +8 %)`."""
    return f"{signed(gain.share)} for twice the load{_between(gain.interval)}"


def share_of_highest(gain: Gain) -> str:
    """Format a fall as `-44 % vs the highest (-50 % to -39 %)`."""
    return f"{signed(gain.share)} vs the highest{_between(gain.interval)}"


def below_earlier(gain: Gain) -> str:
    """Format a dip as `-44 % vs the highest before it (-50 % to -39 %)`."""
    return f"{signed(gain.share)} vs the highest before it{_between(gain.interval)}"


def speedup_text(
    ratio: float, interval: tuple[float, float] | None, over: Resource | None, reached: str = ""
) -> str:
    """Format a speed-up next to the added resource: `+90 % (+70 % to +110 %) for +67 % hosts (3 to
    5)`; `reached` is inserted before the resource."""
    shares = None if interval is None else (interval[0] - 1, interval[1] - 1)
    text = f"{signed(ratio - 1)}{_between(shares)}{reached}"
    if over is None:
        return text
    ends = f"{number_text(over.baseline)} to {number_text(over.candidate)}"
    return f"{text}, for {signed(over.ratio - 1)} {over.name} ({ends})"


def _between(interval: tuple[float, float] | None) -> str:
    return f" ({' to '.join(map(signed, interval))})" if interval else ""


def signed(share: float) -> str:
    return ("+" if share >= 0 else "-") + share_text(abs(share))


def resource_text(resource: Resource) -> str:
    """Format a resource as `hosts 3 to 5 (× 1.67)`."""
    ends = f"{number_text(resource.baseline)} to {number_text(resource.candidate)}"
    return f"{resource.name} {ends} (× {resource.ratio:.2f})"


# --- templates ----------------------------------------------------------------------------------

_OPTIONAL = re.compile(r"\[([^\]]*)\]")


def fill(template: str, values: Mapping[str, str]) -> str:
    """Fill a template; a clause in brackets is dropped where one of its values is empty."""

    def clause(match: re.Match[str]) -> str:
        names = [name for _, name, _, _ in Formatter().parse(match[1]) if name]
        return match[1] if all(values.get(name) for name in names) else ""

    return _OPTIONAL.sub(clause, template).format_map(values)


NAMES = {
    Bottleneck.CLIENT_NETWORK: "client network",
    Bottleneck.CLIENT_CPU: "client processors",
    Bottleneck.STORAGE_NETWORK: "storage network",
    Bottleneck.OSD_MEDIA: "media",
    Bottleneck.OSD_CPU: "storage processors",
    Bottleneck.TARGET_CORES: "processor limit",
    Bottleneck.QUEUE_DEPTH: "queue not filled",
    Bottleneck.ROUND_TRIPS: "network round trips",
    Bottleneck.NOT_SATURATED: "not saturated",
    Bottleneck.UNKNOWN: "unknown",
}
# Clauses on the level with the highest throughput.
PEAK_CLAUSES = {
    Bottleneck.CLIENT_NETWORK: "the client network is full there",
    Bottleneck.CLIENT_CPU: "the client processors are full there",
    Bottleneck.STORAGE_NETWORK: "the storage network is full there",
    Bottleneck.OSD_MEDIA: "the media are always busy there",
    Bottleneck.OSD_CPU: "the storage processors are full there",
    Bottleneck.TARGET_CORES: "the processor limit of the storage is used up there",
    Bottleneck.QUEUE_DEPTH: "the requested queue depth is not reached there",
    Bottleneck.ROUND_TRIPS: "network round trips make up the latency there",
}
_CLIENT_SIDE = (Bottleneck.CLIENT_NETWORK, Bottleneck.CLIENT_CPU)
_CORES = "The cores of the {owner}[ ({machine})]"
_LINK = (
    "The busiest link of the {owner}[ ({device} of {machine})] carried {link_share} of {link_bps}"
)
_DISK = (
    "The busiest disk ({device} of {machine}) was busy for {utilisation} of the time"
    "[, {disk_latency_s} per I/O]"
)
_QUEUED = "perations spent {queued_share} of their time in the OSD waiting for a thread"
_AT_MEDIUM = "[; OSDs spent {medium_share} of their work waiting for media]"
_SHARED = (
    "The load generator and the storage share {cores} cores, which were {busy_share} busy. "
    "The counters do not show which of the two needed more"
    "[: storage daemons used {storage_cores} cores][, the load generator {engine_cores}]"
    "[, other processes {other_cores}]"
)
_RATE = "{iops} of {offered_iops} offered IOPS were done: "
SUSPECTS = {
    Reason.CPU_NOT_MEASURED: f"The processors of the {{owner}} were not measured[; o{_QUEUED}].",
    Reason.CORES_BUSY: f"{_CORES} were {{busy_share}} busy.",
    Reason.CORES_BUSY_WHERE_READ: f"{_CORES} were {{busy_share}} busy, but not all hosts were read"
    "[ ({hosts_unread} not read)].",
    Reason.CORES_STOLEN: f"{_CORES} lost {{steal_share}} of their time to other guests of the "
    "hypervisor.",
    Reason.CORES_SHARED: f"{_SHARED}.",
    Reason.CORES_SHARED_WITH_OTHERS: f"{_SHARED}. The other processes may be the cause.",
    Reason.RUNNER_THROTTLED: "The processor limit of the load generator throttled it for "
    "{throttled_share} of the time.",
    Reason.JOB_THREAD_FULL: "A job's thread used {job_core_share} of the one core that it can use.",
    Reason.LOCAL_DISK: "The storage is a disk of the load generator, whose cores also do the work "
    "of the storage.",
    Reason.OPERATIONS_QUEUED: f"O{_QUEUED}[; the cores of the storage were {{busy_share}} busy].",
    Reason.CPU_LIMIT_NOT_MEASURED: "Processor limits of the storage were not measured.",
    Reason.CPU_LIMIT_NOT_SET: "None of the {groups} control groups of the storage has a processor "
    "limit.",
    Reason.THROTTLING_NOT_COUNTED: "The kernel does not report how often processor limits "
    "throttled the storage.",
    Reason.CPU_LIMIT: "Processor limits of the storage (smallest: {quota_cores} cores) throttled "
    "it in {throttled} of their periods[; up to {quota_used_share} of a quota was used].",
    Reason.ONE_MACHINE: "The load generator and the storage run on one machine.",
    Reason.DATA_STAYED_LOCAL: "The links of the load generator carried less than half of the data: "
    "it stayed on the machine.",
    Reason.LINK_NOT_MEASURED: "The link load or link speed of the {owner} is unknown.",
    Reason.LINK_LOAD: f"{_LINK}.",
    Reason.LINK_LOAD_WHERE_READ: f"{_LINK}, but not all hosts were read.",
    Reason.DISKS_NOT_MEASURED: f"The disks of the storage were not measured{_AT_MEDIUM}.",
    Reason.DISK_BUSY: f"{_DISK}.",
    Reason.DISK_BUSY_WHERE_READ: f"{_DISK}, but not all hosts were read.",
    Reason.DISK_BUSY_PARALLEL: f"{_DISK}. A device that serves several I/Os at once may still have "
    "capacity.",
    Reason.DISK_FULL: f"{_DISK}{_AT_MEDIUM}.",
    Reason.DISK_FULL_ROTATIONAL: f"{_DISK}. It is rotational and serves one I/O at a time.",
    Reason.OPEN_LOOP: "The load is an offered rate, not a number of I/Os in flight.",
    Reason.IN_FLIGHT_UNKNOWN: "The requested or the actual number of I/Os in flight is unknown.",
    Reason.IN_FLIGHT: "{asked} I/Os in flight were requested, {in_flight} were reached.",
    Reason.ONE_ZONE: "No I/O crosses a zone.",
    Reason.ROUND_TRIPS_NOT_MEASURED: "Round trips between zones were not measured, or their number "
    "per I/O is unknown.",
    Reason.ROUND_TRIPS: "An I/O waits for {round_trips} round trips of {round_trip_s} on average, "
    "{latency_share} of its mean latency of {latency_mean_s}.",
    Reason.RATE_NOT_MEASURED: "The throughput at the offered rate is unknown.",
    Reason.RATE_KEPT: f"{_RATE}the rate was kept.",
    Reason.RATE_NOT_KEPT: f"{_RATE}the queue grew.",
    Reason.MORE_LOAD_GAVE_MORE: "More load gave up to {gain} times the throughput.",
    Reason.MORE_LOAD_GAVE_NO_MORE: "More load gave less than a tenth more throughput.",
    Reason.NO_HIGHER_LOAD: "No level with more load was measured.",
    Reason.ONE_AT_A_TIME: "One I/O was in flight at a time: throughput is the inverse of latency.",
    Reason.FEWER_THAN_OSDS: "{in_flight} I/Os were in flight on {osds} OSDs: some OSDs were idle.",
    Reason.NOTHING_USED_UP: "No measured resource was used up.[ Not measured: {missing}.]",
}


def suspect_text(suspect: Suspect) -> str:
    numbers = dict(suspect.evidence)
    for name in ("quota_used_share", "latency_share"):
        if name in numbers:
            numbers[name] = min(1.0, numbers[name])
    values = {name: evidence_text(name, value) for name, value in numbers.items()}
    values |= {
        "owner": "load generator" if suspect.bottleneck in _CLIENT_SIDE else "storage",
        "machine": suspect.machine,
        "device": suspect.device,
        "missing": ", ".join(NAMES[resource] for resource in suspect.not_measured),
    }
    if "round_trips" in numbers:
        values["round_trips"] = f"{numbers['round_trips']:.3g}"
    if "utilisation" in numbers:
        values["utilisation"] = share_text(numbers["utilisation"])
    if "least_throttled_share" in numbers:
        ends = dict.fromkeys((values["least_throttled_share"], values["throttled_share"]))
        values["throttled"] = " to ".join(ends)
    if "iops_at_more_load" in numbers and numbers.get("iops"):
        values["gain"] = f"{numbers['iops_at_more_load'] / numbers['iops']:.2f}"
    sentence = fill(SUSPECTS[suspect.reason], values)
    if suspect.overruled_by is None:
        return sentence
    if suspect.overruled_by.bottleneck is Bottleneck.NOT_SATURATED:
        return f"{sentence} But the level was not saturated. {suspect_text(suspect.overruled_by)}"
    return f"{sentence} But another resource was used up."


# --- why a value is absent ----------------------------------------------------------------------

_NO_KNEE = {
    NoKneeReason.STILL_GROWS: "throughput still grows at the last level",
    NoKneeReason.INCONCLUSIVE: "whether throughput still grows at the last level is inconclusive",
    NoKneeReason.OUTSIDE_LEVELS: "not within the measured levels",
}
_NO_THROUGHPUT = {
    NoThroughputReason.THROUGHPUT_UNUSABLE: "no level has a usable throughput",
    NoThroughputReason.LATENCY_REFUSED: "latency is refused: {findings}",
    NoThroughputReason.LATENCY_MISSING: "no level has a usable latency",
    NoThroughputReason.LOWEST_LEVEL_ABOVE: "the lowest level exceeds {limit}",
}


def text(fact: object) -> str:
    """Format a fact of the analysis as a clause; None as an empty text."""
    match fact:
        case None:
            return ""
        case Unfitted(reason=NoFit.TOO_FEW_LEVELS):
            levels = count_text(fact.levels, "load level")
            return f"{levels} with a rate; the law's three parameters need {LEAST_LEVELS}"
        case Unfitted(reason=NoFit.HARD_LIMIT):
            return "throughput is flat up to the margin: a hard limit, not a queueing law"
        case Unfitted():
            return "a load is below one, or a rate is not positive and finite"
        case NoKnee(reason=NoKneeReason.TOO_FEW_LOADS):
            return f"{count_text(fact.loads, 'load')} with a usable throughput; a knee needs three"
        case NoKnee():
            return _NO_KNEE[fact.reason]
        case LatencyGap(reason=LatencyGapReason.RATE_NOT_REACHED):
            part = f" in {fact.behind} of {fact.trials} trials" if fact.behind else ""
            return f"the offered rate was not reached{part}: the queue kept growing"
        case LatencyGap(reason=LatencyGapReason.REFUSED):
            return f"refused: {', '.join(fact.findings)}"
        case LatencyGap():
            return absence_text(fact.figure) or "not measured"
        case NoThroughput():
            findings = ", ".join(fact.findings)
            return _NO_THROUGHPUT[fact.reason].format(findings=findings, limit=fact.limit)
        case NoEqualLatency(side=None):
            return "no level of either system exceeds the limit; higher loads are needed"
        case NoEqualLatency():
            return f"{fact.side}: {text(fact.cause)}"
        case LimitOrigin(metric=None):
            return "requested"
        case LimitOrigin(metric=Metric() as metric):
            level = f" ({level_name(fact.level)})" if fact.level else ""
            where = "knee" if fact.at_knee else "peak"
            return f"the baseline's {short_title(metric)} at its {where}{level}"
    raise TypeError(f"no words for {type(fact).__name__}")


# --- superlinear growth -------------------------------------------------------------------------

_CACHES = (
    "Caches: {data_per_osd_bytes_small} of data per OSD on the smaller system and "
    "{data_per_osd_bytes_large} on the larger; OSDs may use {memory_per_osd_bytes_small} and "
    "{memory_per_osd_bytes_large} of memory. "
)
_PLACEMENT = (
    "Placement: the fullest OSD has x{fullest_osd_small} the placement groups of the mean OSD on "
    "the smaller system and x{fullest_osd_large} on the larger"
)
_FEWER_PGS = "[; placement groups per OSD fall from {pgs_per_osd_small} to {pgs_per_osd_large}]"
CAUSES = {
    CauseCase.DATA_UNKNOWN: "Caches: more nodes have more memory and less data each. The data and "
    "memory of each node are unknown.",
    CauseCase.DATA_FITS_LARGER: f"{_CACHES}The data fits only the larger.",
    CauseCase.DATA_FITS_BOTH: f"{_CACHES}The data fits both, so the larger gains nothing.",
    CauseCase.DATA_FITS_NEITHER: f"{_CACHES}The data fits neither; more of it fits the larger.",
    CauseCase.DATA_IS_WRITTEN: f"{_CACHES}The data fits neither, and memory does not serve writes.",
    CauseCase.PLACEMENT_UNKNOWN: "Placement: how evenly the systems place data is unknown.",
    CauseCase.PLACEMENT_UNEVEN: f"{_PLACEMENT}. If it is the limit, this accounts for x{{gain}}.",
    CauseCase.PLACEMENT_EVEN: f"{_PLACEMENT}, which does not favour the larger.",
    CauseCase.OVERHEAD_IN_BUDGET: "Fixed overhead: work of OSDs without clients uses part of a "
    f"budget of {{cores_per_host_small}} cores a host{_FEWER_PGS}. Only a cost that falls with the "
    "number of hosts gives superlinear growth.",
    CauseCase.OVERHEAD_WITHOUT_BUDGET: "Fixed overhead: work of OSDs without clients leaves less "
    f"for I/O where processors are the limit{_FEWER_PGS}. No processor budget is known.",
    CauseCase.SERVICES_OUTSIDE_BUDGETS: "Co-located services: monitors, manager, MDS and load "
    "generator run on the lab's machine, outside the processor budgets of the hosts.",
    CauseCase.SERVICES_SHARE_MACHINE: "Co-located services: OSDs, monitors and load generator of a "
    "lab share one machine, whose processors did not grow.",
    CauseCase.SERVICES_UNKNOWN: "Co-located services: the hosts of monitors, metadata servers and "
    "clients are unknown.",
    CauseCase.SERVICES_COUNTED: "Co-located services: {monitors_small} of {hosts_small} hosts run "
    "a monitor on the smaller system, {monitors_large} of {hosts_large} on the larger, by their "
    "names.",
    CauseCase.FILL_UNKNOWN: "Fill and age: used space and age of the systems are unknown.",
    CauseCase.FILL_COUNTED: "Fill and age: {used_share_small} of the smaller system's raw space is "
    "used, {used_share_large} of the larger's[; created {created}].",
    CauseCase.LOAD_NOT_REACHED: "Load: fewer I/Os than requested were in flight on the smaller "
    "system.",
    CauseCase.LOAD_PEAK_IS_LAST: "Load: the highest level of the smaller system is its last. More "
    "load may give more throughput.",
    CauseCase.LOAD_PAST_PEAK: "Load: the smaller system gives {baseline_here_and_peak_iops_small} "
    "IOPS at this level and {baseline_here_and_peak_iops_large} at another: it is overloaded here.",
    CauseCase.LOAD_REACHED: "Load: no finding reports fewer I/Os in flight than requested.",
    CauseCase.NOT_COMPARED: "Other differences: there are no inventories to compare.",
    CauseCase.NO_DIFFERENCE: "Other differences: none in the inventories of both"
    "[; unknown for one of them: {unknown}].",
    CauseCase.DIFFERENCES: "Other differences: {differences}.",
}
_SHOWN = 3


def cause_text(cause: Cause) -> str:
    values = {
        "created": " and ".join(cause.created or ()),
        "unknown": ", ".join(cause.unknown[:_SHOWN]),
        "differences": "; ".join(
            f"{difference.path}: {difference.baseline}, then {difference.candidate}"
            for difference in cause.differences[:_SHOWN]
        ),
    }
    if len(cause.differences) > _SHOWN:
        values["differences"] += f" and {len(cause.differences) - _SHOWN} more"
    for name, pair in cause.numbers.items():
        for end, number in zip(("small", "large"), pair, strict=True):
            values[f"{name}_{end}"] = evidence_text(name, number)
    if "fullest_osd" in cause.numbers:
        small, large = cause.numbers["fullest_osd"]
        values |= {
            "fullest_osd_small": f"{small:.2f}",
            "fullest_osd_large": f"{large:.2f}",
            "gain": f"{small / large:.2f}",
        }
    if "pgs_per_osd" in cause.numbers:
        small, large = cause.numbers["pgs_per_osd"]
        values |= {"pgs_per_osd_small": f"{small:.0f}", "pgs_per_osd_large": f"{large:.0f}"}
    return fill(CAUSES[cause.case], values)


_SINGLE_TRIAL = (
    f" Single trials: the test allows for a factor of {REPEATS_FACTOR:.2f} between two runs of one "
    "system."
)
SINGLE_TRIALS = {Evidence.ONE_NUMBER: _SINGLE_TRIAL, Evidence.WITHIN_RUN: _SINGLE_TRIAL}


def superlinear_finding(found: Superlinear) -> Finding:
    """Write the finding `superlinear-scaling` of a speed-up that exceeds the added resources."""
    judgement, over, point = found.at.judgement, found.over, found.at.candidate
    where = "at the highest level of each" if found.at_peak else f"at {level_text(point)}"
    beyond = (
        f" {found.levels_beyond} of {found.levels} levels exceed it." if found.levels > 1 else ""
    )
    faster = speedup_text(judgement.ratio or 0.0, judgement.interval, over)
    return Finding(
        code=SUPERLINEAR,
        severity=Severity.WARNING,
        target=found.curve.target,
        workload=found.curve.workload,
        level=point.level,
        op=found.curve.op,
        evidence=found.evidence,
        message=(
            f"Throughput grew by {faster}, {where}: more than proportional, which more of the same "
            f"hardware does not explain.{beyond}{SINGLE_TRIALS.get(judgement.evidence, '')}"
        ),
        remedy="Look for other changes between the systems, and change one at a time. Do not "
        "extrapolate.",
    )


def peak_clause(names: list[Bottleneck], *, certain: bool) -> str:
    """Format what is used up where throughput is highest as a clause; empty where nothing is."""
    if not names:
        return ""
    if certain:
        return listed(PEAK_CLAUSES[name] for name in names)
    return f"the bottleneck is uncertain; suspected: {listed(NAMES[name] for name in names)}"
