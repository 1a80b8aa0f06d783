"""Ceph clusters of a plan, open for its targets: reached, watched, captured, and for a lab brought
up and taken down again."""

from __future__ import annotations

import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from lightkube import ApiError

from leadline import errors, files
from leadline.archive.records import Created, RoundTrip
from leadline.connect.ceph import CephAccess, Connection
from leadline.connect.kubernetes.cleanup import Removal
from leadline.connect.kubernetes.client import Connection as KubernetesClusterConnection
from leadline.connect.kubernetes.client import (
    KubernetesAccess,
)
from leadline.connect.kubernetes.objects import dns_label, labels_of, new_token
from leadline.connect.kubernetes.permissions import NAMESPACE_RULES, Rule, require
from leadline.connect.kubernetes.pods import USER, PodSecurity, build_namespace
from leadline.errors import LeadlineError
from leadline.formats.watch_records import Role
from leadline.inventory.ceph.model import CephInventory, unfit
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.lab.cluster import Lab, bring_up, open_lab
from leadline.lab.state import labs_folder
from leadline.lab.up import measure_round_trips
from leadline.plan.lab import LabDescription
from leadline.plan.models import Cluster, Plan
from leadline.plan.target_url import KubernetesCluster
from leadline.probes.ceph import capture
from leadline.probes.watches.base import Watch, Watches
from leadline.probes.watches.ceph import CephCountersWatch, ClusterWatch
from leadline.probes.watches.host import LocalMachine, ResourceWatch
from leadline.runner.ports import Journal

# In the journal of a run: the delay of a lab, which is to be put back.
DELAY = "delay:"
# Time for OSDs to write back what they deferred of a prefill. A convention: it was not measured
# how long they take.
SETTLE_S = 5.0
SETTLED_WITHIN_S = 120.0
# A cluster that cannot serve an I/O keeps its client waiting for ever; the trial's own bound ends
# that. Ours are commands, which may fail sooner.
_COMMAND_S = 10.0


