"""The configurations that the plan of an archive names: a kubeconfig runs programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline import errors
from leadline.errors import LeadlineError
from leadline.plan.kubernetes_cluster import KubernetesCluster
from leadline.plan.models import Cluster
from leadline.targets.open import require_own_configurations
from tests.unit.targets.journals import plan_with


def ceph(conf: Path, keyring: Path | None = None) -> Cluster:
    return Cluster(name="c", ceph_conf=str(conf), keyring=str(keyring) if keyring else None)


def kubernetes(kubeconfig: Path | None) -> Cluster:
    settings = KubernetesCluster(kubeconfig=str(kubeconfig) if kubeconfig else None)
    return Cluster(name="k", kubernetes=settings)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    archive = tmp_path / "runs" / "perf-1"
    archive.mkdir(parents=True)
    return archive


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = tmp_path / "etc"
    folder.mkdir(mode=0o755)
    path = folder / "mine"
    path.touch(mode=0o600)
    return path


def refused(cluster: Cluster, archive: Path) -> str:
    with pytest.raises(LeadlineError) as caught:
        require_own_configurations(plan_with(clusters=(cluster,)), archive)
    assert caught.value.kind is errors.RUN_NOT_RESUMABLE
    return caught.value.fact


def test_a_file_of_this_user_is_used(archive: Path, mine: Path) -> None:
    for cluster in (ceph(mine, mine), kubernetes(mine), kubernetes(None)):
        require_own_configurations(plan_with(clusters=(cluster,)), archive)


def test_a_file_in_the_archive_or_next_to_it_is_not(archive: Path, mine: Path) -> None:
    for folder in (archive, archive.parent, archive.parent / "perf-2"):
        folder.mkdir(exist_ok=True)
        inside = folder / "conf"
        inside.touch(mode=0o600)
        assert "in the folder of the runs" in refused(ceph(inside), archive)
        assert "in the folder of the runs" in refused(ceph(mine, inside), archive)
        assert "in the folder of the runs" in refused(kubernetes(inside), archive)
        inside.unlink()


def test_neither_by_a_link(archive: Path, mine: Path) -> None:
    inside = archive / "conf"
    inside.touch(mode=0o600)
    link = mine.with_name("link")
    link.symlink_to(inside)
    assert "in the folder of the runs" in refused(kubernetes(link), archive)
    outwards = archive / "link"
    outwards.symlink_to(mine)
    assert "in the folder of the runs" in refused(kubernetes(outwards), archive)


def test_a_file_that_others_can_change_is_not_used(archive: Path, mine: Path) -> None:
    mine.chmod(0o666)
    assert "another user can change" in refused(ceph(mine), archive)
    mine.chmod(0o600)
    mine.parent.chmod(0o777)
    assert "another user can change" in refused(kubernetes(mine), archive)


def test_a_link_that_others_can_exchange_is_not_followed(archive: Path, mine: Path) -> None:
    shared = mine.parent.parent / "shared"
    shared.mkdir()
    link = shared / "link"
    link.symlink_to(mine)
    require_own_configurations(plan_with(clusters=(kubernetes(link),)), archive)
    shared.chmod(0o777)
    assert "another user can change" in refused(kubernetes(link), archive)


def test_a_file_that_is_missing_is_not_used(archive: Path, mine: Path) -> None:
    assert "cannot be checked" in refused(ceph(mine.with_name("absent")), archive)


def test_only_the_clusters_that_are_needed_count(archive: Path, mine: Path) -> None:
    inside = archive / "conf"
    inside.touch(mode=0o600)
    plan = plan_with(clusters=(ceph(mine), kubernetes(inside)))
    require_own_configurations(plan, archive, "c")
    with pytest.raises(LeadlineError):
        require_own_configurations(plan, archive, "c", "k")
