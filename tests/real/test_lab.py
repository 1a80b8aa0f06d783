"""Real labs: real daemons of Ceph's, brought up, used, killed at bad moments, and gone without a
trace."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leadline import errors
from leadline.connect.ceph import Connection
from leadline.errors import LeadlineError
from leadline.lab import cpu_groups, processes
from leadline.lab.cluster import Condition, Lab, bring_up, open_lab, probe_lab, survey
from leadline.lab.down import take_down
from leadline.lab.network import NetworkUnavailable
from leadline.lab.pools import mounts_below
from leadline.lab.state import MEMORY, lab_access, read_state
from leadline.plan.lab import LabDescription, LabPool, Store, Topology
from tests.awaiting import wait_for
from tests.real.conftest import Ended, command, environment

pytestmark = [pytest.mark.real, pytest.mark.root]
Process = Callable[..., Ended]
MEMSTORE = LabDescription(store=Store.MEMSTORE, osd_size_bytes=512 << 20)
CEPHS_OWN = tuple(map(Path, ("/var/log/ceph", "/var/lib/ceph", "/run/ceph", "/usr/share/ceph")))


@pytest.fixture
def labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for labs; what a failed test leaves in it is removed."""
    if os.geteuid() != 0:
        pytest.skip("needs root: labs do NOT get tested here")
    if shutil.which("ceph-osd") is None or shutil.which("ceph-mon") is None:
        pytest.skip("Ceph is not installed: labs do NOT get tested here")
    folder = tmp_path / "l"
    monkeypatch.setenv("LEADLINE_LABS", str(folder))
    before = everything_of_cephs()
    yield folder
    try:
        assert [item.name for item in survey(folder)] == [], "a test takes its labs down"
        assert everything_of_cephs() == before, "nothing is written outside of a lab's folder"
    finally:
        for item in survey(folder):
            take_down(item.folder)


def everything_of_cephs() -> dict[str, int]:
    """What there is where Ceph's own packages keep things, with the time of each change."""
    return {
        str(path): path.lstat().st_mtime_ns
        for root in CEPHS_OWN
        if root.exists()
        for path in (root, *root.rglob("*"))
    }


def prove_clean(folder: Path, pids: list[int], namespaces: list[str]) -> None:
    """No process, mount, network, file or memory of the lab is left."""
    assert processes.find(folder) == []
    assert [pid for pid in pids if processes.start_ticks(pid) is not None] == []
    assert mounts_below(folder) == []
    assert not folder.exists()
    assert memory_of(folder) == []
    used = set()
    for entry in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            used.add(str(entry.readlink()))
        except OSError:
            continue
    assert used.isdisjoint(namespaces)


def memory_of(folder: Path) -> list[Path]:
    """Folders in memory that say they are of the lab."""
    marks = MEMORY.glob("leadline-lab-*/lab")
    return [mark.parent for mark in marks if mark.read_text().strip() == str(folder)]


def facts(folder: Path) -> tuple[list[int], list[str]]:
    """Processes of a lab and their network namespaces other than ours."""
    ours = str(Path("/proc/self/ns/net").readlink())
    pids = [item.pid for item in processes.find(folder)]
    namespaces = {str(Path(f"/proc/{pid}/ns/net").readlink()) for pid in pids}
    return pids, sorted(namespaces - {ours})


def one_lab(said: Ended) -> dict[str, Any]:
    answer = json.loads(said.out)
    assert answer["schema"] == "leadline/lab/1"
    (lab,) = answer["labs"]
    assert isinstance(lab, dict)
    return lab


