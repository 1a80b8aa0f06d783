"""Runs that end when their comparisons are decided: rounds, looks, resume and verification."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from leadline.analysis.compare import compare
from leadline.analysis.comparison import By, within_run
from leadline.analysis.looks import check_looks, take_look
from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.records import Look, LookEnd, LookState, RunStatus
from leadline.archive.verify import verify
from leadline.archive.writer import RunWriter
from leadline.cli.options import this_session
from leadline.engines.replay import ReplayEngine
from leadline.judge import Judge, verified
from leadline.plan.workload import Workload
from leadline.runner.events import Event, Looked, StopRequest
from leadline.runner.ports import Execution, Job, Location, Progress
from leadline.runner.session import Outcome
from tests.conftest import ROOT
from tests.unit.runner.planned import planned_run, run_to_do

RECORDED = ROOT / "tests/unit/audit/recorded/good-randread-qd16"
# What a workload's trials take longer on target b, and how much they scatter (shares).
SLOWER = {"equal": (0.0, 0.001), "slower": (0.2, 0.01), "noisy": (0.0, 0.06)}


class Scattering(ReplayEngine):
    """Recorded output whose trials take longer, and so have a lower rate, by workload, target and
    chance. Asks to stop after `most` trials."""

    def __init__(self, most: int = 10**6, seed: int = 1) -> None:
        super().__init__({("randread",): RECORDED})
        self.left = most
        self.workload = ""
        self.random = random.Random(seed)

    def job_text(self, workload: Workload, location: Location, seed: int) -> str:
        self.workload = workload.name
        return super().job_text(workload, location, seed)

    def execute(
        self, job: Job, folder: Path, stop: StopRequest, progress: Callable[[Progress], None]
    ) -> Execution:
        execution = super().execute(job, folder, stop, progress)
        for log in folder.glob("*.log"):
            log.unlink()
        slower, scatter = SLOWER[self.workload]
        path = folder / layout.FIO_OUTPUT
        document = json.loads(path.read_bytes())
        on_b = "/b/" in str(job.location)
        factor = 1 + (slower if on_b else 0.0) + scatter * (1 + self.random.uniform(-1, 1))
        read = document["jobs"][0]["read"]
        read["runtime"] = round(read["runtime"] * factor)
        read["iops"] = read["total_ios"] * 1000 / read["runtime"]
        read["bw_bytes"] = round(read["io_bytes"] * 1000 / read["runtime"])
        read["bw"] = read["bw_bytes"] // 1024
        path.write_text(json.dumps(document))
        self.left -= 1
        if self.left == 0:
            stop.ask()
        return execution


def written(
    folder: Path, stop: str = "max_repeats: 6, futility: 0%", repeats: int = 2
) -> RunWriter:
    for name in "ab":
        (folder / name).mkdir()
    urls = ", ".join(f"{{name: {name}, target: 'dir:{folder}/{name}'}}" for name in "ab")
    workloads = ", ".join(f"{{name: {name}, pattern: randread}}" for name in SLOWER)
    return planned_run(
        folder,
        f"targets: [{urls}]\nrepeats: {repeats}\nprefill: false\nseed: 3\nstop: {{{stop}}}\n"
        "defaults: {runtime: 4s, size: 1M, iodepth: 16}\n"
        f"workloads: [{workloads}]\n",
    )


def run_plan(
    writer: RunWriter, engine: Scattering, take: Callable[[Run], Look] | None = None
) -> tuple[Outcome, list[Event]]:
    events: list[Event] = []
    outcome = run_to_do(
        writer,
        engine,
        observe=events.append,
        take_look=take or (lambda run: take_look(run, "2026-11-25T00:00:00Z")),
    )
    return outcome, events


def states(look: Look) -> dict[str, LookState]:
    return {rate.workload: rate.state for pair in look.pairs for rate in pair.rates}


def trials_of(run: Run) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for trial in run.plan.trials:
        cell = run.plan.cells[trial.cell]
        key = cell.target, cell.workload.name
        found[key] = found.get(key, 0) + 1
    return found


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run in which one of three workloads stays open."""
    folder = tmp_path_factory.mktemp("ended")
    outcome, _ = run_plan(written(folder), Scattering())
    assert outcome.status is RunStatus.COMPLETE
    return Run(folder / "run")


