"""The target `storageclass:` of the volume lifecycle, which owns what the trials make."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lightkube.resources.batch_v1 import Job
from lightkube.resources.storage_v1 import CSIDriver, StorageClass

from leadline import errors
from leadline.archive.records import CacheDrop
from leadline.connect.kubernetes.lifecycle import (
    LifecycleObjects,
    create_owner,
    find_driver,
    snapshot_classes,
)
from leadline.connect.kubernetes.objects import get_object, labels_of
from leadline.connect.kubernetes.permissions import (
    LIFECYCLE_RULES,
    RUN_RULES,
    VM_LIFECYCLE_RULES,
)
from leadline.connect.kubernetes.pods import ROOT, PodSecurity, RunnerJob
from leadline.connect.kubernetes.survey import find_class, keeps_volumes
from leadline.errors import LeadlineError
from leadline.metrics import Op
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.plan.volume_request import RunnerKind, VolumeMode
from leadline.runner.ports import VolumeClaims, Watch
from leadline.targets.kubernetes import DEADLINE_S, KubernetesTarget
from leadline.targets.kubernetes_cluster import OpenKubernetes
from leadline.targets.virtual_machine import machine_rules, require_machines

_NO_IMAGE = "no image is named for the pods that read the copies (`image:`)"


class LifecycleTarget(KubernetesTarget):
    """`storageclass:NAME` with workloads of the engine `volume-lifecycle` alone."""

    kind = "jobs"

    def __init__(
        self, target: Target, cluster: OpenKubernetes, *, number: int, asked_s: float
    ) -> None:
        super().__init__(target, cluster, number=number)
        self._deadline_s = round(asked_s * 2 + DEADLINE_S)
        self._claims_location: VolumeClaims | None = None
        self._owner = ""

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        rules, mode = (*RUN_RULES, *LIFECYCLE_RULES), self._request.mode or VolumeMode.FILESYSTEM
        security, size = PodSecurity.BASELINE, self._request.runner_size(self.cluster.settings)
        if self._in_guests:
            machines = require_machines(self.cluster, self.name)
            rules, mode = (*rules, *machine_rules(machines), *VM_LIFECYCLE_RULES), VolumeMode.BLOCK
            # KubeVirt makes the pods of machines, with the privileges that they need.
            security = PodSecurity.PRIVILEGED
        self.cluster.require(rules)
        self._volumes.inspect(footprint, asked=mode)
        if self._volumes.mode is VolumeMode.BLOCK:
            # A raw device may need user 0, which the strictest level forbids.
            self.cluster.register_security(security)
        self._require_snapshot_class()
        self._volumes.require_quota(
            cores=size.cores, memory_bytes=size.memory_bytes, claimed_bytes=claimed_bytes
        )

    @property
    def _in_guests(self) -> bool:
        return self._request.runner is RunnerKind.VM

    def _require_snapshot_class(self) -> None:
        """Raise LeadlineError(`class-unsuitable`) where the named VolumeSnapshotClass does not
        exist, or is of another driver."""
        wanted = self._request.snapshot_class
        if not wanted:
            return
        connection = self.cluster.connection
        provisioner = self._class.provisioner
        drivers = {
            str(item["metadata"]["name"]): str(item.get("driver", ""))
            for item in snapshot_classes(connection)
        }
        if drivers.get(wanted) == provisioner:
            return
        fitting = [name for name, driver in drivers.items() if driver == provisioner]
        near = difflib.get_close_matches(wanted, fitting, n=1)
        fact = f"the cluster {connection.context} has no VolumeSnapshotClass {wanted!r}"
        if wanted in drivers:
            fact = f"the VolumeSnapshotClass {wanted!r} is for the driver {drivers[wanted]}"
        raise LeadlineError(
            errors.CLASS_UNSUITABLE,
            fact,
            context=[
                f"target {self.name!r}, provisioner {provisioner}",
                f"VolumeSnapshotClasses of that driver: {', '.join(fitting) or 'none'}",
            ],
            hint=f"did you mean snapshot_class={near[0]}?"
            if near
            else "name one of that driver, or omit snapshot_class",
        )

    @property
    def _class(self) -> StorageClass:
        return find_class(self.cluster.connection, self._volumes.storage_class, [])

    @property
    def location(self) -> VolumeClaims:  # type: ignore[override]
        assert self._claims_location is not None, "acquire comes first"
        return self._claims_location

    @property
    def fresh(self) -> bool:
        return False  # every trial makes its own volumes

    def _start(self) -> None:
        name, token = self._note_created()
        connection, volumes, settings = (
            self.cluster.connection,
            self._volumes,
            self.cluster.settings,
        )
        block = volumes.mode is VolumeMode.BLOCK
        # Pods read the copies of volumes that machines use.
        pods = replace(self._request, runner=RunnerKind.POD, cores=None, memory_bytes=None)
        runner = RunnerJob(
            name=name,
            namespace=self._namespace,
            labels=labels_of(self._run, token, self._number),
            storage_class=volumes.storage_class,
            request=pods if self._in_guests else self._request,
            mode=volumes.mode,
            size_bytes=volumes.size_bytes,
            deadline_s=self._deadline_s,
            user=ROOT if block else self.cluster.pod_user,
        )
        owner = create_owner(connection, runner, settings)
        found = self._class
        snapshot_class, unsupported = lifecycle_support(
            found,
            find_driver(connection, str(found.provisioner)),
            snapshot_classes(connection),
            wanted=self._request.snapshot_class,
        )
        if settings.image is None:
            unsupported |= dict.fromkeys((Op.RESTORE, Op.CLONE), _NO_IMAGE)
        self._owner = name
        self._claims_location = VolumeClaims(
            objects=LifecycleObjects(
                connection=connection,
                settings=settings,
                runner=runner,
                owner=owner,
                machine=self._request if self._in_guests else None,
            ),
            stem=name,
            count=self._request.count,
            bound_s=settings.ready_s,
            provisioner=str(found.provisioner),
            immediate=found.volumeBindingMode != "WaitForFirstConsumer",
            keeps_volumes=keeps_volumes(found),
            snapshot_class=snapshot_class,
            unsupported=unsupported,
            note=self.cluster.note,
        )

    def settle(self, written_at_s: float) -> None:
        return  # nothing was written

    def present(self) -> bool:
        found = get_object(self.cluster.connection, Job, "jobs.batch", self._owner, self._namespace)
        return found is not None

    def watch(self, folder: Path) -> Watch | None:
        return None

    def drop_caches(self) -> CacheDrop | None:
        return None


def lifecycle_support(
    found: StorageClass,
    driver: CSIDriver | None,
    classes: Iterable[Mapping[str, Any]],
    *,
    wanted: str,
) -> tuple[str, dict[Op, str]]:
    """Return the VolumeSnapshotClass of a StorageClass, and why it does not have a stage.

    That is the one `wanted`, else the driver's default, else its first; empty without one.
    `driver` is None for a provisioner that is no CSI driver.
    """
    unsupported: dict[Op, str] = {}
    if found.allowVolumeExpansion is not True:
        unsupported[Op.EXPAND] = "the class does not set allowVolumeExpansion"
    if driver is None or (driver.spec and driver.spec.attachRequired is False):
        unsupported[Op.ATTACH] = "the driver does not attach volumes"
    if driver is None:
        reason = f"the provisioner {found.provisioner} is no CSI driver"
        return "", unsupported | dict.fromkeys((Op.SNAPSHOT, Op.RESTORE, Op.CLONE), reason)
    fitting = [item["metadata"] for item in classes if item.get("driver") == found.provisioner]
    first = min(fitting, key=lambda item: (not _is_default(item), str(item["name"])), default=None)
    snapshot_class = wanted or (str(first["name"]) if first else "")
    if not snapshot_class:
        reason = f"no VolumeSnapshotClass is for the driver {found.provisioner}"
        unsupported |= dict.fromkeys((Op.SNAPSHOT, Op.RESTORE), reason)
    return snapshot_class, unsupported


def _is_default(metadata: Mapping[str, Any]) -> bool:
    """Whether a VolumeSnapshotClass is the default of its driver."""
    annotations = metadata.get("annotations") or {}
    return bool(annotations.get("snapshot.storage.kubernetes.io/is-default-class") == "true")