def sh(*words: str, data: bytes = b"") -> bytes:
    done = subprocess.run(words, input=data, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


PLAN = """\
clusters: {here: {lab: study}}
targets: ["rbd:rep3"]
repeats: 1
workloads: [{name: w, pattern: randwrite, block_size: 4k, size: 4M, runtime: 1s}]
"""


def test_a_lab_comes_up_is_measured_and_goes_without_a_trace(
    process: Process, labs: Path, tmp_path: Path
) -> None:
    up = process("lab", "up", "study", "--format", "json")
    assert up.status == 0, up.err
    assert ": stores of the OSDs" in up.err
    folder = labs / "study"
    told = one_lab(up)
    assert (told["condition"], told["osds"], told["topology"]) == ("up", 3, "multi-zone")
    assert [pool["name"] for pool in told["pools"]] == [pool.value for pool in LabPool]
    assert told["cephfs"] == str(folder / "cephfs")
    assert told["network_note"] == told["cephfs_note"] == ""
    for round_trip in told["round_trips"]:
        assert 0.99e-3 <= round_trip["min_s"] < 0.1, (
            "never early; how late a machine is, is its own"
        )
        # ping waits two seconds for the last: a machine that stands still longer makes it give up.
        assert 0 < round_trip["received"] <= round_trip["sent"]

    access = lab_access("study")
    content = os.urandom(1 << 16)
    for pool in ("rep3", "rep2"):
        sh(*access.command("rados", "-p", pool, "put", "thing", "-"), data=content)
        assert sh(*access.command("rados", "-p", pool, "get", "thing", "-")) == content
    image = ("create", "rep3/image", "--size", "16M", "--data-pool", "ec-2-1")
    sh(*access.command("rbd", *image))
    with Connection(access) as cluster:
        tree = {node["name"]: node["type"] for node in cluster.mon_json("osd tree")["nodes"]}
        assert cluster.mon_json("health")["status"] == "HEALTH_OK"
        placed = cluster.mon_json("osd map", pool="rep3", object="thing")["acting"]
        rules = {
            item["pool_name"]: item for item in cluster.mon_json("osd pool ls", detail="detail")
        }
    assert [name for name, kind in tree.items() if kind == "zone"] == ["az1", "az2", "az3"]
    assert [name for name, kind in tree.items() if kind == "root"] == ["lab"]
    assert sorted(placed) == [0, 1, 2]
    assert "ec_overwrites" in rules["ec-2-1"]["flags_names"]
    assert set(rules["cephfs-rep2"]["application_metadata"]) == {"cephfs"}
    for pool in ("cephfs-rep3", "cephfs-rep2"):
        file = folder / "cephfs" / pool / "file"
        file.write_bytes(content)
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
        assert os.getxattr(file, "ceph.file.layout.pool").decode() == pool

    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    ran = process("run", plan, "--format", "json")
    assert ran.status in (0, 1), ran.err
    assert json.loads(ran.out)["trials"] == 1
    assert process("verify", "@latest").status == 0
    assert sh(*access.command("rbd", "ls", "rep3")) == b"image\n"
    assert process("inventory", "--lab", "study").out.startswith("Ceph ")
    assert "error[pool-missing]" in process("run", plan, "--target", "rbd:rep33").err

    lab = open_lab("study", labs)
    assert lab.client_location == "region=eu1,zone=az1"
    slower = lab.set_inter_zone_rtt(100e-3)
    assert all(round_trip.min_s >= 99e-3 for round_trip in slower.round_trips)
    assert slower.round_trips == open_lab("study", labs).round_trips

    asked = process("lab", "status", "study", "--format", "json")
    assert asked.status == 0
    assert one_lab(asked)["health"] == "HEALTH_OK"
    assert "lab study: up" in process("lab", "status", "study").out
    shell = process("lab", "shell", "study", "--", "sh", "-c", "ceph fsid; exit 7")
    assert (shell.status, len(shell.out.strip())) == (7, 36), shell.err
    again = process("lab", "up", "study")
    assert again.status == 2
    assert "error[lab-exists]" in again.err

    pids, namespaces = facts(folder)
    assert len(pids) == 8
    assert len(namespaces) == 3
    began = time.monotonic()
    down = process("lab", "down", "study")
    assert (down.status, down.err) == (0, "lab study: down\n")
    assert time.monotonic() - began < 60, "all is killed at once; a tenth of it on a quiet machine"
    prove_clean(folder, pids, namespaces)
    assert process("lab", "down", "study").status == 2
    assert process("lab", "status", "study").status == 2


MOMENTS = (
    "network of the zones",
    "monitor",
    "stores of the OSDs",
    "0 of 3 OSDs up",
    "mount of CephFS",
)


@pytest.mark.parametrize(
    "moment",
    [
        moment if "stores" in moment else pytest.param(moment, marks=pytest.mark.slow)
        for moment in MOMENTS
    ],
)
def test_kill_9_at_any_moment_leaves_what_list_shows_and_down_removes(
    moment: str, process: Process, labs: Path, tmp_path: Path
) -> None:
    child = _started_until(moment, tmp_path)
    child.kill()
    child.wait()
    folder = labs / "half"
    listed = json.loads(process("lab", "list", "--format", "json").out)["labs"]
    assert [(item["name"], item["condition"]) for item in listed] == [("half", "half up")]
    assert process("lab", "status", "half").status == 1
    pids, namespaces = facts(folder)
    assert process("lab", "down", "--all").status == 0
    prove_clean(folder, pids, namespaces)


def _started_until(moment: str, tmp_path: Path) -> subprocess.Popen[bytes]:
    """`lab up half`, as soon as it waits for `moment`."""
    talk = tmp_path / "talk"
    with talk.open("wb") as stderr:
        child = subprocess.Popen(
            command("lab", "up", "half", "--store", "bluestore-in-memory", "--osd-size", "512M"),
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env=environment(tmp_path / "runs"),
        )
    wait_for(lambda: moment in talk.read_text() or child.poll() is not None, 180)
    assert child.poll() is None, talk.read_text()
    return child


@pytest.mark.slow
def test_a_signal_takes_the_half_built_lab_down(labs: Path, tmp_path: Path) -> None:
    child = _started_until("stores of the OSDs", tmp_path)
    pids, namespaces = facts(labs / "half")
    assert pids
    child.send_signal(signal.SIGTERM)
    assert child.wait(120) == 130
    prove_clean(labs / "half", pids, namespaces)


@pytest.mark.slow
def test_down_ends_an_up_that_goes_on(process: Process, labs: Path, tmp_path: Path) -> None:
    child = _started_until("stores of the OSDs", tmp_path)
    assert probe_lab(labs / "half").condition is Condition.COMING_UP
    assert process("lab", "down", "half").status == 0
    assert child.wait(120) == 130
    prove_clean(labs / "half", [], [])


@pytest.mark.slow
def test_two_labs_at_once_one_of_them_on_the_loopback_device(
    labs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    up: dict[str, Lab] = {}

    def zones() -> None:
        up["zones"] = bring_up("zones", MEMSTORE, labs, lambda what: None)

    beside = threading.Thread(target=zones)
    beside.start()
    wait_for(lambda: has_network(labs / "zones"), 90)

    def unavailable(*_: object) -> None:
        raise NetworkUnavailable("there are no namespaces in this test")

    monkeypatch.setattr("leadline.lab.up.network.start", unavailable)
    monkeypatch.setattr("leadline.lab.daemons.find_mount_obstacle", lambda: "no FUSE in this test")
    loopback = bring_up("loopback", MEMSTORE, labs, lambda what: None)
    beside.join()
    assert loopback.network is None
    assert loopback.network_note == "there are no namespaces in this test"
    assert (loopback.cephfs, loopback.cephfs_note) == (None, "no FUSE in this test")
    assert loopback.round_trips == ()
    with pytest.raises(LeadlineError) as refused:
        loopback.set_inter_zone_rtt(1e-3)
    assert refused.value.kind is errors.LAB_NOT_READY
    assert up["zones"].network is not None
    for lab in (loopback, up["zones"]):
        with Connection(lab.access) as cluster:
            assert cluster.mon_json("status")["osdmap"]["num_up_osds"] == 3

    # One that loses a daemon is reported, and does not disturb the other.
    victim = next(process for process in loopback.state.processes if process.name == "osd.1")
    os.kill(victim.pid, signal.SIGKILL)
    wait_for(lambda: processes.start_ticks(victim.pid) is None, 90)
    assert probe_lab(loopback.folder).condition is Condition.BROKEN
    with pytest.raises(LeadlineError, match=r"have died: osd\.1"):
        open_lab("loopback", labs)
    pids, namespaces = facts(loopback.folder)
    loopback.down()
    loopback.down()
    prove_clean(loopback.folder, pids, namespaces)
    assert probe_lab(up["zones"].folder).condition is Condition.UP
    pids, namespaces = facts(up["zones"].folder)
    up["zones"].down()
    prove_clean(up["zones"].folder, pids, namespaces)


def has_network(folder: Path) -> bool:
    state = read_state(folder)
    return state is not None and state.network is not None


def require_absent(secret: str, lab: Lab) -> None:
    """The user's environment is in no process and in no file of the lab."""
    found = processes.find(lab.folder)
    assert len(found) > 5
    for process in found:
        for kind in ("environ", "cmdline"):
            assert secret.encode() not in Path(f"/proc/{process.pid}/{kind}").read_bytes()
    files = [path for path in lab.folder.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path for path in files if secret.encode() in path.read_bytes()] == []


@pytest.mark.slow
def test_authentication_encryption_racks_stores_in_memory_and_a_secret_of_the_user(
    labs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = "Hunter2xLab"
    for name in ("AWS_SECRET_ACCESS_KEY", "VENDOR_TOKEN", "INNOCENT_NAME"):
        monkeypatch.setenv(name, users)
    description = LabDescription(
        topology=Topology.SINGLE_ZONE,
        store=Store.BLUESTORE_IN_MEMORY,
        osd_size_bytes=1 << 30,
        inter_zone_rtt_s=0.0,
        authentication=True,
        encryption=True,
    )
    lab = bring_up("secure", description, labs, lambda what: None)
    try:
        require_absent(users, lab)
        assert lab.client_location == "region=eu1,zone=az1,rack=r1"
        assert lab.network is not None
        assert lab.network.delays_ns() == {}
        assert len(lab.round_trips) == 3
        (memory,) = memory_of(lab.folder)
        assert len(list(memory.glob("osd.*"))) == 3
        with Connection(lab.access) as cluster:
            assert {item["entity"] for item in cluster.mon_json("auth ls")["auth_dump"]} >= {
                *("client.admin", "osd.0", "osd.2", "mgr.x", "mds.a")
            }
            tree = cluster.mon_json("osd tree")["nodes"]
        assert [node["name"] for node in tree if node["type"] == "rack"] == ["r1", "r2", "r3"]
        keyring = (lab.folder / "keyrings" / "client.admin").read_text()
        secret = keyring.split("key = ")[1].split()[0]
        wrong = labs / "wrong"
        wrong.write_text("[client.admin]\n\tkey = AQBlNd9hAAAAABAAO5v0gN3zGYbUfRJ3QtFkjA==\n")
        with pytest.raises(LeadlineError) as denied:
            Connection(dataclasses.replace(lab.access, keyring=wrong))
        assert denied.value.kind is errors.CEPH_DENIED
        wrong.unlink()
        assert secret not in lab.state.model_dump_json()
        sh(*lab.access.command("rados", "-p", "rep2", "put", "thing", "-"), data=b"x")
        (lab.folder / "cephfs" / "cephfs-rep2" / "file").write_bytes(b"x" * 4096)
        pids, namespaces = facts(lab.folder)
    finally:
        lab.down()
    prove_clean(lab.folder, pids, namespaces)


@pytest.mark.slow
def test_a_daemon_that_dies_early_fails_the_lab_at_once(
    process: Process, labs: Path, tmp_path: Path
) -> None:
    stub = tmp_path / "bin" / "ceph-osd"
    stub.parent.mkdir()
    stub.write_text(
        '#!/bin/sh\ncase "$*" in *--mkfs*) exit 0;; esac\necho the disk is on fire >&2\nexit 3\n'
    )
    stub.chmod(0o755)
    began = time.monotonic()
    said = process("lab", "up", "x", PATH=f"{stub.parent}:{os.environ['PATH']}")
    assert time.monotonic() - began < 100, "not after the 150 s that a lab may take"
    assert said.status == 4
    assert re.search(
        r"error\[lab-failed]: osd\.\d died while the lab came up: exit status 3", said.err
    )
    assert "the disk is on fire" in said.err
    assert "--keep" in said.err
    prove_clean(labs / "x", [], [])
    kept = process("lab", "up", "x", "--keep", PATH=f"{stub.parent}:{os.environ['PATH']}")
    assert kept.status == 4
    assert "on fire" in "".join(log.read_text() for log in (labs / "x" / "log").glob("osd.?.out"))
    pids, namespaces = facts(labs / "x")
    assert process("lab", "down", "x").status == 0
    prove_clean(labs / "x", pids, namespaces)


HOSTS = LabDescription(
    topology=Topology.HOSTS,
    domains=5,
    store=Store.MEMSTORE,
    osd_size_bytes=512 << 20,
    inter_zone_rtt_s=0.0,
    cpu_per_host=0.15,
    pools=(LabPool.REP3,),
)


def groups_with(token: str) -> list[Path]:
    """Control groups of a lab, in whatever hierarchy."""
    return list(Path("/sys/fs/cgroup").glob(f"**/leadline-lab-{token}"))


@pytest.mark.slow
def test_five_hosts_with_a_budget_are_held_to_it_and_go_without_a_trace(
    process: Process, labs: Path, tmp_path: Path
) -> None:
    lab = bring_up("hosts", HOSTS, labs, lambda what: None)
    with Connection(lab.access) as cluster:
        tree = cluster.mon_json("osd tree")["nodes"]
        (rule,) = cluster.mon_json("osd crush rule dump")
    hosts = {node["name"]: node["children"] for node in tree if node["type"] == "host"}
    assert hosts == {f"h{number + 1}": [number] for number in range(5)}
    assert [node["name"] for node in tree if node["type"] in ("root", "zone")] == ["lab", "az1"]
    assert "host" in {step.get("type") for step in rule["steps"]}

    assert list(lab.cpu_groups) == ["h1", "h2", "h3", "h4", "h5"]
    for number, group in enumerate(lab.cpu_groups.values()):
        assert cpu_groups.read_members(group) == {lab.state.osd_pids[f"osd.{number}"]}
        assert cpu_groups.read_quota(group) == (1500, 10000)
    write = ("bench", "4", "write", "-b", "4096", "-t", "32", "-p", "rep3", "--no-cleanup")
    used = cpu_s(lab)
    began = time.monotonic()
    sh(*lab.access.command("rados", *write))
    share = (cpu_s(lab) - used) / (time.monotonic() - began) / 5
    assert share < 0.15 * 1.1, "a host uses no more than its budget"
    told = one_lab(process("lab", "status", "hosts", "--format", "json"))
    assert (told["topology"], told["domains"], told["cpu_per_host"]) == ("hosts", 5, 0.15)
    assert told["round_trips"] == []
    assert max(cpu_group["throttled_share"] for cpu_group in told["cpu_groups"]) > 0.1
    assert "h5" in process("lab", "status", "hosts").out

    _refuses_latencies(process, tmp_path)

    # A daemon that got out is not measured as if it were still held.
    group = lab.cpu_groups["h1"]
    (group.parents[1] / "cgroup.procs").write_text(str(lab.state.osd_pids["osd.0"]))
    with pytest.raises(LeadlineError, match=r"are lost: osd\.0") as refused:
        open_lab("hosts", labs)
    assert refused.value.kind is errors.LAB_NOT_READY

    pids, namespaces = facts(lab.folder)
    lab.down()
    prove_clean(lab.folder, pids, namespaces)
    assert groups_with(lab.state.token) == []


def _refuses_latencies(process: Process, folder: Path) -> None:
    """A run on the lab counts how often its hosts were held back, and the audit says what of."""
    plan = folder / "plan.yaml"
    plan.write_text(
        "targets: ['rbd:rep3']\ndefaults: {size: 32M, runtime: 2s, ramp: 0}\nrepeats: 1\n"
        "workloads: [{name: w, pattern: randwrite, block_size: 4k, iodepth: 32}]\n"
    )
    ran = process("run", "--lab", "hosts", plan)
    assert ran.status == 1, ran.err
    found = json.loads(process("audit", "@latest", "--format", "json").out)["findings"]
    mine = [item for item in found if item["code"] == "throttled-system"]
    assert [item["severity"] for item in mine] == ["error", "info"]
    assert mine[0]["evidence"]["throttled_share"] > 0.1
    assert mine[0]["evidence"]["quota_cores"] == pytest.approx(0.15)
    assert mine[1]["evidence"]["groups"] == 5


def cpu_s(lab: Lab) -> float:
    """Processor time of a lab's OSDs."""
    ticks = 0
    for pid in lab.state.osd_pids.values():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
def test_kill_9_while_hosts_are_bounded_leaves_no_group(
    process: Process, labs: Path, tmp_path: Path
) -> None:
    written = tmp_path / "lab.yaml"
    written.write_text(
        "{topology: hosts, store: memstore, osd_size: 512M, cpu_per_host: 0.2, pools: [rep3]}"
    )
    stopped = (
        "import time; from leadline.lab import cpu_groups; assign = cpu_groups.assign\n"
        "cpu_groups.assign = lambda *given: (assign(*given), time.sleep(60))\n"
        "from leadline.cli.main import main; raise SystemExit(main())"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", stopped, "lab", "up", "half", str(written), "--quiet"],
        env=environment(tmp_path / "runs"),
    )

    def one_is_in() -> bool:
        state = read_state(labs / "half")
        groups = state.cpu_groups.values() if state else ()
        return any(cpu_groups.read_members(group) for group in groups) or child.poll() is not None

    wait_for(one_is_in, 180)
    assert child.poll() is None
    child.kill()
    child.wait()
    state = read_state(labs / "half")
    assert state is not None
    assert groups_with(state.token)
    pids, namespaces = facts(labs / "half")
    assert process("lab", "down", "half").status == 0
    prove_clean(labs / "half", pids, namespaces)
    assert groups_with(state.token) == []