class OpenCluster:
    """One cluster. Nothing is asked of it before something needs to be known."""

    def __init__(
        self, name: str, access: CephAccess, lab: Lab | None = None, *, temporary: bool = False
    ) -> None:
        """`temporary`: a lab that is up for this run only, and takes all that is in it along."""
        self.name = name
        self.access = access
        self.lab = lab
        self.temporary = temporary
        self.silent = False
        self._journal: Journal | None = None
        self._changed: Created | None = None
        self._folder = tempfile.TemporaryDirectory(prefix=files.prefix("ceph"))
        self._own_rtt_s = lab.description.inter_zone_rtt_s if lab else 0.0

    @cached_property
    def connection(self) -> Connection:
        """Raises LeadlineError: `ceph-missing`, `ceph-unreachable`, `ceph-denied`."""
        return Connection(self.access, timeout_s=_COMMAND_S)

    @cached_property
    def _watching(self) -> Connection:
        """A connection that no command of ours holds up."""
        return Connection(self.access, timeout_s=_COMMAND_S)

    @cached_property
    def _counting(self) -> Connection:
        """As `_watching`: dumps of many OSDs would hold the samples of health up."""
        return Connection(self.access, timeout_s=_COMMAND_S)

    def inventory(self) -> CephInventory:
        """What the cluster is now."""
        return cluster_inventory(capture(self.connection))

    def require_pool(self, pool: str) -> None:
        """Raise LeadlineError where the pool is gone, or no monitor says that it is there."""
        self.connection.mon("osd pool get", pool=pool, var="size")

    def free_bytes(self, pool: str) -> int:
        """What may still be written into a pool, copies not counted."""
        for entry in self.connection.mon_json("df")["pools"]:
            if entry["name"] == pool:
                return int(entry["stats"]["max_avail"])
        return 0

    @cached_property
    def _sockets_folder(self) -> tempfile.TemporaryDirectory[str]:
        prefix = files.prefix("asok")
        return tempfile.TemporaryDirectory(prefix=prefix, dir=files.SHORT)

    @property
    def sockets(self) -> Path:
        """Where clients of `client` have their admin sockets, as long as they run."""
        return Path(self._sockets_folder.name)

    def client(self, settings: Mapping[str, str]) -> CephAccess:
        """Access with a configuration of our own: the cluster's, and settings of the client
        behind it, which tells its counters in `sockets`. It holds what the cluster's own file
        holds, so only its owner may read it."""
        # One process may be several clients: fio is one for each job.
        settings = {**settings, "admin_socket": f"{self.sockets}/$pid.$cctid.asok"}
        given = self.access.conf.read_text("utf-8", "surrogateescape")
        if self.access.keyring is not None:
            settings = {**settings, "keyring": str(self.access.keyring)}
        lines = [f"{key} = {value}" for key, value in settings.items()]
        text = "\n".join([given, f"[client.{self.access.name}]", *lines, ""])
        path = Path(self._folder.name) / f"{abs(hash(text)):x}.conf"
        path.touch(mode=0o600)
        path.write_text(text, "utf-8", "surrogateescape")
        return replace(self.access, conf=path)

    def refuse_unfit(self) -> None:
        """Raise LeadlineError(`cluster-unfit`) where measuring would mislead or harm."""
        reason = unfit(self.inventory())
        if reason is not None:
            raise reason.error()

    def put_in_force(self, rtt_s: float | None) -> tuple[RoundTrip, ...]:
        """The delay between a lab's zones (None: the lab's own), read back by measuring it."""
        if self.lab is None or self.lab.network is None:
            if rtt_s:
                raise LeadlineError(
                    errors.LAB_NOT_READY,
                    f"the lab {self.name!r} has no network of its own, so no delay",
                    context=[self.lab.network_note] if self.lab and self.lab.network_note else [],
                )
            return ()
        wanted = self._own_rtt_s if rtt_s is None else rtt_s
        if wanted == self.lab.description.inter_zone_rtt_s:
            measured = measure_round_trips(self.lab.network)
        else:
            self._note_change(self.lab.name)
            self.lab = self.lab.set_inter_zone_rtt(wanted)
            measured = self.lab.round_trips
        return tuple(
            RoundTrip(
                source=one.source,
                destination=one.destination,
                asked_s=wanted,
                min_s=one.min_s,
                median_s=one.median_s,
                samples=one.received,
            )
            for one in measured
        )

    def keep(self, journal: Journal) -> None:
        """Where changes are noted before they are made."""
        self._journal = journal

    def _note_change(self, lab: str) -> None:
        """Of a lab that is not ours to leave changed."""
        if self.temporary or self._changed or self._journal is None:
            return
        path = f"{DELAY}{lab}"
        changed = Created(target="", cluster=self.name, path=path, token=repr(self._own_rtt_s))
        self._journal.note_created(changed)
        self._changed = changed

    def restore(self) -> tuple[str, ...]:
        """Put a lab's own delay in force again; what could not be done as sentences."""
        if self._changed is None:
            return ()
        problems = restore_delay(self._changed)
        if not problems and self._journal is not None:
            self._journal.note_removed(self._changed)
            self._changed = None
        return problems

    def settle(self, written_at_s: float) -> None:
        """Wait until all placement groups are active and clean, and SETTLE_S have gone by since
        the last write (time.monotonic()).

        Raises LeadlineError(`cluster-unfit`) where they do not become so.
        """
        end = time.monotonic() + SETTLED_WITHIN_S
        while True:
            states = self.connection.mon_json("status")["pgmap"].get("pgs_by_state", ())
            unclean = [one for one in states if "active+clean" not in one["state_name"]]
            if not unclean:
                break
            if time.monotonic() > end:
                raise LeadlineError(
                    errors.CLUSTER_UNFIT,
                    f"the cluster {self.name!r} does not come to rest",
                    context=[f"{one['count']} PGs {one['state_name']}" for one in unclean],
                    hint="wait until recovery is over, then run again",
                )
            time.sleep(1.0)
        time.sleep(max(0.0, written_at_s + SETTLE_S - time.monotonic()))

    def watch(self, folder: Path, *further: Watch) -> Watches:
        return Watches(
            *further,
            ClusterWatch(self._watching, folder, patience_s=_COMMAND_S),
            CephCountersWatch(self._counting, folder, patience_s=1.5 * _COMMAND_S),
            ResourceWatch([self._machine()], folder),
        )

    def _machine(self) -> LocalMachine:
        """This machine, which is the client's; a lab's daemons are on it as well."""
        if self.lab is None:
            return LocalMachine()
        return LocalMachine(
            roles=tuple(Role),
            groups=self.lab.cpu_groups,
            processes={one.name: one.pid for one in self.lab.state.processes},
        )

    def capture(self) -> Mapping[str, bytes]:
        """What the cluster is now: raw dumps by file name, secrets taken out."""
        dumps = dict(capture(self.connection))
        if self.lab is not None:
            told = self.lab.state.model_dump_json(
                include={
                    *("name", "description", "network_note", "cephfs_note"),
                    "round_trips",
                },
                indent=2,
            )
            dumps["lab.json"] = told.encode()
        return dumps

    def close(self) -> None:
        """Let go of the cluster."""
        for name in ("connection", "_watching", "_counting"):
            if name in self.__dict__:
                self.__dict__[name].close()
        self._folder.cleanup()
        if "_sockets_folder" in self.__dict__:
            self._sockets_folder.cleanup()


