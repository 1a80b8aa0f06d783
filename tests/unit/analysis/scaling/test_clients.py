"""How many clients at a rate each, and what the slowest of them got."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from leadline.analysis.scaling.clients import (
    DensityAnswer,
    DensityStep,
    Fairness,
    densities,
    disturbances,
    fairness_of,
)
from leadline.analysis.scaling.limits import Standing
from leadline.analysis.verdicts import Verdict
from leadline.archive.records import Problem
from leadline.metrics import Metric, Op
from leadline.plan.models import Density, parse_latency_limit
from leadline.plan.workload import Pattern
from tests.unit.analysis.scaling.levels import OVERLOADED, Did, Level, simulate
from tests.unit.audit.audit_archives import Stored, build, cell

LIMIT = parse_latency_limit("p99<5ms")


def step(clients: int, *p99_ms: float, **more: Any) -> Level:
    """So many clients at 500 IOPS each; each trial's p99, the same for all of them."""
    trials = [
        [Did(500.0, 0.001, ms / 1000, client=f"c{number}") for number in range(clients)]
        for ms in p99_ms
    ]
    given: dict[str, Any] = {"trials": trials, "clients": clients, "rate_iops": 500, "iodepth": 64}
    return Level(**(given | more))


def search(level: Level, most: int = 64) -> Density:
    workload = level.cell.workload.model_copy(update={"clients": 1})
    return Density(target="pool", workload=workload, limit=LIMIT, most=most)


def answer(*levels: Level) -> DensityAnswer:
    made = simulate(*levels, follow_ups=[search(levels[0])])
    (found,) = densities(made.run, made.curves)
    return found


def step_of(found: DensityAnswer, clients: int) -> DensityStep:
    return next(step for step in found.steps if step.clients == clients)


def test_the_answer_lies_between_two_numbers_of_clients() -> None:
    found = answer(step(1, 1, 1), step(2, 2, 2), step(8, 9, 9), step(4, 3, 3), step(6, 4, 6))
    assert [one.clients for one in found.steps] == [1, 2, 4, 6, 8]
    assert (found.kept, found.broken, found.unsure) == (4, 8, (6,))
    assert (found.rate_iops, found.most, found.limit) == (500, 64, LIMIT)


def test_a_step_that_was_stopped_breaks_the_limit() -> None:
    found = answer(step(1, 1), step(2, 2), step(4, trials=[OVERLOADED]))
    assert (found.kept, found.broken) == (2, 4)
    assert step_of(found, 4).standing is Standing.BROKEN


def test_an_end_that_was_not_measured_is_none() -> None:
    assert answer(step(1, 1), step(2, 1)).broken is None
    assert answer(step(1, 9), step(2, 9)).kept is None


def test_a_larger_number_that_keeps_the_limit_again_is_reported() -> None:
    assert answer(step(1, 1), step(2, 9), step(4, 1)).again == (4,)


def test_a_step_without_a_latency_is_no_answer() -> None:
    died = Problem(code="engine-failed", fact="it died")
    found = answer(step(1, 1), step(2, 1), step(4, trials=[died]), step(8, 9))
    assert (found.kept, found.broken, found.unsure) == (2, 8, (4,))


def test_the_worse_of_reads_and_writes_decides() -> None:
    def mixed(clients: int, write_ms: float) -> Level:
        trial = [
            Did(500 * share, 0.001, ms / 1000, op=op, client=f"c{number}")
            for number in range(clients)
            for op, share, ms in ((Op.READ, 0.7, 1.0), (Op.WRITE, 0.3, write_ms))
        ]
        more: dict[str, Any] = {"pattern": Pattern.RANDRW, "read_share": 70}
        return step(clients, trials=[trial], **more)

    found = answer(mixed(1, 1.0), mixed(2, 9.0))
    assert (found.kept, found.broken) == (1, 2)
    assert found.ops == (Op.READ, Op.WRITE)
    assert [one.standing for one in step_of(found, 2).parts] == [Standing.KEPT, Standing.BROKEN]
    assert {one.op for one in step_of(found, 2).fairness} == {Op.READ, Op.WRITE}


def test_shares_of_a_peak_are_no_search_for_density() -> None:
    levels = [step(4, 1, rate_iops=rate, label=f"peak{rate}") for rate in (100.0, 200.0)]
    made = simulate(*levels)
    assert densities(made.run, made.curves, LIMIT) == ()


