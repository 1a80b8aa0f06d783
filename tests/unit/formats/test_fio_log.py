from __future__ import annotations

import pytest

from leadline.formats.fio_log import parse_iops_log
from leadline.formats.output import FormatError
from leadline.metrics import Op


def test_jobs_of_one_log_are_added_by_window() -> None:
    text = "1000, 10, 0, 0, 0\n1999, 11, 0, 0, 0\n1000, 20, 0, 0, 0\n2001, 21, 0, 0, 0\n"
    assert [window.value for window in parse_iops_log(text)[Op.READ]] == [30, 32]


def test_directions_are_kept_apart_and_four_columns_are_read() -> None:
    series = parse_iops_log("1000, 10, 0, 4096\n1000, 5, 1, 4096\n")
    assert series[Op.READ][0].value == 10
    assert series[Op.WRITE][0].value == 5


@pytest.mark.parametrize("text", ["1000, x, 0\n", "1000\n", "1000, 1, 9\n", "hello\n"])
def test_a_line_that_is_not_understood_is_named(text: str) -> None:
    with pytest.raises(FormatError, match="line 1"):
        parse_iops_log(text)


def test_an_empty_log_has_no_windows() -> None:
    assert parse_iops_log("") == {}
