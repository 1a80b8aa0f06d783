from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from leadline.formats.ceph.rbd_bench import (
    parse_bench,
    rbd_bench_output,
    rbd_bench_windows,
    read_rbd_bench,
    read_rbd_bench_windows,
)
from leadline.formats.result import EngineOutput, FormatError
from leadline.metrics import Op
from tests.conftest import ROOT
from tests.unit.formats.ceph.test_rados_bench import found

RECORDED = ROOT / "tests" / "recorded" / "ceph-bench"
WRITE = (RECORDED / "rbd_bench_write_4k_rand.txt").read_bytes()
MIXED = (RECORDED / "rbd_bench_rw70_4k_rand.txt").read_bytes()
TRIAL = RECORDED / "rbd-trial"


def output_of(content: bytes) -> EngineOutput:
    return rbd_bench_output(parse_bench(content))


def test_a_write_gives_its_figures_in_base_units_and_no_latency() -> None:
    (job,) = output_of(WRITE).jobs
    (write,) = job.operations
    assert write.op is Op.WRITE
    assert (write.iops, write.total_ios, write.io_bytes) == (503.607, 3072, 12582912)
    assert write.bandwidth_bps == 503.607 * 4096
    assert write.runtime_s == pytest.approx(6.1, abs=1e-3)
    assert (write.submission, write.completion, write.total) == (None, None, None)
    assert job.core_share is None
    assert job.options.engine == "rbd-bench"
    assert (job.options.pattern, job.options.iodepth) == ("randwrite", 8)


def test_a_mix_gives_reads_and_writes() -> None:
    (job,) = output_of(MIXED).jobs
    read, write, total = job.with_total()
    assert (read.iops, write.iops) == (749.213, 325.289)
    assert (read.total_ios, write.total_ios, total.total_ios) == (2856, 1240, 4096)
    assert read.runtime_s == write.runtime_s
    assert job.options.raw["rwmixread"] == "70"
    assert rbd_bench_windows(parse_bench(MIXED)) == {}


def test_the_audit_has_nothing_to_say_but_what_is_true() -> None:
    for content in (WRITE, MIXED):
        codes = found(output_of(content))
        assert codes == {"latency-not-measured", "compressible-data"}


def test_the_seconds_come_from_what_was_done_not_from_the_mean_of_five() -> None:
    windows = rbd_bench_windows(parse_bench(WRITE))
    assert [window.value for window in windows[Op.WRITE]] == [392, 496, 504, 544, 496, 576]


def test_seconds_without_a_line_share_what_was_done_in_them() -> None:
    lines = WRITE.splitlines(keepends=True)
    gap = b"".join(line for line in lines if not line.startswith((b"    3", b"    4")))
    values = [window.value for window in rbd_bench_windows(parse_bench(gap))[Op.WRITE]]
    assert values == pytest.approx([392, 496, 1544 / 3, 1544 / 3, 1544 / 3, 576])


def test_old_releases_print_bare_numbers() -> None:
    old = (
        b"bench  type write io_size 4096 io_threads 8 bytes 12582912 pattern random\n"
        b"  SEC       OPS   OPS/SEC   BYTES/SEC\n"
        b"    1       392    396.83  1625416.00\n"
        b"elapsed:     6  ops:     3072  ops/sec:   503.61  bytes/sec: 2062786.56\n"
    )
    assert parse_bench(old).done == {Op.WRITE: (3072, 503.61)}


def test_a_trial_of_two_phases(tmp_path: Path) -> None:
    output = read_rbd_bench(TRIAL)
    assert [job.operations[0].op for job in output.jobs] == [Op.WRITE, Op.READ]
    assert all(job.job_runtime_s >= 3 for job in output.jobs)
    assert set(read_rbd_bench_windows(TRIAL)) == {Op.WRITE, Op.READ}
    assert found(output) == {"latency-not-measured", "compressible-data"}
    folder = tmp_path / "trial"
    shutil.copytree(TRIAL, folder)
    shutil.copyfile(folder / "rbd-bench-1.txt", folder / "rbd-bench-2.txt")
    with pytest.raises(FormatError, match="were asked"):
        read_rbd_bench(folder)
    (folder / "rbd-bench-2.txt").write_bytes(b"")
    with pytest.raises(FormatError) as refused:
        read_rbd_bench(folder)
    assert refused.value.condition == "empty-result"


SUMMARY = b"elapsed: 6   ops: 3072   ops/sec: 503.607   bytes/sec: 2.0 MiB/s"


@pytest.mark.parametrize(
    ("content", "condition", "fact"),
    [
        (b"\n", "empty-result", "empty"),
        ((RECORDED / "rbd_bench_json_attempt.txt").read_bytes(), "", "line 1"),
        (WRITE.replace(SUMMARY, b""), "truncated-result", "no summary"),
        (WRITE[:-30], "truncated-result", "cut off"),
        (WRITE.replace(b"pattern random", b"pattern zipf"), "unreadable-result", "line 1"),
        (WRITE.replace(SUMMARY, b"rbd: error"), "unreadable-result", "line 9"),
        (WRITE.replace(b"2.0 MiB/s\n", b"2.5 MiB/s\n"), "unreadable-result", "line 9"),
        (WRITE.replace(b"elapsed: 6", b"elapsed: 9"), "unreadable-result", "reports 9 s"),
        (WRITE.replace(b"    4      1936", b"    4       936"), "unreadable-result", "line 6"),
        (WRITE.replace(b"ops: 3072", b"ops: 3000"), "unreadable-result", "cannot be"),
        (b"\n".join(MIXED.splitlines()[:-1]) + b"\n", "truncated-result", "lacks its writes"),
        (MIXED.replace(b"write_ops: 1240", b"write_ops: 1239"), "unreadable-result", "add up"),
    ],
)
def test_what_is_not_understood_is_refused(content: bytes, condition: str, fact: str) -> None:
    with pytest.raises(FormatError) as refused:
        output_of(content)
    assert not condition or refused.value.condition == condition
    assert fact in refused.value.fact


def test_a_tool_that_died_left_a_part() -> None:
    with pytest.raises(FormatError, match="no summary") as refused:
        parse_bench((RECORDED / "rbd_bench_signalled_twice.txt").read_bytes())
    assert refused.value.condition == "truncated-result"
