"""Counters of a real cluster and of the machine that it is on, next to what was really done."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from leadline.analysis.bottleneck.evidence import LevelEvidence
from leadline.analysis.bottleneck.suspects import (
    WAITED,
    Bottleneck,
    Strength,
    queued_share,
    suspects,
)
from leadline.archive import layout
from leadline.archive.trial import StoredTrial
from leadline.connect.ceph import Connection
from leadline.formats.ceph.counters import CounterDump, osd_rates
from leadline.formats.host_rates import machine_rates
from leadline.formats.watch_records import Role
from leadline.lab.cluster import open_lab
from leadline.lab.state import labs_folder
from leadline.probes.watches.ceph import CephCountersWatch
from leadline.probes.watches.host import LocalMachine, ResourceWatch
from tests.awaiting import wait_for

pytestmark = [pytest.mark.real, pytest.mark.root, pytest.mark.slow]

SECONDS = 4


def test_osds_and_their_processes_are_seen_to_work(lab: str, tmp_path: Path) -> None:
    opened = open_lab(lab, labs_folder(None))
    machine = LocalMachine(
        roles=(Role.CLIENT, Role.STORAGE),
        processes={process.name: process.pid for process in opened.state.processes},
    )
    bench = opened.access.command(
        *("rados", "-p", "rep3", "bench", str(SECONDS), "write", "-b", "4096", "-t", "16"),
        "--no-hints",
    )
    with (
        Connection(opened.access) as connection,
        ResourceWatch([machine], tmp_path),
        CephCountersWatch(connection, tmp_path),
    ):
        # No trial waits for it, but what was written before would not be seen here.
        wait_for(lambda: (tmp_path / layout.CEPH_COUNTERS).read_bytes().endswith(b"\n"))
        done = subprocess.run(bench, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    told = re.search(r"Total writes made:\s+(\d+)", done.stdout)
    assert told is not None
    writes = int(told[1])

    trial = StoredTrial(tmp_path, None)
    dumps = [
        ceph_counter
        for ceph_counter in trial.ceph_counters
        if isinstance(ceph_counter, CounterDump)
    ]
    assert len(dumps) == 2
    assert all(len(dump.osds) == 3 for dump in dumps), "no OSD was silent"
    osds = osd_rates(trial.ceph_counters)
    assert len(osds) == 3
    seen = sum(osd.counts_per_s["osd.op_w"] * osd.seconds for osd in osds)
    # Beside its writes the client notes what it made, and removes it; each is written by one OSD.
    assert writes <= round(seen) < 2.5 * writes
    assert all(osd.host for osd in osds)
    assert all(osd.means_s["osd.op_w_latency"] > 0 for osd in osds)

    (rates,) = machine_rates(trial.resources)
    assert set(rates.processes) == {process.name for process in opened.state.processes}
    # Each copy costs work, some 0.3 ms of it: no OSD stood by.
    least = min(0.01, 20e-6 * writes / osds[0].seconds)
    assert all(rates.processes[f"osd.{number}"] > least for number in range(3))
    assert rates.cpu is not None
    assert sum(rates.processes.values()) <= rates.cpu.busy_share * (os.cpu_count() or 1) * 1.2

    level = LevelEvidence(
        machines=(rates,), osds=osds, on_ceph=True, on_lab=True, asked=16, in_flight=16.0
    )
    found = {suspect.bottleneck: suspect.strength for suspect in suspects(level)}
    assert found[Bottleneck.CLIENT_NETWORK] is Strength.EXCLUDED
    # One machine has one answer, but where operations waited for a disk that others use.
    if (queued_share(level) or 0.0) < WAITED:
        assert found[Bottleneck.CLIENT_CPU] is found[Bottleneck.OSD_CPU]
