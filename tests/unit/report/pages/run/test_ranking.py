"""The first sentence names a leader only where the evidence does, with numbers that add up."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path
from statistics import geometric_mean

import pytest
from archive_builder import make_run, small_plan, some_findings

from leadline.analysis.figures import figures
from leadline.analysis.objectives import Objective, Question
from leadline.analysis.ranking import Missing, MissingCause, Ranking, Standing
from leadline.analysis.requirements import Protection
from leadline.analysis.verdicts import Evidence, Judgement, Verdict
from leadline.archive.reader import Run
from leadline.metrics import Metric, Op
from leadline.report.document import Document, Table
from leadline.report.pages.ranking import ranking_headline
from leadline.report.pages.run.page import run_document

OBJECTIVE = Objective(workload="w", level="qd1", op=Op.READ, metric=Metric.IOPS, weight=1.0)


def made(
    places: dict[str, tuple[int, tuple[int, int]]],
    verdict: Verdict,
    *,
    evidence: Evidence = Evidence.TRIALS,
    incomplete: tuple[str, ...] = (),
) -> Ranking:
    """Targets by rank and interval; `verdict` is that of those of the same rank."""
    whole = tuple(
        Standing(target=name, rank=rank, interval=interval, score=1 / rank, values=(1 / rank,))
        for name, (rank, interval) in places.items()
    )
    rest = tuple(
        Standing(
            target=name,
            values=(None,),
            missing=(Missing(objective=OBJECTIVE, cause=MissingCause.NOT_PLANNED),),
        )
        for name in incomplete
    )
    return Ranking(
        question=Question(name="w read iops", objectives=(OBJECTIVE,)),
        baseline=whole[0].target if whole else None,
        band=0.05,
        standings=(*whole, *rest),
        tiers=(),
        judgements={
            (one.target, other.target): Judgement(
                verdict=verdict if one.rank == other.rank else Verdict.BETTER,
                evidence=evidence,
                band=0.05,
                ratio=(one.score or 0) / (other.score or 1),
                interval=None if evidence is Evidence.ONE_NUMBER else (1.9, 2.1),
                trials_needed=7 if verdict is Verdict.INCONCLUSIVE else None,
            )
            for one, other in combinations(whole, 2)
        },
        resampled=True,
    )


def test_a_leader_is_named_with_its_numbers() -> None:
    ranking = made({"a": (1, (1, 1)), "b": (2, (2, 2))}, Verdict.BETTER)
    assert ranking_headline(ranking, {}) == "a is fastest: 2.00 times b, the next."


def test_a_leader_that_cannot_be_separated_is_said_to_be_so() -> None:
    ranking = made({"a": (1, (1, 2)), "b": (2, (1, 2))}, Verdict.SAME)
    assert ranking_headline(ranking, {}) == "a has the highest score; its rank may be 1 to 2."


def test_a_tie_is_no_leader() -> None:
    both = made({"a": (1, (1, 2)), "b": (1, (1, 2))}, Verdict.INCONCLUSIVE)
    assert ranking_headline(both, {}) == "All targets tie: a and b share rank 1."
    third = made({"a": (1, (1, 2)), "b": (1, (1, 2)), "c": (3, (3, 3))}, Verdict.SAME)
    assert ranking_headline(third, {}) == "a and b tie for first."


def test_a_better_protected_target_is_named_with_its_score() -> None:
    ranking = made({"a": (1, (1, 1)), "b": (2, (2, 2))}, Verdict.BETTER)
    given = {
        name: Protection(copies=copies, failures_survived=copies - 1, raw_per_stored=float(copies))
        for name, copies in (("a", 2), ("b", 3))
    }
    assert ranking_headline(ranking, given) == (
        "a is fastest: 2.00 times b, the next; b survives more losses at 50 % of its score."
    )


def test_of_incomplete_targets_nothing_is_claimed() -> None:
    alone = made({"a": (1, (1, 1))}, Verdict.SAME, incomplete=("c",))
    assert ranking_headline(alone, {}) == "a is the only target with every number."
    none = made({}, Verdict.SAME, incomplete=("c",))
    assert ranking_headline(none, {}).startswith("No target has every number")


def document_of(run: Run) -> Document:
    return run_document(run, figures(run, ()), ())


def table_of(document: Document) -> dict[str, dict[str, str]]:
    (section,) = (one for one in document.sections if one.id == "ranking")
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    titles = [column.title for column in table.columns]
    return {
        row[0].text: dict(zip(titles, (cell.text for cell in row), strict=True))
        for row in table.rows
    }


def test_the_first_sentence_of_a_run_agrees_with_its_table(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    document = document_of(run)
    assert document.summary[0].startswith("memory is fast")
    values = {
        (one.target, one.workload, one.op): geometric_mean(
            trial.value or 0.0
            for trial in one.metric(
                Metric.BANDWIDTH if one.workload == "sequential-1m" else Metric.IOPS
            ).trials
        )
        for one in figures(run, ())
        if one.op is not Op.TOTAL
    }
    logs = [
        math.log(value / other)
        for (target, workload, op), value in values.items()
        if target == "memory" and value and (other := values["disk", workload, op])
    ]
    assert len(logs) == 6
    score = f"{math.exp(sum(logs) / 6):.2f}"
    assert f": {score} times disk, the next" in document.summary[0]
    rows = table_of(document)
    assert (rows["memory"]["rank"], rows["memory"]["score"]) == ("1", score)
    assert (rows["disk"]["rank"], rows["disk"]["score"]) == ("2", "1.00")


def test_the_same_recording_under_two_names_has_no_leader(tmp_path: Path) -> None:
    run = make_run(tmp_path, small_plan(["one", "two"]), recorded_for=lambda _: "disk")
    document = document_of(run)
    assert "fastest" not in document.summary[0]
    assert {row["rank"] for row in table_of(document).values()} == {"1="}


def test_single_trials_name_no_leader(tmp_path: Path) -> None:
    run = make_run(tmp_path, small_plan(["one", "two"], repeats=1), recorded_for=lambda _: "disk")
    said = document_of(run).summary
    assert said[0] == "All targets tie: one and two share rank 1."
    assert said[1].startswith("8 of 8 trials completed")


def test_what_lacks_a_number_has_no_rank(tmp_path: Path) -> None:
    run = make_run(
        tmp_path,
        fails=lambda target, workload, block: (target, workload) == ("memory", "mixed-70-30-4k"),
    )
    document = document_of(run)
    assert document.summary[0].startswith("21 of 24 trials completed")
    rows = table_of(document)
    assert [row["rank"] for row in rows.values()] == ["–", "–"]
    assert "mixed-70-30-4k@qd32 read iops: no completed trial" in rows["memory"]["lacks"]


def test_a_refused_number_is_a_missing_one(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    findings = some_findings()
    document = run_document(run, figures(run, findings), findings)
    assert "refused by the audit: cache-served-reads" in table_of(document)["memory"]["lacks"]
    assert not any("fastest" in sentence for sentence in document.summary)


@pytest.mark.parametrize(("count", "sections"), [(1, 0), (61, 1)])
def test_one_target_is_not_ranked_and_very_many_elsewhere(
    tmp_path: Path, count: int, sections: int
) -> None:
    run = make_run(tmp_path, small_plan([f"t{number}" for number in range(count)], repeats=1))
    found = [one for one in document_of(run).sections if one.id == "ranking"]
    assert len(found) == sections
    assert not any(isinstance(block, Table) for one in found for block in one.blocks)
