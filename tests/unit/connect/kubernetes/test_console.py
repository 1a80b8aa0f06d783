"""Frames and the shell of a serial console."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection

from leadline import errors
from leadline.connect.kubernetes import console
from leadline.connect.kubernetes.console import (
    PIECE_BYTES,
    Answer,
    Beacon,
    Console,
    ConsoleLink,
    ConsoleShell,
    Request,
    encode_payload,
)
from leadline.errors import LeadlineError


@dataclass
class _Task:
    parts: dict[str, dict[int, bytes]] = field(default_factory=dict)
    begun: int = 0

    def whole(self, part: str) -> bytes:
        pieces = self.parts.get(part, {})
        return b"".join(pieces[number] for number in sorted(pieces))


@dataclass
class _Link:
    """`losses`: for each request in turn whether it is lost, or its answer, or damaged."""

    stdout: bytes = b""
    losses: list[str] = field(default_factory=list)
    boots: list[str] = field(default_factory=lambda: ["one"])
    tasks: dict[str, _Task] = field(default_factory=dict)
    damaged: int = 0
    unavailable_reason: str = ""
    sizes: list[int] = field(default_factory=list)
    verbs: list[str] = field(default_factory=list)

    def open(self) -> None: ...

    def last_lines(self) -> list[str]:
        return ["Kernel panic - \x07not syncing"]

    def wait_for_beacon(self, bound_s: float) -> bool:
        return True

    def ask(self, nonce: str, line: bytes, bound_s: float) -> Answer | None:
        loss = self.losses.pop(0) if self.losses else ""
        if loss == "request":
            return None
        answer = self._do(line)
        if loss == "damage":
            self.damaged += 1
        return None if loss else answer

    def _do(self, line: bytes) -> Answer:
        nonce, verb, name, part, number, payload, _ = line.decode().split()[1:]
        self.verbs.append(verb)
        if verb == "hello":
            return Answer(nonce=nonce, status="one", payload=b"")
        task = self.tasks.setdefault(name, _Task())
        status, said = "ok", b""
        match verb:
            case "put":
                task.parts.setdefault(part, {})[int(number)] = base64.b64decode(payload)
            case "run":
                task.begun = 1
            case "get":
                self.sizes.append(int(payload))
                whole = self.stdout if part == "out" else task.whole("given")
                said = whole[int(number) : int(number) + int(payload)]
                status = "3"
        return Answer(nonce=nonce, status=status, payload=said)


def _shell(link: _Link, require: Callable[[], None] = lambda: None) -> ConsoleShell:
    shell = ConsoleShell(link, "guest", require, answer_s=0.0, silence_s=0.05)  # type: ignore[arg-type]
    shell.meet(1, lambda: None)
    return shell


@pytest.mark.parametrize("loss", ["request", "answer", "damage"])
def test_every_request_may_be_lost_once(loss: str) -> None:
    link = _Link(stdout=bytes(range(256)) * 200)
    shell = _shell(link)
    link.losses = [loss, ""] * 100
    given = b"stdin " * 1000
    said = shell.run("script", "argument with 'quotes'", given=given, bound_s=10)
    assert (said.stdout, said.stderr, said.status) == (link.stdout, given, 3)
    (task,) = link.tasks.values()
    assert task.whole("command") == (b"exec sh -c script sh 'argument with '\"'\"'quotes'\"'\"''\n")


def test_a_console_that_damages_gets_shorter_lines() -> None:
    link = _Link(stdout=bytes(20000))
    shell = _shell(link)
    link.losses = ["", "", "damage"]
    assert shell.run("x", bound_s=10).stdout == link.stdout
    assert link.sizes[0] > 4096
    assert all(size < 1024 for size in link.sizes[1:])


def test_output_goes_to_who_listens_and_not_into_the_answer() -> None:
    link = _Link(stdout=b"x" * 30000)
    heard: list[bytes] = []
    said = _shell(link).run("x", bound_s=10, output=heard.append)
    assert said.stdout == b""
    assert b"".join(heard) == link.stdout
    assert link.verbs[-1] == "drop"


def test_a_silent_agent_is_reported_with_the_guests_last_words() -> None:
    link = _Link()
    shell = _shell(link)
    link.losses = ["request"] * 10**6
    with pytest.raises(LeadlineError, match="does not answer") as raised:
        shell.run("x", bound_s=10)
    assert raised.value.kind is errors.SHELL_LOST
    assert list(raised.value.context)[-1] == "Kernel panic - \x07not syncing"


def test_a_guest_that_booted_again_is_reported() -> None:
    link = _Link()
    shell = _shell(link)
    link.boots.append("two")
    with pytest.raises(LeadlineError, match="rebooted") as raised:
        shell.run("x", bound_s=10)
    assert raised.value.kind is errors.RUNNER_FAILED


def test_a_machine_that_is_gone_goes_before_a_lost_shell() -> None:
    gone = LeadlineError(errors.RUNNER_FAILED, "the machine ended")

    def require() -> None:
        raise gone

    link = _Link()
    shell = _shell(link, require)
    link.losses = ["request"] * 10**6
    with pytest.raises(LeadlineError, match="the machine ended"):
        shell.run("x", bound_s=10)


class _Closing:
    """A websocket whose other end has begun to close it."""

    async def send_bytes(self, line: bytes) -> None:
        connection = Connection(ConnectionType.CLIENT)
        connection.send(CloseConnection(1000))
        connection.send(BytesMessage(data=line))


def test_a_connection_that_is_being_closed_gives_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = ConsoleLink(Mock(), "here", "guest")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    monkeypatch.setattr(link, "_loop", loop)
    monkeypatch.setattr(link, "_socket", _Closing())
    try:
        assert link.ask("nonce", b"line", 0.05) is None
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_a_long_command_is_asked_about_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that was moved meanwhile measured two nodes."""
    monkeypatch.setattr(console, "_LONG_S", -1.0)
    asked: list[int] = []
    _shell(_Link(), lambda: asked.append(1)).run("x", bound_s=10)
    assert asked


