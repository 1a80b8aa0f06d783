"""The main job on real storage with real fio, in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL

import pytest

from leadline.archive.reader import Run
from leadline.archive.records import RunStatus, TrialStatus
from leadline.archive.runs import list_runs
from leadline.archive.verify import verify
from leadline.formats.result import EngineOutput
from leadline.metrics import Op
from leadline.plan.job_file import Place, write_job_file
from tests.awaiting import wait_for
from tests.conftest import ROOT
from tests.real.conftest import Ended, command, environment, fio_processes, sh

pytestmark = pytest.mark.real
SHORT = ("--runtime", "300ms", "--ramp", "0", "--size", "16M", "--repeats", "1")
Process = Callable[..., Ended]


def quick(target: Path, runtime: str) -> tuple[str, ...]:
    """The quick profile on a directory, small, with trials of `runtime`."""
    return ("--target", f"dir:{target}", "--profile", "quick", *SHORT, "--runtime", runtime)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "target"
    folder.mkdir()
    return folder


def only_run(tmp_path: Path) -> Run:
    (run,) = list_runs(tmp_path / "runs")
    return run


def test_metadata_of_a_file_system_is_measured(
    process: Process, target: Path, tmp_path: Path
) -> None:
    """The shipped plan with fewer files: created (write), queried (read), deleted (trim)."""
    job = (ROOT / "plans" / "metadata.fio").read_text().replace("nrfiles=2500", "nrfiles=50")
    (tmp_path / "metadata.fio").write_text(job)
    shutil.copy(ROOT / "plans" / "metadata.yaml", tmp_path)
    plan = tmp_path / "metadata.yaml"
    ended = process("run", plan, "--target", f"dir:{target}", "--repeats", "2")
    assert ended.status in (0, 1), ended.err
    assert "IOPS, mean" in ended.err, "files per second without a bandwidth"
    run = only_run(tmp_path)
    assert verify(run).problems == ()
    assert len(run.trials) == 2
    for trial in run.trials:
        assert trial.record.status is TrialStatus.COMPLETED
        assert isinstance(trial.output, EngineOutput)
        jobs = {entry.name: entry.operations for entry in trial.output.jobs}
        for name, op in (("create", Op.WRITE), ("stat", Op.READ), ("delete", Op.TRIM)):
            (operation,) = jobs[name]
            assert (operation.op, operation.total_ios) == (op, 4 * 50)
            assert (operation.bandwidth_bps, operation.io_bytes) == (None, None)
            assert operation.total is not None
            assert operation.total.histogram is not None
    assert not list(target.iterdir()), "each trial begins without files"


def test_a_directory_and_a_device_are_measured_audited_and_archived(
    process: Process, target: Path, loop_device: Path, tmp_path: Path
) -> None:
    ended = process(
        "run", "--target", f"dir:{target}", "--target", f"device:{loop_device}",
        "--profile", "quick", *SHORT, "--destroy-data", loop_device, "--format", "json",
    )  # fmt: skip
    assert ended.status in (0, 1), ended.err
    said = json.loads(ended.out)
    assert (said["schema"], said["trials"]) == ("leadline/run/1", 8)
    run = Run(Path(said["path"]))
    assert run.id == said["run"]
    assert run.complete
    assert verify(run).problems == ()
    assert {trial.record.status for trial in run.trials} == {TrialStatus.COMPLETED}
    assert list(target.iterdir()) == [], "nothing is left behind"
    host = run.inventory("start")
    assert host is not None
    assert host.fio_version.startswith("fio-3")
    assert host.targets[0].mount is not None
    assert f"/dev/{host.targets[1].device}" == str(loop_device)
    for trial in run.trials:
        output = trial.output
        assert isinstance(output, EngineOutput)
        for job in output.jobs:
            assert job.options.engine in ("io_uring", "libaio"), "an asynchronous engine"
            for operation in job.operations:
                assert operation.total is not None, "total latency is measured"
        record = trial.record
        assert record.extent is not None
        assert record.extent.written_bytes >= record.extent.span_bytes, "prefilled"
        assert record.cache_drop is not None
        assert record.cache_drop.resident_after_bytes == 0, "and dropped, and read back"
        assert record.processor is not None
        assert record.processor.engine_cpu_s > 0
    rows = json.loads(process("show", run.path, "--format", "json").out)["measurements"]
    assert {row["op"] for row in rows} == {"read", "write", "total"}
    sequential = [row for row in rows if row["workload"] == "sequential-1m"]
    assert {row["op"] for row in sequential} == {"read", "write"}, "phases are never summed"


@pytest.mark.slow
def test_the_default_folder_of_runs_is_below_the_working_folder(
    target: Path, tmp_path: Path
) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "LEADLINE_RUNS"}
    call = [sys.executable, "-m", "leadline", "run", *quick(target, "300ms")]
    for arguments, folder in ((call, "leadline-runs"), ([*call, "--runs", "mine"], "mine")):
        done = subprocess.run(
            arguments, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode in (0, 1), done.stderr
        (run,) = list_runs(tmp_path / folder)
        assert verify(run).ok


@pytest.mark.slow
def test_what_is_written_does_not_compress(process: Process, target: Path, tmp_path: Path) -> None:
    """The data laid out and rewritten at depth 1 must not deflate below 99 %."""
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        f"targets: [dir:{target}]\ndefaults: {{size: 4M, runtime: 1s}}\nrepeats: 1\n"
        "workloads: [{name: w, pattern: write, block_size: 4k}, {name: r, pattern: read}]\n"
    )
    kept = tmp_path / "kept"
    data = f"{target}/*/leadline.0.dat"
    script = (
        f"until ls {data}; do sleep 0.02; done; "
        f"while ls {data}; do ln -f {data} {kept}; sleep 0.05; done"
    )
    watcher = subprocess.Popen(["sh", "-c", script], stdout=DEVNULL, stderr=DEVNULL)
    assert process("run", plan).status in (0, 1)
    watcher.wait(timeout=60)
    content = kept.read_bytes()
    assert len(content) == 4 << 20
    assert len(zlib.compress(content, 6)) > 0.99 * len(content)
    blocks = [content[at : at + 4096] for at in range(0, len(content), 4096)]
    assert len(set(blocks)) == len(blocks), "no two blocks are alike"


@pytest.mark.parametrize(
    "name",
    [
        "with spaces, ü目 and 'quote\"$HOME`x`#;:",
        pytest.param("with spaces and #;:,", marks=pytest.mark.slow),
        pytest.param("quote'\"$HOME`x`", marks=pytest.mark.slow),
    ],
)
def test_any_path_can_be_a_target(process: Process, tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    target.mkdir()
    ended = process("run", "--target", f"dir:{target}", "--profile", "quick", *SHORT)
    assert ended.status in (0, 1), ended.err
    assert list(target.iterdir()) == []
    assert verify(only_run(tmp_path)).ok


def test_a_users_own_job_file_is_run_with_its_options(
    process: Process, target: Path, tmp_path: Path
) -> None:
    text = (
        "; mine\n[global]\nioengine=libaio\ndirect=1\nsize=8M\nruntime=300ms\ntime_based\n"
        "[first]\nrw=randread\nbs=8k\niodepth=4\n[second]\nstonewall\nrw=randwrite\nbs=16k\n"
    )
    (tmp_path / "mine.fio").write_text(text)
    ended = process(
        "run", "--target", f"dir:{target}", "--job-file", tmp_path / "mine.fio",
        "--repeats", "1", "--format", "json",
    )  # fmt: skip
    assert ended.status in (0, 1), ended.err
    run = only_run(tmp_path)
    job_file = run.plan.cells[0].workload.job_file
    assert job_file is not None
    assert job_file.text == text
    assert (run.trials[0].folder / "job.fio").read_text() == write_job_file(job_file, Place.FILES)
    rows = json.loads(process("show", "--format", "json").out)["measurements"]
    assert {(row["workload"], row["op"]) for row in rows} == {
        ("mine/first", "read"),
        ("mine/second", "write"),
    }
    for row in rows:
        if row["metric"] == "latency_p50":
            assert row["value"] > 0, "percentiles of total latency, though the file does not ask"
    assert list(target.iterdir()) == []


@pytest.mark.slow
def test_workloads_of_unlike_sizes_share_the_files_and_none_is_truncated(
    process: Process, target: Path, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        f"targets: [dir:{target}]\nrepeats: 2\ndefaults: {{runtime: 300ms}}\nworkloads:\n"
        "  - {name: small, pattern: randwrite, size: 4M, numjobs: 2}\n"
        "  - {name: large, pattern: read, size: 16M}\n"
    )
    ended = process("run", plan)
    assert ended.status in (0, 1), ended.err
    for trial in only_run(tmp_path).trials:
        extent = trial.record.extent
        assert extent is not None
        assert extent.written_bytes == (16 << 20) + (4 << 20)
        # ext4 counts blocks of its own extent trees too; what is truncated would be missing.
        assert extent.allocated_bytes is not None
        assert 0 <= extent.allocated_bytes - extent.written_bytes < 1 << 20
        assert extent.span_bytes == (8 << 20 if trial.record.workload == "small" else 16 << 20)


@pytest.mark.slow
def test_kill_9_in_the_middle_of_a_trial_leaves_no_load_and_resumes(
    process: Process,
    started: Callable[..., subprocess.Popen[str]],
    target: Path,
    tmp_path: Path,
) -> None:
    child = started("run", *quick(target, "1s"))
    trials = tmp_path / "runs"
    wait_for(lambda: list(trials.glob("*/trials/*/trial.json")))
    wait_for(lambda: fio_processes(target))
    child.kill()
    child.wait()
    wait_for(lambda: not fio_processes(target))
    run = only_run(tmp_path)
    assert run.manifest.status is RunStatus.RUNNING
    assert not verify(run).ok
    assert len(list(target.iterdir())) == 1, "what the killed run left"
    done_before = {attempt.folder.name for attempt in run.attempts}

    ended = process("run", "--resume", "@latest")
    assert ended.status in (0, 1), ended.err
    assert "removed what a killed session left" in ended.err
    run = only_run(tmp_path)
    assert run.complete
    assert verify(run).problems == ()
    assert len(run.attempts) == 4, "only the missing trials were done"
    assert done_before <= {attempt.folder.name for attempt in run.attempts}
    assert list(target.iterdir()) == []
    again = process("run", "--resume", "@latest")
    assert again.status == 2
    assert "error[run-not-resumable]" in again.err


def test_kill_9_leaves_no_worker_of_a_users_own_job_either(
    started: Callable[..., subprocess.Popen[str]], target: Path, tmp_path: Path
) -> None:
    job = tmp_path / "mine.fio"
    job.write_text(
        "[w]\nrw=randwrite\nsize=4M\nnumjobs=3\nruntime=60\ntime_based\nioengine=psync\n"
    )
    child = started("run", "--target", f"dir:{target}", "--job-file", job, "--repeats", "1")
    wait_for(lambda: len(fio_processes(target)) == 4)
    child.kill()
    child.wait()
    wait_for(lambda: not fio_processes(target), 30)


def test_a_group_that_is_killed_while_an_engine_is_tried_leaves_no_process(
    target: Path, tmp_path: Path
) -> None:
    """A worker process of fio would wait for ever for the start sign of its dead parent."""
    for _ in range(3):
        child = subprocess.Popen(
            command("run", *quick(target, "1s")),
            stdout=DEVNULL,
            stderr=DEVNULL,
            env=environment(tmp_path / "runs"),
            start_new_session=True,
        )
        while child.poll() is None and not fio_processes(target):
            pass
        # Until there is a worker process, or the attempt is over.
        while len(fio_processes(target)) == 1:
            pass
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        wait_for(lambda: not fio_processes(target), 30)


def status(pid: int, key: str) -> str:
    """What the kernel says under `key` in /proc/PID/status."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split(":", 1)[1].strip() for line in lines if line.startswith(f"{key}:"))


