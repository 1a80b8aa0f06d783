"""Kubernetes' dumps in archives: what a comparison and a report tell of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from archive_builder import make_run, small_plan

from leadline.analysis.comparison import Side
from leadline.analysis.explain.conditions import conditions
from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.audit.gathering import run_evidence
from leadline.inventory.kubernetes.folder import read_folder
from leadline.plan.kubernetes_cluster import KubernetesCluster
from leadline.plan.models import Cluster
from leadline.report.document import Section, Table
from leadline.report.pages.run.systems import system_sections
from tests.conftest import RECORDED
from tests.unit.inventory.kubernetes.conftest import CLUSTERS


def measured(folder: Path, name: str, storage_class: str, ceph: str = "") -> Run:
    """A run on a StorageClass of one of the clusters, with the dumps of Ceph where they are
    named."""
    plan = small_plan(["volume"], repeats=1)
    targets = tuple(
        one.model_copy(update={"url": f"storageclass:{storage_class}?size=1Gi", "cluster": "k"})
        for one in plan.targets
    )
    cluster = Cluster(name="k", kubernetes=KubernetesCluster())
    plan = plan.model_copy(update={"targets": targets, "clusters": (cluster,)})
    run = make_run(folder, plan, run_id=f"{name}-{storage_class}")
    dumps: dict[str, bytes] = dict(read_folder(CLUSTERS / name).dumps)
    if ceph:
        paths = (RECORDED.parent / ceph).glob("*.json")
        dumps |= {path.name: path.read_bytes() for path in paths}
    write(run, dumps)
    return Run(run.path)


def write(run: Run, dumps: Mapping[str, bytes]) -> None:
    for moment in ("start", "end"):
        inside = run.path / layout.system_folder("session", moment, 0)
        inside.mkdir(parents=True)
        for name, content in dumps.items():
            (inside / name).write_bytes(content)


def side(run: Run) -> Side:
    return Side(name=run.id, run=run, targets={"volume": "volume"}, figures=(), findings=())


def test_a_run_knows_its_kubernetes_cluster(tmp_path: Path) -> None:
    run = measured(tmp_path, "longhorn", "longhorn")
    found = run.kubernetes("start", "k")
    assert found is not None
    assert found.storage_class("longhorn") is not None
    assert run.cluster("start", "k") is None
    joined = measured(tmp_path, "odf-multi-zone", "ocs-storagecluster-ceph-rbd", "ceph-multi-az")
    ceph = joined.cluster("end", "k")
    assert ceph is not None
    assert ceph.release == "pacific"
    assert run_evidence(run).cells


def test_two_runs_differ_in_what_is_behind_their_classes(tmp_path: Path) -> None:
    name = "ocs-storagecluster-ceph-rbd"
    base = measured(tmp_path, "odf-single-zone", name)
    candidate = measured(tmp_path, "odf-multi-zone", name)
    found = conditions(side(base), side(candidate), ["volume"], ())
    told = {one.path: one for one in found.differences}
    assert told["odf.failure_domain"].candidate.startswith("zone: ")
    assert told["pools.volume.failure_domain"].target == "volume"
    assert told["storage_classes.volume.read_affinity"].baseline == "off"
    assert "targets.volume.url" not in told


def test_two_classes_of_one_cluster_are_not_a_difference_of_targets(tmp_path: Path) -> None:
    base = measured(tmp_path, "longhorn", "longhorn")
    candidate = measured(tmp_path, "longhorn", "longhorn-v2")
    found = conditions(side(base), side(candidate), ["volume"], ())
    told = {one.path: (one.baseline, one.candidate) for one in found.differences}
    assert told["storage_classes.volume.data_engine"] == ("v1", "v2")
    assert "targets.volume.url" not in told
    assert "the same Kubernetes cluster" in found.identical


def test_the_pool_behind_a_class_is_found_in_cephs_own_inventory(tmp_path: Path) -> None:
    """Of a pool that the recorded cluster has, its facts are Ceph's and not Rook's."""
    runs = [
        measured(tmp_path / str(n), name, "ocs-storagecluster-ceph-rbd", ceph)
        for n, (name, ceph) in enumerate(
            [("odf-single-zone", "ceph-single-az"), ("odf-multi-zone", "ceph-multi-az")]
        )
    ]
    for run in runs:
        inside = run.path / layout.system_folder("session", "start", 0)
        path = inside / "storageclasses.json"
        path.write_text(path.read_text().replace("ocs-storagecluster-cephblockpool", "rbd_r3"))
    found = conditions(side(runs[0]), side(runs[1]), ["volume"], ())
    told = {one.path: one for one in found.differences}
    assert told["pools.volume.failure_domain"].baseline == "rack"
    assert told["pools.volume.failure_domain"].candidate == "zone"
    assert "topology.crush_levels" in told


def test_the_report_tells_of_the_cluster(tmp_path: Path) -> None:
    (section,) = system_sections(measured(tmp_path, "mayastor-2-cores", "mayastor"))
    assert section.heading == "Cluster k"
    known = next(block for block in section.blocks if isinstance(block, Table))
    assert known.rows[0][0].text == "system"
    assert "v1.31.2" in known.rows[0][1].text
    assert "3 nodes in 1 zone" in known.rows[0][1].text
    headings = [one.heading for one in section.sections]
    assert {"StorageClasses", "OpenEBS Mayastor"} <= set(headings)
    anchors = list(_anchors(section))
    assert len(anchors) == len(set(anchors))


def _anchors(section: Section) -> list[str]:
    return [section.id, *(anchor for one in section.sections for anchor in _anchors(one))]
