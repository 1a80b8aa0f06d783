"""What a run makes in a cluster to do I/O in virtual machines: for each volume one KubeVirt
VirtualMachine, which owns the claim of its data disk and the Secret of its first boot.

The owner is made first, so that there never is a claim or a Secret without one: deleting the
VirtualMachine deletes everything. `kubevirt.io/v1` as of KubeVirt 1.0 and later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml
from lightkube.generic_resource import GenericNamespacedResource, create_namespaced_resource
from lightkube.models.core_v1 import PersistentVolumeClaimSpec, VolumeResourceRequirements
from lightkube.models.meta_v1 import ObjectMeta, OwnerReference
from lightkube.resources.core_v1 import PersistentVolumeClaim, Secret

from leadline import errors
from leadline.connect.kubernetes.client import Connection
from leadline.connect.kubernetes.pods import Trouble, node_selector
from leadline.errors import LeadlineError
from leadline.plan.target_url import BootImage, KubernetesCluster, VmSettings, VolumeRequest
from leadline.text import visible

# What a guest is told at its first boot, as cloud-init reads it.

# Where the guest finds its data disk: udev names it by the serial number that it was given.
SERIAL = "leadline"
DEVICE = f"/dev/disk/by-id/virtio-{SERIAL}"
# In memory: what is written there touches neither disk.
HOME = "/run/leadline"
SCRATCH = f"{HOME}/scratch"
# The end of the setup, asked through the agent: its exit status, then its last words.
SETUP_DONE = f"cat {HOME}/setup.status 2>/dev/null && tail -n 8 {HOME}/setup.log >&2"
_FOLDER = "/usr/local/lib/leadline"
_SCRIPTS = ("guest_agent.sh", "guest_setup.sh")


def user_data(settings: VmSettings) -> str:
    """A `#cloud-config` that writes agent and setup, and runs them."""
    proxy = settings.proxy
    named = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    environment = ["env", *(f"{name}={proxy}" for name in named)] if proxy else []
    command = [*environment, "sh", f"{_FOLDER}/guest_setup.sh", *settings.packages]
    document = {
        "write_files": [
            {"path": f"{_FOLDER}/{name}", "permissions": "0755", "content": script(name)}
            for name in _SCRIPTS
        ],
        "runcmd": [command],
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
DataVolume = create_namespaced_resource(CDI_GROUP, CDI_VERSION, "DataVolume", "datavolumes")
# Ended like a pull of the plug: nothing in the guest is worth a longer goodbye.
_GRACE_S = 5
_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerMachine:
    """One volume's virtual machine. `size_bytes` is of the data disk."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    storage_class: str
    request: VolumeRequest
    size_bytes: int

    @property
    def claim(self) -> str:
        return f"{self.name}-volume"

    @property
    def seed(self) -> str:
        return f"{self.name}-seed"

    @property
    def boot(self) -> str:
        return f"{self.name}-boot"


def machine(
    asked: RunnerMachine, cluster: KubernetesCluster, settings: VmSettings
) -> GenericNamespacedResource:
    """The VirtualMachine. It is started once: one that ends by itself stays ended, and is told."""
    templates = _data_volumes(asked, settings.boot)
    return VirtualMachine(
        metadata=_metadata(asked, asked.name),
        spec={
            "runStrategy": "Once",
            **({"dataVolumeTemplates": templates} if templates else {}),
            "template": {
                "metadata": {"labels": dict(asked.labels)},
                "spec": _instance(asked, cluster, settings),
            },
        },
    )


