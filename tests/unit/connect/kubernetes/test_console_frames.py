"""Lines of an agent, found whatever stands around them, and never read where they are damaged."""

from __future__ import annotations

import base64
import hashlib

from hypothesis import given
from hypothesis import strategies as st

from leadline.connect.kubernetes.console import (
    PIECE_BYTES,
    Answer,
    Beacon,
    Console,
    Request,
    encode_payload,
)

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


def test_a_beacon_tells_the_boot() -> None:
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
