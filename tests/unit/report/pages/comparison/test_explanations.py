"""The words of explanations: one golden sentence for each kind of fact."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leadline.analysis.explain.facts import (
    Cause,
    CellGroup,
    ChangedValue,
    Explanation,
    ImpliedRoundTrip,
    Isolation,
    MoreCopies,
    MoreCores,
    NearestCopyRead,
    NoCause,
    PossibleCauses,
    RoundTripCost,
    UnchangedDespiteCause,
    UnchangedDespiteRoundTrips,
    Unknown,
)
from leadline.analysis.explain.round_trips import Agreement, Cost, IoPath, RoundTrips
from leadline.analysis.verdicts import Verdict
from leadline.inventory.diff import Difference, PossibleEffect, Topic
from leadline.metrics import Op
from leadline.report.pages.comparison.explanations import effect_texts, explanation_text
from leadline.report.words import short

READS = CellGroup(
    ops=(Op.READ,),
    targets=("rep3",),
    depths=(1,),
    verdicts=((Verdict.WORSE, 1),),
    added_s=(("rep3", 850e-6),),
)
WRITES = replace(READS, ops=(Op.WRITE,), added_s=(("rep3", 3e-3),))
SAME = replace(READS, verdicts=((Verdict.SAME, 1),))
PG = Cause(
    code="pgs",
    label="PG count",
    values=(ChangedValue(path="pools.*.pg_num", target="", baseline="128", candidate="512"),),
    mechanisms=("more placement groups spread I/Os",),
)
EC = Cause(
    code="redundancy",
    label="redundancy",
    values=(
        ChangedValue(path="pools.a.redundancy", target="a", baseline="3", candidate="EC 2+1"),
        ChangedValue(path="pools.b.redundancy", target="b", baseline="2", candidate="EC 2+1"),
    ),
    mechanisms=(),
)
SETTINGS = Cause(
    code="settings",
    label="settings",
    values=(ChangedValue(path="settings.osd.x", target="", baseline="1", candidate="2"),),
    mechanisms=(),
    named_by_path=True,
)
NONE = RoundTrips(least=0, most=0, expected=0, path=IoPath.PRIMARY)
READ = RoundTrips(least=0, most=1, expected=2 / 3, path=IoPath.PRIMARY)
WRITE = RoundTrips(least=1, most=2, expected=5 / 3, path=IoPath.PRIMARY_AND_COPIES)
MIXED = RoundTrips(least=0, most=2, expected=None, path=IoPath.MIXED)
COST = RoundTripCost(
    cells=(0,),
    group=READS,
    closes=True,
    cost=Cost(base=READ, candidate=READ, least_s=0, most_s=1.03e-3, expected_s=0.688e-3),
    base_rtt_s=0.04e-3,
    candidate_rtt_s=1.07e-3,
    agreement=Agreement.WITHIN,
    isolation=Isolation.ISOLATED,
)
EXPECTED = (
    "Reads on rep3, QD1: +850 us measured, +688 us (+0 us to +1.03 ms) expected (0.67 round trips "
    "x 1.03 ms, client to primary). "
)


def cost_of(least_s: float, most_s: float, expected_s: float | None, **trips: RoundTrips) -> Cost:
    return replace(COST.cost, least_s=least_s, most_s=most_s, expected_s=expected_s, **trips)


@pytest.mark.parametrize(
    ("explanation", "text"),
    [
        (COST, f"{EXPECTED}Network distance explains the change."),
        (
            replace(COST, agreement=Agreement.TOLERATED, others=(PG,)),
            (
                f"{EXPECTED}Network distance explains the change to within 20 %. Also changed: PG "
                "count (128 -> 512); the shares cannot be separated."
            ),
        ),
        (
            replace(COST, closes=False, agreement=Agreement.LESS, gap_s=(1e-3, 1e-3)),
            (
                f"{EXPECTED}The change is 1 ms below the minimum: network distance does not "
                "explain it. No other relevant difference was found."
            ),
        ),
        (
            replace(
                COST,
                closes=False,
                agreement=Agreement.MORE,
                isolation=Isolation.ALSO_ISOLATED,
                gap_s=(1e-3, 2e-3),
                redundancy=EC,
            ),
            (
                f"{EXPECTED}The change is 1 ms to 2 ms above the maximum: network distance "
                "explains only a part. I/Os in flight together also wait for each other. "
                "Redundancy (a 3 -> EC 2+1 and b 2 -> EC 2+1) also changes the work of OSDs."
            ),
        ),
        (
            replace(
                COST,
                closes=False,
                agreement=Agreement.MORE,
                isolation=Isolation.NEVER_ISOLATED,
                gap_s=(1e-3, 1e-3),
                multiples=(3, 8),
            ),
            (
                f"{EXPECTED}The change is 1 ms above the maximum: network distance explains only "
                "a part. It is about 3 to 8 times the maximum: a client that splits large I/Os "
                "waits for each part. No cell measures small I/Os at QD1, where round trips are "
                "isolated. No other relevant difference was found."
            ),
        ),
        (
            replace(COST, closes=False, agreement=Agreement.OPPOSITE, others=(SETTINGS,)),
            (
                f"{EXPECTED}The change has the opposite direction: network distance does not "
                "explain it. Also changed: settings (x 1 -> 2); the shares cannot be separated."
            ),
        ),
        (
            replace(
                COST,
                group=replace(
                    WRITES,
                    added_s=(("rep3", 3.1e-3), ("rep2", 3.4e-3)),
                    targets=("rep3", "rep2"),
                    depths=(1, 16),
                ),
                cost=cost_of(2e-3, 4e-3, 10e-3 / 3, base=NONE, candidate=WRITE),
                base_rtt_s=None,
                candidate_rtt_s=2e-3,
            ),
            (
                "Writes on rep3 and rep2, QD1 and 16: +3.1 ms (rep3) and +3.4 ms (rep2) measured, "
                "+3.33 ms (+2 ms to +4 ms) expected (1.67 round trips x 2 ms, client to primary to "
                "copies). Network distance explains the change."
            ),
        ),
        (
            replace(
                COST,
                group=replace(READS, from_rates=True, closed_loop=(16, 2000.0, 1455.0)),
                cost=cost_of(-2e-3, 0, None, base=MIXED, candidate=NONE),
                base_rtt_s=1e-3,
                candidate_rtt_s=None,
            ),
            (
                "Reads on rep3, QD1: +850 us measured (from IOPS: 16 x (1/1,455 - 1/2,000)), +0 "
                "us to -2 ms expected (0 to 2 round trips x 1 ms saved, reads and writes mixed). "
                "Network distance explains the change."
            ),
        ),
        (
            replace(
                COST,
                group=replace(WRITES, streaming=True, sequential=1),
                cost=cost_of(1e-3, 1e-3, 1e-3, base=READ, candidate=WRITE),
                base_rtt_s=1e-3,
                candidate_rtt_s=1e-3,
            ),
            (
                "Large writes on rep3, QD1: +3 ms measured (one I/O per job in flight, from "
                "IOPS), +1 ms expected (1.67 round trips x 1 ms instead of 0.67 x 1 ms, client "
                "to primary to copies). Network distance explains the change."
            ),
        ),
        (
            NearestCopyRead(cells=(0,), group=SAME, closes=True),
            "Reads on rep3, QD1: unchanged, as expected. The nearest copy answers within the zone.",
        ),
        (
            NearestCopyRead(cells=(0,), group=READS, closes=False, mixed=True, others=(PG,)),
            (
                "Reads on rep3, QD1: +850 us measured, no change expected: the nearest copy is "
                "in the zone. The primary may answer instead, or reads wait for writes. Also "
                "changed: PG count (128 -> 512); the shares cannot be separated."
            ),
        ),
        (
            UnchangedDespiteRoundTrips(cells=(0,), group=SAME, expected_s=(1e-3, 2e-3)),
            (
                "Reads on rep3, QD1: unchanged, +1 ms to +2 ms expected from round trips. Possible "
                "reasons: primaries in the client's zone, or a cache."
            ),
        ),
        (
            UnchangedDespiteCause(cells=(0,), group=SAME, cause=PG, margin=0.05),
            "Reads on rep3, QD1: unchanged within 5 % in spite of PG count (128 -> 512).",
        ),
        (
            ImpliedRoundTrip(
                cells=(0,),
                group=READS,
                groups=(READS, WRITES),
                least_s=1e-3,
                most_s=1.2e-3,
                common=True,
                isolated=True,
            ),
            (
                "Reads on rep3, QD1: +850 us measured. Writes on rep3, QD1: +3 ms measured. A "
                "round trip between zones of 1 ms to 1.2 ms would explain this. The round trip "
                "was not measured."
            ),
        ),
        (
            ImpliedRoundTrip(
                cells=(0,),
                group=READS,
                groups=(READS,),
                least_s=1e-3,
                most_s=3e-3,
                common=False,
                isolated=False,
            ),
            (
                "Reads on rep3, QD1: +850 us measured. No single round trip explains this: the "
                "changes need 1 ms to 3 ms. I/Os in flight together also wait for each other. "
                "The round trip was not measured."
            ),
        ),
        (
            PossibleCauses(cells=(0,), group=READS, causes=(PG,)),
            (
                "Reads on rep3, QD1 (1 cell, worse): the only relevant difference is PG count "
                "(128 -> 512). More placement groups spread I/Os."
            ),
        ),
        (
            PossibleCauses(
                cells=(0,),
                group=replace(READS, verdicts=((Verdict.WORSE, 3), (Verdict.SAME, 1))),
                causes=(PG, SETTINGS),
            ),
            (
                "Reads on rep3, QD1 (4 cells: 3 worse and 1 same): several relevant differences, "
                "PG count (128 -> 512) and settings (x 1 -> 2). One comparison cannot separate "
                "their shares."
            ),
        ),
        (
            PossibleCauses(
                cells=(0,),
                group=replace(READS, percentiles_only=True),
                causes=(PG,),
                labels_only=True,
            ),
            (
                "Latency percentiles of reads on rep3, QD1 (1 cell, worse): the only known "
                "difference is PG count (128 -> 512). No configuration data confirms it as the "
                "cause."
            ),
        ),
        (
            NoCause(cells=(0,), group=READS, unknown=Unknown.NONE),
            "Reads on rep3, QD1 (1 cell, worse): no configuration difference explains the change.",
        ),
        (
            NoCause(cells=(0,), group=READS, unknown=Unknown.CANDIDATE),
            (
                "Reads on rep3, QD1: +850 us measured. Longer distance, more copies, encryption or "
                "other media are possible causes: the configuration of the candidate is unknown."
            ),
        ),
        (
            NoCause(
                cells=(0,),
                group=replace(READS, added_s=()),
                unknown=Unknown.BOTH,
                unmeasurable=1,
                depth_unknown=True,
            ),
            (
                "1 cell changed, cause unknown: the configuration is unknown. The added latency "
                "cannot be computed: neither mean latency nor depth is known."
            ),
        ),
        (
            MoreCores(
                cells=(0,),
                group=READS,
                closes=False,
                key="cores",
                baseline=1,
                candidate=2,
                factor=2,
                tested=2,
                beyond=(10.0,),
                lower=1,
            ),
            (
                "Label cores 1 -> 2: at most 2 times the rate expected, if cores are the limit. "
                "1 of 2 changed rates exceed this (x 10): cores alone do not explain them. 1 of "
                "2 changed rates are lower with more cores."
            ),
        ),
        (
            MoreCopies(
                cells=(0,),
                group=READS,
                closes=False,
                key="replicas",
                baseline=1,
                candidate=3,
                writes=WRITES,
                contradicting=((Op.READ, "w"),),
            ),
            (
                "Label replicas 1 -> 3: with more copies each write waits for at least one "
                "network round trip; reads are not slower. Writes on rep3, QD1: +3 ms measured; "
                "the round trip was not measured. Reads of w changed in the opposite direction."
            ),
        ),
    ],
)
def test_the_words_of_each_kind(explanation: Explanation, text: str) -> None:
    assert explanation_text(explanation) == text


def test_names_are_written_as_the_page_wants_them() -> None:
    long = replace(READS, targets=("t" * 80,))
    text = explanation_text(NoCause(cells=(0,), group=long, unknown=Unknown.NONE), short)
    assert "…" in text


def test_the_words_of_an_effect() -> None:
    difference = Difference(
        path="pools.*.pg_num",
        topic=Topic.PLACEMENT,
        baseline="128",
        candidate="512",
        explains=(
            PossibleEffect(mechanism="more groups spread I/Os", verdicts=(("worse", 2),)),
            PossibleEffect(mechanism="fewer cost less memory"),
        ),
    )
    assert effect_texts(difference) == [
        "More groups spread I/Os. Applies to 2 cells, all worse.",
        "Fewer cost less memory.",
    ]
