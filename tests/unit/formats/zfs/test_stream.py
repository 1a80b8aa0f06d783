from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leadline.archive.raw import read_output, read_windows
from leadline.formats.result import FormatError
from leadline.formats.zfs.stream import parse_zfs_stream, read_zfs_stream, stream_output
from leadline.metrics import Metric, Op
from tests.conftest import ROOT
from tests.unit.formats.ceph.test_rados_bench import found

TRIAL = ROOT / "tests" / "recorded" / "zfs-stream"
RECORD = (TRIAL / "zfs-stream.json").read_bytes()
SAMPLES = (TRIAL / "zfs-stream.jsonl").read_bytes()


def test_the_figures_are_those_of_the_streams_behind_the_ramp() -> None:
    report = parse_zfs_stream(RECORD, SAMPLES)
    raw = json.loads(RECORD)["streams"]
    assert [one.counted for one in report.streams] == [False] + [True] * (len(raw) - 1)
    counted = raw[1:]
    assert report.bytes == sum(one["bytes"] for one in counted)
    assert report.bandwidth_bps == pytest.approx(
        sum(one["bytes"] for one in counted) / sum(one["seconds"] for one in counted)
    )
    assert (report.record.record_bytes, report.record.version) == (16384, "zfs-fuse")
    # Each stream holds 64 MiB of files, and what describes them.
    assert all(64 << 20 < one.bytes < 1.05 * (64 << 20) for one in report.streams)


def test_a_trial_of_months_is_refused() -> None:
    """There is a window for each second of it."""
    raw = json.loads(RECORD)
    for one in raw["streams"]:
        one["seconds"] = 29 * 86400.0
    with pytest.raises(FormatError, match="more than 2592000 s"):
        parse_zfs_stream(json.dumps(raw).encode())


def test_as_an_output_it_is_one_write_without_ios_and_latencies() -> None:
    output = read_output("zfs stream", TRIAL)
    (job,) = output.jobs
    (write,) = job.operations
    reported = {metric for metric, value in write.metrics().items() if value is not None}
    assert (write.op, reported) == (Op.WRITE, {Metric.BANDWIDTH})
    assert (write.iops, write.total_ios, write.total) == (None, None, None)
    assert job.options.engine == "zfs-stream"
    assert job.options.iodepth is None
    assert job.elapsed_s > job.job_runtime_s >= 2
    assert read_windows("zfs stream", TRIAL) == {}


def test_the_audit_has_nothing_to_say_of_it() -> None:
    assert found(stream_output(parse_zfs_stream(RECORD, SAMPLES))) == set()


def test_throughput_over_time_adds_up_to_what_was_sent() -> None:
    report = parse_zfs_stream(RECORD, SAMPLES)
    windows = report.bandwidth_windows()
    assert [one.end_s for one in windows] == [float(end) for end in range(1, len(windows) + 1)]
    assert len(windows) == int(report.seconds)
    moved = sum(one.value for one in windows)
    assert moved <= report.bytes
    assert moved >= report.bytes * (len(windows) / report.seconds) * 0.8
    assert all(one.buffered_bytes <= report.record.request.buffer_bytes for one in report.samples)


def test_a_folder_without_streams_has_no_report(tmp_path: Path) -> None:
    assert read_zfs_stream(tmp_path) is None
    with pytest.raises(FormatError) as refused:
        read_output("zfs stream", tmp_path)
    assert refused.value.condition == "empty-result"


def test_samples_are_not_needed_for_the_figures(tmp_path: Path) -> None:
    shutil.copy(TRIAL / "zfs-stream.json", tmp_path)
    report = read_zfs_stream(tmp_path)
    assert report is not None
    assert report.samples == ()
    assert report.bandwidth_bps == parse_zfs_stream(RECORD, SAMPLES).bandwidth_bps


def _other_guid(streams: list[Any]) -> None:
    streams[1]["received_guid"] = "1"


def _other_file(streams: list[Any]) -> None:
    streams[2]["files"][1]["received"] = "0" * 64


def _lost_file(streams: list[Any]) -> None:
    streams[2]["files"][1]["received"] = ""


def _no_file(streams: list[Any]) -> None:
    streams[2]["files"] = []


def _not_verified(streams: list[Any]) -> None:
    streams[3] |= {"guid": "", "received_guid": ""}


def _out_of_order(streams: list[Any]) -> None:
    streams[0]["number"] = 2


def _longer_than_itself(streams: list[Any]) -> None:
    streams[1]["stream_s"] = streams[1]["seconds"] + 1


def _no_time(streams: list[Any]) -> None:
    streams[1]["seconds"] = 0


def _unknown_key(streams: list[Any]) -> None:
    streams[1]["surprise"] = 1


