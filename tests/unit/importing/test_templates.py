"""Path templates, and the layouts that are known by name."""

from __future__ import annotations

import pytest

from leadline.errors import LeadlineError
from leadline.importing.templates import Role, known_layouts, parse_template, place_of, repeats_of

ISSUE = "{pool}/{vm_size}/{pvc_size}/{concurrency}/{workload}/{block_size}/{client}-fio.json"


def test_a_path_gives_target_level_workload_client_and_their_number() -> None:
    template = parse_template(ISSUE)
    fields = template.match("rep3/small/150Gi/4/random-rw/4k/vm-2-fio.json")
    assert fields is not None
    place = place_of(template, fields)
    assert (place.target, place.workload, place.client) == ("rep3", "random-rw 4k", "vm-2")
    assert place.level == "vm_size=small pvc_size=150Gi concurrency=4"
    assert place.clients == 4


def test_roles_can_be_given_and_fields_ignored() -> None:
    template = parse_template("{label:cores}/{cluster:site}/{_date}/{level:qd}/{repeat}.json")
    assert list(template.roles.values()) == [
        *(Role.LABEL, Role.CLUSTER, Role.IGNORED, Role.LEVEL, Role.REPEAT)
    ]
    fields = template.match("2/north/2024/16/3.json")
    assert fields is not None
    place = place_of(template, fields)
    assert (place.labels, place.cluster, place.repeat) == ((("cores", "2"),), "north", "3")
    assert place.level == "qd=16"


@pytest.mark.parametrize(
    ("text", "path", "matches"),
    [
        ("{mode=read|write}-{iodepth=#}.json", "read-16.json", True),
        ("{mode=read|write}-{iodepth=#}.json", "trim-16.json", False),
        ("{mode=read|write}-{iodepth=#}.json", "read-x.json", False),
        ("{block_size=size}/{workload}.json", "4k/a.json", True),
        ("{block_size=size}/{workload}.json", "rep3/a.json", False),
        ("**/{workload}.json", "a.json", True),
        ("**/{workload}.json", "x/y/a.json", True),
        ("{workload}.json", "x/a.json", False),
        ("{workload}/*.json", "a/b.json", True),
        ("{workload=word}.{client}/*.json", "4kread.c1.ceph.com/b.json", True),
        ("{workload}.json", "a.json.bak", False),
    ],
)
def test_what_matches(text: str, path: str, matches: bool) -> None:
    assert (parse_template(text).match(path) is not None) is matches


def test_a_path_that_matches_two_ways_is_refused() -> None:
    with pytest.raises(ValueError, match="two ways: workload=a block_size=b-c; workload=a-b"):
        parse_template("{workload}-{block_size}.json").match("a-b-c.json")


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("a/b.json", "no field"),
        ("{a}{b}.json", "nothing separates {b}"),
        ("{a}/{a}.json", "there twice"),
        ("{a/b}.json", "is no field"),
        ("{a}/{b.json", "not closed"),
        ("{role:a}.json", "no role 'role'"),
        ("{" + "a" * 1100 + "}", "too long"),
    ],
)
def test_templates_that_cannot_be_used(text: str, fact: str) -> None:
    with pytest.raises(LeadlineError, match=fact):
        parse_template(text)


def test_every_known_template_can_be_parsed_and_names_its_source() -> None:
    layouts = known_layouts().layouts
    assert {layout.name for layout in layouts} == {
        *("storage-perf-tests", "wikimedia", "benchmark-operator", "k8s-io", "cbt"),
        *("bench-fio", "kbench"),
    }
    for layout in layouts:
        assert layout.source
        for text in layout.templates:
            assert parse_template(text).roles


@pytest.mark.parametrize(
    ("paths", "targets"),
    [
        (["a/run_1/x.json", "a/run_2/x.json"], {"a/x"}),
        (["x-1.json", "x-2.json", "x-3.json"], {"x"}),
        (["x-1.json", "x-8.json", "x-64.json"], set()),
        (["x-1.json"], set()),
        (["rand-16.json", "rand-32.json"], set()),
    ],
)
def test_numbered_repeats(paths: list[str], targets: set[str]) -> None:
    found = dict(repeats_of(paths))
    assert {place.target for place in found.values()} == targets
    assert len(found) == (len(paths) if targets else 0)
