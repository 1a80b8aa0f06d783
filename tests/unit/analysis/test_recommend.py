"""Recommendations: what is required comes first, ties are broken by protection and said so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from archive_builder import make_run, small_plan

from leadline.analysis.figures import FindingMark
from leadline.analysis.objectives import find_use_case
from leadline.analysis.ranking import rank
from leadline.analysis.recommend import (
    Basis,
    Recommendation,
    TradeOff,
    imposed_conditions,
    recommend,
)
from leadline.analysis.requirements import (
    Protection,
    Requirement,
    UnmetCause,
    _protection,
    parse_requirements,
)
from leadline.errors import LeadlineError
from leadline.findings import Severity
from leadline.inventory.ceph.model import CephInventory
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.plan.facts import Access
from leadline.plan.models import Target
from leadline.report.pages.recommendation import answer, changes, not_measured, trade_offs
from tests.conftest import RECORDED
from tests.unit.analysis.ranked import READS, Trials, iops, make

RWO, BOTH = (Access.RWO,), (Access.RWO, Access.RWX)
REP3 = Protection(
    pool="rep3",
    copies=3,
    failure_domain="zone",
    failures_survived=2,
    failures_writable=1,
    raw_per_stored=3.0,
    access=RWO,
)
REP2 = Protection(
    pool="rep2",
    copies=2,
    failure_domain="host",
    failures_survived=1,
    failures_writable=1,
    raw_per_stored=2.0,
    access=RWO,
)
FILES = Protection(
    pool="fs",
    copies=3,
    failure_domain="zone",
    failures_survived=2,
    failures_writable=1,
    raw_per_stored=3.0,
    access=BOTH,
)
UNKNOWN = Protection()


def asked(
    protections: dict[str, Protection],
    *,
    case: str = "database",
    required: str = "",
    imported: bool = True,
    **trials: Trials,
) -> Recommendation:
    given = make(iops(**trials), imported=imported)
    ranking = rank(given.run, given.figures, READS)
    return recommend(
        ranking,
        find_use_case(case),
        {name: protections.get(name, UNKNOWN) for name in trials},
        parse_requirements([required]),
    )


def test_the_fastest_is_recommended_for_its_speed() -> None:
    found = asked({"a": REP2, "b": REP3}, a=[100], b=[50])
    assert (found.chosen.name, found.basis, found.tied) == ("a", Basis.SPEED, ())
    text = answer(found)
    assert text.startswith("Use a for a database: it is the fastest target")
    assert "2.00 times the score of b (one number per target, tested by the margin alone)" in text
    assert "100 IOPS vs 50 IOPS" in text
    assert any("b survives the loss of 2 zones" in one for one in trade_offs(found))


def test_a_tie_is_broken_by_protection_and_not_called_faster() -> None:
    found = asked({"a": REP2, "b": REP3}, a=[100], b=[98])
    assert (found.chosen.name, found.basis) == ("b", Basis.TRADE_OFF)
    assert found.tied == ("a", "b")
    assert found.trade_off is TradeOff.FAILURES_SURVIVED
    text = answer(found)
    assert "tie in speed for a database" in text
    assert "because it survives more failures: a choice by protection and cost" in text
    assert "fastest" not in text


def test_a_tie_of_equal_protection_goes_to_the_one_that_takes_less() -> None:
    thrifty = Protection(
        pool="ec",
        data_chunks=4,
        coding_chunks=2,
        failure_domain="zone",
        failures_survived=2,
        failures_writable=1,
        raw_per_stored=1.5,
        access=RWO,
    )
    found = asked({"a": REP3, "b": thrifty}, a=[100], b=[98])
    assert (found.chosen.name, found.trade_off) == ("b", TradeOff.RAW_SPACE)


def test_a_tie_of_what_is_not_known_is_said_to_be_one() -> None:
    found = asked({}, a=[100], b=[98])
    assert (found.chosen.name, found.basis) == ("a", Basis.FIGURE)
    assert "which is not significant" in answer(found)
    assert "how it protects its data is unknown" in " ".join(trade_offs(found))


def test_noise_alone_does_not_recommend_what_may_be_half_as_fast() -> None:
    wild = [900, 300, 1500, 400, 1300, 350]
    found = asked({"a": REP2, "b": REP3}, imported=False, a=[1000, 990, 1010] * 2, b=wild)
    assert found.tied == ("a", "b"), "they tie"
    assert found.chosen.name == "a", "and b may be far slower"
    assert "b and a tie: about" in changes(found)[0]


def test_requirements_come_before_speed_and_their_cost_is_shown() -> None:
    found = asked(
        {"a": REP2, "b": REP3, "c": REP3}, required="survive=zone", a=[300], b=[100], c=[50]
    )
    assert found.chosen.name == "b"
    assert found.faster == ("a",)
    assert "Without survive=zone: a, which gives 3.00 times as much." in changes(found)
    (refused,) = [one for one in found.candidates if one.unmet]
    assert refused.unmet[0].cause is UnmetCause.DOMAIN_TOO_SMALL


def test_nothing_known_meets_a_requirement() -> None:
    found = asked({}, required="encrypted,survive=osd", a=[300], b=[100])
    assert (found.chosen, found.basis) == (None, Basis.NONE)
    assert "none of the 2 targets" in answer(found)


def test_shared_files_go_to_what_many_may_mount() -> None:
    found = asked({"a": REP3, "fs": FILES}, case="shared-files", a=[300], fs=[100])
    assert (found.chosen.name, found.basis) == ("fs", Basis.ALONE)
    assert not found.not_shared
    assert "If one host at a time were enough: a, which gives 3.00 times as much." in changes(found)


def test_shared_files_where_nobody_knows_what_can_be_shared_says_so() -> None:
    found = asked({"a": REP3}, case="shared-files", a=[300], b=[100])
    assert found.chosen.name == "b", "a is known to be for one node"
    assert found.not_shared
    assert "Use b for shared files if many hosts can mount it, which is unknown" in answer(found)


def test_shared_files_where_nothing_can_be_shared_get_no_answer() -> None:
    found = asked({"a": REP3, "b": REP2}, case="shared-files", a=[300], b=[100])
    assert found.chosen is None
    assert "known to meet access=rwx" in answer(found)


def test_an_incomplete_target_is_never_chosen_and_may_change_the_answer() -> None:
    given = make({**iops(a=[100]), "b": {}}, imported=True)
    ranking = rank(given.run, given.figures, READS)
    found = recommend(ranking, find_use_case("database"), {"a": REP3, "b": REP3})
    assert found.chosen.name == "a"
    assert any("missing numbers of b (w read iops)" in one for one in changes(found))


def test_everything_incomplete() -> None:
    given = make({"a": {}, "b": {}}, imported=True)
    ranking = rank(given.run, given.figures, READS)
    found = recommend(ranking, find_use_case("database"), {"a": REP3, "b": REP3})
    assert found.chosen is None
    assert "none has every number" in answer(found)


def test_what_was_not_measured_is_said() -> None:
    text = " ".join(not_measured(asked({}, a=[100], b=[50])))
    assert "a database's own cache" in text
    assert "too few trials" in text


# --- requirements and protection ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "level", "met"),
    [
        (REP3, "zone", True),
        (REP3, "host", True),
        (REP2, "host", True),
        (REP2, "rack", False),
        (
            Protection(copies=1, failures_survived=0, failure_domain="zone", access=RWO),
            "osd",
            False,
        ),
        (
            Protection(copies=3, failures_survived=2, failure_domain="cupboard", access=RWO),
            "host",
            False,
        ),
        (UNKNOWN, "osd", False),
    ],
)
def test_survival(given: Protection, level: str, met: bool) -> None:
    assert (Requirement(kind="survive", value=level).check(given) is None) is met


def test_requirements_are_parsed_from_lists_and_repeated_options() -> None:
    found = parse_requirements(["survive=zone, access=rwx", "encrypted", "encrypted"])
    assert [str(one) for one in found] == ["survive=zone", "access=rwx", "encrypted"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("survive=zones", "did you mean 'zone'"),
        ("surive=zone", "did you mean 'survive'"),
        ("access=rwm", "did you mean 'rw"),
        ("encrypted=yes", "takes no value"),
        ("survive", "osd, host, rack, zone"),
    ],
)
def test_a_requirement_that_is_not_understood(text: str, expected: str) -> None:
    with pytest.raises(LeadlineError) as error:
        parse_requirements([text])
    assert error.value.kind.code == "usage"
    assert expected in str(error.value)


def test_a_condition_of_the_experiment_is_no_choice() -> None:
    given = make(iops(a=[300], delayed=[900]))
    ranking = rank(given.run, given.figures, READS)
    found = recommend(
        ranking,
        find_use_case("database"),
        {"a": REP3, "delayed": REP3},
        imposed={"delayed": "a"},
    )
    assert found.chosen.name == "a"
    assert found.faster == ()
    (refused,) = [one for one in found.candidates if one.unmet]
    assert refused.name == "delayed"
    assert refused.unmet[0].cause is UnmetCause.IMPOSED_CONDITION
    assert refused.unmet[0].same_as == "a"


def test_delays_of_a_lab_are_conditions_where_the_plain_target_is_there(tmp_path: Path) -> None:
    plan = small_plan(["rep3@far", "rep3@far,2ms", "rep2@far,2ms"], repeats=1)
    urls = ("rbd:rep3", "rbd:rep3?inter_zone_rtt=2ms", "rbd:rep2?inter_zone_rtt=2ms")
    targets = tuple(
        one.model_copy(update={"url": url, "subject": one.name.split("@")[0]})
        for one, url in zip(plan.targets, urls, strict=True)
    )
    run = make_run(tmp_path, plan.model_copy(update={"targets": targets}))
    assert imposed_conditions(run) == {"rep3@far,2ms": "rep3@far"}


def test_warnings_of_the_audit_are_shown_with_the_choice() -> None:
    given = make(iops(a=[300], b=[100]))
    mark = FindingMark(code="unstable-repeats", severity=Severity.WARNING)
    doubted = [
        replace(
            one, metrics=tuple(replace(metric, finding_marks=(mark,)) for metric in one.metrics)
        )
        if one.target == "a"
        else one
        for one in given.figures
    ]
    ranking = rank(given.run, given.figures, READS)
    protections, case = {"a": REP3, "b": REP3}, find_use_case("database")
    found = recommend(ranking, case, protections, figures=doubted)
    assert found.warnings == ("unstable-repeats",)
    assert "The audit warns of its figures: unstable-repeats." in trade_offs(found)
    assert recommend(ranking, case, protections, figures=given.figures).warnings == ()


def captured(name: str) -> CephInventory:
    folder: Path = RECORDED.parent / name
    return cluster_inventory({path.name: path.read_bytes() for path in folder.iterdir()})


@pytest.mark.parametrize(
    ("url", "copies", "chunks", "losses", "writable", "overhead", "access"),
    [
        ("rbd:rbd_r3", 3, None, 2, 1, 3.0, RWO),
        ("rbd:rbd_r2", 2, None, 1, 1, 2.0, RWO),
        ("rbd:rbd_r3?data_pool=ec21_data", None, (2, 1), 1, 1, 1.5, RWO),
        ("cephfs:cephfs_r2", 2, None, 1, 1, 2.0, BOTH),
        ("rados:rbd_r3", 3, None, 2, 1, 3.0, ()),
    ],
)
def test_protection_is_read_from_a_captured_cluster(
    url: str,
    copies: int | None,
    chunks: tuple[int, int] | None,
    losses: int,
    writable: int,
    overhead: float,
    access: tuple[Access, ...],
) -> None:
    target = Target(name="t", url=url, cluster="c")
    zones, racks = (
        _protection(target, captured(name), None) for name in ("ceph-multi-az", "ceph-single-az")
    )
    assert zones.copies == copies
    assert (zones.data_chunks, zones.coding_chunks) == (chunks or (None, None))
    assert (zones.failures_survived, zones.failures_writable, zones.raw_per_stored) == (
        losses,
        writable,
        overhead,
    )
    assert zones.access == access
    zone, rack, host = (
        Requirement(kind="survive", value=level) for level in ("zone", "rack", "host")
    )
    assert (zone.check(zones), zone.check(racks)) == (None, UnmetCause.DOMAIN_TOO_SMALL)
    assert (host.check(zones), rack.check(racks)) == (None, None)
    assert zones.encrypted_at_rest is None, "no OSD of it is known to be encrypted"


def test_encryption_counts_when_every_osd_is_known_to_encrypt() -> None:
    inventory = captured("ceph-autoscaler-on")
    target = Target(name="t", url="rbd:a", cluster="c")
    assert _protection(target, inventory, None).encrypted_at_rest is None, "one is known"
    telling = next(osd for osd in inventory.osds if osd.dm_crypt.value == "yes")
    whole = inventory.model_copy(
        update={
            "osds": tuple(
                osd.model_copy(update={"dm_crypt": telling.dm_crypt}) for osd in inventory.osds
            )
        }
    )
    given = _protection(target, whole, None)
    assert given.encrypted_at_rest is True
    assert Requirement(kind="encrypted").check(given) is None


def test_a_pool_that_the_inventory_does_not_have_is_not_known() -> None:
    target = Target(name="t", url="rbd:gone", cluster="c")
    given = _protection(target, captured("ceph-multi-az"), None)
    assert not given.known
    assert given.access == RWO