def test_levels_of_a_plan_are_answered_by_a_limit_that_is_given() -> None:
    made = simulate(step(1, 1), step(3, 9))
    assert densities(made.run, made.curves) == ()
    (found,) = densities(made.run, made.curves, LIMIT)
    assert (found.kept, found.broken, found.most) == (1, 3, None)


def fair(trials: Sequence[Sequence[Did]], clients: int, op: Op = Op.READ) -> Fairness | None:
    return fairness_of(simulate(Level(trials=trials, clients=clients)).run, 0, op)


def test_the_slowest_client_next_to_the_median() -> None:
    trials = [
        [
            Did(iops, 0.001, tail_ms / 1000, client=name)
            for name, iops, tail_ms in zip("abcd", rates, (2, 2, 2, 20), strict=True)
        ]
        for rates in ((100, 100, 100, 50), (100, 100, 100, 30), (100, 100, 100, 40))
    ]
    found = fair(trials, 4)
    assert found is not None
    assert found.slowest is not None
    assert (found.slowest.client, found.slowest.iops, found.slowest.trials) == ("d", 40, 3)
    assert found.iops_share == pytest.approx(0.4)
    assert found.iops_shares == pytest.approx((0.5, 0.3, 0.4))
    assert found.p99_ratio == pytest.approx(10)
    assert found.lost == 0


def test_a_client_s_percentile_is_of_all_its_i_os() -> None:
    """p99 of one trial 80 ms, of the other 90 ms; of all I/Os together 1 % are above 80."""
    trials = [
        [Did(100, 0.001, tail_s, client="a"), Did(100, 0.001, 0.002, client="b")]
        for tail_s in (0.080, 0.090)
    ]
    found = fair(trials, 2)
    assert found is not None
    assert {one.client: one.latency_p99_s for one in found.clients} == {"a": 0.08, "b": 0.002}


def test_lost_and_silent_clients_are_not_averaged_away() -> None:
    whole = [Did(100, client=name) for name in "abc"]
    lost = fair([whole, whole[:2]], 3)
    assert lost is not None
    assert lost.lost == 1
    neighbours = [*whole, Did(900, client="d", job="neighbour")]
    with_neighbours = fair([neighbours], 3)
    assert with_neighbours is not None
    assert [one.client for one in with_neighbours.clients] == ["a", "b", "c"]


def test_volumes_of_a_real_archive_are_clients(tmp_path: Path) -> None:
    run = build(tmp_path / "run", {"cell": (cell(), [Stored()])})
    (folder,) = run.trial_folders
    document = json.loads((folder / "fio.json").read_text())
    document["jobs"][0]["jobname"] = "p"
    for number, iops in enumerate((800.0, 200.0, 1000.0), start=1):
        document["jobs"][0]["read"]["iops"] = iops
        (folder / f"volume-{number}.fio.json").write_text(json.dumps(document))
    (folder / "fio.json").unlink()
    found = fairness_of(run, 0, Op.READ)
    assert found is not None
    assert [one.client for one in found.clients] == ["volume 2", "volume 1", "volume 3"]
    assert found.iops_share == 0.25
    assert found.p99_ratio == 1


def test_no_fairness_of_one_or_of_no_one() -> None:
    assert fair([[Did(100, client="a")]], 1) is None
    assert fair([[Did(100)]], 0) is None
    assert fair([Problem(code="engine-failed", fact="it died")], 4) is None  # type: ignore[list-item]
    assert fair([[Did(100, client=name) for name in "ab"]], 2, Op.WRITE) is None


def test_a_level_next_to_neighbours_against_itself_alone() -> None:
    made = simulate(
        *(
            Level(
                trials=[[Did(1000.0 / worse + trial, 0.001 * worse)] for trial in range(6)],
                clients=1,
                neighbours=neighbours,
            )
            for neighbours, worse in ((0, 1), (1, 1), (3, 3))
        )
    )
    (found,) = disturbances(made.curve, made.samples)
    assert found.alone.load.neighbours == 0
    assert [row.neighbours for row in found.rows] == [1, 3]
    one, three = ({effect.metric: effect.judgement for effect in row.effects} for row in found.rows)
    assert one[Metric.IOPS].verdict is Verdict.SAME
    assert three[Metric.LATENCY_P99].ratio == pytest.approx(3)
    assert three[Metric.LATENCY_P99].verdict is Verdict.WORSE


def test_neighbours_without_the_level_alone_have_nothing_to_be_held_to() -> None:
    made = simulate(Level(trials=[[Did(1.0)]], clients=1, neighbours=2))
    assert disturbances(made.curve, made.samples) == ()
