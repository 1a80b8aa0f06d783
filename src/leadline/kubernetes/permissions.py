"""What a run needs to be allowed, as data: asked of the server first, and written in the
manifests of deploy/rbac."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lightkube.models.authorization_v1 import ResourceAttributes, SelfSubjectAccessReviewSpec
from lightkube.resources.authorization_v1 import SelfSubjectAccessReview

from leadline import errors
from leadline.errors import LeadlineError
from leadline.kubernetes.connection import Connection, rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One verb on one kind; `resource` may name a subresource (`pods/exec`). `namespaced`: in the
    namespace of the run, otherwise of the whole cluster."""

    group: str
    resource: str
    verb: str
    namespaced: bool

    @property
    def called(self) -> str:
        """`jobs.batch`, `pods/exec`."""
        plural, slash, sub = self.resource.partition("/")
        return (f"{plural}.{self.group}" if self.group else plural) + slash + sub


def _rules(group: str, resource: str, verbs: str, *, namespaced: bool = True) -> tuple[Rule, ...]:
    return tuple(
        Rule(group=group, resource=resource, verb=verb, namespaced=namespaced)
        for verb in verbs.split()
    )


# Of every run.
RUN_RULES: tuple[Rule, ...] = (
    *_rules("batch", "jobs", "get list create delete"),
    *_rules("", "pods", "get list"),
    *_rules("", "pods/exec", "get create"),
    *_rules("", "persistentvolumeclaims", "get list"),
    *_rules("", "events", "list"),
    *_rules("", "resourcequotas", "list"),
    *_rules("storage.k8s.io", "storageclasses", "get list", namespaced=False),
    *_rules("storage.k8s.io", "csistoragecapacities", "list", namespaced=False),
    *_rules("", "nodes", "get list", namespaced=False),
    *_rules("", "persistentvolumes", "get", namespaced=False),
)
# Of a run that makes its own namespace.
NAMESPACE_RULES = _rules("", "namespaces", "get create delete", namespaced=False)
# Of a class that keeps volumes after use, so that none is left behind.
RETAIN_RULES = _rules("", "persistentvolumes", "patch", namespaced=False)
# Of virtual machines.
VM_RULES: tuple[Rule, ...] = (
    *_rules("kubevirt.io", "virtualmachines", "get list create delete"),
    *_rules("kubevirt.io", "virtualmachineinstances", "get list"),
    *_rules("subresources.kubevirt.io", "virtualmachineinstances/console", "get"),
    *_rules("", "persistentvolumeclaims", "create delete"),
    *_rules("", "secrets", "create delete"),
    *_rules("cdi.kubevirt.io", "datavolumes", "get create delete"),
)
# What a run does without where it is not allowed: it then knows less beforehand.
OPTIONAL = frozenset({"resourcequotas", "csistoragecapacities.storage.k8s.io", "events"})


def require(connection: Connection, rules: Iterable[Rule], namespace: str) -> None:
    """Ask the server about each rule. Raises LeadlineError(`kubernetes-denied`) with all that are
    missing; says nothing where the server does not tell."""
    missing = [
        one
        for one in rules
        if one.called not in OPTIONAL and allowed(connection, one, namespace) is False
    ]
    if not missing:
        return
    first = missing[0]
    where = f" in the namespace {namespace!r}" if first.namespaced and namespace else ""
    more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
    raise LeadlineError(
        errors.KUBERNETES_DENIED,
        f"this user may not {first.verb} {first.called}{where}{more}",
        context=["rules that are missing:", *_together(missing)],
        hint="have them added to its role; deploy/rbac has manifests with just what is needed",
    )


def _together(rules: Iterable[Rule]) -> list[str]:
    """A line for each kind, with all its verbs."""
    verbs: dict[str, list[str]] = {}
    for one in rules:
        verbs.setdefault(one.called, []).append(one.verb)
    return [rule('", "'.join(found), called) for called, found in verbs.items()]


def allowed(connection: Connection, asked: Rule, namespace: str) -> bool:
    """Whether the server lets this user do it."""
    plural, _, sub = asked.resource.partition("/")
    review = SelfSubjectAccessReview(
        spec=SelfSubjectAccessReviewSpec(
            resourceAttributes=ResourceAttributes(
                group=asked.group,
                resource=plural,
                subresource=sub or None,
                verb=asked.verb,
                namespace=namespace if asked.namespaced else None,
            )
        )
    )
    answer = connection.ask(
        "create",
        "selfsubjectaccessreviews.authorization.k8s.io",
        lambda client: client.create(review),
    )
    return bool(answer.status and answer.status.allowed)
