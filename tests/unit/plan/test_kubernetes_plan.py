"""Kubernetes clusters in a plan, and on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leadline.errors import LeadlineError
from leadline.plan.kubernetes_cluster import KubernetesCluster
from leadline.plan.loader import Overrides, load_plan
from leadline.plan.models import Plan
from tests.conftest import IMAGE

PLAN = """\
clusters:
  prod:
    kubernetes:
      kubeconfig: conf/prod.yaml
      context: admin@prod
      namespace: bench
      image: registry.example/runner@sha256:0123
      pull_secrets: [registry]
      node_selector: {disk: ssd}
      tolerations: [{key: storage, operator: Exists}]
      cpu: 500m
      memory: 2Gi
      ready: 10min
  lab: {lab: mine}
targets:
  - {target: "storageclass:fast?count=3", name: fast}
  - {target: "rbd:rep3", name: rep3}
  - {target: "dir:/mnt", name: disk}
profile: quick
"""


def loaded(folder: Path, text: str, overrides: Overrides | None = None) -> Plan:
    path = folder / "plan.yaml"
    path.write_text(text, encoding="utf-8")
    return load_plan(path, overrides or Overrides())


def faults(folder: Path, text: str) -> str:
    with pytest.raises(LeadlineError) as caught:
        loaded(folder, f"{text}\nprofile: quick\n")
    assert caught.value.kind.code == "plan-invalid"
    return "\n".join(caught.value.context)


def settings(plan: Plan, name: str = "kubernetes") -> KubernetesCluster:
    found = plan.cluster(name).kubernetes
    assert found is not None
    return found


def test_each_target_goes_to_the_clusters_of_its_sort(tmp_path: Path) -> None:
    plan = loaded(tmp_path, PLAN)
    where = {target.name: target.cluster for target in plan.targets}
    assert {name.partition("@")[0]: cluster for name, cluster in where.items()} == {
        "fast": "prod",
        "rep3": "lab",
        "disk": "",
    }
    found = settings(plan, "prod")
    assert found.kubeconfig == str(tmp_path / "conf" / "prod.yaml")
    assert (found.context, found.namespace) == ("admin@prod", "bench")
    assert (found.cpu, found.memory, found.ready_s) == (0.5, 2 << 30, 600.0)
    assert found.tolerations[0].operator == "Exists"


def test_a_plan_stored_is_the_plan_again(tmp_path: Path) -> None:
    plan = loaded(tmp_path, PLAN)
    assert Plan.model_validate_json(plan.model_dump_json(by_alias=True)) == plan
    found = settings(plan, "prod")
    assert KubernetesCluster.model_validate(found.written()) == found
    assert KubernetesCluster().written() == {}


@pytest.mark.parametrize("written", ["{kubernetes: {}}", "{kubernetes: }"])
def test_kubernetes_alone_is_kubectls_own_choice(tmp_path: Path, written: str) -> None:
    plan = loaded(
        tmp_path, f"clusters: {{k: {written}}}\ntargets: [storageclass:a]\nprofile: quick\n"
    )
    assert settings(plan, "k") == KubernetesCluster(image=IMAGE)


def test_without_a_word_it_is_kubectls_own_choice(tmp_path: Path) -> None:
    plan = load_plan(None, Overrides(targets=["storageclass:a", "dir:/x"], profiles=["quick"]))
    assert settings(plan) == KubernetesCluster(image=IMAGE)
    assert [cluster.name for cluster in plan.clusters] == ["kubernetes"]


def test_ceph_and_kubernetes_without_a_word_are_both_there() -> None:
    plan = load_plan(None, Overrides(targets=["storageclass:a", "rbd:p"], profiles=["quick"]))
    assert {one.url: one.cluster for one in plan.targets} == {
        "storageclass:a": "kubernetes",
        "rbd:p": "ceph",
    }


def test_a_plan_that_names_labs_only_takes_kubectls_cluster_for_a_class(tmp_path: Path) -> None:
    text = "clusters: {l: {lab: x}}\ntargets: ['storageclass:a', 'rbd:p']\nprofile: quick\n"
    plan = loaded(tmp_path, text)
    assert {one.url: one.cluster for one in plan.targets} == {
        "storageclass:a": "kubernetes",
        "rbd:p": "l",
    }


COMMAND_LINE: dict[str, Any] = {
    "kubeconfig": Path("/k/config"),
    "context": "c",
    "namespace": "n",
    "runner_image": "i:1",
    "runner_cpu": 4,
    "runner_memory": "4Gi",
}


def test_the_command_line_names_the_cluster() -> None:
    given = Overrides(targets=["storageclass:a"], profiles=["quick"], **COMMAND_LINE)
    found = settings(load_plan(None, given))
    assert found == KubernetesCluster(
        kubeconfig="/k/config", context="c", namespace="n", image="i:1", cpu=4, memory=4 << 30
    )


def test_the_command_line_wins_over_the_plan_and_leaves_the_rest(tmp_path: Path) -> None:
    found = settings(loaded(tmp_path, PLAN, Overrides(context="other", runner_cpu=8)), "prod")
    assert (found.context, found.cpu) == ("other", 8)
    assert (found.namespace, found.memory) == ("bench", 2 << 30)
    assert found.node_selector == {"disk": "ssd"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "clusters: {k: {kubernetes: {}}}\ntargets: ['rbd:p']",
            "the plan names no Ceph cluster for 'rbd:p'",
        ),
        (
            (
                "clusters: {k: {kubernetes: }, l: {lab: x}}\ntargets: "
                "[{target: 'storageclass:a', clusters: l}]"
            ),
            "'l' is a Ceph cluster",
        ),
        (
            "clusters: {k: {kubernetes: {}}, l: {lab: x}}\ntargets: [{target: rbd:p, clusters: k}]",
            "'k' is a Kubernetes cluster",
        ),
        (
            "clusters: {k: {kubernetes: {}, lab: x}}\ntargets: ['storageclass:a']",
            "needs exactly one of lab, ceph_conf and kubernetes",
        ),
        (
            "clusters: {k: {kubernetes: {}, keyring: /k}}\ntargets: ['storageclass:a']",
            "keyring and id belong to ceph_conf",
        ),
        (
            "clusters: {k: {kubernetes: {contxt: x}}}\ntargets: ['storageclass:a']",
            "(did you mean 'context'?)",
        ),
        (
            "clusters: {k: {kubernetes: {tolerations: [{kee: x}]}}}\ntargets: ['storageclass:a']",
            "(did you mean 'key'?)",
        ),
        (
            "clusters: {k: {kubernetes: {namespace: Not_One}}}\ntargets: ['storageclass:a']",
            "clusters.k.kubernetes.namespace",
        ),
        (
            "clusters: {k: {kubernetes: {cpu: 0}}}\ntargets: ['storageclass:a']",
            "clusters.k.kubernetes.cpu",
        ),
        (
            "clusters: {k: {kubernetes: {memory: much}}}\ntargets: ['storageclass:a']",
            "'much' is not a size",
        ),
        (
            "clusters: {k: {kubernetes: {ready: soon}}}\ntargets: ['storageclass:a']",
            "clusters.k.kubernetes.ready",
        ),
        (
            "clusters: {k: {kubernetes: {pull_policy: Sometimes}}}\ntargets: ['storageclass:a']",
            "clusters.k.kubernetes.pull_policy",
        ),
        (
            "clusters: {k: {kubernetes: {vm: {boot: {}}}}}\ntargets: ['storageclass:a']",
            "needs exactly one of container_disk, url, claim and data_source",
        ),
        (
            (
                "clusters: {k: {kubernetes: {vm: {boot: {url: x, claim: a/b}}}}}\n"
                "targets: ['storageclass:a']"
            ),
            "needs exactly one of container_disk, url, claim and data_source",
        ),
        (
            (
                "clusters: {k: {kubernetes: {vm: {boot: {claim: nowhere}}}}}\n"
                "targets: ['storageclass:a']"
            ),
            "clusters.k.kubernetes.vm.boot.claim",
        ),
        ("clusters: {k: {kubernetes: 5}}\ntargets: ['storageclass:a']", "clusters.k.kubernetes"),
        (
            "clusters: {k: {kubernetes: {}}}\ntargets: [{target: dir:/a, clusters: k}]",
            "lies on this machine, not on a cluster",
        ),
        ("targets: ['storageclass:a?count=0']", "count is a number from 1 to 256"),
        ("clusters: {k: null}\ntargets: ['storageclass:a']", "clusters.k"),
        ("clusters: 5\ntargets: ['storageclass:a']", "clusters"),
    ],
)
def test_faults_are_told_with_their_place(tmp_path: Path, text: str, said: str) -> None:
    assert said in faults(tmp_path, text)


def test_a_broken_cluster_is_a_fault_on_the_command_line_too(tmp_path: Path) -> None:
    text = "clusters: {k: {kubernetes: [1]}}\ntargets: ['storageclass:a']\nprofile: quick\n"
    with pytest.raises(LeadlineError) as caught:
        loaded(tmp_path, text, Overrides(context="x"))
    assert caught.value.kind.code == "plan-invalid"


def test_the_image_of_pods_has_no_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "storageclass:fast"
    plan = f"targets: [{{target: '{url}', name: a}}]"
    monkeypatch.setenv("LEADLINE_RUNNER_IMAGE", "registry.internal/runner:7")
    assert settings(loaded(tmp_path, f"{plan}\nprofile: quick\n")).image.endswith("runner:7")
    given = Overrides(targets=(url,), profiles=("quick",), runner_image="mine:1")
    assert settings(load_plan(None, given)).image == "mine:1"
    assert settings(loaded(tmp_path, PLAN), "prod").image == "registry.example/runner@sha256:0123"
    monkeypatch.delenv("LEADLINE_RUNNER_IMAGE")
    assert "no image is named for the pods that run fio" in faults(tmp_path, plan)
    # A virtual machine boots from its own image.
    machine = f"clusters: {{k: {{kubernetes: {{vm: {{boot: {{container_disk: d}}}}}}}}}}\n{plan}"
    machine = machine.replace(url, f"{url}?runner=vm")
    assert settings(loaded(tmp_path, f"{machine}\nprofile: quick\n"), "k").image is None


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("service_account: storage", "the service account 'storage' needs `namespace:`"),
        ("memory: 12Mi", "12 MiB of memory is too little for 'sequential-1m'"),
    ],
)
def test_what_a_run_would_refuse_is_a_fault(tmp_path: Path, written: str, said: str) -> None:
    plan = "targets: [{target: 'storageclass:fast', name: a}]"
    clusters = f"clusters:\n  k:\n    kubernetes:\n      {written}\n"
    found = faults(tmp_path, clusters + plan)
    assert said in found
    assert "plan.yaml:4" in found


def test_settings_that_a_run_takes(tmp_path: Path) -> None:
    plan = "targets: [{target: 'storageclass:fast', name: a}]\nprofile: quick\n"
    for written in ("service_account: default", "service_account: s, namespace: n", "memory: 64Mi"):
        text = f"clusters: {{k: {{kubernetes: {{{written}}}}}}}\n{plan}"
        assert loaded(tmp_path, text).targets
