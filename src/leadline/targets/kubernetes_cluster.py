"""A Kubernetes cluster of a plan, open for its targets: asked beforehand, given a namespace for
the run, captured, and left as it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from lightkube import ApiError

from leadline import errors
from leadline.archive.records import Created
from leadline.errors import LeadlineError
from leadline.kubernetes.access import KubernetesAccess
from leadline.kubernetes.connection import Connection
from leadline.kubernetes.labels import dns_label, labels_of, new_token
from leadline.kubernetes.permissions import NAMESPACE_RULES, Rule, require
from leadline.kubernetes.pods.objects import USER, PodSecurity, namespace
from leadline.kubernetes.removal import Removal
from leadline.plan.kubernetes import KubernetesCluster
from leadline.plan.models import Cluster
from leadline.runner.ports import Journal

# Who does not want to wait for volumes long must still wait for their end: a namespace alone takes
# up to ten seconds.
LEAST_GONE_S = 60.0
# In the journal of a run: `kubernetes:NAMESPACE` and `kubernetes:NAMESPACE/KIND/NAME`.
SCHEME = "kubernetes:"


def access_of(settings: KubernetesCluster) -> KubernetesAccess:
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
        self.connection = Connection(access_of(settings))
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
        made = namespace(name, labels_of(run, token), self._security)
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
