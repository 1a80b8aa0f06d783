"""What `leadline plan --from-cluster` makes of a cluster, without one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.inventory.kubernetes.objects import dump_of
from leadline.inventory.kubernetes.reading import kubernetes_inventory
from leadline.plan.loader import Overrides, load_plan
from leadline.plan.volume_request import GIB, RunnerKind, VolumeMode
from leadline.planning.draft import (
    PREFILL_BPS,
    Draft,
    DraftRequest,
    Load,
    Published,
    Quota,
    Survey,
    draft,
    estimate_cost,
    sum_costs,
)
from leadline.planning.text import plan_text
from tests.hostile_texts import HIDDEN, TEXTS

Manifest = dict[str, Any]
LOAD = Load(trials=12, io_s=90.0, span_bytes=GIB, files_bytes=2 * GIB, prefill=True)
CSI = "rbd.csi.ceph.com"


def storage_class(name: str, provisioner: str = CSI, **fields: Any) -> Manifest:
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": metadata,
        "provisioner": provisioner,
        "parameters": {"pool": name},
        **fields,
    }


def node(name: str, cpu: str = "16", memory: str = "64Gi", **spec: Any) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def csi_node(name: str, *drivers: str) -> Manifest:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {"drivers": [{"name": one, "nodeID": name} for one in drivers]},
    }


def seen(
    classes: list[Manifest], nodes: list[Manifest] | None = None, drivers: tuple[str, ...] = (CSI,)
) -> Survey:
    nodes = [node("a"), node("b")] if nodes is None else nodes
    csi = [csi_node(one["metadata"]["name"], *drivers) for one in nodes]
    dumps = {"storageclasses.json": classes, "nodes.json": nodes, "csinodes.json": csi}
    inventory = kubernetes_inventory({name: dump_of(items) for name, items in dumps.items()})
    return Survey(inventory=inventory, kubevirt=True, patches_volumes=True)


def left(found: Draft) -> dict[str, str]:
    return {one.name: one.reason for one in found.left_out}


@pytest.mark.parametrize(
    ("provisioner", "reason"),
    [
        ("kubernetes.io/no-provisioner", "has no provisioner"),
        ("kubernetes.io/aws-ebs", "use a class of ebs.csi.aws.com"),
        ("kubernetes.io/glusterfs", "it was removed"),
        ("openshift-storage.noobaa.io/obc", "object buckets"),
        ("rook-ceph.ceph.rook.io/bucket", "object buckets"),
        ("absent.csi.example.com", "no node has its CSI driver absent.csi.example.com"),
    ],
)
def test_what_makes_no_volumes_is_left_out_with_the_reason(provisioner: str, reason: str) -> None:
    found = draft(seen([storage_class("odd", provisioner)]), DraftRequest(), LOAD, frozenset())
    assert found.targets == ()
    assert reason in left(found)["odd"]


def test_a_class_that_is_another_by_a_new_name_is_left_out_and_the_default_stays() -> None:
    default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    one = storage_class("aaa", parameters={"pool": "p"})
    same = storage_class("zzz", parameters={"pool": "p"}, metadata=default, reclaimPolicy="Retain")
    other = storage_class("other", parameters={"pool": "q"})
    mounted = storage_class("mounted", parameters={"pool": "p"}, mountOptions=["discard"])
    found = draft(seen([one, same, other, mounted]), DraftRequest(), LOAD, frozenset())
    assert [target.name for target in found.targets] == ["zzz", "mounted", "other"]
    assert left(found) == {
        "aaa": "differs from 'zzz' only by name: the same provisioner and parameters"
    }


def test_a_class_that_keeps_volumes_needs_the_right_to_let_them_go() -> None:
    survey = seen([storage_class("kept", reclaimPolicy="Retain")])
    assert draft(survey, DraftRequest(), LOAD, frozenset()).targets
    refused = draft(replace(survey, patches_volumes=False), DraftRequest(), LOAD, frozenset())
    assert "may not patch persistentvolumes" in left(refused)["kept"]
    unknown = draft(replace(survey, patches_volumes=None), DraftRequest(), LOAD, frozenset())
    assert unknown.targets, "the run asks again"


def test_folders_are_used_as_such_and_give_no_block_devices() -> None:
    survey = seen([storage_class("files", "cephfs.csi.ceph.com")], drivers=("cephfs.csi.ceph.com",))
    folders = frozenset({"files"})
    (target,) = draft(survey, DraftRequest(), LOAD, folders).targets
    assert target.mode is VolumeMode.FILESYSTEM
    assert "mode=filesystem" in target.url
    block = draft(survey, DraftRequest(mode=VolumeMode.BLOCK), LOAD, folders)
    assert "raw block devices were requested" in left(block)["files"]
    vm = draft(survey, DraftRequest(runner=RunnerKind.VM), LOAD, folders)
    assert "a virtual machine takes its data disk as a block device" in left(vm)["files"]


def test_virtual_machines_need_kubevirt_unless_it_is_unknown() -> None:
    survey = seen([storage_class("rbd")])
    request = DraftRequest(runner=RunnerKind.VM)
    assert draft(survey, request, LOAD, frozenset()).targets[0].url.endswith("runner=vm&vm=small")
    without = draft(replace(survey, kubevirt=False), request, LOAD, frozenset())
    assert "has no KubeVirt" in left(without)["rbd"]
    assert draft(replace(survey, kubevirt=None), request, LOAD, frozenset()).targets


def test_a_provisioner_that_is_no_csi_driver_is_unproven_not_left_out() -> None:
    survey = seen([storage_class("local", "rancher.io/local-path"), storage_class("rbd")])
    found = draft(survey, DraftRequest(), LOAD, frozenset({"local"}))
    assert [(one.name, bool(one.unproven)) for one in found.targets] == [
        ("rbd", False),
        ("local", True),
    ]


@pytest.mark.parametrize(
    ("largest", "size"), [(100, 20), (20, 20), (19, 10), (7, 5), (1, 1), (0, None)]
)
def test_the_usual_size_shrinks_to_what_is_published(largest: int, size: int | None) -> None:
    room = {"rbd": Published(largest=largest * GIB, total=100 * GIB)}
    survey = replace(seen([storage_class("rbd")]), published=room)
    found = draft(survey, DraftRequest(), LOAD, frozenset())
    if size is None:
        assert "publishes capacity for a volume of 0 B at most" in left(found)["rbd"]
    else:
        assert [one.size_bytes for one in found.targets] == [size * GIB]


def test_a_volume_is_never_smaller_than_the_data() -> None:
    large = replace(LOAD, span_bytes=25 * GIB + 1)
    (target,) = draft(seen([storage_class("rbd")]), DraftRequest(), large, frozenset()).targets
    assert target.size_bytes == 26 * GIB
    asked = draft(seen([storage_class("rbd")]), DraftRequest(sizes=(20 * GIB,)), large, frozenset())
    assert "the workloads need" in left(asked)["rbd"]


def test_all_targets_share_a_quota() -> None:
    survey = seen([storage_class("a"), storage_class("b")])
    quota = Quota(name="team", left={"requests.storage": 30 * GIB})
    found = draft(replace(survey, quotas=(quota,)), DraftRequest(), LOAD, frozenset())
    assert [one.size_bytes for one in found.targets] == [10 * GIB, 10 * GIB]
    asked = draft(
        replace(survey, quotas=(quota,)), DraftRequest(sizes=(20 * GIB,)), LOAD, frozenset()
    )
    assert [one.name for one in asked.targets] == ["a"]
    assert "the quota 'team' leaves 10 GiB of requests.storage" in left(asked)["b"]


def test_the_study_is_cut_to_what_the_nodes_hold_at_once_from_the_small_end() -> None:
    survey = seen([storage_class("a"), storage_class("b")])
    request = DraftRequest(
        runner=RunnerKind.VM,
        vms=("large", "small", "medium"),
        sizes=(500 * GIB, 150 * GIB),
        counts=(5, 1),
    )
    found = draft(survey, request, LOAD, frozenset())
    # 32 cores: 2 x 1, then no 5 of 2 cores each for both, and so on: never more than there are.
    assert sum(one.cpu * one.count for one in found.targets) <= 32
    assert [one.name for one in found.targets][:3] == [
        "a-small-150gi-x1",
        "b-small-150gi-x1",
        "a-small-150gi-x5",
    ]
    assert len(found.targets) + len(found.left_out) == 3 * 2 * 2 * 2
    assert all("--class" in reason for reason in left(found).values())
    labels = found.targets[2].labels
    assert labels == {"class": "a", "vm": "small", "volume": "150Gi", "volumes": "5"}


@pytest.mark.parametrize(
    "spec",
    [
        {"unschedulable": True},
        {"taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]},
    ],
)
def test_nodes_that_take_no_pods_have_no_capacity(spec: Manifest) -> None:
    found = draft(
        seen([storage_class("a")], [node("a", **spec)]), DraftRequest(), LOAD, frozenset()
    )
    assert "no capacity for a runner" in left(found)["a"]


def test_pods_get_one_processor_where_two_do_not_fit() -> None:
    survey = seen([storage_class("a"), storage_class("b")], [node("n", cpu="2")])
    found = draft(survey, DraftRequest(), LOAD, frozenset())
    assert (len(found.targets), found.cpu) == (2, 1)
    alone = draft(survey, DraftRequest(classes=("a",)), LOAD, frozenset())
    assert (len(alone.targets), alone.cpu) == (1, None)


def test_a_user_who_sees_no_nodes_gets_a_plan_all_the_same() -> None:
    inventory = kubernetes_inventory({"storageclasses.json": dump_of([storage_class("a")])})
    survey = Survey(
        inventory=inventory, kubevirt=None, patches_volumes=None, unseen=("nodes; may not list",)
    )
    found = draft(survey, DraftRequest(counts=(50,)), LOAD, frozenset())
    assert [one.count for one in found.targets] == [50]
    assert found.notes == ("nodes; may not list",)


def test_time_and_bytes_add_up_over_volumes_and_targets() -> None:
    survey = seen([storage_class("a"), storage_class("b")])
    found = draft(survey, DraftRequest(counts=(3,)), LOAD, frozenset({"b"}))
    raw, files = (estimate_cost(one, LOAD) for one in found.targets)
    assert (raw.prefill_bytes, files.prefill_bytes) == (3 * GIB, 6 * GIB)
    assert raw.prefill_s == pytest.approx(3 * GIB / PREFILL_BPS)
    whole = sum_costs([raw, files])
    assert (whole.trials, whole.io_s, whole.volumes) == (24, 180.0, 6)
    assert whole.claimed_bytes == 6 * 20 * GIB
    assert whole.total_s == pytest.approx(raw.total_s + files.total_s)
    without = estimate_cost(found.targets[0], replace(LOAD, prefill=False))
    assert (without.prefill_bytes, without.prefill_s) == (0, 0.0)


def loaded(text: str, folder: Path) -> Any:
    path = folder / "plan.yaml"
    path.write_text(text, "utf-8")
    return load_plan(path, Overrides())


def test_the_text_is_a_plan_that_says_what_was_found(tmp_path: Path) -> None:
    survey = seen([storage_class("a"), storage_class("none", "kubernetes.io/no-provisioner")])
    found = draft(survey, DraftRequest(counts=(1, 2)), LOAD, frozenset())
    settings = Overrides(
        context="team/api.example:6443/kube:admin",
        namespace="bench",
        profiles=("quick",),
        runtime="2s",
        repeats=2,
    )
    text = plan_text(found, LOAD, settings)
    assert text == plan_text(found, LOAD, settings)
    plan = loaded(text, tmp_path)
    assert [one.name for one in plan.targets] == ["a-20gi-x1", "a-20gi-x2"]
    assert [str(one.parsed) for one in plan.targets] == [one.url for one in found.targets]
    assert plan.repeats == 2
    cluster = plan.cluster("kubernetes").kubernetes
    assert (cluster.context, cluster.namespace) == ("team/api.example:6443/kube:admin", "bench")
    assert "#   none: has no provisioner" in text
    assert "Assumption: prefill writes" in text
    assert "Claimed at once: 60 GiB in 3 volumes" in text


@given(context=st.text(min_size=1, max_size=40) | st.sampled_from(TEXTS))
def test_no_name_of_a_context_breaks_the_text(context: str) -> None:
    import yaml

    found = draft(seen([storage_class("a")]), DraftRequest(), LOAD, frozenset())
    text = plan_text(found, LOAD, Overrides(context=context, profiles=("quick",)))
    read = yaml.safe_load(text)
    kept = read["clusters"]["kubernetes"]["kubernetes"]["context"]
    assert kept == context
    assert not HIDDEN.search(text)
    assert json.dumps(read["targets"][0]["name"]) == '"a"'


def test_what_does_not_fit_leaves_its_capacity_to_the_next() -> None:
    survey = seen([storage_class("a")], [node("n", cpu="8")])
    request = DraftRequest(sizes=(GIB, 2 * GIB), counts=(1, 5), cpu=2.0)
    found = draft(survey, request, LOAD, frozenset())
    # Five of two cores do not fit next to one; the next is placed where they were tried.
    assert [one.name for one in found.targets] == ["a-1gi-x1", "a-2gi-x1"]
