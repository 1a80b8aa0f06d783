"""Virtual machines that do a run's I/O in a Kubernetes cluster.

Each volume has one KubeVirt VirtualMachine, which owns the claim of its data disk and the Secret of
its first boot. The owner is created first, so every claim and Secret has one: deleting the
VirtualMachine deletes everything. `kubevirt.io/v1` of KubeVirt 1.0 and later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml
from lightkube import ApiError
from lightkube.generic_resource import GenericNamespacedResource, create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta, OwnerReference
from lightkube.resources.core_v1 import PersistentVolumeClaim, Secret

from leadline import errors
from leadline.connect.kubernetes.client import Connection
from leadline.connect.kubernetes.objects import (
    TOKEN,
    Problem,
    RunnerGroup,
    await_running,
    create_object,
    format_events,
    get_object,
    list_owned,
)
from leadline.connect.kubernetes.pods import (
    claim_spec,
    find_problem,
    node_affinity,
    node_selector,
    pods_of,
    spread_constraints,
)
from leadline.errors import LeadlineError
from leadline.plan.kubernetes_cluster import BootImage, KubernetesCluster, VmSettings
from leadline.plan.volume_request import Bus, HostCache, VolumeMode, VolumeRequest

# udev names the data disk in the guest by its serial number, with a prefix by the bus.
SERIAL = "leadline"
DEVICES = {
    Bus.VIRTIO: f"/dev/disk/by-id/virtio-{SERIAL}",
    Bus.SCSI: f"/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_{SERIAL}",
    Bus.SATA: f"/dev/disk/by-id/ata-QEMU_HARDDISK_{SERIAL}",
}
# In memory: writes there reach no disk.
HOME = "/run/leadline"
SCRATCH = f"{HOME}/scratch"
# Prints the exit status and the last output of the setup.
SETUP_DONE = f"cat {HOME}/setup.status 2>/dev/null && tail -n 8 {HOME}/setup.log >&2"
_FOLDER = "/usr/local/lib/leadline"
_SCRIPTS = ("guest_agent.sh", "guest_setup.sh")


def user_data(settings: VmSettings, task: Sequence[str] = ()) -> str:
    """Return the `#cloud-config` that writes the agent and the setup, and runs them.

    `task` is a shell script with its arguments, which starts before anything else; such a guest
    needs no other programs, and installs none.
    """
    proxy = settings.proxy
    variables = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    environment = ["env", *(f"{name}={proxy}" for name in variables)] if proxy else []
    setup = ["sh", f"{_FOLDER}/guest_setup.sh"]
    commands = [[*environment, *setup, *settings.packages]]
    files = {name: script(name) for name in _SCRIPTS}
    if task:
        files["guest_task.sh"] = task[0]
        background = 'setsid sh "$@" </dev/null >/dev/null 2>&1 &'
        started = ["sh", "-c", background, "sh", f"{_FOLDER}/guest_task.sh", *task[1:]]
        commands = [started, ["env", "LEADLINE_PROGRAMS=", *setup]]
    document = {
        "write_files": [
            {"path": f"{_FOLDER}/{name}", "permissions": "0755", "content": content}
            for name, content in files.items()
        ],
        "runcmd": commands,
        "package_update": False,
        "package_upgrade": False,
    }
    return "#cloud-config\n" + yaml.safe_dump(document, sort_keys=False)


def script(name: str) -> str:
    return resources.files("leadline.connect.kubernetes").joinpath(name).read_text("utf-8")


GROUP, VERSION = "kubevirt.io", "v1"
CDI_GROUP, CDI_VERSION = "cdi.kubevirt.io", "v1beta1"
VirtualMachine = create_namespaced_resource(GROUP, VERSION, "VirtualMachine", "virtualmachines")
VirtualMachineInstance = create_namespaced_resource(
    GROUP, VERSION, "VirtualMachineInstance", "virtualmachineinstances"
)
DataSource = create_namespaced_resource(CDI_GROUP, CDI_VERSION, "DataSource", "datasources")
DataVolume = create_namespaced_resource(CDI_GROUP, CDI_VERSION, "DataVolume", "datavolumes")
# The guest holds nothing that a longer shutdown would save.
_GRACE_S = 5
_MIB = 1 << 20
_BOOT_BYTES = 10 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerMachine:
    """Request for the virtual machine of one volume. `size_bytes` is the size of the data disk;
    `volume` names its claim where that is not the machine's own."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    storage_class: str
    request: VolumeRequest
    size_bytes: int
    volume: str = ""

    @property
    def claim(self) -> str:
        return self.volume or f"{self.name}-volume"

    @property
    def seed(self) -> str:
        return f"{self.name}-seed"

    @property
    def boot(self) -> str:
        return f"{self.name}-boot"


