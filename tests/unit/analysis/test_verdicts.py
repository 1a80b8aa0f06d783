"""The evidence of a verdict, kind by kind, and the reasons that are given."""

from __future__ import annotations

import math
from statistics import median

import numpy as np
import pytest

from leadline.analysis.verdicts import (
    REPEATS_DEVIATION,
    REPEATS_FACTOR,
    Evidence,
    Judgement,
    Pair,
    Reason,
    Sample,
    Verdict,
    judge,
)
from leadline.metrics import Metric
from leadline.report.words import reason_text

STEADY = (99.0, 101.0, 100.0, 100.5, 99.5, 100.2, 99.8, 100.1)
BLOCKS = tuple(range(8))


def sample(values: tuple[float, ...], **more: object) -> Sample:
    return Sample(value=median(values), trials=values, **more)  # type: ignore[arg-type]


def scaled(factor: float, count: int = 8) -> tuple[float, ...]:
    return tuple(factor * one for one in STEADY[:count])


def judged(
    baseline: Sample, candidate: Sample, metric: Metric = Metric.IOPS, **more: object
) -> Judgement:
    pair = Pair(metric=metric, baseline=baseline, candidate=candidate, **more)  # type: ignore[arg-type]
    return judge([pair])[0]


def figure(value: float | None, **more: object) -> Sample:
    trials = () if value is None else (value,)
    return Sample(value=value, trials=trials, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [2, 3, 5, 6, 8])
@pytest.mark.parametrize(
    ("metric", "factor", "verdict"),
    [
        (Metric.IOPS, 0.8, Verdict.WORSE),
        (Metric.IOPS, 1.25, Verdict.BETTER),
        (Metric.BANDWIDTH, 1.25, Verdict.BETTER),
        (Metric.LATENCY_P99, 1.25, Verdict.WORSE),
        (Metric.LATENCY_MEAN, 0.8, Verdict.BETTER),
    ],
)
def test_a_clear_change(count: int, metric: Metric, factor: float, verdict: Verdict) -> None:
    found = judged(sample(scaled(1, count)), sample(scaled(factor, count)), metric)
    assert found.verdict is verdict
    assert found.ratio == pytest.approx(factor)
    assert found.interval is not None
    assert found.interval[0] <= factor <= found.interval[1]
    assert found.evidence is Evidence.TRIALS
    assert found.reasons == ("own-scatter",)
    assert (found.confidence, found.interval_alone) == (0.95, None)
    assert found.trials_needed is None
    assert found.p is not None
    assert found.p_adjusted == found.p


@pytest.mark.parametrize("count", [4, 8])
def test_the_same(count: int) -> None:
    found = judged(sample(scaled(1, count)), sample(scaled(1.005, count)))
    assert found.verdict is Verdict.SAME
    assert found.trials_needed is None
    assert found.detectable is not None
    assert 0.05 < found.detectable < 0.12
    assert found.confidence == 0.95


def test_inconclusive_says_how_many_trials_it_takes() -> None:
    wild = (80.0, 95.0, 100.0, 112.0, 130.0, 105.0)
    found = judged(sample(wild), sample(tuple(0.85 * one for one in wild[::-1])))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.reasons == ("interval-crosses-band", "own-scatter")
    assert found.trials_needed is not None
    assert found.trials_needed > 6
    assert found.trials_range is not None
    low, high = found.trials_range
    assert low < found.trials_needed
    assert high is None or high > found.trials_needed
    assert found.detectable is not None
    assert found.detectable > 0.15


def test_the_number_shown_is_the_estimate_that_is_tested() -> None:
    """Medians and percentiles of all I/Os are other numbers than the mean of the trials."""
    candidate = Sample(value=120.0, trials=scaled(0.8))
    found = judged(sample(STEADY), candidate, Metric.LATENCY_P99)
    assert found.ratio == pytest.approx(0.8)
    assert found.interval is not None
    assert found.interval[0] < 0.8 < found.interval[1]
    assert found.verdict is Verdict.BETTER


