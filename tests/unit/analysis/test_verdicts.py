"""The ladder of evidence, rung by rung, and the reasons that are given."""

from __future__ import annotations

import math
from statistics import median

import pytest

from leadline.analysis.verdicts import (
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
    assert found.evidence is (Evidence.TRIALS if count >= 6 else Evidence.FEW_TRIALS)
    assert found.reasons == (() if count >= 6 else ("few-trials",))
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


def test_inconclusive_says_how_many_trials_it_takes() -> None:
    wild = (80.0, 95.0, 100.0, 112.0, 130.0, 105.0)
    found = judged(sample(wild), sample(tuple(0.85 * one for one in wild[::-1])))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.reasons == ("interval-crosses-band",)
    assert found.trials_needed is not None
    assert found.trials_needed > 6
    assert found.detectable is not None
    assert found.detectable > 0.15


def test_few_trials_that_overlap_decide_nothing() -> None:
    baseline = sample((100.0, 101.0, 99.0, 100.5, 69.9))
    candidate = sample((70.0, 60.0, 55.0, 50.0, 45.0))
    found = judged(baseline, candidate, Metric.IOPS)
    assert found.interval is not None
    assert found.interval[1] < 0.95
    assert found.p is not None
    assert found.p < 0.05
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.reasons == ("trials-overlap", "few-trials")


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


@pytest.mark.parametrize("blocks", [(0, 1, 2, 9), (0, 1, 1, 2), ()])
def test_without_a_partner_for_each_trial_the_sides_are_independent(
    blocks: tuple[int, ...],
) -> None:
    drift = (100.0, 80.0, 64.0, 51.0)
    other = tuple(0.8 * one for one in drift)
    alone = judged(sample(drift), sample(other))
    found = judged(sample(drift, blocks=(0, 1, 2, 3)), sample(other, blocks=blocks))
    assert found.interval == alone.interval
    assert found.p == alone.p


class TestWithinOneRun:
    def test_a_change_beyond_what_repeats_differ_by(self) -> None:
        found = judged(figure(100.0, within=(0.01,)), figure(50.0, within=(0.02,)))
        assert found.verdict is Verdict.WORSE
        assert found.evidence is Evidence.WITHIN_RUN
        assert found.reasons == ("single-trial", "within-run-evidence")
        margin = math.exp(1.959964 * math.hypot(0.01, 0.02))
        assert found.interval == pytest.approx((0.5 / margin, 0.5 * margin))
        assert found.p is None

    @pytest.mark.parametrize("factor", [1.0, 1.02, 0.8, 1.4, 0.7])
    def test_anything_less_is_open_and_never_the_same(self, factor: float) -> None:
        found = judged(figure(100.0, within=(0.0001,)), figure(100 * factor, within=(0.0001,)))
        assert found.verdict is Verdict.INCONCLUSIVE
        assert "repeats-may-differ" in found.reasons

    def test_the_limit_is_the_published_one(self) -> None:
        assert math.log(REPEATS_FACTOR) == pytest.approx(1.96 * math.sqrt(2) * 0.135, rel=1e-4)
        for sign in (1, -1):
            just = REPEATS_FACTOR ** (sign * 1.05)
            found = judged(figure(100.0, within=(0.001,)), figure(100 * just, within=(0.001,)))
            assert found.verdict is (Verdict.BETTER if sign > 0 else Verdict.WORSE)

    def test_seconds_that_scatter_too_much(self) -> None:
        found = judged(figure(100.0, within=(0.3,)), figure(50.0, within=(0.3,)))
        assert found.verdict is Verdict.INCONCLUSIVE

    def test_many_trials_against_one(self) -> None:
        """The side with trials brings their scatter."""
        one = figure(50.0, within=(0.001,))
        narrow = judged(sample(STEADY), one)
        wide = judged(sample((50.0, 100.0, 150.0, 200.0, 90.0)), one)
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
    assert found.reasons == ("noise-floor",)
    assert judged(**pair, noise=0.01).band == 0.05
    assert judged(**pair, noise=1.5).verdict is Verdict.SAME
    single = judged(figure(100.0, imported=True), figure(80.0, imported=True), noise=0.3)
    assert single.verdict is Verdict.SAME
    assert single.reasons == ("single-trial", "band-only", "noise-floor")


@pytest.mark.parametrize("shown", [0.7, 1.2])
def test_what_is_said_holds_for_the_number_that_is_shown(shown: float) -> None:
    """A percentile of all I/Os together may lie outside what the trials' own percentiles say."""
    candidate = Sample(value=100 * shown, trials=scaled(0.8))
    found = judged(sample(STEADY), candidate, Metric.LATENCY_P99)
    assert found.interval is not None
    assert found.ratio is not None
    assert found.ratio == pytest.approx(shown, rel=1e-3)
    assert found.interval[0] <= found.ratio <= found.interval[1]
    assert "figure-widens-interval" in found.reasons
    assert found.verdict is (Verdict.BETTER if shown < 1 else Verdict.INCONCLUSIVE)


def test_many_cells_raise_the_bar() -> None:
    """The same two samples: alone a change, among forty that show nothing it may be chance."""
    baseline = (100.0, 96.0, 104.0)
    doubtful = Pair(
        metric=Metric.IOPS,
        baseline=sample(baseline),
        candidate=sample(tuple(0.8 * one for one in baseline)),
    )
    nothing = Pair(metric=Metric.IOPS, baseline=sample(baseline), candidate=sample(baseline))
    alone = judge([doubtful])[0]
    assert alone.verdict is Verdict.WORSE
    among = judge([doubtful, *[nothing] * 39])[0]
    assert among.p == alone.p
    assert among.verdict is Verdict.INCONCLUSIVE
    assert among.reasons[0] == "p-not-small"
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

    found = judge([pair(0.995, True), pair(0.9, False), pair(0.99, True), pair(1.0, False)])
    assert [one.p for one in found if one.p is None] == []
    p = [one.p or 0.0 for one in found]
    # Holm of two: the smaller doubled. Benjamini-Hochberg of two: the same for these.
    assert found[2].p_adjusted == pytest.approx(2 * p[2])
    assert found[0].p_adjusted == pytest.approx(max(p[0], 2 * p[2]))
    assert found[1].p_adjusted == pytest.approx(2 * p[1])
    assert found[3].p_adjusted == pytest.approx(p[3])


def test_trials_that_do_not_vary_at_all() -> None:
    """Rounded figures: no p of zero, no division by it."""
    found = judged(sample((100.0,) * 3), sample((80.0,) * 3))
    assert found.verdict is Verdict.WORSE
    assert found.p is not None
    assert 0 < found.p < 1e-6
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
