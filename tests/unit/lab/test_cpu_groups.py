"""Control groups of a lab's hosts, on folders that look like them; tests/real has the kernel's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leadline import errors
from leadline.errors import LeadlineError
from leadline.lab import cpu_groups
from leadline.lab.cluster import _unlimited
from leadline.lab.cpu_groups import Controller
from leadline.lab.daemons import require
from leadline.lab.state import LabState, Phase, ProcessRecord
from leadline.plan.lab import LabDescription

V1 = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
33 31 0:30 / /sys/fs/cgroup/cpu rw,nosuid shared:9 - cgroup cgroup rw,cpu
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
"""


def test_version_1_is_the_mount_with_cpu_among_its_options() -> None:
    assert cpu_groups.controllers(V1) == (
        Controller(root=Path("/sys/fs/cgroup/cpu"), unified=False),
    )
    together = V1.replace("rw,cpu\n", "rw,cpu,cpuacct\n")
    assert len(cpu_groups.controllers(together)) == 1


def test_version_2_counts_where_it_has_the_controller(tmp_path: Path) -> None:
    line = f"30 23 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw\n"
    assert cpu_groups.controllers(line) == ()
    (tmp_path / "cgroup.controllers").write_text("cpuset memory pids\n")
    assert cpu_groups.controllers(line) == ()
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory\n")
    assert cpu_groups.controllers(line) == (Controller(root=tmp_path, unified=True),)


@pytest.mark.parametrize(
    ("files", "reported"),
    [
        ({"cpu.max": "1500 10000\n"}, (1500, 10000)),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.cfs_quota_us": "1500\n", "cpu.cfs_period_us": "10000\n"}, (1500, 10000)),
        ({"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_a_quota_is_read_in_both_versions(
    files: dict[str, str], reported: tuple[int, int] | None, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert cpu_groups.read_quota(tmp_path) == reported


def test_the_share_of_periods(tmp_path: Path) -> None:
    assert cpu_groups.throttled_share(tmp_path) is None
    stat = tmp_path / "cpu.stat"
    stat.write_text("nr_periods 0\nnr_throttled 0\nthrottled_time 0\n")
    assert cpu_groups.throttled_share(tmp_path) is None
    stat.write_text("usage_usec 12\nnr_periods 40\nnr_throttled 10\nthrottled_usec 9\n")
    assert cpu_groups.throttled_share(tmp_path) == 0.25


def bounded(folder: Path, **members: str) -> LabState:
    for host, pids in members.items():
        (folder / host).mkdir()
        (folder / host / "cpu.max").write_text("1500 10000\n")
        (folder / host / "cgroup.procs").write_text(pids)
    return LabState(
        name="x",
        token="t",
        phase=Phase.UP,
        created_at="2026-11-21T00:00:00+00:00",
        owner=ProcessRecord(name="leadline", pid=1, start_ticks=1),
        description=LabDescription(cpu_per_host=0.15),
        cpu_groups={host: folder / host for host in members},
        processes=tuple(
            ProcessRecord(name=name, pid=pid, start_ticks=1)
            for name, pid in (("mon.a", 9), ("osd.0", 10), ("osd.1", 11))
        ),
    )


def test_an_osd_outside_of_its_groups_is_seen(tmp_path: Path) -> None:
    state = bounded(tmp_path, h1="10\n", h2="11\n12\n")
    assert state.osd_pids == {"osd.0": 10, "osd.1": 11}
    assert _unlimited(state) == []
    (tmp_path / "h1" / "cgroup.procs").write_text("")
    assert _unlimited(state) == ["osd.0"]
    (tmp_path / "h2" / "cpu.max").write_text("max 10000\n")
    assert _unlimited(state) == ["osd.0", "osd.1"]


def refused(description: LabDescription, monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    monkeypatch.setattr("leadline.lab.daemons.shutil.which", lambda name: f"/bin/{name}")
    monkeypatch.setattr("leadline.lab.daemons.MODULES", folder)
    monkeypatch.setattr("leadline.lab.daemons.available_memory_bytes", lambda: None)
    with pytest.raises(LeadlineError) as caught:
        require(description, folder)
    assert caught.value.kind is errors.LAB_NOT_READY
    assert "cpu_per_host" in (caught.value.hint or "")
    return caught.value.fact


def test_more_cores_than_there_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wanted = LabDescription(osd_size_bytes=512 << 20, cpu_per_host=4096.0)
    reported = refused(wanted, monkeypatch, tmp_path)
    assert reported == (
        f"a host of the lab needs 4096 cores, and this machine has {os.cpu_count()}"
    )


def test_no_controller_and_no_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wanted = LabDescription(osd_size_bytes=512 << 20, cpu_per_host=0.1)
    monkeypatch.setattr("leadline.lab.cpu_groups._mounted_controllers", lambda: ())
    assert "not mounted" in refused(wanted, monkeypatch, tmp_path)
    here = (Controller(root=tmp_path, unified=False),)
    monkeypatch.setattr("leadline.lab.cpu_groups._mounted_controllers", lambda: here)
    monkeypatch.setattr("leadline.lab.cpu_groups.os.geteuid", lambda: 1000)
    assert "only root" in refused(wanted, monkeypatch, tmp_path)
    monkeypatch.setattr("leadline.lab.cpu_groups.os.geteuid", lambda: 0)
    monkeypatch.setattr("leadline.lab.cpu_groups.os.access", lambda path, mode: False)
    assert "read-only" in refused(wanted, monkeypatch, tmp_path)


@pytest.mark.parametrize("unified", [False, True])
@pytest.mark.parametrize(
    ("cores", "quota"), [(0.15, (1500, 10000)), (1.0, (10000, 10000)), (0.01, (1000, 100000))]
)
def test_groups_are_made_with_a_quota_that_the_kernel_takes(
    cores: float, quota: tuple[int, int], unified: bool, tmp_path: Path
) -> None:
    if unified:
        (tmp_path / "cgroup.subtree_control").write_text("")
    groups = {host: tmp_path / "leadline-lab-t" / host for host in ("h1", "h2")}
    cpu_groups.make(groups, cores)
    assert [cpu_groups.read_quota(folder) for folder in groups.values()] == [quota] * 2
    assert (groups["h1"] / "cpu.max").exists() == unified
    if unified:
        for above in (tmp_path, tmp_path / "leadline-lab-t"):
            assert (above / "cgroup.subtree_control").read_text() == "+cpu"


def test_what_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "leadline-lab-t").write_text("")
    with pytest.raises(LeadlineError) as caught:
        cpu_groups.make({"h1": tmp_path / "leadline-lab-t" / "h1"}, 0.5)
    assert caught.value.kind is errors.LAB_FAILED
    assert "leadline-lab-t" in caught.value.context[0]


def test_a_process_that_the_group_does_not_take_is_reported(tmp_path: Path) -> None:
    cpu_groups.assign(tmp_path, [17])
    # A plain file keeps what was written last, as a kernel that drops the first would.
    with pytest.raises(LeadlineError) as caught:
        cpu_groups.assign(tmp_path, [17, 18])
    assert "does not hold process 17" in caught.value.context[0]
