"""What `compare` and `report` take to say who stands against whom."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from leadline import errors
from leadline.errors import LeadlineError

if TYPE_CHECKING:
    from leadline.analysis.comparison import By, Side
    from leadline.archive.reader import Run
    from leadline.judging import Judge

Command = TypeVar("Command", bound=Callable[..., Any])
# What is named by name; any other word after --by is a label's key.
_WITHIN = ("cluster", "target", "label")


def compare_options(function: Command) -> Command:
    """`--by`, `--run` and `--band`."""
    options = (
        click.option(
            "--by",
            metavar="run|cluster|target|label|KEY",
            default="run",
            show_default=True,
            help="What the two are: runs, or clusters, targets (A or A,B,...) or labels "
            "(KEY=VALUE[,...]) of one run. KEY: the two values of that label, in the one run or "
            "the two that are named.",
        ),
        click.option(
            "--run",
            "within",
            metavar="RUN",
            default="@latest",
            show_default=True,
            help="The run that holds both, with --by cluster, target or label.",
        ),
        click.option(
            "--band",
            metavar="PERCENT",
            default="5%",
            show_default=True,
            help="Changes within it count as the same; a measured noise floor widens it.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def parse_band(text: str) -> float:
    """`5%` or `0.05` as a share. Raises LeadlineError (`usage`)."""
    number, percent, rest = text.strip().partition("%")
    try:
        band = float(number) / (100 if percent else 1)
    except ValueError:
        band = -1.0
    if rest.strip() or not 0 < band < 1:
        raise LeadlineError(
            errors.USAGE,
            f"a band of {text!r} is not between 0 % and 100 %",
            hint="write it as 5% or 0.05",
        )
    return band


def of_kind(by: str, candidate: str | None) -> By:
    """What the two are, from the word after --by. Raises LeadlineError (`usage`) for one of two
    names that are needed."""
    from leadline.analysis.comparison import By

    if by not in (*_WITHIN, "run"):
        return By.LABEL
    if candidate is None and by in ("target", "label"):
        raise LeadlineError(
            errors.USAGE,
            f"--by {by} needs two {by}s",
            hint="`leadline compare A B --by target`, `leadline compare cores=1 cores=2 --by "
            "label`, or `leadline compare RUN --by cores`",
        )
    return By.CLUSTER if candidate is None else By(by)


def runs_named(
    baseline: str, candidate: str | None, by: str, within: str, runs: Path | None
) -> tuple[Run, ...]:
    """The runs that the words are about, the baseline's first; one where all are about the same."""
    from leadline.archive.runs import find_run, runs_folder

    named = [baseline] if candidate is None else [baseline, candidate]
    names = [within] if by in _WITHIN and candidate is not None else named
    found = [find_run(name, runs_folder(runs)) for name in names]
    return tuple({run.path: run for run in found}.values())


def find_sides(
    baseline: str,
    candidate: str | None,
    by: str,
    within: str,
    runs: Path | None,
    judge: Judge,
) -> tuple[Side, Side]:
    """The two that the words mean. One run with two clusters stands for both of them."""
    from leadline.analysis.comparison import By
    from leadline.analysis.sides import by_label, places, two_runs, within_run
    from leadline.archive.runs import find_run, runs_folder

    folder = runs_folder(runs)
    if of_kind(by, candidate) is By.LABEL and by != By.LABEL:
        return by_label(
            find_run(baseline, folder), find_run(candidate or baseline, folder), by, judge
        )
    if candidate is None:
        run = find_run(baseline, folder)
        found = places(run)
        if len(found) != 2:
            raise LeadlineError(
                errors.USAGE,
                f"run {run.id} alone is no comparison: it has "
                f"{'no' if not found else len(found)} cluster{'' if len(found) == 1 else 's'}",
                context=[", ".join(found)] if found else [],
                hint="name a second run, or two parts of this one: "
                f"`leadline compare A B --by target --run {run.id}`",
            )
        return within_run(run, By.CLUSTER, *found, judge)
    if by == By.RUN:
        return two_runs(find_run(baseline, folder), find_run(candidate, folder), judge)
    if baseline == candidate:
        raise LeadlineError(
            errors.USAGE,
            f"both sides are the {by} {baseline!r}",
            hint=f"name two {by}s: `leadline compare A B --by {by}`",
        )
    return within_run(find_run(within, folder), By(by), baseline, candidate, judge)
