"""Costs of an I/O on a real cluster: by /proc of a lab, by ssh, and by a real Prometheus."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from leadline.analysis.bottleneck.evidence import LevelEvidence, levels_evidence
from leadline.analysis.bottleneck.suspects import Bottleneck, Strength, suspects
from leadline.analysis.figures import figures
from leadline.archive.reader import Run
from leadline.archive.runs import find_run
from leadline.audit.registry import audit
from leadline.connect.ssh import CONFIG
from leadline.formats.prometheus import MissedAnswer
from leadline.formats.watch_records import HostSample
from leadline.lab.cluster import open_lab
from leadline.lab.state import labs_folder
from leadline.metrics import Metric
from tests.real.conftest import Ended, command, ended
from tests.real.monitoring import exporters, prometheus, scraped
from tests.real.ssh_hosts import SshHosts, short_folder

pytestmark = [pytest.mark.real, pytest.mark.root, pytest.mark.slow]

CLONE_NEWNET = 0x40000000
PLAN = """
clusters: {{c: {cluster}}}
targets: {targets}
workloads:
  - {{name: w, pattern: randwrite, block_size: 4k, iodepth: 2, size: 16M, runtime: {seconds}s}}
repeats: {repeats}
"""
Process = Callable[..., Ended]


def measured(
    process: Process,
    folder: Path,
    cluster: dict[str, Any],
    pools: Sequence[str] = ("rep3",),
    *,
    seconds: int = 4,
    repeats: int = 1,
) -> Run:
    path = folder / "plan.yaml"
    targets = json.dumps([{"name": pool, "target": f"rbd:{pool}"} for pool in pools])
    path.write_text(
        PLAN.format(cluster=json.dumps(cluster), targets=targets, seconds=seconds, repeats=repeats)
    )
    done = process("run", path, "--name", "costs")
    assert done.status in (0, 1), done.err
    return find_run("costs", folder / "runs")


def costs(run: Run) -> dict[Metric, float | None]:
    (row,) = figures(run, audit(run))
    return {figure.metric: figure.value for figure in row.costs}


def evidence(run: Run) -> LevelEvidence:
    (level,) = levels_evidence(run, "rep3", "w").values()
    return level


@pytest.fixture
def known(lab: str) -> Iterator[dict[str, Any]]:
    """The lab as a cluster that is known by its configuration alone, and the programs that the test
    starts in the network of the lab's clients."""
    access = open_lab(lab, labs_folder(None)).access
    assert access.keyring is None, "the configuration names it"
    assert access.namespace is not None
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open() as own, access.namespace.open() as of_lab:
        assert libc.setns(of_lab.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        try:
            yield {"ceph_conf": str(access.conf), "id": access.name}
        finally:
            assert libc.setns(own.fileno(), CLONE_NEWNET) == 0


@pytest.fixture
def process(tmp_path: Path) -> Process:
    """Starts `leadline ARGS`: a fork would not be in the network that `known` joins."""

    def call(*arguments: object, **variables: str) -> Ended:
        return ended(command(*arguments), tmp_path / "runs", **variables)

    return call


def test_two_copies_cost_less_than_three(lab: str, tmp_path: Path, process: Process) -> None:
    run = measured(process, tmp_path, {"lab": lab}, ("rep3", "rep2"), seconds=2, repeats=3)
    compared = ("compare", "rep3", "rep2", "--by", "target", "--run", "costs")
    done = process(*compared, "--format", "json")
    found = {cell["metric"]: cell for cell in json.loads(done.out)["costs"]}
    spent = found["storage_cpu_per_io"]
    assert 0 < spent["candidate"] < 0.1
    assert 0 < spent["baseline"] < 0.1
    # Where no core is idle, few I/Os bear all that a cluster does without any, and three trials may
    # leave the ratio open. They do not show that two copies cost more.
    low, high = spent["interval"]
    assert low < 1
    assert low <= spent["ratio"] <= high
    assert spent["baseline_trials"] == 3
    assert 0 < found["client_cpu_per_io"]["baseline"] < 0.1
    assert found["storage_memory"]["baseline"] > 50 << 20
    ranked = process("rank", "costs", "--objective", "storage-cpu", "--format", "json")
    assert ranked.status == 0, ranked.err
    assert json.loads(ranked.out)["tiers"][0]["rank"] == 1
    assert process("verify", run.path).status == 0
    page = process(*compared, "--details")
    assert "Costs of an I/O" in page.out
    assert "disk bytes per I/O" in page.out, "what was not measured is named"


def test_hosts_by_ssh_show_the_storages_side(
    lab: str,
    known: dict[str, Any],
    tmp_path: Path,
    process: Process,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = short_folder()
    hosts = SshHosts(folder)
    monkeypatch.setenv(CONFIG, str(hosts.config))
    try:
        hosts.start("osds")
        run = measured(process, tmp_path, {**known, "hosts": ["osds"]}, seconds=10)
    finally:
        hosts.close()
        shutil.rmtree(folder)
    level = evidence(run)
    assert level.storage, level.notes
    (host,) = level.storage
    assert (host.machine, level.on_lab) == ("osds", False)
    assert host.cpu is not None
    samples = [one for one in run.trials[0].resources if isinstance(one, HostSample)]
    seen = {one.pid for sample in samples for one in sample.processes.values()}
    daemons = open_lab(lab, labs_folder(None)).state.processes
    assert {one.pid for one in daemons if one.name.startswith(("osd", "mon", "mgr"))} <= seen
    judged = {one.bottleneck: one for one in suspects(level)}
    assert judged[Bottleneck.OSD_CPU].evidence["busy_share"] == host.cpu.busy_share
    # Daemons of other tests' labs on this machine come and go.
    if not host.lost:
        found = costs(run)
        assert (found[Metric.STORAGE_CPU] or 0.0) > 0
        assert (found[Metric.STORAGE_MEMORY] or 0.0) > 50 << 20


@pytest.fixture
def scraping(lab: str, known: dict[str, Any], tmp_path: Path) -> Iterator[str]:
    """A Prometheus that scrapes this machine and the daemons of the lab."""
    for name in ("prometheus", "prometheus-node-exporter", "prometheus-process-exporter"):
        if shutil.which(name) is None:
            pytest.skip(f"no {name} (apt-get install {name}): NO real Prometheus is tested here")
    folder = tmp_path / "prometheus"
    folder.mkdir()
    daemons = f"ceph-(osd|mon|mgr|mds).*{labs_folder(None) / lab}"
    with exporters(folder, daemons) as ports, prometheus(folder, ports) as url:
        scraped(url, "namedprocess_namegroup_cpu_seconds_total")
        scraped(url, "node_cpu_seconds_total")
        yield url


def test_prometheus_shows_the_storages_side(
    known: dict[str, Any], scraping: str, tmp_path: Path, process: Process
) -> None:
    run = measured(process, tmp_path, {**known, "prometheus": {"url": scraping}})
    (trial,) = run.trials
    missed = [line for line in trial.prometheus if isinstance(line, MissedAnswer)]
    assert missed == []
    found = costs(run)
    assert 0 < (found[Metric.STORAGE_CPU] or 0.0) < 0.1
    assert (found[Metric.STORAGE_MEMORY] or 0.0) > 50 << 20
    level = evidence(run)
    (host,) = level.storage
    assert host.cpu is not None
    assert sum(name.startswith("ceph-osd") for name in host.processes) == 3
    assert sum(host.processes.values()) <= host.cores
    assert host.disks
    judged = {one.bottleneck: one for one in suspects(level)}
    assert judged[Bottleneck.OSD_CPU].strength is not Strength.NOT_MEASURED or level.unreached_hosts
    assert process("verify", run.path).status == 0


def test_a_prometheus_that_is_away_hurts_no_run(
    known: dict[str, Any], tmp_path: Path, process: Process
) -> None:
    away = {**known, "prometheus": {"url": "http://127.0.0.1:1"}}
    run = measured(process, tmp_path, away, seconds=1)
    (missed,) = run.trials[0].prometheus
    assert isinstance(missed, MissedAnswer)
    assert set(costs(run)) == {Metric.CLIENT_CPU}
    assert any("Prometheus" in note for note in evidence(run).notes)
