"""`leadline explain`: the page of an audit rule."""

from __future__ import annotations

import re

import click

from leadline import errors
from leadline.analysis.predict.facts import FOUND_BY_PREDICT
from leadline.analysis.scaling.curves import FOUND_BY_SCALE
from leadline.audit.registry import RULES, page
from leadline.cli.output import echo_line, echo_rendered
from leadline.errors import Exit, LeadlineError


@click.command()
@click.argument("code", required=False)
def command(code: str | None) -> Exit:
    """Explain an audit rule or a finding of `scale` or `predict`: what it checks, the physics with
    its formula, when it stays silent, an example with numbers, and what to do. Without a code, list
    them.

    \b
    Example:
        leadline explain queue-depth-not-reached
    """
    if code is not None and re.fullmatch(r"[EWI]\d+", code):
        raise LeadlineError(
            errors.RULE_UNKNOWN,
            f"{code} is a label within one report, not the code of a rule",
            hint=f"the code stands behind {code} in the findings of that report",
        )
    others = FOUND_BY_SCALE | FOUND_BY_PREDICT
    if code is None:
        summaries = {rule.code: rule.summary for rule in RULES} | others
        width = max(map(len, summaries))
        for name, summary in summaries.items():
            echo_line(f"{name:<{width}}  {summary}")
    else:
        echo_rendered(page(code.lower(), others).rstrip())
    return Exit.ANSWERED
