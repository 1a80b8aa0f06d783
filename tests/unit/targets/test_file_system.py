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
    assert calls.remove(folder, "run 1") == ()
    assert not folder.exists()
    child = file_system._idle[-1]
    assert sorted(path.name for path in Path(f"/proc/{child.pid}/fd").iterdir()) == ["0", "1", "2"]
    assert Path(f"/proc/{child.pid}/cwd").readlink() == Path("/")


def test_the_folder_of_a_benchmark_program_is_removed_with_its_files(tmp_path: Path) -> None:
    """kill -9 of Leadline and the program leaves a database behind, which `clean` then removes."""
    calls, folder, other = FileSystem(), tmp_path / "leadline-run-1", tmp_path / "other"
    calls.make(folder, "run 1")
    other.mkdir()
    (other / "kept").touch()
    (folder / "leadline.pgbench.dat" / "cluster" / "base").mkdir(parents=True)
    (folder / "leadline.pgbench.dat" / "cluster" / "base" / "1").touch()
    (folder / "leadline.pgbench.dat" / "link").symlink_to(other)
    (folder / "leadline.link.dat").symlink_to(other)
    assert calls.remove(folder, "run 1") == ()
    assert not folder.exists()
    assert (other / "kept").exists()


def test_a_folder_of_the_user_is_kept(tmp_path: Path) -> None:
    calls, folder = FileSystem(), tmp_path / "leadline-run-1"
    calls.make(folder, "run 1")
    (folder / "mine").mkdir()
    assert "mine" in calls.remove(folder, "run 1")[0]
    assert (folder / "mine").is_dir()
