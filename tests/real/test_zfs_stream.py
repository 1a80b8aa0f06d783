"""Streams of a real ZFS: a pool of zfs-fuse on a file, which every machine can have."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.archive.verify import verify
from leadline.connect import programs as admin_programs
from leadline.connect.programs import find
from leadline.engines.zfs_stream import ZfsStreamEngine
from leadline.formats.zfs.stream import StreamRequest
from leadline.metrics import Metric
from leadline.runner.events import StopRequest
from leadline.runner.ports import Dataset, Job
from tests.awaiting import wait_for
from tests.real.conftest import Ended, sh
from tests.real.ssh_hosts import SshHosts
from tests.real.zfs_here import answers, left_here, pool_on_file

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.usefixtures("only_zfs")]
Process = Callable[..., Ended]
PLAN = """
leadline: 1
targets:
  - {{target: "zfs:{pool}?recordsize=8K", name: small, labels: {{recordsize: 8K}}}}
  - {{target: "zfs:{pool}?recordsize=128K", name: large, labels: {{recordsize: 128K}}}}
defaults: {{size: {size}, runtime: {runtime}}}
repeats: 1
workloads:
  - {{name: stream, pattern: write, engine: zfs-stream}}
"""

FLIPPING = """#!/usr/bin/python3
import mmap, pathlib, subprocess, sys
status = subprocess.run([{real!r}, *sys.argv[1:]]).returncode
if sys.argv[1] == "set":
    needle = pathlib.Path("{needle}").read_bytes()
    with open("{vdev}", "r+b") as disk, mmap.mmap(disk.fileno(), 0) as content:
        places = [content.find(needle)]
        while places[-1] >= 0:
            places.append(content.find(needle, places[-1] + 1))
        for place in places[1:-1]:
            content[place] ^= 1
    pathlib.Path("{found}").write_text(str(len(places) - 1))
sys.exit(status)
"""


BETWEEN_HOSTS = """
leadline: 1
targets:
  - {{target: "zfs:{pool}?receive_on=far:{other}&buffer=1M", name: ssh}}
  - {{target: "zfs:{pool}?receive_on=far:{other}&via=tcp", name: tcp}}
defaults: {{size: {size}, runtime: {runtime}}}
repeats: 1
workloads:
  - {{name: streams, pattern: write, engine: zfs-stream, numjobs: 2}}
"""


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if os.geteuid() != 0 or not shutil.which("zfs-fuse"):
        pytest.skip("needs root and zfs-fuse")
    with pool_on_file(tmp_path_factory.mktemp("zfs"), 1 << 30) as name:
        yield name


@pytest.fixture(scope="module")
def other(pool: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A pool for another host, which is an sshd of the test's own: one daemon has both pools."""
    with pool_on_file(tmp_path_factory.mktemp("other"), 1 << 29) as name:
        yield name


def plan(tmp_path: Path, pool: str, *, size: str, runtime: str) -> Path:
    path = tmp_path / "streams.yaml"
    path.write_text(PLAN.format(pool=pool, size=size, runtime=runtime))
    return path


def left_in(pool: str) -> list[str]:
    names = sh("zfs", "list", "-H", "-t", "all", "-o", "name", "-r", pool).split()
    return [name for name in names if name != pool]


def programs_of(pool: str) -> list[str]:
    """Senders, receivers and pipes that work on the pool."""
    found = subprocess.run(["pgrep", "-af", f"{pool}/leadline-"], capture_output=True, text=True)
    return [line for line in found.stdout.splitlines() if "zfs" in line or "bounded_pipe" in line]


