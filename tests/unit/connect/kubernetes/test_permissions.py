from __future__ import annotations

from pathlib import Path

import pytest

from leadline.connect.kubernetes.permissions import (
    NAMESPACE_RULES,
    OPTIONAL,
    RETAIN_RULES,
    RUN_RULES,
    Rule,
    is_allowed,
    require,
)
from leadline.errors import LeadlineError
from tests.unit.connect.kubernetes.api_double import Answer, ApiDouble, Asked, json_of


def saying(refused: set[tuple[str, str]]) -> object:
    """A server that reviews access: all but `refused` (verb and resource) is allowed."""

    def say(asked: Asked) -> Answer:
        wanted = asked.body["spec"]["resourceAttributes"]
        sub = wanted.get("subresource")
        called = wanted["resource"] + (f"/{sub}" if sub else "")
        answer = {"allowed": (wanted["verb"], called) not in refused}
        return json_of({**asked.body, "status": answer}, 201)

    return say


def test_all_that_is_missing_is_reported_at_once_with_the_rules(
    api: ApiDouble, tmp_path: Path
) -> None:
    api.say = saying({("create", "jobs"), ("get", "pods/exec"), ("get", "pods")})  # type: ignore[assignment]
    with api.connection(tmp_path) as connection, pytest.raises(LeadlineError) as caught:
        require(connection, RUN_RULES, "mine")
    error = caught.value
    assert error.kind.code == "kubernetes-denied"
    reported = "\n".join([error.fact, *error.context])
    assert "in the namespace 'mine'" in error.fact
    assert "and 2 more" in error.fact
    assert '{apiGroups: ["batch"], resources: ["jobs"], verbs: ["create"]}' in reported
    assert '{apiGroups: [""], resources: ["pods/exec"], verbs: ["get"]}' in reported
    assert '{apiGroups: [""], resources: ["pods"], verbs: ["get"]}' in reported


def test_what_a_run_does_without_is_not_missed(api: ApiDouble, tmp_path: Path) -> None:
    lost = {(rule.verb, rule.resource) for rule in OPTIONAL}
    assert {("list", "nodes"), ("get", "storageclasses"), ("list", "events")} <= lost
    api.say = saying(lost)  # type: ignore[assignment]
    with api.connection(tmp_path) as connection:
        require(connection, RUN_RULES, "mine")


def test_only_what_is_of_a_namespace_is_asked_with_one(api: ApiDouble, tmp_path: Path) -> None:
    api.say = saying(set())  # type: ignore[assignment]
    with api.connection(tmp_path) as connection:
        require(connection, (*NAMESPACE_RULES, *RETAIN_RULES, *RUN_RULES), "mine")
    found = [asked.body["spec"]["resourceAttributes"] for asked in api.asked]
    of_all = {item["resource"] for item in found if not item.get("namespace")}
    assert of_all == {"namespaces", "persistentvolumes"}


def test_a_subresource_is_asked_as_one(api: ApiDouble, tmp_path: Path) -> None:
    api.say = saying({("get", "virtualmachineinstances/console")})  # type: ignore[assignment]
    console = Rule(
        group="subresources.kubevirt.io",
        resource="virtualmachineinstances/console",
        verb="get",
        namespaced=True,
    )
    with api.connection(tmp_path) as connection:
        assert not is_allowed(connection, console, "mine")
    asked = api.asked[0].body["spec"]["resourceAttributes"]
    assert (asked["resource"], asked["subresource"]) == ("virtualmachineinstances", "console")
    assert console.qualified == "virtualmachineinstances.subresources.kubevirt.io/console"