@pytest.mark.parametrize(
    "damage",
    [
        _other_guid,
        _other_file,
        _lost_file,
        _no_file,
        _not_verified,
        _out_of_order,
        _longer_than_itself,
        _no_time,
        _unknown_key,
    ],
)
def test_what_contradicts_itself_or_differs_is_no_result(
    damage: Callable[[list[Any]], None],
) -> None:
    document = copy.deepcopy(json.loads(RECORD))
    damage(document["streams"])
    with pytest.raises(FormatError) as refused:
        parse_zfs_stream(json.dumps(document).encode())
    assert refused.value.condition == "unreadable-result"


def test_a_trial_that_never_left_its_ramp_is_empty() -> None:
    document = json.loads(RECORD)
    document["streams"] = document["streams"][:1]
    with pytest.raises(FormatError) as refused:
        parse_zfs_stream(json.dumps(document).encode())
    assert refused.value.condition == "empty-result"


@pytest.mark.parametrize(
    "line",
    [b"{", b"[]", b'{"stream": 1}', SAMPLES.splitlines()[0].replace(b'"at_s":', b'"at_s":-')],
)
def test_samples_that_are_none_are_reported_with_their_line(line: bytes) -> None:
    first = SAMPLES.splitlines()[0]
    with pytest.raises(FormatError) as refused:
        parse_zfs_stream(RECORD, first + b"\n" + line)
    assert "line 2" in refused.value.fact


FAR = {
    "bytes": 100,
    "seconds": 8.0,
    "stream_s": 8.0,
    "waited_for_sender_s": 6.0,
    "held_sender_s": 0.0,
    "waited_for_receiver_s": 1.0,
    "starved_receiver_s": 6.0,
    "finishing_s": 0.5,
    "most_buffered_bytes": 10,
    "mean_buffered_bytes": 5,
    "relay_cpu_s": 0.1,
}


def at_the_same_time(*seconds: float, counted: bool = True) -> dict[str, Any]:
    """A record of rounds of two streams with 100 bytes each."""
    raw: dict[str, Any] = json.loads(RECORD)
    raw["request"]["numjobs"] = 2
    first = raw["streams"][0] | {"bytes": 100, "counted": counted}
    raw["streams"] = [
        {**first, "number": number, "seconds": each, "stream_s": each}
        for number, each in enumerate(seconds, start=1)
    ]
    return raw


def test_streams_at_the_same_time_take_as_long_as_the_last_of_them() -> None:
    samples = b"".join(
        json.dumps(
            {**json.loads(SAMPLES.splitlines()[0]), "stream": stream, "at_s": at_s}
            | {"read_bytes": written, "written_bytes": written}
        ).encode()
        + b"\n"
        for stream, at_s, written in ((1, 1.0, 50), (2, 1.0, 25), (1, 2.0, 100), (2, 2.0, 50))
    )
    report = parse_zfs_stream(json.dumps(at_the_same_time(2.0, 4.0, 3.0, 3.0)).encode(), samples)
    assert (report.bytes, report.seconds, report.stream_seconds) == (400, 7.0, 12.0)
    assert report.together_share == pytest.approx(5 / 7)
    rates = [window.value for window in report.bandwidth_windows()]
    assert rates[:4] == [75.0, 75.0, 25.0, 25.0]
    assert sum(rates) == pytest.approx(400)
    (job,) = stream_output(report).jobs
    assert (job.options.numjobs, job.elapsed_s) == (2, 7.0)
    assert job.operations[0].bandwidth_bps == pytest.approx(400 / 7)


def test_streams_that_are_no_whole_rounds_are_refused() -> None:
    half = at_the_same_time(2.0, 2.0, 2.0)
    mixed = at_the_same_time(2.0, 2.0)
    mixed["streams"][1]["counted"] = False
    for raw in (half, mixed):
        with pytest.raises(FormatError, match="whole rounds"):
            parse_zfs_stream(json.dumps(raw).encode())


def test_a_stream_to_another_host_has_a_link() -> None:
    raw = json.loads(RECORD)
    raw["route"] = {"host": "b", "dataset": "pool/x", "via": "tcp", "version": "zfs-2.3"}
    for stream in raw["streams"]:
        stream["waited_for_receiver_s"] = 7.0
        stream["far"] = FAR | {"bytes": stream["bytes"]}
        stream["address"] = ["192.0.2.1", 9090]
    report = parse_zfs_stream(json.dumps(raw).encode())
    (stream, *_) = report.streams
    assert (stream.for_link_s, stream.for_receiver_s) == (6.0, 1.5)
    assert stream.address == ("192.0.2.1", 9090)
    assert json.loads(report.record.text())["route"]["host"] == "b"
    raw["streams"][0]["far"]["bytes"] -= 1
    with pytest.raises(FormatError, match="of which"):
        parse_zfs_stream(json.dumps(raw).encode())


def test_what_earlier_versions_do_not_know_is_written_only_where_it_is_used() -> None:
    text = parse_zfs_stream(RECORD, SAMPLES).record.text()
    raw = json.loads(text)
    assert "route" not in raw
    assert "numjobs" not in raw["request"]
    assert not {"far", "address"} & raw["streams"][0].keys()
