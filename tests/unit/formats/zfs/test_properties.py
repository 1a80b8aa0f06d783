from __future__ import annotations

import pytest

from leadline.formats.result import FormatError
from leadline.formats.zfs.status import Property, parse_properties
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "zfs"
TABLE = (RECORDED / "zfs-get-all.txt").read_text()
TABS = (RECORDED / "zfs-get-Hp-all.txt").read_text()


def test_a_table() -> None:
    reported = parse_properties(TABLE)["tank/r1M"]
    assert len(reported) == len(TABLE.splitlines()) - 1 == 75
    assert reported["recordsize"] == Property(value="1M", source="local")
    assert reported["compression"] == Property(value="off", source="inherited from tank")
    assert reported["creation"] == Property(value="Fri Nov 20 21:26 2026", source="-")
    assert reported["volmode"] == Property(value="default", source="default")


def test_tabs() -> None:
    reported = parse_properties(TABS)["tank/r4M"]
    assert len(reported) == len(TABS.splitlines())
    assert reported["recordsize"].value == "4194304"
    assert reported["mountpoint"].source == "inherited from tank"
    assert reported["compressratio"].value == "1.00"


def test_a_pool() -> None:
    reported = parse_properties((RECORDED / "zpool-get-all.txt").read_text())["tank"]
    assert reported["ashift"] == Property(value="12", source="local")
    assert reported["feature@large_blocks"].value == "active"
    assert reported["altroot"] == Property(value="-", source="default")


def test_zfs_fuse() -> None:
    """Its columns are too narrow for a guid, and a day of one digit is behind two blanks."""
    pool = parse_properties((RECORDED / "fuse-zpool-get-all.txt").read_text())["leadline-b"]
    assert pool["guid"] == Property(value="3890887666650340876", source="default")
    assert pool["version"] == Property(value="23", source="default")
    reported = parse_properties((RECORDED / "fuse-zfs-get-all.txt").read_text())["leadline-b/src"]
    assert reported["creation"].value == "Sun Nov 22  2:23 2026"
    assert reported["leadline:owner"] == Property(value="me", source="local")
    tabs = parse_properties((RECORDED / "fuse-zfs-get-Hp-all.txt").read_text())["leadline-b/src"]
    assert tabs.keys() == reported.keys()
    assert (tabs["recordsize"].value, tabs["compressratio"].value) == ("65536", "1.00x")


def test_columns_that_were_asked_for() -> None:
    text = (RECORDED / "on-rbd-zfs_get_Hp.txt").read_text()
    reported = parse_properties(text, columns=("name", "property", "value"))
    assert dict(reported["labr"]) == {
        "recordsize": Property(value="131072", source=""),
        "compression": Property(value="off", source=""),
        "compressratio": Property(value="1.00x", source=""),
    }
    with pytest.raises(FormatError, match="line 1"):
        parse_properties(text)
    with pytest.raises(ValueError, match="columns are"):
        parse_properties(text, columns=("name", "value"))


def test_several_datasets_of_the_job_log() -> None:
    log = (RECORDED / "zfs-job-log.txt").read_text().splitlines(keepends=True)
    reported = parse_properties("".join(line for line in log if "\trecordsize\t" in line))
    assert {name: one["recordsize"].value for name, one in reported.items()} == {
        "tank": "128K",
        "tank/r128K": "128K",
        "tank/r16M": "16M",
        "tank/r1M": "1M",
        "tank/r4M": "4M",
        "tank2": "128K",
    }


def test_values_of_any_kind() -> None:
    text = "tank\tuser:empty\t\tlocal\ntank\tuser:text\ta  b, inherited from c\treceived\n"
    assert dict(parse_properties(text)["tank"]) == {
        "user:empty": Property(value="", source="local"),
        "user:text": Property(value="a  b, inherited from c", source="received"),
    }
    table = (
        "NAME     PROPERTY    VALUE  SOURCE\n"
        "my tank  user:empty         local\n"
        "my tank  user:text   a  b   inherited from my tank\n"
    )
    assert dict(parse_properties(table)["my tank"]) == {
        "user:empty": Property(value="", source="local"),
        "user:text": Property(value="a  b", source="inherited from my tank"),
    }


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (TABLE.replace(" local", " mine "), "unreadable-result"),
        (TABLE.replace("1M                     local", "1M local"), "unreadable-result"),
        (TABLE[:-3], "truncated-result"),
        (TABS[:-9], "truncated-result"),
        (TABS + TABS, "unreadable-result"),
        (TABS.replace("\t", " "), "unreadable-result"),
        ("cannot open 'nothere': dataset does not exist\n", "unreadable-result"),
        ("NAME  PROPERTY  VALUE  SOURCE\n", "truncated-result"),
        ("", "empty-result"),
    ],
)
def test_what_is_not_understood_is_refused(text: str, condition: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse_properties(text)
    assert refused.value.condition == condition
