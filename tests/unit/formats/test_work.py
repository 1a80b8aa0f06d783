"""The options that change the work of a job, in one spelling."""

from __future__ import annotations

import pytest

from leadline.formats.result import JobOptions
from leadline.formats.work import work_options


def work(whole: bool = True, **raw: str) -> dict[str, str]:
    return work_options(JobOptions(raw=raw, whole=whole))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"bs": "4096"}, {"blocksize": "4kb"}),
        ({"bs": "4k,4k"}, {}),
        ({"rw": "readwrite"}, {"readwrite": "rw"}),
        ({"direct": "1"}, {"buffered": "0"}),
        ({"rw": "randrw", "rwmixwrite": "30"}, {"rw": "randrw", "rwmixread": "70"}),
        ({"rw": "read", "rwmixread": "70"}, {"rw": "read"}),
        ({"ioengine": "psync"}, {}),
        ({"runtime": "60", "filename": "/a", "name": "x"}, {"runtime": "30", "filename": "/b"}),
    ],
)
def test_two_spellings_are_the_same_work(one: dict[str, str], other: dict[str, str]) -> None:
    assert work(**one) == work(**other)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("ioengine", "io_uring"), ("direct", "1"), ("size", "1G"), ("fsync", "1")),
        *(("registerfiles", "1"), ("zonemode", "zbd"), ("rate_iops", "500"), ("bs", "4k,64k")),
    ],
)
def test_what_changes_the_work_changes_the_options(option: str, value: str) -> None:
    assert work(**{option: value})[option] == value
    assert work(**{option: value}) != work()


def test_processes_share_files_or_have_their_own() -> None:
    assert work(numjobs="4", filename="/dev/sda")["files"] == "shared"
    assert work(numjobs="4", directory="/mnt")["files"] == "own"
    assert "files" not in work(filename="/dev/sda")
    assert "files" not in work(whole=False, numjobs="4")


def test_what_a_summary_does_not_report_is_left_out() -> None:
    assert work(whole=False, bs="4k") == {"bs": "4k"}
