"""Labels against findings: recall and false alarms of every rule. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.audit.judge import Accusation
from benchmarks.audit.labels import Known, Label
from benchmarks.audit.subjects import Subject

MISS = "miss"
FALSE_ALARM = "false-alarm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A label that was not found, or a finding that no label allows."""

    kind: str
    file: str
    result: str
    code: str
    reason: str
    known: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One label against what was said of its input: the wanted codes by whether they were found
    (a group of alternatives counts as its first), and the faults."""

    label: Label
    found: tuple[tuple[str, bool], ...]
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One rule. `clean`: labels on which it had to be silent; `false_alarms`: on how many of them
    it was not."""

    code: str
    labelled: int
    found: int
    clean: int
    false_alarms: int

    @property
    def recall(self) -> float | None:
        return self.found / self.labelled if self.labelled else None


def judge(subject: Subject, said: Iterable[Accusation]) -> tuple[Verdict, ...]:
    """One verdict for each label on the subject, and one for what concerns none of them."""
    given = tuple(said)
    verdicts = []
    taken: set[int] = set()
    for label in subject.labels:
        mine = [number for number, one in enumerate(given) if _concerns(label, one)]
        taken.update(mine)
        verdicts.append(_verdict(subject, label, [given[number] for number in mine]))
    left = [one for number, one in enumerate(given) if number not in taken]
    if left:
        verdicts.append(_verdict(subject, Label(file=subject.name), left))
    return tuple(verdicts)


def _concerns(label: Label, said: Accusation) -> bool:
    """Whether a finding is about what the label is about. One that names no workload is about
    every result of its target, and belongs to those whose label knows it."""
    if not label.result or (said.target and f"{said.target}/{said.workload}" == label.result):
        return True
    target, _, _ = label.result.partition("/")
    return not said.workload and said.target in ("", target) and said.code in label.allowed


def _verdict(subject: Subject, label: Label, said: Sequence[Accusation]) -> Verdict:
    codes = {one.code for one in said}
    found = tuple((group[0], not codes.isdisjoint(group)) for group in label.must)
    missed = (
        Fault(
            kind=MISS,
            file=subject.name,
            result=label.result,
            code=group[0],
            reason=label.why,
        )
        for group in label.must
        if codes.isdisjoint(group)
    )
    # One line for each rule, however many results it accuses.
    first: dict[str, Accusation] = {}
    for one in said:
        if one.serious and one.code not in label.allowed:
            first.setdefault(one.code, one)
    alarms = (
        Fault(
            kind=FALSE_ALARM,
            file=subject.name,
            result=label.result or f"{one.target}/{one.workload}".strip("/"),
            code=one.code,
            reason=one.message,
        )
        for one in first.values()
    )
    return Verdict(label=label, found=found, faults=(*missed, *alarms))


def table(verdicts: Sequence[Verdict], codes: Iterable[str]) -> tuple[Row, ...]:
    rows = []
    for code in codes:
        found = [hit for verdict in verdicts for name, hit in verdict.found if name == code]
        alarms = sum(
            any(fault.kind == FALSE_ALARM and fault.code == code for fault in verdict.faults)
            for verdict in verdicts
        )
        clean = sum(code not in verdict.label.allowed for verdict in verdicts)
        rows.append(
            Row(
                code=code,
                labelled=len(found),
                found=sum(found),
                clean=clean,
                false_alarms=alarms,
            )
        )
    return tuple(rows)


def faults(verdicts: Iterable[Verdict], known: Iterable[Known]) -> tuple[Fault, ...]:
    """All faults, each with the reason why it is known, if it is."""
    reasons = {(one.kind, one.file, one.result, one.code): one.why for one in known}
    return tuple(
        Fault(
            kind=fault.kind,
            file=fault.file,
            result=fault.result,
            code=fault.code,
            reason=fault.reason,
            known=reasons.get((fault.kind, fault.file, verdict.label.result, fault.code), ""),
        )
        for verdict in verdicts
        for fault in verdict.faults
    )
