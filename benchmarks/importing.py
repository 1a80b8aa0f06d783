"""How long import and audit of a thousand fio results take, beside what people use today.

    uv run python benchmarks/importing.py [FILES]

The files are made from real ones, which fio writes here, in two shapes of about 200 MB: one job a
file whose histograms are drawn out to 200 KB, and eight processes a file, as fio writes them
without group_reporting. Copies differ in job name only. All commands run as whole processes, in
turn; the first column is processor time, which other work on the machine changes least. Nothing
asserts a time; docs/internals/performance.md holds the figures.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROUNDS = 5
# It starts a process a file, so a part tells enough.
CLAT2CSV_FILES = 50
PATTERNS = ("randread", "randwrite", "randrw", "read")
LARGE_BYTES = 200_000
_PARSE = """
import sys, pathlib, orjson
for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    orjson.loads(path.read_bytes())
"""


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    # Memory is the steadiest place for a thousand small files.
    with tempfile.TemporaryDirectory(prefix="leadline-bench-", dir="/dev/shm") as folder:
        for shape, grouped in (("one job a file", True), ("eight processes a file", False)):
            results = Path(folder, shape.replace(" ", "-"))
            make(results, count, grouped=grouped)
            size = sum(path.stat().st_size for path in results.iterdir())
            print(f"\n{count} files, {size / 2**20:.0f} MiB, {shape}; {os.cpu_count()} cores\n")
            compare(results, Path(folder), count)
            shutil.rmtree(results)


def make(results: Path, count: int, *, grouped: bool) -> None:
    results.mkdir(parents=True)
    texts = []
    with tempfile.TemporaryDirectory(prefix="leadline-bench-") as disk:
        for pattern in PATTERNS:
            output = Path(disk, f"{pattern}.json")
            subprocess.run(
                [
                    *("fio", "--name=NAME", f"--rw={pattern}", "--bs=4k", "--iodepth=16"),
                    *("--ioengine=libaio", "--direct=1", "--size=64M", "--numjobs=8"),
                    *("--runtime=5s", "--time_based", f"--filename={disk}/work"),
                    *(("--group_reporting",) if grouped else ()),
                    *("--output-format=json+", f"--output={output}"),
                ],
                check=True,
            )
            text = output.read_text()
            texts.append(drawn_out(json.loads(text)) if grouped else text)
    for number in range(count):
        text = texts[number % len(texts)].replace('"NAME"', f'"job-{number}"')
        (results / f"{number:05d}.json").write_text(text)


def drawn_out(document: dict[str, Any]) -> str:
    """The same result with as many more bins as make a file large: each bin's I/Os are spread
    over the nanoseconds behind it, so that counts, and nearly the percentiles, stay."""
    bins = [
        part[key]
        for job in document["jobs"]
        for part in (job["read"], job["write"])
        for key in ("slat_ns", "clat_ns", "lat_ns")
        if part.get(key, {}).get("bins")
    ]
    pieces = max(1, (LARGE_BYTES - 8_000) // (23 * sum(len(one["bins"]) for one in bins)))
    for one in bins:
        spread: dict[str, int] = {}
        for value, number in one["bins"].items():
            share, rest = divmod(number, pieces)
            for piece in range(pieces):
                counted = share + (piece < rest)
                if counted:
                    spread[str(int(value) + piece)] = counted
        one["bins"] = spread
    return json.dumps(document, indent=1)


def compare(results: Path, folder: Path, count: int) -> None:
    # An installation brings bytecode; an environment for development may forbid to write it.
    os.environ["PYTHONDONTWRITEBYTECODE"] = ""
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    files = sorted(map(str, results.iterdir()))
    runs = folder / "runs"
    leadline = [sys.executable, "-m", "leadline"]
    commands = {
        "parsing with orjson, nothing else": [sys.executable, "-c", _PARSE, str(results)],
        "leadline audit of one file": [*leadline, "audit", files[0]],
        "leadline import, audit included": [
            *(*leadline, "import", "fio", str(results), "--runs", str(runs), "--run", "bench"),
        ],
        "leadline audit FILES": [*leadline, "audit", str(results)],
    }
    found: dict[str, list[Measured]] = {name: [] for name in commands}
    for number in range(ROUNDS + 1):
        for name, command in commands.items():
            one = measured(command)
            if number:  # the first round compiles
                found[name].append(one)
            shutil.rmtree(runs, ignore_errors=True)
    print(f"| whole process, {ROUNDS} rounds | processor | range | wall | range | peak memory |")
    print("|---|---|---|---|---|---|")
    base, *ours = found
    for name, times in found.items():
        row(name, times)
    for name in ours[1:]:
        cells = []
        for quantity in ("processor", "wall"):
            ratios = [
                getattr(one, quantity) / getattr(other, quantity)
                for one, other in zip(found[name], found[base], strict=True)
            ]
            middle = statistics.median(ratios)
            cells += [f"{middle:.2f} x", f"{min(ratios):.2f} to {max(ratios):.2f}"]
        print(f"| {name}, over orjson round by round | {' | '.join(cells)} | |")
    if shutil.which("jq"):
        query = "[.jobs[] | .read.iops, .read.lat_ns.mean, .write.iops]"
        row("jq, three fields of each job", [measured(["jq", "-c", query, *files])])
    tool = shutil.which("fio_jsonplus_clat2csv")
    # It asks for whichever python3 is first, and for `six`, which Debian's own may have.
    command = ["/usr/bin/python3", str(tool)]
    where = str(folder / "clat.csv")
    if tool and not subprocess.run([*command, files[0], where], capture_output=True).returncode:
        began = time.perf_counter()
        for name in files[:CLAT2CSV_FILES]:
            subprocess.run([*command, name, where], check=True, stdout=subprocess.DEVNULL)
        took = (time.perf_counter() - began) * count / CLAT2CSV_FILES
        print(f"| fio_jsonplus_clat2csv ({CLAT2CSV_FILES} files, scaled) | | | {took:.2f} s | | |")
    else:
        print("| fio_jsonplus_clat2csv | does not start here (it needs six) | | | | |")


@dataclass(frozen=True, slots=True)
class Measured:
    """One process with its children: seconds of wall and processor time, peak memory in MiB."""

    wall: float
    processor: float
    memory: float


def measured(command: Sequence[str]) -> Measured:
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command[:6])} ended with {process.returncode}")
    return Measured(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def row(what: str, times: Sequence[Measured]) -> None:
    cells = []
    for values in ([one.processor for one in times], [one.wall for one in times]):
        spread = f"{min(values):.2f} to {max(values):.2f}" if len(values) > 1 else "once"
        cells += [f"{statistics.median(values):.2f} s", spread]
    print(f"| {what} | {' | '.join(cells)} | {max(one.memory for one in times):.0f} MiB |")


if __name__ == "__main__":
    main()
