"""Rules on streams of ZFS, of which a pipe measures who was waited for."""

from __future__ import annotations

import json

import pytest

from leadline.audit.evidence import Place, TrialEvidence
from leadline.audit.rules import client_saturated, client_straggles, exceeds_ceiling
from leadline.formats.zfs.stream import parse_zfs_stream, stream_output
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("finishing_s", "waited_s", "relay_cpu_s", "fires"),
    [
        (0.5, 1.0, 9.0, True),
        (0.5, 8.0, 9.0, False),  # the pipe worked hard, and the receiver was slower
        (8.0, 0.5, 9.0, False),  # nearly all of it was the receiver's end
        (0.5, 1.0, 2.0, False),  # it was no work of the pipe's, but waiting for a processor
        (None, 1.0, 9.0, False),  # unknown in an earlier archive
    ],
)
def test_client_saturated_fires_on_a_pipe_that_held_a_stream_back(
    finishing_s: float | None,
    waited_s: float,
    relay_cpu_s: float,
    fires: bool,
) -> None:
    record = json.loads((ROOT / "tests/recorded/zfs-stream/zfs-stream.json").read_bytes())
    (stream, *_) = record["streams"]
    stream |= {"counted": True, "seconds": 10.0, "stream_s": 10.0, "relay_cpu_s": relay_cpu_s}
    stream |= {"finishing_s": finishing_s, "waited_for_receiver_s": waited_s}
    stream |= {"waited_for_sender_s": 0.1, "starved_receiver_s": 0.1}
    content = json.dumps({**record, "streams": [stream]}).encode()
    report = parse_zfs_stream(content)
    trial = TrialEvidence(place=Place(), output=stream_output(report), windows={}, stream=report)
    assert len(list(client_saturated.check.check(trial))) == fires


@pytest.mark.parametrize(
    ("mib_per_s", "record_bytes", "fires"),
    [
        (400, 512, True),
        (350, 512, False),
        (3_000, 8192, False),
        (17_000, 131072, True),
        (1_000, 131072, False),
        (17_000, None, False),  # an earlier archive
    ],
)
def test_exceeds_ceiling_fires_on_more_than_one_thread_receives(
    mib_per_s: float, record_bytes: int | None, fires: bool
) -> None:
    record = json.loads((ROOT / "tests/recorded/zfs-stream/zfs-stream.json").read_bytes())
    (stream, *_) = record["streams"]
    stream |= {"counted": True, "seconds": 10.0, "stream_s": 10.0}
    stream["bytes"] = round(10 * mib_per_s * 2**20)
    content = json.dumps({**record, "record_bytes": record_bytes, "streams": [stream]}).encode()
    report = parse_zfs_stream(content)
    trial = TrialEvidence(place=Place(), output=stream_output(report), windows={}, stream=report)
    found = list(exceeds_ceiling.check.check(trial))
    assert len(found) == fires
    if found:
        assert "one thread can receive" in found[0].message


@pytest.mark.parametrize(
    ("seconds", "fires"),
    [((10.0, 10.0), False), ((9.5, 10.0), False), ((5.0, 10.0), True)],
)
def test_client_straggles_fires_on_a_stream_that_ended_early(
    seconds: tuple[float, float], fires: bool
) -> None:
    record = json.loads((ROOT / "tests/recorded/zfs-stream/zfs-stream.json").read_bytes())
    record["request"]["numjobs"] = 2
    (stream, *_) = record["streams"]
    streams = [
        {**stream, "number": number, "counted": True, "seconds": each, "stream_s": each}
        for number, each in enumerate(seconds, start=1)
    ]
    report = parse_zfs_stream(json.dumps({**record, "streams": streams}).encode())
    trial = TrialEvidence(place=Place(), output=stream_output(report), windows={}, stream=report)
    found = list(client_straggles.check.check(trial))
    assert len(found) == fires
    if found:
        assert "ran together for 50%" in found[0].message


def test_two_threads_receive_twice_as_much() -> None:
    record = json.loads((ROOT / "tests/recorded/zfs-stream/zfs-stream.json").read_bytes())
    record["request"]["numjobs"] = 2
    (stream, *_) = record["streams"]
    stream |= {"counted": True, "seconds": 10.0, "stream_s": 10.0, "bytes": 10 * 350 << 20}
    streams = [{**stream, "number": number} for number in (1, 2)]
    content = json.dumps({**record, "record_bytes": 512, "streams": streams}).encode()
    report = parse_zfs_stream(content)
    trial = TrialEvidence(place=Place(), output=stream_output(report), windows={}, stream=report)
    assert list(exceeds_ceiling.check.check(trial)) == []