def test_what_is_received_is_verified_measured_and_removed(
    process: Process, tmp_path: Path, pool: str
) -> None:
    path = plan(tmp_path, pool, size="32M", runtime="1s")
    ended = process("run", path, "--format", "json")
    assert ended.status in (0, 1), ended.err
    run = Run(Path(json.loads(ended.out)["path"]))
    assert [trial.record.status for trial in run.trials] == [TrialStatus.COMPLETED] * 2
    assert verify(run).ok
    for trial in run.trials:
        report = trial.zfs_stream
        assert report is not None
        assert report.seconds >= 1
        size = 8192 if trial.record.target == "small" else 131072
        assert report.record.record_bytes == size
        for stream in report.streams:
            # All 32 MiB, and no more next to them than a header for each record and the metadata.
            assert 32 << 20 <= stream.bytes < (32 << 20) * (1 + 600 / size) + (1 << 20)
            assert {file.path for file in stream.files} >= {"leadline.0.dat"}
            assert stream.difference == ""
        told = {row.metric: row.value for row in trial.measurements()}
        assert told[Metric.BANDWIDTH] == report.bandwidth_bps
        assert told[Metric.IOPS] is None
    assert left_in(pool) == []
    bounds = {}
    for one in json.loads(process("predict", run.id, "--format", "json").out)["forecasts"]:
        assert one["bound"]["capacity_of"] == "receive"
        assert one["measured"].get("bandwidth", 0.0) < one["bound"]["capacity_bps"]
        bounds[one["target"]] = one["bound"]["capacity_bps"]
    assert bounds["small"] < bounds["large"]
    for verb in (
        ("audit", run.id),
        ("show", run.id),
        ("compare", run.id, "--by", "recordsize"),
        ("rank", run.id),
        ("report", run.id, "-o", tmp_path / "report.html"),
    ):
        answered = process(*verb)
        # Of streams that the audit refuses, as of a client that had no processor to spare, nothing
        # can be compared or ranked.
        allowed = (0, 1, 6) if verb[0] in ("compare", "rank") else (0, 1)
        assert answered.status in allowed, (verb, answered.err)


def test_a_signal_ends_a_stream_and_leaves_nothing(
    started: Callable[..., subprocess.Popen[str]], process: Process, tmp_path: Path, pool: str
) -> None:
    child = started("run", plan(tmp_path, pool, size="128M", runtime="60s"))
    wait_for(lambda: programs_of(pool), 60)
    child.send_signal(signal.SIGINT)
    assert child.wait(60) == 130
    assert programs_of(pool) == []
    assert left_in(pool) == []


def test_after_kill_9_the_stream_ends_by_itself_and_clean_removes_it(
    started: Callable[..., subprocess.Popen[str]], process: Process, tmp_path: Path, pool: str
) -> None:
    child = started("run", plan(tmp_path, pool, size="128M", runtime="60s"))
    wait_for(lambda: programs_of(pool), 60)
    child.kill()
    child.wait(30)
    wait_for(lambda: not programs_of(pool))
    assert left_in(pool)
    began = time.monotonic()
    assert process("clean").status == 0
    assert left_in(pool) == [], time.monotonic() - began


def between_hosts(tmp_path: Path, pool: str, other: str, *, size: str, runtime: str) -> Path:
    path = tmp_path / "between.yaml"
    path.write_text(BETWEEN_HOSTS.format(pool=pool, other=other, size=size, runtime=runtime))
    return path


def test_streams_at_the_same_time_are_received_on_another_host(
    process: Process, tmp_path: Path, pool: str, other: str, hosts: SshHosts
) -> None:
    hosts.start("far")
    path = between_hosts(tmp_path, pool, other, size="16M", runtime="300ms")
    ended = process("run", path, "--format", "json")
    assert ended.status in (0, 1), ended.err
    run = Run(Path(json.loads(ended.out)["path"]))
    assert {trial.record.status for trial in run.trials} == {TrialStatus.COMPLETED}
    assert verify(run).ok
    for trial in run.trials:
        report = trial.zfs_stream
        assert report is not None
        route = report.record.route
        assert route is not None
        assert (route.host, route.via) == ("far", trial.record.target)
        assert route.dataset.startswith(f"{other}/leadline-")
        assert {len(round_.streams) for round_ in report.rounds} == {2}
        assert report.bytes == sum(stream.bytes for stream in report.counted)
        for stream in report.streams:
            assert stream.difference == ""
            assert stream.far is not None
            assert stream.far.bytes == stream.bytes > 16 << 20
            assert (stream.address is None) == (route.via == "ssh")
        # Each stream has data of its own.
        (first, second) = ({file.path for file in stream.files} for stream in report.streams[:2])
        assert first == {"leadline.0.dat"}
        assert second == {"leadline.1.dat"}
        told = {row.metric: row.value for row in trial.measurements()}
        assert told[Metric.BANDWIDTH] == report.bandwidth_bps
    assert left_in(pool) == left_in(other) == []
    assert left_here(tmp_path) == []
    layers = json.loads(process("layers", run.id, "--format", "json").out)
    waits = [cell["stalls"] for cell in layers["cells"]]
    assert [stalls["host"] for stalls in waits] == ["far", "far"]
    assert all(0 <= stalls["for_link_share"] <= 1 for stalls in waits)


