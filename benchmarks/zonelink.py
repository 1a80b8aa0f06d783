"""What the lab's network does to packets and what it costs, for docs/internals/lab-network.md.

Run as root: `uv run python benchmarks/zonelink.py`. Nothing here asserts a time: the machine is
shared, so the load is printed beside the figures, and each is the median of several rounds taken
in turn. CPU is that of the forwarder's process (field 1 of /proc/PID/schedstat); it holds the
receiving kernel's work too, which runs inside our write().
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from leadline.lab.network import RoundTrip, ZoneNetwork, start

ROUNDS = 3
PINGS = 1000
ONE_WAY_S = (0.0, 0.000_25, 0.000_5, 0.001, 0.002)
STREAM_S = 3
A, B = "az1", "az2"

# Inside a zone. The server answers each 64 bytes; the client asks so many times a second.
ECHO_SERVER = """
import socket, sys
listening = socket.create_server((sys.argv[1], 7001))
print("ready", flush=True)
one, _ = listening.accept()
one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while (got := one.recv(64)):
    one.sendall(got)
"""
ECHO_CLIENT = """
import socket, sys, time
one = socket.create_connection((sys.argv[1], 7001))
one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
due = time.monotonic()
for _ in range(int(sys.argv[2]) * int(sys.argv[3])):
    one.sendall(b"x" * 64)
    one.recv(64)
    due += 1 / int(sys.argv[2])
    time.sleep(max(0, due - time.monotonic()))
"""
STREAM_SERVER = """
import socket, sys, time
listening = socket.create_server((sys.argv[1], 7002))
print("ready", flush=True)
one, _ = listening.accept()
place, total = bytearray(1 << 20), 0
began = time.monotonic()
while (got := one.recv_into(place)):
    total += got
print(total * 8 / (time.monotonic() - began) / 1e9)
"""
STREAM_CLIENT = """
import socket, sys, time
one = socket.create_connection((sys.argv[1], 7002))
until = time.monotonic() + int(sys.argv[2])
while time.monotonic() < until:
    one.sendall(b"x" * (1 << 20))
"""


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="zonelink-bench-"))
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}, load {load:.2f} at the start\n")
    network = start(folder, [A, B, "az3"], os.environ)
    try:
        round_trips(network, "the machine as it was", realtime=True)
        with hogs(4):
            round_trips(network, "4 busy processes, real-time priority", realtime=True)
            round_trips(network, "4 busy processes, ordinary priority", realtime=False)
        set_priority(network, realtime=True)
        costs(network)
        streams(network)
        four_idle(folder)
    finally:
        network.stop()
        shutil.rmtree(folder)
    print(f"load {os.getloadavg()[0]:.2f} at the end")


def set_priority(network: ZoneNetwork, *, realtime: bool) -> None:
    policy = os.SCHED_FIFO if realtime else os.SCHED_OTHER
    os.sched_setscheduler(network.pid, policy, os.sched_param(1 if realtime else 0))


@contextmanager
def hogs(count: int) -> Iterator[None]:
    """So many processes that want a whole core each."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def round_trips(network: ZoneNetwork, what: str, *, realtime: bool) -> None:
    set_priority(network, realtime=realtime)
    seen: dict[float, list[RoundTrip]] = {one_way: [] for one_way in ONE_WAY_S}
    for _ in range(ROUNDS):
        for one_way, kept in seen.items():
            network.set_rtt_between_all(2 * one_way)
            kept.append(network.measure_rtt(A, B, PINGS, interval_s=0.002))
    lost = sum(one.sent - one.received for kept in seen.values() for one in kept)
    print(f"ping, {what}: {ROUNDS} x {PINGS}, {lost} lost\n")
    print("| one way | min | p50 | p90 | p99 | max |\n|---|---|---|---|---|---|")
    for one_way, kept in seen.items():
        cuts = [
            statistics.quantiles(
                [float(ms) / 1e3 for ms in re.findall(r"time=([\d.]+) ms", one.raw)], n=100
            )
            for one in kept
        ]
        middle = [statistics.median(cut[percent - 1] for cut in cuts) for percent in (50, 90, 99)]
        cells = [min(one.min_s for one in kept), *middle, max(one.max_s for one in kept)]
        print(
            f"| {one_way * 1e6:g} us | " + " | ".join(f"{cell * 1e3:.3f} ms" for cell in cells),
            "|",
        )
    print()
    network.set_rtt_between_all(0)


