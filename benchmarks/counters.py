"""What sampling a machine's counters costs: processor time of this process for the local sampler,
of the remote loop's processes for the other, as a share of one core at a sample a second; and the
rate and the share of the cores of a load that uses every core, with both samplers and without them
in turn.

    uv run --frozen python benchmarks/counters.py [SECONDS [PAIRS]]
"""

from __future__ import annotations

import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from leadline.archive import layout
from leadline.formats.watch_records import parse_resource_log
from leadline.plan.prometheus import StorageMonitoring
from leadline.probes.watches.host import LOOP, LocalMachine, ResourceWatch
from leadline.probes.watches.prometheus import PrometheusWatch

# A sampler starts before the load of a trial, in its ramp at the latest.
STARTED_S = 0.5


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


def load(seconds: int) -> tuple[float, float]:
    """The rate of fio's null engine with a job on every core, and the share of all cores that it
    got: each tick of a sampler is one that the load lacks."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [
            *("fio", "--name=load", "--ioengine=null", "--rw=randread", "--bs=4k", "--size=1G"),
            *(f"--runtime={seconds}", "--time_based", f"--numjobs={os.cpu_count()}"),
            *("--group_reporting", "--output-format=json"),
        ],
        capture_output=True,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    rate = float(json.loads(done.stdout)["jobs"][0]["read"]["iops"])
    return rate, used / seconds / (os.cpu_count() or 1)


def paired(pairs: int, seconds: int = 2) -> list[tuple[float, float]]:
    """The mean change by both samplers, as a share, and its standard error: of the load's rate, and
    of its share of the cores (which the scatter of the host's own speed does not touch)."""
    processes = {f"osd.{number}": os.getpid() for number in range(8)}
    watched = [f"process:{name}:{pid}" for name, pid in processes.items()]
    logs: list[list[float]] = [[], []]
    for number in range(pairs):
        found: dict[bool, tuple[float, float]] = {}
        # The order alternates, so that a drift cancels out.
        for sampled in (True, False) if number % 2 else (False, True):
            if not sampled:
                time.sleep(STARTED_S)
                found[sampled] = load(seconds)
                continue
            loop = subprocess.Popen(
                ["sh", "-c", LOOP, "sh", "1", "3600", *watched], stdout=subprocess.DEVNULL
            )
            with (
                tempfile.TemporaryDirectory() as name,
                ResourceWatch([LocalMachine(processes=processes)], Path(name)),
            ):
                time.sleep(STARTED_S)
                found[sampled] = load(seconds)
            loop.kill()
            loop.wait()
        for changes, with_it, without in zip(logs, found[True], found[False], strict=True):
            changes.append(math.log(with_it / without))
    return [
        (math.expm1(statistics.fmean(changes)), statistics.stdev(changes) / math.sqrt(pairs))
        for changes in logs
    ]


class Empty(BaseHTTPRequestHandler):
    """A Prometheus without a series."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        vector: dict[str, object] = {"resultType": "vector", "result": []}
        scalar = {"resultType": "scalar", "result": [1.0, str(time.time())]}
        data = scalar if "time%28" in self.path else vector
        body = json.dumps({"status": "success", "data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


def asking(trials: int = 20) -> tuple[float, float]:
    """Median processor time and duration of the queries after a trial. The processor time includes
    that of the server in this process."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Empty)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    source = StorageMonitoring(url=f"http://127.0.0.1:{server.server_port}")
    spent = []
    with tempfile.TemporaryDirectory() as name:
        for number in range(trials):
            folder = Path(name) / str(number)
            folder.mkdir()
            watch = PrometheusWatch(source, folder)
            watch.start()
            began, before = time.perf_counter(), time.process_time()
            watch.stop()
            spent.append((time.process_time() - before, time.perf_counter() - began))
            assert b"error" not in (folder / layout.PROMETHEUS).read_bytes()
    server.shutdown()
    server.server_close()
    processor_s, took_s = zip(*spent, strict=True)
    return statistics.median(processor_s), statistics.median(took_s)


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    share, size, took = local(seconds)
    print(f"local: {share:.3%} of one core, {took * 1e3:.2f} ms a sample, {size:.0f} bytes a line")
    print(f"remote loop: {remote(seconds):.3%} of one core")
    used_s, took_s = asking()
    print(f"Prometheus: {used_s * 1e3:.0f} ms of one core after a trial, {took_s * 1e3:.0f} ms")
    for what, (change, error) in zip(("rate", "share of the cores"), paired(pairs), strict=True):
        print(f"a load on every core, its {what}: {change:+.2%} +- {error:.2%} ({pairs} pairs)")


if __name__ == "__main__":
    main()
