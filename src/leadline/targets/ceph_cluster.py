"""The Ceph clusters of a plan: connections, health, watches, and labs that the run starts."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from leadline import errors, files
from leadline.archive.records import Created, RoundTrip
from leadline.connect.ceph import CephAccess, Connection
from leadline.connect.ssh import SshShell
from leadline.errors import LeadlineError
from leadline.formats.watch_records import Role
from leadline.inventory.ceph.model import CephInventory, unfit
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.lab.cluster import Lab, bring_up, open_lab
from leadline.lab.state import labs_folder, require_state
from leadline.lab.up import measure_round_trips
from leadline.plan.lab import MOST_RTT_S, LabDescription
from leadline.plan.models import Cluster, Plan
from leadline.plan.prometheus import StorageMonitoring
from leadline.probes.ceph import capture
from leadline.probes.watches.base import Watch, Watches
from leadline.probes.watches.ceph import CephCountersWatch, ClusterWatch
from leadline.probes.watches.host import (
    LocalMachine,
    Machine,
    RemoteMachine,
    ResourceWatch,
)
from leadline.probes.watches.prometheus import PrometheusWatch
from leadline.runner.ports import Journal
from leadline.targets.base import SETTLE_S

# In the journal of a run: the delay of a lab that has to be restored.
DELAY = "delay:"
SETTLED_WITHIN_S = 120.0
# A cluster that cannot serve an I/O blocks its client for ever, until the bound of the trial.
# Commands may fail sooner.
_COMMAND_S = 10.0


class OpenCluster:
    """One Ceph cluster, connected when it is first used."""

    def __init__(
        self,
        name: str,
        access: CephAccess,
        lab: Lab | None = None,
        *,
        temporary: bool = False,
        monitoring: StorageMonitoring | None = None,
        hosts: Sequence[str] = (),
    ) -> None:
        """`temporary`: a lab that the run starts, and that is destroyed with all its data. `hosts`
        are those of the storage, as ssh knows them."""
        self.name = name
        self._monitoring = monitoring
        self._shells = {host: SshShell(host) for host in hosts}
        self.access = access
        self.lab = lab
        self.temporary = temporary
        # True once it did not answer in time.
        self.silent = False
        self._journal: Journal | None = None
        self._changed: Created | None = None
        # Delays that the run has set.
        self._set_s: set[float] = set()
        self._folder = files.ScratchFolder("ceph")
        self._own_rtt_s = lab.description.inter_zone_rtt_s if lab else 0.0

    @cached_property
    def connection(self) -> Connection:
        """Raises LeadlineError: `ceph-missing`, `ceph-unreachable`, `ceph-denied`."""
        return Connection(self.access, timeout_s=_COMMAND_S)

    @cached_property
    def _watching(self) -> Connection:
        """A connection that no command of the runner delays."""
        return Connection(self.access, timeout_s=_COMMAND_S)

    @cached_property
    def _counting(self) -> Connection:
        """As `_watching`: dumps of many OSDs would delay the samples of health."""
        return Connection(self.access, timeout_s=_COMMAND_S)

    @cached_property
    def _guarding(self) -> Connection:
        """As `_watching`: the guard must not wait for other commands."""
        return Connection(self.access, timeout_s=_COMMAND_S)

    @cached_property
    def drilling(self) -> Connection:
        """As `_watching`: the event of a drill must not wait for other commands."""
        return Connection(self.access, timeout_s=_COMMAND_S)

    def find_missing(self, osds_in: int = 0) -> tuple[int, tuple[str, ...]]:
        """The number of OSDs that are in, and what the cluster lacks to be whole: OSDs that are out
        or down, of those that are in and of `osds_in` at least, and PGs that are not active+clean.
        Raises LeadlineError."""
        status = self.drilling.mon_json("status")
        osds = status["osdmap"].get("osdmap", status["osdmap"])  # nested until Nautilus
        wanted = max(osds_in, osds["num_in_osds"])
        found = []
        if osds["num_in_osds"] < wanted:
            found.append(f"{osds['num_in_osds']} of {wanted} OSDs are in")
        if osds["num_up_osds"] < wanted:
            found.append(f"{osds['num_up_osds']} of {wanted} OSDs are up")
        found += [
            f"{state['count']} PGs are {state['state_name']}"
            for state in status["pgmap"].get("pgs_by_state", ())
            if not {"active", "clean"} <= set(state["state_name"].split("+"))
        ]
        return osds["num_in_osds"], tuple(found)

    def health(self) -> tuple[str, dict[str, str]]:
        """The status of the cluster's health, and the message of each check that is not muted."""
        answer = self._guarding.mon_json("health")
        checks = {
            code: str(check.get("summary", {}).get("message", ""))
            for code, check in answer.get("checks", {}).items()
            if not check.get("muted")
        }
        return str(answer["status"]), checks

    def inventory(self) -> CephInventory:
        """The present state of the cluster."""
        return cluster_inventory(capture(self.connection))

    def require_pool(self, pool: str) -> None:
        """Raise LeadlineError where the pool is gone, or no monitor answers."""
        self.connection.mon("osd pool get", pool=pool, var="size")

    def free_bytes(self, pool: str) -> int:
        """Bytes that a pool can still store, copies not counted."""
        for entry in self.connection.mon_json("df")["pools"]:
            if entry["name"] == pool:
                return int(entry["stats"]["max_avail"])
        return 0

    @cached_property
    def _sockets_folder(self) -> files.ScratchFolder:
        return files.ScratchFolder("asok", files.SHORT)

    @property
    def sockets(self) -> Path:
        """The folder of the admin sockets of running clients."""
        return Path(self._sockets_folder.name)

    def client_configuration(self, settings: Mapping[str, str]) -> str:
        """The cluster's configuration with further settings of the client; it may hold keys of the
        cluster's own."""
        given = self.access.conf.read_text("utf-8", "surrogateescape")
        if self.access.keyring is not None:
            settings = {**settings, "keyring": str(self.access.keyring)}
        lines = [f"{key} = {value}" for key, value in settings.items()]
        return "\n".join([given, f"[client.{self.access.name}]", *lines, ""])

    def client(self, settings: Mapping[str, str]) -> CephAccess:
        """Access with the cluster's configuration and further settings of the client.

        The client publishes counters in `sockets`. Only the owner may read the new file.
        """
        # One process may be several clients: fio is one client per job.
        settings = {**settings, "admin_socket": f"{self.sockets}/$pid.$cctid.asok"}
        text = self.client_configuration(settings)
        path = Path(self._folder.name) / f"{abs(hash(text)):x}.conf"
        path.touch(mode=0o600)
        path.write_text(text, "utf-8", "surrogateescape")
        return replace(self.access, conf=path)

    def refuse_unfit(self) -> None:
        """Raise LeadlineError(`cluster-unfit`) where a measurement would mislead or do harm."""
        reason = unfit(self.inventory())
        if reason is not None:
            raise reason.error()

    def apply_delay(self, rtt_s: float | None) -> tuple[RoundTrip, ...]:
        """Set the delay between a lab's zones (None: the lab's own) and measure it."""
        if self.lab is None or self.lab.network is None:
            if rtt_s:
                raise LeadlineError(
                    errors.LAB_NOT_READY,
                    f"the lab {self.name!r} has no network namespace, so no delay",
                    context=[self.lab.network_note] if self.lab and self.lab.network_note else [],
                )
            return ()
        wanted = self._own_rtt_s if rtt_s is None else rtt_s
        if wanted == self.lab.description.inter_zone_rtt_s:
            measured = measure_round_trips(self.lab.network)
        else:
            self._note_change(self.lab.name)
            self._set_s.add(wanted)
            self.lab = self.lab.set_inter_zone_rtt(wanted)
            measured = self.lab.round_trips
        return tuple(
            RoundTrip(
                source=path.source,
                destination=path.destination,
                asked_s=wanted,
                min_s=path.min_s,
                median_s=path.median_s,
                p95_s=path.p95_s,
                samples=path.received,
            )
            for path in measured
        )

    def reload_lab(self) -> None:
        """Read the state of the lab again, after its daemons were started anew. Raises
        LeadlineError."""
        if self.lab is not None:
            folder = self.lab.folder
            self.lab = replace(self.lab, state=require_state(folder.name, folder.parent))

    def use_journal(self, journal: Journal) -> None:
        """Set the journal that records changes before they are made."""
        self._journal = journal

    def _note_change(self, lab: str) -> None:
        """Record the change of a lab that outlives the run."""
        if self.temporary or self._changed or self._journal is None:
            return
        path = f"{DELAY}{lab}"
        changed = Created(target="", cluster=self.name, path=path, token=repr(self._own_rtt_s))
        self._journal.note_created(changed)
        self._changed = changed

    def restore(self) -> tuple[str, ...]:
        """Restore a lab's own delay; sentences about what failed."""
        if self._changed is None:
            return ()
        problems = restore_delay(self._changed, self._set_s)
        if not problems and self._journal is not None:
            self._journal.note_removed(self._changed)
            self._changed = None
        return problems

    def settle(self, written_at_s: float) -> None:
        """Wait until all placement groups are active and clean, and SETTLE_S have passed since
        the last write (time.monotonic()).

        Raises LeadlineError(`cluster-unfit`) where they do not become so.
        """
        end = time.monotonic() + SETTLED_WITHIN_S
        while True:
            states = self.connection.mon_json("status")["pgmap"].get("pgs_by_state", ())
            unclean = [state for state in states if "active+clean" not in state["state_name"]]
            if not unclean:
                break
            if time.monotonic() > end:
                raise LeadlineError(
                    errors.CLUSTER_UNFIT,
                    f"the cluster {self.name!r} does not become active+clean",
                    context=[f"{state['count']} PGs {state['state_name']}" for state in unclean],
                    hint="wait until recovery is over, then run again",
                )
            time.sleep(1.0)
        time.sleep(max(0.0, written_at_s + SETTLE_S - time.monotonic()))

    def watch(self, folder: Path, *further: Watch, clients: Sequence[Machine] = ()) -> Watches:
        """Record the cluster and its clients: `clients`, or this machine without them."""
        # Stopped last: queries are load too.
        monitoring = [PrometheusWatch(self._monitoring, folder)] if self._monitoring else []
        here = self._machine()
        machines: list[Machine] = [here]
        if clients:
            storage = [replace(here, roles=(Role.STORAGE,))] if self.lab is not None else []
            machines = [*storage, *clients]
        return Watches(
            *monitoring,
            *further,
            ClusterWatch(self._watching, folder, patience_s=_COMMAND_S),
            CephCountersWatch(self._counting, folder, patience_s=1.5 * _COMMAND_S),
            ResourceWatch([*machines, *self._hosts()], folder),
        )

    def _hosts(self) -> Iterator[RemoteMachine]:
        """The hosts of the storage; the commands of a watch delay no others."""
        for host, shell in self._shells.items():
            yield RemoteMachine(name=host, shell=shell, finds_daemons=True)

    def _machine(self) -> LocalMachine:
        """This machine: the client, and the daemons of a lab."""
        if self.lab is None:
            return LocalMachine()
        return LocalMachine(
            roles=tuple(Role),
            groups=self.lab.cpu_groups,
            processes={process.name: process.pid for process in self.lab.state.processes},
        )

    def leave(self) -> tuple[str, ...]:
        return ()  # each target removes what it made

    def capture(self) -> Mapping[str, bytes]:
        """The present state of the cluster: raw dumps by file name, without secrets."""
        dumps = dict(capture(self.connection))
        if self.lab is not None:
            state = self.lab.state.model_dump(
                mode="json",
                include={
                    *("name", "description", "network_note", "cephfs_note"),
                    "round_trips",
                },
            )
            state["client_location"] = self.lab.client_location
            dumps["lab.json"] = json.dumps(state, indent=2).encode()
        return dumps

    def close(self) -> None:
        """Close all connections and remove temporary files."""
        for name in ("connection", "_watching", "_counting", "_guarding", "drilling"):
            if name in self.__dict__:
                self.__dict__[name].close()
        for shell in self._shells.values():
            shell.close()
        self._folder.cleanup()
        if "_sockets_folder" in self.__dict__:
            self._sockets_folder.cleanup()


