from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.stats.histogram import LatencyHistogram, samples_needed

bins = st.dictionaries(
    st.integers(min_value=0, max_value=10**11),
    st.integers(min_value=0, max_value=10**6),
    max_size=30,
)


def slow_quantile(counts: dict[int, int], q: float) -> int:
    """The definition, one I/O bucket at a time: an oracle."""
    wanted, cumulated = q * sum(counts.values()), 0
    for value in sorted(counts):
        cumulated += counts[value]
        if counts[value] and cumulated >= wanted:
            return value
    raise AssertionError("empty")


@given(bins, st.floats(min_value=0.01, max_value=1))
def test_a_quantile_is_what_the_definition_says(counts: dict[int, int], q: float) -> None:
    histogram = LatencyHistogram.from_bins(counts)
    if histogram.count == 0:
        with pytest.raises(ValueError, match="empty"):
            histogram.quantile_s(q)
    else:
        assert histogram.quantile_s(q) == slow_quantile(counts, q) / 1e9


@given(st.lists(bins, max_size=5), st.randoms())
def test_merging_adds_counts_in_any_order(parts: list[dict[int, int]], random: object) -> None:
    histograms = [LatencyHistogram.from_bins(part) for part in parts]
    shuffled = list(histograms)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    merged = LatencyHistogram.merged(histograms)
    assert merged == LatencyHistogram.merged(shuffled)
    assert merged.count == sum(histogram.count for histogram in histograms)


def test_a_percentile_of_merged_trials_is_not_the_mean_of_their_percentiles() -> None:
    quick = LatencyHistogram.from_bins({1_000: 990, 2_000: 10})
    slow = LatencyHistogram.from_bins({1_000: 500, 9_000: 500})
    merged = LatencyHistogram.merged([quick, slow])
    assert merged.quantile_s(0.99) == 9_000 / 1e9
    mean_of_percentiles = (quick.quantile_s(0.99) + slow.quantile_s(0.99)) / 2
    assert not math.isclose(merged.quantile_s(0.99), mean_of_percentiles)


def test_negative_entries_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        LatencyHistogram.from_bins({5: -1})


@pytest.mark.parametrize(
    ("q", "needed"), [(0.5, 20), (0.99, 1000), (0.999, 10_000), (0.9999, 100_000)]
)
def test_a_percentile_needs_ten_samples_beyond_it(q: float, needed: int) -> None:
    assert samples_needed(q) == needed
