from __future__ import annotations

import pytest

from leadline.formats.foreign.density_ramp import IMPORTER, parse_ramp
from leadline.formats.result import FormatError
from leadline.metrics import Op
from tests.unit.formats.foreign.samples import IMPORTS, job_of, output_of, refused

RECORDED = IMPORTS / "density-ramp"
RAMP = (RECORDED / "ramp.csv").read_bytes()
SUMMARY = (RECORDED / "ramp-summary.json").read_bytes()


def test_each_step_is_a_level() -> None:
    results = parse_ramp(RAMP)
    options = [job_of(result).options for result in results]
    assert [option.numjobs for option in options] == [1, 2, 4, 8, 16, 32, 21, 26]
    assert {option.text("rate_iops") for option in options} == {"500"}
    assert {result.workload for result in results} == {"density ramp"}


def test_the_figures_of_a_step() -> None:
    breach = parse_ramp(RAMP)[5]
    read, write, total = job_of(breach).operations
    assert (read.op, read.iops, write.op, write.iops) == (Op.READ, 15968, Op.WRITE, 15551)
    assert (total.op, total.iops) == (Op.TOTAL, 15968 + 15551)
    assert total.bandwidth_bps == pytest.approx(123.35 * 2**20)
    # 4 KiB per I/O: `mbs` are MiB.
    assert total.bandwidth_bps / total.iops == pytest.approx(4096, rel=0.005)


def test_latencies_of_single_machines_are_no_figures() -> None:
    breach = parse_ramp(RAMP)[5]
    assert all(part.total is None and part.completion is None for part in job_of(breach).operations)
    (note,) = output_of(breach).notes
    assert (note.where, "p99 200.28 ms is the largest" in note.fact) == ("line 7", True)
    assert "means over 32 VMs" in note.fact
    assert "service level not met" in note.fact


def test_the_summary_names_the_pool() -> None:
    assert IMPORTER.bundles(("a/ramp.csv", "a/ramp-summary.json", "b/ramp.csv", "x.json")) == (
        *(("a/ramp.csv", "a/ramp-summary.json"), ("b/ramp.csv",), ("x.json",)),
    )
    results = IMPORTER.read({"ramp.csv": RAMP, "ramp-summary.json": SUMMARY})
    assert {result.target for result in results} == {"raid5-ftt1"}
    assert {result.target for result in parse_ramp(RAMP)} == {""}


def test_a_step_without_results() -> None:
    failed = RAMP.replace(b"1,500,499,499,3.91,0.96,1.29,2.11,true", b"1,500,0,0,0,0,0,0,false")
    assert refused(parse_ramp(failed)[0]).condition == "empty-result"


@pytest.mark.parametrize(
    ("content", "condition", "fact"),
    [
        (b"\n", "empty-result", "empty"),
        (RAMP[: RAMP.index(b"\n")], "empty-result", "no step"),
        (RAMP.replace(b"sla_pass", b"pass"), "unreadable-result", "no density ramp"),
        (RAMP.replace(b",3.91,", b",3.91,,"), "unreadable-result", "10 cells"),
        (RAMP[: RAMP.rindex(b",36.96")], "truncated-result", "7 cells"),
        (RAMP.replace(b",499,499,", b",499,many,"), "unreadable-result", "total_write_iops"),
    ],
)
def test_what_is_not_understood_is_refused(content: bytes, condition: str, fact: str) -> None:
    with pytest.raises(FormatError) as error:
        parse_ramp(content)
    assert error.value.condition == condition
    assert fact in error.value.fact


def test_its_file_is_recognised() -> None:
    assert IMPORTER.recognises("any", RAMP)
    assert not IMPORTER.recognises("any", b"vm_count,rate_iops\n1,2\n")
