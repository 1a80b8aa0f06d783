"""The JSON contracts: what `leadline schema VERB` publishes and the records of an archive, held
against the committed schemas.

Names of classes and descriptions may change; fields, types, bounds and enumerations may not.
`uv run python -m tests.architecture.test_schemas` writes the committed files anew, for a change
that is meant: it is a new version of the contract and belongs into the changelog. A record of an
archive gets the next number in its `schema`, and the manifest too; the model must read both.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from leadline.archive import records
from leadline.archive.records import schema_of
from leadline.inventory.host import HostInventory
from leadline.plan.models import Plan
from leadline.report.answers.schemas import SCHEMAS
from tests.conftest import ROOT

# What a reader of an answer has no use for: an answer always has every field.
_LEFT_OUT = ("title", "description", "$defs", "default")
COMMITTED = ROOT / "tests" / "golden" / "schemas"


def normalised(schema: dict[str, Any]) -> Any:
    """A schema with its references resolved and without titles and descriptions."""
    definitions = schema.get("$defs", {})

    def resolve(node: Any, within: tuple[str, ...] = (), *, names: bool = False) -> Any:
        if isinstance(node, list):
            return [resolve(item, within) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            name = node["$ref"].rsplit("/", 1)[1]
            if name in within:
                return {"recursive": within.index(name)}
            return resolve(definitions[name], (*within, name))
        if names:
            return {key: resolve(value, within) for key, value in sorted(node.items())}
        kept = {k: v for k, v in node.items() if k not in _LEFT_OUT}
        return {
            key: sorted(value)
            if key == "required"
            else resolve(value, within, names=key == "properties")
            for key, value in sorted(kept.items())
        }

    return resolve(schema)


def text(verb: str) -> str:
    schema = normalised(TypeAdapter(SCHEMAS[verb]).json_schema(by_alias=True, mode="serialization"))
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


ARCHIVE = COMMITTED / "archive"
RECORDS = {
    "manifest": records.Manifest,
    "trial": records.TrialRecord,
    "derived": records.Derived,
    "runners": records.Runners,
    "clients": records.Clients,
    "stacks": records.Stacks,
    "look": records.Look,
    "created": records.Created,
    "settings": records.SettingChange,
    "digests": records.WrittenFiles,
    "undo": records.Unredacted,
    "redactions": records.Redactions,
    "inventory": HostInventory,
    "plan": Plan,
}


def record_text(name: str) -> str:
    """What a reader accepts: a field that may be missing is not required."""
    schema = normalised(RECORDS[name].model_json_schema(by_alias=True, mode="validation"))
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_the_records_of_an_archive_are_frozen(name: str) -> None:
    assert record_text(name) == (ARCHIVE / f"{name}.json").read_text("utf-8")


def test_every_record_with_a_version_is_frozen() -> None:
    versioned = {
        model
        for model in vars(records).values()
        if isinstance(model, type) and issubclass(model, records.Record) and schema_of(model)
    }
    assert versioned <= set(RECORDS.values())
    assert {path.stem for path in ARCHIVE.glob("*.json")} == set(RECORDS)


@pytest.mark.parametrize("verb", sorted(SCHEMAS))
def test_the_published_schema_is_the_committed_one(verb: str) -> None:
    assert text(verb) == (COMMITTED / f"{verb}.json").read_text("utf-8")


def test_every_committed_schema_is_of_a_verb() -> None:
    assert {path.stem for path in COMMITTED.glob("*.json")} == set(SCHEMAS)


if __name__ == "__main__":
    for name in SCHEMAS:
        (COMMITTED / f"{name}.json").write_text(text(name), "utf-8")
    for name in RECORDS:
        (ARCHIVE / f"{name}.json").write_text(record_text(name), "utf-8")
