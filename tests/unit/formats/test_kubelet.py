"""Rates of a storage's daemons from what kubelets report, whatever is missing or too short."""

from __future__ import annotations

import json
from typing import Any

import pytest

from leadline.formats.host_rates import MachineRates
from leadline.formats.kubelet import kubelet_rates, parse_kubelet_record, parse_readings
from leadline.formats.result import FormatError
from leadline.formats.watch_records import Role
from tests.conftest import ROOT

TEXT = (ROOT / "tests" / "recorded" / "kubelet" / "metrics-resource.txt").read_text()
OSD = "rook-ceph/rook-ceph-osd-0/osd"
# A time by the node's clock.
NOON = 1_795_749_600.0


def reading(read_s: float, cpu_s: float, age_s: float = 0.0, **changes: Any) -> dict[str, Any]:
    names = {"namespace": "rook-ceph", "pod": "rook-ceph-osd-0", "container": "osd"}
    counters = {"read_at_s": NOON + read_s, "age_s": age_s, "cpu_s": cpu_s, "memory_bytes": 4e9}
    return {**names, **counters, **changes}


def line(elapsed_s: float, *containers: dict[str, Any], node: str = "a") -> dict[str, Any]:
    return {"at": "", "elapsed_s": elapsed_s, "node": node, "cores": 8, "containers": containers}


def rates(*lines: dict[str, Any]) -> tuple[tuple[MachineRates, ...], tuple[str, ...]]:
    return kubelet_rates(parse_kubelet_record("\n".join(map(json.dumps, lines)).encode()))


def test_the_recorded_text_of_a_kubelet_has_the_daemons_of_the_namespaces() -> None:
    (found,) = parse_readings(TEXT, ("rook-ceph",), 1_795_749_700.0)
    assert found.name == OSD
    assert found.cpu_s > 60
    assert found.memory_bytes == 303104
    assert 0 < found.age_s < 300
    assert parse_readings(TEXT, ("openebs",), NOON) == ()
    # Pods of other programs in the same namespace, and a whole pod, are no daemons.
    assert parse_readings(TEXT.replace('"osd"', '"web"'), ("rook-ceph",), NOON) == ()
    assert parse_readings("", ("rook-ceph",), NOON) == ()


def test_a_rate_is_between_the_times_of_the_readings_and_not_of_the_requests() -> None:
    # cAdvisor's reading of 10 s before the trial is repeated at its beginning.
    (machine,), notes = rates(
        line(0, reading(-10, 100.0, 10.0)),
        line(5, reading(4, 107.0, 1.0)),
        line(10, reading(4, 107.0, 6.0)),
        line(20, reading(17, 133.0, 3.0, memory_bytes=6e9)),
    )
    assert notes == ()
    assert (machine.machine, machine.roles, machine.cores) == ("a", {Role.STORAGE}, 8)
    assert machine.processes == {OSD: pytest.approx(26 / 13)}
    assert machine.resident_bytes == {OSD: 5e9}
    assert machine.cpu is None
    assert machine.lost == frozenset()


def test_daemons_of_several_nodes_are_several_machines() -> None:
    other = {"namespace": "openebs", "pod": "io-engine-x", "container": "io-engine"}
    machines, notes = rates(
        *(line(at, reading(at, 50 + at)) for at in (0.0, 10.0)),
        *(line(at, reading(at, 9 + 2 * at, **other), node="b") for at in (0.0, 10.0)),
    )
    assert notes == ()
    assert [machine.machine for machine in machines] == ["a", "b"]
    assert machines[1].processes == {"openebs/io-engine-x/io-engine": pytest.approx(2.0)}


@pytest.mark.parametrize(
    "lines",
    [
        [line(0, reading(0, 1.0))],
        # The same reading twice, and two readings close to each other.
        [line(0, reading(0, 1.0)), line(9, reading(0, 1.0, 9.0))],
        [line(0, reading(0, 1.0)), line(2, reading(2, 3.0)), line(9)],
        # A restart in the same pod.
        [line(0, reading(0, 9.0)), line(9, reading(9, 1.0))],
    ],
)
def test_a_daemon_without_a_rate_is_lost_and_the_reason_is_given(
    lines: list[dict[str, Any]],
) -> None:
    (machine,), (note,) = rates(*lines)
    assert machine.processes == {}
    assert machine.lost == {OSD}
    assert "1 of the storage's daemons have no two readings" in note


def test_a_pod_that_took_the_place_of_another_makes_the_sum_unknown() -> None:
    (machine,), _ = rates(
        line(0, reading(0, 1.0)), line(5, reading(5, 2.0, pod="new")), line(9, reading(9, 9.0))
    )
    assert machine.lost == {"rook-ceph/new/osd"}


def test_memory_that_a_reading_lacks_is_unknown() -> None:
    (machine,), _ = rates(line(0, reading(0, 1.0)), line(9, reading(9, 2.0, memory_bytes=None)))
    assert machine.processes
    assert machine.resident_bytes == {}


def test_what_was_not_read_is_a_note_once() -> None:
    missed = {"at": "", "elapsed_s": 0.0, "error": "this user may not get nodes/proxy"}
    assert rates(missed, missed) == ((), ("kubelets: this user may not get nodes/proxy",))
    assert rates() == ((), ())


def test_a_record_that_is_none_is_refused_with_its_line() -> None:
    with pytest.raises(FormatError, match="line 1"):
        parse_kubelet_record(b'{"node": 1}')
