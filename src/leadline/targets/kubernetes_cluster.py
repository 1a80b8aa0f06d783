"""A Kubernetes cluster of a plan: permissions, the run's namespace, inventory and removal."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from pathlib import Path

from lightkube import ApiError
from lightkube.resources.core_v1 import Namespace

from leadline import errors
from leadline.archive.records import Created
from leadline.connect.kubernetes.cleanup import Removal, other_runs
from leadline.connect.kubernetes.client import (
    Connection,
    KubernetesAccess,
    api_groups,
    if_allowed,
    read_kubelet,
)
from leadline.connect.kubernetes.objects import (
    get_object,
    labels_of,
    namespace_name,
    new_token,
    owner_name,
)
from leadline.connect.kubernetes.permissions import (
    KUBELET_RULES,
    NAMESPACE_RULES,
    Rule,
    is_allowed,
    require,
)
from leadline.connect.kubernetes.pods import (
    SCC_GROUP,
    PodSecurity,
    PodUser,
    build_namespace,
    user_of_namespace,
)
from leadline.errors import LeadlineError
from leadline.formats.kubelet import DAEMON_CONTAINERS
from leadline.plan.kubernetes_cluster import KubernetesCluster, parse_cpu
from leadline.plan.models import Cluster, Plan
from leadline.plan.prometheus import StorageMonitoring
from leadline.plan.target_url import TargetKind
from leadline.probes.watches.base import Watches
from leadline.probes.watches.kubelet import KubeletWatch
from leadline.probes.watches.prometheus import PrometheusWatch
from leadline.runner.ports import Journal, Watch

# A short `ready` of the plan still leaves time for removals: a namespace takes up to ten seconds.
LEAST_GONE_S = 60.0
# In the journal of a run: `kubernetes:NAMESPACE` and `kubernetes:NAMESPACE/KIND/NAME`.
SCHEME = "kubernetes:"
# The kinds of an object that owns what a target makes.
JOBS = "jobs"
VIRTUAL_MACHINES = "virtualmachines"


def access_of(settings: KubernetesCluster) -> KubernetesAccess:
    path = Path(settings.kubeconfig) if settings.kubeconfig else None
    return KubernetesAccess(kubeconfig=path, context=settings.context)


# A kubelet answers in milliseconds.
_KUBELET_S = 3.0


class OpenKubelets:
    """The kubelets of a cluster, through its API server. Their connection delays no request of the
    runner, and is not delayed by one."""

    def __init__(self, access: KubernetesAccess) -> None:
        self._connection = Connection(access, timeout_s=_KUBELET_S, patience_s=0.0)

    def close(self) -> None:
        self._connection.close()

    @cached_property
    def _missing(self) -> tuple[Rule, ...]:
        """The permissions that this user lacks; checked once, as a refusal of each request would
        fill the audit log."""
        return tuple(rule for rule in KUBELET_RULES if not is_allowed(self._connection, rule, ""))

    def nodes(self, namespaces: Collection[str]) -> Mapping[str, int]:
        for rule in self._missing:
            raise LeadlineError(
                errors.KUBERNETES_DENIED, f"this user may not {rule.verb} {rule.qualified}"
            )
        used = {
            pod["spec"].get("nodeName")
            for namespace in namespaces
            for pod in self._connection.listed("", "v1", "pods", "Pod", namespace)
            if DAEMON_CONTAINERS & {one["name"] for one in pod["spec"]["containers"]}
        }
        cores = {
            str(node["metadata"]["name"]): node["status"]["capacity"]["cpu"]
            for node in (self._connection.listed("", "v1", "nodes", "Node") if used else ())
        }
        return {
            name: round(float(str(parse_cpu(cpu)))) for name, cpu in cores.items() if name in used
        }

    def read(self, node: str) -> tuple[str, float]:
        path = "metrics/resource"
        return read_kubelet(self._connection, node, path)


class OpenKubernetes:
    """One Kubernetes cluster, queried when it is first used. `go_on` raises after a request to
    stop, `hurry` is true after a second one, and `note` gets messages about what is awaited."""

    def __init__(
        self,
        name: str,
        settings: KubernetesCluster,
        *,
        go_on: Callable[[], None] = lambda: None,
        hurry: Callable[[], bool] = lambda: False,
        note: Callable[[str], None] = lambda sentence: None,
        monitoring: StorageMonitoring | None = None,
    ) -> None:
        self.name = name
        self._monitoring = monitoring
        self.settings = settings
        self.connection = Connection(access_of(settings))
        self._kubelets = OpenKubelets(self.connection.access)
        self.go_on = go_on
        self.note = note
        # The user that may open a raw block device in a pod, where the first runner found another.
        self.device_user: PodUser | None = None
        self._hurry = hurry
        self._run = ""
        self._checked: set[Rule] = set()
        self._own: tuple[Created, Journal] | None = None
        self._security = PodSecurity.RESTRICTED
        # Nodes whose pods did not go in time: no further target waits for them.
        self._dead_nodes: set[str] = set()
        self._noted_runs: tuple[str, ...] = ()

    @cached_property
    def pod_user(self) -> PodUser:
        """The user of runner pods, as the namespace of runners allows."""
        name = self.namespace
        found = if_allowed(lambda: get_object(self.connection, Namespace, "namespaces", name))
        annotations = (found.metadata.annotations if found and found.metadata else None) or {}
        openshift = SCC_GROUP in (if_allowed(lambda: api_groups(self.connection)) or ())
        return user_of_namespace(annotations, openshift=openshift)

    def other_runs(self, run: str) -> tuple[str, ...]:
        """The other runs with pods at work in this cluster, or in this namespace where this user
        may not look further. New ones are noted: they take capacity from each other."""
        found = other_runs(self.connection, run, self.namespace)
        new = [other for other in found if other not in self._noted_runs]
        self._noted_runs = found
        if new:
            self.note(
                f"another run is at work in the cluster {self.name}: {', '.join(new)}; both "
                "measure less than the storage gives"
            )
        return found

    @property
    def namespace(self) -> str:
        """The namespace of runners; empty before the run has made its own."""
        if self.settings.namespace:
            return self.settings.namespace
        return self._own[0].path.removeprefix(SCHEME) if self._own else ""

    def require(self, rules: tuple[Rule, ...]) -> None:
        """Raise LeadlineError(`kubernetes-denied`) for a missing permission; each rule is
        checked once."""
        needed = rules if self.settings.namespace else (*NAMESPACE_RULES, *rules)
        new = [rule for rule in needed if rule not in self._checked]
        try:
            require(self.connection, new, self.settings.namespace or "")
        except LeadlineError as error:
            if self.settings.namespace or error.kind is not errors.KUBERNETES_DENIED:
                raise
            project = self.connection.project
            usual = f", for instance {project!r}, that of the context" if project else ""
            hint = (
                "a run makes its own namespace; name one that this user may use with --namespace"
                f"{usual}. Otherwise {error.hint}"
            )
            raise LeadlineError(error.kind, error.fact, context=error.context, hint=hint) from error
        self._checked.update(new)

    def watch(self, folder: Path) -> Watch | None:
        """Start to record the cluster's storage during a trial: by the Prometheus that the plan
        names, else by the kubelets; None without namespaces of a storage."""
        if self._monitoring:
            return Watches(PrometheusWatch(self._monitoring, folder))
        names = self.settings.storage_namespaces
        return Watches(KubeletWatch(self._kubelets, names, folder)) if names else None

    def register_security(self, security: PodSecurity) -> None:
        """Register the security level of a target's pods, before any target enters.

        The run's namespace serves all targets, so it gets the least strict level.
        """
        levels = list(PodSecurity)
        self._security = max(self._security, security, key=levels.index)

    def enter(self, run: str, journal: Journal) -> str:
        """The namespace for a target's objects; the first target creates it."""
        self._run = run
        if self.namespace:
            return self.namespace
        token = new_token()
        name = namespace_name(run, token)
        created = Created(target="", cluster=self.name, path=SCHEME + name, token=token)
        journal.note_created(created)
        self._own = (created, journal)
        made = build_namespace(name, labels_of(run, token), self._security)
        try:
            self.connection.ask("create", "namespaces", lambda client: client.create(made))
        except ApiError as error:
            # The answer to an earlier request was lost: the name holds the run's token.
            if error.status.code != 409:
                raise
        return name

    def leave(self) -> tuple[str, ...]:
        """Remove the run's namespace, after the last target. Sentences about what failed."""
        if self._own is None:
            return ()
        created, journal = self._own
        problems = self.remove(created)
        if not problems:
            journal.note_removed(created)
            self._own = None
        return problems

    def remove(self, created: Created, run: str = "") -> tuple[str, ...]:
        """Remove what the journal of `run` names, by default of the run that has entered; sentences
        about what failed."""

        def go_on() -> None:
            if self._hurry():
                raise LeadlineError(errors.INTERRUPTED, "stopped while volumes were removed")

        bound_s = max(self.settings.ready_s, LEAST_GONE_S)
        removal = Removal(
            connection=self.connection, bound_s=bound_s, go_on=go_on, dead_nodes=self._dead_nodes
        )
        return remove_created(removal, created, run or self._run)

    def capture(self) -> Mapping[str, bytes]:
        """The present state of the cluster: raw dumps by file name, without secrets."""
        from leadline.probes.kubernetes import capture

        return capture(self.connection, in_part=True)

    def close(self) -> None:
        self.connection.close()
        self._kubelets.close()


