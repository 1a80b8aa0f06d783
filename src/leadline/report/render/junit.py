"""The audit as JUnit XML, which CI systems show: a test case a trial, failed where a number must
not be used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from leadline.archive.reader import Run
from leadline.findings import Finding, Severity
from leadline.report.words import evidence_text, place
from leadline.text import visible_lines

# What XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(audited: Iterable[tuple[Run, Sequence[Finding]]]) -> str:
    """A suite for each run. A finding of a whole cell or run is a test case of its own."""
    root = Element("testsuites", name="leadline audit")
    for run, findings in audited:
        suite = SubElement(root, "testsuite", name=_text(run.id))
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
    """Adds a test case; 1 if it failed."""
    case = SubElement(suite, "testcase", classname=_text(where), name=_text(name))
    errors = [one for one in findings if one.severity is Severity.ERROR]
    if errors:
        codes = ", ".join(dict.fromkeys(one.code for one in errors))
        failure = SubElement(case, "failure", type=codes, message=_text(errors[0].message))
        failure.text = _text("\n".join(_told(one) for one in errors))
    others = [one for one in findings if one.severity is not Severity.ERROR]
    if others:
        SubElement(case, "system-out").text = _text("\n".join(_told(one) for one in others))
    return int(bool(errors))


def _told(finding: Finding) -> str:
    numbers = ", ".join(
        f"{name} {evidence_text(name, value)}" for name, value in finding.evidence.items()
    )
    op = f" ({finding.op.value})" if finding.op else ""
    return f"{finding.severity.value} {finding.code}{op}: {finding.message} {finding.remedy}" + (
        f" [{numbers}]" if numbers else ""
    )


def _text(text: str) -> str:
    return _NOT_XML.sub("?", visible_lines(text))
