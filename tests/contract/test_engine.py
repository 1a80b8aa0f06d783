"""What the runner relies on, held against the double and the real engine alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.archive.records import TrialStatus
from leadline.engines.fio import FioEngine
from leadline.engines.replay import ReplayEngine
from leadline.formats.fio_json import parse_fio_json
from leadline.plan.footprint import footprint_of
from leadline.plan.loader import Overrides, load_plan
from leadline.plan.models import EngineChoice, Plan
from leadline.plan.target_url import TargetKind
from leadline.runner.ports import Device, Engine, Folder, Job, Progress
from leadline.runner.stop import StopRequest
from tests.conftest import RECORDED

Make = Callable[[], Engine]


@pytest.fixture(
    params=[
        pytest.param(FioEngine, id="fio", marks=pytest.mark.real),
        pytest.param(lambda: ReplayEngine.of(RECORDED), id="replay"),
    ]
)
def engine(request: pytest.FixtureRequest) -> Engine:
    make: Make = request.param
    return make()


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    overrides = Overrides(
        targets=[f"dir:{tmp_path}"], profiles=["quick"], runtime="1s", ramp="0", size="8M"
    )
    return load_plan(None, overrides)


@pytest.fixture
def location(tmp_path: Path) -> Folder:
    folder = tmp_path / "data"
    folder.mkdir()
    return Folder(path=folder)


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    folder = tmp_path / "trial"
    folder.mkdir()
    return folder


def ignore(progress: Progress) -> None:
    """Nobody looks."""


def test_it_tells_of_its_progress(
    engine: Engine, plan: Plan, location: Folder, workdir: Path
) -> None:
    workload = engine.resolve(plan.cells[0].workload, location)
    job = Job(
        text=engine.job_text(workload.model_copy(update={"runtime_s": 3.0}), location, 1),
        location=location,
        bound_s=30,
    )
    said: list[Progress] = []
    engine.execute(job, workdir, StopRequest(), said.append)
    assert said
    assert all(progress.iops >= 0 for progress in said)


def test_it_names_itself_and_takes_the_plan(engine: Engine, plan: Plan) -> None:
    for cell in plan.cells:
        engine.check(cell.workload, TargetKind.DIR)
    assert engine.name
    assert engine.version.startswith("fio-3")


def test_auto_becomes_an_asynchronous_engine_and_leaves_nothing(
    engine: Engine, plan: Plan, location: Folder
) -> None:
    resolved = engine.resolve(plan.cells[0].workload, location)
    assert resolved.engine in (EngineChoice.IO_URING, EngineChoice.LIBAIO)
    assert list(location.path.iterdir()) == []


def test_every_workload_completes_with_output_of_each_operation(
    engine: Engine, plan: Plan, location: Folder, tmp_path: Path
) -> None:
    for number, cell in enumerate(plan.cells):
        folder = tmp_path / f"trial-{number}"
        folder.mkdir()
        workload = engine.resolve(cell.workload, location)
        text = engine.job_text(workload, location, 5)
        execution = engine.execute(
            Job(text=text, location=location, bound_s=30), folder, StopRequest(), ignore
        )
        assert execution.status is TrialStatus.COMPLETED, execution.problem
        assert execution.exit_status == 0
        assert execution.command
        assert (folder / "job.fio").read_text() == text
        output = parse_fio_json((folder / "fio.json").read_bytes())
        done = {operation.op for job in output.jobs for operation in job.operations}
        assert done == set(workload.ops)
        assert list(folder.glob("*_iops*.log")), "per-second logs"


def test_the_same_seed_gives_the_same_job_and_another_another(
    engine: Engine, plan: Plan, location: Folder
) -> None:
    workload = plan.cells[0].workload
    texts = [engine.job_text(workload, location, seed) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_a_device_gets_a_stretch_for_each_job_and_no_files(engine: Engine, plan: Plan) -> None:
    footprint = footprint_of(plan.cells)
    device = Device(path=Path("/dev/null"))
    text = engine.job_text(plan.cells[0].workload, device, 1)
    assert "offset_increment=" in text
    assert "filename" not in text
    assert f"size={footprint.span}" in engine.prefill_text(footprint, device, True)


def test_asked_to_stop_it_says_interrupted(
    engine: Engine, plan: Plan, location: Folder, workdir: Path
) -> None:
    stop = StopRequest()
    stop.ask()
    workload = engine.resolve(plan.cells[0].workload, location)
    job = Job(text=engine.job_text(workload, location, 1), location=location, bound_s=30)
    execution = engine.execute(job, workdir, stop, ignore)
    assert execution.status is TrialStatus.INTERRUPTED
    assert execution.problem is not None
    assert execution.problem.code == "interrupted"


def test_a_job_that_cannot_run_is_failed_and_never_raises(
    engine: Engine, location: Folder, workdir: Path
) -> None:
    job = Job(text="[nonsense]\nrw=sideways\n", location=location, bound_s=30)
    execution = engine.execute(job, workdir, StopRequest(), ignore)
    assert execution.status is TrialStatus.FAILED
    assert execution.problem is not None
    assert execution.exit_status != 0
