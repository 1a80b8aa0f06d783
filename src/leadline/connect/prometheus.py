"""Instant queries to the HTTP API of Prometheus, and of what speaks it (Thanos, Mimir, OpenShift).

The contract is that of `GET /api/v1/query` (https://prometheus.io/docs/prometheus/latest/querying/api/).
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from leadline import errors
from leadline.errors import LeadlineError
from leadline.formats.prometheus import Answer, parse_answer
from leadline.plan.prometheus import PrometheusServer

if TYPE_CHECKING:
    import httpx2

# An answer of one number has some hundred bytes.
_LONGEST_ANSWER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusSample:
    """One sample: its value, which may be NaN or infinite, and its labels."""

    value: float
    labels: Mapping[str, str]


def query_prometheus(
    server: PrometheusServer, query: str, *, timeout_s: float
) -> tuple[PrometheusSample, ...]:
    """Return the samples of an instant query. Raises LeadlineError(`guard-unreadable`)."""
    with PrometheusConnection(server) as connection:
        _, answer = connection.ask(query, timeout_s=timeout_s)
    return tuple(
        PrometheusSample(value=series.value[1], labels=series.metric) for series in answer.series
    )


class PrometheusConnection:
    """A client of one server, for several queries. It connects when it is first used."""

    def __init__(self, server: PrometheusServer) -> None:
        self._server = server

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if "_client" in self.__dict__:
            self._client.close()

    @cached_property
    def _client(self) -> httpx2.Client:
        """Raises OSError and ValueError for files that cannot be used."""
        import httpx2

        headers = {}
        if self._server.token_file is not None:
            # A token of a service account is renewed in its file.
            token = Path(self._server.token_file).read_text("utf-8").strip()
            headers["Authorization"] = f"Bearer {token}"
        verify: ssl.SSLContext | bool = True
        if self._server.ca_file is not None:
            verify = ssl.create_default_context(cafile=self._server.ca_file)
        return httpx2.Client(verify=verify, headers=headers)

    def ask(
        self, query: str, *, timeout_s: float, at_s: float | None = None
    ) -> tuple[bytes, Answer]:
        """Return the answer to an instant query at `at_s`, a time of Prometheus' own clock in
        seconds since 1970 (None: now), as it came and parsed. Raises
        LeadlineError(`guard-unreadable`)."""
        import httpx2

        url, deadline = self._server.url, time.monotonic() + timeout_s
        parameters = {"query": query} if at_s is None else {"query": query, "time": f"{at_s:.3f}"}
        address = f"{url.rstrip('/')}/api/v1/query"
        try:
            with self._client.stream(
                "GET", address, params=parameters, timeout=timeout_s
            ) as answer:
                content = b""
                for part in answer.iter_bytes():
                    content += part
                    if len(content) > _LONGEST_ANSWER_BYTES:
                        raise _unreadable(
                            url, "the answer is longer than 1 MiB: aggregate the query"
                        )
                    # The timeout of the client is that of each part.
                    if time.monotonic() > deadline:
                        raise _unreadable(url, f"no whole answer within {timeout_s:g} s")
        except httpx2.TimeoutException as error:
            raise _unreadable(url, f"no answer within {timeout_s:g} s") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            # ValueError: a token that is no text, or has a line break.
            raise _unreadable(url, str(error) or type(error).__name__) from error
        try:
            return content, parse_answer(content, answer.status_code)
        except ValueError as error:
            raise _unreadable(url, str(error)) from error


def _unreadable(url: str, reason: str) -> LeadlineError:
    return LeadlineError(
        errors.GUARD_UNREADABLE,
        f"Prometheus at {url} gives no reading: {reason}",
        hint="try the query in Prometheus' own page, from this machine",
    )
