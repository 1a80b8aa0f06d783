"""Claims, pods, machines and snapshots of the volume lifecycle in a cluster, and their watches.

Every object belongs to one Job without pods: with that Job the cluster removes them all, and it
removes the Job itself some time after its deadline.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

import httpx2
from lightkube import ApiError
from lightkube.models.batch_v1 import JobSpec
from lightkube.models.core_v1 import PersistentVolumeClaimVolumeSource, PodSpec, Volume
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Pod
from lightkube.resources.storage_v1 import CSIDriver
from lightkube.types import CascadeType, PatchType

from leadline.connect.kubernetes.client import Connection, raw_kind
from leadline.connect.kubernetes.machines import (
    DEVICES,
    GROUP,
    MACHINES,
    VERSION,
    RunnerMachine,
    build_machine,
    create_seed,
    user_data,
)
from leadline.connect.kubernetes.machines import SCRATCH as GUEST_SCRATCH
from leadline.connect.kubernetes.objects import create_object, get_object, list_owned
from leadline.connect.kubernetes.pods import (
    DEVICE,
    MOUNT,
    SCRATCH,
    RunnerJob,
    build_job,
    claim_spec,
    create_job,
)
from leadline.plan.kubernetes_cluster import KubernetesCluster
from leadline.plan.volume_request import VolumeMode, VolumeRequest

SNAPSHOTS = "volumesnapshots.snapshot.storage.k8s.io"
CONTENTS = "volumesnapshotcontents.snapshot.storage.k8s.io"
CLAIM = raw_kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True)
VOLUME = raw_kind("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
POD = raw_kind("", "v1", "pods", "Pod", namespaced=True)
ATTACHMENT = raw_kind(
    "storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False
)
SECRET = raw_kind("", "v1", "secrets", "Secret", namespaced=True)
MACHINE = raw_kind(GROUP, VERSION, "virtualmachines", "VirtualMachine", namespaced=True)
INSTANCE = raw_kind(
    GROUP, VERSION, "virtualmachineinstances", "VirtualMachineInstance", namespaced=True
)
_GROUP = "snapshot.storage.k8s.io"
SNAPSHOT = raw_kind(_GROUP, "v1", "volumesnapshots", "VolumeSnapshot", namespaced=True)
CONTENT = raw_kind(
    _GROUP, "v1", "volumesnapshotcontents", "VolumeSnapshotContent", namespaced=False
)

# In the pod: start of the process, end of the first durable write, or of the first read of a copy,
# and what that read; then the data of the volume.
RESULT = f"{SCRATCH}/first-io"
_FIRST_IO = """
started=$(date +%s.%N)
if [ "$2" = write ]; then
    printf %s "$3" | dd of="$1" bs=4096 count=1 conv=sync,fsync,notrunc status=none || exit 1
else
    dd if="$1" bs=4096 count=1 status=none | tr -d '\\0' >"$4.read" || exit 1
fi
done=$(date +%s.%N)
if [ "$2" = write ] && [ "$5" -gt 0 ]; then
    head -c "$5" /dev/urandom | dd of="$1" bs=1M iflag=fullblock oflag=seek_bytes seek=4096 \\
        conv=fsync,notrunc status=none || exit 1
fi
[ "$2" = write ] && printf %s "$3" >"$4.read"
printf '%s %s %s\\n' "$started" "$done" "$(cat "$4.read")" >"$4.part" && mv "$4.part" "$4"
trap 'exit 0' TERM INT
while :; do sleep 3600 & wait $!; done
"""
# In a guest: its disk may come after the process, and its clock may be set.
GUEST_RESULT = f"{GUEST_SCRATCH}/first-io"
_GUEST_FIRST_IO = (
    """
