"""The watch of machines: this one by /proc, others through a shell, and all that goes wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from leadline import errors
from leadline.archive import layout
from leadline.archive.trial import StoredTrial
from leadline.connect.shell import CommandResult
from leadline.errors import LeadlineError
from leadline.formats.host_rates import machine_rates
from leadline.formats.watch_records import HostSample, MissedHostSample, Role
from leadline.probes import host
from leadline.probes.watches.host import (
    Counters,
    LocalMachine,
    RemoteMachine,
    Report,
    ResourceWatch,
    parse_daemons,
    parse_sample,
)
from tests.awaiting import BOUND_S, lines_in, wait_for
from tests.local_shell import LocalShell

PERIOD_S = 0.05
PATIENCE_S = BOUND_S
BURN = "while True: pass"


@pytest.fixture
def burning() -> Iterator[int]:
    """The pid of a process that uses one core."""
    child = subprocess.Popen([sys.executable, "-c", BURN])
    try:
        yield child.pid
    finally:
        child.kill()
        child.wait()


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / layout.RESOURCES).read_bytes().splitlines()]


def reported(folder: Path, machine: str, count: int = 1) -> bool:
    """Whether so many lines of a machine are written."""
    path = folder / layout.RESOURCES
    return lines_in(path) >= count and path.read_text().count(f'"{machine}"') >= count


def used_s(pid: int) -> float:
    """Seconds of the processor that a process has used, as the kernel counts them."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def group_v1(folder: Path) -> Path:
    """A control group as version 1 has it."""
    folder.mkdir()
    (folder / "cpu.stat").write_text("nr_periods 40\nnr_throttled 10\nthrottled_time 2500000\n")
    (folder / "cpu.cfs_quota_us").write_text("1500\n")
    (folder / "cpu.cfs_period_us").write_text("10000\n")
    (folder / "cpuacct.usage").write_text("60000000\n")
    return folder


def group_v2(folder: Path) -> Path:
    """The same group as version 2 has it."""
    folder.mkdir()
    (folder / "cpu.stat").write_text(
        "usage_usec 60000\nuser_usec 1\nsystem_usec 1\n"
        "nr_periods 40\nnr_throttled 10\nthrottled_usec 2500\n"
    )
    (folder / "cpu.max").write_text("1500 10000\n")
    return folder


class Machine:
    """Reports what a test says, and may fail or hang."""

    name = "made up"
    roles: Sequence[Role] = (Role.STORAGE,)

    def __init__(self, follow: Callable[[float, threading.Event, Report], None]) -> None:
        self.follow = follow


def counters(clock_s: float, **changed: Any) -> Counters:
    return {
        "clock_s": clock_s,
        "cores": 1,
        "hz": 100,
        "cpu": [1] * 8,
        "disks": {"sda": [1] * 11, "sdb": [2] * 11},
        "interfaces": {"eth0": [1] * 4},
        "links_bps": {"eth0": 1e9},
        "groups": {},
        "processes": {},
        "unread": [],
        **changed,
    }


def both(root: Path, **asked: Any) -> tuple[LocalMachine, RemoteMachine]:
    """This machine twice: by its files, and through a shell."""
    remote = {**asked, "groups": {key: str(item) for key, item in asked.get("groups", {}).items()}}
    return (
        LocalMachine(name="here", **asked),
        RemoteMachine(name="there", shell=LocalShell(root), **remote),
    )


@pytest.mark.parametrize("which", [0, 1], ids=["local", "through a shell"])
def test_a_busy_process_is_seen(tmp_path: Path, burning: int, which: int) -> None:
    machine = both(tmp_path, processes={"burner": burning, "ourselves": os.getpid()})[which]
    before = time.monotonic()
    with ResourceWatch([machine], tmp_path, period_s=0.2, patience_s=PATIENCE_S):
        wait_for(lambda: reported(tmp_path, machine.name))
        began = used_s(burning)
        # It may share its core with whatever else runs here, and the machine may stand still.
        wait_for(lambda: used_s(burning) - began > 0.5)
        used = used_s(burning) - began
    lasted = time.monotonic() - before
    (rates,) = machine_rates(StoredTrial(tmp_path, None).resources)
    assert rates.machine == machine.name
    assert rates.cpu is not None
    assert rates.processes["burner"] > 0.9 * used / lasted
    assert rates.processes["burner"] > 2 * rates.processes["ourselves"]
    assert rates.cpu.busy_share * rates.cores > 0.8 * rates.processes["burner"]


