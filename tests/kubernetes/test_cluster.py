"""The cluster that the other tests stand on: real pods, real fio, and nothing left on the host."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kubernetes import classes, crds, objects, sweep
from tests.kubernetes.apart import apart
from tests.kubernetes.cluster import NODE, Cluster, Refused

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20


@pytest.mark.parametrize(
    ("storage_class", "mode"),
    [
        ("fast", "Filesystem"),
        ("slow", "Filesystem"),
        ("block", "Block"),
        ("block", "Filesystem"),
    ],
)
def test_fio_runs_in_a_pod_on_a_volume(cluster: Cluster, storage_class: str, mode: str) -> None:
    space = f"fio-{storage_class}-{mode.lower()}"
    objects.namespace(cluster, space)
    cluster.apply(objects.claim(space, "work", storage_class, mode, "64Mi"))
    cluster.apply(objects.pod(space, "work", mode))
    objects.running(cluster, space, "work")
    target = objects.DEVICE if mode == "Block" else f"{objects.DIRECTORY}/file"
    said = objects.execute(
        cluster,
        space,
        "work",
        f"fio --name=a --filename={target} --size=16M --bs=4k --rw=randwrite --direct=1"
        " --ioengine=libaio --iodepth=4 --output-format=json",
    )
    assert said.exit_code == 0, said.stderr
    job = json.loads(str(said.stdout).partition("{")[1] + str(said.stdout).partition("{")[2])
    assert job["jobs"][0]["write"]["total_ios"] == 16 * MIB // 4096
    assert job["jobs"][0]["error"] == 0
    if mode == "Block":
        size = objects.execute(cluster, space, "work", f"blockdev --getsize64 {target}")
        assert size.stdout == f"{64 * MIB}\n"
    (volume,) = objects.volumes_of(cluster, space)
    source = volume["spec"].get("local") or volume["spec"]["hostPath"]
    images = list((cluster.folder / "volumes" / "block").glob("*.img"))
    objects.removed(cluster, space)
    if storage_class == "block":
        assert len(images) == 1
        assert not images[0].exists()
    else:
        assert source["path"].startswith(str(cluster.folder / "volumes" / storage_class))
        assert not Path(source["path"]).exists()


def test_a_claim_of_the_class_without_provisioner_stays_pending(cluster: Cluster) -> None:
    objects.namespace(cluster, "stuck")
    cluster.apply(objects.claim("stuck", "work", "stuck", "Filesystem", "1Gi"))
    path = "/api/v1/namespaces/stuck"
    cluster.until("an event", lambda: cluster.request(f"{path}/events")["items"])
    claim = cluster.request(f"{path}/persistentvolumeclaims/work")
    assert claim["status"]["phase"] == "Pending"
    objects.removed(cluster, "stuck")


def test_a_raw_block_volume_grows(cluster: Cluster) -> None:
    objects.namespace(cluster, "grow")
    cluster.apply(objects.claim("grow", "work", "block", "Block", "32Mi"))
    cluster.apply(objects.pod("grow", "work", "Block"))
    objects.running(cluster, "grow", "work")
    cluster.apply(objects.claim("grow", "work", "block", "Block", "48Mi"))
    path = "/api/v1/namespaces/grow/persistentvolumeclaims/work"
    cluster.until("48Mi", lambda: cluster.request(path)["status"]["capacity"]["storage"] == "48Mi")
    size = objects.execute(cluster, "grow", "work", f"blockdev --getsize64 {objects.DEVICE}")
    assert size.stdout == f"{48 * MIB}\n"
    objects.removed(cluster, "grow")


def test_the_node_says_where_it_stands(cluster: Cluster) -> None:
    labels = cluster.request(f"/api/v1/nodes/{NODE}")["metadata"]["labels"]
    assert labels["topology.kubernetes.io/zone"] == "zone-a"
    assert labels["topology.kubernetes.io/region"] == "region-1"
    assert labels["node.kubernetes.io/instance-type"] == "lab.large"


def test_pods_reach_the_api_server_at_its_usual_address(cluster: Cluster) -> None:
    objects.namespace(cluster, "inside")
    cluster.apply(objects.claim("inside", "work", "fast", "Filesystem", "1Mi"))
    cluster.apply(objects.pod("inside", "work", "Filesystem"))
    objects.running(cluster, "inside", "work")
    script = "exec bash -c 'exec 3<>/dev/tcp/$KUBERNETES_SERVICE_HOST/$KUBERNETES_SERVICE_PORT'"
    assert objects.execute(cluster, "inside", "work", script).exit_code == 0
    objects.removed(cluster, "inside")


@pytest.mark.parametrize("user", ["runner", "viewer", "nobody"])
def test_unprivileged_users_have_no_rights(api_server: Cluster, user: str) -> None:
    with pytest.raises(Refused, match=f'User \\\\"{user}\\\\" cannot list') as refused:
        api_server.request("/api/v1/namespaces/default/pods", user=user)
    assert refused.value.status == 403


def test_classes_are_there_and_fast_is_the_default(api_server: Cluster) -> None:
    listed = api_server.request("/apis/storage.k8s.io/v1/storageclasses")["items"]
    assert {item["metadata"]["name"] for item in listed} == set(classes.NAMES)
    default = "storageclass.kubernetes.io/is-default-class"
    assert [
        item["metadata"]["name"]
        for item in listed
        if item["metadata"].get("annotations", {}).get(default) == "true"
    ] == ["fast"]


def test_real_schemas_judge_custom_resources(api_server: Cluster) -> None:
    api_server.apply(
        {
            "apiVersion": "ceph.rook.io/v1",
            "kind": "CephBlockPool",
            "metadata": {"name": "pool", "namespace": "default"},
            "spec": {"failureDomain": "host", "replicated": {"size": 3}},
        }
    )
    machine = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": "machine", "namespace": "default"},
        "spec": {"runStrategy": "Halted"},
    }
    with pytest.raises(Refused, match=r"spec\.template: Required value"):
        api_server.apply(machine)
    api_server.request("/apis/ceph.rook.io/v1/namespaces/default/cephblockpools/pool", "DELETE")


def test_only_three_definitions_are_approximations_and_say_so(api_server: Cluster) -> None:
    listed = api_server.request("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    marked = {
        item["metadata"]["name"]
        for item in listed["items"]
        if crds.APPROXIMATION in item["metadata"].get("annotations", {})
    }
    of_cdi = {"datavolumes.cdi.kubevirt.io", "datasources.cdi.kubevirt.io"}
    assert marked == {*of_cdi, "diskpools.openebs.io"}


def test_the_api_server_restarts_with_its_objects(api_server: Cluster) -> None:
    before = api_server.request("/api/v1/namespaces/default")["metadata"]["uid"]
    server = api_server.server
    api_server.restart("kube-apiserver")
    assert api_server.server == server
    assert api_server.request("/api/v1/namespaces/default")["metadata"]["uid"] == before


def test_a_killed_part_is_no_fault_and_comes_back(api_server: Cluster) -> None:
    api_server.kill("kube-controller-manager")
    api_server.until("the API server", lambda: bool(api_server.request("/readyz")))
    api_server.restart("kube-controller-manager")
    body = {"metadata": {"generateName": "account-"}}
    made = api_server.request("/api/v1/namespaces", "POST", body)["metadata"]["name"]
    account = f"/api/v1/namespaces/{made}/serviceaccounts"
    api_server.until("its work", lambda: api_server.request(account)["items"])
    api_server.request(f"/api/v1/namespaces/{made}", "DELETE")


def test_a_paused_kubelet_is_noticed(cluster: Cluster) -> None:
    cluster.until("the node", cluster.node_ready)
    cluster.pause("kubelet")
    try:
        cluster.until("a node that is not heard of", lambda: cluster.node_state() == "Unknown")
    finally:
        cluster.resume("kubelet")
    cluster.until("the node again", cluster.node_ready)


# --- what is left on the host -------------------------------------------------------------------

_PLACES = "/run/containerd /run/netns /var/lib/cni /var/lib/kubelet /var/log /var/log/pods /opt"
_SYSCTLS = (
    "vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops"
    " kernel/keys/root_maxkeys net/ipv4/ip_forward"
)


def look(own: int, folder: Path, mounts: Path) -> set[str]:
    """What a cluster could change on this machine, a line each; other clusters' own left out. Of
    loop devices only those over files of the cluster: tests of Ceph make others meanwhile."""
    others = [
        json.loads(state.read_text())
        for state in sweep.states().glob("*.json")
        if state.stem != str(own)
    ]
    names = [other[key] for other in others for key in ("folder", "interface", "cgroup")]

    def out(*command: str) -> list[str]:
        told = subprocess.run(command, check=True, capture_output=True, text=True)
        return told.stdout.splitlines()

    seen = {
        "mount": mounts.read_text().splitlines(),
        "loop": sweep.loop_devices(folder),
        "interface": [load["ifname"] for load in json.loads("".join(out("ip", "-j", "link")))],
        "route": out("ip", "route"),
        "cgroup": [str(path) for path in sweep.CGROUPS.glob("*/*/")],
        "file": [str(path) for place in _PLACES.split() for path in Path(place).glob("*")],
        "sysctl": [
            f"{name} {Path('/proc/sys', name).read_text().strip()}" for name in _SYSCTLS.split()
        ],
    }
    return {
        f"{kind} {line}"
        for kind, lines in seen.items()
        for line in lines
        # Whole words: leadlab2 is not in leadlab25.
        if not any(re.search(rf"{re.escape(name)}\b", line) for name in names)
    }


def processes(folder: Path) -> list[str]:
    """Command lines that name the folder: every daemon's does, and every shim's ends with its."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line and path.parent.name != str(os.getpid()):
            found.append(line)
    return found


