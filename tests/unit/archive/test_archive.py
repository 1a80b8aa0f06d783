from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from leadline.archive import layout
from leadline.archive.journal import parse_journal, sealed_line
from leadline.archive.reader import Run
from leadline.archive.records import (
    Created,
    RunStatus,
    Session,
    Stacks,
    TrialStatus,
    WrittenFiles,
)
from leadline.archive.runs import BEFORE_NAME, find_run, list_runs, new_id
from leadline.archive.scrub import remove_interrupted
from leadline.archive.verify import check_intact, verify
from leadline.archive.writer import RunWriter, lock_archive, remove_abandoned_drafts
from leadline.engines.choose import OneEngine
from leadline.engines.replay import ReplayEngine
from leadline.errors import (
    ARCHIVE_DAMAGED,
    ARCHIVE_UNWRITABLE,
    RUN_NOT_FOUND,
    RUN_NOT_RESUMABLE,
    LeadlineError,
)
from leadline.plan.loader import Overrides, load_plan
from leadline.plan.models import Plan, Trial
from leadline.runner.events import Observer, StopRequest
from leadline.runner.prepared import RunRequest, prepare_targets
from leadline.runner.session import Outcome, run_session
from leadline.targets.open import open_targets
from tests.conftest import RECORDED

SESSION = Session(
    started_at="2026-11-21T00:00:00+00:00",
    hostname="here",
    leadline_version="0",
    python_version="3",
)


def make_plan(target: Path, repeats: int = 2) -> Plan:
    return load_plan(
        None,
        Overrides(
            targets=[f"dir:{target}"],
            profiles=["quick"],
            runtime="2s",
            ramp="0",
            size="64M",
            repeats=repeats,
            seed=3,
            prefill=False,
        ),
    )


def new_writer(path: Path, plan: Plan) -> RunWriter:
    return RunWriter.create(
        path, plan=plan, plan_as_given=b"as given", created_at=SESSION.started_at, session=SESSION
    )


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    (folder / "target").mkdir()
    return replayed(folder / "runs" / "perf-a", make_plan(folder / "target")).path


@pytest.fixture
def run(_made: Path, tmp_path: Path) -> Run:
    """A complete run of replayed trials, on a folder that is there."""
    (tmp_path / "target").mkdir()
    return Run(shutil.copytree(_made, tmp_path / "runs" / "perf-a"))


def replay(
    writer: RunWriter, to_do: Sequence[Trial], observe: Observer = lambda event: None
) -> Outcome:
    plan, engines = writer.run.plan, OneEngine(ReplayEngine.from_folder(RECORDED))
    return run_session(
        RunRequest(
            plan=plan,
            to_do=to_do,
            targets=prepare_targets(plan, open_targets(plan, {}), engines),
            engines=engines,
            writer=writer,
            stop=StopRequest(),
            observe=observe,
        )
    )


def replayed(path: Path, plan: Plan) -> Run:
    writer = new_writer(path, plan)
    outcome = replay(writer, plan.trials)
    writer.close()
    assert outcome.problem is None
    return Run(path)


def test_a_complete_run_verifies_and_every_number_is_checked(run: Run) -> None:
    assert run.complete
    assert not run.missing
    verification = verify(run)
    assert verification.problems == ()
    assert verification.files == len(layout.content_files(run.path))
    assert verification.numbers == sum(
        len(operation.metrics)
        for trial in run.trials
        for operation in trial.derived.operations  # type: ignore[union-attr]
    )
    assert verification.numbers > 100


def test_raw_output_is_kept_byte_for_byte(run: Run) -> None:
    recorded = {path.read_bytes() for path in RECORDED.rglob("fio.json")}
    kept = {(trial.folder / "fio.json").read_bytes() for trial in run.trials}
    assert kept == recorded


@pytest.mark.parametrize("victim", ["fio.json", "derived.json", "job.fio", "trial.json"])
def test_a_changed_byte_is_found_and_named(run: Run, victim: str) -> None:
    path = run.trials[1].folder / victim
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    problems = verify(Run(run.path)).problems
    assert any(
        problem.path.endswith(f"{run.trials[1].folder.name}/{victim}") for problem in problems
    )


