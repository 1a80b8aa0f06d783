"""Folders that a removal is asked for, as a journal of an unknown origin could name them."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leadline.archive.records import Created
from leadline.targets import file_system_calls as calls
from leadline.targets.file_system import OWNER_FILE
from leadline.targets.local import remove_folder
from leadline.targets.naming import own_name, owner_mark
from tests.unit.targets.journals import OTHER, RUN, TOKEN

WHOLE = f"{owner_mark(RUN, TOKEN)}\n".encode()
GENERATED = ("leadline.", ".dat")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The place of the run's folder."""
    return tmp_path / "target" / own_name(RUN, TOKEN)


def make(folder: Path, mark: bytes | None, *names: str) -> None:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text("precious")
    if mark is not None:
        (folder / OWNER_FILE).write_bytes(mark)


def remove(folder: Path, token: str = TOKEN, run: str = RUN, *names: str) -> tuple[str, ...]:
    return remove_folder(Created(target="t", path=str(folder), token=token), run, None, names)


def call(folder: Path, *names: str) -> Any:
    """Remove in this process."""
    return calls.remove(str(folder), OWNER_FILE, owner_mark(RUN, TOKEN), GENERATED, names)


def test_a_folder_with_the_mark_goes_with_what_leadline_made(folder: Path) -> None:
    make(folder, WHOLE, "leadline.0.dat", "job.0.0")
    assert remove(folder, TOKEN, RUN, "job.0.0") == ()
    assert not folder.exists()
    assert remove(folder) == ()


@pytest.mark.parametrize(
    "mark",
    [
        *(f"other {TOKEN}", f"{RUN} {OTHER}", TOKEN, f" {TOKEN}", f"x {RUN} {TOKEN}", "\n", " "),
        *(f"{RUN} {TOKEN}x", f"{RUN} {TOKEN}\n{RUN} {TOKEN}", f"{RUN}\n{TOKEN}", f"\0{RUN}"),
    ],
)
@pytest.mark.parametrize("names", [(), ("leadline.0.dat",)])
def test_a_folder_with_any_other_mark_is_kept_whole(
    folder: Path, mark: str, names: tuple[str, ...]
) -> None:
    make(folder, mark.encode(), *names)
    if not mark.strip("\n") and not names:
        return  # an empty mark, of which nothing was written
    assert "was kept" in remove(folder)[0]
    assert {path.name for path in folder.iterdir()} == {*names, OWNER_FILE}
    assert (folder / OWNER_FILE).read_bytes() == mark.encode()


@pytest.mark.parametrize(
    ("token", "run"), [("", RUN), (TOKEN[-1], RUN), (TOKEN, ""), ("", ""), (OTHER, RUN)]
)
def test_a_token_or_a_run_that_ends_alike_proves_nothing(
    folder: Path, token: str, run: str
) -> None:
    make(folder, WHOLE, "leadline.0.dat")
    assert "mark of another owner" in remove(folder, token, run)[0]
    assert (folder / "leadline.0.dat").read_text() == "precious"


def test_a_folder_of_the_user_is_kept_whole(folder: Path) -> None:
    make(folder, None, "leadline.0.dat", "thesis.txt")
    (told,) = remove(folder, TOKEN, RUN, "thesis.txt")
    assert "carries no mark of this run, and is not empty" in told
    assert {path.name for path in folder.iterdir()} == {"leadline.0.dat", "thesis.txt"}


@pytest.mark.parametrize(
    "mark",
    [
        None,
        *(WHOLE[:length] for length in range(len(WHOLE) - 1)),
        b"\0" * len(WHOLE),
        WHOLE[:9] + b"\0" * 99,
    ],
)
def test_without_a_whole_mark_only_an_empty_folder_goes(folder: Path, mark: bytes | None) -> None:
    make(folder, mark, "leadline.0.dat")
    (told,) = remove(folder)
    assert "is not empty; it was kept" in told
    assert (folder / "leadline.0.dat").read_text() == "precious"
    (folder / "leadline.0.dat").unlink()
    assert remove(folder) == ()
    assert not folder.exists()


