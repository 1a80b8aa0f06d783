"""Runs that are planned and not yet begun, and how a test runs them on folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leadline.archive.writer import RunWriter
from leadline.cli.options import this_session
from leadline.engines.choose import OneEngine
from leadline.plan.loader import Overrides, load_plan
from leadline.runner.events import Observer, StopRequest
from leadline.runner.ports import Engine, TargetAdapter
from leadline.runner.prepared import RunRequest, prepare_targets
from leadline.runner.session import Outcome, needed_targets, run_session
from leadline.targets.local import DirectoryTarget


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


def run_to_do(
    writer: RunWriter,
    engine: Engine,
    adapters: Sequence[TargetAdapter] | None = None,
    *,
    stop: StopRequest | None = None,
    observe: Observer = lambda event: None,
    **more: Any,
) -> Outcome:
    """Run what is to do, on the folders of the plan without `adapters`, and close the archive;
    `more` are fields of the request."""
    plan, to_do, engines = writer.run.plan, writer.run.to_do(), OneEngine(engine)
    if adapters is None:
        adapters = [DirectoryTarget(target) for target in plan.targets]
    try:
        return run_session(
            RunRequest(
                plan=plan,
                to_do=to_do,
                targets=prepare_targets(plan, adapters, engines, needed_targets(writer.run, to_do)),
                engines=engines,
                writer=writer,
                stop=stop or StopRequest(),
                observe=observe,
                **more,
            )
        )
    finally:
        writer.close()
