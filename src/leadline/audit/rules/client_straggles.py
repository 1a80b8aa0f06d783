"""client-straggles: one of several load generators did far less than the others, or ran longer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from leadline.audit.evidence import JobEvidence, TrialEvidence
from leadline.audit.rule import RuleFinding, rule
from leadline.findings import Severity
from leadline.formats.zfs.stream import StreamReport
from leadline.units import format_duration, format_iops

# With two clients it is unknown which one is the outlier.
FEWEST_CLIENTS = 3
SLOW = 0.5
# Half of the median client's I/Os is then more than three standard deviations (Poisson).
FEWEST_IOS = 60
RUNTIME_APART = 0.10
# Of the time of ZFS streams at the same time, in which one of them had ended.
STREAM_MISSING = 0.10
# The last I/O of a client may end late.
RUNTIME_APART_S = 1.0
# Options in which clients must agree to be compared.
_ALIKE = ("rw", "readwrite", "bs", "blocksize", "iodepth", "numjobs", "size", "ioengine")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Client:
    """I/Os per second, I/Os, and seconds that the longest of its jobs ran."""

    name: str
    iops: float
    ios: int
    runtime_s: float


@rule(
    "client-straggles",
    "One of several load generators did far less than the others, or ran longer.",
    TrialEvidence,
)
def check(trial: TrialEvidence) -> Iterator[RuleFinding]:
    groups: dict[tuple[str, ...], dict[str, list[JobEvidence]]] = {}
    for entry in trial.jobs:
        if entry.throttled or entry.merged_sections or not entry.job.host:
            continue
        options = entry.job.options
        key = (entry.place.workload, entry.job.name, *(options.text(name) for name in _ALIKE))
        groups.setdefault(key, {}).setdefault(entry.job.host, []).append(entry)
    for (workload, name, *_), hosts in groups.items():
        clients = [_client(host, entries) for host, entries in hosts.items()]
        known = [client for client in clients if client is not None]
        # A client without figures may be the slowest, or the median.
        if len(known) == len(clients) >= FEWEST_CLIENTS:
            yield from _straggler(workload, name, known)
    if isinstance(trial.stream, StreamReport):
        yield from _early_stream(trial.stream)


def _early_stream(report: StreamReport) -> Iterator[RuleFinding]:
    """Yield a finding for ZFS streams that ended well before others of their round."""
    streams, together = report.record.request.numjobs, report.together_share
    if 1 - together <= STREAM_MISSING:
        return
    yield RuleFinding(
        severity=Severity.WARNING,
        evidence={
            "together_share": together,
            "streams": streams,
            "bandwidth_bps": report.bandwidth_bps,
        },
        message=f"The {streams} streams ran together for {together:.0%} of the time. Then some had "
        "ended, so the total is below what they do at the same time.",
        remedy="Make the streams longer with `size`. zfs-stream.json has the seconds and bytes of "
        "each stream: the slow one may have another disk or link.",
    )


def _client(host: str, entries: Sequence[JobEvidence]) -> _Client | None:
    rates = [part.iops for entry in entries for part in entry.parts]
    ran = [entry.longest_s for entry in entries]
    ios = [entry.total_ios for entry in entries]
    known = [rate for rate in rates if rate is not None]
    longest = [seconds for seconds in ran if seconds]
    counted = [count for count in ios if count is not None]
    if not known or len(known) < len(rates) or len(longest) < len(ran) or len(counted) < len(ios):
        return None
    if not math.isfinite(sum(known) + max(longest)):
        return None
    return _Client(name=host, iops=sum(known), ios=sum(counted), runtime_s=max(longest))


def _straggler(workload: str, job: str, clients: Sequence[_Client]) -> Iterator[RuleFinding]:
    """Yield a finding for slow clients and one for other runtimes: the worst one, and a count."""
    iops = median(client.iops for client in clients)
    runtime_s = median(client.runtime_s for client in clients)
    slow = [client for client in clients if client.iops < SLOW * iops]
    if slow and median(client.ios for client in clients) >= FEWEST_IOS:
        worst = min(slow, key=lambda client: client.iops)
        yield RuleFinding(
            severity=Severity.WARNING,
            workload=workload,
            evidence={
                "iops": worst.iops,
                "median_iops": iops,
                "share": worst.iops / iops,
                "clients": len(clients),
                "stragglers": len(slow),
            },
            message=f"Client {worst.name} did {format_iops(worst.iops)} IOPS of {job!r}, the "
            f"median of {len(clients)} clients {format_iops(iops)}{_others(slow)}. The sum does "
            f"not describe a single client.",
            remedy="Check this client's processor, network and location. The raw output has the "
            "figures of each client.",
        )
    apart = [
        client
        for client in clients
        if abs(client.runtime_s - runtime_s) > max(RUNTIME_APART * runtime_s, RUNTIME_APART_S)
    ]
    if apart:
        worst = max(apart, key=lambda client: abs(client.runtime_s - runtime_s))
        yield RuleFinding(
            severity=Severity.WARNING,
            workload=workload,
            evidence={
                "runtime_s": worst.runtime_s,
                "median_runtime_s": runtime_s,
                "clients": len(clients),
                "stragglers": len(apart),
            },
            message=f"Client {worst.name} ran {job!r} for {format_duration(worst.runtime_s)}, the "
            f"median of {len(clients)} clients for {format_duration(runtime_s)}{_others(apart)}. "
            "They did not all run at the same time, so their rates do not add up.",
            remedy="Set time_based with one runtime for all clients. Find what delayed this one.",
        )


def _others(found: Sequence[_Client]) -> str:
    return f" ({len(found) - 1} more differ as much)" if len(found) > 1 else ""
