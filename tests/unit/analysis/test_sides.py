from pathlib import Path

import pytest
from archive_builder import make_run, small_plan

from leadline.analysis.comparison import By, places, two_runs, within_run
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.plan.models import Plan


def nothing(run: Run) -> tuple[tuple[()], tuple[()]]:
    return (), ()


def labelled(*labels: dict[str, str]) -> Plan:
    plan = small_plan([f"t{number}" for number in range(len(labels))], repeats=1)
    targets = tuple(
        target.model_copy(update={"labels": given})
        for target, given in zip(plan.targets, labels, strict=True)
    )
    return plan.model_copy(update={"targets": targets})


def placed(*names: tuple[str, str]) -> Plan:
    """Targets as a plan of several clusters has them, by subject and place."""
    plan = small_plan([f"{subject}@{place}" for subject, place in names], repeats=1)
    targets = tuple(
        target.model_copy(update={"subject": subject, "place": place})
        for target, (subject, place) in zip(plan.targets, names, strict=True)
    )
    return plan.model_copy(update={"targets": targets})


def test_two_runs_are_matched_by_name(tmp_path: Path) -> None:
    first = make_run(tmp_path, small_plan(["a", "b"], repeats=1), run_id="first")
    second = make_run(tmp_path, small_plan(["b", "c"], repeats=1), run_id="second")
    ours, theirs = two_runs(first, second, nothing)
    assert (ours.name, theirs.name) == ("first", "second")
    assert dict(ours.targets) == {"a": "a", "b": "b"}
    assert dict(theirs.targets) == {"b": "b", "c": "c"}


def test_one_target_each_are_partners_whatever_they_are_called(tmp_path: Path) -> None:
    first = make_run(tmp_path, small_plan(["old"], repeats=1), run_id="first")
    second = make_run(tmp_path, small_plan(["new"], repeats=1), run_id="second")
    ours, theirs = two_runs(first, second, nothing)
    assert dict(ours.targets) == {"new vs old": "old"}
    assert dict(theirs.targets) == {"new vs old": "new"}


def test_a_run_on_one_place_matches_by_subject(tmp_path: Path) -> None:
    first = make_run(tmp_path, placed(("rep3", "single"), ("rep2", "single")), run_id="first")
    second = make_run(tmp_path, small_plan(["rep3", "rep2"], repeats=1), run_id="second")
    ours, theirs = two_runs(first, second, nothing)
    assert dict(ours.targets) == {"rep3": "rep3@single", "rep2": "rep2@single"}
    assert list(theirs.targets) == ["rep3", "rep2"]


def test_clusters_of_a_run(tmp_path: Path) -> None:
    names = [("rep3", "single"), ("rep2", "single"), ("rep3", "multi,1ms")]
    run = make_run(tmp_path, placed(*names))
    assert places(run) == ("single", "multi,1ms")
    ours, theirs = within_run(run, By.CLUSTER, "single", "multi,1ms", nothing)
    assert dict(ours.targets) == {"rep3": "rep3@single", "rep2": "rep2@single"}
    assert dict(theirs.targets) == {"rep3": "rep3@multi,1ms"}
    with pytest.raises(LeadlineError, match="no cluster 'singel'"):
        within_run(run, By.CLUSTER, "singel", "multi,1ms", nothing)


def test_targets_and_groups_of_them(tmp_path: Path) -> None:
    run = make_run(tmp_path, small_plan(["a", "b", "c", "d,e"], repeats=1))
    ours, theirs = within_run(run, By.TARGET, "a, b", "c,a", nothing)
    assert list(ours.targets.values()) == ["a", "b"]
    assert list(theirs.targets.values()) == ["c", "a"]
    ours, theirs = within_run(run, By.TARGET, "a", "d,e", nothing)
    assert dict(theirs.targets) == {"d,e vs a": "d,e"}
    with pytest.raises(LeadlineError, match="2 targets cannot be compared with 1"):
        within_run(run, By.TARGET, "a,b", "c", nothing)


def test_labels_match_by_the_other_labels(tmp_path: Path) -> None:
    plan = labelled(
        {"cores": "1", "pool": "x"},
        {"cores": "2", "pool": "y"},
        {"cores": "2", "pool": "x"},
        {"cores": "1", "pool": "y"},
    )
    ours, theirs = within_run(make_run(tmp_path, plan), By.LABEL, "cores=1", "cores=2", nothing)
    assert dict(ours.targets) == {"pool=x": "t0", "pool=y": "t3"}
    assert dict(theirs.targets) == {"pool=y": "t1", "pool=x": "t2"}


def test_labels_that_do_not_tell_partners(tmp_path: Path) -> None:
    run = make_run(tmp_path, labelled({"cores": "1"}, {"cores": "1"}, {"cores": "2"}))
    with pytest.raises(LeadlineError, match="partner of target"):
        within_run(run, By.LABEL, "cores=1", "cores=2", nothing)
    with pytest.raises(LeadlineError, match="no label 'cores=3'"):
        within_run(run, By.LABEL, "cores=1", "cores=3", nothing)


def test_partners_are_called_as_short_as_their_places_allow(tmp_path: Path) -> None:
    plan = placed(("rep3", "near"), ("rep2", "near"), ("rep3", "far"), ("ec", "far"))
    run = make_run(tmp_path, plan)

    def called(baseline: str, candidate: str) -> list[str]:
        return list(within_run(run, By.TARGET, baseline, candidate, nothing)[0].targets)

    assert called("rep3@near", "rep2@near") == ["rep2 vs rep3"]
    assert called("rep3@near", "rep3@far") == ["rep3"]
    assert called("rep3@near", "ec@far") == ["ec@far vs rep3@near"]
    assert called("rep3@near,rep3@far", "rep3@far,rep3@near") == [
        "rep3@far vs rep3@near",
        "rep3@near vs rep3@far",
    ]