def build_machine(
    runner: RunnerMachine, cluster: KubernetesCluster, settings: VmSettings
) -> GenericNamespacedResource:
    """Return the VirtualMachine. It starts once: one that ends stays ended, and is reported."""
    templates = _data_volumes(runner, settings.boot)
    return VirtualMachine(
        metadata=_metadata(runner, runner.name),
        spec={
            "runStrategy": "Once",
            **({"dataVolumeTemplates": templates} if templates else {}),
            "template": {
                "metadata": {"labels": dict(runner.labels)},
                "spec": _instance(runner, cluster, settings),
            },
        },
    )


def _instance(
    runner: RunnerMachine, cluster: KubernetesCluster, settings: VmSettings
) -> dict[str, Any]:
    """Return the instance. Requests equal limits: its pod is Guaranteed."""
    request = runner.request
    size = request.runner_size(cluster)
    cores, memory = int(size.cores), f"{size.memory_bytes // _MIB}Mi"
    resources = {"cpu": str(cores), "memory": memory}
    io_threads = settings.io_threads if request.io_threads is None else request.io_threads
    placed: dict[str, Any] = {
        "nodeSelector": node_selector(runner.request, cluster),
        "affinity": node_affinity(runner.request.node),
        "topologySpreadConstraints": spread_constraints(request, runner.labels),
        "tolerations": [
            toleration.model_dump(exclude_none=True) for toleration in cluster.tolerations
        ],
        "priorityClassName": cluster.priority_class,
    }
    # By default without the host's page cache; QEMU's native I/O needs that.
    data_disk = {
        "name": "volume",
        "disk": {"bus": request.bus.value},
        "cache": request.cache.value,
        "io": "native" if request.cache is HostCache.NONE else "threads",
        "serial": SERIAL,
        **({"dedicatedIOThread": True} if io_threads and request.bus is Bus.VIRTIO else {}),
    }
    return {
        **{key: value for key, value in placed.items() if value},
        # A drained node ends it and the trial: a migrated one would measure two nodes.
        "evictionStrategy": "None",
        "terminationGracePeriodSeconds": _GRACE_S,
        "domain": {
            "cpu": {
                "cores": cores,
                **({"dedicatedCpuPlacement": True} if request.dedicated else {}),
            },
            "memory": {"guest": memory},
            "resources": {"requests": resources, "limits": dict(resources)},
            "devices": {
                "autoattachSerialConsole": True,
                "autoattachGraphicsDevice": False,
                "rng": {},
                "disks": [
                    {"name": "boot", "bootOrder": 1, "disk": {"bus": "virtio"}},
                    data_disk,
                    {"name": "seed", "disk": {"bus": "virtio"}},
                ],
                "interfaces": [{"name": "default", "masquerade": {}}],
            },
        },
        "networks": [{"name": "default", "pod": {}}],
        "volumes": [
            {"name": "boot", **_boot(runner, cluster, settings.boot)},
            {"name": "volume", "persistentVolumeClaim": {"claimName": runner.claim}},
            {"name": "seed", "cloudInitNoCloud": {"secretRef": {"name": runner.seed}}},
        ],
    }


def _boot(runner: RunnerMachine, cluster: KubernetesCluster, boot: BootImage) -> dict[str, Any]:
    if boot.container_disk is None:
        return {"dataVolume": {"name": runner.boot}}
    disk: dict[str, Any] = {"image": boot.container_disk, "imagePullPolicy": cluster.pull_policy}
    if cluster.pull_secrets:
        # KubeVirt accepts one secret for a container disk.
        disk["imagePullSecret"] = cluster.pull_secrets[0]
    return {"containerDisk": disk}


