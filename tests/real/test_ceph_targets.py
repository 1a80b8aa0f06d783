"""Pools of a real cluster as targets: measured, refused where they must be, left as they were."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leadline.analysis.explain.facts import RoundTripCost
from leadline.analysis.figures import figures
from leadline.analysis.verdicts import Verdict
from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.archive.runs import find_run
from leadline.audit.registry import audit, trusted
from leadline.connect.ceph import CephAccess, Connection
from leadline.errors import LeadlineError
from leadline.lab.cluster import open_lab
from leadline.lab.state import lab_access, labs_folder
from leadline.metrics import Metric
from leadline.report.pages.comparison.headline import key_finding
from leadline.report.pages.run.scorecard import comparisons_of
from leadline.targets.ceph import ask
from tests.awaiting import wait_for
from tests.real.conftest import Ended, command, environment, sh

pytestmark = [pytest.mark.real, pytest.mark.root]

PROFILE = ["k=2", "m=1", "crush-root=lab", "crush-failure-domain=osd"]
SHORT = ("--runtime", "1s", "--ramp", "0", "--size", "16M", "--repeats", "1")


@pytest.fixture(scope="module")
def access(lab: str) -> CephAccess:
    return lab_access(lab)


@pytest.fixture
def connection(access: CephAccess) -> Iterator[Connection]:
    with Connection(access) as opened:
        yield opened


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., Path]:
    """A plan on the lab with these targets and one short workload."""

    def write(lab: str, *targets: str, workload: str = "{name: w, pattern: randwrite}") -> Path:
        path = tmp_path / "plan.yaml"
        path.write_text(
            f"clusters: {{here: {{lab: {lab}}}}}\n"
            f"targets: {json.dumps([json.loads(url) if url[0] == '{' else url for url in targets])}"
            f"\nworkloads: [{workload}]\n"
            "defaults: {size: 16M, runtime: 1s, block_size: 4k}\nrepeats: 1\n"
        )
        return path

    return write


def archive(tmp_path: Path) -> Run:
    return find_run("@latest", tmp_path / "runs")


def images(access: CephAccess, pool: str) -> list[str]:
    found: list[str] = json.loads(sh(*access.command("rbd", "ls", "--format", "json", pool)))
    return found


def objects(access: CephAccess, pool: str) -> set[str]:
    """Names of all objects but those that librbd keeps once it has been in a pool."""
    listed = sh(*access.command("rados", "-p", pool, "ls", "--all")).splitlines()
    names = {line.rpartition("\t")[2] for line in listed}
    return names - {"rbd_info", "rbd_trash", "rbd_directory", "rbd_children"}


@pytest.mark.slow
def test_every_kind_of_target_is_measured_and_left_as_it_was(
    lab: str, access: CephAccess, process: Callable[..., Ended], tmp_path: Path
) -> None:
    mount = open_lab(lab, labs_folder(None)).cephfs
    assert mount is not None
    before = {pool: objects(access, pool) for pool in ("rep3", "rep2", "ec-2-1")}
    targets = {
        "rep3": "rbd:rep3",
        "ec": "rbd:rep3?data_pool=ec-2-1",
        "fs": "cephfs:cephfs-rep2",
        "objects": "rados:rep2",
    }
    options = [part for name, url in targets.items() for part in ("--target", f"{name}={url}")]
    job = tmp_path / "plan.yaml"
    job.write_text(
        "targets: []\nworkloads: [{name: stream, phases: [{pattern: read}, {pattern: write}], "
        "block_size: 64k, iodepth: 4}]\n"
    )
    ended = process("run", job, *options, "--lab", lab, *SHORT, "--quiet")
    assert ended.status in (0, 1), ended.err
    run = archive(tmp_path)
    assert {trial.record.target for trial in run.trials} == set(targets)
    for trial in run.trials:
        record = trial.record
        assert record.status is TrialStatus.COMPLETED, record.problem
        assert trial.cluster, "the cluster's health was recorded"
        assert {trip.source for trip in record.round_trips} <= {"az1", "az2", "az3"}
        assert min(trip.min_s for trip in record.round_trips) >= 0.00099
        if record.target in ("rep3", "ec"):
            assert record.extent is not None
            assert record.extent.allocated_bytes == record.extent.span_bytes == 16 << 20
    assert process("verify", "@latest").status == 0
    assert run.left_behind == ()
    for pool, there in before.items():
        left = objects(access, pool) - there
        assert not left, f"left in {pool}"
        assert not [image for image in images(access, pool) if image.startswith("leadline-")]
    assert not list((mount / "cephfs-rep2").iterdir())
    for moment in ("start", "end"):
        inventory = run.cluster(moment, lab)
        assert inventory is not None
        assert inventory.pool("ec-2-1") is not None


FILES = """[global]
numjobs=2
nrfiles=50
filesize=4k
size=200k
filename_format=small.$jobnum.$filenum
openfiles=1
file_service_type=sequential
fallocate=none
group_reporting=1
runtime=20
[delete]
ioengine=filedelete
[create]
stonewall
ioengine=filecreate
create_on_open=1
"""


@pytest.mark.slow
def test_files_created_on_cephfs_are_within_the_bound_of_its_mds(
    lab: str, process: Callable[..., Ended], tmp_path: Path
) -> None:
    (tmp_path / "files.fio").write_text(FILES)
    plan = tmp_path / "files.yaml"
    plan.write_text("targets: []\nworkloads: [{name: files, job_file: files.fio}]\n")
    where = ("--target", "cephfs:cephfs-rep2", "--lab", lab)
    ended = process("run", plan, *where, "--repeats", "1", "--quiet")
    assert ended.status in (0, 1), ended.err
    (one,) = json.loads(process("predict", "@latest", "--format", "json").out)["forecasts"]
    assert (one["workload"], one["op"]) == ("files/create", "write")
    assert one["bound"]["capacity_of"] == "mds"
    assert one["bound"]["capacity_iops"] == pytest.approx(100_000)
    assert 0 < one["measured"]["iops"] < one["bound"]["capacity_iops"]
    assert "exceeds-ceiling" not in process("audit", "@latest", "--format", "json").out


@pytest.mark.slow
def test_the_cells_of_an_erasure_coded_pool_of_a_lab_need_no_second_name(
    lab: str, process: Callable[..., Ended], plan: Callable[..., Path]
) -> None:
    ended = process("run", plan(lab, "rbd:ec-2-1"), "--quiet", "--format", "json")
    assert ended.status in (0, 1), ended.err
    assert json.loads(ended.out)["trials"] == 1


@pytest.fixture
def own_image(access: CephAccess, tmp_path: Path) -> Iterator[str]:
    """An image of the user's, full of the user's data."""
    content = tmp_path / "data"
    content.write_bytes(os.urandom(16 << 20))
    sh(*access.command("rbd", "import", "--no-progress", str(content), "rep3/users-own"))
    yield "rep3/users-own"
    sh(*access.command("rbd", "rm", "--no-progress", "rep3/users-own"))


def content_of(access: CephAccess, image: str) -> str:
    done = subprocess.run(
        access.command("rbd", "export", "--no-progress", image, "-"), capture_output=True
    )
    assert done.returncode == 0
    return hashlib.sha256(done.stdout).hexdigest()


@pytest.mark.slow
def test_an_image_of_the_users_is_written_only_by_consent_and_never_removed(
    lab: str,
    access: CephAccess,
    own_image: str,
    process: Callable[..., Ended],
    plan: Callable[..., Path],
) -> None:
    before = content_of(access, own_image)
    path = plan(lab, f"rbd:{own_image}")
    refused = process("run", path, "--quiet")
    assert refused.status == 2
    assert "error[image-not-consented]" in refused.err
    assert f"--destroy-data rbd:{own_image}" in refused.err
    slip = process("run", path, "--quiet", "--destroy-data", "rbd:rep3/other")
    assert "error[usage]" in slip.err
    reading = plan(lab, f"rbd:{own_image}", workload="{name: r, pattern: randread}")
    assert process("run", reading, "--quiet", "--no-prefill").status in (0, 1)
    assert content_of(access, own_image) == before
    path = plan(lab, f"rbd:{own_image}")
    consented = process("run", path, "--quiet", "--destroy-data", f"rbd:{own_image}")
    assert consented.status in (0, 1), consented.err
    assert content_of(access, own_image) != before
    assert "users-own" in images(access, "rep3")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "code", "status", "said"),
    [
        ("rbd:rep33", "pool-missing", 2, "its pools: rep3, rep2, ec-2-1"),
        ("rbd:cephfs-rep3", "pool-unsuitable", 3, "is for cephfs"),
        ("rbd:rep3/nobody", "target-invalid", 2, "leave the image out (rbd:rep3)"),
        ("rbd:rep2?data_pool=nowhere", "pool-missing", 2, "no pool 'nowhere'"),
        ("cephfs:/tmp", "not-cephfs", 3, "not on CephFS"),
        ("cephfs:cephfs-rep9", "target-invalid", 2, "No such file"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_touched(
    lab: str,
    process: Callable[..., Ended],
    plan: Callable[..., Path],
    tmp_path: Path,
    target: str,
    code: str,
    status: int,
    said: str,
) -> None:
    ended = process("run", plan(lab, target), "--quiet")
    assert ended.status == status, ended.err
    assert f"error[{code}]" in ended.err
    assert said in ended.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_an_optional_target_is_left_out_with_the_reason(
    lab: str, process: Callable[..., Ended], plan: Callable[..., Path], tmp_path: Path
) -> None:
    optional = '{"target": "rbd:rep3-enc", "name": "encrypted", "optional": true}'
    ended = process("run", plan(lab, "rbd:rep3", optional))
    assert ended.status in (0, 1), ended.err
    assert "left out: encrypted: " in ended.err
    (gone,) = archive(tmp_path).plan.left_out
    assert gone.target == "encrypted"
    assert "has no pool 'rep3-enc'" in gone.reason
    assert "Left out" in process("show", "@latest").out


@pytest.mark.slow
def test_pools_without_application_or_overwrites_and_a_paused_cluster_are_refused(
    lab: str,
    connection: Connection,
    process: Callable[..., Ended],
    plan: Callable[..., Path],
) -> None:
    connection.mon("osd erasure-code-profile set", name="bare", profile=PROFILE)
    connection.mon(
        "osd pool create",
        pool="bare",
        pg_num=8,
        pool_type="erasure",
        erasure_code_profile="bare",
    )
    try:
        none = process("run", plan(lab, "rbd:rep3?data_pool=bare"), "--quiet")
        assert "error[pool-unsuitable]" in none.err
        assert "does not allow overwrites" in none.err
        writing = plan(lab, "rados:bare", workload="{name: w, pattern: write}")
        bare = process("run", writing, "--quiet")
        assert "error[pool-unsuitable]" in bare.err
        assert "ceph osd pool application enable bare rados" in bare.err
    finally:
        connection.mon(
            "osd pool delete", pool="bare", pool2="bare", yes_i_really_really_mean_it=True
        )
        connection.mon("osd erasure-code-profile rm", name="bare")
    connection.mon("osd set", key="pause")
    try:
        paused = process("run", plan(lab, "rbd:rep3"), "--quiet")
    finally:
        connection.mon("osd unset", key="pause")
    assert paused.status == 4
    assert "error[cluster-unfit]" in paused.err


@pytest.mark.slow
def test_a_delay_is_put_in_force_for_its_trials_and_then_undone(
    lab: str, process: Callable[..., Ended], plan: Callable[..., Path], tmp_path: Path
) -> None:
    ended = process(
        "run",
        plan(
            lab,
            '{"target": "rbd:rep3", "name": "near"}',
            '{"target": "rbd:rep3?inter_zone_rtt=100ms", "name": "far"}',
            '{"target": "rbd:rep3?inter_zone_rtt=100ms&read_policy=localize", "name": "local"}',
            # Sixteen objects: of four, all have their primaries near once in eighty times.
            workload="{name: r, pattern: randread, size: 64M}",
        ),
        "--quiet",
    )
    assert ended.status in (0, 1), ended.err
    run = archive(tmp_path)
    trips = {
        trial.record.target.partition("@")[0]: min(trip.min_s for trip in trial.record.round_trips)
        for trial in run.trials
    }
    assert trips["far"] >= 0.099
    assert trips["local"] >= 0.099
    assert trips["near"] < 0.099
    latencies = {
        row.target.partition("@")[0]: row.histogram
        for row in run.measurements()
        if row.histogram is not None
    }
    # Two thirds of the primaries are a round trip away, and a replica is always near. The median,
    # since a machine that stands still for a while makes single reads slow.
    assert latencies["far"].quantile_s(1.0) >= 0.098
    assert latencies["local"].quantile_s(0.5) < 0.098
    assert latencies["near"].quantile_s(0.5) < 0.098
    assert open_lab(lab, labs_folder(None)).description.inter_zone_rtt_s == pytest.approx(1e-3)


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_reported_within_its_time(
    process: Callable[..., Ended], tmp_path: Path
) -> None:
    conf = tmp_path / "ceph.conf"
    target = ("--target", "rbd:rep3", "--profile", "quick", "--ceph-conf", conf)
    missing = process("run", *target)
    assert missing.status == 3
    assert "error[ceph-unreachable]" in missing.err
    conf.write_text("[global]\nmon_host = [v2:127.0.0.1:1]\n")
    silent = process("run", *target)
    assert silent.status == 3
    assert "error[ceph-unreachable]" in silent.err
    denied = process("run", *target, "--keyring", tmp_path / "no.keyring")
    assert denied.status == 3
    assert "error[ceph-denied]" in denied.err


@pytest.mark.slow
@pytest.mark.parametrize(("program", "words"), [("rbd", ("ls", "p")), ("rados", ("lspools",))])
def test_programs_end_by_themselves_where_no_monitor_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr("leadline.targets.ceph._OPERATION_S", "1")
    conf = tmp_path / "ceph.conf"
    conf.write_text("[global]\nmon_host = [v2:127.0.0.1:1]\nauth_client_required = none\n")
    with pytest.raises(LeadlineError) as failed:
        ask(CephAccess(conf=conf), program, words, "listing")
    assert "within" not in failed.value.fact, "it is not killed after a minute"


@pytest.mark.slow
def test_a_virtual_machines_image_refuses_jobs_that_would_fight_for_its_lock(
    lab: str, process: Callable[..., Ended], plan: Callable[..., Path]
) -> None:
    target = "rbd:rep3?features=virtualization"
    two = plan(lab, target, workload="{name: w, pattern: randwrite, numjobs: 2, size: 4M}")
    assert "error[target-unsuitable]" in process("run", two, "--quiet").err
    assert process("run", plan(lab, target), "--quiet").status in (0, 1)


@pytest.mark.slow
def test_a_cluster_with_keys_and_encryption_is_measured_by_its_conf_and_keyring(
    process: Callable[..., Ended], tmp_path: Path
) -> None:
    description = tmp_path / "lab.yaml"
    description.write_text(
        "authentication: true\nencryption: true\nstore: memstore\nosd_size: 1G\n"
        "pools: [rep3, cephfs-rep3]\n"
    )
    with tempfile.TemporaryDirectory(prefix="ll-keys-") as labs:
        up = process("lab", "up", "keys", description, "--format", "json", LEADLINE_LABS=labs)
        assert up.status == 0, up.err
        try:
            (lab,) = json.loads(up.out)["labs"]

            def run(keyring: Path, target: str) -> subprocess.CompletedProcess[str]:
                """As a client in the cluster's network, which knows of no lab."""
                ask = ("--target", target, "--ceph-conf", lab["conf"], "--keyring", keyring)
                call = command("run", *ask, "--profile", "quick", *SHORT, "--quiet")
                namespace = f"--net={lab['zones'][0]['namespace']}"
                return subprocess.run(
                    ["nsenter", namespace, "--", *call],
                    capture_output=True,
                    text=True,
                    env=environment(tmp_path / "runs"),
                )

            for target in ("rbd:rep3", f"cephfs:{lab['cephfs']}/cephfs-rep3"):
                done = run(Path(lab["keyring"]), target)
                assert done.returncode in (0, 1), done.stderr
            secret = Path(lab["keyring"]).read_text().split("key = ")[1].split()[0]
            kept = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
            assert kept
            assert not [path for path in kept if secret.encode() in path.read_bytes()]
            wrong = tmp_path / "wrong.keyring"
            wrong.write_text(f"[client.admin]\n\tkey = {secret[:-6]}AAAA==\n")
            denied = run(wrong, "rbd:rep3")
            assert denied.returncode == 3
            assert "error[ceph-denied]" in denied.stderr
        finally:
            assert process("lab", "down", "keys", LEADLINE_LABS=labs).status == 0


