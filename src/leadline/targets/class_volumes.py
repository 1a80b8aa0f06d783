"""Volumes of a StorageClass that a target claims: checked beforehand, and described while they are
there. What does the I/O on them, a pod or a virtual machine, is not known here."""

from __future__ import annotations

import math

from lightkube import ApiError
from lightkube.models.core_v1 import PersistentVolumeSpec
from lightkube.resources.core_v1 import PersistentVolume, PersistentVolumeClaim
from lightkube.types import PatchType

from leadline import errors
from leadline.archive.records import ClaimedVolume
from leadline.errors import LeadlineError
from leadline.kubernetes.classes import find_class, keeps_volumes, mode_for
from leadline.kubernetes.permissions import RETAIN_RULES
from leadline.kubernetes.room import require_capacity, require_place, require_quota
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.plan.volume_request import GIB, VolumeMode
from leadline.shell import Shell, insist
from leadline.targets.kubernetes_cluster import OpenKubernetes
from leadline.units import format_size

# A file system takes some of its volume for itself.
_FILESYSTEM_SHARE = 1.1
_SHORT_S = 30.0


class ClassVolumes:
    """The volumes of one target. `mode`, `size_bytes` (of each) and `needed_bytes` (of each, by
    the workloads) are known behind `inspect`."""

    def __init__(self, target: Target, cluster: OpenKubernetes) -> None:
        self.storage_class = target.parsed.location
        self.request = target.parsed.request
        self.mode = VolumeMode.BLOCK
        self.size_bytes = 0
        self.needed_bytes = 0
        self._keeps = False
        self._cluster = cluster
        self._where = [f"target {target.name!r}"]

    def inspect(self, footprint: Footprint, *, asked: VolumeMode | None) -> None:
        """Raise LeadlineError where the class, the nodes or its capacity do not allow it."""
        connection = self._cluster.connection
        found = find_class(connection, self.storage_class, self._where)
        self.mode = mode_for(found, asked, self._where)
        self._keeps = keeps_volumes(found)
        if self._keeps:
            self._require_patching()
        self._choose_size(footprint)
        selector = self._cluster.settings.node_selector
        require_place(connection, self.request.node, self.request.zone, selector, self._where)
        require_capacity(connection, self.storage_class, self.size_bytes, self._where)

    def require_quota(self, *, cores: float, memory_bytes: int, claimed_bytes: int) -> None:
        """Raise LeadlineError(`quota-exceeded`); `cores` and `memory_bytes` are of each runner. A
        namespace that the run will make has no quota."""
        namespace, count = self._cluster.settings.namespace, self.request.count
        if not namespace:
            return
        storage = self.size_bytes * count
        cpu, memory = math.ceil(cores * count), memory_bytes * count
        needs = {
            "requests.storage": claimed_bytes + storage,
            f"{self.storage_class}.storageclass.storage.k8s.io/requests.storage": storage,
            "persistentvolumeclaims": count,
            "pods": count,
            # Requests equal limits, and a quota may be of either.
            **dict.fromkeys(("cpu", "requests.cpu", "limits.cpu"), cpu),
            **dict.fromkeys(("memory", "requests.memory", "limits.memory"), memory),
        }
        require_quota(self._cluster.connection, namespace, needs, self._where)

    def claimed(self, claim: PersistentVolumeClaim | None) -> ClaimedVolume:
        """What a claim's volume is; one that would outlive its claim is told not to."""
        volume = (claim.spec.volumeName if claim and claim.spec else None) or ""
        if volume and self._keeps:
            self._let_go(volume)
        driver, handle = self._source(volume) if volume else ("", "")
        return ClaimedVolume(
            storage_class=self.storage_class,
            mode=self.mode.value,
            size_bytes=self.size_bytes,
            volume=volume,
            driver=driver,
            handle=handle,
        )

    def check(self, shell: Shell, path: str) -> None:
        """Raise LeadlineError where the volume is not there, too small, or not to be written."""
        if self.mode is VolumeMode.BLOCK:
            script = 'test -r "$1" && test -w "$1" && blockdev --getsize64 "$1"'
        else:
            script = 'mkdir -p "$1" && df -B1 --output=avail "$1" | tail -1'
        said = insist(shell, script, path, bound_s=_SHORT_S)
        if said.status:
            raise LeadlineError(
                errors.TARGET_READ_ONLY,
                f"the volume cannot be used in the {shell.name}: {said.complaint}",
                context=self._where,
            )
        if int(said.text) < self.needed_bytes:
            raise LeadlineError(
                errors.TARGET_NO_SPACE,
                f"the volume has {format_size(int(said.text))}; the plan needs "
                f"{format_size(self.needed_bytes)}",
                context=[*self._where, shell.name],
                hint="ask for a larger volume with size=, or make the plan smaller with --size",
            )

    def _require_patching(self) -> None:
        """Volumes of a class that keeps them are told not to outlive the run."""
        try:
            self._cluster.require(RETAIN_RULES)
        except LeadlineError as error:
            raise LeadlineError(
                errors.CLASS_UNSUITABLE,
                f"the StorageClass {self.storage_class!r} keeps volumes after use (reclaimPolicy "
                "Retain), and this user may not change that for those of the run",
                context=[*self._where, *error.context],
                hint=error.hint,
            ) from error

    def _choose_size(self, footprint: Footprint) -> None:
        """The size of each volume: what was asked for, or what the workloads need, in whole GiB."""
        block = self.mode is VolumeMode.BLOCK
        self.needed_bytes = footprint.span if block else footprint.total_bytes
        needed = self.needed_bytes if block else math.ceil(self.needed_bytes * _FILESYSTEM_SHARE)
        self.size_bytes = self.request.size_bytes or max(1, math.ceil(needed / GIB)) * GIB
        if self.size_bytes < needed:
            raise LeadlineError(
                errors.TARGET_NO_SPACE,
                f"a volume of {format_size(self.size_bytes)} is too small: the workloads need "
                f"{format_size(needed)}",
                context=self._where,
                hint="ask for a larger volume with size=, or make the plan smaller with --size",
            )

    def _let_go(self, volume: str) -> None:
        self._cluster.connection.ask(
            "patch",
            "persistentvolumes",
            lambda client: client.patch(
                PersistentVolume,
                volume,
                {"spec": {"persistentVolumeReclaimPolicy": "Delete"}},
                patch_type=PatchType.MERGE,
            ),
        )

    def _source(self, volume: str) -> tuple[str, str]:
        """The driver of a volume and what that knows it by, without what may be secret."""
        try:
            found = self._cluster.connection.ask(
                "get", "persistentvolumes", lambda client: client.get(PersistentVolume, volume)
            )
        except (ApiError, LeadlineError):
            return "", ""
        spec = found.spec or PersistentVolumeSpec()
        if spec.csi:
            return spec.csi.driver, spec.csi.volumeHandle
        kinds = ("local", "hostPath", "nfs", "iscsi", "fc")
        return next((kind for kind in kinds if getattr(spec, kind) is not None), ""), ""
