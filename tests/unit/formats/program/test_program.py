from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

from leadline.archive.raw import read_output, read_windows
from leadline.formats.program.request import Program, read_request
from leadline.formats.result import FormatError, NoteKind
from leadline.metrics import Metric, Op
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "program"
PGBENCH, SYSBENCH = RECORDED / "pgbench", RECORDED / "sysbench"
LOG = "transactions.log.gz"


@pytest.fixture
def pgbench(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PGBENCH, tmp_path / "trial"))


@pytest.fixture
def sysbench(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SYSBENCH, tmp_path / "trial"))


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def log_lines(folder: Path) -> list[str]:
    return gzip.decompress((folder / LOG).read_bytes()).decode().splitlines(keepends=True)


def write_log(folder: Path, lines: list[str]) -> None:
    (folder / LOG).write_bytes(gzip.compress("".join(lines).encode()))


def test_percentiles_of_transactions_are_those_of_the_log() -> None:
    output = read_output(Program.PGBENCH, PGBENCH)
    (job,) = output.jobs
    (operation,) = job.operations
    latencies = sorted(int(line.split()[2]) for line in log_lines(PGBENCH))
    metrics = operation.metrics()
    assert operation.op is Op.TRANSACTION
    assert operation.total_ios == len(latencies)
    assert metrics[Metric.LATENCY_MEAN] == pytest.approx(sum(latencies) / len(latencies) / 1e6)
    at = -(-99 * len(latencies) // 100) - 1
    assert metrics[Metric.LATENCY_P99] == pytest.approx(latencies[at] / 1e6)
    assert metrics[Metric.BANDWIDTH] is None


def test_its_rate_and_mean_are_those_of_its_summary() -> None:
    text = (PGBENCH / "pgbench.txt").read_text()
    (operation,) = read_output(Program.PGBENCH, PGBENCH).jobs[0].operations
    assert f"tps = {operation.iops:.6f} " in text
    mean_ms = (operation.metrics()[Metric.LATENCY_MEAN] or 0.0) * 1e3
    printed = float(text.partition("latency average = ")[2].split()[0])
    assert mean_ms == pytest.approx(printed, rel=1e-3)


def test_the_settings_of_the_server_are_options_of_the_job() -> None:
    options = read_output(Program.PGBENCH, PGBENCH).jobs[0].options
    assert options.text("postgresql.fsync") == "on"
    assert options.text("postgresql.shared_buffers") == "128MB"
    assert options.text("script") == "tpcb-like"
    assert options.numjobs == 4


def test_there_is_a_window_of_transactions_for_each_second() -> None:
    windows = read_windows(Program.PGBENCH, PGBENCH)[Op.TRANSACTION]
    assert [window.end_s for window in windows] == [1.0, 2.0, 3.0]
    (operation,) = read_output(Program.PGBENCH, PGBENCH).jobs[0].operations
    assert sum(window.value for window in windows) / 3 == pytest.approx(operation.iops, rel=0.02)


def test_failed_transactions_are_noted_and_have_no_latency(pgbench: Path) -> None:
    lines = log_lines(pgbench)
    columns = lines[0].split()
    lines.append(f"{columns[0]} 9999 failed {' '.join(columns[3:])}\n")
    write_log(pgbench, lines)
    edit(pgbench / "pgbench.txt", "failed transactions: 0 ", "failed transactions: 1 ")
    output = read_output(Program.PGBENCH, pgbench)
    assert [note.kind for note in output.notes] == [NoteKind.FAILED_OPERATIONS]
    operation = output.jobs[0].operations[0]
    assert operation.total is not None
    assert operation.total.count == len(lines) - 1


def test_of_a_long_trial_the_log_is_a_sample(pgbench: Path) -> None:
    edit(pgbench / "program.json", '"runtime_s": 3.0', '"runtime_s": 600.0')
    assert read_request(pgbench).logged_share == 0.2
    lines = log_lines(pgbench)[::5]
    write_log(pgbench, lines)
    (operation,) = read_output(Program.PGBENCH, pgbench).jobs[0].operations
    assert operation.total is not None
    assert operation.total.count == len(lines)
    assert operation.total_ios == len(log_lines(PGBENCH))


def test_a_log_of_other_transactions_is_refused(pgbench: Path) -> None:
    write_log(pgbench, log_lines(pgbench)[1:])
    with pytest.raises(FormatError, match="its log has"):
        read_output(Program.PGBENCH, pgbench)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0 1 12 0 17\n", "none of pgbench 15"),
        ("0 1 -12 0 17 1\n", "none of pgbench 15"),
        ("0 1 fast 0 17 1\n", "no number"),
        ("0 1 12 0", "ends within a line"),
    ],
)
def test_a_damaged_log_is_refused(pgbench: Path, line: str, message: str) -> None:
    write_log(pgbench, [*log_lines(pgbench), line])
    with pytest.raises(FormatError, match=message):
        read_output(Program.PGBENCH, pgbench)


