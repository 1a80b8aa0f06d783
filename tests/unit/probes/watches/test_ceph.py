"""The watch of a cluster, against monitors that answer, change, fail and hang."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from leadline.archive import layout
from leadline.archive.trial import StoredTrial
from leadline.errors import CEPH_UNREACHABLE, LeadlineError
from leadline.formats.ceph.status import ClusterSample, MissedSample, parse_cluster_log
from leadline.probes.watches.ceph import ClusterWatch

RECORDED = Path(__file__).parents[3] / "recorded" / "ceph-status"
HEALTHY = (RECORDED / "multi-az-6osd.json").read_bytes()
DEGRADED = (RECORDED / "kill1_status.json").read_bytes()
PERIOD_S = 0.01
# What monitors answer, without the fields that are not read (Ceph 16.2.15).
V2 = {"addrvec": [{"type": "v2", "addr": "10.77.1.1:6800", "nonce": 1}]}
MAPS: dict[str, Any] = {
    "mon dump": {
        "mons": [
            {"name": "a", "public_addrs": V2, "addr": "10.77.1.1:3300/0"},
            {"name": "b", "addr": "[fd00::1]:6789/0"},
        ]
    },
    "mgr stat": {"epoch": 4, "available": True, "active_name": "x", "num_standby": 1},
    "mgr dump": {
        "active_name": "x",
        "active_gid": 4102,
        "active_addrs": V2,
        "active_addr": "10.77.1.1:6805/1",
        "standbys": [{"gid": 4205, "name": "y"}],
    },
    "fs dump": {
        "standbys": [{"gid": 4301, "name": "c", "addr": ":/0"}],
        "filesystems": [
            {"mdsmap": {"info": {"gid_4100": {"gid": 4100, "name": "a", "addrs": V2}}}}
        ],
    },
}


class Monitors:
    """Answers with what `answer` gives for the number of the question."""

    def __init__(self, answer: Callable[[int], bytes]) -> None:
        self.answer = answer
        self.asked = 0
        self.maps: dict[str, Any] = json.loads(json.dumps(MAPS))
        self.silent: dict[str, str] = {}
        self.addresses: Mapping[str, tuple[str, int]] = {}
        self.several = threading.Condition()

    def mon(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes:
        assert arguments == {"format": "json"}
        if prefix != "status":
            return json.dumps(self.maps[prefix]).encode()
        with self.several:
            number, self.asked = self.asked, self.asked + 1
            self.several.notify_all()
        return self.answer(number)

    def ask_greetings(
        self, addresses: Mapping[str, tuple[str, int]], within_s: float
    ) -> Mapping[str, str]:
        self.addresses = addresses
        return {name: self.silent.get(name, "") for name in addresses}

    def wait_for(self, questions: int) -> None:
        with self.several:
            assert self.several.wait_for(lambda: self.asked >= questions, timeout=60)


def watched(folder: Path, monitors: Monitors, questions: int) -> list[dict[str, Any]]:
    with ClusterWatch(monitors, folder, period_s=PERIOD_S):
        monitors.wait_for(questions)
    return lines(folder)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / layout.CLUSTER).read_bytes().splitlines()]


def with_usage(number: int) -> bytes:
    """What changes from second to second in a cluster to which nothing happens."""
    document = json.loads(HEALTHY)
    document["pgmap"] |= {"bytes_used": number, "num_objects": number, "write_op_per_sec": number}
    document["quorum_age"] += number
    return json.dumps(document).encode()


def test_one_sample_at_the_start_and_one_at_the_end(tmp_path: Path) -> None:
    monitors = Monitors(lambda number: HEALTHY)
    with ClusterWatch(monitors, tmp_path, period_s=3600):
        monitors.wait_for(1)
    first, last = lines(tmp_path)
    assert first["status"] == json.loads(HEALTHY)
    assert first["elapsed_s"] <= last["elapsed_s"] < 60
    assert first["at"].endswith("+00:00")


def test_what_did_not_change_is_not_repeated(tmp_path: Path) -> None:
    first, *rest = watched(tmp_path, Monitors(with_usage), 4)
    assert first["status"]["pgmap"]["num_pgs"] == 144
    for number, line in enumerate(rest, start=1):
        assert set(line) == {"at", "elapsed_s", "same", "io"}
        assert line["io"]["write_op_per_sec"] == number


def test_what_changed_is_written_whole_and_read_back(tmp_path: Path) -> None:
    answers = [HEALTHY, HEALTHY, DEGRADED, HEALTHY]
    monitors = Monitors(lambda number: answers[min(number, 3)])
    watched(tmp_path, monitors, 5)
    samples = StoredTrial(tmp_path, None).cluster
    up = [sample.status.osds_up for sample in samples if isinstance(sample, ClusterSample)]
    assert up[:4] == [6, 6, 5, 6]
    assert ["status" in line for line in lines(tmp_path)][:5] == [True, False, True, True, False]


def test_a_catalogue_of_modules_is_left_out(tmp_path: Path) -> None:
    document = json.loads(HEALTHY)
    catalogue = [{"name": "x" * 1000}] * 100
    document["mgrmap"] |= {"available_modules": catalogue}
    document["mgrmap"]["standbys"] = [{"name": "b", "available_modules": catalogue}]
    watched(tmp_path, Monitors(lambda number: json.dumps(document).encode()), 1)
    assert (tmp_path / layout.CLUSTER).stat().st_size < 3000
    assert lines(tmp_path)[0]["status"]["mgrmap"]["standbys"] == [{"name": "b"}]


@pytest.mark.parametrize("answer", [b"", b"[]", b'"no"', b'{"health": {}}', b"\xff"])
def test_an_answer_that_is_no_status_is_a_line(tmp_path: Path, answer: bytes) -> None:
    written = watched(tmp_path, Monitors(lambda number: answer), 2)
    assert all(line["error"] for line in written)
    assert all(isinstance(item, MissedSample) for item in StoredTrial(tmp_path, None).cluster)


def test_a_sample_that_failed_is_a_line_and_the_watch_goes_on(tmp_path: Path) -> None:
    def answer(number: int) -> bytes:
        if number == 1:
            raise LeadlineError(CEPH_UNREACHABLE, "no answer within 10 s")
        return HEALTHY

    first, second, third, *_ = watched(tmp_path, Monitors(answer), 3)
    assert "status" in first
    assert second["error"] == "no answer within 10 s"
    assert third["same"] is True


def test_stop_does_not_wait_longer_than_its_patience(tmp_path: Path) -> None:
    release = threading.Event()

    def answer(number: int) -> bytes:
        release.wait(60)
        return HEALTHY

    monitors = Monitors(answer)
    watch = ClusterWatch(monitors, tmp_path, period_s=PERIOD_S, patience_s=0.2)
    watch.start()
    monitors.wait_for(1)
    began = time.monotonic()
    watch.stop()
    assert time.monotonic() - began < 40
    sealed = (tmp_path / layout.CLUSTER).read_bytes()
    assert "no answer within 0.2 s" in json.loads(sealed)["error"]
    release.set()
    time.sleep(0.1)
    assert (tmp_path / layout.CLUSTER).read_bytes() == sealed


def test_stop_twice_and_without_start(tmp_path: Path) -> None:
    watch = ClusterWatch(Monitors(lambda number: HEALTHY), tmp_path, period_s=PERIOD_S)
    watch.stop()
    assert not (tmp_path / layout.CLUSTER).exists()
    watch.start()
    watch.stop()
    sealed = (tmp_path / layout.CLUSTER).read_bytes()
    watch.stop()
    assert (tmp_path / layout.CLUSTER).read_bytes() == sealed


def test_an_archive_that_cannot_be_written_does_not_stop_the_trial(tmp_path: Path) -> None:
    monitors = Monitors(lambda number: HEALTHY)
    with ClusterWatch(monitors, tmp_path / "gone", period_s=PERIOD_S):
        pass
    assert monitors.asked == 0


def test_a_full_disk_does_not_stop_the_trial(tmp_path: Path) -> None:
    (tmp_path / layout.CLUSTER).symlink_to("/dev/full")
    monitors = Monitors(lambda number: HEALTHY)
    with ClusterWatch(monitors, tmp_path, period_s=PERIOD_S):
        monitors.wait_for(3)


def test_daemons_of_the_maps_with_those_that_do_not_answer(tmp_path: Path) -> None:
    monitors = Monitors(lambda number: HEALTHY)
    monitors.silent["mds.a"] = "Connection refused"
    first = watched(tmp_path, monitors, 1)[0]
    assert first["daemons"] == {
        "mds.a": {"gid": 4100, "silent": "Connection refused"},
        "mds.c": {"gid": 4301, "silent": ""},
        "mgr.x": {"gid": 4102, "silent": ""},
        "mgr.y": {"gid": 4205, "silent": ""},
        "mon.a": {"gid": 0, "silent": ""},
        "mon.b": {"gid": 0, "silent": ""},
    }
    # A standby manager has no address in the map, this standby MDS none yet.
    assert monitors.addresses == {
        "mds.a": ("10.77.1.1", 6800),
        "mgr.x": ("10.77.1.1", 6800),
        "mon.a": ("10.77.1.1", 6800),
        "mon.b": ("fd00::1", 6789),
    }


def test_a_daemon_that_falls_silent_is_a_new_line(tmp_path: Path) -> None:
    monitors = Monitors(lambda number: with_usage(number))
    with ClusterWatch(monitors, tmp_path, period_s=PERIOD_S):
        monitors.wait_for(3)
        monitors.silent["mgr.x"] = "Connection refused"
        monitors.wait_for(8)
    full = [line for line in lines(tmp_path) if "status" in line]
    assert [line["daemons"]["mgr.x"]["silent"] for line in full] == ["", "Connection refused"]


def test_a_map_is_read_again_where_its_epoch_is_new(tmp_path: Path) -> None:
    monitors = Monitors(lambda number: HEALTHY)
    with ClusterWatch(monitors, tmp_path, period_s=PERIOD_S):
        monitors.wait_for(3)
        monitors.maps["mgr dump"] |= {"active_name": "y", "active_gid": 4205, "standbys": []}
        monitors.maps["mgr stat"]["epoch"] += 1
        monitors.wait_for(8)
    full = [line for line in lines(tmp_path) if "status" in line]
    assert [sorted(name for name in line["daemons"] if name[:3] == "mgr") for line in full] == [
        ["mgr.x", "mgr.y"],
        ["mgr.y"],
    ]


def test_the_status_counts_where_the_daemons_are_unknown(tmp_path: Path) -> None:
    """Luminous has no `mgr stat`, and other releases may have other maps."""
    monitors = Monitors(lambda number: HEALTHY)
    del monitors.maps["mgr stat"]
    first = watched(tmp_path, monitors, 1)[0]
    assert first["status"] == json.loads(HEALTHY)
    assert "mgr stat" in first["daemons_unknown"]


def test_a_service_that_leaves_is_a_new_line(tmp_path: Path) -> None:
    def answer(number: int) -> bytes:
        document = json.loads(with_usage(number))
        gateways = {"summary": ""} | ({"a": {"gid": 4400}} if number < 3 else {})
        document["servicemap"] = {"epoch": number, "services": {"rgw": {"daemons": gateways}}}
        return json.dumps(document).encode()

    watched(tmp_path, Monitors(answer), 6)
    samples = [
        sample
        for sample in parse_cluster_log((tmp_path / layout.CLUSTER).read_bytes())
        if isinstance(sample, ClusterSample)
    ]
    assert [dict(sample.status.services) for sample in samples[:4]] == [*[{"rgw.a": 4400}] * 3, {}]
