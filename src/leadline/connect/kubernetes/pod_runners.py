"""The pods of a target's Job: waited for until all run, or until it is known why they will not."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO, cast

import httpx2
from httpx2.websockets import HTTPXWSException, WebSocketUpgradeError
from lightkube import ApiError, Client
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Event, Node, PersistentVolumeClaim, Pod

from leadline import errors
from leadline.connect.kubernetes.client import TOKEN, Connection, polls, refused, rule
from leadline.connect.kubernetes.pods import Trouble, explained, lost, running, told, trouble
from leadline.connect.shell import Said
from leadline.errors import LeadlineError

# A pod that no node takes is given up after this, unless an autoscaler says that one will come.
NOWHERE_S = 60.0
_UNCLAIMED = "waiting for ephemeral volume controller"
_INDEX = "batch.kubernetes.io/job-completion-index"


def pods_of(connection: Connection, namespace: str, token: str) -> list[Pod]:
    """The pods that carry a token, in the order of their index."""

    def call(client: Client) -> list[Pod]:
        return list(client.list(Pod, namespace=namespace, labels={TOKEN: token}))

    found = connection.ask("list", "pods", call, namespace=namespace)
    return sorted(found, key=_index)


def claims_of(connection: Connection, namespace: str, token: str) -> list[PersistentVolumeClaim]:
    def call(client: Client) -> list[PersistentVolumeClaim]:
        return list(client.list(PersistentVolumeClaim, namespace=namespace, labels={TOKEN: token}))

    return connection.ask("list", "persistentvolumeclaims", call, namespace=namespace)


def _index(pod: Pod) -> int:
    annotations = (pod.metadata.annotations if pod.metadata else None) or {}
    return int(annotations.get(_INDEX, "0"))


def await_pods(
    connection: Connection,
    namespace: str,
    job: str,
    token: str,
    count: int,
    *,
    bound_s: float,
    go_on: Callable[[], None],
) -> tuple[Pod, ...]:
    """The `count` running pods of a Job. Raises LeadlineError where they do not come to run:
    `volume-pending`, `runner-failed`, `quota-exceeded`, `kubernetes-failed`."""
    seen: list[Pod] = []
    nowhere_until = time.monotonic() + NOWHERE_S
    for _ in polls(bound_s, go_on):
        seen = pods_of(connection, namespace, token)
        for pod in seen:
            found = trouble(pod)
            if found is None:
                continue
            nowhere = (
                found.nowhere and not _waits_for_claim(pod) and time.monotonic() > nowhere_until
            )
            if found.final or (nowhere and not _growing(connection, namespace, pod)):
                raise _told(connection, namespace, found, pod)
        if len(seen) == count and all(running(pod) for pod in seen):
            return tuple(seen)
        refusal = _refusal(connection, namespace, job, seen, count)
        if refusal is not None and (refusal.final or time.monotonic() > nowhere_until):
            raise refusal.error
    refusal = _refusal(connection, namespace, job, seen, count)
    if refusal is not None:
        raise refusal.error
    raise _why_not(connection, namespace, job, token, seen, bound_s)


def _growing(connection: Connection, namespace: str, pod: Pod) -> bool:
    """Whether an autoscaler says that it makes a node for the pod."""
    name = str(pod.metadata.name) if pod.metadata else ""
    return any(
        event.reason == "TriggeredScaleUp" for event in events_of(connection, namespace, name)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    """Why the API server takes no pod of the Job, or no claim of a pod. `final`: it will not take
    it later either; a webhook that does not answer may come back."""

    error: LeadlineError
    final: bool


def _refusal(
    connection: Connection, namespace: str, job: str, pods: Sequence[Pod], count: int
) -> _Refusal | None:
    """What events say of a Job that lacks pods, and of pods that lack a claim."""
    asked = [(job, "FailedCreate", "pod")] if len(pods) < count else []
    asked += [
        (str(pod.metadata.name), "FailedBinding", "volume claim")
        for pod in pods
        if pod.metadata and _waits_for_claim(pod)
    ]
    for name, reason, what in asked:
        for event in events_of(connection, namespace, name):
            if event.reason == reason:
                found = _refused(namespace, what, event.message or "")
                if found is not None:
                    return found
    return None


def _refused(namespace: str, what: str, message: str) -> _Refusal | None:
    if "exceeded quota" in message:
        return _Refusal(
            error=LeadlineError(
                errors.QUOTA_EXCEEDED,
                f"a quota of the namespace {namespace!r} does not allow the runner's {what}",
                context=[message],
                hint="use a smaller size, count, cpu or memory, or have the quota raised",
            ),
            final=True,
        )
    # In a namespace that was made just now its accounts follow.
    later = "failed calling webhook" in message or "service account" in message
    if not later and not any(word in message for word in ("forbidden", "denied", "admission")):
        return None
    return _Refusal(
        error=LeadlineError(
            errors.KUBERNETES_FAILED,
            f"the cluster does not admit the runner's {what}",
            context=[message],
            hint="the words are the API server's, or of a webhook that it asks",
        ),
        final=not later,
    )


def events_of(connection: Connection, namespace: str, name: str) -> list[Event]:
    """The events of the object of that name; none where this user may not see them."""

    def call(client: Client) -> list[Event]:
        return list(client.list(Event, namespace=namespace, fields={"involvedObject.name": name}))

    try:
        return connection.ask("list", "events", call, namespace=namespace)
    except LeadlineError as error:
        if error.kind is errors.KUBERNETES_DENIED:
            return []
        raise


def _told(connection: Connection, namespace: str, found: Trouble, pod: Pod) -> LeadlineError:
    name = pod.metadata.name if pod.metadata else None
    said = told(events_of(connection, namespace, str(name)))
    return LeadlineError(found.kind, found.fact, context=said, hint=found.hint)


def _why_not(
    connection: Connection,
    namespace: str,
    job: str,
    token: str,
    pods: Sequence[Pod],
    bound_s: float,
) -> LeadlineError:
    """Why pods did not come to run in time: no node, else their volumes, which pods wait for."""
    for pod in pods:
        found = trouble(pod)
        if found is not None and not _waits_for_volume(found):
            return _told(connection, namespace, found, pod)
    for claim in claims_of(connection, namespace, token):
        if claim.status and claim.status.phase == "Bound":
            continue
        assert claim.metadata is not None
        name = str(claim.metadata.name)
        said = told(events_of(connection, namespace, name))
        return LeadlineError(
            errors.VOLUME_PENDING,
            f"the volume claim {name!r} is still pending after {bound_s:g} s",
            context=said or ["no event says why; the class's provisioner may not be running"],
            hint="look at the provisioner of the StorageClass; `ready:` of the cluster in the plan "
            "sets how long to wait",
        )
    waiting = [pod for pod in pods if not running(pod)]
    about = str(waiting[0].metadata.name) if waiting and waiting[0].metadata else job
    return LeadlineError(
        errors.RUNNER_FAILED,
        f"the pods of the job {job!r} do not run after {bound_s:g} s",
        context=told(events_of(connection, namespace, about)),
        hint=f"look with `kubectl -n {namespace} describe pod {about}`",
    )


def _waits_for_volume(found: Trouble) -> bool:
    """A scheduler's words for a pod whose claim is not bound, or not even made yet; they stay
    while it waits for the volume on the node that it has chosen since."""
    said = ("unbound immediate PersistentVolumeClaims", "v1.PersistentVolumeClaim", _UNCLAIMED)
    return any(words in found.fact for words in said)


def _waits_for_claim(pod: Pod) -> bool:
    """Whether the scheduler waits for the controller that makes the pod's claim."""
    found = trouble(pod)
    return found is not None and _UNCLAIMED in found.fact


