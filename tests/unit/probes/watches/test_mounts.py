"""The watch of mounts: NFS from a recorded mountstats, FUSE from files that change and go."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from leadline.archive.trial import StoredTrial
from leadline.formats.watch_records import (
    FuseSample,
    MissedMount,
    MountSample,
    NfsSample,
    parse_mount_counters,
)
from leadline.probes.watches import mounts
from leadline.probes.watches.mounts import FuseMount, MountWatch
from tests.awaiting import wait_for

MOUNTSTATS = Path("tests/recorded/layers/mountstats-nfs41.txt")
MOUNT = "/mnt/my apps"


def waiting_requests(samples: Sequence[MountSample], mount: str) -> tuple[int, ...]:
    """Return the requests in flight on a FUSE mount, over time."""
    return tuple(
        sample.waiting
        for sample in samples
        if isinstance(sample, FuseSample) and sample.mount == mount
    )


def test_nfs_at_the_start_and_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "_MOUNTSTATS", MOUNTSTATS)
    with MountWatch([], [MOUNT, "/proc"], tmp_path):
        time.sleep(0.05)
    reported = StoredTrial(tmp_path, None).mount_counters
    assert len(reported) == 4
    first, other = reported[:2]
    assert isinstance(other, MissedMount)
    assert other.mount == "/proc"
    assert isinstance(first, NfsSample)
    # What is not reported of at all was never done.
    assert set(first.operations) == {"NULL", "READ", "WRITE", "COMMIT"}
    read, write = first.operations["READ"], first.operations["WRITE"]
    # An answer to READ is the bytes read and a head of about a hundred bytes.
    head = (read.received_bytes - first.bytes.server_read) / read.operations
    assert 90 < head < 120
    head = (write.sent_bytes - first.bytes.server_written) / write.operations
    assert 200 < head < 250
    assert write.total_s >= write.queue_s + write.round_trip_s - 10
    assert first.operations["COMMIT"].failed == 0
    assert first.bytes.normal_written == 39056395530


def test_nfs_4_2_on_loopback_as_linux_6_1_reports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported = Path("tests/recorded/layers/mountstats-nfs42-loopback.txt")
    monkeypatch.setattr(mounts, "_MOUNTSTATS", reported)
    with MountWatch([], ["/mnt/nfs"], tmp_path):
        time.sleep(0.05)
    sample = StoredTrial(tmp_path, None).mount_counters[0]
    assert isinstance(sample, NfsSample)
    read, write = sample.operations["READ"], sample.operations["WRITE"]
    # rsize is 64 KiB, and each READ was a full one.
    assert sample.bytes.server_read == read.operations * (64 << 10)
    assert sample.bytes.direct_read + sample.bytes.normal_read <= sample.bytes.server_read
    head = (write.sent_bytes - sample.bytes.server_written) / write.operations
    assert 200 < head < 250
    # Lookups of names that were not there failed.
    assert sample.operations["LOOKUP"].failed == 2
    assert sample.operations["COMMIT"].operations == 90


def test_what_waits_in_fuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = tmp_path / "44"
    waiting.mkdir()
    (waiting / "waiting").write_text("3\n")
    opened: list[int] = []

    def open_file(filesystem: str, mount_point: Path, name: str) -> int:
        assert filesystem == "fusectl"
        handle = os.open(tmp_path / name, os.O_RDONLY)
        opened.append(handle)
        return handle

    monkeypatch.setattr(mounts, "open_kernel_file", open_file)
    one, gone = FuseMount(mount="/m", connection=44), FuseMount(mount="/gone", connection=45)
    watch = MountWatch([one, gone], [], tmp_path, period_s=0.02)

    def seen_now() -> set[int]:
        return set(waiting_requests(StoredTrial(tmp_path, None).mount_counters, "/m"))

    watch.start()
    wait_for(lambda: seen_now() == {3})
    # In one write: a file that is empty meanwhile is that of a connection that has ended.
    with (waiting / "waiting").open("r+b", buffering=0) as file:
        file.write(b"12\n")
    wait_for(lambda: seen_now() == {3, 12})
    (waiting / "waiting").write_text("")  # as of a connection that has ended
    watch.stop()
    reported = StoredTrial(tmp_path, None).mount_counters
    seen = waiting_requests(reported, "/m")
    assert set(seen) == {3, 12}
    assert seen == tuple(sorted(seen))
    missed = [each for each in reported if isinstance(each, MissedMount)]
    assert [each.mount for each in missed] == ["/gone", "/m"]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


def test_stop_without_start_and_without_a_folder(tmp_path: Path) -> None:
    MountWatch([], [MOUNT], tmp_path).stop()
    with MountWatch([], [MOUNT], tmp_path / "gone"):
        pass
    assert not list(tmp_path.iterdir())


def test_kinds_of_lines() -> None:
    (only,) = parse_mount_counters(
        b'{"at": "x", "elapsed_s": 1, "mount": "/m", "kind": "fuse", "waiting": 4}\n'
    )
    assert only == FuseSample(at="x", elapsed_s=1.0, mount="/m", waiting=4)
