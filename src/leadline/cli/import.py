"""`leadline import`: reads results of any tool into archives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from leadline import errors
from leadline.archive.reader import Run
from leadline.audit.registry import audit
from leadline.cli.options import FILE, format_option, parse_date, runs_option, this_session
from leadline.cli.output import echo_line, print_document, print_json, print_refused
from leadline.cli.progress import stopping
from leadline.errors import Exit, LeadlineError
from leadline.files import ScratchFolder
from leadline.findings import Finding
from leadline.formats.importer import GROUPS, KINDS, kinds_of
from leadline.importing.archives import Imported, Labels, import_results
from leadline.importing.gather import Gathered, gather, parse_label
from leadline.importing.studies import AUTO, Arranged, arrange, layout_names, suggested_layout
from leadline.parallel import without_collection
from leadline.plan.facts import load_facts


@click.command()
@click.argument("arguments", nargs=-1, required=True, metavar="[KIND] PATH...")
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
@click.option(
    "--layout",
    metavar="LAYOUT",
    help="What the paths below a study's folder mean: a template such as "
    "'{pool}/{workload}/{client}-fio.json', a known layout by its name, or auto.",
)
@click.option(
    "--inventory",
    "inventories",
    multiple=True,
    metavar="[CLUSTER=]PATH",
    help="What the cluster is: a folder of saved dumps (`leadline inventory --save`), a "
    "must-gather or YAML of kubectl, or a file of `leadline inventory --format json`. May be given "
    "once for each cluster.",
)
@click.option(
    "--facts",
    "facts_file",
    type=FILE,
    metavar="FILE",
    help="What is known of clusters and targets, as YAML: copies, failure domain, encryption, "
    "access modes, cores, media, price; missing facts stay unknown.",
)
@click.option(
    "--columns",
    "columns",
    multiple=True,
    metavar="COLUMN=NAME,...",
    help="What a table calls its columns: 'target=pool,iops=IOPS mean'; 'target=pool+note' joins "
    "two, 'cluster=' leaves one out. Other names are guessed and printed.",
)
@click.option(
    "--date",
    metavar="DATE",
    help="When the results were measured, where the files do not say it: 2026-03-14, "
    "2026-03-14T02:00+01:00; UTC without an offset.",
)
@click.option("--dry-run", is_flag=True, help="Print what each file would become; keep nothing.")
@format_option("text", "json")
def command(
    arguments: tuple[str, ...],
    runs: Path,
    layout: str | None,
    dry_run: bool,
    output: str,
    **given: Any,
) -> Exit:
    """Import other tools' results, files or folders of them, as runs; then audit them.

    KIND is auto (recognised by content, the default), fio (any output of fio), or one of KINDS.
    Files may be packed (gzip, zstd, xz, bzip2, zip, tar). The files are kept byte for byte, as they
    were unpacked. Results of several clusters become a run each, NAME-CLUSTER.
    Known layouts: LAYOUTS.
    Ends with exit status 1 if a file that was named could not be read; the others are imported.

    \b
    Example:
        leadline import auto results/ --run study
        leadline import fio rep3/*.json --target rep3 --cluster single-zone
        leadline import table published.csv --run published --label fast=cores=2
        leadline import study.tar.gz --layout auto --dry-run
        leadline import table published.csv --facts facts.yaml
        leadline import table monday.csv --run monday --date 2026-03-14
        leadline import table published.csv --columns 'target=pool,lat_p99_us=p99'
    """
    kind, paths = _kind_and_paths(arguments)
    labels = _labels(**given)
    if labels.columns and kind not in ("auto", "table"):
        raise LeadlineError(
            errors.USAGE,
            f"--columns is for tables, and the kind is {kind!r}",
            hint="leave --columns out, or import the files as a table",
        )
    kind = "table" if labels.columns else kind
    with (
        without_collection(),
        stopping("nothing was imported"),
        ScratchFolder("import") as scratch,
    ):
        unpacked, trial_runs = Path(scratch, "unpacked"), Path(scratch, "runs")
        unpacked.mkdir()
        study = _study(_gather(kind, paths, unpacked), layout, paths)
        imported = import_results(
            study.gathered,
            trial_runs if dry_run else runs,
            labels,
            this_session(),
        )
        _print_columns(imported)
        _answer(imported, study, output, dry_run=dry_run)
    print_refused(imported.refused)
    return Exit.NEGATIVE if any(file.expected for file in imported.refused) else Exit.ANSWERED


def _labels(
    name: str | None,
    cluster: str | None,
    target: str | None,
    labels: tuple[str, ...],
    inventories: tuple[str, ...],
    facts_file: Path | None,
    columns: tuple[str, ...],
    date: str | None,
) -> Labels:
    """Read what the user states about the results. Raises LeadlineError."""
    if name is not None and not _may_name_a_folder(name):
        raise LeadlineError(
            errors.USAGE,
            f"{name!r} cannot name a run",
            hint="use letters, digits, dots, hyphens and underscores, a letter or digit first",
        )
    return Labels(
        run=name or f"import-{datetime.now(UTC):%Y%m%d-%H%M%S}",
        cluster=cluster,
        target=target,
        of_targets=[parse_label(text) for text in labels],
        inventories=dict(map(_inventory, inventories)),
        facts=load_facts(facts_file) if facts_file else None,
        columns=_columns(columns),
        date=parse_date(date, "--date").isoformat() if date else "",
    )


def _inventory(text: str) -> tuple[str, Mapping[str, bytes]]:
    """Read `[CLUSTER=]DIR|FILE`. Raises LeadlineError for a path without an inventory."""
    from leadline.inventory.kubernetes.folder import read_folder
    from leadline.inventory.system import system_of

    label, found, place = text.rpartition("=")
    if Path(text).exists():
        label, found, place = "", "", text
    if not Path(place).exists():
        raise LeadlineError(
            errors.USAGE,
            f"--inventory: there is no folder or file {place!r}",
            hint="name the folder of `leadline inventory --save DIR`, or a file with the output of "
            "`leadline inventory --format json`",
        )
    dumps = read_folder(Path(place), "--inventory").dumps
    system_of(dumps)  # raises where it cannot be understood
    return label if found else "", dumps


def _columns(texts: Sequence[str]) -> dict[str, str]:
    """Parse `target=pool,iops=IOPS mean`. Raises LeadlineError (`usage`)."""
    from leadline.formats.foreign.columns import check_column_names

    found: dict[str, str] = {}
    for part in (part for text in texts for part in text.split(",") if part.strip()):
        column, equals, name = (piece.strip() for piece in part.partition("="))
        if not equals or not column:
            raise LeadlineError(
                errors.USAGE,
                f"--columns: {part.strip()!r} is not COLUMN=NAME",
                hint="write the known column first: 'target=pool'",
            )
        if column.lower() in found:
            raise LeadlineError(errors.USAGE, f"--columns names {column!r} twice")
        found[column.lower()] = name
    unknown = check_column_names(found)
    if unknown is not None:
        raise LeadlineError(
            errors.USAGE, f"--columns: there is no column {unknown[0]!r}", hint=unknown[1]
        )
    return found


def _print_columns(imported: Imported) -> None:
    """Print how the columns of each table were read, where they have other names."""
    read = {
        (name, tuple(source.columns.items()))
        for run in imported.runs
        for stored in run.trials
        if (source := stored.record.source) is not None and source.columns
        for name in source.names
    }
    for name, columns in sorted(read):
        listed = ", ".join(f"{column}={text or '(left out)'}" for column, text in columns)
        echo_line(f"columns of {name}: {listed}", err=True)


def _kind_and_paths(arguments: Sequence[str]) -> tuple[str, tuple[Path, ...]]:
    """Raises LeadlineError(`usage`) for a path that does not exist."""
    first, *rest = arguments
    is_kind = first in (*GROUPS, *KINDS) if rest else not Path(first).exists()
    if not is_kind and rest and not Path(first).exists():
        kinds_of(first)  # names the nearest kind
    paths = tuple(Path(text) for text in (rest if is_kind else arguments))
    if not paths:
        raise LeadlineError(
            errors.USAGE,
            f"{first!r} is a kind, and no path follows it"
            if first in (*GROUPS, *KINDS)
            else f"there is no file or folder {first!r}",
            hint="name files or folders of results: `leadline import auto results/`",
        )
    for path in paths:
        if not path.exists():
            raise LeadlineError(errors.USAGE, f"there is no file or folder {str(path)!r}")
    return first if is_kind else "auto", paths


def _gather(kind: str, paths: Sequence[Path], scratch: Path) -> Gathered:
    try:
        return gather(kind, paths, scratch)
    except OSError as error:
        raise LeadlineError(
            errors.ARCHIVE_UNWRITABLE,
            f"packed files cannot be unpacked: {error.strerror}",
            context=[str(scratch)],
            hint="make room, or name another place with TMPDIR; nothing was imported",
        ) from error


def _study(gathered: Gathered, layout: str | None, paths: Sequence[Path]) -> Arranged:
    if layout is None:
        if suggested := suggested_layout(gathered):
            echo_line(f"hint: this looks like a study; try --layout {suggested}", err=True)
        return Arranged(gathered=gathered, layout="", reason="")
    folder = paths[0].resolve().name.partition(".")[0] if len(paths) == 1 else "study"
    study = arrange(gathered, layout, folder)
    if layout == AUTO:
        echo_line(f"layout: {study.layout or 'none'} ({study.reason})", err=True)
    return study


def _answer(imported: Imported, study: Arranged, output: str, *, dry_run: bool) -> None:
    audited = [] if dry_run else [(run, audit(run)) for run in imported.runs]
    if output == "json":
        from leadline.report.answers.run import import_output

        layout_used = (study.layout, study.reason)
        print_json(import_output(audited, imported.refused, imported.runs, layout_used))
    elif dry_run:
        from leadline.report.pages.run.imported import dry_run_document

        print_document(
            dry_run_document(imported.runs, study.layout, study.reason), "text", wide=True
        )
    else:
        _print(audited)


command.help = (
    (command.help or "")
    .replace("KINDS.", f"{', '.join(KINDS)}.")
    .replace("LAYOUTS.", f"{', '.join(layout_names())}.")
)
assert set(GROUPS) == {"auto", "fio"}, "the help names the groups"


def _may_name_a_folder(name: str) -> bool:
    plain = name.replace(".", "").replace("-", "").replace("_", "")
    return name[:1].isalnum() and plain.isalnum() and len(name) <= 100


def _print(audited: Sequence[tuple[Run, Sequence[Finding]]]) -> None:
    from leadline.report.pages.run.imported import import_document

    print_document(import_document(audited), "text")
    for run, _ in audited:
        echo_line(f"archive: {run.path}", err=True)
