"""What a run makes in a cluster to do I/O in virtual machines: for each volume one KubeVirt
VirtualMachine, which owns the claim of its data disk and the Secret of its first boot.

The owner is made first, so that there never is a claim or a Secret without one: deleting the
VirtualMachine deletes everything. `kubevirt.io/v1` as of KubeVirt 1.0 and later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lightkube.generic_resource import GenericNamespacedResource, create_namespaced_resource
from lightkube.models.core_v1 import PersistentVolumeClaimSpec, VolumeResourceRequirements
from lightkube.models.meta_v1 import ObjectMeta, OwnerReference
from lightkube.resources.core_v1 import PersistentVolumeClaim, Secret

from leadline.kubernetes.machines.guest_seed import SERIAL, user_data
from leadline.kubernetes.pods.objects import node_selector
from leadline.plan.kubernetes import BootImage, KubernetesCluster, VmSettings
from leadline.plan.volume_request import VolumeRequest

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
        "tolerations": [one.model_dump(exclude_none=True) for one in cluster.tolerations],
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
