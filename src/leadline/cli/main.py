"""The entry point: verbs by name, errors by code, and nothing heavy imported before its verb."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence

import click

from leadline import __version__
from leadline.errors import BUG, USAGE, Exit, LeadlineError

# Verb -> what `leadline --help` says of it. Its code is in leadline/cli/VERB.py, as `command`.
VERBS = {
    "check": "Show what a plan would do: its matrix, time, bytes written, and all its faults.",
    "run": "Carry out a plan, or a profile on targets, into an archive; audit it; show it.",
    "list": "List the runs.",
    "show": "Show what a run measured, with every doubt beside its number.",
    "audit": "Say which numbers of a run can be believed, and why not.",
    "explain": "Explain an audit rule: what it checks, its physics, what to do.",
    "verify": "Check an archive's checksums and recompute its numbers from raw.",
    "report": "Write a run as a page (HTML), Markdown, JSON or CSV.",
    "clean": "Remove what a killed run left on its targets.",
    "doctor": "Say what this machine lacks for measuring, and how to get it.",
    "schema": "Print the JSON schema of a verb's output.",
}


class Verbs(click.Group):
    """Finds a verb's module when the verb is called, not before."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command = importlib.import_module(f"leadline.cli.{name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.command(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`leadline VERB --help` explains a verb, with an example. Runs are named by id, unique "
    "prefix, path, @latest or @previous.",
)
@click.version_option(__version__, "--version", prog_name="leadline")
def cli() -> None:
    """Measure the storage that a cluster, directory or device really gives, and learn which
    numbers can be believed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; errors are told on stderr."""
    try:
        result = cli.main(args=arguments, prog_name="leadline", standalone_mode=False)
        sys.stdout.flush()
        status = result if isinstance(result, int) else Exit.ANSWERED
    except LeadlineError as error:
        click.echo(str(error), err=True)
        status = error.kind.exit
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "leadline"
        told = LeadlineError(USAGE, error.format_message(), hint=f"`{where} --help`")
        click.echo(str(told), err=True)
        status = Exit.WRONG_REQUEST
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        status = Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); that is its right.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = Exit.ANSWERED
    except Exception as error:
        click.echo(traceback.format_exc(), err=True)
        told = LeadlineError(
            BUG,
            f"Leadline failed: {type(error).__name__}: {error}",
            hint="please report this with the lines above; archives are not harmed by it",
        )
        click.echo(str(told), err=True)
        status = Exit.BUG
    return int(status)


def entry() -> None:
    """The console script."""
    sys.exit(main())
