"""The words of explanations: one golden sentence for each kind of fact."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from leadline.analysis.explain.accounts import Account, Estimate, Share
from leadline.analysis.explain.facts import (
    Cause,
    CellGroup,
    CellTest,
    ChangedValue,
    Explanation,
    ImpliedRoundTrip,
    Isolation,
    MoreCopies,
    MoreCores,
    NearestCopyRead,
    NoCause,
    PossibleCauses,
    RateLimited,
    RoundTripCost,
    RoundTripEvidence,
    UnchangedDespiteCause,
    UnchangedDespiteRoundTrips,
    Unknown,
)
from leadline.analysis.explain.round_trips import Cost, RoundTrips
from leadline.analysis.verdicts import Verdict
from leadline.inventory.diff import Difference, PossibleEffect, Topic
from leadline.metrics import Op
from leadline.model.io_paths import IoPath
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
WRITE = RoundTrips(least=1, most=2, expected=5 / 3, path=IoPath.COPIES)
MIXED = RoundTrips(least=0, most=2, expected=None, path=None)


def estimate(value_ms: float, low_ms: float, high_ms: float) -> Estimate:
    return Estimate(value=value_ms * 1e-3, low=low_ms * 1e-3, high=high_ms * 1e-3)


TEST = CellTest(
    target="rep3",
    workload="w",
    level="qd1",
    op=Op.READ,
    measured=estimate(0.85, 0.8, 0.9),
    expected=estimate(0.688, 0.6, 0.82),
    share=Share(account=Account.ACCOUNTS_FOR, value=0.81, low=0.67, high=1.02),
)
COST = RoundTripCost(
    cells=(0,),
    group=READS,
    closes=True,
    account=Account.ACCOUNTS_FOR,
    cost=Cost(
        base=READ,
        candidate=READ,
        added=TEST.expected,
        base_rtt_s=0.04e-3,
        candidate_rtt_s=1.07e-3,
        base_placed=True,
        candidate_placed=True,
    ),
    tests=(TEST,),
    isolation=Isolation.ISOLATED,
)
EXPECTED = (
    "Reads on rep3, QD1: +850 us (+800 us to +900 us) measured, +688 us (+600 us to +820 us) "
    "expected (0.67 round trips x 1.03 ms, client to primary). "
)


def cell_test(account: Account, *shares: float | None, **changes: object) -> CellTest:
    value, low, high = shares or (None, None, None)
    share = Share(account=account, value=value, low=low, high=high)
    return replace(TEST, share=share, **changes)  # type: ignore[arg-type]


def failing(account: Account, *shares: float | None, **changes: object) -> RoundTripCost:
    closes = None if account is Account.INCONCLUSIVE else False
    found = replace(COST, closes=closes, account=account, tests=(cell_test(account, *shares),))
    return replace(found, **changes)  # type: ignore[arg-type]


def cost_of(base: RoundTrips, candidate: RoundTrips, base_ms: float, candidate_ms: float) -> Cost:
    return replace(
        COST.cost,
        base=base,
        candidate=candidate,
        base_rtt_s=base_ms * 1e-3,
        candidate_rtt_s=candidate_ms * 1e-3,
    )


@pytest.mark.parametrize(
    ("explanation", "text"),
    [
        (COST, f"{EXPECTED}Network distance accounts for 81 % (67 % to 102 %)."),
        (
            replace(COST, others=(PG,), cost=replace(COST.cost, base_placed=False)),
            (
                f"{EXPECTED}Network distance accounts for 81 % (67 % to 102 %). The placement on "
                "the baseline is unknown: all that CRUSH may choose are expected. Also changed: PG "
                "count (128 -> 512); the data cannot separate their shares."
            ),
        ),
        (
            failing(Account.EXCEEDS, 1.4, 1.2, 1.6),
            (
                f"{EXPECTED}The expected cost exceeds the change (140 % (120 % to 160 %)): this "
                "counts against it. No other relevant difference was found."
            ),
        ),
        (
            failing(Account.EXCEEDS, others=(SETTINGS,)),
            (
                f"{EXPECTED}The change has the opposite direction: it counts against network "
                "distance. Also changed: settings (x 1 -> 2); the data cannot separate their "
                "shares."
            ),
        ),
        (
            failing(
                Account.PARTLY, 0.4, 0.3, 0.5, isolation=Isolation.ALSO_ISOLATED, redundancy=EC
            ),
            (
                f"{EXPECTED}Network distance explains the change partly: 40 % (30 % to 50 %). I/Os "
                "in flight together also wait for each other. Redundancy (a 3 -> EC 2+1 and b 2 -> "
                "EC 2+1) also changes the work of OSDs."
            ),
        ),
        (
            failing(
                Account.PARTLY,
                0.2,
                0.1,
                0.3,
                isolation=Isolation.NEVER_ISOLATED,
                multiples=(3, 8),
            ),
            (
                f"{EXPECTED}Network distance explains the change partly: 20 % (10 % to 30 %). It "
                "is about 3 to 8 times the largest expected cost: a client that splits large I/Os "
                "waits for each part. No cell measures small I/Os at QD1, where round trips are "
                "isolated. No other relevant difference was found."
            ),
        ),
        (
            failing(Account.INCONCLUSIVE, 0.9, 0.4, math.inf),
            (f"{EXPECTED}The test of network distance is inconclusive: 90 % (at least 40 %)."),
        ),
        (
            failing(
                Account.INCONCLUSIVE,
                tests=(cell_test(Account.INCONCLUSIVE, 0.9, None, None, measured=None),),
            ),
            (
                f"{EXPECTED.replace(' (+800 us to +900 us)', '')}The test of network "
                "distance is inconclusive: the change has no interval (share about 90 %)."
            ),
        ),
        (
            failing(
                Account.INCONCLUSIVE,
                group=replace(READS, depths=(16,)),
                tests=(cell_test(Account.INCONCLUSIVE, expected=estimate(0.7, 0.0, 0.8)),),
            ),
            (
                "Reads on rep3, QD16: +850 us measured. I/Os in flight together also wait for each "
                "other: round trips cannot be tested here."
            ),
        ),
        (
            failing(
                Account.INCONCLUSIVE,
                group=replace(READS, single_trials=True),
                cost=replace(COST.cost, base_placed=False, candidate_placed=False),
                tests=(
                    cell_test(
                        Account.INCONCLUSIVE, 0.9, 0.0, 1.3, expected=estimate(0.7, 0.0, 1.0)
                    ),
                ),
            ),
            (
                "Reads on rep3, QD1: +850 us (+800 us to +900 us) measured, +700 us (+0 us to +1 "
                "ms) expected (0.67 round trips x 1.03 ms, client to primary). The test of network "
                "distance is inconclusive: 90 % (0 % to 130 %). Single trials: the intervals are "
                "the published scatter of repeats. The placement on the baseline and the candidate "
                "is unknown: all that CRUSH may choose are expected."
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
                tests=(TEST, replace(TEST, target="rep2", expected=estimate(3.33, 2, 4))),
                cost=cost_of(NONE, WRITE, 0, 2),
            ),
            (
                "Writes on rep3 and rep2, QD1 and 16: +3.1 ms (rep3) and +3.4 ms (rep2) measured, "
                "+688 us to +3.33 ms expected (1.67 round trips x 2 ms, client to primary to "
                "copies). Network distance accounts for 81 % on rep3 (67 % to 102 %) and 81 % on "
                "rep2 (67 % to 102 %)."
            ),
        ),
        (
            replace(
                COST,
                group=replace(READS, from_rates=True, closed_loop=(16, 2000.0, 1455.0)),
                tests=(replace(TEST, expected=-estimate(1, 0.5, 2)),),
                cost=cost_of(MIXED, NONE, 1, 0),
            ),
            (
                "Reads on rep3, QD1: +850 us (+800 us to +900 us) measured (from IOPS: 16 x "
                "(1/1,455 - 1/2,000)), -1 ms (-500 us to -2 ms) expected (0 to 2 round trips x 1 "
                "ms saved, reads and writes mixed). Network distance accounts for 81 % (67 % to "
                "102 %)."
            ),
        ),
        (
            replace(
                COST,
                group=replace(WRITES, streaming=True, sequential=1),
                tests=(TEST,) * 5,
                cost=cost_of(READ, WRITE, 1, 1),
            ),
            (
                "Large writes on rep3, QD1: +3 ms measured (one I/O per job in flight, from "
                "IOPS), +688 us expected (1.67 round trips x 1 ms instead of 0.67 x 1 ms, client "
                "to primary to copies). Network distance accounts for 81 %."
            ),
        ),
        (
            RoundTripEvidence(
                cells=(),
                group=READS,
                accounts=((Account.ACCOUNTS_FOR, 3), (Account.EXCEEDS, 2)),
                unchanged=1,
            ),
            (
                "Of 5 tested cells, network distance accounts for the change in 3 and would cost "
                "more than the change in 2. 1 unchanged cell counts against it."
            ),
        ),
        (
            RateLimited(cells=(0,), group=READS, codes=("flat-ceiling",)),
            (
                "Reads on rep3, QD1 (1 cell, worse): a limit was measured (flat-ceiling). Round "
                "trips do not explain a limit: these cells are not tested."
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
                "changed: PG count (128 -> 512); the data cannot separate their shares."
            ),
        ),
        (
            UnchangedDespiteRoundTrips(
                cells=(0,), group=SAME, expected=(estimate(1, 1, 1), estimate(2, 1, 2))
            ),
            (
                "Reads on rep3, QD1: unchanged, +1 ms to +2 ms expected from round trips. This "
                "counts against network distance. Possible reasons: primaries in the client's "
                "zone, or a cache."
            ),
        ),
        (
            UnchangedDespiteCause(
                cells=(0,), group=SAME, cause=replace(PG, applies=4, unchanged=1), margin=0.05
            ),
            (
                "Reads on rep3, QD1: unchanged within 5 % in spite of PG count (128 -> 512). 1 of "
                "4 tested cells counts against an effect."
            ),
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
                causes=(PG, replace(SETTINGS, applies=8, unchanged=2, opposed=1)),
            ),
            (
                "Reads on rep3, QD1 (4 cells: 3 worse and 1 same): several relevant differences, "
                "PG count (128 -> 512) and settings (x 1 -> 2). Against settings, of 8 "
                "tested cells: 2 unchanged and 1 faster with a longer path or slower with a "
                "shorter one. One comparison cannot separate their shares."
            ),
        ),
        (
            PossibleCauses(
                cells=(0,),
                group=READS,
                causes=(PG, SETTINGS),
                inseparable=(("pgs", "settings"),),
            ),
            (
                "Reads on rep3, QD1 (1 cell, worse): several relevant differences, PG count (128 "
                "-> 512) and settings (x 1 -> 2). The data cannot separate PG count and "
                "settings: they apply to the same cells."
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
                tested=9,
                proportional=2,
                less=1,
                beyond=(Estimate(value=10, low=9, high=11),),
                lower=1,
                unchanged=3,
            ),
            (
                "Label cores 1 -> 2: at most 2 times the rate expected, if cores are the limit. Of "
                "9 tested rates, 2 agree with x 2, 1 gains less, 1 exceeds it (x 10), 1 is lower, "
                "3 are unchanged and 1 is inconclusive. Cores alone do not explain this."
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