def _instance(
    asked: RunnerMachine, cluster: KubernetesCluster, settings: VmSettings
) -> dict[str, Any]:
    """The machine itself. Requests equal to limits: it neither lends nor borrows."""
    preset = asked.request.preset
    memory = f"{preset.memory_bytes // _MIB}Mi"
    resources = {"cpu": str(preset.cores), "memory": memory}
    placed: dict[str, Any] = {
        "nodeSelector": node_selector(asked.request, cluster),
        "affinity": _on(asked.request.node),
        "tolerations": [
            toleration.model_dump(exclude_none=True) for toleration in cluster.tolerations
        ],
        "priorityClassName": cluster.priority_class,
    }
    return {
        **{key: value for key, value in placed.items() if value},
        # A drained node ends it, and the trial with it: one that moved would have measured two.
        "evictionStrategy": "None",
        "terminationGracePeriodSeconds": _GRACE_S,
        "domain": {
            "cpu": {"cores": preset.cores},
            "memory": {"guest": memory},
            "resources": {"requests": resources, "limits": dict(resources)},
            "devices": {
                "autoattachSerialConsole": True,
                "autoattachGraphicsDevice": False,
                "rng": {},
                "disks": [
                    {"name": "boot", "bootOrder": 1, "disk": {"bus": "virtio"}},
                    _data_disk(settings),
                    {"name": "seed", "disk": {"bus": "virtio"}},
                ],
                "interfaces": [{"name": "default", "masquerade": {}}],
            },
        },
        "networks": [{"name": "default", "pod": {}}],
        "volumes": [
            {"name": "boot", **_boot(asked, cluster, settings.boot)},
            {"name": "volume", "persistentVolumeClaim": {"claimName": asked.claim}},
            {"name": "seed", "cloudInitNoCloud": {"secretRef": {"name": asked.seed}}},
        ],
    }


def _data_disk(settings: VmSettings) -> dict[str, Any]:
    """Neither the host's page cache nor its threads between the guest and the volume."""
    thread = {"dedicatedIOThread": True} if settings.io_threads else {}
    return {
        "name": "volume",
        "disk": {"bus": "virtio"},
        "cache": "none",
        "io": "native",
        "serial": SERIAL,
        **thread,
    }


def _boot(asked: RunnerMachine, cluster: KubernetesCluster, boot: BootImage) -> dict[str, Any]:
    if boot.container_disk is None:
        return {"dataVolume": {"name": asked.boot}}
    disk: dict[str, Any] = {"image": boot.container_disk, "imagePullPolicy": cluster.pull_policy}
    if cluster.pull_secrets:
        # KubeVirt takes one for a container disk.
        disk["imagePullSecret"] = cluster.pull_secrets[0]
    return {"containerDisk": disk}


def _data_volumes(asked: RunnerMachine, boot: BootImage) -> list[dict[str, Any]]:
    """What CDI makes the boot disk from, of the cluster's default StorageClass: a volume of its
    own, so that what the guest's system does is not measured along."""
    if boot.container_disk is not None:
        return []
    if boot.url is not None:
        source: dict[str, Any] = {"http": {"url": boot.url}}
    else:
        namespace, _, name = str(boot.claim).partition("/")
        source = {"pvc": {"namespace": namespace, "name": name}}
    return [
        {
            "metadata": {"name": asked.boot, "labels": dict(asked.labels)},
            "spec": {
                "source": source,
                "storage": {"resources": {"requests": {"storage": str(boot.size)}}},
            },
        }
    ]


def claim(asked: RunnerMachine, owner: str) -> PersistentVolumeClaim:
    """The claim of the data disk; `owner` is the uid of the VirtualMachine."""
    return PersistentVolumeClaim(
        metadata=_metadata(asked, asked.claim, owner),
        spec=PersistentVolumeClaimSpec(
            accessModes=[asked.request.access.kubernetes],
            storageClassName=asked.storage_class,
            volumeMode="Block",
            resources=VolumeResourceRequirements(requests={"storage": str(asked.size_bytes)}),
        ),
    )


def seed(asked: RunnerMachine, settings: VmSettings, owner: str) -> Secret:
    """What cloud-init reads at the first boot: KubeVirt allows no more than 2 KiB of it in the
    VirtualMachine itself."""
    return Secret(
        metadata=_metadata(asked, asked.seed, owner),
        stringData={"userdata": user_data(settings)},
        type="Opaque",
    )


def _metadata(asked: RunnerMachine, name: str, owner: str = "") -> ObjectMeta:
    owners = [
        OwnerReference(
            apiVersion=f"{GROUP}/{VERSION}", kind="VirtualMachine", name=asked.name, uid=owner
        )
    ]
    return ObjectMeta(
        name=name,
        namespace=asked.namespace,
        labels=dict(asked.labels),
        ownerReferences=owners if owner else None,
    )


def _on(node: str) -> dict[str, Any]:
    """On the node of that name, by the scheduler, as for pods."""
    if not node:
        return {}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [field]}]
            }
        }
    }


# What the state of a virtual machine means to a user: why it is not there yet, or why it is lost.
#  Phases, conditions and printable statuses are those of `kubevirt.io/v1` (its types.go).

Object = Mapping[str, Any]

