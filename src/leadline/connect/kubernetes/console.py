"""A shell in the guest of a virtual machine through its serial console (`virtctl console`).

The console is a WebSocket of the VirtualMachineInstance, held by a thread, and opened again when it
is lost. KubeVirt gives it to one client: the latest.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import re
import secrets
import shlex
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2
from httpx2.websockets import HTTPXWSException, WebSocketUpgradeError
from lightkube import AsyncClient, ConfigError
from wsproto.events import BytesMessage, TextMessage
from wsproto.utilities import LocalProtocolError

from leadline import errors
from leadline.connect.kubernetes.client import Connection, format_rule
from leadline.connect.shell import CommandResult
from leadline.errors import LeadlineError

# Frames: lines of text that Leadline and the guest's agent (guest_agent.sh) exchange.
NOTHING = "-"
# A request stays below the smallest terminal buffer, 4096 bytes.
PIECE_BYTES = 1536
_CHECKSUM_DIGITS = 16
# Longer than the longest answer.
_MOST_BYTES = 1 << 20
_TAIL_BYTES = 1 << 14
_ANSWER = re.compile(rb"@A (\S+) (\S+) (\S+) ([0-9a-f]{16})@")
_BEACON = re.compile(rb"@leadline ([0-9a-f-]{36})@")
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-_])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to the agent; `nonce` identifies its answer."""

    nonce: str = field(default_factory=lambda: secrets.token_hex(6))
    verb: str
    task: str = NOTHING
    part: str = NOTHING
    number: int = 0
    payload: str = NOTHING

    @property
    def line(self) -> bytes:
        """The frame, after a newline that ends earlier output."""
        fields = " ".join(
            (self.nonce, self.verb, self.task, self.part, str(self.number), self.payload)
        )
        return f"\n@L {fields} {_checksum(fields)}\n".encode("ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    nonce: str
    status: str
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Beacon:
    """The agent runs; `boot` is the kernel's id of this boot."""

    boot: str


def encode_payload(piece: bytes) -> str:
    return base64.b64encode(piece).decode("ascii") or NOTHING


class Console:
    """Parses a console's output in pieces. `damaged` counts broken answers: a kernel message in the
    middle, or lost bytes."""

    def __init__(self) -> None:
        self.damaged = 0
        self._rest = b""
        self._tail = b""

    def take(self, piece: bytes) -> list[Answer | Beacon]:
        """Return the answers and beacons that this piece completes."""
        self._tail = (self._tail + piece)[-_TAIL_BYTES:]
        *lines, self._rest = (self._rest + piece).split(b"\n")
        self._rest = self._rest[-_MOST_BYTES:]
        found = [self._read(line) for line in lines]
        return [item for item in found if item is not None]

    def _read(self, line: bytes) -> Answer | Beacon | None:
        beacon = _BEACON.search(line)
        if beacon:
            return Beacon(boot=beacon[1].decode("ascii"))
        match = _ANSWER.search(line)
        if match is None:
            self.damaged += b"@A " in line
            return None
        nonce, status, payload, checksum = (
            group.decode("ascii", "replace") for group in match.groups()
        )
        if _checksum(f"{nonce} {status} {payload}") != checksum:
            self.damaged += 1
            return None
        try:
            raw = b"" if payload == NOTHING else base64.b64decode(payload, validate=True)
        except binascii.Error:
            self.damaged += 1
            return None
        return Answer(nonce=nonce, status=status, payload=raw)

    def last_lines(self, most: int = 8) -> list[str]:
        """Return the last lines of the guest's output, without frames."""
        text = _ESCAPES.sub("", self._tail.decode("utf-8", "replace"))
        lines = [line.strip() for line in re.split(r"[\r\n]+", text)]
        return [line for line in lines if line and "@A " not in line and "@leadline" not in line][
            -most:
        ]


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_CHECKSUM_DIGITS]


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
        self._unavailable_reason = ""
        self._denied = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._socket: Any = None
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None

    @property
    def boots(self) -> list[str]:
        """The boots that an agent has reported, in order."""
        with self._changed:
            return list(self._beacons)

    @property
    def unavailable_reason(self) -> str:
        """Why there is no connection; empty while connected."""
        return self._unavailable_reason

    @property
    def damaged(self) -> int:
        return self._console.damaged

    def last_lines(self) -> list[str]:
        with self._changed:
            return self._console.last_lines()

    def open(self) -> None:
        """Connect, and reconnect whenever the connection is lost."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=lambda: asyncio.run(self._hold()), name="console", daemon=True
            )
            self._thread.start()

    def ask(self, nonce: str, line: bytes, bound_s: float) -> Answer | None:
        """Send a request and wait `bound_s` for its answer; None without an answer, or after a
        damaged one. Raises LeadlineError(`kubernetes-denied`) where this user may not open the
        console."""
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
        """Return whether an agent reports itself within `bound_s`."""
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
                + format_rule("get", "virtualmachineinstances/console.subresources.kubevirt.io"),
            )

    def _send(self, line: bytes, end: float) -> None:
        """Send once connected; without a connection the answer will be missing."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._socket is not None or self._denied, end - time.monotonic()
            )
            socket, loop = self._socket, self._loop
        if socket is None or loop is None:
            return
        sent = asyncio.run_coroutine_threadsafe(socket.send_bytes(line), loop)
        lost = (HTTPXWSException, httpx2.HTTPError, OSError, TimeoutError, asyncio.CancelledError)
        # The last one: the connection is being closed.
        with contextlib.suppress(*lost, LocalProtocolError):
            sent.result(timeout=_SEND_S)

    async def _hold(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        with contextlib.suppress(asyncio.CancelledError):
            while not self._denied:
                await self._once()
                await asyncio.sleep(_PAUSE_S)

    async def _once(self) -> None:
        """Hold one connection until it ends, and note the reason."""
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
            # anyio wraps exceptions in groups; a cancellation must pass.
            rest = group.split((HTTPXWSException, httpx2.HTTPError, OSError))[1]
            if rest is not None:
                raise
            self._note(str(group.exceptions[0]) or type(group.exceptions[0]).__name__)
        finally:
            with self._changed:
                self._socket = None
            with contextlib.suppress(httpx2.HTTPError, OSError):
                await client.close()

    def _note(self, unavailable_reason: str, socket: Any = None) -> None:
        with self._changed:
            self._unavailable_reason, self._socket = unavailable_reason, socket
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
    """Open the subresource through lightkube's HTTP client, which has no method for streams."""
    path = (
        f"apis/subresources.kubevirt.io/v1/namespaces/{namespace}"
        f"/virtualmachineinstances/{name}/console"
    )
    inner = client._client._client
    return inner.websocket(path, subprotocols=[PROTOCOL])


# An answer is lost after this time, and the request is repeated.
_ANSWER_S = 10.0
# An agent, and its guest, counts as dead after this silence.
SILENCE_S = 60.0
# Each poll costs the guest a few milliseconds of CPU time, so polls slow down.
_FIRST_POLL_S, _LAST_POLL_S, _SLOWER = 0.02, 2.0, 1.5
# The size of a piece of output; the small size while the console damages answers.
_LARGE_BYTES, _SMALL_BYTES = 12288, 768
# A live migration may fall into a command of this length.
_LONG_S = 5.0
_LOST = "lost"


class ConsoleShell:
    """The shell of one guest. `require` raises where the virtual machine was replaced or lost.

    A command is a task of the guest's agent: sent in pieces, started, and polled for output. Every
    request can be repeated, so a lost connection or a kernel message never costs the command.
    """

    def __init__(
        self,
        link: ConsoleLink,
        name: str,
        require: Callable[[], None],
        *,
        answer_s: float = _ANSWER_S,
        silence_s: float = SILENCE_S,
    ) -> None:
        self.name = name
        self._link = link
        self._require = require
        self._answer_s = answer_s
        self._silence_s = silence_s
        self._one = threading.Lock()
        self._boot = ""
        self._piece_bytes = _LARGE_BYTES

    def meet(self, bound_s: float, go_on: Callable[[], None]) -> None:
        """Wait for the agent. Raises LeadlineError(`runner-failed`) where it does not answer."""
        self._link.open()
        end = time.monotonic() + bound_s
        while not self._link.wait_for_beacon(min(1.0, max(0.0, end - time.monotonic()))):
            go_on()
            self._require()
            if time.monotonic() > end:
                raise LeadlineError(
                    errors.RUNNER_FAILED,
                    f"no agent answers in the {self.name} after {bound_s:g} s",
                    context=self._console_lines(),
                    hint="the boot image needs cloud-init, a shell, coreutils and a console on "
                    "its first serial port; `ready:` of the cluster sets how long to wait",
                )
        self._boot = self._ask(Request(verb="hello")).status

    def run(
        self,
        script: str,
        *arguments: str,
        given: bytes = b"",
        bound_s: float,
        output: Callable[[bytes], None] | None = None,
    ) -> CommandResult:
        began = time.monotonic()
        task = secrets.token_hex(6)
        command = shlex.join(("exec", "sh", "-c", script, "sh", *arguments)).encode() + b"\n"
        try:
            self._put(task, "command", command)
            self._put(task, "given", given)
            self._request(Request(verb="run", task=task))
            stdout: list[bytes] = []
            status = self._follow(task, began + bound_s, output or stdout.append)
            stderr = b"".join(self._rest(task, "err", 0))
            self._request(Request(verb="drop", task=task))
        finally:
            if time.monotonic() - began > _LONG_S:
                self._require()
        return CommandResult(stdout=b"".join(stdout), stderr=stderr, status=status)

    def _put(self, task: str, part: str, whole: bytes) -> None:
        for number, start in enumerate(range(0, len(whole), PIECE_BYTES)):
            piece = encode_payload(whole[start : start + PIECE_BYTES])
            request = Request(verb="put", task=task, part=part, number=number, payload=piece)
            self._request(request)

    def _follow(self, task: str, end: float, output: Callable[[bytes], None]) -> int:
        """Pass the command's output on until it ends; return its exit status."""
        offset, pause_s = 0, _FIRST_POLL_S
        while True:
            answer = self._get(task, "out", offset)
            offset += len(answer.payload)
            if answer.payload:
                output(answer.payload)
            elif answer.status != NOTHING:
                return int(answer.status)
            if time.monotonic() > end:
                self._request(Request(verb="kill", task=task))
                raise self._lost("gave no answer in time", [])
            if len(answer.payload) < self._piece_bytes and answer.status == NOTHING:
                time.sleep(max(0.0, min(pause_s, end - time.monotonic())))
                pause_s = min(pause_s * _SLOWER, _LAST_POLL_S)

    def _rest(self, task: str, stream: str, offset: int) -> Iterator[bytes]:
        while piece := self._get(task, stream, offset).payload:
            offset += len(piece)
            yield piece

    def _get(self, task: str, stream: str, offset: int) -> Answer:
        return self._request(Request(verb="get", task=task, part=stream, number=offset))

    def _request(self, request: Request) -> Answer:
        answer = self._ask(request)
        if answer.status == _LOST:
            raise self._lost("no longer has the command", ["its guest may have rebooted"])
        if request.verb == "put" and answer.status != "ok":
            raise self._lost("could not store the command", ["/run of the guest may be full"])
        return answer

    def _ask(self, request: Request) -> Answer:
        """Return the answer to a request, repeated until it arrives."""
        end = time.monotonic() + self._silence_s
        with self._one:
            while True:
                if request.verb == "get":
                    request = replace(request, payload=str(self._piece_bytes))
                damaged = self._link.damaged
                answer = self._link.ask(request.nonce, request.line, self._answer_s)
                self._require_same_boot()
                if answer is not None:
                    return answer
                if self._link.damaged > damaged:
                    self._piece_bytes = _SMALL_BYTES
                self._require()
                if time.monotonic() > end:
                    raise self._lost("does not answer", self._console_lines())

    def _require_same_boot(self) -> None:
        booted = self._link.boots
        if self._boot and booted and booted[-1] != self._boot:
            raise LeadlineError(
                errors.RUNNER_FAILED,
                f"the guest of the {self.name} has rebooted by itself",
                context=self._console_lines(),
                hint="`leadline run --resume --retry-failed` creates a new one and continues",
            )

    def _lost(self, fact: str, context: list[str]) -> LeadlineError:
        return LeadlineError(
            errors.SHELL_LOST,
            f"the agent in the {self.name} {fact}",
            context=context,
            hint="the guest may hang; look with `virtctl console`",
        )

    def _console_lines(self) -> list[str]:
        reason = self._link.unavailable_reason
        lines = self._link.last_lines()
        unavailable = [f"its console cannot be reached: {reason}"] if reason else []
        return [*unavailable, *(["the console's last lines:", *lines] if lines else [])] or [
            "its console is silent"
        ]
