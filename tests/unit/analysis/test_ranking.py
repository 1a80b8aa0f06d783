"""Rankings: the laws that any of them must keep, and examples counted by hand."""

from __future__ import annotations

import math
from functools import partial
from itertools import combinations
from statistics import geometric_mean

import numpy as np
import pytest
from archive_builder import make_run, small_plan
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.figures import Absence, figures
from leadline.analysis.objectives import every_rate, selected
from leadline.analysis.ranking import MissingCause, rank
from leadline.analysis.standings import resampled_scores
from leadline.analysis.verdicts import Verdict, judge
from leadline.audit.registry import audit
from leadline.errors import LeadlineError
from leadline.metrics import Metric
from tests.unit.analysis.ranked import READ, READS, WRITE, Ranked, Values, iops, make, question

IOPS, P99 = Metric.IOPS, Metric.LATENCY_P99
TWO = question(("w", READ, IOPS, 0.25), ("w", READ, P99, 0.75))


def order(given: Ranked, asked=READS, **options):  # type: ignore[no-untyped-def]
    return rank(given.run, given.figures, asked, **options)


def ranks(ranking) -> dict[str, int | None]:  # type: ignore[no-untyped-def]
    return {one.target: one.rank for one in ranking.standings}


# Trials of several targets: a level each, and a spread that is sometimes none and sometimes wild.
TRIALS = st.integers(1, 8).flatmap(
    lambda count: st.lists(
        st.tuples(
            st.floats(0.5, 2.0), st.lists(st.floats(0.7, 1.4), min_size=count, max_size=count)
        ),
        min_size=2,
        max_size=7,
    )
)


def drawn(found: list[tuple[float, list[float]]], scale: float = 1000.0) -> Values:
    return iops(
        **{
            f"t{n}": [scale * level * one for one in spread]
            for n, (level, spread) in enumerate(found)
        }
    )


# --- laws ----------------------------------------------------------------------------------------


@given(found=TRIALS, imported=st.booleans())
def test_whoever_is_worse_stands_behind_and_a_rank_is_within_its_interval(
    found: list[tuple[float, list[float]]], imported: bool
) -> None:
    ranking = order(make(drawn(found), imported=imported))
    places = ranks(ranking)
    for (candidate, baseline), one in ranking.judgements.items():
        if one.verdict is Verdict.BETTER:
            assert places[candidate] < places[baseline]
    for one, other in combinations(ranking.complete, 2):
        assert one.rank <= other.rank, "standings are in order"
        assert one.score >= other.score, "a lower figure never stands before a higher one"
        if one.rank == other.rank:
            assert not ranking.differ(one.target, other.target)
    for one in ranking.complete:
        assert one.interval is not None
        assert 1 <= one.interval[0] <= one.rank <= one.interval[1] <= len(ranking.complete)


@given(found=TRIALS, shuffled=st.randoms(use_true_random=False), imported=st.booleans())
def test_the_order_in_which_targets_are_given_changes_nothing(
    found: list[tuple[float, list[float]]],
    shuffled,
    imported: bool,  # type: ignore[no-untyped-def]
) -> None:
    values = drawn(found)
    names = list(values)
    shuffled.shuffle(names)
    ours = order(make(values, imported=imported), baseline="t0")
    theirs = order(make({name: values[name] for name in names}, imported=imported), baseline="t0")
    assert ranks(ours) == ranks(theirs)
    assert [one.target for one in ours.standings] == [one.target for one in theirs.standings]
    if imported is False:  # blocks are drawn for all at once; imported trials each alone
        assert [one.interval for one in ours.standings] == [
            one.interval for one in theirs.standings
        ]


@given(found=TRIALS, power=st.integers(-8, 8))
def test_the_unit_changes_nothing(found: list[tuple[float, list[float]]], power: int) -> None:
    ours = order(make(drawn(found)))
    theirs = order(make(drawn(found, scale=1000.0 * 2.0**power)))
    assert ranks(ours) == ranks(theirs)
    for one, other in zip(ours.standings, theirs.standings, strict=True):
        assert one.score == pytest.approx(other.score)


