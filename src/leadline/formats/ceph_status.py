"""`ceph status --format json` (Nautilus to Squid), and the record of a cluster during a trial,
`cluster.jsonl`, whose lines hold such documents.

Both parsers are total: they return what they read or raise FormatError with the path or the line.
Fields that are not known are ignored. A rate or a count that Ceph leaves out is zero: it writes
those of recovery, of client I/O and of degraded objects only while there are any (mon/PGMap.cc).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import orjson

from leadline.formats.checked import mapping, text, wrong
from leadline.formats.output import FormatError


class Health(StrEnum):
    """The cluster's own verdict, and the severity of one of its checks."""

    OK = "HEALTH_OK"
    WARN = "HEALTH_WARN"
    ERR = "HEALTH_ERR"


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """One check that does not pass. `summary` is Ceph's sentence; `muted` by an administrator."""

    code: str
    severity: Health
    summary: str
    muted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRates:
    """I/O of all clients of the cluster as its OSDs told in the last seconds, per second."""

    read_bps: float
    write_bps: float
    read_iops: float
    write_iops: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """One status document. Ratios are of 1; `inactive_ratio` is the share of PGs that serve no I/O
    and `unknown_ratio` of those that nobody told the manager of.

    `pg_states` counts PGs by Ceph's name of their state (`active+clean+scrubbing+deep`). OSDs'
    up and in flags last changed at `up_changed_at_s` and `in_changed_at_s`, in seconds since 1970,
    0 before Octopus, which does not tell. `progress` holds the messages of long-running events.
    """

    health: Health
    checks: tuple[HealthCheck, ...]
    pg_states: Mapping[str, int]
    pgs: int
    pools: int
    degraded_objects: int
    degraded_ratio: float
    misplaced_objects: int
    misplaced_ratio: float
    unfound_objects: int
    inactive_ratio: float
    unknown_ratio: float
    recovering_bps: float
    recovering_objects_per_s: float
    osds: int
    osds_up: int
    osds_in: int
    osdmap_epoch: int
    remapped_pgs: int
    up_changed_at_s: int
    in_changed_at_s: int
    monitors_in_quorum: int
    client: ClientRates
    progress: tuple[str, ...]

    def pgs_with(self, *flags: str) -> int:
        """PGs whose state has at least one of the flags."""
        wanted = set(flags)
        return sum(
            count for state, count in self.pg_states.items() if wanted & set(state.split("+"))
        )

    @property
    def scrubbing_pgs(self) -> int:
        """PGs being scrubbed, deep or not."""
        return self.pgs_with("scrubbing")

    @property
    def deep_scrubbing_pgs(self) -> int:
        """PGs whose every byte is being read."""
        return sum(
            count
            for state, count in self.pg_states.items()
            if {"scrubbing", "deep"} <= set(state.split("+"))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSample:
    """The cluster at one moment: ISO 8601 in UTC, and seconds since the watch began."""

    at: str
    elapsed_s: float
    status: ClusterStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedSample:
    """A moment of which nothing is known, and why."""

    at: str
    elapsed_s: float
    reason: str


def parse_ceph_status(content: bytes | str) -> ClusterStatus:
    """One document as `ceph status --format json` prints it. Raises FormatError with the path."""
    return status_of(_decoded(content, "a status of Ceph's"))


def parse_cluster_log(content: bytes) -> tuple[ClusterSample | MissedSample, ...]:
    """The lines of a `cluster.jsonl`, in order. A line with `same` takes the status of the line
    before, with the client I/O of its own. Raises FormatError with the line."""
    samples: list[ClusterSample | MissedSample] = []
    last: ClusterStatus | None = None
    for number, line in enumerate(content.splitlines(), start=1):
        where = f"line {number}"
        entry = mapping(_decoded(line, f"{where} of a cluster's record"), where)
        at, elapsed_s = text(entry, "at", where), _number(entry, "elapsed_s", where)
        if "error" in entry:
            reason = text(entry, "error", where)
            samples.append(MissedSample(at=at, elapsed_s=elapsed_s, reason=reason))
            continue
        if entry.get("same") is True:
            if last is None:
                raise wrong(f"{where}.same", "there is no status before it")
            last = replace(last, client=_client(mapping(entry.get("io", {}), f"{where}.io"), where))
        else:
            last = status_of(mapping(entry.get("status"), f"{where}.status"), f"{where}.status")
        samples.append(ClusterSample(at=at, elapsed_s=elapsed_s, status=last))
    return tuple(samples)


def status_of(document: object, where: str = "status") -> ClusterStatus:
    """A decoded status document; `where` is what paths in errors begin with."""
    top = mapping(document, where)
    health = mapping(top.get("health"), f"{where}.health")
    osdmap, osdmap_at = mapping(top.get("osdmap"), f"{where}.osdmap"), f"{where}.osdmap"
    if "osdmap" in osdmap:  # so until Nautilus
        osdmap_at = f"{osdmap_at}.osdmap"
        osdmap = mapping(osdmap["osdmap"], osdmap_at)
    pgmap, pgmap_at = mapping(top.get("pgmap"), f"{where}.pgmap"), f"{where}.pgmap"
    quorum = top.get("quorum")
    if not isinstance(quorum, list):
        raise wrong(f"{where}.quorum", "a list was expected")
    return ClusterStatus(
        health=_health(health, "status", f"{where}.health"),
        checks=_checks(health, f"{where}.health"),
        pg_states=_pg_states(pgmap, pgmap_at),
        pgs=_count(pgmap, "num_pgs", pgmap_at),
        pools=_count(pgmap, "num_pools", pgmap_at, default=0),
        degraded_objects=_count(pgmap, "degraded_objects", pgmap_at, default=0),
        degraded_ratio=_number(pgmap, "degraded_ratio", pgmap_at, default=0),
        misplaced_objects=_count(pgmap, "misplaced_objects", pgmap_at, default=0),
        misplaced_ratio=_number(pgmap, "misplaced_ratio", pgmap_at, default=0),
        unfound_objects=_count(pgmap, "unfound_objects", pgmap_at, default=0),
        inactive_ratio=_number(pgmap, "inactive_pgs_ratio", pgmap_at, default=0),
        unknown_ratio=_number(pgmap, "unknown_pgs_ratio", pgmap_at, default=0),
        recovering_bps=_number(pgmap, "recovering_bytes_per_sec", pgmap_at, default=0),
        recovering_objects_per_s=_number(pgmap, "recovering_objects_per_sec", pgmap_at, default=0),
        osds=_count(osdmap, "num_osds", osdmap_at),
        osds_up=_count(osdmap, "num_up_osds", osdmap_at),
        osds_in=_count(osdmap, "num_in_osds", osdmap_at),
        osdmap_epoch=_count(osdmap, "epoch", osdmap_at),
        remapped_pgs=_count(osdmap, "num_remapped_pgs", osdmap_at, default=0),
        up_changed_at_s=_count(osdmap, "osd_up_since", osdmap_at, default=0),
        in_changed_at_s=_count(osdmap, "osd_in_since", osdmap_at, default=0),
        monitors_in_quorum=len(quorum),
        client=_client(pgmap, pgmap_at),
        progress=_progress(top, where),
    )


def _decoded(content: bytes | str, what: str) -> object:
    try:
        decoded: object = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise FormatError(
            "unreadable-result",
            f"{what} is not JSON, at line {error.lineno}, column {error.colno}: {error.msg}",
        ) from error
    return decoded


def _checks(health: Mapping[str, Any], where: str) -> tuple[HealthCheck, ...]:
    found = []
    for code, value in mapping(health.get("checks"), f"{where}.checks").items():
        path = f"{where}.checks.{code}"
        check = mapping(value, path)
        summary = mapping(check.get("summary"), f"{path}.summary")
        found.append(
            HealthCheck(
                code=code,
                severity=_health(check, "severity", path),
                summary=text(summary, "message", f"{path}.summary"),
                # Since Octopus; before it nothing could be muted.
                muted=check.get("muted") is True,
            )
        )
    return tuple(found)


def _pg_states(pgmap: Mapping[str, Any], where: str) -> Mapping[str, int]:
    entries = pgmap.get("pgs_by_state")
    if not isinstance(entries, list):
        raise wrong(f"{where}.pgs_by_state", "a list was expected")
    states: dict[str, int] = {}
    for number, value in enumerate(entries):
        path = f"{where}.pgs_by_state[{number}]"
        entry = mapping(value, path)
        states[text(entry, "state_name", path)] = _count(entry, "count", path)
    return states


def _client(rates: Mapping[str, Any], where: str) -> ClientRates:
    return ClientRates(
        read_bps=_number(rates, "read_bytes_sec", where, default=0),
        write_bps=_number(rates, "write_bytes_sec", where, default=0),
        read_iops=_number(rates, "read_op_per_sec", where, default=0),
        write_iops=_number(rates, "write_op_per_sec", where, default=0),
    )


def _progress(top: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Messages of the progress module, which Nautilus has and tells of in no status."""
    events = mapping(top.get("progress_events", {}), f"{where}.progress_events")
    return tuple(
        text(
            mapping(event, f"{where}.progress_events.{name}"),
            "message",
            f"{where}.progress_events.{name}",
        )
        for name, event in events.items()
    )


def _health(entry: Mapping[str, Any], key: str, where: str) -> Health:
    value = text(entry, key, where)
    try:
        return Health(value)
    except ValueError:
        raise wrong(f"{where}.{key}", f"{value!r} is no state of health") from None


def _number(entry: Mapping[str, Any], key: str, where: str, default: float | None = None) -> float:
    value = entry.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong(f"{where}.{key}", "a number was expected")
    return float(value)


def _count(entry: Mapping[str, Any], key: str, where: str, default: int | None = None) -> int:
    value = entry.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong(f"{where}.{key}", "a whole number was expected")
    return value
