"""Growth of counters over the seconds that figures are of."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.layers.windows import Basis, Sample, Window, growth, workload_window
from leadline.metrics import Op
from leadline.plan.workload import Pattern, Phase, Workload


def phase(name: str, pattern: Pattern) -> Phase:
    return Phase(name=name, pattern=pattern, block_size=4096, iodepth=1, numjobs=1, size=1 << 20)


def workload(*patterns: Pattern, ramp_s: float = 0.0, runtime_s: float = 10.0) -> Workload:
    phases = tuple(phase(f"p{number}", one) for number, one in enumerate(patterns))
    return Workload(name="w", phases=phases, runtime_s=runtime_s, ramp_s=ramp_s)


def window(op: Op, *patterns: Pattern, ramp_s: float = 0.0, engine_s: float = 10.0) -> Window:
    found = workload_window(workload(*patterns, ramp_s=ramp_s), op, engine_s)
    assert found is not None
    return found


def ramping(until_s: int) -> list[Sample]:
    """A counter that stands still for 2 s, grows by 10 each second until 12 s, then stands."""
    return [(float(s), (10.0 * min(max(s - 2, 0), 10),)) for s in range(until_s + 1)]


def test_without_a_ramp_all_that_was_counted_is_of_the_engines_seconds() -> None:
    grown = growth(ramping(14), window(Op.WRITE, Pattern.WRITE, engine_s=10.0))
    assert grown is not None
    assert (grown.counts, grown.seconds, grown.basis) == ((100.0,), 10.0, Basis.TOTALS)


def test_with_a_ramp_only_what_lies_behind_it_is_counted() -> None:
    over = window(Op.WRITE, Pattern.WRITE, ramp_s=3.0)
    assert over.spans == ((3.5, 13.0),)
    grown = growth(ramping(14), over)
    assert grown is not None
    assert grown.basis is Basis.WINDOW
    assert grown.counts == (85.0,)  # of 3.5 s to 12 s, when it stopped
    assert grown.seconds == 9.5


@pytest.mark.parametrize(
    ("late", "span", "basis"),
    [
        (0.5, (3.5, 13.0), Basis.WINDOW),
        (4.0, (7.0, 13.0), Basis.WINDOW),
        (4.1, (0.0, math.inf), Basis.WHOLE_TRIAL),
    ],
)
def test_only_what_is_surely_the_engines_counts(
    late: float, span: tuple[float, float], basis: Basis
) -> None:
    """It began up to so many seconds late, behind a ramp of 3 s and for 10 s."""
    found = workload_window(workload(Pattern.WRITE, ramp_s=3.0), Op.WRITE, 10.0, late)
    assert found is not None
    assert (found.spans, found.basis) == ((span,), basis)
    grown = growth(ramping(16), found)
    assert grown is not None
    assert grown.basis is basis
    if basis is Basis.WHOLE_TRIAL:
        assert (grown.counts, grown.seconds) == ((100.0,), 13.0)


def test_each_phase_has_its_own_window() -> None:
    phases = (Pattern.WRITE, Pattern.READ)
    assert window(Op.WRITE, *phases, ramp_s=1.0).spans == ((1.5, 11.0),)
    assert window(Op.READ, *phases, ramp_s=1.0).spans == ((12.5, 22.0),)
    twice = workload(Pattern.READ, Pattern.RANDREAD, ramp_s=1.0)
    assert workload_window(twice, Op.READ, 20.0) is None, "two windows would be one figure"
    assert workload_window(workload(*phases, ramp_s=1.0), Op.TRIM, None) is None


def test_what_was_read_before_and_after_only_is_a_mean_with_the_ramp() -> None:
    ends: list[Sample] = [(0.0, (0.0,)), (14.0, (130.0,))]
    grown = growth(ends, window(Op.WRITE, Pattern.WRITE, ramp_s=3.0))
    assert grown is not None
    assert (grown.basis, grown.seconds) == (Basis.WHOLE_TRIAL, 13.0)


def test_a_program_that_lived_for_a_part_speaks_for_its_own_seconds() -> None:
    """The counters of fio's librbd are to be had only while fio runs."""
    part: list[Sample] = [(1.0, (50.0,)), (2.0, (150.0,)), (8.0, (750.0,))]
    grown = growth(part, window(Op.WRITE, Pattern.WRITE, engine_s=10.0))
    assert grown is not None
    assert (grown.basis, grown.per_s(0)) == (Basis.WHOLE_TRIAL, 100.0)


@pytest.mark.parametrize(
    "samples",
    [
        [],
        [(0.0, (1.0,))],
        [(0.0, (5.0,)), (12.0, (4.0,))],
        [(0.0, (0.0,)), (2.0, (10.0,))],
    ],
    ids=["none", "one", "backwards", "too short"],
)
def test_unknown_growth_is_missing_and_never_zero(samples: list[Sample]) -> None:
    assert growth(samples, window(Op.WRITE, Pattern.WRITE)) is None
    assert growth(samples, window(Op.WRITE, Pattern.WRITE, ramp_s=3.0)) is None


@given(
    st.lists(st.integers(min_value=0, max_value=10_000), min_size=16, max_size=40),
    st.floats(min_value=0.1, max_value=4),
)
def test_growth_is_never_negative_nor_more_than_all(steps: list[int], ramp_s: float) -> None:
    total, samples = 0, []
    for second, step in enumerate(steps):
        samples.append((float(second), (float(total),)))
        total += step
    grown = growth(samples, window(Op.WRITE, Pattern.WRITE, ramp_s=ramp_s))
    assert grown is not None
    assert 0 <= grown.counts[0] <= total + 1e-6
