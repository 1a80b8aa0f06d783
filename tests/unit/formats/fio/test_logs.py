from __future__ import annotations

import contextlib
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.formats.fio.logs import Window, parse_iops_log, read_log, windows
from leadline.formats.result import FormatError
from leadline.metrics import Op


def test_jobs_of_one_log_are_added_by_window() -> None:
    text = "1000, 10, 0, 0, 0\n1999, 11, 0, 0, 0\n1000, 20, 0, 0, 0\n2001, 21, 0, 0, 0\n"
    assert [window.value for window in parse_iops_log(text)[Op.READ]] == [30, 32]


def test_directions_are_kept_apart_and_four_columns_are_read() -> None:
    series = parse_iops_log("1000, 10, 0, 4096\n1000, 5, 1, 4096\n")
    assert series[Op.READ][0].value == 10
    assert series[Op.WRITE][0].value == 5


@pytest.mark.parametrize(
    "text",
    ["1000, x, 0\n", "1000\n", "1000, 1, 9\n", "hello\n", "1000, nan, 0\n", "9" * 400 + ", 1, 0\n"],
)
def test_a_line_that_is_not_understood_is_named(text: str) -> None:
    with pytest.raises(FormatError, match="line 1"):
        parse_iops_log(text)


def test_an_empty_log_has_no_windows() -> None:
    assert parse_iops_log("") == {}


def test_the_mean_is_over_the_time_of_the_log() -> None:
    """Uneven intervals: 100 for 0.5 s, 200 for 0.5 s, 50 for 0.7 s."""
    log = read_log("x", b"500, 100, 0, 0\n1000, 200, 0, 0\n1700, 50, 0, 0\n")
    assert not log.each_io
    assert log.series[Op.READ].rate == pytest.approx((50 + 100 + 35) / 1.7)
    assert log.series[Op.READ].silent == 0


def test_fio_writes_no_line_for_an_interval_without_an_io() -> None:
    """Intervals of 500 ms; from 1000 to 3000 there is one line for the last of four."""
    text = b"500, 100, 0, 0\n1000, 100, 0, 0\n3000, 40, 0, 0\n3500, 100, 0, 0\n4000, 100, 0, 0\n"
    log = read_log("x", text)
    assert log.series[Op.READ].silent == 3
    assert log.series[Op.READ].rate == pytest.approx((100 * 4 + 40) * 0.5 / 4)
    assert windows([log])[Op.READ] == (
        Window(end_s=1.0, value=100),
        Window(end_s=2.0, value=0),
        Window(end_s=3.0, value=20),
        Window(end_s=4.0, value=100),
    )


def test_windows_are_never_shorter_than_intervals() -> None:
    log = read_log("x", b"2000, 10, 0, 0\n4001, 20, 0, 0\n6000, 30, 0, 0\n6400, 99, 0, 0\n")
    ends = [(window.end_s, round(window.value)) for window in windows([log])[Op.READ]]
    assert ends == [(2, 10), (4, 20), (6, 30)]


def test_jobs_behind_one_another_are_added() -> None:
    one = b"1000, 10, 0, 0\n1000, 5, 1, 0\n2000, 20, 0, 0\n2000, 5, 1, 0\n"
    log = read_log("x", one + b"1001, 30, 0, 0\n2001, 30, 0, 0\n")
    assert log.jobs == 2
    assert log.series[Op.READ].rate == pytest.approx(15 + 30)
    assert log.series[Op.WRITE].rate == pytest.approx(5)


def test_every_io_has_a_line() -> None:
    """Four reads of 4 KiB and a write of 8 KiB in 2 s; fio writes 1 for each."""
    text = (
        b"".join(b"%d, 1, 0, 4096, 0\n" % at for at in (0, 3, 3, 1500)) + b"2000, 1, 1, 8192, 0\n"
    )
    log = read_log("x", text)
    assert log.each_io
    assert log.series[Op.READ].ios == 4
    assert (log.series[Op.READ].rate, log.series[Op.READ].byte_rate) == (2, 4 * 4096 / 2)
    assert log.series[Op.WRITE].byte_rate == 8192 / 2
    assert [window.value for window in windows([log])[Op.READ]] == [3, 1]


def test_times_since_1970_count_from_the_first_line() -> None:
    start = 1_700_000_000_000
    text = b"".join(b"%d, %d, 0, 0\n" % (start + 1000 * n, 10 * n) for n in range(1, 5))
    log = read_log("x", text)
    assert log.by_clock
    assert log.span_s == 3
    assert log.series[Op.READ].rate == pytest.approx((20 + 30 + 40) / 3)


