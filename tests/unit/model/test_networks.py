"""Closed networks against what is known of them by other means."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.model.networks import Network, throughput

RECORDED = Path(__file__).resolve().parents[2] / "recorded" / "networks" / "ciw.csv"


def network(
    *,
    delay_s: float = 0.0,
    capacity: float = 1.0,
    servers: float = 1.0,
    shared: bool = False,
    exponent: float = 0.0,
    onset: float = 0.0,
    until: float = math.inf,
) -> Network:
    return Network(
        delay_s=np.array([delay_s]),
        capacity=np.array([capacity]),
        servers=np.array([servers]),
        shared=np.array([shared]),
        exponent=np.array([exponent]),
        onset=np.array([onset]),
        until=np.array([until]),
    )


def rate(system: Network, in_flight: int) -> float:
    return float(throughput(system, in_flight)[0])


def mean_value_analysis(delay_s: float, capacity: float, servers: int, in_flight: int) -> float:
    """The exact recursion for equal single servers (Reiser and Lavenberg 1980)."""
    queue, found = 0.0, 0.0
    for count in range(1, in_flight + 1):
        response_s = servers / capacity * (1 + queue)
        found = count / (delay_s + response_s)
        queue = found * response_s / servers
    return found


systems = st.builds(
    network,
    delay_s=st.floats(0.0, 50.0),
    capacity=st.floats(0.1, 1e5),
    servers=st.floats(1.0, 300.0),
    shared=st.booleans(),
    exponent=st.floats(-0.4, 0.4),
    onset=st.floats(0.0, 100.0),
    until=st.one_of(st.just(math.inf), st.integers(1, 100).map(float)),
)


@given(
    delay_s=st.floats(0.0, 100.0),
    servers=st.integers(1, 40),
    capacity=st.floats(0.1, 100.0),
    in_flight=st.integers(1, 256),
)
def test_spread_servers_are_mean_value_analysis(
    delay_s: float, servers: int, capacity: float, in_flight: int
) -> None:
    system = network(delay_s=delay_s, servers=servers, capacity=capacity)
    assert rate(system, in_flight) == pytest.approx(
        mean_value_analysis(delay_s, capacity, servers, in_flight), rel=1e-6
    )


@given(systems)
def test_one_in_flight_is_algebra(system: Network) -> None:
    alone_s = system.delay_s[0] + system.service_s[0]
    assert rate(system, 1) == pytest.approx(1 / alone_s, rel=1e-6)


@given(systems, st.integers(1, 700))
def test_laws_of_little_and_of_utilisation(system: Network, in_flight: int) -> None:
    """I/Os in the delay are rate x delay, the rest is at the station; and no result passes the
    asymptotic bounds of a system whose work per I/O never falls."""
    found = rate(system, in_flight)
    assert 0 <= found * system.delay_s[0] <= in_flight * (1 + 1e-3)
    most = float(system.rates(np.array([[float(in_flight)]])).max())
    if system.exponent[0] <= 0:
        alone_s = system.delay_s[0] + system.service_s[0]
        assert found <= min(system.capacity[0], in_flight / alone_s) * (1 + 1e-6)
    else:
        assert found <= most * (1 + 1e-6)


@given(
    servers=st.floats(1.0, 60.0),
    delay_s=st.floats(0.0, 20.0),
    shared=st.booleans(),
)
def test_many_in_flight_reach_the_capacity(servers: float, delay_s: float, shared: bool) -> None:
    system = network(delay_s=delay_s, servers=servers, shared=shared)
    assert rate(system, 100_000) == pytest.approx(1.0, abs=0.001)


@given(systems.filter(lambda system: system.exponent[0] >= 0), st.integers(1, 250))
def test_more_in_flight_give_no_less(system: Network, in_flight: int) -> None:
    assert rate(system, in_flight + 1) >= rate(system, in_flight) * (1 - 1e-9)


@pytest.mark.parametrize("load", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("servers", [1, 4])
def test_many_thinking_clients_are_a_poisson_stream(servers: int, load: float) -> None:
    """M/M/1 and M/M/c: with N clients that think N / load, the mean number at the station tends to
    the open queue's (Erlang C)."""
    many, offered = 250, load * servers
    full = offered**servers / math.factorial(servers) / (1 - load)
    waits = full / (sum(offered**k / math.factorial(k) for k in range(servers)) + full)
    at_station = offered + waits * load / (1 - load)
    think_s = (many - at_station) / load
    found = rate(network(delay_s=think_s, servers=servers, shared=True), many)
    assert many - found * think_s == pytest.approx(at_station, rel=0.05)


@pytest.mark.parametrize("exponent", [-0.3, 0.0, 0.3])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("knee", [0.5, 1.0, 2.0])
def test_thinned_sums_equal_whole_ones(exponent: float, knee: float, *, shared: bool) -> None:
    """Of a thousand in flight, against the recursion over all numbers of I/Os at the station."""
    in_flight, servers = 1000, 9
    system = network(
        delay_s=in_flight / knee,
        servers=servers,
        shared=shared,
        exponent=exponent,
        onset=30.0,
        until=200.0,
    )
    numbers = np.arange(1, in_flight + 1, dtype=np.float64)
    steps = np.log(
        system.rates(numbers[None, :])[0] * system.delay_s[0] / (in_flight - numbers + 1)
    )
    logs = np.concatenate([[0.0], -np.cumsum(steps)])
    shares = np.exp(logs - logs.max())
    at_each = np.concatenate([[0.0], system.rates(numbers[None, :])[0]])
    whole = float((shares * at_each).sum() / shares.sum())
    assert rate(system, in_flight) == pytest.approx(whole, rel=1e-3)


def test_group_commit_is_spread_servers() -> None:
    """A commit that takes F + n s for all n I/Os that wait completes n / (F + n s)."""
    fixed_s, each_s = 3.0, 0.5
    system = network(capacity=1 / each_s, servers=1 + fixed_s / each_s)
    for count in (1, 5, 50):
        assert rate(system, count) == pytest.approx(count / (fixed_s + count * each_s), rel=1e-6)


def test_no_ios_are_refused() -> None:
    with pytest.raises(ValueError, match="0 I/Os"):
        throughput(network(), 0)


def test_a_simulation_agrees() -> None:
    """tests/recorded/networks/ciw.csv: networks that Ciw simulated, with their scatter."""
    with RECORDED.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) >= 8
    for row in rows:
        system = network(
            delay_s=float(row["delay_s"]),
            capacity=float(row["capacity"]),
            servers=float(row["servers"]),
            shared=row["shared"] == "yes",
        )
        error = float(row["standard_error"])
        simulated = float(row["iops"])
        assert abs(rate(system, int(row["in_flight"])) - simulated) < 4 * error, row
