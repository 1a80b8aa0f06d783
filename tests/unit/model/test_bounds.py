"""Bounds against published rates, the work of I/Os against published counts, and laws."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.model.bounds import (
    Demand,
    Prior,
    Resources,
    Station,
    StorageIo,
    Task,
    coded_io,
    cost_s,
    creation_capacity,
    find_capacities,
    medium_capacity,
    read_demands,
    receive_capacity,
    replicated_io,
    streamed_bytes,
)

PUBLISHED = Path(__file__).parents[2] / "recorded" / "published-rates" / "rep3-nvme-reef.csv"
GBE_100_BPS = 12.5e9
BLOCKS = {"4k": 4096, "4M": 4 << 20}


def published() -> list[dict[str, str]]:
    with PUBLISHED.open(encoding="utf-8") as rows:
        return list(csv.DictReader(rows))


def test_no_published_rate_exceeds_a_bound() -> None:
    tightest = []
    for row in published():
        found = find_capacities(
            Resources(
                osd_cores=float(row["osd_threads"]),
                flash_osds=int(row["osds"]),
                disk_osds=0,
                osd_hosts=int(row["osd_hosts"]),
                osd_links_bps=int(row["osd_hosts"]) * GBE_100_BPS,
                apart=True,
                client_links_bps=int(row["client_hosts"]) * GBE_100_BPS,
                client_on_osd_host=False,
            ),
            BLOCKS[row["bs"]],
            replicated_io(BLOCKS[row["bs"]], 3, write=row["rw"] == "randwrite"),
        )
        assert set(found) == {
            Station.OSD_CPU,
            Station.MEDIUM,
            Station.CLIENT_LINK,
            Station.OSD_LINK,
        }
        tightest.append(float(row["iops"]) / min(found.values()))
    assert max(tightest) < 1.0
    # A bound that is far from everything is no bound: links of 100 Gbit/s limited large reads.
    assert max(tightest) > 0.85


def test_every_task_has_a_demand_in_order() -> None:
    demands = read_demands()
    assert set(demands) == set(Task)
    for task, demand in demands.items():
        low, high = demand.typical_us
        assert 0 <= demand.least_us <= low <= high, task
        assert sorted(demand.per_kib_us) == list(demand.per_kib_us), task
        assert demand.source


def test_a_cost_is_a_fixed_part_and_one_for_each_kib() -> None:
    demand = Demand(least_us=10, typical_us=(20, 40), per_kib_us=(0, 1, 2), source="x")
    assert demand.seconds(Prior.LEAST, 8192) == pytest.approx(10e-6)
    assert demand.seconds(Prior.LOW, 8192) == pytest.approx(28e-6)
    assert demand.seconds(Prior.HIGH, 8192) == pytest.approx(56e-6)


@pytest.mark.parametrize(
    ("k", "m", "reads", "writes"),
    # doc/dev/osd_internals/erasure_coding/enhancements.rst; 2+1 follows from the same rule.
    [(2, 2, 1, 3), (4, 2, 3, 3), (6, 2, 3, 3), (8, 2, 3, 3), (2, 1, 1, 2)],
)
def test_partial_writes_touch_the_shards_that_ceph_documents(
    k: int, m: int, reads: int, writes: int
) -> None:
    io = coded_io(4096, k, m, write=True, whole_stripes=False, only_needed=True)
    assert (io.reads, io.writes) == (reads, writes)


def test_other_writes_touch_whole_stripes() -> None:
    old = coded_io(4096, 2, 1, write=True, whole_stripes=False, only_needed=False)
    assert (old.reads, old.writes) == (2, 3)
    whole = coded_io(1 << 20, 4, 2, write=True, whole_stripes=True, only_needed=True)
    assert (whole.reads, whole.writes, whole.part_bytes) == (0, 6, 1 << 18)
    assert coded_io(4096, 4, 2, write=False, whole_stripes=False, only_needed=True).reads == 1
    assert coded_io(4096, 4, 2, write=False, whole_stripes=False, only_needed=False).reads == 4


def typical(task: Task, size: float) -> float:
    return (cost_s(task, Prior.LOW, size) * cost_s(task, Prior.HIGH, size)) ** 0.5


def test_the_usual_work_is_that_of_published_writes() -> None:
    # ming1: 652 to 659 us of processor time with three copies, 1004 to 1017 us with erasure code;
    # ceph.io 2023: 682 to 1222 us of a thread with three copies.
    assert 600e-6 < replicated_io(4096, 3, write=True).cpu_s(typical) < 1000e-6
    code = coded_io(4096, 2, 1, write=True, whole_stripes=False, only_needed=False)
    assert 900e-6 < code.cpu_s(typical) < 2000e-6
    assert 45e-6 < replicated_io(4096, 3, write=False).cpu_s(typical) < 164e-6


def test_media_have_the_ceilings_of_the_osds_own_bench() -> None:
    assert medium_capacity(replicated_io(4096, 3, write=True), 3, 0) == 80_000
    assert medium_capacity(replicated_io(4096, 3, write=False), 30, 0) == 4_800_000
    assert medium_capacity(replicated_io(4096, 2, write=True), 0, 8) == 2_000


IOS = st.one_of(
    st.builds(
        replicated_io,
        st.sampled_from([4096.0, 65536.0, 4194304.0]),
        st.integers(1, 6),
        write=st.booleans(),
    ),
    st.builds(
        coded_io,
        st.sampled_from([4096.0, 65536.0, 4194304.0]),
        st.integers(2, 10),
        st.integers(1, 4),
        write=st.booleans(),
        whole_stripes=st.booleans(),
        only_needed=st.booleans(),
    ),
)


@given(io=IOS)
def test_the_path_is_never_more_work_than_the_whole(io: StorageIo) -> None:
    assert 0 < io.path_least_s() <= io.cpu_least_s() * (1 + 1e-9)
    assert io.cpu_least_s() <= io.cpu_s(typical)
    assert io.moved_bytes >= 0


@given(io=IOS, cores=st.floats(1, 512), hosts=st.integers(1, 32), more=st.integers(2, 4))
def test_capacities_grow_in_proportion_to_units(
    io: StorageIo, cores: float, hosts: int, more: int
) -> None:
    def at(times: int) -> dict[Station, float]:
        return dict(
            find_capacities(
                Resources(
                    osd_cores=cores * times,
                    shared_cores=True,
                    flash_osds=hosts * times,
                    disk_osds=0,
                    client_cores=cores * times,
                    client_links_bps=1e9 * times,
                    target_cores=2.0 * times,
                ),
                io.size_bytes,
                io,
            )
        )

    one, several = at(1), at(more)
    assert one.keys() == several.keys()
    for station, most in one.items():
        assert several[station] == pytest.approx(more * most)


def test_links_carry_what_leaves_a_host() -> None:
    def link(io: StorageIo, *, here: bool, apart: bool = True) -> float | None:
        resources = Resources(osd_hosts=4, osd_links_bps=4e9, apart=apart, client_on_osd_host=here)
        return find_capacities(resources, io.size_bytes, io).get(Station.OSD_LINK)

    write = replicated_io(1e6, 3, write=True)
    assert link(write, here=False) == pytest.approx(4e9 / 3e6)
    assert link(write, here=True) == pytest.approx(4e9 / 2e6)
    # Copies on one host, and a client there: nothing needs to leave it.
    assert link(write, here=True, apart=False) is None
    read = replicated_io(1e6, 3, write=False)
    assert link(read, here=True) == pytest.approx(4e9 / 0.75e6)
    assert link(read, here=False) == pytest.approx(4e9 / 1e6)


def test_a_polled_target_has_a_limit_of_its_own() -> None:
    found = find_capacities(Resources(target_cores=2.0), 131072, None)
    assert set(found) == {Station.TARGET_CORES}


def test_a_receiving_thread_is_above_what_was_published() -> None:
    """98,100 records of 8 KiB a second (openzfs/zfs#10099, after writes were batched)."""
    assert 2 * 98_100 < receive_capacity(8192) < 5 * 98_100
    # Fewer records, and more bytes of them; the header counts where records are small.
    bandwidths = [receive_capacity(size) * streamed_bytes(size) for size in (512, 8192, 1 << 20)]
    assert bandwidths == sorted(bandwidths)
    assert streamed_bytes(512) == 824
    assert receive_capacity(1 << 20) < receive_capacity(8192) < receive_capacity(512)


def test_ranks_create_files_in_proportion() -> None:
    assert creation_capacity(1) == pytest.approx(100_000)
    assert creation_capacity(3) == pytest.approx(300_000)
