"""Status documents of several releases, and the record of a cluster during a trial."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.formats.ceph.status import (
    ClusterSample,
    ClusterStatus,
    Health,
    MissedSample,
    parse_cluster_log,
)
from leadline.formats.result import FormatError

RECORDED = Path(__file__).parents[3] / "recorded" / "ceph-status"


def recorded(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_bytes())
    return document


def line(**fields: object) -> bytes:
    return json.dumps({"at": "2026-11-21T06:00:00Z", "elapsed_s": 0.0, **fields}).encode()


def status_of(document: object) -> ClusterStatus:
    (sample,) = parse_cluster_log(line(status=document))
    assert isinstance(sample, ClusterSample)
    return sample.status


def test_a_healthy_cluster() -> None:
    status = status_of(recorded("multi-az-6osd"))
    assert status.health is Health.OK
    assert status.checks == ()
    assert dict(status.pg_states) == {"active+clean": 144}
    assert status.pgs == 144
    assert (status.osds_up, status.osds_in) == (6, 6)
    assert (status.osdmap_epoch, status.monitors_in_quorum) == (119, 1)
    assert status.up_changed_at_s == 1795208122
    assert (status.degraded_ratio, status.recovering_bps, status.scrubbing_pgs) == (0, 0, 0)


def test_an_osd_down() -> None:
    status = status_of(recorded("kill1_status"))
    assert status.health is Health.WARN
    assert [check.code for check in status.checks] == ["OSD_DOWN", "OSD_HOST_DOWN", "PG_DEGRADED"]
    assert status.checks[0].summary == "1 osds down"
    assert not status.checks[0].muted
    assert status.degraded_ratio == pytest.approx(0.165, abs=0.001)
    assert status.osds_up == 5
    assert status.pgs_with("undersized") == 64
    assert status.pgs_with("degraded", "undersized") == 64


def test_data_unavailable() -> None:
    status = status_of(recorded("two_down_status"))
    assert status.pgs_with("down", "peered") == 5 + 15 + 1


@pytest.mark.parametrize(
    ("name", "up", "pgs"), [("nautilus-rook", 6, 328), ("luminous-monasca", 22, 3248)]
)
def test_older_releases_nest_their_osd_map(name: str, up: int, pgs: int) -> None:
    status = status_of(recorded(name))
    assert status.osds_up == up
    assert status.pgs == pgs
    assert status.up_changed_at_s == 0


def test_scrubs_mutes_and_recovery() -> None:
    document = recorded("multi-az-6osd")
    document["health"]["checks"] = {
        "RECENT_CRASH": {
            "severity": "HEALTH_WARN",
            "summary": {"message": "1 daemons have recently crashed", "count": 1},
            "muted": True,
        }
    }
    document["pgmap"]["pgs_by_state"] = [
        {"state_name": "active+clean+scrubbing+deep", "count": 2},
        {"state_name": "active+clean+scrubbing", "count": 3},
        {"state_name": "active+clean", "count": 139},
    ]
    document["pgmap"] |= {"recovering_bytes_per_sec": 1 << 20, "recovering_objects_per_sec": 4}
    document["pgmap"] |= {"misplaced_objects": 7, "misplaced_ratio": 0.01, "unfound_objects": 1}
    status = status_of(document)
    assert (status.scrubbing_pgs, status.deep_scrubbing_pgs) == (5, 2)
    assert status.checks[0].muted
    assert (status.recovering_bps, status.misplaced_ratio) == (1 << 20, 0.01)
    assert status.unfound_objects == 1


@pytest.mark.parametrize(
    "path",
    [
        ("health",),
        ("health", "status"),
        ("health", "checks"),
        ("pgmap", "pgs_by_state"),
        ("pgmap", "num_pgs"),
        ("osdmap", "num_up_osds"),
        ("osdmap", "epoch"),
        ("quorum",),
    ],
)
def test_a_missing_field_is_named_by_its_path(path: tuple[str, ...]) -> None:
    document = recorded("multi-az-6osd")
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    with pytest.raises(FormatError) as raised:
        status_of(document)
    assert raised.value.fact.startswith(f"line 1.status.{'.'.join(path)}")


def test_an_unknown_state_of_health_is_refused() -> None:
    document = recorded("multi-az-6osd")
    document["health"]["status"] = "HEALTH_GREAT"
    with pytest.raises(FormatError, match=r"line 1\.status\.health\.status"):
        status_of(document)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(data=st.data())
def test_whatever_is_in_a_field_is_read_or_refused(data: st.DataObject) -> None:
    document = recorded("kill1_status")
    part = data.draw(
        st.sampled_from(["health", "pgmap", "osdmap", "quorum", "fsmap", "mgrmap", "servicemap"])
    )
    inner: Any = document
    key: Any = part
    while isinstance(inner[key], dict | list) and inner[key] and data.draw(st.booleans()):
        inner = inner[key]
        key = data.draw(st.sampled_from(list(inner) if isinstance(inner, dict) else [0]))
    inner[key] = data.draw(JSON)
    with suppress(FormatError):
        status_of(document)


def test_a_line_with_same_has_the_status_before() -> None:
    full = line(status=recorded("multi-az-6osd"))
    same = line(elapsed_s=2.0, same=True, io={"write_op_per_sec": 7})
    missed = line(elapsed_s=4.0, error="no answer")
    one, two, three = parse_cluster_log(b"\n".join((full, same, missed)) + b"\n")
    assert isinstance(one, ClusterSample)
    assert isinstance(two, ClusterSample)
    assert two.status is one.status
    assert (one.elapsed_s, two.elapsed_s) == (0.0, 2.0)
    assert three == MissedSample(at="2026-11-21T06:00:00Z", elapsed_s=4.0, reason="no answer")


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        (line(same=True), "line 1.same"),
        (line(error="x") + b"\n" + line(), "line 2.status"),
        (line(error="x") + b'\n{"at": "20', "line 2 of the record of a cluster: not JSON"),
        (b'{"elapsed_s": 0}', "line 1.at"),
        (b"[]", "line 1: "),
    ],
)
def test_a_line_that_is_not_understood_is_named(content: bytes, reported: str) -> None:
    with pytest.raises(FormatError) as raised:
        parse_cluster_log(content)
    assert reported in raised.value.fact


def test_an_empty_record_has_no_samples() -> None:
    assert parse_cluster_log(b"") == ()


def test_daemons_of_a_status() -> None:
    status = status_of(recorded("nautilus-rook"))
    (rank,) = status.ranks
    assert (rank.name, rank.state, rank.gid) == ("dell-r730-035", "up:active", 257907)
    assert (status.election_epoch, status.manager_available) == (94, True)
    document = recorded("multi-az-6osd")
    gateway = {"start_epoch": 3, "gid": 4400, "addr": "10.0.0.1:0/1", "metadata": {}}
    document["servicemap"]["services"] = {"rgw": {"daemons": {"summary": "", "a": gateway}}}
    assert dict(status_of(document).services) == {"rgw.a": 4400}


def test_services_of_another_shape_are_refused() -> None:
    document = recorded("multi-az-6osd")
    document["servicemap"]["services"] = {"rgw": {"daemons": ["a"]}}
    with pytest.raises(FormatError, match="the services are not those of a status"):
        status_of(document)


def test_a_line_with_same_has_the_daemons_before() -> None:
    daemons = {"mds.a": {"gid": 4100, "silent": "Connection refused"}}
    full = line(status=recorded("multi-az-6osd"), daemons=daemons)
    one, two = parse_cluster_log(b"\n".join((full, line(elapsed_s=2.0, same=True))))
    assert isinstance(one, ClusterSample)
    assert isinstance(two, ClusterSample)
    assert one.daemons == two.daemons
    assert one.daemons["mds.a"].silent == "Connection refused"
