"""The scorer of the audit bench: what counts as found, as missed and as a false alarm."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.audit.judge import CODES, Accusation, accusations
from benchmarks.audit.labels import FOLDER, Known, Label, read_labels
from benchmarks.audit.make_runs import RUNS, archive_of
from benchmarks.audit.recorded import RECORDED, unpack
from benchmarks.audit.score import FALSE_ALARM, MISS, faults, judge, table
from benchmarks.audit.subjects import Subject, corpus, runs, shared_folder, unlabelled
from leadline.findings import Severity


def said(code: str, *, target: str = "", workload: str = "", info: bool = False) -> Accusation:
    severity = Severity.INFO if info else Severity.WARNING
    return Accusation(
        code=code, severity=severity, target=target, workload=workload, message="so it is"
    )


def subject(*labels: Label) -> Subject:
    return Subject(name="file", paths=(), labels=labels)


def label(*must: str, may: str = "", result: str = "") -> Label:
    return Label(
        file="file",
        result=result,
        must=tuple(tuple(one.split("|")) for one in must),
        may=frozenset(may.split()),
        why="by hand",
    )


def test_what_is_labelled_and_said_is_found() -> None:
    verdicts = judge(subject(label("not-steady")), [said("not-steady")])
    (row,) = table(verdicts, ["not-steady"])
    assert (row.labelled, row.found, row.recall, row.false_alarms) == (1, 1, 1.0, 0)
    assert faults(verdicts, ()) == ()


def test_a_labelled_finding_that_is_absent_is_missed_with_the_reason_of_the_label() -> None:
    verdicts = judge(subject(label("not-steady")), [])
    (fault,) = faults(verdicts, ())
    assert (fault.kind, fault.code, fault.reason) == (MISS, "not-steady", "by hand")
    (row,) = table(verdicts, ["not-steady"])
    assert row.recall == 0.0


def test_any_of_several_alternatives_is_enough_and_counts_as_the_first() -> None:
    verdicts = judge(subject(label("truncated-result|refused")), [said("refused")])
    assert faults(verdicts, ()) == ()
    truncated, refused = table(verdicts, ["truncated-result", "refused"])
    assert (truncated.found, refused.labelled) == (1, 0)


def test_a_finding_without_a_label_is_a_false_alarm_once_for_each_rule() -> None:
    verdicts = judge(
        subject(label()), [said("not-steady", target="t"), said("not-steady", target="u")]
    )
    (fault,) = faults(verdicts, ())
    assert (fault.kind, fault.result) == (FALSE_ALARM, "t")
    (row,) = table(verdicts, ["not-steady"])
    assert (row.false_alarms, row.clean, row.recall) == (1, 1, None)


@pytest.mark.parametrize("one", [said("not-steady", info=True), said("single-trial")])
def test_infos_and_context_that_a_label_allows_accuse_nobody(one: Accusation) -> None:
    assert faults(judge(subject(label(may="single-trial")), [one]), ()) == ()


def test_rows_of_a_table_have_labels_of_their_own() -> None:
    rows = (label("not-steady", result="a/read"), label(result="b/read"))
    verdicts = judge(
        subject(*rows),
        [said("not-steady", target="a", workload="read"), said("not-steady", target="b")],
    )
    (fault,) = faults(verdicts, ())
    assert (fault.kind, fault.result) == (FALSE_ALARM, "b")


def test_a_finding_on_a_whole_target_is_found_for_the_row_that_expects_it() -> None:
    verdicts = judge(
        subject(label("capped-by-limit", result="a/read")), [said("capped-by-limit", target="a")]
    )
    assert faults(verdicts, ()) == ()


def test_a_known_fault_carries_its_reason() -> None:
    known = Known(kind=MISS, file="file", result="", code="not-steady", why="cannot be seen")
    (fault,) = faults(judge(subject(label("not-steady")), []), [known])
    assert fault.known == "cannot be seen"


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("f,,no-such-rule,,why", "no rule is called 'no-such-rule'"),
        ("f,,not-steady,,", "has no reason"),
        ("f,,,,why\nf,,,,why", "is labelled twice"),
    ],
)
def test_labels_that_cannot_be_meant_are_refused(tmp_path: Path, row: str, fault: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(f"file,result,must,may,why\n{row}\n")
    with pytest.raises(ValueError, match=fault):
        read_labels(path, CODES)


def test_every_run_that_can_be_made_is_recorded_and_labelled(tmp_path: Path) -> None:
    labelled = {one.file for one in read_labels(FOLDER / "runs.csv", CODES)}
    archives = {path.name.removesuffix(".tar.xz") for path in RECORDED.iterdir()}
    assert archives == {archive_of(name) for name in RUNS}
    unpack(tmp_path)
    recorded = {path.name for path in tmp_path.iterdir()}
    assert labelled == recorded == set(RUNS)


def test_every_result_of_the_corpus_has_a_label_and_every_label_its_file() -> None:
    shared = shared_folder()
    if shared is None:
        pytest.skip("needs ../shared")
    subjects = corpus(shared, CODES)
    assert unlabelled(shared, subjects) == ()
    missing = [path for one in subjects for path in one.paths if not path.is_file()]
    assert missing == []


def test_a_recorded_run_is_judged_by_the_command_line(tmp_path: Path) -> None:
    unpack(tmp_path)
    (one,) = (one for one in runs(tmp_path, CODES) if one.name == "psync-depth-32")
    assert faults(judge(one, accusations(one.paths)), ()) == ()


def test_an_unknown_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear all,\n")
    assert [one.code for one in accusations([path])] == ["refused"]
