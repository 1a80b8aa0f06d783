"""Instant queries, and every answer that is no reading, against a double of Prometheus' API."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leadline import errors
from leadline.connect.prometheus import query_prometheus
from leadline.errors import LeadlineError
from leadline.plan.prometheus import PrometheusServer
from tests.unit.connect.prometheus_double import PrometheusDouble, prometheus_double, vector


@pytest.fixture(scope="module")
def running() -> Iterator[PrometheusDouble]:
    with prometheus_double() as double:
        yield double


@pytest.fixture
def double(running: PrometheusDouble) -> PrometheusDouble:
    running.status, running.answer, running.queries = 200, vector(db="0.002"), []
    return running


def ask(double: PrometheusDouble, **keys: Any) -> list[float]:
    server = PrometheusServer(url=double.url, **keys)
    samples = query_prometheus(server, 'max by (volume) (x{a="b"})', timeout_s=60)
    return [sample.value for sample in samples]


def test_the_samples_of_a_vector_and_of_a_scalar(double: PrometheusDouble) -> None:
    double.set(db="0.002", web="+Inf", idle="NaN")
    first, second, third = ask(double)
    assert (first, second) == (0.002, math.inf)
    assert math.isnan(third)
    assert double.queries == ['max by (volume) (x{a="b"})']
    double.answer = {"status": "success", "data": {"resultType": "scalar", "result": [1.5, "4"]}}
    assert ask(double) == [4.0]
    double.answer = vector()
    assert ask(double) == []


def test_a_token_is_read_from_its_file(double: PrometheusDouble, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\n")
    ask(double, token_file=str(tmp_path / "token"))
    assert double.headers["Authorization"] == "Bearer abc"


@pytest.mark.parametrize(
    ("status", "answer", "expected"),
    [
        (400, {"status": "error", "errorType": "bad_data", "error": "parse error"}, "parse error"),
        (502, b"<html>bad gateway", "HTTP status 502 and no answer of Prometheus"),
        (200, b"", "HTTP status 200 and no answer"),
        (200, {"status": "success", "data": {"resultType": "matrix", "result": []}}, "a matrix"),
        (200, {"status": "success", "data": {"resultType": "string", "result": [1, "x"]}}, "str"),
        (200, b"x" * (2 << 20), "longer than 1 MiB"),
    ],
)
def test_what_is_no_reading(
    double: PrometheusDouble, status: int, answer: object, expected: str
) -> None:
    double.status, double.answer = status, answer
    with pytest.raises(LeadlineError) as raised:
        ask(double)
    assert raised.value.kind is errors.GUARD_UNREADABLE
    assert expected in raised.value.fact


def test_no_server_no_token_and_no_authority(double: PrometheusDouble, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"\xff\n")
    for keys in ({"token_file": "/no/token"}, {"token_file": str(tmp_path / "bad")}):
        with pytest.raises(LeadlineError):
            ask(double, **keys)
    with pytest.raises(LeadlineError):
        ask(double, ca_file=str(tmp_path / "bad"))
    with pytest.raises(LeadlineError, match="refused"):
        query_prometheus(PrometheusServer(url="http://127.0.0.1:1"), "up", timeout_s=2)
