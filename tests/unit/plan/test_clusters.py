from __future__ import annotations

from pathlib import Path

import pytest

from leadline.errors import LeadlineError
from leadline.plan.expand import drop_targets
from leadline.plan.lab import LabDescription, Topology
from leadline.plan.loader import Overrides, load_plan
from leadline.plan.models import LeftOut, Plan

STUDY = """\
clusters:
  single-zone: {lab: {topology: single-zone}}
  multi-zone: {lab: {inter_zone_rtt: 2ms}}
targets:
  - {target: "rbd:rep3", name: rep3}
  - {target: "rbd:rep3?inter_zone_rtt=500us", name: rep3, clusters: multi-zone}
  - {target: "rbd:enc", name: enc, optional: true, clusters: [multi-zone]}
  - {target: "dir:/mnt", name: disk}
profile: quick
repeats: 2
seed: 7
"""


def loaded(folder: Path, text: str, overrides: Overrides | None = None) -> Plan:
    path = folder / "plan.yaml"
    path.write_text(text, encoding="utf-8")
    return load_plan(path, overrides or Overrides())


def faults(folder: Path, text: str) -> str:
    with pytest.raises(LeadlineError) as caught:
        loaded(folder, text)
    return "\n".join(caught.value.context)


def test_a_target_becomes_one_for_each_cluster_and_delay(tmp_path: Path) -> None:
    plan = loaded(tmp_path, STUDY)
    assert [target.name for target in plan.targets] == [
        "rep3@single-zone",
        "rep3@multi-zone",
        "rep3@multi-zone,500us",
        "enc@multi-zone",
        "disk",
    ]
    assert [target.place for target in plan.targets[:3]] == [
        "single-zone",
        "multi-zone",
        "multi-zone,500us",
    ]
    assert {target.subject for target in plan.targets[:3]} == {"rep3"}
    assert plan.targets[-1].cluster == plan.targets[-1].place == ""
    assert plan.optional == ("enc@multi-zone",)
    lab = plan.cluster("multi-zone").lab
    assert isinstance(lab, LabDescription)
    assert lab.topology is Topology.MULTI_ZONE
    assert lab.inter_zone_rtt_s == pytest.approx(2e-3)


def test_one_cluster_leaves_names_alone(tmp_path: Path) -> None:
    text = "clusters: {here: {lab: mine}}\ntargets: [rbd:rep3]\nprofile: quick\n"
    (target,) = loaded(tmp_path, text).targets
    assert (target.name, target.cluster, target.place) == ("rbd:rep3", "here", "")


def test_the_command_line_names_the_cluster(tmp_path: Path) -> None:
    plan = load_plan(None, Overrides(targets=["rbd:p"], profiles=["quick"], lab="mine"))
    assert plan.cluster("mine").lab == "mine"
    given = Overrides(
        targets=["rbd:p"],
        profiles=["quick"],
        ceph_conf=tmp_path / "c.conf",
        keyring=tmp_path / "key",
        ceph_id="bench",
    )
    cluster = load_plan(None, given).cluster("ceph")
    assert (cluster.ceph_conf, cluster.id) == (str(tmp_path / "c.conf"), "bench")
    assert cluster.keyring == str(tmp_path / "key")


def test_without_a_word_the_cluster_is_the_one_that_cephs_programs_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CEPH_CONF", "/somewhere/ceph.conf")
    plan = load_plan(None, Overrides(targets=["rbd:p"], profiles=["quick"]))
    assert plan.cluster("ceph").ceph_conf == "/somewhere/ceph.conf"


def test_files_of_a_cluster_are_named_from_the_plans_folder(tmp_path: Path) -> None:
    text = (
        "clusters: {a: {ceph_conf: c/ceph.conf, keyring: /k}}\ntargets: [rbd:p]\nprofile: quick\n"
    )
    found = loaded(tmp_path, text).cluster("a")
    assert found.ceph_conf == str(tmp_path / "c" / "ceph.conf")
    assert found.keyring == "/k"


