"""Objects of a real Ceph pool under load by fio's rados engine, from here and from hosts."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leadline.archive.records import TrialStatus
from leadline.archive.runs import find_run
from leadline.connect.ceph import CephAccess, Connection
from leadline.connect.ssh import CONFIG
from leadline.formats.result import EngineOutput
from leadline.lab.state import lab_access
from tests.awaiting import wait_for
from tests.real.conftest import Ended, command, environment, sh
from tests.real.ssh_hosts import SshHosts, configurations, hosts_in_lab, short_folder

pytestmark = [pytest.mark.real, pytest.mark.root]
PLAN = """\
clusters: {{here: {{lab: {lab}}}}}
targets: ["{target}"]
repeats: 1
defaults: {{size: 8M, runtime: {runtime}, ramp: 0, block_size: 4k, iodepth: 2}}
workloads:
{workloads}
"""
WRITES = "  - {name: w, pattern: randwrite}"
# Objects of another user, whose names are nearly those of the run.
STRANGERS = {"leadline", "leadline-x.0.0", "data.0"}


@pytest.fixture
def plan(lab: str, tmp_path: Path) -> Callable[..., Path]:
    def write(target: str, workloads: str = WRITES, *, runtime: str = "1s") -> Path:
        path = tmp_path / "plan.yaml"
        path.write_text(PLAN.format(lab=lab, target=target, workloads=workloads, runtime=runtime))
        return path

    return write


def objects(access: CephAccess, pool: str = "rep3") -> set[str]:
    """The objects in the pool's default namespace that belong to no image."""
    listed = sh(*access.command("rados", "--pool", pool, "ls")).split()
    return {name for name in listed if not name.startswith("rbd_")}


@pytest.fixture
def strangers(lab: str, tmp_path: Path) -> Iterator[set[str]]:
    access, content = lab_access(lab), tmp_path / "content"
    content.write_text("precious")
    for name in STRANGERS:
        sh(*access.command("rados", "--pool", "rep3", "put", name, str(content)))
    # Other tests of the lab left theirs, too.
    yield objects(access)
    for name in STRANGERS:
        assert sh(*access.command("rados", "--pool", "rep3", "get", name, "-")) == "precious"
        sh(*access.command("rados", "--pool", "rep3", "rm", name))


@pytest.fixture
def hosts(lab: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshHosts]:
    with hosts_in_lab(lab, monkeypatch) as made:
        yield made


@pytest.mark.slow
def test_all_patterns_use_the_runs_own_objects_and_leave_none(
    lab: str,
    plan: Callable[..., Path],
    process: Callable[..., Ended],
    strangers: set[str],
    tmp_path: Path,
) -> None:
    written = plan(
        "rados:rep3?engine=fio",
        "  - {name: w, pattern: randwrite, numjobs: 2}\n"
        "  - {name: m, pattern: randrw, read_share: 70, numjobs: 2, sharing: one-file}\n"
        "  - {name: s, pattern: read, block_size: 1M, levels: [{clients: 2}]}\n",
    )
    ended = process("run", written, "--quiet", "--format", "json")
    assert ended.status in (0, 1), ended.err
    run = find_run("@latest", tmp_path / "runs")
    assert [trial.record.status for trial in run.trials] == 3 * [TrialStatus.COMPLETED]
    assert run.left_behind == ()
    by_name = {trial.record.workload: trial for trial in run.trials}
    # The files of two jobs of client 1, and of one job of client 2.
    assert {trial.record.extent.allocated_bytes for trial in run.trials if trial.record.extent} == {
        3 * (8 << 20)
    }
    for name, ops in (("w", ["write"]), ("m", ["read", "write"]), ("s", ["read"])):
        output = by_name[name].output
        assert isinstance(output, EngineOutput)
        operations = [operation for job in output.jobs for operation in job.operations]
        assert {operation.op.value for operation in operations} == set(ops)
        assert all(operation.total for operation in operations)
    assert process("verify", "@latest").status == 0
    assert objects(lab_access(lab)) == strangers


@pytest.mark.slow
def test_what_a_killed_run_left_is_removed_by_clean(
    lab: str,
    plan: Callable[..., Path],
    process: Callable[..., Ended],
    started: Callable[..., object],
    strangers: set[str],
    tmp_path: Path,
) -> None:
    access = lab_access(lab)
    running = started("run", plan("rados:rep3?engine=fio", runtime="60s"))
    wait_for(lambda: len(objects(access) - strangers) >= 3, 120)
    running.kill()  # type: ignore[attr-defined]
    left = objects(access) - strangers
    assert left
    assert all(name.startswith("leadline-") for name in left)
    wait_for(lambda: process("clean").status == 0, 60)
    assert objects(access) == strangers


@pytest.mark.deep
def test_each_host_works_on_objects_of_its_own(
    lab: str,
    hosts: SshHosts,
    plan: Callable[..., Path],
    process: Callable[..., Ended],
    strangers: set[str],
    tmp_path: Path,
) -> None:
    workload = "  - {name: m, pattern: randrw, levels: [{clients: 3}]}"
    ended = process("run", plan("rados:rep3?hosts=a,b", workload), "--quiet")
    assert ended.status in (0, 1), ended.err
    run = find_run("@latest", tmp_path / "runs")
    (trial,) = run.trials
    assert trial.record.status is TrialStatus.COMPLETED
    named = [(client.name, client.host) for client in trial.clients]
    assert named == [("c1", "a"), ("c2", "b"), ("c3", "a")]
    assert trial.record.extent is not None
    assert trial.record.extent.allocated_bytes == 3 * (8 << 20)
    assert run.left_behind == ()
    assert not configurations(lab)
    assert objects(lab_access(lab)) == strangers


