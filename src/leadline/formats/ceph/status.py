"""Status of a Ceph cluster during a trial: `ceph status` documents in `cluster.jsonl`.

The documents are those of `ceph status --format json` from Luminous to Squid. Unknown fields are
ignored. A missing rate or count is zero: Ceph writes those of recovery and of degraded objects only
where there are any (mon/PGMap.cc).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import (
    AliasPath,
    BaseModel,
    Discriminator,
    Field,
    FiniteFloat,
    Tag,
    TypeAdapter,
    model_validator,
)

from leadline.formats.json_lines import line_error, parse_lines

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """One status document. Ratios are in 0 to 1.

    `pg_states` counts PGs by state as Ceph names it (`active+clean+scrubbing+deep`). The up and in
    flags of OSDs last changed at `up_changed_at_s` and `in_changed_at_s`, in seconds since 1970; 0
    before Octopus, which does not report them.
    """

    health: Health
    checks: tuple[HealthCheck, ...]
    pg_states: Mapping[str, int]
    pgs: int
    degraded_ratio: float
    misplaced_ratio: float
    unfound_objects: int
    recovering_bps: float
    osds_up: int
    osds_in: int
    osdmap_epoch: int
    up_changed_at_s: int
    in_changed_at_s: int
    monitors_in_quorum: int

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSample:
    """The status at one moment: ISO 8601 in UTC, and seconds since the watch began."""

    at: str
    elapsed_s: float
    status: ClusterStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedSample:
    """A probe that failed, and the reason."""

    at: str
    elapsed_s: _Float
    reason: Annotated[str, Field(alias="error")]


class _Check(BaseModel):
    severity: Health
    message: str = Field(validation_alias=AliasPath("summary", "message"))
    # Since Octopus.
    muted: Any = None


class _Health(BaseModel):
    status: Health
    checks: dict[str, _Check]


class _PgState(BaseModel):
    state_name: str
    count: _Integer


class _PgMap(BaseModel):
    pgs_by_state: list[_PgState]
    num_pgs: _Integer
    degraded_ratio: _Float = 0.0
    misplaced_ratio: _Float = 0.0
    unfound_objects: _Integer = 0
    recovering_bytes_per_sec: _Float = 0.0


class _OsdMap(BaseModel):
    epoch: _Integer
    num_up_osds: _Integer
    num_in_osds: _Integer
    osd_up_since: _Integer = 0
    osd_in_since: _Integer = 0

    @model_validator(mode="before")
    @classmethod
    def _inner(cls, document: Any) -> Any:
        """Until Nautilus the OSD map is an object `osdmap` in `osdmap`."""
        nested = isinstance(document, dict) and "osdmap" in document
        return document["osdmap"] if nested else document


class _Status(BaseModel):
    health: _Health
    quorum: list[Any]
    osdmap: _OsdMap
    pgmap: _PgMap


class _SameLine(BaseModel):
    """A line whose status is that of the line before."""

    at: str
    elapsed_s: _Float


class _StatusLine(BaseModel):
    at: str
    elapsed_s: _Float
    status: _Status


def _line_kind(entry: object) -> str | None:
    if not isinstance(entry, dict):
        return None
    if "error" in entry:
        return "<missed>"
    return "<same>" if entry.get("same") is True else "<status>"


_LINE: Final[TypeAdapter[_StatusLine | _SameLine | MissedSample]] = TypeAdapter(
    Annotated[
        Annotated[_StatusLine, Tag("<status>")]
        | Annotated[_SameLine, Tag("<same>")]
        | Annotated[MissedSample, Tag("<missed>")],
        Discriminator(_line_kind),
    ]
)


def parse_cluster_log(content: bytes) -> tuple[ClusterSample | MissedSample, ...]:
    """Parse a `cluster.jsonl`. A line with `same` has the status of the line before. Raises
    FormatError with the line and the path."""
    samples: list[ClusterSample | MissedSample] = []
    last: ClusterStatus | None = None
    for number, line in parse_lines(content, _LINE, "the record of a cluster"):
        if isinstance(line, MissedSample):
            samples.append(line)
            continue
        if isinstance(line, _StatusLine):
            last = _cluster_status(line.status)
        elif last is None:
            raise line_error(number, ".same", "there is no status before it")
        samples.append(ClusterSample(at=line.at, elapsed_s=line.elapsed_s, status=last))
    return tuple(samples)


def _cluster_status(document: _Status) -> ClusterStatus:
    osdmap, pgmap = document.osdmap, document.pgmap
    return ClusterStatus(
        health=document.health.status,
        checks=tuple(
            HealthCheck(
                code=code,
                severity=check.severity,
                summary=check.message,
                muted=check.muted is True,
            )
            for code, check in document.health.checks.items()
        ),
        pg_states={state.state_name: state.count for state in pgmap.pgs_by_state},
        pgs=pgmap.num_pgs,
        degraded_ratio=pgmap.degraded_ratio,
        misplaced_ratio=pgmap.misplaced_ratio,
        unfound_objects=pgmap.unfound_objects,
        recovering_bps=pgmap.recovering_bytes_per_sec,
        osds_up=osdmap.num_up_osds,
        osds_in=osdmap.num_in_osds,
        osdmap_epoch=osdmap.epoch,
        up_changed_at_s=osdmap.osd_up_since,
        in_changed_at_s=osdmap.osd_in_since,
        monitors_in_quorum=len(document.quorum),
    )
