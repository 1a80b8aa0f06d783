"""Requests to a Kubernetes API server.

A refusal, an unusable answer and no answer are different errors. A repeated request is safe: the
server reports that a created object exists, and every name that Leadline gives is unique.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import msgspec
import yaml
from lightkube import ApiError, AsyncClient, Client, ConfigError
from lightkube.core.decoders import WatchEvent, decode_list, decode_status
from lightkube.generic_resource import (
    GenericGlobalResource,
    GenericNamespacedResource,
    create_api_info,
)
from lightkube.resources import batch_v1, core_v1, storage_v1

from leadline import errors
from leadline.connect.kubernetes.kubeconfig import read_configuration
from leadline.errors import LeadlineError


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesAccess:
    """A kubeconfig and one of its contexts; None for kubectl's choice: $KUBECONFIG, else
    ~/.kube/config, else the service account of the pod."""

    kubeconfig: Path | None = None
    context: str | None = None


Answer = TypeVar("Answer")
AnyClient = TypeVar("AnyClient", Client, AsyncClient)

# An API server that restarts is back within seconds; one behind a load balancer within a minute.
PATIENCE_S = 60.0
# A server that never answered may not be an API server.
_FIRST_S = 10.0
_PAUSE_S = 1.0
# The message of every authorizer of an API server.
_NOT_ALLOWED = re.compile(r"User \".*\" cannot ")
_HOW = "name the cluster with --kubeconfig FILE and --context NAME, as for kubectl"
# Statuses that may change soon.
_NOT_NOW = (429, 500, 502, 503, 504)


class Connection:
    """A client of one cluster. The first request opens the connection."""

    def __init__(
        self, access: KubernetesAccess, *, timeout_s: float = 15.0, patience_s: float = PATIENCE_S
    ) -> None:
        self.access = access
        self._timeout_s = timeout_s
        self.patience_s = patience_s
        self._has_answered = False

    @cached_property
    def client(self) -> Client:
        """The client, for all threads. Raises LeadlineError(`cluster-unknown`) without a usable
        configuration."""
        _prepare_models()
        return self._create_client(Client)

    def asynchronous(self) -> AsyncClient:
        """Return a new client for the running event loop; the caller closes it."""
        return self._create_client(AsyncClient)

    def _create_client(self, kind: Callable[..., AnyClient]) -> AnyClient:
        try:
            return kind(**self._settings)
        except (ConfigError, OSError, KeyError, TypeError, ValueError, yaml.YAMLError) as error:
            raise LeadlineError(
                errors.CLUSTER_UNKNOWN,
                "the Kubernetes cluster cannot be reached with this configuration: "
                f"{_message_of(error)}",
                context=_format_access(self.access),
                hint=_HOW,
            ) from error

    @cached_property
    def _settings(self) -> dict[str, Any]:
        config, proxy = read_configuration(self.access.kubeconfig, self.access.context)
        return {
            "config": config,
            "timeout": httpx2.Timeout(self._timeout_s),
            "field_manager": "leadline",
            "proxy": proxy,
        }

    @property
    def context(self) -> str:
        return str(self.client.config.context_name)

    @property
    def project(self) -> str:
        """The namespace of the context, as `oc project` sets it; empty without one."""
        context = self._settings["config"].context
        return str(context.namespace or "") if context else ""

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
        """Return what `call` returns; repeat it for `patience_s` while the server does not answer.

        `verb` and `resource` (`pods`, `pods/exec`, `jobs.batch`) are those of RBAC. An ApiError of
        404 or 409 passes through. Raises LeadlineError: `cluster-unknown`,
        `kubernetes-unreachable`, `kubernetes-denied` with the missing rule, `quota-exceeded`,
        `kubernetes-failed`.
        """
        client = self.client
        patience_s = self.patience_s if patience_s is None else patience_s
        end = time.monotonic() + (patience_s if self._has_answered else min(_FIRST_S, patience_s))
        while True:
            try:
                answer = call(client)
                self._has_answered = True
                return answer
            except ApiError as error:
                self._has_answered = True
                # A server that has just started refuses until it has read its rules.
                final = error.status.code not in _NOT_NOW
                if error.status.code in (404, 409):
                    raise
                if final or time.monotonic() > end:
                    raise refusal_error(error, verb, resource, namespace, name) from error
            except httpx2.HTTPStatusError as error:
                # From a proxy, or for an API group that is not served.
                status = error.response.status_code
                if status not in _NOT_NOW or time.monotonic() > end:
                    raise self._http_error(status, verb, resource, error) from error
            except (ConfigError, KeyError, ValueError) as error:
                raise self._format_error(error, verb, resource) from error
            except (httpx2.HTTPError, OSError) as error:
                untrusted = "CERTIFICATE_VERIFY_FAILED" in str(error)
                if untrusted or time.monotonic() > end:
                    raise LeadlineError(
                        errors.KUBERNETES_UNREACHABLE,
                        f"the API server of {self.context} does not answer: {_message_of(error)}",
                        context=[str(client.config.cluster.server)],
                        hint=_HOW,
                    ) from error
            time.sleep(_PAUSE_S)

    def _http_error(self, status: int, verb: str, resource: str, error: Exception) -> LeadlineError:
        server = str(self.client.config.cluster.server)
        if status in (401, 403, 407):
            return LeadlineError(
                errors.KUBERNETES_DENIED,
                f"a proxy in front of the API server of {self.context} refuses this user: "
                f"status {status}",
                context=[server],
                hint="look at the proxy (`proxy-url`, HTTPS_PROXY) and the login",
            )
        return LeadlineError(
            errors.KUBERNETES_FAILED,
            f"{verb} {resource}: the answer is not an API server's: status {status}",
            context=[server, _message_of(error)],
            hint=_HOW,
        )

    def _format_error(self, error: Exception, verb: str, resource: str) -> LeadlineError:
        """Return the error for an unusable answer of the login program, or of the address."""
        user = self.client.config.user
        logs_in = user is not None and user.exec is not None
        if isinstance(error, ConfigError) or (
            logs_in and isinstance(error, KeyError | json.JSONDecodeError)
        ):
            reason = (
                _message_of(error) if isinstance(error, ConfigError) else "the login gave no token"
            )
            return LeadlineError(
                errors.KUBERNETES_DENIED,
                f"no credentials for {self.context}: {reason.strip()}",
                context=_format_access(self.access),
                hint="try `kubectl get nodes`: it uses the same credentials",
            )
        return LeadlineError(
            errors.KUBERNETES_FAILED,
            f"the answer to {verb} {resource} is not understood: {_message_of(error)}",
            context=[str(self.client.config.cluster.server)],
            hint=_HOW,
        )

    def listed(
        self, group: str, version: str, plural: str, kind: str, namespace: str | None = None
    ) -> list[dict[str, Any]]:
        """List raw objects of one namespace or of all; none where the cluster does not serve the
        kind. Raises LeadlineError as `ask`."""
        qualified = f"{plural}.{group}" if group else plural

        # Without a namespace in the path the server lists all namespaces.
        inside = namespace if namespace not in (None, "*") else None
        resource = raw_kind(group, version, plural, kind, namespaced=inside is not None)

        def call(client: Client) -> list[dict[str, Any]]:
            try:
                return [dict(found) for found in client.list(resource, namespace=inside)]
            except httpx2.HTTPStatusError as error:
                # For an unknown API group the server answers in plain text.
                if error.response.status_code == 404:
                    return []
                raise

        try:
            return self.ask("list", qualified, call, namespace=namespace or "")
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
def _prepare_models() -> None:
    """Have each model described once, before threads decode.

    msgspec describes a class when it is first decoded, and ends the process with SIGSEGV where two
    threads do so at once (0.22.0: in each of twenty attempts).
    """
    decode_status(b"{}")
    models = [WatchEvent, *(vars(core_v1) | vars(batch_v1) | vars(storage_v1)).values()]
    for model in models:
        if isinstance(model, type) and issubclass(model, msgspec.Struct):
            msgspec.json.Decoder(model)
    # A list has a class of its own; these are asked for by threads.
    for kind in (core_v1.Event, core_v1.PersistentVolumeClaim, core_v1.Pod):
        decode_list(b'{"items": []}', kind)


@cache
def raw_kind(group: str, version: str, plural: str, kind: str, *, namespaced: bool) -> Any:
    """Return a resource class with all fields of a kind. lightkube's own register takes each kind
    once and has typed models of common kinds."""
    base = GenericNamespacedResource if namespaced else GenericGlobalResource
    return type(kind, (base,), {"_api_info": create_api_info(group, version, kind, plural)})


def api_groups(connection: Connection) -> dict[str, Sequence[str]]:
    """Return the API groups that the server serves, with their versions."""

    def call(client: Any) -> Any:
        # lightkube has no method for them, its HTTP client has.
        inner = client._client
        answer = inner._client.get("apis")
        inner.raise_for_status(answer)
        return answer.json()

    found = connection.ask("get", "/apis", call)
    return {
        str(group["name"]): [str(version["version"]) for version in group.get("versions", ())]
        for group in found.get("groups", ())
    }


def read_kubelet(connection: Connection, node: str, path: str) -> tuple[str, float]:
    """Return the answer of a node's kubelet through the API server, and its time by the node's
    clock in seconds since 1970. Raises LeadlineError as `Connection.ask`."""

    def call(client: Any) -> tuple[str, float]:
        inner = client._client
        answer = inner._client.get(f"api/v1/nodes/{node}/proxy/{path}")
        inner.raise_for_status(answer)
        # ValueError where there is none, as for any answer that is not understood.
        at = parsedate_to_datetime(answer.headers.get("date", ""))
        return str(answer.text), at.timestamp()

    try:
        return connection.ask("get", "nodes/proxy", call, name=node)
    except ApiError as error:
        raise refusal_error(error, "get", "nodes/proxy", "", node) from error


def refusal_error(
    error: ApiError, verb: str, resource: str, namespace: str, name: str = ""
) -> LeadlineError:
    message = str(error.status.message or error)
    what = " ".join(part for part in (verb, resource, name and repr(name)) if part)
    where = [f"namespace {namespace!r}"] if namespace else []
    if error.status.code == 401:
        return LeadlineError(
            errors.KUBERNETES_DENIED,
            "the API server does not know this user",
            context=[message],
            hint="log in again: the token or certificate may have expired",
        )
    if error.status.code == 403 and "exceeded quota" in message:
        return LeadlineError(
            errors.QUOTA_EXCEEDED,
            f"a quota does not allow to {what}",
            context=[*where, message],
            hint="use a smaller size or count, another --namespace, or have the quota raised",
        )
    if error.status.code == 403 and "being terminated" in message:
        return LeadlineError(
            errors.KUBERNETES_FAILED,
            f"the namespace {namespace!r} is being deleted",
            context=[message],
            hint="wait until it is gone, or name another with --namespace",
        )
    # Every other 403 is from admission: pod security, limits, webhooks.
    if error.status.code == 403 and _NOT_ALLOWED.search(message):
        return LeadlineError(
            errors.KUBERNETES_DENIED,
            f"this user may not {what}",
            context=[*where, message],
            hint=f"have this rule added to its role: {format_rule(verb, resource)}",
        )
    return LeadlineError(
        errors.KUBERNETES_FAILED,
        f"the cluster refuses to {what}",
        context=[*where, message],
        hint="the message is from the API server, or from a webhook that it calls",
    )


def format_rule(verb: str, resource: str) -> str:
    """Format an RBAC rule as in a manifest: `jobs.batch` is `jobs` of the group `batch`."""
    plural, _, sub = resource.partition("/")
    plural, _, group = plural.partition(".")
    named = f"{plural}/{sub}" if sub else plural
    return f'{{apiGroups: ["{group}"], resources: ["{named}"], verbs: ["{verb}"]}}'


def _format_access(access: KubernetesAccess) -> list[str]:
    lines = [f"kubeconfig {access.kubeconfig}"] if access.kubeconfig else []
    return lines + ([f"context {access.context!r}"] if access.context else [])


def _message_of(error: BaseException) -> str:
    return str(error) or type(error).__name__


def if_allowed(ask: Callable[[], Answer]) -> Answer | None:
    """Return what `ask` returns; None where this user may not ask."""
    try:
        return ask()
    except LeadlineError as error:
        if error.kind is errors.KUBERNETES_DENIED:
            return None
        raise


_POLL_PAUSE_S = 0.5
# Most objects come or go within a few seconds: the first looks follow each other closely.
_FIRST_PAUSE_S = 0.1
_PAUSE_SHARE = 0.1


def poll(
    bound_s: float, go_on: Callable[[], None], pause_s: float = _POLL_PAUSE_S
) -> Iterator[None]:
    """Yield now, then after each pause until `bound_s` seconds have passed. A pause is a tenth of
    the time so far, at least 0.1 s and at most `pause_s`. `go_on` raises where the user asked to
    stop."""
    began = time.monotonic()
    while True:
        go_on()
        yield
        so_far_s = time.monotonic() - began
        if so_far_s > bound_s:
            return
        time.sleep(min(pause_s, max(_FIRST_PAUSE_S, _PAUSE_SHARE * so_far_s)))