@pytest.fixture
def coded(lab: str) -> Iterator[str]:
    """A pool that accepts no writes to parts of objects."""
    access = lab_access(lab)
    with Connection(access) as cluster:
        cluster.mon(
            "osd pool create",
            pool="no-overwrites",
            pg_num=1,
            pool_type="erasure",
            erasure_code_profile="ec-2-1",
        )
        cluster.mon("osd pool application enable", pool="no-overwrites", app="rados")
        yield "no-overwrites"
        cluster.mon("config set", who="mon", name="mon_allow_pool_delete", value="true")
        cluster.mon(
            "osd pool delete",
            pool="no-overwrites",
            pool2="no-overwrites",
            yes_i_really_really_mean_it=True,
        )


@pytest.mark.slow
def test_pools_on_which_fio_would_count_errors_as_io_are_refused(
    lab: str, coded: str, plan: Callable[..., Path], process: Callable[..., Ended]
) -> None:
    ended = process("run", plan(f"rados:{coded}?engine=fio"))
    assert ended.status == 3, ended.err
    assert "error[pool-unsuitable]" in ended.err
    assert "does not allow overwrites" in ended.err
    ended = process("run", plan("rados:none?engine=fio"))
    assert "error[pool-missing]" in ended.err
    with Connection(lab_access(lab)) as cluster:
        with pytest.raises(OSError, match="not supported"):
            cluster.overwrite(coded, "probe")
        cluster.remove_objects(coded, ("probe", "none"))
        assert cluster.object_sizes(coded, ("probe",)) == (None,)


@pytest.mark.slow
def test_io_of_a_full_pool_fails_within_a_bound(
    lab: str, plan: Callable[..., Path], process: Callable[..., Ended], strangers: set[str]
) -> None:
    access = lab_access(lab)
    with Connection(access) as cluster:

        def is_full() -> bool:
            pools = cluster.mon_json("osd pool ls", detail="detail")
            (flags,) = (pool["flags_names"] for pool in pools if pool["pool_name"] == "rep3")
            return "full" in flags

        cluster.mon("osd pool set-quota", pool="rep3", field="max_objects", val="1")
        try:
            wait_for(is_full, 60)
            ended = process("run", plan("rados:rep3?engine=fio"))
            # A client waits by the map that it has: this one begins with the flag.
            with Connection(access, timeout_s=2) as late, pytest.raises(TimeoutError):
                late.overwrite("rep3", "probe")
        finally:
            cluster.mon("osd pool set-quota", pool="rep3", field="max_objects", val="0")
        wait_for(lambda: not is_full(), 60)
        cluster.remove_objects("rep3", ("probe",))
    assert ended.status == 4, ended.err
    assert "error[cluster-unfit]: the cluster is full" in ended.err
    assert objects(access) == strangers


@pytest.mark.deep
def test_users_and_hosts_without_the_right_key_are_refused(
    process: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who may only read, whose writes fio would count, and hosts without the keyring."""
    description = tmp_path / "lab.yaml"
    description.write_text("authentication: true\nstore: memstore\nosd_size: 1G\npools: [rep3]\n")
    folder = short_folder()
    labs = folder / "labs"
    monkeypatch.setenv("LEADLINE_LABS", str(labs))
    servers = SshHosts(folder)
    monkeypatch.setenv(CONFIG, str(servers.config))
    try:
        up = process("lab", "up", "keys", description)
        assert up.status == 0, up.err
        access = lab_access("keys")
        assert access.keyring is not None
        assert access.namespace is not None
        (tmp_path / "reader").write_text(
            sh(
                *access.command("ceph", "auth", "get-or-create", "client.reader"),
                *("mon", "allow r", "mgr", "allow r", "osd", "allow r pool=rep3"),
            )
            + "\n"
        )
        reading = tmp_path / "reading.yaml"
        reader = f"{{ceph_conf: {access.conf}, id: reader, keyring: {tmp_path / 'reader'}}}"
        text = PLAN.format(lab="x", target="rados:rep3?engine=fio", workloads=WRITES, runtime="1s")
        reading.write_text(text.replace("{lab: x}", reader))
        inside = ("nsenter", f"--net={access.namespace}", "--")
        done = subprocess.run(
            [*inside, *command("run", reading)],
            capture_output=True,
            text=True,
            timeout=120,
            env=environment(tmp_path / "runs"),
        )
        assert done.returncode == 3, done.stderr
        assert "error[ceph-denied]: client.reader may not read and write objects" in done.stderr
        assert "left-behind" not in done.stderr

        hide = 'mount -t tmpfs none "$0" && exec "$@"'
        keyrings = str(access.keyring.parent)
        servers.start_in("bare", (*inside, "unshare", "--mount", "sh", "-c", hide, keyrings))
        written = tmp_path / "hosts.yaml"
        for target in ("rbd:rep3?hosts=bare", "rados:rep3?hosts=bare"):
            written.write_text(
                PLAN.format(lab="keys", target=target, workloads=WRITES, runtime="1s")
            )
            ended = process("run", written)
            assert ended.status == 3, ended.err
            assert "error[ceph-denied]: the host 'bare' has no keyring of client.admin" in ended.err
            assert "librados: unable to find a keyring" in ended.err
        assert objects(access) == set()
        assert not configurations("keys")
    finally:
        servers.close()
        assert process("lab", "down", "keys").status == 0
        shutil.rmtree(folder)
