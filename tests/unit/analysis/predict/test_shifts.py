"""Shifts between two systems: waits by message algebra, ratios of capacity, and refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from compared_cells import erasure, replicated
from hypothesis import example, given
from hypothesis import strategies as st

from leadline.analysis.bottleneck.evidence import LevelEvidence
from leadline.analysis.explain.accounts import Estimate
from leadline.analysis.explain.systems import Network, ReadFrom
from leadline.analysis.predict.changes import apply, parse_changes
from leadline.analysis.predict.facts import Refusal, Shift
from leadline.analysis.predict.shifts import KnownBefore, shift_between
from leadline.analysis.predict.system import System, bound_of
from leadline.analysis.scaling.curves import PointLoad
from leadline.formats.host_rates import CpuRates, DiskRates, MachineRates
from leadline.formats.watch_records import Role
from leadline.metrics import Op
from leadline.model.bounds import Medium, Station
from leadline.plan.target_url import TargetKind

BLOCK = 4096
ONE_ZONE = System(
    target="rep3",
    kind=TargetKind.RBD,
    pool=replicated(zones=1, failure_domain="host", pgs=256),
    network=Network.uniform(20e-6),
    hosts=3,
    osds=12,
    osd_cores=2.0,
    medium=Medium.FLASH,
)
THREE_ZONES = replace(ONE_ZONE, pool=replicated(pgs=256), network=Network.uniform(1e-3))
LAB = replace(ONE_ZONE, on_lab=True, osd_cores=None, shared_cores=2.0, osds=3, medium=Medium.MEMORY)


def shift(before: System, *settings: str, op: Op = Op.WRITE, **known: object) -> Shift:
    after = apply(before, parse_changes(settings))
    return shift_between(before, after, op, BLOCK, KnownBefore(**known))  # type: ignore[arg-type]


def machine(busy: float, **changes: object) -> MachineRates:
    cpu = CpuRates(
        busy_share=busy, user_share=busy, system_share=0.0, iowait_share=0.0, steal_share=0.0
    )
    known = {
        "machine": "osd-host",
        "roles": frozenset({Role.STORAGE}),
        "begin_s": 0.0,
        "end_s": 10.0,
        "cores": 8,
        "cpu": cpu,
        "disks": {},
        "interfaces": {},
        "groups": {},
        "processes": {},
    }
    return MachineRates(**{**known, **changes})  # type: ignore[arg-type]


BUSY = LevelEvidence(machines=(machine(0.9),), on_ceph=True)
IDLE = LevelEvidence(machines=(machine(0.2),), on_ceph=True)


def disk(latency_s: float, utilisation: float = 0.9) -> DiskRates:
    return DiskRates(
        read_iops=100.0,
        write_iops=100.0,
        read_bps=0.0,
        write_bps=0.0,
        utilisation=utilisation,
        in_flight=1.0,
        read_latency_s=latency_s,
        write_latency_s=latency_s,
    )


BUSY_DISKS = LevelEvidence(machines=(machine(0.2, disks={"nvme0n1": disk(1e-4)}),), on_ceph=True)


@pytest.mark.parametrize("op", [Op.READ, Op.WRITE, Op.TOTAL])
def test_no_change_is_no_shift(op: Op) -> None:
    found = shift_between(ONE_ZONE, ONE_ZONE, op, BLOCK, KnownBefore(evidence=BUSY))
    assert (found.added_s.low, found.added_s.high) == (0.0, 0.0)
    assert (found.capacity.low, found.capacity.high) == (1.0, 1.0)
    assert (found.parallel, found.in_flight, found.refusals) == (1.0, None, ())


def test_a_third_zone_adds_the_round_trips_of_the_path() -> None:
    settings = ("failure_domain=zone", "inter_zone_rtt=1ms")
    # In one zone a path of hosts costs 20 us a step: 5/3 steps of a write, 2/3 of a read.
    for op, trips in ((Op.WRITE, 5 / 3), (Op.READ, 2 / 3), (Op.TOTAL, 7 / 6)):
        found = shift(ONE_ZONE, *settings, op=op)
        assert found.added_s.value == pytest.approx(trips * (1e-3 - 20e-6))
        assert found.added_s.low < found.added_s.value < found.added_s.high
        assert found.capacity.value == 1.0
        assert found.refusals == ()


def test_few_objects_widen_the_wait() -> None:
    settings = ("failure_domain=zone", "inter_zone_rtt=1ms")

    def width(objects: int | None) -> float:
        found = shift(ONE_ZONE, *settings, op=Op.READ, objects=objects).added_s
        return found.high - found.low

    assert width(None) < width(256) < width(16)


def test_reads_of_the_nearest_copy_save_the_round_trip() -> None:
    found = shift(THREE_ZONES, "read_affinity=localize", op=Op.READ)
    assert found.added_s.value == pytest.approx(-2 / 3 * 1e-3)
    assert shift(THREE_ZONES, "read_affinity=localize", op=Op.WRITE).added_s.value == 0.0


def test_erasure_code_reads_before_it_writes() -> None:
    found = shift(THREE_ZONES, "ec=2+1")
    assert found.added_s.value == pytest.approx(1e-3)
    assert found.branches == (3, 3)
    assert shift(THREE_ZONES, "ec=2+1", op=Op.READ).branches == (1, 2)
    whole = shift_between(
        THREE_ZONES, apply(THREE_ZONES, parse_changes(["ec=2+1"])), Op.WRITE, 4 << 20
    )
    assert whole.added_s.value == pytest.approx(0.0, abs=1e-9)


def test_fewer_copies_are_less_work() -> None:
    found = shift(ONE_ZONE, "replicas=2", evidence=BUSY)
    # 2 against 3 OSD writes of unequal work, on other placement groups.
    assert 1.1 < found.capacity.low < found.capacity.value < found.capacity.high < 5 / 3 * 1.15
    assert found.branches == (3, 2)
    assert shift(ONE_ZONE, "replicas=2", op=Op.READ, evidence=BUSY).capacity.value == 1.0
    media = shift(ONE_ZONE, "replicas=2", evidence=BUSY_DISKS)
    assert media.capacity.value == pytest.approx(1.5)


def test_erasure_code_is_more_work() -> None:
    found = shift(ONE_ZONE, "ec=2+1", evidence=BUSY)
    # 1004 to 1017 against 652 to 659 us (ming1): 0.65; the lab of 2026-11-26: 0.41.
    assert found.capacity.low < 0.45
    assert found.capacity.high > 0.65
    assert shift(ONE_ZONE, "ec=2+1", op=Op.READ, evidence=BUSY).capacity.high < 1.0


@pytest.mark.parametrize(("before", "after"), [("2", "4"), ("4", "8"), ("2", "20"), ("8", "4")])
def test_published_rates_of_more_cores_are_inside(before: str, after: str) -> None:
    rates = {"2": 658_800, "4": 1_130_000, "8": 1_829_000, "20": 3_668_000}
    drives = replace(ONE_ZONE, osd_cores=float(before))
    found = shift(drives, f"osd_cores={after}", op=Op.READ, evidence=BUSY).capacity
    assert found.low <= rates[after] / rates[before] <= found.high


def test_nodes_bring_capacity_and_servers() -> None:
    found = shift(ONE_ZONE, "nodes=5", evidence=BUSY)
    assert found.capacity.low < found.capacity.value <= 5 / 3
    assert found.capacity.low > 1.2
    assert found.parallel == pytest.approx(5 / 3)
    assert found.refusals == ()


def test_osds_on_shared_cores_add_no_capacity() -> None:
    for settings in (("nodes=6",), ("osds=6",)):
        found = shift(LAB, *settings)
        assert found.capacity.value == 1.0
        assert found.capacity.high < 1.05
        assert found.parallel == 1.0
    limited = replace(LAB, osd_cores=0.15, limited=True)
    grown = shift(limited, "nodes=5").capacity
    assert grown.low > 1.2
    # The sixth of 0.5 cores does not exist on a machine of two.
    beyond = shift(replace(LAB, osd_cores=0.5, limited=True), "nodes=6")
    assert Refusal.LIMIT_CHANGES in beyond.refusals


def test_an_unknown_limit_is_not_guessed() -> None:
    found = shift(ONE_ZONE, "osd_cores=8", evidence=IDLE)
    assert found.capacity.low == 1.0
    assert Refusal.LIMIT_UNKNOWN in found.refusals
    assert shift(ONE_ZONE, "osd_cores=8", evidence=BUSY).refusals == ()


def test_the_clients_work_stays_on_shared_cores() -> None:
    alone = shift(ONE_ZONE, "replicas=1", evidence=BUSY).capacity.value
    processes = {"osd.0": 0.5, "osd.1": 0.5}
    shared = machine(1.0, roles=frozenset(Role), cores=2, processes=processes)
    level = LevelEvidence(machines=(shared,), on_lab=True, engine_cores=1.0, iops=1000.0)
    half = shift(LAB, "replicas=1", evidence=level).capacity.value
    assert half == pytest.approx(1 / (0.5 / alone + 0.5))


def test_load_is_not_part_of_the_system() -> None:
    load = PointLoad(clients=2, numjobs=1, iodepth=8)
    assert shift(ONE_ZONE, "depth=32", load=load).in_flight == 64
    assert shift(ONE_ZONE, "clients=4", load=load).in_flight == 32
    assert shift(ONE_ZONE, "replicas=2", load=load).in_flight is None


def test_media() -> None:
    found = shift(ONE_ZONE, "media_latency=200us", evidence=BUSY_DISKS)
    assert found.added_s.value == pytest.approx(100e-6)
    assert found.refusals == ()
    # A disk of another kind is no change of one resource.
    far = shift(ONE_ZONE, "media_latency=5ms", evidence=BUSY_DISKS)
    assert Refusal.MEDIA in far.refusals
    assert Refusal.MEDIA in shift(ONE_ZONE, "media_latency=200us").refusals
    disks = replace(ONE_ZONE, medium=Medium.DISK)
    assert Refusal.MEDIA in shift_between(ONE_ZONE, disks, Op.READ, BLOCK).refusals


def test_what_is_unknown_is_refused() -> None:
    assert shift(replace(ONE_ZONE, pool=None), "replicas=2").refusals == (Refusal.POOL_UNKNOWN,)
    assert Refusal.NETWORK_UNKNOWN in shift(ONE_ZONE, "failure_domain=zone").refusals
    dark = replace(THREE_ZONES, network=None)
    assert Refusal.NETWORK_UNKNOWN in shift_between(ONE_ZONE, dark, Op.READ, BLOCK).refusals
    records = replace(ONE_ZONE, kind=TargetKind.ZFS_ON_RBD, record_bytes=131072)
    assert Refusal.BLOCK_SIZE in shift(records, "record_size=1M").refusals
    nearer = shift(records, "record_size=256k")
    assert nearer.refusals == ()
    assert 0.5 <= nearer.capacity.value < 1.0


SYSTEMS = st.builds(
    replace,
    st.sampled_from([ONE_ZONE, THREE_ZONES, LAB]),
    pool=st.one_of(
        st.builds(
            replicated,
            size=st.integers(1, 3),
            zones=st.sampled_from([1, 3]),
            reads=st.sampled_from(ReadFrom),
            pgs=st.sampled_from([None, 32, 512]),
        ),
        st.builds(erasure, k=st.just(2), m=st.just(1), zones=st.sampled_from([1, 3])),
    ),
    network=st.one_of(st.none(), st.builds(Network.uniform, st.floats(0, 0.01))),
    osds=st.one_of(st.none(), st.integers(3, 100)),
    hosts=st.one_of(st.none(), st.integers(3, 20)),
    osd_cores=st.one_of(st.none(), st.floats(0.05, 32)),
)


@example(
    before=replace(ONE_ZONE, osds=None, hosts=4, osd_cores=None),
    after=replace(ONE_ZONE, osds=None, hosts=3, osd_cores=1.0),
    op=Op.READ,
)
@given(before=SYSTEMS, after=SYSTEMS, op=st.sampled_from([Op.READ, Op.WRITE, Op.TOTAL]))
def test_the_way_back_is_the_inverse(before: System, after: System, op: Op) -> None:
    there = shift_between(before, after, op, BLOCK, KnownBefore(evidence=BUSY))
    back = shift_between(after, before, op, BLOCK, KnownBefore(evidence=BUSY))
    assert there.added_s.value == pytest.approx(-back.added_s.value, abs=1e-12)
    assert there.capacity.low > 0
    if op is not Op.TOTAL and not (before.shares_cores or after.shares_cores):
        assert there.capacity.value == pytest.approx(1 / back.capacity.value)
    if there.branches is not None and back.branches is not None:
        assert there.branches == back.branches[::-1]


@given(system=SYSTEMS, op=st.sampled_from([Op.READ, Op.WRITE, Op.TOTAL]))
def test_a_bound_names_what_makes_it(system: System, op: Op) -> None:
    bound = bound_of(system, op, BLOCK)
    assert (bound.capacity_iops is None) == (bound.capacity_of is None)
    assert bound.floor_s is not None
    assert bound.floor_of in (Station.OSD_CPU, Station.NETWORK)
    alone = bound.most_iops(1)
    assert alone is not None
    assert alone <= 1 / bound.floor_s


def test_an_estimate_stays_an_estimate() -> None:
    found = shift(ONE_ZONE, "replicas=2", "nodes=6", "pg_num=512", evidence=BUSY).capacity
    assert isinstance(found, Estimate)
    assert found.low < found.value < found.high


# --- the network of a lab


def in_zones(system: System, rtt_s: float = 1e-3) -> System:
    return replace(system, pool=THREE_ZONES.pool, network=Network.uniform(rtt_s))


def test_a_lab_forwards_messages_between_zones_on_the_cores_of_all() -> None:
    """Of the 4 ms of two cores behind a write, its 16/3 messages between zones take 34 to 61 us."""
    found = shift_between(LAB, in_zones(LAB), Op.WRITE, BLOCK, KnownBefore(most_iops=500.0))
    ends = [1 / (1 + 16 / 3 * cost_s * 500 / 2) for cost_s in (61e-6, 34e-6)]
    assert (found.capacity.low, found.capacity.high) == pytest.approx(ends)
    assert ends[0] < found.capacity.value < ends[1]
    back = shift_between(in_zones(LAB), LAB, Op.WRITE, BLOCK, KnownBefore(most_iops=500.0)).capacity
    assert back.low > 1


@pytest.mark.parametrize("before", [ONE_ZONE, replace(LAB, osd_cores=0.1, limited=True)])
def test_other_networks_take_no_cores_of_osds(before: System) -> None:
    found = shift_between(before, in_zones(before), Op.WRITE, BLOCK, KnownBefore(most_iops=500.0))
    assert found.capacity == Estimate(value=1.0, low=1.0, high=1.0)


def test_without_a_rate_the_work_of_a_labs_network_is_not_guessed() -> None:
    assert shift_between(LAB, in_zones(LAB), Op.WRITE, BLOCK).capacity.value == 1
