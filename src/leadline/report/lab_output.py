"""What `leadline lab up|status|list --format json` prints."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Output(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class LabZoneOutput(_Output):
    """A place with a network of its own: a zone, a rack of a single-zone lab, or the one zone of
    a lab of hosts."""

    name: str
    address: str
    namespace: str


class LabRoundTripOutput(_Output):
    """What `received` pings took, in seconds."""

    source: str
    destination: str
    sent: int
    received: int
    min_s: float
    median_s: float
    max_s: float


class LabPoolOutput(_Output):
    """`metadata_pool` is where images or files in this pool have their metadata, if elsewhere."""

    name: str
    metadata_pool: str | None


class LabProcessOutput(_Output):
    """`pid` is null and `alive` false for one that has died; memory is resident."""

    name: str
    pid: int | None
    alive: bool
    memory_bytes: int


class LabStepOutput(_Output):
    """A step of coming up, and when it was done, in seconds from the beginning."""

    name: str
    done_s: float


class LabCpuGroupOutput(_Output):
    """The control group that bounds a host's OSDs. `throttled_share` is the share of its periods
    since the lab came up in which its quota was used up; null where the kernel does not tell."""

    host: str
    folder: str
    throttled_share: float | None


class OneLabOutput(_Output):
    """`condition` is `up`, `coming up`, `half up`, `half down`, `broken`, `damaged` or `orphan`.
    What is not known of a lab that is not whole is null or empty. `inter_zone_rtt_s` was asked
    for; it is in force where `zones` is not empty, and `round_trips` is what was measured.
    `cpu_per_host` are the cores that the OSDs of one host may use, null for all there are."""

    name: str
    folder: str
    condition: str
    created_at: str | None
    topology: str | None
    domains: int | None
    osds: int | None
    store: str | None
    osd_size_bytes: int | None
    authentication: bool | None
    encryption: bool | None
    inter_zone_rtt_s: float | None
    cpu_per_host: float | None
    cpu_groups: list[LabCpuGroupOutput]
    zones: list[LabZoneOutput]
    network_note: str
    round_trips: list[LabRoundTripOutput]
    pools: list[LabPoolOutput]
    cephfs: str | None
    cephfs_note: str
    conf: str | None
    keyring: str | None
    client_location: str | None
    health: str | None
    processes: list[LabProcessOutput]
    steps: list[LabStepOutput]


class LabOutput(_Output):
    """`up` and `status` tell of one lab, `list` of all; `health` is asked for by `status` only."""

    schema_: Literal["leadline/lab/1"] = Field(default="leadline/lab/1", alias="schema")
    labs: list[OneLabOutput]