def test_blocks_take_out_what_both_sides_suffered() -> None:
    """Two targets interleaved, in a cluster that grew slower from block to block."""
    drift = tuple(100 * 0.8**block for block in range(8))
    other = tuple(0.8 * one * (1 + 0.002 * (-1) ** index) for index, one in enumerate(drift))
    apart = judged(
        sample(drift, blocks=BLOCKS), sample(other, blocks=tuple(("b", one) for one in BLOCKS))
    )
    assert apart.verdict is Verdict.INCONCLUSIVE
    together = judged(sample(drift, blocks=BLOCKS), sample(other, blocks=BLOCKS))
    assert together.p is not None
    assert apart.p is not None
    assert together.p < 1e-6 < apart.p
    few = judged(sample(drift[:4], blocks=BLOCKS[:4]), sample(other[3::-1], blocks=BLOCKS[3::-1]))
    assert few.verdict is Verdict.WORSE
    assert few.interval is not None
    assert few.interval[1] < 0.82


@pytest.mark.parametrize("blocks", [(0, 1, 8, 9), (0, 1, 1, 2), ()])
def test_without_a_partner_for_each_trial_the_sides_are_independent(
    blocks: tuple[int, ...],
) -> None:
    drift = (100.0, 64.0, 95.0, 51.0)
    other = tuple(0.8 * one for one in drift)
    alone = judged(sample(drift), sample(other))
    found = judged(sample(drift, blocks=(0, 1, 2, 3)), sample(other, blocks=blocks))
    assert found.interval == alone.interval
    assert found.p == alone.p


def test_complete_blocks_are_pairs_where_others_lack_a_side() -> None:
    drift = (100.0, 80.0, 64.0, 51.0, 41.0)
    other = tuple(0.8 * one for one in drift)
    whole = judged(sample(drift[:4], blocks=BLOCKS[:4]), sample(other[:4], blocks=BLOCKS[:4]))
    found = judged(sample(drift, blocks=BLOCKS[:5]), sample(other[:4], blocks=BLOCKS[:4]))
    assert found.interval == whole.interval
    assert found.verdict is Verdict.WORSE
    assert "incomplete-blocks" in found.reasons
    assert "incomplete-blocks" not in whole.reasons


class TestTwoRuns:
    def test_the_variation_between_runs_widens_the_interval(self) -> None:
        one, two = sample(STEADY, run="a"), sample(scaled(0.9), run="b")
        found = judged(one, two)
        assert found.verdict is Verdict.INCONCLUSIVE
        assert found.reasons == ("interval-crosses-band", "across-runs", "own-scatter")
        assert found.trials_needed is None
        assert found.interval is not None
        assert math.log(found.interval[1] / 0.9) == pytest.approx(1.96 * 0.05 * 2**0.5, rel=0.03)
        within = judged(one, sample(scaled(0.9), run="a"))
        assert within.verdict is Verdict.WORSE
        assert "across-runs" not in within.reasons

    def test_the_deviation_is_the_users(self) -> None:
        pair = Pair(
            metric=Metric.IOPS,
            baseline=sample(STEADY, run="a"),
            candidate=sample(scaled(0.9), run="b"),
        )
        (known,) = judge([pair], between_runs=0.0)
        assert known.verdict is Verdict.WORSE
        (two,) = judge([pair], between_runs=0.02)
        assert known.interval is not None
        assert two.interval is not None
        assert two.interval[0] < known.interval[0]

    @pytest.mark.parametrize("given", [-0.1, math.nan, math.inf])
    def test_a_deviation_that_is_none(self, given: float) -> None:
        with pytest.raises(ValueError, match="between runs"):
            judge([], between_runs=given)

    def test_the_same_files_twice_are_named(self) -> None:
        found = judged(sample(STEADY, run="a"), sample(STEADY, run="b"))
        assert found.ratio == 1
        assert "identical-trials" in found.reasons
        assert "identical-trials" not in judged(sample(STEADY), sample(STEADY)).reasons