def test_a_number_that_does_not_follow_from_raw_is_found_even_with_its_checksum_mended(
    run: Run,
) -> None:
    trial = run.trials[0]
    path = trial.folder / layout.DERIVED
    derived = trial.derived
    assert derived is not None
    first = derived.operations[0]
    better = first.model_copy(update={"metrics": {**first.metrics, "iops": 1e9}})
    path.write_bytes(
        layout.encode(derived.model_copy(update={"operations": (better, *derived.operations[1:])}))
    )
    manifest = run.manifest
    name = str(path.relative_to(run.path))
    files = {**manifest.files, name: layout.digest_file(path)}
    (run.path / layout.MANIFEST).write_bytes(
        layout.encode(manifest.model_copy(update={"files": files}))
    )
    (problem,) = verify(Run(run.path)).problems
    assert problem.path == name
    assert "iops is 1000000000.0, but raw gives" in problem.message


def test_a_missing_file_an_extra_file_and_a_link_out_are_found(run: Run, tmp_path: Path) -> None:
    (run.trials[0].folder / "job.fio").unlink()
    (run.path / "trials" / "extra.txt").write_text("x")
    secret = tmp_path / "secret"
    secret.write_text("x")
    victim = run.trials[1].folder / "job.fio"
    victim.unlink()
    victim.symlink_to(secret)
    told = {
        (problem.path.split("/")[-1], problem.message) for problem in verify(Run(run.path)).problems
    }
    assert ("job.fio", "is missing") in told
    assert ("extra.txt", "is not in the manifest") in told
    assert ("job.fio", "leads out of the archive") in told


def test_a_folder_that_leads_out_of_the_archive_is_found_for_every_file_in_it(
    run: Run, tmp_path: Path
) -> None:
    folder = run.path / "inventory-of-old"
    manifest, digest = run.manifest, run.manifest.files[layout.PLAN]
    outside = tmp_path / "outside"
    outside.mkdir()
    folder.symlink_to(outside)
    (outside / layout.PLAN).write_bytes((run.path / layout.PLAN).read_bytes())
    names = (
        *(f"{folder.name}/{layout.PLAN}", f"{folder.name}/missing", f"../{run.path.name}x/a"),
        *("/etc/hostname", "trials/../../x", "a\0b"),
    )
    files = {**manifest.files, **dict.fromkeys(names, digest), f"./{layout.PLAN}": digest}
    (run.path / layout.MANIFEST).write_bytes(
        layout.encode(manifest.model_copy(update={"files": files}))
    )
    told = {problem.path: problem.message for problem in verify(Run(run.path)).problems}
    del told[folder.name]  # the link itself is not in the manifest
    assert set(told) == set(names)
    assert {told[name] for name in names[:-1]} == {"leads out of the archive"}
    assert "cannot be read" in told[names[-1]]


def test_the_digest_of_a_file_is_that_of_all_its_bytes(tmp_path: Path) -> None:
    for size in (0, 1, layout._AT_ONCE, layout._AT_ONCE + 1, 5 * layout._AT_ONCE):
        content = os.urandom(size)
        (tmp_path / "file").write_bytes(content)
        assert layout.digest_file(tmp_path / "file") == layout.digest(content)


def test_what_is_sealed_are_files_and_links_but_nothing_hidden(tmp_path: Path) -> None:
    for name in ("manifest.json", "b", "a/c", "a/.hidden", ".staging/x", ".lock", ".odd/d"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "a" / "manifest.json").write_text("x")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "lost").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    sealed = [".odd/d", "a/c", "a/manifest.json", "b", "link", "lost"]
    assert layout.content_files(tmp_path) == sealed


def test_a_damaged_record_says_where(run: Run) -> None:
    (run.trials[0].folder / layout.TRIAL_RECORD).write_text('{"schema": "leadline/trial/1",')
    with pytest.raises(LeadlineError) as caught:
        _ = Run(run.path).attempts
    assert caught.value.kind is ARCHIVE_DAMAGED
    assert "trial.json" in str(caught.value)
    assert not verify(Run(run.path)).ok
    (run.path / layout.MANIFEST).write_text("{}")
    assert not verify(Run(run.path)).ok


def test_a_trial_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    writer = new_writer(tmp_path / "run", make_plan(tmp_path / "target"))

    def half_made() -> None:
        with writer.staged("trials/t0001-x-1") as folder:
            (folder / "fio.json").write_text("half")
            raise ValueError("half made")

    with pytest.raises(ValueError, match="half"):
        half_made()
    assert list((tmp_path / "run" / "trials").iterdir()) == []
    assert verify(writer.run).problems[0].message.startswith("the run is not sealed")


