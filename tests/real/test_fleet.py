"""Fleets of real fio servers on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from leadline.archive import layout
from leadline.archive.raw import derive, read_output, read_windows
from leadline.archive.records import Clients, TrialStatus
from leadline.engines.fio.fleet import FleetEngine
from leadline.engines.fio.job import prefill_text
from leadline.engines.fio.local import FioEngine
from leadline.metrics import Op
from leadline.plan.footprint import footprint_of
from leadline.plan.workload import EngineChoice, Pattern, Phase, Workload
from leadline.runner.events import StopRequest
from leadline.runner.ports import Device, Engine, Execution, Folder, Job, Location, Progress, Shape
from leadline.stats.histogram import samples_needed
from tests.awaiting import wait_for

pytestmark = pytest.mark.real

QUANTILES = (0.5, 0.95, 0.99, 0.999)
# fio's histogram has 64 buckets for each doubling, and reports the middle of one.
HISTOGRAM_ERROR = 1 / 128
SIZE = 8 << 20


def phase(name: str = "randread", **changes: object) -> Phase:
    given: dict[str, object] = {
        "name": name,
        "pattern": Pattern.RANDREAD,
        "block_size": 4096,
        "iodepth": 2,
        "numjobs": 1,
        "size": SIZE,
    }
    return Phase.model_validate(given | changes)


def workload(*phases: Phase, **changes: object) -> Workload:
    given: dict[str, object] = {
        "name": "work",
        "phases": phases,
        "engine": EngineChoice.LIBAIO,
        "runtime_s": 2.0,
        "clients": 4,
    }
    return Workload.model_validate(given | changes)


@pytest.fixture
def location(tmp_path: Path) -> Folder:
    (tmp_path / "data").mkdir()
    return Folder(path=tmp_path / "data")


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    (tmp_path / "trial").mkdir()
    return tmp_path / "trial"


def laid_out(location: Location, work: Workload, folder: Path) -> None:
    text = prefill_text(
        footprint_of([work]), location.shape, engine=EngineChoice.LIBAIO, direct=work.direct
    )
    folder.mkdir()
    job = Job(text=text, location=location, bound_s=60)
    done = FioEngine().execute(job, folder, StopRequest(), lambda progress: None)
    assert done.status is TrialStatus.COMPLETED, done.problem


def carried_out(
    engine: Engine, work: Workload, location: Location, folder: Path, **changes: str
) -> Execution:
    text = engine.job_text(work, location, 7)
    for line, other in changes.items():
        assert f"\n{line}=" in text
        text = "\n".join(
            f"{line}={other}" if word.startswith(f"{line}=") else word for word in text.split("\n")
        )
    beside = ""
    if work.neighbour is not None:
        alone = {"phases": (work.neighbour,), "clients": 1, "neighbours": 0}
        beside = engine.job_text(work.model_copy(update=alone), location, 7)
    job = Job(
        text=text,
        location=location,
        bound_s=work.duration_s + 30,
        clients=work.clients,
        neighbours=work.neighbours,
        neighbour_text=beside,
    )
    return engine.execute(job, folder, StopRequest(), lambda progress: None)


def every_latency_ns(folder: Path) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Of every single I/O, from fio's logs."""
    logs = [path for path in folder.iterdir() if "_lat." in path.name]
    assert logs
    lines = [line.split(",") for path in logs for line in path.read_text().splitlines()]
    return np.array(sorted(int(line[1]) for line in lines), dtype=np.int64)


