"""Objects that Leadline creates in a Kubernetes cluster.

Labels, lists and events of these objects, and the wait for the pods or virtual machines of a
target.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from lightkube import ApiError, Client
from lightkube.resources.core_v1 import Event, PersistentVolumeClaim

from leadline import errors
from leadline.connect.kubernetes.client import Connection, if_allowed, poll
from leadline.errors import ErrorKind, LeadlineError
from leadline.inventory.kubernetes.kinds import ObjectKind

# Everything that Leadline creates carries these labels. Nothing else is ever removed.
MANAGED_BY = "app.kubernetes.io/managed-by"
LEADLINE = "leadline"
RUN = "leadline/run"
# Proves that an object is the one that the run's journal names.
TOKEN = "leadline/token"
TARGET = "leadline/target"

Runner = TypeVar("Runner")


def labels_of(run: str, token: str, target: int | None = None) -> Mapping[str, str]:
    """Return the labels of a run's objects; `target` is the number of the target in the plan."""
    given = {MANAGED_BY: LEADLINE, RUN: label_value(run), TOKEN: token}
    return given if target is None else {**given, TARGET: str(target)}


def selector(run: str | None = None) -> dict[str, str]:
    """Return the labels that select everything Leadline created, or what one run created."""
    return {MANAGED_BY: LEADLINE} | ({RUN: label_value(run)} if run else {})


def label_value(text: str) -> str:
    """Return a text as a label value: at most 63 characters, letters or digits at both ends. A
    long run name keeps its beginning, which holds the time."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:63].strip("-_.") or "unnamed"


def dns_label(text: str, most: int = 63) -> str:
    """Return a text as the name of an object."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:most].strip("-") or LEADLINE


def new_token() -> str:
    return secrets.token_hex(8)


def namespace_name(run: str, token: str) -> str:
    """Return the name of a run's own namespace."""
    return f"{dns_label(f'leadline-{run}', 54)}-{token[:8]}"


def owner_name(number: int, storage_class: str, token: str) -> str:
    """Return the name of the object that owns what the target of this number makes."""
    return f"{dns_label(f'leadline-{number}-{storage_class}', 36)}-{token[:8]}"


