from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from leadline import files


def test_what_a_killed_process_left_is_removed_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "SHORT", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    ours = Path(tempfile.mkdtemp(prefix=files.prefix("ssh")))
    gone = tmp_path / ours.name.replace(ours.name.split("-")[2], str(ended.pid))
    gone.mkdir()
    (gone / "c").write_text("a socket")
    files.mark_scratch(gone)
    begun = gone.with_name(f"{gone.name}x")  # killed before it was marked
    begun.mkdir()
    strangers = [
        *(tmp_path / "leadline-ssh-mine", tmp_path / f"other-ssh-{ended.pid}-x"),
        # The name alone says nothing.
        *(tmp_path / f"leadline-results-{ended.pid}-november", gone.with_name(f"{gone.name}y")),
    ]
    for path in strangers:
        path.mkdir()
        (path / "results.csv").write_text("not Leadline's")
    (tmp_path / f"leadline-fleet-{ended.pid}-link").symlink_to(ours)
    assert files.remove_abandoned() == [gone, begun]
    assert not gone.exists()
    assert ours.is_dir()
    assert all((path / "results.csv").exists() for path in strangers)
    with files.ScratchFolder("ssh") as name:
        assert [path.name for path in Path(name).iterdir()] == [files.SCRATCH_MARK]
    assert not Path(name).exists()


# --- memory ---------------------------------------------------------------------------------------


def test_a_file_is_refused_that_would_take_too_much_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"[],[],[]")
    assert files.read_content(path) == b"[],[],[]"
    needed = files.DOCUMENT.compute(b"[],[],[]")
    monkeypatch.setattr(files, "MEMORY_BYTES", needed)
    assert files.read_content(path) == b"[],[],[]"
    monkeypatch.setattr(files, "MEMORY_BYTES", needed - 1)
    with pytest.raises(OSError, match=r"reading it could take .* of memory, and .* are the most"):
        files.read_content(path)
    # Without values it is cheap.
    path.write_bytes(b"12345678")
    assert files.read_content(path) == b"12345678"


def test_files_that_are_read_together_have_one_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = {name: tmp_path / name for name in "ab"}
    for path in paths.values():
        path.write_bytes(b"1,2,3\n")
    needed = files.DOCUMENT.compute(b"1,2,3\n")
    monkeypatch.setattr(files, "MEMORY_BYTES", 2 * needed)
    assert set(files.read_contents(paths)) == {"a", "b"}
    monkeypatch.setattr(files, "MEMORY_BYTES", 2 * needed - 1)
    with pytest.raises(OSError, match="reading it could take") as error:
        files.read_contents(paths)
    assert error.value.filename == str(paths["b"])
    monkeypatch.setattr(files, "LARGEST_FILE_BYTES", 11)
    with pytest.raises(OSError, match="reading it could take"):
        files.read_contents(paths, files.LOG)


def test_the_width_of_text_counts_and_a_log_of_numbers_has_no_text() -> None:
    text = files.ReadingCost(text_copies=2, each={})
    assert text.compute(b"abcd") == 4 * 3
    assert text.compute("ab\u00e9".encode()) == 4 * 5
    assert text.compute("\U0001f600".encode()) == 4 * 9
    assert files.LOG.compute(b"1, 2, 0, 0\n") == 11
    assert files.LOG.compute(b"1, x, 0, 0\n") == files.DOCUMENT.compute(b"1, x, 0, 0\n")