@pytest.mark.slow
def test_a_fleet_of_four_reports_the_percentiles_that_one_fio_with_four_jobs_does(
    location: Folder, trial: Path, tmp_path: Path
) -> None:
    """Two executions never have the same latencies, least of all on a shared machine, so that
    percentiles of the one held against those of the other would show the machine's noise. Exact is
    what each makes of the latencies that it had: fio logs every single one, for the fleet and for
    the one fio alike, and the merged percentiles of both must be the percentiles of these logs
    within the error of fio's histogram. So a fleet and one fio with four jobs report the same of
    the same latencies, however noisy the machine is."""
    fleet = workload(phase())
    laid_out(location, fleet, tmp_path / "prefill")
    done = carried_out(
        FleetEngine(), fleet, location, trial, write_iops_log="x\nwrite_lat_log=x",
        log_avg_msec="0",
    )  # fmt: skip
    assert done.status is TrialStatus.COMPLETED, done.problem
    one = tmp_path / "one"
    one.mkdir()
    alone = workload(phase(numjobs=4), clients=0)
    done = carried_out(FioEngine(), alone, location, one, write_lat_log="x", log_avg_msec="0")
    assert done.status is TrialStatus.COMPLETED, done.problem
    for folder, entries in ((trial, 4), (one, 1)):
        output = read_output("fio", folder)
        assert len(output.jobs) == entries
        (operation,) = derive(output).operations
        latencies = every_latency_ns(folder)
        assert sum(operation.histogram_counts) == len(latencies)
        assert len(latencies) >= samples_needed(QUANTILES[0])
        for metric, value in operation.metrics.items():
            quantile = metric.quantile
            if quantile not in QUANTILES:
                continue
            if value is None:
                assert len(latencies) < samples_needed(quantile)
                continue
            exact = latencies[max(0, int(np.ceil(quantile * len(latencies))) - 1)] / 1e9
            assert value == pytest.approx(exact, rel=HISTOGRAM_ERROR * 1.01), (folder, metric)
    # fio's own merging of four jobs, as it printed it, is what Leadline makes of the histogram.
    (job,) = stats_of(one, "jobs")
    (operation,) = derive(read_output("fio", one)).operations
    printed = job["read"]["lat_ns"]["percentile"]
    for metric, value in operation.metrics.items():
        if metric.quantile in QUANTILES and value is not None:
            assert metric.quantile is not None
            assert value == pytest.approx(printed[f"{metric.quantile * 100:.6f}"] / 1e9, rel=1e-6)
    # Of a fleet fio reports no percentiles, but how many I/Os there were, and the extremes.
    summed = next(
        stat for stat in stats_of(trial, "client_stats") if stat["jobname"] == "All clients"
    )
    merged = [
        operation.total for job in read_output("fio", trial).jobs for operation in job.operations
    ]
    assert summed["read"]["lat_ns"]["N"] == sum(item.count or 0 for item in merged if item)
    latencies = every_latency_ns(trial)
    assert summed["read"]["lat_ns"]["max"] == latencies[-1]
    assert summed["read"]["lat_ns"]["min"] == latencies[0]


def stats_of(folder: Path, key: str) -> list[Any]:
    text = (folder / layout.FIO_OUTPUT).read_text()
    found: list[Any] = orjson.loads(text[text.index("{") :])[key]
    return found


@pytest.mark.slow
def test_every_client_has_data_of_its_own_and_neighbours_are_not_counted(
    location: Folder, trial: Path, tmp_path: Path
) -> None:
    other = phase("other", pattern=Pattern.RANDWRITE, numjobs=2)
    work = workload(
        phase(numjobs=2),
        phase("write", pattern=Pattern.RANDWRITE),
        clients=2,
        neighbours=1,
        neighbour=other,
    )
    laid_out(location, work, tmp_path / "prefill")
    before = {path.name: path.stat().st_size for path in location.path.iterdir()}
    done = carried_out(FleetEngine(), work, location, trial)
    assert done.status is TrialStatus.COMPLETED, done.problem
    assert {path.name: path.stat().st_size for path in location.path.iterdir()} == before
    output = read_output("fio", trial)
    assert output.notes == ()
    assert {(job.name, job.host) for job in output.jobs} == {
        (name, host) for name in ("randread", "write") for host in ("c1", "c2")
    }
    # fio mixes them up behind a job of several processes.
    assert {job.name: job.options.numjobs for job in output.jobs} == {"randread": 2, "write": 1}
    assert {job.options.text("randseed") for job in output.jobs} == {"7", "8"}
    (neighbour,) = output.neighbours
    assert (neighbour.name, neighbour.host) == ("other", "n1")
    # It is there for the whole of both phases.
    assert neighbour.job_runtime_s > work.duration_s
    assert {operation.job for operation in derive(output).operations} == {"randread", "write"}
    assert set(read_windows("fio", trial)) == {Op.READ, Op.WRITE}
    clients = Clients.model_validate_json((trial / layout.CLIENTS).read_bytes())
    assert [client.name for client in clients.clients] == ["c1", "c2", "n1"]
    assert {client.fio_version for client in clients.clients} == {FleetEngine().version}


