"""Rates of a storage's hosts from answers of Prometheus, whatever is missing or wrong in them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest

from leadline.formats.prometheus import (
    parse_answer,
    parse_prometheus_record,
    queries,
    storage_rates,
)
from leadline.formats.result import FormatError
from leadline.formats.watch_records import Role

NODE = {"instance": "10.0.0.5:9100"}
POD = {
    "node": "worker-1",
    "instance": "10.0.0.5:10250",
    "namespace": "rook-ceph",
    "pod": "rook-ceph-osd-3-abc",
    "container": "osd",
}


def line(name: str, *series: tuple[Mapping[str, str], object], **changes: Any) -> bytes:
    result = [{"metric": labels, "value": [1795599572.5, str(value)]} for labels, value in series]
    answer = {"status": "success", "data": {"resultType": "vector", "result": result}}
    fields = {"query": "q", "window_s": 30.0, "clock_offset_s": -0.2, "answer": answer}
    return json.dumps({"at": "", "elapsed_s": 31.0, "name": name, **fields, **changes}).encode()


def modes(labels: Mapping[str, str], **cores: float) -> list[tuple[Mapping[str, str], object]]:
    return [({**labels, "mode": mode}, used) for mode, used in cores.items()]


def disk(labels: Mapping[str, str], **values: float) -> list[bytes]:
    return [line(f"disk_{key}", ({**labels, "device": "sda"}, one)) for key, one in values.items()]


DISK = {
    "busy": 0.97, "weighted": 3.5, "reads": 100.0, "writes": 50.0, "read_bytes": 409600.0,
    "written_bytes": 819200.0, "read_time": 0.2, "write_time": 0.5,
}  # fmt: skip


def rates(*lines: bytes) -> tuple[Any, tuple[str, ...]]:
    return storage_rates(parse_prometheus_record(b"\n".join(lines)))


def test_a_pod_and_the_node_exporter_of_its_node_are_one_machine() -> None:
    (machine,), notes = rates(
        line("container_cpu", (POD, 1.25)),
        line("container_memory", (POD, 4 << 30)),
        line("cpu", *modes(NODE, idle=5.0, iowait=1.0, user=1.0, system=0.5, steal=0.5)),
        *disk(NODE, **DISK),
        line("network_received", ({**NODE, "device": "eth0"}, 1e6)),
        line("network_sent", ({**NODE, "device": "eth0"}, 2e6)),
        line("network_speed", ({**NODE, "device": "eth0"}, 1.25e9)),
    )
    assert notes == ()
    assert (machine.machine, machine.roles) == ("worker-1", {Role.STORAGE})
    assert machine.processes == {"rook-ceph/rook-ceph-osd-3-abc/osd": 1.25}
    assert machine.resident_bytes == {"rook-ceph/rook-ceph-osd-3-abc/osd": 4 << 30}
    assert machine.cores == 8
    assert machine.cpu.busy_share == pytest.approx(0.25)
    assert machine.cpu.steal_share == pytest.approx(0.5 / 8)
    (one,) = machine.disks.values()
    assert (one.utilisation, one.iops, one.read_bps, one.write_bps) == (0.97, 150, 409600, 819200)
    assert (one.read_latency_s, one.write_latency_s) == (0.002, 0.01)
    assert machine.interfaces["eth0"].link_bps == 1.25e9
    assert (machine.begin_s, machine.end_s) == (0.0, 30.0)


def test_cores_are_counted_where_scrapes_failed_at_an_end_of_the_window() -> None:
    halved = line("cpu", *modes(NODE, idle=1.0, user=3.0))
    (machine,), _ = rates(line("process_cpu", ({**NODE, "groupname": "ceph-osd;3"}, 1.0)), halved)
    assert machine.cores == 4
    (machine,), _ = rates(
        line("process_cpu", ({**NODE, "groupname": "ceph-osd;3"}, 1.0)),
        halved,
        line("cores", (NODE, 8)),
    )
    assert machine.cores == 8
    assert machine.cpu.busy_share == pytest.approx(0.75)


def test_of_several_sources_of_a_daemon_one_is_used() -> None:
    process = {**NODE, "groupname": "ceph-osd;3"}
    exporter = {"instance": "10.0.0.5:9926", "ceph_daemon": "osd.3"}
    (machine,), _ = rates(
        line("process_cpu", (process, 1.0)),
        line("process_memory", (process, 1e9)),
        line("ceph_exporter_cpu", (exporter, 1.01)),
    )
    assert machine.processes == {"ceph-osd;3": 1.0}
    (machine,), _ = rates(line("ceph_exporter_cpu", (exporter, 1.01)))
    assert machine.processes == {"osd.3": 1.01}
    assert machine.resident_bytes == {}, "its unit differs between versions of the exporter"


def test_hosts_without_a_daemon_are_the_storages_only_by_the_users_word() -> None:
    busy = modes({"instance": "other:9100"}, idle=1.0, user=7.0)
    machines, notes = rates(line("cpu", *busy))
    assert machines == ()
    assert "no daemon of the storage has two samples within 30 s" in notes[0]
    (machine,), notes = rates(line("cpu", *busy, chosen=True))
    assert (machine.machine, machine.processes) == ("other", {})
    assert machine.cpu.busy_share == pytest.approx(7 / 8)


def test_values_that_are_no_rate_are_left_out_and_failures_are_named() -> None:
    other = {**POD, "pod": "rook-ceph-osd-4-x"}
    (machine,), notes = rates(
        line("container_cpu", (POD, 1.0), (other, math.nan), ({**other, "pod": "y"}, math.inf)),
        json.dumps({"at": "", "elapsed_s": 1.0, "name": "cpu", "error": "cpu: timeout"}).encode(),
    )
    assert len(machine.processes) == 1
    assert machine.cpu is None
    assert notes[0] == "Prometheus: cpu: timeout"
    assert "no node exporter" in notes[1]
    gone = json.dumps({"at": "", "elapsed_s": 1.0, "error": "refused"}).encode()
    assert rates(gone) == ((), ("Prometheus: refused",))
    assert rates() == ((), ())


@pytest.mark.parametrize(
    "content",
    [
        b"{}",
        line("cpu", window_s=-1.0),
        line("cpu", answer={"status": "success", "data": {"resultType": "matrix", "result": []}}),
        line("cpu", ({"mode": "idle"}, "much")),
    ],
)
def test_an_edited_record_is_refused_with_its_line(content: bytes) -> None:
    with pytest.raises(FormatError, match="line 1"):
        parse_prometheus_record(content)


def test_a_refusal_and_another_kind_of_result_are_reported() -> None:
    with pytest.raises(ValueError, match="refuses the query: no"):
        parse_answer(b'{"status": "error", "error": "no"}', 400)
    with pytest.raises(ValueError, match="gives a matrix"):
        parse_answer(b'{"status": "success", "data": {"resultType": "matrix", "result": []}}', 200)
    with pytest.raises(ValueError, match="HTTP status 502"):
        parse_answer(b"<html>", 502)


def test_queries_have_the_window_and_what_the_user_named() -> None:
    asked = queries(30.4567, ("rook-ceph", "mine"), r'ceph-\d+".*')
    assert all("[30457ms]" in text for name, text in asked.items() if name != "network_speed")
    assert 'namespace=~"rook-ceph|mine"' in asked["container_cpu"]
    assert r'{instance=~"ceph-\\d+\".*"}' in asked["cpu"]
    assert r'{mode="idle",instance=~"ceph-\\d+\".*"}' in asked["cores"]
    assert "rate(node_cpu_seconds_total{}[1ms])" in queries(0.0, ("a",), None)["cpu"]
