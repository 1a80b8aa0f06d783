"""Rates of the storage's pods from summaries of kubelets, whatever is missing in them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from leadline.formats.kubelet import parse_kubelet_record, pod_rates, storage_pods
from leadline.formats.result import FormatError


def container(name: str = "osd", *, at: str, used_s: float, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "startTime": "2026-11-26T08:00:00Z",
        "cpu": {"time": at, "usageNanoCores": 5, "usageCoreNanoSeconds": int(used_s * 1e9)},
        "memory": {"time": at, "workingSetBytes": 4 << 30, "rssBytes": 1 << 30},
        **more,
    }


def line(elapsed_s: float, *containers: dict[str, Any], moved: int = 0, **more: Any) -> bytes:
    pod = {"podRef": {"name": "p", "namespace": "rook-ceph"}, "containers": containers}
    interface = {"name": "eth0", "rxBytes": moved, "txBytes": 2 * moved, "rxErrors": 0}
    network = {"time": f"2026-11-26T10:00:{elapsed_s:02.0f}Z", "interfaces": [interface]}
    fields = {"at": "", "elapsed_s": elapsed_s, "node": "n1", "pods": [pod], "network": network}
    return json.dumps(fields | more).encode()


def rates(*lines: bytes) -> Any:
    return pod_rates(parse_kubelet_record(b"\n".join(lines)))


def test_a_rate_is_between_the_times_of_the_numbers() -> None:
    (machine,), notes = rates(
        line(0, container(at="2026-11-26T09:59:50Z", used_s=100), moved=100),
        line(15, container(at="2026-11-26T10:00:10Z", used_s=110), moved=400),
        line(30, container(at="2026-11-26T10:00:30Z", used_s=130), moved=3100),
    )
    assert notes == ()
    assert machine.processes == {"rook-ceph/p/osd": pytest.approx(30 / 40)}
    assert machine.resident_bytes == {"rook-ceph/p/osd": 4 << 30}
    assert machine.interfaces["eth0"].received_bps == pytest.approx(100)
    assert machine.interfaces["eth0"].sent_bps == pytest.approx(200)
    assert (machine.cpu, machine.disks, machine.lost) == (None, {}, frozenset())


@pytest.mark.parametrize(
    "last",
    [
        container(at="2026-11-26T10:00:20Z", used_s=9, startTime="2026-11-26T10:00:10Z"),
        container(at="2026-11-26T10:00:20Z", used_s=9),
        container(at="2026-11-26T10:00:01Z", used_s=11),
        container(at="2026-11-26T10:00:20", used_s=11),
        {"name": "osd", "startTime": "2026-11-26T08:00:00Z"},
    ],
)
def test_a_container_without_two_numbers_is_lost_and_named(last: dict[str, Any]) -> None:
    (machine,), (note,) = rates(
        line(0, container(at="2026-11-26T10:00:00Z", used_s=10)), line(20, last)
    )
    assert machine.lost == {"rook-ceph/p/osd"}
    assert machine.processes == {}
    assert "restarted" in note


def test_other_containers_and_nodes_without_daemons_do_not_count() -> None:
    helper = container("log-collector", at="2026-11-26T10:00:00Z", used_s=10)
    assert rates(line(0, helper), line(20, helper)) == ((), ())


def test_failures_are_named() -> None:
    refused = json.dumps({"at": "", "elapsed_s": 0.0, "node": "n1", "error": "may not"}).encode()
    assert rates(refused) == ((), ("kubelet of n1: may not",))
    with pytest.raises(FormatError, match="line 1"):
        parse_kubelet_record(b'{"at": "", "elapsed_s": 0, "node": "n", "pods": [{}]}')


def test_pods_of_other_namespaces_are_not_kept() -> None:
    mine, other = ({"podRef": {"namespace": name}} for name in ("rook-ceph", "users"))
    assert storage_pods([mine, other, {}, "x", {"podRef": None}], ("rook-ceph",)) == [mine]
