"""`stop:` of a plan and --until-decided: what is compared, rounds, and faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.errors import LeadlineError
from leadline.plan.follow_ups import add_round
from leadline.plan.loader import Overrides, load_plan
from leadline.plan.models import Plan
from leadline.plan.stop import Stop
from leadline.plan.stop_rules import compared_pairs, most_seconds

DIRECTORIES = "targets: [{name: a, target: 'dir:/a'}, {name: b, target: 'dir:/b'}]\n"
ONE = "targets: [{name: a, target: 'dir:/a'}]\n"
CLUSTERS = (
    "clusters: {near: {lab: near}, far: {lab: far}}\n"
    "targets: [{name: rep3, target: 'rbd:rep3'}, {name: rep2, target: 'rbd:rep2'}]\n"
)
APART = (
    "clusters: {near: {lab: near}, far: {lab: far}}\n"
    "targets: [{name: x, target: 'rbd:rep3', clusters: near}, "
    "{name: y, target: 'rbd:rep3', clusters: far}]\nstop: {}"
)
WORKLOADS = (
    "workloads: [{name: r, pattern: randread, runtime: 2s}, {name: w, pattern: write, runtime: 3s}]"
)


def loaded(folder: Path, text: str, **overrides: object) -> Plan:
    path = folder / "plan.yaml"
    path.write_text(f"{text}\n{WORKLOADS}\n")
    return load_plan(path, Overrides(**overrides))  # type: ignore[arg-type]


def faults(folder: Path, text: str, **overrides: object) -> str:
    with pytest.raises(LeadlineError) as caught:
        loaded(folder, text, **overrides)
    return "\n".join(caught.value.context)


@pytest.mark.parametrize("written", ["stop: true", "stop:", "stop: {}"])
def test_everything_has_a_default(tmp_path: Path, written: str) -> None:
    plan = loaded(tmp_path, f"{DIRECTORIES}{written}")
    assert plan.stop == Stop(
        compare="target", baseline="a", within=0.05, first=3, max_repeats=12, futility=0.2
    )
    assert compared_pairs(plan) == (("a", "b"),)
    assert len(plan.trials) == 3 * 4


def test_a_plan_has_no_rule_of_its_own(tmp_path: Path) -> None:
    for written in ("", "stop: false"):
        plan = loaded(tmp_path, f"{DIRECTORIES}{written}")
        assert plan.stop is None
        assert compared_pairs(plan) == ()
        assert "stop" not in plan.model_dump()
    assert loaded(tmp_path, DIRECTORIES, until_decided=True).stop is not None


def test_the_option_keeps_the_rule_of_the_plan(tmp_path: Path) -> None:
    plan = loaded(tmp_path, f"{DIRECTORIES}stop: {{baseline: b}}", until_decided=True, repeats=2)
    assert plan.stop is not None
    assert (plan.stop.baseline, plan.stop.first) == ("b", 2)
    assert compared_pairs(plan) == (("b", "a"),)


def test_clusters_are_compared_where_there_are_several(tmp_path: Path) -> None:
    plan = loaded(tmp_path, f"{CLUSTERS}stop: {{within: 10%, max_time: 1h}}")
    assert plan.stop is not None
    assert (plan.stop.compare, plan.stop.within, plan.stop.max_time_s) == ("cluster", 0.1, 3600)
    assert compared_pairs(plan) == (("near", "far"),)
    plan = loaded(tmp_path, f"{CLUSTERS}stop: {{compare: target, baseline: rep2@far}}")
    assert len(compared_pairs(plan)) == 3


def test_a_round_holds_the_open_cells_once(tmp_path: Path) -> None:
    plan = loaded(tmp_path, f"{DIRECTORIES}stop: {{}}\nrepeats: 2\nseed: 1")
    more = add_round(plan, (1, 3))
    assert more.trials[:8] == plan.trials
    added = more.trials[8:]
    assert sorted(trial.cell for trial in added) == [1, 3]
    assert {trial.block for trial in added} == {2}
    assert [trial.id for trial in added] == ["t0009", "t0010"]
    assert more.repeats == 3
    assert add_round(plan, (1, 3)) == more
    Plan.model_validate(more.model_dump(by_alias=True))


def test_the_most_that_rounds_may_take(tmp_path: Path) -> None:
    plan = loaded(tmp_path, f"{DIRECTORIES}stop: {{max_repeats: 5}}\nrepeats: 2")
    assert most_seconds(plan, 2) == 3 * 2 * (2 + 3)
    assert most_seconds(plan, 4, (0,)) == 2
    assert most_seconds(plan, 5) == 0


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"{ONE}stop: {{}}", "nothing to compare: the plan has one target"),
        (f"{DIRECTORIES}stop: {{compare: cluster}}", "nothing to compare: the plan has no cluster"),
        (f"{DIRECTORIES}stop: {{}}\nrepeats: 1", "`repeats` is 2 or more"),
        (f"{DIRECTORIES}stop: {{max_repeats: 2}}", "2 is less than the 3 repeats before the first"),
        (f"{DIRECTORIES}stop: {{max_repeats: 1}}", "stop.max_repeats"),
        (f"{DIRECTORIES}stop: {{max_repeats: 101}}", "stop.max_repeats"),
        (f"{DIRECTORIES}stop: {{within: 0%}}", "'0%' is not between 0 and 100 %"),
        (f"{DIRECTORIES}stop: {{futility: 100%}}", "'100%' is not from 0 to less than 100 %"),
        (f"{DIRECTORIES}stop: {{max_time: 0s}}", "must be more than zero"),
        (f"{DIRECTORIES}stop: {{baseline: c}}", "the plan has no target 'c' (a, b)"),
        (f"{DIRECTORIES}stop: {{compares: target}}", "compare"),
        (f"{DIRECTORIES}stop: {{}}\ndetect: 10%", "a plan with detect has fixed repeats"),
        (f"{DIRECTORIES}stop: {{}}\nbudget: {{volumes: 1}}", "a plan with budget has fixed"),
        (
            APART,
            "'far' has no target in common with 'near'",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    assert fault in faults(tmp_path, text)


def test_follow_ups_have_fixed_repeats(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(
        f"{DIRECTORIES}stop: {{}}\nworkloads: [{{name: r, pattern: randread, open_loop: [50%]}}]\n"
    )
    with pytest.raises(LeadlineError) as caught:
        load_plan(path, Overrides())
    assert "a plan with open_loop or density has fixed repeats" in "\n".join(caught.value.context)
