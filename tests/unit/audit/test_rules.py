"""Each rule fires on a case built from physics, and is silent on the good counterpart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.records import Extent, Problem, Processor, Session, TrialStatus
from leadline.audit.registry import audit
from leadline.findings import Finding, Severity
from leadline.importing.archives import Labels, import_results
from leadline.importing.gather import gather
from leadline.metrics import Op
from leadline.plan.guard import Guard
from leadline.plan.models import Cell
from leadline.plan.workload import Pattern
from tests.conftest import ROOT
from tests.unit.audit.audit_archives import SPAN, Judge, Stored, build, cell


def of(code: str, findings: tuple[Finding, ...]) -> list[Finding]:
    return [finding for finding in findings if finding.code == code]


def options(**given: str) -> Any:
    def edit(document: dict[str, Any]) -> None:
        document["jobs"][0]["job options"].update(given)

    return edit


def scaled(latency: float = 1.0, iops: float = 1.0) -> Any:
    """Latencies stretched, rates changed: what a wrong unit or a wrong sum does to a result."""

    def edit(document: dict[str, Any]) -> None:
        part = document["jobs"][0]["read"]
        for key in ("lat_ns", "clat_ns", "slat_ns"):
            entry = part[key]
            for name in ("min", "max", "mean"):
                entry[name] *= latency
        for key in ("iops", "bw_bytes", "total_ios", "io_bytes"):
            part[key] = part[key] * iops if key in ("iops", "bw_bytes") else int(part[key] * iops)
        for key in ("lat_ns", "clat_ns", "slat_ns"):
            part[key]["N"] = int(part[key]["N"] * iops)
            part[key].pop("bins", None)

    return edit


# --- is there a result ---------------------------------------------------------------------------


def test_empty_result_fires_for_every_missing_trial(judge: Judge) -> None:
    found = of("empty-result", judge(Stored(), None, None))
    assert [finding.trial for finding in found] == ["t0002", "t0003"]
    assert {finding.severity for finding in found} == {Severity.ERROR}


def test_empty_result_fires_for_an_empty_file_and_for_no_file(judge: Judge) -> None:
    found = judge(Stored(content=b""), Stored(output=None))
    assert [finding.code for finding in found] == ["empty-result", "empty-result"]


def test_empty_result_fires_where_a_direction_is_missing(judge: Judge) -> None:
    (found,) = of("empty-result", judge(Stored(), of=cell(pattern=Pattern.RANDRW)))
    assert found.op is Op.WRITE


def test_empty_result_is_silent_on_a_whole_result(judge: Judge) -> None:
    assert not of("empty-result", judge(Stored()))


def test_truncated_result_fires_on_cut_json(judge: Judge) -> None:
    found = judge(Stored(content=b'{"fio version": "fio-3.33", "jobs": [{"job'))
    assert [finding.code for finding in found] == ["truncated-result"]


def test_truncated_result_fires_after_a_signal(judge: Judge) -> None:
    found = judge(Stored("sigterm"), of=cell(runtime_s=30))
    assert [finding.code for finding in found] == ["truncated-result"]


def test_truncated_result_fires_when_interrupted(judge: Judge) -> None:
    found = judge(Stored(record={"status": TrialStatus.INTERRUPTED}))
    assert [finding.code for finding in found] == ["truncated-result"]


def test_truncated_result_warns_of_an_unreadable_log(judge: Judge, tmp_path: Any) -> None:
    run = build(tmp_path / "damaged", {"a": (cell(), [Stored()])})
    next((run.path / "trials").glob("*/*_iops.log")).write_text("not a log\n")
    (found,) = of("truncated-result", audit(run))
    assert found.severity is Severity.WARNING


def test_truncated_result_is_silent_on_a_whole_result(judge: Judge) -> None:
    assert not of("truncated-result", judge(Stored()))


def test_engine_error_fires_on_a_hang_and_says_how_it_was_stopped(judge: Judge) -> None:
    record = {
        "status": TrialStatus.HUNG,
        "signals": ("SIGINT", "SIGKILL"),
        "wall_s": 18.2,
        "ended_at": "2026-11-21T00:00:18.2Z",
        "problem": Problem(code="trial-hung", fact="fio did not end within 15 s"),
    }
    (found,) = judge(Stored(output=None, record=record))
    assert found.code == "engine-error"
    assert "18.2 s with SIGINT and SIGKILL" in found.message


def test_engine_error_fires_on_failure_with_its_problem(judge: Judge) -> None:
    problem = Problem(code="target-full", fact="fio failed: No space left on device")
    (found,) = judge(Stored(record={"status": TrialStatus.FAILED, "problem": problem}))
    assert found.code == "engine-error"
    assert "No space left" in found.message


def test_engine_error_fires_on_a_job_error_alone(judge: Judge) -> None:
    found = judge(Stored(edit=lambda document: document["jobs"][0].update(error=5)))
    assert [finding.code for finding in found] == ["engine-error"]
    assert "Input/output error" in found[0].message


def test_engine_error_fires_on_what_is_no_result(judge: Judge) -> None:
    found = judge(Stored(content=b'{"fio version": "fio-3.33", "jobs": 5}'))
    assert [finding.code for finding in found] == ["engine-error"]


def test_engine_error_leaves_an_unreadable_output_to_its_own_code(judge: Judge) -> None:
    record = {
        "status": TrialStatus.FAILED,
        "problem": Problem(code="format-invalid", fact="fio's output is empty"),
    }
    assert [one.code for one in judge(Stored(content=b"", record=record))] == ["empty-result"]


def test_engine_error_fires_where_operations_of_an_imported_result_failed(tmp_path: Path) -> None:
    file = ROOT / "tests" / "recorded" / "imports" / "cosbench" / "w55-1cont_4kb.csv"
    session = Session(started_at="", hostname="", leadline_version="", python_version="")
    (run,) = import_results(gather("auto", [file]), tmp_path, Labels(run="r"), session).runs
    (found,) = of("engine-error", audit(run))
    assert found.severity is Severity.ERROR
    assert "25.1% of the reads of the stage s2-" in found.message


def test_engine_error_is_silent_on_success(judge: Judge) -> None:
    assert not of("engine-error", judge(Stored()))


# --- is it what was asked ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [("iops", 50_000.0), ("bw_bytes", 10**9), ("io_bytes", 10**9), ("total_ios", 100_000)],
)
def test_inconsistent_figures_fires_on_an_edited_number(
    judge: Judge, key: str, value: float
) -> None:
    edit = {key: value}
    found = judge(Stored(edit=lambda document: document["jobs"][0]["read"].update(edit)))
    assert [one.severity for one in of("inconsistent-figures", found)] == [Severity.ERROR]


def test_inconsistent_figures_fires_on_a_mean_outside_its_extremes(judge: Judge) -> None:
    def edit(document: dict[str, Any]) -> None:
        part = document["jobs"][0]["read"]
        part["lat_ns"]["max"] = part["lat_ns"]["mean"] / 2

    assert len(of("inconsistent-figures", judge(Stored(edit=edit)))) == 1


@pytest.mark.parametrize(
    "name", ["good-randread-qd16", "good-mixed-qd32", "good-randread-qd8x2", "size-bound"]
)
def test_inconsistent_figures_is_silent_on_real_results(judge: Judge, name: str) -> None:
    assert not of("inconsistent-figures", judge(Stored(name)))


def test_latency_inconsistent_fires_when_the_queue_would_be_overfull(judge: Judge) -> None:
    (found,) = of("latency-inconsistent", judge(Stored(edit=scaled(latency=1.6))))
    assert found.evidence["ratio"] == pytest.approx(1.6, abs=0.01)


@pytest.mark.parametrize("factor", [1.0, 2.0, 8.0])
def test_latency_inconsistent_is_silent_on_hidden_jobs(judge: Judge, factor: float) -> None:
    def edit(document: dict[str, Any]) -> None:
        scaled(latency=factor)(document)
        document["jobs"][0]["job options"].pop("numjobs")
        document["global options"].pop("group_reporting")

    assert not of("latency-inconsistent", judge(Stored(edit=edit), of=cell(job_file=True)))


def test_latency_inconsistent_is_silent_on_a_stall_across_the_end_of_the_ramp(
    judge: Judge,
) -> None:
    assert not of("latency-inconsistent", judge(Stored("stall-across-ramp")))


def test_latency_inconsistent_forgives_a_stall_its_own_length_only(judge: Judge) -> None:
    forged = Stored("stall-across-ramp", edit=scaled(latency=1.3))
    assert len(of("latency-inconsistent", judge(forged))) == 1


def test_latency_inconsistent_fires_where_no_job_can_be_hidden(judge: Judge) -> None:
    (found,) = of("latency-inconsistent", judge(Stored(edit=scaled(latency=2.0))))
    assert found.evidence["ratio"] == pytest.approx(2.0, abs=0.01)


def test_latency_inconsistent_is_silent_on_mmap(judge: Judge) -> None:
    def edit(document: dict[str, Any]) -> None:
        scaled(latency=1.24)(document)
        options(ioengine="mmap")(document)

    assert not of("latency-inconsistent", judge(Stored(edit=edit)))


def test_latency_not_measured_fires_for_latency_only(judge: Judge) -> None:
    (found,) = of("latency-not-measured", judge(Stored("gtod-reduce")))
    assert found.latency_only
    assert found.severity is Severity.ERROR


def test_latency_not_measured_is_silent_on_a_latency(judge: Judge) -> None:
    assert not of("latency-not-measured", judge(Stored()))


def test_concurrent_jobs_fires_without_stonewall(judge: Judge) -> None:
    (found,) = of("concurrent-jobs", judge(Stored("concurrent"), of=cell(job_file=True)))
    assert found.evidence["elapsed_s"] == 4


def test_concurrent_jobs_is_silent_on_phases(judge: Judge) -> None:
    assert not of("concurrent-jobs", judge(Stored("good-phases"), of=cell(pattern=Pattern.RW)))


def test_unwritten_reads_fires_on_a_half_written_span(judge: Judge) -> None:
    extent = Extent(span_bytes=SPAN, written_bytes=SPAN // 2, allocated_bytes=None)
    (found,) = of("unwritten-reads", judge(Stored(record={"extent": extent})))
    assert found.severity is Severity.ERROR
    assert found.trial == "t0001"


def test_unwritten_reads_fires_on_holes(judge: Judge) -> None:
    extent = Extent(span_bytes=SPAN, written_bytes=SPAN, allocated_bytes=SPAN // 3)
    (found,) = of("unwritten-reads", judge(Stored(record={"extent": extent})))
    assert found.severity is Severity.WARNING


def test_unwritten_reads_fires_once_a_cell_where_nothing_is_known(judge: Judge) -> None:
    stored = Stored(record={"extent": None})
    (found,) = of("unwritten-reads", judge(stored, stored, of=cell(job_file=True)))
    assert found.severity is Severity.INFO


def test_unwritten_reads_is_silent_on_a_written_span_and_on_writes(judge: Judge) -> None:
    nothing = Extent(span_bytes=SPAN, written_bytes=0, allocated_bytes=0)
    written = Stored("wal-fsync", record={"extent": nothing})
    assert not of("unwritten-reads", judge(Stored(), written))


def test_compressible_data_fires_on_zero_buffers(judge: Judge) -> None:
    writes = cell(pattern=Pattern.WRITE, runtime_s=2)
    (found,) = of("compressible-data", judge(Stored("zero-buffers"), of=writes))
    assert found.op is Op.WRITE


def test_compressible_data_is_silent_on_random_buffers_and_on_reads(judge: Judge) -> None:
    reads = Stored(edit=options(zero_buffers="1"))
    assert not of("compressible-data", judge(Stored("wal-fsync"), reads))


def test_queue_depth_not_reached_fires_on_a_synchronous_engine(judge: Judge) -> None:
    (found,) = of("queue-depth-not-reached", judge(Stored("psync-qd16")))
    assert found.severity is Severity.ERROR
    assert found.evidence["in_flight"] == pytest.approx(0.99, abs=0.01)
    assert "psync is synchronous" in found.message


def test_queue_depth_not_reached_fires_on_a_queue_that_drains(judge: Judge) -> None:
    (found,) = of("queue-depth-not-reached", judge(Stored(edit=scaled(latency=0.7))))
    assert found.severity is Severity.WARNING


@pytest.mark.parametrize(
    "name",
    [
        *("good-randread-qd1", "good-randread-qd16", "good-randread-qd8x2", "good-mixed-qd32"),
        *("good-phases", "wal-fsync", "rate-limited", "size-bound", "half-cached"),
    ],
)
def test_queue_depth_not_reached_is_silent(judge: Judge, name: str) -> None:
    assert not of("queue-depth-not-reached", judge(Stored(name)))


def test_short_runtime_fires(judge: Judge) -> None:
    (warned,) = of("short-runtime", judge(Stored(), of=cell(runtime_s=5)))
    assert warned.severity is Severity.WARNING


def test_short_runtime_fires_as_an_error_below_half(judge: Judge) -> None:
    (found,) = of("short-runtime", judge(Stored(), of=cell(runtime_s=10)))
    assert found.severity is Severity.ERROR


def test_short_runtime_is_silent_on_a_full_run(judge: Judge) -> None:
    assert not of("short-runtime", judge(Stored()))


def test_short_runtime_is_silent_on_a_size_bound_job(judge: Judge) -> None:
    assert not of("short-runtime", judge(Stored("size-bound"), of=cell(job_file=True)))


# --- how good is it ------------------------------------------------------------------------------


def processor(busy: float, steal: float = 0.0, engine_cpu_s: float = 0.5) -> dict[str, Any]:
    return {
        "processor": Processor(
            cores=2, busy_share=busy, steal_share=steal, engine_cpu_s=engine_cpu_s
        )
    }


def test_client_saturated_fires_on_a_job_that_used_up_its_core(judge: Judge) -> None:
    found = of("client-saturated", judge(Stored("good-phases"), of=cell(runtime_s=3)))
    assert ["one core" in finding.message for finding in found] == [True]


@pytest.mark.parametrize(("busy", "steal"), [(0.97, 0.0), (0.5, 0.2)])
def test_client_saturated_fires_on_the_machine(judge: Judge, busy: float, steal: float) -> None:
    assert len(of("client-saturated", judge(Stored(record=processor(busy, steal))))) == 1


@pytest.mark.parametrize(("throttled", "fires"), [(0.1, True), (0.01, False), (None, False)])
def test_client_saturated_fires_on_a_limit_that_holds_back(
    judge: Judge, throttled: float | None, fires: bool
) -> None:
    held = Processor(
        cores=2, busy_share=0.4, steal_share=0.0, engine_cpu_s=3.0, throttled_share=throttled
    )
    found = of("client-saturated", judge(Stored(record={"processor": held})))
    assert ["The limit was measured" in one.message for one in found] == [True] * fires
    assert all(one.evidence["throttled_share"] == throttled for one in found)


def test_client_saturated_fires_on_other_work_in_a_latency_cell(judge: Judge) -> None:
    stored = Stored("good-randread-qd1", record=processor(0.8))
    (found,) = of("client-saturated", judge(stored))
    assert found.latency_only


def test_client_saturated_is_silent_where_the_engine_is_the_load(judge: Judge) -> None:
    own = Stored("good-randread-qd1", record=processor(0.7, engine_cpu_s=4.5))
    assert not of("client-saturated", judge(Stored(), own, Stored("cpu-bound")))


def rate(iops: float, block: int, op: str = "read") -> Stored:
    """A result at a given rate and block size, from a real one."""

    def edit(document: dict[str, Any]) -> None:
        job = document["jobs"][0]
        scaled(iops=iops / job["read"]["iops"])(document)
        job["read"]["io_bytes"] = job["read"]["total_ios"] * block
        job["read"]["bw_bytes"] = job["read"]["iops"] * block
        if op == "write":
            job["write"], job["read"] = job["read"], job["write"]

    return Stored(edit=edit)


def test_capped_by_limit_fires_on_one_rate_for_all(tmp_path: Any) -> None:
    cells = {
        "a": (cell("4k-read"), [rate(1086.6, 4096)]),
        "b": (cell("4k-write", pattern=Pattern.RANDWRITE), [rate(1085.6, 4096, "write")]),
        "c": (cell("128k-read"), [rate(1086.6, 131072)]),
        "d": (cell("128k-write", pattern=Pattern.RANDWRITE), [rate(1087.2, 131072, "write")]),
    }
    (found,) = of("capped-by-limit", audit(build(tmp_path / "run", cells)))
    assert (found.target, found.workload, found.evidence["cells"]) == ("disk", "", 4)


def test_capped_by_limit_fires_on_a_link(tmp_path: Any) -> None:
    cells = {
        "a": (cell("64k"), [rate(117e6 / 65536, 65536)]),
        "b": (cell("64k-w", pattern=Pattern.RANDWRITE), [rate(117e6 / 65536, 65536, "write")]),
        "c": (cell("1M"), [rate(117.5e6 / 1048576, 1048576)]),
    }
    (found,) = of("capped-by-limit", audit(build(tmp_path / "run", cells)))
    assert "MiB/s" in found.message


def test_capped_by_limit_is_silent_on_a_disk_that_saturates_reading(tmp_path: Any) -> None:
    cells = {
        "a": (cell("128k"), [rate(4280, 131072)]),
        "b": (cell("1M"), [rate(535, 1 << 20)]),
        "c": (cell("4M"), [rate(133.8, 1 << 22)]),
        "d": (cell("4k"), [rate(98_000, 4096)]),
    }
    assert not of("capped-by-limit", audit(build(tmp_path / "run", cells)))


def stretched(seconds: float) -> Any:
    """The same rates over a longer run."""

    def edit(document: dict[str, Any]) -> None:
        part = document["jobs"][0]["read"]
        part["runtime"] = int(seconds * 1000)
        factor = seconds * part["iops"] / part["total_ios"]
        part["total_ios"] = round(part["total_ios"] * factor)
        part["io_bytes"] = part["total_ios"] * 4096
        part["bw_bytes"] = part["io_bytes"] / seconds
        for key in ("lat_ns", "clat_ns", "slat_ns"):
            part[key]["N"] = part["total_ios"]
            part[key].pop("bins", None)

    return edit


def test_not_steady_fires_on_a_burst_credit_that_runs_out(judge: Judge) -> None:
    rates = (16_000.0,) * 36 + (4_000.0,) * 24
    stored = Stored(edit=stretched(60), iops=rates)
    (found,) = of("not-steady", judge(stored, of=cell(runtime_s=60)))
    assert found.evidence["jump_at_s"] == 36


def test_not_steady_fires_on_a_drift(judge: Judge) -> None:
    rates = tuple(1000.0 + 10 * second for second in range(30))
    stored = Stored(edit=stretched(30), iops=rates)
    assert len(of("not-steady", judge(stored, of=cell(runtime_s=30)))) == 1


def test_not_steady_fires_on_a_stall_without_lines(judge: Judge) -> None:
    stored = Stored(edit=stretched(30), iops=(1000.0,) * 18)
    (found,) = of("not-steady", judge(stored, of=cell(runtime_s=30)))
    assert found.evidence["round_5_iops"] == 0


def test_not_steady_is_silent_on_real_and_on_short_runs(judge: Judge) -> None:
    assert not of("not-steady", judge(Stored("steady-qd1"), of=cell(runtime_s=12)))


def test_not_steady_is_silent_below_ten_seconds(judge: Judge) -> None:
    assert not of("not-steady", judge(Stored(iops=(1000.0, 10.0, 1000.0))))


def test_unstable_repeats_fires(judge: Judge) -> None:
    trials = [rate(iops, 4096) for iops in (1000, 1020, 1300)]
    (found,) = of("unstable-repeats", judge(*trials))
    assert found.evidence["variation"] == pytest.approx(0.152, abs=0.001)


def test_unstable_repeats_fires_on_a_pair_far_apart(judge: Judge) -> None:
    assert len(of("unstable-repeats", judge(rate(1000, 4096), rate(1300, 4096)))) == 1


def test_unstable_repeats_is_silent_on_the_usual_noise(judge: Judge) -> None:
    trials = [rate(iops, 4096) for iops in (1000, 1016, 985)]
    assert not of("unstable-repeats", judge(*trials))


def test_bimodal_latency_fires_and_names_the_modes(judge: Judge) -> None:
    (found,) = of("bimodal-latency", judge(Stored("half-cached")))
    assert found.severity is Severity.INFO
    assert found.evidence["low_mode_s"] < 2e-6
    assert found.evidence["high_mode_s"] > 30e-6


def test_bimodal_latency_is_silent_on_one_mode(judge: Judge) -> None:
    assert not of("bimodal-latency", judge(Stored(), Stored("good-mixed-qd32")))


def test_too_few_samples_fires_once_a_cell_on_the_merged_trials(judge: Judge) -> None:
    (found,) = of("too-few-samples", judge(Stored("size-bound"), Stored("size-bound")))
    assert found.evidence["latencies"] == 128
    assert found.evidence["needed_for_p99.9"] == 10_000
    assert "p95 and p99 and" in found.message


def test_too_few_samples_is_silent_when_trials_together_suffice(judge: Judge) -> None:
    one = Stored("good-randread-qd1")  # 78,931 reads
    assert not of("too-few-samples", judge(one, one))


def test_single_trial_fires(judge: Judge) -> None:
    (found,) = of("single-trial", judge(Stored(), None))
    assert found.evidence == {"trials": 1, "planned": 2}


def test_single_trial_is_silent_on_two(judge: Judge) -> None:
    assert not of("single-trial", judge(Stored(), Stored()))


@pytest.mark.parametrize(
    ("ended_at", "way", "step_s"),
    [
        ("2026-11-21T03:00:05Z", "ahead by 1.08e+04 s", 10800),
        ("2026-11-20T23:00:05Z", "back", -3600),
    ],
)
def test_clock_stepped_fires_in_both_directions(
    judge: Judge, ended_at: str, way: str, step_s: float
) -> None:
    (found,) = of("clock-stepped", judge(Stored(record={"ended_at": ended_at})))
    assert found.severity is Severity.INFO
    assert way in found.message
    assert found.evidence["step_s"] == step_s


@pytest.mark.parametrize("ended_at", ["2026-11-21T00:00:05.9Z", "", "yesterday"])
def test_clock_stepped_is_silent_on_a_slew_and_without_a_time(judge: Judge, ended_at: str) -> None:
    assert not of("clock-stepped", judge(Stored(record={"ended_at": ended_at})))


def guarded(folder: Path, stored: Stored, one: Cell | None = None, **guard: Any) -> list[Finding]:
    """The findings of capped-by-budget on a run of one trial with a guard."""
    run = build(folder, {"a": (one or cell(), [stored])})
    plan = run.plan.model_copy(update={"guard": Guard(**guard)})
    (folder / layout.PLAN).write_bytes(layout.encode(plan))
    return of("capped-by-budget", audit(Run(folder)))


def test_capped_by_budget_fires_where_the_rate_is_the_budget(tmp_path: Path) -> None:
    (found,) = guarded(tmp_path / "iops", rate(499.0, 4096), iops=500)
    assert (found.workload, found.severity) == ("randread", Severity.WARNING)
    assert found.evidence["budget_iops"] == 500
    assert guarded(tmp_path / "bytes", rate(499.0, 4096), bandwidth=500 * 4096)


def test_capped_by_budget_is_silent_on_a_slower_target(tmp_path: Path) -> None:
    assert not guarded(tmp_path / "slow", rate(430.0, 4096), iops=500)
    phase = cell().workload.phases[0].model_copy(update={"rate_iops": 499.0})
    workload = cell().workload.model_copy(update={"phases": (phase,)})
    open_loop = cell().model_copy(update={"workload": workload})
    assert not guarded(tmp_path / "open", rate(499.0, 4096), open_loop, iops=500)
    assert not of("capped-by-budget", audit(build(tmp_path / "no", {"a": (cell(), [Stored()])})))