mkdir -p "${4%/*}"
until [ -b "$1" ]; do sleep 0.02; done
read -r uptime idle </proc/uptime
echo "$uptime" >"$4.uptime"
"""
    + _FIRST_IO
)
# Answers at once with the uptime, and when the first I/O is done with its times and the uptime
# before it.
AWAIT_GUEST_IO = """
read -r uptime idle </proc/uptime
echo "$uptime"
until [ -s "$1" ]; do sleep 0.1; done
cat "$1" "$1.uptime"
"""
# Answers at once with the time, and when the first I/O is done with its times.
AWAIT_FIRST_IO = """
date +%s.%N
until [ -s "$1" ]; do sleep 0.02; done
cat "$1"
"""


def build_owner(runner: RunnerJob, settings: KubernetesCluster) -> Job:
    """Return a Job without pods: it is complete at once, and the cluster removes it, with what it
    owns, after the deadline of the runner."""
    spec = build_job(runner, settings).spec
    assert spec is not None
    pod = cast(PodSpec, spec.template.spec)
    # The API requires an image, also of a template that no pod is made of.
    pod.containers[0].image = settings.image or "unused"
    return Job(
        metadata=ObjectMeta(
            name=runner.name, namespace=runner.namespace, labels=dict(runner.labels)
        ),
        spec=JobSpec(
            completions=0,
            parallelism=0,
            ttlSecondsAfterFinished=runner.deadline_s,
            template=spec.template,
        ),
    )


def create_owner(
    connection: Connection, runner: RunnerJob, settings: KubernetesCluster
) -> dict[str, Any]:
    """Create that Job and return the reference to it, for what it shall own."""
    create_job(connection, build_owner(runner, settings), runner.namespace)
    made = get_object(connection, Job, "jobs.batch", runner.name, runner.namespace)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": runner.name,
        "uid": str(made.metadata.uid) if made is not None and made.metadata else "",
        "blockOwnerDeletion": False,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleObjects:
    """Makes the objects of one target; `owner` is the Job that they belong to. `runner` has the
    class, the size, the mode and the user of the volumes. `machine`: the virtual machines that use
    new volumes; None where pods do."""

    connection: Connection
    settings: KubernetesCluster
    runner: RunnerJob
    owner: Mapping[str, Any]
    machine: VolumeRequest | None = None

    @property
    def namespace(self) -> str:
        return self.runner.namespace

    @property
    def path(self) -> str:
        """Where a pod does its I/O."""
        block = self.runner.mode is VolumeMode.BLOCK
        return DEVICE if block else f"{MOUNT}/leadline"

    def _metadata(self, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": {**self.runner.labels, **labels},
            "ownerReferences": [dict(self.owner)],
        }

    def create_claim(
        self,
        name: str,
        labels: Mapping[str, str],
        size_bytes: int,
        source: Mapping[str, str] | None = None,
    ) -> Any:
        """Create a claim, a copy of `source` where one is given. Returns the object."""
        runner = self.runner
        spec = claim_spec(runner.request, runner.storage_class, size_bytes, runner.mode).to_dict()
        if source is not None:
            spec["dataSource"] = dict(source)
        wanted = CLAIM.from_dict({"metadata": self._metadata(name, labels), "spec": spec})
        return create_object(self.connection, "persistentvolumeclaims", wanted, self.namespace)

    def create_pod(
        self, name: str, labels: Mapping[str, str], claim: str, content: str, data_bytes: int | None
    ) -> Any:
        """Create the pod of a claim: it writes `content` and then `data_bytes`; None: it reads."""
        spec = build_job(self.runner, self.settings).spec
        pod = cast(PodSpec, spec.template.spec if spec else None)
        pod.volumes = [
            *(volume for volume in pod.volumes or () if volume.name != "volume"),
            Volume(
                name="volume",
                persistentVolumeClaim=PersistentVolumeClaimVolumeSource(claimName=claim),
            ),
        ]
        does = ("read", content, RESULT, "0")
        if data_bytes is not None:
            does = ("write", content, RESULT, str(data_bytes))
        pod.containers[0].command = ["/bin/sh", "-c", _FIRST_IO, "sh", self.path, *does]
        wanted = Pod(
            metadata=cast(ObjectMeta, ObjectMeta.from_dict(self._metadata(name, labels))), spec=pod
        )
        return create_object(self.connection, "pods", wanted, self.namespace)

    def create_machine(
        self, name: str, labels: Mapping[str, str], claim: str, content: str, data_bytes: int
    ) -> Any:
        """Create the virtual machine of a claim, whose guest writes `content` and `data_bytes`."""
        settings, runner = self.settings.vm, self.runner
        assert settings is not None
        assert self.machine is not None
        asked = RunnerMachine(
            name=name,
            namespace=self.namespace,
            labels={**runner.labels, **labels},
            storage_class=runner.storage_class,
            request=self.machine,
            size_bytes=runner.size_bytes,
            volume=claim,
        )
        does = (DEVICES[self.machine.bus], "write", content, GUEST_RESULT, str(data_bytes))
        seed = cast(ObjectMeta, ObjectMeta.from_dict(self._metadata(asked.seed, labels)))
        # First: a launcher pod without its Secret would wait for it.
        create_seed(self.connection, seed, user_data(settings, (_GUEST_FIRST_IO, *does)))
        spec = dict(build_machine(asked, self.settings, settings))["spec"]
        wanted = MACHINE.from_dict({"metadata": self._metadata(name, labels), "spec": spec})
        return create_object(self.connection, MACHINES, wanted, self.namespace)

    def delete_machine(self, name: str) -> None:
        self.delete(MACHINE, MACHINES, name)
        self.delete(SECRET, "secrets", f"{name}-seed")

    def create_snapshot(
        self, name: str, labels: Mapping[str, str], claim: str, snapshot_class: str
    ) -> Any:
        wanted = SNAPSHOT.from_dict(
            {
                "metadata": self._metadata(name, labels),
                "spec": {
                    "volumeSnapshotClassName": snapshot_class,
                    "source": {"persistentVolumeClaimName": claim},
                },
            }
        )
        return create_object(self.connection, SNAPSHOTS, wanted, self.namespace)

    def expand(self, claim: str, size_bytes: int) -> None:
        patch = {"spec": {"resources": {"requests": {"storage": str(size_bytes)}}}}
        self.connection.ask(
            "patch",
            "persistentvolumeclaims",
            lambda client: client.patch(
                CLAIM, claim, patch, namespace=self.namespace, patch_type=PatchType.MERGE
            ),
            namespace=self.namespace,
        )

    def delete(self, kind: Any, resource: str, name: str) -> None:
        """Delete an object of the namespace with what it owns; one that is gone is no error."""
        try:
            self.connection.ask(
                "delete",
                resource,
                # Without it a Job would leave its pods behind.
                lambda client: client.delete(
                    kind, name, namespace=self.namespace, cascade=CascadeType.BACKGROUND
                ),
                namespace=self.namespace,
            )
        except ApiError as error:
            if error.status.code != 404:
                raise

    def left(self, kind: Any, resource: str) -> list[dict[str, Any]]:
        """List the objects of the kind that still exist."""
        return list_owned(self.connection, kind, resource, self.namespace, self.runner.labels)


def find_driver(connection: Connection, name: str) -> CSIDriver | None:
    """Return the CSI driver of that name; None for a provisioner that is none."""
    if "/" in name:
        # No name of an object: the API server would take the end for a subresource.
        return None
    return get_object(connection, CSIDriver, "csidrivers.storage.k8s.io", name)


def snapshot_classes(connection: Connection) -> list[dict[str, Any]]:
    """List the VolumeSnapshotClasses; none where the cluster does not serve them."""
    return connection.listed(_GROUP, "v1", "volumesnapshotclasses", "VolumeSnapshotClass")


# What a watch reports: the kind of change in lower case, and the object.
Report = Callable[[str, dict[str, Any]], None]
# A watch without changes is renewed so often, and looks then whether it is to end.
_RENEWED_S = 5
_RETRY_S = 0.2


@dataclass(kw_only=True)
class Watches:
    """Watches of several kinds, a thread each, until `stop`. An API server that goes away is
    awaited."""

    connection: Connection
    _ended: threading.Event = field(default_factory=threading.Event)

    def start(
        self,
        kind: Any,
        report: Report,
        namespace: str = "",
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Report every object of the kind that exists, and every change from now on."""
        thread = threading.Thread(
            target=self._follow, args=(kind, report, namespace, labels), daemon=True
        )
        thread.start()

    def stop(self) -> None:
        self._ended.set()

    def _follow(
        self, kind: Any, report: Report, namespace: str, labels: Mapping[str, str] | None
    ) -> None:
        while not self._ended.is_set():
            try:
                for change, found in self.connection.client.watch(
                    kind,
                    namespace=namespace or None,
                    labels=dict(labels) if labels else None,
                    server_timeout=_RENEWED_S,
                ):
                    if self._ended.is_set():
                        return
                    report(change.lower(), dict(found))
            except (ApiError, httpx2.HTTPError, OSError, ValueError, KeyError, RuntimeError):
                # The next watch begins with the state of every object.
                time.sleep(_RETRY_S)


def created_s(found: Mapping[str, Any] | None) -> float | None:
    """The creation time of a raw object, in seconds since 1970."""
    text = ((found or {}).get("metadata") or {}).get("creationTimestamp")
    if isinstance(text, datetime):
        return text.timestamp()
    try:
        return datetime.fromisoformat(str(text)).timestamp() if text else None
    except ValueError:
        return None


def finalizers(found: Mapping[str, Any]) -> Sequence[str]:
    return [str(name) for name in (found.get("metadata") or {}).get("finalizers") or ()]
