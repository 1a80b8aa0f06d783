"""One cluster's API server, asked so that an answer, a refusal and a silence are told apart.

What is asked again after a lost connection is safe to ask twice: a create that was done the first
time is told as such by the server, and what Leadline makes has a name that nothing else has.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, TypeVar

import httpx2
import yaml
from lightkube import ApiError, AsyncClient, Client, ConfigError
from lightkube.generic_resource import (
    GenericGlobalResource,
    GenericNamespacedResource,
    create_api_info,
)

from leadline import errors
from leadline.errors import LeadlineError
from leadline.kubernetes.access import KubernetesAccess
from leadline.kubernetes.kubeconfig import configuration

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
                return [dict(one) for one in client.list(resource, namespace=inside)]
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