def test_clients_of_one_device_have_a_stretch_each(trial: Path, tmp_path: Path) -> None:
    """Told by what was written where, in a file that stands for the device."""
    image = tmp_path / "image"
    work = workload(
        phase(pattern=Pattern.WRITE, block_size=1 << 20), clients=3, runtime_s=1.0, direct=False
    )
    image.write_bytes(bytes(4 * SIZE))
    done = carried_out(FleetEngine(), work, Device(path=image), trial)
    assert done.status is TrialStatus.COMPLETED, done.problem
    content = image.read_bytes()
    written = [any(content[k * SIZE : (k + 1) * SIZE]) for k in range(4)]
    assert written == [True, True, True, False]


def processes_of(folder: str) -> list[int]:
    """Processes whose command line, or that of one above them, names the fleet's folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        if folder in command_of(int(path.name)):
            found.append(int(path.name))
            continue
        try:
            if folder == str((path / "cwd").readlink()):
                found.append(int(path.name))
        except OSError:
            continue
    return found


def command_of(pid: int) -> str:
    """Its command line; empty of one that is gone meanwhile."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def killed(pids: list[int]) -> None:
    """With the first of them the fleet may end the others."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def long_trial(location: Folder, trial: Path, tmp_path: Path) -> Iterator[list[Execution]]:
    """A fleet of three at work, in a thread; what it ends with is in the list."""
    work = workload(phase(), clients=3, runtime_s=150.0)
    laid_out(location, work, tmp_path / "prefill")
    ended: list[Execution] = []
    thread = threading.Thread(
        target=lambda: ended.append(carried_out(FleetEngine(), work, location, trial))
    )
    thread.start()
    # A server, what it forked for its client, and what that forked for the I/O.
    wait_for(lambda: len(processes_of(str(location.path))) >= 9 or ended)
    yield ended
    thread.join()


def ended_early(ended: list[Execution]) -> Execution:
    """Long before the trial's own end."""
    wait_for(lambda: ended)
    return ended[0]


def test_a_client_that_dies_ends_the_trial_and_is_named(
    long_trial: list[Execution], location: Folder, trial: Path
) -> None:
    victims = [
        pid
        for pid in processes_of(str(location.path))
        if command_of(pid).rstrip("\0").endswith("/c2")
    ]
    assert victims
    killed(victims)
    done = ended_early(long_trial)
    assert done.status is TrialStatus.FAILED
    assert done.problem is not None
    assert done.problem.code == "client-lost"
    assert "c2" in done.problem.fact
    # What was killed takes a moment to die.
    wait_for(lambda: not processes_of(str(location.path)))


@pytest.mark.slow
def test_the_worker_of_a_client_that_dies_is_missed_as_well(
    long_trial: list[Execution], location: Folder
) -> None:
    """The server itself is still there, and fio's client would report the rest."""
    victims = sorted(
        pid
        for pid in processes_of(str(location.path))
        if command_of(pid).rstrip("\0").endswith("/c3")
    )
    killed(victims[1:])
    done = ended_early(long_trial)
    assert done.problem is not None
    assert done.problem.code == "client-lost"
    assert "c3" in done.problem.fact


@pytest.mark.slow
def test_a_client_whose_target_is_full_says_so_and_is_not_taken_for_lost(
    location: Folder, trial: Path
) -> None:
    """Client 2 alone writes to where there is no room; the others could go on for long."""
    text = """\
# LEADLINE_SIZE_0 of client 1 = 4096
# LEADLINE_SIZE_1 of client 2 = 1048576
# LEADLINE_SIZE_0 of client 3 = 4096
[global]
ioengine=psync
thread=1
bs=4096
time_based=1
runtime=6000ms

[fine]
rw=write
filename=/dev/null
size=${LEADLINE_SIZE_0}

[full]
rw=write
filename=/dev/full
size=${LEADLINE_SIZE_1}
"""
    job = Job(text=text, location=location, bound_s=30, clients=3)
    done = FleetEngine().execute(job, trial, StopRequest(), lambda progress: None)
    assert done.status is TrialStatus.FAILED
    assert done.problem is not None
    assert done.problem.code == "target-full"


DRIVEN = """
import sys
from pathlib import Path
from leadline.engines.fio.fleet import FleetEngine
from leadline.runner.ports import Folder, Job
from leadline.runner.events import StopRequest
text, data, trial = map(Path, sys.argv[1:])
job = Job(text=text.read_text(), location=Folder(path=data), bound_s=240, clients=3)
FleetEngine().execute(job, trial, StopRequest(), lambda progress: None)
"""


