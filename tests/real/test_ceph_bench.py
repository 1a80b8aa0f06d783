"""Ceph's own benchmark tools against a real cluster (a lab)."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from leadline.archive.records import TrialStatus
from leadline.connect.ceph import CephAccess, Connection
from leadline.engines.ceph_bench import RadosBenchEngine, RbdBenchEngine, cleanup_command
from leadline.formats.ceph.rados_bench import read_rados_bench, read_rados_bench_windows
from leadline.formats.ceph.rbd_bench import read_rbd_bench, read_rbd_bench_windows
from leadline.lab.state import lab_access
from leadline.metrics import Op
from leadline.plan.footprint import Footprint
from leadline.plan.target_url import TargetKind
from leadline.plan.workload import EngineChoice, Pattern, Workload
from leadline.runner.events import StopRequest
from leadline.runner.ports import Engine, Execution, Job, Location, Progress, RadosPool, RbdImage
from tests.awaiting import wait_for
from tests.unit.engines.bench_doubles import workload
from tests.unit.formats.ceph.test_rados_bench import found

pytestmark = [pytest.mark.real, pytest.mark.root, pytest.mark.slow]

SPAN = 64 << 20
FOOTPRINT = Footprint(files={"leadline.0.dat": SPAN}, span=SPAN, job_file_bytes=0, writes=True)
RADOS, RBD = EngineChoice.RADOS_BENCH, EngineChoice.RBD_BENCH
# A shared machine: what the audit finds of the cluster's own unrest is no fault of the engines.
UNREST = {"not-steady", "client-saturated", "queue-depth-not-reached"}


@pytest.fixture(scope="module")
def access(lab: str) -> CephAccess:
    return lab_access(lab)


def sh(access: CephAccess, program: str, *words: str) -> str:
    command = access.command(program, *words)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def objects(access: CephAccess, namespace: str) -> list[str]:
    return sh(access, "rados", "--pool", "rep3", "--namespace", namespace, "ls").split()


def job(engine: Engine, work: Workload, where: Location, bound_s: float = 60.0) -> Job:
    kind = TargetKind.RBD if isinstance(where, RbdImage) else TargetKind.RADOS
    engine.check(work, kind)
    text = engine.job_text(engine.resolve(work, where), where, 1)
    return Job(text=text, location=where, bound_s=bound_s)


def done(engine: Engine, given: Job, folder: Path, said: list[Progress] | None = None) -> Execution:
    folder.mkdir()
    heard: list[Progress] = [] if said is None else said
    execution = engine.execute(given, folder, StopRequest(), heard.append)
    assert execution.status is TrialStatus.COMPLETED, execution.problem
    assert (execution.exit_status, execution.signals) == (0, ())
    return execution


@pytest.fixture(scope="module")
def pool(access: CephAccess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RadosPool]:
    """A pool of Leadline with data for reads, next to a foreign user's benchmark in the same
    pool."""
    where = RadosPool(pool="rep3", objects="leadline-test-bench", access=access)
    stranger = ("bench", "1", "write", "-b", "4096", "-t", "2", "--no-cleanup")
    sh(access, "rados", "--pool", "rep3", *stranger, "--run-name", "benchmark_data_leadline_fill")
    strangers = [name for name in objects(access, "") if name.startswith("benchmark_data_")]
    assert len(strangers) >= 2, "what it wrote, and what remembers it"
    engine = RadosBenchEngine()
    text = engine.prefill_text(FOOTPRINT, where, True)
    folder = tmp_path_factory.mktemp("fill") / "it"
    done(engine, Job(text=text, location=where, bound_s=120), folder)
    (written,) = (
        operation for entry in read_rados_bench(folder).jobs for operation in entry.operations
    )
    assert written.io_bytes == SPAN
    yield where
    before = objects(access, "")
    for _ in range(2):
        subprocess.run(cleanup_command(where), check=True, capture_output=True, timeout=120)
        assert objects(access, where.objects) == []
    assert objects(access, "") == before
    assert set(strangers) <= set(before)


@pytest.fixture(scope="module")
def image(access: CephAccess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RbdImage]:
    features = ("--image-feature", "layering")
    sh(access, "rbd", "create", "rep3/bench-test", "--size", f"{SPAN}B", *features)
    where = RbdImage(pool="rep3", image="bench-test", access=access)
    engine = RbdBenchEngine()
    text = engine.prefill_text(FOOTPRINT, where, True)
    folder = tmp_path_factory.mktemp("fill") / "it"
    done(engine, Job(text=text, location=where, bound_s=120), folder)
    (written,) = (
        operation for entry in read_rbd_bench(folder).jobs for operation in entry.operations
    )
    assert written.io_bytes == SPAN
    yield where

    def removed() -> bool:
        command = access.command("rbd", "rm", "--no-progress", "rep3/bench-test")
        return subprocess.run(command, capture_output=True, timeout=120).returncode == 0

    wait_for(removed, 90)  # a client that was killed stays a watcher for 30 s


@contextmanager
def once(happened: Callable[[], object], act: Callable[[], object]) -> Iterator[None]:
    """`act` as soon as it `happened`, however long that takes on a busy machine."""

    def follow() -> None:
        wait_for(happened, 120)
        act()

    following = threading.Thread(target=follow)
    following.start()
    try:
        yield
    finally:
        following.join()


def benchmark_runs(access: CephAccess) -> bool:
    """Whether one of Ceph's benchmark tools is at work on this cluster."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        ours = str(access.conf) in words and "bench" in words
        if ours and words[0].rpartition("/")[2] in ("rados", "rbd"):
            return True
    return False


