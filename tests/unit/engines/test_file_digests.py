from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from leadline.engines import file_digests


def digests(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-I", "-S", file_digests.__file__, *arguments]
    return subprocess.run(command, capture_output=True)


def test_the_files_of_a_file_system_are_told_and_those_mounted_in_it_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    large = bytes(range(256)) * 8192 + b"end"
    (tmp_path / "sub" / "received").mkdir(parents=True)
    (tmp_path / "received").mkdir()
    (tmp_path / "received" / "copy").write_bytes(b"not this")
    (tmp_path / "sub" / "received" / "b").write_bytes(b"but this")
    (tmp_path / "large").write_bytes(large)
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "link").symlink_to("large")
    mounted = str(tmp_path / "received")
    monkeypatch.setattr(file_digests.os.path, "ismount", lambda path: str(path) == mounted)
    assert file_digests.main([str(tmp_path)]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["path"] for one in lines] == ["empty", "large", "sub/received/b"]
    assert [one["bytes"] for one in lines] == [0, len(large), 8]
    assert lines[1]["blake2b"] == hashlib.blake2b(large, digest_size=32).hexdigest()


def test_a_folder_that_is_not_there_is_an_error() -> None:
    answer = digests("/nowhere")
    assert answer.returncode == 1
    assert b"/nowhere" in answer.stderr


def test_a_file_that_cannot_be_read_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The kernel answers reads at its beginning, which no process has, with EIO.
    unreadable = Path("/proc/self/mem")
    monkeypatch.setattr(file_digests, "files_below", lambda folder: iter([unreadable]))
    assert file_digests.main(["/proc/self"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "/proc/self/mem cannot be read: Input/output error\n"