def test_decided_cells_stop_and_open_cells_go_on(ended: Run) -> None:
    last = ended.looks[-1]
    assert last.end is LookEnd.MAX_REPEATS
    assert states(last) == {
        "equal": LookState.DECIDED,
        "slower": LookState.DECIDED,
        "noisy": LookState.OPEN,
    }
    number = trials_of(ended)
    assert number["a", "noisy"] == number["b", "noisy"] == 6
    assert number["a", "equal"] == number["b", "equal"] < 6
    assert number["a", "slower"] == number["b", "slower"] < 6
    assert [look.round for look in ended.looks] == [2, 3, 4, 5, 6]
    assert ended.plan.repeats == 6
    assert ended.manifest.trials_planned == len(ended.plan.trials) == len(ended.trials)
    assert len({trial.id for trial in ended.plan.trials}) == len(ended.plan.trials)


def test_compare_gives_the_verdicts_of_the_last_look(ended: Run) -> None:
    sides = within_run(ended, By.TARGET, "a", "b", Judge())
    compared = {cell.workload: cell for cell in compare(*sides, by=By.TARGET).cells if cell.rate}
    for rate in ended.looks[-1].pairs[0].rates:
        judgement = compared[rate.workload].judgement
        assert (judgement.verdict, judgement.interval) == (rate.verdict, rate.interval)
        assert "group-sequential" in judgement.reasons
    verdicts = {name: cell.verdict.value for name, cell in compared.items()}
    assert verdicts == {"equal": "same", "slower": "worse", "noisy": "inconclusive"}


def test_the_interval_is_wider_than_that_of_planned_trials(ended: Run) -> None:
    sides = within_run(ended, By.TARGET, "a", "b", Judge())
    run = Run(ended.path)
    run.__dict__["plan"] = ended.plan.model_copy(update={"stop": None})
    planned = within_run(run, By.TARGET, "a", "b", Judge())
    for wide, narrow in zip(
        compare(*sides, by=By.TARGET).cells, compare(*planned, by=By.TARGET).cells, strict=True
    ):
        if wide.judgement.interval and narrow.judgement.interval:
            assert wide.judgement.interval[0] < narrow.judgement.interval[0]
            assert wide.judgement.interval[1] > narrow.judgement.interval[1]


def test_verify_takes_every_look_again(ended: Run) -> None:
    assert verified(ended).problems == ()
    assert verified(ended).numbers == verify(ended).numbers + len(ended.looks)
    assert check_looks(Run(ended.path)) == (5, ())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"end": LookEnd.DECIDED, "open": ()}, "decided the end (decided), but the trials give"),
        ({"open": (0,)}, "the next round has other cells than those that are open"),
        ({"trials": ("t0001-1",)}, "did not see the trials of 2 rounds"),
        ({"pairs": ()}, "lists other rates than the trials have"),
    ],
)
def test_verify_finds_a_look_that_the_trials_do_not_give(
    ended: Run, change: dict[str, object], message: str
) -> None:
    run = Run(ended.path)
    first = ended.looks[0].model_copy(update=change)
    run.__dict__["looks"] = (first, *ended.looks[1:])
    found = [problem.message for problem in check_looks(run)[1]]
    assert any(one.startswith(message) for one in found), found


def test_verify_finds_another_verdict_and_another_interval(ended: Run) -> None:
    pair = ended.looks[-1].pairs[0]
    for update in ({"verdict": "better"}, {"interval": (0.9, 1.1)}, {"ratio": 1.0001}):
        rates = (pair.rates[0].model_copy(update=update), *pair.rates[1:])
        changed = ended.looks[-1].model_copy(
            update={"pairs": (pair.model_copy(update={"rates": rates}),)}
        )
        run = Run(ended.path)
        run.__dict__["looks"] = (*ended.looks[:-1], changed)
        (problem,) = check_looks(run)[1]
        assert problem.path == "looks/005.json"
        assert "but the trials give" in problem.message


def test_a_run_without_its_last_look_is_not_whole(ended: Run) -> None:
    run = Run(ended.path)
    run.__dict__["looks"] = ended.looks[:-1]
    (problem,) = check_looks(run)[1]
    assert problem.message == "the last look, which ends the run, is missing"


# Stopped after so many trials.
@pytest.mark.thorough
@pytest.mark.parametrize(
    "most", [5, 17, *(pytest.param(most, marks=pytest.mark.thorough) for most in (12, 14))]
)
def test_a_stopped_run_repeats_no_trial_and_no_look(tmp_path: Path, most: int) -> None:
    outcome, _ = run_plan(written(tmp_path), Scattering(most))
    assert outcome.status is RunStatus.INTERRUPTED
    before = Run(tmp_path / "run").looks
    writer = RunWriter.reopen(tmp_path / "run", session=this_session())
    outcome, events = run_plan(writer, Scattering(seed=2))
    assert outcome.status is RunStatus.COMPLETE
    after = Run(tmp_path / "run")
    assert after.looks[: len(before)] == before
    assert len(after.attempts) == len(after.plan.trials)
    new = [event.look for event in events if isinstance(event, Looked)]
    assert tuple(new) == after.looks[len(before) :]
    assert verified(after).problems == ()


