"""The time of 1,200 verdicts, as a ratio to Welch's test of each cell by scipy.

    uv run python benchmarks/verdicts.py [CELLS]

Half the cells change by 3 %, so that many are inconclusive and need an outlook. Ten trials per
system in eight metrics, as in a large comparison; independent, and interleaved. Least of nine.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.stats import ttest_ind

from leadline.analysis.verdicts import Pair, Sample, judge
from leadline.metrics import Metric

TRIALS, ROUNDS = 10, 9


def main() -> None:
    cells = int(sys.argv[1]) if len(sys.argv) > 1 else 1_200
    generator = np.random.default_rng(1)
    noisy = 100 * np.exp(0.08 * generator.normal(size=(cells, 2, TRIALS)))
    noisy[::2, 1] *= 0.97
    logs = np.log(noisy)

    def welch() -> None:
        for first, second in logs:
            ttest_ind(first, second, equal_var=False).confidence_interval(0.95)

    base = least(welch)
    print(f"{cells} cells, scipy's Welch one by one: {base:.2f} s")
    for name, paired in (("independent", False), ("interleaved", True)):
        pairs = [pair(row, paired, at) for at, row in enumerate(noisy.tolist())]
        took = least(partial(judge, pairs))
        print(f"judged, {name}: {took:.2f} s, {took / base:.2f} of that")


def pair(sides: list[list[float]], paired: bool, at: int) -> Pair:
    samples = [
        Sample(
            value=float(np.median(values)),
            trials=tuple(values),
            blocks=tuple(("x" if paired else name, block) for block in range(TRIALS)),
        )
        for name, values in zip("ab", sides, strict=True)
    ]
    metrics = list(Metric)
    return Pair(metric=metrics[at % len(metrics)], baseline=samples[0], candidate=samples[1])


def least(call: Callable[[], object]) -> float:
    """Processor time in seconds, the least of some rounds."""
    found = []
    for _ in range(ROUNDS):
        began = time.process_time()
        call()
        found.append(time.process_time() - began)
    return min(found)


if __name__ == "__main__":
    main()
