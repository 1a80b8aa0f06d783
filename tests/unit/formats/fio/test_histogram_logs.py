from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.formats.fio.histogram_logs import (
    TOP_FIO_2_S,
    TOP_FIO_3_S,
    bucket_of,
    bucket_start,
    bucket_value,
    is_bound,
    parse_histogram_log,
    parse_latency_rows,
)
from leadline.formats.result import FormatError
from leadline.metrics import Op
from leadline.stats.histogram import LatencyHistogram
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "imports" / "fio-log"
FIO_2 = (RECORDED / "pkb-2.17_clat_hist.1.log").read_bytes()
FIO_3 = (RECORDED / "own-3.33-s_clat_hist.1.log").read_bytes()


def test_buckets_are_those_of_fios_script() -> None:
    """The file holds the middle of bucket i and i + 1 (fio's script takes the end of the next one)
    where buckets are wider than 1, and the middle of the bucket below."""
    reported = [float(line) for line in (RECORDED / "pkb_hist_bin_vals.txt").read_text().split()]
    assert len(reported) == 1216
    for index, middle in enumerate(reported):
        # At the end of a group the next bucket is twice as wide.
        start, after = bucket_start(index), bucket_start(index + (1 if index < 127 else 2))
        assert (start + after) / 2 == middle


@given(st.integers(0, 1 << 62))
def test_a_latency_lies_in_its_bucket(value: int) -> None:
    index = bucket_of(value)
    assert bucket_start(index) <= value < bucket_start(index + 1)
    assert bucket_value(index) == pytest.approx(value, rel=1 / 128, abs=0.5)


def test_fios_own_values() -> None:
    """From real outputs: fio 2.2.10's largest percentile, and 3.x's `17113` msec."""
    assert TOP_FIO_2_S == 16.71168
    assert TOP_FIO_3_S == 17.11276032
    assert is_bound(16.71168, "fio-2.2.10")
    assert is_bound(16.712, "fio-2.2.10")
    assert is_bound(17.113, "fio-3.7")
    assert is_bound(17.112760, "fio-3.7")
    assert not is_bound(16.71168, "fio-3.7")
    assert is_bound(16.71168, "fio")
    assert not is_bound(16.8, "fio")


def test_fio_2_counts_microseconds() -> None:
    log = parse_histogram_log("h", FIO_2)
    rows = [row.split(b", ") for row in FIO_2.splitlines()]
    assert (log.unit_ns, log.stride, log.span_s) == (1000, 1, 9.001)
    histogram = log.histograms[Op.READ]
    assert histogram.count == sum(int(count) for row in rows for count in row[3:])
    # The fastest I/O of the second row is in the second column: 1 us.
    assert histogram.values_ns[0] == 1000
    assert set(log.histograms) == {Op.READ}


def test_fio_3_counts_nanoseconds_and_neighbours_are_added() -> None:
    log = parse_histogram_log("h", FIO_3)
    assert (log.unit_ns, log.stride) == (1, 4)
    assert set(log.histograms) == {Op.READ, Op.WRITE}
    # fio's clat mean of this run is between 0.1 and 0.5 ms in both directions.
    assert 1e-4 < log.histograms[Op.READ].mean_s() < 5e-4


def test_the_last_bucket_is_reported() -> None:
    fields = FIO_2.splitlines()[0].split(b", ")
    log = parse_histogram_log("h", b", ".join([*fields[:-1], b"3"]) + b"\n")
    (note,) = log.notes
    assert "3 reads" in note.fact
    assert "16.6 s" in note.fact


@pytest.mark.parametrize(
    ("content", "condition", "line"),
    [
        (b"", "empty-result", "line 1"),
        (FIO_2[:-500], "truncated-result", "line 9"),
        (b"1, 0, 4096, 1, 2\n", "unreadable-result", "line 1"),
        (FIO_2.replace(b"2001, 0,", b"2001, 7,"), "unreadable-result", "line 2"),
        (FIO_2.replace(b"2001, 0,", b"2001, -1,"), "unreadable-result", "line 2"),
        (FIO_2.replace(b"2001, 0,", b"2001, ,"), "unreadable-result", "line 2"),
        (FIO_2.replace(b"2001, 0,", b"9" * 5000 + b", 0,"), "unreadable-result", "line 2"),
        (FIO_2 + FIO_3, "unreadable-result", "line 10"),
        (b"1," * 1_000_000, "unreadable-result", "line 1"),
    ],
)
def test_what_is_not_understood_is_named(content: bytes, condition: str, line: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse_histogram_log("h", content)
    assert refused.value.condition == condition
    assert line in refused.value.context[0]


@given(
    st.sampled_from([FIO_2, FIO_3]),
    st.lists(
        st.tuples(
            st.integers(0, 40_000),
            st.integers(0, 9),
            st.sampled_from([b",", b"\n", b"-", b"9" * 30, b"1 1", b"\xff", b"nan", b""]),
        ),
        max_size=4,
    ),
)
def test_nothing_but_a_format_error_is_raised(
    content: bytes, edits: list[tuple[int, int, bytes]]
) -> None:
    for place, length, text in edits:
        at = place % (len(content) + 1)
        content = content[:at] + text + content[at + length :]
    with contextlib.suppress(FormatError):
        for histogram in parse_histogram_log("h", content).histograms.values():
            assert histogram.count >= 0


def test_the_rows_add_up_to_the_whole_log() -> None:
    whole = parse_histogram_log("log", FIO_3)
    found = list(parse_latency_rows("log", FIO_3))
    assert max(row.at_s for row in found) == whole.span_s
    for op, histogram in whole.histograms.items():
        mine = [row.histogram for row in found if row.op is op]
        assert LatencyHistogram.merged(mine) == histogram


def test_a_row_that_is_cut_is_refused() -> None:
    with pytest.raises(FormatError, match="ends within a row"):
        list(parse_latency_rows("log", FIO_3[:-10]))
