"""`leadline audit`: which numbers can be believed?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.runs import find_run
from leadline.audit.registry import audit, trusted
from leadline.cli.options import format_option, runs_option, this_session
from leadline.cli.output import echo_rendered, print_document, print_json, print_refused
from leadline.errors import Exit
from leadline.findings import Finding
from leadline.parallel import without_collection


@click.command()
@click.argument("what", nargs=-1, metavar="[RUN|FILE...]")
@runs_option
@click.option(
    "--kind",
    default="auto",
    show_default=True,
    help="What the files are; `leadline import --help` lists the kinds.",
)
@format_option("text", "json", "markdown", "junit")
def command(what: tuple[str, ...], runs: Path, kind: str, output: str) -> Exit:
    """Audit the numbers of a run, or of result files of any tool, and list what is wrong with the
    others cannot. Files are audited as they are; nothing is kept of them.

    Ends with exit status 1 if any finding is an error: such numbers enter no ranking.

    \b
    Example:
        leadline audit @latest
        leadline audit results/*.json --format junit
        leadline explain queue-depth-not-reached
    """
    if len(what) > 1 or (what and _is_file(what[0])):
        return _audit_files([Path(name) for name in what], runs, kind, output)
    found = find_run(what[0] if what else "@latest", runs)
    findings = audit(found)
    if output == "json":
        from leadline.report.answers.run import audit_output

        print_json(audit_output(found, findings))
    else:
        _print([(found, findings)], output)
    return Exit.ANSWERED if trusted(findings) else Exit.NEGATIVE


def _is_file(name: str) -> bool:
    path = Path(name)
    return path.exists() and not (path / layout.MANIFEST).is_file()


def _audit_files(paths: Sequence[Path], runs: Path, kind: str, output: str) -> Exit:
    from leadline.cli.progress import stopping
    from leadline.files import ScratchFolder
    from leadline.importing.archives import Labels, read_results
    from leadline.importing.gather import gather

    for path in paths:
        if not path.exists():
            # A word that is neither a file nor alone may be a run, or a file with a typing error.
            find_run(str(path), runs)
    with (
        without_collection(),
        stopping("nothing was kept"),
        ScratchFolder("audit") as folder,
    ):
        name = paths[0].name if len(paths) == 1 else f"{len(paths)} files"
        unpacked = Path(folder, "unpacked")
        unpacked.mkdir()
        gathered = gather(kind, paths, unpacked)
        imported = read_results(gathered, Path(folder, "runs"), Labels(run=name), this_session())
        audited = [(run, audit(run)) for run in imported.runs]
        findings = [finding for _, found in audited for finding in found]
        findings.sort(key=lambda finding: -finding.severity.order)
        if output == "json":
            from leadline.report.answers.run import audit_output

            print_json(audit_output(None, findings, imported.refused))
        else:
            _print(audited, output)
        print_refused(imported.refused)
    unread = any(file.expected for file in imported.refused)
    return Exit.ANSWERED if trusted(findings) and not unread else Exit.NEGATIVE


def _print(audited: Sequence[tuple[Run, tuple[Finding, ...]]], output: str) -> None:
    if output == "junit":
        from leadline.report.render.junit import junit

        echo_rendered(junit(audited))
        return
    from leadline.analysis.figures import figures
    from leadline.report.pages.run.findings import findings_document

    for run, findings in audited:
        document = findings_document(run, figures(run, findings), findings)
        print_document(document, output, trials=True)
