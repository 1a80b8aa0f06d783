"""Status of a Ceph cluster during a trial: `ceph status` documents in `cluster.jsonl`.

The documents are those of `ceph status --format json` from Luminous to Squid. Unknown fields are
ignored. A missing rate or count is zero: Ceph writes those of recovery and of degraded objects only
where there are any (mon/PGMap.cc).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import (
    AliasPath,
    BaseModel,
    BeforeValidator,
    Discriminator,
    Field,
    FiniteFloat,
    Tag,
    TypeAdapter,
)

from leadline.formats.json_lines import WHEN_USED, Converted, line_error, parse_lines

_Integer = Annotated[int, Field(strict=True)]
_Float = Annotated[FiniteFloat, Field(strict=True)]


class Health(StrEnum):
    """The health of a cluster, and the severity of a health check."""

    OK = "HEALTH_OK"
    WARN = "HEALTH_WARN"
    ERR = "HEALTH_ERR"


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """A health check that fails. `summary` is Ceph's text; `muted`: by an administrator."""

    code: str
    severity: Health
    summary: str
    muted: bool


class _Check(BaseModel):
    severity: Health
    message: str = Field(validation_alias=AliasPath("summary", "message"))
    # Since Octopus.
    muted: Any = None


class _PgState(BaseModel):
    state_name: str
    count: _Integer


def _checks(stored: Mapping[str, _Check]) -> tuple[HealthCheck, ...]:
    return tuple(
        HealthCheck(
            code=code, severity=check.severity, summary=check.message, muted=check.muted is True
        )
        for code, check in stored.items()
    )


