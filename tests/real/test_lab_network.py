"""The lab's network with real namespaces and packets.

Nothing here asserts how quick anything is, only what cannot be otherwise: a packet is never early,
none is lost, none overtakes another, and nothing is left behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from leadline.lab import network
from leadline.lab.network import NetworkUnavailable, ZoneNetwork, find_obstacle, start

pytestmark = [pytest.mark.real, pytest.mark.root, pytest.mark.slow]

ZONES = ("az1", "az2", "az3")

# 33 and 32 below are SO_RCVBUFFORCE and SO_SNDBUFFORCE, which Python does not name.
# Sends numbers until asked to stop by the end of its input, then a last word, and says how many
# there were; the receiver says what is wrong with their order.
SENDER = """
import select, socket, struct, sys, time
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
number = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    one.sendto(struct.pack("!Q", number), (sys.argv[1], 7100))
    number += 1
    time.sleep(0.0001)
one.sendto(b"the end", (sys.argv[1], 7100))
print(number)
"""
RECEIVER = """
import socket, struct, sys
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
one.bind((sys.argv[1], 7100))
one.settimeout(float(sys.argv[2]))
print("ready", flush=True)
expected = 0
try:
    while True:
        got = one.recv(8)
        if got == b"the end":
            print(expected)
            break
        number, = struct.unpack("!Q", got)
        if number != expected:
            print("expected", expected, "and got", number)
            break
        expected += 1
except TimeoutError:
    print("the last that came was", expected - 1)
"""
# Pseudo-random bytes that both ends know, so that each one is compared.
STREAM_SENDER = """
import random, socket, sys
one = socket.create_connection((sys.argv[1], 7200))
source = random.Random(1)
for _ in range(int(sys.argv[2])):
    one.sendall(source.randbytes(1 << 20))
"""
STREAM_RECEIVER = """
import random, socket, sys
listening = socket.create_server((sys.argv[1], 7200))
print("ready", flush=True)
one, _ = listening.accept()
stream, source = one.makefile("rb"), random.Random(1)
print(all(stream.read(1 << 20) == source.randbytes(1 << 20) for _ in range(int(sys.argv[2]))))
"""


@pytest.fixture(autouse=True)
def _possible() -> None:
    if reason := find_obstacle():
        pytest.skip(f"{reason}: the lab's network does NOT get tested here")


@pytest.fixture
def zones(tmp_path: Path) -> Iterator[ZoneNetwork]:
    running = start(tmp_path, ZONES, os.environ)
    try:
        yield running
    finally:
        running.stop()


def inside(
    zones: ZoneNetwork, zone: str, program: str, *arguments: object
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*zones.prefix(zone), sys.executable, "-c", program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def listening(
    zones: ZoneNetwork, zone: str, program: str, *arguments: object
) -> subprocess.Popen[str]:
    one = inside(zones, zone, program, zones.zone(zone).address, *arguments)
    assert one.stdout is not None
    assert one.stdout.readline() == "ready\n"
    return one


def processes_in(namespaces: set[str]) -> list[str]:
    """Every process whose network namespace, or one that it holds open, is one of these."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            held = [process / "ns" / "net", *(process / "fd").iterdir()]
            if namespaces & {str(item.readlink()) for item in held}:
                found.append(process.name)
        except OSError:
            continue
    return found


def test_a_packet_is_never_early(zones: ZoneNetwork) -> None:
    floor = zones.measure_rtt("az1", "az2", 20)
    zones.set_rtt("az1", "az2", 0.010)
    there, back = zones.measure_rtt("az1", "az2", 20), zones.measure_rtt("az2", "az1", 20)
    assert there.min_s >= 0.010
    assert back.min_s >= 0.010
    assert floor.min_s < 0.010
    # Of the last, ping waits two seconds: a machine that stands still longer makes it give up.
    assert there.sent == 20
    assert 0 < there.received <= 20


def test_each_pair_has_its_own_delay_and_a_zone_has_none_within(zones: ZoneNetwork) -> None:
    zones.set_rtt_between_all(0.040)
    zones.set_rtt("az1", "az3", 0.080)
    assert zones.delays_ns() == {
        **dict.fromkeys([("az1", "az2"), ("az2", "az1")], 20_000_000),
        **dict.fromkeys([("az2", "az3"), ("az3", "az2")], 20_000_000),
        **dict.fromkeys([("az1", "az3"), ("az3", "az1")], 40_000_000),
    }
    assert 0.040 <= zones.measure_rtt("az1", "az2", 10).min_s < 0.080
    assert 0.040 <= zones.measure_rtt("az3", "az2", 10).min_s < 0.080
    assert zones.measure_rtt("az3", "az1", 10).min_s >= 0.080
    for zone in ZONES:
        assert zones.measure_rtt(zone, zone, 10).min_s < 0.040
    zones.set_rtt_between_all(0)
    assert zones.delays_ns() == {}
    assert zones.measure_rtt("az3", "az1", 10).min_s < 0.080


