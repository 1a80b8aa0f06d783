"""The target `storageclass:`: volumes of a Kubernetes StorageClass, one for each pod."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from lightkube import ApiError
from lightkube.models.core_v1 import PersistentVolumeSpec
from lightkube.resources.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod

from leadline import errors
from leadline.archive import layout
from leadline.archive.records import CacheDrop, ClaimedVolume, Created, RoundTrip, Runner, Runners
from leadline.connect.kubernetes.cleanup import delete_with_claim
from leadline.connect.kubernetes.client import if_allowed
from leadline.connect.kubernetes.objects import (
    TOKEN,
    RunnerGroup,
    claims_of,
    labels_of,
    new_token,
    owner_name,
)
from leadline.connect.kubernetes.permissions import RETAIN_RULES, RUN_RULES
from leadline.connect.kubernetes.pod_shell import PodShell
from leadline.connect.kubernetes.pods import (
    CONTAINER,
    DEVICE,
    MOUNT,
    ROOT,
    SCRATCH,
    TOPOLOGY_KEYS,
    PodSecurity,
    PodUser,
    RunnerJob,
    await_pods,
    build_job,
    create_job,
    node_selector,
    user_of,
)
from leadline.connect.kubernetes.survey import (
    find_class,
    keeps_volumes,
    mode_for,
    places_for_runners,
    require_capacity,
    require_place,
    require_quota,
    require_resources,
)
from leadline.connect.shell import CommandResult, Shell, run_repeatable
from leadline.errors import LeadlineError
from leadline.inventory.layer import Layer
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.plan.volume_request import GIB, MOST_VOLUMES, Lifetime, VolumeMode, VolumeRequest
from leadline.runner.ports import Journal, RemoteVolume, RemoteVolumes, Shape, Watch
from leadline.targets.base import SETTLE_S
from leadline.targets.kubernetes_cluster import SCHEME, OpenKubernetes
from leadline.units import format_size

# A file system uses some of its volume for metadata.
_FILESYSTEM_SHARE = 1.1
_SHORT_S = 30.0
# Lost runners of a target are made anew so often in a session.
_MOST_RECOVERIES = 3


class ClassVolumes:
    """The volumes of one target, for pods or virtual machines. `inspect` sets `mode`, `size_bytes`
    and `needed_bytes` of each volume."""

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
        """Raise LeadlineError for an unsuitable class, unsuitable nodes, or too little capacity."""
        connection = self._cluster.connection
        found = if_allowed(lambda: find_class(connection, self.storage_class, self._where))
        if found is None:
            self._cluster.note(
                f"this user may not read the StorageClass {self.storage_class!r}: unknown are its "
                "provisioner, and whether it keeps volumes after use"
            )
            # A class of unknown volumes: every one has file systems.
            self.mode = asked or VolumeMode.FILESYSTEM
        else:
            self.mode = mode_for(found, asked, self._where)
            self._keeps = keeps_volumes(found)
        if self._keeps:
            self._require_patching()
        self._choose_size(footprint)
        selector = self._cluster.settings.node_selector
        require_place(connection, self.request.node, self.request.zone, selector, self._where)
        if self.request.everywhere:
            self.request = replace(self.request, count=self._places())
        require_capacity(connection, self.storage_class, self.size_bytes, self._where)

    def _places(self) -> int:
        """The number of nodes, or of zones, that take runners."""
        settings, by = self._cluster.settings, self.request.spread
        found = places_for_runners(
            self._cluster.connection,
            node_selector(self.request, settings),
            settings.tolerations,
            TOPOLOGY_KEYS[by],
        )
        if not 0 < len(found) <= MOST_VOLUMES:
            raise LeadlineError(
                errors.TARGET_INVALID,
                f"runners cannot be spread over all {by.value}s: {len(found)} take them",
                context=self._where,
                hint=f"write a number with count= (at most {MOST_VOLUMES}); see node_selector, "
                f"tolerations, and the label {TOPOLOGY_KEYS[by]} of the nodes",
            )
        return len(found)

    def require_node(self, *, cores: float, memory_bytes: int) -> None:
        """Raise LeadlineError(`target-invalid`) where no node is large enough for a runner."""
        require_resources(
            self._cluster.connection,
            self.request,
            self._cluster.settings.node_selector,
            cores=cores,
            memory_bytes=memory_bytes,
            where=self._where,
        )

    def require_quota(self, *, cores: float, memory_bytes: int, claimed_bytes: int) -> None:
        """Raise LeadlineError(`quota-exceeded`); `cores` and `memory_bytes` are per runner. A
        namespace that the run makes has no quota."""
        namespace, count = self._cluster.settings.namespace, self.request.count
        if not namespace:
            return
        volumes = self.request.volumes
        storage = self.size_bytes * volumes
        cpu, memory = math.ceil(cores * count), memory_bytes * count
        needs = {
            "requests.storage": claimed_bytes + storage,
            f"{self.storage_class}.storageclass.storage.k8s.io/requests.storage": storage,
            "persistentvolumeclaims": volumes,
            "pods": count,
            # Requests equal limits, and a quota may limit either.
            **dict.fromkeys(("cpu", "requests.cpu", "limits.cpu"), cpu),
            **dict.fromkeys(("memory", "requests.memory", "limits.memory"), memory),
        }
        require_quota(self._cluster.connection, namespace, needs, self._where)

    def claimed(self, claim: PersistentVolumeClaim | None) -> ClaimedVolume:
        """The volume of a claim; one that would outlive its claim is set to be deleted."""
        volume = (claim.spec.volumeName if claim and claim.spec else None) or ""
        if volume and self._keeps:
            delete_with_claim(self._cluster.connection, volume)
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
        """Raise LeadlineError for a missing, read-only or too small volume."""
        if self.mode is VolumeMode.BLOCK:
            script = 'test -r "$1" && test -w "$1" && blockdev --getsize64 "$1"'
        else:
            script = 'mkdir -p "$1" && df -B1 --output=avail "$1" | tail -1'
        result = run_repeatable(shell, script, path, bound_s=_SHORT_S)
        if result.status:
            raise LeadlineError(
                errors.TARGET_READ_ONLY,
                f"the volume cannot be used in the {shell.name}: {result.error_line}",
                context=self._where,
            )
        if int(result.text) < self.needed_bytes:
            raise LeadlineError(
                errors.TARGET_NO_SPACE,
                f"the volume has {format_size(int(result.text))}; the plan needs "
                f"{format_size(self.needed_bytes)}",
                context=[*self._where, shell.name],
                hint="ask for a larger volume with size=, or make the plan smaller with --size",
            )

    def _require_patching(self) -> None:
        """Raise LeadlineError where volumes of a Retain class could not be removed by the run."""
        try:
            self._cluster.require(RETAIN_RULES)
        except LeadlineError as error:
            raise LeadlineError(
                errors.CLASS_UNSUITABLE,
                f"the StorageClass {self.storage_class!r} keeps volumes after use (reclaimPolicy "
                "Retain), and this user may not change that for the run's volumes",
                context=[*self._where, *error.context],
                hint=error.hint,
            ) from error

    def _choose_size(self, footprint: Footprint) -> None:
        """Set the size of each volume: the requested one, or the need of the workloads in GiB."""
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

    def _source(self, volume: str) -> tuple[str, str]:
        """The driver of a volume and its handle, without secrets."""
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


class KubernetesTarget(ABC):
    """Volumes that the run claims, and the runners that do I/O on them. Names of objects hold the
    `number` of the target; `kind` is that of the object that owns the others."""

    kind: str

    def __init__(self, target: Target, cluster: OpenKubernetes, *, number: int) -> None:
        self.name = target.name
        self.cluster = cluster
        self._volumes = ClassVolumes(target, cluster)
        self._number = number
        # What could not be removed when runners were made anew; release tries again.
        self._abandoned: list[Created] = []
        self._recoveries = 0
        self._run = ""
        self._namespace = ""
        self._journal: Journal | None = None
        self._created: Created | None = None
        self._location: RemoteVolumes | None = None
        self._runners: tuple[Runner, ...] = ()

    @property
    def _request(self) -> VolumeRequest:
        return self._volumes.request

    @property
    def location(self) -> RemoteVolumes:
        assert self._location is not None, "acquire comes first"
        return self._location

    @property
    def fresh(self) -> bool:
        return self._request.lifetime is Lifetime.FRESH

    def layers(self) -> tuple[Layer, ...]:
        return ()  # the cluster's inventory describes the layers below a volume

    def dumps(self) -> Mapping[str, bytes]:
        return {}

    def volume(self) -> object:
        return ("kubernetes", self.cluster.name)

    @abstractmethod
    def _start(self) -> None:
        """Make the runners and their volumes, and wait until both are ready."""

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        self._run, self._journal = run, journal
        count = self._request.volumes
        volumes = "a volume" if count == 1 else f"{count} volumes"
        self.cluster.note(
            f"making {volumes} of {format_size(self._volumes.size_bytes)} for {self.name}"
        )
        self._namespace = self.cluster.enter(run, journal)
        self._start()

    def _note_created(self) -> tuple[str, str]:
        """The name and token of the future owner of this target's objects, recorded first."""
        assert self._journal is not None
        token = new_token()
        name = owner_name(self._number, self._volumes.storage_class, token)
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
        return {str(claim.metadata.name): claim for claim in found if claim.metadata}

    def look_again(self) -> None:
        return  # its volumes are its own

    def renew(self) -> None:
        problems = self._stop()
        if problems:
            raise LeadlineError(
                errors.KUBERNETES_FAILED,
                f"the volume of {self.name!r} was not deleted before the next trial",
                context=problems,
                hint="check the provisioner of the StorageClass",
            )
        self._start()

    def recover(self) -> str:
        if not self._is_lost() or self._recoveries >= _MOST_RECOVERIES:
            return ""
        self._recoveries += 1
        if self._stop() and self._created is not None:
            self._abandoned.append(self._created)
        self._start()
        nodes = sorted({runner.node for runner in self._runners})
        return f"new runners and volumes on {', '.join(nodes)}"

    def _is_lost(self) -> bool:
        """Whether a runner is lost. One that only does not answer is not."""
        if self._location is None:
            return False

        def is_lost(volume: RemoteVolume) -> bool:
            try:
                run_repeatable(volume.shell, "true", bound_s=_SHORT_S)
            except LeadlineError as error:
                # Too little memory would end new runners in the same way.
                return error.kind is errors.RUNNER_FAILED and "OOMKilled" not in error.fact
            return False

        volumes = self._location.volumes
        with ThreadPoolExecutor(max_workers=len(volumes)) as pool:
            return any(list(pool.map(is_lost, volumes)))

    def settle(self, written_at_s: float) -> None:
        """Wait as long as on Ceph clusters: no client can see when the writes are done."""
        time.sleep(max(0.0, written_at_s + SETTLE_S - time.monotonic()))

    def present(self) -> bool:
        test = 'test -b "$1"' if self._volumes.mode is VolumeMode.BLOCK else 'test -d "$1"'
        return all(
            run_repeatable(volume.shell, test, volume.path, bound_s=_SHORT_S).status == 0
            for volume in self.location.volumes
        )

    def prepare(self) -> tuple[RoundTrip, ...]:
        return ()

    def watch(self, folder: Path) -> Watch | None:
        """Write the runners and volumes of the trial, and record the cluster's storage."""
        others = self.cluster.other_runs(self._run)
        record = Runners(runners=self._runners, other_runs=others)
        (folder / layout.RUNNERS).write_bytes(layout.encode(record))
        return self.cluster.watch(folder)

    @abstractmethod
    def drop_caches(self) -> CacheDrop | None:
        """Drop the caches that a runner can reach."""

    def allocated_bytes(self) -> int | None:
        return None  # a device does not report which parts were written

    def filesystem(self) -> str:
        return ""

    def note_files(self) -> None:
        return

    def _stop(self) -> tuple[str, ...]:
        """Remove the runners and their volumes, and wait until they are gone."""
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
        problems = list(self._stop())
        for created in (*self._abandoned,):
            left = self.cluster.remove(created)
            problems += left
            if not left:
                self._journal.note_removed(created)
                self._abandoned.remove(created)
        return tuple(problems)


