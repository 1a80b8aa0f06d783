"""Settings of `--set`: what they parse to, what they refuse, and the changed systems."""

from __future__ import annotations

import re
from dataclasses import fields, replace

import pytest
from compared_cells import erasure, replicated
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.explain.round_trips import network_time_s
from leadline.analysis.explain.systems import Network, ReadFrom
from leadline.analysis.predict.changes import Changes, apply, parse_changes
from leadline.analysis.predict.facts import Refusal
from leadline.analysis.predict.system import System
from leadline.errors import LeadlineError
from leadline.inventory.ceph.model import PoolType
from leadline.metrics import Op
from leadline.plan.target_url import TargetKind

VALID = {
    "failure_domain": ("zone", "zone"),
    "inter_zone_rtt": ("500us", 500e-6),
    "nodes": ("5", 5),
    "osds": ("24", 24),
    "replicas": ("2", 2),
    "osd_cores": ("1.5", 1.5),
    "media_latency": ("100us", 100e-6),
    "clients": ("4", 4),
    "depth": ("16", 16),
    "record_size": ("1M", 1 << 20),
    "read_affinity": ("localize", ReadFrom.NEAREST),
    "pg_num": ("256", 256),
}


def system(**changes: object) -> System:
    """Three hosts of one zone with two OSDs each."""
    pool = replicated(zones=1, failure_domain="host", pgs=128)
    known = {
        "target": "rep3",
        "kind": TargetKind.RBD,
        "pool": pool,
        "network": Network.uniform(50e-6),
        "hosts": 3,
        "osds": 6,
    }
    return System(**{**known, **changes})  # type: ignore[arg-type]


ZONES = system(pool=replicated(pgs=128), network=Network.uniform(1e-3))


def refusal(found: pytest.ExceptionInfo[LeadlineError]) -> str:
    error = found.value
    assert error.kind.code == "usage"
    assert error.hint
    return str(error)


def test_every_setting_parses() -> None:
    found = parse_changes([f"{key}={text}" for key, (text, _) in VALID.items()])
    for key, (text, value) in VALID.items():
        assert getattr(found, key) == (pytest.approx(value) if isinstance(value, float) else value)
        assert found.texts[key] == text
    assert parse_changes(["ec=4+2"]).ec == (4, 2)
    assert {*VALID, "ec", "texts"} == {field.name for field in fields(Changes)}


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("replica=2", "did you mean 'replicas'"),
        ("zzz=1", "the keys are failure_domain"),
        ("replicas", "not key=value"),
        ("replicas=", "not key=value"),
        ("inter_zone_rtt=1", "the unit is missing"),
        ("inter_zone_rtt=0.5", "the unit is missing"),
        ("inter_zone_rtt=-1ms", "invalid"),
        ("inter_zone_rtt=2s", "at most 1 s"),
        ("inter_zone_rtt=ms", "inter_zone_rtt=1ms"),
        ("media_latency=4", "the unit is missing"),
        ("nodes=0", "from 1"),
        ("nodes=1.5", "from 1"),
        ("nodes=\u0663", "from 1"),
        ("osds=99999999999999999999", "from 1"),
        ("ec=4", "K+M"),
        ("ec=0+2", "K+M"),
        ("osd_cores=0", "cores"),
        ("osd_cores=nan", "cores"),
        ("osd_cores=two", "osd_cores=2"),
        ("failure_domain=zones", "levels"),
        ("read_affinity=near", "localize"),
        ("record_size=100k", "power of two"),
        ("record_size=64M", "power of two"),
    ],
)
def test_an_invalid_setting_is_refused_with_a_way_out(setting: str, says: str) -> None:
    with pytest.raises(LeadlineError, match=re.escape(says)) as found:
        parse_changes([setting])
    refusal(found)


@given(st.text(max_size=30))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for setting in (text, *(f"{key}={text}" for key in (*VALID, "ec"))):
        code = None
        try:
            parse_changes([setting])
        except LeadlineError as error:
            code = error.kind.code
        assert code in (None, "usage")


@pytest.mark.parametrize("pair", [("replicas=2", "ec=2+1"), ("nodes=4", "nodes=5")])
def test_contradictory_settings_are_refused(pair: tuple[str, str]) -> None:
    with pytest.raises(LeadlineError) as found:
        parse_changes(pair)
    refusal(found)


