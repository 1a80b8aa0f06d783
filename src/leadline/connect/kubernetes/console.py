"""A virtual machine's serial console, as virtctl has it: a WebSocket of the subresource `console`
of its VirtualMachineInstance, held by a thread, made anew when it is lost.

KubeVirt gives the console to one at a time: who comes later takes it.
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
from dataclasses import dataclass, replace
from typing import Any

import httpx2
from httpx2.websockets import HTTPXWSException, WebSocketUpgradeError
from lightkube import AsyncClient, ConfigError
from wsproto.events import BytesMessage, TextMessage

from leadline import errors
from leadline.connect.kubernetes.client import Connection, rule
from leadline.connect.shell import Said
from leadline.errors import LeadlineError
from leadline.text import visible

# The lines that a guest's agent and we write to each other on a serial console (guest_agent.sh):
# pure text, found among whatever else is written there.

NOTHING = "-"
# A line of a request stays below a terminal's smallest buffer, 4096 bytes.
PIECE_BYTES = 1536
_SUM_DIGITS = 16
# More than the longest answer; what is longer is no answer.
_MOST_BYTES = 1 << 20
_TAIL_BYTES = 1 << 14
_ANSWER = re.compile(rb"@A (\S+) (\S+) (\S+) ([0-9a-f]{16})@")
_BEACON = re.compile(rb"@leadline ([0-9a-f-]{36})@")
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-_])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`nonce` tells its answers from others'; the other fields are as the agent knows them."""

    nonce: str
    verb: str
    task: str = NOTHING
    part: str = NOTHING
    number: int = 0
    payload: str = NOTHING

    @property
    def line(self) -> bytes:
        """With a newline before it: whatever was left on the line is then not part of it."""
        said = " ".join(
            (self.nonce, self.verb, self.task, self.part, str(self.number), self.payload)
        )
        return f"\n@L {said} {_sum(said)}\n".encode("ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    nonce: str
    status: str
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Beacon:
    """The agent is there; `boot` is the kernel's id of this boot."""

    boot: str


def packed(piece: bytes) -> str:
    """Bytes as the payload of a request."""
    return base64.b64encode(piece).decode("ascii") or NOTHING


class Console:
    """What was written on a console, as it comes in pieces. `damaged` counts lines that look like
    an answer and are none: a kernel's message in the middle, or bytes that were lost."""

    def __init__(self) -> None:
        self.damaged = 0
        self._rest = b""
        self._tail = b""

    def take(self, piece: bytes) -> list[Answer | Beacon]:
        """The answers and beacons that are complete with this piece."""
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
        nonce, status, payload, told = (
            group.decode("ascii", "replace") for group in match.groups()
        )
        if _sum(f"{nonce} {status} {payload}") != told:
            self.damaged += 1
            return None
        try:
            raw = b"" if payload == NOTHING else base64.b64decode(payload, validate=True)
        except binascii.Error:
            self.damaged += 1
            return None
        return Answer(nonce=nonce, status=status, payload=raw)

    def last_lines(self, most: int = 8) -> list[str]:
        """The end of what others wrote: the guest's own last words, without our frames."""
        text = _ESCAPES.sub("", self._tail.decode("utf-8", "replace"))
        lines = [line.strip() for line in re.split(r"[\r\n]+", text)]
        return [line for line in lines if line and "@A " not in line and "@leadline" not in line][
            -most:
        ]


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_SUM_DIGITS]


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


# A shell in the guest of a virtual machine, by its serial console: no route into the guest is
# needed beyond what `virtctl console` has.
#  A command is a task of the guest's agent: handed over in pieces, begun, and asked for what it
# has said since. Every request may be repeated, so that a lost connection, or a kernel's message
# in the middle of a line, costs a repetition and never the command.

# An answer that is not there by then was lost; then it is asked for again.
_ANSWER_S = 10.0
# An agent that says nothing for so long is taken for dead, and the guest with it.
SILENCE_S = 60.0
# Each question costs the guest a few milliseconds of one processor: while a trial runs, seldom.
_FIRST_POLL_S, _LAST_POLL_S, _SLOWER = 0.02, 2.0, 1.5
# Output comes in pieces so large, and in smaller ones while the console damages them.
_LARGE_BYTES, _SMALL_BYTES = 12288, 768
# A command so long is one that a live migration may have fallen into.
_LONG_S = 5.0
_LOST = "lost"


