"""Requests of block devices, and tracepoints."""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from leadline.archive import layout
from leadline.archive.trial import StoredTrial
from leadline.formats.watch_records import BlockSample, MissedBlock
from leadline.probes.watches import block
from leadline.probes.watches.block import (
    BlockWatch,
    Tally,
    Tracepoint,
    compute_next_window_s,
    count_by_device,
    parse_format,
    read_kind,
    tally,
)
from tests.awaiting import lines_in, wait_for

POINT = Tracepoint(
    number=1, fields={"dev": slice(0, 4), "nr_sector": slice(4, 8), "rwbs": slice(8, 18)}
)


@pytest.fixture
def classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /sys/class/block of one disk with a partition, and of one that makes no requests."""
    disks = tmp_path / "devices"
    for name, number in (("sda", "8:0"), ("sda/sda1", "8:1"), ("dm-0", "253:0")):
        (disks / name).mkdir(parents=True)
        (disks / name / "dev").write_text(f"{number}\n")
    (disks / "sda/mq").mkdir()
    (disks / "sda/sda1/partition").write_text("1\n")
    found = tmp_path / "class"
    found.mkdir()
    for item in ("sda", "sda/sda1", "dm-0"):
        (found / Path(item).name).symlink_to(disks / item)
    monkeypatch.setattr(block, "_CLASSES", found)
    return found


class Kernel:
    """Stands for the events of a tracepoint: `seen` requests of 4 KiB in each window."""

    seen = 5
    filters: list[str] = []  # noqa: RUF012
    open = 0

    def __init__(self, point: Tracepoint, filter_: str) -> None:
        type(self).filters.append(filter_)
        type(self).open += 1

    def enable(self) -> None: ...

    def disable(self) -> None: ...

    def take(self, columns: Sequence[slice]) -> Tally:
        key = (8 << 20).to_bytes(4, "little") + (8).to_bytes(4, "little") + b"W" + bytes(9)
        return Tally(counts={key: self.seen}, lost=1)

    def close(self) -> None:
        type(self).open -= 1


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> type[Kernel]:
    class Own(Kernel):
        filters: list[str] = []  # noqa: RUF012

    monkeypatch.setattr(block, "tracepoint", lambda group, name: POINT)
    monkeypatch.setattr(block, "TracepointEvents", Own)
    return Own


def watched(folder: Path, *devices: str, lines: int) -> tuple[BlockSample | MissedBlock, ...]:
    """What is written, once it is so many lines."""
    watch = BlockWatch(devices, folder, first_s=0.0, period_s=0.1)
    with watch:
        wait_for(lambda: lines_in(folder / layout.BLOCK_REQUESTS) >= lines)
    return StoredTrial(folder, None).block_requests


def test_a_partition_is_watched_as_its_disk_and_others_are_reported(
    classes: Path, kernel: type[Kernel], tmp_path: Path
) -> None:
    first, second, *samples = watched(tmp_path, "sda1", "sda", "dm-0", "gone", lines=4)
    assert isinstance(first, MissedBlock)
    assert first.device == "dm-0"
    assert "no requests of its own" in first.reason
    assert isinstance(second, MissedBlock)
    assert second.device == "gone"
    assert set(kernel.filters) == {f"dev == {8 << 20}"}
    assert len(samples) > 1
    for sample in samples:
        assert isinstance(sample, BlockSample)
        assert (sample.device, sample.lost, sample.writes, sample.reads) == (
            "sda",
            1,
            {4096: 5},
            {},
        )
        assert sample.seconds > 0
    assert kernel.open == 0


def test_a_hidden_path_of_nvme_is_watched_by_the_number_that_the_kernel_counts_it_by(
    classes: Path, kernel: type[Kernel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (classes / "nvme0c0n1" / "mq").mkdir(parents=True)
    counters = tmp_path / "diskstats"
    counters.write_text(" 259       1 nvme0n1 0 0\n 259       7 nvme0c0n1 48 0\n")
    monkeypatch.setattr(block, "_COUNTERS", counters)
    watched(tmp_path, "nvme0c0n1", lines=1)
    assert set(kernel.filters) == {f"dev == {259 << 20 | 7}"}


def test_windows_get_shorter_where_much_is_seen_and_longer_where_little_is() -> None:
    assert compute_next_window_s(0.05, 20_000) == pytest.approx(0.01)
    assert compute_next_window_s(0.2, 4_000) == pytest.approx(0.1)
    assert compute_next_window_s(0.1, 10) == pytest.approx(0.2)
    # A quiet device is watched for half of the time at most, a busy one never for none of it.
    assert compute_next_window_s(1.0, 0) == 1.0
    assert compute_next_window_s(0.01, 10**9) == 0.01


def test_who_may_not_look_is_reported_so_once(
    classes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(group: str, name: str) -> Tracepoint:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(block, "tracepoint", refuse)
    (only,) = watched(tmp_path, "sda", lines=1)
    assert isinstance(only, MissedBlock)
    assert (only.device, only.reason) == ("", "Permission denied")


def test_stop_ends_a_window_and_nothing_comes_behind_it(
    classes: Path, kernel: type[Kernel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block, "_WINDOW_S", 30.0)
    watch = BlockWatch(["sda"], tmp_path, first_s=0.0)
    watch.start()
    wait_for(lambda: kernel.open)
    began = time.monotonic()
    watch.stop()
    watch.stop()
    assert time.monotonic() - began < 20
    (only,) = StoredTrial(tmp_path, None).block_requests
    assert isinstance(only, BlockSample)
    assert 0 < only.seconds < 20


def test_stop_without_start_and_without_a_folder(tmp_path: Path) -> None:
    BlockWatch(["sda"], tmp_path).stop()
    with BlockWatch(["sda"], tmp_path / "gone"):
        pass
    assert not (tmp_path / layout.BLOCK_REQUESTS).exists()


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
