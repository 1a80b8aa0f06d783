"""`leadline compare`: does one thing do better than another, and why?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from leadline.cli.options import ComparisonRequest, compare_options, format_option, runs_option
from leadline.cli.output import echo_error, echo_line, echo_rendered, print_document, print_json
from leadline.errors import Exit

if TYPE_CHECKING:
    from leadline.analysis.comparison import Comparison
    from leadline.analysis.limits import LimitResult


@click.command()
@click.argument("baseline")
@click.argument("candidate", required=False)
@runs_option
@compare_options
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="Only these: iops, bandwidth, mean, p50, p95, p99, p99.9, p99.99, storage-cpu, "
    "client-cpu, disk-bytes, network-bytes, memory.",
)
@click.option(
    "--fail-on",
    "limits",
    multiple=True,
    metavar="LIMIT",
    help="Exit status 1 if a change exceeds it, 5 if that is inconclusive: 'write p99 > +20%'.",
)
@click.option("--details", is_flag=True, help="Also explanations, settings, findings and method.")
@format_option("text", "json", "csv", "csv-raw", "markdown")
def command(
    band: float,
    between_runs: float,
    metrics: tuple[str, ...],
    limits: tuple[str, ...],
    output: str,
    *,
    details: bool,
    **given: Any,
) -> Exit:
    """Compare two runs, or two clusters, targets or labels of one run: every cell with its change,
    its interval and a verdict, next to the configuration differences of the two.

    One run with two clusters is compared with itself: the first cluster is the baseline. With --by
    and a label's key, its two values are compared, all other labels held fixed. With several runs
    of a system, separated by commas, the variation from run to run is measured. Ends with exit
    status 6 if no cell can be compared.

    \b
    Example:
        leadline compare study-single-zone study-multi-zone
        leadline compare before-1,before-2,before-3 after-1,after-2,after-3
        leadline compare rep3 rep2 --by target --run @latest
        leadline compare @latest --by cores
        leadline compare @previous @latest --fail-on 'write p99 > +20%'
    """
    from leadline.analysis.compare import compare
    from leadline.analysis.limits import check_limits, parse_limit
    from leadline.analysis.selectors import parse_metric
    from leadline.analysis.verdicts import Verdict
    from leadline.judge import judging
    from leadline.metrics import Metric

    request = ComparisonRequest(**given)
    wanted = tuple(dict.fromkeys(map(parse_metric, metrics))) or tuple(Metric)
    parsed = [parse_limit(limit) for limit in limits]
    with judging(request.find_runs(), verifying=False) as (judge, _):
        comparison = compare(
            *request.find_sides(judge),
            by=request.kind,
            band=band,
            between_runs=between_runs,
            metrics=wanted,
            primary=[limit.selector for limit in parsed],
        )
    compared = any(cell.verdict is not Verdict.NOT_COMPARABLE for cell in comparison.cells)
    results = check_limits(comparison.tested, parsed) if compared else ()
    _print(comparison, results, output, details=details)
    if not compared:
        print_reasons(comparison)
        return Exit.NOT_COMPARABLE
    return _print_missed_limits(results)


def print_reasons(comparison: Comparison) -> None:
    """Print why no cell can be compared."""
    from leadline import errors
    from leadline.errors import LeadlineError
    from leadline.report.words import listed

    reasons = dict.fromkeys(
        reason for cell in comparison.cells for reason in cell.judgement.reasons
    )
    alone = {
        comparison.baseline.name: comparison.baseline_alone,
        comparison.candidate.name: comparison.candidate_alone,
    }
    context = [f"reasons: {listed(reasons)}"] if reasons else []
    context += [f"only in {side}: {listed(names)}" for side, names in alone.items() if names]
    fact = (
        "no cell of the two can be compared"
        if comparison.cells
        else "the two have no target, workload and level in common"
    )
    problem = LeadlineError(
        errors.NOT_COMPARABLE,
        fact,
        context=context,
        hint="`leadline audit` says what is wrong with numbers; --by target names partners that "
        "are called differently",
    )
    echo_error(problem)


def _print_missed_limits(results: tuple[LimitResult, ...]) -> Exit:
    from leadline.analysis.limits import Outcome
    from leadline.report.words import change_text, op_text, place

    for result in results:
        if result.outcome is Outcome.KEPT:
            continue
        cell = result.cell
        ratio = cell.judgement.ratio
        change = "the change is unknown" if ratio is None else change_text(ratio)
        where = place(cell.target, cell.workload, cell.level, op_text(cell.op))
        echo_line(f"{result.outcome.value}: {result.limit.text}: {where}: {change}", err=True)
    outcomes = {result.outcome for result in results}
    if Outcome.EXCEEDED in outcomes:
        return Exit.NEGATIVE
    return Exit.INCONCLUSIVE if Outcome.UNDECIDED in outcomes else Exit.ANSWERED


def _print(
    comparison: Comparison, results: tuple[LimitResult, ...], output: str, *, details: bool
) -> None:
    from leadline.report.pages.comparison.page import comparison_document, comparison_summary

    summary = comparison_summary(comparison)
    if output in ("json", "csv", "csv-raw"):
        from leadline.report.answers.comparison import compare_csv, compare_output

        headline = summary.summary[0] if summary.summary else ""
        answer = compare_output(comparison, headline, results)
        if output == "json":
            print_json(answer)
        else:
            echo_rendered(compare_csv(answer, output))
    else:
        document = comparison_document(comparison) if output == "markdown" else summary
        print_document(document, output, full=details)
