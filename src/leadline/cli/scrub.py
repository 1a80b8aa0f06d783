"""`leadline scrub`: removes secrets from an archive that exists."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from leadline.archive.runs import find_run
from leadline.archive.scrub import scrub
from leadline.cli.options import runs_option
from leadline.cli.output import echo_line
from leadline.errors import Exit


@click.command()
@click.argument("run", metavar="RUN", default="@latest")
@runs_option
def command(run: str, runs: Path) -> Exit:
    """Remove secrets from an archive, as a run does when it writes one; seal it anew.

    New archives hold no known form of a secret. This is for archives of earlier versions. The
    numbers stay the same. The archive's list of redactions names each file, place and reason, and
    says that the archive was scrubbed. A sealed archive whose checksums do not hold is refused.
    Pages that were made of the archive before, and copies of it, are not changed.

    \b
    Example:
        leadline scrub @latest
        leadline scrub /srv/benchmarks/perf-20261121-120000
    """
    found = find_run(run, runs)
    done = scrub(found, at=datetime.now(UTC).isoformat(timespec="milliseconds"))
    for name in done.changed:
        echo_line(f"changed {name}")
    if not done.changed:
        echo_line(f"{found.path}: no secret found; nothing was changed")
        return Exit.ANSWERED
    for redaction in done.redactions:
        echo_line(f"{redaction.file}: {redaction.where}: {redaction.reason}")
    echo_line(f"{found.path}: {len(done.changed)} files changed and sealed anew")
    return Exit.ANSWERED