def test_both_report_the_version_of_ceph() -> None:
    assert RadosBenchEngine().version.startswith("ceph version ")
    assert RbdBenchEngine().version.startswith("ceph version ")


@pytest.mark.parametrize("pattern", [Pattern.WRITE, Pattern.RANDREAD, Pattern.READ])
def test_rados_bench_fills_its_runtime(pool: RadosPool, tmp_path: Path, pattern: Pattern) -> None:
    engine = RadosBenchEngine()
    held = len(objects(pool.access, pool.objects))
    work = workload(pattern, engine=RADOS, block_size=65536, runtime_s=3)
    done(engine, job(engine, work, pool), tmp_path / "trial")
    output = read_rados_bench(tmp_path / "trial")
    (entry,) = output.jobs
    (operation,) = entry.operations
    assert operation.op in pattern.ops
    assert operation.io_bytes == operation.total_ios * 65536
    assert operation.total is not None
    # Little's law, which the audit asks too. A busy machine keeps the queue less than full.
    assert 0.5 * 8 < operation.iops * operation.total.mean_s < 1.05 * 8
    windows = read_rados_bench_windows(tmp_path / "trial")[operation.op]
    assert [window.end_s for window in windows[:2]] == [1, 2]
    expected = {"compressible-data"} if pattern.writes else set()
    if pattern is Pattern.READ:  # each time through so little data costs a second to end
        expected |= {"short-runtime"} & found(output)
    else:
        assert entry.job_runtime_s >= 3
    if not pattern.writes:  # a machine at rest reads so little data hundreds of times in 3 s
        expected |= {"cache-served-reads"} & found(output)
    assert found(output) - UNREST == expected
    # At most one more: what remembers the blocks that were read.
    assert len(objects(pool.access, pool.objects)) <= held + 1


def test_rados_bench_does_phases_and_a_ramp(pool: RadosPool, tmp_path: Path) -> None:
    engine = RadosBenchEngine()
    work = workload(Pattern.WRITE, Pattern.RANDREAD, engine=RADOS, runtime_s=2, ramp_s=1)
    execution = done(engine, job(engine, work, pool), tmp_path / "trial")
    assert execution.wall_s > 6
    jobs = read_rados_bench(tmp_path / "trial").jobs
    assert [entry.operations[0].op for entry in jobs] == [Op.WRITE, Op.READ]
    assert all(entry.job_runtime_s >= 2 for entry in jobs)
    ramps_s = 2 * 1
    assert sum(entry.job_runtime_s for entry in jobs) <= execution.wall_s - ramps_s


def test_rados_bench_without_data_says_so(access: CephAccess, tmp_path: Path) -> None:
    where = RadosPool(pool="rep3", objects="leadline-test-nothing", access=access)
    engine = RadosBenchEngine()
    given = job(engine, workload(Pattern.RANDREAD, engine=RADOS), where)
    execution = engine.execute(given, tmp_path, StopRequest(), lambda progress: None)
    assert execution.status is TrialStatus.FAILED
    assert execution.problem is not None
    assert execution.problem.code == "target-gone"
    assert "prefill" in (execution.problem.hint or "")