@given(
    levels=st.lists(st.tuples(st.floats(1, 1e6), st.floats(1e-6, 1)), min_size=2, max_size=6),
    base=st.integers(0, 1),
)
def test_the_score_is_the_weighted_geometric_mean_of_ratios(
    levels: list[tuple[float, float]], base: int
) -> None:
    values = {
        f"t{n}": {("w", READ, IOPS): [rate], ("w", READ, P99): [late]}
        for n, (rate, late) in enumerate(levels)
    }
    ranking = order(make(values, imported=True), TWO, baseline=f"t{base}")
    rate0, late0 = levels[base]
    for one in ranking.standings:
        rate, late = levels[int(one.target[1:])]
        assert one.score == pytest.approx((rate / rate0) ** 0.25 * (late0 / late) ** 0.75)
    by_name = {one.target: one for one in ranking.standings}
    assert by_name[f"t{base}"].score == 1.0


@given(found=TRIALS)
def test_another_baseline_changes_scores_and_no_rank(
    found: list[tuple[float, list[float]]],
) -> None:
    values = drawn(found)
    first, second = (order(make(values), baseline=name) for name in ("t0", "t1"))
    assert ranks(first) == ranks(second)


@given(found=TRIALS, baseline=st.integers(0, 1), latency=st.booleans())
def test_a_score_lies_in_its_interval_and_a_verdict_against_the_baseline_agrees_with_it(
    found: list[tuple[float, list[float]]], baseline: int, latency: bool
) -> None:
    metric = P99 if latency else IOPS
    values = {
        f"t{n}": {("w", READ, metric): [1000 * level * one for one in spread]}
        for n, (level, spread) in enumerate(found)
    }
    ranking = order(make(values), question(("w", READ, metric, 1.0)), baseline=f"t{baseline}")
    few = len(found[0][1]) < 2
    for one in ranking.standings:
        if one.target == ranking.baseline or few:
            continue
        low, high = one.score_interval
        assert low * (1 - 1e-9) <= one.score <= high * (1 + 1e-9)
        if ranking.differ(one.target, ranking.baseline):
            assert not low < 1 < high
    by_name = {one.target: one for one in ranking.standings}
    assert by_name[f"t{baseline}"].score_interval is None


def test_three_trials_do_not_make_a_narrow_interval() -> None:
    """Student's t with three trials a side, not a bootstrap that can draw nothing but them."""
    given = make(iops(base=[1000, 1020, 980], other=[1200, 1180, 1220]))
    ranking = order(given, baseline="base")
    low, high = {one.target: one for one in ranking.standings}["other"].score_interval
    assert low < 1200 / 1020
    assert high > 1220 / 1000


# --- examples ------------------------------------------------------------------------------------


def test_one_number_a_target_is_ranked_by_the_band_alone() -> None:
    # b lies within 5 % of a, c within 5 % of b and not of a, d below all.
    given = make(iops(d=[50], c=[92], a=[100], b=[96]), imported=True)
    ranking = order(given)
    assert ranks(ranking) == {"a": 1, "b": 1, "c": 3, "d": 4}
    intervals = {one.target: one.interval for one in ranking.standings}
    assert intervals == {"a": (1, 2), "b": (1, 3), "c": (2, 3), "d": (4, 4)}
    assert ranking.baseline == "d", "the first of the plan"
    assert not ranking.resampled


def test_a_wider_band_and_a_noise_floor_tie_more() -> None:
    given = make(iops(a=[100], b=[92], c=[50]), imported=True)
    assert ranks(order(given)) == {"a": 1, "b": 2, "c": 3}
    assert ranks(order(given, band=0.1)) == {"a": 1, "b": 1, "c": 3}
    assert ranks(order(given, noise=lambda objective: 0.1)) == {"a": 1, "b": 1, "c": 3}
    assert order(given, noise=lambda objective: 0.1).band == 0.1


