from __future__ import annotations

import struct
from pathlib import Path

import pytest

from leadline.archive.records import TrialStatus
from leadline.engines.ceph_bench import RadosBenchEngine, cleanup_command
from leadline.errors import LeadlineError
from leadline.formats.ceph.rados_bench import read_rados_bench
from leadline.plan.footprint import Footprint
from leadline.plan.workload import EngineChoice, Pattern
from leadline.runner.events import StopRequest
from leadline.runner.ports import Execution, Job, RadosPool
from tests.unit.engines.bench_doubles import ACCESS, NEAR, Install, installer, workload

RADOS = EngineChoice.RADOS_BENCH
POOL = RadosPool(pool="rep3", objects="leadline-run-token", access=NEAR)
# What rados does of what the engine relies on. Calls are noted; a read of all data takes 0.6 s.
TOOL = """
import json, struct, sys
from pathlib import Path
words = sys.argv[1:]
here = Path(__file__).parent
with (here / "calls").open("a") as calls:
    print(*words, file=calls)
after = lambda key: words[words.index(key) + 1]
if "get" in words:
    Path(words[-1]).write_bytes(bytes.fromhex(MEMORY))
elif "put" in words:
    (here / "put").write_bytes(Path(words[-1]).read_bytes())
elif "bench" in words:
    write = "write" in words
    seconds = float(after("bench"))
    ran = 0.6 if "seq" in words else min(seconds, 5.0)
    size = int(after("-b")) if write else struct.unpack("<QiiQ", (here / "put").read_bytes())[3]
    ios = int(after("--max-objects")) if "--max-objects" in words else int(ran * 100)
    kind = "write" if write else "read"
    figures = {
        f"total_{kind}s_made": ios, "total_time_run": ran, f"{kind}_size": size,
        "bandwidth": ios / ran * size / 1048576, "average_iops": int(ios / ran),
        "average_latency": 0.08, "min_latency": 0.01, "max_latency": 0.2,
    }
    out = {key: str(value) for key, value in figures.items()} | {"datas": []}
    Path(after("--output")).write_text(json.dumps(out))
elif "cleanup" in words:
    sys.exit(CLEANED)
"""
MEMORY = struct.pack("<QiiQ", 4 << 20, 16, 4711, 4 << 20)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "trial"
    made.mkdir()
    return made


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    return installer(tmp_path / "bin", monkeypatch)


def tool(memory: bytes = MEMORY, cleaned: int = 0) -> str:
    return TOOL.replace("MEMORY", repr(memory.hex())).replace("CLEANED", str(cleaned))


def execute(
    folder: Path, *patterns: Pattern, ramp_s: float = 0.0, stop: StopRequest | None = None
) -> Execution:
    engine = RadosBenchEngine()
    work = workload(*patterns, engine=RADOS, ramp_s=ramp_s)
    job = Job(text=engine.job_text(work, POOL, 1), location=POOL, bound_s=30)
    return engine.execute(job, folder, stop or StopRequest(), lambda progress: None)


def calls(folder: Path) -> list[str]:
    return (folder.parent / "bin" / "calls").read_text().splitlines()


def test_reading_in_order_goes_on_until_the_runtime_is_filled(
    folder: Path, install: Install
) -> None:
    install("rados", tool())
    execution = execute(folder, Pattern.READ)
    assert execution.status is TrialStatus.COMPLETED, execution.problem
    (job,) = read_rados_bench(folder).jobs
    assert job.job_runtime_s == pytest.approx(3.0)
    asked = [call.split(" bench ")[1].split()[0] for call in calls(folder) if " seq " in call]
    assert asked == ["3", "3", "2", "2", "1"]


def test_reads_are_of_the_blocks_asked_for(folder: Path, install: Install) -> None:
    install("rados", tool())
    assert execute(folder, Pattern.RANDREAD).status is TrialStatus.COMPLETED
    put = (folder.parent / "bin" / "put").read_bytes()
    assert struct.unpack("<QiiQ", put) == (4 << 20, 16384, 4711, 4096)
    assert not list(folder.glob(".*"))
    assert all("--namespace leadline-run-token" in call for call in calls(folder))
    assert all("--run-name benchmark_data_" in call for call in calls(folder) if " bench " in call)


