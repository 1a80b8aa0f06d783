"""One cluster's API server, asked so that an answer, a refusal and a silence are told apart.

What is asked again after a lost connection is safe to ask twice: a create that was done the first
time is told as such by the server, and what Leadline makes has a name that nothing else has.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import yaml
from lightkube import ApiError, AsyncClient, Client, ConfigError, KubeConfig
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import User
from lightkube.generic_resource import (
    GenericGlobalResource,
    GenericNamespacedResource,
    create_api_info,
)
from lightkube.models.authorization_v1 import ResourceAttributes, SelfSubjectAccessReviewSpec
from lightkube.resources.authorization_v1 import SelfSubjectAccessReview

from leadline import errors
from leadline.errors import LeadlineError

# How a Kubernetes cluster is reached, as kubectl is told it.


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesAccess:
    """A kubeconfig and a context of it; None for kubectl's own choice: $KUBECONFIG, else
    ~/.kube/config, else the service account of the pod that this runs in."""

    kubeconfig: Path | None = None
    context: str | None = None


# The kubeconfig that kubectl would take, which may lie in several files; with what lightkube
# leaves out of it: files beside each other, `proxy-url`, and login programs of today.

# lightkube knows no newer one; a program is told by KUBERNETES_EXEC_INFO which of them is meant.
_EXEC_KNOWN = "client.authentication.k8s.io/v1beta1"
_EXEC_SAME = "client.authentication.k8s.io/v1"
# Paths, as a kubeconfig has them, are meant from its own folder.
_FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


def configuration(access: KubernetesAccess) -> tuple[SingleConfig, str | None]:
    """The configuration of a context, and the proxy on the way to its cluster.

    As kubectl: what is named, else the files of $KUBECONFIG together, else the usual file, and
    only then the account of the pod that this may run in. Raises ConfigError, OSError, ValueError,
    KeyError, TypeError or yaml.YAMLError for what is none.
    """
    named = [Path(word) for word in os.environ.get("KUBECONFIG", "").split(os.pathsep) if word]
    usual = Path("~/.kube/config").expanduser()
    if access.kubeconfig is not None:
        files = [access.kubeconfig.expanduser()]
    elif named:
        files = [item for item in named if item.is_file()]
        if not files:
            raise ConfigError(f"KUBECONFIG names no file that is there: {named[0]}")
    elif usual.is_file():
        files = [usual]
    else:
        try:
            return _known(KubeConfig.from_service_account(), None), None
        except (ConfigError, KeyError) as error:
            raise ConfigError(f"there is no {usual}, and this is no pod") from error
    document = _merged([_read(file) for file in files])
    config = _known(KubeConfig.from_dict(document), access.context)
    _require_login(config)
    for cluster in document["clusters"]:
        if cluster["name"] == config.context.cluster:
            return config, cluster["cluster"].get("proxy-url") or None
    return config, None


def _known(config: KubeConfig, asked: str | None) -> SingleConfig:
    """The context that is asked for, else the current one. Raises ConfigError."""
    name = asked or config.current_context
    contexts = ", ".join(config.contexts) or "none"
    if not name:
        raise ConfigError(f"no context is current (contexts: {contexts})")
    context = config.contexts.get(name)
    if context is None:
        raise ConfigError(f"there is no context {name!r} (contexts: {contexts})")
    if context.cluster not in config.clusters:
        raise ConfigError(f"the context {name!r} names a cluster {context.cluster!r} without entry")
    if context.user and context.user not in config.users:
        raise ConfigError(f"the context {name!r} names a user {context.user!r} without entry")
    user = config.users[context.user] if context.user else User()
    return SingleConfig(
        context_name=name, context=context, cluster=config.clusters[context.cluster], user=user
    )


def _read(file: Path) -> dict[str, Any]:
    """One file, the paths in it made absolute."""
    if not file.is_file():
        raise ConfigError(f"there is no file {file}")
    document = yaml.safe_load(file.read_text("utf-8"))
    if not isinstance(document, dict):
        raise ConfigError(f"{file} is no kubeconfig")
    for entry in (*_entries(document, "clusters"), *_entries(document, "users")):
        for part in entry.values():
            if isinstance(part, dict):
                _locate(part, file.parent)
    return document


def _locate(part: dict[str, Any], folder: Path) -> None:
    for key in _FILES:
        if part.get(key):
            part[key] = str((folder / str(part[key])).absolute())
    login = part.get("exec")
    if isinstance(login, dict):
        command = str(login.get("command", ""))
        if "/" in command:
            login["command"] = str((folder / command).absolute())


def _entries(document: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    entries = document.get(key) or []
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and "name" in entry for entry in entries
    ):
        raise ConfigError(f"{key!r} of a kubeconfig is a list of entries with names")
    return entries


def _merged(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Several as one: of what has the same name, the first counts."""
    merged: dict[str, Any] = {}
    for key in ("clusters", "contexts", "users"):
        by_name: dict[str, dict[str, Any]] = {}
        for document in documents:
            for entry in _entries(document, key):
                # An entry may be there by its name alone.
                by_name.setdefault(entry["name"], {**entry, key[:-1]: entry.get(key[:-1]) or {}})
        merged[key] = list(by_name.values())
    current = (document.get("current-context") for document in documents)
    merged["current-context"] = next((item for item in current if item), None)
    for user in merged["users"]:
        if isinstance(user["user"].get("exec"), dict):
            user["user"]["exec"] = _login(user["user"]["exec"])
    return merged


