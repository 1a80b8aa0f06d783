"""Sizes of requests as distributions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.layers.model import Sizes, add_counts

COUNTS = st.dictionaries(
    st.integers(min_value=0, max_value=1 << 24), st.integers(min_value=0, max_value=1000)
)


def of(counts: dict[int, int], *, exact: bool = True) -> Sizes:
    return Sizes(counts=counts, exact=exact, source="test")


def test_mean_and_quantiles_of_a_known_distribution() -> None:
    sizes = of({4096: 90, 131072: 10})
    assert sizes.mean_bytes == (90 * 4096 + 10 * 131072) / 100
    assert [sizes.quantile_bytes(q) for q in (0.5, 0.9, 0.91, 1.0)] == [4096, 4096, 131072, 131072]
    assert sizes.share_from(131072) == 0.1
    assert sizes.share_from(4 << 20) == 0.0


def test_buckets_have_no_mean() -> None:
    assert of({4096: 1}, exact=False).mean_bytes is None


def test_without_requests_there_are_no_figures() -> None:
    for sizes in (of({}), of({4096: 0})):
        assert sizes.mean_bytes is None
        assert sizes.quantile_bytes(0.5) is None
        assert sizes.share_from(1) is None


@given(COUNTS)
def test_a_quantile_is_a_size_that_occurred_with_at_least_that_share_below(
    counts: dict[int, int],
) -> None:
    sizes = of(counts)
    for q in (0.01, 0.5, 0.99, 1.0):
        found = sizes.quantile_bytes(q)
        if not sizes.requests:
            assert found is None
            continue
        assert found is not None
        assert counts[found] > 0
        assert sum(n for size, n in counts.items() if size <= found) >= q * sizes.requests
        assert sum(n for size, n in counts.items() if size < found) < q * sizes.requests


@given(st.lists(COUNTS))
def test_nothing_is_lost_when_counts_are_added(parts: list[dict[int, int]]) -> None:
    assert sum(add_counts(parts).values()) == sum(sum(part.values()) for part in parts)
