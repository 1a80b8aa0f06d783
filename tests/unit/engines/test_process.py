"""The kill ladder, on real processes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.engines import process as module
from leadline.engines.process import Ended, supervise
from leadline.runner.events import StopRequest

# A signal that is ignored is given up soon; one that is heeded has all the time that a busy machine
# may take.
SOON_S, LONG_S = 0.5, 60.0
STUBBORN = """
import signal, sys, time
# Whoever runs the tests in the background has children that ignore SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGINT, signal.SIGTERM)[: int(sys.argv[1])]:
    signal.signal(number, signal.SIG_IGN)
print("up", flush=True)
while True:
    time.sleep(0.05)
"""


def run(
    folder: Path,
    *arguments: str,
    ignored: int = 0,
    stop: StopRequest | None = None,
    when_up: Callable[[], None] = lambda: None,
) -> tuple[Ended, bytes]:
    """Supervise a Python program that ignores so many signals of the ladder; `when_up` is called
    when it has said a line."""
    said = bytearray()

    def hear(chunk: bytes) -> None:
        said.extend(chunk)
        if b"\n" in chunk:
            when_up()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
    ended = supervise(
        [sys.executable, "-c", *arguments],
        cwd=folder,
        stderr=folder / "stderr.txt",
        bound_s=LONG_S,
        stop=stop or StopRequest(),
        on_output=hear,
        ladder=[
            (number, SOON_S if place < ignored else LONG_S) for place, number in enumerate(numbers)
        ],
    )
    return ended, bytes(said)


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Puts the clock of the supervision beyond the bound."""

    class Clock:
        ahead_s = 0.0

        @classmethod
        def monotonic(cls) -> float:
            return time.monotonic() + cls.ahead_s

    def leap() -> None:
        Clock.ahead_s = 2 * LONG_S

    monkeypatch.setattr(module, "time", Clock)
    return leap


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_process_that_ends_by_itself(tmp_path: Path) -> None:
    code = "import sys; print('x' * 100000); print('oh', file=sys.stderr); sys.exit(3)"
    ended, said = run(tmp_path, code)
    assert (ended.exit_status, ended.signals, ended.past_bound) == (3, (), False)
    assert len(said) == 100001
    assert (tmp_path / "stderr.txt").read_text() == "oh\n"


def test_cpu_time_is_counted(tmp_path: Path) -> None:
    ended, _ = run(tmp_path, "import time\nwhile time.process_time() < 0.3: pass")
    assert ended.cpu_s >= 0.3


@pytest.mark.parametrize(
    ("ignored", "signals", "status"),
    [
        (0, ("SIGINT",), 1),
        (1, ("SIGINT", "SIGTERM"), -signal.SIGTERM),
        (2, ("SIGINT", "SIGTERM", "SIGKILL"), -signal.SIGKILL),
    ],
)
def test_past_its_bound_a_process_gets_int_term_kill_in_that_order(
    tmp_path: Path,
    late: Callable[[], None],
    ignored: int,
    signals: tuple[str, ...],
    status: int,
) -> None:
    ended, said = run(tmp_path, STUBBORN, str(ignored), ignored=ignored, when_up=late)
    assert said == b"up\n"
    assert ended.past_bound
    assert not ended.stopped
    assert ended.signals == signals
    if ignored:
        assert ended.exit_status == status
    assert gone(ended.pid)


def test_a_stop_request_ends_a_process_and_is_told_apart_from_a_hang(tmp_path: Path) -> None:
    stop = StopRequest()
    ended, _ = run(tmp_path, STUBBORN, "0", stop=stop, when_up=stop.ask)
    assert (ended.stopped, ended.past_bound) == (True, False)
    assert ended.signals == ("SIGINT",)


def test_asking_twice_goes_straight_to_kill(tmp_path: Path) -> None:
    stop = StopRequest()

    def twice() -> None:
        stop.ask()
        threading.Timer(0.5, stop.ask).start()

    # Each signal would be waited for at length.
    ended, _ = run(tmp_path, STUBBORN, "2", stop=stop, when_up=twice)
    assert ended.signals[-1] == "SIGKILL"
    assert "SIGTERM" not in ended.signals
    assert ended.wall_s < LONG_S
    assert gone(ended.pid)


def test_workers_do_not_outlive_a_killed_parent(tmp_path: Path, late: Callable[[], None]) -> None:
    code = (
        "import os, signal, time\n"
        "for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)\n"
        "pid = os.fork()\n"
        "if pid: print(pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    ended, said = run(tmp_path, code, ignored=2, when_up=late)
    worker = int(said)
    deadline = time.monotonic() + LONG_S
    while not gone(worker) and time.monotonic() < deadline:
        state = Path(f"/proc/{worker}/stat")
        if state.exists() and ") Z " in state.read_text():
            break  # dead, and only waiting for init to take note
        time.sleep(0.05)
    else:
        assert gone(worker)
    assert ended.exit_status == -signal.SIGKILL


def test_a_command_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    ended = supervise(
        ["/nowhere/fio"],
        cwd=tmp_path,
        stderr=tmp_path / "stderr.txt",
        bound_s=5,
        stop=StopRequest(),
        on_output=lambda chunk: None,
    )
    assert ended.exit_status not in (0, None)
    assert "No such file" in (tmp_path / "stderr.txt").read_text()
