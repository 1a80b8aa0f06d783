"""A Kubernetes StorageClass, seen from pods: volumes that Leadline claims, one for each pod."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lightkube import ApiError
from lightkube.models.core_v1 import PersistentVolumeSpec
from lightkube.resources.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from lightkube.types import PatchType

from leadline import errors
from leadline.archive import layout
from leadline.archive.records import CacheDrop, ClaimedVolume, Created, RoundTrip, Runner, Runners
from leadline.connect.kubernetes.objects import (
    RunnerGroup,
    claims_of,
    dns_label,
    labels_of,
    new_token,
)
from leadline.connect.kubernetes.permissions import RETAIN_RULES, RUN_RULES
from leadline.connect.kubernetes.pod_shell import PodShell
from leadline.connect.kubernetes.pods import (
    CONTAINER,
    DEVICE,
    MOUNT,
    ROOT,
    SCRATCH,
    USER,
    PodSecurity,
    RunnerJob,
    await_pods,
    build_job,
    create_job,
)
from leadline.connect.kubernetes.survey import (
    find_class,
    keeps_volumes,
    mode_for,
    require_capacity,
    require_place,
    require_quota,
)
from leadline.connect.shell import CommandResult, Shell, run_repeatable
from leadline.errors import LeadlineError
from leadline.inventory.layer import Layer
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.plan.target_url import GIB, Lifetime, VolumeMode
from leadline.runner.ports import Journal, RemoteVolume, RemoteVolumes, Shape, Watch
from leadline.targets.clusters import SCHEME, SETTLE_S, OpenKubernetes
from leadline.units import format_size

# Volumes of a StorageClass that a target claims: checked beforehand, and described while they are
# there. What does the I/O on them, a pod or a virtual machine, is not known here.

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
        said = run_repeatable(shell, script, path, bound_s=_SHORT_S)
        if said.status:
            raise LeadlineError(
                errors.TARGET_READ_ONLY,
                f"the volume cannot be used in the {shell.name}: {said.error_line}",
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


# What targets on a StorageClass have in common, whether pods or virtual machines do their I/O.

_ON_KUBERNETES_SHORT_S = 60.0


class OnKubernetes(ABC):
    """Volumes that are claimed for the run, and what does I/O on them. `number` tells the plan's
    targets apart in names of objects; `kind` is that of the object that owns the rest."""

    kind: str

    def __init__(self, target: Target, cluster: OpenKubernetes, *, number: int) -> None:
        self.name = target.name
        self.cluster = cluster
        self._volumes = ClassVolumes(target, cluster)
        self._request = target.parsed.request
        self._number = number
        self._run = ""
        self._namespace = ""
        self._journal: Journal | None = None
        self._created: Created | None = None
        self._location: RemoteVolumes | None = None
        self._runners: tuple[Runner, ...] = ()

    @property
    def location(self) -> RemoteVolumes:
        assert self._location is not None, "acquire comes first"
        return self._location

    @property
    def fresh(self) -> bool:
        return self._request.lifetime is Lifetime.FRESH

    def layers(self) -> tuple[Layer, ...]:
        return ()  # what a volume lies on is told by its driver, in the cluster's inventory

    def dumps(self) -> Mapping[str, bytes]:
        return {}

    def volume(self) -> object:
        return ("kubernetes", self.cluster.name)

    @abstractmethod
    def _start(self) -> None:
        """Make the runners and their volumes, and wait until both can be used."""

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        self._run, self._journal = run, journal
        count = self._request.count
        volumes = "a volume" if count == 1 else f"{count} volumes"
        self.cluster.note(
            f"making {volumes} of {format_size(self._volumes.size_bytes)} for {self.name}"
        )
        self._namespace = self.cluster.enter(self.name, run, journal)
        self._start()

    def _note_created(self) -> tuple[str, str]:
        """The name and the token of what will own this target's objects, noted before it is
        made."""
        assert self._journal is not None
        token = new_token()
        stem = dns_label(f"leadline-{self._number}-{self._volumes.storage_class}", 36)
        name = f"{stem}-{token[:8]}"
        self._created = Created(
            target=self.name,
            cluster=self.cluster.name,
            path=f"{SCHEME}{self._namespace}/{self.kind}/{name}",
            token=token,
        )
        self._journal.note_created(self._created)
        return name, token

    def _group(self, token: str) -> RunnerGroup:
        """The runners that carry a token."""
        return RunnerGroup(
            connection=self.cluster.connection,
            namespace=self._namespace,
            token=token,
            count=self._request.count,
            bound_s=self.cluster.settings.ready_s,
            go_on=self.cluster.go_on,
        )

    def _claims(self, token: str) -> Mapping[str, PersistentVolumeClaim]:
        """The claims of a token by their names."""
        found = claims_of(self.cluster.connection, self._namespace, token)
        return {str(one.metadata.name): one for one in found if one.metadata}

    def renew(self) -> None:
        problems = self._stop()
        if problems:
            raise LeadlineError(
                errors.KUBERNETES_FAILED,
                f"the volume of {self.name!r} did not go away before the next trial",
                context=problems,
                hint="look at the provisioner of the StorageClass",
            )
        self._start()

    def settle(self, written_at_s: float) -> None:
        """As long as on other clusters: nobody outside can see how long their writing back
        takes."""
        time.sleep(max(0.0, written_at_s + SETTLE_S - time.monotonic()))

    def present(self) -> bool:
        test = 'test -b "$1"' if self._volumes.mode is VolumeMode.BLOCK else 'test -d "$1"'
        return all(
            run_repeatable(one.shell, test, one.path, bound_s=_ON_KUBERNETES_SHORT_S).status == 0
            for one in self.location.volumes
        )

    def prepare(self) -> tuple[RoundTrip, ...]:
        return ()

    def watch(self, folder: Path) -> Watch | None:
        """Where the trial's I/O is done, and what its volumes are."""
        (folder / layout.RUNNERS).write_bytes(layout.encode(Runners(runners=self._runners)))
        return None

    @abstractmethod
    def drop_caches(self) -> CacheDrop | None:
        """What a runner can drop of what is cached near it."""

    def allocated_bytes(self) -> int | None:
        return None  # a device cannot tell what of it was written

    def filesystem(self) -> str:
        return ""

    def note_files(self) -> None:
        return

    def _stop(self) -> tuple[str, ...]:
        """Remove the runners with their volumes, and wait until they are gone."""
        if self._created is None:
            return ()
        problems = self.cluster.remove(self._created)
        if not problems and self._journal is not None:
            self._journal.note_removed(self._created)
            self._created = None
        return problems

    def release(self) -> tuple[str, ...]:
        if self._journal is None:
            return ()
        return (*self._stop(), *self.cluster.leave(self.name))