def test_two_writers_never_meet(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    writer = new_writer(tmp_path / "run", make_plan(tmp_path / "target"))
    with pytest.raises(LeadlineError) as caught:
        RunWriter.reopen(tmp_path / "run", session=SESSION)
    assert caught.value.kind is RUN_NOT_RESUMABLE
    writer.close()
    RunWriter.reopen(tmp_path / "run", session=SESSION).close()


def run_until_killed(target: Path, path: Path, moment: str, count: int) -> int:
    """Run in a child that is killed at an event of this kind and number; return its wait status."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    seen = 0

    def observe(event: object) -> None:
        nonlocal seen
        seen += type(event).__name__ == moment
        if seen == count:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        writer = new_writer(path, make_plan(target, repeats=3))
        replay(writer, writer.run.plan.trials, observe)
    finally:
        os._exit(0)


@pytest.mark.parametrize(
    ("moment", "count", "kept"),
    [("RunStarted", 1, 0), ("TrialStarted", 5, 4), ("TrialProgress", 5, 4), ("TrialEnded", 12, 12)],
)
def test_kill_9_at_any_moment_leaves_a_run_that_resumes_and_verifies(
    tmp_path: Path, moment: str, count: int, kept: int
) -> None:
    target, path = tmp_path / "target", tmp_path / "run"
    target.mkdir()
    status = run_until_killed(target, path, moment, count)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL
    run = Run(path)
    assert run.manifest.status is RunStatus.RUNNING
    assert len(run.attempts) == kept
    assert not verify(run).ok

    writer = RunWriter.reopen(path, session=SESSION)
    from leadline.targets.open import remove_leftovers

    remove_leftovers(run, writer)
    replay(writer, run.to_do())
    writer.close()
    after = Run(path)
    assert after.complete
    assert len(after.attempts) == 12
    assert verify(after).problems == ()
    assert len(after.manifest.sessions) == 2
    assert list(target.iterdir()) == []


def flip(path: Path) -> bytes:
    """Change a byte in the middle of a file; return what it held."""
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    return content


@pytest.mark.parametrize("killed", [True, False])
def test_nothing_is_resumed_over_a_damaged_or_missing_file(tmp_path: Path, killed: bool) -> None:
    target, path = tmp_path / "target", tmp_path / "run"
    target.mkdir()
    if killed:
        run_until_killed(target, path, "TrialStarted", 3)
    else:
        writer = new_writer(path, make_plan(target, repeats=3))
        replay(writer, writer.run.plan.trials[:2])
        writer.close()
    names = [name for name in layout.content_files(path) if (path / name).stat().st_size]
    assert {Path(name).name for name in names} >= {
        *("plan.json", "plan-as-given", "created.jsonl", "digests.jsonl", "001-start.json"),
        *("trial.json", "fio.json", "derived.json", "job.fio"),
    }
    assert check_intact(Run(path)) == ()
    for name in names:
        content = flip(path / name)
        for change in ("changed", "missing"):
            found = {problem.path for problem in check_intact(Run(path))}
            # Of the last trial, a record that is missing was perhaps never written.
            beside = {Path(place).parent for place in found}
            assert name in found or (change == "missing" and Path(name).parent in beside)
            with pytest.raises(LeadlineError) as caught:
                RunWriter.reopen(path, session=SESSION)
            assert caught.value.kind is ARCHIVE_DAMAGED, name
            with pytest.raises(LeadlineError), RunWriter.tidying(path):
                pass
            (path / name).unlink(missing_ok=True)
        (path / name).write_bytes(content)
    assert check_intact(Run(path)) == ()
    RunWriter.reopen(path, session=SESSION).close()
    assert check_intact(Run(path)) == ()


def test_a_file_that_is_damaged_while_its_run_goes_on_is_known_for_ever(tmp_path: Path) -> None:
    target, path = tmp_path / "target", tmp_path / "run"
    target.mkdir()
    writer = new_writer(path, make_plan(target))
    replay(writer, writer.run.plan.trials[:1])
    writer.close()
    writer = RunWriter.reopen(path, session=SESSION)
    victim = writer.run.trials[0].folder / layout.FIO_OUTPUT
    flip(victim)
    (writer.run.path / layout.INVENTORY / "001-start.json").unlink()
    replay(writer, writer.run.to_do())
    writer.close()
    run = Run(path)
    assert run.complete
    found = {problem.path for problem in verify(run).problems}
    assert found >= {str(victim.relative_to(path)), "inventory/001-start.json"}


def test_a_kill_between_a_digest_and_its_file_is_no_damage(tmp_path: Path) -> None:
    target, path = tmp_path / "target", tmp_path / "run"
    target.mkdir()
    writer = new_writer(path, make_plan(target))
    plan = writer.run.plan
    digest = layout.digest(b"never written")
    writer._note_written(WrittenFiles(files={"looks/001.json": digest, layout.PLAN: digest}))
    writer.close()
    assert check_intact(Run(path)) == ()
    writer = RunWriter.reopen(path, session=SESSION)
    assert writer.run.plan == plan
    replay(writer, plan.trials)
    writer.close()
    assert verify(Run(path)).ok
    assert Run(path).complete


@pytest.mark.parametrize("victim", ["fsync", "write"])
def test_a_full_disk_leaves_no_digest_without_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, victim: str
) -> None:
    """At any call of a session, twice; then there is room."""
    target, path = tmp_path / "target", tmp_path / "run"
    target.mkdir()
    new_writer(path, make_plan(target, repeats=1)).close()
    call = getattr(os, victim)
    for number in range(12):
        count = 0

        def fill(*arguments: Any, room: int = number) -> Any:
            nonlocal count
            count += 1
            if count > room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return call(*arguments)

        writer = RunWriter.reopen(path, session=SESSION)
        for _ in range(2):
            with monkeypatch.context() as full:
                full.setattr(os, victim, fill)
                with suppress(LeadlineError):
                    writer.write_stacks(Stacks(stacks=()))
                    writer.note_created(Created(target="", path="lab:x", token="0" * 16))
                    writer.extend(writer.run.plan)
        writer.close()
        assert check_intact(Run(path)) == (), number
    writer = RunWriter.reopen(path, session=SESSION)
    replay(writer, writer.run.to_do())
    writer.close()
    assert verify(Run(path)).problems == ()


def test_lines_of_a_journal_that_are_cut_off_are_missed(tmp_path: Path) -> None:
    target, path = tmp_path / "target", tmp_path / "run"
    target.mkdir()
    run_until_killed(target, path, "TrialStarted", 3)
    journal = path / layout.CREATED
    content = journal.read_bytes()
    for cut in (b"", content[:100], content[:100] + b"\0" * 200, b"\0" * len(content)):
        journal.write_bytes(cut)
        assert layout.CREATED in {problem.path for problem in check_intact(Run(path))}, cut
    journal.write_bytes(content)
    assert check_intact(Run(path)) == ()


def test_a_reading_of_the_guard_that_was_changed_is_found(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    path = tmp_path / "run"
    writer = new_writer(path, make_plan(tmp_path / "target"))
    place = writer.make_guard_file()
    hashed = hashlib.sha256()
    for value in range(3):
        line = sealed_line(hashed, b'{"at":"2026-11-28T00:00:00Z","value":%d}' % value)
        hashed.update(line)
        with place.open("ab") as stream:
            stream.write(line)
    writer.close()
    assert check_intact(Run(path)) == ()
    content = place.read_bytes()
    for changed in (content.replace(b'"value":1', b'"value":7'), content + b"garbage\n", None):
        place.unlink() if changed is None else place.write_bytes(changed)
        assert [problem.path for problem in check_intact(Run(path))] == ["guard/001.jsonl"]


@pytest.mark.parametrize("garbage", [b"\0" * 100, b"garbage", b'[{"target'])
def test_garbage_behind_a_sealed_journal_is_never_sealed(run: Run, garbage: bytes) -> None:
    for name in (layout.CREATED, layout.DIGESTS):
        content = (run.path / name).read_bytes()
        (run.path / name).write_bytes(content + garbage)
        assert name in {problem.path for problem in check_intact(Run(run.path))}
        with pytest.raises(LeadlineError), RunWriter.tidying(run.path):
            pass
        assert (run.path / name).read_bytes() == content + garbage
        (run.path / name).write_bytes(content)
    assert verify(Run(run.path)).ok


def test_a_killed_run_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    """Version 0.2 recorded no digests, and its journals had no seals."""
    target, path = tmp_path / "target", tmp_path / "run"
    target.mkdir()
    run_until_killed(target, path, "TrialStarted", 5)
    (path / layout.DIGESTS).unlink()
    journal = path / layout.CREATED
    entries = [entry for _, entry in parse_journal(journal.read_bytes()).entries(Created)]
    lines = [entry.model_dump_json().encode() + b"\n" for entry in entries]
    # It lies on another target, so that this session does not make and remove it.
    gone = Created(target="a", path="/x", token="0" * 16)
    removed = gone.model_copy(update={"removed": True})
    lines += [entry.model_dump_json().encode() + b"\n" for entry in (gone, removed)]
    journal.write_bytes(b"".join(lines))
    manifest = Run(path).manifest.model_copy(update={"journaled": False})
    (path / layout.MANIFEST).write_bytes(layout.encode(manifest))
    run = Run(path)
    assert not run.journaled
    assert check_intact(run) == ()
    left = run.left_behind
    assert len(left) == 1
    writer = RunWriter.reopen(path, session=SESSION)
    assert check_intact(Run(path)) == ()
    assert Run(path).left_behind == left
    replay(writer, run.to_do())
    writer.close()
    assert Run(path).complete
    assert verify(Run(path)).problems == ()


def test_what_undoes_a_drill_keeps_its_secret(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    path = tmp_path / "run"
    writer = new_writer(path, make_plan(tmp_path / "target"))
    event = {"event": {"command": {"begin": "true", "end": "ctl --password=hunter2 up"}}}
    entry = Created(target="", path="drill:x", token=json.dumps(event))
    writer.note_created(entry)
    assert Run(path).left_behind == (entry,)
    assert b"hunter2" not in (path / layout.CREATED).read_bytes()
    assert (path / layout.UNDO).stat().st_mode & 0o777 == 0o600
    assert check_intact(Run(path)) == ()
    writer.note_removed(entry)
    assert Run(path).left_behind == ()
    writer.close()


def test_to_do_is_what_lacks_a_result(tmp_path: Path, run: Run) -> None:
    assert run.to_do() == ()
    shutil.rmtree(run.trials[0].folder)
    assert [trial.id for trial in Run(run.path).to_do()] == ["t0001"]
    record = run.trials[1].record.model_copy(update={"status": TrialStatus.FAILED})
    (run.trials[1].folder / layout.TRIAL_RECORD).write_bytes(layout.encode(record))
    assert [trial.id for trial in Run(run.path).to_do()] == ["t0001"]
    assert [trial.id for trial in Run(run.path).to_do(retry_failed=True)] == ["t0001", "t0002"]


def test_what_was_left_behind_is_known_even_with_a_torn_last_line(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    writer = new_writer(tmp_path / "run", make_plan(tmp_path / "target"))
    one = Created(target="a", path="/x/1", token="t1")
    two = Created(target="a", path="/x/2", token="t2")
    writer.note_created(one)
    writer.note_created(two)
    writer.note_removed(one)
    with (tmp_path / "run" / layout.CREATED).open("ab") as stream:
        stream.write(b'{"target": "a", "pa')
    assert writer.run.left_behind == (two,)
    writer.close()


def test_an_entry_after_a_torn_line_is_kept(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    new_writer(tmp_path / "run", make_plan(tmp_path / "target")).close()
    journal = tmp_path / "run" / layout.CREATED
    journal.write_bytes(b'{"target": "a", "pa')
    assert check_intact(Run(tmp_path / "run")) == ()
    writer = RunWriter.reopen(tmp_path / "run", session=SESSION)
    entry = Created(target="a", path="/x/1", token="t1")
    writer.note_created(entry)
    assert writer.run.left_behind == (entry,)
    writer.close()
    assert check_intact(Run(tmp_path / "run")) == ()


def test_a_killed_removal_of_leftovers_is_found_and_finished(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    path = tmp_path / "run"
    writer = new_writer(path, make_plan(tmp_path / "target"))
    entry = Created(target="a", path="/x/1", token="t1")
    writer.note_created(entry)
    writer.seal(RunStatus.INTERRUPTED, ended_at=SESSION.started_at)
    assert not Run(path).cleaning_unsealed
    writer.note_removed(entry)  # killed here: the manifest has the digest of the shorter journal
    writer.close()
    run = Run(path)
    assert run.left_behind == ()
    assert run.cleaning_unsealed
    assert "`leadline clean` finishes that" in str(verify(run).problems)
    with RunWriter.tidying(path):
        pass
    assert not Run(path).cleaning_unsealed
    assert layout.CREATED not in {problem.path for problem in verify(Run(path)).problems}
    # A journal that was changed in what is sealed is not sealed again.
    with (path / layout.CREATED).open("r+b") as stream:
        stream.write(b"[")
        stream.seek(0, os.SEEK_END)
        stream.write(b"{}\n")
    assert not Run(path).cleaning_unsealed


@pytest.mark.parametrize("locked", [False, True])
def test_what_a_killed_process_began_goes_with_the_next_run(tmp_path: Path, locked: bool) -> None:
    (tmp_path / "target").mkdir()
    dead = tmp_path / "runs" / ".new-4194305-perf-a"  # above the largest process id
    dead.mkdir(parents=True)
    own = tmp_path / "runs" / f".new-{os.getpid()}-perf-b"
    own.mkdir()
    lock = lock_archive(dead) if locked else -1
    new_writer(tmp_path / "runs" / "perf-c", make_plan(tmp_path / "target")).close()
    assert dead.exists() == locked
    assert own.exists()
    if locked:
        os.close(lock)


def test_a_folder_of_the_user_that_has_the_name_of_a_draft_stays(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    names = [".new-4194305-photos", ".scrubbing-photos", ".new-notes-of-anna", ".scrubbing-perf-a"]
    files = [
        tmp_path / "runs" / name / place
        for name in names
        for place in ("holiday.jpg", "inventory/list.txt")
    ]
    for number, file in enumerate(files):
        for path in files[: number + 1] if number % 2 else [file]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("not Leadline's")
        remove_abandoned_drafts(tmp_path / "runs")
        assert remove_interrupted(tmp_path / "runs") == []
        assert file.exists()
        if number % 2:
            files[number - 1].unlink()  # only names that an archive has are left
            remove_abandoned_drafts(tmp_path / "runs")
            assert remove_interrupted(tmp_path / "runs") == []
            assert file.exists()


def test_an_archive_that_cannot_be_begun_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    place = tmp_path / "runs" / "perf-a"
    place.mkdir(parents=True)
    (place / "of-the-user").touch()
    with pytest.raises(LeadlineError) as caught:
        new_writer(place, make_plan(tmp_path / "target"))
    assert caught.value.kind is ARCHIVE_UNWRITABLE
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["perf-a"]
    assert [path.name for path in place.iterdir()] == ["of-the-user"]


def test_temporary_files_of_a_killed_session_go(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    path = tmp_path / "run"
    new_writer(path, make_plan(tmp_path / "target")).close()
    (path / ".plan.json.new").touch()
    RunWriter.reopen(path, session=SESSION).close()
    assert [left.name for left in path.glob(".*")] == []


def test_runs_are_found_by_id_prefix_path_and_age(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    plan = make_plan(tmp_path / "target")
    folder = tmp_path / "runs"
    for name in ("perf-20260101-000000", "perf-20260102-000000", "perf-20260102-000000-2"):
        new_writer(folder / name, plan).close()
        time.sleep(0.01)
    assert [run.path.name[-8:] for run in list_runs(folder)] == ["1-000000", "2-000000", "000000-2"]
    assert find_run("perf-20260101", folder).path.name == "perf-20260101-000000"
    assert find_run("perf-20260102-000000", folder).path.name == "perf-20260102-000000"
    assert find_run("@latest", folder).path.name == "perf-20260102-000000-2"
    assert find_run("@previous", folder).path.name == "perf-20260102-000000"
    assert find_run(str(folder / "perf-20260101-000000"), tmp_path).complete is False
    # Ids of earlier versions, and with a random part.
    for name in (
        "perf-20260103-000000-release",
        "perf-20260104-000000-release",
        "perf-20260105-000000-k3f9x-release",
    ):
        time.sleep(0.01)
        new_writer(folder / name, plan).close()
        assert find_run("release", folder).path.name == name
    for wrong, said in [
        ("perf-2026", "beginning of 6 runs"),
        ("lease", "there is no run 'lease'"),
        ("nothing", "there is no run 'nothing'"),
        (f"{tmp_path}/target", "is no archive"),
    ]:
        with pytest.raises(LeadlineError) as caught:
            find_run(wrong, folder)
        assert caught.value.kind is RUN_NOT_FOUND
        assert said in str(caught.value)


def test_an_id_without_a_name_ends_with_no_number() -> None:
    """`leadline history` takes a number at the end for the user's, which counts the runs."""
    made = {new_id(datetime(2026, 11, 21, 12, tzinfo=UTC)) for _ in range(300)}
    assert len(made) == 300
    assert all(re.fullmatch(BEFORE_NAME, f"{one}-") for one in made)
    assert not any(one[-1].isdigit() for one in made)


def test_a_damaged_manifest_does_not_hide_the_other_runs(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    plan = make_plan(tmp_path / "target")
    for name in ("perf-20260101-000000", "perf-20260102-000000"):
        new_writer(tmp_path / "runs" / name, plan).close()
    (tmp_path / "runs" / "perf-20260101-000000" / layout.MANIFEST).write_text("{")
    assert find_run("@latest", tmp_path / "runs").path.name == "perf-20260102-000000"
    with pytest.raises(LeadlineError) as caught:
        find_run("", tmp_path / "runs")
    assert caught.value.kind is RUN_NOT_FOUND


def test_an_archive_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LeadlineError) as caught:
        new_writer(tmp_path / "file" / "run", make_plan(tmp_path / "target"))
    assert caught.value.kind is ARCHIVE_UNWRITABLE
    assert os.fspath(tmp_path / "file") in str(caught.value)


def test_a_watch_that_was_stopped_in_the_midst_of_a_block_leaves_whole_intervals(run: Run) -> None:
    """Sums over vdevs would lack those that were not printed."""
    trial = run.trials[0]
    content = (RECORDED.parent / "zfs" / "fuse-iostat-v-1.txt").read_bytes().rstrip(b"\n- ")
    place = trial.folder / layout.ZPOOL_IOSTAT
    place.write_bytes(content[: content.rfind(b"\n") - 10])
    report = trial.zpool_iostat
    assert report is not None
    assert report.intervals == 3
    whole = {row.name for row in report.rows if row.interval == 0}
    for interval in range(report.intervals):
        assert {row.name for row in report.rows if row.interval == interval} == whole


def test_output_is_private_until_its_secrets_are_removed(tmp_path: Path) -> None:
    writer = new_writer(tmp_path / "perf-a", make_plan(tmp_path))
    with writer.staged("trials/one") as folder:
        (folder / "job.fio").write_text("password=hunter2-planted\n")
        assert folder.parent.stat().st_mode & 0o777 == 0o700
    writer.close()
    text = (tmp_path / "perf-a" / "trials" / "one" / "job.fio").read_text()
    assert "hunter2-planted" not in text


@pytest.mark.parametrize(
    "place", [".staging", ".manifest.json.new", ".lock", "created.jsonl", "inventory", "trials/x"]
)
def test_an_archive_with_a_link_is_never_written(run: Run, tmp_path: Path, place: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    link = run.path / place
    if link.is_dir():
        link.rename(tmp_path / "moved")
    else:
        link.unlink(missing_ok=True)
    link.symlink_to(outside / "precious" if place.startswith((".m", ".l", "c")) else outside)
    for write in (
        lambda: RunWriter.reopen(run.path, session=SESSION),
        lambda: RunWriter.tidying(run.path).__enter__(),
    ):
        with pytest.raises(LeadlineError) as raised:
            write()
        assert raised.value.kind is ARCHIVE_DAMAGED
        assert place in str(raised.value)
    assert [path.name for path in outside.iterdir()] == ["precious"]
    assert (outside / "precious").read_text() == "x"


def test_a_temporary_file_that_is_a_link_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    (tmp_path / ".file.new").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links"):
        layout.write_durably(tmp_path / "file", b"y")
    assert (tmp_path / "precious").read_text() == "x"


def test_drafts_that_are_links_stay(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / ".new-4194303-x").symlink_to(outside)
    remove_abandoned_drafts(tmp_path / "runs")
    assert list(outside.iterdir()) == []
