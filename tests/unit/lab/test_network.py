"""The lab's network, as far as it can be reported without namespaces."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, ValidationError

from leadline.lab import network
from leadline.lab import network as forwarder
from leadline.lab.network import (
    SOURCE,
    NetworkUnavailable,
    Zone,
    ZoneNetwork,
    build,
    one_way_ns,
    parse_ping,
    render_delays,
    start,
)

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="no C compiler: zonelink does NOT get built here"
)

PING = """\
PING 10.77.2.1 (10.77.2.1) 56(84) bytes of data.
64 bytes from 10.77.2.1: icmp_seq=1 ttl=64 time=1.07 ms
64 bytes from 10.77.2.1: icmp_seq=3 ttl=64 time=0.914 ms
64 bytes from 10.77.2.1: icmp_seq=2 ttl=64 time=10.2 ms
64 bytes from 10.77.2.1: icmp_seq=2 ttl=64 time=99 ms (DUP!)
64 bytes from 10.77.2.1: icmp_seq=5 ttl=64 time=123 ms

--- 10.77.2.1 ping statistics ---
5 packets transmitted, 4 received, +1 duplicates, 20% packet loss, time 20ms
rtt min/avg/max/mdev = 0.914/33.796/123.000/51.620 ms
"""
LOST = """\
PING 10.77.2.1 (10.77.2.1) 56(84) bytes of data.

