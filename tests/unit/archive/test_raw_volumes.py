"""A trial on several volumes, read as one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from leadline.archive.raw import derive, read_output, read_windows
from leadline.formats.fio.json_output import parse_fio_json
from leadline.formats.result import FormatError
from leadline.metrics import Metric, Op
from leadline.stats.histogram import LatencyHistogram
from tests.conftest import RECORDED

# Of two cells: latencies that lie far apart, so that an average is seen to be none.
FAST, SLOW = (RECORDED / name / "fio.json" for name in ("randread-4k-qd1", "mixed-70-30-4k-qd32"))


def volumes(folder: Path, *outputs: Path | bytes, first: int = 1) -> Path:
    folder.mkdir(exist_ok=True)
    for number, output in enumerate(outputs, start=first):
        content = output if isinstance(output, bytes) else output.read_bytes()
        (folder / f"volume-{number}.fio.json").write_bytes(content)
    return folder


def renamed(path: Path) -> bytes:
    """A recorded output whose jobs all have one name."""
    document: dict[str, Any] = json.loads(path.read_text())
    for job in document["jobs"]:
        job["jobname"] = "job"
    return json.dumps(document).encode()


def test_percentiles_are_those_of_the_merged_histograms_and_no_average(tmp_path: Path) -> None:
    fast, slow = renamed(FAST), renamed(SLOW)
    folder = volumes(tmp_path / "trial", fast, fast, slow)
    (read,) = [one for one in derive(read_output("fio", folder)).operations if one.op is Op.READ]
    alone = [
        operation
        for content in (fast, fast, slow)
        for job in parse_fio_json(content).jobs
        for operation in job.operations
        if operation.op is Op.READ
    ]
    histograms = [one.histogram for one in alone if one.histogram is not None]
    assert len(histograms) == 3
    merged = LatencyHistogram.merged(histograms)
    p99 = read.metrics[Metric.LATENCY_P99]
    assert p99 == merged.quantile_s(0.99)
    average = sum(one.quantile_s(0.99) for one in histograms) / 3
    assert p99 != pytest.approx(average, rel=0.05)
    rates = [one.metrics()[Metric.IOPS] or 0.0 for one in alone]
    assert read.metrics[Metric.IOPS] == pytest.approx(sum(rates))


def test_each_job_is_reported_once_per_volume(tmp_path: Path) -> None:
    folder = volumes(tmp_path / "trial", *[FAST] * 11)
    hosts = [job.host for job in read_output("fio", folder).jobs]
    assert hosts == [f"volume {number}" for number in range(1, 12)]


def test_one_volume_is_as_on_this_machine(tmp_path: Path) -> None:
    folder = volumes(tmp_path / "trial", SLOW)
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(SLOW, alone / "fio.json")
    assert derive(read_output("fio", folder)) == derive(read_output("fio", alone))


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda folder: (folder / "volume-2.fio.json").unlink(), "empty-result"),
        (lambda folder: (folder / "volume-1.fio.json").unlink(), "empty-result"),
        (lambda folder: (folder / "volume-3.fio.json").write_bytes(b""), "empty-result"),
        (lambda folder: (folder / "volume-3.fio.json").write_bytes(b"{"), "truncated-result"),
    ],
)
def test_a_part_is_never_reported_as_the_whole(tmp_path: Path, damage: Any, code: str) -> None:
    folder = volumes(tmp_path / "trial", FAST, FAST, FAST)
    damage(folder)
    with pytest.raises(FormatError) as caught:
        read_output("fio", folder)
    assert caught.value.condition == code


def test_an_empty_folder_is_reported(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FormatError) as caught:
            read_output("fio", folder)
        assert caught.value.condition == "empty-result"


def log(folder: Path, name: str, *rates: int | None) -> None:
    """A log of seconds; None for one without I/O, of which fio writes no line."""
    lines = [
        f"{second * 1000}, {rate}, 0, 0, 0"
        for second, rate in enumerate(rates, start=1)
        if rate is not None
    ]
    (folder / name).write_text("\n".join(lines) + "\n")


def series(folder: Path) -> list[tuple[float, float]]:
    return [(one.end_s, one.value) for one in read_windows("fio", folder)[Op.READ]]


def test_seconds_of_volumes_are_added_up(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        log(tmp_path, f"volume-{number}.job_iops.log", 100 * number, 10 * number)
    assert series(tmp_path) == [(1.0, 600.0), (2.0, 60.0)]


def test_a_volume_that_stood_still_is_not_moved_in_time(tmp_path: Path) -> None:
    log(tmp_path, "volume-1.job_iops.log", 100, None, 100, 100)
    log(tmp_path, "volume-2.job_iops.log", 7, 7, 7, 7)
    assert series(tmp_path) == [(1.0, 107.0), (2.0, 7.0), (3.0, 107.0), (4.0, 107.0)]


def test_seconds_count_as_far_as_all_volumes_go(tmp_path: Path) -> None:
    log(tmp_path, "volume-1.job_iops.log", 1, 1, 1)
    log(tmp_path, "volume-2.job_iops.log", 1, 1)
    assert series(tmp_path) == [(1.0, 2.0), (2.0, 2.0)]
