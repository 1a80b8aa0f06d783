"""Differences of load generators, of what targets stand on, and of round trips."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.explain.effects import find_effects
from leadline.inventory.diff import cpu_budget_difference, host_differences, round_trip_difference
from leadline.inventory.host import BlockDevice, HostInventory, Mount, TargetInventory


def host(**changes: object) -> HostInventory:
    disk = BlockDevice(
        name="sda", kind="disk", size_bytes=1 << 40, model="Turner 7200 ", rotational=True
    )
    part = BlockDevice(name="sda1", kind="part", size_bytes=1 << 39, rotational=True, parent="sda")
    fast = BlockDevice(
        name="nvme0n1", kind="disk", size_bytes=1 << 40, model="Swift", rotational=False
    )
    mount = Mount(source="/dev/sda1", mount_point="/srv", filesystem="ext4", options="rw,relatime")
    values: dict[str, object] = {
        "taken_at": "2026-11-21T00:00:00Z",
        "hostname": "bench-1",
        "operating_system": "Debian 12",
        "kernel": "6.1.0",
        "architecture": "x86_64",
        "virtualization": "kvm",
        "cpu_model": "Some CPU",
        "cores": 8,
        "memory_bytes": 32 << 30,
        "block_devices": (disk, part, fast),
        "targets": (TargetInventory(target="t", url="dir:/srv", mount=mount),),
        "fio_version": "fio-3.33",
    }
    return HostInventory.model_validate({**values, **changes})


def paths(base: HostInventory, candidate: HostInventory) -> dict[str, tuple[str, str]]:
    found = host_differences(base, candidate)
    return {one.path: (one.baseline, one.candidate) for one in found.differences}


def test_the_same_machine_at_another_time_does_not_differ() -> None:
    found = host_differences(host(), host(taken_at="2027-01-01T00:00:00Z"))
    assert found.differences == ()
    assert found.identical[0] == "the same load generator: Some CPU, 8 cores, 32 GiB"


def test_another_machine_of_the_same_make_does_not_differ_either() -> None:
    found = host_differences(host(), host(hostname="bench-2", memory_bytes=(32 << 30) - (64 << 20)))
    assert found.differences == ()
    assert found.identical[0].startswith("load generators: Some CPU")


@pytest.mark.parametrize(
    ("key", "path", "value", "text"),
    [
        ("cpu_model", "client.cpu", "Other CPU", "Other CPU"),
        ("cores", "client.cores", 16, "16 cores"),
        ("kernel", "client.kernel", "6.12.0", "6.12.0"),
        ("virtualization", "client.virtualization", "none", "none"),
        ("memory_bytes", "client.memory", 64 << 30, "64 GiB"),
        ("fio_version", "client.fio", "fio-3.40", "fio-3.40"),
    ],
)
def test_each_fact_of_the_machine(key: str, path: str, value: object, text: str) -> None:
    found = paths(host(), host(**{key: value}))
    assert list(found) == [path]
    assert found[path][1] == text


def test_a_fact_that_one_side_does_not_tell_is_unknown() -> None:
    found = host_differences(host(), host(fio_version=""))
    assert found.differences == ()
    assert found.unknown == ("fio of the load generator",)


def test_filesystem_mount_options_and_the_disk_below() -> None:
    def on(source: str, filesystem: str, options: str) -> HostInventory:
        mount = Mount(source=source, mount_point="/x", filesystem=filesystem, options=options)
        return host(targets=(TargetInventory(target="t", url="dir:/x", mount=mount),))

    assert paths(host(), on("/dev/sda1", "xfs", "rw,relatime")) == {
        "targets.t.filesystem": ("ext4", "xfs")
    }
    assert paths(host(), on("/dev/sda1", "ext4", "relatime,rw,discard")) == {
        "targets.t.mount_options": ("not set", "discard")
    }
    # A partition is told by its disk, and a mount point is a name.
    assert paths(host(), on("/dev/nvme0n1", "ext4", "rw,relatime")) == {
        "targets.t.device": ("Turner 7200, rotating, 1 TiB", "Swift, solid state, 1 TiB")
    }


def test_targets_of_other_names_are_compared_where_they_are_said_to_be_partners() -> None:
    targets = (
        TargetInventory(target="slow", url="device:/dev/sda", device="sda"),
        TargetInventory(target="fast", url="device:/dev/nvme0n1", device="nvme0n1"),
    )
    machine = host(targets=targets)
    found = host_differences(machine, machine, {"fast vs slow": ("slow", "fast")})
    assert [one.path for one in found.differences] == ["targets.fast vs slow.device"]


# --- processor ---------------------------------------------------------------------------------


def test_a_budget_of_the_processor_differs_from_another_and_from_none() -> None:
    found = cpu_budget_difference(0.15, 1)
    assert found is not None
    assert (found.path, found.baseline, found.candidate) == (
        "lab.cpu_per_host",
        "0.15 cores",
        "1 core",
    )
    assert [bool(one.label) for one in find_effects(found)] == [True]
    against_none = cpu_budget_difference(None, 0.15)
    assert against_none is not None
    assert against_none.baseline == "no quota"
    assert cpu_budget_difference(0.15, 0.15) is cpu_budget_difference(None, None) is None


# --- round trips ---------------------------------------------------------------------------------


def test_round_trips() -> None:
    found = round_trip_difference(30e-6, 1.08e-3)
    assert found is not None
    assert (found.path, found.baseline, found.candidate) == (
        "network.inter_zone_rtt",
        "30 us",
        "1.08 ms",
    )
    alone = round_trip_difference(None, 1e-3)
    assert alone is not None
    assert alone.baseline == "not measured"
    assert round_trip_difference(None, None) is None


@given(st.floats(0, 1), st.floats(0, 1))
def test_round_trips_differ_both_ways_or_not_at_all(ours: float, theirs: float) -> None:
    there, back = round_trip_difference(ours, theirs), round_trip_difference(theirs, ours)
    assert (there is None) == (back is None)
    if there and back:
        assert (there.baseline, there.candidate) == (back.candidate, back.baseline)
    assert round_trip_difference(ours, ours) is None
