"""Simulate closed networks with Ciw and write tests/recorded/networks/ciw.csv.

    python scripts/simulate_networks.py          (in an environment with Ciw, which Leadline lacks)

Customers think for an exponential time, then are served for an exponential time by one of the
servers, chosen at random (`shared` no: each has its own queue) or by any free one (yes). The rate
is that of completed services behind a warm-up; the standard error is over independent runs.
"""

from __future__ import annotations

import csv
import math
import statistics
from pathlib import Path

import ciw

WRITTEN = Path(__file__).resolve().parent.parent / "tests" / "recorded" / "networks" / "ciw.csv"
RUNS, COMPLETIONS, WARM_UP_SHARE = 10, 20_000, 0.1
# delay_s, capacity, servers, shared, in flight
NETWORKS = [
    (0.0, 1.0, 4, False, 2),
    (0.0, 1.0, 4, False, 12),
    (3.0, 1.0, 3, False, 4),
    (3.0, 1.0, 3, False, 9),
    (10.0, 1.0, 1, False, 10),
    (2.0, 2.0, 6, True, 5),
    (2.0, 2.0, 6, True, 10),
    (20.0, 1.0, 5, True, 25),
]


def simulate(
    delay_s: float, capacity: float, servers: int, in_flight: int, *, shared: bool, seed: int
) -> float:
    """Return the completed services per second of one run."""
    stations = 1 if shared else servers
    service = ciw.dists.Exponential(rate=capacity / servers)
    think = ciw.dists.Exponential(1 / delay_s) if delay_s else ciw.dists.Deterministic(0.0)
    routing = [[0.0] + [1 / stations] * stations] + [
        [1.0] + [0.0] * stations for _ in range(stations)
    ]
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Sequential([0.0] * in_flight + [math.inf])]
        + [None] * stations,
        service_distributions=[think] + [service] * stations,
        number_of_servers=[math.inf] + [servers if shared else 1] * stations,
        routing=routing,
    )
    ciw.seed(seed)
    simulation = ciw.Simulation(network)
    until = COMPLETIONS / capacity
    simulation.simulate_until_max_time(until)
    begin = WARM_UP_SHARE * until
    done = sum(
        record.node > 1 and record.record_type == "service" and begin < record.exit_date <= until
        for record in simulation.get_all_records()
    )
    return done / (until - begin)


def main() -> None:
    WRITTEN.parent.mkdir(parents=True, exist_ok=True)
    with WRITTEN.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        head = ("delay_s", "capacity", "servers", "shared", "in_flight", "iops", "standard_error")
        writer.writerow([*head, "runs"])
        for delay_s, capacity, servers, shared, in_flight in NETWORKS:
            rates = [
                simulate(delay_s, capacity, servers, in_flight, shared=shared, seed=seed)
                for seed in range(RUNS)
            ]
            error = statistics.stdev(rates) / math.sqrt(RUNS)
            given = (delay_s, capacity, servers, "yes" if shared else "no", in_flight)
            writer.writerow([*given, f"{statistics.fmean(rates):.5f}", f"{error:.5f}", RUNS])


if __name__ == "__main__":
    main()
