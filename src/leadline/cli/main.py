"""The entry point: verbs by name, errors by code, and nothing heavy imported before its verb."""

from __future__ import annotations

import errno
import gc
import importlib
import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, TextIO

import click

from leadline import __version__
from leadline.cli.output import ANSWERS, LastingStream
from leadline.errors import BUG, INTERRUPTED, OUTPUT_UNWRITABLE, USAGE, Exit, LeadlineError
from leadline.text import visible_lines

# Verb -> what `leadline --help` says of it. Its code is in leadline/cli/VERB.py, as `command`.
VERBS = {
    "plan": "Write a plan for the StorageClasses of a cluster: what fits, and how long it takes.",
    "check": "Show what a plan would do: its matrix, time, bytes written, and all its faults.",
    "run": "Run a plan, or a profile on targets, into an archive; audit it; show it.",
    "import": "Import results of other tools (fio, kbench, rados bench, tables) and audit them.",
    "list": "List the runs.",
    "show": "Show what a run measured, each number with its findings.",
    "audit": "List which numbers of a run or of result files cannot be trusted, and why.",
    "explain": "Explain an audit rule: what it checks, its physics, what to do.",
    "verify": "Check an archive's checksums and recompute its numbers from raw.",
    "compare": "Compare two runs, clusters or targets: changes, verdicts, what differs and why.",
    "gate": "Check a comparison against the limits of a policy: pass, fail or inconclusive.",
    "history": "Follow every cell over all runs: steps, drifts, and what changed with them.",
    "rank": "Rank a run's targets, with ties where the evidence is inconclusive.",
    "scale": "Show load curves, knee and bottleneck, and what a larger system gives.",
    "predict": "Forecast a change, with its error; compare a result with what was expected.",
    "settings": "Show what each setting of a run buys and costs; recommend a set, with commands.",
    "layers": "Show where the I/O goes: what each layer below a target did, and why.",
    "drill": "Show what an event during a run (a lost OSD, host, zone or link) cost the clients.",
    "recommend": "Say which target to use for databases, backups ..., why, and what it costs.",
    "report": "Write a run as a page (HTML), Markdown, JSON or CSV.",
    "site": "Write a folder of runs as a static site: index, run pages, comparisons.",
    "inventory": "Say what a cluster is: versions, pools, placement groups and why, health.",
    "pools": "Create the study's pools on a cluster, with a failure domain that fits; undo it.",
    "lab": "Bring a real, ephemeral Ceph cluster up on this machine, with zones and delay.",
    "kubernetes": "Build the image of runner pods and load it into a cluster or registry.",
    "clean": "Remove what a killed run left on its targets.",
    "scrub": "Remove secrets from an archive that exists, and seal it anew.",
    "doctor": "Say what this machine lacks for measuring, and how to get it.",
    "schema": "Print the JSON schema of a verb's output.",
}


