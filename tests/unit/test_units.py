from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.units import (
    format_bandwidth,
    format_block_size,
    format_duration,
    format_iops,
    format_latency,
    format_size,
    parse_duration,
    parse_fio_size,
    parse_size,
    round_significant,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4k", 4096),
        ("4K", 4096),
        ("1M", 1 << 20),
        ("1MiB", 1 << 20),
        ("10G", 10 << 30),
        ("150GB", 150 * 10**9),
        ("1.5M", 3 << 19),
        (512, 512),
        ("512", 512),
        ("512b", 512),
    ],
)
def test_a_size_is_read_as_fio_reads_it(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "big", "-4k", "4 q", "1.0001k", True, "4k4k"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"size|bytes"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "size"), [("4k", 4096), ("4kb", 4096), ("4kib", 4000), ("1g", 1 << 30), ("7", 7)]
)
def test_fio_reads_sizes_in_its_own_way(text: str, size: int) -> None:
    assert parse_fio_size(text) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10s", 10), ("5m", 300), ("1h", 3600), ("500ms", 0.5), (3, 3), ("2.5", 2.5), ("1min", 60)],
)
def test_a_duration_is_seconds(text: str | int, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["soon", "-1s", "", "1:30", True])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration"):
        parse_duration(text)


@given(st.integers(min_value=0, max_value=2**50))
def test_whole_powers_survive_formatting(size: int) -> None:
    assert parse_size(format_block_size(size)) == size


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (format_size(4096), "4 KiB"),
        (format_size(3 << 29), "1.5 GiB"),
        (format_size(0), "0 B"),
        (format_duration(45), "45 s"),
        (format_duration(750), "12 min 30 s"),
        (format_duration(11100), "3 h 05 min"),
        (format_latency(12.34e-6), "12.3 us"),
        (format_latency(0.00456), "4.56 ms"),
        (format_latency(1.2), "1.2 s"),
        (format_latency(0.99999e-3), "1 ms"),
        (format_latency(0.9994e-3), "999 us"),
        (format_latency(-0.99999), "-1 s"),
        (format_size(1023.9 * 1024), "1 MiB"),
        (format_size(1023), "1,023 B"),
        (format_duration(59.99), "1 min"),
        (format_iops(12345.6), "12,346"),
        (format_iops(98.54), "98.5"),
        (format_bandwidth(104857600), "100"),
    ],
)
def test_figures_are_said_for_people(said: str, expected: str) -> None:
    assert said == expected


def _magnitude(said: str) -> tuple[float, str]:
    number, unit = said.split(" ")
    return abs(float(number.replace(",", ""))), unit


@given(st.floats(min_value=1e-9, max_value=999, allow_subnormal=False))
def test_a_latency_is_never_a_thousand_of_a_unit(seconds: float) -> None:
    number, unit = _magnitude(format_latency(seconds))
    assert number < 1000
    assert number * {"us": 1e-6, "ms": 1e-3, "s": 1.0}[unit] == pytest.approx(seconds, rel=6e-3)


@given(st.floats(min_value=1, max_value=2.0**49))
def test_a_size_is_never_1024_of_a_unit(size: float) -> None:
    number, unit = _magnitude(format_size(size))
    assert number < 1024
    factor = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}[unit]
    assert number * factor == pytest.approx(size, rel=6e-3)


@given(st.floats(min_value=1e-6, max_value=1e6))
def test_a_duration_is_never_sixty_of_a_unit(seconds: float) -> None:
    said = format_duration(seconds).split(" ")
    parts = dict(zip(said[1::2], (float(one) for one in said[::2]), strict=True))
    assert all(number < 60 for unit, number in parts.items() if unit != "h")
    told = sum(number * {"s": 1, "min": 60, "h": 3600}[unit] for unit, number in parts.items())
    finest = 60 if "h" in parts else 0.5 if "min" in parts else 6e-3 * seconds
    assert abs(told - seconds) <= finest


@pytest.mark.parametrize(
    ("value", "rounded"),
    [
        (0.6703578413780484, 0.670357841378),
        (-1.2325167797358958e-9, -1.23251677974e-9),
        (123456.0, 123456.0),
        (123456789012.75, 123456789013.0),
        (float(4 << 40), float(4 << 40)),
        (float((4 << 40) + 0.125), float(4 << 40)),
        (1.5e300, 1.5e300),
        (0.0, 0.0),
    ],
)
def test_numbers_are_rounded_to_twelve_digits_and_to_whole_ones(
    value: float, rounded: float
) -> None:
    assert round_significant(value) == rounded
    assert round_significant(rounded) == rounded


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_no_number_is_not_rounded(value: float) -> None:
    assert round_significant(value) == value
    assert math.isnan(round_significant(math.nan))


def test_texts_of_two_neighbouring_numbers_are_equal() -> None:
    middle = 1001.5
    below = math.nextafter(middle, 0)
    assert f"{below:.0f}" != f"{middle:.0f}"
    assert format_iops(below) == format_iops(middle) == "1,002"
    assert format_size(1024 * below) == format_size(1024 * middle) == "1,002 KiB"
    assert format_bandwidth(below * (1 << 20)) == format_bandwidth(middle * (1 << 20)) == "1,002"
    assert format_latency(below) == format_latency(middle)
    assert format_duration(math.nextafter(59.95, 0)) == format_duration(59.95)
