"""What is asked of Prometheus after a trial, and servers that answer late, too much, or nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leadline.archive import layout
from leadline.archive.trial import StoredTrial
from leadline.formats.prometheus import MissedAnswer, PrometheusAnswer, queries
from leadline.plan.prometheus import StorageMonitoring
from leadline.probes.watches import prometheus
from leadline.probes.watches.prometheus import PrometheusWatch
from tests.unit.connect.prometheus_double import PrometheusDouble, prometheus_double, vector

NAMES = list(queries(1.0, ("a",), None))


@pytest.fixture(scope="module")
def running() -> Iterator[PrometheusDouble]:
    with prometheus_double() as double:
        yield double


@pytest.fixture
def double(running: PrometheusDouble) -> PrometheusDouble:
    running.status, running.queries, running.times, running.wait_s = 200, [], [], 0.0
    running.answer = scalar
    return running


def scalar(query: str) -> object:
    """The time of the server, ten minutes ahead, and no series."""
    if query != "time()":
        return vector()
    data = {"resultType": "scalar", "result": [1.0, str(time.time() + 600)]}
    return {"status": "success", "data": data}


def watched(url: str, folder: Path, **settings: Any) -> tuple[PrometheusAnswer | MissedAnswer, ...]:
    with PrometheusWatch(StorageMonitoring(url=url, **settings), folder):
        pass
    return StoredTrial(folder, None).prometheus


def test_nothing_is_asked_before_the_end_and_each_query_once_after_it(
    double: PrometheusDouble, tmp_path: Path
) -> None:
    watch = PrometheusWatch(StorageMonitoring(url=double.url, instances="ceph-.*"), tmp_path)
    watch.start()
    assert double.queries == []
    watch.stop()
    watch.stop()
    record = StoredTrial(tmp_path, None).prometheus
    assert double.queries == ["time()", *(one.query for one in record)]  # type: ignore[union-attr]
    assert [one.name for one in record] == NAMES
    assert all(isinstance(one, PrometheusAnswer) and one.chosen for one in record)
    (offset_s,) = {one.clock_offset_s for one in record if isinstance(one, PrometheusAnswer)}
    assert offset_s == pytest.approx(600, abs=30)
    # At the end of the trial by the server's own clock.
    (at,) = set(double.times[1:])
    assert 500 < float(at) - time.time() < 610


def test_a_server_that_is_away_or_refuses_is_noted(
    double: PrometheusDouble, tmp_path: Path
) -> None:
    (missed,) = watched("http://127.0.0.1:1", tmp_path)
    assert isinstance(missed, MissedAnswer)
    assert "gives no reading" in missed.reason
    (tmp_path / "b").mkdir()
    double.status, double.answer = 401, b"no token"
    (missed,) = watched(double.url, tmp_path / "b")
    assert "HTTP status 401" in missed.reason  # type: ignore[union-attr]


def test_a_slow_server_is_asked_once(
    double: PrometheusDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus, "_ANSWER_S", 0.1)
    double.wait_s = 0.4
    (missed,) = watched(double.url, tmp_path)
    assert "no answer within 0.1 s" in missed.reason  # type: ignore[union-attr]
    assert double.queries == ["time()"]


def test_one_query_too_large_or_wrong_leaves_the_others(
    double: PrometheusDouble, tmp_path: Path
) -> None:
    def answer(query: str) -> object:
        if query.startswith("sum by (node, instance, mode)"):
            return b'{"status": "success", "data": ' + b" " * (2 << 20)
        if "node_disk_io_time_seconds" in query:
            return b'{"status": "success", "data": {"resultType": "vector", "result": [1]}}'
        return scalar(query)

    double.answer = answer
    record = watched(double.url, tmp_path)
    assert [one.name for one in record] == NAMES
    missed = {one.name: one.reason for one in record if isinstance(one, MissedAnswer)}
    assert set(missed) == {"cpu", "disk_busy"}
    assert "longer than 1 MiB" in missed["cpu"]


def test_neither_a_missing_folder_nor_a_full_disk_stops_the_trial(
    double: PrometheusDouble, tmp_path: Path
) -> None:
    with PrometheusWatch(StorageMonitoring(url=double.url), tmp_path / "gone"):
        pass
    assert double.queries == []
    (tmp_path / layout.PROMETHEUS).symlink_to("/dev/full")
    with PrometheusWatch(StorageMonitoring(url=double.url), tmp_path):
        pass


def test_secrets_in_labels_do_not_reach_the_archive(
    double: PrometheusDouble, tmp_path: Path
) -> None:
    secret = "AQBh6cJmAAAAABAAZ0VyQ2VwaCBrZXkgaGVyZQ=="

    def answer(query: str) -> object:
        found = scalar(query)
        if "node_cpu" in query:
            found["data"]["result"] = [{"metric": {"password": secret}, "value": [1, "1"]}]  # type: ignore[index]
        return found

    double.answer = answer
    watched(double.url, tmp_path)
    layout.redact_output(tmp_path)
    content = (tmp_path / layout.PROMETHEUS).read_text()
    assert secret not in content
    assert all(json.loads(one) for one in content.splitlines())
