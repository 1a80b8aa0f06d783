"""Findings of one code as one, with their cells."""

from __future__ import annotations

from dataclasses import replace

from leadline.findings import Finding, FindingCell, Severity, aggregate
from leadline.metrics import Op

ONE = Finding(
    code="short-runtime",
    severity=Severity.WARNING,
    target="rep3",
    workload="read",
    op=Op.READ,
    trial="t0001",
    evidence={"runtime_s": 3.0},
    message="3 s of 60 s.",
    remedy="Run longer.",
)


def test_findings_of_one_code_and_severity_are_one_with_its_cells() -> None:
    found = aggregate(
        [
            ONE,
            replace(ONE, trial="t0002", evidence={"runtime_s": 1.0}, message="1 s of 60 s."),
            replace(ONE, target="rep2", trial="t0003", evidence={"runtime_s": 9.0, "ios": 2.0}),
            replace(ONE, severity=Severity.ERROR, trial=None),
            replace(ONE, code="single-trial", trial=None, evidence={}),
        ]
    )
    assert [(one.code, one.severity, one.count) for one in found] == [
        ("short-runtime", Severity.WARNING, 3),
        ("short-runtime", Severity.ERROR, 1),
        ("single-trial", Severity.WARNING, 1),
    ]
    first = found[0]
    assert (first.message, first.remedy) == ("3 s of 60 s.", "Run longer.")
    assert first.evidence == {"runtime_s": (1.0, 9.0), "ios": (2.0, 2.0)}
    assert first.cells == (
        FindingCell(
            target="rep3", workload="read", level="", op=Op.READ, trials=("t0001", "t0002")
        ),
        FindingCell(target="rep2", workload="read", level="", op=Op.READ, trials=("t0003",)),
    )
    assert found[1].cells[0].trials == ()


def test_nothing_is_nothing() -> None:
    assert aggregate([]) == ()