# Pods of an abandoned run end by themselves, a day after the time that the run asks for.
DEADLINE_S = 24 * 3600
PROGRAMS = ("fio", "timeout", "setsid", "sha256sum", "gzip", "tar", "blockdev")
_FOLDER_USE = 'test -d "$1" && du -s -B1 "$1" | cut -f1 && stat -f -c %T "$1"'
_NO_FIO = "the image needs fio, a shell and GNU coreutils, as Containerfile makes it"


class StorageClassTarget(KubernetesTarget):
    """`storageclass:NAME?size=...`; `asked_s` is the I/O time of all trials of the plan."""

    kind = "jobs"

    def __init__(
        self, target: Target, cluster: OpenKubernetes, *, number: int, asked_s: float
    ) -> None:
        super().__init__(target, cluster, number=number)
        self._deadline_s = round(asked_s * 2 + DEADLINE_S)
        # For each volume with a file system: bytes in use, and its type, as lines.
        self._folder_use: list[list[str]] = []

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        settings = self.cluster.settings
        size = self._request.runner_size(settings)
        if settings.image is None:
            raise LeadlineError(
                errors.TARGET_INVALID,
                "no image is named for the pods that run fio",
                context=[f"target {self.name!r}", "earlier versions of Leadline had a default"],
                hint="begin a new run with --runner-image; `leadline kubernetes image build` makes "
                "an image",
            )
        self.cluster.require(RUN_RULES)
        self._volumes.inspect(footprint, asked=self._request.mode)
        self._volumes.require_node(cores=size.cores, memory_bytes=size.memory_bytes)
        if self._volumes.mode is VolumeMode.BLOCK:
            # A raw device may need user 0, which the strictest level forbids.
            self.cluster.register_security(PodSecurity.BASELINE)
        self._volumes.require_quota(
            cores=size.cores, memory_bytes=size.memory_bytes, claimed_bytes=claimed_bytes
        )

    def _start(self) -> None:
        """Make pods of a normal user, or of root where only root may use a raw device (a runtime
        without `device_ownership_from_security_context`)."""
        block = self._volumes.mode is VolumeMode.BLOCK
        usual = self.cluster.pod_user
        user = (block and self.cluster.device_user) or usual
        shells = self._pods(user)
        if block and user != ROOT and not _usable(shells[0]):
            problems = self._stop()
            if problems:
                raise LeadlineError(errors.KUBERNETES_FAILED, problems[0], context=problems[1:])
            self.cluster.device_user = ROOT
            shells = self._pods(ROOT)
        self._check_image(shells[0])
        path = DEVICE if block else f"{MOUNT}/leadline"
        with ThreadPoolExecutor(max_workers=min(16, len(shells))) as pool:
            list(pool.map(lambda shell: self._volumes.check(shell, path), shells))
        self._location = RemoteVolumes(
            shape=Shape.SPAN if block else Shape.FILES,
            volumes=tuple(RemoteVolume(shell=shell, path=path) for shell in shells),
            folder=SCRATCH,
            sharing=self._request.sharing,
        )

    def _pods(self, user: PodUser) -> list[PodShell]:
        """Make the Job and wait for its pods."""
        return self._run_pods(self._runner_job(user))

    def _runner_job(self, user: PodUser) -> RunnerJob:
        """The request for this target's pods, under a new name that the journal has."""
        name, token = self._note_created()
        return RunnerJob(
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

    def _run_pods(self, asked: RunnerJob) -> list[PodShell]:
        """Create the Job, wait for its pods and record them."""
        connection, settings = self.cluster.connection, self.cluster.settings
        create_job(connection, build_job(asked, settings), self._namespace)
        token = asked.labels[TOKEN]
        pods = await_pods(replace(self._group(token), count=asked.request.count), asked.name)
        self._note_runners(pods, token, asked.claim)
        return [
            PodShell(connection, self._namespace, str(meta.name), str(meta.uid), CONTAINER)
            for meta in (pod.metadata for pod in pods)
            if meta is not None
        ]

    def _note_runners(self, pods: Sequence[Pod], token: str, claim: str) -> None:
        """Record the nodes of the pods and their volumes, for each trial's folder. `claim` is that
        of all pods; empty where each has its own."""
        claims, settings = self._claims(token), self.cluster.settings
        size = self._request.runner_size(settings)
        found = []
        for pod in pods:
            assert pod.metadata is not None
            statuses = (pod.status.containerStatuses if pod.status else None) or ()
            volume = self._volumes.claimed(claims.get(claim or f"{pod.metadata.name}-volume"))
            found.append(
                Runner(
                    kind="pod",
                    name=str(pod.metadata.name),
                    node=(pod.spec.nodeName if pod.spec else None) or "",
                    image=settings.image or "",
                    image_id=statuses[0].imageID if statuses else "",
                    user=user_of(pod),
                    cores=size.cores,
                    memory_bytes=size.memory_bytes,
                    volume=volume,
                )
            )
        self._runners = tuple(found)

    def _check_image(self, shell: PodShell) -> None:
        script = 'for name in "$@"; do command -v "$name" >/dev/null || echo "$name"; done'
        result = run_repeatable(shell, script, *PROGRAMS, bound_s=_SHORT_S)
        if result.status or result.text:
            raise LeadlineError(
                errors.RUNNER_FAILED,
                f"the image {self.cluster.settings.image!r} lacks "
                f"{', '.join(result.text.split()) or result.error_line}",
                hint=_NO_FIO,
            )

    def drop_caches(self) -> CacheDrop | None:
        return None  # a pod may not drop the node's cache; direct I/O bypasses it

    def present(self) -> bool:
        """Whether all volumes are there; reads their file systems with the same connection."""
        block = self._volumes.mode is VolumeMode.BLOCK
        script = 'test -b "$1"' if block else _FOLDER_USE

        def probe(volume: RemoteVolume) -> CommandResult:
            return run_repeatable(volume.shell, script, volume.path, bound_s=_SHORT_S)

        volumes = self.location.volumes
        with ThreadPoolExecutor(max_workers=len(volumes)) as pool:
            results = list(pool.map(probe, volumes))
        self._folder_use = [] if block else [result.text.splitlines() for result in results]
        return all(result.status == 0 for result in results)

    def allocated_bytes(self) -> int | None:
        """The size that `present` read; None for a device, which does not report it."""
        found = [lines[0] for lines in self._folder_use if lines and lines[0].isdigit()]
        return min(map(int, found)) if found and len(found) == len(self._folder_use) else None

    def filesystem(self) -> str:
        """The file system that `present` read."""
        return self._folder_use[0][-1] if self._folder_use and len(self._folder_use[0]) == 2 else ""


def _usable(shell: PodShell) -> bool:
    script = 'test -r "$1" && test -w "$1"'
    return run_repeatable(shell, script, DEVICE, bound_s=_SHORT_S).status == 0
