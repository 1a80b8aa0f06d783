"""An archive is untrusted input: what a resumed run and `clean` do with one that was edited,
damaged or made by another user, and that they still undo what a run of this user left."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.records import Created, Manifest, RunStatus
from leadline.archive.runs import list_runs
from leadline.archive.scrub import renew_digests
from leadline.archive.verify import check_intact, verify
from leadline.archive.writer import RunWriter
from leadline.cli.main import main
from leadline.cli.options import this_session
from leadline.engines.replay import ReplayEngine
from leadline.plan.models import Plan
from tests.cli.conftest import ERROR, Leadline

Killed = Callable[..., Run]
SECRET = "hunter2-restores"
CHANGED = ("1\n", "2\n")


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Locks and marks of this test alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def value(tmp_path: Path) -> Path:
    path = tmp_path / "value"
    path.write_text("5\n")
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """What a command of an edited archive makes."""
    return tmp_path / "trace"


def setting(kind: str, value: Path, word: str = "") -> dict[str, Any]:
    if kind == "host_file":
        return {"host_file": {"path": str(value), "values": ["1", "2"]}}
    apply, restore = (
        shlex.join(("sh", "-c", f'echo "$1" > {value}', word or "x", text))
        for text in ("{value}", "{before}")
    )
    command = {"apply": apply, "restore": restore, "read": f"cat {value}"}
    return {"command": {**command, "values": ["1", "2"]}}


@pytest.fixture
def killed(trusted_plan: Path, recorded: Path, value: Path, tmp_path: Path) -> Killed:
    """A run that was killed in a later trial, with a changed value where it has settings."""

    def run_until_killed(**settings: Any) -> Run:
        document = yaml.safe_load(trusted_plan.read_text())
        plan = tmp_path / "settings.yaml"
        plan.write_text(yaml.safe_dump({**document, "settings": settings, "repeats": 2}))
        child = os.fork()
        if not child:
            count = 0
            execute = ReplayEngine.execute

            def execute_or_die(*arguments: Any, **named: Any) -> Any:
                nonlocal count
                count += 1
                if count > 1 and (not settings or value.read_text() in CHANGED):
                    os.kill(os.getpid(), signal.SIGKILL)
                return execute(*arguments, **named)

            ReplayEngine.execute = execute_or_die  # type: ignore[method-assign]
            place = str(tmp_path / "runs")
            try:
                main(["run", str(plan), "--replay", str(recorded), "--quiet", "--runs", place])
            finally:
                os._exit(1)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        (run,) = list_runs(tmp_path / "runs")
        assert run.manifest.status is RunStatus.RUNNING
        assert run.attempts
        assert run.unrestored if settings else not run.unrestored
        return run

    return run_until_killed


def seal_anew(path: Path) -> None:
    """Give an archive the digests of what it holds now, as a careful forger does."""
    manifest = Manifest.model_validate_json((path / layout.MANIFEST).read_bytes())
    renew_digests(path)
    files = {}
    if manifest.files:
        files = {name: layout.digest_file(path / name) for name in layout.content_files(path)}
    (path / layout.MANIFEST).write_bytes(
        layout.encode(manifest.model_copy(update={"files": files}))
    )


def edit_plan(run: Run, edit: Callable[[str], str]) -> None:
    place = run.path / layout.PLAN
    text = edit(place.read_text())
    assert text != place.read_text()
    Plan.model_validate_json(text)
    place.write_text(text)


def resume(leadline: Leadline, recorded: Path, run: Run, *options: str) -> Any:
    return leadline("run", "--resume", run.path, "--replay", recorded, "--quiet", *options)


@pytest.mark.parametrize("sealed", [False, True])
def test_an_edited_plan_runs_nothing(
    leadline: Leadline,
    killed: Killed,
    recorded: Path,
    value: Path,
    trace: Path,
    sealed: bool,
) -> None:
    run = killed(own=setting("command", value, "harmless"))
    edit_plan(run, lambda text: text.replace(f"> {value}", f"> {trace}"))
    if sealed:
        seal_anew(run.path)
        assert check_intact(Run(run.path)) == ()
    before = run.path.joinpath(layout.MANIFEST).read_bytes()
    for verb in (
        lambda: resume(leadline, recorded, run),
        lambda: leadline("clean"),
        lambda: leadline("clean", run.path),
    ):
        answered = verb()
        assert answered.status in (2, 4), answered.out
        assert ERROR.search(answered.err)
        assert not trace.exists()
        assert value.read_text() != "5\n"
    if not sealed:
        assert run.path.joinpath(layout.MANIFEST).read_bytes() == before
    # Nothing was given up: with the plan as it was, `clean` restores.
    edit_plan(run, lambda text: text.replace(f"> {trace}", f"> {value}"))
    if sealed:
        seal_anew(run.path)
    cleaned = leadline("clean", run.path)
    assert cleaned.status == 0, cleaned.err
    assert value.read_text() == "5\n"


@pytest.mark.parametrize("kind", ["command", "host_file"])
def test_a_resumed_plan_needs_consent_to_its_commands_and_files(
    leadline: Leadline, killed: Killed, recorded: Path, value: Path, kind: str
) -> None:
    run = killed(own=setting(kind, value))
    refused = resume(leadline, recorded, run)
    assert refused.status == 2
    assert "error[archive-not-consented]" in refused.err
    assert str(value) in refused.err
    assert "--allow-archived own" in refused.err
    assert value.read_text() != "5\n"
    done = resume(leadline, recorded, run, "--allow-archived", "own")
    assert done.status == 0, done.err
    assert verify(Run(run.path)).ok
    assert value.read_text() == "5\n"
    assert resume(leadline, recorded, run, "--allow-archived", "other").status == 2


def test_an_archived_plan_sends_no_token_without_consent(
    leadline: Leadline, killed: Killed, recorded: Path, tmp_path: Path
) -> None:
    token = tmp_path / "id_rsa"
    token.write_text("a key of the user")
    run = killed()
    limit = {"url": "http://127.0.0.1:9", "token_file": str(token), "name": "x"}
    limit |= {"query": "up", "above": 1}

    def add_guard(text: str) -> str:
        return json.dumps({**json.loads(text), "guard": {"prometheus": [limit]}})

    edit_plan(run, add_guard)
    seal_anew(run.path)
    refused = resume(leadline, recorded, run)
    assert refused.status == 2, refused.err
    assert "error[archive-not-consented]" in refused.err
    assert "address: http://127.0.0.1:9" in refused.err
    assert f"--allow-archived {token}" in refused.err


def test_clean_by_a_copy_leaves_the_run_in_progress_alone(
    leadline: Leadline, killed: Killed, target: Path, tmp_path: Path
) -> None:
    """A backup of the folder of runs, also of the lock, while the run goes on."""
    run = killed()
    (folder,) = target.iterdir()
    writer = RunWriter.reopen(run.path, session=this_session())
    copy = tmp_path / "backup" / run.path.name
    shutil.copytree(run.path, copy)
    for arguments in (("clean", copy), ("run", "--resume", copy)):
        refused = leadline(*arguments)
        assert refused.status == 2
        assert "error[run-not-resumable]" in refused.err
        assert folder.exists()
    writer.close()
    cleaned = leadline("clean", "--runs", copy.parent)
    assert cleaned.status == 0, cleaned.err
    assert not folder.exists()


def test_an_archive_that_cannot_be_read_does_not_keep_clean_from_the_others(
    leadline: Leadline, killed: Killed, target: Path, tmp_path: Path
) -> None:
    run = killed()
    (folder,) = target.iterdir()
    runs = run.path.parent
    for name in ("perf-1-pipe", "perf-9-pipe"):
        shutil.copytree(run.path, runs / name)
        (runs / name / layout.CREATED).unlink()
        os.mkfifo(runs / name / layout.CREATED)
    for name in ("perf-1-damaged", "perf-9-damaged"):
        shutil.copytree(run.path, runs / name)
        (runs / name / layout.MANIFEST).write_text("no JSON")
    shutil.copytree(run.path, runs / "perf-1-missing")
    (runs / "perf-1-missing" / layout.CREATED).unlink()
    (runs / "perf-1-web").mkdir()
    (runs / "perf-1-web" / layout.MANIFEST).write_text('{"name": "a page"}')
    cleaned = leadline("clean")
    assert cleaned.status == 4
    assert f"{run.id}: removed what a killed session left" in cleaned.out
    assert not folder.exists()
    for name in ("perf-1-pipe", "perf-9-pipe", "perf-1-damaged", "perf-1-missing"):
        assert f"{name}: " in cleaned.err
    assert "perf-1-web" not in cleaned.err


def test_clean_of_all_leaves_a_run_in_progress_alone(
    leadline: Leadline, killed: Killed, target: Path
) -> None:
    run = killed()
    (folder,) = target.iterdir()
    writer = RunWriter.reopen(run.path, session=this_session())
    cleaned = leadline("clean")
    assert cleaned.status == 0
    assert "is left alone: the run" in cleaned.err
    assert leadline("clean", run.path).status == 2
    assert folder.exists()
    writer.close()
    assert leadline("clean").status == 0
    assert not folder.exists()


def test_what_restores_is_kept_as_it_is_for_its_user_alone(
    leadline: Leadline, killed: Killed, recorded: Path, value: Path
) -> None:
    run = killed(own=setting("command", value, f"password={SECRET}"))
    holders = [
        path.name for path in run.path.rglob("*") if path.is_file() and SECRET in path.read_text()
    ]
    assert holders == [layout.UNDO]
    assert (run.path / layout.UNDO).stat().st_mode & 0o777 == 0o600
    for verb in (("show", run.path), ("report", run.path, "--format", "json"), ("list",)):
        answered = leadline(*verb)
        assert SECRET not in answered.out + answered.err
    cleaned = leadline("clean", run.path)
    assert cleaned.status == 0, cleaned.err
    assert value.read_text() == "5\n"
    done = resume(leadline, recorded, run, "--allow-archived", "own")
    assert done.status == 0, done.err
    assert value.read_text() == "5\n"
    # Nothing is left to undo, and nothing of it is kept.
    assert not (run.path / layout.UNDO).exists()
    assert verify(Run(run.path)).ok
    assert not any(SECRET in path.read_text() for path in run.path.rglob("*") if path.is_file())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("sealed", [False, True])
def test_another_user_reads_and_verifies_an_archive_without_what_undoes_it(
    killed: Killed, value: Path, tmp_path: Path, sealed: bool
) -> None:
    run = killed(own=setting("command", value, f"password={SECRET}"))
    if sealed:
        writer = RunWriter.reopen(run.path, session=this_session())
        writer.seal(RunStatus.INTERRUPTED, ended_at="2026-11-28T00:00:00+00:00")
        writer.close()
        assert layout.UNDO in Run(run.path).manifest.files
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o055)
    child = os.fork()
    if not child:
        status = 1
        try:
            os.setgroups([])
            os.setegid(65534)
            os.seteuid(65534)
            problems = verify(Run(run.path)).problems
            unseen = Run(run.path).whole_plan == Run(run.path).plan
            status = 0 if unseen and {one.path for one in problems} == {layout.MANIFEST} else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_another_home_says_what_it_does_not_restore(
    leadline: Leadline,
    killed: Killed,
    recorded: Path,
    value: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = killed(own=setting("host_file", value))
    with monkeypatch.context() as root:
        root.setenv("XDG_CACHE_HOME", str(tmp_path / "root"))
        for _ in range(2):
            refused = leadline("clean")
            assert refused.status == 4
            assert str(tmp_path / "cache") in refused.err
            assert value.read_text() != "5\n"
        resumed = resume(leadline, recorded, run, "--allow-archived", "own")
        assert resumed.status == 4, resumed.err
        assert str(tmp_path / "cache") in resumed.err
    cleaned = leadline("clean")
    assert cleaned.status == 0, cleaned.err
    assert value.read_text() == "5\n"
    assert leadline("clean").out == "nothing was left behind\n"
    again = leadline("run", tmp_path / "settings.yaml", "--replay", recorded, "--quiet")
    assert again.status == 0, again.err
    assert run.path.exists()


def test_every_damaged_byte_of_a_journal_is_reported_and_nothing_is_forgotten(
    leadline: Leadline, killed: Killed, value: Path, target: Path
) -> None:
    run = killed(own=setting("host_file", value))
    (folder,) = target.iterdir()
    for name in layout.JOURNALS:
        place = run.path / name
        content = place.read_bytes()
        for at in range(3, len(content), len(content) // 7):
            place.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            refused = leadline("clean")
            assert refused.status == 4, f"byte {at} of {name}: {refused.out}"
            line = content[:at].count(b"\n") + 1
            assert f"{name}: line {line} is not as it was written" in refused.err
            assert "did not" in refused.err
            assert "nothing was left behind" not in refused.out
            assert folder.exists()
            assert value.read_text() != "5\n"
        place.write_bytes(content)
    assert leadline("clean").status == 0
    assert not folder.exists()
    assert value.read_text() == "5\n"


def test_a_line_that_was_added_removes_nothing(
    leadline: Leadline, killed: Killed, tmp_path: Path
) -> None:
    run = killed()
    thesis = tmp_path / "home" / "leadline.0.dat"
    thesis.parent.mkdir()
    thesis.write_text("not Leadline's")
    entry = Created(target=run.plan.targets[0].name, path=str(thesis.parent), token="")
    with (run.path / layout.CREATED).open("a") as stream:
        stream.write(entry.model_dump_json() + "\n")
    for seal in (False, True):
        if seal:  # by the writer of journals itself
            from leadline.archive.journal import JournalFile

            place = run.path / layout.CREATED
            place.write_bytes(b"".join(place.read_bytes().splitlines(keepends=True)[:-1]))
            journal = JournalFile(place)
            journal.append(entry)
            journal.close()
        refused = leadline("clean", run.path)
        assert refused.status == 4
        assert str(thesis.parent) in refused.err
        assert thesis.read_text() == "not Leadline's"


def test_a_foreign_plan_without_its_secrets_is_not_resumed(
    leadline: Leadline, killed: Killed, recorded: Path, value: Path
) -> None:
    run = killed(own=setting("command", value, f"password={SECRET}"))
    changed = value.read_text()
    (run.path / layout.UNDO).unlink()
    refused = resume(leadline, recorded, run, "--allow-archived", "own")
    assert refused.status == 2
    assert "undo.jsonl: is missing" in refused.err
    refused = leadline("clean", run.path, "--allow-archived", "own")
    assert refused.status == 4
    assert "undo.jsonl: is missing" in refused.err
    # Nor by an archive that a forger sealed.
    (run.path / layout.UNDO).touch()
    refused = resume(leadline, recorded, run, "--allow-archived", "own")
    assert refused.status == 2
    assert "lacks a secret" in refused.err
    refused = leadline("clean", run.path, "--allow-archived", "own")
    assert refused.status == 4
    assert "lacks a secret" in refused.err
    assert value.read_text() == changed


def test_a_dry_run_of_clean_says_all(leadline: Leadline, killed: Killed, value: Path) -> None:
    run = killed(own=setting("host_file", value))
    planned = leadline("clean", "--dry-run")
    assert planned.status == 0
    lines = planned.out.splitlines()
    assert len(lines) == 3
    assert all(re.fullmatch(rf"{run.id}: would (remove|restore) .*", line) for line in lines)
    assert json.loads((run.path / layout.MANIFEST).read_text())["status"] == "running"


def test_the_value_before_an_outsiders_change_is_kept_and_not_printed(
    leadline: Leadline, killed: Killed, recorded: Path, value: Path
) -> None:
    value.write_text(f"apikey={SECRET}\n")
    run = killed(own=setting("host_file", value))
    value.write_text("of-another-user\n")
    cleaned = leadline("clean", run.path)
    assert cleaned.status == 4
    assert SECRET not in cleaned.out + cleaned.err
    done = resume(leadline, recorded, run, "--allow-archived", "own")
    assert SECRET not in done.out + done.err
    assert Run(run.path).complete
    assert SECRET in (run.path / layout.UNDO).read_text()
    assert value.read_text() == "of-another-user\n"
    assert verify(Run(run.path)).ok
