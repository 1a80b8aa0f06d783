"""What `leadline pools` says: pools as they are, progress, and what stopped it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import click

from leadline.report.pools_output import OnePoolOutput, PoolsOutput

if TYPE_CHECKING:
    from leadline.ceph.pool_recipes import Answer
    from leadline.ceph.pool_state import OurPool, PoolState


def described(name: str, outcome: str, reason: str, state: PoolState) -> OnePoolOutput:
    pool = state.pools.get(name)
    if pool is None:
        return OnePoolOutput(name=name, outcome=outcome, reason=reason)
    place = state.place_of(name)
    held_by = (fs for fs, names in state.filesystems.items() if name in names)
    return OnePoolOutput(
        name=name,
        outcome=outcome,
        reason=reason,
        type="erasure" if state.is_erasure(name) else "replicated",
        size=pool["size"],
        min_size=pool["min_size"],
        pg_num=pool["pg_num"],
        rule=state.rule_of(name),
        failure_domain=place.failure_domain if place else None,
        device_class=place.device_class if place else None,
        applications=list(pool.get("application_metadata", {})),
        filesystem=next(held_by, None),
        made_by_leadline=name in {one.name for one in state.ours},
    )


def with_what(pool: OurPool) -> str:
    marks = [f"rule {pool.rule}"] if pool.rule else []
    marks += [f"profile {pool.profile}"] if pool.profile else []
    fs = f"; a data pool of {pool.filesystem}" if pool.filesystem else ""
    return f"with its {' and its '.join(marks)}{fs}" if marks else f"the pool alone{fs}"


def tell_steps(answer: Answer) -> None:
    """The commands that monitors would be given."""
    from leadline.ceph.pool_steps import steps

    for recipe in answer.recipes:
        for step in steps(recipe, "TOKEN"):
            click.echo(f"would do: {step}", err=True)


def print_answer(
    action: Literal["create", "remove", "list"],
    source: str,
    pools: list[OnePoolOutput],
    notes: Sequence[str],
    *,
    dry_run: bool,
    output: str,
) -> None:
    if output == "json":
        answer = PoolsOutput(
            action=action, cluster=source, dry_run=dry_run, pools=pools, notes=list(notes)
        )
        click.echo(answer.model_dump_json(by_alias=True, indent=2))
        return
    for note in notes:
        click.echo(f"note: {note}", err=True)
    if not pools:
        click.echo("there are no such pools", err=True)
        return
    from leadline.report.tables import render_rows

    columns = ["pool", "outcome", "PGs", "failure domain", "application", "why"]
    rows = [
        (
            one.name,
            one.outcome,
            one.pg_num,
            one.failure_domain,
            " ".join(filter(None, [*(one.applications or ()), one.filesystem])),
            one.reason,
        )
        for one in pools
    ]
    click.echo(render_rows(columns, rows, output))


def warn(what: str) -> None:
    click.echo(f"note: {what}", err=True)
