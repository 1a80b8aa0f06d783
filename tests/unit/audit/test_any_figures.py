"""Whatever figures a parser returns, the audit ends, and says only what JSON can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.audit.evidence import CellEvidence, Place, RunEvidence, walk
from leadline.audit.gathering import with_neighbours
from leadline.audit.registry import RULES
from leadline.formats.result import DiskUse, EngineOutput, JobOptions, JobResult, Latency, Operation
from leadline.metrics import Op
from leadline.plan.models import Cell
from leadline.plan.workload import Workload
from tests.unit.audit.published import audit_output, output_evidence

NUMBERS = st.sampled_from([0.0, 5e-324, 1e-9, 1.0, 4096.0, 1e308]) | st.floats(
    min_value=0, allow_nan=False, allow_infinity=False
)
FIGURE = st.none() | NUMBERS
COUNT = st.none() | st.sampled_from([0, 1, 2**63 - 1]) | st.integers(0, 2**63 - 1)
QUANTILES = st.dictionaries(st.sampled_from([0.01, 0.5, 0.99]), NUMBERS)
LATENCY = st.none() | st.builds(
    Latency, min_s=FIGURE, max_s=FIGURE, mean_s=FIGURE, count=COUNT, percentiles=QUANTILES
)
OPERATION = st.builds(
    Operation,
    op=st.sampled_from(Op),
    iops=FIGURE,
    bandwidth_bps=FIGURE,
    total_ios=COUNT,
    io_bytes=COUNT,
    runtime_s=FIGURE,
    submission=LATENCY,
    completion=LATENCY,
    total=LATENCY,
)
WORDS: Mapping[str, list[str]] = {
    "rw": ["randread", "randrw", "write", "no such"],
    "bs": ["4k", "0", "1M,4k", "\x00", "9" * 40],
    "iodepth": ["1", "0", "-3", "64", "9" * 30, "many"],
    "numjobs": ["1", "0", "16", "x"],
    "size": ["10G", "0", "100%"],
    "runtime": ["60", "0", "5m", "soon"],
    "ioengine": ["psync", "libaio", "rbd", ""],
    "direct": ["0", "1"],
    "group_reporting": ["", "0"],
    "rwmixread": ["70", "x", "-1"],
    "filename": ["/dev/nvme0n1", "/mnt/cephfs/\x1b[31m", "nvme-tcp:"],
}
OPTIONS = st.fixed_dictionaries(
    {}, optional={key: st.sampled_from(values) for key, values in WORDS.items()}
)
JOB = st.builds(
    JobResult,
    name=st.sampled_from(["a", "b", ""]),
    group=st.integers(0, 2),
    options=st.builds(JobOptions, raw=OPTIONS, whole=st.booleans()),
    job_runtime_s=NUMBERS,
    elapsed_s=NUMBERS,
    user_cpu=FIGURE,
    system_cpu=FIGURE,
    depth_levels=st.dictionaries(
        st.sampled_from(["1", "2", ">=64"]), st.floats(0, 1e9, allow_nan=False)
    ),
    operations=st.lists(OPERATION, max_size=3).map(tuple),
    host=st.sampled_from(["", "h"]),
)
DISK = st.builds(
    DiskUse,
    name=st.just("sda"),
    read_ios=st.integers(0, 2**63),
    write_ios=st.integers(0, 2**63),
)
OUTPUT = st.builds(
    EngineOutput,
    version=st.just("x"),
    jobs=st.lists(JOB, min_size=1, max_size=3).map(tuple),
    disks=st.lists(DISK, max_size=2).map(tuple),
)


def finite(evidence: Mapping[str, Any]) -> bool:
    return all(math.isfinite(value) for value in evidence.values())


@pytest.mark.thorough
@settings(max_examples=5 * settings.default.max_examples)
@given(OUTPUT)
def test_an_output_of_any_figures_is_audited(output: EngineOutput) -> None:
    for finding in audit_output(output):
        assert finite(finding.evidence)
        assert finding.message


@pytest.mark.thorough
@settings(max_examples=2 * settings.default.max_examples)
@given(st.lists(OUTPUT, min_size=1, max_size=3), st.sampled_from(["ceph-rbd", "disk"]))
def test_a_run_of_any_figures_is_audited(outputs: list[EngineOutput], target: str) -> None:
    cell = Cell(target=target, workload=Workload(name="w", runtime_s=0.0), level="")
    place = Place(target=target, workload="w")
    trials = tuple(
        replace(output_evidence(output), place=place, cell=cell, network="the test says so")
        for output in outputs
    )
    cells = tuple(
        CellEvidence(place=place, cell=cell, trials=given)
        for given in (trials, trials[:1], trials[-1:])
    )
    run = with_neighbours(RunEvidence(place=Place(), cells=cells))
    for evidence in walk(run):
        for rule in RULES:
            assert all(finite(one.evidence) for one in rule.findings(evidence))
