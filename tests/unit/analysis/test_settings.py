"""Settings studies whose truth is known: gains, drift, costs, refusals and interactions."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.analysis.settings.facts import Gain, Objection
from leadline.analysis.settings.study import study_settings, tried_states
from leadline.analysis.verdicts import Verdict
from leadline.archive.records import Problem
from leadline.errors import LeadlineError
from leadline.metrics import Metric
from leadline.plan.models import Plan, Target
from tests.unit.analysis.settings_runs import SETTINGS, no_effect, plan_of, study_of

CHANGED = (Verdict.BETTER, Verdict.WORSE)
BEST = "mclock=high_client_ops"


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return plan_of(tmp_path_factory.mktemp("plan"))


def faster(
    share: float = 0.2, *, cost: float = 1.0, memory: float = 1.0, p99: float = 1.0
) -> object:
    """An effect of the value `high_client_ops` alone."""
    factors = {
        Metric.IOPS: 1 + share,
        Metric.LATENCY_P99: p99,
        Metric.STORAGE_CPU: cost,
        Metric.STORAGE_MEMORY: memory,
    }

    def effect(target: Target, workload: str, metric: Metric) -> float:
        return factors[metric] if target.settings.get("mclock") == "high_client_ops" else 1.0

    return effect


def test_states_of_a_plan_with_their_targets(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, pools=("rep3", "rep2"))
    states = tried_states(plan)
    assert [state.name for state in states] == [
        "mclock=balanced", BEST, "memory=2G", "memory=8G",
    ]  # fmt: skip
    assert states[1].targets == {"rep3": f"rep3 {BEST}", "rep2": f"rep2 {BEST}"}


def test_a_run_without_settings_is_refused(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, settings={})
    with pytest.raises(LeadlineError) as raised:
        study_of(plan)
    assert raised.value.kind.code == "not-comparable"
    assert "tried no settings" in raised.value.fact


@pytest.mark.thorough
@pytest.mark.parametrize("drift", [pytest.param(0.0, marks=pytest.mark.thorough), 0.3])
def test_states_without_an_effect_have_no_verdict_of_a_change(plan: Plan, drift: float) -> None:
    """Of 60 runs with four states each, hardly any has a change anywhere: what blocks share, up to
    half of the rate, cancels."""
    changed = recommended = 0
    for seed in range(60):
        study = study_of(plan, seed=seed, drift=drift)
        verdicts = [change.verdict for one in study.effects for change in one.overall.values()]
        verdicts += [cell.verdict for one in study.effects for cell in one.cells]
        changed += any(verdict in CHANGED for verdict in verdicts)
        recommended += study.recommended is not None
    assert changed <= 3
    assert recommended <= 3


@pytest.mark.thorough
def test_cells_that_share_what_happened_in_their_part_of_a_block(plan: Plan) -> None:
    """The mean of four cells is no better known than one cell where all noise is shared."""
    covered = changed = 0
    for seed in range(60):
        study = study_of(plan, seed=seed, noise=0.005, shared=0.05)
        for effect in study.effects:
            assert effect.rate is not None
            low, high = effect.rate.judgement.interval_alone or effect.rate.interval
            covered += low <= 1 <= high
            changed += effect.rate.verdict in CHANGED
    assert covered >= 0.9 * 60 * 4
    assert changed <= 0.05 * 60 * 4


def test_a_state_of_a_fifth_more_is_found_and_recommended(plan: Plan) -> None:
    found = 0
    for seed in range(20):
        study = study_of(plan, faster(), seed=seed)
        best = study.effects[1]
        assert best.rate is not None
        assert best.rate.cells == 4
        low, high = best.rate.interval
        found += (
            best.rate.verdict is Verdict.BETTER
            and low < 1.2 < high
            and study.recommended is not None
            and dict(study.recommended.settings) == {"mclock": "high_client_ops"}
        )
    assert found >= 18


def test_a_gain_that_costs_more_than_it_buys_is_not_recommended(plan: Plan) -> None:
    study = study_of(plan, faster(0.2, cost=1.5))
    best = study.effects[1]
    assert best.gains == (Gain.RATE,)
    assert best.objections == (Objection.COST_ABOVE_GAIN,)
    assert best.costs_above_gain == (Metric.STORAGE_CPU,)
    assert best.front, "it has the highest rate"
    assert study.recommended is None


def test_a_gain_with_a_smaller_cost_is_recommended(plan: Plan) -> None:
    study = study_of(plan, faster(0.3, cost=1.1))
    assert study.effects[1].costs[Metric.STORAGE_CPU].verdict is Verdict.WORSE
    assert study.effects[1].recommended


def test_memory_counts_as_a_cost(plan: Plan) -> None:
    best = study_of(plan, faster(0.2, memory=2.0)).effects[1]
    assert best.costs_above_gain == (Metric.STORAGE_MEMORY,)


def test_a_longer_tail_is_an_objection(plan: Plan) -> None:
    best = study_of(plan, faster(0.2, p99=1.6)).effects[1]
    assert Objection.LATENCY_WORSE in best.objections


def test_a_saving_and_a_lower_latency_at_the_same_rate_are_gains(plan: Plan) -> None:
    best = study_of(plan, faster(0.0, cost=0.7, p99=0.7), noise=0.01).effects[1]
    assert best.gains == (Gain.LATENCY, Gain.SAVING)
    assert best.recommended


def test_a_state_that_helps_some_cells_and_hurts_others(plan: Plan) -> None:
    def effect(target: Target, workload: str, metric: Metric) -> float:
        if metric is not Metric.IOPS or target.settings.get("mclock") != "high_client_ops":
            return 1.0
        return 1.4 if workload == "read-4k" else 0.7

    best = study_of(plan, effect).effects[1]
    assert best.gains == (Gain.RATE,)
    assert Objection.RATE_WORSE in best.objections
    assert [cell.verdict for cell in best.rates] == [Verdict.BETTER, *[Verdict.WORSE] * 3]


def test_costs_without_a_source_are_named(plan: Plan) -> None:
    study = study_of(plan, faster(), costs=False)
    assert Metric.STORAGE_CPU in study.missing_costs
    assert Metric.STORAGE_MEMORY in study.missing_costs
    assert study.front_costs == ()
    assert study.effects[1].costs == {}
    assert study.effects[1].recommended, "the gain is established"


def test_the_front_is_of_established_changes_of_the_rate_and_the_costs(plan: Plan) -> None:
    factors = {
        "high_client_ops": {Metric.IOPS: 1.3, Metric.STORAGE_CPU: 1.2},
        "2G": {Metric.IOPS: 0.8, Metric.STORAGE_MEMORY: 0.5},
        "8G": {Metric.IOPS: 1.2, Metric.STORAGE_CPU: 1.2, Metric.STORAGE_MEMORY: 1.8},
    }

    def effect(target: Target, workload: str, metric: Metric) -> float:
        value = next(iter(target.settings.values()), "")
        return factors.get(value, {}).get(metric, 1.0)

    study = study_of(plan, effect)
    assert study.front_costs == (Metric.STORAGE_CPU, Metric.STORAGE_MEMORY)
    assert {one.state.name: one.front for one in study.effects} == {
        "mclock=balanced": False,  # as the present state
        "mclock=high_client_ops": True,
        "memory=2G": True,  # the least memory
        "memory=8G": False,  # less rate for more memory than the second
    }


def test_two_gains_that_were_measured_alone(plan: Plan) -> None:
    def effect(target: Target, workload: str, metric: Metric) -> float:
        if metric is not Metric.IOPS:
            return 1.0
        factors = {"high_client_ops": 1.2, "8G": 1.3}
        return factors.get(next(iter(target.settings.values()), ""), 1.0)

    chosen = study_of(plan, effect).recommended
    assert chosen is not None
    assert dict(chosen.settings) == {"mclock": "high_client_ops", "memory": "8G"}
    assert not chosen.measured


def test_a_setting_that_did_not_take_effect(plan: Plan) -> None:
    problem = Problem(code="setting-not-applied", fact="osd.0 still has mclock_profile balanced")
    study = study_of(plan, failed=[f"rep3 {BEST}"], problem=problem)
    best = study.effects[1]
    assert best.rate is None
    assert best.objections == (Objection.INCOMPLETE,)
    assert [one.problem for one in best.refused] == [problem] * 4
    assert not best.front


def test_untrusted_figures_are_refused(plan: Plan) -> None:
    study = study_of(plan, faster(), refused=[f"rep3 {BEST}"])
    best = study.effects[1]
    assert best.rate is None
    assert not best.gains
    assert {one.cell.judgement.reasons[0] for one in best.refused} == {"cache-served-reads"}
    assert all(not change for change in best.costs.values()), "its costs are not trusted either"


def test_one_or_two_cells_have_a_mean_change_too(tmp_path: Path) -> None:
    for workloads in (1, 2):
        study = study_of(plan_of(tmp_path, workloads=workloads), faster())
        rate = study.effects[1].rate
        assert rate is not None
        assert rate.cells == workloads
        assert rate.verdict is Verdict.BETTER
        assert rate.interval[0] < 1.2 < rate.interval[1]


def test_the_order_of_the_states_decides_nothing(tmp_path: Path) -> None:
    turned = dict(reversed(SETTINGS.items()))
    first = study_of(plan_of(tmp_path), no_effect, noise=0.0, drift=0.1)
    second = study_of(plan_of(tmp_path, settings=turned), no_effect, noise=0.0, drift=0.1)
    changes = [
        {
            one.state.name: (change.verdict, pytest.approx(change.ratio))
            for one in study.effects
            for change in one.overall.values()
        }
        for study in (first, second)
    ]
    assert len(changes[0]) == 4
    assert changes[0] == changes[1]


# --- combinations -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return plan_of(tmp_path_factory.mktemp("full"), design="full")


def together(both: float) -> object:
    """Each second value alone gives a tenth more; both together that product times `both`."""

    def effect(target: Target, workload: str, metric: Metric) -> float:
        if metric is not Metric.IOPS:
            return 1.0
        second = [value in ("high_client_ops", "8G") for value in target.settings.values()]
        return 1.1 ** sum(second) * (both if all(second) and second else 1.0)

    return effect


def test_settings_that_add_up_have_no_interaction(full: Plan) -> None:
    changed = 0
    for seed in range(20):
        (found,) = study_of(full, together(1.0), seed=seed).interactions
        changed += found.change.verdict in CHANGED
        changed += any(cell.judgement.verdict in CHANGED for cell in found.cells)
    assert changed <= 1


def test_settings_that_need_each_other_have_an_interaction(full: Plan) -> None:
    study = study_of(full, together(1.3))
    (found,) = study.interactions
    assert (found.first, found.second) == (("mclock", "high_client_ops"), ("memory", "8G"))
    assert found.references == ("balanced", "2G")
    assert found.change.verdict is Verdict.BETTER
    low, high = found.change.interval
    assert low < 1.3 < high
    assert study.recommended is not None
    assert dict(study.recommended.settings) == {"mclock": "high_client_ops", "memory": "8G"}
    assert study.recommended.measured


def test_one_at_a_time_has_no_interactions(plan: Plan) -> None:
    assert study_of(plan, faster()).interactions == ()


def test_a_margin_that_is_none(plan: Plan) -> None:
    study = study_of(plan)
    with pytest.raises(ValueError, match="between 0 and 1"):
        study_settings(study.run, study.figures, (), band=0.0)
