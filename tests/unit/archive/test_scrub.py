"""`leadline scrub`: secrets leave a stored archive, and nothing else changes."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from leadline.archive import layout
from leadline.archive import scrub as scrubbing
from leadline.archive.reader import Run
from leadline.archive.records import Manifest, RunStatus, TrialRecord
from leadline.archive.scrub import remove_interrupted, scrub
from leadline.archive.verify import verify
from leadline.archive.writer import RunWriter, lock_archive
from leadline.errors import (
    ARCHIVE_DAMAGED,
    ARCHIVE_UNWRITABLE,
    RUN_NOT_RESUMABLE,
    LeadlineError,
)
from tests.unit.archive.test_archive import make_plan, replayed

AT = "2026-11-23T09:00:00.000+00:00"
CONFIG, STDERR = "hunter2-config", "hunter2-stderr"


@pytest.fixture(params=["0.2", "0.3"])
def run(tmp_path: Path, request: pytest.FixtureRequest) -> Run:
    """A sealed run: a dump and the stderr of a trial hold secrets. Version 0.2 records no digest
    before it seals an archive."""
    (tmp_path / "target").mkdir()
    made = replayed(tmp_path / "runs" / "perf-a", make_plan(tmp_path / "target", repeats=1))
    if request.param == "0.2":
        (made.path / layout.DIGESTS).unlink()
    plant(made)
    return Run(made.path)


def plant(run: Run) -> None:
    dumps = run.path / layout.INVENTORY / "001-start-cluster-1"
    dumps.mkdir()
    (dumps / "config_dump.json").write_text(
        json.dumps([{"name": "rgw_opa_token", "value": CONFIG}, {"name": "fsid", "value": "f"}])
    )
    trial = run.trial_folders[0]
    (trial / layout.STDERR).write_text(f"connecting to https://user:{STDERR}@host/\n")
    reseal(run)


def reseal(run: Run) -> None:
    """Give an archive the digests of what it holds now."""
    for folder in run.trial_folders:
        record = TrialRecord.model_validate_json((folder / layout.TRIAL_RECORD).read_bytes())
        files = {
            path.name: layout.digest_file(path)
            for path in folder.iterdir()
            if path.name != layout.TRIAL_RECORD
        }
        fresh = record.model_copy(update={"files": files})
        (folder / layout.TRIAL_RECORD).write_bytes(layout.encode(fresh))
    if run.journaled:
        scrubbing.renew_digests(run.path)
    manifest = Manifest.model_validate_json((run.path / layout.MANIFEST).read_bytes())
    files = {name: layout.digest_file(run.path / name) for name in layout.content_files(run.path)}
    (run.path / layout.MANIFEST).write_bytes(
        layout.encode(manifest.model_copy(update={"files": files}))
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def secrets_in(folder: Path) -> set[str]:
    everything = b"".join(contents(folder).values())
    return {secret for secret in (CONFIG, STDERR) if secret.encode() in everything}


def numbers(run: Run) -> list[object]:
    return [(row.trial, row.op, row.metric, row.value) for row in run.measurements()]


def test_secrets_leave_and_the_numbers_stay(run: Run) -> None:
    before, values = contents(run.path), numbers(run)
    assert secrets_in(run.path) == {CONFIG, STDERR}
    done = scrub(run, at=AT)
    after = Run(run.path)
    assert secrets_in(run.path.parent) == set()
    assert verify(after).ok
    assert numbers(after) == values
    assert {(one.file, one.where, one.reason.value) for one in done.redactions} == {
        (f"{layout.INVENTORY}/001-start-cluster-1/config_dump.json",
         "$[0](rgw_opa_token).value", "ceph-option"),
        (f"{layout.TRIALS}/{run.trial_folders[0].name}/{layout.STDERR}", "line 1", "url-password"),
    }  # fmt: skip
    assert after.redactions.redactions == done.redactions
    assert [one.at for one in after.redactions.scrubs] == [AT]
    written = {*done.changed, layout.MANIFEST, layout.REDACTIONS}
    written.add(f"{layout.TRIALS}/{run.trial_folders[0].name}/{layout.TRIAL_RECORD}")
    if (run.path / layout.DIGESTS).exists():
        written.add(layout.DIGESTS)
    kept = contents(run.path)
    assert {name for name in kept if kept[name] != before.get(name)} == written
    assert sorted(path.name for path in run.path.parent.iterdir()) == [run.path.name]


def test_a_second_scrub_changes_nothing(run: Run) -> None:
    scrub(run, at=AT)
    once = contents(run.path)
    done = scrub(Run(run.path), at="2027-01-01T00:00:00+00:00")
    assert done.changed == ()
    assert len(done.redactions) == 2
    assert contents(run.path) == once


def test_a_folder_of_the_user_in_the_way_stays(run: Run) -> None:
    taken = run.path.with_name(f".scrubbing-{run.path.name}")
    (taken / "trials").mkdir(parents=True)
    (taken / "trials" / "x").write_text("not Leadline's")
    with pytest.raises(LeadlineError) as caught:
        scrub(run, at=AT)
    assert caught.value.kind is ARCHIVE_UNWRITABLE
    assert (taken / "trials" / "x").exists()
    assert not (run.path / layout.LOCK).exists()


@pytest.mark.parametrize("sealed", [True, False])
def test_altered_archives_are_refused(run: Run, sealed: bool) -> None:
    if not sealed:
        unseal(run)
    path = run.trial_folders[0] / layout.FIO_OUTPUT
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
    before = contents(run.path)
    with pytest.raises(LeadlineError) as caught:
        scrub(Run(run.path), at=AT)
    assert caught.value.kind is ARCHIVE_DAMAGED
    assert any(layout.FIO_OUTPUT in line for line in caught.value.context)
    assert contents(run.path) == before


def unseal(run: Run) -> None:
    """Make of an archive what a kill -9 leaves: no seal."""
    manifest = Manifest.model_validate_json((run.path / layout.MANIFEST).read_bytes())
    killed = manifest.model_copy(update={"status": RunStatus.RUNNING, "files": {}})
    (run.path / layout.MANIFEST).write_bytes(layout.encode(killed))


def test_the_archive_of_a_killed_run_stays_unsealed(run: Run) -> None:
    unseal(run)
    scrub(Run(run.path), at=AT)
    after = Run(run.path)
    assert secrets_in(run.path.parent) == set()
    assert after.manifest.files == {}
    assert [problem.path for problem in verify(after).problems] == [layout.MANIFEST]
    assert len(after.redactions.redactions) == 2


def test_an_archive_that_is_being_written_is_refused(run: Run) -> None:
    handle = lock_archive(run.path)
    try:
        with pytest.raises(LeadlineError) as caught:
            scrub(run, at=AT)
    finally:
        os.close(handle)
    assert caught.value.kind is RUN_NOT_RESUMABLE
    assert secrets_in(run.path) == {CONFIG, STDERR}


def test_a_filesystem_that_cannot_exchange_folders(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrubbing, "_RENAME_EXCHANGE", 1 << 30)  # EINVAL, as where it is unknown
    before = contents(run.path)
    with pytest.raises(LeadlineError) as caught:
        scrub(run, at=AT)
    assert caught.value.kind is ARCHIVE_UNWRITABLE
    assert contents(run.path) == before
    assert [path.name for path in run.path.parent.iterdir()] == [run.path.name]


def test_a_link_in_an_archive_is_not_followed(run: Run, tmp_path: Path) -> None:
    unseal(run)
    (tmp_path / "outside").write_text("password: hunter2")
    (run.path / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(LeadlineError):
        scrub(Run(run.path), at=AT)
    assert (tmp_path / "outside").read_text() == "password: hunter2"


def calls_until_killed(run: Run, number: int) -> int | None:
    """Scrub in a child that is killed before its change of a file of this number; None if it was,
    else how many changes there were."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        count = 0

        def dies_before(owner: Any, name: str) -> None:
            function = getattr(owner, name)

            def call(*given: Any, **named: Any) -> Any:
                nonlocal count
                if count == number:
                    os.kill(os.getpid(), signal.SIGKILL)
                count += 1
                return function(*given, **named)

            setattr(owner, name, call)

        for name in ("write_bytes", "hardlink_to", "mkdir", "replace"):
            dies_before(Path, name)
        for name in ("unlink", "rmdir"):
            dies_before(os, name)
        dies_before(scrubbing, "_exchange")
        try:
            scrub(run, at=AT)
            os.write(sending, str(count).encode())
        finally:
            os._exit(0)
    os.close(sending)
    os.waitpid(child, 0)
    with os.fdopen(receiving, "rb") as stream:
        count = stream.read()
    return int(count) if count else None