def is_own_object(plan: Plan, run: str, created: Created) -> bool:
    """Return whether an entry is a namespace of the run, or an object that a target makes in its
    namespace."""
    settings = next(
        (cluster.kubernetes for cluster in plan.clusters if cluster.name == created.cluster), None
    )
    if settings is None:
        return False
    where, _, rest = created.path.removeprefix(SCHEME).partition("/")
    if not rest:
        own = SCHEME + namespace_name(run, created.token)
        return not created.target and not settings.namespace and created.path == own
    if settings.namespace:
        is_in = where == settings.namespace
    else:
        is_in = re.fullmatch(re.escape(namespace_name(run, "")) + "[0-9a-f]{8}", where) is not None
    kind, _, name = rest.partition("/")
    # The number of a target, before those that cannot be used are left out of the plan.
    numbers = range(1, len(plan.targets) + len(plan.left_out) + 1)
    return (
        is_in
        and kind in (JOBS, VIRTUAL_MACHINES)
        and any(
            name == owner_name(number, target.parsed.location, created.token)
            for target in plan.own_targets
            if target.url and target.kind is TargetKind.STORAGE_CLASS
            if (target.name, target.cluster) == (created.target, created.cluster)
            for number in numbers
        )
    )


def remove_leftover(cluster: Cluster, created: Created, run: str) -> tuple[str, ...]:
    """Remove what a killed session left in a cluster of its plan."""
    assert cluster.kubernetes is not None
    opened = OpenKubernetes(cluster.name, cluster.kubernetes)
    try:
        return opened.remove(created, run)
    finally:
        opened.close()


def remove_created(removal: Removal, created: Created, run: str) -> tuple[str, ...]:
    """Remove one entry of a run's journal; sentences about what failed."""
    where, _, rest = created.path.removeprefix(SCHEME).partition("/")
    kind, _, name = rest.partition("/")
    try:
        if not rest:
            return removal.namespace(where, run, created.token)
        if kind == JOBS:
            return removal.job(where, name, run, created.token)
        return removal.machine(where, name, run, created.token)
    except LeadlineError as error:
        return (f"{created.path} could not be removed: {error.fact}",)
