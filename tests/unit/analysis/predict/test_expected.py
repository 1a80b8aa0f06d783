"""The rate to expect before measuring: inside on the recorded labs, outside where it is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from compared_cells import replicated
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.explain.systems import Network
from leadline.analysis.figures import figures
from leadline.analysis.predict.expected import Direction, ExpectedRate, expect, expected_rates
from leadline.analysis.predict.facts import UNEXPECTED
from leadline.analysis.predict.system import System, bound_of, system_of
from leadline.archive.reader import Run
from leadline.findings import Severity
from leadline.metrics import Op
from leadline.model.bounds import Medium, Station
from leadline.report.pages.predict.words import unexpected_findings
from tests.conftest import unpack

RECORDED = Path(__file__).parents[3] / "recorded"
ZONES = System(
    pool=replicated(pgs=256),
    network=Network.uniform(1e-3),
    hosts=3,
    osds=24,
    osd_cores=2.0,
    medium=Medium.FLASH,
)


@pytest.fixture(scope="module")
def rates(tmp_path_factory: pytest.TempPathFactory) -> Sequence[ExpectedRate]:
    folder = tmp_path_factory.mktemp("predict-lab")
    unpack(RECORDED / "predict-lab" / "run.tar.xz", folder)
    (path,) = folder.iterdir()
    run = Run(path)
    known = cache(lambda target: system_of(run, target))
    # The audit would refuse cells for the trials that were left out of the recording.
    return expected_rates(run, figures(run, ()), known)


def times(rates: Sequence[ExpectedRate], factor: float) -> list[ExpectedRate]:
    """The rates as they would be, so many times as fast."""
    return [replace(rate, iops=rate.iops * factor) for rate in rates]


def test_no_rate_of_the_labs_is_unexpected(rates: Sequence[ExpectedRate]) -> None:
    assert len(rates) == 96
    assert {rate.direction for rate in rates} == {None}
    assert unexpected_findings(rates) == ()


@pytest.mark.parametrize(
    ("factor", "least", "direction"),
    [(0.05, 90, Direction.BELOW), (0.1, 80, Direction.BELOW), (10.0, 80, Direction.ABOVE)],
)
def test_another_order_of_magnitude_is_unexpected(
    rates: Sequence[ExpectedRate], factor: float, least: int, direction: Direction
) -> None:
    changed = times(rates, factor)
    assert sum(rate.direction is direction for rate in changed) >= least
    assert all(rate.direction in (None, direction) for rate in changed)


def test_a_finding_names_the_numbers_and_the_station(rates: Sequence[ExpectedRate]) -> None:
    rate = next(one for one in rates if (one.target, one.level) == ("rep3@two-ms", "qd1"))
    (slow,) = unexpected_findings(times([rate], 0.05))
    assert (slow.code, slow.severity) == (UNEXPECTED, Severity.INFO)
    assert (slow.target, slow.workload, slow.level, slow.op) == (
        "rep3@two-ms",
        "random-rw-4k",
        "qd1",
        rate.op,
    )
    assert slow.evidence["iops"] < slow.evidence["expected_low_iops"]
    assert "below" in slow.message
    (fast,) = unexpected_findings(times([rate], 50))
    assert "above" in fast.message
    # Nothing but zones that are closer together, or a cache, is so fast at depth 1.
    assert "network delay" in fast.message


def test_a_read_at_depth_1_waits_for_the_round_trip() -> None:
    found = expect(ZONES, Op.READ, 4096, 1)
    assert found is not None
    assert found.station_high is Station.NETWORK
    # 0.61 ms by a lucky placement of 256 placement groups: docs/rules/unexpected-performance.md.
    assert found.high == pytest.approx(2300, rel=0.05)


def test_unknown_cores_network_and_media_widen_the_interval() -> None:
    whole = expect(ZONES, Op.WRITE, 4096, 32)
    assert whole is not None
    for unknown in ({"osd_cores": None}, {"network": None}, {"medium": None}):
        wider = expect(replace(ZONES, **unknown), Op.WRITE, 4096, 32)  # type: ignore[arg-type]
        assert wider is not None
        assert wider.low <= whole.low
        assert wider.high >= whole.high
        assert wider.high / wider.low > whole.high / whole.low


def test_without_a_pool_nothing_is_expected() -> None:
    assert expect(replace(ZONES, pool=None), Op.READ, 4096, 1) is None
    assert expect(replace(ZONES, osds=None), Op.READ, 4096, 1) is None


@given(
    op=st.sampled_from([Op.READ, Op.WRITE]),
    size=st.sampled_from([4096.0, 65536.0, 4194304.0]),
    in_flight=st.integers(1, 4096),
    osds=st.integers(3, 300),
    rtt_s=st.floats(0, 0.01),
)
def test_an_interval_is_in_order_and_grows_with_the_load(
    op: Op, size: float, in_flight: int, osds: int, rtt_s: float
) -> None:
    system = replace(ZONES, osds=osds, network=Network.uniform(rtt_s))
    one, more = (expect(system, op, size, load) for load in (in_flight, 2 * in_flight))
    assert one is not None
    assert more is not None
    assert 0 < one.low < one.high
    assert one.low <= more.low
    assert one.high <= more.high
    # Half of the low end is slack: what is expected is possible.
    most = bound_of(system, op, size).most_iops(in_flight)
    assert most is not None
    assert one.low <= most
