"""When zfs-fuse may be started, and when it may be stopped. It is played; the real one is in
tests/real/test_zfs_daemon.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from leadline import errors
from leadline.connect import programs
from leadline.errors import LeadlineError
from leadline.targets import daemons, zfs_daemon


def silent() -> tuple[str, ...]:
    raise LeadlineError(errors.ZFS_MISSING, "no ZFS runs")


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Of the pools that zfs-fuse would import; no daemon runs."""
    path = tmp_path / "zpool.cache"
    monkeypatch.setattr(zfs_daemon, "_CACHE", path)
    monkeypatch.setattr(programs, "find", lambda program: f"/sbin/{program}")
    monkeypatch.setattr(programs, "is_zfs_fuse", lambda: True)
    monkeypatch.setattr(programs, "pools", silent)
    return path


def test_a_daemon_that_would_import_pools_of_the_users_is_not_started(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    zfs_daemon.require_possible([])
    cache.write_bytes(b"pools")
    started: list[object] = []
    monkeypatch.setattr(zfs_daemon, "_start", started.append)
    for attempt in (lambda: zfs_daemon.require_possible([]), lambda: zfs_daemon.ensure(tmp_path)):
        with pytest.raises(LeadlineError) as caught:
            attempt()
        assert caught.value.kind is errors.ZFS_MISSING
        assert "import existing pools" in caught.value.fact
    assert started == []
    # One that runs has imported them already, by somebody's will.
    monkeypatch.setattr(programs, "pools", lambda: ("users",))
    zfs_daemon.require_possible([])


@pytest.mark.parametrize(
    ("pools", "ends"),
    [
        (lambda: (), True),
        (lambda: ("leadline-0123",), True),
        (lambda: ("leadline-0123", "users"), False),
        (lambda: ("leadline-0123", "leadline-4567", "users"), False),
        (silent, True),
    ],
)
def test_our_daemon_goes_on_for_pools_of_others(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    pools: Callable[[], tuple[str, ...]],
    ends: bool,
) -> None:
    ended: list[str] = []

    def end(program: str, folder: Path) -> bool:
        ended.append(program)
        return True

    monkeypatch.setattr(daemons, "find_processes", lambda program, folder: (1,))
    monkeypatch.setattr(daemons, "end", end)
    monkeypatch.setattr(programs, "pools", pools)
    problems = zfs_daemon.stop(tmp_path, "leadline-0123")
    assert bool(ended) is ends
    assert bool(problems) is not ends
    assert all("users" in one for one in problems)


def test_our_daemon_goes_on_for_another_pool_of_ours_and_ends_with_the_last(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, last = tmp_path / "leadline-1", tmp_path / "leadline-2"
    first.mkdir()
    words = [str(first / "zfs-fuse.pid").encode()]
    running = [(1, words)]

    def end(program: str, folder: Path) -> bool:
        assert folder == first
        running.clear()
        return True

    monkeypatch.setattr(daemons, "command_lines", lambda program: iter(running))
    monkeypatch.setattr(daemons, "end", end)
    monkeypatch.setattr(programs, "pools", lambda: ("leadline-2",))
    assert zfs_daemon.stop(first, "leadline-1") == ()
    # Its folder is there: the run that started it stops it.
    monkeypatch.setattr(programs, "pools", tuple)
    assert zfs_daemon.stop(last, "leadline-2") == ()
    assert running
    first.rmdir()
    assert zfs_daemon.stop(last, "leadline-2") == ()
    assert not running


def test_a_daemon_of_others_is_never_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(daemons, "end", lambda *given: pytest.fail("ended"))
    monkeypatch.setattr(programs, "pools", lambda: ())
    assert zfs_daemon.stop(tmp_path, "leadline-0123") == ()