def create_job(connection: Connection, job: Job, namespace: str) -> None:
    """Make a Job; one that is there already under its name was made by a request whose answer
    was lost, since the name holds the run's token. Raises LeadlineError(`target-invalid`) where
    there is no such namespace, and as `Connection.ask`."""
    try:
        connection.ask(
            "create", "jobs.batch", lambda client: client.create(job), namespace=namespace
        )
    except ApiError as error:
        if error.status.code == 404:
            raise LeadlineError(
                errors.TARGET_INVALID,
                f"the cluster {connection.context} has no namespace {namespace!r}",
                hint="make it, or leave --namespace away: a run then makes one of its own",
            ) from error
        if error.status.code != 409:
            raise


# A shell in a pod, by the API server's exec: no route to the pod is needed, and no log that
# rotates stands between.

_PAUSE_S = 1.0
# So long is a pod that ended asked again why.
_EXPLAINED_S = 10.0
# Answers of an API server that does not get through to the node now.
_NOT_NOW = (404, 429, 500, 502, 503, 504)


class PodShell:
    """`container` of a pod, which is told apart from a later one of its name by its uid."""

    def __init__(
        self, connection: Connection, namespace: str, pod: str, uid: str, container: str
    ) -> None:
        self.name = f"pod {namespace}/{pod}"
        self._connection = connection
        self._namespace = namespace
        self._pod = pod
        self._uid = uid
        self._container = container

    def run(
        self,
        script: str,
        *arguments: str,
        given: bytes = b"",
        bound_s: float,
        output: Callable[[bytes], None] | None = None,
    ) -> Said:
        end = time.monotonic() + bound_s
        while True:
            said = _Said(output)
            try:
                return self._run(("sh", "-c", script, "sh", *arguments), given, said, end)
            except WebSocketUpgradeError as error:
                # The API server said no, or the kubelet behind it is away for a while.
                self.require()
                status = error.response.status_code
                if status not in _NOT_NOW or time.monotonic() > end:
                    raise self._refused(status, error) from error
            except ApiError as error:
                # As above, in words; also for a container that ended, before its pod says so.
                self.require()
                if error.status.code not in _NOT_NOW:
                    raise refused(error, "create", "pods/exec", self._namespace) from error
                if said.anything or time.monotonic() > end:
                    raise self._lost(str(error.status.message or error)) from error
            except (httpx2.HTTPError, HTTPXWSException, OSError) as error:
                self.require()
                if said.anything or time.monotonic() > end or not _before(error):
                    raise self._lost(str(error) or type(error).__name__) from error
            time.sleep(_PAUSE_S)

    def _run(self, command: tuple[str, ...], given: bytes, said: _Said, end: float) -> Said:
        """By lightkube's asynchronous client: the other leaves a thread that still reads from the
        socket while it is closed, and may then read what is another connection's (seen with
        lightkube 1.0.1 and httpx2 2.16 in one exec of twenty)."""

        async def execute() -> int:
            client = self._connection.asynchronous()
            try:
                answer = await client.exec(
                    self._pod,
                    namespace=self._namespace,
                    container=self._container,
                    command=command,
                    stdin=given,
                    stdout=cast(BinaryIO, said),
                    stderr=cast(BinaryIO, said.stderr),
                    decode=None,
                    timeout=max(0.1, end - time.monotonic()),
                )
                return answer.exit_code
            finally:
                await client.close()

        status = asyncio.run(execute())
        return Said(stdout=said.stdout.getvalue(), stderr=said.stderr.getvalue(), status=status)

    def _refused(self, status: int, error: Exception) -> LeadlineError:
        if status in (401, 403):
            return LeadlineError(
                errors.KUBERNETES_DENIED,
                "this user may not run commands in pods",
                context=[f"namespace {self._namespace!r}"],
                hint="have these rules added to its role: "
                f"{rule('create', 'pods/exec')}, {rule('get', 'pods/exec')}",
            )
        return self._lost(f"the API server does not reach it, status {status}: {error}")

    def _lost(self, why: str) -> LeadlineError:
        return LeadlineError(
            errors.SHELL_LOST,
            f"the connection to the {self.name}{self._node()} was lost: {why}",
            hint="look at the pod's node and its kubelet",
        )

    def _node(self) -> str:
        """On which node the pod is, and what speaks against it, where that is known."""
        try:
            pod = self._now()
            name = str(pod.spec.nodeName if pod.spec else "")
            node = self._connection.ask("get", "nodes", lambda client: client.get(Node, name))
        except (ApiError, LeadlineError):
            return ""
        for condition in (node.status.conditions if node.status else None) or ():
            if condition.type == "Ready" and condition.status != "True":
                said = (condition.message or condition.reason or "").rstrip(".")
                return f" on the node {name!r}, which is not ready ({said}),"
        return f" on the node {name!r}"

    def _now(self) -> Pod:
        """The pod of that name; ApiError(404) where there is none."""
        return self._connection.ask(
            "get",
            "pods",
            lambda client: client.get(Pod, self._pod, namespace=self._namespace),
            namespace=self._namespace,
        )

    def require(self) -> None:
        """Raise LeadlineError(`runner-failed`) where the pod is gone for good."""
        end = time.monotonic() + _EXPLAINED_S
        while True:
            try:
                pod = self._now()
            except ApiError as error:
                if error.status.code != 404:
                    raise
                raise _gone(self.name, "it is no longer there") from error
            if pod.metadata is None or pod.metadata.uid != self._uid:
                raise _gone(self.name, "another has its name")
            trouble = lost(pod)
            if trouble is None:
                return
            if explained(pod) or time.monotonic() > end:
                raise LeadlineError(trouble.kind, trouble.fact, hint=trouble.hint)
            time.sleep(_PAUSE_S)


class _Said:
    """What has come so far; stdout goes on to `output` where somebody listens."""

    def __init__(self, output: Callable[[bytes], None] | None) -> None:
        self.stdout = io.BytesIO()
        self.stderr = io.BytesIO()
        self.anything = False
        self._output = output

    def write(self, chunk: bytes) -> int:
        self.anything = True
        if self._output is not None:
            self._output(chunk)
            return len(chunk)
        return self.stdout.write(chunk)


def _before(error: BaseException) -> bool:
    """Whether the connection was never made, so that the command was not begun."""
    return isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)


def _gone(name: str, why: str) -> LeadlineError:
    return LeadlineError(
        errors.RUNNER_FAILED,
        f"the {name} is lost: {why}",
        hint="`leadline run --resume --retry-failed` makes a new one and goes on",
    )
