from __future__ import annotations

import itertools

import pytest

from leadline.formats.result import FormatError
from leadline.formats.zfs.kstat import TxgState, parse_kstat, parse_txgs
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "zfs"
ARC = (RECORDED / "arcstats.txt").read_text()
TXGS = (RECORDED / "txgs.txt").read_text()
TABLES = sorted(RECORDED.glob("telegraf-kstat-*.txt"))


def test_names_and_values() -> None:
    arc = parse_kstat(ARC)
    assert len(arc) == 147
    assert arc["hits"] == 89795


def test_the_arc_adds_up() -> None:
    """What the module counts itself: a parser that took a neighbour's value would not."""
    for text in (ARC, (RECORDED / "telegraf-kstat-arcstats.txt").read_text()):
        values = parse_kstat(text)
        kinds = ("demand_data", "demand_metadata", "prefetch_data", "prefetch_metadata")
        for what in ("hits", "misses", "iohits"):
            parts = [values[f"{kind}_{what}"] for kind in kinds]
            assert values[what] == pytest.approx(sum(map(int, parts)), rel=1e-6)


def test_other_tables() -> None:
    assert [len(parse_kstat(path.read_text())) for path in TABLES] == [147, 26, 8, 20]
    zil = parse_kstat((RECORDED / "telegraf-kstat-zil.txt").read_text())
    assert zil["zil_itx_metaslab_normal_write"] == 593181339648


def test_texts_and_negative_numbers() -> None:
    text = (
        "37 1 0x01 3 816 5 9\nname  type data\n"
        "dataset_name                    7    store/a b\nsigned 3    -5\nempty 7\n"
    )
    assert dict(parse_kstat(text)) == {
        "dataset_name": "store/a b",
        "signed": -5,
        "empty": "",
    }


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("".join(ARC.splitlines(keepends=True)[:-1]), "truncated-result"),
        (ARC[:-1], "truncated-result"),
        (ARC + "more 4 1\n", "unreadable-result"),
        (ARC.replace("89795", "89,795"), "unreadable-result"),
        (ARC.replace("89795", "9" * 21), "unreadable-result"),
        (ARC.replace("iohits      ", "hits        ", 1), "unreadable-result"),
        (ARC.replace("name  ", "names ", 1), "unreadable-result"),
        (ARC[ARC.index("name") :], "unreadable-result"),
        (ARC.replace("18 1 0x01", "18 3 0x01"), "unreadable-result"),
        (TXGS, "unreadable-result"),
        ("", "empty-result"),
    ],
)
def test_what_is_not_understood_is_refused(text: str, condition: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse_kstat(text)
    assert refused.value.condition == condition


def test_transaction_groups() -> None:
    groups = parse_txgs(TXGS)
    assert [one.txg for one in groups] == list(range(122, 168))
    first, last = groups[0], groups[-1]
    assert first.birth_s == pytest.approx(70.26318762)
    assert (first.written_bytes, first.reads, first.writes) == (2514944, 6, 172)
    assert (first.open_s, first.sync_s) == pytest.approx((0.09558634, 0.12608769))
    assert (first.state, last.state) == (TxgState.COMMITTED, TxgState.OPEN)
    assert last.open_s == last.sync_s == 0
    # Each is open from its birth until the next one is born.
    for one, after in itertools.pairwise(groups):
        assert after.birth_s - one.birth_s == pytest.approx(one.open_s, abs=1e-4)


def test_a_header_above_them_and_no_groups() -> None:
    heads = TXGS.splitlines(keepends=True)[0]
    assert parse_txgs(heads) == ()
    assert parse_txgs("5 0 0x01 46 5152 1 2\n" + TXGS) == parse_txgs(TXGS)


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (TXGS.replace(" C ", " X ", 1), "unreadable-result"),
        (TXGS.replace("2514944", "-514944"), "unreadable-result"),
        (TXGS.replace("2514944 ", "", 1), "unreadable-result"),
        (TXGS.replace("ndirty", "dirty "), "unreadable-result"),
        (TXGS[:-20], "truncated-result"),
        (ARC, "unreadable-result"),
        (" \n", "empty-result"),
    ],
)
def test_groups_that_are_not_understood_are_refused(text: str, condition: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse_txgs(text)
    assert refused.value.condition == condition