def test_both_ways_report_the_same_of_this_machine(tmp_path: Path) -> None:
    asked: dict[str, Any] = {
        "groups": {"one": group_v1(tmp_path / "v1"), "two": group_v2(tmp_path / "v2")},
        "processes": {"ourselves": os.getpid()},
    }
    local, remote = both(tmp_path, **asked)
    with ResourceWatch([local, remote], tmp_path, period_s=0.2, patience_s=PATIENCE_S):
        wait_for(lambda: reported(tmp_path, "there"))
    samples = [
        resource
        for resource in StoredTrial(tmp_path, None).resources
        if isinstance(resource, HostSample)
    ]
    here = next(sample for sample in samples if sample.machine == "here")
    there = next(sample for sample in samples if sample.machine == "there")
    assert here.groups == there.groups
    assert here.groups["one"] == here.groups["two"]
    assert (here.groups["one"].throttled_us, here.groups["one"].usage_us) == (2500, 60000)
    assert here.groups["one"].quota_cores == 0.15
    assert (here.cores, here.hz, here.links_bps) == (there.cores, there.hz, there.links_bps)
    # Other tests may make devices meanwhile.
    every = [sample for sample in samples if sample.machine == "here"]
    for key in ("disks", "interfaces"):
        always = set.intersection(*(set(getattr(item, key)) for item in every))
        ever = set.union(*(set(getattr(item, key)) for item in every))
        assert always <= getattr(there, key).keys() <= ever
    assert abs(here.clock_s - there.clock_s) < BOUND_S
    assert here.cpu is not None
    assert there.cpu is not None
    assert abs(here.cpu.total - there.cpu.total) < BOUND_S * here.cores * here.hz
    first, last = here.processes["ourselves"], samples[-1].processes["ourselves"]
    assert (first.pid, first.began) == (last.pid, last.began) == (os.getpid(), first.began)
    assert here.unread == there.unread == ()