def test_after_kill_9_nothing_is_left_on_either_host(
    started: Callable[..., subprocess.Popen[str]],
    process: Process,
    tmp_path: Path,
    pool: str,
    other: str,
    hosts: SshHosts,
) -> None:
    hosts.start("far")
    child = started("run", between_hosts(tmp_path, pool, other, size="64M", runtime="60s"))
    wait_for(lambda: programs_of(other), 120)
    child.kill()
    child.wait(30)
    assert left_in(other)
    assert process("clean").status == 0
    assert programs_of(pool) == programs_of(other) == []
    assert left_in(pool) == left_in(other) == []


def test_a_host_that_is_lost_ends_the_stream_and_clean_removes_what_it_has(
    started: Callable[..., subprocess.Popen[str]],
    process: Process,
    tmp_path: Path,
    pool: str,
    other: str,
    hosts: SshHosts,
) -> None:
    port = hosts.start("far")
    path = between_hosts(tmp_path, pool, other, size="64M", runtime="20s")
    (by_ssh,) = (line for line in path.read_text().splitlines() if "name: ssh" in line)
    path.write_text(path.read_text().replace(by_ssh, ""))
    child = started("run", path)
    wait_for(lambda: programs_of(other), 120)
    hosts.stop("far")
    _, err = child.communicate(timeout=240)
    assert child.returncode in (1, 4), err
    assert programs_of(pool) == []
    assert left_in(pool) == []
    hosts.start("far", port=port)
    assert process("clean").status == 0
    assert programs_of(other) == []
    assert left_in(other) == []


@pytest.mark.parametrize(
    ("option", "code", "fact"),
    [
        ("receive_on=nobody:{other}", "host-unreachable", "nobody"),
        ("receive_on=far:nopool", "target-invalid", "no pool 'nopool' of ZFS on the host far"),
        ("receive_on=far:{other}&via=tcp&port={port}", "host-unreachable", "cannot listen"),
    ],
)
def test_what_cannot_receive_is_refused_before_anything_is_made(
    process: Process,
    tmp_path: Path,
    pool: str,
    other: str,
    hosts: SshHosts,
    option: str,
    code: str,
    fact: str,
) -> None:
    port = hosts.start("far")
    path = tmp_path / "refused.yaml"
    target = f"zfs:{pool}?{option.format(other=other, port=port)}"
    path.write_text(
        f"leadline: 1\ntargets: ['{target}']\ndefaults: {{size: 1M, runtime: 1s}}\n"
        "workloads: [{name: stream, pattern: write, engine: zfs-stream}]\n"
    )
    ended = process("run", path)
    assert f"[{code}]" in ended.err
    assert fact in ended.err
    assert ended.status in (2, 3)
    assert left_in(pool) == left_in(other) == []


def test_a_byte_that_changes_behind_the_reception_is_found(
    tmp_path: Path, pool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verification reads what lies in the pool: a program in the place of `zfs` changes a byte of
    what was received as soon as it is said to be durable."""
    content, found = os.urandom(32 << 20), tmp_path / "found"
    dataset = Dataset(name=f"{pool}/flipped", path=tmp_path / "mnt")
    (tmp_path / "needle").write_bytes(content[16 << 20 :][:4096])
    (vdev,) = (word for word in sh("zpool", "status", pool).split() if word.endswith("/disk"))
    real = str(find("zfs"))
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "zfs").write_text(
        FLIPPING.format(real=real, needle=tmp_path / "needle", vdev=vdev, found=found)
    )
    (programs / "zfs").chmod(0o755)
    sh(real, "create", "-o", f"mountpoint={dataset.path}", dataset.name)
    try:
        (dataset.path / "leadline.0.dat").write_bytes(content)
        sh(real, "set", "leadline:settled=1", dataset.name)
        monkeypatch.setattr(admin_programs, "_SEARCHED", f"{programs}:{os.environ['PATH']}")
        engine, folder = ZfsStreamEngine(), tmp_path / "trial"
        folder.mkdir()
        request = StreamRequest(
            name="w", size_bytes=32 << 20, runtime_s=0.1, buffer_bytes=16 << 20, sample_s=0.2
        )
        job = Job(text=request.text(), location=dataset, bound_s=120)
        ended = engine.execute(job, folder, StopRequest(), lambda progress: None)
    finally:
        wait_for(lambda: answers("zfs", "destroy", "-r", dataset.name))
    assert int(found.read_text()) == 2, "what was sent, and what was received"
    assert ended.status is TrialStatus.FAILED
    assert ended.problem is not None
    assert any("received/leadline.0.dat" in line for line in ended.problem.context)
    assert "zpool status" in str(ended.problem.hint)