def test_lower_latency_is_better() -> None:
    values = {name: {("w", READ, P99): [late]} for name, late in (("slow", 2e-3), ("quick", 1e-3))}
    ranking = order(make(values, imported=True), question(("w", READ, P99, 1.0)))
    assert ranks(ranking) == {"quick": 1, "slow": 2}
    assert ranking.standings[0].score == pytest.approx(2.0)


def test_a_noisy_target_shares_the_rank_of_what_it_cannot_be_told_from() -> None:
    given = make(
        iops(
            steady=[1000, 1001, 999, 1002, 998, 1000],
            wild=[400, 1500, 700, 1300, 500, 1100],
            slow=[500, 501, 499, 500, 502, 498],
        )
    )
    ranking = order(given)
    places = ranks(ranking)
    intervals = {one.target: one.interval for one in ranking.standings}
    assert places["steady"] == places["wild"] == 1
    assert intervals["wild"][1] == 3
    assert intervals["steady"] == (1, 2)
    assert ranking.resampled


def test_the_same_target_under_two_names_shares_a_rank() -> None:
    given = make(iops(a=[1000, 1010, 990, 1005, 995, 1000], b=[1001, 1008, 993, 1004, 996, 999]))
    ranking = order(given)
    assert ranks(ranking) == {"a": 1, "b": 1}
    assert [one.interval for one in ranking.standings] == [(1, 1), (1, 1)]


def test_blocks_that_were_slow_for_all_do_not_blur_the_order() -> None:
    """Everything halves in half of the blocks, and b always gives 80 % of a."""
    weather = [1, 0.5, 0.9, 0.5, 1, 0.6, 0.5, 1]
    jitter = [1.0, 1.01, 0.99, 1.0, 1.005, 0.995, 1.01, 0.99]
    a = [1000 * one for one in weather]
    b = [800 * one * shake for one, shake in zip(weather, jitter, strict=True)]
    together = order(make(iops(a=a, b=b)))
    assert ranks(together) == {"a": 1, "b": 2}
    assert [one.interval for one in together.standings] == [(1, 1), (2, 2)]


def test_an_incomplete_target_has_no_rank_and_says_what_is_missing() -> None:
    values = {
        "whole": {("w", READ, IOPS): [100], ("v", WRITE, IOPS): [10]},
        "half": {("w", READ, IOPS): [900]},
        "refused": {("w", READ, IOPS): [900], ("v", WRITE, IOPS): [900]},
        "zero": {("w", READ, IOPS): [900], ("v", WRITE, IOPS): [0]},
    }
    given = make(values, imported=True, refused=[("refused", "v")])
    ranking = rank(given.run, given.figures, every_rate(given.run, given.figures))
    assert [one.target for one in ranking.standings] == ["whole", "half", "refused", "zero"]
    assert [one.rank for one in ranking.standings] == [1, None, None, None]
    assert [one.score for one in ranking.standings] == [1.0, None, None, None]
    causes = {
        one.target: [(lack.objective.name, lack.cause) for lack in one.missing]
        for one in ranking.incomplete
    }
    assert causes == {
        "half": [("v write iops", MissingCause.NOT_PLANNED)],
        "refused": [("v write iops", MissingCause.REFUSED)],
        "zero": [("v write iops", MissingCause.ZERO)],
    }
    assert ranking.standings[2].values == (900.0, None)


