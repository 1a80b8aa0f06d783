"""Results of a gate in the formats of continuous integration: JUnit, GitHub, GitLab."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from leadline.text import visible

# GitHub's workflow commands end at a line break, and separate properties by commas and colons.
_MESSAGE = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_MESSAGE, ":": "%3A", ",": "%2C"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A check with its outcome (`pass`, `fail`, `inconclusive`); `text` is its result in a line."""

    name: str
    rule: str
    outcome: str
    text: str


def render_checks(form: str, suite: str, path: str, checks: Sequence[Check]) -> str:
    """Render checks as `junit`, `github` or `gitlab`; `suite` names them, `path` is their file."""
    if form == "junit":
        return junit_checks(suite, checks)
    return github_annotations(checks) if form == "github" else gitlab_code_quality(path, checks)


def junit_checks(suite: str, checks: Sequence[Check]) -> str:
    """Render a test case for each check; an inconclusive one is skipped."""
    failed = sum(check.outcome == "fail" for check in checks)
    skipped = sum(check.outcome == "inconclusive" for check in checks)
    root = Element("testsuites", name="leadline gate")
    counts = {"tests": str(len(checks)), "failures": str(failed), "skipped": str(skipped)}
    within = SubElement(root, "testsuite", name=visible(suite), attrib=counts)
    for check in checks:
        case = SubElement(
            within, "testcase", classname=visible(check.rule), name=visible(check.name)
        )
        if check.outcome == "fail":
            SubElement(case, "failure", type="limit", message=visible(check.text))
        elif check.outcome == "inconclusive":
            SubElement(case, "skipped", message=visible(check.text))
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode")


def github_annotations(checks: Sequence[Check]) -> str:
    """Render a workflow command for each check that does not pass, which GitHub shows as an
    annotation. Source: docs.github.com, Workflow commands for GitHub Actions."""
    kinds = {"fail": "error", "inconclusive": "warning"}
    return "\n".join(
        f"::{kinds[check.outcome]} title={_replaced(check.rule, _PROPERTY)}::"
        f"{_replaced(check.text, _MESSAGE)}"
        for check in checks
        if check.outcome in kinds
    )


def gitlab_code_quality(path: str, checks: Sequence[Check]) -> str:
    """Render a code quality report, whose entries GitLab shows in a merge request; `path` is the
    file that they belong to. Source: docs.gitlab.com, Code Quality, report format."""
    severities = {"fail": "major", "inconclusive": "minor"}
    report = [
        {
            "description": visible(check.text),
            "check_name": visible(check.rule),
            "fingerprint": hashlib.sha256(f"{check.rule}\0{check.name}".encode()).hexdigest(),
            "severity": severities[check.outcome],
            "location": {"path": path, "lines": {"begin": 1}},
        }
        for check in checks
        if check.outcome in severities
    ]
    return json.dumps(report, indent=2)


def _replaced(text: str, table: dict[str, str]) -> str:
    return "".join(table.get(sign, sign) for sign in visible(text))