def is_own_delay(plan: Plan, run: str, created: Created) -> bool:
    """Return whether an entry is the delay of a lab of the plan, as a run records it."""
    try:
        delay_s = float(created.token)
    except ValueError:
        return False
    return (
        repr(delay_s) == created.token
        and 0 <= delay_s <= MOST_RTT_S
        and not created.target
        and any(
            cluster.name == created.cluster
            and isinstance(cluster.lab, str)
            and created.path == f"{DELAY}{cluster.lab}"
            for cluster in plan.clusters
        )
    )


def restore_delay(changed: Created, set_s: Collection[float]) -> tuple[str, ...]:
    """Restore the delay of a lab's own description; sentences about what failed. A lab that is
    gone needs none. One with another delay than those in `set_s`, which the run sets, was changed
    since, or is not the run's."""
    name, own_s = changed.path.removeprefix(DELAY), float(changed.token)
    try:
        lab = open_lab(name, labs_folder(None))
        now_s = lab.description.inter_zone_rtt_s
        if now_s not in {own_s, *set_s}:
            kept = f"the delay of the lab {name!r} was kept, and not set to {own_s:g} s"
            return (f"{kept}: it is {now_s:g} s, which this run does not set",)
        lab.set_inter_zone_rtt(own_s)
    except LeadlineError as error:
        if error.kind is errors.LAB_NOT_FOUND:
            return ()
        return (f"the delay of the lab {name!r} was not restored: {error.fact}",)
    return ()