@pytest.mark.parametrize(
    "memory",
    [b"", MEMORY[:12], MEMORY + b"x", struct.pack("<QiiQ", 4 << 20, 3, 1, 4 << 20)],
    ids=["empty", "short", "long", "too little data"],
)
def test_memory_that_does_not_fit_is_told(folder: Path, install: Install, memory: bytes) -> None:
    install("rados", tool(memory))
    execution = execute(folder, Pattern.RANDREAD)
    assert execution.status is TrialStatus.FAILED
    assert execution.problem is not None
    assert "metadata of rados bench" in execution.problem.fact
    assert not any(" bench " in call for call in calls(folder))


def test_what_a_trial_wrote_is_removed_behind_its_figures(folder: Path, install: Install) -> None:
    install("rados", tool(cleaned=1))
    execution = execute(folder, Pattern.WRITE, Pattern.RANDREAD, ramp_s=1.0)
    assert execution.status is TrialStatus.COMPLETED, "tidying up spoils nothing"
    assert execution.exit_status == 0
    cleaned = [call.split()[-1] for call in calls(folder) if " cleanup " in call]
    assert cleaned == ["benchmark_data_leadline_write_1_ramp", "benchmark_data_leadline_write_1"]
    assert [len(job.operations) for job in read_rados_bench(folder).jobs] == [1, 1]


def test_asked_to_stop_it_says_interrupted(folder: Path, install: Install) -> None:
    install("rados", tool())
    stop = StopRequest()
    stop.ask()
    execution = execute(folder, Pattern.WRITE, stop=stop)
    assert execution.status is TrialStatus.INTERRUPTED
    assert not (folder.parent / "bin" / "calls").exists()


def test_prefill_writes_the_span_once(folder: Path, install: Install) -> None:
    install("rados", tool())
    engine = RadosBenchEngine()
    footprint = Footprint(
        files={"leadline.0.dat": 64 << 20}, span=64 << 20, job_file_bytes=0, writes=False
    )
    job = Job(text=engine.prefill_text(footprint, POOL, True), location=POOL, bound_s=30)
    execution = engine.execute(job, folder, StopRequest(), lambda progress: None)
    assert execution.status is TrialStatus.COMPLETED
    (written,) = (one for entry in read_rados_bench(folder).jobs for one in entry.operations)
    assert written.io_bytes == 64 << 20


def test_the_command_line() -> None:
    engine = RadosBenchEngine()
    pool = RadosPool(pool="rep3", objects="mine", access=ACCESS)
    job = Job(
        text=engine.job_text(workload(Pattern.WRITE, engine=RADOS), pool, 1),
        location=pool,
        bound_s=5,
    )
    command = engine.command(job, Path("/trial"))
    assert command[:4] == ("nsenter", "--net=/run/netns/z1", "--", "rados")
    assert " ".join(command).endswith(
        "--pool rep3 --namespace mine bench 3 write -b 4096 -t 8 --run-name "
        "benchmark_data_leadline_write_1 --no-cleanup --format json "
        "--output /trial/rados-bench-1-1.json"
    )


def test_cleaning_never_reaches_beyond_our_own_namespace() -> None:
    said = " ".join(cleanup_command(POOL))
    assert said.endswith(
        "--pool rep3 --namespace leadline-run-token cleanup --prefix benchmark_data"
    )
    with pytest.raises(LeadlineError, match="not Leadline's"):
        cleanup_command(RadosPool(pool="rep3", objects="", access=NEAR))


def test_auto_is_settled_without_a_try() -> None:
    engine = RadosBenchEngine()
    auto = workload(Pattern.READ, engine=EngineChoice.AUTO)
    assert engine.likely(auto, POOL).engine is RADOS
    assert engine.resolve(auto, POOL).engine is RADOS