def test_other_work_under_the_same_name_is_not_ranked_as_the_same() -> None:
    given = make(iops(a=[100], b=[90], c=[500]), imported=True)
    cells = list(given.run.plan.cells)
    options = {"rw": "randread", "bs": "512"}
    recorded = cells[2].workload.recorded.model_copy(update={"options": options})
    cells[2] = cells[2].model_copy(
        update={"workload": cells[2].workload.model_copy(update={"recorded": recorded})}
    )
    given.run.plan = given.run.plan.model_copy(update={"cells": tuple(cells)})
    (lack,) = order(given).incomplete[0].missing
    assert lack.cause is MissingCause.OTHER_WORK
    assert lack.differences == ("bs: 4k, 512",)


def test_no_target_is_whole() -> None:
    given = make({"a": {("w", READ, IOPS): [1]}, "b": {("v", READ, IOPS): [1]}}, imported=True)
    ranking = rank(given.run, given.figures, every_rate(given.run, given.figures))
    assert ranking.complete == ()
    assert ranking.baseline is None
    assert len(ranking.incomplete) == 2


def test_one_target_alone_is_first() -> None:
    (one,) = order(make(iops(only=[100, 101, 99]))).standings
    assert (one.rank, one.interval, one.score) == (1, (1, 1), 1.0)


def test_a_baseline_that_is_not_there_or_lacks_a_number_is_refused() -> None:
    given = make(
        {"rep2": {("w", READ, IOPS): [1]}, "rep3": {("v", READ, IOPS): [1]}}, imported=True
    )
    with pytest.raises(LeadlineError) as told:
        order(given, baseline="rep22")
    assert told.value.kind.code == "usage"
    assert "rep2, rep3" in str(told.value)
    assert "did you mean 'rep2'" in str(told.value)
    with pytest.raises(LeadlineError, match="rep3 cannot be the baseline") as told:
        order(given, baseline="rep3")
    assert "w read iops: not planned" in str(told.value)


def test_trials_that_lack_a_percentile_leave_nothing_to_judge_by() -> None:
    values = {
        "a": {("w", READ, P99): [1e-3, None, 1e-3]},
        "b": {("w", READ, P99): [5e-3, 5e-3, 5e-3]},
    }
    ranking = order(make(values), question(("w", READ, P99, 1.0)))
    assert ranks(ranking) == {"a": 1, "b": 1}
    assert not ranking.resampled


def test_composites_are_made_of_what_ran_in_the_same_block() -> None:
    """Reads and writes share the weather: their mean is steadier than if it were mixed up."""
    weather = [1.0, 0.5, 2.0, 0.7, 1.4, 1.0]
    values = {
        name: {
            ("w", READ, IOPS): [level * one for one in weather],
            ("w", WRITE, IOPS): [level / one for one in weather],
        }
        for name, level in (("a", 100.0), ("b", 90.0))
    }
    asked = question(("w", READ, IOPS, 0.5), ("w", WRITE, IOPS, 0.5))
    ranking = order(make(values), asked)
    assert ranks(ranking) == {"a": 1, "b": 2}
    assert ranking.judgements["a", "b"].interval == pytest.approx((10 / 9, 10 / 9), rel=2e-3)


def test_real_archives_are_ranked(tmp_path) -> None:  # type: ignore[no-untyped-def]
    names = ("disk", "memory", "twin")
    run = make_run(
        tmp_path,
        small_plan(names),
        recorded_for=lambda target: "memory" if target == "memory" else "disk",
        fails=lambda target, workload, block: (target, workload) == ("twin", "sequential-1m"),
    )
    found = figures(run, ())
    ranking = rank(run, found, every_rate(run, found))
    assert ranking.baseline == "disk"
    assert [one.target for one in ranking.incomplete] == ["twin"]
    assert {lack.cause for lack in ranking.incomplete[0].missing} == {MissingCause.NO_VALUE}
    reasons = {lack.figure and lack.figure.absence for lack in ranking.incomplete[0].missing}
    assert reasons == {Absence.NO_COMPLETED_TRIAL}
    reads = rank(run, found, selected(run, found, ["randread-4k-qd1 read iops"]))
    by_name = {one.target: one for one in reads.standings}
    assert by_name["disk"].rank == by_name["twin"].rank, "the same recordings"
    rates = {
        one.target: geometric_mean(
            trial.value for trial in one.metric(IOPS).trials if trial.value is not None
        )
        for one in found
        if one.workload == "randread-4k-qd1"
    }
    assert by_name["memory"].score == pytest.approx(rates["memory"] / rates["disk"])
    # The audit refuses what a page cache answered, and what it refuses enters no ranking.
    findings = audit(run)
    audited = figures(run, findings)
    refused = {one.target for one in findings if one.severity.value == "error"}
    judged = rank(run, audited, every_rate(run, audited))
    assert refused <= {one.target for one in judged.incomplete}


