"""What the runner relies on, held against the double and the real engine alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from leadline.archive.raw import read_output
from leadline.archive.records import TrialStatus
from leadline.engines.fio.fleet import FleetEngine
from leadline.engines.fio.local import FioEngine
from leadline.engines.fio.remote import RemoteFioEngine
from leadline.engines.replay import ReplayEngine
from leadline.plan.footprint import footprint_of
from leadline.plan.loader import Overrides, load_plan
from leadline.plan.models import Plan
from leadline.plan.target_url import TargetKind
from leadline.plan.workload import EngineChoice
from leadline.runner.events import StopRequest
from leadline.runner.ports import (
    Device,
    Engine,
    Folder,
    Job,
    Location,
    Progress,
    RemoteVolume,
    RemoteVolumes,
    Shape,
)
from tests.conftest import RECORDED
from tests.local_shell import SCRATCH, LocalShell, folders


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """An engine, and where it works: on this machine, or on volumes behind shells."""

    engine: Callable[[], Engine]
    volumes: int = 0
    # fio's client ends well where its servers refuse their job.
    told_by_status: bool = True

    def folder(self, root: Path) -> Location:
        if self.volumes:
            return folders(root, self.volumes)
        root.mkdir()
        return Folder(path=root)

    def device(self, path: Path, root: Path) -> Location:
        if not self.volumes:
            return Device(path=path)
        volume = RemoteVolume(shell=LocalShell(root), path=str(path))
        return RemoteVolumes(shape=Shape.SPAN, volumes=(volume,) * self.volumes, folder=SCRATCH)


@pytest.fixture(
    params=[
        pytest.param(Way(engine=FioEngine), id="fio", marks=pytest.mark.real),
        pytest.param(Way(engine=lambda: ReplayEngine.from_folder(RECORDED)), id="replay"),
        pytest.param(
            Way(engine=FleetEngine, told_by_status=False), id="fio-fleet", marks=pytest.mark.real
        ),
        pytest.param(
            Way(engine=RemoteFioEngine, volumes=1), id="remote-fio", marks=pytest.mark.real
        ),
        pytest.param(
            Way(engine=RemoteFioEngine, volumes=3),
            id="remote-fio-3",
            marks=[pytest.mark.real, pytest.mark.slow],
        ),
    ]
)
def way(request: pytest.FixtureRequest) -> Way:
    made: Way = request.param
    return made


@pytest.fixture
def engine(way: Way) -> Engine:
    return way.engine()


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    overrides = Overrides(
        targets=[f"dir:{tmp_path}"], profiles=["quick"], runtime="1s", ramp="0", size="8M"
    )
    return load_plan(None, overrides)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def location(way: Way, data: Path) -> Location:
    return way.folder(data)


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    folder = tmp_path / "trial"
    folder.mkdir()
    return folder


def ignore(progress: Progress) -> None:
    """Nobody looks."""


def test_it_tells_of_its_progress(
    engine: Engine, plan: Plan, location: Location, workdir: Path
) -> None:
    workload = engine.resolve(plan.cells[0].workload, location)
    job = Job(
        text=engine.job_text(workload.model_copy(update={"runtime_s": 60.0}), location, 1),
        location=location,
        bound_s=120,
    )
    said: list[Progress] = []
    stop = StopRequest()

    def hear(progress: Progress) -> None:
        said.append(progress)
        if not stop.requested:
            stop.ask()

    engine.execute(job, workdir, stop, hear)
    assert said
    assert all(progress.iops >= 0 for progress in said)


def test_it_names_itself_and_takes_the_plan(engine: Engine, plan: Plan, location: Location) -> None:
    kind = TargetKind.STORAGE_CLASS if isinstance(location, RemoteVolumes) else TargetKind.DIR
    for cell in plan.cells:
        engine.check(cell.workload, kind)
    engine.resolve(plan.cells[0].workload, location)
    assert engine.name
    assert engine.version.startswith("fio-3")


def test_auto_becomes_an_asynchronous_engine_and_leaves_nothing(
    engine: Engine, plan: Plan, location: Location, data: Path
) -> None:
    resolved = engine.resolve(plan.cells[0].workload, location)
    assert resolved.engine in (EngineChoice.IO_URING, EngineChoice.LIBAIO)
    assert [path for path in data.rglob("*") if path.is_file()] == []


def test_operations_at_once_and_in_turn_complete_with_output_of_each(
    engine: Engine, plan: Plan, location: Location, tmp_path: Path
) -> None:
    # A mixed phase, and a phase of writes before one of reads: all that an engine tells apart.
    cells = [cell for cell in plan.cells if len(cell.workload.ops) > 1]
    assert sorted(len(cell.workload.phases) for cell in cells) == [1, 2]
    for number, cell in enumerate(cells):
        folder = tmp_path / f"trial-{number}"
        folder.mkdir()
        workload = engine.resolve(cell.workload, location)
        text = engine.job_text(workload, location, 5)
        execution = engine.execute(
            Job(text=text, location=location, bound_s=120), folder, StopRequest(), ignore
        )
        assert execution.status is TrialStatus.COMPLETED, execution.problem
        assert execution.exit_status == 0
        assert execution.command
        assert (folder / "job.fio").read_text() == text
        output = read_output(engine.name, folder)
        done = {operation.op for job in output.jobs for operation in job.operations}
        assert done == set(workload.ops)
        assert list(folder.glob("*_iops*.log*")), "per-second logs"


def test_the_same_seed_gives_the_same_job_and_another_another(
    engine: Engine, plan: Plan, location: Location
) -> None:
    workload = plan.cells[0].workload
    texts = [engine.job_text(workload, location, seed) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_a_device_gets_a_stretch_for_each_job_and_no_files(
    way: Way, engine: Engine, plan: Plan, tmp_path: Path
) -> None:
    footprint = footprint_of(cell.workload for cell in plan.cells)
    device = way.device(Path("/dev/null"), tmp_path / "pod")
    text = engine.job_text(plan.cells[0].workload, device, 1)
    assert "offset_increment=" in text
    assert "filename" not in text
    assert f"size={footprint.span}" in engine.prefill_text(footprint, device, True)


def test_asked_to_stop_it_says_interrupted(
    engine: Engine, plan: Plan, location: Location, workdir: Path
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
    way: Way, engine: Engine, location: Location, workdir: Path
) -> None:
    job = Job(text="[nonsense]\nrw=sideways\n", location=location, bound_s=30)
    execution = engine.execute(job, workdir, StopRequest(), ignore)
    assert execution.status is TrialStatus.FAILED
    assert execution.problem is not None
    assert execution.exit_status != 0 or not way.told_by_status
