"""Virtual machines as a target: real objects on a real API server with KubeVirt's own schemas, a
real volume in a real pod, the real agent on a terminal behind a real aggregated console API. The
operator and the guest's hardware are doubles (kubevirt_double.py); test_guest.py has a guest."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from leadline import errors
from leadline.connect.kubernetes.console import ConsoleLink, ConsoleShell
from leadline.connect.kubernetes.machines import RunnerMachine, build_machine
from leadline.errors import LeadlineError
from leadline.plan.footprint import Footprint
from leadline.plan.kubernetes_cluster import BootImage, KubernetesCluster, Toleration, VmSettings
from leadline.plan.models import Target
from leadline.plan.volume_request import volume_request
from leadline.runner.ports import Journal
from leadline.targets.kubernetes_cluster import OpenKubernetes
from leadline.targets.virtual_machine import VirtualMachineTarget
from tests.kubernetes import csi_driver, vm_lifecycle
from tests.kubernetes.cluster import NODE, Cluster, Refused
from tests.kubernetes.driving import (
    MIB,
    Leadline,
    Manifest,
    applied,
    everything,
    nothing_left,
    ours,
    space,
)
from tests.kubernetes.guest_double import GuestDouble
from tests.kubernetes.kubevirt_double import KubeVirtDouble
from tests.kubernetes.objects import binding

RBAC = Path(__file__).resolve().parents[2] / "deploy" / "rbac"
BOOT = {"boot": {"container_disk": "registry.example/boot:1"}}


@pytest.fixture(scope="module", autouse=True)
def lists(api_server: Cluster) -> None:
    """The server says of a kind that no user has listed yet that it is not ready."""

    def listed() -> bool:
        try:
            everything(api_server)
        except Refused as refusal:
            if refusal.status == 429:
                return False
            raise
        return True

    api_server.until("every kind", listed)


# --- without KubeVirt ----------------------------------------------------------------------------


def test_a_cluster_without_consoles_is_refused_before_anything_is_made(
    cluster: Cluster, tmp_path: Path
) -> None:
    leadline = Leadline(cluster=cluster, folder=tmp_path)
    with nothing_left(cluster):
        plan = leadline.plan("a=storageclass:block?runner=vm", cluster={"vm": BOOT})
        ended = leadline("run", plan).failed("target-unsuitable", 3)
    assert "serves no consoles" in ended.err


@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize(
    "boot",
    [
        {"container_disk": "registry.example/boot@sha256:" + "0" * 64},
        {"url": "https://registry.example/boot.qcow2", "size": "12Gi"},
        {"claim": "images/debian"},
        {"data_source": "openshift-virtualization-os-images/rhel9"},
        {"data_source": "openshift-virtualization-os-images/rhel9", "size": "40Gi"},
    ],
    ids=lambda boot: next(iter(boot)),
)
def test_a_virtual_machine_has_no_field_that_kubevirt_does_not_know(
    api_server: Cluster, boot: dict[str, str], threads: bool
) -> None:
    """The server prunes fields that the schema lacks: what comes back is what was sent."""
    settings = VmSettings(boot=BootImage.model_validate(boot), io_threads=threads)
    lab = KubernetesCluster(
        node_selector={"disk": "fast"},
        tolerations=(Toleration(key="storage", operator="Exists", effect="NoSchedule"),),
        priority_class="high",
        pull_secrets=("registry",),
        vm=settings,
    )
    asked = RunnerMachine(
        name="one",
        namespace="default",
        labels={"a": "b"},
        storage_class="block",
        request=volume_request({"runner": "vm", "vm": "medium", "node": "n1"}),
        size_bytes=1 << 30,
    )
    kind = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine"}
    made = kind | json.loads(
        json.dumps(dict(build_machine(asked, lab, settings)), default=lambda item: item.to_dict())
    )
    back = api_server.request(
        "/apis/kubevirt.io/v1/namespaces/default/virtualmachines?dryRun=All&fieldValidation=Strict",
        "POST",
        made,
    )
    assert back["spec"] == made["spec"]
    domain = back["spec"]["template"]["spec"]["domain"]
    disk = next(disk for disk in domain["devices"]["disks"] if disk["name"] == "volume")
    assert (disk["cache"], disk["io"], disk["disk"]["bus"]) == ("none", "native", "virtio")
    assert disk.get("dedicatedIOThread", False) is threads
    assert domain["resources"]["requests"] == domain["resources"]["limits"]
    assert (domain["cpu"]["cores"], domain["memory"]["guest"]) == (4, "8192Mi")


# --- whole runs ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def double(cluster: Cluster) -> Iterator[KubeVirtDouble]:
    with KubeVirtDouble(cluster) as kubevirt:
        yield kubevirt


@pytest.fixture
def kubevirt(double: KubeVirtDouble) -> Iterator[KubeVirtDouble]:
    double.reset()
    yield double
    double.reset()


def _rights(user: str, *more: str) -> list[Manifest]:
    """The shipped rights of a run with virtual machines, and of `more`, and no others."""
    texts = [(RBAC / f"{name}.yaml").read_text() for name in ("run", "run-vm", *more)]
    roles = [item for text in texts for item in yaml.safe_load_all(text) if item]
    assert {role["kind"] for role in roles} == {"ClusterRole"}
    names = [role["metadata"]["name"] for role in roles]
    return roles + [binding(f"{name}-{user}", name, user) for name in names]


def test_a_run_measures_in_virtual_machines_and_leaves_nothing(
    kubevirt: KubeVirtDouble, tmp_path: Path
) -> None:
    """As a user with the shipped rights only, who finds two volumes of the right size, fio's own
    results of both, where they ran, and then nothing."""
    cluster = kubevirt.cluster
    leadline = Leadline(cluster=cluster, folder=tmp_path, user="runner")
    plan = leadline.plan(
        "two=storageclass:block?runner=vm&vm=medium&count=2&size=1Gi", cluster={"vm": BOOT}
    )
    with applied(cluster, *_rights("runner")), nothing_left(cluster):
        leadline("run", plan).answered()
    assert kubevirt.guests == {}
    (trial,) = leadline.trials()
    assert trial["status"] == "completed"
    folder = next((leadline.run / "trials").iterdir())
    runners = json.loads((folder / "runners.json").read_text())["runners"]
    assert [(runner["kind"], runner["node"]) for runner in runners] == [("vm", NODE)] * 2
    assert {(runner["cores"], runner["memory_bytes"]) for runner in runners} == {(4, 8192 * MIB)}
    assert {runner["volume"]["size_bytes"] for runner in runners} == {1024 * MIB}
    assert len({runner["volume"]["volume"] for runner in runners}) == 2
    outputs = [path.read_text() for path in folder.glob("*fio*.json")]
    assert len(outputs) == 2
    for text in outputs:
        (job,) = json.loads(text[text.index("{") :])["jobs"]
        assert job["error"] == 0
        assert job["read"]["total_ios"] > 0


@pytest.mark.deep
def test_a_fresh_volume_for_each_trial_comes_with_a_fresh_machine(
    kubevirt: KubeVirtDouble, tmp_path: Path
) -> None:
    leadline = Leadline(cluster=kubevirt.cluster, folder=tmp_path)
    plan = leadline.plan(
        "one=storageclass:block?runner=vm&size=1Gi&volume=fresh", cluster={"vm": BOOT}, repeats=2
    )
    with nothing_left(kubevirt.cluster):
        leadline("run", plan).answered()
    found = [
        json.loads(path.read_text())["runners"][0]
        for path in (leadline.run / "trials").glob("*/runners.json")
    ]
    assert len({item["name"] for item in found}) == 2
    assert len({item["volume"]["volume"] for item in found}) == 2


def test_a_disturbed_console_costs_repetitions_and_no_trial(
    kubevirt: KubeVirtDouble, tmp_path: Path
) -> None:
    """The kernel writes into our lines, and the connection is cut in the middle of the trial."""
    kubevirt.manners.noise_every = 4000
    leadline = Leadline(cluster=kubevirt.cluster, folder=tmp_path)
    plan = leadline.plan(
        "one=storageclass:block?runner=vm&size=1Gi",
        cluster={"vm": BOOT},
        workload={"runtime": "8s"},
    )
    running = leadline.start("run", plan)
    running.says("[1/1]")
    for _ in range(3):
        time.sleep(0.5)
        joined = kubevirt.consoles.joined
        kubevirt.consoles.cut()
        running.until("a new connection", lambda: kubevirt.consoles.joined > joined)  # noqa: B023
    running.ended().answered()
    assert [trial["status"] for trial in leadline.trials()] == ["completed"]


def test_ctrl_c_in_a_trial_leaves_nothing(kubevirt: KubeVirtDouble, tmp_path: Path) -> None:
    leadline = Leadline(cluster=kubevirt.cluster, folder=tmp_path)
    plan = leadline.plan(
        "one=storageclass:block?runner=vm&size=1Gi",
        cluster={"vm": BOOT},
        workload={"runtime": "100s"},
    )
    with nothing_left(kubevirt.cluster):
        running = leadline.start("run", plan)
        running.says("[1/1]")
        time.sleep(3)
        running.signal(signal.SIGINT)
        assert running.ended().status == 130
    assert kubevirt.guests == {}


def test_what_a_killed_run_left_is_cleaned(kubevirt: KubeVirtDouble, tmp_path: Path) -> None:
    leadline = Leadline(cluster=kubevirt.cluster, folder=tmp_path)
    plan = leadline.plan(
        "one=storageclass:block?runner=vm&size=1Gi",
        cluster={"vm": BOOT},
        workload={"runtime": "100s"},
    )
    with nothing_left(kubevirt.cluster):
        running = leadline.start("run", plan)
        running.until("a guest", lambda: kubevirt.guests)
        running.signal(signal.SIGKILL)
        running.ended()
        assert ours(kubevirt.cluster)
        leadline("clean").went_well()
    leadline("clean").went_well()


# --- golden images -------------------------------------------------------------------------------

# As CDI's controller of DataSources reports it.
READY = ("True", "Ready", "DataSource is ready to be consumed")
IMPORTING = ("False", "ImportInProgress", "Import DataVolume phase ImportInProgress")


def _golden(name: str, state: tuple[str, str, str]) -> Manifest:
    """A DataSource as OpenShift Virtualization has it for an operating system."""
    status, reason, message = state
    volume = {"pvc": {"name": f"{name}-e065d9079064", "namespace": "golden"}}
    condition = {"type": "Ready", "status": status, "reason": reason, "message": message}
    return {
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "DataSource",
        "metadata": {"name": name, "namespace": "golden"},
        "spec": {"source": volume},
        "status": {"source": volume, "conditions": [condition]},
    }


def test_machines_boot_from_a_golden_image_whose_disk_goes_with_them(
    kubevirt: KubeVirtDouble, tmp_path: Path
) -> None:
    cluster = kubevirt.cluster
    leadline = Leadline(cluster=cluster, folder=tmp_path, user="runner")
    boot = {"boot": {"data_source": "golden/rhel9"}}
    plan = leadline.plan("one=storageclass:block?runner=vm&size=1Gi", cluster={"vm": boot})
    kubevirt.disks.clear()
    with (
        space(cluster, "golden"),
        applied(cluster, _golden("rhel9", READY), *_rights("runner")),
        nothing_left(cluster),
    ):
        leadline("run", plan).answered()
    source = {"kind": "DataSource", "namespace": "golden", "name": "rhel9"}
    assert kubevirt.disks == [{"sourceRef": source, "storage": {}}]
    (path,) = leadline.run.glob("trials/*/runners.json")
    assert json.loads(path.read_text())["runners"][0]["image"] == "golden/rhel9"


def test_the_disk_of_a_golden_image_is_cleaned_after_a_kill(
    kubevirt: KubeVirtDouble, tmp_path: Path
) -> None:
    kubevirt.ways.disk = "CloneInProgress"
    leadline = Leadline(cluster=kubevirt.cluster, folder=tmp_path)
    boot = {"boot": {"data_source": "golden/rhel9"}}
    plan = leadline.plan("one=storageclass:block?runner=vm&size=1Gi", cluster={"vm": boot})
    kubevirt.disks.clear()
    golden = applied(kubevirt.cluster, _golden("rhel9", READY))
    with space(kubevirt.cluster, "golden"), golden, nothing_left(kubevirt.cluster):
        running = leadline.start("run", plan)
        running.until("a boot disk", lambda: kubevirt.disks)
        running.signal(signal.SIGKILL)
        running.ended()
        leadline("clean").went_well()


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("golden/rhel8", ["has no DataSource 'rhel8'", "DataSources there: fedora, rhel9"]),
        ("golden/rhel8", ["did you mean data_source: golden/rhel9?"]),
        ("golden/fedora", ["'golden/fedora' is not ready: Import DataVolume phase"]),
        ("elsewhere/rhel9", ["DataSources there: none", "openshift-virtualization-os-images"]),
    ],
    ids=["missing", "near", "importing", "namespace"],
)
def test_a_golden_image_that_cannot_be_used_is_refused_before_anything(
    kubevirt: KubeVirtDouble, tmp_path: Path, source: str, says: list[str]
) -> None:
    leadline = Leadline(cluster=kubevirt.cluster, folder=tmp_path)
    boot = {"boot": {"data_source": source}}
    plan = leadline.plan("one=storageclass:block?runner=vm&size=1Gi", cluster={"vm": boot})
    images = [_golden("rhel9", READY), _golden("fedora", IMPORTING)]
    with (
        space(kubevirt.cluster, "golden"),
        applied(kubevirt.cluster, *images),
        nothing_left(kubevirt.cluster),
    ):
        ended = leadline("run", plan).failed("target-unsuitable", 3)
    for text in says:
        assert text in ended.err


# --- the lifecycle of volumes that guests use ---------------------------------------------------


def test_the_stages_of_a_guests_volume(kubevirt: KubeVirtDouble, tmp_path: Path) -> None:
    """As a user with the shipped rights only."""
    leadline = Leadline(cluster=kubevirt.cluster, folder=tmp_path, user="runner")
    expected = vm_lifecycle.GUEST | vm_lifecycle.REMOVAL | {"expand"}
    with applied(kubevirt.cluster, *_rights("runner", "volume-lifecycle")):
        vm_lifecycle.run_and_check(leadline, "block", expected, ready="90s", bound_s=240, clients=3)
    assert kubevirt.guests == {}


def test_volumes_of_guests_are_expanded_and_copied(
    kubevirt: KubeVirtDouble, tmp_path: Path
) -> None:
    leadline = Leadline(cluster=kubevirt.cluster, folder=tmp_path)
    expected = vm_lifecycle.GUEST | vm_lifecycle.REMOVAL
    expected |= {"attach", "expand", "snapshot", "restore", "clone"}
    with csi_driver.running(kubevirt.cluster):
        vm_lifecycle.run_and_check(leadline, "csi", expected, ready="90s", bound_s=300, clients=2)


@pytest.mark.parametrize(
    ("ways", "stage", "says"),
    [
        ({"agent": False}, "vm-boot", ["no agent answers", "guest login:"]),
        ({"phase": "Scheduled"}, "vm-start", ["the machine is Scheduled"]),
        ({"disk": "Failed"}, "provision", ["the claim is Pending", "-boot' is not ready: Failed"]),
    ],
    ids=["no agent", "no start", "no boot disk"],
)
def test_a_guest_that_never_boots_is_named_and_removed(
    kubevirt: KubeVirtDouble, tmp_path: Path, ways: dict[str, Any], stage: str, says: list[str]
) -> None:
    for name, value in ways.items():
        setattr(kubevirt.ways, name, value)
    leadline = Leadline(cluster=kubevirt.cluster, folder=tmp_path)
    boot = {"boot": {"url": "https://images.example/a.qcow2"}} if "disk" in ways else BOOT
    plan = leadline.plan(
        "one=storageclass:block?runner=vm&size=64Mi",
        cluster={"vm": boot, "ready": "25s"},
        workload={**vm_lifecycle.WORKLOAD, "clients": 1},
    )
    with nothing_left(kubevirt.cluster):
        ended = leadline("run", plan)
    assert ended.status == 4, ended.err
    (trial,) = leadline.trials()
    assert trial["problem"]["code"] == "volume-pending"
    (context,) = trial["problem"]["context"]
    assert context.startswith(f"volume 1, {stage}: ")
    for text in says:
        assert text in context
    assert kubevirt.guests == {}


def test_killed_in_a_storm_of_guests_clean_leaves_nothing(
    kubevirt: KubeVirtDouble, tmp_path: Path
) -> None:
    leadline = Leadline(cluster=kubevirt.cluster, folder=tmp_path)
    plan = leadline.plan(
        "one=storageclass:block?runner=vm&size=64Mi",
        cluster={"vm": BOOT},
        workload={**vm_lifecycle.WORKLOAD, "clients": 2},
    )
    with nothing_left(kubevirt.cluster):
        running = leadline.start("run", plan)
        running.until("a guest", lambda: kubevirt.guests)
        running.signal(signal.SIGKILL)
        running.ended()
        leadline("clean", "--run", leadline.run).went_well()


# --- machines that do not come -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "ways", "code", "says"),
    [
        ("block", {"image": "registry.invalid/absent:1"}, "runner-failed", ["gets no image"]),
        (
            "block",
            {
                "phase": "Scheduling",
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/1 nodes are available: 1 Insufficient cpu.",
                    }
                ],
            },
            "runner-failed",
            ["finds no node", "Insufficient cpu"],
        ),
        ("block", {"phase": "Failed"}, "runner-failed", ["ended: Failed"]),
        ("stuck", {}, "volume-pending", ["is still pending"]),
        ("block", {"agent": False}, "runner-failed", ["no agent answers", "guest login:"]),
    ],
    ids=["image", "node", "crash", "volume", "agent"],
)
def test_machines_that_do_not_come_are_reported_and_removed(
    kubevirt: KubeVirtDouble,
    tmp_path: Path,
    target: str,
    ways: dict[str, Any],
    code: str,
    says: list[str],
) -> None:
    for name, value in ways.items():
        setattr(kubevirt.ways, name, value)
    leadline = Leadline(cluster=kubevirt.cluster, folder=tmp_path)
    # An image is given up as soon as kubelet backs off.
    # One without an agent comes up first, which a busy machine does slowly.
    ready = "60s" if "image" in ways else "18s" if "agent" in ways else "12s"
    plan = leadline.plan(
        f"one=storageclass:{target}?runner=vm&size=1Gi", cluster={"vm": BOOT, "ready": ready}
    )
    with nothing_left(kubevirt.cluster):
        ended = leadline("run", plan)
    assert f"error[{code}]" in ended.err, ended.err
    assert ended.status == 4
    for text in says:
        assert text in ended.err


def test_without_an_image_the_option_is_named(kubevirt: KubeVirtDouble, tmp_path: Path) -> None:
    leadline = Leadline(cluster=kubevirt.cluster, folder=tmp_path)
    plan = leadline.plan("one=storageclass:block?runner=vm")
    ended = leadline("run", plan).failed("target-invalid", 2)
    assert "--vm-image" in ended.err


def test_a_user_without_rights_is_reported_the_rules(
    kubevirt: KubeVirtDouble, tmp_path: Path
) -> None:
    leadline = Leadline(cluster=kubevirt.cluster, folder=tmp_path, user="nobody")
    plan = leadline.plan("one=storageclass:block?runner=vm", cluster={"vm": BOOT})
    with nothing_left(kubevirt.cluster):
        ended = leadline("run", plan).failed("kubernetes-denied", 3)
    assert 'resources: ["virtualmachineinstances/console"], verbs: ["get"]' in ended.err


# --- one machine, and what may happen to it ------------------------------------------------------


class _NoJournal:
    def note_created(self, entry: object) -> None: ...

    def note_removed(self, entry: object) -> None: ...


@pytest.fixture(scope="module")
def opened(double: KubeVirtDouble) -> Iterator[OpenKubernetes]:
    double.reset()
    settings = KubernetesCluster(
        kubeconfig=str(double.cluster.kubeconfig()), vm=VmSettings.model_validate(BOOT)
    )
    opened = OpenKubernetes("lab", settings)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def target(opened: OpenKubernetes) -> Iterator[VirtualMachineTarget]:
    url = "storageclass:block?runner=vm&size=1Gi"
    made = VirtualMachineTarget(Target(name="one", url=url), opened, number=1, asked_s=10.0)
    needs = Footprint(files={"leadline.0.dat": MIB}, span=MIB, job_file_bytes=0, writes=True)
    journal: Journal = _NoJournal()
    made.inspect(needs, prefill=True)
    try:
        made.acquire(needs, "perf-vm-tests", journal)
        yield made
    finally:
        assert made.release() == ()
        # Other tests of this worker look at the whole cluster.
        assert opened.leave() == ()


def _only(kubevirt: KubeVirtDouble) -> tuple[str, str]:
    (key,) = kubevirt.guests
    return key


class TestShell:
    def test_it_says_what_a_shell_says(self, target: VirtualMachineTarget) -> None:
        (volume,) = target.location.volumes
        given = bytes(range(256)) * 40
        said = volume.shell.run(
            'cat; printf "%s" "$1" >&2; exit 7', "it's $HOME\n", given=given, bound_s=30
        )
        assert (said.stdout, said.stderr, said.status) == (given, b"it's $HOME\n", 7)

    def test_output_comes_while_another_command_is_asked(
        self, target: VirtualMachineTarget
    ) -> None:
        """As a trial is followed and asked to stop."""
        (volume,) = target.location.volumes
        come: list[bytes] = []
        first = threading.Event()

        def take(piece: bytes) -> None:
            come.append(piece)
            first.set()

        script = "echo begun; until [ -e /run/go-on ]; do sleep 0.1; done; echo ended"
        follow = threading.Thread(
            target=lambda: volume.shell.run(script, bound_s=60, output=take), daemon=True
        )
        follow.start()
        assert first.wait(30)
        assert volume.shell.run(": >/run/go-on", bound_s=30).status == 0
        follow.join(30)
        assert b"".join(come) == b"begun\nended\n"

    def test_a_command_beyond_its_time_is_ended_in_the_guest(
        self, target: VirtualMachineTarget
    ) -> None:
        (volume,) = target.location.volumes
        with pytest.raises(LeadlineError, match="gave no answer in time") as raised:
            volume.shell.run("exec sleep 4321", bound_s=1)
        assert raised.value.kind is errors.SHELL_LOST
        script = "for one in /proc/[0-9]*; do tr '\\0' ' ' <$one/cmdline; echo; done 2>/dev/null"
        assert b"sleep 4321 \n" not in volume.shell.run(script, bound_s=30).stdout

    def test_a_machine_that_was_moved_is_reported(
        self, target: VirtualMachineTarget, kubevirt: KubeVirtDouble
    ) -> None:
        (volume,) = target.location.volumes
        key = _only(kubevirt)

        def move() -> None:
            kubevirt.patch(*key, {"nodeName": "other"})
            with contextlib.suppress(LeadlineError):  # the same report, if it takes long
                volume.shell.run(": >/run/moved", bound_s=30)

        mover = threading.Timer(1, move)
        mover.start()
        script = "until [ -e /run/moved ]; do sleep 0.1; done; sleep 5"
        try:
            with pytest.raises(LeadlineError, match="two nodes were measured") as raised:
                volume.shell.run(script, bound_s=60)
        finally:
            mover.join()
            kubevirt.patch(*key, {"nodeName": NODE})
        assert raised.value.kind is errors.RUNNER_FAILED
        assert target.present()

    def test_a_machine_that_an_error_paused_is_reported(
        self, target: VirtualMachineTarget, kubevirt: KubeVirtDouble
    ) -> None:
        (volume,) = target.location.volumes
        key = _only(kubevirt)
        paused = {"type": "Paused", "status": "True", "reason": "PausedIOError", "message": "EIO"}
        kubevirt.patch(*key, {"conditions": [paused]})
        try:
            with pytest.raises(LeadlineError, match="is paused: EIO") as raised:
                volume.shell.run("sleep 6", bound_s=30)
        finally:
            kubevirt.patch(*key, {"conditions": []})
        assert "health of the volume" in (raised.value.hint or "")

    def test_a_console_that_is_denied_names_the_rule(
        self, target: VirtualMachineTarget, kubevirt: KubeVirtDouble, opened: OpenKubernetes
    ) -> None:
        kubevirt.manners.status = 403
        link = ConsoleLink(opened.connection, *_only(kubevirt))
        shell = ConsoleShell(link, "guest", lambda: None)
        try:
            with pytest.raises(LeadlineError) as raised:
                shell.meet(30, lambda: None)
        finally:
            link.close()
        assert raised.value.kind is errors.KUBERNETES_DENIED

    def test_a_guest_that_hangs_is_reported_within_a_bound(
        self, target: VirtualMachineTarget, kubevirt: KubeVirtDouble
    ) -> None:
        """Last of all: it does not wake again."""
        guest = kubevirt.guests[_only(kubevirt)]
        assert isinstance(guest, GuestDouble)
        guest.freeze()
        (link,) = target._links
        shell = ConsoleShell(link, "guest", lambda: None, answer_s=0.5, silence_s=2)
        began = time.monotonic()
        with pytest.raises(LeadlineError, match="does not answer") as raised:
            shell.run("true", bound_s=60)
        assert raised.value.kind is errors.SHELL_LOST
        assert time.monotonic() - began < 30