class TestManyCells:
    """Forty cells, whose scatter is pooled."""

    def test_three_trials_find_what_they_do_not_alone(self) -> None:
        generator = np.random.default_rng(21)
        noisy = 100 * np.exp(0.05 * generator.normal(size=(40, 2, 3)))
        noisy[0, 1] *= 0.75
        cells = [
            Pair(metric=Metric.IOPS, baseline=sample(tuple(a)), candidate=sample(tuple(b)))
            for a, b in noisy.tolist()
        ]
        found = judge(cells)
        assert [one.verdict for one in found].count(Verdict.WORSE) == 1
        assert found[0].verdict is Verdict.WORSE
        assert "own-scatter" not in found[0].reasons
        assert found[0].confidence == pytest.approx(1 - 2 * 0.05 / 40)
        assert found[0].interval_alone is not None
        assert found[0].estimate is not None
        assert found[0].estimate.freedom > 15
        assert found[0].estimate.priors[0].cells == 40

    def test_one_wild_trial_decides_nothing_and_costs_the_others_nothing(self) -> None:
        generator = np.random.default_rng(22)
        noisy = 100 * np.exp(0.03 * generator.normal(size=(40, 2, 3)))
        noisy[0, 1] *= 0.75
        clean = noisy.copy()
        noisy[1, 1, 0] /= 3

        def verdicts(values: np.ndarray) -> list[Verdict]:
            return [
                one.verdict
                for one in judge(
                    [
                        Pair(metric=Metric.IOPS, baseline=sample(tuple(a)), candidate=sample(b))
                        for a, b in ((tuple(x), tuple(y)) for x, y in values.tolist())
                    ]
                )
            ]

        before, after = verdicts(clean), verdicts(noisy)
        assert before[0] is after[0] is Verdict.WORSE
        assert after[1] is Verdict.INCONCLUSIVE

    def test_refused_cells_do_not_take_part(self) -> None:
        refused = [
            Pair(
                metric=Metric.IOPS,
                baseline=sample(STEADY, errors=("empty-result",)),
                candidate=sample(scaled(0.9)),
            )
        ] * 5
        found = judge(refused)
        assert {one.verdict for one in found} == {Verdict.NOT_COMPARABLE}
        assert {one.p for one in found} == {None}

    def test_trials_that_follow_their_predecessor_widen_the_interval(self) -> None:
        generator = np.random.default_rng(23)
        logs = np.zeros((40, 2, 10))
        for at in range(1, 10):
            logs[:, :, at] = 0.8 * logs[:, :, at - 1] + generator.normal(size=(40, 2))
        noisy = 100 * np.exp(0.03 * logs)
        given = [
            [
                Pair(
                    metric=Metric.IOPS,
                    baseline=sample(tuple(a), blocks=tuple(("a", at) for at in order)),
                    candidate=sample(tuple(b), blocks=tuple(("b", at) for at in order)),
                )
                for a, b in noisy.tolist()
            ]
            for order in (range(10), (5, 2, 9, 0, 7, 4, 1, 8, 3, 6))
        ]
        found, mixed = (judge(pairs) for pairs in given)
        assert "correlated" in found[0].reasons
        assert "correlated" not in mixed[0].reasons
        one, other = found[0].estimate, mixed[0].estimate
        assert one is not None
        assert other is not None
        assert one.error > 1.3 * other.error


class TestWithinOneRun:
    def test_a_change_beyond_what_repeats_differ_by(self) -> None:
        found = judged(figure(100.0, within=(0.01,)), figure(50.0, within=(0.02,)))
        assert found.verdict is Verdict.WORSE
        assert found.evidence is Evidence.WITHIN_RUN
        assert found.reasons == ("single-trial", "within-run-evidence")
        error = math.sqrt(0.01**2 + 0.02**2 + 2 * REPEATS_DEVIATION**2)
        margin = math.exp(1.959964 * error)
        assert found.interval == pytest.approx((0.5 / margin, 0.5 * margin))
        assert found.p is None

    @pytest.mark.parametrize("factor", [1.0, 1.02, 0.8, 1.5, 0.65])
    def test_anything_less_is_open_and_never_the_same(self, factor: float) -> None:
        found = judged(figure(100.0, within=(0.0001,)), figure(100 * factor, within=(0.0001,)))
        assert found.verdict is Verdict.INCONCLUSIVE
        assert "repeats-may-differ" in found.reasons

    def test_the_limit_is_the_published_one(self) -> None:
        assert math.log(REPEATS_FACTOR) == pytest.approx(1.96 * math.sqrt(2) * 0.161, rel=1e-4)
        assert pytest.approx(1.5625, abs=0.0005) == REPEATS_FACTOR
        for sign in (1, -1):
            just = (1.06 * REPEATS_FACTOR) ** sign
            found = judged(figure(100.0, within=(0.001,)), figure(100 * just, within=(0.001,)))
            assert found.verdict is (Verdict.BETTER if sign > 0 else Verdict.WORSE)

    def test_seconds_that_scatter_too_much(self) -> None:
        found = judged(figure(100.0, within=(0.3,)), figure(50.0, within=(0.3,)))
        assert found.verdict is Verdict.INCONCLUSIVE

    def test_many_trials_against_one(self) -> None:
        """The side with trials brings their scatter."""
        one = figure(50.0, within=(0.001,))
        narrow = judged(sample(STEADY), one)
        wide = judged(sample((20.0, 100.0, 350.0, 200.0, 90.0)), one)
        assert narrow.evidence is wide.evidence is Evidence.WITHIN_RUN
        assert narrow.verdict is Verdict.WORSE
        assert wide.verdict is Verdict.INCONCLUSIVE

    def test_seconds_unknown(self) -> None:
        found = judged(figure(100.0, within=(None,)), figure(10.0, within=(0.01,)))
        assert found.verdict is Verdict.INCONCLUSIVE
        assert found.evidence is Evidence.NONE
        assert found.reasons == ("single-trial", "no-within-run-evidence")
        assert found.interval is None
        assert found.ratio == pytest.approx(0.1)


