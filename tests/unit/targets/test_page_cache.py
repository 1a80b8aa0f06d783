from __future__ import annotations

from pathlib import Path

import pytest

from leadline.archive.records import CacheDrop
from leadline.targets import page_cache_drop
from leadline.targets.local import drop_page_cache


def dropped(path: Path) -> CacheDrop:
    drop = drop_page_cache([path])
    assert drop is not None, "this filesystem can be mapped"
    return drop


def test_pages_are_counted_dropped_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (3 << 20))
    path.read_bytes()
    drop = dropped(path)
    # The kernel may reclaim some pages meanwhile.
    assert 2 << 20 < drop.resident_before_bytes <= 3 << 20
    if drop.resident_after_bytes:  # tmpfs keeps its pages: they are the file
        assert drop.resident_after_bytes == 3 << 20
    else:
        path.read_bytes()
        assert 2 << 20 < dropped(path).resident_before_bytes <= 3 << 20


def test_memory_filesystems_are_found_out(tmp_path: Path) -> None:
    """/dev/shm is its own page cache: nothing can be dropped, and the read-back says so."""
    path = Path("/dev/shm") / f"leadline-test-{tmp_path.name}"
    try:
        path.write_bytes(b"x" * (1 << 20))
        assert dropped(path).resident_after_bytes == 1 << 20
    finally:
        path.unlink(missing_ok=True)


def test_an_empty_file_and_no_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert dropped(tmp_path / "empty").resident_after_bytes == 0
    with pytest.raises(FileNotFoundError):
        drop_page_cache([tmp_path / "absent"])


def test_storage_that_takes_nothing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that hangs stands for one that the kernel does not let go."""
    hanging = tmp_path / "hang.py"
    hanging.write_text("import time; time.sleep(300)")
    monkeypatch.setattr(page_cache_drop, "__file__", str(hanging))
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(TimeoutError, match="do not reach their storage"):
        drop_page_cache([tmp_path / "file"], bound_s=0.3)