def _login(written: Mapping[str, Any]) -> dict[str, Any]:
    """A login program, told what kubectl tells it (client-go's credential plugins)."""
    version = written.get("apiVersion")
    told = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    variables = [
        *(written.get("env") or ()),
        {"name": "KUBERNETES_EXEC_INFO", "value": json.dumps(told)},
    ]
    known = _EXEC_KNOWN if version == _EXEC_SAME else version
    return {**written, "apiVersion": known, "env": variables}


def _require_login(config: SingleConfig) -> None:
    """Raise ConfigError where the program that logs in is not there."""
    login = config.user.exec if config.user else None
    if login and shutil.which(login.command) is None:
        hint = f"; {login.installHint.strip()}" if login.installHint else ""
        raise ConfigError(f"there is no program {login.command!r} to log in with{hint}")


Answer = TypeVar("Answer")
Made = TypeVar("Made", Client, AsyncClient)

# An API server that restarts is back within seconds; one behind a load balancer within a minute.
PATIENCE_S = 60.0
# One that has never answered may be none at all.
_FIRST_S = 10.0
_PAUSE_S = 1.0
# How an API server tells that its authorizers do not allow something, whichever they are.
_NOT_ALLOWED = re.compile(r"User \".*\" cannot ")
_HOW = "name the cluster with --kubeconfig FILE and --context NAME, as for kubectl"
# Answers that say: not now.
_NOT_NOW = (429, 500, 502, 503, 504)


