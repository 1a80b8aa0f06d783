"""A shell in a pod, by the API server's exec: no route to the pod is needed, and no log that
rotates stands between."""

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
from leadline.errors import LeadlineError
from leadline.kubernetes.connection import Connection, refused, rule
from leadline.kubernetes.pods.state import explained, lost
from leadline.shell import Said

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
        for one in (node.status.conditions if node.status else None) or ():
            if one.type == "Ready" and one.status != "True":
                said = (one.message or one.reason or "").rstrip(".")
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
