"""Labels of findings on a page (`E1`, `W2`), and the list that they refer to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from leadline.analysis.figures import FindingMark
from leadline.findings import Finding, Severity
from leadline.report.document import FindingGroup, FindingItem, FindingList, Mark
from leadline.report.words import evidence_name, evidence_text, place


class Marks:
    """Labels of findings, one per code and severity: `E1`, `E2`, ... `W1` ... `I1`.

    `suffix` distinguishes the marks of two runs on one page.
    """

    def __init__(self, findings: Iterable[Finding], suffix: str = "") -> None:
        keys = sorted(
            {(finding.code, finding.severity) for finding in findings},
            key=lambda key: (-key[1].order, key[0]),
        )
        counts = dict.fromkeys(Severity, 0)
        self._marks: dict[tuple[str, Severity], Mark] = {}
        for code, severity in keys:
            counts[severity] += 1
            label = f"{severity.value[0].upper()}{counts[severity]}{suffix}"
            self._marks[code, severity] = Mark(label=label, code=code, severity=severity)

    @property
    def all(self) -> tuple[Mark, ...]:
        return tuple(self._marks.values())

    def mark_of(self, finding: Finding) -> Mark:
        return self._marks[finding.code, finding.severity]

    def for_number(self, findings: Sequence[FindingMark]) -> tuple[Mark, ...]:
        """Select the marks of one number: errors, and warnings that are not of the whole run."""
        return self._chosen(
            finding
            for finding in findings
            if finding.severity is Severity.ERROR
            or (finding.severity is Severity.WARNING and not finding.whole_run)
        )

    def for_row(self, findings: Iterable[FindingMark]) -> tuple[Mark, ...]:
        return self._chosen(
            finding
            for finding in findings
            if finding.severity is Severity.INFO and not finding.whole_run
        )

    def _chosen(self, findings: Iterable[FindingMark]) -> tuple[Mark, ...]:
        keys = dict.fromkeys((finding.code, finding.severity) for finding in findings)
        return tuple(self._marks[key] for key in keys if key in self._marks)


def finding_list(findings: Sequence[Finding], marks: Marks) -> FindingList:
    """Group findings by code and severity, the most severe first."""
    gathered: Mapping[Mark, list[Finding]] = {mark: [] for mark in marks.all}
    for finding in findings:
        gathered[marks.mark_of(finding)].append(finding)
    return FindingList(
        groups=tuple(
            FindingGroup(
                mark=mark,
                items=tuple(map(_finding_item, given)),
                remedy=given[0].remedy,
            )
            for mark, given in gathered.items()
            if given
        )
    )


def _finding_item(finding: Finding) -> FindingItem:
    op = finding.op.value if finding.op else ""
    trial = f"trial {finding.trial}" if finding.trial else ""
    return FindingItem(
        where=place(finding.target, finding.workload, finding.level, op, trial),
        message=finding.message,
        evidence=tuple(
            (evidence_name(name), evidence_text(name, value))
            for name, value in finding.evidence.items()
        ),
    )
