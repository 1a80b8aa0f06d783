"""`leadline schema`: the JSON schema of a verb's output."""

from __future__ import annotations

import json

import click
from pydantic import TypeAdapter

from leadline import errors
from leadline.cli.output import echo_rendered
from leadline.errors import Exit, LeadlineError
from leadline.report.answers.schemas import SCHEMAS
from leadline.text import did_you_mean


@click.command()
@click.argument("verb", required=False)
def command(verb: str | None) -> Exit:
    """Print the JSON schema of what VERB prints with --format json. Without one, list the verbs.

    \b
    Example:
        leadline schema show
    """
    if verb is None:
        echo_rendered("\n".join(SCHEMAS))
        return Exit.ANSWERED
    if verb not in SCHEMAS:
        raise LeadlineError(
            errors.SCHEMA_UNKNOWN,
            f"no verb {verb!r} prints JSON",
            context=[f"verbs: {', '.join(SCHEMAS)}"],
            hint=did_you_mean(verb, SCHEMAS, "name one of them"),
        )
    echo_rendered(
        json.dumps(
            TypeAdapter(SCHEMAS[verb]).json_schema(by_alias=True, mode="serialization"), indent=2
        )
    )
    return Exit.ANSWERED
