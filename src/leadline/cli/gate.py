"""`leadline gate`: is the candidate good enough?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from leadline.cli.options import FILE, ComparisonRequest, format_option, runs_option
from leadline.cli.output import echo_line, echo_rendered, print_document, print_json
from leadline.errors import Exit

if TYPE_CHECKING:
    from leadline.analysis.compare import PairedCell
    from leadline.analysis.comparison import Comparison
    from leadline.analysis.gate import Gate, Policy
    from leadline.analysis.gate_rates import GateRates


@click.command()
@click.argument("baseline")
@click.argument("candidate", required=False)
@runs_option
@click.option(
    "--policy", "policy_file", type=FILE, required=True, metavar="FILE", help="The limits, as YAML."
)
@click.option(
    "--by",
    metavar="run|cluster|target|label|KEY",
    default="run",
    show_default=True,
    help="What the two are, as of `leadline compare`.",
)
@click.option(
    "--run",
    "within",
    metavar="RUN",
    default="@latest",
    show_default=True,
    help="The run that holds both, with --by cluster, target or label.",
)
@click.option(
    "--confirm",
    metavar="RUN",
    help="A second run of the candidate: an exceeded limit counts if this run exceeds it, too.",
)
@click.option(
    "--self-test",
    is_flag=True,
    help="Simulate how often the gate fails without a change and with one; status 1 if it is "
    "not sound.",
)
@format_option("text", "json", "markdown", "junit", "github", "gitlab", "chat")
def command(
    policy_file: Path, confirm: str | None, output: str, *, self_test: bool, **given: Any
) -> Exit:
    """Check a comparison against the limits of a policy, for nightly jobs and releases.

    Ends with exit status 0 (pass), 1 (fail), 5 (inconclusive) or 6 (nothing can be compared). All
    limits are tested together: without a change, at most 5 % of gates fail.

    \b
    Example:
        leadline gate @previous @latest --policy policy.yaml
        leadline gate release-1 @previous --policy policy.yaml --confirm @latest
        leadline gate @previous @latest --policy policy.yaml --self-test
        leadline gate old new --policy policy.yaml --format github
    """
    from leadline.analysis.gate import decide, load_policy
    from leadline.analysis.verdicts import Verdict
    from leadline.cli.compare import print_reasons

    policy = load_policy(policy_file)
    comparison, rows = _compare(ComparisonRequest(**given), policy, simulating=self_test)
    if all(cell.verdict is Verdict.NOT_COMPARABLE for cell in comparison.tested):
        print_reasons(comparison)
        return Exit.NOT_COMPARABLE
    second = None
    if confirm is not None:
        second, _ = _compare(ComparisonRequest(**given | _second(given, confirm)), policy)
    gate = decide(policy, comparison, second)
    rates = None
    if self_test:
        from leadline.analysis.gate_rates import gate_rates

        rates = gate_rates(policy, comparison, rows)
    _print(gate, rates, output, str(policy_file))
    if rates is not None:
        return Exit.ANSWERED if rates.sound else Exit.NEGATIVE
    return _STATUS[gate.outcome.value]


_STATUS = {"pass": Exit.ANSWERED, "fail": Exit.NEGATIVE, "inconclusive": Exit.INCONCLUSIVE}


def _second(given: dict[str, Any], confirm: str) -> dict[str, Any]:
    """The words that compare the same baseline with the confirming run."""
    return {"candidate": confirm} if given["by"] == "run" else {"within": confirm}


def _compare(
    request: ComparisonRequest, policy: Policy, *, simulating: bool = False
) -> tuple[Comparison, list[PairedCell]]:
    """Compare, and return the samples of each cell where they are to be simulated."""
    from leadline.analysis.compare import compare, paired_samples
    from leadline.judge import judging

    selectors = [rule.parsed.selector for rule in policy.rules]
    with judging(request.find_runs(), verifying=False) as (judge, _):
        baseline, candidate = request.find_sides(judge)
        comparison = compare(
            baseline,
            candidate,
            by=request.kind,
            band=policy.band,
            between_runs=policy.between_runs,
            metrics=policy.metrics,
            primary=selectors,
        )
        if not simulating:
            return comparison, []
        return comparison, paired_samples(
            baseline, candidate, metrics=policy.metrics, primary=selectors
        )


def _print(gate: Gate, rates: GateRates | None, output: str, policy_file: str) -> None:
    from leadline.report.pages import gate as page
    from leadline.report.words import where

    if output == "json":
        from leadline.report.answers.gate import gate_output

        print_json(gate_output(gate, page.gate_headline(gate), rates))
    elif output == "chat":
        for line in page.gate_chat(gate).splitlines():
            echo_line(line)
    elif output in ("junit", "github", "gitlab"):
        from leadline.report.render.ci import Check, render_checks

        checks = [
            Check(
                name=f"{where(one.result.cell)} {one.result.cell.metric.value}",
                rule=one.rule.name or one.rule.limit,
                outcome=one.outcome.value,
                text=page.result_line(one),
            )
            for one in gate.results
        ]
        suite = f"{gate.comparison.candidate.name} vs {gate.comparison.baseline.name}"
        echo_rendered(render_checks(output, suite, policy_file, checks))
    else:
        print_document(page.gate_document(gate, rates), output, full=True)