@pytest.mark.parametrize(
    ("before", "settings", "says"),
    [
        (ZONES, ["ec=4+2"], "EC 4+2 cannot be placed on 3 zones"),
        (system(), ["ec=4+2", "failure_domain=zone", "inter_zone_rtt=1ms"], "on 3 zones"),
        (system(), ["replicas=4"], "4 copies cannot be placed on 3 hosts"),
        (system(), ["nodes=2"], "3 copies cannot be placed on 2 hosts"),
        (system(), ["osds=2"], "cannot be placed on 2 OSDs"),
        (system(), ["nodes=5", "osds=4"], "4 OSDs cannot be on 5 nodes"),
        (system(), ["inter_zone_rtt=1ms"], "in one zone"),
        (system(), ["inter_zone_rtt=1ms", "failure_domain=host"], "in one zone"),
        (system(pool=erasure(zones=1)), ["read_affinity=localize"], "erasure code"),
        (system(), ["record_size=1M"], "not on ZFS"),
    ],
)
def test_an_impossible_system_is_refused(before: System, settings: list[str], says: str) -> None:
    with pytest.raises(LeadlineError, match=re.escape(says)) as found:
        apply(before, parse_changes(settings))
    refusal(found)


def changed(before: System, *settings: str) -> System:
    return apply(before, parse_changes(settings))


def test_a_third_zone() -> None:
    found = changed(system(), "failure_domain=zone", "inter_zone_rtt=1ms")
    assert found.pool is not None
    assert found.network is not None
    assert (found.pool.zones, found.pool.places, found.pool.apart) == (3, 3, True)
    assert found.refusals == ()
    # Client to primary in two of three cases, and always one copy in another zone.
    assert network_time_s(Op.WRITE, found.pool, found.network).value == pytest.approx(5 / 3 * 1e-3)
    assert network_time_s(Op.READ, found.pool, found.network).value == pytest.approx(2 / 3 * 1e-3)


def test_zones_without_a_round_trip_have_an_unknown_network() -> None:
    found = changed(system(), "failure_domain=zone")
    assert found.refusals == (Refusal.NETWORK_UNKNOWN,)


def test_the_delay_of_a_lab_is_added_to_its_network() -> None:
    settings = ("failure_domain=zone", "inter_zone_rtt=1ms")
    lab = changed(system(on_lab=True), *settings)
    assert lab.network is not None
    assert lab.network.typical_s == pytest.approx(1.05e-3)
    real = changed(system(), *settings)
    assert real.network is not None
    assert real.network.typical_s == 1e-3


def test_another_round_trip_keeps_the_placement() -> None:
    found = changed(ZONES, "inter_zone_rtt=2ms")
    assert found.pool == ZONES.pool
    assert found.network is not None
    assert found.network.typical_s == 2e-3


def test_nodes_bring_their_osds() -> None:
    assert (changed(system(), "nodes=5").hosts, changed(system(), "nodes=5").osds) == (5, 10)
    assert changed(system(), "nodes=5", "osds=20").osds == 20
    pool = changed(system(), "nodes=5").pool
    assert pool is not None
    assert pool.places == 5
    unknown = changed(system(hosts=None, osds=None), "nodes=5")
    assert Refusal.POOL_UNKNOWN in unknown.refusals


def test_redundancy() -> None:
    two = changed(ZONES, "replicas=2").pool
    code = changed(ZONES, "ec=2+1").pool
    assert two is not None
    assert code is not None
    assert (two.type, two.size) == (PoolType.REPLICATED, 2)
    assert (code.type, code.size, code.k, code.m) == (PoolType.ERASURE, 3, 2, 1)
    back = changed(system(pool=erasure()), "replicas=3").pool
    assert back is not None
    assert (back.type, back.k, back.m) == (PoolType.REPLICATED, 0, 0)


def test_a_pool_that_is_unknown_is_no_error() -> None:
    found = changed(system(pool=None), "replicas=2")
    assert found.refusals == (Refusal.POOL_UNKNOWN,)
    assert changed(system(pool=None), "depth=4").refusals == ()


def test_load_media_and_cores() -> None:
    found = changed(system(), "clients=4", "depth=16", "media_latency=5ms", "osd_cores=2")
    assert (found.clients, found.depth, found.medium_s, found.osd_cores) == (4, 16, 5e-3, 2.0)
    on_zfs = changed(system(kind=TargetKind.ZFS_ON_RBD, record_bytes=131072), "record_size=1M")
    assert on_zfs.record_bytes == 1 << 20


def test_a_lab_knows_when_quotas_are_more_than_its_cores() -> None:
    lab = system(on_lab=True, shared_cores=2.0)
    assert lab.shares_cores
    assert not changed(lab, "osd_cores=0.1").shares_cores
    limited = replace(lab, osd_cores=0.2, limited=True)
    assert not limited.shares_cores
    assert changed(limited, "osd_cores=1").shares_cores
    assert changed(limited, "nodes=6").shares_cores


def test_no_change_changes_nothing() -> None:
    assert apply(ZONES, parse_changes([])) == ZONES
