"""What Leadline writes to Rook and reads from it, held against Rook's schemas, old and current."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from leadline.inventory.kubernetes.models import At, CephBlockPool, CephCluster, CephFilesystem
from leadline.pools.options import PoolOptions
from leadline.pools.recipes import STUDY, pool_name
from leadline.pools.rook_recipes import decide
from tests.conftest import ROOT
from tests.unit.pools.test_rook_resources import decided, prerequisites, seen

SCHEMAS = ROOT / "tests" / "recorded" / "rook-crds"
VERSIONS = sorted(path.stem for path in SCHEMAS.glob("*.json"))


def schemas(version: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SCHEMAS / f"{version}.json").read_text())
    return found


def strict(schema: Any) -> Any:
    """The schema as an API server with strict validation uses it: no unknown fields."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: strict(value) for key, value in schema.items()}
    open_ends = ("additionalProperties", "x-kubernetes-preserve-unknown-fields")
    if "properties" in schema and not any(key in schema for key in open_ends):
        found["additionalProperties"] = False
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_pools_of_the_study_fit_the_schema(version: str) -> None:
    schema = strict(schemas(version)["CephBlockPool"]["properties"]["spec"])
    pools = [
        make
        for decision in decided(seen(), *STUDY, "rep4", "ec-4-2", failure_domain="host").values()
        for make in decision.makes
        if make["kind"] == "CephBlockPool"
    ]
    assert len(pools) >= 4
    for pool in pools:
        jsonschema.validate(pool["spec"], schema)
    wrong = copy.deepcopy(dict(pools[0]["spec"]))
    wrong["failureDomian"] = "host"
    with pytest.raises(jsonschema.ValidationError, match="failureDomian"):
        jsonschema.validate(wrong, schema)


@pytest.mark.parametrize(
    "options",
    [
        PoolOptions(no_redundancy=True),
        PoolOptions(no_redundancy=True, pg_num=64, erasure_profile={"plugin": "isa"}),
        PoolOptions(no_redundancy=True, target_ratio=0.49),
    ],
)
@pytest.mark.parametrize("name", ["rep1", "ec-2-1", "cephfs-rep2"])
@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_user_sets_fits_the_schema(version: str, name: str, options: PoolOptions) -> None:
    state = seen()
    (decision,) = decide([pool_name(name)], state, prerequisites(state), options)
    made = decision.makes[0]
    schema = strict(schemas(version)[made["kind"]]["properties"]["spec"])
    jsonschema.validate(made["spec"], schema)


def read_paths(model: type) -> Iterator[str]:
    for declared in model.model_fields.values():  # type: ignore[attr-defined]
        for place in declared.metadata:
            if isinstance(place, At) and not place.path.startswith("metadata."):
                yield place.path


def is_in(schema: dict[str, Any], path: str) -> bool:
    for key in path.split("."):
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            return True
        inner = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
        if not isinstance(inner, dict):
            return False
        schema = inner
    return True


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("model", [CephBlockPool, CephCluster, CephFilesystem])
def test_fields_that_the_inventory_reads_are_in_the_schema(version: str, model: type) -> None:
    schema = schemas(version)[model.__name__]
    paths = list(read_paths(model))
    assert paths
    assert [path for path in paths if not is_in(schema, path)] == []
    assert not is_in(schema, "spec.ceph.version.imagge")
