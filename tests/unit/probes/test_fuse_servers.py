"""Which process serves a FUSE mount, by its arguments."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from leadline.probes.mounts import parse_mountinfo
from leadline.probes.stacks import find_server


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Of two servers, the first with a mount point that a test says."""
    for pid, place in ((811, "dead"), (900, "here")):
        folder = tmp_path / "proc" / str(pid)
        folder.mkdir(parents=True)
        (tmp_path / place).mkdir()
        (folder / "cmdline").write_text(f"rbd-fuse\0-p\0rep{pid}\0{tmp_path / place}\0")
    return tmp_path / "proc"


def serves(place: Path, proc: Path) -> str | None:
    """The pool that is served there."""
    (mount,) = parse_mountinfo(f"50 27 0:44 / {place} rw - fuse.rbd-fuse rbd-fuse rw\n")
    server = find_server(mount, proc)
    return server.pool if server else None


def test_nothing_is_asked_of_what_others_have_mounted(
    proc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With storage that died below it, whoever looks at a mount point hangs for good."""
    looked: list[str] = []
    real = os.lstat

    def lstat(path: Any, **more: Any) -> os.stat_result:
        looked.append(os.fspath(path))
        return real(path, **more)

    monkeypatch.setattr(os, "lstat", lstat)
    assert serves(tmp_path / "here", proc) == "rep900"
    assert looked
    assert str(tmp_path / "dead") not in looked


def test_a_mount_point_behind_symbolic_links_is_known(proc: Path, tmp_path: Path) -> None:
    (tmp_path / "above").symlink_to(tmp_path)
    (tmp_path / "link").symlink_to("above/here")
    (proc / "900" / "cmdline").write_text(f"rbd-fuse\0-p\0mine\0{tmp_path / 'link'}\0")
    assert serves(tmp_path / "here", proc) == "mine"
    (proc / "900" / "cmdline").write_text("rbd-fuse\0-p\0relative\0above/here\0")
    (proc / "900" / "cwd").symlink_to(tmp_path)
    assert serves(tmp_path / "here", proc) == "relative"


def test_a_mount_that_no_argument_names_has_no_known_server(proc: Path, tmp_path: Path) -> None:
    assert serves(tmp_path / "elsewhere", proc) is None