def test_each_pair_of_many_targets_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        f"t{n}": {("w", READ, IOPS): [100.0 + n], ("w", READ, P99): [1.0 / (100 + n)]}
        for n in range(200)
    }
    given = make(values, imported=True)
    asked: list[int] = []

    def counting(pairs, band):  # type: ignore[no-untyped-def]
        asked.append(len(pairs))
        return judge(pairs, band)

    monkeypatch.setattr("leadline.analysis.ranking.judge", counting)
    ranking = order(given, TWO)
    assert sum(asked) == 200 * 199 / 2
    assert ranking.standings[0].target == "t199"
    assert ranking.standings[0].score == pytest.approx(2.99)
    assert ranking.standings[-1].score == pytest.approx(1.0)


def test_imported_trials_in_a_row_leave_more_ranks_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their mean scatters more than independent draws show, as in their verdicts."""
    generator = np.random.default_rng(186)
    values = iops(
        **{
            name: [round(100 * math.exp(shift + 0.04 * noise), 1) for noise in drawn]
            for name, shift, drawn in zip(
                "abcd", (0.0, 0.12, 0.3, 0.5), generator.normal(size=(4, 6)), strict=True
            )
        }
    )

    def intervals() -> list[tuple[int, int] | None]:
        return [one.interval for one in order(make(values, imported=True)).complete]

    assert intervals() == [(1, 1), (2, 2), (3, 3), (3, 4)]
    independent = partial(resampled_scores, correlation=0.0)
    monkeypatch.setattr(
        "leadline.analysis.ranking.resampled_scores",
        lambda *given, together, correlation: independent(*given, together=together),
    )
    assert intervals() == [(1, 1), (2, 2), (3, 3), (4, 4)]


def test_a_limit_that_was_measured_is_no_tie() -> None:
    trials = {"a": [500.0, 501.0, 499.0], "b": [500.5, 499.5, 500.0], "c": [300.0, 301.0, 299.0]}
    free = order(make(iops(**trials)))
    assert ranks(free) == {"a": 1, "b": 1, "c": 3}
    assert free.capped == ()
    assert free.between("a", "b").verdict is Verdict.SAME
    found = order(make(iops(**trials), capped=[("a", "w")]))
    assert ranks(found) == {"a": 1, "b": 1, "c": 3}
    assert set(found.capped) == {"a", "b"}
    judgement = found.between("a", "b")
    assert (judgement.verdict, judgement.reasons[0]) == (Verdict.INCONCLUSIVE, "capped")
    # Each may be the better one without the limit.
    assert [one.interval for one in found.complete[:2]] == [(1, 2), (1, 2)]


def test_a_composite_with_a_limit_is_no_tie() -> None:
    values: Values = {
        name: {("w", READ, IOPS): [500.0, 501.0, 499.0], ("x", WRITE, IOPS): [80.0, 80.1, 79.9]}
        for name in ("a", "b")
    }
    asked = question(("w", READ, IOPS, 0.5), ("x", WRITE, IOPS, 0.5))
    assert order(make(values), asked).capped == ()
    assert set(order(make(values, capped=[("b", "x")]), asked).capped) == {"a", "b"}
