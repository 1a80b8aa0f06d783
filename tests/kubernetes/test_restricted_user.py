"""Users with the shipped rights and no more, and with less."""

from __future__ import annotations

import copy
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from leadline.connect.kubernetes.client import Connection, KubernetesAccess
from leadline.connect.kubernetes.permissions import (
    NAMESPACE_RULES,
    OPTIONAL,
    RUN_RULES,
    Rule,
    require,
)
from leadline.errors import LeadlineError
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.driving import (
    Leadline,
    Manifest,
    applied,
    nothing_left,
    ours,
    pods,
    retained,
    space,
)
from tests.kubernetes.shipped import bound, shipped

RAW = "raw=storageclass:block?size=96Mi"


def without(roles: list[Manifest], lacking: Rule) -> list[Manifest]:
    """The roles less one verb on one kind."""
    found = copy.deepcopy(roles)
    for role in found:
        rules: list[dict[str, Any]] = []
        for rule in role["rules"]:
            same = [name for name in rule["resources"] if name == lacking.resource]
            if lacking.group not in rule["apiGroups"] or not same:
                rules.append(rule)
                continue
            others = [name for name in rule["resources"] if name != lacking.resource]
            left = [verb for verb in rule["verbs"] if verb != lacking.verb]
            rules += [rule | {"resources": others}] if others else []
            rules += [rule | {"resources": same, "verbs": left}] if left else []
        assert rules != role["rules"], lacking
        role["rules"] = rules
    return found


def as_user(cluster: Cluster, folder: Path, user: str) -> Leadline:
    return Leadline(cluster=cluster, folder=folder, user=user)


def test_the_shipped_rules_are_enough_to_run_and_to_clean(cluster: Cluster, tmp_path: Path) -> None:
    leadline = as_user(cluster, tmp_path, "runner")
    with applied(cluster, *bound("runner", *shipped("run.yaml"))), nothing_left(cluster):
        running = leadline.start("run", leadline.plan(RAW, repeats=3))
        running.says("[2/3]")
        running.signal(signal.SIGKILL)
        running.ended(30)
        run = leadline.run.name
        assert pods(cluster)
        found = leadline("clean", "--kubernetes", "--run", run, "--dry-run").went_well()
        assert f"would remove the namespace leadline-{run}" in found.out
        leadline("clean").went_well()
        assert ours(cluster) == []
        leadline("run", "--resume", run).answered()
    assert [trial["status"] for trial in leadline.trials()] == ["completed"] * 3
    # What this user may not see of the cluster is left out, and said to be.
    page = tmp_path / "x.md"
    leadline("report", leadline.run, "-o", page).went_well()
    assert "may not list csidrivers" in page.read_text()


def test_one_namespace_is_enough(cluster: Cluster, tmp_path: Path) -> None:
    leadline = as_user(cluster, tmp_path, "runner")
    with (
        space(cluster, "bench"),
        applied(cluster, *bound("runner", *shipped("run-in-namespace.yaml", "bench"))),
        nothing_left(cluster),
    ):
        plan = leadline.plan(RAW, cluster={"namespace": "bench"})
        leadline("run", plan).answered()
        there = leadline("clean", "--kubernetes", "-n", "bench", "--all").went_well()
        assert "nothing of Leadline's" in there.out
        # Elsewhere it has no rights.
        own = leadline("run", leadline.plan(RAW)).failed("kubernetes-denied", 3)
        lacking = {("", "namespaces", verb) for verb in ("get", "create", "delete")}
        assert lacking <= told_rules(own.err)
    assert {trial["status"] for trial in leadline.trials()} == {"completed"}


