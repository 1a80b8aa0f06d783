"""Find runs by id, unique prefix, name (the newest of it) or path, as @latest or @previous."""

from __future__ import annotations

import os
import re
import secrets
from datetime import datetime
from pathlib import Path

from leadline import errors
from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.errors import LeadlineError

# Letters and digits that are not taken for one another. Without vowels they make no words, so that
# the name in an id without a random part is hardly taken for one.
_LETTERS = "bcdfghjkmnpqrstvwxz"
_DIGITS = "23456789"
# What stands before the name in the id of a run. Ids of earlier versions have no random part.
BEFORE_NAME = rf"perf-\d{{8}}-\d{{6}}-(?:[{_LETTERS}{_DIGITS}]{{4}}[{_LETTERS}]-)?"


def new_id(at: datetime, name: str = "") -> str:
    """`perf-YYYYMMDD-HHMMSS-xxxxx[-name]`, with a random part: runs of one second, in folders and
    on hosts that do not know of each other, mark what they make with different ids.

    The random part ends with a letter: a number at the end of an id is the user's.
    """
    random_part = "".join(secrets.choice(_LETTERS + _DIGITS) for _ in range(4)) + secrets.choice(
        _LETTERS
    )
    return "-".join(filter(None, (f"perf-{at:%Y%m%d-%H%M%S}-{random_part}", name)))


def runs_folder(given: Path | None) -> Path:
    """`--runs`, else LEADLINE_RUNS, else ./leadline-runs; absolute, since engines have a working
    folder of their own."""
    return (given or Path(os.environ.get("LEADLINE_RUNS") or "leadline-runs")).absolute()


def list_runs(folder: Path) -> list[Run]:
    """List the runs in a folder, oldest first (a run's id begins with its time)."""
    if not folder.is_dir():
        return []
    return [Run(path.parent) for path in sorted(folder.glob("[!.]*/" + layout.MANIFEST))]


def find_run(name: str, folder: Path) -> Run:
    """Find the run that a name selects.

    Raises LeadlineError: `run-not-found` with the runs, `archive-newer`.
    """
    run = _find(name, folder)
    run.refuse_newer()
    return run


def _find(name: str, folder: Path) -> Run:
    path = Path(name)
    if not name:
        raise _not_found("a run has no empty name", [])
    if (path / layout.MANIFEST).is_file():
        return Run(path.resolve())
    runs = list_runs(folder)
    by_age = {"@latest": -1, "@previous": -2}
    if name in by_age:
        # Within a second the ids have no order; the manifest knows it.
        ordered = sorted(runs, key=age)
        if len(ordered) < -by_age[name]:
            raise _not_found(f"there is no {name} run in {folder}", runs)
        return ordered[by_age[name]]
    exact = [run for run in runs if run.path.name == name]
    matching = exact or [run for run in runs if run.path.name.startswith(name)]
    if len(matching) == 1:
        return matching[0]
    # `run --name release`: the newest, so that a release that is measured again replaces its name.
    named = [run for run in runs if re.sub(f"^{BEFORE_NAME}", "", run.path.name) == name]
    if named and not matching:
        return max(named, key=age)
    if matching:
        raise _not_found(f"{name!r} is the beginning of {len(matching)} runs", matching)
    if path.is_dir() and "/" in name:
        raise _not_found(f"{name!r} is no archive: it has no {layout.MANIFEST}", runs)
    raise _not_found(f"there is no run {name!r} in {folder}", runs)


def age(run: Run) -> tuple[str, str]:
    """Order runs by time of creation; a run whose manifest is damaged counts by its name alone."""
    try:
        return run.manifest.created_at, run.path.name
    except LeadlineError:
        return "", run.path.name


def _not_found(fact: str, runs: list[Run]) -> LeadlineError:
    return LeadlineError(
        errors.RUN_NOT_FOUND,
        fact,
        context=[run.path.name for run in runs[-8:]],
        hint="`leadline list` shows the runs; --runs names another folder",
    )