# A delay that no load of the machine comes near.
IN_LABS = """\
clusters:
  near: {lab: {topology: single-zone, store: memstore, osd_size: 1G, pools: [rep3]}}
  far: {lab: {inter_zone_rtt: 100ms, store: memstore, osd_size: 1G, pools: [rep3]}}
targets: [{target: "rbd:rep3", name: rep3}]
workloads: [{name: w, pattern: randwrite, size: 16M}]
defaults: {runtime: 1s, block_size: 4k}
repeats: 3
"""


def labs_there(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.slow
def test_a_run_brings_its_labs_up_and_down_and_puts_them_side_by_side(
    process: Callable[..., Ended], tmp_path: Path
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(IN_LABS)
    with tempfile.TemporaryDirectory(prefix="ll-own-") as labs:
        ended = process("run", plan, LEADLINE_LABS=labs)
        assert ended.status in (0, 1), ended.err
        assert labs_there(Path(labs)) == []
    run = archive(tmp_path)
    assert run.complete
    assert run.left_behind == ()
    assert process("verify", "@latest").status == 0
    assert "far vs near" in ended.out
    findings = audit(run)
    (found,) = comparisons_of(run, figures(run, findings), findings)
    assert key_finding(found) in " ".join(ended.out.split())
    (mean,) = [cell for cell in found.cells if cell.metric is Metric.LATENCY_MEAN]
    assert mean.candidate is not None
    assert mean.candidate.value is not None
    assert mean.candidate.value >= 0.099, "a write waits for a replica in another zone"
    near, far = (
        [row.value or 0.0 for row in run.measurements() if row.histogram and side in row.target]
        for side in ("@near", "@far")
    )
    assert len(near) == len(far) == 3
    # A machine that stood still in one of the trials may leave no verdict. It takes that.
    alike = max(near) < min(0.02, 3 * min(near)) and max(far) < 3 * min(far)
    if alike and trusted(findings):
        assert key_finding(found).startswith("far vs near: writes ")
        assert mean.verdict is Verdict.WORSE
        assert any(isinstance(explanation, RoundTripCost) for explanation in found.explanations)


@pytest.mark.slow
def test_a_run_killed_with_its_lab_up_is_resumed_with_a_new_one_and_leaves_none(
    process: Callable[..., Ended], tmp_path: Path
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("".join(line for line in IN_LABS.splitlines(True) if "near: " not in line))
    with tempfile.TemporaryDirectory(prefix="ll-own-") as labs:
        child = subprocess.Popen(
            command("run", plan),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(tmp_path / "runs") | {"LEADLINE_LABS": labs},
        )
        wait_for(lambda: list((tmp_path / "runs").glob("*/trials/t*")), 240)
        child.kill()
        child.wait()
        (killed,) = labs_there(Path(labs))
        ended = process("run", "--resume", "@latest", LEADLINE_LABS=labs)
        assert ended.status in (0, 1), ended.err
        assert f"lab:{killed}" in ended.err
        assert labs_there(Path(labs)) == []
    run = archive(tmp_path)
    assert run.complete
    assert run.left_behind == ()
    assert process("verify", "@latest").status == 0


@pytest.mark.slow
def test_a_signal_while_labs_come_up_takes_them_down(
    process: Callable[..., Ended], tmp_path: Path
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(IN_LABS)
    with tempfile.TemporaryDirectory(prefix="ll-own-") as labs:
        child = subprocess.Popen(
            command("run", plan),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(tmp_path / "runs") | {"LEADLINE_LABS": labs},
        )
        wait_for(lambda: labs_there(Path(labs)), 90)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=180)
        assert child.returncode == 130, said
        assert "error[interrupted]" in said
        assert labs_there(Path(labs)) == []
    assert not (tmp_path / "runs").exists()


GUARDED = """
clusters: {{here: {{lab: {lab}}}}}
targets: ["rbd:rep2"]
guard: {{iops: 200, every: 1s, ceph_health: [HEALTH_ERR, OSDMAP_FLAGS]}}
workloads: [{{name: w, pattern: randwrite, block_size: 4k, iodepth: 4, size: 16M}}]
defaults: {{runtime: 4s}}
repeats: 2
"""


@pytest.mark.slow
def test_a_health_check_stops_a_guarded_run_which_goes_on_later(
    lab: str,
    connection: Connection,
    process: Callable[..., Ended],
    started: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    path = tmp_path / "guarded.yaml"
    path.write_text(GUARDED.format(lab=lab))
    running = started("run", path)
    runs = tmp_path / "runs"
    wait_for(lambda: list(runs.glob("*/trials/t0001*")) if runs.exists() else None)
    connection.mon("osd set", key="noout")
    try:
        _, err = running.communicate(timeout=120)
        assert running.returncode == 7, err
        assert "error[guard-stopped]: the guard's limit 'health of here' is crossed" in err
        assert "OSDMAP_FLAGS: noout flag(s) set" in err
    finally:
        connection.mon("osd unset", key="noout")
    # A monitor updates its checks at the next tick.
    wait_for(lambda: "OSDMAP_FLAGS" not in connection.mon_json("health")["checks"])
    assert process("run", "--resume", "@latest").status in (0, 1)
    assert archive(tmp_path).complete