def admin_of(namespace: str, user: str) -> Manifest:
    """What `kubectl create rolebinding --clusterrole=admin` makes: Kubernetes' own role."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "its-admin", "namespace": namespace},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }


def test_the_admin_of_a_namespace_needs_no_rights_on_nodes_and_classes(
    cluster: Cluster, tmp_path: Path
) -> None:
    leadline = as_user(cluster, tmp_path, "runner")
    with (
        space(cluster, "theirs"),
        applied(cluster, admin_of("theirs", "runner")),
        nothing_left(cluster),
    ):
        plan = leadline.plan("files=storageclass:fast?size=96Mi", cluster={"namespace": "theirs"})
        ended = leadline("run", plan).answered()
        # It may not see volumes, and so does not wait for their end. local-path-provisioner removes
        # them by a pod, which it gives 120 s, and tries again after 15 s.
        cluster.until("the volume's end", lambda: ours(cluster) == [], bound_s=300)
    assert "may not read the StorageClass 'fast'" in ended.err
    (trial,) = leadline.trials()
    assert trial["status"] == "completed"
    # The inventory says what is unknown.
    page = tmp_path / "x.md"
    leadline("report", leadline.run, "-o", page).went_well()
    text = page.read_text()
    assert "may not list nodes" in text
    assert "may not list storageclasses" in text


@pytest.mark.deep
def test_what_is_optional_is_not_needed(cluster: Cluster, tmp_path: Path) -> None:
    leadline = as_user(cluster, tmp_path, "runner")
    roles = shipped("run.yaml")
    # Of a namespace of its own, the run needs to know more.
    optional = [rule for rule in RUN_RULES if rule in OPTIONAL and rule.resource != "namespaces"]
    assert len(optional) == 8
    for item in optional:
        roles = without(roles, item)
    with applied(cluster, *bound("runner", *roles)), nothing_left(cluster):
        leadline("run", leadline.plan(RAW)).answered()


def test_a_class_that_keeps_volumes_needs_one_rule_more(cluster: Cluster, tmp_path: Path) -> None:
    leadline = as_user(cluster, tmp_path, "runner")
    with (
        applied(cluster, *bound("runner", *shipped("run.yaml"))),
        retained(cluster) as name,
        nothing_left(cluster),
    ):
        plan = leadline.plan(f"files=storageclass:{name}?size=96Mi")
        ended = leadline("run", plan).failed("class-unsuitable", 3)
        assert 'resources: ["persistentvolumes"], verbs: ["patch"]' in ended.err
        assert not leadline.runs.exists()
        with applied(cluster, *bound("runner", *shipped("retained.yaml"))):
            leadline("run", plan).answered()


def test_no_user_is_reported_every_rule(cluster: Cluster, tmp_path: Path) -> None:
    leadline = as_user(cluster, tmp_path, "nobody")
    with nothing_left(cluster):
        ended = leadline("run", leadline.plan(RAW)).failed("kubernetes-denied", 3)
    assert not leadline.runs.exists()
    wanted = {
        namespace_rule
        for namespace_rule in (*NAMESPACE_RULES, *RUN_RULES)
        if namespace_rule not in OPTIONAL
    }
    assert told_rules(ended.err) == {(item.group, item.resource, item.verb) for item in wanted}


def told_rules(text: str) -> set[tuple[str, str, str]]:
    """Group, resource and verb of each rule in a message, where each is written as in a role."""
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("{apiGroups")]
    return {
        (group, resource, verb)
        for rule in map(yaml.safe_load, lines)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def yaml_rule(one: Rule) -> str:
    return f'{{apiGroups: ["{one.group}"], resources: ["{one.resource}"], verbs: ["{one.verb}"]}}'


@pytest.fixture(scope="module")
def asking(api_server: Cluster) -> Iterator[Connection]:
    with Connection(KubernetesAccess(kubeconfig=api_server.kubeconfig("runner"))) as connection:
        yield connection


@pytest.mark.parametrize(
    "lacking",
    [
        namespace_rule
        for namespace_rule in (*NAMESPACE_RULES, *RUN_RULES)
        if namespace_rule not in OPTIONAL
    ],
    ids=lambda item: f"{item.verb}-{item.qualified}",
)
def test_a_verb_that_is_missing_is_named(
    api_server: Cluster, asking: Connection, lacking: Rule
) -> None:
    roles = without(shipped("run.yaml"), lacking)
    with applied(api_server, *bound("runner", *roles)):
        with pytest.raises(LeadlineError) as raised:
            require(asking, (*NAMESPACE_RULES, *RUN_RULES), "")
        told = str(raised.value)
    assert f"may not {lacking.verb} {lacking.qualified}" in told
    assert told.count("apiGroups") == 1
    assert yaml_rule(lacking) in told


def test_the_command_names_it(cluster: Cluster, tmp_path: Path) -> None:
    leadline = as_user(cluster, tmp_path, "runner")
    lacking = next(run_rule for run_rule in RUN_RULES if run_rule.qualified == "pods/exec")
    with (
        applied(cluster, *bound("runner", *without(shipped("run.yaml"), lacking))),
        nothing_left(cluster),
    ):
        ended = leadline("run", leadline.plan(RAW)).failed("kubernetes-denied", 3)
    assert yaml_rule(lacking) in ended.err
    assert not leadline.runs.exists()


class TestInventory:
    def test_the_shipped_rules_are_enough(self, api_server: Cluster, tmp_path: Path) -> None:
        leadline = as_user(api_server, tmp_path, "viewer")
        admin = as_user(api_server, tmp_path, "admin")
        with applied(api_server, *bound("viewer", *shipped("inventory.yaml"))):
            seen = leadline("inventory", "--kubernetes", "--format", "json").went_well().json
            denied = leadline("run", leadline.plan(RAW)).failed("kubernetes-denied", 3)
        assert ("batch", "jobs", "create") in told_rules(denied.err)
        assert ("", "nodes", "list") not in told_rules(denied.err)
        every = admin("inventory", "--kubernetes", "--format", "json").went_well().json
        assert _without_time(seen) == _without_time(every)

    def test_no_user_is_reported_what_is_missing(self, api_server: Cluster, tmp_path: Path) -> None:
        leadline = as_user(api_server, tmp_path, "nobody")
        ended = leadline("inventory", "--kubernetes")
        ended.failed("kubernetes-denied", 3)
        assert 'resources: ["nodes"], verbs: ["list"]' in ended.err


def _without_time(document: Any) -> str:
    """An inventory without the moment at which it was taken."""
    if isinstance(document, dict):
        document.pop("taken_at", None)
        for value in document.values():
            _without_time(value)
    return json.dumps(document, sort_keys=True)
