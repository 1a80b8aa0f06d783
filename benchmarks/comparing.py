"""How long it takes to judge large archives: two runs of 1,000 trials compared, 21 cells reported.

    uv run python benchmarks/comparing.py [REPEATS]

The archives are made here, in memory, from recorded fio outputs with json+ histograms, and not
kept: 10 pools x 5 workloads x 2 levels x 10 repeats (REPEATS says otherwise), and 7 x 3 x 3 for
the small page. Every trial is its recorded one drawn out to a minute and shifted by a seeded
share, with the histograms, logs, records and digests that a run leaves. Commands run as whole
processes, in turn, with the bytecode that an installation has (and once more without). Nothing
asserts a time; docs/internals/performance.md holds the figures.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from leadline.archive import layout
from leadline.archive.raw import derived_json
from leadline.archive.records import (
    CacheDrop,
    Extent,
    Processor,
    RunStatus,
    Session,
    TrialRecord,
    TrialStatus,
)
from leadline.archive.writer import RunWriter
from leadline.formats.fio.histogram_logs import bucket_of, bucket_value
from leadline.formats.fio.json_output import parse_fio_json
from leadline.plan.loader import Overrides, load_plan
from leadline.plan.models import Cell, Plan

ROUNDS = 5
POOLS, REPEATS, CANDIDATE = 10, 10, 0.93
SMALL_POOLS, SMALL_REPEATS = 7, 3
RECORDED = Path(__file__).parents[1] / "tests" / "golden" / "recorded" / "disk"
RECORDED_S, RUNTIME_S = 3, 60
# Single I/Os up to four times as slow as the slowest in three seconds.
TAIL_BUCKETS = 128
STARTED = "2026-11-21T02:55:00+00:00"
_PHASES = "[{pattern: write}, {pattern: read}]"
# Each workload: the recording, what the plan says of it, and the depth that was recorded.
WORKLOADS = {
    "randread-4k": ("randread-4k-qd1", "pattern: randread, block_size: 4k", 1),
    "randwrite-4k": ("randwrite-4k-qd1", "pattern: randwrite, block_size: 4k", 1),
    "mixed-70-30-4k": ("mixed-70-30-4k", "pattern: randrw, read_share: 70, block_size: 4k", 32),
    "sequential-1m": ("sequential-1m", f"block_size: 1M, phases: {_PHASES}", 8),
    "database-4k": ("mixed-70-30-4k", "pattern: randrw, read_share: 70, block_size: 4k", 32),
}
_READ = """
import os, sys
for run in sys.argv[1:]:
    for folder, _, names in os.walk(run):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                file.read()
"""
_PARSE = """
import sys, pathlib, orjson
for run in sys.argv[1:]:
    for path in pathlib.Path(run).glob("trials/*/fio.json"):
        orjson.loads(path.read_bytes())
"""
# Where the processor time goes, all in one process.
_STAGES = """
import sys, time
clock = time.process_time
began = clock()
from pathlib import Path
from leadline.analysis.figures import figures
from leadline.analysis.compare import compare
from leadline.analysis.comparison import By, two_runs
from leadline.archive.reader import Run
from leadline.archive.verify import verify
from leadline.audit.registry import audit
from leadline.report.pages.comparison.page import comparison_document
from leadline.report.render.html import render
marks = [("imports", began)]
def over(name):
    marks.append((name, clock()))
def judged(run):
    findings = audit(run)
    over("audit")
    found = figures(run, findings)
    over("figures")
    return found, findings
over("imports")
runs = [Run(Path(path)) for path in sys.argv[1:]]
sides = two_runs(*runs, judged)
comparison = compare(*sides, by=By.RUN, band=0.05)
over("statistics")
verified = tuple(map(verify, runs))
assert all(one.ok for one in verified)
over("verification")
page = render(comparison_document(comparison, verified), ())
over("document and page")
spent = {}
for (_, before), (name, after) in zip(marks, marks[1:]):
    spent[name] = spent.get(name, 0.0) + after - before
