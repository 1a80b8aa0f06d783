"""Events of a tracepoint as bytes: where their fields lie, and how many there are of each kind."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

import pytest

from leadline.probes.watches.block import count_by_device, parse_format, read_kind, tally

FORMAT = Path("tests/recorded/layers/block_rq_issue-format-6.18.txt")
LOOP0 = 7 << 20
FIELDS = ("dev", "nr_sector", "rwbs")


def event(device: int, sectors: int, rwbs: str, *, more: int = 0) -> bytes:
    """A record of the ring as the kernel of the recorded format writes it: head, size, event."""
    raw = bytearray(60 + more)
    struct.pack_into("=I", raw, 8, device)
    struct.pack_into("=QI", raw, 16, 4711 + sectors, sectors)
    raw[34 : 34 + len(rwbs)] = rwbs.encode()
    length = 8 + 4 + len(raw)
    padded = length + -length % 8
    return struct.pack("=IHHI", 9, 0, padded, padded - 12) + bytes(raw) + bytes(padded - length)


def lost() -> bytes:
    return struct.pack("=IHHQQ", 2, 0, 24, 1, 5)


def test_the_format_of_a_real_kernel() -> None:
    point = parse_format(FORMAT.read_text())
    assert point.number == 2104
    assert [point.fields[name] for name in FIELDS] == [slice(8, 12), slice(24, 28), slice(34, 44)]
    assert point.fields["comm"] == slice(44, 60)


def test_a_text_that_is_no_format_is_refused() -> None:
    with pytest.raises(ValueError, match="ID"):
        parse_format("name: block_rq_issue\n")


@pytest.mark.parametrize("mixed", [b"", lost(), event(LOOP0, 8, "R", more=64)])
def test_events_are_counted_by_their_columns(mixed: bytes) -> None:
    """Whether all records are of one length, or others are among them."""
    point = parse_format(FORMAT.read_text())
    columns = [point.fields[name] for name in FIELDS]
    records = event(LOOP0, 32, "WS") * 3 + event(LOOP0, 8, "R") + mixed + event(LOOP0, 32, "WS")
    counts: Counter[bytes] = Counter()
    taken = tally(records, columns, counts)
    more = 1 if mixed.startswith(struct.pack("=I", 9)) else 0
    assert taken == 5 + more
    sizes = count_by_device(counts)
    assert set(sizes) == {LOOP0}
    assert sizes[LOOP0].writes == {16384: 4}
    assert sizes[LOOP0].reads == {4096: 1 + more}


def test_nothing_is_nothing() -> None:
    counts: Counter[bytes] = Counter()
    assert tally(b"", [slice(0, 4)], counts) == 0
    assert not counts


@pytest.mark.parametrize(
    ("rwbs", "kind"),
    [
        *[("R", "R"), ("RA", "R"), ("RM", "R"), ("W", "W"), ("WS", "W"), ("WFS", "W"), ("D", "D")],
        # A flush in front of a write is the write's; alone it is a flush.
        *[("FWFS", "W"), ("FF", "F"), ("F", "F"), ("N", "N"), ("", "")],
    ],
)
def test_what_a_request_does(rwbs: str, kind: str) -> None:
    assert read_kind(rwbs) == kind


def test_flushes_and_discards_are_no_writes() -> None:
    keys = {
        struct.pack("=II", LOOP0, 0) + b"FF".ljust(10, b"\0"): 2,
        struct.pack("=II", LOOP0, 2048) + b"D".ljust(10, b"\0"): 1,
        struct.pack("=II", LOOP0, 8) + b"N".ljust(10, b"\0"): 7,
        struct.pack("=II", 1, 8) + b"W".ljust(10, b"\0"): 1,
    }
    sizes = count_by_device(keys)
    assert sizes[LOOP0].line() == {
        "reads": {},
        "writes": {},
        "discards": {"1048576": 1},
        "flushes": 2,
    }
    assert sizes[1].writes == {4096: 1}