class ConsoleShell:
    """The shell of one guest. `require` raises where the virtual machine is not what it was."""

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
        """Wait for the agent. Raises LeadlineError(`runner-failed`) where it does not come."""
        self._link.open()
        end = time.monotonic() + bound_s
        while not self._link.wait_for_beacon(min(1.0, max(0.0, end - time.monotonic()))):
            go_on()
            self._require()
            if time.monotonic() > end:
                raise LeadlineError(
                    errors.RUNNER_FAILED,
                    f"nothing answers in the {self.name} after {bound_s:g} s",
                    context=self._last_words(),
                    hint="the boot image needs cloud-init, a shell, coreutils and a console on "
                    "its first serial port; `ready:` of the cluster sets how long to wait",
                )
        self._boot = self._ask(Request(nonce=_nonce(), verb="hello")).status

    def run(
        self,
        script: str,
        *arguments: str,
        given: bytes = b"",
        bound_s: float,
        output: Callable[[bytes], None] | None = None,
    ) -> Said:
        began = time.monotonic()
        task = secrets.token_hex(6)
        command = shlex.join(("exec", "sh", "-c", script, "sh", *arguments)).encode() + b"\n"
        try:
            self._put(task, "command", command)
            self._put(task, "given", given)
            self._about(task, "run")
            stdout: list[bytes] = []
            status = self._follow(task, began + bound_s, output or stdout.append)
            stderr = b"".join(self._rest(task, "err", 0))
            self._about(task, "drop")
        finally:
            if time.monotonic() - began > _LONG_S:
                self._require()
        return Said(stdout=b"".join(stdout), stderr=stderr, status=status)

    def _put(self, task: str, part: str, whole: bytes) -> None:
        for number, start in enumerate(range(0, len(whole), PIECE_BYTES)):
            piece = packed(whole[start : start + PIECE_BYTES])
            self._about(task, "put", part, number, piece)

    def _follow(self, task: str, end: float, output: Callable[[bytes], None]) -> int:
        """What the command says, until it ends; its exit status."""
        offset, pause_s = 0, _FIRST_POLL_S
        while True:
            answer = self._get(task, "out", offset)
            offset += len(answer.payload)
            if answer.payload:
                output(answer.payload)
            elif answer.status != NOTHING:
                return int(answer.status)
            if time.monotonic() > end:
                self._about(task, "kill")
                raise self._lost("gave no answer in time", [])
            if len(answer.payload) < self._piece_bytes and answer.status == NOTHING:
                time.sleep(max(0.0, min(pause_s, end - time.monotonic())))
                pause_s = min(pause_s * _SLOWER, _LAST_POLL_S)

    def _rest(self, task: str, stream: str, offset: int) -> Iterator[bytes]:
        while piece := self._get(task, stream, offset).payload:
            offset += len(piece)
            yield piece

    def _get(self, task: str, stream: str, offset: int) -> Answer:
        return self._about(task, "get", stream, offset)

    def _about(
        self, task: str, verb: str, part: str = NOTHING, number: int = 0, payload: str = NOTHING
    ) -> Answer:
        answer = self._ask(
            Request(nonce=_nonce(), verb=verb, task=task, part=part, number=number, payload=payload)
        )
        if answer.status == _LOST:
            raise self._lost("no longer knows the command", ["its guest may have booted again"])
        if verb == "put" and answer.status != "ok":
            raise self._lost("could not write the command down", ["/run of the guest may be full"])
        return answer

    def _ask(self, request: Request) -> Answer:
        """The answer to a request, which is repeated until it comes."""
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
                    raise self._lost("says nothing", self._last_words())

    def _require_same_boot(self) -> None:
        booted = self._link.boots
        if self._boot and booted and booted[-1] != self._boot:
            raise LeadlineError(
                errors.RUNNER_FAILED,
                f"the guest of the {self.name} has booted again by itself",
                context=self._last_words(),
                hint="`leadline run --resume --retry-failed` makes a new one and goes on",
            )

    def _lost(self, why: str, context: list[str]) -> LeadlineError:
        return LeadlineError(
            errors.SHELL_LOST,
            f"the agent in the {self.name} {why}",
            context=context,
            hint="the guest may hang; look with `virtctl console`",
        )

    def _last_words(self) -> list[str]:
        """What the guest last wrote on its console."""
        why = self._link.why_not
        words = [visible(line) for line in self._link.last_lines()]
        told = [f"its console cannot be reached: {why}"] if why else []
        return [*told, *(["the console's last lines:", *words] if words else [])] or [
            "its console is silent"
        ]


def _nonce() -> str:
    return secrets.token_hex(6)
