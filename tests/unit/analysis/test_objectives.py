"""What a ranking goes by: chosen by name, by use, or every rate; and what it refuses."""

from __future__ import annotations

import pytest

from leadline.analysis.objectives import (
    Question,
    Unmeasured,
    UnmeasuredCause,
    UseCase,
    every_rate,
    find_use_case,
    for_use_case,
    selected,
    use_cases,
)
from leadline.errors import LeadlineError
from leadline.metrics import Metric, Op
from tests.unit.analysis.ranked import READ, WRITE, Ranked, Values, make

IOPS, BANDWIDTH, P99 = Metric.IOPS, Metric.BANDWIDTH, Metric.LATENCY_P99
BLOCKS = {"small": (4096, True), "large": (1 << 20, False), "mix": (4096, True)}
ROWS = {
    ("small", READ, IOPS): [100],
    ("small", READ, P99): [1e-3],
    ("small", WRITE, IOPS): [50],
    ("large", READ, BANDWIDTH): [1e9],
    ("mix", Op.TOTAL, IOPS): [70],
    ("mix", READ, IOPS): [50],
    ("mix", WRITE, IOPS): [20],
}


def names(question: Question) -> dict[str, float]:
    return {one.name: round(one.weight, 6) for one in question.objectives}


def two(rows: Values | None = None) -> Ranked:
    return make(rows or {"a": ROWS, "b": ROWS}, imported=True, blocks=BLOCKS)


def test_every_rate_is_bandwidth_of_large_blocks_and_leaves_totals_out() -> None:
    given = two()
    assert names(every_rate(given.run, given.figures)) == {
        "small read iops": 0.2,
        "small write iops": 0.2,
        "large read bandwidth": 0.2,
        "mix read iops": 0.2,
        "mix write iops": 0.2,
    }


def test_a_total_that_stands_alone_counts() -> None:
    given = two({"a": {("mix", Op.TOTAL, IOPS): [1]}})
    assert names(every_rate(given.run, given.figures)) == {"mix total iops": 1.0}


def test_what_only_another_target_has_is_an_objective_all_the_same() -> None:
    given = two({"a": {("small", READ, IOPS): [1]}, "b": {("large", READ, BANDWIDTH): [1]}})
    assert set(names(every_rate(given.run, given.figures))) == {
        "small read iops",
        "large read bandwidth",
    }


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["small read iops"], {"small read iops": 1.0}),
        (["small iops"], {"small read iops": 0.5, "small write iops": 0.5}),
        (["mix iops"], {"mix read iops": 0.5, "mix write iops": 0.5}),
        (["mix total iops"], {"mix total iops": 1.0}),
        (["p99"], {"small read p99": 1.0}),
        (["large bw", "p99"], {"large read bandwidth": 0.5, "small read p99": 0.5}),
        (["small read iops", "small iops"], {"small read iops": 0.75, "small write iops": 0.25}),
    ],
)
def test_selectors_share_their_weight_among_what_they_match(
    texts: list[str], expected: dict[str, float]
) -> None:
    given = two()
    assert names(selected(given.run, given.figures, texts)) == expected


def test_a_number_that_no_target_has_is_listed() -> None:
    given = two()
    found = selected(given.run, given.figures, ["p99"])
    expected = Unmeasured(cause=UnmeasuredCause.NO_TARGET, subject="large read p99")
    assert expected in found.not_measured


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("smal read iops", "did you mean 'small'"),
        ("small trim iops", "small read, small write"),
        ("large p99", "measured there: bandwidth"),
        ("speed", "names no metric"),
    ],
)
def test_a_selector_that_matches_nothing_names_what_there_is(text: str, expected: str) -> None:
    given = two()
    with pytest.raises(LeadlineError) as error:
        selected(given.run, given.figures, [text])
    assert error.value.kind.code == "usage"
    assert expected in str(error.value)


# --- use cases ------------------------------------------------------------------------------------


def asked(case: str, rows: Values | None = None) -> Question:
    given = two(rows)
    return for_use_case(given.run, given.figures, find_use_case(case))


def test_a_part_that_was_not_measured_is_named_and_the_others_keep_their_shares() -> None:
    found = asked("database")
    # Of 3 + 3 + 2 + 2 the log's 3 are not there; small writes and the mix lack their p99.
    assert names(found) == {
        "small write iops": pytest.approx(3 / 7, abs=1e-6),
        "small read iops": pytest.approx(1 / 7, abs=1e-6),
        "small read p99": pytest.approx(1 / 7, abs=1e-6),
        "mix total iops": pytest.approx(2 / 7, abs=1e-6),
    }
    log, writes, mixed = found.not_measured
    assert (log.cause, log.subject) == (
        UnmeasuredCause.NO_WORKLOAD,
        "log writes (sequential, with fsync)",
    )
    for part, subject in (
        (writes, "small random writes"),
        (mixed, "small random reads and writes together"),
    ):
        expected = (UnmeasuredCause.NO_METRIC, subject, P99)
        assert (part.cause, part.subject, part.metric) == expected


def test_reads_alone_do_not_answer_for_a_database() -> None:
    with pytest.raises(LeadlineError) as error:
        asked("database", {"a": {("small", READ, IOPS): [1]}})
    assert error.value.kind.code == "nothing-to-rank"
    assert "small random writes" in str(error.value)
    assert "measured: small read" in str(error.value)


def test_streaming_is_not_ranked_by_small_blocks_nor_by_random_ones() -> None:
    for block, random in ((4096, False), (1 << 20, True)):
        given = make(
            {"a": {("w", READ, BANDWIDTH): [1]}}, imported=True, blocks={"w": (block, random)}
        )
        with pytest.raises(LeadlineError, match="no essential workload of streaming"):
            for_use_case(given.run, given.figures, find_use_case("streaming"))


def test_a_percentile_that_some_trials_lack_is_left_out_and_listed() -> None:
    rows = {
        ("small", WRITE, IOPS): [1.0, 1.0],
        ("small", WRITE, P99): [1e-3, None],
    }
    given = make({"a": rows}, blocks=BLOCKS)
    found = for_use_case(given.run, given.figures, find_use_case("database"))
    assert names(found) == {"small write iops": 1.0}
    expected = Unmeasured(
        cause=UnmeasuredCause.TOO_FEW_SAMPLES,
        subject="small random writes",
        metric=P99,
        keys=(("small", "", WRITE),),
    )
    assert expected in found.not_measured


@pytest.mark.parametrize("case", use_cases(), ids=lambda case: case.name)
def test_use_cases_are_whole(case: UseCase) -> None:
    assert any(need.essential for need in case.needs)
    assert len({need.name for need in case.needs}) == len(case.needs)
    assert all(need.weights for need in case.needs)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("databse", "database"),
        ("vm", None),
        ("virtual", "virtual-machines"),
        ("stream", "streaming"),
    ],
)
def test_an_unknown_use_is_told_the_nearest(name: str, meant: str | None) -> None:
    with pytest.raises(LeadlineError) as error:
        find_use_case(name)
    assert "use cases: database, virtual-machines, streaming, backup, shared-files" in str(
        error.value
    )
    assert meant is None or f"did you mean '{meant}'" in str(error.value)