def test_changing_the_delay_neither_loses_nor_reorders_packets(zones: ZoneNetwork) -> None:
    receiver = listening(zones, "az2", RECEIVER, 60)
    sender = inside(zones, "az1", SENDER, zones.zone("az2").address)
    for rtt_s in (0.02, 0, 0.1, 0.001, 0.05, 0, 0.3, 0, 0.002, 0.0005, 0) * 4:
        zones.set_rtt("az1", "az2", rtt_s)
        time.sleep(0.02)
    sent, _ = sender.communicate("stop")
    received, _ = receiver.communicate()
    assert int(sent) > 100
    assert received == sent


def test_bytes_arrive_as_they_were_sent_also_when_more_waits_than_there_is_room_for(
    zones: ZoneNetwork, tmp_path: Path
) -> None:
    zones.set_rtt("az1", "az2", 0.2)
    talks = []
    for zone in ("az2", "az3"):  # of the two destinations one has no delay: the ring has holes
        receiver = listening(zones, zone, STREAM_RECEIVER, 48)
        sender = inside(zones, "az1", STREAM_SENDER, zones.zone(zone).address, 48)
        talks.append((sender, receiver))
    stop = threading.Event()

    def shake() -> None:
        while not stop.wait(0.05):
            zones.set_rtt("az1", "az3", 0.001)
            zones.set_rtt("az1", "az3", 0.05)

    shaking = threading.Thread(target=shake)
    shaking.start()
    try:
        for sender, receiver in talks:
            said, _ = receiver.communicate(timeout=240)
            sender.communicate(timeout=60)
            assert said == "True\n"
    finally:
        stop.set()
        shaking.join()


def test_more_than_the_ring_holds_is_kept_by_the_kernel_and_not_dropped(
    zones: ZoneNetwork, tmp_path: Path
) -> None:
    """2,000 datagrams of 30,000 bytes are 60 MB at once; the ring holds 32 MiB."""
    zones.set_rtt("az1", "az2", 1.0)
    receiver = listening(
        zones,
        "az2",
        """
import socket, sys
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.setsockopt(socket.SOL_SOCKET, 33, 512 << 20)
one.bind((sys.argv[1], 7300))
one.settimeout(60)
print("ready", flush=True)
for number in range(2000):
    got = one.recv(65000)
    if got != number.to_bytes(4, "big") * 7500:
        print("wrong", number)
        break
else:
    print("all")
""",
    )
    sender = inside(
        zones,
        "az1",
        """
import socket, sys
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.setsockopt(socket.SOL_SOCKET, 32, 512 << 20)
for number in range(2000):
    one.sendto(number.to_bytes(4, "big") * 7500, (sys.argv[1], 7300))
""",
        zones.zone("az2").address,
    )
    sender.communicate(timeout=120)
    said, _ = receiver.communicate(timeout=120)
    assert said == "all\n"
    assert ", 0 stalls," not in counters(zones)


def counters(zones: ZoneNetwork) -> str:
    os.kill(zones.pid, signal.SIGUSR1)
    log = zones.folder / network.LOG
    assert network._wait_for(lambda: "wake-ups" in log.read_text(), 90)
    return log.read_text()


@pytest.mark.parametrize(
    "faulty",
    ["az1 az2\n", "az1 az9 5\n", "az1 az1 5\n", "az1 az2 -5\n", "az1 az2 5", "az1 az2 5 6\n",
     "az1 az2 99999999999\n", "az1 az2 5\nnonsense\n", "\0\0\0\n"],
)  # fmt: skip
def test_a_faulty_file_of_delays_changes_nothing(zones: ZoneNetwork, faulty: str) -> None:
    zones.set_rtt("az1", "az2", 0.010)
    before = zones.delays_ns()
    log = zones.folder / network.LOG
    (zones.folder / network.DELAYS).write_text(faulty)
    os.kill(zones.pid, signal.SIGHUP)
    assert network._wait_for(lambda: "the delays stay" in log.read_text(), 90)
    assert zones.delays_ns() == before
    zones.set_rtt("az1", "az2", 0.020)
    assert zones.delays_ns()["az1", "az2"] == 10_000_000
    assert zones.measure_rtt("az1", "az2", 5).min_s >= 0.020


