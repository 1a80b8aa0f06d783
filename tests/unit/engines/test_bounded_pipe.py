"""The pipe between two programs that are known to be slow, run as the engine runs it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import signal
import socket
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
# Passes its input on, 20 pieces a second.
LINK = """
import os, time
while piece := os.read(0, 65536):
    time.sleep(0.05)
    os.write(1, piece)
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


def far_end(
    receive: list[str], *, port: int | None = None, before: str = "", sync: list[str] | None = None
) -> dict[str, Any]:
    """What another host does, as a program of this one, behind the program `before`."""
    asked = {
        "receive": receive,
        "sync": sync or [],
        "buffer_bytes": BUFFER,
        "sample_s": 0.05,
        "port": port,
    }
    code = Path(bounded_pipe.__file__).read_text()
    far = [
        *("env", "SSH_CONNECTION=127.0.0.1 1 127.0.0.1 22"),
        *(sys.executable, "-I", "-S", "-c", code, json.dumps(asked)),
    ]
    if before:
        far = ["sh", "-c", f'{before} | exec "$@"', "sh", *far]
    return {"receive": far, "via": "ssh" if port is None else "tcp", "sync": []}


def relay_all(streams: list[dict[str, Any]], buffer: int = BUFFER) -> subprocess.Popen[bytes]:
    asked = {"streams": streams, "buffer_bytes": buffer, "sample_s": 0.05}
    return subprocess.Popen(
        [sys.executable, "-I", "-S", bounded_pipe.__file__, json.dumps(asked)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def told(process: subprocess.Popen[bytes]) -> tuple[int, list[Any], dict[str, Any]]:
    """Exit status, samples, totals."""
    status, lines, ends = told_of_all(process)
    return status, lines, ends[1]


def told_of_all(
    process: subprocess.Popen[bytes],
) -> tuple[int, list[Any], dict[int, dict[str, Any]]]:
    """Exit status, samples, and totals by the number of the stream."""
    out, _ = process.communicate(timeout=60)
    lines = [json.loads(line) for line in out.splitlines()]
    ends = {line["stream"]: line["end"] for line in lines if "end" in line}
    return process.returncode, [line for line in lines if "end" not in line], ends


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


def test_streams_at_the_same_time_count_from_one_start(tmp_path: Path) -> None:
    streams = [
        {
            "stream": number,
            "send": sender(4 * number, 50_000, 0.1),
            "receive": ["sh", "-c", f"cat >{tmp_path / str(number)}"],
            "sync": [],
        }
        for number in (1, 2, 3)
    ]
    status, samples, ends = told_of_all(relay_all(streams))
    assert status == 0
    assert {number: end["bytes"] for number, end in ends.items()} == {
        1: 200_000,
        2: 400_000,
        3: 600_000,
    }
    assert [(tmp_path / str(number)).stat().st_size for number in ends] == [
        end["bytes"] for end in ends.values()
    ]
    assert len({end["began_at"] for end in ends.values()}) == 1
    assert {one["stream"] for one in samples} == {1, 2, 3}


def test_a_stream_that_fails_ends_the_others(tmp_path: Path) -> None:
    fails = {"stream": 1, "send": ["sh", "-c", "echo half; exit 3"], "receive": FAST, "sync": []}
    goes_on = {"stream": 2, "send": ["yes"], "receive": FAST, "sync": []}
    process = relay_all([fails, goes_on])
    _, words = process.communicate(timeout=60)
    assert process.returncode == bounded_pipe.FAILED
    assert words == b"sh -c ended with status 3\n"


@pytest.mark.parametrize("port", [None, 0])
def test_the_other_end_measures_its_own_side(tmp_path: Path, port: int | None) -> None:
    received = tmp_path / "received"
    there = far_end(["sh", "-c", f"cat >{received}"], port=port, sync=["sleep", "0.5"])
    send = sender(10, 100_000, 0.02)
    status, _, ends = told_of_all(relay_all([{"stream": 1, "send": send, **there}]))
    assert status == 0
    (end,) = ends.values()
    far = end["far"]
    assert far["bytes"] == end["bytes"] == 1_000_000 == received.stat().st_size
    # What makes it durable there is inside the time, and no part of the stream.
    assert end["seconds"] - end["stream_s"] >= 0.5
    assert far["seconds"] - far["stream_s"] >= 0.5
    assert ("address" in end) == (port is not None)


def test_of_a_slow_link_both_ends_tell() -> None:
    link = f"{sys.executable} -c '{LINK}'"
    there = far_end(FAST, before=link)
    send = sender(24, 1 << 17, 0)
    status, _, ends = told_of_all(relay_all([{"stream": 1, "send": send, **there}]))
    assert status == 0
    end = ends[1]
    linked_s = min(end["waited_for_receiver_s"], end["far"]["waited_for_sender_s"])
    assert linked_s > 2 * end["far"]["waited_for_receiver_s"]
    assert linked_s > 0.5


def test_of_a_slow_receiver_the_far_end_tells() -> None:
    there = far_end(receiver(1 << 18, 0.05))
    send = sender(40, 1 << 18, 0)
    _, _, ends = told_of_all(relay_all([{"stream": 1, "send": send, **there}]))
    far = ends[1]["far"]
    assert far["waited_for_receiver_s"] + far["finishing_s"] > 2 * far["waited_for_sender_s"]


@pytest.mark.parametrize("port", [None, 0])
def test_a_far_receiver_that_fails_fails_the_whole(port: int | None) -> None:
    there = far_end(["sh", "-c", "echo out of space >&2; exit 3"], port=port)
    process = relay_all([{"stream": 1, "send": ["yes"], **there}])
    _, words = process.communicate(timeout=60)
    assert process.returncode == bounded_pipe.FAILED
    assert words.splitlines()[:2] == [b"out of space", b"sh -c ended with status 3"]


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = relay_all([{"stream": 1, "send": ["yes"], **far_end(FAST, port=port)}])
        _, words = process.communicate(timeout=60)
    assert process.returncode == bounded_pipe.FAILED
    assert f"cannot listen at 127.0.0.1 port {port}: Address already in use" in words.decode()


def test_a_stranger_at_the_port_is_turned_away() -> None:
    command = far_end(["cat"], port=0)["receive"]
    far = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert far.stdin is not None
    assert far.stdout is not None
    secret = b"s" * 32
    far.stdin.write(secret)
    far.stdin.flush()
    address = tuple(json.loads(far.stdout.readline())["ready"])
    with socket.create_connection(address) as stranger:
        stranger.sendall(b"?" * 32 + b"not this")
        stranger.settimeout(30)
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(1) == b""
    with socket.create_connection(address) as known:
        known.sendall(secret + b"this")
    assert far.wait(60) == 0
    assert far.stderr is not None
    assert far.stderr.read() == b"this"
    end = json.loads(far.stdout.read().splitlines()[-1])["end"]
    assert end["bytes"] == 4
    for stream in (far.stdin, far.stdout, far.stderr):
        stream.close()


@pytest.mark.parametrize("port", [None, 0])
def test_a_signal_here_ends_the_other_end(tmp_path: Path, port: int | None) -> None:
    ended = tmp_path / "ended"
    there = far_end(["sh", "-c", f"cat >/dev/null; echo >{ended}"], port=port)
    process = relay_all([{"stream": 1, "send": ["yes"], **there}])
    assert process.stdout is not None
    process.stdout.readline()  # it runs
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == bounded_pipe.STOPPED
