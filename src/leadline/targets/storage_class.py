"""A Kubernetes StorageClass, seen from pods: volumes that Leadline claims, one for each pod."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from lightkube.resources.core_v1 import Pod

from leadline import errors
from leadline.archive.records import CacheDrop, Runner
from leadline.errors import LeadlineError
from leadline.kubernetes.labels import labels_of
from leadline.kubernetes.permissions import RUN_RULES
from leadline.kubernetes.pods.objects import (
    CONTAINER,
    DEVICE,
    MOUNT,
    ROOT,
    SCRATCH,
    USER,
    PodSecurity,
    RunnerJob,
    job,
)
from leadline.kubernetes.pods.runners import await_pods, create_job
from leadline.kubernetes.pods.shell import PodShell
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.plan.volume_request import VolumeMode
from leadline.runner.ports import RemoteVolume, RemoteVolumes, Shape
from leadline.shell import Said, insist
from leadline.targets.kubernetes_cluster import OpenKubernetes
from leadline.targets.on_kubernetes import OnKubernetes

# The pods of a run that nobody ends, end themselves: a day behind what the run asks for.
_DEADLINE_S = 24 * 3600
_SHORT_S = 30.0
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
        create_job(connection, job(asked, settings), self._namespace)
        pods = await_pods(
            connection,
            self._namespace,
            name,
            token,
            self._request.count,
            bound_s=settings.ready_s,
            go_on=self.cluster.go_on,
        )
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
        said = insist(shell, script, *PROGRAMS, bound_s=_SHORT_S)
        if said.status or said.text:
            raise LeadlineError(
                errors.RUNNER_FAILED,
                f"the image {self.cluster.settings.image!r} lacks "
                f"{', '.join(said.text.split()) or said.complaint}",
                hint=_NO_FIO,
            )

    def drop_caches(self) -> CacheDrop | None:
        return None  # a pod may not; direct I/O passes the node's own

    def present(self) -> bool:
        """Sees also what else is to be told before a trial: each command costs a connection."""
        block = self._volumes.mode is VolumeMode.BLOCK
        script = 'test -b "$1"' if block else _FOLDER_TOLD

        def look(one: RemoteVolume) -> Said:
            return insist(one.shell, script, one.path, bound_s=_SHORT_S)

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
    return insist(shell, script, DEVICE, bound_s=_SHORT_S).status == 0