print(", ".join(f"{name} {took:.2f} s" for name, took in spent.items()))
"""
READ = "reading every file of both, nothing else"
PARSED = "parsing their fio JSON with orjson, nothing else"
COMPARED = "`leadline report BASE CANDIDATE`, 1,000 trials each"
SMALL = "`leadline report RUN`, 21 cells"


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else REPEATS
    # Memory is the steadiest place for ten thousand small files.
    with tempfile.TemporaryDirectory(prefix="leadline-bench-", dir="/dev/shm") as name:
        folder = Path(name)
        names = list(WORKLOADS)
        base = make(folder / "base", names, 2, POOLS, repeats, seed=1, speed=1.0)
        candidate = make(folder / "candidate", names, 2, POOLS, repeats, seed=2, speed=CANDIDATE)
        small = make(folder / "small", names[:3], 1, SMALL_POOLS, SMALL_REPEATS, seed=3, speed=1.0)
        for run in (base, candidate, small):
            describe(run)
        compare([base, candidate], small, folder)


def make(
    folder: Path,
    names: Sequence[str],
    levels: int,
    pools: int,
    repeats: int,
    *,
    seed: int,
    speed: float,
) -> Path:
    """An archive whose pools differ by up to a half, and whose trials by two per cent."""
    plan = _plan(folder.with_suffix(".yaml"), names, levels, pools, repeats)
    writer = RunWriter.create(
        folder,
        plan=plan,
        plan_as_given=folder.with_suffix(".yaml").read_bytes(),
        created_at=STARTED,
        session=Session(
            started_at=STARTED,
            hostname="bench-1",
            leadline_version="0.1.0",
            python_version="3.11.2",
            command=("leadline", "run", "plan.yaml"),
        ),
    )
    chance = random.Random(seed)
    recorded = {
        (name, number): json.loads(
            (RECORDED / WORKLOADS[name][0] / number / "fio.json").read_text()
        )
        for name in names
        for number in "123"
    }
    targets = [target.name for target in plan.targets]
    for trial in plan.trials:
        cell = plan.cells[trial.cell]
        depth = cell.workload.phases[0].iodepth
        pool = 1 + 0.5 * targets.index(cell.target) / len(targets)
        quick = speed * pool * chance.gauss(1, 0.02)
        source = recorded[cell.workload.name, str(trial.block % 3 + 1)]
        with writer.staged(f"{layout.TRIALS}/{trial.id}-1") as staged:
            text = json.dumps(
                drawn_out(source, quick, depth, WORKLOADS[cell.workload.name][2]), indent=2
            )
            (staged / layout.FIO_OUTPUT).write_text(text)
            (staged / layout.STDERR).write_bytes(b"")
            (staged / layout.JOB_FILE).write_text(_job_text(cell))
            output = parse_fio_json(text.encode())
            (staged / layout.DERIVED).write_bytes(derived_json(output))
            for job in output.jobs:
                rates = [(number, one.iops) for number, one in enumerate(job.operations)]
                _logs(staged, job.name, rates, chance)
            RunWriter.write_trial(staged, _record(plan, trial.position))
    writer.seal(RunStatus.COMPLETE, ended_at="2026-11-22T02:59:20+00:00")
    writer.close()
    return writer.path


def _plan(path: Path, names: Sequence[str], levels: int, pools: int, repeats: int) -> Plan:
    lines = ["leadline: 1", "name: large", f"repeats: {repeats}", "seed: 7", "targets:"]
    lines += [f"  - {{name: pool-{number}, target: 'dir:/srv/pool-{number}'}}" for number in
              range(pools)]  # fmt: skip
    lines += [f"defaults: {{size: 64M, runtime: {RUNTIME_S}s, ramp: 1s}}", "workloads:"]
    for name in names:
        _, what, depth = WORKLOADS[name]
        depths = ", ".join(f"{{iodepth: {depth << level}}}" for level in range(levels))
        lines.append(f"  - {{name: {name}, {what}, levels: [{depths}]}}")
    path.write_text("\n".join(lines) + "\n")
    return load_plan(path, Overrides())


def drawn_out(source: dict[str, Any], quick: float, depth: int, recorded: int) -> dict[str, Any]:
    """A recorded result as if it had run for a minute, `quick` times as quick, at `depth` in
    place of the `recorded` one (which changes latencies alone). Latencies go to fio's buckets, in
    two halves two per cent apart: a minute fills more of them than three seconds."""
    document: dict[str, Any] = json.loads(json.dumps(source))
    longer, slower = RUNTIME_S / RECORDED_S, depth / recorded / quick
    document["global options"] |= {"runtime": str(RUNTIME_S), "directory": "/srv/pool"}
    for job in document["jobs"]:
        for options in (job["job options"], document["global options"]):
            if "iodepth" in options:
                options["iodepth"] = str(depth)
        job["elapsed"] = len(document["jobs"]) * (RUNTIME_S + 2)
        job["job_runtime"] = RUNTIME_S * 1000
        for part in (job["read"], job["write"]):
            for key in ("io_bytes", "io_kbytes", "total_ios"):
                part[key] = round(part[key] * longer * quick)
            for key in ("iops", "bw", "bw_bytes", "iops_mean", "bw_mean"):
                part[key] = type(part[key])(part[key] * quick)
            part["runtime"] = round(part["runtime"] * longer)
            for key in ("slat_ns", "clat_ns", "lat_ns"):
                _stretch(part[key], longer * quick, slower)
    for disk in document["disk_util"]:
        for key in ("read_ios", "write_ios"):
            disk[key] = round(disk[key] * longer * quick)
    return document


def _stretch(latency: dict[str, Any], longer: float, slower: float) -> None:
    for key in ("min", "max", "mean", "stddev"):
        latency[key] = type(latency[key])(latency[key] * slower)
    if "percentile" in latency:
        latency["percentile"] = {
            key: _bucket(value * slower) for key, value in latency["percentile"].items()
        }
    if not latency.get("bins"):
        latency["N"] = round(latency.get("N", 0) * longer)
        return
    bins: dict[int, int] = {}
    for value, number in latency["bins"].items():
        many = max(1, round(number * longer))
        for apart, share in ((0.99, many // 2), (1.01, many - many // 2)):
            place = _bucket(int(value) * slower * apart)
            bins[place] = bins.get(place, 0) + share
    last = bucket_of(max(bins))
    for place in range(last + 1, last + 1 + TAIL_BUCKETS):
        bins[bucket_value(place)] = 1
    latency["bins"] = {str(value): bins[value] for value in sorted(bins) if bins[value]}
    latency["N"] = sum(bins.values())


def _bucket(value: float) -> int:
    return bucket_value(bucket_of(int(value)))


def _logs(folder: Path, job: str, rates: list[tuple[int, float | None]],
          chance: random.Random) -> None:  # fmt: skip
    """What `write_iops_log` and `write_lat_log` leave: a line a second and direction."""
    for kind in ("iops", "lat", "slat", "clat"):
        lines = [
            f"{1000 * second}, {round((rate or 0) * chance.gauss(1, 0.01))}, {way}, 0, 0"
            for second in range(1, RUNTIME_S + 1)
            for way, rate in rates
        ]
        (folder / f"{job}_{kind}.log").write_text("\n".join(lines) + "\n")


def _job_text(cell: Cell) -> str:
    lines = ["[global]", "ioengine=io_uring", "direct=1", f"runtime={RUNTIME_S}"]
    for phase in cell.workload.phases:
        lines += [f"[{phase.name}]", f"rw={phase.pattern.value}", f"iodepth={phase.iodepth}"]
    return "\n".join(lines) + "\n"


def _record(plan: Plan, position: int) -> TrialRecord:
    trial = plan.trials[position]
    cell = plan.cells[trial.cell]
    asked = cell.workload.duration_s
    return TrialRecord(
        trial=trial.id,
        attempt=1,
        target=cell.target,
        workload=cell.workload.name,
        level=cell.level,
        block=trial.block,
        status=TrialStatus.COMPLETED,
        engine="fio",
        engine_version="fio-3.33",
        command=("fio", "--output-format=json+", "--output=fio.json", "job.fio"),
        exit_status=0,
        started_at=STARTED,
        ended_at=STARTED,
        wall_s=asked + 0.4,
        asked_s=asked,
        bound_s=asked + 10,
        processor=Processor(cores=8, busy_share=0.21, steal_share=0.0, engine_cpu_s=1.4),
        cache_drop=CacheDrop(
            method="posix_fadvise", resident_before_bytes=1 << 20, resident_after_bytes=0
        ),
        extent=Extent(span_bytes=1 << 26, written_bytes=1 << 26, allocated_bytes=1 << 26),
    )


def describe(run: Path) -> None:
    trials = list((run / layout.TRIALS).iterdir())
    sizes = [path.stat().st_size for path in run.rglob("*") if path.is_file()]
    raw = [(trial / layout.FIO_OUTPUT).read_bytes() for trial in trials]
    bins = [
        len(part["lat_ns"]["bins"])
        for text in raw[:50]
        for job in json.loads(text)["jobs"]
        for part in (job["read"], job["write"])
        if part["lat_ns"].get("bins")
    ]
    print(
        f"{run.name}: {len(trials)} trials, {len(sizes)} files, {sum(sizes) / 2**20:.0f} MiB, of "
        f"which fio's JSON {sum(map(len, raw)) / 2**20:.0f} MiB; a histogram has "
        f"{min(bins)} to {max(bins)} buckets, {statistics.median(bins):.0f} in the median"
    )


def compare(runs: list[Path], small: Path, folder: Path) -> None:
    python = sys.executable
    both, page = list(map(str, runs)), str(folder / "page.html")
    report = [python, "-m", "leadline", "report", "--force", "-o", page]
    commands = {
        READ: [python, "-c", _READ, *both],
        PARSED: [python, "-c", _PARSE, *both],
        COMPARED: [*report, *both],
        SMALL: [*report, str(small)],
    }
    # An installation brings bytecode; an environment for development may forbid to write it.
    without = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    without["PYTHONPYCACHEPREFIX"] = str(folder / "none")
    first = measured(commands[SMALL], without)
    installed = without | {
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
    }
    # Apart from the rounds, since looking at the memory of a process takes time from it.
    peaks = {name: peak_of(one, installed) for name, one in commands.items()}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            found[name].append(measured(command, installed))
    print("\n| whole process | wall | range | processor | peak memory |\n|---|---|---|---|---|")
    for name, times in found.items():
        walls, used = [wall for wall, _ in times], [cpu for _, cpu in times]
        print(
            f"| {name} | {statistics.median(walls):.2f} s | {min(walls):.2f} to {max(walls):.2f} "
            f"| {statistics.median(used):.2f} s | {peaks[name]:.0f} MiB |"
        )
    for base in (READ, PARSED):
        ratios = [
            ours / theirs
            for (ours, _), (theirs, _) in zip(found[COMPARED], found[base], strict=True)
        ]
        print(
            f"| the comparison over {base.split(',')[0]}, round by round | "
            f"{statistics.median(ratios):.1f} x | {min(ratios):.1f} to {max(ratios):.1f} | | |"
        )
    print(f"\n{SMALL}, without any bytecode: {first[0]:.2f} s, processor {first[1]:.2f} s")
    stages = subprocess.run(
        [python, "-c", _STAGES, *both], capture_output=True, text=True, check=True, env=installed
    )
    print(f"processor time of a comparison's stages in one process: {stages.stdout.strip()}")


def measured(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Wall time and processor time in seconds of one process with its children."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    took = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return took, usage.ru_utime + usage.ru_stime


def peak_of(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """Peak memory in MiB of a process and its children together; what they share counts once."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    peak, over = 0.0, threading.Event()

    def wait() -> None:
        process.wait()
        over.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not over.wait(0.02):
        peak = max(peak, sum(map(_held, _tree(process.pid))))
    waiting.join()
    return peak / 1024


def _tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from _tree(int(child))


def _held(pid: int) -> int:
    """KiB, its share of what it shares."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


if __name__ == "__main__":
    main()
