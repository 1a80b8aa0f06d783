"""Targets whose trials each get data of their own: renewed and laid out before each but the
first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline import errors
from leadline.archive.records import RunStatus, TrialStatus
from leadline.archive.writer import RunWriter
from leadline.engines.fio.local import FioEngine
from leadline.errors import LeadlineError
from leadline.runner.events import StopRequest
from leadline.runner.session import Outcome
from leadline.targets.local import DirectoryTarget
from tests.unit.runner.planned import planned_run, run_to_do

pytestmark = pytest.mark.real
PLAN = """\
targets: [{targets}]
repeats: 3
prefill: {prefill}
defaults: {{runtime: 200ms, ramp: 0, size: 1M}}
workloads:
  - {{name: reads, pattern: randread, block_size: 4k, iodepth: 1, numjobs: 1}}
"""


class FreshFolder(DirectoryTarget):
    """A folder that is emptied when it is renewed, and tells what was done to it."""

    done: list[str]
    fresh = True

    def renew(self) -> None:
        self.done.append("renew")
        for path in self.location.path.iterdir():
            if path.stat().st_size == 1 << 20:
                path.unlink()

    def settle(self, written_at_s: float) -> None:
        self.done.append("settle")
        super().settle(written_at_s)


class LastingFolder(FreshFolder):
    fresh = False


Run = Callable[..., tuple[Outcome, RunWriter, dict[str, FreshFolder]]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def carried(
        *kinds: type[FreshFolder], prefill: bool = True, stop: StopRequest | None = None
    ) -> tuple[Outcome, RunWriter, dict[str, FreshFolder]]:
        writer = planned(tmp_path, len(kinds), prefill)
        targets: dict[str, FreshFolder] = {}
        for kind, target in zip(kinds, writer.run.plan.targets, strict=True):
            opened = kind(target)
            opened.done = []
            targets[target.name] = opened
        outcome = run_to_do(writer, FioEngine(), tuple(targets.values()), stop=stop)
        return outcome, writer, targets

    return carried


def planned(folder: Path, count: int, prefill: bool) -> RunWriter:
    names = []
    for number in range(count):
        (folder / f"disk-{number}").mkdir()
        names.append(f"dir:{folder}/disk-{number}")
    plan = PLAN.format(targets=", ".join(names), prefill=str(prefill).lower())
    return planned_run(folder, plan)


def test_each_trial_but_the_first_has_data_made_new_for_it(run: Run) -> None:
    outcome, writer, targets = run(FreshFolder)
    assert outcome.status is RunStatus.COMPLETE, outcome.problem
    assert [one.status for one in outcome.records] == [TrialStatus.COMPLETED] * 3
    (target,) = targets.values()
    assert target.done == ["settle", "renew", "settle", "renew", "settle"]
    order = [one.trial for one in outcome.records]
    laid_out = sorted(path.name for path in (writer.path / "prefill").iterdir())
    assert laid_out == sorted(["001-target-1", *(f"001-target-1-{one}" for one in order[1:])])
    for name in laid_out:
        text = (writer.path / "prefill" / name / "fio.json").read_text()
        written = sum(
            job["write"]["io_bytes"] for job in json.loads(text[text.index("{") :])["jobs"]
        )
        assert written == 1 << 20
    assert {one.extent.written_bytes for one in outcome.records if one.extent} == {1 << 20}


@pytest.mark.slow
def test_a_lasting_target_beside_it_is_laid_out_once(run: Run) -> None:
    outcome, writer, targets = run(FreshFolder, LastingFolder)
    assert outcome.status is RunStatus.COMPLETE, outcome.problem
    fresh, lasting = targets.values()
    assert fresh.done.count("renew") == 2
    assert lasting.done == ["settle"]
    names = [path.name for path in (writer.path / "prefill").iterdir()]
    assert [name for name in names if "target-2" in name] == ["001-target-2"]


@pytest.mark.slow
def test_without_prefill_it_is_renewed_and_not_laid_out(run: Run) -> None:
    outcome, writer, targets = run(FreshFolder, prefill=False)
    (target,) = targets.values()
    assert target.done == ["renew", "renew"]
    assert list(writer.path.glob("prefill/*")) == []
    assert len(outcome.records) == 3


def test_a_target_that_cannot_be_renewed_ends_the_run_and_is_told(run: Run) -> None:
    class Stuck(FreshFolder):
        def renew(self) -> None:
            raise LeadlineError(errors.KUBERNETES_FAILED, "the volume did not go away")

    outcome, writer, _ = run(Stuck)
    assert outcome.status is RunStatus.INTERRUPTED
    assert outcome.problem is not None
    assert outcome.problem.kind is errors.KUBERNETES_FAILED
    assert len(writer.run.attempts) == 1, "what was measured before it is kept"


class LosingFolder(FreshFolder):
    """A target whose runners are lost before its second and third call; new ones can be made
    `able` times."""

    fresh = False
    able = 5

    def present(self) -> bool:
        self.done.append("present")
        return self.done.count("present") not in (2, 3) and super().present()

    def recover(self) -> str:
        if self.done.count("recover") >= self.able:
            return ""
        self.done.append("recover")
        return "a new runner"


class HopelessFolder(LosingFolder):
    able = 1


def test_a_trial_whose_runner_is_lost_is_repeated_with_new_data(run: Run) -> None:
    outcome, writer, targets = run(LosingFolder)
    assert outcome.status is RunStatus.COMPLETE, outcome.problem
    assert [one.status for one in outcome.records] == [TrialStatus.COMPLETED] * 3
    (target,) = targets.values()
    assert target.done.count("recover") == 2
    assert target.done.count("settle") == 3
    # The lost attempts stay in the archive.
    lost = outcome.records[1].trial
    attempts = [
        (one.record.attempt, one.record.status)
        for one in writer.run.attempts
        if one.record.trial == lost
    ]
    assert attempts[-1] == (3, TrialStatus.COMPLETED)
    folders = sorted(path.name for path in (writer.path / "trials").iterdir())
    assert [name[-1] for name in folders if name.startswith(lost)] == ["1", "2", "3"]
    assert outcome.records[1].extent is not None
    assert outcome.records[1].extent.written_bytes == 1 << 20


@pytest.mark.slow
def test_a_runner_that_cannot_be_made_anew_leaves_a_failed_trial(run: Run) -> None:
    outcome, _, targets = run(HopelessFolder)
    statuses = [one.status for one in outcome.records]
    assert statuses == [TrialStatus.COMPLETED, TrialStatus.FAILED, TrialStatus.COMPLETED]
    (target,) = targets.values()
    assert target.done.count("recover") == 1
