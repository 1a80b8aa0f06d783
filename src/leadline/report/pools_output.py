"""What `leadline pools --format json` prints: a contract with other programs."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Output(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class OnePoolOutput(_Output):
    """`outcome` is `made`, `exists`, `exists, not made by Leadline`, `same as another`, `skipped`;
    of `remove` `removed`, `left`, `none`; with `--dry-run` `would make`, `would remove`. The rest
    is null where there is no such pool afterwards (with `--dry-run`: now). `type` is `replicated`
    or `erasure`; `size` is k + m of the latter. `storage_class` is the class by which Kubernetes
    makes volumes in it, `phase` what Rook says of it; both only with `--kube`."""

    name: str
    outcome: str
    reason: str
    type: str | None = None
    size: int | None = None
    min_size: int | None = None
    pg_num: int | None = None
    rule: str | None = None
    failure_domain: str | None = None
    device_class: str | None = None
    applications: list[str] | None = None
    filesystem: str | None = None
    made_by_leadline: bool | None = None
    storage_class: str | None = None
    phase: str | None = None


class PoolsOutput(_Output):
    """`cluster` is how it was named; `notes` are sentences about it."""

    schema_: Literal["leadline/pools/1"] = Field(default="leadline/pools/1", alias="schema")
    action: Literal["create", "remove", "list"]
    cluster: str
    dry_run: bool
    pools: list[OnePoolOutput]
    notes: list[str]