def _pg_states(stored: Sequence[_PgState]) -> dict[str, int]:
    return {state.state_name: state.count for state in stored}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """A rank of a CephFS and the MDS that holds it; `state` as Ceph names it (`up:active`). `gid`
    changes with a restart; 0 before Nautilus."""

    filesystem: Annotated[_Integer, Field(validation_alias="filesystem_id")]
    rank: _Integer
    name: str
    state: Annotated[str, Field(validation_alias="status")]
    gid: _Integer = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A daemon of the maps. `gid` changes with a restart (0 for a monitor). `silent` is why it did
    not answer; empty where it did, or was not asked."""

    gid: _Integer = 0
    silent: str = ""


def service_daemons(status: Any) -> dict[str, int]:
    """Return the gid of every daemon that registered as a service (gateways, mirrors), by name.
    OSDs and MDS with gid 0 stand there only while they report a task, such as a scrub."""
    services = status.get("servicemap", {}).get("services", {})
    return {
        f"{service}.{name}": daemon["gid"]
        for service, entry in services.items()
        for name, daemon in entry["daemons"].items()
        if name != "summary" and daemon["gid"]
    }


def _at(*path: str) -> object:
    return Field(validation_alias=AliasPath(*path))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """One status document. Ratios are in 0 to 1.

    `pg_states` counts PGs by state as Ceph names it (`active+clean+scrubbing+deep`). The up and in
    flags of OSDs last changed at `up_changed_at_s` and `in_changed_at_s`, in seconds since 1970; 0
    before Octopus, which does not report them.
    """

    fsid: str = ""
    health: Annotated[Health, _at("health", "status")]
    checks: Annotated[
        tuple[HealthCheck, ...], Converted(dict[str, _Check], _checks), _at("health", "checks")
    ]
    monitors_in_quorum: Annotated[int, Converted(list[Any], len), _at("quorum")]
    election_epoch: _Integer = 0
    manager_available: Annotated[bool, _at("mgrmap", "available")] = True
    ranks: Annotated[tuple[Rank, ...], _at("fsmap", "by_rank")] = ()
    services: Mapping[str, _Integer] = field(default_factory=dict)
    osdmap_epoch: Annotated[_Integer, _at("osdmap", "epoch")]
    osds_up: Annotated[_Integer, _at("osdmap", "num_up_osds")]
    osds_in: Annotated[_Integer, _at("osdmap", "num_in_osds")]
    up_changed_at_s: Annotated[_Integer, _at("osdmap", "osd_up_since")] = 0
    in_changed_at_s: Annotated[_Integer, _at("osdmap", "osd_in_since")] = 0
    pg_states: Annotated[
        Mapping[str, int], Converted(list[_PgState], _pg_states), _at("pgmap", "pgs_by_state")
    ]
    pgs: Annotated[_Integer, _at("pgmap", "num_pgs")]
    degraded_ratio: Annotated[_Float, _at("pgmap", "degraded_ratio")] = 0.0
    misplaced_ratio: Annotated[_Float, _at("pgmap", "misplaced_ratio")] = 0.0
    unfound_objects: Annotated[_Integer, _at("pgmap", "unfound_objects")] = 0
    recovering_bps: Annotated[_Float, _at("pgmap", "recovering_bytes_per_sec")] = 0.0

    def pgs_with(self, *flags: str) -> int:
        """Count the PGs whose state has at least one of the flags."""
        wanted = set(flags)
        return sum(
            count for state, count in self.pg_states.items() if wanted & set(state.split("+"))
        )

    @property
    def scrubbing_pgs(self) -> int:
        """PGs in a scrub, deep or not."""
        return self.pgs_with("scrubbing")

    @property
    def deep_scrubbing_pgs(self) -> int:
        """PGs in a deep scrub, which reads every byte."""
        return sum(
            count
            for state, count in self.pg_states.items()
            if {"scrubbing", "deep"} <= set(state.split("+"))
        )


def _flattened(status: Any) -> Any:
    """Until Nautilus the OSD map is an object `osdmap` in `osdmap`. Services are nested deeper."""
    if not isinstance(status, dict):
        return status
    outer = status.get("osdmap")
    if isinstance(outer, dict) and "osdmap" in outer:
        status = {**status, "osdmap": outer["osdmap"]}
    try:
        return {**status, "services": service_daemons(status)}
    except (AttributeError, KeyError, TypeError):
        raise ValueError("the services are not those of a status") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSample:
    """The status at one moment: ISO 8601 in UTC, and seconds since the watch began. `daemons` are
    those of the monitors', managers' and MDS maps by name (`mds.a`); empty where they are unknown,
    as in archives of earlier versions."""

    at: str
    elapsed_s: _Float
    status: Annotated[ClusterStatus, BeforeValidator(_flattened)]
    daemons: Mapping[str, Daemon] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedSample:
    """A probe that failed, and the reason."""

    at: str
    elapsed_s: _Float
    reason: Annotated[str, Field(alias="error")]


class _SameLine(BaseModel):
    """A line whose status is that of the line before."""

    at: str
    elapsed_s: _Float


def _line_kind(entry: object) -> str | None:
    if not isinstance(entry, dict):
        return None
    if "error" in entry:
        return "<missed>"
    return "<same>" if entry.get("same") is True else "<status>"


_LINE: Final[TypeAdapter[ClusterSample | _SameLine | MissedSample]] = TypeAdapter(
    Annotated[
        Annotated[ClusterSample, Tag("<status>")]
        | Annotated[_SameLine, Tag("<same>")]
        | Annotated[MissedSample, Tag("<missed>")],
        Discriminator(_line_kind),
    ],
    config=WHEN_USED,
)


def parse_cluster_log(content: bytes) -> tuple[ClusterSample | MissedSample, ...]:
    """Parse a `cluster.jsonl`. A line with `same` has the status of the line before. Raises
    FormatError with the line and the path."""
    samples: list[ClusterSample | MissedSample] = []
    last: ClusterSample | None = None
    for number, line in parse_lines(content, _LINE, "the record of a cluster"):
        if isinstance(line, _SameLine):
            if last is None:
                raise line_error(number, ".same", "there is no status before it")
            samples.append(replace(last, at=line.at, elapsed_s=line.elapsed_s))
        else:
            last = line if isinstance(line, ClusterSample) else last
            samples.append(line)
    return tuple(samples)