# The pods of a run that nobody ends, end themselves: a day behind what the run asks for.
_DEADLINE_S = 24 * 3600
PROGRAMS = ("fio", "timeout", "setsid", "sha256sum", "gzip", "tar", "blockdev")
_FOLDER_TOLD = 'test -d "$1" && du -s -B1 "$1" | cut -f1 && stat -f -c %T "$1"'
_NO_FIO = "the image needs fio, a shell and GNU coreutils, as Containerfile makes it"


class StorageClassTarget(OnKubernetes):
    """`storageclass:NAME?size=...`. `asked_s` is what all trials of the plan ask for."""

    kind = "jobs"

    def __init__(
        self, target: Target, cluster: OpenKubernetes, *, number: int, asked_s: float
    ) -> None:
        super().__init__(target, cluster, number=number)
        self._deadline_s = round(asked_s * 2 + _DEADLINE_S)
        # Of each volume with a file system: bytes in use, and its kind, as lines.
        self._told: list[list[str]] = []

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        settings = self.cluster.settings
        self.cluster.require(RUN_RULES)
        self._volumes.inspect(footprint, asked=self._request.mode)
        if self._volumes.mode is VolumeMode.BLOCK:
            # A raw device may need user 0, which the strictest standard does not take.
            self.cluster.need(PodSecurity.BASELINE)
        self._volumes.require_quota(
            cores=settings.cpu, memory_bytes=settings.memory, claimed_bytes=claimed_bytes
        )

    def _start(self) -> None:
        """Where a raw device is root's in a pod, the runtime lacks
        `device_ownership_from_security_context`, and pods of root do it."""
        block = self._volumes.mode is VolumeMode.BLOCK
        user = self.cluster.device_user if block else USER
        shells = self._pods(user)
        if block and user != ROOT and not _usable(shells[0]):
            problems = self._stop()
            if problems:
                raise LeadlineError(errors.KUBERNETES_FAILED, problems[0], context=problems[1:])
            self.cluster.device_user = ROOT
            shells = self._pods(ROOT)
        self._check_image(shells[0])
        path = DEVICE if block else f"{MOUNT}/leadline"
        for shell in shells:
            self._volumes.check(shell, path)
        self._location = RemoteVolumes(
            shape=Shape.SPAN if block else Shape.FILES,
            volumes=tuple(RemoteVolume(shell=shell, path=path) for shell in shells),
            folder=SCRATCH,
        )

    def _pods(self, user: int) -> list[PodShell]:
        """Make the Job and wait for its pods."""
        name, token = self._note_created()
        connection, settings = self.cluster.connection, self.cluster.settings
        asked = RunnerJob(
            name=name,
            namespace=self._namespace,
            labels=labels_of(self._run, token, self._number),
            storage_class=self._volumes.storage_class,
            request=self._request,
            mode=self._volumes.mode,
            size_bytes=self._volumes.size_bytes,
            deadline_s=self._deadline_s,
            user=user,
        )
        create_job(connection, build_job(asked, settings), self._namespace)
        pods = await_pods(self._group(token), name)
        self._note_runners(pods, token, user)
        return [
            PodShell(connection, self._namespace, str(one.name), str(one.uid), CONTAINER)
            for one in (pod.metadata for pod in pods)
            if one is not None
        ]

    def _note_runners(self, pods: Sequence[Pod], token: str, user: int) -> None:
        """Where the pods run and what their volumes are, for each trial's folder."""
        claims, settings = self._claims(token), self.cluster.settings
        found = []
        for pod in pods:
            assert pod.metadata is not None
            statuses = (pod.status.containerStatuses if pod.status else None) or ()
            volume = self._volumes.claimed(claims.get(f"{pod.metadata.name}-volume"))
            found.append(
                Runner(
                    kind="pod",
                    name=str(pod.metadata.name),
                    node=(pod.spec.nodeName if pod.spec else None) or "",
                    image=settings.image,
                    image_id=statuses[0].imageID if statuses else "",
                    user=user,
                    cores=settings.cpu,
                    memory_bytes=settings.memory,
                    volume=volume,
                )
            )
        self._runners = tuple(found)

    def _check_image(self, shell: PodShell) -> None:
        script = 'for one in "$@"; do command -v "$one" >/dev/null || echo "$one"; done'
        said = run_repeatable(shell, script, *PROGRAMS, bound_s=_SHORT_S)
        if said.status or said.text:
            raise LeadlineError(
                errors.RUNNER_FAILED,
                f"the image {self.cluster.settings.image!r} lacks "
                f"{', '.join(said.text.split()) or said.error_line}",
                hint=_NO_FIO,
            )

    def drop_caches(self) -> CacheDrop | None:
        return None  # a pod may not; direct I/O passes the node's own

    def present(self) -> bool:
        """Sees also what else is to be told before a trial: each command costs a connection."""
        block = self._volumes.mode is VolumeMode.BLOCK
        script = 'test -b "$1"' if block else _FOLDER_TOLD

        def look(one: RemoteVolume) -> CommandResult:
            return run_repeatable(one.shell, script, one.path, bound_s=_SHORT_S)

        volumes = self.location.volumes
        with ThreadPoolExecutor(max_workers=len(volumes)) as pool:
            said = list(pool.map(look, volumes))
        self._told = [] if block else [one.text.splitlines() for one in said]
        return all(one.status == 0 for one in said)

    def allocated_bytes(self) -> int | None:
        """As `present` saw it; None of a device, which cannot tell what of it was written."""
        found = [lines[0] for lines in self._told if lines and lines[0].isdigit()]
        return min(map(int, found)) if found and len(found) == len(self._told) else None

    def filesystem(self) -> str:
        """As `present` saw it."""
        return self._told[0][-1] if self._told and len(self._told[0]) == 2 else ""


def _usable(shell: PodShell) -> bool:
    script = 'test -r "$1" && test -w "$1"'
    return run_repeatable(shell, script, DEVICE, bound_s=_SHORT_S).status == 0
