"""Write the example page of docs/examples that can be made again: the published study.

    uv run python scripts/examples.py            write it
    uv run python scripts/examples.py --check    exit status 1 if the kept page differs

It is what `leadline import` and `leadline report` make of a table in tests/recorded, except for the
time of the import and the folder it was made in, which are set to something that stays. The page of
a lab is a measurement; nothing makes that again. `tests/docs/test_examples.py` makes the same
comparison, so the page cannot fall behind the program.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from leadline.cli.main import cli

ROOT = Path(__file__).resolve().parent.parent
STUDY = ROOT / "tests" / "recorded" / "imports" / "table" / "multizone-vs-singlezone.csv"
PAGE = ROOT / "docs" / "examples" / "multi-zone-study.html"
COMMANDS = (
    f"import table {STUDY.name} --run study",
    f"report study-single-zone study-multi-zone --band 5% -o {PAGE.name}",
)
IMPORTED_AT = "2026-11-21 12:00:00 UTC"
_DOWNLOAD = re.compile(r'(<script type="text/plain"[^>]*>)([A-Za-z0-9+/=]+)(</script>)')


def made() -> str:
    """The page as the program makes it now."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        mock.patch.dict(os.environ),
    ):
        os.environ.pop("LEADLINE_RUNS", None)
        shutil.copy(STUDY, STUDY.name)
        for command in COMMANDS:
            _leadline(command)
        here = str(Path.cwd()) + "/"
        page = Path(PAGE.name).read_text("utf-8")
    times = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC")

    def settled(text: str) -> str:
        return times.sub(IMPORTED_AT, text).replace(here, "")

    return _with_downloads(settled(page), lambda text: _packed(settled(text)))


def readable(page: str) -> str:
    """A page with its downloads unpacked, which another zlib packs otherwise, and without the
    version of Leadline: two pages that read the same are the same."""
    opened = _with_downloads(page, str)
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


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: scripts/examples.py [--check]", file=sys.stderr)
        return 2
    page = made()
    if PAGE.exists() and readable(PAGE.read_text("utf-8")) == readable(page):
        return 0
    if arguments:
        print(f"{PAGE} is not what the code makes; run scripts/examples.py", file=sys.stderr)
        return 1
    PAGE.write_text(page, encoding="utf-8")
    print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