def _data_volumes(runner: RunnerMachine, boot: BootImage) -> list[dict[str, Any]]:
    """Return CDI's source of the boot disk, in the default StorageClass: the I/O of the guest's
    system goes to another volume than the measured one."""
    if not boot.imported:
        return []
    if boot.data_source is not None:
        namespace, _, name = boot.data_source.partition("/")
        given: dict[str, Any] = {
            "sourceRef": {"kind": "DataSource", "namespace": namespace, "name": name}
        }
    elif boot.url is not None:
        given = {"source": {"http": {"url": boot.url}}}
    else:
        namespace, _, name = str(boot.claim).partition("/")
        given = {"source": {"pvc": {"namespace": namespace, "name": name}}}
    size = boot.size or (None if boot.data_source else _BOOT_BYTES)
    # Without a size CDI takes that of the source.
    storage = {"resources": {"requests": {"storage": str(size)}}} if size else {}
    return [
        {
            "metadata": {"name": runner.boot, "labels": dict(runner.labels)},
            "spec": {**given, "storage": storage},
        }
    ]


def data_volume_names(machine: Mapping[str, Any]) -> list[str]:
    """Return the names of the DataVolumes that KubeVirt makes for a VirtualMachine."""
    templates = (machine.get("spec") or {}).get("dataVolumeTemplates") or ()
    return [str(template["metadata"]["name"]) for template in templates]


def _metadata(runner: RunnerMachine, name: str, owner: str = "") -> ObjectMeta:
    owners = [
        OwnerReference(
            apiVersion=f"{GROUP}/{VERSION}", kind="VirtualMachine", name=runner.name, uid=owner
        )
    ]
    return ObjectMeta(
        name=name,
        namespace=runner.namespace,
        labels=dict(runner.labels),
        ownerReferences=owners if owner else None,
    )


Object = Mapping[str, Any]

