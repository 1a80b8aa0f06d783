"""The command line prints through three functions, which escape or get what a renderer escaped."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

CLI = ROOT / "src" / "leadline" / "cli"
# `output` has the three functions, `main` prints errors and tracebacks.
PRINTERS = {"output.py", "main.py"}
VERBS = sorted(path for path in CLI.glob("*.py") if path.name not in PRINTERS)
# What renders an answer, and what holds no text of others.
RENDERED = re.compile(
    r"echo_rendered\(\s*(?:[^\n]*\.to_json\(\)|render_rows\(|show_table\(|compare_csv\("
    r"|(?:render_)?markdown\(|junit\(|render_checks\(|render_export\("
    r"|describe\(|_commands\(|page\(|text\.rstrip\("
    r"|\"\\n\"\.join\(SCHEMAS\)|json\.dumps\()"
)


@pytest.mark.parametrize("path", VERBS, ids=lambda path: path.stem)
def test_a_verb_prints_only_what_is_escaped(path: Path) -> None:
    source = path.read_text("utf-8")
    assert not re.search(
        r"click\.s?echo|(?<!console\.)\bprint\(|sys\.std(?:out|err)\.write", source
    )
    calls = source.count("echo_rendered(")
    assert len(RENDERED.findall(source)) == calls