@pytest.mark.slow
def test_kill_9_of_leadline_leaves_no_load_behind(
    location: Folder, trial: Path, tmp_path: Path
) -> None:
    work = workload(phase(), clients=3, runtime_s=150.0)
    laid_out(location, work, tmp_path / "prefill")
    text = tmp_path / "text"
    text.write_text(FleetEngine().job_text(work, location, 1))
    words = [sys.executable, "-c", DRIVEN, str(text), str(location.path), str(trial)]
    # What it leaves of its temporary files belongs to the test.
    with subprocess.Popen(words, env={**os.environ, "TMPDIR": str(tmp_path)}) as driver:
        try:
            wait_for(lambda: len(working(location)) >= 9)
        finally:
            driver.kill()
    wait_for(lambda: not working(location))


@pytest.fixture
def in_memory(location: Folder) -> Iterator[Folder]:
    """What others do here holds no disk up."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield location
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Folder(path=Path(folder))


def working(location: Folder) -> list[int]:
    """Processes of fio in the folder of the data."""
    return [pid for pid in processes_of(str(location.path)) if "--server=" in command_of(pid)]


@pytest.mark.slow
@pytest.mark.parametrize("clients", [0, 2])
def test_an_open_loop_offers_its_rate(clients: int, in_memory: Folder, tmp_path: Path) -> None:
    location, engine = in_memory, FleetEngine() if clients else FioEngine()
    mixed = phase(pattern=Pattern.RANDRW, read_share=70, iodepth=8, rate_iops=50.0)
    work = workload(mixed, clients=clients, runtime_s=6.0, direct=False)
    laid_out(location, work, tmp_path / "prefill")
    for attempt in range(3):  # What stands still at the very end has no time to catch up.
        trial = tmp_path / f"trial-{attempt}"
        trial.mkdir()
        done = carried_out(engine, work, location, trial)
        if done.status is TrialStatus.COMPLETED:
            break
        assert done.problem is not None
        assert done.problem.code == "rate-not-reached"
    assert done.status is TrialStatus.COMPLETED, done.problem
    operations = derive(read_output("fio", trial)).operations
    counts = {operation.op: sum(operation.histogram_counts) for operation in operations}
    expected = 50 * max(1, clients) * 6
    # Six standard deviations of Poisson counts.
    assert abs(counts[Op.READ] - 0.7 * expected) < 6 * (0.7 * expected) ** 0.5
    assert abs(counts[Op.WRITE] - 0.3 * expected) < 6 * (0.3 * expected) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("clients", [0, 2])
def test_an_open_loop_beyond_the_target_is_stopped(
    clients: int, location: Folder, trial: Path
) -> None:
    engine = FleetEngine() if clients else FioEngine()
    work = workload(phase(rate_iops=50e6), clients=clients, runtime_s=60.0)
    laid_out(location, work, trial.parent / "prefill")
    began = time.monotonic()
    done = carried_out(engine, work, location, trial)
    assert time.monotonic() - began < 50
    assert done.status is TrialStatus.FAILED
    assert done.problem is not None
    assert done.problem.code == "rate-not-reached"


@pytest.mark.slow
def test_one_that_falls_short_in_too_little_time_to_be_stopped_has_failed_too(
    location: Folder, trial: Path
) -> None:
    work = workload(phase(rate_iops=50e6), clients=2, runtime_s=1.0)
    laid_out(location, work, trial.parent / "prefill")
    done = carried_out(FleetEngine(), work, location, trial)
    assert done.status is TrialStatus.FAILED
    assert done.problem is not None
    assert done.problem.code == "rate-not-reached"


@pytest.mark.slow
def test_it_reports_of_its_progress_all_along(
    location: Folder, trial: Path, tmp_path: Path
) -> None:
    """fio's client says nothing of it where it is to write JSON."""
    work = workload(phase(), clients=2, runtime_s=8.0)
    laid_out(location, work, tmp_path / "prefill")
    engine = FleetEngine()
    said: list[Progress] = []
    job = Job(text=engine.job_text(work, location, 1), location=location, bound_s=30, clients=2)
    done = engine.execute(job, trial, StopRequest(), said.append)
    assert done.status is TrialStatus.COMPLETED
    (operation,) = derive(read_output("fio", trial)).operations
    assert max(item.iops for item in said) > 0.3 * sum(operation.histogram_counts) / 8
    assert done.engine_cpu_s > 0
    assert location.shape is Shape.FILES