_ENDED = ("Succeeded", "Failed")
# States of a VirtualMachine that waiting does not improve.
_FINAL = {
    "CrashLoopBackOff": "it crashes again and again",
    "DataVolumeError": "its boot disk could not be made",
}
_IMAGE = ("ErrImagePull", "ImagePullBackOff")
_AGAIN = "`leadline run --resume --retry-failed` creates a new one and continues"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The instance and its node, which must not change during a measurement."""

    uid: str
    node: str


def name_of(found: Object) -> str:
    return str(found.get("metadata", {}).get("name", ""))


def read_placement(instance: Object) -> Placement:
    return Placement(
        uid=str(instance.get("metadata", {}).get("uid", "")),
        node=str(_status(instance).get("nodeName", "")),
    )


def is_running(instance: Object) -> bool:
    return bool(_status(instance).get("phase") == "Running") and find_loss(instance) is None


def find_loss(instance: Object, before: Placement | None = None) -> Problem | None:
    """Return why an instance is lost; None while it may work. `before` is its placement at the
    start."""
    name = f"the virtual machine {name_of(instance)!r}"
    status, now = _status(instance), read_placement(instance)
    paused = _condition(instance, "Paused")
    migration = status.get("migrationState") or {}
    if status.get("phase") in _ENDED:
        hint = f"look at its node and at the guest's console; {_AGAIN}"
        return Problem(f"{name} ended: {_format_end(instance)}", hint=hint)
    if instance.get("metadata", {}).get("deletionTimestamp"):
        hint = "a user deleted it, or its node is drained"
        return Problem(f"{name} is being deleted", hint=hint)
    if paused is not None and paused.get("status") == "True":
        hint = (
            "an I/O error of its disk pauses a virtual machine; look at the health of the volume"
            if "IOError" in str(paused.get("reason"))
            else "a user paused it; `virtctl unpause` resumes it"
        )
        return Problem(f"{name} is paused: {_message_of(paused)}", hint=hint)
    if before is not None and before.uid != now.uid:
        return Problem(f"{name} was replaced by another of its name", hint=_AGAIN)
    hint = f"keep live migrations away from the run; {_AGAIN}"
    if before is not None and before.node != now.node:
        moved = f"{name} was moved from the node {before.node!r} to {now.node!r}"
        return Problem(f"{moved}: two nodes were measured", hint=hint)
    if migration and not migration.get("completed") and not migration.get("failed"):
        target = migration.get("targetNode", "")
        return Problem(f"{name} is being moved to the node {target!r}", hint=hint)
    return None


def find_machine_problem(machine: Object) -> Problem | None:
    """Return the problem that a VirtualMachine reports in addition to its instance."""
    status = _status(machine)
    printable = str(status.get("printableStatus", ""))
    name = f"the virtual machine {name_of(machine)!r}"
    if printable in _FINAL:
        return Problem(
            f"{name} cannot run: {_FINAL[printable]}",
            hint="look at its boot image; the messages below are from KubeVirt",
        )
    if printable in _IMAGE:
        return Problem(
            f"{name} gets no image for its boot disk",
            final=printable == "ImagePullBackOff",
            hint="name a container disk that the nodes can pull (`--vm-image`), or give "
            "`pull_secrets`",
        )
    failure = _condition(machine, "Failure")
    if failure is not None and failure.get("status") == "True":
        return Problem(
            f"{name} cannot be started: {_message_of(failure)}",
            kind=errors.KUBERNETES_FAILED,
            final=False,
            hint="the message is from KubeVirt or a webhook",
        )
    return None


def find_wait(instance: Object) -> Problem | None:
    """Return the reported reason why an instance does not run yet; waiting may help."""
    name = f"the virtual machine {name_of(instance)!r}"
    for kind, fact, hint in (
        (
            "PodScheduled",
            "finds no node",
            "take a smaller vm= , or other nodes (node=, zone=, node_selector, tolerations)",
        ),
        ("DataVolumesReady", "waits for its boot disk", "look at CDI's importer pod"),
        ("Synchronized", "cannot be set up", "the message is from KubeVirt"),
    ):
        condition = _condition(instance, kind)
        if condition is not None and condition.get("status") == "False":
            return Problem(f"{name} {fact}: {_message_of(condition)}", hint=hint, final=False)
    return None


def find_import_problem(volume: Object) -> Problem | None:
    """Return the reported reason why a DataVolume is not ready."""
    status = _status(volume)
    phase = status.get("phase")
    messages = [
        _message_of(condition)
        for condition in _conditions(volume)
        if condition.get("status") == "False" and condition.get("message")
    ]
    if phase == "Succeeded" or (phase != "Failed" and not messages):
        return None
    reason = "; ".join(dict.fromkeys(messages)) or str(phase)
    return Problem(
        f"the boot disk {name_of(volume)!r} is not ready: {reason}",
        final=phase == "Failed",
        hint="look at the URL, claim or DataSource that the plan's `vm: {boot: ...}` names",
    )


def format_conditions(found: Object, most: int = 6) -> list[str]:
    """Format the conditions of an object as lines for the context of an error."""
    lines = [
        f"{condition.get('type')} is {condition.get('status')}: {_message_of(condition)}"
        for condition in _conditions(found)
        if condition.get("message") or condition.get("reason")
    ]
    phase = _status(found).get("phase") or _status(found).get("printableStatus")
    first = [f"{name_of(found)}: {phase}"] if phase else []
    return (first + lines)[:most]


def _format_end(instance: Object) -> str:
    status = _status(instance)
    ready = _condition(instance, "Ready") or {}
    parts = [status.get("phase"), status.get("reason"), ready.get("reason"), ready.get("message")]
    return ", ".join(dict.fromkeys(str(part) for part in parts if part))


def _status(found: Object) -> Object:
    return found.get("status") or {}


def _conditions(found: Object) -> Sequence[Object]:
    return _status(found).get("conditions") or ()


def _condition(found: Object, kind: str) -> Object | None:
    return next(
        (condition for condition in _conditions(found) if condition.get("type") == kind), None
    )


def _message_of(condition: Object) -> str:
    return str(condition.get("message") or condition.get("reason") or condition.get("type"))


MACHINES = f"virtualmachines.{GROUP}"
INSTANCES = f"virtualmachineinstances.{GROUP}"
IMPORTS = f"datavolumes.{CDI_GROUP}"
SOURCES = f"datasources.{CDI_GROUP}"


def machines_of(connection: Connection, namespace: str, token: str) -> list[Object]:
    """List the VirtualMachines that carry a token, by name; none without KubeVirt."""
    return _list_objects(connection, VirtualMachine, MACHINES, namespace, token)


def instances_of(connection: Connection, namespace: str, token: str) -> list[Object]:
    """List the VirtualMachineInstances that carry a token, by name; none without KubeVirt."""
    return _list_objects(connection, VirtualMachineInstance, INSTANCES, namespace, token)


def _list_objects(
    connection: Connection, kind: Any, resource: str, namespace: str, token: str
) -> list[Object]:
    found = list_owned(connection, kind, resource, namespace, {TOKEN: token})
    return sorted(found, key=name_of)


def instance_of(connection: Connection, namespace: str, name: str) -> Object | None:
    found = get_object(connection, VirtualMachineInstance, INSTANCES, name, namespace)
    return None if found is None else dict(found.to_dict())


def create_machine(
    connection: Connection, runner: RunnerMachine, cluster: KubernetesCluster, settings: VmSettings
) -> None:
    """Create a VirtualMachine, then the objects that it owns; each as create_object."""
    namespace = runner.namespace
    try:
        wanted = build_machine(runner, cluster, settings)
        created = create_object(connection, MACHINES, wanted, namespace)
    except ApiError as error:
        raise LeadlineError(
            errors.KUBERNETES_FAILED,
            "the cluster no longer serves virtual machines",
            context=[str(error.status.message)],
            hint="KubeVirt, or the namespace, was removed",
        ) from error
    found = created or get_object(connection, VirtualMachine, MACHINES, runner.name, namespace)
    owner = str(found.metadata.uid) if found else ""
    create_seed(connection, _metadata(runner, runner.seed, owner), user_data(settings))
    # The claim last: KubeVirt then creates the machine's pod, which needs the Secret.
    claim = PersistentVolumeClaim(
        metadata=_metadata(runner, runner.claim, owner),
        spec=claim_spec(runner.request, runner.storage_class, runner.size_bytes, VolumeMode.BLOCK),
    )
    create_object(connection, "persistentvolumeclaims", claim, namespace)


def create_seed(connection: Connection, metadata: ObjectMeta, user_data: str) -> None:
    """Create cloud-init's input for the first boot: KubeVirt allows at most 2 KiB in the
    VirtualMachine."""
    seed = Secret(metadata=metadata, stringData={"userdata": user_data}, type="Opaque")
    create_object(connection, "secrets", seed, str(metadata.namespace))


def await_machines(group: RunnerGroup) -> tuple[Object, ...]:
    """Wait for the instances of a target and return them by name. Raises LeadlineError:
    `volume-pending`, `runner-failed`, `kubernetes-failed`."""
    return await_running(group, _Machines(group))


class _Machines:
    is_running = staticmethod(is_running)

    def __init__(self, group: RunnerGroup) -> None:
        self._group = group
        self._scope = (group.connection, group.namespace, group.token)

    def list_runners(self) -> list[Object]:
        return instances_of(*self._scope)

    def check(self, instances: Sequence[Object]) -> None:
        for problem in self._problems(instances):
            if problem.final:
                raise problem.with_context(self._context(instances))

    def timeout_error(self, instances: Sequence[Object]) -> LeadlineError:
        """Return the pending volume, else the surest problem."""
        problems = self._problems(instances)
        pending = self._group.pending_claim_error([problem.fact for problem in problems])
        if pending is not None:
            return pending
        if problems:
            return problems[0].with_context(self._context(instances))
        names = [name_of(machine) for machine in machines_of(*self._scope)]
        first = names[0] if names else "NAME"
        return LeadlineError(
            errors.RUNNER_FAILED,
            f"the virtual machines {', '.join(names)} do not run after {self._group.bound_s:g} s",
            context=self._context(instances),
            hint=f"look with `kubectl -n {self._group.namespace} describe vm,vmi {first}`",
        )

    def _problems(self, instances: Sequence[Object]) -> list[Problem]:
        """Return all problems of the target, the surest first."""
        machines = machines_of(*self._scope)
        found = [
            *(find_loss(instance) for instance in instances),
            *(find_import_problem(volume) for volume in self._imports(machines)),
            *(find_problem(pod) for pod in pods_of(*self._scope)),
            *(find_machine_problem(machine) for machine in machines),
            *(find_wait(instance) for instance in instances),
        ]
        return [problem for problem in found if problem is not None]

    def _imports(self, machines: Sequence[Object]) -> list[Object]:
        """Return the DataVolumes of machines that boot from one."""
        names = [name for machine in machines for name in data_volume_names(machine)]
        connection, namespace, _ = self._scope
        found = [get_object(connection, DataVolume, IMPORTS, name, namespace) for name in names]
        return [volume.to_dict() for volume in found if volume is not None]

    def _context(self, instances: Sequence[Object]) -> list[str]:
        """Return conditions and events of up to two machines that do not run."""
        concerned = [instance for instance in instances if not is_running(instance)][:2]
        concerned = concerned or machines_of(*self._scope)[:2]
        lines = [line for item in concerned for line in format_conditions(item)]
        for item in concerned:
            lines += format_events(self._group.events(name_of(item)), 3)
        return list(dict.fromkeys(lines))[:10]
