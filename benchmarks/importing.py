"""How long import and audit of a thousand fio results take, beside what people use today.

    uv run python benchmarks/importing.py [FILES]

The files are made from real ones, which fio writes here, in two shapes of about 200 MB: one job a
file whose histograms are drawn out to 200 KB, and eight processes a file, as fio writes them
without group_reporting. Copies differ in job name only. All commands run as whole processes, in
turn. Nothing asserts a time; docs/internals/performance.md holds the figures.
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
    files = sorted(map(str, results.iterdir()))
    runs = folder / "runs"
    leadline = [sys.executable, "-m", "leadline"]
    parse = [sys.executable, "-c", _PARSE, str(results)]
    take = [*leadline, "import", "fio", str(results), "--runs", str(runs), "--run", "bench"]
    look = [*leadline, "audit", str(results)]
    times: dict[str, list[float]] = {}
    memory: dict[str, float] = {}
    for _ in range(ROUNDS):
        for name, command in (("orjson", parse), ("import", take), ("audit FILES", look)):
            took, peak = measured(command)
            times.setdefault(name, []).append(took)
            memory[name] = max(memory.get(name, 0.0), peak)
            shutil.rmtree(runs, ignore_errors=True)
    print("| whole process | median | range | peak memory |\n|---|---|---|---|")
    row("parsing with orjson, nothing else", times["orjson"], memory["orjson"])
    row("leadline import, audit included", times["import"], memory["import"])
    row("leadline audit FILES", times["audit FILES"], memory["audit FILES"])
    ratios = [a / b for a, b in zip(times["import"], times["orjson"], strict=True)]
    print(
        f"| import and audit over orjson, round by round | {statistics.median(ratios):.2f} x "
        f"| {min(ratios):.2f} to {max(ratios):.2f} | |"
    )
    if shutil.which("jq"):
        query = "[.jobs[] | .read.iops, .read.lat_ns.mean, .write.iops]"
        took, peak = measured(["jq", "-c", query, *files])
        row("jq, three fields of each job", [took], peak)
    tool = shutil.which("fio_jsonplus_clat2csv")
    # It asks for whichever python3 is first, and for `six`, which Debian's own may have.
    command = ["/usr/bin/python3", str(tool)]
    where = str(folder / "clat.csv")
    if tool and not subprocess.run([*command, files[0], where], capture_output=True).returncode:
        began = time.perf_counter()
        for name in files[:CLAT2CSV_FILES]:
            subprocess.run([*command, name, where], check=True, stdout=subprocess.DEVNULL)
        took = (time.perf_counter() - began) * count / CLAT2CSV_FILES
        row(f"fio_jsonplus_clat2csv ({CLAT2CSV_FILES} files, scaled)", [took], None)
    else:
        print("| fio_jsonplus_clat2csv | does not start here (it needs six) | | |")


def measured(command: Sequence[str]) -> tuple[float, float]:
    """Wall time in seconds and peak memory in MiB of one process."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    took = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command[:6])} ended with {process.returncode}")
    return took, usage.ru_maxrss / 1024


def row(what: str, values: Sequence[float], memory: float | None) -> None:
    shown = f"{memory:.0f} MiB" if memory else ""
    low, middle, high = min(values), statistics.median(values), max(values)
    spread = f"{low:.2f} to {high:.2f}" if len(values) > 1 else "once"
    print(f"| {what} | {middle:.2f} s | {spread} | {shown} |")


if __name__ == "__main__":
    main()