--- 10.77.2.1 ping statistics ---
3 packets transmitted, 0 received, 100% packet loss, time 10ms
"""


@pytest.fixture
def zones(tmp_path: Path) -> ZoneNetwork:
    return ZoneNetwork(
        pid=4242,
        start_ticks=99,
        folder=tmp_path,
        zones=tuple(
            Zone(name=f"az{n}", address=f"10.77.{n}.1", namespace=Path(f"/proc/4242/fd/{n + 3}"))
            for n in (1, 2)
        ),
    )


def test_every_reply_of_ping_counts_once() -> None:
    seen = parse_ping(PING, source="az1", destination="az2")
    assert (seen.sent, seen.received) == (5, 4)
    assert (seen.min_s, seen.max_s) == pytest.approx((0.000914, 0.123))
    assert seen.median_s == pytest.approx((0.00107 + 0.0102) / 2)
    assert seen.raw == PING


def test_ping_without_a_reply_measures_nothing() -> None:
    with pytest.raises(NetworkUnavailable, match="no reply came from zone az2 to zone az1"):
        parse_ping(LOST, source="az1", destination="az2")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "no line with the number"),
        ("ping: unknown host\n", "no line with the number"),
        (PING.replace("4 received", "5 received"), "shows 4 replies and counts 5"),
    ],
)
def test_what_is_no_output_of_ping_is_refused(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        parse_ping(text, source="az1", destination="az2")


@given(st.floats(min_value=0, max_value=20))
def test_one_way_is_half_a_round_trip(rtt_s: float) -> None:
    assert one_way_ns(rtt_s) == pytest.approx(rtt_s * 1e9 / 2, abs=0.51)


@pytest.mark.parametrize("rtt_s", [-1e-9, 20.1, float("nan"), float("inf")])
def test_a_round_trip_out_of_bounds_is_refused(rtt_s: float) -> None:
    with pytest.raises(ValueError, match="is not from 0 to 20 s"):
        one_way_ns(rtt_s)


def test_the_file_of_delays_is_one_line_a_pair() -> None:
    assert render_delays({("b", "a"): 2, ("a", "b"): 500_000}) == "a b 500000\nb a 2\n"
    assert render_delays({}) == ""


def test_a_command_is_run_inside_a_zone_by_nsenter(zones: ZoneNetwork) -> None:
    assert zones.prefix("az2") == ("nsenter", "--net=/proc/4242/fd/5", "--")
    with pytest.raises(KeyError, match="az9"):
        zones.prefix("az9")


def test_a_state_file_can_keep_the_network(zones: ZoneNetwork) -> None:
    class State(BaseModel):
        model_config = ConfigDict(frozen=True)
        network: ZoneNetwork | None

    state = State(network=zones)
    assert State.model_validate_json(state.model_dump_json()) == state
    with pytest.raises(ValidationError):
        State.model_validate({"network": {"pid": 1}})


def test_a_process_that_only_has_the_same_pid_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            ticks = network._start_ticks(other.pid)
            assert ticks is not None
            stale = ZoneNetwork(pid=other.pid, start_ticks=ticks - 1, folder=tmp_path, zones=())
            assert not stale.alive()
            stale.stop()
            with pytest.raises(ProcessLookupError):
                network._send(other.pid, ticks - 1, network.signal.SIGTERM)
            assert other.poll() is None
        finally:
            other.kill()


def test_a_network_that_has_ended_takes_no_delay(zones: ZoneNetwork) -> None:
    gone = ZoneNetwork(pid=2**22 + 1, start_ticks=1, folder=zones.folder, zones=zones.zones)
    assert not gone.alive()
    gone.stop()
    with pytest.raises(NetworkUnavailable, match="has ended"):
        gone.set_rtt("az1", "az2", 0.001)


def test_within_a_zone_there_is_no_delay_to_set(zones: ZoneNetwork) -> None:
    with pytest.raises(ValueError, match="within zone az1 is never delayed"):
        zones.set_rtt("az1", "az1", 0.001)
    with pytest.raises(KeyError, match="az9"):
        zones.set_rtt("az1", "az9", 0.001)


@pytest.mark.parametrize(
    "names", [(), ("a", "a"), ("a b",), ("-a",), ("a/b",), ("x" * 64,), ("zürich",), ("",)]
)
def test_names_that_zonelink_would_not_take_are_refused(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError, match="distinct names of zones"):
        start(tmp_path, names, {})


@pytest.mark.parametrize(
    ("held", "missing"),
    [
        ("000001fffeffffff", []),
        ("0000000000000000", ["CAP_NET_ADMIN", "CAP_SYS_ADMIN"]),
        ("0000000000001000", ["CAP_SYS_ADMIN"]),
        ("00000000a80425fb", ["CAP_NET_ADMIN", "CAP_SYS_ADMIN"]),  # a container's usual set
    ],
)
def test_missing_capabilities_are_named(held: str, missing: list[str]) -> None:
    assert network._missing_capabilities(f"Name:\tx\nCapEff:\t{held}\nCapBnd:\t0\n") == missing


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    return tmp_path / "cache"


def test_without_a_compiler_the_reason_names_the_package(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NetworkUnavailable) as raised:
        build()
    assert raised.value.reason == "there is no C compiler (Debian: gcc libc6-dev)"
    assert not cache.exists()


@needs_compiler
def test_what_does_not_compile_leaves_nothing_in_the_cache(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "zonelink.c"
    broken.write_text("#include <no/such/header.h>\n")
    monkeypatch.setattr(forwarder, "SOURCE", broken)
    with pytest.raises(NetworkUnavailable, match=r"cannot compile zonelink\.c .*no/such/header"):
        build()
    assert list((cache / "leadline").iterdir()) == []


@needs_compiler
def test_built_once_and_used_again_also_by_many_at_once(cache: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        built = set(pool.map(lambda _: build(), range(4)))
    (binary,) = built
    assert list((cache / "leadline").iterdir()) == [binary]
    before = binary.stat()
    assert build() == binary
    assert binary.stat().st_mtime_ns == before.st_mtime_ns
    assert os.access(binary, os.X_OK)


@needs_compiler
def test_a_program_that_others_could_have_put_there_is_not_used(cache: Path) -> None:
    binary = build()
    binary.write_text("#!/bin/sh\nexit 9\n")
    binary.chmod(0o777)
    assert build() == binary
    assert binary.read_bytes().startswith(b"\x7fELF")
    assert not stat.S_IMODE(binary.stat().st_mode) & 0o022


@needs_compiler
def test_the_forwarder_compiles_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", tmp_path / "zonelink", SOURCE],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


@needs_compiler
@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ([], "usage"),
        (["--ready", "r", "--delays", "d"], "usage"),
        (["--ready", "r", "--delays", "d", "a", "a"], "two zones have the name: a"),
        (["--ready", "r", "--delays", "d", 'a"b'], "a zone's name is letters"),
        (["--ready", "r", "--delays", "d", "--mtu", "9x", "a"], "--mtu is not from 576 to 65000"),
        (["--ready", "r", "--delays", "d", "--colour", "9", "a"], "no such option"),
        (["a", "--ready"], "a value is missing after: --ready"),
        (["--ready", "r", "--delays", "d", *map(str, range(65))], "there are too many zones"),
    ],
)
def test_wrong_arguments_of_the_forwarder_are_reported(
    cache: Path, arguments: list[str], fault: str
) -> None:
    done = subprocess.run([build(), *arguments], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert f"zonelink: {fault}" in done.stderr