class TestOneNumber:
    @pytest.mark.parametrize(
        ("candidate", "verdict"),
        [
            (105.0, Verdict.SAME),
            (95.0, Verdict.SAME),
            (105.1, Verdict.BETTER),
            (94.9, Verdict.WORSE),
            (100.0, Verdict.SAME),
        ],
    )
    def test_the_band_alone(self, candidate: float, verdict: Verdict) -> None:
        found = judged(figure(100.0, imported=True), figure(candidate, imported=True))
        assert found.verdict is verdict
        assert found.evidence is Evidence.ONE_NUMBER
        assert found.reasons == ("single-trial", "band-only")
        assert (found.interval, found.p, found.detectable) == (None, None, None)

    def test_against_trials_of_our_own(self) -> None:
        found = judged(figure(100.0, imported=True), sample(STEADY))
        assert found.evidence is Evidence.ONE_NUMBER

    def test_imported_trials_are_trials(self) -> None:
        found = judged(sample(STEADY, imported=True), sample(STEADY, imported=True))
        assert found.evidence is Evidence.TRIALS

    def test_a_figure_without_trials(self) -> None:
        bare = Sample(value=100.0, imported=True)
        assert judged(bare, bare).verdict is Verdict.SAME
        found = judged(Sample(value=100.0), sample(STEADY))
        assert found.verdict is Verdict.INCONCLUSIVE
        assert found.reasons == ("no-trial-values",)

    def test_imported_trials_that_lack_a_value_are_no_published_number(self) -> None:
        found = judged(
            sample(STEADY, imported=True), Sample(value=50.0, imported=True, partial=True)
        )
        assert found.verdict is Verdict.INCONCLUSIVE
        assert found.reasons == ("no-trial-values",)


class TestNotComparable:
    def test_errors_come_first(self) -> None:
        found = judged(
            sample(STEADY, errors=("cache-served-reads",)),
            sample(scaled(0.5), errors=("exceeds-ceiling", "cache-served-reads")),
            differs=("workload-differs",),
        )
        assert found.verdict is Verdict.NOT_COMPARABLE
        assert found.reasons == ("cache-served-reads", "exceeds-ceiling", "workload-differs")
        assert found.ratio == pytest.approx(0.5)
        assert found.interval is not None
        assert found.p is None
        assert found.trials_needed is None

    @pytest.mark.parametrize(
        ("baseline", "candidate", "reasons"),
        [
            (None, 1.0, ("missing-baseline",)),
            (1.0, None, ("missing-candidate",)),
            (None, None, ("missing-baseline", "missing-candidate")),
            (0.0, 1.0, ("zero",)),
            (1.0, 0.0, ("zero",)),
            (1.0, math.nan, ("zero",)),
        ],
    )
    def test_numbers_without_a_ratio(
        self, baseline: float | None, candidate: float | None, reasons: tuple[str, ...]
    ) -> None:
        found = judged(figure(baseline), figure(candidate))
        assert found.verdict is Verdict.NOT_COMPARABLE
        assert found.reasons == reasons
        assert (found.ratio, found.interval) == (None, None)

    def test_they_are_not_counted_among_the_tests(self) -> None:
        open_pair = Pair(
            metric=Metric.IOPS, baseline=sample(STEADY), candidate=sample(scaled(0.98))
        )
        refused = Pair(
            metric=Metric.IOPS,
            baseline=sample(STEADY, errors=("empty-result",)),
            candidate=sample(scaled(0.98)),
        )
        found = judge([open_pair, *[refused] * 9])
        assert found[0].p_adjusted == found[0].p