def test_a_cut_log_is_truncated(pgbench: Path) -> None:
    packed = (pgbench / LOG).read_bytes()
    (pgbench / LOG).write_bytes(packed[: len(packed) // 2])
    with pytest.raises(FormatError) as refused:
        read_output(Program.PGBENCH, pgbench)
    assert refused.value.condition == "truncated-result"


@pytest.mark.parametrize("program", list(Program))
def test_an_output_without_a_summary_is_truncated(program: Program, tmp_path: Path) -> None:
    recorded = PGBENCH if program is Program.PGBENCH else SYSBENCH
    folder = Path(shutil.copytree(recorded, tmp_path / "trial"))
    path = folder / f"{recorded.name}.txt"
    mark = "progress: 2.0 s" if program is Program.PGBENCH else "[ 2s ]"
    path.write_text(path.read_text().partition(mark)[0])
    with pytest.raises(FormatError) as refused:
        read_output(program, folder)
    assert refused.value.condition == "truncated-result"


def test_events_of_sysbench_are_reads_writes_and_fsyncs_together() -> None:
    output = read_output(Program.SYSBENCH, SYSBENCH)
    found = {operation.op: operation for operation in output.jobs[0].operations}
    assert list(found) == [Op.READ, Op.WRITE, Op.SYNC, Op.TOTAL]
    parts = sum(found[op].iops or 0.0 for op in (Op.READ, Op.WRITE, Op.SYNC))
    assert found[Op.TOTAL].iops == pytest.approx(parts, rel=1e-3)
    assert found[Op.READ].bandwidth_bps == pytest.approx(
        (found[Op.READ].iops or 0.0) * 16384, rel=1e-3
    )
    # A latency is of all events, so that it is that of none of the parts.
    assert found[Op.READ].metrics()[Metric.LATENCY_MEAN] is None
    text = (SYSBENCH / "sysbench.txt").read_text()
    mean_ms = float(text.partition("avg:")[2].split()[0])
    found_ms = (found[Op.TOTAL].metrics()[Metric.LATENCY_MEAN] or 0.0) * 1e3
    assert found_ms == pytest.approx(mean_ms, abs=0.006)
    p99_ms = float(text.partition("99th percentile:")[2].split()[0])
    at_99_s = found[Op.TOTAL].metrics()[Metric.LATENCY_P99]
    assert at_99_s is not None
    assert at_99_s * 1e3 == pytest.approx(p99_ms, rel=0.02)


def test_a_histogram_of_other_events_is_refused(sysbench: Path) -> None:
    text = (sysbench / "sysbench.txt").read_text()
    events = text.partition("total number of events:")[2].split()[0]
    edit(sysbench / "sysbench.txt", f" {events}\n", f" {int(events) + 1}\n")
    with pytest.raises(FormatError, match="its histogram has"):
        read_output(Program.SYSBENCH, sysbench)


def test_each_volume_is_a_host_and_a_missing_one_is_refused(tmp_path: Path) -> None:
    for name in ("pgbench.txt", LOG, "settings.txt"):
        for volume in (1, 2):
            shutil.copy(PGBENCH / name, tmp_path / f"volume-{volume}.{name}")
    shutil.copy(PGBENCH / "program.json", tmp_path)
    output = read_output(Program.PGBENCH, tmp_path)
    assert [job.host for job in output.jobs] == ["volume 1", "volume 2"]
    one = read_windows(Program.PGBENCH, PGBENCH)[Op.TRANSACTION]
    both = read_windows(Program.PGBENCH, tmp_path)[Op.TRANSACTION]
    assert [window.value for window in both] == [2 * window.value for window in one]
    (tmp_path / "volume-1.pgbench.txt").unlink()
    with pytest.raises(FormatError, match="for volume 1"):
        read_output(Program.PGBENCH, tmp_path)
