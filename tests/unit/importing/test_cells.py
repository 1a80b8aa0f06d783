"""From results to the plan that they look like they followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.formats.fio.json_import import read
from leadline.formats.importer import Result
from leadline.formats.result import EngineOutput, FormatError, JobOptions, JobResult, Operation
from leadline.importing.cells import ImportedTrial, imported_plan, imported_trial
from leadline.metrics import Op
from leadline.plan.models import Plan

RECORDED = Path(__file__).parents[2] / "recorded" / "imports"


def result(workload: str, **options: str) -> Result:
    job = JobResult(
        name=workload,
        options=JobOptions(raw=options, whole=False),
        operations=(Operation(op=Op.READ, iops=1.0),),
    )
    return Result(workload=workload, output=EngineOutput(version="fio-3.33", jobs=(job,)))


def plan(*results: tuple[str, Result]) -> Plan:
    trials = [
        imported_trial(number, target, "file.json", "fio", one)
        for number, (target, one) in enumerate(results, start=1)
    ]
    return imported_plan("run", ["fio-json"], trials, {"rep3": {"cores": "2"}})


def levels(made: Plan) -> list[str]:
    return [made.cells[trial.cell].level for trial in made.trials]


def test_results_of_one_load_on_one_target_are_its_repeats() -> None:
    made = plan(*(("rep3", result("a", rw="read", iodepth="16")) for _ in range(3)))
    assert len(made.cells) == 1
    assert [trial.block for trial in made.trials] == [1, 2, 3]
    assert made.repeats == 3
    assert levels(made) == ["", "", ""]
    assert [target.labels for target in made.targets] == [{"cores": "2"}]


def test_what_reports_loads_of_one_name_apart_is_their_level() -> None:
    made = plan(
        ("rep3", result("a", rw="read", bs="4k", iodepth="1")),
        ("rep3", result("a", rw="read", bs="4k", iodepth="16")),
        ("rep3", result("a", rw="read", bs="4k")),
        ("rep2", result("a", rw="read", bs="4k", iodepth="16")),
    )
    assert levels(made) == ["iodepth=1", "iodepth=16", "iodepth=?", ""]
    assert len(made.cells) == 4


def test_both_spellings_of_an_option_are_one() -> None:
    made = plan(
        ("rep3", result("a", readwrite="read", blocksize="4k")),
        ("rep3", result("a", rw="read", bs="4k")),
    )
    assert len(made.cells) == 1


def test_a_cut_result_does_not_set_its_repeats_apart() -> None:
    cut = Result(workload="a", output=FormatError("truncated-result", "cut"))
    made = plan(("rep3", result("a", rw="read", bs="4k", iodepth="1")), ("rep3", cut))
    assert levels(made) == ["", ""]
    assert made.repeats == 2


def test_an_option_that_only_one_tool_reports_is_no_difference() -> None:
    made = plan(
        ("rep3", result("a", rw="read", direct="1", size="1G")), ("rep3", result("a", rw="read"))
    )
    assert len(made.cells) == 1


@pytest.mark.parametrize(
    ("option", "one", "other"),
    [("ioengine", "io_uring", "libaio"), ("direct", "0", "1"), ("size", "1G", "100G")],
)
def test_other_work_at_the_same_depth_is_another_cell(option: str, one: str, other: str) -> None:
    made = plan(
        *(("rep3", result("a", iodepth="128", **{option: value})) for value in (one, other))
    )
    assert levels(made) == [f"{option}={one}", f"{option}={other}"]


def test_published_io_uring_and_spdk_at_one_depth_are_two_cells() -> None:
    files = sorted((RECORDED / "fio-json").glob("stonet-3.35-engines-*.txt"))
    results = [read({file.name: file.read_bytes()})[0] for file in files]
    made = plan(*(("nvme", one) for one in results))
    assert [level.split()[:2] for level in levels(made)] == [
        ["iodepth=2", "ioengine=spdk"],
        ["iodepth=128", "ioengine=io_uring"],
        ["iodepth=128", "ioengine=spdk"],
    ]
    assert [trial.block for trial in made.trials] == [1, 1, 1]


def test_a_result_without_a_name_has_that_of_its_file() -> None:
    broken = Result(workload="", output=FormatError("empty-result", "fio's output is empty"))
    trial = imported_trial(1, "rep3", "deep/qd1.json", "fio", broken)
    assert trial == ImportedTrial(
        id="t0001",
        target="rep3",
        workload="deep_qd1",
        tool="fio",
        options=JobOptions(raw={}, whole=False),
        work={},
    )


def test_a_target_that_is_a_url_is_one() -> None:
    made = plan(("rbd:rep3", result("a")), ("Samsung 850", result("a")))
    assert [target.url for target in made.targets] == ["rbd:rep3", ""]
    assert made.targets[1].kind is None


def test_names_that_a_plan_cannot_hold_are_made_fit() -> None:
    made = plan(("t", result("a/b\n\x1b[1m" + "x" * 500)), ("t", result("///")))
    assert made.cells[0].workload.name.startswith("a_b__[1mxxx")
    assert len(made.cells[0].workload.name) == 300
    assert made.cells[1].workload.name == "___"
    assert Plan.model_validate(made.model_dump(by_alias=True)) == made
