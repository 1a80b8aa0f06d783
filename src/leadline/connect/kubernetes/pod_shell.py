"""A shell in a pod through the API server's exec: it needs no route to the pod."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Callable
from typing import BinaryIO, cast

import httpx2
from httpx2.websockets import HTTPXWSException, WebSocketUpgradeError
from lightkube import ApiError
from lightkube.resources.core_v1 import Node, Pod

from leadline import errors
from leadline.connect.kubernetes.client import Connection, format_rule, refusal_error
from leadline.connect.kubernetes.pods import find_loss, states_reason
from leadline.connect.shell import CommandResult
from leadline.errors import LeadlineError

_PAUSE_S = 1.0
# A pod that ended states its reason within this time.
_EXPLAINED_S = 10.0
# Statuses of an API server that does not reach the node at present.
_TEMPORARY = (404, 429, 500, 502, 503, 504)
# The connection never existed, so the command did not start.
_NOT_CONNECTED = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class PodShell:
    """A shell in `container` of a pod; the uid distinguishes the pod from a later one."""

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
    ) -> CommandResult:
        end = time.monotonic() + bound_s
        while True:
            streams = _Output(output)
            try:
                return self._run(("sh", "-c", script, "sh", *arguments), given, streams, end)
            except WebSocketUpgradeError as error:
                # The API server refuses, or the kubelet is away for a while.
                self.require()
                status = error.response.status_code
                if status not in _TEMPORARY or time.monotonic() > end:
                    raise self._refused(status, error) from error
            except ApiError as error:
                # As above; also for a container that ended before its pod states it.
                self.require()
                if error.status.code not in _TEMPORARY:
                    raise refusal_error(error, "create", "pods/exec", self._namespace) from error
                if streams.started or time.monotonic() > end:
                    raise self._lost(str(error.status.message or error)) from error
            except (httpx2.HTTPError, HTTPXWSException, OSError) as error:
                self.require()
                if (
                    streams.started
                    or time.monotonic() > end
                    or not isinstance(error, _NOT_CONNECTED)
                ):
                    raise self._lost(str(error) or type(error).__name__) from error
            time.sleep(_PAUSE_S)

    def _run(
        self, command: tuple[str, ...], given: bytes, streams: _Output, end: float
    ) -> CommandResult:
        """Use lightkube's asynchronous client: the other leaves a thread that reads from the closed
        socket, and may then read another connection's data (seen with lightkube 1.0.1 and httpx2
        2.16 in one exec of twenty)."""

        async def execute() -> int:
            client = self._connection.asynchronous()
            try:
                answer = await client.exec(
                    self._pod,
                    namespace=self._namespace,
                    container=self._container,
                    command=command,
                    stdin=given,
                    stdout=cast(BinaryIO, streams),
                    stderr=cast(BinaryIO, streams.stderr),
                    decode=None,
                    timeout=max(0.1, end - time.monotonic()),
                )
                return answer.exit_code
            finally:
                await client.close()

        status = asyncio.run(execute())
        return CommandResult(
            stdout=streams.stdout.getvalue(), stderr=streams.stderr.getvalue(), status=status
        )

    def _refused(self, status: int, error: Exception) -> LeadlineError:
        if status in (401, 403):
            return LeadlineError(
                errors.KUBERNETES_DENIED,
                "this user may not run commands in pods",
                context=[f"namespace {self._namespace!r}"],
                hint="have these rules added to its role: "
                f"{format_rule('create', 'pods/exec')}, {format_rule('get', 'pods/exec')}",
            )
        return self._lost(f"the API server does not reach it, status {status}: {error}")

    def _lost(self, reason: str) -> LeadlineError:
        return LeadlineError(
            errors.SHELL_LOST,
            f"the connection to the {self.name}{self._describe_node()} was lost: {reason}",
            hint="look at the pod's node and its kubelet",
        )

    def _describe_node(self) -> str:
        """Return the pod's node and its state, where known."""
        try:
            pod = self._pod_now()
            name = str(pod.spec.nodeName if pod.spec else "")
            node = self._connection.ask("get", "nodes", lambda client: client.get(Node, name))
        except (ApiError, LeadlineError):
            return ""
        for condition in (node.status.conditions if node.status else None) or ():
            if condition.type == "Ready" and condition.status != "True":
                reason = (condition.message or condition.reason or "").rstrip(".")
                return f" on the node {name!r}, which is not ready ({reason}),"
        return f" on the node {name!r}"

    def _pod_now(self) -> Pod:
        """Return the pod of that name. Raises ApiError(404) where it does not exist."""
        return self._connection.ask(
            "get",
            "pods",
            lambda client: client.get(Pod, self._pod, namespace=self._namespace),
            namespace=self._namespace,
        )

    def require(self) -> None:
        """Raise LeadlineError(`runner-failed`) where the pod is lost."""
        end = time.monotonic() + _EXPLAINED_S
        while True:
            try:
                pod = self._pod_now()
            except ApiError as error:
                if error.status.code != 404:
                    raise
                raise _lost_pod(self.name, "it no longer exists") from error
            if pod.metadata is None or pod.metadata.uid != self._uid:
                raise _lost_pod(self.name, "another pod has its name")
            problem = find_loss(pod)
            if problem is None:
                return
            if states_reason(pod) or time.monotonic() > end:
                raise problem
            time.sleep(_PAUSE_S)


class _Output:
    """The output so far; stdout goes to `output` where one is given."""

    def __init__(self, output: Callable[[bytes], None] | None) -> None:
        self.stdout = io.BytesIO()
        self.stderr = io.BytesIO()
        self.started = False
        self._output = output

    def write(self, chunk: bytes) -> int:
        self.started = True
        if self._output is not None:
            self._output(chunk)
            return len(chunk)
        return self.stdout.write(chunk)


def _lost_pod(name: str, reason: str) -> LeadlineError:
    return LeadlineError(
        errors.RUNNER_FAILED,
        f"the {name} is lost: {reason}",
        hint="`leadline run --resume --retry-failed` creates a new one and continues",
    )
