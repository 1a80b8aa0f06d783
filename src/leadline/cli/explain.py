"""`leadline explain`: the page of an audit rule."""

from __future__ import annotations

import click

from leadline.audit.registry import RULES, page
from leadline.errors import Exit


@click.command()
@click.argument("code", required=False)
def command(code: str | None) -> Exit:
    """Explain an audit rule: what it checks, the physics with its formula, when it stays silent,
    an example with numbers, and what to do. Without a code, list the rules.

    \b
    Example:
        leadline explain queue-depth-not-reached
    """
    if code is None:
        width = max(len(rule.code) for rule in RULES)
        for rule in RULES:
            click.echo(f"{rule.code:<{width}}  {rule.summary}")
    else:
        click.echo(page(code).rstrip())
    return Exit.ANSWERED