def restore_delay(changed: Created) -> tuple[str, ...]:
    """Give a lab the delay back that its own description has; what could not be done as
    sentences. A lab that is gone needs none."""
    name = changed.path.removeprefix(DELAY)
    try:
        open_lab(name, labs_folder(None)).set_inter_zone_rtt(float(changed.token))
    except LeadlineError as error:
        if error.kind is errors.LAB_NOT_FOUND:
            return ()
        return (f"the delay of the lab {name!r} was not put back: {error.fact}",)
    return ()


@contextmanager
def opened(
    clusters: Sequence[Cluster],
    *,
    note: Callable[[str], None],
    brought_up: Callable[[Lab], None] = lambda lab: None,
) -> Iterator[Mapping[str, OpenCluster]]:
    """The clusters of a plan; labs that it describes are up inside the block and down behind it.

    Raises LeadlineError: `lab-not-found`, `lab-not-ready`, `lab-failed`.
    """
    folder = labs_folder(None)
    with ExitStack() as stack:
        found: dict[str, OpenCluster] = {}
        for cluster in clusters:
            if isinstance(cluster.lab, LabDescription):
                lab = bring_up(_lab_name(cluster.name), cluster.lab, folder, note)
                stack.callback(lab.down)
                brought_up(lab)
                found[cluster.name] = OpenCluster(cluster.name, lab.access, lab, temporary=True)
            elif cluster.lab is not None:
                lab = open_lab(cluster.lab, folder)
                found[cluster.name] = OpenCluster(cluster.name, lab.access, lab)
            else:
                found[cluster.name] = OpenCluster(cluster.name, access_of(cluster))
            stack.callback(found[cluster.name].close)
        yield found


def _lab_name(cluster: str) -> str:
    """A name for a lab of one run, which no other lab has."""
    stem = re.sub(r"[^A-Za-z0-9]+", "-", cluster).strip("-")[:24] or "lab"
    return f"{stem}-{secrets.token_hex(4)}"


def access_of(cluster: Cluster) -> CephAccess:
    """How a cluster that is no lab is reached."""
    assert cluster.ceph_conf is not None
    return CephAccess(
        conf=Path(cluster.ceph_conf),
        name=cluster.id,
        keyring=Path(cluster.keyring) if cluster.keyring else None,
    )


def needed(plan: Plan) -> tuple[Cluster, ...]:
    """The clusters that any target of the plan lies on."""
    used = {target.cluster for target in plan.targets}
    return tuple(cluster for cluster in plan.clusters if cluster.name in used)


# A Kubernetes cluster of a plan, open for its targets: asked beforehand, given a namespace for
# the run, captured, and left as it was.

# Who does not want to wait for volumes long must still wait for their end: a namespace alone takes
# up to ten seconds.
LEAST_GONE_S = 60.0
# In the journal of a run: `kubernetes:NAMESPACE` and `kubernetes:NAMESPACE/KIND/NAME`.
SCHEME = "kubernetes:"


def kubernetes_cluster_access_of(settings: KubernetesCluster) -> KubernetesAccess:
    path = Path(settings.kubeconfig) if settings.kubeconfig else None
    return KubernetesAccess(kubeconfig=path, context=settings.context)


