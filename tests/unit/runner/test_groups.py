"""Groups of a session: held one after the other, an error ends one of them, and resume goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from leadline import errors
from leadline.analysis.compare import compare
from leadline.analysis.comparison import By, within_run
from leadline.archive.reader import Run
from leadline.archive.records import RunStatus
from leadline.archive.verify import verify
from leadline.archive.writer import RunWriter
from leadline.cli.options import this_session
from leadline.engines.replay import ReplayEngine
from leadline.errors import LeadlineError
from leadline.judge import Judge
from leadline.plan.footprint import Footprint
from leadline.runner.events import StopRequest
from leadline.runner.ports import Execution, Job, Journal, Progress
from leadline.runner.session import Outcome
from leadline.targets.local import DirectoryTarget
from tests.conftest import ROOT
from tests.unit.runner.planned import planned_run, run_to_do

RECORDED = ROOT / "tests/unit/audit/recorded/good-randread-qd16"


class Held:
    """How many targets are held, now and at most."""

    def __init__(self) -> None:
        self.now: set[str] = set()
        self.most = 0
        self.refused: dict[str, str] = {}
        self.stuck: set[str] = set()


class Watched(DirectoryTarget):
    held: Held

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        if self.name in self.held.refused:
            raise LeadlineError(errors.QUOTA_EXCEEDED, self.held.refused[self.name])
        super().acquire(footprint, run, journal)
        self.held.now.add(self.name)
        self.held.most = max(self.held.most, len(self.held.now))

    def release(self) -> tuple[str, ...]:
        if self.name in self.held.stuck:
            return (f"the volume of {self.name} has a finalizer",)
        self.held.now.discard(self.name)
        return super().release()


class Stopping(ReplayEngine):
    """Asks to stop after `most` trials."""

    def __init__(self, most: int = 10**6) -> None:
        super().__init__({("randread",): RECORDED})
        self.left = most

    def execute(
        self, job: Job, folder: Path, stop: StopRequest, progress: Callable[[Progress], None]
    ) -> Execution:
        execution = super().execute(job, folder, stop, progress)
        self.left -= 1
        if self.left == 0:
            stop.ask()
        return execution


def written(folder: Path, budget: str, targets: str = "abc", more: str = "") -> RunWriter:
    for name in targets:
        (folder / name).mkdir()
    urls = ", ".join(f"{{name: {name}, target: 'dir:{folder}/{name}'}}" for name in targets)
    return planned_run(
        folder,
        f"targets: [{urls}]\nrepeats: 3\nprefill: false\nseed: 3\nbudget: {{{budget}}}\n"
        "defaults: {runtime: 4s, size: 1M}\n"
        f"workloads: [{{name: w, pattern: randread{more}}}]\n",
    )


def run_plan(
    writer: RunWriter, held: Held, engine: ReplayEngine | None = None
) -> tuple[Outcome, list[str]]:
    notes: list[str] = []
    adapters = [Watched(target) for target in writer.run.plan.targets]
    for adapter in adapters:
        adapter.held = held
    outcome = run_to_do(
        writer,
        engine or Stopping(),
        adapters,
        observe=lambda event: notes.append(str(getattr(event, "message", ""))),
    )
    return outcome, [note for note in notes if note.startswith("group")]


def left(folder: Path) -> list[str]:
    return [str(path) for name in "abc" for path in (folder / name).glob("*")]


def test_no_more_than_the_budget_is_held_at_once(tmp_path: Path) -> None:
    held = Held()
    outcome, notes = run_plan(written(tmp_path, "volumes: 2"), held)
    assert outcome.status is RunStatus.COMPLETE
    assert held.most == 2
    assert len(notes) == 6  # two parts take turns in three blocks
    run = Run(tmp_path / "run")
    assert [trial.record.block for trial in run.trials] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert run.stacks.keys() == {"a", "b", "c"}
    assert verify(run).ok
    assert left(tmp_path) == []


def test_a_stopped_run_goes_on_in_its_group(tmp_path: Path) -> None:
    outcome, _ = run_plan(written(tmp_path, "volumes: 1"), Held(), Stopping(most=4))
    assert outcome.status is RunStatus.INTERRUPTED
    assert left(tmp_path) == []
    again = RunWriter.reopen(tmp_path / "run", session=this_session())
    held = Held()
    outcome, notes = run_plan(again, held)
    assert outcome.status is RunStatus.COMPLETE
    assert held.most == 1
    assert notes[0].startswith("group 5 of 9")
    run = Run(tmp_path / "run")
    assert len(run.trials) == 9
    assert verify(run).ok


def test_a_group_that_fails_is_recorded_and_the_others_go_on(tmp_path: Path) -> None:
    held = Held()
    held.refused["b"] = "the quota has no room"
    outcome, notes = run_plan(written(tmp_path, "volumes: 1"), held)
    assert outcome.status is RunStatus.INTERRUPTED
    assert outcome.problem is not None
    assert outcome.problem.kind is errors.QUOTA_EXCEEDED
    assert outcome.problem.fact == "3 groups failed, the first one: the quota has no room"
    assert sum("failed: the quota has no room" in note for note in notes) == 3
    run = Run(tmp_path / "run")
    assert {trial.record.target for trial in run.trials} == {"a", "c"}
    assert len(run.trials) == 6
    problems = run.manifest.problems
    assert [problem.code for problem in problems] == ["quota-exceeded"] * 3
    assert problems[0].context[0].startswith("group ")


def test_what_cannot_be_removed_counts_in_the_budget(tmp_path: Path) -> None:
    held = Held()
    held.stuck.add("a")
    outcome, _ = run_plan(written(tmp_path, "volumes: 1", targets="ab"), held)
    assert outcome.problem is not None
    assert outcome.problem.kind is errors.LEFT_BEHIND
    assert held.most == 1
    assert any("finalizer" in sentence for sentence in outcome.left)


def test_a_stuck_volume_does_not_keep_others_that_fit(tmp_path: Path) -> None:
    """One volume in the way of the next group leaves space for a smaller one."""
    held = Held()
    held.stuck.add("a")
    outcome, _ = run_plan(written(tmp_path, "volumes: 2", targets="abc"), held)
    done = {(one.target, one.block) for one in outcome.records}
    assert {("c", 0), ("c", 1), ("c", 2)} <= done
    assert held.most <= 2


def test_follow_ups_run_while_their_target_is_held(tmp_path: Path) -> None:
    held = Held()
    writer = written(tmp_path, "volumes: 3", more=", open_loop: [50%]")
    outcome, _ = run_plan(writer, held)
    assert outcome.status is RunStatus.COMPLETE
    run = Run(tmp_path / "run")
    assert {cell.level for cell in run.plan.cells} == {"qd1", "peak50"}
    assert len(run.trials) == 18
    assert verify(run).ok


def test_trials_of_one_series_are_pairs_and_others_are_not(tmp_path: Path) -> None:
    run_plan(written(tmp_path, "volumes: 1"), Held())
    run = Run(tmp_path / "run")
    judge = Judge()
    sides = within_run(run, By.TARGET, "a", "b", judge)
    comparison = compare(*sides, by=By.TARGET)
    assert comparison.between_runs == 0.0
    assert all("across-groups" not in cell.judgement.reasons for cell in comparison.cells)

    apart = run.plan.model_copy(
        update={
            "groups": tuple(
                group.model_copy(update={"series": number})
                for number, name in enumerate("abc")
                for group in run.plan.groups
                if group.targets == (name,)
            )
        }
    )
    run.__dict__["plan"] = apart
    comparison = compare(*sides, by=By.TARGET)
    judged = [cell.judgement for cell in comparison.cells if cell.judgement.interval]
    assert judged
    assert all("across-groups" in one.reasons for one in judged)
    assert comparison.between_runs > 0