@contextmanager
def open_clusters(
    clusters: Sequence[Cluster],
    *,
    note: Callable[[str], None],
    brought_up: Callable[[Lab], None] = lambda lab: None,
) -> Iterator[Mapping[str, OpenCluster]]:
    """The clusters of a plan; labs that it describes are up inside the block and down after it.

    Raises LeadlineError: `lab-not-found`, `lab-not-ready`, `lab-failed`.
    """
    folder = labs_folder(None)
    with ExitStack() as stack:
        found: dict[str, OpenCluster] = {}
        for cluster in clusters:

            def of_cluster(sentence: str, name: str = cluster.name) -> None:
                note(f"{name}: {sentence}")

            if isinstance(cluster.lab, LabDescription):
                name = _lab_name(cluster.name, secrets.token_hex(4))
                lab = bring_up(name, cluster.lab, folder, of_cluster)
                stack.callback(lab.down)
                brought_up(lab)
                found[cluster.name] = OpenCluster(cluster.name, lab.access, lab, temporary=True)
            elif cluster.lab is not None:
                lab = open_lab(cluster.lab, folder)
                found[cluster.name] = OpenCluster(cluster.name, lab.access, lab)
            else:
                found[cluster.name] = OpenCluster(
                    cluster.name,
                    access_of(cluster),
                    monitoring=cluster.prometheus,
                    hosts=cluster.hosts,
                )
            stack.callback(found[cluster.name].close)
        yield found


