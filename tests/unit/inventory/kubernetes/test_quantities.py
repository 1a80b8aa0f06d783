"""Kubernetes' quantities."""

from __future__ import annotations

import pytest

from leadline.inventory.kubernetes.kinds import parse_quantity


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4", 4),
        ("0", 0),
        ("500m", 0.5),
        ("15500m", 15.5),
        ("1.5Gi", 1.5 * 2**30),
        ("65009552Ki", 65009552 * 1024),
        ("2Ti", 2 * 2**40),
        ("100k", 100_000),
        ("1M", 10**6),
        ("1E", 10**18),
        ("1e3", 1000),
        ("12E2", 1200),
        ("100n", 1e-7),
        (" 8Gi ", 8 * 2**30),
    ],
)
def test_what_is_a_quantity(text: str, number: float) -> None:
    assert parse_quantity(text) == pytest.approx(number, rel=1e-12)


@pytest.mark.parametrize(
    "text", ["", "Gi", "4 cores", "1.2.3", "4GiB", "1e999", "9" * 60, "1K", "0x10", "NaN", "."]
)
def test_what_is_none(text: str) -> None:
    assert parse_quantity(text) is None