def killed_at(tmp_path: Path, moments: slice) -> None:
    (tmp_path / "target").mkdir()
    runs = tmp_path / "runs"
    made = replayed(runs / "perf-a", make_plan(tmp_path / "target", repeats=1))
    plant(made)
    values = numbers(Run(made.path))
    count = calls_until_killed(made, -1)
    assert count is not None
    assert count > 30
    plant_again(made)
    old = new = 0
    for number in range(count)[moments]:
        assert calls_until_killed(Run(made.path), number) is None
        found = Run(made.path)
        assert verify(found).ok, number
        assert numbers(found) == values
        remove_interrupted(runs)
        if secrets_in(made.path):
            old += 1
            assert secrets_in(made.path) == {CONFIG, STDERR}
        else:  # exchanged; nothing is left of the old archive either
            new += 1
            assert secrets_in(runs) == set()
            plant_again(found)
    assert old
    assert new


def test_a_kill_leaves_a_valid_archive(tmp_path: Path) -> None:
    killed_at(tmp_path, slice(None, None, 6))


@pytest.mark.thorough
@pytest.mark.deep
def test_a_kill_at_any_moment_leaves_a_valid_archive(tmp_path: Path) -> None:
    killed_at(tmp_path, slice(None))


def plant_again(run: Run) -> None:
    (run.path / layout.REDACTIONS).unlink()
    for path in (run.path / layout.INVENTORY).glob("*/config_dump.json"):
        path.unlink()
        path.parent.rmdir()
    plant(run)


