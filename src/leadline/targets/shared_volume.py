"""The target `storageclass:` whose pods use one volume: `sharing=`, or `access=rox`.

A Job without pods owns the claims and the Jobs with pods. A read-only volume (`access=rox`) is a
copy: a pod fills a volume, ends, and the pods that read get a ReadOnlyMany clone of its claim.
"""

from __future__ import annotations

import time
from dataclasses import replace

from lightkube.resources.batch_v1 import Job

from leadline import errors
from leadline.connect.kubernetes.client import poll
from leadline.connect.kubernetes.lifecycle import LifecycleObjects, create_owner
from leadline.connect.kubernetes.objects import TOKEN
from leadline.connect.kubernetes.permissions import SHARED_RULES
from leadline.connect.kubernetes.pod_shell import PodShell
from leadline.connect.kubernetes.pods import PodUser, pods_of
from leadline.connect.shell import Shell, run_repeatable
from leadline.errors import LeadlineError
from leadline.plan.footprint import Footprint
from leadline.plan.volume_request import Access, Spread
from leadline.runner.ports import RemoteVolume
from leadline.targets.kubernetes import StorageClassTarget

_DIGEST_S = 60.0
# The first MiB of the device, or of each file: enough to know a copy from an empty volume.
_DIGEST = """
if [ -d "$1" ]; then cd "$1" && set -- * && [ -e "$1" ] || exit 1; fi
for file in "$@"; do head -c 1048576 "$file" | sha256sum || exit 1; done
"""


class SharedVolumeTarget(StorageClassTarget):
    """`storageclass:NAME?access=rwx&sharing=own-files&count=4`."""

    # The owner of the claims, with the request for the pods. Set by `_pods`.
    _objects: LifecycleObjects | None = None

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        self.cluster.require(SHARED_RULES)
        super().inspect(footprint, prefill=prefill, claimed_bytes=claimed_bytes)

    @property
    def _is_copied(self) -> bool:
        return self._request.access is Access.ROX

    def _pods(self, user: PodUser) -> list[PodShell]:
        """Make the claim and the pods that write it: all, or one whose volume is then copied."""
        wanted = self._runner_job(user)
        connection, settings = self.cluster.connection, self.cluster.settings
        owner = create_owner(connection, wanted, settings)
        wanted = replace(wanted, owner=owner)
        if self._is_copied:
            writer = replace(wanted.request, access=Access.RWO, count=1, spread=Spread.NONE)
            wanted = replace(wanted, request=writer)
        self._objects = LifecycleObjects(
            connection=connection, settings=settings, runner=wanted, owner=owner
        )
        claim = f"{wanted.name}-volume"
        self._objects.create_claim(claim, {}, wanted.size_bytes)
        return self._run_pods(replace(wanted, name=f"{wanted.name}-pods", claim=claim))

    def settle(self, written_at_s: float) -> None:
        """Replace the writer of a read-only volume by the pods that read its copy."""
        if self._is_copied:
            self._replace_writer()
            written_at_s = time.monotonic()
        super().settle(written_at_s)

    def _replace_writer(self) -> None:
        """Raise LeadlineError(`class-unsuitable`) where the copy is none, and as `acquire`."""
        assert self._objects is not None, "acquire comes first"
        objects, written = self._objects, self._objects.runner
        (writer,) = self.location.volumes
        expected = self._digest(writer.shell, writer.path)
        self._end_writer(objects)
        copy = f"{written.name}-copy"
        reading = replace(objects, runner=replace(written, request=self._request))
        source = {"kind": "PersistentVolumeClaim", "name": f"{written.name}-volume"}
        reading.create_claim(copy, {}, written.size_bytes, source)
        shells = self._run_pods(
            replace(reading.runner, name=f"{written.name}-readers", claim=copy, read_only=True)
        )
        volumes = [RemoteVolume(shell=shell, path=writer.path) for shell in shells]
        for volume in volumes:
            if not expected or self._digest(volume.shell, volume.path) != expected:
                raise LeadlineError(
                    errors.CLASS_UNSUITABLE,
                    "the ReadOnlyMany volume does not have the data that was written for it",
                    context=[
                        f"target {self.name!r}, {volume.shell.name}",
                        f"its claim {copy!r} is to be a clone of {source['name']!r}",
                    ],
                    hint="the provisioner ignores `dataSource`: use a CSI driver that clones "
                    "volumes, or access=rwx&sharing=same-files with read patterns",
                )
        self._location = replace(self.location, volumes=tuple(volumes))

    def _end_writer(self, objects: LifecycleObjects) -> None:
        """Delete the writer's Job and wait for its pod: a mounted file system is no clean copy."""
        runner = objects.runner
        objects.delete(Job, "jobs.batch", f"{runner.name}-pods")
        for _ in poll(self.cluster.settings.ready_s, self.cluster.go_on):
            if not pods_of(objects.connection, runner.namespace, runner.labels[TOKEN]):
                return
        raise LeadlineError(
            errors.KUBERNETES_FAILED,
            f"the pod that wrote the volume of {self.name!r} did not end",
            hint="look at its node; `ready:` of the cluster in the plan sets how long to wait",
        )

    def _digest(self, shell: Shell, path: str) -> str:
        """SHA-256 of the beginnings of the data; empty where there is none."""
        result = run_repeatable(shell, _DIGEST, path, bound_s=_DIGEST_S)
        return "" if result.status else result.text
