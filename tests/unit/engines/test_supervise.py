"""The kill ladder, on real processes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from leadline.engines.supervise import Ended, supervise
from leadline.runner.stop import StopRequest

QUICK = ((signal.SIGINT, 0.5), (signal.SIGTERM, 0.5), (signal.SIGKILL, 5.0))
STUBBORN = """
import signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM)[: int(sys.argv[1])]:
    signal.signal(number, signal.SIG_IGN)
print("up", flush=True)
while True:
    time.sleep(0.05)
"""


def run(
    folder: Path, *arguments: str, bound_s: float = 30.0, stop: StopRequest | None = None
) -> tuple[Ended, bytes]:
    said = bytearray()
    ended = supervise(
        [sys.executable, "-c", *arguments],
        cwd=folder,
        stderr=folder / "stderr.txt",
        bound_s=bound_s,
        stop=stop or StopRequest(),
        on_output=said.extend,
        ladder=QUICK,
    )
    return ended, bytes(said)


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
    tmp_path: Path, ignored: int, signals: tuple[str, ...], status: int
) -> None:
    ended, said = run(tmp_path, STUBBORN, str(ignored), bound_s=1.5)
    assert said == b"up\n"
    assert ended.past_bound
    assert not ended.stopped
    assert ended.signals == signals
    if ignored:
        assert ended.exit_status == status
    assert gone(ended.pid)


def test_a_stop_request_ends_a_process_and_is_told_apart_from_a_hang(tmp_path: Path) -> None:
    stop = StopRequest()
    threading.Timer(0.7, stop.ask).start()
    ended, _ = run(tmp_path, STUBBORN, "0", stop=stop)
    assert (ended.stopped, ended.past_bound) == (True, False)
    assert ended.signals == ("SIGINT",)


def test_asking_twice_goes_straight_to_kill(tmp_path: Path) -> None:
    stop = StopRequest()
    threading.Timer(0.7, stop.ask).start()
    threading.Timer(0.8, stop.ask).start()
    ended, _ = run(tmp_path, STUBBORN, "2", stop=stop)
    assert ended.signals[-1] == "SIGKILL"
    assert gone(ended.pid)


def test_workers_do_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    code = (
        "import os, signal, time\n"
        "for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)\n"
        "pid = os.fork()\n"
        "if pid: open('worker', 'w').write(str(pid))\n"
        "time.sleep(60)\n"
    )
    ended, _ = run(tmp_path, code, bound_s=1.5)
    worker = int((tmp_path / "worker").read_text())
    deadline = time.monotonic() + 10
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