def test_a_living_scrub_is_not_tidied_away(run: Run) -> None:
    staging = run.path.with_name(f".scrubbing-{run.path.name}")
    staging.mkdir()
    handle = lock_archive(run.path)
    try:
        assert remove_interrupted(run.path.parent) == []
    finally:
        os.close(handle)
    assert remove_interrupted(run.path.parent) == [staging]
    assert not staging.exists()


def test_the_seal_lists_what_was_removed_while_it_ran(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    made = replayed(tmp_path / "runs" / "perf-a", make_plan(tmp_path / "target", repeats=1))
    assert not (made.path / layout.REDACTIONS).exists()
    assert made.redactions.redactions == ()
    plant(made)
    with RunWriter.tidying(made.path) as writer:
        (made.path / layout.TRIALS / made.trial_folders[0].name / "note.txt").write_text(
            "password = [redacted:secret-name]"
        )
        writer.seal(made.manifest.status, ended_at=AT)
    (only,) = Run(made.path).redactions.redactions
    assert (only.where, only.reason.value) == ("line 1", "secret-name")


def test_old_dumps_are_read_without_secrets(run: Run) -> None:
    folder = run.path / layout.INVENTORY / "001-start-cluster-1"
    (found,) = run._dumps(str(folder.relative_to(run.path)), 0).values()
    assert CONFIG.encode() not in found
