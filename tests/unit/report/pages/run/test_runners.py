"""What did the I/O of a run in a Kubernetes cluster, on its page."""

from __future__ import annotations

import json
from pathlib import Path

from archive_builder import make_run, small_plan

from leadline.analysis.figures import figures
from leadline.archive.reader import Run
from leadline.archive.records import ClaimedVolume, Runner
from leadline.plan.kubernetes_cluster import KubernetesCluster
from leadline.plan.models import Cluster, Plan
from leadline.report.pages.run.page import run_document
from leadline.report.render import markdown


def _plan() -> Plan:
    plan = small_plan(["disk", "memory"])
    cluster = Cluster(name="east", kubernetes=KubernetesCluster())
    targets = [
        one.model_copy(update={"url": f"storageclass:{one.name}", "cluster": "east"})
        for one in plan.targets
    ]
    return plan.model_copy(update={"clusters": (cluster,), "targets": tuple(targets)})


def _runner(target: str, node: str, kind: str = "pod") -> Runner:
    return Runner(
        kind="pod" if kind == "pod" else "vm",
        name=f"{target}-{node}",
        node=node,
        image="registry.example/runner:1",
        image_id="registry.example/runner@sha256:0123456789abcdef0123456789abcdef",
        user=1000 if kind == "pod" else None,
        cores=0.5,
        memory_bytes=1 << 30,
        volume=ClaimedVolume(
            storage_class=target,
            mode="block",
            size_bytes=20 << 30,
            volume=f"pvc-{node}",
            driver="rbd.csi.ceph.com",
        ),
    )


def _page(tmp_path: Path) -> str:
    def runners(target: str, block: int) -> tuple[Runner, ...]:
        if target == "memory":
            return (_runner(target, f"node-{block}", "vm"),)
        return (_runner(target, "node-a"), _runner(target, "node-b"))

    run = make_run(tmp_path, _plan(), runners_of=runners)
    return markdown.render(run_document(run, figures(run, ()), ()))


def test_one_row_for_runners_that_were_alike(tmp_path: Path) -> None:
    page = _page(tmp_path)
    rows = [line for line in page.splitlines() if "registry.example/runner:1" in line]
    assert len(rows) == 2
    disk = next(row for row in rows if "| disk |" in row)
    assert "2 x pod of user 1000" in disk
    assert "node-a and node-b" in disk or "node-a, node-b" in disk
    assert "2 of 20 GiB, block (disk, driver rbd.csi.ceph.com)" in disk
    assert "sha256:0123456789ab" in disk
    # A fresh machine for each repeat is one at a time, on whichever node.
    memory = next(row for row in rows if "| memory |" in row)
    assert "virtual machine" in memory
    assert "3 x" not in memory
    assert all(f"node-{block}" in memory for block in range(3))


def test_runners_of_one_volume_share_it(tmp_path: Path) -> None:
    first, second = (_runner("disk", node) for node in ("node-a", "node-b"))
    second = second.model_copy(update={"volume": first.volume})
    run = make_run(tmp_path, _plan(), runners_of=lambda target, block: (first, second))
    page = markdown.render(run_document(run, figures(run, ()), ()))
    assert "1 of 20 GiB, block, shared by 2 runners (disk, driver rbd.csi.ceph.com)" in page
    assert "each with its own volume" not in page


def test_a_machine_that_only_controls_is_named_so(tmp_path: Path) -> None:
    page = _page(tmp_path)
    assert "| controlled from | bench-1 |" in page
    assert "Block devices of the host" not in page
    assert " on east " in page.splitlines()[2]
    assert "Ceph" not in page[page.index("Targets and their devices") :].split("\n\n")[1]


def test_a_run_of_this_machine_has_no_runners(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    page = markdown.render(run_document(run, figures(run, ()), ()))
    assert "Runners" not in page
    assert "| host | bench-1 |" in page


def test_other_runs_in_the_cluster_are_named(tmp_path: Path) -> None:
    run = make_run(tmp_path, _plan(), runners_of=lambda target, block: (_runner(target, "node-a"),))
    path = next(iter(run.trials)).folder / "runners.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"other_runs": ["perf-20261125"]}))
    run = Run(run.path)
    page = markdown.render(run_document(run, figures(run, ()), ()))
    assert "Other runs at work in the cluster during 1 trial: perf-20261125" in page
