"""Bounds of work that is no I/O of blocks: files created on CephFS, streams that ZFS receives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leadline.analysis.comparison import Side
from leadline.analysis.predict.changes import parse_changes
from leadline.analysis.predict.facts import Forecast, Layer, Refusal, Station
from leadline.analysis.predict.predict import predict_run
from leadline.analysis.predict.prediction import Prediction
from leadline.analysis.predict.system import System, system_of
from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.judge import Judge
from leadline.metrics import Metric, Op
from leadline.plan.target_url import TargetKind
from tests.unit.analysis.layers.streams import stack, stream_run
from tests.unit.audit.audit_archives import Stored, build, cell

ZFS = Path(__file__).parents[3] / "recorded" / "zfs"
MIB = 1 << 20


def predict(run: Run, system: System, *changes: str) -> Prediction:
    figures, findings = Judge()(run)
    targets = {target.name: target.name for target in run.plan.targets}
    side = Side(name=run.id, run=run, targets=targets, figures=figures, findings=findings)
    return predict_run(side, parse_changes(changes), known=lambda _: system)


def engine(name: str) -> Callable[[dict[str, Any]], None]:
    def edit(document: dict[str, Any]) -> None:
        for job in document["jobs"]:
            job["job options"]["ioengine"] = name

    return edit


def files(folder: Path, name: str) -> Run:
    """Three trials of a job file with one of fio's engines for files."""
    trials: list[Stored | None] = [Stored(edit=engine(name)) for _ in range(3)]
    return build(folder, {"a": (cell("files", job_file=True), trials)})


CEPHFS = System(target="disk", kind=TargetKind.CEPHFS, ranks=2)


def test_files_are_bounded_by_the_ranks(tmp_path: Path) -> None:
    found = predict(files(tmp_path, "filecreate"), CEPHFS)
    (one,) = found.forecasts
    assert (one.target, one.workload, one.op) == ("disk", "files", Op.WRITE)
    assert (one.layer, one.in_flight, one.refusals) == (Layer.BOUNDS, None, (Refusal.NO_BLOCKS,))
    assert one.bound is not None
    assert (one.bound.capacity_of, one.bound.floor_s) == (Station.MDS, None)
    assert one.bound.capacity_iops == pytest.approx(200_000)
    assert 0 < one.measured[Metric.IOPS] < one.bound.capacity_iops
    assert found.answered


@pytest.mark.parametrize("name", ["filestat", "filedelete", "libaio"])
def test_other_work_of_a_job_file_has_no_bound(tmp_path: Path, name: str) -> None:
    """Clients cache what they know of files, and hand deletions over later."""
    assert predict(files(tmp_path, name), CEPHFS).forecasts == ()


def test_files_of_another_target_have_no_bound(tmp_path: Path) -> None:
    assert predict(files(tmp_path, "filecreate"), System(target="disk")).forecasts == ()


def streams(folder: Path) -> Run:
    trial = {"throughput_bps": 500 * MIB, "size": 131072.0, "latency_s": 1e-3}
    return stream_run(folder, {"tank": (stack(131072), [trial, trial])})


def stream(run: Run, *changes: str) -> Forecast:
    system = System(target="tank", kind=TargetKind.ZFS, record_bytes=131072)
    (one,) = predict(run, system, *changes).forecasts
    assert (one.target, one.workload, one.op) == ("tank", "receive", Op.WRITE)
    return one


def test_a_stream_is_bounded_by_its_records(tmp_path: Path) -> None:
    run = streams(tmp_path)
    one = stream(run)
    assert one.measured == {Metric.BANDWIDTH: pytest.approx(500 * MIB)}
    assert one.bound is not None
    assert one.bound.capacity_of is Station.RECEIVE
    assert one.bound.capacity_bps is not None
    assert one.bound.capacity_bps > 500 * MIB
    small = stream(run, "record_size=8K")
    assert small.bound_now == one.bound
    assert small.bound is not None
    assert small.bound.capacity_bps is not None
    assert small.bound.capacity_bps < one.bound.capacity_bps


def test_the_record_size_of_a_dataset_is_that_of_its_dump(tmp_path: Path) -> None:
    run = streams(tmp_path)
    plan = run.plan.model_copy(
        update={"targets": (run.plan.targets[0].model_copy(update={"url": "zfs:tank"}),)}
    )
    (tmp_path / layout.PLAN).write_bytes(layout.encode(plan))
    assert system_of(Run(tmp_path), "tank").record_bytes is None
    folder = tmp_path / layout.target_folder("001", 0)
    layout.make_folders(folder)
    (folder / "zfs-get.txt").write_bytes((ZFS / "zfs-get-Hp-all.txt").read_bytes())
    assert system_of(Run(tmp_path), "tank").record_bytes == 4 << 20
