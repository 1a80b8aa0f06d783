"""Makes the labelled real runs anew, with the real fio, on this machine's disk.

    python -m benchmarks.audit.make_runs DIR [NAME...]     into folders DIR/NAME
    python -m benchmarks.audit.make_runs --record [NAME...]    into benchmarks/audit/recorded

Every run records how it was made (`made.json`): commands, fio's version, how busy the machine was.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.audit import bad_runs, fio_runs, good_runs, table_runs
from benchmarks.audit.bench import Bench
from benchmarks.audit.conditions import LoadWatch
from benchmarks.audit.recorded import MADE, pack

Make = Callable[[Bench], None]
RUNS: dict[str, Make] = {
    function.__name__.replace("_", "-"): function
    for module in (bad_runs, good_runs, table_runs, fio_runs)
    for function in module.RUNS
}
# Small runs, which are kept in one archive.
TOGETHER = "fio-runs"
_SMALL = frozenset(function.__name__.replace("_", "-") for function in fio_runs.RUNS)


def archive_of(name: str) -> str:
    """Return the archive that keeps a run."""
    return TOGETHER if name in _SMALL else name


def make(name: str, folder: Path) -> None:
    """One run into `folder`, which must not exist; its data are gone again afterwards."""
    function = RUNS[name]
    # A real disk: /tmp may be memory, where direct I/O and the page cache mean nothing.
    work = Path(tempfile.mkdtemp(prefix="leadline-audit-", dir="/var/tmp"))
    try:
        bench = Bench(data=work / "data", out=work / "out")
        bench.data.mkdir()
        bench.out.mkdir()
        watch = LoadWatch()
        function(bench)
        made = {
            "name": name,
            "why": (function.__doc__ or "").strip(),
            "date": time.strftime("%Y-%m-%d"),
            "fio": subprocess.run(["fio", "--version"], capture_output=True, text=True, check=True)
            .stdout.strip(),
            "audited": bench.audited,
            "commands": [one.replace(str(work), "WORK") for one in bench.commands],
            "load": watch.seen().as_json(),
        }  # fmt: skip
        (bench.out / MADE).write_text(json.dumps(made, indent=1) + "\n")
        shutil.move(bench.out, folder)
    finally:
        shutil.rmtree(work)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="keep them for the scorer")
    parser.add_argument("names", nargs="*", metavar="DIR|NAME")
    given = parser.parse_args(arguments)
    names = list(given.names)
    if not given.record and not names:
        parser.error("where to? name a folder, or --record")
    folder = Path(tempfile.mkdtemp(prefix="leadline-made-")) if given.record else Path(names.pop(0))
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or RUNS:
        began = time.monotonic()
        make(name, folder / name)
        print(f"{name}: {time.monotonic() - began:.1f} s", file=sys.stderr)
        if given.record and name not in _SMALL:
            pack([folder / name], name)
    if given.record:
        small = [path for path in folder.iterdir() if path.name in _SMALL]
        if small:
            pack(small, TOGETHER)
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
