"""The audit as a whole: order, trust, pages, and no rule without a page and tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from leadline.analysis.predict.facts import FOUND_BY_PREDICT
from leadline.analysis.scaling.curves import FOUND_BY_SCALE
from leadline.audit.registry import RULES, audit, page, trusted
from leadline.errors import LeadlineError
from leadline.findings import Severity
from tests.unit.audit import (
    test_cache_served_reads,
    test_cluster_not_healthy,
    test_public2,
    test_rules,
    test_rules_on_clients,
    test_rules_on_imports,
    test_rules_on_lifecycles,
    test_rules_on_physics,
    test_rules_on_studies,
    test_throttled_system,
)
from tests.unit.audit.audit_archives import Judge, Stored, build, cell

PAGES = Path(__file__).parents[3] / "docs" / "rules"
HEADINGS = ["What it checks", "The physics", "When it stays silent", "Example", "What to do"]


def test_good_runs_are_trusted_and_have_no_warning(tmp_path: Path) -> None:
    names = ("good-randread-qd1", "good-randread-qd16", "good-randread-qd8x2")
    cells = {name: (cell(name), [Stored(name)] * 3) for name in names}
    findings = audit(build(tmp_path / "run", cells))
    assert {finding.severity for finding in findings} <= {Severity.INFO}
    assert trusted(findings)


def test_gravest_first_then_the_order_of_the_plan(judge: Judge) -> None:
    findings = judge(Stored("psync-qd16"), Stored(), Stored("gtod-reduce"), None)
    orders = [finding.severity.order for finding in findings]
    assert orders == sorted(orders, reverse=True)
    errors = [finding.trial for finding in findings if finding.severity is Severity.ERROR]
    assert errors == ["t0001", "t0003", "t0004"]
    assert not trusted(findings)


def test_deterministic(tmp_path: Path) -> None:
    cells = {"a": (cell(), [Stored("psync-qd16"), Stored(), None])}
    run = build(tmp_path / "run", cells)
    assert audit(run) == audit(type(run)(run.path))


def test_sections_of_a_job_file_are_named_like_their_measurements(tmp_path: Path) -> None:
    own = cell("own", job_file=True)
    run = build(tmp_path / "run", {"a": (own, [Stored("good-phases"), Stored("good-phases")])})
    measured = {row.workload for row in run.measurements()}
    workloads = {finding.workload for finding in audit(run) if finding.op is not None}
    assert workloads <= measured | {"own"}
    assert workloads & measured


def test_evidence_is_numbers_and_messages_are_sentences(judge: Judge) -> None:
    findings = judge(*[Stored(path.name) for path in sorted(RECORDED.iterdir()) if path.is_dir()])
    assert len({finding.code for finding in findings}) >= 8
    for finding in findings:
        assert all(isinstance(value, int | float) for value in finding.evidence.values())
        for text in (finding.message, finding.remedy):
            assert text[0].isupper() or text.startswith("fio") or text[0].isdigit(), text
            assert text.endswith("."), text


RECORDED = Path(__file__).parent / "recorded"


OTHERS = FOUND_BY_SCALE | FOUND_BY_PREDICT


@pytest.mark.parametrize("code", [*(rule.code for rule in RULES), *OTHERS])
def test_every_rule_has_a_page_with_its_parts(code: str) -> None:
    text = page(code, OTHERS)
    assert text.startswith(f"# {code}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS


@pytest.mark.parametrize("code", [rule.code for rule in RULES])
def test_every_rule_is_tested_both_ways(code: str) -> None:
    prefix = f"test_{code.replace('-', '_')}_"
    modules = (
        test_rules,
        test_rules_on_clients,
        test_rules_on_imports,
        test_rules_on_lifecycles,
        test_rules_on_physics,
        test_rules_on_studies,
        test_cache_served_reads,
        test_cluster_not_healthy,
        test_public2,
        test_throttled_system,
    )
    names = [name for module in modules for name in dir(module) if name.startswith(prefix)]
    assert any("fires" in name for name in names)
    assert any("silent" in name for name in names)


def test_every_page_is_of_a_rule_and_every_rule_of_a_file() -> None:
    codes = {rule.code for rule in RULES}
    assert len(codes) == len(RULES)
    assert {path.stem for path in PAGES.glob("*.md")} == codes | OTHERS.keys()
    rules = Path(__file__).parents[3] / "src" / "leadline" / "audit" / "rules"
    files = {path.stem.replace("_", "-") for path in rules.glob("*.py")} - {"--init--"}
    assert files == codes


def test_an_unknown_code_names_the_nearest() -> None:
    with pytest.raises(LeadlineError) as raised:
        page("queue-depth")
    assert raised.value.kind.code == "rule-unknown"
    assert "queue-depth-not-reached" in (raised.value.hint or "")