def test_a_plan_without_ceph_has_no_cluster() -> None:
    plan = load_plan(None, Overrides(targets=["dir:/mnt"], profiles=["quick"]))
    assert plan.clusters == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "clusters: {a: {}}\ntargets: [rbd:p]",
            "needs exactly one of lab, ceph_conf and kubernetes",
        ),
        (
            "clusters: {a: {lab: x, ceph_conf: /y}}\ntargets: [rbd:p]",
            "needs exactly one of lab, ceph_conf and kubernetes",
        ),
        ("clusters: {a: {lab: x, keyring: /k}}\ntargets: [rbd:p]", "a lab has its own"),
        (
            "clusters: {alpha: {lab: x}}\ntargets: [{target: rbd:p, clusters: alpa}]",
            "did you mean 'alpha'?",
        ),
        (
            "clusters: {a: {lab: x}}\ntargets: [{target: dir:/p, clusters: a}]",
            "lies on this machine, not on a cluster",
        ),
        ("clusters: {a: {lab: {topolgy: x}}}\ntargets: [rbd:p]", "(did you mean 'topology'?)"),
        (
            "clusters: {a: {ceph_conf: /c}}\ntargets: ['rbd:p?inter_zone_rtt=1ms']",
            "inter_zone_rtt is a condition of a lab, and 'a' is none",
        ),
        (
            "clusters: {a: {lab: x}}\ntargets: [{target: rbd:p, name: n},{target: rbd:q, name: n}]",
            "two targets are called 'n'",
        ),
    ],
)
def test_faults_of_clusters_are_told(tmp_path: Path, text: str, said: str) -> None:
    assert said in faults(tmp_path, f"{text}\nprofile: quick\n")


def test_what_is_left_out_takes_its_trials_along_and_nothing_else(tmp_path: Path) -> None:
    plan = loaded(tmp_path, STUDY)
    gone = LeftOut(target="enc@multi-zone", cluster="multi-zone", reason="there is no pool 'enc'")
    left = drop_targets(plan, [gone])
    assert left.left_out == (gone,)
    assert "enc@multi-zone" not in {target.name for target in left.targets}

    def order(one: Plan) -> list[tuple[str, int, int]]:
        cells = [(one.cells[trial.cell], trial) for trial in one.trials]
        return [(cell.label, trial.block, trial.seed) for cell, trial in cells]

    kept = [entry for entry in order(plan) if not entry[0].startswith("enc@")]
    assert order(left) == kept
    assert [trial.position for trial in left.trials] == list(range(len(left.trials)))
    assert len({trial.id for trial in left.trials}) == len(left.trials)


PROMETHEUS = "prometheus: {url: 'http://p:9090', token_file: token, instances: 'ceph-.*'}"
SOURCES = "clusters: {{a: {{{cluster}}}}}\ntargets: [rbd:p]\nprofile: quick\nseed: 1\n"


def test_a_source_of_the_storages_counters_is_read_again_from_the_archive(tmp_path: Path) -> None:
    plan = loaded(tmp_path, SOURCES.format(cluster=f"ceph_conf: /c, {PROMETHEUS}"))
    found = plan.cluster("a").prometheus
    assert found is not None
    assert (found.token_file, found.instances) == (str(tmp_path / "token"), "ceph-.*")
    assert "rook-ceph" in found.namespaces
    assert Plan.model_validate_json(plan.model_dump_json(by_alias=True)) == plan
    plan = loaded(tmp_path, SOURCES.format(cluster="ceph_conf: /c, hosts: [s1, root@s2]"))
    assert plan.cluster("a").hosts == ("s1", "root@s2")
    assert Plan.model_validate_json(plan.model_dump_json(by_alias=True)) == plan
    plain = loaded(tmp_path, SOURCES.format(cluster="ceph_conf: /c"))
    assert not {"hosts", "prometheus"} & plain.model_dump(mode="json")["clusters"][0].keys()


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        (f"lab: x, {PROMETHEUS}", "prometheus is for other clusters"),
        ("lab: x, hosts: [s1]", "hosts is for other clusters"),
        (f"ceph_conf: /c, hosts: [s1], {PROMETHEUS}", "one of prometheus and hosts"),
        ("kubernetes: , hosts: [s1]", "hosts belong to ceph_conf"),
        ("ceph_conf: /c, hosts: [s1, s1]", "named twice"),
        ("ceph_conf: /c, hosts: ['-oProxyCommand=x']", "is no name of a host"),
        ("ceph_conf: /c, prometheus: {url: 'p:9090'}", "is no address"),
        ("ceph_conf: /c, prometheus: {url: 'http://u:secret@p'}", "has a password"),
        ("ceph_conf: /c, prometheus: {url: 'http://p', instance: x}", "instances"),
    ],
)
def test_faults_of_sources(tmp_path: Path, cluster: str, expected: str) -> None:
    assert expected in faults(tmp_path, SOURCES.format(cluster=cluster))