_ENDED = ("Succeeded", "Failed")
# What a VirtualMachine says of itself that does not get better by waiting.
_FINAL = {
    "CrashLoopBackOff": "it crashes again and again",
    "DataVolumeError": "its boot disk could not be made",
}
_IMAGE = ("ErrImagePull", "ImagePullBackOff")
_AGAIN = "`leadline run --resume --retry-failed` makes a new one and goes on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """Which instance it is, and where it runs: what must not change while it is measured."""

    uid: str
    node: str


def name_of(found: Object) -> str:
    return str(found.get("metadata", {}).get("name", ""))


def whereabouts(instance: Object) -> Whereabouts:
    return Whereabouts(
        uid=str(instance.get("metadata", {}).get("uid", "")),
        node=str(_status(instance).get("nodeName", "")),
    )


def running(instance: Object) -> bool:
    return bool(_status(instance).get("phase") == "Running") and lost(instance) is None


def lost(instance: Object, before: Whereabouts | None = None) -> Trouble | None:
    """Why an instance no longer does what it was made for; None while it may. `before` is what it
    was when it was made."""
    name = f"the virtual machine {name_of(instance)!r}"
    status = _status(instance)
    fact = hint = ""
    paused = _condition(instance, "Paused")
    migration = status.get("migrationState") or {}
    if status.get("phase") in _ENDED:
        fact = f"{name} ended: {_end(instance)}"
        hint = f"look at its node and at the guest's console; {_AGAIN}"
    elif instance.get("metadata", {}).get("deletionTimestamp"):
        fact = f"{name} is being deleted"
        hint = "somebody deleted it, or its node is drained"
    elif paused is not None and paused.get("status") == "True":
        fact = f"{name} is paused: {_said(paused)}"
        hint = (
            "an I/O error of its disk pauses a virtual machine; look at the health of the volume"
            if "IOError" in str(paused.get("reason"))
            else "somebody paused it; `virtctl unpause` lets it go on"
        )
    elif before is not None and before.uid != whereabouts(instance).uid:
        fact = f"{name} was replaced by another of its name"
        hint = _AGAIN
    elif before is not None and before.node != whereabouts(instance).node:
        fact = (
            f"{name} was moved from the node {before.node!r} to {whereabouts(instance).node!r}: "
            "two nodes were measured"
        )
        hint = f"keep live migrations away from the run; {_AGAIN}"
    elif migration and not migration.get("completed") and not migration.get("failed"):
        fact = f"{name} is being moved to the node {migration.get('targetNode', '')!r}"
        hint = f"keep live migrations away from the run; {_AGAIN}"
    if not fact:
        return None
    return Trouble(kind=errors.RUNNER_FAILED, fact=visible(fact), final=True, hint=hint)


def machine_trouble(machine: Object) -> Trouble | None:
    """What a VirtualMachine says against itself, before and beside its instance."""
    status = _status(machine)
    printable = str(status.get("printableStatus", ""))
    name = f"the virtual machine {name_of(machine)!r}"
    if printable in _FINAL:
        return Trouble(
            kind=errors.RUNNER_FAILED,
            fact=f"{name} cannot run: {_FINAL[printable]}",
            final=True,
            hint="look at its boot image; the words below are KubeVirt's",
        )
    if printable in _IMAGE:
        return Trouble(
            kind=errors.RUNNER_FAILED,
            fact=f"{name} gets no image for its boot disk",
            final=printable == "ImagePullBackOff",
            hint="name a container disk that the nodes can pull (`--vm-image`), or give "
            "`pull_secrets`",
        )
    failure = _condition(machine, "Failure")
    if failure is not None and failure.get("status") == "True":
        return Trouble(
            kind=errors.KUBERNETES_FAILED,
            fact=visible(f"{name} cannot be started: {_said(failure)}"),
            final=False,
            hint="the words are KubeVirt's, or of a webhook",
        )
    return None


def waiting(instance: Object) -> Trouble | None:
    """What keeps an instance from running, as far as it says so; waiting may help."""
    name = f"the virtual machine {name_of(instance)!r}"
    for kind, fact, hint in (
        (
            "PodScheduled",
            "finds no node",
            "take a smaller vm= , or other nodes (node=, zone=, node_selector, tolerations)",
        ),
        ("DataVolumesReady", "waits for its boot disk", "look at CDI's importer pod"),
        ("Synchronized", "cannot be set up", "the words are KubeVirt's"),
    ):
        condition = _condition(instance, kind)
        if condition is not None and condition.get("status") == "False":
            return Trouble(
                kind=errors.RUNNER_FAILED,
                fact=visible(f"{name} {fact}: {_said(condition)}"),
                final=False,
                hint=hint,
            )
    return None


def import_trouble(volume: Object) -> Trouble | None:
    """Why a DataVolume does not become ready, as far as it says so."""
    status = _status(volume)
    phase = status.get("phase")
    said = [
        _said(condition)
        for condition in _conditions(volume)
        if condition.get("status") == "False" and condition.get("message")
    ]
    if phase == "Succeeded" or (phase != "Failed" and not said):
        return None
    why = "; ".join(dict.fromkeys(said)) or str(phase)
    return Trouble(
        kind=errors.RUNNER_FAILED,
        fact=visible(f"the boot disk {name_of(volume)!r} is not ready: {why}"),
        final=phase == "Failed",
        hint="look at the URL or the claim that the plan's `vm: {boot: ...}` names",
    )


def conditions_told(found: Object, most: int = 6) -> list[str]:
    """The conditions of an object as lines, for the context of an error."""
    lines = [
        f"{condition.get('type')} is {condition.get('status')}: {_said(condition)}"
        for condition in _conditions(found)
        if condition.get("message") or condition.get("reason")
    ]
    phase = _status(found).get("phase") or _status(found).get("printableStatus")
    first = [f"{name_of(found)}: {phase}"] if phase else []
    return [visible(line) for line in (first + lines)[:most]]


def _end(instance: Object) -> str:
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


def _said(condition: Object) -> str:
    return str(condition.get("message") or condition.get("reason") or condition.get("type"))


# Whether a cluster has virtual machines at all, and what makes their boot disks.

# `runStrategy: Once` is of this.
_LEAST = (1, 0)
_CONSOLES = "subresources.kubevirt.io"


def require_kubevirt(connection: Connection, where: list[str]) -> None:
    """Raise LeadlineError(`target-unsuitable`) where no virtual machine can be run: no KubeVirt,
    one that is too old, or whose API for consoles is away."""
    groups = _groups(connection)
    if GROUP not in groups:
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"the cluster {connection.context} has no virtual machines: KubeVirt is not there",
            context=where,
            hint="use runner=pod, or a cluster with KubeVirt",
        )
    if VERSION not in groups[GROUP] or _too_old(connection):
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"the KubeVirt of {connection.context} is too old",
            context=[*where, f"it serves {', '.join(groups[GROUP])}"],
            hint=f"KubeVirt {_LEAST[0]}.{_LEAST[1]} or later is needed",
        )
    if _CONSOLES not in groups:
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"the cluster {connection.context} serves no consoles of virtual machines",
            context=[*where, f"the API server does not know the group {_CONSOLES}"],
            hint="look at KubeVirt's virt-api with `kubectl get apiservices`",
        )


def require_imports(connection: Connection, where: list[str]) -> None:
    """Raise LeadlineError(`target-unsuitable`) where CDI, which makes boot disks, is not there."""
    if CDI_GROUP not in _groups(connection):
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"the cluster {connection.context} makes no boot disks: CDI is not there",
            context=where,
            hint="boot from a container disk (`--vm-image`), or have CDI installed",
        )


def _groups(connection: Connection) -> dict[str, Sequence[str]]:
    """The API groups that the server knows, with their versions."""
    found: Any = connection.ask("get", "/apis", lambda client: _discovered(client))
    return {
        str(group["name"]): [str(version["version"]) for version in group.get("versions", ())]
        for group in found.get("groups", ())
    }


def _discovered(client: Any) -> Any:
    """The list of groups by lightkube's own HTTP client, which has no method for it."""
    inner = client._client
    answer = inner._client.get("apis")
    inner.raise_for_status(answer)
    return answer.json()


def _too_old(connection: Connection) -> bool:
    """By what the operator observes; one that tells no version is taken as it is."""
    try:
        found = connection.listed(GROUP, VERSION, "kubevirts", "KubeVirt")
    except LeadlineError as error:
        if error.kind is errors.KUBERNETES_DENIED:
            return False  # it then refuses what it does not know
        raise
    told = [str((item.get("status") or {}).get("observedKubeVirtVersion", "")) for item in found]
    versions = [re.match(r"v?(\d+)\.(\d+)", item) for item in told]
    return any(
        version is not None and (int(version[1]), int(version[2])) < _LEAST for version in versions
    )