def catches(number: signal.Signals, pid: int) -> bool:
    return bool(int(status(pid, "SigCgt"), 16) >> (number - 1) & 1)


@pytest.mark.parametrize("verb", [("clean",), ("run", "--resume", "@latest")])
def test_fio_that_cannot_end_by_itself_is_ended_by_the_next_command(
    process: Process,
    started: Callable[..., subprocess.Popen[str]],
    target: Path,
    tmp_path: Path,
    verb: tuple[str, ...],
) -> None:
    """As fio whose handler of SIGTERM waits for a lock of its own; here it is stopped. The runs
    lie behind a link."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs").symlink_to("elsewhere")
    child = started("run", *quick(target, "20s"))
    wait_for(lambda: list((tmp_path / "runs").glob("*/.staging/trials-*")))
    # Until fio has its handler, SIGTERM ends it by the kernel's own hand.
    wait_for(lambda: any(catches(signal.SIGTERM, pid) for pid in fio_processes(target)))
    stopped = fio_processes(target)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: all(status(pid, "State").startswith("T") for pid in stopped))
    child.kill()
    child.wait()
    assert set(fio_processes(target)) >= set(stopped)
    if verb[0] == "clean":
        assert process(*verb).status == 0
        assert list(target.iterdir()) == []
    else:
        again = started(*verb)
        wait_for(lambda: not set(fio_processes(target)) & set(stopped))
        again.send_signal(signal.SIGINT)
        again.communicate(timeout=60)
    assert not fio_processes(target)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_trial_seals_what_is_there_and_says_how_to_go_on(
    process: Process,
    started: Callable[..., subprocess.Popen[str]],
    target: Path,
    tmp_path: Path,
    number: signal.Signals,
) -> None:
    child = started("run", *quick(target, "20s"))
    wait_for(lambda: list((tmp_path / "runs").glob("*/.staging/trials-*")))
    wait_for(lambda: fio_processes(target))
    time.sleep(1)
    child.send_signal(number)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert "leadline run --resume" in err
    assert not fio_processes(target)
    assert list(target.iterdir()) == []
    run = only_run(tmp_path)
    assert run.manifest.status is RunStatus.INTERRUPTED
    (attempt,) = run.attempts
    assert attempt.record.status is TrialStatus.INTERRUPTED
    assert attempt.record.signals[0] == "SIGINT"
    # A busy machine may be late to end it at the first.
    assert "SIGKILL" not in attempt.record.signals
    assert (attempt.folder / "fio.json").stat().st_size > 0, "fio's last words are kept"
    problems = verify(run).problems
    assert [problem.path for problem in problems] == ["manifest.json"], "sealed, only unfinished"


def test_clean_removes_what_a_killed_run_left(
    process: Process,
    started: Callable[..., subprocess.Popen[str]],
    target: Path,
) -> None:
    child = started("run", *quick(target, "20s"))
    wait_for(lambda: fio_processes(target))
    child.kill()
    child.wait()
    wait_for(lambda: not fio_processes(target))
    (left,) = target.iterdir()
    assert f"would remove {left}" in process("clean", "--dry-run").out
    assert left.exists()
    assert f"removed what a killed session left: {left}" in process("clean").out
    assert list(target.iterdir()) == []
    assert "nothing was left behind" in process("clean").out


def fill(path: Path) -> None:
    """Take all room there is, at once: to write it takes long where others use the disk."""
    with path.open("wb") as stream:
        for size in (1 << 20, 1 << 16, 1 << 12):
            with suppress(OSError):
                while True:
                    os.posix_fallocate(stream.fileno(), stream.tell(), size)
                    stream.seek(0, os.SEEK_END)


def test_a_disk_that_fills_up_in_the_middle_of_a_trial(
    process: Process,
    started: Callable[..., subprocess.Popen[str]],
    mounted: Path,
    tmp_path: Path,
) -> None:
    # So slow that the disk is full long before fio has all of its file, however busy the machine.
    (tmp_path / "slow.fio").write_text(
        "[w]\nrw=write\nbs=64k\nsize=64M\nrate=1m\nruntime=60\nioengine=libaio\ndirect=1\n"
        "fallocate=none\nfilename_format=mine.$jobnum\n"
    )
    child = started(
        "run", "--target", f"dir:{mounted}", "--job-file", tmp_path / "slow.fio",
        "--repeats", "1", "--no-prefill",
    )  # fmt: skip
    wait_for(lambda: list(mounted.glob("leadline-*/leadline.mine.0.dat")))
    filler = mounted / "somebody-elses"
    fill(filler)
    out, err = child.communicate(timeout=60)
    run = only_run(tmp_path)
    record = run.trials[0].record
    assert record.status is TrialStatus.FAILED, out + err
    assert record.problem is not None
    assert record.problem.code == "target-full"
    assert "No space left on device" in record.problem.fact
    assert child.returncode == 4
    assert filler.exists(), "what is not ours stays"
    assert [path.name for path in mounted.iterdir() if path.name.startswith("leadline-")] == []


@pytest.mark.slow
def test_an_archive_whose_disk_fills_up_says_so_and_resumes_when_there_is_room(
    process: Process, mounted: Path, target: Path
) -> None:
    filler = mounted / "filler"
    subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=64k"], capture_output=True)
    os.truncate(filler, filler.stat().st_size - (8 << 20) - (400 << 10))
    runs = ("--runs", mounted / "runs")
    ended = process("run", *quick(target, "300ms"), "--repeats", "4", *runs)
    assert ended.status == 3, ended.err
    assert "error[archive-unwritable]" in ended.err
    assert "leadline run --resume" in ended.err
    assert list(target.iterdir()) == [], "the target is clean all the same"
    filler.unlink()
    assert process("verify", *runs).status == 1
    ended = process("run", "--resume", "@latest", *runs)
    assert ended.status in (0, 1), ended.err
    assert process("verify", *runs).status == 0


@pytest.mark.slow
def test_a_target_that_disappears_in_the_middle_of_a_run(
    process: Process,
    started: Callable[..., subprocess.Popen[str]],
    target: Path,
    tmp_path: Path,
) -> None:
    child = started("run", *quick(target, "1s"))
    wait_for(lambda: list((tmp_path / "runs").glob("*/trials/*/trial.json")))
    shutil.rmtree(target)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 4, err
    run = only_run(tmp_path)
    last = run.trials[-1].record
    assert last.status is TrialStatus.FAILED
    assert last.problem is not None
    assert last.problem.code == "target-gone"
    assert "target-gone" not in run.trials[0].record.model_dump_json()
    audit = json.loads(process("audit", "--format", "json").out)
    assert any(finding["code"] == "engine-error" for finding in audit["findings"])


def test_a_read_only_directory_is_refused(process: Process, mounted: Path, tmp_path: Path) -> None:
    sh("mount", "-o", "remount,ro", mounted)
    ended = process("run", "--target", f"dir:{mounted}", "--profile", "quick", *SHORT)
    assert ended.status == 3
    assert "error[target-read-only]" in ended.err
    assert "mounted read-only" in ended.err
    assert list_runs(tmp_path / "runs") == []


def test_a_full_directory_is_refused_before_anything_is_written(
    process: Process, mounted: Path
) -> None:
    ended = process("run", "--target", f"dir:{mounted}", "--profile", "quick", "--size", "110M")
    assert ended.status == 3
    assert "error[target-no-space]" in ended.err
    assert "(10 %)" in ended.err


@pytest.mark.slow
def test_a_target_whose_io_never_comes_back_ends_as_hung(process: Process, tmp_path: Path) -> None:
    """A FUSE filesystem whose server is stopped: fio sleeps in the kernel until it is killed."""
    if shutil.which("bindfs") is None or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("needs bindfs and /dev/fuse: a really hung target does NOT get tested here")
    behind, front = tmp_path / "behind", tmp_path / "front"
    behind.mkdir()
    front.mkdir()
    server = subprocess.Popen(["bindfs", "-f", "-o", "direct_io", str(behind), str(front)])

    def hang() -> None:
        """From when fio is there for the trial until it was killed."""
        wait_for(lambda: list(tmp_path.glob("runs/*/.staging/trials-*")))
        wait_for(lambda: fio_processes(tmp_path))
        server.send_signal(signal.SIGSTOP)
        try:
            wait_for(lambda: not fio_processes(tmp_path))
        finally:
            server.send_signal(signal.SIGCONT)

    watcher = threading.Thread(target=hang)
    try:
        wait_for(lambda: os.path.ismount(front))
        plan = tmp_path / "plan.yaml"
        plan.write_text(
            f"targets: [dir:{front}]\nrepeats: 1\ngrace: 2s\nworkloads: [{{name: w, "
            "pattern: randwrite, size: 4M, runtime: 3s, direct: false, engine: psync}]\n"
        )
        watcher.start()
        ended = process("run", plan)
        watcher.join()
    finally:
        server.send_signal(signal.SIGCONT)
        subprocess.run(["umount", "--lazy", str(front)], capture_output=True)
        server.wait(timeout=60)
    record = only_run(tmp_path).trials[0].record
    assert record.status is TrialStatus.HUNG, ended.err
    assert record.signals[:1] == ("SIGINT",)
    assert record.problem is not None
    assert "did not end within" in record.problem.fact
    assert ended.status == 4


@pytest.mark.slow
def test_the_queue_depth_asked_for_is_reached(
    process: Process, target: Path, tmp_path: Path
) -> None:
    ended = process(
        *("run", "--target", f"dir:{target}", "--profile", "four-corners", *SHORT),
        *("--runtime", "1s", "--format", "json"),
    )
    assert ended.status in (0, 1), ended.err
    findings = json.loads(ended.out)["findings"]
    # What else runs on the machine takes the processor from fio, or a slow disk does too few I/Os
    # in a second to fill 512 places, and the audit says so.
    saturated = any(finding["code"] == "client-saturated" for finding in findings)
    unreached = [one for one in findings if one["code"] == "queue-depth-not-reached"]
    assert saturated or all("filling and draining" in one["message"] for one in unreached)
    for trial in only_run(tmp_path).trials:
        assert isinstance(trial.output, EngineOutput)
        (job,) = trial.output.jobs
        in_flight = sum(
            operation.iops * operation.total.mean_s
            for operation in job.operations
            if operation.total and operation.op is not Op.TOTAL
        )
        enough = 0.5 if saturated or unreached else 0.9
        assert in_flight > enough * job.options.iodepth * job.options.numjobs
