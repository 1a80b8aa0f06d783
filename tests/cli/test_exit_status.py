"""Every exit status that this version can end with: one test and more for each row of the table.

5 and 6 belong to verbs that are not there yet (gate, compare).
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.archive.records import RunStatus, TrialStatus
from leadline.archive.runs import list_runs
from leadline.archive.verify import verify
from tests.cli.conftest import ERROR, QUICK, Leadline, recorded_output, refused
from tests.conftest import Said

Quick = Callable[..., Said]
StubFio = Callable[..., None]

# --- 0 ------------------------------------------------------------------------------------------


def test_0_a_run_with_whose_numbers_nothing_is_wrong(
    leadline: Leadline, trusted_plan: Path, recorded: Path
) -> None:
    said = leadline("run", trusted_plan, "--replay", recorded)
    assert said.status == 0, said.out + said.err
    assert "20,148" in said.out, "the recorded figure"
    assert leadline("audit").status == 0
    assert leadline("verify").status == 0


# --- 1 ------------------------------------------------------------------------------------------


def test_1_audit_and_run_with_an_error_finding(
    quick: Quick, leadline: Leadline, failing: Path
) -> None:
    ran = quick("--replay", failing)
    assert ran.status == 1
    assert "engine-error" in ran.out, "fio says so in its output"
    assert ran.err == "", "an answer is no error, also where it is negative"
    audited = leadline("audit", "--format", "json")
    assert audited.status == 1
    assert json.loads(audited.out)["trusted"] is False


def test_1_verify_of_a_damaged_archive(quick: Quick, leadline: Leadline, tmp_path: Path) -> None:
    quick()
    (run,) = list_runs(tmp_path / "runs")
    damaged = run.trials[0].folder / "fio.json"
    damaged.write_bytes(damaged.read_bytes().replace(b"fio-3", b"fio-4", 1))
    said = leadline("verify")
    assert said.status == 1
    assert f"problem: {damaged.relative_to(run.path)}: its SHA-256 is not the sealed one" in (
        said.out
    )


def test_1_an_archive_that_cannot_be_read(quick: Quick, leadline: Leadline, tmp_path: Path) -> None:
    quick()
    (run,) = list_runs(tmp_path / "runs")
    (run.path / "plan.json").write_text("{")
    for verb in ("show", "audit"):
        assert "plan.json:1:" in refused(leadline(verb, run.path), 1, "archive-damaged")


# --- 2 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], "usage", "no verb was given"),
        (["sho"], "usage", "did you mean `leadline show`?"),
        (["frobnicate"], "usage", "verbs: plan, check, run, "),
        (["--frobnicate"], "usage", "leadline --help"),
        (["show", "--format", "xml"], "usage", "'text', 'json', 'csv', 'csv-raw', 'markdown'"),
        (["show", "--formt", "json"], "usage", "--format"),
        (["show", "one", "two"], "usage", "(two)"),
        (["run", "--resume"], "usage", "leadline run --help"),
        (["run", "--retry-failed"], "usage", "--resume RUN --retry-failed"),
        (["run", "--repeats", "many"], "usage", "'many'"),
        (["run", "--dry-run", "--format", "json"], "usage", "check --format json"),
        (["report"], "usage", "--output"),
        (["report", "-o", "page"], "usage", "'page' has no ending"),
        (["report", "-o", "page.docx"], "usage", ".html, .pdf, .png, .xlsx, .md"),
        (["show"], "run-not-found", "there is no @latest run"),
        (["show", "perf-2026"], "run-not-found", "there is no run 'perf-2026'"),
        (["verify", "/"], "run-not-found", "manifest.json"),
        (["clean", "perf-2026"], "run-not-found", "leadline list"),
        (["run", "--resume", "perf-2026"], "run-not-found", "perf-2026"),
        (["check"], "plan-invalid", "neither a profile nor workloads"),
        (["check", "nowhere.yaml"], "plan-unreadable", "nowhere.yaml"),
        (["check", "/"], "plan-unreadable", "cannot be read"),
        (["explain", "short-runtim"], "rule-unknown", "did you mean short-runtime"),
        (["explain", "E1"], "rule-unknown", "a label within one report"),
        (["schema", "shw"], "schema-unknown", "did you mean 'show'?"),
        (["schema", "explain"], "schema-unknown", "verbs: audit, check,"),
    ],
)
def test_2_a_request_that_cannot_be_answered(
    leadline: Leadline, arguments: list[str], code: str, words: str
) -> None:
    assert words in refused(leadline(*arguments), 2, code)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--profile", "quik"], "did you mean 'quick'?"),
        (["--profile", "quick", "--runtime", "soon"], "--runtime: 'soon' is not a duration"),
        (["--profile", "quick", "--size", "big"], "--size: 'big'"),
        (["--profile", "quick", "--repeats", "0"], "repeats:"),
        (["--profile", "quick", "--name", "a b"], "name:"),
        (["--profile", "quick", "--target", "/tmp"], "did you mean 'dir:/tmp'?"),
        (["--profile", "quick", "--target", "dri:/tmp"], "did you mean 'dir'?"),
        (["--profile", "quick", "--target", "dir:tmp"], "absolute path"),
        (["--profile", "quick", "--target", "dir:/x", "--target", "dir:/x"], "two targets"),
        (["--profile", "quick", "--target", "a\x1b[31m=dir:/x"], "targets[1].name"),
    ],
)
@pytest.mark.parametrize("verb", ["check", "run"])
def test_2_a_plan_that_cannot_be_carried_out(
    leadline: Leadline, verb: str, options: list[str], words: str, tmp_path: Path
) -> None:
    said = refused(leadline(verb, "--target", f"dir:{tmp_path}", *options), 2, "plan-invalid")
    assert words in said
    assert "\x1b" not in said
    assert not (tmp_path / "runs").exists()


def test_2_a_plan_with_five_faults_tells_all_five(leadline: Leadline, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "targets: [/mnt/pool]\n"
        "profil: quick\n"
        "repeats: 0\n"
        "workloads:\n"
        "  - {name: a, pattern: randred}\n"
        "  - {name: a, pattern: read, block_size: 4q}\n"
    )
    said = refused(leadline("check", plan), 2, "plan-invalid")
    lines = sorted(int(line) for line in re.findall(r"plan\.yaml:(\d+): ", said))
    assert set(lines) == {1, 2, 3, 5, 6}
    assert "did you mean 'profile'?" in said
    assert "did you mean 'randread'?" in said


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_2_a_target_that_is_no_directory(
    leadline: Leadline, tmp_path: Path, recorded: Path, name: str
) -> None:
    (tmp_path / "file").touch()
    said = leadline("run", "--target", f"dir:{tmp_path / name}", *QUICK, "--replay", recorded)
    refused(said, 2, "target-invalid")
    assert not (tmp_path / "runs").exists()


def test_2_consent_for_a_device_that_the_plan_does_not_name(
    leadline: Leadline, target: Path, recorded: Path
) -> None:
    arguments = ("--target", f"dir:{target}", *QUICK, "--replay", recorded)
    said = leadline("run", *arguments, "--destroy-data", "/dev/sda")
    assert "'/dev/sda', and the plan needs none for it" in refused(said, 2, "usage")


def test_2_a_resume_takes_no_other_plan(quick: Quick, leadline: Leadline, target: Path) -> None:
    quick()
    for other in (["--repeats", "2"], ["--target", f"dir:{target}"], ["--no-prefill"], ["p.yaml"]):
        said = refused(leadline("run", "--resume", "@latest", *other), 2, "usage")
        assert "takes no other" in said


# --- 3 ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("without_fio")
def test_3_there_is_no_fio(leadline: Leadline, target: Path, tmp_path: Path) -> None:
    said = leadline("run", "--target", f"dir:{target}", *QUICK)
    assert "apt-get install fio" in refused(said, 3, "fio-missing")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("version", ["fio-3.1", "fio-2.21", "something-else"])
def test_3_fio_is_too_old(
    leadline: Leadline, target: Path, stub_fio: StubFio, version: str, tmp_path: Path
) -> None:
    stub_fio(version=version)
    said = refused(leadline("run", "--target", f"dir:{target}", *QUICK), 3, "fio-too-old")
    assert version in said
    assert "3.18" in said
    assert not (tmp_path / "runs").exists()


def test_3_fio_has_no_asynchronous_engine(
    leadline: Leadline, target: Path, stub_fio: StubFio, tmp_path: Path
) -> None:
    stub_fio(engines=("psync", "mmap"))
    said = leadline("run", "--target", f"dir:{target}", *QUICK, "--quiet")
    told = refused(said, 3, "engine-unknown")
    assert "neither io_uring nor libaio" in told
    (run,) = list_runs(tmp_path / "runs")
    assert [problem.code for problem in run.manifest.problems] == ["engine-unknown"]
    assert f"--resume {run.path}" in told
    assert list(target.iterdir()) == []


def test_3_fio_lacks_the_engine_that_the_plan_names(
    leadline: Leadline, target: Path, stub_fio: StubFio, tmp_path: Path
) -> None:
    stub_fio(engines=("psync",))
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        f"targets: [dir:{target}]\nworkloads: [{{name: w, pattern: write, engine: libaio}}]\n"
    )
    assert "'libaio'" in refused(leadline("run", plan), 3, "engine-unknown")


def test_3_the_runs_cannot_be_kept_where_asked(quick: Quick, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = quick("--runs", tmp_path / "file" / "below")
    assert str(tmp_path / "file") in refused(said, 3, "archive-unwritable")


# --- 4 ------------------------------------------------------------------------------------------


def failed_with(said: Said, code: str) -> str:
    """A run whose trials failed: the report on stdout, the error on stderr."""
    assert said.status == 4, said.err
    told = ERROR.fullmatch(said.err)
    assert told, said.err
    assert told["code"] == code
    return said.err


def test_4_trials_without_a_recording_fail_and_are_told(
    leadline: Leadline, target: Path, tmp_path: Path
) -> None:
    recording = tmp_path / "recording"
    recording.mkdir()
    (recording / "fio.json").write_bytes(recorded_output("randread-4k-qd1").read_bytes())
    where = ("--target", f"dir:{target}", *QUICK, "--repeats", "1", "--replay", recording)
    said = leadline("run", *where, "--quiet")
    told = failed_with(said, "engine-failed")
    assert "3 of 4 trials gave no result" in told
    assert "the recording holds no output of randwrite" in told
    (run,) = list_runs(tmp_path / "runs")
    assert f"`leadline run --resume {run.path} --retry-failed`" in told
    assert run.complete, "failed trials are results; they are done again on request only"
    assert "missing" in said.out

    assert "3 trials failed or hung" in refused(
        leadline("run", "--resume", "@latest", "--replay", recording), 2, "run-not-resumable"
    )
    again = leadline("run", "--resume", "@latest", "--retry-failed", "--replay", recording)
    assert "3 of 3 trials gave no result" in again.err


@pytest.mark.parametrize(
    ("body", "finding"),
    [
        (': >"$output"; exit 0', "empty-result"),
        ("exit 0", "empty-result"),
        (f'head -c 3000 {recorded_output("randwrite-4k-qd1")} >"$output"', "truncated-result"),
        ('echo "fio: no" >"$output"; exit 0', "truncated-result"),
    ],
    ids=["0 bytes", "no file", "cut", "words only"],
)
def test_4_output_of_fio_that_is_no_result(
    leadline: Leadline,
    trusted_plan: Path,
    stub_fio: StubFio,
    tmp_path: Path,
    body: str,
    finding: str,
) -> None:
    stub_fio(body)
    said = leadline("run", trusted_plan, "--quiet")
    assert "1 of 1 trials gave no result" in failed_with(said, "engine-failed")
    (run,) = list_runs(tmp_path / "runs")
    (trial,) = run.trials
    assert trial.record.status is TrialStatus.FAILED
    assert trial.record.exit_status == 0
    assert trial.record.problem is not None
    assert trial.record.problem.code == "format-invalid"
    assert verify(run).ok, "the archive is whole and says what happened"
    findings = json.loads(leadline("audit", "--format", "json").out)["findings"]
    assert finding in {one["code"] for one in findings}
    (shown, *_) = json.loads(leadline("show", "--format", "json").out)["measurements"]
    assert shown["value"] is None


def test_4_fio_ends_with_an_error_of_its_own(
    leadline: Leadline, trusted_plan: Path, stub_fio: StubFio, tmp_path: Path
) -> None:
    stub_fio('echo "fio: it broke" >&2; exit 7')
    told = failed_with(leadline("run", trusted_plan, "--quiet"), "engine-failed")
    assert "fio failed: exit status 7" in told
    (run,) = list_runs(tmp_path / "runs")
    assert (run.trials[0].folder / "stderr.txt").read_text() == "fio: it broke\n"


# --- 70 -----------------------------------------------------------------------------------------


def test_70_our_bug_is_told_as_ours(leadline: Leadline, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(folder: Path) -> list[object]:
        raise RuntimeError("the roof is on fire")

    monkeypatch.setattr("leadline.cli.list.list_runs", broken)
    said = leadline("list")
    assert said.status == 70
    assert said.out == ""
    assert "Traceback" in said.err, "what we need to mend it"
    told = said.err[said.err.index("error[") :]
    assert ERROR.fullmatch(told)
    assert "error[bug]: Leadline failed: RuntimeError: the roof is on fire" in told
    assert "this is our bug" in told


# --- 130 ----------------------------------------------------------------------------------------


def test_130_a_run_that_is_stopped_is_sealed_and_goes_on_later(
    stopped: Callable[[], Said], leadline: Leadline, recorded: Path, target: Path, tmp_path: Path
) -> None:
    said = stopped()
    assert said.status == 130
    told = ERROR.fullmatch(said.err)
    assert told
    assert told["code"] == "interrupted"
    (run,) = list_runs(tmp_path / "runs")
    assert "2 of its 4 trials are still to do" in said.err
    assert f"`leadline run --resume {run.path}`" in said.err
    assert run.manifest.status is RunStatus.INTERRUPTED
    assert list(target.iterdir()) == []

    listed = leadline("run", "--resume", "@latest", "--dry-run", "--replay", recorded)
    assert listed.out.count("# t0") == 2, "what is left, and nothing that was done"
    went_on = leadline("run", "--resume", run.path, "--replay", recorded)
    assert "2 trials of 4 cells" in went_on.err
    (run,) = list_runs(tmp_path / "runs")
    assert run.complete
    assert verify(run).ok


def test_130_ctrl_c_while_fio_runs(trusted_plan: Path, stub_fio: StubFio, tmp_path: Path) -> None:
    """Ctrl-C goes to the whole foreground process group, as a terminal sends it."""
    stub_fio(f"touch {tmp_path}/running; exec sleep 30")
    child = subprocess.Popen(
        [sys.executable, "-m", "leadline", "run", trusted_plan, "--quiet"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"LEADLINE_RUNS": str(tmp_path / "runs")},
        start_new_session=True,
    )
    try:
        while child.poll() is None and not (tmp_path / "running").exists():
            time.sleep(0.02)
        os.killpg(child.pid, signal.SIGINT)
        _, err = child.communicate(timeout=30)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
    assert child.returncode == 130, err
    assert "error[interrupted]: the run was stopped; 1 of its 1 trials" in err


def test_130_ctrl_c_outside_of_a_run(leadline: Leadline, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(folder: Path) -> list[object]:
        raise KeyboardInterrupt

    monkeypatch.setattr("leadline.cli.list.list_runs", interrupted)
    said = leadline("list")
    assert said.status == 130
    # click ends the line on which the terminal wrote ^C.
    assert ERROR.fullmatch(said.err.lstrip("\n"))


# --- 7: tests/cli/test_guard.py, and on real systems tests/real/test_guard.py ---------------------
