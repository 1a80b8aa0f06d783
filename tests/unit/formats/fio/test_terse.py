from __future__ import annotations

import pytest

from leadline.formats.fio.terse import IMPORTER
from leadline.formats.importer import Result
from leadline.formats.result import EngineOutput, FormatError, JobResult, NoteKind, Operation
from leadline.metrics import Op
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "imports" / "fio-terse"
GOOD = (RECORDED / "openstack-cinder-ceph-02-time-vm-randwrite-0_terse.out").read_bytes()
STALLED = (RECORDED / "openstack-cinder-ceph-40-time-vm-randwrite-19_terse.out").read_bytes()
VERSIONS = {version: (RECORDED / f"own-3.33-v{version}.txt").read_bytes() for version in (2, 4, 5)}


def read(content: bytes) -> tuple[Result, ...]:
    return IMPORTER.read({"x_terse.out": content})


def reported(result: Result) -> tuple[EngineOutput, JobResult, tuple[Operation, ...]]:
    assert isinstance(result.output, EngineOutput)
    job = result.output.jobs[0]
    return result.output, job, job.operations


def test_a_line_of_version_3_in_base_units() -> None:
    (result,) = read(GOOD)
    output, job, (write,) = reported(result)
    assert result.workload == job.name == "time-vm-randwrite-0_fio"
    assert (output.version, job.group, job.error) == ("fio-2.2.10", 0, 0)
    assert (dict(job.options.raw), job.options.whole) == ({}, False)
    assert (job.options.iodepth, job.options.numjobs, job.options.engine) == (None, None, None)
    assert write.op is Op.WRITE
    assert (write.iops, write.runtime_s) == (3517, 600.011)
    assert write.io_bytes == 8442976 * 1024
    assert write.bandwidth_bps == pytest.approx(8442976 * 1024 / 600.011)
    assert write.total_ios is None
    assert write.submission is not None
    assert (write.submission.max_s, write.submission.mean_s) == (
        0.003788,
        pytest.approx(4.71555e-6),
    )
    assert write.completion is not None
    assert (write.completion.min_s, write.completion.max_s) == (0.000854, 1.536569)
    assert write.completion.percentiles[0.99] == 0.3584
    assert write.completion.percentiles[0.9999] == 1.171456
    assert len(write.completion.percentiles) == 17
    assert write.total is not None
    assert write.total.mean_s == pytest.approx(0.018191397847)
    assert job.user_cpu == pytest.approx(0.00935318)
    assert job.depth_levels[">=64"] == 1.0
    (disk,) = output.disks
    assert (disk.name, disk.read_ios, disk.write_ios, disk.busy_share) == ("vdc", 16, 2109213, 1.0)
    assert output.notes == ()


def test_what_fio_cannot_report_is_no_figure() -> None:
    """Six tenths of these I/Os took longer than the 16.7 s to which fio 2 counts."""
    output, _, (write,) = reported(read(STALLED)[0])
    assert write.completion is not None
    assert dict(write.completion.percentiles) == {
        0.01: 0.076288,
        0.05: 0.22016,
        0.1: 6.651904,
        0.2: 8.224768,
        0.3: 11.4688,
    }
    assert write.completion.max_s == 26.089149
    assert [note.kind for note in output.notes] == [NoteKind.LEFT_OUT, NoteKind.LEFT_OUT]
    assert write.bandwidth_bps == pytest.approx(9772 * 1024 / 606.242)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_has_its_own_places(version: int) -> None:
    """The first lines: read 20364 KiB and write 20596 KiB; no trims."""
    results = read(VERSIONS[version])
    assert len(results) == 2
    output, job, (first, second) = reported(results[0])
    assert (job.name, output.version) == ("a", "fio" if version == 2 else "fio-3.33")
    assert (first.op, first.io_bytes) == (Op.READ, 20364 * 1024)
    assert (second.op, second.io_bytes) == (Op.WRITE, 20596 * 1024)
    assert first.submission is None
    # 0.0097 us on average and at most 0: cut to whole microseconds: no value.
    assert second.completion is not None
    assert (second.completion.max_s is None) == (version != 5)
    assert job.depth_levels["1"] == 1.0
    assert "processes of one job or runs" in output.notes[-1].fact


def test_lines_with_the_same_disks_are_one_execution() -> None:
    other = GOOD.replace(b"time-vm-randwrite-0_fio", b"beside")
    results = read(GOOD + b"fio: a line of noise\n" + GOOD + other)
    assert [result.workload for result in results] == ["time-vm-randwrite-0_fio", "beside"]
    output, _, _ = reported(results[0])
    assert len(output.jobs) == 2
    assert output.noise == "fio: a line of noise"
    assert results[0].together is not None
    assert len(results[0].together.jobs) == 3


def test_unmeasured_latencies_and_impossible_figures() -> None:
    fields = GOOD.decode().split(";")
    start = 5 + 41
    for position in (*range(start + 4, start + 12), *range(start + 32, start + 36)):
        fields[position] = "0"
    fields[start + 2] = "-3517"
    output, _, (write,) = reported(read(";".join(fields).encode())[0])
    assert (write.submission, write.total, write.iops) == (None, None, None)
    assert [note.kind for note in output.notes] == [NoteKind.IMPOSSIBLE_VALUE]


def test_an_idle_job_has_no_operation() -> None:
    fields = GOOD.decode().split(";")
    fields[46:87] = fields[5:46]
    _, job, operations = reported(read(";".join(fields).encode())[0])
    assert operations == ()
    assert job.name == "time-vm-randwrite-0_fio"


@pytest.mark.parametrize(
    ("content", "condition", "where"),
    [
        (b"", "empty-result", "line 1"),
        (b"hello\n", "unreadable-result", "line 1"),
        (GOOD[:700], "truncated-result", "line 1"),
        (b"\n" + GOOD.replace(b";600011;", b";ten;"), "unreadable-result", "line 2, field 50"),
        (b"7;fio-9.9;a;0;0\n", "unreadable-result", "line 1, field 1"),
    ],
)
def test_what_is_not_understood_is_named(content: bytes, condition: str, where: str) -> None:
    with pytest.raises(FormatError) as refused:
        read(content)
    assert refused.value.condition == condition
    assert where in refused.value.context[0]


def test_files_are_recognised_by_their_lines() -> None:
    assert IMPORTER.recognises("x", GOOD)
    assert IMPORTER.recognises("x", b"fio: noise\n" + VERSIONS[2])
    assert not IMPORTER.recognises("x", b"2;a;b\n")
    assert not IMPORTER.recognises("x", b'{"fio version": "fio-3.1"}')


@pytest.mark.thorough
def test_many_lines_take_time_that_grows_with_them() -> None:
    """Quadratic time would be minutes here."""
    lines = [GOOD.replace(b"write-0_fio", b"write-%d_fio" % at) for at in range(5000)]
    assert len(read(b"".join(lines))) == 5000
    assert len(read(VERSIONS[5] * 2500)) == 5000
