from __future__ import annotations

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
        (format_iops(12345.6), "12,346"),
        (format_iops(98.54), "98.5"),
        (format_bandwidth(104857600), "100"),
    ],
)
def test_figures_are_said_for_people(said: str, expected: str) -> None:
    assert said == expected
