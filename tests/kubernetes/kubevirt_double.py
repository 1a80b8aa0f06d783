"""KubeVirt's operator, as far as a VirtualMachine's user sees it: an instance and a launcher pod
for each VirtualMachine, both owned as KubeVirt owns them, and a guest once the pod runs.
DataVolumes of its templates are made and reported as ready; no disk of theirs exists.

The pod is real: it holds the claim as a raw device on the real node, so that the volume is really
provisioned, used and released. The guest (guest_double.py) opens that device.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tests.kubernetes import images
from tests.kubernetes.cluster import Cluster, Refused
from tests.kubernetes.console_double import ConsoleServer, Manners, SerialConsole
from tests.kubernetes.guest_double import GuestDouble

_API = "/apis/kubevirt.io/v1"
_POLL_S = 0.3


class Guest(SerialConsole, Protocol):
    def close(self) -> None: ...


@dataclass
class Ways:
    """What goes wrong with machines: an `image` for their launcher pods; `phase` and `conditions`
    in which instances stay instead of running; a guest without an `agent`; `disk`, the phase in
    which DataVolumes stay."""

    image: str = images.RUNNER
    agent: bool = True
    disk: str = "Succeeded"
    phase: str = ""
    conditions: list[dict[str, str]] = field(default_factory=list)


class KubeVirtDouble:
    """`with KubeVirtDouble(cluster) as kubevirt:`; `guests` by namespace and name. `boot` makes
    one of a folder that is not there yet, its user data, and the device of its data disk."""

    def __init__(
        self, cluster: Cluster, boot: Callable[[Path, str, str], Guest] = GuestDouble
    ) -> None:
        self.cluster = cluster
        self._boot = boot
        self.ways = Ways()
        self.guests: dict[tuple[str, str], Guest] = {}
        self._phases: dict[tuple[str, str], list[dict[str, str]]] = {}
        self.disks: list[dict[str, Any]] = []
        self.problems: list[BaseException] = []
        self._folder = Path(tempfile.mkdtemp(prefix="leadline-kubevirt-"))
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._reconcile, daemon=True)
        self.consoles = ConsoleServer(
            lambda namespace, name: self.guests.get((namespace, name)),
            self._folder,
            cluster.network.host,
        )

    @property
    def manners(self) -> Manners:
        return self.consoles.manners

    def __enter__(self) -> KubeVirtDouble:
        self.consoles.register(self.cluster)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        for guest in self.guests.values():
            guest.close()
        self.consoles.unregister(self.cluster)
        self.consoles.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def reset(self) -> None:
        """As at the beginning: nothing goes wrong."""
        self.ways = Ways()
        self.consoles.manners = Manners()

    def patch(self, namespace: str, name: str, status: dict[str, Any]) -> None:
        """Change what an instance says of itself."""
        self.cluster.request(
            f"{_API}/namespaces/{namespace}/virtualmachineinstances/{name}",
            "PATCH",
            {"status": status},
            kind="application/merge-patch+json",
        )

    def _reconcile(self) -> None:
        while not self._ends.wait(_POLL_S):
            try:
                self._once()
            except (Refused, OSError) as error:
                # Objects come and go under it, and the API server restarts.
                self.problems.append(error)

    def _once(self) -> None:
        instances = {
            (item["metadata"]["namespace"], item["metadata"]["name"]): item
            for item in self.cluster.request(f"{_API}/virtualmachineinstances")["items"]
        }
        for machine in self.cluster.request(f"{_API}/virtualmachines")["items"]:
            key = (machine["metadata"]["namespace"], machine["metadata"]["name"])
            if machine["metadata"].get("deletionTimestamp"):
                continue
            if key not in instances:
                self._start(machine)
            elif instances[key].get("status", {}).get("phase") not in ("Running", "Failed"):
                self._go_on(instances[key])
        for key in [key for key in self.guests if key not in instances]:
            self.guests.pop(key).close()
            self._phases.pop(key, None)

    def _start(self, machine: dict[str, Any]) -> None:
        """The instance, and its launcher pod, once the claim is there."""
        meta, template = machine["metadata"], machine["spec"]["template"]
        namespace = meta["namespace"]
        claim = _volume(template["spec"], "volume")["persistentVolumeClaim"]["claimName"]
        if not self._there(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}"):
            return
        assert machine["spec"]["runStrategy"] == "Once"
        if not self._disks_ready(machine):
            return
        made = self.cluster.request(
            f"{_API}/namespaces/{namespace}/virtualmachineinstances",
            "POST",
            {
                "apiVersion": "kubevirt.io/v1",
                "kind": "VirtualMachineInstance",
                "metadata": {
                    "name": meta["name"],
                    "namespace": namespace,
                    "labels": template["metadata"]["labels"],
                    "ownerReferences": [_owner("VirtualMachine", meta)],
                },
                "spec": template["spec"],
            },
        )
        self._enter(namespace, meta["name"], "Pending")
        self._enter(namespace, meta["name"], "Scheduling")
        self.cluster.apply(self._launcher(made, claim))

    def _disks_ready(self, machine: dict[str, Any]) -> bool:
        """Make the DataVolumes of a machine, which it owns, and say in which phase they are."""
        meta = machine["metadata"]
        root = f"/apis/cdi.kubevirt.io/v1beta1/namespaces/{meta['namespace']}/datavolumes"
        for template in machine["spec"].get("dataVolumeTemplates", ()):
            named = {**template["metadata"], "ownerReferences": [_owner("VirtualMachine", meta)]}
            if self._there(f"{root}/{named['name']}"):
                continue
            self.disks.append(template["spec"])
            kind = {"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume"}
            self.cluster.request(
                root, "POST", {**kind, "metadata": named, "spec": template["spec"]}
            )
            path, merge = f"{root}/{named['name']}/status", "application/merge-patch+json"
            self.cluster.request(path, "PATCH", {"status": {"phase": self.ways.disk}}, kind=merge)
        return self.ways.disk == "Succeeded" or "dataVolumeTemplates" not in machine["spec"]

    def _enter(self, namespace: str, name: str, phase: str, **status: Any) -> None:
        """Let an instance enter a phase, with its time as KubeVirt notes it."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        entries = self._phases.setdefault((namespace, name), [])
        entries.append({"phase": phase, "phaseTransitionTimestamp": now})
        self.patch(
            namespace, name, {"phase": phase, "phaseTransitionTimestamps": entries, **status}
        )

    def _launcher(self, instance: dict[str, Any], claim: str) -> dict[str, Any]:
        meta, spec = instance["metadata"], instance["spec"]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"virt-launcher-{meta['name']}",
                "namespace": meta["namespace"],
                "labels": {**meta["labels"], "kubevirt.io": "virt-launcher"},
                "ownerReferences": [_owner("VirtualMachineInstance", meta)],
            },
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "nodeSelector": spec.get("nodeSelector", {}),
                "affinity": spec.get("affinity", {}),
                "tolerations": spec.get("tolerations", []),
                "containers": [
                    {
                        "name": "compute",
                        "image": self.ways.image,
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["sleep", "100000"],
                        "volumeDevices": [{"name": "volume", "devicePath": "/dev/volume"}],
                    }
                ],
                "volumes": [{"name": "volume", "persistentVolumeClaim": {"claimName": claim}}],
            },
        }

    def _go_on(self, instance: dict[str, Any]) -> None:
        """A guest where the pod runs, unless the instance is to stay as it is."""
        meta = instance["metadata"]
        namespace, name = meta["namespace"], meta["name"]
        if self.ways.phase:
            self.patch(
                namespace, name, {"phase": self.ways.phase, "conditions": self.ways.conditions}
            )
            return
        pod = self.cluster.request(f"/api/v1/namespaces/{namespace}/pods/virt-launcher-{name}")
        if pod["status"].get("phase") != "Running" or (namespace, name) in self.guests:
            return
        seed = _volume(instance["spec"], "seed")["cloudInitNoCloud"]["secretRef"]["name"]
        secret = self.cluster.request(f"/api/v1/namespaces/{namespace}/secrets/{seed}")
        user_data = base64.b64decode(secret["data"]["userdata"]).decode()
        if not self.ways.agent:
            user_data = "#cloud-config\nwrite_files: []\nruncmd: []\n"
        claim = _volume(instance["spec"], "volume")["persistentVolumeClaim"]["claimName"]
        volume = self.cluster.request(
            f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}"
        )["spec"]["volumeName"]
        device = self._device(self.cluster.request(f"/api/v1/persistentvolumes/{volume}")["spec"])
        self._enter(namespace, name, "Scheduled")
        folder = self._folder / f"{name}-{time.monotonic_ns()}"
        self.guests[namespace, name] = self._boot(folder, user_data, device)
        self._enter(namespace, name, "Running", nodeName=pod["spec"]["nodeName"])

    def _device(self, volume: dict[str, Any]) -> str:
        """The block device of a volume: of the lab's provisioner, or of csi-driver-host-path."""
        if "local" in volume:
            return str(volume["local"]["path"])
        file = self.cluster.folder / "csi-hostpath" / volume["csi"]["volumeHandle"]
        found = subprocess.run(
            ["losetup", "--noheadings", "--output", "NAME", "--associated", str(file)],
            check=True,
            capture_output=True,
            text=True,
        )
        return found.stdout.split()[0]

    def _there(self, path: str) -> bool:
        try:
            self.cluster.request(path)
        except Refused as refusal:
            if refusal.status != 404:
                raise
            return False
        return True


def _volume(spec: dict[str, Any], name: str) -> dict[str, Any]:
    return next(volume for volume in spec["volumes"] if volume["name"] == name)


def _owner(kind: str, meta: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