class OpenKubernetes:
    """One cluster. Nothing is asked of it before something needs to be known. `go_on` raises where
    somebody asked to stop; `hurry` says whether nobody wants to wait for removals any more;
    `note` is told what is waited for."""

    def __init__(
        self,
        name: str,
        settings: KubernetesCluster,
        *,
        go_on: Callable[[], None] = lambda: None,
        hurry: Callable[[], bool] = lambda: False,
        note: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.name = name
        self.settings = settings
        self.connection = KubernetesClusterConnection(kubernetes_cluster_access_of(settings))
        self.go_on = go_on
        self.note = note
        # Who may open a raw block device in a pod here; learned by the first that tries.
        self.device_user = USER
        self._hurry = hurry
        self._checked: set[Rule] = set()
        self._own: tuple[Created, Journal] | None = None
        self._targets: set[str] = set()
        self._security = PodSecurity.RESTRICTED

    @property
    def namespace(self) -> str:
        """Where runners are made; empty where a run will make its own and has not yet."""
        if self.settings.namespace:
            return self.settings.namespace
        return self._own[0].path.removeprefix(SCHEME) if self._own else ""

    def require(self, rules: tuple[Rule, ...]) -> None:
        """Raise LeadlineError(`kubernetes-denied`) for what this user may not do; each rule is
        asked about once."""
        needed = rules if self.settings.namespace else (*NAMESPACE_RULES, *rules)
        new = [rule for rule in needed if rule not in self._checked]
        require(self.connection, new, self.settings.namespace or "")
        self._checked.update(new)

    def need(self, security: PodSecurity) -> None:
        """What a target's pods need, told before any of them enters: the run's own namespace is
        made for all, and as strict as the least of them bears."""
        levels = list(PodSecurity)
        self._security = max(self._security, security, key=levels.index)

    def enter(self, target: str, run: str, journal: Journal) -> str:
        """The namespace for what a target needs; made by the first that comes."""
        self._targets.add(target)
        if self.namespace:
            return self.namespace
        token = new_token()
        name = f"{dns_label(f'leadline-{run}', 54)}-{token[:8]}"
        created = Created(target="", cluster=self.name, path=SCHEME + name, token=token)
        journal.note_created(created)
        self._own = (created, journal)
        made = build_namespace(name, labels_of(run, token), self._security)
        try:
            self.connection.ask("create", "namespaces", lambda client: client.create(made))
        except ApiError as error:
            # A request whose answer was lost made it: its name holds the token.
            if error.status.code != 409:
                raise
        return name

    def leave(self, target: str) -> tuple[str, ...]:
        """The last target that leaves takes the run's own namespace along; what could not be done
        as sentences."""
        self._targets.discard(target)
        if self._targets or self._own is None:
            return ()
        created, journal = self._own
        problems = self.remove(created)
        if not problems:
            journal.note_removed(created)
            self._own = None
        return problems

    def remove(self, created: Created) -> tuple[str, ...]:
        """Remove what the journal tells of; what could not be done as sentences."""

        def go_on() -> None:
            if self._hurry():
                raise LeadlineError(errors.INTERRUPTED, "stopped while volumes were removed")

        bound_s = max(self.settings.ready_s, LEAST_GONE_S)
        removal = Removal(connection=self.connection, bound_s=bound_s, go_on=go_on)
        return remove_created(removal, created)

    def capture(self) -> Mapping[str, bytes]:
        """What the cluster is now: raw dumps by file name, secrets taken out."""
        from leadline.probes.kubernetes import capture

        return capture(self.connection)

    def close(self) -> None:
        self.connection.close()


def remove_again(cluster: Cluster, created: Created) -> tuple[str, ...]:
    """Remove what a session that was killed left in a cluster of its plan."""
    assert cluster.kubernetes is not None
    opened = OpenKubernetes(cluster.name, cluster.kubernetes)
    try:
        return opened.remove(created)
    finally:
        opened.close()


def remove_created(removal: Removal, created: Created) -> tuple[str, ...]:
    """Remove one thing of a run's journal; what could not be done as sentences."""
    where, _, rest = created.path.removeprefix(SCHEME).partition("/")
    kind, _, name = rest.partition("/")
    try:
        if not rest:
            return removal.namespace(where, created.token)
        if kind == "jobs":
            return removal.job(where, name, created.token)
        return removal.machine(where, name, created.token)
    except LeadlineError as error:
        return (f"{created.path} could not be removed: {error.fact}",)
