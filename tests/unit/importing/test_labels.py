"""Labels of imported targets, from files and from the command line."""

from __future__ import annotations

import pytest

from leadline.errors import LeadlineError
from leadline.importing.gather import GivenLabel, TargetLabels, label_targets, parse_label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("cores=2", GivenLabel(key="cores", value="2")),
        ("rep3=cores=2", GivenLabel(key="cores", value="2", target="rep3")),
        (
            "rbd:a?read_policy=localize=cores=2",
            GivenLabel(key="cores", value="2", target="rbd:a?read_policy=localize"),
        ),
    ],
)
def test_a_label_is_of_one_target_or_of_all(text: str, label: GivenLabel) -> None:
    assert parse_label(text) == label


@pytest.mark.parametrize(
    "text",
    ["", "cores", "=2", "cores=", "=cores=2", "rep3==2", "cores=1,2", "a\n=1", "k=" + "x" * 101],
)
def test_what_is_no_label_is_refused(text: str) -> None:
    with pytest.raises(LeadlineError, match="is not a label"):
        parse_label(text)


def reported(**labels: dict[str, str]) -> TargetLabels:
    made = TargetLabels()
    for target, given in labels.items():
        made.take(target, given, "a.csv")
    return made


def test_the_command_line_adds_to_what_files_say() -> None:
    one, other = reported(a={"cores": "1"}, b={}), reported(a={}, c={})
    label_targets(
        [one, other],
        [GivenLabel(key="system", value="x"), GivenLabel(key="cores", value="1", target="a")],
    )
    assert one.by_target == {"a": {"cores": "1", "system": "x"}, "b": {"system": "x"}}
    assert other.by_target == {"a": {"system": "x", "cores": "1"}, "c": {"system": "x"}}


def test_contradictions_and_untrusted_are_refused() -> None:
    with pytest.raises(LeadlineError, match="two values of the label 'cores': 1 and 2"):
        label_targets([reported(a={"cores": "1"})], [GivenLabel(key="cores", value="2")])
    made = reported(a={"cores": "1"})
    with pytest.raises(LeadlineError, match="two values") as caught:
        made.take("a", {"cores": "3"}, "b.csv")
    assert "b.csv says cores=3" in str(caught.value)
    with pytest.raises(LeadlineError, match="which no file has") as caught:
        label_targets([reported(rep3={})], [GivenLabel(key="cores", value="2", target="rep2")])
    assert "did you mean 'rep3'" in str(caught.value)


def test_a_target_without_a_key_is_no_label_of_all() -> None:
    with pytest.raises(LeadlineError, match="no KEY=VALUE") as caught:
        label_targets([reported(rep3={}, rep2={})], [GivenLabel(key="rep3", value="2")])
    assert "'rep3=cores=2'" in str(caught.value)
