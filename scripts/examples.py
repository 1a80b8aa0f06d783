"""Write the example pages of docs/examples that can be made again: those of published tables.

    uv run python scripts/examples.py

They are what `leadline import` and `leadline report` make of tables in tests/recorded, except for
the time of the import and the folder it was made in, which are set to something that stays. The
page of a lab is a measurement; nothing makes that again. `tests/docs/test_examples.py` makes the
same comparisons, so the pages cannot fall behind the program.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import os
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from leadline.cli.main import cli
from leadline.report.render.html import open_page, seal_page

ROOT = Path(__file__).resolve().parent.parent
TABLES = ROOT / "tests" / "recorded" / "imports" / "table"
EXAMPLES = ROOT / "docs" / "examples"
_STUDY, _SYSTEMS = "multizone-vs-singlezone.csv", "openebs-and-rook-fio.csv"
# What the table's own names say of its targets: of mayastor-3replica no number of cores.
_LABELS = " ".join(
    f"--label mayastor-{target}={label}"
    for target, labels in {
        "1replica-1core": ("cores=1", "replicas=1", "system=mayastor"),
        "1replica-2core": ("cores=2", "replicas=1", "system=mayastor"),
        "3replica": ("replicas=3", "system=mayastor"),
    }.items()
    for label in labels
)


@dataclass(frozen=True, kw_only=True)
class Example:
    """A page, the table it is made from, and the commands that make it. `as_run`: with a queue
    depth of 1 in place of those that the table asks for."""

    page: Path
    table: str
    commands: tuple[str, ...]
    as_run: bool = False


STUDY = Example(
    page=EXAMPLES / "multi-zone-study.html",
    table=_STUDY,
    commands=(
        f"import table {_STUDY} --run study",
        "report study-single-zone study-multi-zone --band 5% -o multi-zone-study.html",
    ),
)
PUBLISHED = Example(
    page=EXAMPLES / "openebs-and-rook.html",
    table=_SYSTEMS,
    commands=(
        f"import table {_SYSTEMS} --run openebs-and-rook {_LABELS}",
        "report openebs-and-rook -o openebs-and-rook.html",
    ),
)
AS_RUN = Example(
    page=EXAMPLES / "openebs-and-rook-as-run.html",
    table=_SYSTEMS,
    commands=(
        f"import table {_SYSTEMS} --run openebs-and-rook-as-run {_LABELS}",
        "report openebs-and-rook-as-run -o openebs-and-rook-as-run.html",
    ),
    as_run=True,
)
MADE = (STUDY, PUBLISHED, AS_RUN)
IMPORTED_AT = "2026-11-21 12:00:00 UTC"
_DOWNLOAD = re.compile(r'(<script type="text/plain"[^>]*>)([A-Za-z0-9+/=]+)(</script>)')


def made(example: Example) -> str:
    """The page as the program makes it now."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        mock.patch.dict(os.environ),
    ):
        os.environ.pop("LEADLINE_RUNS", None)
        table = (TABLES / example.table).read_text("utf-8")
        Path(example.table).write_text(at_depth_one(table) if example.as_run else table, "utf-8")
        for command in example.commands:
            _leadline(command)
        here = str(Path.cwd()) + "/"
        page = Path(example.page.name).read_text("utf-8")
    times = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC")

    def settled(text: str) -> str:
        return times.sub(IMPORTED_AT, text).replace(here, "")

    unsealed = settled(open_page(page)[0])
    return seal_page(_with_downloads(unsealed, lambda text: _packed(settled(text))))


def at_depth_one(table: str) -> str:
    """The table with 1 in its column `iodepth`, as `sed -E 's/^(([^,]*,){7})[0-9]+/\\11/'` does."""
    head, *rows = table.splitlines()
    column = head.split(",").index("iodepth")
    changed = [row.split(",") for row in rows]
    for cells in changed:
        cells[column] = "1"
    return "\n".join([head, *map(",".join, changed)]) + "\n"


def readable(page: str) -> str:
    """A page with its downloads unpacked, which another zlib packs otherwise, without its seal and
    the versions of Leadline and Python: two pages that read the same are the same."""
    opened = _with_downloads(open_page(page)[0], str)
    opened = re.sub(r"\b3\.\d+\.\d+\b", "PYTHON", opened)
    return re.sub(r"Leadline \d+\.\d+\.\d+[^\"<\s]*", "Leadline VERSION", opened)


def _leadline(command: str) -> None:
    """A verb in this process; the words of its call stand in the archive."""
    words = command.split()
    before, sys.argv = sys.argv, ["leadline", *words]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            status = cli.main(args=words, standalone_mode=False)
    finally:
        sys.argv = before
    if status:
        raise SystemExit(f"leadline {command}: exit status {status}")


def _with_downloads(page: str, change: Callable[[str], str]) -> str:
    def changed(found: re.Match[str]) -> str:
        text = gzip.decompress(base64.b64decode(found[2])).decode("utf-8")
        return f"{found[1]}{change(text)}{found[3]}"

    return _DOWNLOAD.sub(changed, page)


def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def main() -> None:
    for example in MADE:
        page, kept = made(example), example.page
        before = kept.read_text("utf-8") if kept.exists() else ""
        if readable(before) == readable(page) and open_page(before)[1]:
            continue
        kept.write_text(page, encoding="utf-8")
        print(kept)


if __name__ == "__main__":
    main()
