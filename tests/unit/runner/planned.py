"""Runs that are planned and not yet begun."""

from __future__ import annotations

from pathlib import Path

from leadline.archive.writer import RunWriter
from leadline.cli.options import this_session
from leadline.plan.loader import Overrides, load_plan


def planned_run(folder: Path, plan: str) -> RunWriter:
    """The archive `folder`/run of a plan, given as YAML."""
    path = folder / "plan.yaml"
    path.write_text(plan)
    return RunWriter.create(
        folder / "run",
        plan=load_plan(path, Overrides()),
        plan_as_given=path.read_bytes(),
        created_at="2026-11-21T00:00:00Z",
        session=this_session(),
    )