def test_what_cannot_be_read_is_reported_and_the_rest_is_there(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    for machine in both(
        tmp_path, groups={"gone": tmp_path / "nowhere"}, processes={"ended": ended.pid}
    ):
        folder = tmp_path / machine.name
        folder.mkdir()
        with ResourceWatch([machine], folder, period_s=0.1, patience_s=PATIENCE_S):
            wait_for(lambda folder=folder, name=machine.name: reported(folder, name))  # type: ignore[misc]
        first = lines(folder)[0]
        assert [what.split(":")[0] for what in first["unread"]] == [
            "group gone",
            "process ended" if machine.name == "here" else f"process ended {ended.pid}",
        ]
        assert len(first["cpu"]) == 8
        assert "groups" not in first


def test_a_sample_at_the_start_and_one_at_the_end(tmp_path: Path) -> None:
    with ResourceWatch([LocalMachine()], tmp_path, period_s=3600):
        pass
    first, last = lines(tmp_path)
    assert first["elapsed_s"] <= last["elapsed_s"] < BOUND_S
    assert first["machine"] == os.uname().nodename
    assert first["at"].endswith("+00:00")


def test_what_did_not_change_is_left_out_and_read_back(tmp_path: Path) -> None:
    def follow(period_s: float, ending: threading.Event, report: Report) -> None:
        report(counters(1))
        report(counters(2, disks={"sda": [1] * 11, "sdb": [3] * 11}))
        ending.wait()

    with ResourceWatch([Machine(follow)], tmp_path):
        time.sleep(0.1)
    first, second = lines(tmp_path)
    assert set(first["disks"]) == {"sda", "sdb"}
    assert second["disks"] == {"sdb": [3] * 11}
    assert "interfaces" not in second
    assert "links_bps" not in second
    read = StoredTrial(tmp_path, None).resources[1]
    assert isinstance(read, HostSample)
    assert set(read.disks) == {"sda", "sdb"}
    assert read.links_bps == {"eth0": 1e9}


def test_a_machine_that_fails_is_a_line_and_the_others_go_on(tmp_path: Path) -> None:
    def follow(period_s: float, ending: threading.Event, report: Report) -> None:
        raise LeadlineError(errors.SHELL_LOST, "the connection was lost")

    machines = [Machine(follow), LocalMachine(name="here")]
    with ResourceWatch(machines, tmp_path, period_s=PERIOD_S):
        wait_for(lambda: reported(tmp_path, "made up") and reported(tmp_path, "here", 3))
    samples = StoredTrial(tmp_path, None).resources
    (missed,) = [sample for sample in samples if isinstance(sample, MissedHostSample)]
    assert (missed.machine, missed.reason) == ("made up", "the connection was lost")
    assert missed.roles == {Role.STORAGE}
    assert sum(sample.machine == "here" for sample in samples) >= 3


def test_a_shell_whose_loop_ends_too_soon_is_reported(tmp_path: Path) -> None:
    @dataclass
    class Refusing:
        name: str = "far"

        def run(self, script: str, *arguments: str, **rest: Any) -> CommandResult:
            return CommandResult(stdout=b"", stderr=b"sh: not found\n", status=127)

    with ResourceWatch([RemoteMachine(name="far", shell=Refusing())], tmp_path):
        wait_for(lambda: reported(tmp_path, "far"))
    assert lines(tmp_path)[0]["error"] == "the sampler on far ended: sh: not found"


def test_what_a_shell_says_in_pieces_is_put_together(tmp_path: Path) -> None:
    """As connections cut it: anywhere, and with less than a line at a time."""

    class Chopped(LocalShell):
        def run(self, script: str, *arguments: str, **rest: Any) -> CommandResult:
            output = rest.pop("output")

            def chopped(chunk: bytes) -> None:
                for start in range(0, len(chunk), 37):
                    output(chunk[start : start + 37])

            return super().run(script, *arguments, output=chopped, **rest)

    machine = RemoteMachine(name="far", shell=Chopped(tmp_path))
    with ResourceWatch([machine], tmp_path, period_s=0.1, patience_s=PATIENCE_S):
        wait_for(lambda: reported(tmp_path, "far", 3))
    samples = StoredTrial(tmp_path, None).resources
    assert len(samples) >= 3
    assert all(isinstance(sample, HostSample) for sample in samples)


def test_the_loop_behind_a_shell_ends_with_the_watch(tmp_path: Path) -> None:
    class Seen(LocalShell):
        def run(self, script: str, *arguments: str, **rest: Any) -> CommandResult:
            return super().run(f"echo $$ > {tmp_path}/pid; {script}", *arguments, **rest)

    machine = RemoteMachine(name="far", shell=Seen(tmp_path))
    with ResourceWatch([machine], tmp_path, period_s=0.1, patience_s=PATIENCE_S):
        wait_for(lambda: reported(tmp_path, "far"))
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: not _runs(pid))  # or the loop goes on for no user


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_stop_does_not_wait_longer_than_its_patience(tmp_path: Path) -> None:
    release = threading.Event()

    def follow(period_s: float, ending: threading.Event, report: Report) -> None:
        release.wait(60)
        report(counters(1))

    watch = ResourceWatch([Machine(follow)], tmp_path, patience_s=0.2)
    watch.start()
    began = time.monotonic()
    watch.stop()
    assert time.monotonic() - began < 40
    sealed = (tmp_path / layout.RESOURCES).read_bytes()
    assert "no answer within 0.2 s" in json.loads(sealed)["error"]
    release.set()
    time.sleep(0.1)
    assert (tmp_path / layout.RESOURCES).read_bytes() == sealed


