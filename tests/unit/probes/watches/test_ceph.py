"""The watch of a cluster, against monitors that answer, change, fail and hang."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leadline.archive import layout
from leadline.archive.reader import StoredTrial
from leadline.errors import CEPH_UNREACHABLE, LeadlineError
from leadline.formats.ceph.status import ClusterSample, MissedSample
from leadline.probes.watches.ceph import ClusterWatch

RECORDED = Path(__file__).parents[3] / "recorded" / "ceph-status"
HEALTHY = (RECORDED / "multi-az-6osd.json").read_bytes()
DEGRADED = (RECORDED / "kill1_status.json").read_bytes()
PERIOD_S = 0.01


class Monitors:
    """Answers with what `answer` gives for the number of the question."""

    def __init__(self, answer: Callable[[int], bytes]) -> None:
        self.answer = answer
        self.asked = 0
        self.several = threading.Condition()

    def mon(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes:
        assert (prefix, arguments) == ("status", {"format": "json"})
        with self.several:
            number, self.asked = self.asked, self.asked + 1
            self.several.notify_all()
        return self.answer(number)

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
