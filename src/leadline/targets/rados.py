"""Objects of our own in a pool, all in a RADOS namespace of the run's own."""

from __future__ import annotations

import secrets

from leadline.archive.records import Created, Layer, LayerKind
from leadline.ceph.access import CephAccess
from leadline.engines.rados_bench import cleanup_command
from leadline.errors import LeadlineError
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.runner.ports import Journal, RadosPool
from leadline.targets.cluster import OpenCluster
from leadline.targets.on_cluster import InPool, asked
from leadline.targets.pools import find_pool, require_application, require_room

_REMOVED_WITHIN_S = 300.0


class RadosTarget(InPool):
    """`rados:POOL`."""

    def __init__(self, target: Target, cluster: OpenCluster) -> None:
        super().__init__(target, cluster)
        self._objects = ""

    @property
    def location(self) -> RadosPool:
        assert self._objects, "acquire comes first"
        return RadosPool(pool=self._pool, objects=self._objects, access=self.cluster.access)

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        where = [f"target {self.name!r}"]
        self.cluster.refuse_unfit()
        require_application(find_pool(self.cluster, self._pool, where), "rados", where)
        require_room(self.cluster, self._pool, footprint, claimed_bytes, where)

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        token = secrets.token_hex(8)
        objects = f"leadline-{run}-{token}"
        self._note(f"rados:{self._pool}/{objects}", token, journal)
        self._objects = objects

    def layers(self) -> tuple[Layer, ...]:
        return (Layer(kind=LayerKind.POOL, name=self._pool),)

    def allocated_bytes(self) -> int | None:
        return None  # told of a pool only, which others use too

    def _remove(self, created: Created) -> tuple[str, ...]:
        return remove_objects(self.cluster.access, created)


def remove_objects(access: CephAccess, created: Created) -> tuple[str, ...]:
    """Remove the objects of a run; what could not be done as sentences."""
    pool, _, objects = created.path.removeprefix("rados:").partition("/")
    location = RadosPool(pool=pool, objects=objects, access=access)
    try:
        asked(cleanup_command(location), "rados", "removing objects", _REMOVED_WITHIN_S)
    except LeadlineError as error:
        said = "; ".join([error.fact, *error.context[-1:]])
        return (f"{created.path} could not be removed: {said}",)
    return ()
