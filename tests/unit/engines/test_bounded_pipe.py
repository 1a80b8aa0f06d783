"""The pipe between two programs that are known to be slow, run as the engine runs it."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from leadline.engines import bounded_pipe

BUFFER = 1 << 20
# Writes or reads so many pieces of so many bytes, with a pause before each.
SENDER = """
import sys, time
pieces, size, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
pattern = bytes(range(251)) * (size // 251 + 3)
for number in range(pieces):
    time.sleep(pause)
    sys.stdout.buffer.write(pattern[number : number + size])
    sys.stdout.buffer.flush()
"""
RECEIVER = """
import sys, time
size, pause = int(sys.argv[1]), float(sys.argv[2])
while sys.stdin.buffer.raw.read(size):
    time.sleep(pause)
"""
FAST = ["sh", "-c", "cat >/dev/null"]


def sender(pieces: int, size: int, pause: float) -> list[str]:
    return [sys.executable, "-c", SENDER, str(pieces), str(size), str(pause)]


def receiver(size: int, pause: float) -> list[str]:
    return [sys.executable, "-c", RECEIVER, str(size), str(pause)]


def relay(
    send: list[str], receive: list[str], sync: list[str] | None = None, buffer: int = BUFFER
) -> subprocess.Popen[bytes]:
    one = {"stream": 1, "send": send, "receive": receive, "sync": sync or []}
    return relay_all([one], buffer)


def relay_all(streams: list[dict[str, Any]], buffer: int = BUFFER) -> subprocess.Popen[bytes]:
    asked = {"streams": streams, "buffer_bytes": buffer, "sample_s": 0.05}
    return subprocess.Popen(
        [sys.executable, "-I", "-S", bounded_pipe.__file__, json.dumps(asked)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def told(process: subprocess.Popen[bytes]) -> tuple[int, list[Any], dict[str, Any]]:
    """Exit status, samples, totals."""
    out, _ = process.communicate(timeout=60)
    lines = [json.loads(line) for line in out.splitlines()]
    return process.returncode, lines[:-1], lines[-1]["end"]


@pytest.mark.parametrize("buffer", [4096, 300_001, 16 << 20])
def test_every_byte_comes_through_in_its_order_whatever_the_buffer(
    tmp_path: Path, buffer: int
) -> None:
    content = b"".join(bytes((number + at) % 251 for at in range(70_000)) for number in range(40))
    received = tmp_path / "received"
    receive = ["sh", "-c", f"cat >{received}"]
    status, samples, end = told(relay(sender(40, 70_000, 0), receive, buffer=buffer))
    assert status == 0
    assert end["bytes"] == len(content)
    assert hashlib.sha256(received.read_bytes()).digest() == hashlib.sha256(content).digest()
    assert end["most_buffered_bytes"] <= buffer
    assert all(0 <= one["read_bytes"] - one["written_bytes"] <= buffer for one in samples)


def test_a_slow_sender_is_what_is_waited_for() -> None:
    status, _, end = told(relay(sender(10, 100_000, 0.2), FAST))
    assert status == 0
    assert end["seconds"] >= 2.0
    # Of the sender's pauses; the rest of the time is that of a busy machine, which starts programs
    # slowly and may let the pipe begin to wait too late.
    assert end["waited_for_sender_s"] > 1.0
    assert end["starved_receiver_s"] > 1.0
    assert end["held_sender_s"] < 0.1 * end["waited_for_sender_s"]
    assert end["waited_for_receiver_s"] < 0.1 * end["waited_for_sender_s"]


def test_a_slow_receiver_fills_the_buffer_and_holds_the_sender_back() -> None:
    # 20 MiB through 1 MiB of ours and at most 2 MiB of the kernel's: 17 of them have to wait.
    status, samples, end = told(relay(sender(20, 1 << 20, 0), receiver(1 << 20, 0.1)))
    assert status == 0
    assert end["most_buffered_bytes"] == BUFFER
    # What the sender takes to start is waited for as well.
    before = [one for one in samples if not one["read_bytes"]][-1:]
    waited, starved = (
        end[key] - sum(one[key] for one in before)
        for key in ("waited_for_sender_s", "starved_receiver_s")
    )
    assert end["waited_for_receiver_s"] > waited
    assert end["held_sender_s"] > waited
    assert starved < end["held_sender_s"]
    assert 0 < end["mean_buffered_bytes"] <= BUFFER


def test_samples_tell_the_waiting_while_it_lasts(tmp_path: Path) -> None:
    goes_on = tmp_path / "goes-on"
    send = ["sh", "-c", f"until [ -e {goes_on} ]; do sleep 0.02; done; echo all"]
    process = relay(send, FAST)
    assert process.stdout is not None
    early = [json.loads(process.stdout.readline()) for _ in range(10)]
    goes_on.touch()
    _, later, end = told(process)
    waited = [one["waited_for_sender_s"] for one in (*early, *later)]
    assert waited == sorted(waited)
    # The first may be of before there was anything to wait with.
    assert all(0 < one["waited_for_sender_s"] < end["waited_for_sender_s"] for one in early[1:])
    assert waited[9] > waited[1]


def test_what_makes_it_durable_is_inside_the_time() -> None:
    _, _, end = told(relay(sender(1, 10, 0), FAST, sync=["sleep", "0.5"]))
    assert end["seconds"] - end["stream_s"] >= 0.5


@pytest.mark.parametrize(
    ("send", "receive", "sync"),
    [
        (["sh", "-c", "echo a; exit 3"], FAST, []),
        (["yes"], ["false"], []),
        (["yes"], ["true"], []),
        (["true"], FAST, ["false"]),
    ],
)
def test_a_program_that_fails_fails_the_whole(
    send: list[str], receive: list[str], sync: list[str]
) -> None:
    status, _, end = told(relay(send, receive, sync))
    assert status == bounded_pipe.FAILED
    assert any(end["statuses"])


def test_what_is_not_there_is_said() -> None:
    process = relay(["/nowhere/zfs"], FAST)
    _, words = process.communicate(timeout=60)
    assert process.returncode == bounded_pipe.NOT_STARTED
    assert b"/nowhere/zfs" in words


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_of_it(number: signal.Signals) -> None:
    process = relay(["yes"], receiver(1 << 20, 0.01))
    assert process.stdout is not None
    process.stdout.readline()  # it runs
    began = time.monotonic()
    process.send_signal(number)
    process.communicate(timeout=60)  # whose pipes the programs would hold open
    assert process.returncode == bounded_pipe.STOPPED
    assert time.monotonic() - began < 20


def test_a_sender_that_sends_nothing_does_not_outlive_a_receiver_that_failed() -> None:
    process = relay(["sleep", "300"], ["sh", "-c", "echo out of space >&2; exit 3"])
    out, words = process.communicate(timeout=60)
    assert process.returncode == bounded_pipe.FAILED
    sender_status, receiver_status, _ = json.loads(out.splitlines()[-1])["end"]["statuses"]
    assert (sender_status, receiver_status) == (-signal.SIGTERM, 3)
    assert words.splitlines()[0] == b"out of space"


def test_a_sender_that_goes_on_behind_a_receiver_that_has_all_is_waited_for() -> None:
    send = ["sh", "-c", "echo all; exec >&-; sleep 3"]
    status, _, end = told(relay(send, FAST))
    assert (status, end["bytes"]) == (0, 4)


def test_how_a_program_ended_is_said_where_it_has_no_words_itself() -> None:
    process = relay(["sh", "-c", "echo half; kill -9 $$"], FAST)
    _, words = process.communicate(timeout=60)
    assert process.returncode == bounded_pipe.FAILED
    assert words == b"sh -c ended by SIGKILL\n"


def test_waiting_is_told_as_the_programs_themselves_saw_it() -> None:
    """The pauses of a sender, then of a receiver, add up to what the pipe tells of them."""
    _, _, slow_sender = told(relay(sender(40, 1 << 18, 0.05), receiver(1 << 18, 0)))
    _, _, slow_receiver = told(relay(sender(40, 1 << 18, 0), receiver(1 << 18, 0.05)))
    # Forty pauses, less what a busy machine lets the pipe begin too late.
    assert slow_sender["waited_for_sender_s"] >= 0.5 * 40 * 0.05
    assert slow_sender["waited_for_sender_s"] > 2 * slow_sender["waited_for_receiver_s"]
    # All but those in which the kernel's own pipe, of 1 MiB, took what was there.
    assert slow_receiver["waited_for_receiver_s"] >= 0.5 * (40 - 4) * 0.05
