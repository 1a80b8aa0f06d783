"""Which targets of two labels are partners, within a run and across runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from archive_builder import make_run, small_plan

from leadline.analysis.comparison import By, by_label, undecided_pairs, values_of, within_run
from leadline.archive.reader import Run
from leadline.errors import LeadlineError


def nothing(run: Run) -> tuple[tuple[()], tuple[()]]:
    return (), ()


def run(folder: Path, *labels: dict[str, str], names: tuple[str, ...] = (), name: str = "r") -> Run:
    called = names or tuple(f"t{number}" for number in range(len(labels)))
    plan = small_plan(called, repeats=1)
    targets = tuple(
        target.model_copy(update={"labels": given})
        for target, given in zip(plan.targets, labels, strict=True)
    )
    return make_run(folder, plan.model_copy(update={"targets": targets}), run_id=name)


def test_the_lower_number_is_the_baseline_and_the_rest_is_held_fixed(tmp_path: Path) -> None:
    made = run(
        tmp_path,
        {"cores": "10", "replicas": "1"},
        {"cores": "2", "replicas": "1"},
        {"cores": "2", "replicas": "3"},
    )
    ours, theirs = by_label(made, made, "cores", nothing)
    assert (ours.name, theirs.name) == ("cores=2", "cores=10")
    assert dict(ours.targets) == {"replicas=1": "t1", "replicas=3": "t2"}
    assert dict(theirs.targets) == {"replicas=1": "t0"}


def test_other_labels_must_agree_unless_they_are_named(tmp_path: Path) -> None:
    made = run(tmp_path, {"cores": "1", "replicas": "1"}, {"cores": "2", "replicas": "3"})
    with pytest.raises(LeadlineError) as caught:
        within_run(made, By.LABEL, "cores=1", "cores=2", nothing)
    assert caught.value.kind.code == "not-comparable"
    assert "t0: cores=1, replicas=1" in str(caught.value)
    ours, theirs = within_run(made, By.LABEL, "cores=1", "cores=2,replicas=3", nothing)
    assert list(ours.targets.values()) == ["t0"]
    assert list(theirs.targets.values()) == ["t1"]
    assert ours.targets.keys() == theirs.targets.keys()


def test_growth_may_add_several_things_at_once(tmp_path: Path) -> None:
    made = run(tmp_path, {"cores": "1", "drives": "2"}, {"cores": "2", "drives": "4"})
    ours, theirs = within_run(made, By.LABEL, "cores=1", "cores=2", nothing, others_fixed=False)
    assert (*ours.targets.values(), *theirs.targets.values()) == ("t0", "t1")


def test_what_a_target_does_not_tell_may_be_either(tmp_path: Path) -> None:
    made = run(
        tmp_path,
        {"replicas": "1", "cores": "1", "system": "m"},
        {"replicas": "1", "cores": "2", "system": "m"},
        {"replicas": "3", "system": "m"},
        {"replicas": "3", "system": "other"},
    )
    assert undecided_pairs(made, "replicas=1", "replicas=3") == []
    made = run(
        tmp_path,
        {"replicas": "1", "cores": "1", "system": "m"},
        {"replicas": "1", "cores": "2", "system": "m"},
        {"replicas": "3", "system": "m"},
        name="other",
    )
    assert undecided_pairs(made, "replicas=1", "replicas=3") == [
        ("replicas=1,cores=1", "replicas=3"),
        ("replicas=1,cores=2", "replicas=3"),
    ]


def test_a_label_with_one_value_or_three_makes_no_pair(tmp_path: Path) -> None:
    one = run(tmp_path, {"cores": "1"}, {}, name="one")
    with pytest.raises(LeadlineError, match="has 1 values of the label 'cores'"):
        by_label(one, one, "cores", nothing)
    three = run(tmp_path, {"cores": "8"}, {"cores": "x"}, {"cores": "16"}, name="three")
    assert values_of(three, "cores") == ("8", "16", "x")
    with pytest.raises(LeadlineError, match="has 3 values") as caught:
        by_label(three, three, "cores", nothing)
    assert "leadline compare cores=8 cores=x --by label --run three" in str(caught.value)
    with pytest.raises(
        LeadlineError, match="no target of run three has the label 'core'"
    ) as caught:
        values_of(three, "core")
    assert "did you mean 'cores'" in str(caught.value)


def test_two_runs_are_told_apart_by_their_label(tmp_path: Path) -> None:
    first = run(tmp_path, {"cores": "2"}, {"cores": "2"}, names=("a", "b"), name="first")
    second = run(tmp_path, {"cores": "1"}, {"cores": "1"}, names=("b", "c"), name="second")
    ours, theirs = by_label(first, second, "cores", nothing)
    assert (ours.name, theirs.name) == ("cores=2", "cores=1"), "the first run is the baseline"
    assert dict(ours.targets) == {"a": "a", "b": "b"}
    assert dict(theirs.targets) == {"b": "b", "c": "c"}
    with pytest.raises(LeadlineError, match="the label 'cores' does not separate the two runs"):
        by_label(first, first.__class__(_copy(tmp_path, first)), "cores", nothing)


def test_targets_of_other_names_are_partners_by_their_other_labels(tmp_path: Path) -> None:
    first = run(tmp_path, {"cores": "1", "pool": "x"}, names=("old",), name="first")
    second = run(
        tmp_path,
        {"cores": "2", "pool": "y"},
        {"cores": "2", "pool": "x"},
        names=("n", "m"),
        name="s",
    )
    ours, theirs = by_label(first, second, "cores", nothing)
    assert dict(ours.targets) == {"pool=x": "old"}
    assert dict(theirs.targets) == {"pool=y": "n", "pool=x": "m"}


def _copy(folder: Path, made: Run) -> Path:
    import shutil

    copied = folder / "copied"
    shutil.copytree(made.path, copied)
    return copied
