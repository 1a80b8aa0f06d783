"""Permissions that a run needs in a Kubernetes cluster: RBAC rules as data.

The rules are checked against the API server; the manifests of deploy/rbac hold the same rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lightkube.models.authorization_v1 import ResourceAttributes, SelfSubjectAccessReviewSpec
from lightkube.resources.authorization_v1 import SelfSubjectAccessReview

from leadline import errors
from leadline.connect.kubernetes.client import Connection, format_rule
from leadline.errors import LeadlineError


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One verb on one kind; `resource` may name a subresource (`pods/exec`). `namespaced`: in the
    namespace of the run, otherwise in the whole cluster."""

    group: str
    resource: str
    verb: str
    namespaced: bool

    @property
    def qualified(self) -> str:
        """The resource with its group: `jobs.batch`, `pods/exec`."""
        plural, slash, sub = self.resource.partition("/")
        return (f"{plural}.{self.group}" if self.group else plural) + slash + sub


def _rules(group: str, resource: str, verbs: str, *, namespaced: bool = True) -> tuple[Rule, ...]:
    return tuple(
        Rule(group=group, resource=resource, verb=verb, namespaced=namespaced)
        for verb in verbs.split()
    )


# Every run.
RUN_RULES: tuple[Rule, ...] = (
    *_rules("batch", "jobs", "get list create delete"),
    *_rules("", "pods", "get list"),
    *_rules("", "pods/exec", "get create"),
    *_rules("", "persistentvolumeclaims", "get list"),
    *_rules("", "events", "list"),
    *_rules("", "resourcequotas", "list"),
    *_rules("", "namespaces", "get"),
    *_rules("storage.k8s.io", "storageclasses", "get list", namespaced=False),
    *_rules("storage.k8s.io", "csistoragecapacities", "list", namespaced=False),
    *_rules("", "nodes", "get list", namespaced=False),
    *_rules("", "persistentvolumes", "get", namespaced=False),
)
# A run that creates its own namespace.
NAMESPACE_RULES = _rules("", "namespaces", "get create delete", namespaced=False)
# A StorageClass that retains volumes after use: the run removes them.
RETAIN_RULES = _rules("", "persistentvolumes", "patch", namespaced=False)
# The counters of the storage's pods, by the kubelets. A run works without it.
KUBELET_RULES: tuple[Rule, ...] = (
    *_rules("", "pods", "list", namespaced=False),
    *_rules("", "nodes", "list", namespaced=False),
    *_rules("", "nodes/proxy", "get", namespaced=False),
)
# Pods that share a volume: its claim belongs to no pod.
SHARED_RULES = _rules("", "persistentvolumeclaims", "create")
# The lifecycle of volumes.
LIFECYCLE_RULES: tuple[Rule, ...] = (
    *_rules("", "persistentvolumeclaims", "create patch delete watch"),
    *_rules("", "pods", "create delete watch"),
    *_rules("snapshot.storage.k8s.io", "volumesnapshots", "get list create delete watch"),
    *_rules("snapshot.storage.k8s.io", "volumesnapshotclasses", "list", namespaced=False),
    *_rules("snapshot.storage.k8s.io", "volumesnapshotcontents", "get patch", namespaced=False),
    *_rules("", "persistentvolumes", "list watch", namespaced=False),
    *_rules("storage.k8s.io", "volumeattachments", "list watch", namespaced=False),
    *_rules("storage.k8s.io", "csidrivers", "get", namespaced=False),
)
# The lifecycle of volumes that virtual machines use.
VM_LIFECYCLE_RULES = _rules("kubevirt.io", "virtualmachineinstances", "watch")
# Virtual machines.
VM_RULES: tuple[Rule, ...] = (
    *_rules("kubevirt.io", "virtualmachines", "get list create delete"),
    *_rules("kubevirt.io", "virtualmachineinstances", "get list"),
    *_rules("subresources.kubevirt.io", "virtualmachineinstances/console", "get"),
    *_rules("", "persistentvolumeclaims", "create delete"),
    *_rules("", "secrets", "create delete"),
    *_rules("cdi.kubevirt.io", "datavolumes", "get create delete"),
)
# A run works without these: the admin of a namespace has no rights on nodes, classes and volumes.
# It then checks less beforehand, and records less.
OPTIONAL = frozenset(
    rule
    for rule in RUN_RULES
    if not rule.namespaced or rule.resource in ("events", "namespaces", "resourcequotas")
)


def require(connection: Connection, rules: Iterable[Rule], namespace: str) -> None:
    """Raise LeadlineError(`kubernetes-denied`) with all rules that this user lacks."""
    missing = [
        rule
        for rule in rules
        if rule not in OPTIONAL and is_allowed(connection, rule, namespace) is False
    ]
    if not missing:
        return
    first = missing[0]
    where = f" in the namespace {namespace!r}" if first.namespaced and namespace else ""
    more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
    verbs: dict[str, list[str]] = {}
    for rule in missing:
        verbs.setdefault(rule.qualified, []).append(rule.verb)
    raise LeadlineError(
        errors.KUBERNETES_DENIED,
        f"this user may not {first.verb} {first.qualified}{where}{more}",
        context=[
            "rules that are missing:",
            *(format_rule('", "'.join(listed), qualified) for qualified, listed in verbs.items()),
        ],
        hint="have them added to its role; deploy/rbac has manifests with just what is needed",
    )


def is_allowed(connection: Connection, rule: Rule, namespace: str) -> bool:
    plural, _, sub = rule.resource.partition("/")
    review = SelfSubjectAccessReview(
        spec=SelfSubjectAccessReviewSpec(
            resourceAttributes=ResourceAttributes(
                group=rule.group,
                resource=plural,
                subresource=sub or None,
                verb=rule.verb,
                namespace=namespace if rule.namespaced else None,
            )
        )
    )
    answer = connection.ask(
        "create",
        "selfsubjectaccessreviews.authorization.k8s.io",
        lambda client: client.create(review),
    )
    return bool(answer.status and answer.status.allowed)
