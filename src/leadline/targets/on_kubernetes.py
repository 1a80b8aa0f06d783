"""What targets on a StorageClass have in common, whether pods or virtual machines do their I/O."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from lightkube.resources.core_v1 import PersistentVolumeClaim

from leadline import errors
from leadline.archive import layout
from leadline.archive.records import CacheDrop, Created, Layer, RoundTrip, Runner, Runners
from leadline.errors import LeadlineError
from leadline.kubernetes.labels import dns_label, new_token
from leadline.kubernetes.pods.runners import claims_of
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.plan.volume_request import Lifetime, VolumeMode
from leadline.runner.ports import Journal, RemoteVolumes, Watch
from leadline.shell import insist
from leadline.targets.class_volumes import ClassVolumes
from leadline.targets.cluster import SETTLE_S
from leadline.targets.kubernetes_cluster import SCHEME, OpenKubernetes
from leadline.units import format_size

_SHORT_S = 60.0


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
            insist(one.shell, test, one.path, bound_s=_SHORT_S).status == 0
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
