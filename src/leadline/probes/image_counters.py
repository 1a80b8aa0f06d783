"""What a client of an RBD image did during a trial, written to `image-counters.jsonl`.

Each line is JSON: `{"at", "elapsed_s", "image", "client", "counters"}`, the counters since the
client began (a latency is a pair of a count and a sum of seconds), added up over its processes;
`{"at", "elapsed_s", "image", "error"}` where none came. `leadline.formats.image_counters` reads
it; what it costs stands in docs/internals/performance.md.

librbd tells its counters at the admin socket of its process: a command as JSON with a NUL behind
it, and the answer behind its length in four bytes, the highest first (Ceph's
src/common/admin_socket.cc). A process that ends takes them with it. So they are asked for four
times a second (of more than four processes less often) and kept once a second, the last answer in
any case, and what a process told last counts for it from then on.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from leadline.archive import layout
from leadline.formats.image_counters import COUNTS, LATENCIES, OBJECTER
from leadline.probes.watches import AskingWatch, Line

# A process answers within a millisecond or two; one that is stuck is asked again next time.
_ANSWER_S: Final = 2.0
_LENGTH: Final = struct.Struct(">I")
# Of `perf dump` of one client: 10 to 30 KB.
_LONGEST: Final = 16 << 20

_KEPT_EACH_S: Final = 1.0
# Each asking costs a client about 0.2 ms; of many clients each is asked less often.
_ASKED_PER_S: Final = 16

Counters = Mapping[str, int | Sequence[float]]


class ImageWatch(AskingWatch):
    """Asks the processes that serve `image` (`POOL/IMAGE`) at `place`: an admin socket, or a
    folder of sockets that come and go with their processes."""

    def __init__(
        self,
        image: str,
        client: str,
        place: Path,
        folder: Path,
        *,
        period_s: float = 0.25,
        patience_s: float = 5.0,
    ) -> None:
        path = folder / layout.IMAGE_COUNTERS
        super().__init__(path, period_s=period_s, patience_s=patience_s)
        self._image = image
        self._client = client
        self._place = place
        self._last: dict[str, Counters] = {}
        self._kept_at_s = -_KEPT_EACH_S
        self._unkept: Line | None = None
        self._pause_until_s = 0.0

    def _sample(self, *, end: bool) -> Line | None:
        stamp = self._lines.stamp()
        if not end and stamp["elapsed_s"] < self._pause_until_s:
            return None
        who = {"image": self._image, "client": self._client}
        sockets = self._sockets()
        self._pause_until_s = stamp["elapsed_s"] + len(sockets) / _ASKED_PER_S - self._period_s / 2
        unknown = not self._last
        answered, failed = self._ask(sockets)
        there = self._place.is_dir()
        first = answered and unknown
        due = end or first or stamp["elapsed_s"] >= self._kept_at_s + _KEPT_EACH_S
        line: Line | None
        if answered or (end and there and not self._last and not failed):
            line = {**stamp, **who, "counters": total(list(self._last.values()))}
        elif failed or not there:
            line = {**who, "error": failed or f"there is no socket at {self._place}"}
        else:
            # Its processes are not there yet, or have ended: then what they told last is kept.
            line, self._unkept = self._unkept, None
            return line
        if due:
            self._kept_at_s, self._unkept = stamp["elapsed_s"], None
            return line
        if answered:
            self._unkept = line
        return None

    def _ask(self, sockets: Sequence[Path]) -> tuple[bool, str]:
        """Whether any process of the image told its counters, and why one did not."""
        answered, failed = False, ""
        # Where processes come and go, one may end in the middle of an answer.
        ended = ConnectionError if self._place.is_dir() else ConnectionRefusedError
        for path in sockets:
            try:
                told = counters_of(orjson.loads(perf_dump(path)), self._image)
            except (ended, FileNotFoundError):
                continue  # its process has ended, by force if the socket is still there
            except (OSError, ValueError) as error:
                failed = f"{path.name}: {error}"
                continue
            # A process that has not opened the image yet, or another's.
            if told is not None:
                self._last[path.name] = told
                answered = True
        return answered, failed

    def _sockets(self) -> list[Path]:
        paths = sorted(self._place.iterdir()) if self._place.is_dir() else [self._place]
        return [path for path in paths if path.is_socket()]


def perf_dump(path: Path) -> bytes:
    """All counters of the process behind an admin socket. Raises OSError, ValueError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(_ANSWER_S)
        asking.connect(str(path))
        asking.sendall(orjson.dumps({"prefix": "perf dump", "format": "json"}) + b"\0")
        (length,) = _LENGTH.unpack(_received(asking, _LENGTH.size))
        if length > _LONGEST:
            raise ValueError(f"an answer of {length} bytes")
        return _received(asking, length)


def _received(asking: socket.socket, length: int) -> bytes:
    parts = []
    while length:
        part = asking.recv(length)
        if not part:
            raise ConnectionError("the answer ends early")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def counters_of(dump: Any, image: str) -> Counters | None:
    """Those of an image that are kept, from a `perf dump`: of its section `librbd-ID-POOL-IMAGE`,
    and of the client's own operations on objects. None where the process has not opened it."""
    ending = "-" + image.replace("/", "-")
    sections = [
        section
        for name, section in dump.items()
        if name.startswith("librbd-") and name.endswith(ending)
    ]
    if not sections:
        return None
    objecter = {f"objecter.{name}": dump.get("objecter", {}).get(name, 0) for name in OBJECTER}
    return total([*(_kept(section) for section in sections), objecter])


def _kept(section: Mapping[str, Any]) -> Counters:
    found: dict[str, int | Sequence[float]] = {
        name: section[name] for name in COUNTS if isinstance(section.get(name), int)
    }
    for name in LATENCIES:
        value = section.get(name)
        if isinstance(value, dict):
            found[name] = [value["avgcount"], value["sum"]]
    return found


def total(several: Sequence[Counters]) -> Counters:
    """The counters of several processes added up."""
    added: dict[str, Any] = {}
    for one in several:
        for name, value in one.items():
            if isinstance(value, int):
                added[name] = added.get(name, 0) + value
            else:
                before = added.get(name, [0, 0.0])
                added[name] = [before[0] + value[0], before[1] + value[1]]
    return added
