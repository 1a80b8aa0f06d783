"""Render an audit as JUnit XML: a test case per trial, failed where it has an error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from leadline.archive.reader import Run
from leadline.findings import Finding, Severity
from leadline.report.words import evidence_text, place
from leadline.text import visible


def junit(audited: Iterable[tuple[Run, Sequence[Finding]]]) -> str:
    """Render a suite for each run; a finding of a whole cell or run is its own test case."""
    root = Element("testsuites", name="leadline audit")
    for run, findings in audited:
        suite = SubElement(root, "testsuite", name=visible(run.id))
        cases = failures = 0
        by_trial: dict[str, list[Finding]] = {}
        for finding in findings:
            if finding.trial is not None:
                by_trial.setdefault(finding.trial, []).append(finding)
            else:
                where = place(finding.target, finding.workload, finding.level)
                failures += _case(suite, where, finding.code, [finding])
                cases += 1
        for planned in run.plan.trials:
            cell = run.plan.cells[planned.cell]
            where = place(cell.target, cell.workload.name, cell.level)
            failures += _case(suite, where, planned.id, by_trial.pop(planned.id, []))
            cases += 1
        suite.set("tests", str(cases))
        suite.set("failures", str(failures))
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode")


def _case(suite: Element, where: str, name: str, findings: Sequence[Finding]) -> int:
    """Add a test case; return 1 if it failed."""
    case = SubElement(suite, "testcase", classname=visible(where), name=visible(name))
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if errors:
        codes = ", ".join(dict.fromkeys(finding.code for finding in errors))
        failure = SubElement(case, "failure", type=codes, message=visible(errors[0].message))
        failure.text = "\n".join(map(_finding_text, errors))
    others = [finding for finding in findings if finding.severity is not Severity.ERROR]
    if others:
        SubElement(case, "system-out").text = "\n".join(map(_finding_text, others))
    return int(bool(errors))


def _finding_text(finding: Finding) -> str:
    numbers = ", ".join(
        f"{name} {evidence_text(name, value)}" for name, value in finding.evidence.items()
    )
    op = f" ({finding.op.value})" if finding.op else ""
    text = f"{finding.severity.value} {finding.code}{op}: {finding.message} {finding.remedy}"
    return visible(text + (f" [{numbers}]" if numbers else ""))
