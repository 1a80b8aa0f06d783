"""Systems from a recorded run on four labs and from dumps of clusters, and their bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from compared_cells import erasure, replicated

from leadline.analysis.explain.systems import Network
from leadline.analysis.predict.system import (
    System,
    bound_of,
    creation_bound,
    receive_bound,
    system_of,
    systems_of_dumps,
)
from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.inventory.ceph.model import PoolType
from leadline.metrics import Metric, Op
from leadline.model.bounds import Medium, Station
from tests.conftest import unpack
from tests.golden.archive_builder import host
from tests.unit.analysis.layers.layer_archives import lines, machine
from tests.unit.audit.audit_archives import Stored, build, cell

RECORDED = Path(__file__).parents[3] / "recorded"
LEVELS = {"qd1": 1, "qd4": 4, "qd8": 8, "qd32": 32}
OBJECTS = 16  # of an image of 64 MiB


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("predict-lab")
    unpack(RECORDED / "predict-lab" / "run.tar.xz", folder)
    (path,) = folder.iterdir()
    return Run(path)


def dumps(name: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (RECORDED / name).iterdir()}


def test_a_lab_of_three_zones(run: Run) -> None:
    found = system_of(run, "rep3@one-ms")
    assert (found.target, found.hosts, found.osds) == ("rep3@one-ms", 3, 3)
    assert (found.on_lab, found.shared_cores, found.shares_cores) == (True, 2.0, True)
    assert found.medium is Medium.MEMORY
    assert found.pool is not None
    assert (found.pool.zones, found.pool.size, found.pool.apart) == (3, 3, True)
    assert found.pool.placement
    assert found.pool.client == "az1"
    assert found.network is not None
    assert found.network.typical_s == pytest.approx(1e-3, rel=0.1)
    # Three OSDs do not have more than the two cores of their machine.
    assert found.total_osd_cores == 2.0


def test_a_lab_of_one_zone_with_an_erasure_code(run: Run) -> None:
    found = system_of(run, "ec-2-1@single-zone")
    assert found.pool is not None
    assert (found.pool.type, found.pool.k, found.pool.m) == (PoolType.ERASURE, 2, 1)
    assert (found.pool.zones, found.pool.failure_domain) == (1, "rack")
    assert found.network is not None
    assert found.network.typical_s < 1e-4


def figures(run: Run) -> Iterator[tuple[str, int, Op, float, float]]:
    for trial in run.trials:
        assert trial.derived is not None
        for operation in trial.derived.operations:
            iops, mean = (
                operation.metrics[metric] for metric in (Metric.IOPS, Metric.LATENCY_MEAN)
            )
            assert iops is not None
            assert mean is not None
            yield trial.record.target, LEVELS[trial.record.level], operation.op, iops, mean


def test_no_figure_of_the_lab_passes_a_bound(run: Run) -> None:
    systems = {target.name: system_of(run, target.name) for target in run.plan.targets}
    shares = []
    for target, depth, op, iops, mean_s in figures(run):
        bound = bound_of(systems[target], op, 4096, objects=OBJECTS)
        assert bound.floor_s is not None
        most = bound.most_iops(depth)
        assert most is not None
        assert iops <= most, (target, depth, op)
        assert mean_s >= bound.floor_s, (target, depth, op)
        shares.append(iops / most)
    assert len(shares) == 96
    # Round trips bound the zones that are far apart.
    assert max(shares) > 0.4


def test_the_floor_is_the_path_over_measured_round_trips(run: Run) -> None:
    one, two = (system_of(run, f"rep3@{zones}") for zones in ("one-ms", "two-ms"))
    for op in (Op.READ, Op.WRITE):
        near, far = (bound_of(system, op, 4096) for system in (one, two))
        assert near.floor_of is far.floor_of is Station.NETWORK
        assert near.floor_s is not None
        assert far.floor_s is not None
        assert far.floor_s / near.floor_s == pytest.approx(2, rel=0.1)
        few = bound_of(one, op, 4096, objects=OBJECTS).floor_s
        assert few is not None
        assert few < near.floor_s


def test_pools_of_dumps() -> None:
    for name, zones in (("ceph-multi-az", 3), ("ceph-single-az", 1)):
        found = {system.target: system for system in systems_of_dumps(dumps(name))}
        assert found
        for system in found.values():
            assert system.pool is not None
            assert system.pool.zones == zones
            assert system.network is None
            assert system.osds
            bound = bound_of(system, Op.WRITE, 4096)
            # Without a network the floor is only the work of the OSDs; hard disks bound nothing.
            assert bound.floor_of is Station.OSD_CPU
            assert bound.capacity_iops is None
    assert systems_of_dumps(dumps("ceph-multi-az"))[0].hosts is not None


NVME = System(
    pool=replicated(zones=1, failure_domain="host"),
    network=Network.uniform(0.0),
    hosts=3,
    osds=24,
    osd_cores=4.0,
    medium=Medium.FLASH,
    osd_link_bps=3e9,
    client_on_osd_host=False,
)


def test_the_smallest_capacity_bounds() -> None:
    small = bound_of(NVME, Op.WRITE, 4096)
    assert small.capacity_of in (Station.MEDIUM, Station.OSD_CPU)
    large = bound_of(NVME, Op.WRITE, 4 << 20)
    assert large.capacity_of is Station.OSD_LINK
    assert large.capacity_iops == pytest.approx(3 * 3e9 / (3 * (4 << 20)))
    slow = bound_of(replace(NVME, client_link_bps=125e6), Op.READ, 4 << 20)
    assert slow.capacity_of is Station.CLIENT_LINK


def test_a_mix_is_between_its_parts() -> None:
    read, write = (bound_of(NVME, op, 4096) for op in (Op.READ, Op.WRITE))
    half = bound_of(NVME, Op.TOTAL, 4096)
    assert read.capacity_iops is not None
    assert write.capacity_iops is not None
    assert half.capacity_iops is not None
    assert write.capacity_iops < half.capacity_iops <= 2 * write.capacity_iops
    reads = bound_of(NVME, Op.TOTAL, 4096, read_share=1.0)
    assert reads.capacity_iops == pytest.approx(read.capacity_iops)


def test_nothing_known_bounds_nothing() -> None:
    bound = bound_of(System(), Op.READ, 4096)
    assert (bound.capacity_iops, bound.floor_s, bound.most_iops(8)) == (None, None, None)
    assert bound_of(NVME, Op.TRIM, 4096).most_iops(8) is None
    dark = bound_of(replace(NVME, pool=erasure(), network=None), Op.WRITE, None)
    assert dark.floor_of is Station.OSD_CPU


def test_files_are_created_by_the_ranks_of_their_cephfs() -> None:
    found = {system.target: system for system in systems_of_dumps(dumps("ceph-multi-az"))}
    assert {name for name, system in found.items() if system.ranks} == {"cephfs_r3", "cephfs_r2"}
    files = creation_bound(found["cephfs_r3"])
    assert (files.capacity_of, files.capacity_iops) == (Station.MDS, pytest.approx(100_000))
    # Neither OSDs nor round trips: a client need not wait, and no data is written.
    assert (files.floor_s, files.io_bytes, files.capacity_bps) == (None, None, None)
    assert creation_bound(found["rbd_r3"]).capacity_iops is None


def test_a_stream_is_received_by_one_thread() -> None:
    small, large = (receive_bound(System(record_bytes=size)) for size in (8192, 1 << 20))
    assert small.capacity_of is large.capacity_of is Station.RECEIVE
    assert small.capacity_bps is not None
    assert large.capacity_bps is not None
    assert small.capacity_bps < large.capacity_bps
    assert receive_bound(System()).capacity_iops is None


def test_polled_cores_bound_a_target_without_a_pool() -> None:
    bound = bound_of(System(target_cores=2.0), Op.READ, 4096)
    assert bound.capacity_of is Station.TARGET_CORES
    # 102,000 random reads a second were published of a Mayastor volume with two cores.
    assert bound.capacity_iops is not None
    assert bound.capacity_iops > 102_000


@pytest.mark.parametrize(
    ("url", "roles", "bound_bps"),
    [
        ("rbd:pool", ("client",), 1.25e9),
        ("rbd:pool", ("client", "storage"), None),  # an OSD of the client's own host
        ("dir:/mnt/disk", ("client",), None),
        ("zfs:tank", ("client",), None),
        ("zfs+rbd:pool", ("client",), None),  # may be compressed, or cached
    ],
)
def test_the_link_of_a_client_bounds_what_must_cross_it(
    tmp_path: Path, url: str, roles: tuple[str, ...], bound_bps: float | None
) -> None:
    found = build(tmp_path, {"a": (cell(), [Stored()])})
    (target,) = found.plan.targets
    plan = found.plan.model_copy(update={"targets": (target.model_copy(update={"url": url}),)})
    (tmp_path / layout.PLAN).write_bytes(layout.encode(plan))
    physical = host(plan).model_copy(update={"virtualization": "none"})
    layout.make_folders(tmp_path / layout.INVENTORY)
    (tmp_path / layout.INVENTORY / "001-start.json").write_bytes(layout.encode(physical))
    sample = machine(1.0, {}) | {"roles": list(roles), "links_bps": {"eth0": 1.25e9}}
    sample["interfaces"] = {"eth0": [1, 1, 0, 0, 1, 1, 0, 0]}
    lines(found.trial_folders[0], layout.RESOURCES, [sample])
    assert system_of(Run(tmp_path), target.name).client_link_bps == bound_bps