def test_nothing_is_left_after_stop(tmp_path: Path) -> None:
    named = Path("/run/netns")
    before = sorted(named.iterdir()) if named.is_dir() else None
    running = start(tmp_path, ZONES, os.environ)
    namespaces = {str(zone.namespace.readlink()) for zone in running.zones}
    assert len(namespaces) == 3
    assert processes_in(namespaces) == [str(running.pid)]
    assert running.alive()
    running.stop()
    running.stop()
    assert not running.alive()
    assert processes_in(namespaces) == []
    assert not Path(f"/proc/{running.pid}").exists()
    assert (sorted(named.iterdir()) if named.is_dir() else None) == before
    with pytest.raises(NetworkUnavailable, match="has ended"):
        running.set_rtt_between_all(0.001)


def test_it_outlives_who_started_it_and_another_can_end_it(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from pydantic import TypeAdapter;"
        "from leadline.lab.network import ZoneNetwork, start;"
        "started = start(Path(sys.argv[1]), ['a', 'b'], os.environ);"
        "print(TypeAdapter(ZoneNetwork).dump_json(started).decode())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        env=os.environ | {"LEADLINE_TEST_MARK": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    running = TypeAdapter(ZoneNetwork).validate_json(done.stdout)
    try:
        assert running.alive()
        marks = Path(f"/proc/{running.pid}/environ").read_bytes().split(b"\0")
        assert f"LEADLINE_TEST_MARK={tmp_path}".encode() in marks
        assert os.getsid(running.pid) == running.pid
        assert running.measure_rtt("a", "b", 3).received == 3
    finally:
        running.stop()
    assert not running.alive()


@pytest.mark.parametrize("moment", ["raises", "killed"])
def test_a_start_that_does_not_end_well_leaves_nothing_running(tmp_path: Path, moment: str) -> None:
    """The forwarder is held before it is ready, by a file of delays that is a pipe."""
    program = f"""
import os, sys
from pathlib import Path
from leadline.lab import network
def hold(path, text):
    os.mkfifo(path)
def give_up(holds, patience_s):
    import time
    time.sleep(0.3)
    print("held", flush=True)
    if {moment!r} == "raises":
        raise KeyboardInterrupt
    time.sleep(60)
network.write_durably, network._wait_for = hold, give_up
network.start(Path(sys.argv[1]), ["a"], os.environ)
"""
    mark = f"LEADLINE_TEST_MARK={tmp_path}"
    starter = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"LEADLINE_TEST_MARK": str(tmp_path)},
    )
    assert starter.stdout is not None
    assert starter.stdout.readline() == "held\n"
    if moment == "killed":
        assert len(marked(mark)) == 2
        starter.kill()
    starter.communicate()
    assert network._wait_for(lambda: not marked(mark), 90)
    assert not (tmp_path / network.READY).exists()


def marked(mark: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(process.name)
        except OSError:
            continue
    return found


def test_the_forwarder_that_ends_at_once_reports_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "DELAYS", "no/such/folder")
    monkeypatch.setattr(network, "write_durably", lambda path, text: None)
    with pytest.raises(NetworkUnavailable, match="No such file or directory; the delays stay"):
        start(tmp_path, ["a"], os.environ)
    assert not (tmp_path / network.READY).exists()


def test_without_the_right_to_unshare_the_reason_says_so(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from leadline.lab import network;"
        "network.find_obstacle = lambda: None\n"
        "try: network.start(Path(sys.argv[1]), ['a'], os.environ)\n"
        "except network.NetworkUnavailable as no: print(no.reason)"
    )
    done = subprocess.run(
        ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin",
         sys.executable, "-c", program, str(tmp_path)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.strip() == (
        "network namespaces are unavailable: "
        "cannot make a network namespace: Operation not permitted"
    ), done.stderr


def test_without_ping_the_round_trip_is_not_guessed(
    zones: ZoneNetwork, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NetworkUnavailable, match=r"no ping \(Debian: iputils-ping\)"):
        zones.measure_rtt("az1", "az2")


def test_a_lost_link_drops_every_packet_until_its_delay_is_set(zones: ZoneNetwork) -> None:
    zones.set_rtt_between_all(0.001)
    zones.lose_link("az1", "az2")
    with pytest.raises(NetworkUnavailable, match="no reply"):
        zones.measure_rtt("az1", "az2", count=3)
    assert zones.measure_rtt("az1", "az3", count=3).received == 3
    assert zones.delays_ns()["az2", "az1"] == -1
    zones.set_rtt("az1", "az2", 0.001)
    assert zones.measure_rtt("az2", "az1", count=3).min_s >= 0.001
    assert set(zones.delays_ns().values()) == {500_000}
