"""What was kept of a trial beside its result, as the layers need it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from leadline.analysis.layers.ceph import PoolSeen
from leadline.analysis.layers.devices import BlockRequests
from leadline.analysis.layers.zfs import ZfsSeen
from leadline.archive.reader import StoredTrial
from leadline.formats.block_requests import BlockSample, MissedBlock, request_sizes
from leadline.formats.ceph_counters import CounterSample, MissedCounters, operation_sizes
from leadline.formats.host_counters import HostSample, MissedHostSample
from leadline.formats.image_counters import ImageSample, MissedImage
from leadline.formats.mount_counters import MountSample
from leadline.formats.output import FormatError
from leadline.formats.zfs.iostat import IostatReport
from leadline.formats.zfs.iostat_sizes import RequestSizes, grown, parse_request_sizes
from leadline.formats.zfs.kstat import Txg, TxgState, parse_kstat, parse_txgs
from leadline.formats.zfs_record import MissedZfs, ZfsAnswer, first_and_last
from leadline.formats.zfs_stream import StreamReport

Answer = TypeVar("Answer")
_KSTATS = ("arcstats", "dmu_tx")
_SIZES_ASKED = "iostat -r -p"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All of a trial. `notes` say what could not be read."""

    machines: tuple[HostSample | MissedHostSample, ...]
    requests: Mapping[str, BlockRequests]
    zfs: ZfsSeen
    image: tuple[ImageSample | MissedImage, ...]
    pool: PoolSeen
    mounts: tuple[MountSample, ...]
    stream: StreamReport | None
    notes: tuple[str, ...]


def seen_in(trial: StoredTrial) -> Seen:
    """Reads every record of the trial once."""
    notes: list[str] = []

    def read(ask: Callable[[], Answer], nothing: Answer) -> Answer:
        try:
            return ask()
        except FormatError as error:
            notes.append(error.fact)
            return nothing

    return Seen(
        machines=read(lambda: trial.resources, ()),
        requests=_requests(read(lambda: trial.block_requests, ())),
        zfs=_zfs(read(lambda: trial.zpool_iostat, None), read(lambda: trial.zfs, ()), notes),
        image=read(lambda: trial.image_counters, ()),
        pool=_pool(read(lambda: trial.ceph_counters, ())),
        mounts=read(lambda: trial.mount_counters, ()),
        stream=read(lambda: trial.zfs_stream, None),
        notes=tuple(dict.fromkeys(notes)),
    )


def _requests(samples: Sequence[BlockSample | MissedBlock]) -> Mapping[str, BlockRequests]:
    missed: dict[str, list[str]] = {}
    for one in samples:
        if isinstance(one, MissedBlock):
            missed.setdefault(one.device, []).append(one.reason)
    told = request_sizes(samples)
    everywhere = missed.pop("", [])
    return {
        name: BlockRequests(
            reads=told[name].reads if name in told else {},
            writes=told[name].writes if name in told else {},
            lost=told[name].lost if name in told else 0,
            missed=tuple(dict.fromkeys((*missed.get(name, ()), *everywhere))),
        )
        for name in {*told, *missed}
    }


def _pool(samples: tuple[CounterSample, ...]) -> PoolSeen:
    missed = (one.reason for one in samples if isinstance(one, MissedCounters))
    return PoolSeen(
        samples=samples, sizes=operation_sizes(samples), missed=tuple(dict.fromkeys(missed))
    )


def _zfs(
    report: IostatReport | None,
    answers: Sequence[ZfsAnswer | MissedZfs],
    notes: list[str],
) -> ZfsSeen:
    pools = dict.fromkeys(one.pool for one in answers if isinstance(one, ZfsAnswer))
    missed = [
        f"{one.asked or 'ZFS'}: {one.reason}" for one in answers if isinstance(one, MissedZfs)
    ]
    requests: RequestSizes | None = None
    counters: dict[str, dict[str, int]] = {}
    groups: tuple[Txg, ...] = ()
    for pool in pools:  # a target lies in one
        try:
            requests = _requests_between(answers, pool) or requests
            for name in _KSTATS:
                counters |= _counters_between(answers, pool, name)
            groups = _groups_between(answers, pool) or groups
        except (FormatError, ValueError) as error:
            notes.append(error.fact if isinstance(error, FormatError) else str(error))
    return ZfsSeen(
        report=report,
        requests=requests,
        counters=counters,
        groups=groups,
        watched_s=_watched_s(answers),
        missed=_told_missing(missed),
    )


def _watched_s(answers: Sequence[ZfsAnswer | MissedZfs]) -> tuple[float, float] | None:
    """Between which moments `zpool iostat` printed: it is begun behind the questions of the start,
    and ended before those of the end."""
    moments = [one.elapsed_s for one in answers]
    return (min(moments), max(moments)) if len(set(moments)) > 1 else None


def _told_missing(missed: Sequence[str]) -> tuple[str, ...]:
    """Each once; what zfs-fuse refuses as one."""
    found = dict.fromkeys(missed)
    refused = [one for one in found if "invalid option" in one]
    if len(refused) < 2:
        return tuple(found)
    options = ", ".join(dict.fromkeys(one[-2:-1] for one in refused))
    kept = [one for one in found if one not in refused]
    return (f"this `zpool iostat` has no options {options} (sizes, waits, queues)", *kept)


def _requests_between(answers: Sequence[ZfsAnswer | MissedZfs], pool: str) -> RequestSizes | None:
    """Raises FormatError or ValueError."""
    both = first_and_last(answers, pool, _SIZES_ASKED)
    if both is None:
        return None
    first, last = (parse_request_sizes(one.text)[0] for one in both)
    return grown(first, last)


def _counters_between(
    answers: Sequence[ZfsAnswer | MissedZfs], pool: str, name: str
) -> dict[str, dict[str, int]]:
    """Growth of a kstat's counters, of those that did not shrink. Raises FormatError."""
    both = first_and_last(answers, pool, f"kstat {name}")
    if both is None:
        return {}
    first, last = (parse_kstat(one.text).values for one in both)
    found = {}
    for key, now in last.items():
        before = first.get(key)
        if isinstance(now, int) and isinstance(before, int) and now >= before:
            found[key] = now - before
    return {name: found}


def _groups_between(answers: Sequence[ZfsAnswer | MissedZfs], pool: str) -> tuple[Txg, ...]:
    """Groups that were committed during the trial, as far as the module remembers them. Raises
    FormatError."""
    both = first_and_last(answers, pool, "kstat txgs")
    if both is None:
        return ()
    first, last = (parse_txgs(one.text) for one in both)
    done = {one.txg for one in first if one.state is TxgState.COMMITTED}
    oldest = max(done, default=-1)
    return tuple(one for one in last if one.state is TxgState.COMMITTED and one.txg > oldest)
