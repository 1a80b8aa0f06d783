"""Calls to a target's file system."""

from __future__ import annotations

from pathlib import Path

from leadline.targets import file_system
from leadline.targets.file_system import FileSystem


def test_the_process_keeps_nothing_of_a_target_open(tmp_path: Path) -> None:
    """A loop device whose file system it held could not be detached."""
    calls, folder = FileSystem(), tmp_path / "leadline-run-1"
    calls.make(folder, "run 1")
    assert calls.look(folder) is not None
    assert calls.remove(folder, "1") == ()
    assert not folder.exists()
    child = file_system._idle[-1]
    assert sorted(path.name for path in Path(f"/proc/{child.pid}/fd").iterdir()) == ["0", "1", "2"]
    assert Path(f"/proc/{child.pid}/cwd").readlink() == Path("/")
