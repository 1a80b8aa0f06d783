"""The watch of OSDs, against daemons that answer, change, fail and hang."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leadline.archive import layout
from leadline.archive.trial import StoredTrial
from leadline.errors import CEPH_UNREACHABLE, LeadlineError
from leadline.formats.ceph.counters import OsdPerf, operation_sizes, osd_rates
from leadline.formats.json_lines import Missed
from leadline.probes.watches import ceph
from leadline.probes.watches.ceph import CephCountersWatch, count_sizes
from tests.awaiting import wait_for

PERIOD_S = 0.02
TREE = {
    "nodes": [
        {"id": -1, "name": "default", "type": "root", "children": [-2, -3]},
        {"id": -2, "name": "h1", "type": "host", "children": [0]},
        {"id": -3, "name": "h2", "type": "host", "children": [1]},
        {"id": 0, "name": "osd.0", "type": "osd"},
        {"id": 1, "name": "osd.1", "type": "osd"},
    ],
    "stray": [],
}


class Cluster:
    """Two OSDs, each of which counts how often it was asked."""

    def __init__(self) -> None:
        self.dumps = {0: 0, 1: 0}
        self.perfs = 0
        self.on_osd: Callable[[int], None] = lambda number: None

    def histogram(self, number: int) -> bytes:
        """Of as many writes of 16 KiB as there were dumps, and one read of 600 bytes."""
        sizes = [{"max": -1}, {"min": 0, "max": 511}, {"min": 512}, {"min": 16384}]
        axes = [{"ranges": [{"max": -1}, {"min": 0}]}, {"ranges": sizes}]
        writes = [[0, 0, 0, 0], [1, 2, 0, self.dumps[number]]]
        return json.dumps(
            {
                "osd": {
                    "op_w_latency_in_bytes_histogram": {"axes": axes, "values": writes},
                    "op_r_latency_out_bytes_histogram": {
                        "axes": axes,
                        "values": [[0, 0, 1, 0], [0, 0, 0, 0]],
                    },
                }
            }
        ).encode()

    def mon(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes:
        assert (prefix, arguments) == ("osd tree", {"states": ["up"], "format": "json"})
        return json.dumps(TREE).encode()

    def mgr(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes:
        assert prefix == "osd perf"
        self.perfs += 1
        stats = {"commit_latency_ms": 3, "commit_latency_ns": 3_000_000, "apply_latency_ns": 1}
        infos = [{"id": number, "perf_stats": stats} for number in self.dumps]
        return json.dumps({"osdstats": {"osd_perf_infos": infos}}).encode()

    def osd(self, number: int, prefix: str, /, **arguments: object) -> bytes:
        if prefix == "perf histogram dump":
            assert arguments == {"logger": "osd", "format": "json"}
            return self.histogram(number)
        assert prefix == "perf dump"
        self.on_osd(number)
        self.dumps[number] += 1
        done = 100 * self.dumps[number]
        latency = {"avgcount": done, "sum": done * 0.002, "avgtime": 0.002}
        return json.dumps(
            {
                "osd": {"op": done, "op_latency": latency, "op_wip": 1},
                "bluestore": {"kv_commit_lat": latency},
                "mempool": {"x": 1},
            }
        ).encode()


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / layout.CEPH_COUNTERS).read_bytes().splitlines()]


def test_dumps_at_start_and_end_and_latencies_between(tmp_path: Path) -> None:
    cluster = Cluster()
    with CephCountersWatch(cluster, tmp_path, period_s=PERIOD_S):
        wait_for(lambda: cluster.perfs > 1)
    first, *between, last = lines(tmp_path)
    assert cluster.dumps == {0: 2, 1: 2}
    assert first["hosts"] == {"0": "h1", "1": "h2"}
    # Of 600 counters those stay that are read.
    assert first["osds"]["0"] == {
        "osd.op": 100,
        "osd.op_latency": [100, 0.2],
        "bluestore.kv_commit_lat": [100, 0.2],
    }
    assert last["osds"]["1"]["osd.op"] == 200
    assert between
    assert all(item["perf"] == {"0": [3_000_000, 1], "1": [3_000_000, 1]} for item in between)
    samples = StoredTrial(tmp_path, None).ceph_counters
    assert any(isinstance(sample, OsdPerf) for sample in samples)
    rates = osd_rates(samples)
    assert [(rate.osd, rate.host) for rate in rates] == [(0, "h1"), (1, "h2")]
    assert rates[0].means_s["osd.op_latency"] == pytest.approx(0.002)


def test_count_sizes_at_start_and_end(tmp_path: Path) -> None:
    cluster = Cluster()
    with CephCountersWatch(cluster, tmp_path, period_s=3600):
        time.sleep(0.05)
    first, last = lines(tmp_path)
    # The bucket below zero, which nothing should be in, counts as the one of zero.
    assert first["sizes"]["0"] == {"op_w": {"0": 3, "16384": 1}, "op_r": {"512": 1}}
    assert last["sizes"]["1"]["op_w"] == {"0": 3, "16384": 2}
    samples = StoredTrial(tmp_path, None).ceph_counters
    assert operation_sizes(samples) == {"op_w": {16384: 2}, "op_r": {}}


def test_sizes_of_a_real_osd() -> None:
    """799 writes of 16 KiB by fio's last job and the one before, then small ones and 27 of 1 MiB
    as `rados bench` made them."""
    dump = json.loads(
        Path("tests/recorded/layers/osd-perf-histogram-dump-pacific.json").read_bytes()
    )
    sizes = count_sizes(dump)
    assert sizes["op_w"]["16384"] == 798
    assert sizes["op_w"]["1048576"] == 27
    assert set(sizes) == {"op_r", "op_w", "op_rw"}


def test_an_osd_without_histograms_still_reports_its_counters(tmp_path: Path) -> None:
    class Old(Cluster):
        def histogram(self, number: int) -> bytes:
            raise LeadlineError(CEPH_UNREACHABLE, "no such command")

    with CephCountersWatch(Old(), tmp_path, period_s=3600):
        time.sleep(0.05)
    samples = StoredTrial(tmp_path, None).ceph_counters
    assert [osd_rate.osd for osd_rate in osd_rates(samples)] == [0, 1]
    assert operation_sizes(samples) == {}


def test_an_osd_that_is_silent_does_not_hide_the_others(tmp_path: Path) -> None:
    def refuse(number: int) -> None:
        if number == 0:
            raise LeadlineError(CEPH_UNREACHABLE, "no answer within 10 s")

    cluster = Cluster()
    cluster.on_osd = refuse
    with CephCountersWatch(cluster, tmp_path, period_s=3600):
        time.sleep(0.05)
    first, last = lines(tmp_path)
    assert first["failed"] == {"0": "no answer within 10 s"}
    assert set(last["osds"]) == {"1"}
    assert [osd_rate.osd for osd_rate in osd_rates(StoredTrial(tmp_path, None).ceph_counters)] == [
        1
    ]


def test_osds_are_asked_for_a_bounded_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceph, "_DUMPS_S", 0.05)
    cluster = Cluster()
    cluster.on_osd = lambda number: time.sleep(0.1)
    with CephCountersWatch(cluster, tmp_path, period_s=3600):
        pass
    assert "not asked" in lines(tmp_path)[0]["failed"]["1"]


@pytest.mark.parametrize("answer", [b"", b"[]", b'{"osd": 1}', b"{}", b"\xff"])
def test_an_answer_that_is_no_dump_is_reported(tmp_path: Path, answer: bytes) -> None:
    class Odd(Cluster):
        def osd(self, number: int, prefix: str, /, **arguments: object) -> bytes:
            return answer

    with CephCountersWatch(Odd(), tmp_path, period_s=3600):
        pass
    assert set(lines(tmp_path)[0]["failed"]) == {"0", "1"}


def test_monitors_that_fail_are_a_line_and_the_watch_goes_on(tmp_path: Path) -> None:
    class Silent(Cluster):
        def mon(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes:
            raise LeadlineError(CEPH_UNREACHABLE, "no monitor answers")

    cluster = Silent()
    with CephCountersWatch(cluster, tmp_path, period_s=PERIOD_S):
        wait_for(lambda: cluster.perfs > 1)
    samples = StoredTrial(tmp_path, None).ceph_counters
    assert isinstance(samples[0], Missed)
    assert samples[0].reason == "no monitor answers"
    assert any(isinstance(sample, OsdPerf) for sample in samples)


def test_stop_does_not_wait_longer_than_its_patience(tmp_path: Path) -> None:
    release = threading.Event()
    cluster = Cluster()
    cluster.on_osd = lambda number: release.wait(60)  # type: ignore[assignment]
    watch = CephCountersWatch(cluster, tmp_path, patience_s=0.2)
    watch.start()
    began = time.monotonic()
    watch.stop()
    assert time.monotonic() - began < 40
    sealed = (tmp_path / layout.CEPH_COUNTERS).read_bytes()
    assert "no answer within 0.2 s" in json.loads(sealed)["error"]
    release.set()
    time.sleep(0.1)
    assert (tmp_path / layout.CEPH_COUNTERS).read_bytes() == sealed


def test_stop_without_start_and_without_a_folder(tmp_path: Path) -> None:
    CephCountersWatch(Cluster(), tmp_path).stop()
    cluster = Cluster()
    with CephCountersWatch(cluster, tmp_path / "gone"):
        pass
    assert cluster.dumps == {0: 0, 1: 0}
