"""`leadline import`: reads results of any tool into archives."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from leadline import errors
from leadline.archive.reader import Run
from leadline.audit.registry import audit
from leadline.cli.options import format_option, runs_option, this_session
from leadline.cli.output import echo_line, print_document, print_json, print_refused
from leadline.cli.progress import stopping
from leadline.errors import Exit, LeadlineError
from leadline.findings import Finding
from leadline.formats.importer import GROUPS, KINDS
from leadline.importing.archives import Labels, import_results
from leadline.importing.gather import gather, parse_label


@click.command()
@click.argument("kind", metavar="KIND")
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    metavar="PATH...",
    type=click.Path(path_type=Path, exists=True),
)
@runs_option
@click.option("--run", "name", help="The run's name; else `import-` and the time.")
@click.option("--cluster", metavar="LABEL", help="The cluster that the results are of.")
@click.option(
    "--target",
    metavar="NAME",
    help="The target that the results are of; else what the files say, else each file's name.",
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="[TARGET=]KEY=VALUE",
    help="What sets a target apart, or all of them: 'fast=cores=2'. May be given several times.",
)
@format_option("text", "json")
def command(
    kind: str,
    paths: tuple[Path, ...],
    runs: Path,
    name: str | None,
    cluster: str | None,
    target: str | None,
    labels: tuple[str, ...],
    output: str,
) -> Exit:
    """Import other tools' results, files or folders of them, as runs; then audit them.

    KIND is auto (recognised by content), fio (any output of fio), or one of KINDS.
    The files are kept byte for byte. Results of several clusters become a run each, NAME-CLUSTER.
    Ends with exit status 1 if a file that was named could not be read; the others are imported.

    \b
    Example:
        leadline import auto results/ --run study
        leadline import fio rep3/*.json --target rep3 --cluster single-zone
        leadline import table published.csv --run published --label fast=cores=2
    """
    if name is not None and not _may_name_a_folder(name):
        raise LeadlineError(
            errors.USAGE,
            f"{name!r} cannot name a run",
            hint="use letters, digits, dots, hyphens and underscores, a letter or digit first",
        )
    with stopping("nothing was imported"):
        imported = import_results(
            gather(kind, paths),
            runs,
            Labels(
                run=name or f"import-{datetime.now(UTC):%Y%m%d-%H%M%S}",
                cluster=cluster,
                target=target,
                of_targets=[parse_label(text) for text in labels],
            ),
            this_session(),
        )
    audited = [(run, audit(run)) for run in imported.runs]
    if output == "json":
        from leadline.report.answers.run import import_output

        print_json(import_output(audited, imported.refused))
    else:
        _print(audited)
    print_refused(imported.refused)
    return Exit.NEGATIVE if any(file.expected for file in imported.refused) else Exit.ANSWERED


command.help = (command.help or "").replace("KINDS.", f"{', '.join(KINDS)}.")
assert set(GROUPS) == {"auto", "fio"}, "the help names the groups"


def _may_name_a_folder(name: str) -> bool:
    plain = name.replace(".", "").replace("-", "").replace("_", "")
    return name[:1].isalnum() and plain.isalnum() and len(name) <= 100


def _print(audited: Sequence[tuple[Run, Sequence[Finding]]]) -> None:
    from leadline.report.pages.run.page import import_document

    print_document(import_document(audited), "text")
    for run, _ in audited:
        echo_line(f"archive: {run.path}", err=True)
