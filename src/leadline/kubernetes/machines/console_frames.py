"""The lines that a guest's agent and we write to each other on a serial console (guest_agent.sh):
pure text, found among whatever else is written there."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass

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
        return [one for one in found if one is not None]

    def _read(self, line: bytes) -> Answer | Beacon | None:
        beacon = _BEACON.search(line)
        if beacon:
            return Beacon(boot=beacon[1].decode("ascii"))
        match = _ANSWER.search(line)
        if match is None:
            self.damaged += b"@A " in line
            return None
        nonce, status, payload, told = (one.decode("ascii", "replace") for one in match.groups())
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
