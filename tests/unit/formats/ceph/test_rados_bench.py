from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import orjson
import pytest

from leadline.audit.registry import RULES
from leadline.formats.ceph.bench_request import REQUEST_FILE, BenchRequest
from leadline.formats.ceph.rados_bench import (
    OUTPUT_FILE,
    parse_pass,
    read_rados_bench,
    read_rados_bench_windows,
)
from leadline.formats.fio.logs import progress_windows
from leadline.formats.result import EngineOutput, FormatError
from leadline.metrics import PERCENTILES, Metric, Op
from leadline.plan.workload import Pattern, Phase
from tests.conftest import ROOT
from tests.unit.audit.published import output_evidence

RECORDED = ROOT / "tests" / "recorded" / "ceph-bench"
WRITE = (RECORDED / "rados_bench_write_64k_out.json").read_bytes()
RAND = (RECORDED / "rados_bench_rand.stdout").read_bytes()
SEQ = (RECORDED / "rados_bench_seq.stdout").read_bytes()
TRIAL = RECORDED / "rados-trial"


def request(
    pattern: Pattern, runtime_s: float, *, depth: int = 8, block: int = 65536
) -> BenchRequest:
    phase = Phase(
        name="it", pattern=pattern, block_size=block, iodepth=depth, numjobs=1, size=64 << 20
    )
    return BenchRequest(tool="rados bench", phases=(phase,), runtime_s=runtime_s)


def read_output(content: bytes, request: BenchRequest) -> EngineOutput:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, REQUEST_FILE).write_text(request.text())
        Path(folder, OUTPUT_FILE.format(phase=1, pass_=1)).write_bytes(content)
        return read_rados_bench(Path(folder))


def changed(content: bytes, **figures: object) -> bytes:
    document = orjson.loads(content[content.index(b"{") :])
    for key, value in figures.items():
        if value is None:
            del document[key]
        else:
            document[key] = value
    return orjson.dumps(document)


def test_a_write_gives_its_figures_in_base_units() -> None:
    (job,) = read_output(WRITE, request(Pattern.WRITE, 6)).jobs
    (write,) = job.operations
    assert write.op is Op.WRITE
    assert (write.total_ios, write.io_bytes) == (2263, 2263 * 65536)
    assert write.iops == 2263 / 6.007512
    assert write.bandwidth_bps == 23.543441 * 1024**2
    assert write.runtime_s == 6.007512
    assert write.total is not None
    assert write.total.mean_s == 0.021213
    assert (write.total.min_s, write.total.max_s) == (0.004417, 0.068082)
    assert write.total.stddev_s == 0.007976
    assert write.total.count == 2263
    assert (job.user_cpu, job.system_cpu, job.core_share) == (None, None, None)


def test_what_the_tool_does_not_measure_is_not_there() -> None:
    """No percentiles; of reads no deviation either."""
    (job,) = read_output(RAND, request(Pattern.RANDREAD, 4)).jobs
    (read,) = job.operations
    assert read.total is not None
    assert read.total.histogram is None
    assert read.total.stddev_s is None
    metrics = read.metrics()
    assert metrics[Metric.LATENCY_MEAN] == 0.002568
    assert all(metrics[metric] is None for metric in PERCENTILES)


def test_options_are_in_fios_words() -> None:
    (job,) = read_output(WRITE, request(Pattern.WRITE, 6)).jobs
    assert job.options.engine == "rados-bench"
    assert job.options.pattern == "write"
    assert (job.options.iodepth, job.options.size("bs"), job.options.direct) == (8, 65536, True)
    assert job.options.seconds("runtime") == 6


@pytest.mark.parametrize(
    ("content", "pattern", "runtime_s"),
    [(WRITE, Pattern.WRITE, 6.0), (RAND, Pattern.RANDREAD, 4.0), (SEQ, Pattern.READ, 5.0)],
    ids=["write", "rand", "seq"],
)
def test_the_audit_has_nothing_to_say_but_what_is_true(
    content: bytes, pattern: Pattern, runtime_s: float
) -> None:
    """The tool writes compressible data; the recorded seq ran out of objects after 1.1 s; rand read
    64 MiB twelve times over."""
    output = read_output(content, request(pattern, runtime_s))
    expected = {
        Pattern.WRITE: {"compressible-data"},
        Pattern.RANDREAD: {"cache-served-reads"},
        Pattern.READ: {"short-runtime"},
    }
    assert found(output) == expected[pattern]


def found(output: EngineOutput) -> set[str]:
    trial = output_evidence(output)
    evidence = (trial, *trial.jobs)
    return {
        rule.code
        for rule in RULES
        for one in evidence
        if isinstance(one, rule.looks_at)
        for _ in rule.check(one)
    }