class Killed(Exception):
    """The process dies."""


def test_killed_in_a_look_and_after_it(tmp_path: Path) -> None:
    """The look that was not stored is taken, the one that was stored is not taken again."""
    taken = 0

    def killed_in(run: Run) -> Look:
        raise Killed

    with pytest.raises(Killed):
        run_plan(written(tmp_path), Scattering(), killed_in)
    run = Run(tmp_path / "run")
    assert (run.to_do(), run.looks, run.undecided) == ((), (), True)

    # Killed between the look and the round that it adds.
    with RunWriter.tidying(tmp_path / "run") as writer:
        look = take_look(run, "2026-11-25T00:00:00Z")
        writer.write_look(look)
    assert Run(tmp_path / "run").undecided
    assert not Run(tmp_path / "run").look_due

    def counted(run: Run) -> Look:
        nonlocal taken
        taken += 1
        return take_look(run, "2026-11-25T00:00:01Z")

    writer = RunWriter.reopen(tmp_path / "run", session=this_session())
    outcome, _ = run_plan(writer, Scattering(seed=2), counted)
    assert outcome.status is RunStatus.COMPLETE
    after = Run(tmp_path / "run")
    assert after.looks[0] == look
    assert taken == len(after.looks) - 1
    assert verified(after).problems == ()


def test_nothing_is_acquired_where_only_the_last_look_is_missing(tmp_path: Path) -> None:
    def ending(run: Run) -> Look:
        look = take_look(run, "2026-11-25T00:00:00Z")
        return look.model_copy(update={"open": (), "end": LookEnd.DECIDED})

    def killed_in(run: Run) -> Look:
        raise Killed

    with pytest.raises(Killed):
        run_plan(written(tmp_path), Scattering(), killed_in)
    journal = (tmp_path / "run" / layout.CREATED).read_bytes()
    writer = RunWriter.reopen(tmp_path / "run", session=this_session())
    outcome, _ = run_plan(writer, Scattering(), ending)
    assert outcome.status is RunStatus.COMPLETE
    assert (tmp_path / "run" / layout.CREATED).read_bytes() == journal


@pytest.mark.thorough
def test_a_rate_that_the_plan_will_hardly_decide_is_given_up(tmp_path: Path) -> None:
    outcome, _ = run_plan(written(tmp_path, "max_repeats: 6"), Scattering())
    assert outcome.status is RunStatus.COMPLETE
    run = Run(tmp_path / "run")
    last = run.looks[-1]
    assert last.end is LookEnd.DECIDED
    assert states(last)["noisy"] is LookState.FUTILE
    number = trials_of(run)["a", "noisy"]
    assert 3 <= number < 6, "two trials per system are no pairs yet"
    assert verified(run).problems == ()


def test_no_round_begins_beyond_the_time(tmp_path: Path) -> None:
    outcome, _ = run_plan(written(tmp_path, "max_repeats: 6, max_time: 7s"), Scattering())
    assert outcome.status is RunStatus.COMPLETE
    run = Run(tmp_path / "run")
    (look,) = run.looks
    # A round of one open workload on both targets asks for 8 s.
    assert look.end is LookEnd.MAX_TIME
    assert run.plan.repeats == 2
    assert verified(run).problems == ()


def test_rates_that_no_trial_decides_are_closed(tmp_path: Path) -> None:
    """The audit refuses trials that ended with an error: more of them are of no use."""

    class Failing(Scattering):
        def execute(
            self, job: Job, folder: Path, stop: StopRequest, progress: Callable[[Progress], None]
        ) -> Execution:
            execution = super().execute(job, folder, stop, progress)
            path = folder / layout.FIO_OUTPUT
            if self.workload == "noisy":
                document = json.loads(path.read_bytes())
                document["jobs"][0]["error"] = 5
                path.write_text(json.dumps(document))
            return replace(execution)

    outcome, _ = run_plan(written(tmp_path), Failing())
    assert outcome.status is RunStatus.COMPLETE
    run = Run(tmp_path / "run")
    assert run.looks[-1].end is LookEnd.DECIDED
    assert states(run.looks[-1])["noisy"] is LookState.CLOSED
    assert trials_of(run)["a", "noisy"] == 2
