"""A virtual machine's serial console, as virtctl has it: a WebSocket of the subresource `console`
of its VirtualMachineInstance, held by a thread, made anew when it is lost.

KubeVirt gives the console to one at a time: who comes later takes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Any

import httpx2
from httpx2.websockets import HTTPXWSException, WebSocketUpgradeError
from lightkube import AsyncClient, ConfigError
from wsproto.events import BytesMessage, TextMessage

from leadline import errors
from leadline.errors import LeadlineError
from leadline.kubernetes.connection import Connection, rule
from leadline.kubernetes.machines.console_frames import Answer, Beacon, Console

PROTOCOL = "plain.kubevirt.io"
_PAUSE_S = 0.5
_SEND_S = 30.0


class ConsoleLink:
    """The console of one VirtualMachineInstance. Safe to use from several threads."""

    def __init__(self, connection: Connection, namespace: str, name: str) -> None:
        self._connection = connection
        self._namespace = namespace
        self._name = name
        self._console = Console()
        self._changed = threading.Condition()
        self._answers: dict[str, Answer | None] = {}
        self._beacons: list[str] = []
        self._why_not = ""
        self._denied = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._socket: Any = None
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None

    @property
    def boots(self) -> list[str]:
        """The boots of which an agent has told, in order."""
        with self._changed:
            return list(self._beacons)

    @property
    def why_not(self) -> str:
        """Why there is no connection; empty while there is one."""
        return self._why_not

    @property
    def damaged(self) -> int:
        return self._console.damaged

    def last_lines(self) -> list[str]:
        with self._changed:
            return self._console.last_lines()

    def open(self) -> None:
        """Begin to connect, and to connect again whenever the connection is lost."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=lambda: asyncio.run(self._hold()), name="console", daemon=True
            )
            self._thread.start()

    def ask(self, nonce: str, line: bytes, bound_s: float) -> Answer | None:
        """Send a request, and wait `bound_s` for its answer; None where there is none, or where
        a damaged one came. Raises LeadlineError(`kubernetes-denied`) where this user may not have
        the console."""
        end = time.monotonic() + bound_s
        with self._changed:
            self._answers[nonce] = None
            damaged = self.damaged
        try:
            self._send(line, end)
            with self._changed:
                self._changed.wait_for(
                    lambda: self._answers[nonce] or self._denied or self.damaged > damaged,
                    end - time.monotonic(),
                )
                self._require_allowed()
                return self._answers[nonce]
        finally:
            with self._changed:
                self._answers.pop(nonce, None)

    def wait_for_beacon(self, bound_s: float) -> bool:
        """Whether an agent has told of itself within `bound_s`."""
        with self._changed:
            self._changed.wait_for(lambda: self._beacons or self._denied, bound_s)
            self._require_allowed()
            return bool(self._beacons)

    def close(self) -> None:
        thread, loop, task = self._thread, self._loop, self._task
        if thread is None:
            return
        if loop is not None and task is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(task.cancel)
        thread.join(timeout=10)
        self._thread = None

    def _require_allowed(self) -> None:
        if self._denied:
            raise LeadlineError(
                errors.KUBERNETES_DENIED,
                "this user may not use the consoles of virtual machines",
                context=[f"namespace {self._namespace!r}"],
                hint="have this rule added to its role: "
                + rule("get", "virtualmachineinstances/console.subresources.kubevirt.io"),
            )

    def _send(self, line: bytes, end: float) -> None:
        """Send once there is a connection; where there is none the answer will be missing."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._socket is not None or self._denied, end - time.monotonic()
            )
            socket, loop = self._socket, self._loop
        if socket is None or loop is None:
            return
        sent = asyncio.run_coroutine_threadsafe(socket.send_bytes(line), loop)
        with contextlib.suppress(
            HTTPXWSException, httpx2.HTTPError, OSError, TimeoutError, asyncio.CancelledError
        ):
            sent.result(timeout=_SEND_S)

    async def _hold(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        with contextlib.suppress(asyncio.CancelledError):
            while not self._denied:
                await self._once()
                await asyncio.sleep(_PAUSE_S)

    async def _once(self) -> None:
        """One connection, from its beginning to its end, and why it ended."""
        try:
            client = self._connection.asynchronous()
        except (LeadlineError, ConfigError) as error:
            self._note(str(error))
            return
        try:
            async with _websocket(client, self._namespace, self._name) as socket:
                self._note("", socket)
                while True:
                    self._take(await socket.receive())
        except WebSocketUpgradeError as error:
            status = error.response.status_code
            self._denied = status in (401, 403)
            self._note(f"the API server answers with status {status}")
        except (HTTPXWSException, httpx2.HTTPError, OSError, ConfigError) as error:
            self._note(str(error) or type(error).__name__)
        except BaseExceptionGroup as group:
            # anyio's task groups wrap what happened in them; a request to stop is not ours to keep.
            rest = group.split((HTTPXWSException, httpx2.HTTPError, OSError))[1]
            if rest is not None:
                raise
            self._note(str(group.exceptions[0]) or type(group.exceptions[0]).__name__)
        finally:
            with self._changed:
                self._socket = None
            with contextlib.suppress(httpx2.HTTPError, OSError):
                await client.close()

    def _note(self, why_not: str, socket: Any = None) -> None:
        with self._changed:
            self._why_not, self._socket = why_not, socket
            self._changed.notify_all()

    def _take(self, event: object) -> None:
        match event:
            case BytesMessage():
                piece = bytes(event.data)
            case TextMessage():
                piece = event.data.encode()
            case _:
                return
        with self._changed:
            for found in self._console.take(piece):
                if isinstance(found, Beacon):
                    if found.boot not in self._beacons[-1:]:
                        self._beacons.append(found.boot)
                elif found.nonce in self._answers:
                    self._answers[found.nonce] = found
            self._changed.notify_all()


def _websocket(client: AsyncClient, namespace: str, name: str) -> Any:
    """The subresource by lightkube's own HTTP client: it has no method for one that streams."""
    path = (
        f"apis/subresources.kubevirt.io/v1/namespaces/{namespace}"
        f"/virtualmachineinstances/{name}/console"
    )
    inner = client._client._client
    return inner.websocket(path, subprotocols=[PROTOCOL])