def test_seconds_give_rates() -> None:
    values = [window.value for window in progress_windows([parse_pass(WRITE).progress])]
    assert values == [452, 364, 352, 321, 371, 402]


def test_passes_are_put_one_behind_the_other() -> None:
    one = parse_pass(SEQ).progress
    windows = progress_windows([one, one, one])
    assert [window.end_s for window in windows] == [1, 2, 3]
    assert windows[0].value == 1947
    total = sum(window.value for window in windows)
    assert total == pytest.approx(3 * 2263 * 3 / (3 * 1.129706), rel=0.05)


def test_a_trial_of_two_phases_and_several_passes() -> None:
    write, read = read_rados_bench(TRIAL).jobs
    passes = [parse_pass((TRIAL / f"rados-bench-2-{n}.json").read_bytes()) for n in (1, 2, 3, 4)]
    (done,) = read.operations
    assert write.operations[0].op is Op.WRITE
    assert done.total_ios == sum(one.ios for one in passes)
    assert done.iops * done.runtime_s == pytest.approx(done.total_ios)
    assert done.total is not None
    assert done.total.max_s == max(one.max_s for one in passes)
    assert read.elapsed_s == write.job_runtime_s + read.job_runtime_s
    windows = read_rados_bench_windows(TRIAL)
    assert set(windows) == {Op.WRITE, Op.READ}
    assert len(windows[Op.READ]) == 3
    assert found(read_rados_bench(TRIAL)) == {"compressible-data"}


def test_a_missing_pass_or_phase_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "trial"
    shutil.copytree(TRIAL, folder)
    (folder / "rados-bench-2-1.json").unlink()
    with pytest.raises(FormatError, match="wrote no rados-bench-2-1") as refused:
        read_rados_bench(folder)
    assert refused.value.condition == "empty-result"
    (folder / "bench.json").unlink()
    with pytest.raises(FormatError, match="has no request"):
        read_rados_bench(folder)


def test_garbage_figures_are_never_used() -> None:
    one = parse_pass((RECORDED / "rados_bench_100_objects.json").read_bytes())
    assert (one.ios, one.ran_s, one.seconds) == (100, 0.042485, ())
    assert progress_windows([one.progress]) == ()


def test_the_colon_of_old_releases() -> None:
    old = WRITE.replace(b'"max_latency"', b'"max_latency:"')
    assert parse_pass(old) == parse_pass(WRITE)


@pytest.mark.parametrize(
    ("content", "condition", "fact"),
    [
        (b"", "empty-result", "wrote nothing"),
        (b"hints = 1\n", "truncated-result", "no JSON"),
        (WRITE[:500], "truncated-result", "cut off"),
        (WRITE[:-3], "truncated-result", "cut off"),
        (WRITE.replace(b'"datas":', b'"datas" '), "unreadable-result", "not JSON"),
        (b"hints = 1\n{}", "truncated-result", "no total"),
        (changed(WRITE, total_writes_made=None), "truncated-result", "no total"),
        (changed(WRITE, total_reads_made="1"), "unreadable-result", "two totals"),
        (changed(WRITE, total_time_run="-1"), "unreadable-result", "total_time_run"),
        (changed(WRITE, average_latency="nan"), "unreadable-result", "average_latency"),
        (changed(WRITE, average_latency="fast"), "unreadable-result", "average_latency"),
        (changed(WRITE, write_size=None), "unreadable-result", "write_size"),
        (changed(WRITE, write_size="65536.5"), "unreadable-result", "whole number"),
        (changed(WRITE, average_iops="3760"), "unreadable-result", "average_iops"),
        (changed(WRITE, bandwidth="24.6"), "unreadable-result", "bandwidth"),
        (changed(WRITE, datas="none"), "unreadable-result", "datas"),
        (
            changed(WRITE, datas=[{"sec": "1", "finished": "9999"}]),
            "unreadable-result",
            "datas[0]",
        ),
    ],
)
def test_what_is_not_understood_is_refused(content: bytes, condition: str, fact: str) -> None:
    with pytest.raises(FormatError) as refused:
        read_output(content, request(Pattern.WRITE, 6))
    assert refused.value.condition == condition
    assert fact in refused.value.fact


def test_the_plain_text_is_refused() -> None:
    with pytest.raises(FormatError, match="no JSON"):
        parse_pass((RECORDED / "rados_bench_write_plain.txt").read_bytes())


@pytest.mark.parametrize(
    "other",
    [
        request(Pattern.RANDREAD, 6),
        request(Pattern.WRITE, 6, depth=4),
        request(Pattern.WRITE, 6, block=4096),
    ],
)
def test_output_of_another_job_is_refused(other: BenchRequest) -> None:
    with pytest.raises(FormatError):
        read_output(WRITE, other)