def test_stop_twice_and_without_start(tmp_path: Path) -> None:
    ResourceWatch([LocalMachine()], tmp_path).stop()
    assert not (tmp_path / layout.RESOURCES).exists()
    watch = ResourceWatch([LocalMachine()], tmp_path)
    watch.start()
    watch.stop()
    sealed = (tmp_path / layout.RESOURCES).read_bytes()
    watch.stop()
    assert (tmp_path / layout.RESOURCES).read_bytes() == sealed


def test_neither_a_missing_archive_nor_a_full_disk_stops_the_trial(tmp_path: Path) -> None:
    with ResourceWatch([LocalMachine()], tmp_path / "gone"):
        pass
    (tmp_path / layout.RESOURCES).symlink_to("/dev/full")
    with ResourceWatch([LocalMachine()], tmp_path, period_s=PERIOD_S):
        time.sleep(0.2)


def test_a_sample_that_is_none_is_refused() -> None:
    with pytest.raises((ValueError, KeyError)):
        parse_sample({"sample": "no uptime\n"})
    with pytest.raises((ValueError, IndexError)):
        host.parse_cpu_ticks("intr 1 2 3")


def test_parts_of_disks_and_idle_devices_are_left_out() -> None:
    text = "\n".join(
        f"   8 {minor} {name} {' '.join(str(value) for _ in range(17))}"
        for minor, (name, value) in enumerate([("sda", 5), ("sda1", 5), ("loop0", 0)])
    )
    assert host.parse_disk_counters(text, {"sda", "loop0"}) == {"sda": [5] * 17}


def test_a_name_with_spaces_and_parentheses_hides_no_ticks() -> None:
    rest = " ".join(str(number) for number in range(1, 50))
    stat = f"12 (a) b (c) S {rest}"
    assert host.parse_process_counters(stat, 4096) == [19, 11, 12, 21 * 4096]


def test_daemons_are_named_as_the_storage_names_them() -> None:
    text = """\
10 ceph-osd /usr/bin/ceph-osd -f --cluster ceph --id 3 --setuser ceph
11 ceph-osd ceph-osd -i 4 --pid-file /run/a
12 ceph-mds /usr/bin/ceph-mds -n mds.a.b -f
13 ceph-mon ceph-mon --name=mon.host-1
14 radosgw radosgw -n client.rgw.x
15 io-engine io-engine -g 10.0.0.1 -N io-engine-x
16 ceph-osd ceph-osd --id 3 --cluster other
"""
    assert parse_daemons(text) == {
        "osd.3": 10, "osd.4": 11, "mds.a.b": 12, "mon.host-1": 13, "rgw.rgw.x": 14,
        "io-engine.15": 15, "osd.16": 16,
    }  # fmt: skip
    assert parse_daemons("") == {}
    with pytest.raises(ValueError, match="invalid literal"):
        parse_daemons("x ceph-osd ceph-osd")


def test_daemons_are_found_behind_a_shell(tmp_path: Path) -> None:
    daemon = tmp_path / "ceph-osd"
    shutil.copy(shutil.which("sleep") or "", daemon)
    child = subprocess.Popen([daemon, "60"])
    try:
        machine = RemoteMachine(name="far", shell=LocalShell(tmp_path), finds_daemons=True)
        wait_for(lambda: Path(f"/proc/{child.pid}/comm").read_text() == "ceph-osd\n")
        with ResourceWatch([machine], tmp_path, period_s=0.1, patience_s=PATIENCE_S):
            wait_for(lambda: reported(tmp_path, "far", 2))
    finally:
        child.kill()
        child.wait()
    first = next(
        one for one in StoredTrial(tmp_path, None).resources if isinstance(one, HostSample)
    )
    own = next(one for one in first.processes.values() if one.pid == child.pid)
    assert (own.resident_bytes or 0) > 4096
    (rates,) = machine_rates(StoredTrial(tmp_path, None).resources)
    assert rates.resident_bytes.keys() == rates.processes.keys()