def _lab_name(cluster: str, number: str) -> str:
    """The name for a lab of one run; `number` has eight hexadecimal digits."""
    stem = re.sub(r"[^A-Za-z0-9]+", "-", cluster).strip("-")[:24] or "lab"
    return f"{stem}-{number}"


def is_lab_name(cluster: str, name: str) -> bool:
    """Return whether a lab that a run brings up for a cluster can have this name."""
    number = name.rpartition("-")[2]
    is_number = re.fullmatch(r"[0-9a-f]{8}", number) is not None
    return is_number and name == _lab_name(cluster, number)


def access_of(cluster: Cluster) -> CephAccess:
    """How to reach a cluster that is not a lab."""
    assert cluster.ceph_conf is not None
    return CephAccess(
        conf=Path(cluster.ceph_conf),
        name=cluster.id,
        keyring=Path(cluster.keyring) if cluster.keyring else None,
    )


def used_clusters(plan: Plan) -> tuple[Cluster, ...]:
    """The clusters of the plan's targets and settings, and the Ceph clusters whose health the guard
    reads."""
    used = {target.cluster for target in plan.targets}
    used |= {setting.cluster for setting in plan.settings}
    if plan.guard is not None and plan.guard.ceph_health:
        used |= {cluster.name for cluster in plan.clusters if cluster.kubernetes is None}
    return tuple(cluster for cluster in plan.clusters if cluster.name in used)
