"""Nodes and zones: a slow one is named, equal ones are not, and what a trial shares cancels."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

from leadline.analysis.figures import figures
from leadline.analysis.places import PlaceRate, place_studies, study_places
from leadline.analysis.verdicts import Verdict
from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.records import ClaimedVolume, Runner, Runners
from leadline.audit.registry import audit
from leadline.engines.replay import ReplayEngine
from leadline.metrics import Op
from leadline.report.pages.run.page import run_document
from leadline.report.render.html import render
from leadline.runner.events import StopRequest
from leadline.runner.ports import Execution, Job, Progress, Watch
from leadline.targets.local import DirectoryTarget
from tests.conftest import ROOT
from tests.unit.runner.planned import planned_run, run_to_do

RECORDED = ROOT / "tests/unit/audit/recorded/good-randread-qd16"


def rates(slow: float, repeats: int, seed: int = 1) -> list[PlaceRate]:
    """Three nodes in four cells; the trials drift by a fifth, and node c does `slow`."""
    chance = random.Random(seed)
    found = []
    for repeat in range(repeats):
        for cell in range(4):
            shared = chance.uniform(0.8, 1.2)
            for node in "abc":
                factor = (slow if node == "c" else 1.0) * chance.gauss(1, 0.01)
                found.append(
                    PlaceRate(
                        cell=("t", f"w{cell}", "qd1", Op.READ),
                        moment=f"t{repeat}{cell}",
                        repeat=repeat,
                        place=node,
                        iops=1000 * (1 + cell) * shared * factor,
                    )
                )
    return found


def test_a_slow_node_is_named_in_spite_of_drift() -> None:
    study = study_places("node", rates(0.7, 5), 0.05)
    assert study is not None
    by_node = {figure.place: figure for figure in study.figures}
    assert by_node["c"].verdict is Verdict.WORSE
    low, high = by_node["c"].interval or (0.0, 0.0)
    assert low < 0.7 < high
    assert len(study.cells) == 4
    assert study.ratios["c", study.cells[0]] < 0.85


def test_equal_nodes_are_the_same() -> None:
    study = study_places("node", rates(1.0, 6), 0.05)
    assert study is not None
    assert {figure.verdict for figure in study.figures} == {Verdict.SAME}


def test_one_repeat_gives_no_verdict() -> None:
    study = study_places("node", rates(0.5, 1), 0.05)
    assert study is not None
    assert {figure.verdict for figure in study.figures} == {Verdict.INCONCLUSIVE}
    assert all(figure.interval is None for figure in study.figures)


def test_equal_nodes_are_called_different_in_one_of_twenty_studies_at_most() -> None:
    wrong = 0
    for seed in range(200):
        study = study_places("node", rates(1.0, 4, seed), 1e-6)
        assert study is not None
        wrong += any(figure.verdict is Verdict.WORSE for figure in study.figures)
    assert wrong <= 14  # 5 % of 200, and the chance of the simulation


def test_one_node_is_no_study() -> None:
    assert study_places("node", [one for one in rates(1, 3) if one.place == "a"], 0.05) is None


class OnNode(DirectoryTarget):
    """A folder that says it is the volume of a pod on the node of its label."""

    node: str

    def watch(self, folder: Path) -> Watch | None:
        volume = ClaimedVolume(
            storage_class="fast", mode="block", size_bytes=1, volume="", driver="", handle=""
        )
        runner = Runner(
            kind="pod",
            name="p",
            node=self.node,
            image="i",
            cores=1,
            memory_bytes=1,
            volume=volume,
        )
        (folder / layout.RUNNERS).write_bytes(layout.encode(Runners(runners=(runner,))))
        return None


class Slow(ReplayEngine):
    """The recorded result, with 60 % of the rate in the folder of the node c."""

    def execute(
        self, job: Job, folder: Path, stop: StopRequest, progress: Callable[[Progress], None]
    ) -> Execution:
        execution = super().execute(job, folder, stop, progress)
        if "/c/" in str(job.location):
            document = json.loads((folder / "fio.json").read_text())
            document["jobs"][0]["read"]["iops"] *= 0.6
            (folder / "fio.json").write_text(json.dumps(document))
        return execution


def test_targets_of_one_node_each_are_compared_on_the_page(tmp_path: Path) -> None:
    entries = []
    for name in "abc":
        (tmp_path / name).mkdir()
        entries.append(
            f"{{name: n-{name}, target: 'dir:{tmp_path}/{name}', labels: {{node: {name}}}}}"
        )
    writer = planned_run(
        tmp_path,
        f"targets: [{', '.join(entries)}]\nrepeats: 3\nprefill: false\n"
        "defaults: {runtime: 4s, size: 1M}\nworkloads: [{name: w, pattern: randread}]\n",
    )
    adapters = []
    for target in writer.run.plan.targets:
        adapter = OnNode(target)
        adapter.node = target.labels["node"]
        adapters.append(adapter)
    run_to_do(writer, Slow({("randread",): RECORDED}), adapters)
    run = Run(tmp_path / "run")
    (study,) = place_studies(run)
    verdicts = {figure.place: figure.verdict for figure in study.figures}
    assert verdicts["c"] is Verdict.WORSE
    findings = audit(run)
    page = render(run_document(run, tuple(figures(run, findings)), tuple(findings)))
    assert "Rate of each node against the median" in page
    assert "Nodes slower than the median node: c (-40.0 %)" in page
    (tmp_path / "page.html").write_text(page)
