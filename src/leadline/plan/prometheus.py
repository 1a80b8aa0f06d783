"""A Prometheus server in a plan: a guard reads limits from it, a cluster the storage's counters."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from leadline.plan.kubernetes_cluster import STORAGE_NAMESPACES, DnsLabel


class PrometheusServer(BaseModel):
    """The address of a server with the HTTP API of Prometheus. `token_file` holds a bearer token,
    `ca_file` the certificate of a private authority."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    url: Annotated[str, Field(max_length=2000)]
    token_file: str | None = None
    ca_file: str | None = None

    @field_validator("url")
    @classmethod
    def _address(cls, value: str) -> str:
        parts = urlsplit(value)  # raises ValueError
        known = parts.scheme in ("http", "https") and parts.hostname
        if not known or parts.port == 0:  # `port` raises ValueError for one out of range
            raise ValueError(f"{value!r} is no address; write for instance http://prometheus:9090")
        if parts.username is not None or parts.password is not None:
            raise ValueError("has a password, which an archive would keep: use token_file")
        if parts.query or parts.fragment:
            raise ValueError("has a query; write the address alone")
        return value


class StorageMonitoring(PrometheusServer):
    """The Prometheus that scrapes the hosts of a cluster's storage. Pods of the storage are those
    of `namespaces`. `instances` is a regular expression (RE2) of the label `instance` of the
    storage's node exporters; without one they are the hosts on which daemons are found."""

    namespaces: Annotated[tuple[DnsLabel, ...], Field(min_length=1, max_length=20)] = (
        STORAGE_NAMESPACES
    )
    instances: Annotated[str, Field(min_length=1, max_length=500)] | None = None
