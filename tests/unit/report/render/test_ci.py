"""Results of a gate for continuous integration: three formats, hostile texts."""

from __future__ import annotations

import json
from xml.etree import ElementTree

from leadline.report.render.ci import (
    Check,
    github_annotations,
    gitlab_code_quality,
    junit_checks,
)

HOSTILE = "a\n::error::x,y:z 5% <b>\x1b[31m"
CHECKS = (
    Check(name="p · w · read iops", rule="small reads", outcome="pass", text="kept"),
    Check(name=HOSTILE, rule=HOSTILE, outcome="fail", text=HOSTILE),
    Check(name="q", rule="tail", outcome="inconclusive", text="needs about 9 trials"),
)


def test_junit_counts_and_holds_every_check() -> None:
    suite = ElementTree.fromstring(junit_checks("b vs a", CHECKS))[0]
    assert suite.attrib == {"name": "b vs a", "tests": "3", "failures": "1", "skipped": "1"}
    assert [child.tag for case in suite for child in case] == ["failure", "skipped"]
    assert "\x1b" not in ElementTree.tostring(suite, "unicode")


def test_github_gets_one_line_for_each_check_that_does_not_pass() -> None:
    lines = github_annotations(CHECKS).splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["::error", "::warning"]
    title, _, text = lines[0].removeprefix("::error title=").partition("::")
    assert "," not in title
    assert ":" not in title.replace("%3A", "")
    assert "5%25" in text
    assert lines[1] == "::warning title=tail::needs about 9 trials"


def test_gitlab_gets_one_entry_for_each_check_that_does_not_pass() -> None:
    report = json.loads(gitlab_code_quality("policy.yaml", CHECKS))
    assert [entry["severity"] for entry in report] == ["major", "minor"]
    assert len({entry["fingerprint"] for entry in report}) == 2
    assert report[1] == {
        "description": "needs about 9 trials",
        "check_name": "tail",
        "fingerprint": report[1]["fingerprint"],
        "severity": "minor",
        "location": {"path": "policy.yaml", "lines": {"begin": 1}},
    }
    again = json.loads(gitlab_code_quality("policy.yaml", CHECKS))
    assert again == report
