"""What is known of a load level, and what may have held it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from leadline.archive.records import Processor
from leadline.formats.ceph_counters import OsdRates
from leadline.formats.host_counters import Role
from leadline.formats.host_rates import MachineRates

# Of the data of I/Os on the links of a machine: what crosses a network does so once at least.
_CROSSED = 0.5


class Bottleneck(StrEnum):
    """What can hold a load level back. `osd-media` and `osd-cpu` are the media and the processors
    of the storage, whatever it is; `target-cores` is a processor limit put on it. `unknown`: none
    of the others is named or suspected; `not-saturated`: nothing was used up, the load was."""

    CLIENT_NETWORK = "client-network"
    CLIENT_CPU = "client-cpu"
    STORAGE_NETWORK = "storage-network"
    OSD_MEDIA = "osd-media"
    OSD_CPU = "osd-cpu"
    TARGET_CORES = "target-cores"
    QUEUE_DEPTH = "queue-depth-not-reached"
    ROUND_TRIPS = "inter-zone-round-trips"
    NOT_SATURATED = "not-saturated"
    UNKNOWN = "unknown"


class Strength(StrEnum):
    """How sure the evidence makes it. `not measured` is neither for nor against."""

    NAMED = "named"
    SUSPECTED = "suspected"
    NOT_MEASURED = "not measured"
    EXCLUDED = "excluded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """One bottleneck, and what speaks for or against it: `evidence` as numbers in base units
    (shares between 0 and 1), `sentence` with a full stop. Names in it are made visible."""

    bottleneck: Bottleneck
    strength: Strength
    evidence: Mapping[str, float]
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelEvidence:
    """One load level. What nobody measured is None or empty.

    `trial` is whose evidence this is. `machines` are the rates of all machines that were sampled,
    `processor` what the record says of the load generator's, of which it used `engine_cores`.
    `job_core_share` is the share of one core that the busiest job used. `osds` tells only of a Ceph
    cluster (`on_ceph`), on a lab's own machine (`on_lab`). `client_link_bps` is the speed of the
    client's link in bytes per second where the inventory or the user tells it. `devices` are the
    disks of a target on the client itself, with `rotational` whether all of them are disks that
    turn.

    `asked` I/Os were to be in flight and `in_flight` were (Little's law); `offered_iops` is the
    rate of an open loop, None in a closed one. `more_iops` is the highest throughput of a level
    with more load. `round_trip_s` is the longest median round trip between two zones and `trips`
    how many of them an I/O waits for on average (0: all is in one zone).
    """

    trial: str = ""
    machines: tuple[MachineRates, ...] = ()
    processor: Processor | None = None
    engine_cores: float | None = None
    job_core_share: float | None = None
    osds: tuple[OsdRates, ...] = ()
    on_ceph: bool = False
    on_lab: bool = False
    client_link_bps: float | None = None
    devices: frozenset[str] = field(default_factory=frozenset)
    rotational: bool | None = None
    asked: int | None = None
    in_flight: float | None = None
    offered_iops: float | None = None
    iops: float | None = None
    bandwidth_bps: float | None = None
    latency_mean_s: float | None = None
    more_iops: float | None = None
    round_trip_s: float | None = None
    trips: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def clients(self) -> tuple[MachineRates, ...]:
        return tuple(one for one in self.machines if Role.CLIENT in one.roles)

    @property
    def storage(self) -> tuple[MachineRates, ...]:
        """Without the load generator where its target turned out to lie behind a network."""
        return tuple(
            one
            for one in self.machines
            if Role.STORAGE in one.roles
            and (Role.CLIENT not in one.roles or self.stays_here is not False)
        )

    @property
    def shared(self) -> bool:
        """Load and storage are on one machine, so that what uses up its cores is not told apart."""
        return self.on_lab or any(Role.CLIENT in one.roles for one in self.storage)

    @property
    def stays_here(self) -> bool | None:
        """Whether the data stayed on the machine that made the load: its links carried less than
        half of it. A directory may be a mount of NFS, and a disk iSCSI's. None where nobody can
        tell."""
        if self.on_lab:
            return True
        here = any(one.roles == set(Role) for one in self.machines)
        if self.on_ceph or not (self.devices or here):
            return False
        if not self.bandwidth_bps or not self.clients:
            return None
        carried = sum(
            rates.received_bps + rates.sent_bps
            for machine in self.clients
            for name, rates in machine.interfaces.items()
            if name != "lo"
        )
        return carried < _CROSSED * self.bandwidth_bps

    @property
    def unreached_hosts(self) -> int | None:
        """Hosts of the storage that were not sampled; None where nobody knows how many there are.
        Hosts of a lab are one machine."""
        if self.shared or (self.devices and self.stays_here is not False):
            return 0
        hosts = {one.host for one in self.osds}  # none but of a Ceph cluster
        if not hosts or None in hosts:
            return None
        return max(0, len(hosts) - len(self.storage))


def suspect(
    bottleneck: Bottleneck, strength: Strength, sentence: str, **evidence: float | None
) -> Suspect:
    """A suspect with the numbers that there are."""
    known = {name: value for name, value in evidence.items() if value is not None}
    return Suspect(bottleneck=bottleneck, strength=strength, evidence=known, sentence=sentence)
