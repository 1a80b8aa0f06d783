"""A storm of volumes on a double of a control plane, which does at once what it is asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from lightkube.models.storage_v1 import CSIDriverSpec
from lightkube.resources.storage_v1 import CSIDriver, StorageClass

from leadline import errors
from leadline.connect.kubernetes import lifecycle
from leadline.engines import volume_storm, volume_users, volume_waits
from leadline.errors import LeadlineError
from leadline.formats.volume_lifecycle import (
    FirstIo,
    LifecycleReport,
    LifecycleRequest,
    Role,
    read_volume_lifecycle,
)
from leadline.metrics import STAGES, Op
from leadline.plan.volume_request import RunnerKind, VolumeMode, VolumeRequest
from leadline.runner.events import StopRequest
from leadline.runner.ports import VolumeClaims
from leadline.targets.volume_lifecycle import lifecycle_support

DRIVER = "csi.example"
OF_GUESTS = {Op.VM_START, Op.VM_BOOT}
GIB = 1 << 30
Report = Callable[[str, dict[str, Any]], None]


@dataclass(kw_only=True)
class ControlPlane:
    """Objects by kind and name. `stuck` are claims that are never provisioned, `held` claims with a
    finalizer, `unbooted` claims of machines that stay pending, by the end of their names.
    `volumes_last`: a volume is reported after the binding of its claim."""

    stuck: tuple[str, ...] = ()
    unbooted: tuple[str, ...] = ()
    machine: VolumeRequest | None = None
    folder: Path = Path()
    held: tuple[str, ...] = ()
    empty_copies: bool = False
    volumes_last: bool = False
    driver: str = DRIVER
    snapshot_class: str = "snapshots"
    objects: dict[tuple[Any, str], dict[str, Any]] = field(default_factory=dict)
    reports: dict[Any, Report] = field(default_factory=dict)
    contents: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    connection: Any = None
    namespace: str = "mine"
    owner: Mapping[str, str] = field(default_factory=lambda: {"name": "owner"})
    runner: Any = field(
        default_factory=lambda: SimpleNamespace(
            storage_class="fast", size_bytes=GIB, mode=VolumeMode.FILESYSTEM, labels={}
        )
    )

    def put(
        self, kind: Any, name: str, labels: Mapping[str, str] | None = None, **parts: Any
    ) -> Any:
        change = "modified" if (kind, name) in self.objects else "added"
        found = self.objects.setdefault((kind, name), {"metadata": {"name": name, "uid": name}})
        found["metadata"].setdefault("labels", dict(labels or {}))
        found["metadata"] |= parts.pop("metadata", {})
        for key, part in parts.items():
            found.setdefault(key, {}).update(part)
        self.reports[kind](change, found)
        return found

    def remove(self, kind: Any, name: str) -> None:
        found = self.objects.pop((kind, name), None)
        if found is not None:
            self.reports[kind]("deleted", found)

    def create_claim(
        self, name: str, labels: Mapping[str, str], size_bytes: int, source: Any = None
    ) -> None:
        self.asked.append(f"claim {labels['leadline/volume']} of {source and source['kind']}")
        capacity = {"capacity": {"storage": str(size_bytes)}}
        finalizers = ["mine/held"] if name.endswith(self.held or ("-",)) else []
        self.contents[name] = "" if source is None else self.contents[source["name"]]
        self.put(
            lifecycle.CLAIM,
            name,
            labels,
            metadata={"finalizers": finalizers},
            spec=capacity,
            status={"phase": "Pending"},
        )

    def create_pod(
        self, name: str, labels: Mapping[str, str], claim: str, content: str, data_bytes: int | None
    ) -> None:
        self.put(lifecycle.POD, name, labels, status={"phase": "Pending"})
        if claim.endswith(self.stuck or ("-",)):
            return
        selected = {"annotations": {"volume.kubernetes.io/selected-node": "node-1"}}
        self.put(lifecycle.CLAIM, claim, metadata=selected)
        capacity = self.objects[lifecycle.CLAIM, claim]["spec"]["capacity"]
        if data_bytes is not None:
            self.contents[claim] = content
        elif self.empty_copies:
            self.contents[claim] = "nothing"

        def bind() -> None:
            self.put(
                lifecycle.CLAIM,
                claim,
                spec={"volumeName": f"pv-{claim}"},
                status={"phase": "Bound", "capacity": capacity},
            )

        def start() -> None:
            self.put(lifecycle.VOLUME, f"pv-{claim}", spec={"claimRef": {"name": claim}})
            if not self.volumes_last:
                bind()
            source = {"source": {"persistentVolumeName": f"pv-{claim}"}}
            self.put(lifecycle.ATTACHMENT, f"va-{claim}", spec=source)
            self.put(lifecycle.ATTACHMENT, f"va-{claim}", status={"attached": True})
            running = {"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]}
            self.put(lifecycle.POD, name, spec={"nodeName": "node-1"}, status=running)

        if self.volumes_last:
            bind()
            threading.Timer(0.2, start).start()
        else:
            start()

    def create_machine(
        self, name: str, labels: Mapping[str, str], claim: str, content: str, data_bytes: int
    ) -> None:
        self.put(lifecycle.INSTANCE, name, labels, status={"phase": "Pending"})
        self.objects[lifecycle.MACHINE, name] = {"metadata": {"name": name}}
        launcher = {**labels, "kubevirt.io": "virt-launcher"}
        self.create_pod(f"virt-launcher-{name}-x", launcher, claim, content, data_bytes)
        if not claim.endswith(self.unbooted or ("-",)):
            self.put(lifecycle.INSTANCE, name, status={"phase": "Running"})

    def delete_machine(self, name: str) -> None:
        self.objects.pop((lifecycle.MACHINE, name), None)
        self.remove(lifecycle.POD, f"virt-launcher-{name}-x")
        self.remove(lifecycle.INSTANCE, name)

    def create_snapshot(
        self, name: str, labels: Mapping[str, str], claim: str, snapshot_class: str
    ) -> None:
        self.asked.append(f"snapshot of {snapshot_class}")
        self.put(lifecycle.SNAPSHOT, name, labels, status={"readyToUse": True})

    def expand(self, claim: str, size_bytes: int) -> None:
        self.put(lifecycle.CLAIM, claim, status={"capacity": {"storage": str(size_bytes)}})

    def delete(self, kind: Any, resource: str, name: str) -> None:
        found = self.objects.get((kind, name))
        if found is None:
            return
        if found["metadata"].get("finalizers"):
            self.put(kind, name, metadata={"deletionTimestamp": "2026-11-25T04:00:00Z"})
            return
        self.remove(kind, name)
        if kind is lifecycle.CLAIM:
            self.remove(lifecycle.VOLUME, f"pv-{name}")


@pytest.fixture
def storm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., LifecycleReport]:
    """Runs a storm on a control plane and reads its records."""

    def run(
        plane: ControlPlane, *, volumes: int = 3, stop: StopRequest | None = None, **more: Any
    ) -> LifecycleReport:
        class Watches:
            def __init__(self, connection: Any) -> None:
                return

            def start(self, kind: Any, report: Report, **where: Any) -> None:
                plane.reports[kind] = report

            def stop(self) -> None:
                plane.reports.clear()

        class Shell:
            def __init__(self, *where: Any) -> None:
                self.pod = where[2]

            def run(self, script: str, path: str, *, bound_s: float, output: Any) -> None:
                output(b"1000.5\n")
                output(f"1000.1 1000.2 {plane.contents[self.pod]}\n".encode())

        def owned(connection: Any, kind: Any, *rest: Any) -> list[dict[str, Any]]:
            return [dict(found) for (of, _), found in plane.objects.items() if of is kind]

        def got(connection: Any, kind: Any, resource: str, name: str, *rest: Any) -> Any:
            return plane.objects.get((kind, name))

        class GuestShell(Shell):
            def __init__(self, link: Any, name: str, *rest: Any) -> None:
                self.pod = name.rpartition(" ")[2]

            def meet(self, *bounds: Any) -> None:
                return

            def run(self, script: str, path: str, *, bound_s: float, output: Any) -> None:
                output(f"60.5\n1000.1 1000.2 {plane.contents[self.pod]}\n60.1\n".encode())

        for module, name, double in (
            (volume_storm, "Watches", Watches),
            (volume_users, "PodShell", Shell),
            (volume_users, "ConsoleLink", lambda *_: SimpleNamespace(close=lambda: None)),
            (volume_users, "ConsoleShell", GuestShell),
            (volume_storm, "get_object", got),
            (volume_waits, "get_object", got),
            (volume_storm, "list_owned", owned),
            (volume_waits, "events_of", lambda *_: []),
            (volume_waits, "_LOOK_AGAIN_S", 0.1),
        ):
            monkeypatch.setattr(module, name, double)
        settings: dict[str, Any] = {
            "bound_s": 1.0,
            "immediate": False,
            "keeps_volumes": False,
        }
        settings["snapshot_class"], settings["unsupported"] = lifecycle_support(
            StorageClass(
                provisioner=plane.driver, allowVolumeExpansion=more.pop("expandable", True)
            ),
            CSIDriver(spec=CSIDriverSpec(attachRequired=True)) if plane.driver == DRIVER else None,
            [{"metadata": {"name": plane.snapshot_class}, "driver": DRIVER}]
            if plane.snapshot_class
            else [],
            wanted=more.pop("snapshot_class", ""),
        )
        settings |= more
        claims = VolumeClaims(
            objects=cast(Any, plane),
            stem="leadline-1-fast",
            count=volumes,
            provisioner=plane.driver,
            note=lambda sentence: None,
            **settings,
        )
        plane.folder = tmp_path
        request = LifecycleRequest(name="write", volumes=volumes, data_bytes=1024)
        asked = volume_storm.Storm(request, claims, tmp_path, stop or StopRequest(), bound_s=60.0)
        try:
            asked.run()
        finally:
            plane.asked.append("end")
        report = read_volume_lifecycle(tmp_path)
        assert report is not None
        return report

    return run


def test_every_volume_goes_through_every_stage(storm: Callable[..., LifecycleReport]) -> None:
    plane = ControlPlane()
    report = storm(plane)
    stages = [stage for stage in STAGES if stage not in OF_GUESTS]
    assert {stage: len(samples) for stage, samples in report.stages.items()} == dict.fromkeys(
        stages, 3
    )
    assert report.failures == {}
    assert {kind for kind, _ in plane.objects} <= {lifecycle.ATTACHMENT}
    assert "claim restored-1 of VolumeSnapshot" in plane.asked
    assert "claim cloned-3 of PersistentVolumeClaim" in plane.asked


def test_guests_use_new_volumes_and_pods_read_the_copies(
    storm: Callable[..., LifecycleReport],
) -> None:
    plane = ControlPlane(machine=VolumeRequest(runner=RunnerKind.VM))
    report = storm(plane)
    assert {stage: len(samples) for stage, samples in report.stages.items()} == dict.fromkeys(
        STAGES, 3
    )
    assert report.failures == {}
    assert report.record.runner == "vm"
    reported = [line for line in report.lines if isinstance(line, FirstIo)]
    assert {(line.role, line.uptime_s) for line in reported} == {
        (Role.NEW, 60.1),
        (Role.RESTORED, None),
        (Role.CLONED, None),
    }
    # 0.4 s of uptime between start and answer.
    assert {round(line.now_s - line.started_s, 6) for line in reported} == {0.4}
    assert {kind for kind, _ in plane.objects} <= {lifecycle.ATTACHMENT}


def test_a_machine_that_does_not_start_is_named_and_the_others_go_on(
    storm: Callable[..., LifecycleReport],
) -> None:
    plane = ControlPlane(machine=VolumeRequest(runner=RunnerKind.VM), unbooted=("new-2",))
    report = storm(plane)
    (failed,) = report.failures[Op.VM_START]
    assert failed.volume == 2
    assert "the machine is Pending" in failed.reason
    assert [sample.volume for sample in report.stages[Op.READY]] == [1, 3]
    assert {kind for kind, _ in plane.objects} <= {lifecycle.ATTACHMENT}


def test_stages_that_the_class_lacks_are_left_out(storm: Callable[..., LifecycleReport]) -> None:
    report = storm(ControlPlane(driver="rancher.io/local-path"), expandable=False)
    lacking = {Op.EXPAND, Op.ATTACH, Op.SNAPSHOT, Op.RESTORE, Op.CLONE}
    assert report.record.unsupported.keys() == lacking
    assert "no CSI driver" in report.record.unsupported[Op.CLONE]
    assert not report.stages.keys() & (lacking - {Op.ATTACH})
    assert report.failures == {}


def test_without_a_snapshot_class_there_are_clones(storm: Callable[..., LifecycleReport]) -> None:
    report = storm(ControlPlane(snapshot_class=""))
    assert "VolumeSnapshotClass" in report.record.unsupported[Op.SNAPSHOT]
    assert Op.CLONE in report.stages
    assert Op.RESTORE not in report.stages


def test_the_named_snapshot_class_is_used(storm: Callable[..., LifecycleReport]) -> None:
    plane = ControlPlane()
    storm(plane, snapshot_class="other")
    assert "snapshot of other" in plane.asked


@pytest.mark.parametrize(("default", "found"), [("b", "b"), ("", "a")])
def test_the_default_snapshot_class_of_the_driver_comes_first(default: str, found: str) -> None:
    key = "snapshot.storage.kubernetes.io/is-default-class"
    classes = [
        {"metadata": {"name": name, "annotations": {key: str(name == default).lower()}},
         "driver": driver}
        for name, driver in (("b", DRIVER), ("a", DRIVER), ("0", "another.example"))
    ]  # fmt: skip
    given = StorageClass(provisioner=DRIVER), CSIDriver(spec=CSIDriverSpec())
    assert lifecycle_support(*given, classes, wanted="")[0] == found


def test_a_volume_that_is_stuck_is_named_and_the_others_go_on(
    storm: Callable[..., LifecycleReport],
) -> None:
    plane = ControlPlane(stuck=("new-2",))
    report = storm(plane)
    (failed,) = report.failures[Op.PROVISION]
    assert failed.volume == 2
    assert "the claim is Pending; no event gives a reason" in failed.reason
    assert [sample.volume for sample in report.stages[Op.CLONE]] == [1, 3]
    assert [sample.volume for sample in report.stages[Op.READY]] == [1, 3]
    assert {kind for kind, _ in plane.objects} <= {lifecycle.ATTACHMENT}


def test_a_storm_without_any_volume_is_an_error(storm: Callable[..., LifecycleReport]) -> None:
    plane = ControlPlane(stuck=("new-1", "new-2", "new-3"))
    with pytest.raises(LeadlineError) as raised:
        storm(plane)
    assert raised.value.kind is errors.VOLUME_PENDING
    assert "none of 3 volumes" in raised.value.fact
    assert plane.objects == {}


def test_an_empty_copy_is_no_copy(storm: Callable[..., LifecycleReport]) -> None:
    report = storm(ControlPlane(empty_copies=True))
    assert "does not hold the data" in report.failures[Op.CLONE][0].reason
    assert Op.CLONE not in report.stages
    assert Op.RECLAIM in report.stages


def test_a_retained_volume_is_set_to_be_deleted_before_it_is_reported(
    storm: Callable[..., LifecycleReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(volume_storm, "delete_with_claim", lambda _, volume: asked.append(volume))
    plane = ControlPlane(volumes_last=True)
    report = storm(plane, keeps_volumes=True, snapshot_class="")
    assert not report.failures
    stems = {name.rpartition("-")[0].rpartition("-")[2] for name in asked}
    assert stems == {"new", "restored", "cloned"}
    assert len(asked) == 9
    assert all(name.startswith("pv-leadline-1-fast-") for name in asked)


def test_a_finalizer_that_holds_a_claim_is_named_and_bounded(
    storm: Callable[..., LifecycleReport],
) -> None:
    began = time.monotonic()
    with pytest.raises(LeadlineError) as raised:
        storm(ControlPlane(held=("new-3",)))
    assert raised.value.kind is errors.KUBERNETES_FAILED
    assert any("mine/held" in line for line in raised.value.context)
    assert time.monotonic() - began < 30


def test_a_copy_that_is_not_removed_was_made(storm: Callable[..., LifecycleReport]) -> None:
    plane = ControlPlane(held=("cloned-1",))
    with pytest.raises(LeadlineError):
        storm(plane)
    report = read_volume_lifecycle(plane.folder)
    assert report is not None
    assert report.failures.keys() == {Op.DELETE}
    assert [sample.volume for sample in report.stages[Op.CLONE]] == [1, 2, 3]


def test_a_request_to_stop_ends_a_wait(storm: Callable[..., LifecycleReport]) -> None:
    stop = StopRequest()
    stop.ask()
    with pytest.raises(LeadlineError) as raised:
        storm(ControlPlane(stuck=("new-1",)), stop=stop, bound_s=600.0)
    assert raised.value.kind is errors.INTERRUPTED
