"""A guarded run: stopped between and during trials, held back in quiet hours, resumed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from leadline import errors
from leadline.archive.reader import Run
from leadline.archive.records import RunStatus, TrialStatus
from leadline.archive.verify import verify
from leadline.archive.writer import RunWriter
from leadline.cli.options import this_session
from leadline.engines.outcome import INTERRUPTED
from leadline.engines.replay import ReplayEngine
from leadline.errors import LeadlineError
from leadline.formats.guard_readings import GuardReading, MissedReading
from leadline.plan.guard import Guard, PrometheusLimit
from leadline.plan.workload import Pattern, Phase, Workload
from leadline.runner.events import StopRequest
from leadline.runner.guard import QueryLimit, Reading, RunGuard
from leadline.runner.ports import Execution, Job, Progress, RemoteVolume, RemoteVolumes, Shape
from leadline.runner.session import Outcome
from leadline.runner.trial import within_budget
from tests.conftest import ROOT
from tests.unit.runner.planned import planned_run, run_to_do

if TYPE_CHECKING:
    from leadline.connect.shell import Shell

RECORDED = ROOT / "tests/unit/audit/recorded/good-randread-qd16"
WAIT_S = 10.0


class Gauge:
    """A limit of a test: `value` above 1 is crossed, None has no reading. `called` is set at each
    reading."""

    name, text = "gauge", "above 1"

    def __init__(self, for_s: float = 0.0) -> None:
        self.for_s = for_s
        self.value: float | None = 0.0
        self.called = threading.Event()

    def read(self) -> Reading:
        self.called.set()
        if self.value is None:
            raise LeadlineError(errors.GUARD_UNREADABLE, "no answer")
        return Reading(text=f"{self.value:g}", value=self.value, crossed=self.value > 1)


class Waiting(ReplayEngine):
    """Plays a result back. In trial number `at` it first does `then`, and waits to be stopped."""

    def __init__(self, at: int, then: Callable[[], None]) -> None:
        super().__init__({("randread",): RECORDED})
        self.left, self.then = at, then

    def execute(
        self, job: Job, folder: Path, stop: StopRequest, progress: Callable[[Progress], None]
    ) -> Execution:
        self.left -= 1
        execution = super().execute(job, folder, StopRequest(), progress)
        if self.left:
            return execution
        self.then()
        end = time.monotonic() + WAIT_S
        while not stop.requested and time.monotonic() < end:
            time.sleep(0.01)
        return Execution(
            status=TrialStatus.INTERRUPTED if stop.requested else execution.status,
            command=execution.command,
            exit_status=execution.exit_status,
            wall_s=execution.wall_s,
            problem=INTERRUPTED if stop.requested else None,
        )


def written(folder: Path) -> RunWriter:
    (folder / "disk").mkdir()
    return planned_run(
        folder,
        f"targets: ['dir:{folder}/disk']\nrepeats: 3\nprefill: false\n"
        "guard: {ceph_health: HEALTH_ERR}\nclusters: {c: {ceph_conf: c.conf}}\n"
        "workloads: [{name: w, pattern: randread, runtime: 4s, size: 1M}]\n",
    )


def guard_of(gauge: Gauge, stop: StopRequest, notes: list[str], **settings: object) -> RunGuard:
    """A guard that reads every 20 ms, which no plan may ask for."""
    given = {"every": 0.02, "silence": 0.2, "ceph_health": ("HEALTH_ERR",), **settings}
    return RunGuard(Guard.model_construct(None, **given), [gauge], stop, notes.append)


def run_plan(writer: RunWriter, engine: ReplayEngine, gauge: Gauge) -> Outcome:
    stop = StopRequest()
    return run_to_do(writer, engine, stop=stop, guard=guard_of(gauge, stop, []))


@pytest.mark.parametrize(("value", "fact"), [(3.0, "is crossed: 3"), (None, "had no reading for")])
def test_a_limit_stops_the_trial_and_the_run_goes_on_later(
    tmp_path: Path, value: float | None, fact: str
) -> None:
    gauge = Gauge()

    def cross() -> None:
        gauge.value = value

    outcome = run_plan(written(tmp_path), Waiting(2, cross), gauge)
    assert outcome.status is RunStatus.GUARDED
    assert outcome.problem is not None
    assert outcome.problem.kind is errors.GUARD_STOPPED
    assert fact in outcome.problem.fact
    run = Run(tmp_path / "run")
    assert [trial.record.status for trial in run.trials] == [
        TrialStatus.COMPLETED,
        TrialStatus.INTERRUPTED,
    ]
    stopped = run.trials[-1].record
    assert stopped.problem is not None
    assert (stopped.problem.code, stopped.problem.fact) == ("guard-stopped", outcome.problem.fact)
    assert "fio.json" in stopped.files, "what was measured stays"
    assert [problem.code for problem in run.manifest.problems] == ["guard-stopped"]
    crossed = [
        reading
        for reading in run.guard_readings
        if isinstance(reading, MissedReading) or reading.crossed
    ]
    assert {reading.trial for reading in crossed} == {stopped.trial}
    assert all(isinstance(one, GuardReading if value else MissedReading) for one in crossed)
    gauge.value = 0.0
    again = RunWriter.reopen(tmp_path / "run", session=this_session())
    outcome = run_plan(again, ReplayEngine({("randread",): RECORDED}), gauge)
    assert (outcome.status, outcome.problem) == (RunStatus.COMPLETE, None)
    whole = Run(tmp_path / "run")
    assert len(whole.attempts) == 4
    assert verify(whole).ok
    assert len(list((tmp_path / "run" / "guard").iterdir())) == 2, "a file for each session"


def test_a_limit_that_is_crossed_for_a_moment_stops_nothing(tmp_path: Path) -> None:
    gauge, stop = Gauge(for_s=WAIT_S), StopRequest()
    notes: list[str] = []
    guard = guard_of(gauge, stop, notes)
    guard.begin(tmp_path / "001.jsonl")
    gauge.value = 3.0
    wait_for_reading(gauge)

    def calm() -> None:
        gauge.value = 0.0

    timer = threading.Timer(0.1, calm)
    timer.start()
    assert guard.admit(1.0), "it waits for the limit, then goes on"
    guard.end()
    timer.join()
    assert guard.problem is None
    assert notes == ["waits: gauge is 3, the limit is above 1"]


def wait_for_reading(gauge: Gauge) -> None:
    """Wait until a reading that began after the call has ended."""
    for _ in range(2):
        gauge.called.clear()
        assert gauge.called.wait(WAIT_S)


def test_a_stopped_run_does_not_wait(tmp_path: Path) -> None:
    gauge, stop = Gauge(), StopRequest()
    guard = guard_of(gauge, stop, [])
    guard.begin(tmp_path / "001.jsonl")
    gauge.value = 2.0
    end = time.monotonic() + WAIT_S
    while not stop.requested and time.monotonic() < end:
        time.sleep(0.01)
    assert not guard.admit(1.0)
    guard.end()
    assert guard.problem is not None
    assert guard.problem.context[0] == "limit: above 1"


def test_a_run_starts_only_where_each_limit_is_read_and_kept() -> None:
    gauge = Gauge()
    guard = guard_of(gauge, StopRequest(), [])
    guard.require()
    gauge.value = 2.0
    with pytest.raises(LeadlineError, match="crossed before the run") as raised:
        guard.require()
    assert raised.value.kind is errors.GUARD_STOPPED
    gauge.value = None
    with pytest.raises(LeadlineError, match="has no reading: no answer") as raised:
        guard.require()
    assert raised.value.kind is errors.GUARD_UNREADABLE


def test_quiet_hours_hold_a_trial_back_and_stop_nothing(tmp_path: Path) -> None:
    now = [datetime(2026, 11, 25, 7, 59, 50, tzinfo=UTC)]
    notes: list[str] = []
    gauge, stop = Gauge(), StopRequest()
    settings = Guard(quiet_hours=("08:00-18:00",), zone="UTC")
    settings = settings.model_copy(update={"every": 0.02, "silence": 0.2})

    def clock() -> datetime:
        now[0] += timedelta(hours=3)
        return now[0] - timedelta(hours=3)

    guard = RunGuard(settings, [gauge], stop, notes.append, clock=clock)
    guard.begin(tmp_path / "001.jsonl")
    assert guard.admit(60.0)
    assert now[0] > datetime(2026, 11, 25, 18, tzinfo=UTC)
    assert notes == ["quiet hours: waits until Wed 25 Nov 18:00 UTC"]
    # Others may load the system meanwhile.
    now[0] = datetime(2026, 11, 26, 9, tzinfo=UTC)
    guard._clock = lambda: now[0]
    waiting = threading.Thread(target=guard.admit, args=(60.0,))
    waiting.start()
    time.sleep(0.05)
    gauge.value = 5.0
    wait_for_reading(gauge)
    assert not stop.requested
    stop.ask()
    waiting.join()
    guard.end()
    assert guard.problem is None


@pytest.mark.parametrize(
    ("above", "below", "values", "text", "crossed"),
    [
        (0.02, None, ["0.002", "0.03", "NaN"], "0.03 (worst of 3)", True),
        (0.02, None, ["0.02"], "0.02", False),
        (None, 1.0, ["0", "1"], "0 (worst of 2)", True),
        (2.0, 1.0, ["1.5", "0.5"], "0.5 (worst of 2)", True),
        (2.0, None, ["+Inf"], "inf", True),
    ],
)
def test_the_worst_sample_counts(
    monkeypatch: pytest.MonkeyPatch,
    above: float | None,
    below: float | None,
    values: list[str],
    text: str,
    crossed: bool,
) -> None:
    reading = query(monkeypatch, values, above=above, below=below).read()
    assert (reading.text, reading.crossed) == (text, crossed)


@pytest.mark.parametrize(("values", "what"), [([], "no sample"), (["NaN"], "only NaN")])
def test_no_number_is_no_reading(
    monkeypatch: pytest.MonkeyPatch, values: list[str], what: str
) -> None:
    with pytest.raises(LeadlineError, match=what) as raised:
        query(monkeypatch, values, above=1.0).read()
    assert "vector(0)" in str(raised.value.hint)


def query(monkeypatch: pytest.MonkeyPatch, values: list[str], **limits: object) -> QueryLimit:
    from leadline.connect.prometheus import PrometheusSample

    samples = tuple(PrometheusSample(value=float(value), labels={}) for value in values)
    monkeypatch.setattr("leadline.runner.guard.query_prometheus", lambda *given, **keys: samples)
    document = {"name": "q", "url": "http://localhost", "query": "x", **limits}
    return QueryLimit(PrometheusLimit.model_validate(document))


@pytest.mark.parametrize(("clients", "share"), [(0, 3), (2, 2)])
def test_the_volumes_of_a_trial_share_the_budget(clients: int, share: int) -> None:
    phase = Phase(
        name="p", pattern=Pattern.READ, block_size=4096, iodepth=1, numjobs=1, size=1 << 20
    )
    workload = Workload(name="w", phases=(phase,), runtime_s=1, clients=clients)
    shell = cast("Shell", None)
    volumes = tuple(RemoteVolume(shell=shell, path=f"/v{number}") for number in range(3))
    location = RemoteVolumes(shape=Shape.SPAN, volumes=volumes, folder="/tmp/f")
    (limited,) = within_budget(workload, location, Guard(iops=300)).phases
    assert limited.limit_bps == 300 * 4096 / share
