"""Daemons of a Ceph cluster that died, left or restarted during a trial, by their samples."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from leadline.formats.ceph.status import ClusterSample, Daemon, Rank

ACTIVE = "up:active"
_REFUSED = os.strerror(errno.ECONNREFUSED)


class Role(StrEnum):
    """What a daemon does for clients."""

    MONITOR = "monitor"
    MANAGER = "manager"
    METADATA = "MDS with a rank"
    STANDBY = "standby"
    SERVICE = "gateway or mirror"


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonChange:
    """One change: `text` names the daemon and what happened, `samples` are the indices."""

    role: Role
    text: str
    samples: frozenset[int]
    detail: str = ""


def find_changes(
    samples: Sequence[ClusterSample], before: ClusterSample | None = None
) -> Iterator[DaemonChange]:
    """Yield the changes during `samples`, and daemons that were lost since `before`, a sample of an
    earlier trial."""
    yield from _silences(samples, before)
    yield from _losses(samples, before)
    yield from _ranks(samples)
    yield from _elections(samples)
    down = [index for index, sample in enumerate(samples) if not sample.status.manager_available]
    if down:
        yield DaemonChange(role=Role.MANAGER, text="no manager was active", samples=frozenset(down))


def stretches(indices: Sequence[int]) -> Iterator[list[int]]:
    """Yield the runs of consecutive indices."""
    run: list[int] = []
    for index in indices:
        if run and index != run[-1] + 1:
            yield run
            run = []
        run.append(index)
    if run:
        yield run


def _silences(
    samples: Sequence[ClusterSample], before: ClusterSample | None
) -> Iterator[DaemonChange]:
    """Yield daemons that gave no answer after an earlier one: those that never answered may be out
    of reach from this machine."""
    earlier = before.daemons if before else {}
    answered = {name for name, daemon in earlier.items() if not daemon.silent}
    silent: dict[str, list[int]] = {}
    for index, sample in enumerate(samples):
        for name, daemon in sample.daemons.items():
            if not daemon.silent:
                answered.add(name)
            elif name in answered:
                silent.setdefault(name, []).append(index)
    for name, indices in silent.items():
        for stretch in stretches(indices):
            reasons = {samples[index].daemons[name].silent for index in stretch}
            # A single late answer is that of a busy machine.
            if len(stretch) > 1 or _REFUSED in reasons:
                yield DaemonChange(
                    role=_role(name, samples),
                    text=f"{name} gave no answer",
                    samples=frozenset(stretch),
                    detail=", ".join(sorted(reasons)),
                )


def _losses(
    samples: Sequence[ClusterSample], before: ClusterSample | None
) -> Iterator[DaemonChange]:
    """Yield daemons that left the maps, or are another process than before. Maps and services are
    compared apart: an earlier version recorded no maps."""
    maps = [(index, sample.daemons) for index, sample in enumerate(samples) if sample.daemons]
    services = [(index, _services(sample)) for index, sample in enumerate(samples)]
    yield from _compared(maps, before.daemons if before else {}, samples)
    yield from _compared(services, _services(before) if before else {}, samples)


def _compared(
    tables: Sequence[tuple[int, Mapping[str, Daemon]]],
    known: Mapping[str, Daemon],
    samples: Sequence[ClusterSample],
) -> Iterator[DaemonChange]:
    for index, table in tables:
        for name in sorted(known.keys() - table.keys()):
            yield DaemonChange(
                role=_role(name, samples, lost=True),
                text=f"{name} left the cluster's maps",
                samples=frozenset({index}),
                detail="" if index else "since the run's first trial",
            )
        for name in sorted(known.keys() & table.keys()):
            # A restart between trials is over.
            if index and known[name].gid != table[name].gid:
                yield DaemonChange(
                    role=_role(name, samples),
                    text=f"{name} restarted",
                    samples=frozenset({index}),
                )
        known = table


def _ranks(samples: Sequence[ClusterSample]) -> Iterator[DaemonChange]:
    """Yield ranks of CephFS that were not active, or that another MDS took over."""
    tables = [_holders(sample) for sample in samples]
    for key in dict.fromkeys(key for table in tables for key in table):
        held = [table.get(key) for table in tables]
        states = [f"mds.{rank.name} {rank.state}" if rank else "failed" for rank in held]
        changed = {
            index for index, (old, new) in enumerate(pairwise(states), start=1) if old != new
        }
        inactive = {index for index, rank in enumerate(held) if not rank or rank.state != ACTIVE}
        if changed | inactive:
            steps = [state for index, state in enumerate(states) if not index or index in changed]
            yield DaemonChange(
                role=Role.METADATA,
                text=f"MDS rank {key[1]}",
                samples=frozenset(changed | inactive),
                detail=" -> ".join(steps),
            )


def _elections(samples: Sequence[ClusterSample]) -> Iterator[DaemonChange]:
    """Yield elections of the monitors after which as many are in quorum as before: one left and
    came back between two samples."""
    held = [
        index
        for index, (old, new) in enumerate(pairwise(samples), start=1)
        if 0 < old.status.election_epoch < new.status.election_epoch
        and old.status.monitors_in_quorum == new.status.monitors_in_quorum
    ]
    if held:
        yield DaemonChange(
            role=Role.MONITOR, text="the monitors held an election", samples=frozenset(held)
        )


def _services(sample: ClusterSample) -> Mapping[str, Daemon]:
    return {name: Daemon(gid=gid) for name, gid in sample.status.services.items()}


def _holders(sample: ClusterSample) -> Mapping[tuple[int, int], Rank]:
    return {(rank.filesystem, rank.rank): rank for rank in sample.status.ranks}


def _role(name: str, samples: Sequence[ClusterSample], *, lost: bool = False) -> Role:
    """The role of a daemon by its name. A daemon with a rank that is `lost` is not needed any more:
    the rank itself reports the takeover."""
    kind, _, own = name.partition(".")
    if kind == "mon":
        return Role.MONITOR
    if kind == "mgr":
        return Role.MANAGER
    if kind != "mds":
        return Role.SERVICE
    ranked = any(rank.name == own for sample in samples for rank in sample.status.ranks)
    return Role.METADATA if ranked and not lost else Role.STANDBY
