"""Labels of doubts: each code and severity of a run gets one, which stands beside the numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from leadline.analysis.doubts import Doubt
from leadline.findings import Finding, Severity
from leadline.report.document import FindingGroup, FindingItem, FindingList, Mark
from leadline.report.wording import evidence_name, evidence_text, place, visible

_LETTER = {Severity.ERROR: "E", Severity.WARNING: "W", Severity.INFO: "I"}
Key = tuple[str, Severity]


class Marks:
    """`E1`, `E2`, ... `W1` ... `I1` in the order of severity, then of code; behind each `suffix`,
    which tells the marks of two runs on one page apart."""

    def __init__(self, findings: Iterable[Finding], suffix: str = "") -> None:
        keys = sorted(
            {(finding.code, finding.severity) for finding in findings},
            key=lambda key: (-key[1].order, key[0]),
        )
        counts = dict.fromkeys(Severity, 0)
        self._marks: dict[Key, Mark] = {}
        for code, severity in keys:
            counts[severity] += 1
            label = f"{_LETTER[severity]}{counts[severity]}{suffix}"
            self._marks[code, severity] = Mark(label=label, code=code, severity=severity)

    @property
    def all(self) -> tuple[Mark, ...]:
        return tuple(self._marks.values())

    def of(self, finding: Finding) -> Mark:
        return self._marks[finding.code, finding.severity]

    def for_number(self, doubts: Sequence[Doubt]) -> tuple[Mark, ...]:
        """Marks to stand beside one number.

        Context (info) belongs to its row, and a warning about the whole run is said once: beside
        every number neither could be read any more. An error always stands beside its number.
        """
        return self._chosen(
            doubt
            for doubt in doubts
            if doubt.severity is Severity.ERROR
            or (doubt.severity is Severity.WARNING and not doubt.whole_run)
        )

    def for_row(self, doubts: Iterable[Doubt]) -> tuple[Mark, ...]:
        """Marks of context, to stand once in a row."""
        return self._chosen(
            doubt for doubt in doubts if doubt.severity is Severity.INFO and not doubt.whole_run
        )

    def _chosen(self, doubts: Iterable[Doubt]) -> tuple[Mark, ...]:
        keys = dict.fromkeys((doubt.code, doubt.severity) for doubt in doubts)
        return tuple(self._marks[key] for key in keys if key in self._marks)


def finding_list(findings: Sequence[Finding], marks: Marks) -> FindingList:
    """Every finding, gathered by code and severity, the most severe first."""
    gathered: Mapping[Mark, list[Finding]] = {mark: [] for mark in marks.all}
    for finding in findings:
        gathered[marks.of(finding)].append(finding)
    return FindingList(groups=tuple(_group(mark, given) for mark, given in gathered.items()))


def _group(mark: Mark, findings: Sequence[Finding]) -> FindingGroup:
    return FindingGroup(
        mark=mark,
        items=tuple(
            FindingItem(
                where=place(
                    finding.target,
                    finding.workload,
                    finding.level,
                    finding.op.value if finding.op else "",
                    f"trial {finding.trial}" if finding.trial else "",
                ),
                message=visible(finding.message),
                evidence=tuple(
                    (evidence_name(name), evidence_text(name, value))
                    for name, value in finding.evidence.items()
                ),
            )
            for finding in findings
        ),
        remedies=tuple(dict.fromkeys(visible(finding.remedy) for finding in findings)),
    )
