"""The RBAC manifests give what the code asks for, and nothing more."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from leadline.connect.kubernetes import permissions
from leadline.connect.kubernetes.permissions import Rule
from leadline.inventory.kubernetes.kinds import ObjectKind, config_map_names
from leadline.pools import rook as rook_pools
from leadline.pools import rook_resources as rook_state
from tests.conftest import ROOT

RBAC = ROOT / "deploy" / "rbac"
# group, resource, verb
Grant = tuple[str, str, str]
# Of `leadline clean --all`, which looks for namespaces of runs that it knows nothing of.
CLEANING = {("", "namespaces", "list")}
# Of `leadline plan --from-cluster`, which looks for room.
SURVEYING = {
    ("storage.k8s.io", "csistoragecapacities", "list"),
    ("", "resourcequotas", "list"),
}
# Asked for by CDI's webhook on behalf of the API server, not by our code.
CLONING = {("cdi.kubevirt.io", "datavolumes/source", "create")}
# A golden image is in another namespace than the run.
GOLDEN = {("cdi.kubevirt.io", "datasources", "get"), ("cdi.kubevirt.io", "datasources", "list")}


def _roles(name: str) -> list[dict[str, Any]]:
    found = list(yaml.safe_load_all((RBAC / name).read_text("utf-8")))
    assert all(one["kind"] in ("Role", "ClusterRole") for one in found)
    return found


def _granted(role: dict[str, Any]) -> set[Grant]:
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def _asked(rules: tuple[Rule, ...]) -> set[Grant]:
    return {(one.group, one.resource, one.verb) for one in rules}


def test_a_run_with_a_namespace_of_its_own() -> None:
    (role,) = _roles("run.yaml")
    asked = _asked(permissions.RUN_RULES) | _asked(permissions.NAMESPACE_RULES)
    assert role["kind"] == "ClusterRole"
    assert _granted(role) == asked | CLEANING


def test_a_run_in_a_namespace_that_is_there() -> None:
    within, everywhere = _roles("run-in-namespace.yaml")
    assert (within["kind"], everywhere["kind"]) == ("Role", "ClusterRole")
    rules = permissions.RUN_RULES
    assert _granted(within) == _asked(tuple(one for one in rules if one.namespaced))
    assert _granted(everywhere) == _asked(tuple(one for one in rules if not one.namespaced))
    assert {verb for _, _, verb in _granted(everywhere)} <= {"get", "list", "watch"}


def test_volumes_that_are_retained() -> None:
    (role,) = _roles("retained.yaml")
    assert _granted(role) == _asked(permissions.RETAIN_RULES)


def test_volumes_that_pods_share() -> None:
    (role,) = _roles("shared-volumes.yaml")
    assert _granted(role) == _asked(permissions.SHARED_RULES)


def test_the_counters_of_the_storages_pods() -> None:
    (role,) = _roles("kubelets.yaml")
    assert _granted(role) == _asked(permissions.KUBELET_RULES)


def test_the_lifecycle_of_volumes() -> None:
    (role,) = _roles("volume-lifecycle.yaml")
    asked = permissions.LIFECYCLE_RULES + permissions.VM_LIFECYCLE_RULES
    assert _granted(role) == _asked(asked)


def test_a_run_in_virtual_machines() -> None:
    (role,) = _roles("run-vm.yaml")
    assert _granted(role) == _asked(permissions.VM_RULES) | CLONING | GOLDEN


def test_the_inventory_reads_the_kinds_that_it_knows_and_no_others() -> None:
    (role,) = _roles("inventory.yaml")
    by_name = {ObjectKind.NAMESPACE, ObjectKind.CONFIG_MAP}
    listed = {(one.group, one.plural, "list") for one in ObjectKind if one not in by_name}
    got = {(one.group, one.plural, "get") for one in by_name}
    assert _granted(role) == listed | got | SURVEYING


def test_the_inventory_reads_config_maps_by_name_only() -> None:
    (role,) = _roles("inventory.yaml")
    named = {rule["resources"][0]: rule for rule in role["rules"] if rule["verbs"] == ["get"]}
    assert set(named["configmaps"]["resourceNames"]) == set(config_map_names())
    assert named["namespaces"]["resourceNames"] == ["kube-system"]


def test_the_toolbox_is_found_and_asked() -> None:
    (role,) = _roles("inventory-toolbox.yaml")
    assert role["kind"] == "Role"
    asked = {("", "pods", "get"), ("", "pods", "list"), ("", "pods/exec", "get")}
    assert _granted(role) == asked | {("", "pods/exec", "create")}


def test_pools_are_made_from_what_is_read() -> None:
    (role,) = _roles("pools.yaml")
    read = (*rook_state._KINDS, ObjectKind.STORAGE_CLUSTER, ObjectKind.DEPLOYMENT)
    listed = {(one.group, one.plural, "list") for one in read}
    made = {
        (group, plural, verb)
        for plural, _, group in (name.partition(".") for _, name in rook_pools._KINDS.values())
        for verb in ("create", "delete", "get")
    }
    # Who uses a pool, why Rook does not get on, and which keys volumes may have.
    about = {("", "persistentvolumes", "list"), ("", "events", "list"), ("", "configmaps", "get")}
    assert _granted(role) == listed | made | about


@pytest.mark.parametrize("path", sorted(RBAC.glob("*.yaml")), ids=lambda path: path.name)
class TestEveryManifest:
    def test_gives_no_wildcard_and_no_secret_to_read(self, path: Path) -> None:
        for role in _roles(path.name):
            for group, resource, verb in _granted(role):
                assert "*" not in group + resource + verb
                assert resource != "secrets" or verb in ("create", "delete")

    def test_says_why_each_rule_is_there(self, path: Path) -> None:
        lines = path.read_text("utf-8").splitlines()
        rules = [number for number, line in enumerate(lines) if line.startswith("  - ")]
        assert rules
        for number in rules:
            assert lines[number - 1].startswith("  # "), f"{path.name}:{number + 1}"

    def test_shows_how_it_is_applied_and_bound_by_names_that_it_has(self, path: Path) -> None:
        text = path.read_text("utf-8")
        assert re.search(rf"^#   kubectl apply .*-f {path.name}$", text, re.MULTILINE)
        bound = set(re.findall(r"--(?:cluster)?role=(\S+)", text))
        assert bound == {role["metadata"]["name"] for role in _roles(path.name)}