def test_a_trial_of_zero_is_told() -> None:
    found = judged(sample(STEADY), sample((*STEADY[:7], 0.0)))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.reasons == ("trial-not-positive",)
    assert found.ratio is not None


def test_the_noise_floor_widens_the_band() -> None:
    pair = {"baseline": sample(STEADY), "candidate": sample(scaled(0.8))}
    found = judged(**pair, noise=0.3)
    assert found.verdict is Verdict.SAME
    assert found.band == 0.3
    assert found.reasons == ("own-scatter", "noise-floor")
    assert judged(**pair, noise=0.01).band == 0.05
    assert judged(**pair, noise=1.5).verdict is Verdict.SAME
    single = judged(figure(100.0, imported=True), figure(80.0, imported=True), noise=0.3)
    assert single.verdict is Verdict.SAME
    assert single.reasons == ("single-trial", "band-only", "noise-floor")


def test_many_cells_raise_the_bar() -> None:
    """The same two samples: alone a change, among forty that scatter as much it may be chance."""
    baseline = (100.0, 96.0, 104.0)
    doubtful = Pair(
        metric=Metric.IOPS,
        baseline=sample(baseline),
        candidate=sample(tuple(0.82 * one for one in baseline)),
    )
    nothing = Pair(metric=Metric.IOPS, baseline=sample(baseline), candidate=sample(baseline))
    alone = judge([doubtful])[0]
    assert alone.verdict is Verdict.WORSE
    among = judge([doubtful, *[nothing] * 39])[0]
    assert among.verdict is Verdict.INCONCLUSIVE
    assert among.reasons[0] == "p-not-small"
    assert among.interval_alone is not None
    assert among.interval_alone[1] < 0.95 < among.interval[1]  # type: ignore[index]
    assert among.trials_needed is not None
    assert among.trials_needed > 3


def test_primary_pairs_are_a_family_of_their_own() -> None:
    def pair(factor: float, primary: bool) -> Pair:
        return Pair(
            metric=Metric.IOPS,
            baseline=sample(STEADY),
            candidate=sample(scaled(factor)),
            primary=primary,
        )

    found = judge([pair(0.939, True), pair(0.94, False), pair(0.94, True), pair(1.0, False)])
    p = [one.p or 0.0 for one in found]
    assert max(p[:3]) <= 0.05
    # Holm of two: the smaller doubled. Benjamini-Hochberg of two: the same for these.
    assert found[0].p_adjusted == pytest.approx(2 * p[0])
    assert found[2].p_adjusted == pytest.approx(max(p[2], 2 * p[0]))
    assert found[1].p_adjusted == pytest.approx(2 * p[1])
    assert found[3].p_adjusted == pytest.approx(p[3])


def test_trials_that_do_not_vary_at_all() -> None:
    """Rounded figures: no p of zero, no division by it."""
    found = judged(sample((100.0,) * 3), sample((80.0,) * 3))
    assert found.verdict is Verdict.WORSE
    assert found.p is not None
    assert 0 < found.p < 1e-4
    for count in (2, 3, 6):
        again = judged(sample((100.0,) * count), sample((100.0,) * count))
        assert again.verdict is Verdict.SAME
        assert again.p == 1


def test_two_wild_trials_leave_everything_open() -> None:
    found = judged(sample((1.0, 1e9)), sample((1e-9, 5.0)))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.interval is not None
    assert all(math.isfinite(one) for one in found.interval)
    assert found.trials_needed is None or found.trials_needed > 2


@pytest.mark.parametrize("band", [0.0, 1.0, -0.1, math.nan])
def test_a_band_that_is_none(band: float) -> None:
    with pytest.raises(ValueError, match="band"):
        judge([], band)


def test_nothing_to_judge() -> None:
    assert judge([]) == ()


def test_every_reason_has_its_words() -> None:
    assert not [reason for reason in Reason if "audit" in reason_text(reason)]
