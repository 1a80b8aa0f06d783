"""One image of a real cluster under load from several hosts, which are reached by ssh."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leadline.archive.records import TrialStatus
from leadline.archive.runs import find_run
from leadline.connect.ceph import CephAccess
from leadline.lab.state import lab_access
from tests.awaiting import wait_for
from tests.real.conftest import Ended, sh
from tests.real.ssh_hosts import SshHosts, configurations, hosts_in_lab

pytestmark = [pytest.mark.real, pytest.mark.root]
PLAN = """\
clusters: {{here: {{lab: {lab}}}}}
targets: ["rbd:rep3?hosts=a,{other}"]
repeats: 1
defaults: {{size: 8M, runtime: {runtime}, ramp: 0}}
workloads:
  - name: mixed
    pattern: randrw
    block_size: 4k
    iodepth: 2
    levels: [{{clients: 1}}, {{clients: 3}}]
"""


@pytest.fixture
def hosts(lab: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshHosts]:
    """`a` and `b` are in the network of the lab, `away` is not."""
    with hosts_in_lab(lab, monkeypatch) as made:
        made.start("away")
        yield made


@pytest.fixture
def plan(lab: str, tmp_path: Path) -> Callable[..., Path]:
    def write(runtime: str, other: str = "b") -> Path:
        path = tmp_path / "plan.yaml"
        path.write_text(PLAN.format(lab=lab, runtime=runtime, other=other))
        return path

    return write


def images(access: CephAccess) -> list[str]:
    listed: list[str] = json.loads(sh(*access.command("rbd", "ls", "--format", "json", "rep3")))
    return [image for image in listed if image.startswith("leadline-")]


@pytest.mark.slow
def test_each_host_works_on_a_part_of_one_image(
    lab: str,
    hosts: SshHosts,
    plan: Callable[..., Path],
    process: Callable[..., Ended],
    tmp_path: Path,
) -> None:
    ended = process("run", plan("2s"), "--quiet", "--format", "json")
    assert ended.status in (0, 1), ended.err
    run = find_run("@latest", tmp_path / "runs")
    by_level = {trial.record.level: trial for trial in run.trials}
    assert {item.record.status for item in by_level.values()} == {TrialStatus.COMPLETED}
    three = by_level["c3-qd2"]
    named = [(client.name, client.host) for client in three.clients]
    assert named == [("c1", "a"), ("c2", "b"), ("c3", "a")]
    machines = {getattr(sample, "machine", "") for sample in three.resources}
    assert {"a", "b"} < machines, "the hosts are clients, and this machine is the storage"
    assert three.record.extent is not None
    assert three.record.extent.allocated_bytes == 3 * (8 << 20)
    assert process("verify", "@latest").status == 0
    assert run.left_behind == ()
    assert images(lab_access(lab)) == []
    assert not configurations(lab)


@pytest.mark.slow
def test_what_a_killed_run_left_is_removed_by_clean(
    lab: str,
    hosts: SshHosts,
    plan: Callable[..., Path],
    process: Callable[..., Ended],
    started: Callable[..., object],
    tmp_path: Path,
) -> None:
    running = started("run", plan("60s"))
    wait_for(lambda: any((tmp_path / "runs").glob("*/trials/*")) or at_work(lab), 120)
    (conf,) = configurations(lab)
    assert (conf.stat().st_mode & 0o777, images(lab_access(lab)) != []) == (0o600, True)
    running.kill()  # type: ignore[attr-defined]
    wait_for(lambda: not at_work(lab))
    assert process("clean").status == 0
    assert not configurations(lab)
    assert not conf.parent.exists()
    assert images(lab_access(lab)) == []


def at_work(lab: str) -> list[str]:
    """Folders of hosts in which processes work on the lab."""
    found, folders = [], {path.parent for path in configurations(lab)}
    for entry in Path("/proc").glob("[0-9]*/cwd"):
        try:
            folder = entry.readlink()
        except OSError:
            continue
        if folder in folders:
            found.append(str(folder))
    return found


@pytest.mark.slow
def test_a_host_that_does_not_reach_the_cluster_is_refused_before_anything_is_made(
    lab: str,
    hosts: SshHosts,
    plan: Callable[..., Path],
    process: Callable[..., Ended],
) -> None:
    ended = process("run", plan("1s", "away"))
    assert ended.status == 3, ended.err
    assert "error[ceph-unreachable]: the host 'away' cannot use the pool 'rep3'" in ended.err
    assert "fio: rados_connect failed." in ended.err
    assert images(lab_access(lab)) == []
    assert not configurations(lab)