def test_a_clock_that_goes_back_leaves_no_rate() -> None:
    lines = b"".join(b"%d, 1, 0, 0\n" % at for at in (1000, 2000, 3000, 4000, 5000, 6000, 4000))
    log = read_log("x", lines)
    assert log.backwards == 7
    assert log.series[Op.READ].rate is None


def test_a_negative_value_leaves_no_rate() -> None:
    log = read_log("x", b"1000, 1, 0, 0\n2000, -5, 0, 0\n")
    assert log.impossible == 2
    assert log.series[Op.READ].rate is None


@pytest.mark.parametrize(
    ("text", "condition", "line"),
    [
        (b"", "empty-result", "line 1"),
        (b"1000, 1, 0, 0\n2000, 1", "truncated-result", "line 2"),
        (b"1000, 1, 0, 0\n2000, 1, 0", "truncated-result", "line 2"),
        (b"1000, 1, 0, 0\n2000, 1, 3, 0\n", "unreadable-result", "line 2"),
        (b"1000, 1, 0, 0\n2000, 1, 0, 0, 0\n", "unreadable-result", "line 2"),
        (b"1000, 1, 0, 0\n2000, 1, 0, 4096\n", "unreadable-result", "line 2"),
        (b"1, " * 1_000_000, "unreadable-result", "line 1"),
        (b" " * 1_000_000 + b"x\n", "unreadable-result", "line 1"),
    ],
)
def test_what_is_not_understood_is_named(text: bytes, condition: str, line: str) -> None:
    with pytest.raises(FormatError) as refused:
        read_log("x", text)
    assert refused.value.condition == condition
    assert line in refused.value.context[0]


@pytest.mark.thorough
def test_memory_grows_with_windows_not_with_lines() -> None:
    text = b"".join(b"%d, 1, 0, 4096\n" % (at // 10) for at in range(30_000))
    tracemalloc.start()
    log = read_log("x", text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert log.series[Op.READ].ios == 30_000
    assert peak < 1 << 20


def test_times_far_apart_cost_nothing() -> None:
    log = read_log("x", b"1000, 1, 0, 0\n2000, 1, 0, 0\n3000, 1, 0, 0\n999999999999999, 1, 0, 0\n")
    assert windows([log]) == {}


NUMBERS = st.one_of(st.integers(-5, 5000), st.integers(-(10**18), 10**18))


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(0, 3), st.sampled_from([0, 4096]))),
    st.binary(max_size=20),
)
def test_nothing_but_a_format_error_is_raised(
    rows: list[tuple[int, int, int, int]], tail: bytes
) -> None:
    text = b"".join(b"%d, %d, %d, %d\n" % row for row in rows) + tail
    with contextlib.suppress(FormatError):
        parse_iops_log(text.decode("utf-8", "replace"))
    with contextlib.suppress(FormatError):
        log = read_log("x", text)
        assert all((series.rate or 0) >= 0 for series in log.series.values())
        windows([log])


_LOG_LINES = st.lists(
    st.tuples(
        st.one_of(
            st.integers(0, 60).map(lambda second: 1000 * second),
            st.integers(0, 70_000),
            st.integers(0, 10**15 - 1),
        ),
        st.integers(0, 10**15 - 1),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=40,
)


@given(lines=_LOG_LINES, more=st.integers(0, 4))
def test_a_log_as_fio_writes_it_is_read_as_one_with_other_blanks(
    lines: list[tuple[int, int, int]], more: int
) -> None:
    """Plain logs are read by columns, all others line by line."""
    rows = [", ".join(map(str, (*line, *[0] * more))) for line in lines]
    plain = "\n".join(rows) + "\n"
    by_columns = parse_iops_log(plain)
    by_lines = parse_iops_log(plain.replace(",", " ,", 1))
    assert list(by_columns.items()) == list(by_lines.items())


def test_a_plain_log_with_a_line_that_is_none_names_it() -> None:
    with pytest.raises(FormatError, match="line 2"):
        parse_iops_log("1000, 5, 0, 0, 0\n2000, 5, 3, 0, 0\n3000, 5, 0, 0, 0\n")


@pytest.mark.parametrize("suffix", ["", " "])  # as fio writes it, and line by line
def test_times_since_1970_are_counted_from_a_second_before_the_first_line(suffix: str) -> None:
    start_ms = 1_795_735_173_156
    lines = [f"{start_ms + 1000 * second}, {100 * second}, 0, 0, 0{suffix}" for second in (1, 2, 4)]
    found = parse_iops_log("\n".join(lines) + "\n")[Op.READ]
    assert found == (Window(1.0, 100.0), Window(2.0, 200.0), Window(4.0, 400.0))
