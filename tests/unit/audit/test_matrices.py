"""Equal rates by chance: a large matrix always has some, and they are no limit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from leadline.audit.evidence import CellEvidence, Place, RunEvidence, TrialEvidence
from leadline.audit.registry import RULES
from leadline.metrics import Op
from tests.unit.audit.audit_archives import cell
from tests.unit.audit.published import done, job, output

BLOCKS = (4, 16, 64, 256, 1024)
DEPTHS = (1, 4, 16, 64)
NOISE = 0.03


def device(random: np.random.Generator, *, most_iops: float = np.inf) -> RunEvidence:
    """Reads and writes of a device: time for each I/O and for its bytes, slots that work at once,
    and a bandwidth, all of them drawn for each direction."""
    cells = []
    # 50 us with less than 300 MB/s, or the reverse, is no device but a limit.
    medium_s = 10 ** random.uniform(-3.8, -2)
    for pattern, op in (("randread", Op.READ), ("randwrite", Op.WRITE)):
        base_s = medium_s * 10 ** random.uniform(-0.5, 0.5)
        stream_bps, most_bps = 10 ** random.uniform(8, 9.5), 10 ** random.uniform(8.5, 9.7)
        slots = 2 ** random.integers(3, 8)
        for block in BLOCKS:
            size = block << 10
            for depth in DEPTHS:
                rate = min(depth, slots) / (base_s + size / stream_bps)
                iops = min(rate, most_bps / size) * (1 + NOISE * random.standard_normal())
                iops = min(iops, most_iops * (1 + 0.002 * random.standard_normal()))
                part = replace(done(op, iops=iops, mean_s=depth / iops), bandwidth_bps=iops * size)
                made = job(
                    part, rw=pattern, bs=f"{block}k", iodepth=str(depth), ioengine="libaio",
                    direct="1",
                )  # fmt: skip
                place = Place(target="t", workload=f"{pattern}-{block}k-{depth}")
                trial = TrialEvidence(place=place, output=output(made), windows={})
                cells.append(CellEvidence(place=place, cell=cell(), trials=(trial,)))
    return RunEvidence(place=Place(), cells=tuple(cells))


def hits(code: str, runs: list[RunEvidence]) -> int:
    rule = next(rule for rule in RULES if rule.code == code)
    return sum(bool(rule.findings(run)) for run in runs)


@pytest.mark.parametrize("matrices", [60, pytest.param(300, marks=pytest.mark.thorough)])
def test_matrices_of_devices_have_no_limit(matrices: int) -> None:
    random = np.random.default_rng(20)
    runs = [device(random) for _ in range(matrices)]
    for code in ("capped-by-limit", "flat-ceiling", "host-cache"):
        assert hits(code, runs) <= matrices // 100, code


def test_a_limit_of_each_matrix_is_found() -> None:
    """Below the least rate of the devices, so that every cell with a small block meets it."""
    random = np.random.default_rng(21)
    runs = [device(random, most_iops=50.0) for _ in range(10)]
    for code in ("capped-by-limit", "flat-ceiling"):
        assert hits(code, runs) == len(runs), code