_NONCES = st.text("0123456789abcdef", min_size=12, max_size=12)
_PAYLOADS = st.binary(max_size=300)


def _line(nonce: str, status: str, payload: bytes) -> bytes:
    body = f"{nonce} {status} {base64.b64encode(payload).decode() or '-'}"
    return f"\n@A {body} {hashlib.sha256(body.encode()).hexdigest()[:16]}@\n".encode()


@given(st.lists(st.tuples(_NONCES, _PAYLOADS), max_size=5), st.data())
def test_answers_are_found_however_they_are_cut(
    answers: list[tuple[str, bytes]], data: st.DataObject
) -> None:
    whole = b"".join(_line(nonce, "0", payload) for nonce, payload in answers)
    console, found = Console(), []
    while whole:
        length = data.draw(st.integers(1, len(whole)))
        found += console.take(whole[:length])
        whole = whole[length:]
    assert found == [Answer(nonce=n, status="0", payload=p) for n, p in answers]
    assert console.damaged == 0


@given(st.binary(max_size=80).filter(lambda item: b"\n" not in item), _PAYLOADS)
def test_what_stands_before_and_behind_is_passed_over(noise: bytes, payload: bytes) -> None:
    line = _line("aa", "-", payload).strip(b"\n")
    found = Console().take(b"\r\n" + noise + b"\n" + noise + b" " + line + b"\r\n" + noise)
    assert [item for item in found if isinstance(item, Answer)][-1:] == [
        Answer(nonce="aa", status="-", payload=payload)
    ]


@given(_PAYLOADS.filter(bool), st.binary(min_size=1, max_size=40), st.data())
def test_a_line_that_another_wrote_into_is_no_answer(
    payload: bytes, noise: bytes, data: st.DataObject
) -> None:
    """A kernel does not know of our lines: what is in the middle of one spoils it."""
    line = _line("aa", "0", payload)
    place = data.draw(st.integers(len(b"\n@A a"), len(line) - 2))
    console = Console()
    found = console.take(line[:place] + noise + line[place:])
    expected = Answer(nonce="aa", status="0", payload=payload)
    assert all(item == expected for item in found)
    assert console.take(line) == [expected]


def test_a_damaged_line_is_counted() -> None:
    console = Console()
    line = _line("aa", "0", b"some output of a command")
    assert console.take(line[:20] + b"[  1.5] a kernel's line\r\n" + line[20:]) == []
    assert console.take(line.replace(b" 0 ", b" 1 ")) == []
    assert console.damaged == 2


def test_a_beacon_reports_the_boot() -> None:
    boot = "ab263387-9569-46ce-a3c8-228ed0b58708"
    found = Console().take(f"guest login: \n@leadline {boot}@\r\n".encode())
    assert found == [Beacon(boot=boot)]


def test_a_request_is_short_enough_for_any_terminal() -> None:
    request = Request(
        nonce="a" * 12,
        verb="put",
        task="b" * 12,
        part="command",
        number=10**9,
        payload=encode_payload(bytes(PIECE_BYTES)),
    )
    assert len(request.line) < 4096
    body = request.line.decode().strip().removeprefix("@L ").rpartition(" ")
    assert hashlib.sha256(body[0].encode()).hexdigest()[:16] == body[2]


def test_the_guests_last_words_are_without_ours_and_without_escapes() -> None:
    console = Console()
    console.take(b"\x1b[0;32m[  OK  ]\x1b[0m Started a thing.\r\n\n@leadline 12-34@\n")
    console.take(_line("aa", "0", b"x") + b"Kernel panic - not syncing\r\n")
    assert console.last_lines() == ["[  OK  ] Started a thing.", "Kernel panic - not syncing"]
