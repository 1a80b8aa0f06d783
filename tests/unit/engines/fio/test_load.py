"""What load levels add to job files, and whether an open loop keeps its rate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leadline.engines.fio.job import Vary, job_text, prefill_text
from leadline.engines.fio.pace import Pace, sections_of, shortfall
from leadline.formats.fio.job_file import options_of, text_of
from leadline.formats.result import EngineOutput, JobOptions, JobResult, Operation
from leadline.metrics import Op
from leadline.plan.footprint import footprint_of
from leadline.plan.workload import EngineChoice, Pattern, Phase, Workload
from leadline.runner.ports import Shape

MIB = 1 << 20


def phase(**changes: object) -> Phase:
    given: dict[str, object] = {
        "name": "work",
        "pattern": Pattern.RANDREAD,
        "block_size": 4096,
        "iodepth": 32,
        "numjobs": 1,
        "size": MIB,
    }
    return Phase.model_validate(given | changes)


def workload(*phases: Phase, **changes: object) -> Workload:
    given: dict[str, object] = {"name": "w", "phases": phases, "runtime_s": 10.0, "ramp_s": 2.0}
    return Workload.model_validate(given | changes)


def test_each_client_gets_its_own_files_and_offsets_and_seed() -> None:
    two = (phase(name="a", numjobs=2), phase(name="b"))
    text = job_text(workload(*two), Shape.FILES, 10, vary=Vary.DATA, fleet=True)
    for client, prefix in ((1, ""), (2, "c2."), (30, "c30.")):
        shared = options_of(text_of(client, text))["global"]
        assert shared["filename_format"] == f"leadline.{prefix}$jobnum.dat"
        assert shared["randseed"] == str(10 + client - 1)
    text = job_text(workload(*two), Shape.SPAN, 10, vary=Vary.DATA, fleet=True)
    third = options_of(text_of(3, text))
    # Behind the stretches of two clients, which are as long as the phase is wide.
    assert third["a"]["offset"] == str(2 * 2 * MIB)
    assert third["b"]["offset"] == str(2 * MIB)
    assert "${" not in text_of(3, text)


def test_a_job_without_a_fleet_holds_no_variables() -> None:
    for shape in Shape:
        text = job_text(workload(phase()), shape, 10)
        assert "$" not in text.replace("$jobnum", "")
        assert "per_job_logs=0" in text


def test_clients_write_what_is_theirs_of_unlike_footprints() -> None:
    wide = workload(phase(numjobs=2), clients=1)
    many = workload(phase(size=4 * MIB), clients=3)
    text = prefill_text(
        footprint_of([wide, many]),
        Shape.FILES,
        engine=EngineChoice.LIBAIO,
        direct=True,
        own=True,
    )
    written = {}
    for client in (1, 2, 3):
        for name, options in options_of(text_of(client, text)).items():
            if name != "global":
                written[options["filename"]] = int(options["size"])
    assert written == dict(footprint_of([wide, many]).files)


@pytest.mark.parametrize("iodepth", [1, 8, 32, 50])
@pytest.mark.parametrize("numjobs", [1, 3])
@pytest.mark.parametrize("rate", [37.0, 500.0, 1234.5])
@pytest.mark.parametrize("pattern", [Pattern.RANDREAD, Pattern.RANDRW, Pattern.WRITE])
@pytest.mark.parametrize("shape", list(Shape))
def test_an_open_loop_offers_what_the_plan_says_and_no_more_in_flight(
    shape: Shape, pattern: Pattern, rate: float, numjobs: int, iodepth: int
) -> None:
    one = phase(pattern=pattern, rate_iops=rate, iodepth=iodepth, numjobs=numjobs)
    text = job_text(workload(one), shape, 1)
    (section,) = sections_of(text)
    # fio takes whole I/Os per second of each job and direction.
    assert section.offered_iops == pytest.approx(rate, abs=numjobs + 0.01 * rate)
    options = options_of(text)["work"]
    jobs, depth = int(options["numjobs"]), int(options["iodepth"])
    assert jobs * depth <= iodepth * numjobs
    assert options["rate_process"] == "poisson"
    total = int(options["size"]) * (1 if jobs != numjobs else numjobs)
    assert total == MIB * numjobs


def test_reads_and_writes_of_a_mix_have_their_shares_of_the_rate() -> None:
    one = phase(pattern=Pattern.RANDRW, read_share=70, rate_iops=1000.0, iodepth=1)
    assert options_of(job_text(workload(one), Shape.FILES, 1))["work"]["rate_iops"] == "700,300"
    write = phase(pattern=Pattern.RANDWRITE, rate_iops=1000.0, iodepth=1)
    assert options_of(job_text(workload(write), Shape.FILES, 1))["work"]["rate_iops"] == ",1000"


SECTIONS = sections_of(job_text(workload(phase(rate_iops=1000.0, iodepth=1)), Shape.FILES, 1))


def test_a_pace_that_is_clearly_too_low_is_told_and_the_ramp_is_not_judged() -> None:
    pace = Pace(SECTIONS)
    for second in range(1, 3):
        pace.add(0.0, float(second))
    for second in range(3, 7):
        pace.add(500.0, float(second))
        assert pace.problem is None
    for second in range(7, 10):
        pace.add(500.0, float(second))
    assert pace.problem is not None
    assert pace.problem.code == "rate-not-reached"
    assert "offered 1,000 IOPS and reached 500" in pace.problem.fact


def test_a_target_that_stood_still_and_caught_up_is_not_stopped() -> None:
    pace = Pace(SECTIONS)
    for second in range(1, 6):
        pace.add(1000.0 if second < 3 else 0.0, float(second))
    for second in range(6, 12):
        pace.add(2000.0, float(second))
    assert pace.problem is None


def test_a_closed_loop_has_no_pace() -> None:
    pace = Pace(sections_of(job_text(workload(phase()), Shape.FILES, 1)))
    for second in range(1, 12):
        pace.add(1.0, float(second))
    assert pace.problem is None


@pytest.mark.parametrize(("iops", "short"), [(1000.0, False), (921.0, False), (910.0, True)])
def test_at_the_end_chance_is_allowed_for(iops: float, short: bool) -> None:
    """95 % of 1,000, less three standard deviations of 10,000 arrivals: 950 - 30."""
    job = JobResult(
        name="work",
        group=0,
        error=0,
        options=JobOptions(raw={}),
        job_runtime_s=10.0,
        elapsed_s=12.0,
        user_cpu=None,
        system_cpu=None,
        depth_levels={},
        operations=(Operation(op=Op.READ, iops=iops / 2),),
    )
    output = EngineOutput(version="fio-3.33", jobs=(job, replace(job, host="c2")))
    assert (shortfall(SECTIONS, output) is not None) is short


def test_data_in_objects_is_the_files_of_jobs_and_clients() -> None:
    size = 8 * MIB
    phases = (
        phase(name="a", size=size, numjobs=2),
        phase(name="b", size=size, pattern=Pattern.READ),
        phase(name="c", size=size, numjobs=2, sharing="one-file"),
    )
    text = job_text(
        workload(*phases), Shape.FILES, 1, vary=Vary.DATA, fleet=True, objects="leadline-run-t"
    )
    second = options_of(text_of(2, text))
    assert second["global"]["filename_format"] == "leadline-run-t.c2.$jobnum.$filenum"
    assert second["c"]["filename_format"] == "leadline-run-t.c2.0.$filenum"
    assert {name: second[name]["nrfiles"] for name in "abc"} == {"a": "2", "b": "2", "c": "2"}
    orders = [second[name]["file_service_type"] for name in "abc"]
    assert orders == ["random", "sequential", "random"]

    written = workload(*phases, clients=2, engine=EngineChoice.RADOS)
    text = prefill_text(
        footprint_of([written]),
        Shape.FILES,
        engine=EngineChoice.RADOS,
        direct=True,
        objects="leadline-run-t",
    )
    sections = {name: found for name, found in options_of(text).items() if name != "global"}
    assert {found["filename_format"] for found in sections.values()} == {
        f"leadline-run-t.{job}.$filenum" for job in ("0", "1", "c2.0", "c2.1")
    }
    assert {(found["nrfiles"], found["size"]) for found in sections.values()} == {("2", str(size))}
    assert "end_fsync" not in text
