"""What a run says can no longer be written: its reader has gone, its terminal is closed, a disk is
full. The run goes on to its end, and its status is what its archive demands.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import shlex
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.records import RunStatus
from leadline.archive.runs import list_runs
from leadline.archive.verify import verify
from leadline.audit.registry import audit, trusted
from leadline.errors import Exit
from tests.real.conftest import command, environment, fio_processes

pytestmark = pytest.mark.real
PLAN = ("--profile", "quick", "--runtime", "300ms", "--ramp", "0", "--size", "1M", "--repeats", "1")
TRIALS = 4
# A bound against hanging, far above what any step takes.
PATIENCE_S = 120.0


@dataclass(frozen=True)
class Measured:
    """A folder with a target and what was measured on it."""

    folder: Path

    @property
    def words(self) -> list[str]:
        return command("run", "--target", f"dir:{self.folder / 'target'}", *PLAN)

    @property
    def environment(self) -> dict[str, str]:
        return environment(self.folder / "runs")

    def sealed(self, status: RunStatus, trials: int | None = TRIALS) -> Run:
        """The run, of whose making nothing is left but its archive."""
        (run,) = list_runs(self.folder / "runs")
        assert run.manifest.status is status
        said = [] if run.complete else [layout.MANIFEST]  # that it was interrupted
        assert [one.path for one in verify(run).problems] == said
        assert trials is None or len(run.trials) == trials
        assert list((self.folder / "target").iterdir()) == []
        assert not fio_processes(self.folder)
        assert [path.name for path in (self.folder / "runs").rglob(".*")] == []
        return run


@pytest.fixture
def measured(tmp_path: Path) -> Measured:
    (tmp_path / "target").mkdir()
    return Measured(tmp_path)


def demanded(run: Run) -> int:
    """The status of a complete run."""
    assert run.complete
    return Exit.ANSWERED if trusted(audit(run)) else Exit.NEGATIVE


def status_of(words: Sequence[str], measured: Measured, streams: str) -> int:
    """The status of Leadline, and not of what reads from it."""
    line = f"{shlex.join(words)} {streams}\nexit ${{PIPESTATUS[0]}}"
    return subprocess.run(
        ["bash", "-c", line],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=PATIENCE_S,
        env=measured.environment,
    ).returncode


@pytest.mark.parametrize(
    "streams",
    [
        "2>&1 | head -4",
        "2>/dev/full",
        "<&- >&- 2>&-",
        *(
            pytest.param(streams, marks=pytest.mark.thorough)
            for streams in (
                "2>&1 | head -1",
                "2>&1 >/dev/null | head -1",
                "| true",
                "2>&-",
                ">&-",
                ">&- 2>&-",
                "2>/dev/full | head -1",
            )
        ),
    ],
)
def test_a_run_without_listeners_ends_as_its_archive_says(measured: Measured, streams: str) -> None:
    status = status_of(measured.words, measured, streams)
    assert status == demanded(measured.sealed(RunStatus.COMPLETE))


@pytest.mark.parametrize(
    "streams",
    [
        ">/dev/full",
        *(
            pytest.param(streams, marks=pytest.mark.thorough)
            for streams in (">/dev/full 2>&1", ">/dev/full 2>&-")
        ),
    ],
)
def test_an_answer_that_cannot_be_written_is_an_error_of_a_whole_run(
    measured: Measured, streams: str
) -> None:
    assert status_of(measured.words, measured, streams) == Exit.WRONG_REQUEST
    measured.sealed(RunStatus.COMPLETE)


@pytest.mark.parametrize("streams", ["2>&1 | head -1", ">/dev/full 2>&1"])
def test_a_run_that_is_stopped_and_unheard_is_interrupted_and_can_be_resumed(
    measured: Measured, streams: str
) -> None:
    """Also where its answer cannot be written: that it is not whole weighs more."""
    watched = measured.folder / "pid"
    words = ["bash", "-c", f'echo $$ >{watched}; exec "$@"', "-", *measured.words]
    with subprocess.Popen(
        ["bash", "-c", f"{shlex.join(words)} {streams}\nexit ${{PIPESTATUS[0]}}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=measured.environment,
    ) as child:
        wait_for(lambda: trials_of(measured) > 0)
        os.kill(int(watched.read_text()), signal.SIGINT)
        assert child.wait(PATIENCE_S) == Exit.INTERRUPTED
    run = measured.sealed(RunStatus.INTERRUPTED, None)
    assert len(run.trials) < TRIALS
    status = status_of(command("run", "--resume", run.path), measured, streams)
    whole = measured.sealed(RunStatus.COMPLETE)
    lost = "full" in streams
    assert status == (Exit.WRONG_REQUEST if lost else demanded(whole))


def test_ctrl_c_again_and_again_to_the_last_moment_leaves_a_run_that_can_be_resumed(
    measured: Measured,
) -> None:
    """Also while it is sealed, audited and printed."""
    with subprocess.Popen(
        measured.words,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=measured.environment,
        start_new_session=True,
    ) as child:
        wait_for(lambda: trials_of(measured) > 0)
        while child.poll() is None:
            os.killpg(child.pid, signal.SIGINT)
            time.sleep(0.01)
    # Python itself ends by the signal where it comes behind the last line of Leadline.
    assert child.returncode in (Exit.INTERRUPTED, -signal.SIGINT)
    assert len(measured.sealed(RunStatus.INTERRUPTED, None).trials) < TRIALS


def trials_of(measured: Measured) -> int:
    return sum(len(run.attempts) for run in list_runs(measured.folder / "runs"))


def wait_for(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.01)


def close_terminal(
    measured: Measured, *, ignored: bool, stdout: Path | None = None, quiet: bool = False
) -> int:
    """Run on a terminal of its own that is closed during the second trial; return the status."""
    mine, theirs = pty.openpty()

    def take_terminal() -> None:
        """Runs in the child: the terminal is its own, so that its end is told by SIGHUP."""
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)

    words = [*measured.words, "--quiet"] if quiet else measured.words
    with (stdout or Path(os.devnull)).open("wb") as file:
        child = subprocess.Popen(
            words,
            stdin=theirs,
            stdout=file if stdout else theirs,
            stderr=theirs,
            env=measured.environment | {"TERM": "xterm"},
            start_new_session=True,
            preexec_fn=take_terminal,
        )
    os.close(theirs)
    try:
        wait_for(lambda: bool(os.read(mine, 65536)) if not quiet else True)
        os.set_blocking(mine, False)

        def one_is_over() -> bool:
            with suppress(BlockingIOError):
                os.read(mine, 65536)  # what nobody reads would hold the run up
            return trials_of(measured) > 0

        wait_for(one_is_over)
        os.close(mine)
        return child.wait(PATIENCE_S)
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


@pytest.mark.parametrize("quiet", [False, True])
def test_the_end_of_a_terminal_interrupts_a_run(measured: Measured, quiet: bool) -> None:
    assert close_terminal(measured, ignored=False, quiet=quiet) == Exit.INTERRUPTED
    assert len(measured.sealed(RunStatus.INTERRUPTED, None).trials) < TRIALS


def test_under_nohup_a_run_outlives_its_terminal(measured: Measured) -> None:
    answer = measured.folder / "answer"
    status = close_terminal(measured, ignored=True, stdout=answer)
    assert status == demanded(measured.sealed(RunStatus.COMPLETE))
    assert "IOPS" in answer.read_text()


def test_an_answer_for_a_terminal_that_is_closed_is_lost(measured: Measured) -> None:
    assert close_terminal(measured, ignored=True) == Exit.WRONG_REQUEST
    measured.sealed(RunStatus.COMPLETE)


def test_a_closed_stderr_is_no_place_for_a_file_of_ours(measured: Measured) -> None:
    """What is opened where stderr was would get what is written to stderr."""
    code = (
        "import os, sys; from leadline.cli.main import set_up_process; set_up_process(); "
        "new = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); os.write(2, b'words'); "
        "sys.exit(10 + new)"
    )
    victim = measured.folder / "disk"
    python = command()[0]
    assert status_of([python, "-c", code, str(victim)], measured, "2>&-") > 12
    assert victim.read_bytes() == b""


def test_clean_is_not_stopped_half_way(measured: Measured) -> None:
    """What was left is removed, whoever listens."""
    child = subprocess.Popen(
        measured.words,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=measured.environment,
        start_new_session=True,
    )
    wait_for(lambda: trials_of(measured) > 0)
    child.kill()
    child.wait()
    assert list((measured.folder / "target").iterdir()) != []
    assert status_of(command("clean"), measured, ">/dev/full 2>&1") == Exit.WRONG_REQUEST
    assert list((measured.folder / "target").iterdir()) == []
    (run,) = list_runs(measured.folder / "runs")
    assert run.left_behind == ()
    listed = json.loads(
        subprocess.run(
            command("list", "--format", "json"), capture_output=True, env=measured.environment
        ).stdout
    )
    assert [one["status"] for one in listed["runs"]] == ["running"]