@pytest.mark.parametrize("kind", ["link", "dangling", "folder", "pipe"])
def test_a_mark_that_is_no_file_is_another_owners(folder: Path, tmp_path: Path, kind: str) -> None:
    make(folder, None, "leadline.0.dat")
    mark = folder / OWNER_FILE
    (tmp_path / "real").write_bytes(WHOLE)
    match kind:
        case "link":
            mark.symlink_to(tmp_path / "real")
        case "dangling":
            mark.symlink_to("nowhere")
        case "folder":
            mark.mkdir()
        case "pipe":
            os.mkfifo(mark)
    assert "mark of another owner" in remove(folder)[0]
    assert (folder / "leadline.0.dat").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_mark_of_another_user_is_another_owners(folder: Path) -> None:
    make(folder, WHOLE, "leadline.0.dat")
    os.chown(folder / OWNER_FILE, 12345, 12345)
    assert "mark of another owner" in remove(folder)[0]
    assert (folder / "leadline.0.dat").exists()


def test_the_mark_stays_as_long_as_anything_else(folder: Path) -> None:
    """Without it the next removal would keep what Leadline made."""
    make(folder, WHOLE, "leadline.0.dat", "thesis.txt")
    (told,) = remove(folder)
    assert "holds files that Leadline did not make: thesis.txt; it was kept" in told
    assert {path.name for path in folder.iterdir()} == {OWNER_FILE, "thesis.txt"}
    (folder / "thesis.txt").unlink()
    assert remove(folder) == ()
    assert not folder.exists()


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_link_or_a_file_in_the_place_of_the_folder_is_kept(
    folder: Path, tmp_path: Path, kind: str
) -> None:
    real = tmp_path / "real"
    make(real, WHOLE, "leadline.0.dat")
    folder.parent.mkdir()
    if kind == "link":
        folder.symlink_to(real)
    else:
        folder.touch()
    (told,) = remove(folder)
    assert "is a link or a file" in told
    assert "was kept" in told
    assert folder.exists()
    assert (real / "leadline.0.dat").exists()


