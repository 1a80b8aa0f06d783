"""Instant queries to the HTTP API of Prometheus, and of what speaks it (Thanos, Mimir, OpenShift).

The contract is that of `GET /api/v1/query` (https://prometheus.io/docs/prometheus/latest/querying/api/).
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from leadline import errors
from leadline.errors import LeadlineError

# An answer of one number has some hundred bytes.
_LONGEST_ANSWER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusSample:
    """One sample: its value, which may be NaN or infinite, and its labels."""

    value: float
    labels: Mapping[str, str]


class _Series(BaseModel):
    metric: dict[str, str]
    value: tuple[float, float]


class _Vector(BaseModel):
    kind: Literal["vector"] = Field(alias="resultType")
    result: tuple[_Series, ...]


class _Scalar(BaseModel):
    kind: Literal["scalar"] = Field(alias="resultType")
    result: tuple[float, float]


class _Answer(BaseModel):
    status: Literal["success"]
    data: _Vector | _Scalar


def query_prometheus(
    url: str,
    query: str,
    *,
    timeout_s: float,
    token_file: str | None = None,
    ca_file: str | None = None,
) -> tuple[PrometheusSample, ...]:
    """Return the samples of an instant query. Raises LeadlineError(`guard-unreadable`)."""
    import httpx2

    try:
        headers = {}
        if token_file is not None:
            # A token of a service account is renewed in its file.
            token = Path(token_file).read_text("utf-8").strip()
            headers["Authorization"] = f"Bearer {token}"
        verify: ssl.SSLContext | bool = True
        if ca_file is not None:
            verify = ssl.create_default_context(cafile=ca_file)
        with (
            httpx2.Client(timeout=timeout_s, verify=verify, headers=headers) as client,
            client.stream(
                "GET", f"{url.rstrip('/')}/api/v1/query", params={"query": query}
            ) as answer,
        ):
            content = b""
            for part in answer.iter_bytes():
                content += part
                if len(content) > _LONGEST_ANSWER_BYTES:
                    raise _unreadable(url, "the answer is longer than 1 MiB: aggregate the query")
    except httpx2.TimeoutException as error:
        raise _unreadable(url, f"no answer within {timeout_s:g} s") from error
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        # ValueError: a token that is no text, or has a line break.
        raise _unreadable(url, str(error) or type(error).__name__) from error
    return _parse(content, answer.status_code, url)


def _parse(content: bytes, status: int, url: str) -> tuple[PrometheusSample, ...]:
    try:
        data = _Answer.model_validate_json(content).data
    except ValidationError as error:
        raise _unreadable(url, _reason(content, status)) from error
    if isinstance(data, _Scalar):
        return (PrometheusSample(value=data.result[1], labels={}),)
    return tuple(
        PrometheusSample(value=series.value[1], labels=series.metric) for series in data.result
    )


class _Refusal(BaseModel):
    status: Literal["error"]
    error: str


def _reason(content: bytes, status: int) -> str:
    """Why an answer has no samples: Prometheus' own words, or the kind of result."""
    try:
        return f"it refuses the query: {_Refusal.model_validate_json(content).error[:300]}"
    except ValidationError:
        pass
    try:
        kind = _Kind.model_validate_json(content).data.get("resultType")
    except ValidationError:
        return f"HTTP status {status} and no answer of Prometheus"
    return f"the query gives a {kind}, and a limit needs a number for each series"


class _Kind(BaseModel):
    data: dict[str, Any]


def _unreadable(url: str, reason: str) -> LeadlineError:
    return LeadlineError(
        errors.GUARD_UNREADABLE,
        f"Prometheus at {url} gives no reading: {reason}",
        hint="try the query in Prometheus' own page, from this machine",
    )
