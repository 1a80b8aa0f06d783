"""False calls of runs that stop when decided, in small numbers (tables: benchmarks/looks.py)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.looks import (
    MARGIN,
    covers,
    is_wrong,
    normal_study,
    recorded_pairs,
    recorded_study,
    run,
)

STUDIES = 120


@pytest.mark.thorough
@pytest.mark.parametrize("source", ["normal", "lab"])
def test_few_verdicts_are_wrong_at_the_margin(source: str) -> None:
    """A true ratio at the margin is where `better` is wrong and most probable."""
    generator = np.random.default_rng(20261125)
    truth = np.full(3, math.log(1 + MARGIN))
    pairs = recorded_pairs("lab")
    wrong = missed = 0
    for _ in range(STUDIES):
        if source == "normal":
            study = normal_study(generator, truth, np.full(3, 0.02))
        else:
            study = recorded_study(generator, truth, pairs, None)
        found = run(study, 3, 8, 0.2)
        wrong += any(map(is_wrong, found.judgements, truth.tolist()))
        missed += sum(
            not covers(one, ratio) for one, ratio in zip(found.judgements, truth, strict=True)
        )
    # Two standard errors of what is promised.
    assert wrong / STUDIES <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / STUDIES)
    assert missed / (3 * STUDIES) <= 0.05


def test_large_differences_take_two_trials() -> None:
    generator = np.random.default_rng(1)
    truth = np.log(np.array([0.5, 0.6, 1.5, 1.8, 0.4, 1.6]))
    study = normal_study(generator, truth, np.full(6, 0.005))
    found = run(study, 2, 6, 0.2)
    assert not any(map(is_wrong, found.judgements, truth.tolist()))
    assert np.mean(found.trials) < 3