def cpu_s(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def share(network: ZoneNetwork, work: Callable[[], object]) -> float:
    """Percent of one core that the forwarder took while `work` was done."""
    before, began = cpu_s(network.pid), time.monotonic()
    work()
    return 100 * (cpu_s(network.pid) - before) / (time.monotonic() - began)


def conversation(network: ZoneNetwork, server: str, client: str, *arguments: object) -> str:
    """Run a server in zone B and a client in zone A; what the server said at its end."""
    address = network.zone(B).address
    listening = subprocess.Popen(
        [*network.prefix(B), sys.executable, "-c", server, address],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert listening.stdout is not None
    assert listening.stdout.readline() == "ready\n"
    subprocess.run(
        [*network.prefix(A), sys.executable, "-c", client, address, *map(str, arguments)],
        check=True,
    )
    said, _ = listening.communicate()
    return said


def costs(network: ZoneNetwork) -> None:
    print("| CPU of the forwarder | median | range |\n|---|---|---|")
    row("idle", [share(network, lambda: time.sleep(2)) for _ in range(ROUNDS)], digits=3)
    # With 1 ms of delay one connection cannot ask a thousand times a second.
    for rtt_s, rate in ((0.0, 1000), (0.001, 500)):
        network.set_rtt_between_all(rtt_s)
        talk = partial(conversation, network, ECHO_SERVER, ECHO_CLIENT, rate, STREAM_S)
        shares = [share(network, talk) for _ in range(ROUNDS)]
        row(f"{rate} round trips/s of 64 B, RTT {rtt_s * 1e3:g} ms", shares)
    network.set_rtt_between_all(0)
    print()


def streams(network: ZoneNetwork) -> None:
    print("| one TCP stream | median | range |\n|---|---|---|")
    rates: dict[float, list[float]] = {0.0: [], 0.001: []}
    shares: dict[float, list[float]] = {0.0: [], 0.001: []}
    for _ in range(ROUNDS):
        for rtt_s in rates:
            network.set_rtt_between_all(rtt_s)
            before = cpu_s(network.pid)
            rate = float(conversation(network, STREAM_SERVER, STREAM_CLIENT, STREAM_S))
            rates[rtt_s].append(rate)
            shares[rtt_s].append(100 * (cpu_s(network.pid) - before) / STREAM_S)
    for rtt_s in rates:
        row(f"RTT {rtt_s * 1e3:g} ms", rates[rtt_s], "Gbit/s")
        row(f"CPU of the forwarder, RTT {rtt_s * 1e3:g} ms", shares[rtt_s])
    print()


def four_idle(folder: Path) -> None:
    """Four labs that do nothing, together."""
    networks = []
    try:
        for number in range(4):
            place = folder / str(number)
            place.mkdir()
            networks.append(start(place, ["a", "b", "c"], os.environ))
        time.sleep(1)
        before = sum(cpu_s(one.pid) for one in networks)
        time.sleep(10)
        used = sum(cpu_s(one.pid) for one in networks) - before
        print(f"four idle networks, 10 s: {used * 1e3:.3f} ms of CPU in all")
        memory = Path(f"/proc/{networks[0].pid}/status").read_text()
        print("one:", next(line for line in memory.splitlines() if line.startswith("VmRSS")))
    finally:
        for one in networks:
            one.stop()


def row(what: str, values: list[float], unit: str = "% of a core", digits: int = 1) -> None:
    low, middle, high = min(values), statistics.median(values), max(values)
    print(f"| {what} | {middle:.{digits}f} {unit} | {low:.{digits}f} to {high:.{digits}f} |")


if __name__ == "__main__":
    main()
