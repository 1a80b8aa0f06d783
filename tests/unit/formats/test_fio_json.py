from __future__ import annotations

import contextlib
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.formats.fio_json import parse_fio_json
from leadline.formats.output import EngineOutput, FormatError
from leadline.metrics import PERCENTILES, Metric, Op
from tests.conftest import RECORDED

MIXED = (RECORDED / "mixed-70-30-4k-qd32" / "fio.json").read_bytes()


def test_a_mixed_job_gives_read_write_and_their_total() -> None:
    output = parse_fio_json(MIXED)
    assert output.version == "fio-3.33"
    (job,) = output.jobs
    read, write, total = job.with_total()
    assert (read.op, write.op, total.op) == (Op.READ, Op.WRITE, Op.TOTAL)
    assert total.iops == read.iops + write.iops
    assert total.total is not None
    assert read.total is not None
    assert write.total is not None
    assert total.total.count == read.total.count + write.total.count
    assert total.total.histogram is not None
    assert total.total.histogram.count == total.total.count


def test_figures_are_in_base_units() -> None:
    raw = orjson.loads(MIXED)["jobs"][0]["read"]
    read = parse_fio_json(MIXED).jobs[0].operations[0]
    assert read.bandwidth_bps == raw["bw_bytes"]
    assert read.runtime_s == raw["runtime"] / 1000
    assert read.total is not None
    assert read.total.mean_s == raw["lat_ns"]["mean"] / 1e9


def test_percentiles_from_bins_are_fios_own() -> None:
    """fio computes percentiles from the same buckets; ours must be the same to the bucket."""
    for folder in RECORDED.iterdir():
        content = (folder / "fio.json").read_bytes()
        for raw, job in zip(
            orjson.loads(content)["jobs"], parse_fio_json(content).jobs, strict=True
        ):
            for operation in job.operations:
                theirs = raw[operation.op.value]["lat_ns"]["percentile"]
                ours = operation.metrics()
                for metric in PERCENTILES:
                    if ours[metric] is not None:
                        assert metric.quantile is not None
                        assert ours[metric] == theirs[f"{metric.quantile * 100:.6f}"] / 1e9


def test_a_percentile_without_enough_samples_is_not_shown() -> None:
    document = orjson.loads(MIXED)
    document["jobs"][0]["read"]["lat_ns"]["bins"] = {"1000": 999}
    operation = parse_fio_json(orjson.dumps(document)).jobs[0].operations[0]
    metrics = operation.metrics()
    assert metrics[Metric.LATENCY_P95] == 1e-6
    assert metrics[Metric.LATENCY_P99] is None


def test_latency_that_was_not_measured_is_none_and_not_zero() -> None:
    document = orjson.loads(MIXED)
    for key in ("slat_ns", "clat_ns", "lat_ns"):
        document["jobs"][0]["read"][key] = {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0}
    operation = parse_fio_json(orjson.dumps(document)).jobs[0].operations[0]
    assert operation.total is None
    assert operation.metrics()[Metric.LATENCY_MEAN] is None
    assert operation.metrics()[Metric.IOPS] == operation.iops


def test_noise_before_the_json_is_kept_apart() -> None:
    output = parse_fio_json(b"\nfio: terminating on signal 2\n" + MIXED)
    assert output.noise == "fio: terminating on signal 2"
    assert output.jobs == output.jobs


@pytest.mark.parametrize(
    ("content", "condition"),
    [
        (b"", "empty-result"),
        (b"\n \n", "empty-result"),
        (b"fio: terminating on signal 15\n", "truncated-result"),
        (MIXED[: len(MIXED) // 2], "truncated-result"),
        (MIXED[:1000], "truncated-result"),
        (b'{"fio version": fio-3.33, "jobs": []}', "unreadable-result"),
        (b"[1, 2]", "truncated-result"),
        (b'{"fio version": "fio-2.18", "jobs": []}', "unreadable-result"),
        (b'{"fio version": "fio-3.33"}', "unreadable-result"),
        (b'{"fio version": "fio-3.33", "jobs": [7]}', "unreadable-result"),
        (MIXED.replace(b'"iops" : ', b'"iops" : -', 1), "unreadable-result"),
    ],
)
def test_what_cannot_be_understood_is_an_error_with_its_kind(
    content: bytes, condition: str
) -> None:
    with pytest.raises(FormatError) as caught:
        parse_fio_json(content)
    assert caught.value.condition == condition


def test_an_error_says_where() -> None:
    with pytest.raises(FormatError) as caught:
        parse_fio_json(MIXED.replace(b'"total_ios" : ', b'"total_ios" : "x', 1))
    assert "line" in str(caught.value)


@given(st.integers(0, len(MIXED)), st.integers(0, len(MIXED)), st.binary(max_size=8))
def test_the_parser_is_total(start: int, end: int, patch: bytes) -> None:
    content = MIXED[:start] + patch + MIXED[end:]
    with contextlib.suppress(FormatError):
        assert isinstance(parse_fio_json(content), EngineOutput)


def test_real_files_of_fio_3_are_read_or_refused_with_a_reason(shared: Path) -> None:
    read = refused = 0
    for path in sorted((shared / "corpus").rglob("*.json")):
        content = path.read_bytes()
        if b"fio version" not in content[:100_000]:
            continue
        try:
            output = parse_fio_json(content)
        except FormatError:
            refused += 1
            continue
        read += 1
        for job in output.jobs:
            for operation in job.operations:
                assert operation.iops >= 0
    assert read > 100, "the corpus holds more readable fio 3 files than that"
    assert refused > 5, "and some that are of fio 2, cut or in a layout not read yet"
