"""The audit's fixtures."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.audit.registry import audit
from leadline.findings import Finding
from leadline.plan.models import Cell
from tests.unit.audit.audit_archives import Judge, Stored, build, cell


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Audit a run of one cell with the trials given."""

    def judged(*stored: Stored | None, of: Cell | None = None) -> tuple[Finding, ...]:
        return audit(build(tmp_path / "run", {"cell": (of or cell(), list(stored))}))

    return judged
