"""The watch of an image's clients, against admin sockets that answer, fall silent and go."""

from __future__ import annotations

import json
import shutil
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from leadline.archive.trial import StoredTrial
from leadline.formats.ceph.counters import ImageSample
from leadline.formats.json_lines import Missed
from leadline.probes.watches.ceph import ImageWatch, add_up, read_image_counters
from tests.awaiting import wait_for

DUMP = Path("tests/recorded/layers/rbd-fuse-perf-dump-pacific.json")
PERIOD_S = 0.05


def image_growth(samples: Sequence[ImageSample | Missed]) -> tuple[dict[str, int], float]:
    """Return the growth of an image's counters from the first to the last sample, and that of the
    seconds of its writes."""
    known = [sample for sample in samples if isinstance(sample, ImageSample)]
    first, last = known[0], known[-1]
    counts = {name: count - first.counts.get(name, 0) for name, count in last.counts.items()}
    before = first.latencies.get("wr_latency")
    return counts, last.latencies["wr_latency"].seconds - (before.seconds if before else 0.0)


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder with a path short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="ll-asok-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


class Client:
    """A process with an admin socket; `answer` makes the bytes that it sends."""

    def __init__(self, path: Path, answer: Callable[[int], bytes]) -> None:
        self.path = path
        self.requests: list[bytes] = []
        self._answer = answer
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(path))
        self._listening.listen()
        self._listening.settimeout(0.05)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            ending = self._ending.is_set()
            try:
                asked, _ = self._listening.accept()
            except TimeoutError:
                if ending:
                    return
                continue
            with asked:
                self.requests.append(asked.recv(4096))
                asked.sendall(self._answer(len(self.requests)))

    def end(self) -> None:
        """Answer whoever has come, and no user any more."""
        self.path.unlink(missing_ok=True)
        self._ending.set()
        self._thread.join()
        self._listening.close()


def framed(dump: Any) -> bytes:
    content = json.dumps(dump).encode()
    return struct.pack(">I", len(content)) + content


def librbd(image: str, writes: int) -> dict[str, Any]:
    return {
        f"librbd-10af-{image}": {
            "wr": writes,
            "wr_bytes": writes * 4096,
            "wr_latency": {"avgcount": writes, "sum": writes * 0.002, "avgtime": 0.002},
            "opened_time": "0.0",
        },
        "objecter": {"op_w": writes, "op_r": 3},
    }


def samples(folder: Path) -> tuple[ImageSample | Missed, ...]:
    return StoredTrial(folder, None).image_counters


def test_counters_of_a_real_client() -> None:
    reported = read_image_counters(json.loads(DUMP.read_bytes()), "rep2/img")
    assert reported is not None
    assert (reported["wr"], reported["wr_bytes"], reported["flush"]) == (50, 50 * (128 << 10), 1)
    assert reported["wr_latency"] == [50, pytest.approx(0.212)]
    assert reported["objecter.op_w"] == 51
    assert read_image_counters(json.loads(DUMP.read_bytes()), "rep2/other") is None


def test_a_client_is_asked_in_its_own_words(sockets: Path, tmp_path: Path) -> None:
    client = Client(sockets / "a.asok", lambda count: framed(librbd("rep2-img", 10 * count)))
    with ImageWatch("rep2/img", "rbd-fuse", client.path, tmp_path, period_s=PERIOD_S):
        wait_for(lambda: len(client.requests) > 2)
    client.end()
    assert client.requests[0] == b'{"prefix":"perf dump","format":"json"}\0'
    reported = [sample for sample in samples(tmp_path) if isinstance(sample, ImageSample)]
    # Asked often, kept once a second, and at both ends.
    assert 2 <= len(reported) <= 2 + reported[-1].elapsed_s
    assert (reported[0].client, reported[0].image) == ("rbd-fuse", "rep2/img")
    counts, write_s = image_growth(samples(tmp_path))
    assert counts["wr"] == 10 * (len(client.requests) - 1)
    assert write_s == pytest.approx(counts["wr"] * 0.002)