class Connection:
    """A client of one cluster. Nothing is contacted before something is asked."""

    def __init__(
        self, access: KubernetesAccess, *, timeout_s: float = 15.0, patience_s: float = PATIENCE_S
    ) -> None:
        self.access = access
        self._timeout_s = timeout_s
        self.patience_s = patience_s
        self._met = False

    @cached_property
    def client(self) -> Client:
        """Raises LeadlineError(`cluster-unknown`) where no configuration is found or it is none."""
        return self._made(Client)

    def asynchronous(self) -> AsyncClient:
        """A client of its own for the event loop that is running; its user closes it."""
        return self._made(AsyncClient)

    def _made(self, kind: Callable[..., Made]) -> Made:
        try:
            return kind(**self._settings)
        except (ConfigError, OSError, KeyError, TypeError, ValueError, yaml.YAMLError) as error:
            raise LeadlineError(
                errors.CLUSTER_UNKNOWN,
                f"the Kubernetes cluster cannot be reached with this configuration: {_why(error)}",
                context=_named(self.access),
                hint=_HOW,
            ) from error

    @cached_property
    def _settings(self) -> dict[str, Any]:
        config, proxy = configuration(self.access)
        return {
            "config": config,
            "timeout": httpx2.Timeout(self._timeout_s),
            "field_manager": "leadline",
            "proxy": proxy,
        }

    @property
    def context(self) -> str:
        """The name of the context in use."""
        return str(self.client.config.context_name)

    def ask(
        self,
        verb: str,
        resource: str,
        call: Callable[[Client], Answer],
        *,
        namespace: str = "",
        name: str = "",
        patience_s: float | None = None,
    ) -> Answer:
        """What `call` answers, asked again while the server does not answer, `patience_s` long.

        `verb` and `resource` (`pods`, `pods/exec`, `jobs.batch`) are as RBAC writes them. An
        ApiError of 404 or 409 is the caller's to understand and passes through. Raises
        LeadlineError: `cluster-unknown`, `kubernetes-unreachable`, `kubernetes-denied` with the
        rule that is missing, `quota-exceeded`, `kubernetes-failed`.
        """
        client = self.client
        patience_s = self.patience_s if patience_s is None else patience_s
        end = time.monotonic() + (patience_s if self._met else min(_FIRST_S, patience_s))
        while True:
            try:
                answer = call(client)
                self._met = True
                return answer
            except ApiError as error:
                self._met = True
                # A server that has just started refuses before it has read its own rules.
                settled = error.status.code not in _NOT_NOW
                if error.status.code in (404, 409):
                    raise
                if settled or time.monotonic() > end:
                    raise refused(error, verb, resource, namespace, name) from error
            except httpx2.HTTPStatusError as error:
                # Not in the words of an API server: a proxy, or a group that is not served.
                status = error.response.status_code
                if status not in _NOT_NOW or time.monotonic() > end:
                    raise self._foreign(status, verb, resource, error) from error
            except (ConfigError, KeyError, ValueError) as error:
                raise self._no_answer(error, verb, resource) from error
            except (httpx2.HTTPError, OSError) as error:
                stranger = "CERTIFICATE_VERIFY_FAILED" in str(error)
                if stranger or time.monotonic() > end:
                    raise LeadlineError(
                        errors.KUBERNETES_UNREACHABLE,
                        f"the API server of {self.context} does not answer: {_why(error)}",
                        context=[str(client.config.cluster.server)],
                        hint=_HOW,
                    ) from error
            time.sleep(_PAUSE_S)

    def _foreign(self, status: int, verb: str, resource: str, error: Exception) -> LeadlineError:
        server = str(self.client.config.cluster.server)
        if status in (401, 403, 407):
            return LeadlineError(
                errors.KUBERNETES_DENIED,
                f"something before the API server of {self.context} does not let this user pass: "
                f"status {status}",
                context=[server],
                hint="look at the proxy (`proxy-url`, HTTPS_PROXY) and the login",
            )
        return LeadlineError(
            errors.KUBERNETES_FAILED,
            f"to {verb} {resource} is not answered as an API server does: status {status}",
            context=[server, _why(error)],
            hint=_HOW,
        )

    def _no_answer(self, error: Exception, verb: str, resource: str) -> LeadlineError:
        """An answer that is none: of the login program, or of what listens at the address."""
        user = self.client.config.user
        logs_in = user is not None and user.exec is not None
        if isinstance(error, ConfigError) or (
            logs_in and isinstance(error, KeyError | json.JSONDecodeError)
        ):
            why = _why(error) if isinstance(error, ConfigError) else "the login gave no token"
            return LeadlineError(
                errors.KUBERNETES_DENIED,
                f"no credentials for {self.context}: {why.strip()}",
                context=_named(self.access),
                hint="try `kubectl get nodes`: it uses the same credentials",
            )
        return LeadlineError(
            errors.KUBERNETES_FAILED,
            f"the answer to {verb} {resource} is not understood: {_why(error)}",
            context=[str(self.client.config.cluster.server)],
            hint=_HOW,
        )

    def listed(
        self, group: str, version: str, plural: str, kind: str, namespace: str | None = None
    ) -> list[dict[str, Any]]:
        """Objects as the server gives them, of one namespace or of all; none where the cluster
        does not know the kind. Raises LeadlineError as `ask`."""
        called = f"{plural}.{group}" if group else plural

        # Without a namespace in its path the server lists a kind over all of them.
        inside = namespace if namespace not in (None, "*") else None
        resource = raw_kind(group, version, plural, kind, namespaced=inside is not None)

        def call(client: Client) -> list[dict[str, Any]]:
            try:
                return [dict(item) for item in client.list(resource, namespace=inside)]
            except httpx2.HTTPStatusError as error:
                # Of an API group that it does not know the server says so in plain text.
                if error.response.status_code == 404:
                    return []
                raise

        try:
            return self.ask("list", called, call, namespace=namespace or "")
        except ApiError as error:
            if error.status.code == 404:
                return []
            raise

    def close(self) -> None:
        if "client" in self.__dict__:
            self.client.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@cache
def raw_kind(group: str, version: str, plural: str, kind: str, *, namespaced: bool) -> Any:
    """Objects of a kind as the server gives them, all fields included. Not by lightkube's own
    register, which takes each kind once and has typed models of the common ones."""
    base = GenericNamespacedResource if namespaced else GenericGlobalResource
    return type(kind, (base,), {"_api_info": create_api_info(group, version, kind, plural)})