class Verbs(click.Group):
    """Finds a verb's module when the verb is called, not before."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            # It is not stdout or stderr, whose end is no error. click would end with status 1.
            raise RuntimeError(f"a pipe to another program: {error}") from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command = importlib.import_module(f"leadline.cli.{name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in VERBS or args[0].startswith("-"):
            return super().resolve_command(ctx, args)
        import difflib

        near = difflib.get_close_matches(args[0], VERBS, n=1)
        raise LeadlineError(
            USAGE,
            f"there is no verb {args[0]!r}",
            context=[f"verbs: {', '.join(VERBS)}"],
            hint=f"did you mean `leadline {near[0]}`?" if near else "`leadline --help`",
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.group(
    cls=Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`leadline VERB --help` explains a verb, with an example. Runs are named by id, unique "
    "prefix, --name (the newest), path, @latest or @previous.",
)
@click.version_option(__version__, "--version", prog_name="leadline")
@click.pass_context
def cli(context: click.Context) -> None:
    """Measure the storage that a cluster, directory or device really gives, and learn which
    numbers can be believed."""
    if context.invoked_subcommand is None:
        raise LeadlineError(
            USAGE,
            "no verb was given",
            context=[f"{verb:<9}{text}" for verb, text in VERBS.items()],
            hint="`leadline VERB --help` explains a verb, with an example",
        )


def main(arguments: Sequence[str] | None = None, *, program: str = "leadline") -> int:
    """Run the command line and return its exit status; errors are printed on stderr. `program` is
    what help calls it."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        result = cli.main(args=given, prog_name=program, standalone_mode=False)
        status = result if isinstance(result, int) else Exit.ANSWERED
    except LeadlineError as error:
        _complain(str(error))
        status = error.kind.exit
    except click.exceptions.NoArgsIsHelpError as error:
        _complain(str(_no_verb_of_its_own(error)))
        status = Exit.WRONG_REQUEST
    except click.UsageError as error:
        verb = f" {given[0]}" if given and given[0] in VERBS else ""
        where = error.ctx.command_path if error.ctx else f"{program}{verb}"
        fact = error.format_message().rstrip(".")
        problem = LeadlineError(USAGE, fact, hint=f"`{where} --help`")
        _complain(str(problem))
        status = Exit.WRONG_REQUEST
    except (click.Abort, KeyboardInterrupt):
        _complain(str(LeadlineError(INTERRUPTED, "stopped by Ctrl-C")))
        status = Exit.INTERRUPTED
    except Exception as error:
        _complain(visible_lines(traceback.format_exc()))
        problem = LeadlineError(
            BUG,
            f"Leadline failed: {type(error).__name__}: {error}",
            hint="this is our bug: please report it with the lines above; archives are not "
            "harmed by it",
        )
        _complain(str(problem))
        status = problem.kind.exit
    return int(_with_what_was_lost(status))


def _with_what_was_lost(status: int) -> int:
    """The status of a call whose answer may not have arrived. A reader that went (`| head`) had
    what it wanted; a failure of the call itself weighs more than the loss of its answer."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    failure = raw.failure if isinstance(raw, LastingStream) else None
    if failure is None or failure.errno == errno.EPIPE:
        return status
    problem = LeadlineError(
        OUTPUT_UNWRITABLE,
        f"the answer cannot be written: {failure.strerror}",
        hint="make room where the output goes; archives are not harmed by it",
    )
    _complain(str(problem))
    return problem.kind.exit if status in ANSWERS else status


def _complain(text: str) -> None:
    """Print an error on stderr; what tools say in its context may hold secrets."""
    from leadline.inventory.redaction import redact_text

    click.echo(redact_text(text), err=True)


def _no_verb_of_its_own(error: click.exceptions.NoArgsIsHelpError) -> LeadlineError:
    """`leadline lab` and its like, which click would answer with a page of help."""
    assert error.ctx is not None
    command = error.ctx.command
    assert isinstance(command, click.Group)
    verbs = [f"{name:<9}{verb.get_short_help_str(90)}" for name, verb in command.commands.items()]
    path = error.ctx.command_path
    return LeadlineError(
        USAGE, f"`{path}` needs a verb of its own", context=verbs, hint=f"`{path} VERB --help`"
    )


_STDERR = 2
# Objects that are made before the collector looks for garbage among them.
_NEW_OBJECTS = 20_000


def entry() -> None:
    """The console script."""
    set_up_process()
    sys.exit(main())


def set_up_process() -> None:
    """Set the streams, umask and collector of every console script of Leadline."""
    # Other users must not write what is made here, even where the umask is 0.
    os.umask(os.umask(0o077) | 0o022)
    # Any of them may have been closed by whoever started us (`>&-`). What is opened next, a device
    # perhaps, must not become the place of error messages.
    while (spare := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(spare, True)
    os.close(spare)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Data is UTF-8 whatever the locale; a terminal gets what it can show.
        if sys.stdout.isatty():
            sys.stdout.reconfigure(errors="backslashreplace")
        else:
            sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    sys.stdout, sys.stderr = _lasting(sys.stdout), _lasting(sys.stderr)
    # Objects of imported modules stay. By default the collector looks for garbage among them after
    # every 700 new ones, some hundred times in a short verb.
    gc.set_threshold(_NEW_OBJECTS)


def _lasting(stream: TextIO | None) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):
        return stream or io.StringIO()
    return io.TextIOWrapper(
        io.BufferedWriter(LastingStream(stream.fileno())),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering or stream.isatty(),
        write_through=stream.write_through,
    )
