"""Reads that never reached the devices below a target, and buffers that a dataset compresses."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from leadline.archive.records import Extent, TrialRecord, TrialStatus
from leadline.audit.evidence import TrialEvidence
from leadline.audit.physics import compressing_layer, read_below
from leadline.audit.rules import cache_served_reads, compressible_data
from leadline.findings import Finding, Severity
from leadline.formats.result import EngineOutput, JobOptions, JobResult, Latency, Operation
from leadline.formats.watch_records import DiskCounters, HostSample, MissedHostSample, Role
from leadline.inventory.layer import Layer, LayerKind
from leadline.metrics import Op
from tests.unit.audit.audit_archives import cell
from tests.unit.audit.published import output_evidence

MIB = 1 << 20
WRITTEN = Extent(span_bytes=64 * MIB, written_bytes=64 * MIB, allocated_bytes=None)
EXT4 = (
    Layer(kind=LayerKind.FILESYSTEM, name="ext4", facts={"options": "rw,relatime"}),
    Layer(kind=LayerKind.BLOCK, name="loop1", devices=("loop1",), facts={"backing": "/srv/a"}),
    Layer(kind=LayerKind.FILESYSTEM, name="ext4"),
    Layer(kind=LayerKind.BLOCK, name="vda", devices=("vda",)),
)


def zfs(
    compression: str = "off", devices: tuple[str, ...] = ("loop1", "loop2")
) -> tuple[Layer, ...]:
    dataset = Layer(
        kind=LayerKind.ZFS, name="tank/a", devices=devices, facts={"compression": compression}
    )
    return (dataset, Layer(kind=LayerKind.BLOCK, name="+".join(devices), devices=devices))


def sample(
    elapsed_s: float,
    read_mib: Mapping[str, float],
    *,
    machine: str = "m",
    roles: frozenset[Role] = frozenset({Role.CLIENT}),
) -> HostSample:
    nothing = dict.fromkeys((one.name for one in dataclasses.fields(DiskCounters)), 0)
    return HostSample(
        at="",
        elapsed_s=elapsed_s,
        machine=machine,
        roles=roles,
        clock_s=elapsed_s,
        cores=2,
        hz=100,
        cpu=None,
        disks={
            name: DiskCounters(**{**nothing, "read_bytes": int(value * MIB)})
            for name, value in read_mib.items()
        },
        interfaces={},
        links_bps={},
        groups={},
        processes={},
        unread=(),
    )


def grown(**read_mib: float) -> tuple[HostSample, ...]:
    start = sample(0.0, dict.fromkeys(read_mib, 1000.0))
    return (start, sample(5.0, {name: 1000.0 + value for name, value in read_mib.items()}))


def test_the_highest_layer_that_was_counted_is_the_one_to_ask() -> None:
    below = read_below(EXT4, grown(loop1=10, vda=900), 5.0)
    assert below is not None
    assert (below.read_bytes, below.devices, below.through_zfs) == (10 * MIB, ("loop1",), False)
    deeper = read_below(EXT4, grown(vda=900), 5.0)
    assert deeper is not None
    assert deeper.devices == ("vda",)


def test_all_devices_of_a_pool_must_be_counted() -> None:
    below = read_below(zfs(), grown(loop1=10, loop2=30), 5.0)
    assert below is not None
    assert below.read_bytes == 40 * MIB
    assert below.through_zfs
    assert read_below(zfs(), grown(loop1=10), 5.0) is None


@pytest.mark.parametrize(
    ("samples", "why"),
    [
        ((), "nothing was sampled"),
        (grown(loop1=1)[:1], "one sample has no growth"),
        ((sample(0, {"loop1": 0}), sample(3, {"loop1": 1})), "two seconds of five are not seen"),
        ((sample(0, {"loop1": 9}), sample(5, {"loop1": 1})), "the device is another one"),
        (
            (sample(0, {"loop1": 0}), sample(5, {"loop1": 1}, machine="other")),
            "several machines made the load",
        ),
        (
            tuple(sample(at, {"loop1": at}, roles=frozenset({Role.STORAGE})) for at in (0.0, 5.0)),
            "the storage's machine has a loop1 of its own",
        ),
        (
            (
                *(MissedHostSample(at="", elapsed_s=0, machine="m", roles=frozenset(), reason=""),),
                sample(5, {"loop1": 1}),
            ),
            "the start was missed",
        ),
    ],
)
def test_where_the_counters_do_not_cover_the_trial_nothing_is_said(
    samples: tuple[HostSample | MissedHostSample, ...], why: str
) -> None:
    assert read_below(EXT4, samples, 5.0) is None, why


# --- the rules -----------------------------------------------------------------------------------


def evidence(
    stack: tuple[Layer, ...],
    samples: tuple[HostSample, ...],
    *,
    read_mib: int = 100,
    job_file: bool = False,
    extent: Extent | None = WRITTEN,
    op: Op = Op.READ,
    jobs: int = 1,
    **options: str,
) -> TrialEvidence:
    done = Operation(
        op=op,
        iops=25_600.0,
        bandwidth_bps=read_mib * MIB / 5,
        total_ios=read_mib * 256,
        io_bytes=read_mib * MIB,
        runtime_s=5.0,
        total=Latency(mean_s=40e-6),
    )
    raw = {"rw": "randread", "ioengine": "psync", "bs": "4k", "direct": "1", **options}
    made = tuple(
        JobResult(name=f"j{number}", options=JobOptions(raw=raw), operations=(done,))
        for number in range(jobs)
    )
    record = TrialRecord(
        trial="t0001",
        attempt=1,
        target="disk",
        workload="randread",
        level="",
        block=1,
        status=TrialStatus.COMPLETED,
        engine="fio",
        engine_version="fio-3.33",
        started_at="",
        ended_at="",
        wall_s=5.0,
        asked_s=5.0,
        bound_s=20.0,
        extent=extent,
    )
    return dataclasses.replace(
        output_evidence(EngineOutput(version="fio-3.33", jobs=made)),
        cell=cell(job_file=job_file),
        record=record,
        machines=samples,
        stack=stack,
    )


def of_layers(trial: TrialEvidence) -> list[Finding]:
    """Findings that the counters of layers made."""
    found = [one for job in trial.jobs for one in cache_served_reads.check.findings(job)]
    return [one for one in found if "device_read_bytes" in one.evidence]


def test_reads_that_the_devices_did_not_do_came_from_the_arc() -> None:
    (found,) = of_layers(evidence(zfs(), grown(loop1=10, loop2=20)))
    assert found.severity is Severity.ERROR
    assert found.evidence["device_share"] == pytest.approx(0.3)
    assert "the ARC" in found.message
    assert "primarycache" in found.remedy


def test_at_half_of_the_bytes_nothing_is_said() -> None:
    assert not of_layers(evidence(zfs(), grown(loop1=25, loop2=25)))
    assert of_layers(evidence(zfs(), grown(loop1=25, loop2=24.9)))
    assert not of_layers(evidence(EXT4, grown(loop1=4000))), "others read as well, or read-ahead"


def test_several_jobs_share_the_counters() -> None:
    found = of_layers(evidence(EXT4, grown(loop1=90), jobs=2))
    assert [one.severity for one in found] == [Severity.WARNING, Severity.WARNING]
    assert found[0].evidence["read_bytes"] == 200 * MIB
    assert not of_layers(evidence(EXT4, grown(loop1=110), jobs=2))


def test_holes_and_compressed_blocks_are_no_cache() -> None:
    little = grown(loop1=0, loop2=0)
    sparse = Extent(span_bytes=64 * MIB, written_bytes=0, allocated_bytes=0)
    assert not of_layers(evidence(zfs(), little, extent=sparse))
    assert not of_layers(evidence(zfs("lz4"), little, job_file=True, extent=None))
    assert of_layers(evidence(zfs("lz4"), little)), "what Leadline lays out does not compress"
    assert of_layers(evidence(zfs(), little, job_file=True, extent=None))
    btrfs = (Layer(kind=LayerKind.FILESYSTEM, name="btrfs", facts={"options": "rw,compress=zstd"}),)
    assert not of_layers(evidence((*btrfs, *EXT4[1:]), grown(loop1=0), job_file=True, extent=None))


def compressible(trial: TrialEvidence) -> list[Finding]:
    return [one for job in trial.jobs for one in compressible_data.check.findings(job)]


@pytest.mark.parametrize(
    ("stack", "option", "severity", "said"),
    [
        (EXT4, {"zero_buffers": "1"}, Severity.WARNING, "Storage that compresses"),
        (zfs("off"), {"zero_buffers": "1"}, Severity.WARNING, "Storage that compresses"),
        (zfs("lz4"), {"zero_buffers": "1"}, Severity.ERROR, "tank/a compresses (lz4)"),
        (zfs("on"), {"buffer_pattern": "0xab"}, Severity.ERROR, "stored almost nothing"),
        (zfs("lz4"), {"buffer_compress_percentage": "50"}, Severity.WARNING, "stored less"),
    ],
)
def test_a_dataset_that_compresses_makes_it_sure(
    stack: tuple[Layer, ...], option: dict[str, str], severity: Severity, said: str
) -> None:
    (found,) = compressible(evidence(stack, (), op=Op.WRITE, rw="write", **option))
    assert found.severity is severity
    assert said in found.message


def test_incompressible_buffers_on_a_dataset_that_compresses_are_fine() -> None:
    assert not compressible(evidence(zfs("lz4"), (), op=Op.WRITE, rw="write"))
    assert compressing_layer(zfs("-")) is None, "a pool too old to report it"
