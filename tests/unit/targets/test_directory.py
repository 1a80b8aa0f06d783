from __future__ import annotations

from pathlib import Path

import pytest

from leadline.archive.records import Created
from leadline.errors import TARGET_INVALID, TARGET_NO_SPACE, LeadlineError
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.targets.leftovers import is_own
from leadline.targets.local import DirectoryTarget
from tests.unit.targets.journals import plan_with

SMALL = Footprint(
    files={"leadline.0.dat": 4096, "leadline.1.dat": 4096}, span=8192, job_file_bytes=0, writes=True
)


class Journal:
    def __init__(self) -> None:
        self.created: list[Created] = []
        self.removed: list[Created] = []

    def note_created(self, entry: Created) -> None:
        assert not Path(entry.path).exists(), "noted before it is made"
        self.created.append(entry)

    def note_removed(self, entry: Created) -> None:
        assert not Path(entry.path).exists(), "noted after it is gone"
        self.removed.append(entry)


def target(path: Path) -> DirectoryTarget:
    return DirectoryTarget(Target(name="here", url=f"dir:{path}"))


def test_what_is_made_is_removed_and_a_second_release_does_nothing(tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("the user's")
    journal = Journal()
    one = target(tmp_path)
    one.inspect(SMALL, prefill=True)
    one.acquire(SMALL, "run", journal)
    here = Target(name="here", url=f"dir:{tmp_path}")
    assert is_own(plan_with(here), "run", journal.created[0]), "clean removes it after a kill"
    (one.location.path / "leadline.0.dat").write_bytes(b"x")
    assert one.present()
    assert one.allocated_bytes() is not None
    assert one.release() == ()
    assert one.release() == ()
    assert list(tmp_path.iterdir()) == [mine]
    assert journal.created == journal.removed


def test_a_file_that_leadline_did_not_make_is_kept_and_told(tmp_path: Path) -> None:
    one = target(tmp_path)
    one.acquire(SMALL, "run", Journal())
    stranger = one.location.path / "precious.txt"
    stranger.write_text("the user's")
    (told,) = one.release()
    assert "holds files that Leadline did not make" in told
    assert stranger.read_text() == "the user's"


def test_files_of_the_users_own_job_are_removed_once_noted(tmp_path: Path) -> None:
    one = target(tmp_path)
    one.acquire(SMALL, "run", Journal())
    (one.location.path / "job.0.0").write_bytes(b"x")
    one.note_files()
    assert one.release() == ()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["absent", "file"])
def test_what_is_no_directory_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LeadlineError) as caught:
        target(tmp_path / name).inspect(SMALL, prefill=True)
    assert caught.value.kind is TARGET_INVALID


def test_a_plan_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    huge = Footprint(files={"leadline.0.dat": 1 << 60}, span=1 << 60, job_file_bytes=0, writes=True)
    with pytest.raises(LeadlineError) as caught:
        target(tmp_path).inspect(huge, prefill=True)
    assert caught.value.kind is TARGET_NO_SPACE
    assert "leaves" in caught.value.fact
