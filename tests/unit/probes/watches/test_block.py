"""The watch of block requests where there is nothing to be had; `tests/real` has the real thing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from leadline.archive import layout
from leadline.archive.reader import StoredTrial
from leadline.formats.watch_records import BlockSample, MissedBlock
from leadline.probes.watches import block
from leadline.probes.watches.block import BlockWatch, Tally, Tracepoint, compute_next_window_s
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


def test_a_partition_is_watched_as_its_disk_and_others_are_told(
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


def test_who_may_not_look_is_told_so_once(
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
