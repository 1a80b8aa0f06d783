from __future__ import annotations

import pytest

from leadline.formats.output import FormatError
from leadline.formats.zfs.arc_summary import ArcFigure, ArcUnit, parse_arc_summary
from leadline.formats.zfs.kstat import parse_kstat
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "zfs"
TEXT = (RECORDED / "arc_summary.txt").read_text()
SUMMARY = parse_arc_summary(TEXT)


def test_figures_with_and_without_units() -> None:
    status = SUMMARY.sections["ARC status"]
    assert status["Current size"] == ArcFigure(
        value=231.0 * 2**20, unit=ArcUnit.BYTES, share=0.187, count=None
    )
    assert SUMMARY.sections["ARC total accesses"][""].value == 91_600
    assert SUMMARY.sections["ARC hash breakdown"]["Elements"].value == 327
    bonus = SUMMARY.sections["ARC structural breakdown (current size)"]["Bonus size"]
    assert (bonus.share, bonus.value) == (None, 43.1 * 1024)
    ghost = SUMMARY.sections["ARC states breakdown (compressed + overhead)"]
    assert ghost["MFU ghost data size"].share is None


def test_a_row_without_a_colon_and_one_with_two_figures() -> None:
    prefetcher = SUMMARY.sections["DMU predictive prefetcher calls"]
    assert prefetcher["Prefetches issued"].value == 0
    zil = SUMMARY.sections["ZIL committed transactions"]
    assert zil["Transactions to non-SLOG storage pool"] == ArcFigure(
        value=401.0 * 1024, unit=ArcUnit.BYTES, share=None, count=14
    )
    assert zil[""].value == 974


def test_parameters_of_the_modules() -> None:
    assert SUMMARY.parameters["zfs_vdev_async_write_max_active"] == "10"
    assert SUMMARY.parameters["spl_hostid_path"] == "/etc/hostid"
    assert SUMMARY.parameters["icp_aes_impl"] == "cycle [fastest] generic x86_64 aesni"
    assert SUMMARY.parameters["zfs_vdev_raidz_impl"].endswith("ssse3 avx2")
    lines = TEXT[TEXT.index("\nSolaris Porting") : TEXT.index("\nZIL committed")].splitlines()
    assert len(SUMMARY.parameters) == sum(line.startswith("        ") for line in lines)


def test_what_stands_around() -> None:
    assert SUMMARY.versions[1] == "Linux 6.1.0-56-cloud-amd64 2.3.2-2~bpo12+2"
    assert SUMMARY.skipped == ("L2ARC not detected, skipping section",)
    headings = [line for line in TEXT.splitlines() if line.startswith(("ARC ", "DMU ", "ZIL "))]
    assert list(SUMMARY.sections) == [line.partition(":")[0] for line in headings]


def test_it_agrees_with_the_kstat_of_that_moment() -> None:
    arc = parse_kstat((RECORDED / "arcstats.txt").read_text()).values
    accesses = SUMMARY.sections["ARC total accesses"]
    assert accesses["Total hits"].value == pytest.approx(arc["hits"], rel=0.001)
    assert accesses["Total I/O hits"].value == arc["iohits"]


@pytest.mark.parametrize(
    ("old", "new", "condition"),
    [
        ("231.0 MiB", "231.0 MB", "unreadable-result"),
        ("9.4k", "nan", "unreadable-result"),
        ("ARC misc:", "ARC misc", "unreadable-result"),
        ("Min target size", "Max target size", "unreadable-result"),
    ],
)
def test_what_is_not_understood_is_refused(old: str, new: str, condition: str) -> None:
    assert old in TEXT
    with pytest.raises(FormatError, match="line") as refused:
        parse_arc_summary(TEXT.replace(old, new, 1))
    assert refused.value.condition == condition


def test_a_text_that_is_cut() -> None:
    for text, condition in (
        (TEXT[:2000].rstrip("\n"), "truncated-result"),
        ("".join(TEXT.splitlines(keepends=True)[:6]), "truncated-result"),
        ("", "empty-result"),
    ):
        with pytest.raises(FormatError) as refused:
            parse_arc_summary(text)
        assert refused.value.condition == condition