def free_number() -> int:
    taken = {state.stem for state in sweep.states().glob("*.json")}
    return next(item for item in range(254, 0, -1) if str(item) not in taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """A second cluster next to the session's, of a process of its own, with a pod on a volume."""

    process: subprocess.Popen[str]
    folder: Path
    state: Path
    number: int
    mounts: Path
    before: set[str]

    def gone(self) -> None:
        deadline = time.monotonic() + 60
        while self.state.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not self.state.exists()
        # Before the looks below: the keeper removes its state last.
        assert not self.folder.exists()
        assert processes(self.folder) == []
        assert list(sweep.cgroups(f"leadline-lab-{self.number}")) == []
        while (
            new := look(self.number, self.folder, self.mounts) - self.before
        ) and time.monotonic() < deadline:
            time.sleep(1)  # Something else on this machine may come and go.
        assert new == set()


@pytest.fixture
def ground() -> Iterator[int]:
    """A process whose mount namespace is the second cluster's host: no mounts of others appear."""
    process = subprocess.Popen([*apart("--mount"), "sleep", "infinity"])
    own = Path("/proc/self/ns/mnt").readlink()
    while Path(f"/proc/{process.pid}/ns/mnt").readlink() == own:
        time.sleep(0.01)
    yield process.pid
    process.kill()
    process.wait()


@pytest.fixture
def second(whole: None, ground: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Second]:
    # A short path, as the kubelet's sockets lie below it.
    number, folder = free_number(), tmp_path_factory.mktemp("second") / "it"
    mounts = Path(f"/proc/{ground}/mounts")
    before = look(number, folder, mounts)
    process = subprocess.Popen(
        [
            *("nsenter", f"--mount=/proc/{ground}/ns/mnt"),
            *(sys.executable, "-m", "tests.kubernetes.up", str(folder), "--no-crds"),
            *("--number", str(number), "--occupy"),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline().startswith("KUBECONFIG=")
        # It is really there, so that its absence means something.
        during = look(number, folder, mounts)
        assert f"interface leadlab{number}" in during
        assert any(item.startswith("loop ") for item in during)
        assert list(sweep.cgroups(f"leadline-lab-{number}"))
        assert processes(folder)
        state = sweep.states() / f"{number}.json"
        yield Second(
            process=process,
            folder=folder,
            state=state,
            number=number,
            mounts=mounts,
            before=before,
        )
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


# Its keeper sweeps as that of a killed one does.
@pytest.mark.deep
def test_a_stopped_cluster_leaves_nothing(second: Second) -> None:
    second.process.send_signal(signal.SIGTERM)
    assert second.process.wait(60) == 0
    second.gone()


def test_a_killed_cluster_leaves_nothing(second: Second) -> None:
    second.process.kill()
    second.process.wait()
    second.gone()


def test_the_next_start_sweeps_what_a_killed_keeper_left(second: Second) -> None:
    keeper = json.loads(second.state.read_text())["pid"]
    children = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
    os.kill(keeper, signal.SIGKILL)
    second.process.kill()
    second.process.wait()
    deadline = time.monotonic() + 60
    while any(sweep.started(int(child)) for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert second.state.exists()
    assert list(sweep.cgroups(f"leadline-lab-{second.number}"))
    sweep.sweep_abandoned()
    second.gone()
