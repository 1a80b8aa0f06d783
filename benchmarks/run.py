"""Leadline's own speed and memory, as ratios measured side by side in one run.

`make bench` prints the table of docs/internals/performance.md. Nothing here asserts a time: the
machine is shared. What is compared runs in turn, A B A B, so that drift falls on both.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROUNDS = 12
RUNTIME_S = 3


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="leadline-bench-"))
    # Memory is the steadiest target there is, so that the ratio shows Leadline and not a disk.
    memory = Path(tempfile.mkdtemp(prefix="leadline-bench-", dir="/dev/shm"))
    try:
        print(f"{os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}\n")
        start_up()
        fio_against_bare_fio(memory)
        overhead_and_memory(folder)
    finally:
        shutil.rmtree(folder)
        shutil.rmtree(memory)


def leadline(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "leadline", *map(str, arguments)]


def seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began


def in_turn(*measures: Callable[[], float], rounds: int) -> list[list[float]]:
    """Values of each measure, taken in turn after one warm-up of each."""
    for measure in measures:
        measure()
    values: list[list[float]] = [[] for _ in measures]
    pairs = list(zip(measures, values, strict=True))
    for number in range(rounds):
        # A B, then B A: what the one leaves behind falls on both alike.
        for measure, kept in pairs if number % 2 == 0 else reversed(pairs):
            kept.append(measure())
    return values


def row(what: str, values: list[float], unit: str) -> None:
    low, middle, high = min(values), statistics.median(values), max(values)
    print(f"| {what} | {middle:.3f} {unit} | {low:.3f} to {high:.3f} |")


def start_up() -> None:
    """`leadline --help` and `--version` against importing the command-line library."""
    print("| start-up | median | range |\n|---|---|---|")
    library = [sys.executable, "-c", "import click"]
    helped, versioned, imported = in_turn(
        lambda: seconds(leadline("--help")),
        lambda: seconds(leadline("--version")),
        lambda: seconds(library),
        rounds=20,
    )
    row("python -c 'import click'", imported, "s")
    row("leadline --help", helped, "s")
    row("leadline --version", versioned, "s")
    ratios = [one / other for one, other in zip(helped, imported, strict=True)]
    row("--help over import click", ratios, "x")
    ratios = [one / other for one, other in zip(versioned, imported, strict=True)]
    row("--version over import click", ratios, "x")
    print()


JOB = f"""\
[global]
ioengine=libaio
size=256M
time_based=1
runtime={RUNTIME_S}
thread=1
group_reporting=1
randrepeat=0
lat_percentiles=1
clat_percentiles=1
log_avg_msec=1000
per_job_logs=0
filename_format=bench.$jobnum.dat
[w]
rw=randread
bs=4k
iodepth=16
write_iops_log=w
write_lat_log=w
"""


def fio_against_bare_fio(folder: Path) -> None:
    """The same job file by bare fio and under Leadline, in turn."""
    (folder / "job.fio").write_text(JOB)
    plan = folder / "plan.yaml"
    target = folder / "target"
    target.mkdir()
    plan.write_text(
        f"targets: [dir:{target}]\nrepeats: 1\nworkloads: [{{name: w, job_file: job.fio}}]\n"
    )
    bare = folder / "bare"
    bare.mkdir()

    def by_fio() -> float:
        output = bare / "out.json"
        subprocess.run(
            ["fio", f"--output={output}", "--output-format=json+", f"--directory={bare}",
             str(folder / "job.fio")],
            check=True, cwd=bare, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        return float(json.loads(output.read_text())["jobs"][0]["read"]["iops"])

    def by_leadline() -> float:
        runs = folder / "runs"
        subprocess.run(
            leadline("run", plan, "--runs", runs, "--quiet"), stdout=subprocess.DEVNULL, check=False
        )
        shown = subprocess.run(
            leadline("show", "--runs", runs, "--format", "json"), capture_output=True, check=True
        )
        rows = json.loads(shown.stdout)["measurements"]
        return next(float(one["value"]) for one in rows if one["metric"] == "iops")

    ours, theirs = in_turn(by_leadline, by_fio, rounds=ROUNDS)
    print(f"| 4k random read from tmpfs, depth 16, {RUNTIME_S} s | median | range |\n|---|---|---|")
    row("bare fio", theirs, "IOPS")
    row("fio under Leadline", ours, "IOPS")
    row(
        "Leadline over bare fio, pair by pair",
        [one / other for one, other in zip(ours, theirs, strict=True)],
        "x",
    )
    print()


def overhead_and_memory(folder: Path) -> None:
    """Wall time of a run beyond what was asked, per trial, without prefill; and peak memory."""
    target = folder / "overhead"
    target.mkdir()
    runs = folder / "overhead-runs"
    command = leadline(
        "run", "--target", f"dir:{target}", "--profile", "quick", "--size", "64M",
        "--runtime", "1s", "--ramp", "0", "--repeats", "3", "--runs", runs, "--no-prefill",
        "--quiet", "--format", "json",
    )  # fmt: skip
    beyond: list[float] = []
    for _ in range(3):
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, check=False)
        wall = time.perf_counter() - began
        trials = int(json.loads(done.stdout)["trials"])
        asked = 3 * (3 * 1 + 2 * 1)  # three cells of one phase, one of two
        beyond.append((wall - asked) / trials)
    bare: list[float] = []
    for _ in range(6):
        took = seconds(
            ["fio", "--name=x", f"--directory={target}", "--rw=randread", "--size=4M",
             "--runtime=1", "--time_based", "--output-format=json+"]
        )  # fmt: skip
        bare.append(took - 1)
    print("| a run of 12 trials, 15 phases, without prefill | median | range |\n|---|---|---|")
    row("wall time beyond what was asked, per trial (whole process)", beyond, "s")
    row("of which bare fio's own, per phase", bare, "s")

    # A child's peak is the largest of any process in it; fio is counted with its own run below.
    code = (
        "import resource, sys; from leadline.cli.main import main; status = main(sys.argv[1:]); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    peaks = []
    for _ in range(3):
        measured = [sys.executable, "-c", code, *command[3:]]
        done = subprocess.run(measured, capture_output=True, check=True)
        peaks.append(int(done.stderr.split()[-1]) / 1024)
    row("peak memory of leadline run itself", peaks, "MiB")
    page = seconds(leadline("report", "--runs", runs, "-o", folder / "page.html"))
    print(f"| a page of 12 trials | {page:.3f} s | one run |")
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"| largest process of all, fio's included | {largest:.0f} MiB | |")


if __name__ == "__main__":
    main()