class Problem(LeadlineError):
    """Why a pod or a virtual machine does not run.

    `final`: waiting does not help. `unschedulable`: no node takes it unless the cluster grows.
    """

    def __init__(
        self,
        fact: str,
        *,
        kind: ErrorKind = errors.RUNNER_FAILED,
        context: Iterable[str] = (),
        hint: str,
        final: bool = True,
        unschedulable: bool = False,
    ) -> None:
        super().__init__(kind, fact, context=context, hint=hint)
        self.final = final
        self.unschedulable = unschedulable

    def with_context(self, context: Iterable[str]) -> LeadlineError:
        return LeadlineError(self.kind, self.fact, context=context, hint=self.hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerGroup:
    """The pods or virtual machines of one target: `count` objects that carry `token`.

    They have `bound_s` seconds to start; `go_on` raises where the user asked to stop.
    """

    connection: Connection
    namespace: str
    token: str
    count: int
    bound_s: float
    go_on: Callable[[], None]

    def events(self, name: str) -> list[Event]:
        return events_of(self.connection, self.namespace, name)

    def pending_claim_error(self, facts: Sequence[str] = ()) -> LeadlineError | None:
        """Return the error for the first claim that is not bound, or None."""
        for claim in claims_of(self.connection, self.namespace, self.token):
            if claim.metadata is None or (claim.status and claim.status.phase == "Bound"):
                continue
            name = str(claim.metadata.name)
            return LeadlineError(
                errors.VOLUME_PENDING,
                f"the volume claim {name!r} is still pending after {self.bound_s:g} s",
                context=[*format_events(self.events(name)), *facts]
                or ["no event gives a reason; the class's provisioner may not be running"],
                hint="look at the provisioner of the StorageClass; `ready:` of the cluster in the "
                "plan sets how long to wait",
            )
        return None


# gRPC codes of a CSI driver that is still at work (external-provisioner, isFinalError), and codes
# that the same request gets again.
_AT_WORK = ("Canceled", "DeadlineExceeded", "Unavailable", "Aborted")
_FINAL = ("InvalidArgument", "OutOfRange", "Unimplemented", "PermissionDenied", "Unauthenticated")
_CODE = re.compile(r"\bcode = (\w+)")
# Provisioners try again at once: a failure that passes within this time is ignored.
PROVISIONING_FAILURE_S = 10.0


class _FailedClaims:
    """Claims of a group for which the provisioner reports failures."""

    def __init__(self, group: RunnerGroup) -> None:
        self._group = group
        self._failing_since: dict[str, float] = {}

    def error(self) -> LeadlineError | None:
        """Return the error for a claim that gets no volume however long it waits, or None."""
        group = self._group
        fields = {"reason": "ProvisioningFailed"}
        failures = list_events(group.connection, group.namespace, fields)
        if not failures:
            return None
        for claim in claims_of(group.connection, group.namespace, group.token):
            name = str(claim.metadata.name) if claim.metadata else ""
            events = [event for event in failures if event.involvedObject.name == name]
            if not events or (claim.status and claim.status.phase == "Bound"):
                continue
            code = _CODE.search(max(events, key=_time_of).message or "")
            if code and code[1] in _AT_WORK:
                self._failing_since.pop(name, None)
                continue
            since = self._failing_since.setdefault(name, time.monotonic())
            final = code and code[1] in _FINAL
            if final or time.monotonic() - since >= PROVISIONING_FAILURE_S:
                return LeadlineError(
                    errors.VOLUME_PENDING,
                    f"the volume claim {name!r} gets no volume",
                    context=format_events(events),
                    hint="the message is from the provisioner of the StorageClass; correct the "
                    "class, or ask for what it can provide",
                )
        return None


class RunnerKind(Protocol[Runner]):
    """What differs between pods and virtual machines while a target starts."""

    def list_runners(self) -> list[Runner]:
        """Return what exists now."""

    def is_running(self, runner: Runner) -> bool:
        """Return whether one of them runs."""

    def check(self, runners: Sequence[Runner]) -> None:
        """Raise LeadlineError where waiting does not help."""

    def timeout_error(self, runners: Sequence[Runner]) -> LeadlineError:
        """Return why they did not start in time."""


def await_running(group: RunnerGroup, kind: RunnerKind[Runner]) -> tuple[Runner, ...]:
    """Wait until all runners of a group run, and return them. Raises LeadlineError."""
    found: list[Runner] = []
    claims = _FailedClaims(group)
    for _ in poll(group.bound_s, group.go_on):
        found = kind.list_runners()
        if len(found) == group.count and all(kind.is_running(runner) for runner in found):
            return tuple(found)
        kind.check(found)
        failed = claims.error()
        if failed is not None:
            raise failed
    raise kind.timeout_error(found)


def list_labelled(
    connection: Connection, kind: Any, resource: str, namespace: str, token: str
) -> list[Any]:

    def call(client: Client) -> list[Any]:
        return list(client.list(kind, namespace=namespace, labels={TOKEN: token}))

    return connection.ask("list", resource, call, namespace=namespace)


def list_owned(
    connection: Connection, kind: Any, resource: str, namespace: str, labels: Mapping[str, str]
) -> list[dict[str, Any]]:
    """List raw objects with labels; none where the cluster does not serve the kind, for which an
    API server has no object of its own in the answer."""
    from httpx2 import HTTPStatusError

    def call(client: Any) -> list[dict[str, Any]]:
        try:
            return [dict(found) for found in client.list(kind, namespace=namespace, labels=labels)]
        except HTTPStatusError as error:
            if error.response.status_code == 404:
                return []
            raise

    try:
        return connection.ask("list", resource, call, namespace=namespace)
    except ApiError as error:
        if error.status.code == 404:
            return []
        raise


def list_kind(connection: Connection, kind: ObjectKind) -> list[dict[str, Any]]:
    """List the raw objects of a kind in all namespaces, in the newest version with objects."""
    for version in kind.versions:
        found = connection.listed(kind.group, version, kind.plural, kind.kind)
        if found:
            # The items of a list may lack apiVersion and kind.
            api_version = f"{kind.group}/{version}" if kind.group else version
            return [{"apiVersion": api_version, "kind": kind.kind, **item} for item in found]
    return []


def claims_of(connection: Connection, namespace: str, token: str) -> list[PersistentVolumeClaim]:
    return list_labelled(
        connection, PersistentVolumeClaim, "persistentvolumeclaims", namespace, token
    )


def events_of(connection: Connection, namespace: str, name: str) -> list[Event]:
    """List the events of the object of that name; none where this user may not list events."""
    return list_events(connection, namespace, {"involvedObject.name": name})


def list_events(connection: Connection, namespace: str, fields: Mapping[str, str]) -> list[Event]:
    """List the events with these fields; none where this user may not list events."""

    def call(client: Client) -> list[Event]:
        return list(client.list(Event, namespace=namespace, fields=dict(fields)))

    return if_allowed(lambda: connection.ask("list", "events", call, namespace=namespace)) or []


def _time_of(event: Event) -> float:
    times = (event.lastTimestamp, event.eventTime)
    return next((moment.timestamp() for moment in times if moment), 0.0)


def format_events(events: Sequence[Event], most: int = 4) -> list[str]:
    """Format the last events of an object as lines, warnings first."""
    ordered = sorted(events, key=lambda event: (event.type != "Warning", -_time_of(event)))
    lines = [f"{event.reason}: {event.message}" for event in ordered]
    return list(dict.fromkeys(lines))[:most]


def create_object(connection: Connection, resource: str, wanted: Any, namespace: str) -> Any | None:
    """Create an object and return it; None where its name exists. The name holds the run's token,
    so an earlier request created it and its answer was lost. Raises as Connection.ask, and
    ApiError(404)."""
    try:
        return connection.ask(
            "create", resource, lambda client: client.create(wanted), namespace=namespace
        )
    except ApiError as error:
        if error.status.code != 409:
            raise
        return None


def get_object(
    connection: Connection, kind: Any, resource: str, name: str, namespace: str = ""
) -> Any | None:
    """Return an object of a namespace, or of the whole cluster; None where it does not exist."""
    try:
        return connection.ask(
            "get",
            resource,
            lambda client: client.get(kind, name, namespace=namespace or None),
            namespace=namespace,
            name=name,
        )
    except ApiError as error:
        if error.status.code == 404:
            return None
        raise
