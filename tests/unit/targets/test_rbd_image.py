"""An image that the user names, and another one that gets its name; real ones are in tests/real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from leadline import errors
from leadline.archive.records import Created
from leadline.connect.ceph import CephAccess
from leadline.errors import LeadlineError
from leadline.inventory.ceph.model import Pool, PoolType
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.targets import ceph
from leadline.targets.ceph import RbdTarget
from leadline.targets.ceph_cluster import OpenCluster

SPAN = Footprint(files={}, span=1 << 20, job_file_bytes=0, writes=True)


class _Cluster:
    """A cluster with one pool; `image_id` is that of the image at the moment."""

    name, lab, access, silent = "c", None, CephAccess(conf=Path("ceph.conf")), False

    def __init__(self) -> None:
        self.image_id = "aaa1"

    def refuse_unfit(self) -> None: ...
    def use_journal(self, journal: object) -> None: ...
    def require_pool(self, name: str) -> None: ...

    def client(self, settings: object) -> CephAccess:
        return self.access


class _NoJournal:
    def note_created(self, created: Created) -> None: ...
    def note_removed(self, created: Created) -> None: ...


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> _Cluster:
    made = _Cluster()

    def ask(access: Any, program: str, arguments: tuple[str, ...], *rest: Any) -> str:
        assert arguments[0] == "info", "nothing is written"
        return json.dumps({"size": 1 << 30, "id": made.image_id, "order": 22})

    pool = Pool.model_construct(name="p", type=PoolType.REPLICATED, applications=("rbd",))
    monkeypatch.setattr(ceph, "ask", ask)
    monkeypatch.setattr(ceph, "find_pool", lambda *words: pool)
    return made


def target(cluster: _Cluster) -> RbdTarget:
    inspected = RbdTarget(
        Target(name="t", url="rbd:p/image"), cast(OpenCluster, cluster), ("rbd:p/image",)
    )
    inspected.inspect(SPAN, prefill=True)
    return inspected


def test_another_image_than_the_inspected_one_is_not_acquired(cluster: _Cluster) -> None:
    inspected = target(cluster)
    cluster.image_id = "bbb2"
    with pytest.raises(LeadlineError) as caught:
        inspected.acquire(SPAN, "run", _NoJournal())
    assert caught.value.kind is errors.DEVICE_EXCHANGED
    assert "its id was aaa1, it is bbb2 now" in str(caught.value)


def test_another_image_of_the_name_is_not_written_after_the_acquisition(cluster: _Cluster) -> None:
    acquired = target(cluster)
    acquired.acquire(SPAN, "run", _NoJournal())
    acquired.look_again()
    assert acquired.present()
    cluster.image_id = "bbb2"
    for look in (acquired.look_again, acquired.present):
        with pytest.raises(LeadlineError) as caught:
            look()
        assert caught.value.kind is errors.DEVICE_EXCHANGED
