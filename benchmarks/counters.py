"""What sampling a machine's counters costs: processor time of this process for the local sampler,
of the remote loop's processes for the other, as a share of one core at a sample a second.

    uv run --frozen python benchmarks/counters.py [SECONDS]
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from leadline.archive import layout
from leadline.formats.watch_records import parse_resource_log
from leadline.probes.watches.host import LOOP, LocalMachine, ResourceWatch


def local(seconds: float) -> tuple[float, float, float]:
    """Share of one core of a watch of this machine with 8 processes, bytes a sample, and the
    median time of a sample, each from `seconds` of sampling."""
    processes = {f"osd.{number}": os.getpid() for number in range(8)}
    machine = LocalMachine(processes=processes)
    machine.counters()
    took = []
    for _ in range(200):
        began = time.perf_counter()
        machine.counters()
        took.append(time.perf_counter() - began)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = time.process_time()
        with ResourceWatch([machine], folder):
            time.sleep(seconds)
        used = time.process_time() - before
        content = (folder / layout.RESOURCES).read_bytes()
    samples = len(parse_resource_log(content))
    return used / seconds, len(content) / samples, statistics.median(took)


def remote(seconds: float) -> float:
    """Share of one core of the loop that runs behind a shell, with 8 processes."""
    processes = [f"process:osd.{number}:{os.getpid()}" for number in range(8)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    subprocess.run(
        ["sh", "-c", LOOP, "sh", "1", str(int(seconds)), *processes],
        stdout=subprocess.DEVNULL,
        check=True,
    )
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used / wall


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    share, size, took = local(seconds)
    print(f"local: {share:.3%} of one core, {took * 1e3:.2f} ms a sample, {size:.0f} bytes a line")
    print(f"remote loop: {remote(seconds):.3%} of one core")


if __name__ == "__main__":
    main()