def refused(
    error: ApiError, verb: str, resource: str, namespace: str, name: str = ""
) -> LeadlineError:
    """What the server's refusal means to a user."""
    said = str(error.status.message or error)
    what = " ".join(part for part in (verb, resource, name and repr(name)) if part)
    where = [f"namespace {namespace!r}"] if namespace else []
    if error.status.code == 401:
        return LeadlineError(
            errors.KUBERNETES_DENIED,
            "the API server does not know this user",
            context=[said],
            hint="log in again: the token or certificate may have run out",
        )
    if error.status.code == 403 and "exceeded quota" in said:
        return LeadlineError(
            errors.QUOTA_EXCEEDED,
            f"a quota does not allow to {what}",
            context=[*where, said],
            hint="use a smaller size or count, another --namespace, or have the quota raised",
        )
    if error.status.code == 403 and "being terminated" in said:
        return LeadlineError(
            errors.KUBERNETES_FAILED,
            f"the namespace {namespace!r} is being deleted",
            context=[said],
            hint="wait until it is gone, or name another with --namespace",
        )
    # All other refusals of 403 are of admission: pod security, limits, webhooks.
    if error.status.code == 403 and _NOT_ALLOWED.search(said):
        return LeadlineError(
            errors.KUBERNETES_DENIED,
            f"this user may not {what}",
            context=[*where, said],
            hint=f"have this rule added to its role: {rule(verb, resource)}",
        )
    return LeadlineError(
        errors.KUBERNETES_FAILED,
        f"the cluster refuses to {what}",
        context=[*where, said],
        hint="the words are the API server's, or of a webhook that it asks",
    )


def rule(verb: str, resource: str) -> str:
    """An RBAC rule as it stands in a manifest: `jobs.batch` is `jobs` of the group `batch`."""
    plural, _, sub = resource.partition("/")
    plural, _, group = plural.partition(".")
    named = f"{plural}/{sub}" if sub else plural
    return f'{{apiGroups: ["{group}"], resources: ["{named}"], verbs: ["{verb}"]}}'


def _named(access: KubernetesAccess) -> list[str]:
    told = [f"kubeconfig {access.kubeconfig}"] if access.kubeconfig else []
    return told + ([f"context {access.context!r}"] if access.context else [])


def _why(error: BaseException) -> str:
    return str(error) or type(error).__name__


# What a run needs to be allowed, as data: asked of the server first, and written in the manifests
# of deploy/rbac.


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
        item
        for item in rules
        if item.called not in OPTIONAL and allowed(connection, item, namespace) is False
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
    for item in rules:
        verbs.setdefault(item.called, []).append(item.verb)
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


# Waiting for a cluster within a bound, while somebody may ask to stop.

_WAITING_PAUSE_S = 0.5


def polls(
    bound_s: float, go_on: Callable[[], None], pause_s: float = _WAITING_PAUSE_S
) -> Iterator[None]:
    """One step now, then one each pause until `bound_s` seconds have gone by. `go_on` raises
    where somebody asked to stop."""
    end = time.monotonic() + bound_s
    while True:
        go_on()
        yield
        if time.monotonic() > end:
            return
        time.sleep(pause_s)


# What Leadline makes in a cluster carries these labels, and nothing else is ever removed.

MANAGED_BY = "app.kubernetes.io/managed-by"
LEADLINE = "leadline"
RUN = "leadline/run"
# Proof that an object is the one that the run's journal speaks of.
TOKEN = "leadline/token"
TARGET = "leadline/target"


def labels_of(run: str, token: str, target: int | None = None) -> Mapping[str, str]:
    """Labels of what a run makes; `target` is the number of the plan's target that it is for."""
    given = {MANAGED_BY: LEADLINE, RUN: label_value(run), TOKEN: token}
    return given if target is None else {**given, TARGET: str(target)}


def selector(run: str | None = None) -> dict[str, str]:
    """Labels of everything that is Leadline's, or of what one run made."""
    return {MANAGED_BY: LEADLINE} | ({RUN: label_value(run)} if run else {})


def label_value(text: str) -> str:
    """A text as the value of a label: at most 63 characters of its alphabet, the first and last
    of them letters or digits. Long run names keep their beginning, which holds their time."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:63].strip("-_.") or "unnamed"


def dns_label(text: str, most: int = 63) -> str:
    """A text as the name of an object."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:most].strip("-") or LEADLINE


def new_token() -> str:
    return secrets.token_hex(8)
