"""Objects for fio's rados engine: which names they have, and what is refused."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from leadline import errors
from leadline.archive.records import Created
from leadline.connect.ceph import CephAccess
from leadline.errors import LeadlineError
from leadline.inventory.ceph.model import PoolType
from leadline.plan.footprint import OBJECT_BYTES, Footprint
from leadline.plan.models import Cluster, Target
from leadline.targets import rados_objects as module
from leadline.targets.leftovers import is_own
from leadline.targets.rados_objects import RadosObjectsTarget, remove_prefixed
from tests.unit.targets.journals import OTHER, TOKEN, plan_with

ACCESS = CephAccess(conf=Path("ceph.conf"), name="bench")
SIZE = 2 * OBJECT_BYTES
NEEDED = Footprint(
    files={"leadline.0.dat": SIZE, "leadline.1.dat": OBJECT_BYTES, "leadline.c2.0.dat": SIZE},
    span=3 * SIZE,
    job_file_bytes=0,
    writes=True,
    clients=2,
)


class Objects:
    """A connection whose cluster has these objects; the tests of real clusters are in
    tests/real/test_rados_objects.py."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {"data.0": 1}
        self.fails = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        return

    def _may_fail(self) -> None:
        if self.fails:
            raise OSError(self.fails, os.strerror(self.fails))

    def overwrite(self, pool: str, name: str) -> None:
        self._may_fail()
        self.sizes[name] = 8

    def object_sizes(self, pool: str, names: Sequence[str]) -> tuple[int | None, ...]:
        self._may_fail()
        return tuple(map(self.sizes.get, names))

    def remove_objects(self, pool: str, names: Sequence[str]) -> None:
        self._may_fail()
        for name in names:
            self.sizes.pop(name, None)


class Journal:
    def __init__(self) -> None:
        self.made: list[Created] = []
        self.removed: list[Created] = []

    def note_created(self, entry: Created) -> None:
        self.made.append(entry)

    def note_removed(self, entry: Created) -> None:
        self.removed.append(entry)


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Objects:
    made = Objects()
    monkeypatch.setattr(module, "Connection", lambda access, timeout_s: made)
    return made


@pytest.fixture
def target(objects: Objects) -> RadosObjectsTarget:
    def nothing(*_: object) -> None:
        return

    cluster: Any = SimpleNamespace(
        name="c",
        access=ACCESS,
        connection=objects,
        temporary=False,
        silent=False,
        client=lambda settings: ACCESS,
        use_journal=nothing,
        require_pool=nothing,
        settle=nothing,
        restore=lambda: (),
    )
    return RadosObjectsTarget(Target(name="t", url="rados:p?engine=fio", cluster="c"), cluster)


def write(objects: Objects, prefix: str) -> None:
    """Do what the prefill does."""
    for job, count in (("0", 2), ("1", 1), ("c2.0", 2)):
        for number in range(count):
            objects.sizes[f"{prefix}.{job}.{number}"] = OBJECT_BYTES


def test_the_journal_names_all_objects_before_they_are_made(
    target: RadosObjectsTarget, objects: Objects
) -> None:
    journal = Journal()
    target.acquire(NEEDED, "run", journal)
    prefix = target.location.prefix
    (made,) = journal.made
    assert made.path == f"rados-objects:p/{prefix}/2x2x2"
    here = Target(name="t", url="rados:p?engine=fio", cluster="c")
    plan = plan_with(here, clusters=(Cluster(name="c", ceph_conf="x"),))
    assert is_own(plan, "run", made)
    write(objects, prefix)
    target.settle(0.0)
    assert target.present()
    assert target.allocated_bytes() == 5 * OBJECT_BYTES
    # As `clean` does after a kill, by the journal alone.
    assert remove_prefixed(ACCESS, made, "run") == ()
    assert objects.sizes == {"data.0": 1}
    assert target.release() == ()
    assert journal.removed == journal.made


def test_objects_of_another_token_are_kept(objects: Objects) -> None:
    own = f"leadline-run-{TOKEN}"
    objects.sizes[f"{own}.0.0"] = 1
    for path, token in (
        ("data/1x1x1", "x"),
        ("data/1x1x1", TOKEN),
        (f"{own}/1x1x1", OTHER),
        (f"leadline-other-{TOKEN}/1x1x1", TOKEN),
        (f"{own}/1x1x1/1", TOKEN),
    ):
        foreign = Created(target="t", cluster="c", path=f"rados-objects:p/{path}", token=token)
        (sentence,) = remove_prefixed(ACCESS, foreign, "run")
        assert "was kept" in sentence
    assert objects.sizes == {"data.0": 1, f"{own}.0.0": 1}


def test_objects_that_are_written_again_stay_in_the_journal(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Created(
        target="t", cluster="c", path=f"rados-objects:p/leadline-r-{TOKEN}/1x1x1", token=TOKEN
    )
    objects.sizes[f"leadline-r-{TOKEN}.0.0"] = OBJECT_BYTES
    monkeypatch.setattr(objects, "remove_objects", lambda pool, names: None)
    (sentence,) = remove_prefixed(ACCESS, made, "r")
    assert "was written again while it was removed" in sentence
    monkeypatch.undo()
    monkeypatch.setattr(module, "Connection", lambda access, timeout_s: objects)
    assert remove_prefixed(ACCESS, made, "r") == ()


def test_missing_data_is_found_after_the_prefill_and_before_a_trial(
    target: RadosObjectsTarget, objects: Objects
) -> None:
    target.acquire(NEEDED, "run", Journal())
    prefix = target.location.prefix
    write(objects, prefix)
    objects.sizes[f"{prefix}.1.0"] = 4096
    with pytest.raises(LeadlineError, match="4 of 5 objects in the pool 'p'") as caught:
        target.settle(0.0)
    assert caught.value.kind is errors.PREFILL_FAILED
    write(objects, prefix)
    target.settle(0.0)
    del objects.sizes[f"{prefix}.c2.0.1"]
    assert not target.present()


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (errno.EPERM, errors.CEPH_DENIED, "osd 'allow rwx pool=p', without a namespace"),
        (errno.EOPNOTSUPP, errors.POOL_UNSUITABLE, "allow_ec_overwrites"),
        (errno.ENOENT, errors.POOL_MISSING, "is gone"),
        (errno.ETIMEDOUT, errors.CEPH_FAILED, "a full pool"),
    ],
)
def test_io_that_fio_would_count_although_it_fails_is_refused(
    target: RadosObjectsTarget, objects: Objects, number: int, kind: errors.ErrorKind, words: str
) -> None:
    journal = Journal()
    objects.fails = number
    with pytest.raises(LeadlineError) as caught:
        target.acquire(NEEDED, "run", journal)
    assert caught.value.kind is kind
    assert words in f"{caught.value.fact} {caught.value.hint}"
    # Without the right to write nothing was made, and nothing can be removed.
    denied = kind is errors.CEPH_DENIED
    assert journal.removed == (journal.made if denied else [])
    assert bool(target.release()) is not denied


def test_an_erasure_coded_pool_without_overwrites_is_refused(
    target: RadosObjectsTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster: Any = target.cluster
    pool: Any = SimpleNamespace(
        name="p", type=PoolType.ERASURE, overwrites=False, applications=("rados",)
    )
    cluster.refuse_unfit = lambda: None
    monkeypatch.setattr(module, "find_pool", lambda *_: pool)
    with pytest.raises(LeadlineError, match="does not allow overwrites"):
        target.inspect(NEEDED, prefill=True)
