"""A field of a Kubernetes resource, on a double of the API server; the real one is in
tests/kubernetes/test_settings.py."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leadline import errors
from leadline.connect.kubernetes.client import Connection
from leadline.errors import LeadlineError
from leadline.plan.settings import KubernetesField
from leadline.settings import kubernetes
from leadline.settings.kubernetes import KubernetesParameter, KubernetesResource
from tests.unit.connect.kubernetes.api_double import (
    Answer,
    Asked,
    World,
    certificate,
    json_of,
    serving,
)

KEY = ("diskpools", "openebs", "pool-1")
SERVED = {"resources": [{"name": "diskpools", "kind": "DiskPool", "namespaced": True}]}


class Pools:
    """One DiskPool, with a controller that sees each change, or does what `react` does."""

    def __init__(self) -> None:
        self.world = World()
        self.world.add(
            *KEY[::2], namespace="openebs", metadata={"generation": 1, "annotations": {}}
        )
        self.pool["spec"] = {"cores": 1, "name": "a", "disks": ["x"]}
        self.pool["status"] = {"observedGeneration": 1, "phase": "Online"}
        self.react: Callable[[dict[str, Any]], None] = self.see

    @property
    def pool(self) -> dict[str, Any]:
        return self.world.objects[KEY]

    @staticmethod
    def see(pool: dict[str, Any]) -> None:
        pool["status"]["observedGeneration"] = pool["metadata"]["generation"]

    def __call__(self, asked: Asked) -> Answer:
        if asked.path == "/apis/openebs.io/v1beta2":
            return json_of(SERVED)
        if asked.path == "/apis/none/v1":
            return json_of({}, 404)
        answer = self.world(asked)
        if asked.method == "PATCH":
            self.pool["metadata"]["generation"] += 1
            self.react(self.pool)
            answer = json_of(self.pool)
        return answer


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    return certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def pools(
    pair: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Pools, Connection]]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(kubernetes, "_KEPT_S", 0.1)
    monkeypatch.setattr(kubernetes, "_PAUSE_S", 0.05)
    cluster = Pools()
    with serving(pair, cluster) as double, double.connection(tmp_path) as connection:
        yield cluster, connection


def opened(connection: Connection, path: str, **more: Any) -> KubernetesParameter:
    given = {"kind": "DiskPool", "api": "openebs.io/v1beta2", "namespace": "openebs"}
    field = KubernetesField(**{**given, "name": "pool-1", "path": path, "values": ["2"], **more})
    return KubernetesParameter(field, KubernetesResource(connection, field))


@pytest.mark.parametrize(
    ("path", "before", "value", "stored"),
    [
        ("spec.cores", "1", "2", 2),
        ("spec.name", "a", "7", "7"),
        ("spec.new", None, "true", True),
        ("/metadata/annotations/example.org~1x", None, "b", "b"),
    ],
)
def test_a_field_is_set_and_restored(
    pools: tuple[Pools, Connection], path: str, before: str | None, value: str, stored: object
) -> None:
    cluster, connection = pools
    first = copy.deepcopy(cluster.pool)
    parameter = opened(connection, path)
    parameter.system.lock()
    try:
        parameter.check([value])
        assert parameter.read() == before
        parameter.write(value)
        assert parameter.read() == value
        found: Any = cluster.pool
        for key in parameter._keys:
            found = found[key]
        assert found == stored
        assert type(found) is type(stored)
        assert parameter.fault(value) == ""
        parameter.system.settle(lambda: None)
        parameter.restore(before)
        assert parameter.read() == before
    finally:
        parameter.system.unlock()
    assert cluster.pool["spec"] == first["spec"]
    assert cluster.pool["metadata"]["annotations"] == {}


def test_an_operator_that_sets_the_field_back_is_reported(
    pools: tuple[Pools, Connection],
) -> None:
    cluster, connection = pools
    cluster.react = lambda pool: pool["spec"].update(cores=1)
    parameter = opened(connection, "spec.cores")
    parameter.write("2")
    assert parameter.fault("2") == "it is '1': an operator or webhook sets this field"


@pytest.mark.parametrize(
    ("status", "fact"),
    [
        ({"observedGeneration": 1, "phase": "Online"}, "has not seen the change"),
        ({"observedGeneration": 2, "phase": "Faulted"}, "no longer Online"),
    ],
)
def test_a_resource_that_does_not_settle_is_an_error_within_a_bound(
    pools: tuple[Pools, Connection],
    status: dict[str, Any],
    fact: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kubernetes, "SETTLED_WITHIN_S", 0.2)
    cluster, connection = pools
    cluster.react = lambda pool: pool.update(status=status)
    parameter = opened(connection, "spec.cores")
    parameter.system.lock()
    try:
        parameter.write("2")
        with pytest.raises(LeadlineError) as raised:
            parameter.system.settle(lambda: None)
    finally:
        parameter.system.unlock()
    assert raised.value.kind is errors.SETTING_NOT_APPLIED
    assert fact in " ".join(raised.value.context)


@pytest.mark.parametrize(
    ("path", "more", "fact"),
    [
        ("spec.cores", {"name": "pool-2"}, "there is no DiskPool openebs/pool-2"),
        ("spec.cores", {"kind": "Pool"}, "serves no Pool"),
        ("spec.cores", {"api": "none/v1"}, "serves no DiskPool of none/v1"),
        ("spec.cores", {"namespace": ""}, "needs `namespace:`"),
        ("spec.disks.0", {}, "lies in a list"),
        ("spec", {}, "is no single value"),
        ("spec.new.deep", {}, "has no 'spec.new'"),
    ],
)
def test_what_is_no_field_is_refused(
    pools: tuple[Pools, Connection], path: str, more: dict[str, Any], fact: str
) -> None:
    with pytest.raises(LeadlineError, match=fact) as raised:
        opened(pools[1], path, **more).check(["2"])
    assert raised.value.kind is errors.SETTING_INVALID
