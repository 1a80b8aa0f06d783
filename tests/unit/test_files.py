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
    strangers = [tmp_path / "leadline-ssh-mine", tmp_path / f"other-ssh-{ended.pid}-x"]
    for path in strangers:
        path.mkdir()
    (tmp_path / f"leadline-fleet-{ended.pid}-link").symlink_to(ours)
    assert files.remove_abandoned() == [gone]
    assert not gone.exists()
    assert ours.is_dir()
    assert all(path.is_dir() for path in strangers)