def test_a_parent_that_leads_elsewhere_does_not_help_without_the_mark(
    folder: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "home" / folder.name
    make(elsewhere, None, "leadline.0.dat")
    folder.parent.symlink_to(elsewhere.parent)
    assert "was kept" in remove(folder)[0]
    assert (elsewhere / "leadline.0.dat").exists()


def test_links_and_folders_inside_lead_nowhere(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    make(outside, None, "kept")
    make(folder, WHOLE)
    (folder / "leadline.link.dat").symlink_to(outside)
    (folder / "leadline.file.dat").symlink_to(outside / "kept")
    (folder / "leadline.tree.dat" / "below").mkdir(parents=True)
    (folder / "leadline.tree.dat" / "below" / "link").symlink_to(outside)
    os.link(outside / "kept", folder / "leadline.hard.dat")
    assert remove(folder) == ()
    assert not folder.exists()
    assert (outside / "kept").read_text() == "precious"


@pytest.mark.parametrize("name", ["leadline..dat", "leadline.dat", "leadline.", ".dat", "leadline"])
def test_only_generated_names_are_leadlines(folder: Path, name: str) -> None:
    make(folder, WHOLE, name)
    generated = name == "leadline..dat"
    assert (remove(folder) == ()) is generated
    assert folder.exists() is not generated


def test_a_name_that_is_a_folder_or_a_path_is_kept(folder: Path) -> None:
    make(folder, WHOLE)
    (folder / "job.0.0").mkdir()
    (folder.parent / "mine").write_text("precious")
    (told,) = remove(folder, TOKEN, RUN, "job.0.0", "../mine", "..", "")
    assert "job.0.0: Is a directory; it was kept" in told
    assert (folder / "job.0.0").is_dir()
    assert (folder.parent / "mine").exists()


def exchanged_by(
    monkeypatch: pytest.MonkeyPatch, function: str, exchange: Callable[[], None]
) -> None:
    """Call `exchange` once, right before a function of the removal."""
    original, calls_left = getattr(calls, function), [exchange]

    def exchanging(*arguments: Any, **named: Any) -> Any:
        if calls_left:
            calls_left.pop()()
        return original(*arguments, **named)

    monkeypatch.setattr(calls, function, exchanging)


@pytest.mark.parametrize("function", ["_read_mark", "_remove_entry", "_empty"])
@pytest.mark.parametrize("kind", ["link", "folder", "gone"])
def test_a_folder_that_is_exchanged_meanwhile_is_not_touched(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, kind: str
) -> None:
    make(folder, WHOLE, "leadline.0.dat")
    victim = tmp_path / "victim"
    make(victim, WHOLE if kind == "folder" else None, "leadline.0.dat", "thesis.txt")
    moved = tmp_path / "moved"

    def exchange() -> None:
        folder.rename(moved)
        if kind == "link":
            folder.symlink_to(victim)
        elif kind == "folder":
            victim.rename(folder)

    exchanged_by(monkeypatch, function, exchange)
    if kind == "gone":
        with pytest.raises(FileNotFoundError):
            call(folder)
    else:
        assert call(folder) == {"kept": "was exchanged while it was removed"}
    where = folder if kind == "folder" else victim
    assert (where / "leadline.0.dat").read_text() == "precious"
    assert (where / "thesis.txt").read_text() == "precious"


@pytest.mark.parametrize("name", ["leadline.0.dat", "leadline.1.dat", "other"])
@pytest.mark.parametrize("moment", ["leadline.0.dat", OWNER_FILE])
def test_what_is_written_meanwhile_can_still_be_removed_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, moment: str
) -> None:
    make(folder, WHOLE, "leadline.0.dat")
    original = os.unlink

    def unlink(path: Any, **named: Any) -> None:
        original(path, **named)
        if path == moment:
            (folder / name).write_text("again")

    with monkeypatch.context() as writing:
        writing.setattr(calls.os, "unlink", unlink)
        try:
            found = call(folder)
        except OSError as error:
            found = {"errors": [error.strerror]} if error.errno == errno.ENOTEMPTY else {}
    assert found
    assert (folder / OWNER_FILE).read_bytes() == WHOLE
    assert (folder / name).read_text() == "again"
    assert call(folder, "other") == {}
    assert not folder.exists()


@pytest.mark.parametrize("number", [errno.EIO, errno.EBUSY, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("function", ["unlink", "rmdir", "listdir", "open", "stat", "fsync"])
def test_errors_of_a_file_system_are_answers(
    folder: Path, monkeypatch: pytest.MonkeyPatch, function: str, number: int
) -> None:
    make(folder, WHOLE, "leadline.0.dat", "leadline.1.dat")
    original = getattr(os, function)

    def refuse(path: Any, *arguments: Any, **named: Any) -> Any:
        if path in ("leadline.0.dat", folder.name) or isinstance(path, int):
            raise OSError(number, os.strerror(number), path)
        return original(path, *arguments, **named)

    with monkeypatch.context() as refusing:
        refusing.setattr(calls.os, function, refuse)
        try:
            found = call(folder)
        except OSError as error:
            found = {"errors": [error.strerror]}
    if function == "fsync":
        assert not folder.exists(), "it is gone, if not durably"
        return
    assert os.strerror(number) in found["errors"][0]
    assert folder.exists()
    if function == "unlink":
        assert not (folder / "leadline.1.dat").exists(), "the other files go"
        assert (folder / OWNER_FILE).exists()
    assert call(folder) == {}
    assert not folder.exists()


def test_the_mark_is_durable_before_there_is_data(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.parent.mkdir()
    synced: list[str] = []
    original = os.fsync

    def note(handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        if path.name == OWNER_FILE:
            assert path.read_bytes() == WHOLE
        synced.append(path.name)
        original(handle)

    monkeypatch.setattr(calls.os, "fsync", note)
    calls.make(str(folder), OWNER_FILE, WHOLE.decode())
    assert synced == [OWNER_FILE, folder.name, folder.parent.name]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read all")
def test_a_parent_need_not_be_readable(folder: Path) -> None:
    folder.parent.mkdir(mode=0o300)
    calls.make(str(folder), OWNER_FILE, WHOLE.decode())
    assert call(folder) == {}
    assert not folder.exists()
    folder.parent.chmod(0o700)


def test_errors_of_a_benchmark_programs_folder_are_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(folder, WHOLE)
    (folder / "leadline.pgbench.dat" / "base").mkdir(parents=True)
    (folder / "leadline.pgbench.dat" / "base" / "1").touch()
    original = os.unlink

    def refuse(path: Any, **named: Any) -> None:
        if path == "1":
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)
        original(path, **named)

    with monkeypatch.context() as refusing:
        refusing.setattr(shutil.os, "unlink", refuse)
        assert "leadline.pgbench.dat: Device or resource busy" in call(folder)["errors"]
    assert (folder / OWNER_FILE).exists()
    assert call(folder) == {}