@pytest.mark.parametrize(
    "pattern", [Pattern.RANDWRITE, Pattern.RANDREAD, Pattern.READ, Pattern.WRITE]
)
def test_rbd_bench_fills_its_runtime(image: RbdImage, tmp_path: Path, pattern: Pattern) -> None:
    engine = RbdBenchEngine()
    said: list[Progress] = []
    given = job(engine, workload(pattern, engine=RBD, runtime_s=3), image)
    execution = done(engine, given, tmp_path / "trial", said)
    output = read_rbd_bench(tmp_path / "trial")
    (entry,) = output.jobs
    (operation,) = entry.operations
    # It is asked to end 3 s after it said that it begins, which is reported a moment late or early.
    assert 2.9 <= entry.job_runtime_s <= execution.wall_s
    assert operation.op in pattern.ops
    assert operation.total is None
    assert said
    assert read_rbd_bench_windows(tmp_path / "trial")[operation.op]
    true = {"latency-not-measured"} | ({"compressible-data"} if pattern.writes else set())
    assert found(output) - UNREST == true


def test_rbd_bench_mixes(image: RbdImage, tmp_path: Path) -> None:
    engine = RbdBenchEngine()
    work = workload(Pattern.RANDRW, engine=RBD, runtime_s=3, read_share=70, ramp_s=1)
    done(engine, job(engine, work, image), tmp_path / "trial")
    (entry,) = read_rbd_bench(tmp_path / "trial").jobs
    read, write = entry.operations
    ios = read.total_ios + write.total_ios
    # Drawn for each I/O: five standard deviations, which are more of the share for few.
    assert abs(read.total_ios / ios - 0.7) < max(0.05, 5 * (0.7 * 0.3 / ios) ** 0.5)


def test_io_that_does_not_come_back_is_reported_as_hung(
    image: RbdImage, pool: RadosPool, tmp_path: Path
) -> None:
    rbd, rados = RbdBenchEngine(), RadosBenchEngine()
    cases: list[tuple[Engine, Job]] = [
        (rbd, job(rbd, workload(Pattern.RANDWRITE, engine=RBD, runtime_s=8), image, bound_s=10)),
        (rados, job(rados, workload(Pattern.RANDREAD, engine=RADOS, runtime_s=8), pool, 10)),
    ]
    with Connection(image.access) as cluster:
        for engine, given in cases:
            folder = tmp_path / engine.name
            folder.mkdir()
            began = time.monotonic()
            try:
                # Not with the `ceph` program, which may take longer to start than the trial lasts.
                with once(
                    lambda: benchmark_runs(image.access),
                    lambda: cluster.mon("osd set", key="pause"),
                ):
                    execution = engine.execute(given, folder, StopRequest(), lambda _: None)
            finally:
                cluster.mon("osd unset", key="pause")
            assert execution.status is TrialStatus.HUNG, (engine.name, execution)
            assert time.monotonic() - began < 90, "ten seconds, and what killing takes"
            assert execution.problem is not None
            assert execution.problem.code == "trial-hung"


def test_a_stopped_trial_ends_soon_and_leaves_what_cleaning_takes(
    image: RbdImage, pool: RadosPool, tmp_path: Path
) -> None:
    rbd, rados = RbdBenchEngine(), RadosBenchEngine()
    heard: list[Progress] = []
    there = len(objects(pool.access, pool.objects))
    long = 300.0
    reads = workload(Pattern.RANDREAD, engine=RBD, runtime_s=long)
    writes = workload(Pattern.WRITE, engine=RADOS, runtime_s=long)
    cases: list[tuple[Engine, Job, Callable[[], bool]]] = [
        (rbd, job(rbd, reads, image, long + 60), lambda: bool(heard)),
        (
            rados,
            job(rados, writes, pool, long + 60),
            lambda: len(objects(pool.access, pool.objects)) > there + 2,
        ),
    ]
    for engine, given, under_way in cases:
        folder = tmp_path / engine.name
        folder.mkdir()
        stop = StopRequest()
        began = time.monotonic()
        with once(under_way, stop.ask):
            execution = engine.execute(given, folder, stop, heard.append)
        assert execution.status is TrialStatus.INTERRUPTED
        assert time.monotonic() - began < long / 2
    assert len(objects(pool.access, pool.objects)) > there