def test_clients_come_and_go_and_what_they_did_stays(sockets: Path, tmp_path: Path) -> None:
    """As fio's: nothing at first, two for a while, then nothing again."""
    watch = ImageWatch("rep2/img", "librbd", sockets, tmp_path, period_s=PERIOD_S)
    watch.start()
    time.sleep(2 * PERIOD_S)  # time to look, and nothing to be seen
    one = Client(sockets / "1.asok", lambda count: framed(librbd("rep2-img", 90 + count)))
    two = Client(sockets / "2.asok", lambda count: framed(librbd("rep2-img", 7)))
    other = Client(sockets / "3.asok", lambda count: framed(librbd("rep2-other", 1000)))
    wait_for(lambda: one.requests and two.requests and other.requests)
    one.end()
    asked = len(two.requests)
    wait_for(lambda: len(two.requests) > asked + 2)
    for client in (two, other):
        client.end()
    # Killed: its socket is left behind and refuses.
    killed = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    killed.bind(str(sockets / "4.asok"))
    killed.close()
    time.sleep(2 * PERIOD_S)
    watch.stop()
    reported = samples(tmp_path)
    assert not any(isinstance(each, Missed) for each in reported)
    counts, _ = image_growth(reported)
    # Of each the last that it reported.
    assert counts["wr"] == 90 + len(one.requests) + 7
    assert [path.name for path in sockets.iterdir()] == ["4.asok"]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\0\0",
        struct.pack(">I", 100) + b"{}",
        struct.pack(">I", 1 << 31),
        struct.pack(">I", 3) + b"no!",
    ],
)
def test_an_answer_that_is_none_is_reported(answer: bytes, sockets: Path, tmp_path: Path) -> None:
    client = Client(sockets / "a.asok", lambda count: answer)
    with ImageWatch("rep2/img", "rbd-fuse", client.path, tmp_path, period_s=3600):
        time.sleep(0.05)
    client.end()
    reported = samples(tmp_path)
    assert [type(item) for item in reported] == [Missed, Missed]


def test_a_client_that_ends_in_the_middle_of_an_answer_has_ended(
    sockets: Path, tmp_path: Path
) -> None:
    client = Client(sockets / "a.asok", lambda count: struct.pack(">I", 100) + b"{}")
    with ImageWatch("rep2/img", "librbd", sockets, tmp_path, period_s=PERIOD_S):
        wait_for(lambda: len(client.requests) > 2)
    client.end()
    reported = samples(tmp_path)
    assert not any(isinstance(item, Missed) for item in reported)


def test_a_client_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with ImageWatch("rep2/img", "rbd-fuse", tmp_path / "gone.asok", tmp_path, period_s=3600):
        pass
    first = samples(tmp_path)[0]
    assert isinstance(first, Missed)
    assert "no socket" in first.reason


def test_a_client_that_never_answers_does_not_hold_the_trial_up(
    sockets: Path, tmp_path: Path
) -> None:
    silent = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    silent.bind(str(sockets / "a.asok"))
    silent.listen()
    watch = ImageWatch("a/b", "librbd", sockets / "a.asok", tmp_path, patience_s=0.2)
    watch.start()
    began = time.monotonic()
    watch.stop()
    # What a machine stands still for meanwhile is not its patience, by default 5 s.
    assert time.monotonic() - began < 20
    silent.close()
    last = samples(tmp_path)[-1]
    assert isinstance(last, Missed)
    assert "within 0.2 s" in last.reason


def test_counters_add_up() -> None:
    assert add_up([{"wr": 1, "wr_latency": [1, 0.5]}, {"wr": 2, "wr_latency": [3, 0.25]}]) == {
        "wr": 3,
        "wr_latency": [4, 0.75],
    }
