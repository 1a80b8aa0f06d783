"""fio's engines for files: what it writes as reads are files created, queried or deleted."""

from __future__ import annotations

import json

import pytest

from leadline.formats.fio.json_output import parse_fio_json
from leadline.metrics import Op


@pytest.mark.parametrize("shared", [False, True], ids=["own option", "global option"])
@pytest.mark.parametrize(
    ("engine", "op"),
    [("filecreate", Op.WRITE), ("filestat", Op.READ), ("filedelete", Op.TRIM)],
)
def test_files_are_operations_without_bytes(engine: str, op: Op, shared: bool) -> None:
    latency = {"min": 1000, "max": 3000, "mean": 2000.0, "N": 2, "bins": {"1000": 1, "3000": 1}}
    read = {
        "io_bytes": 8192, "bw_bytes": 819200, "iops": 200.0, "runtime": 10, "total_ios": 2,
        "slat_ns": {"min": 0, "max": 0, "mean": 0.0, "N": 0}, "clat_ns": latency,
        "lat_ns": {"min": 0, "max": 0, "mean": 0.0, "N": 0},
    }  # fmt: skip
    option = {"ioengine": engine}
    job = {"jobname": "a", "groupid": 0, "error": 0, "job options": option, "read": read}
    job["job options"] = {} if shared else option
    written = {"fio version": "fio-3.33", "global options": option if shared else {}, "jobs": [job]}
    (found,) = parse_fio_json(json.dumps(written).encode()).jobs
    (operation,) = found.operations
    assert (operation.op, operation.iops, operation.total_ios) == (op, 200.0, 2)
    assert (operation.bandwidth_bps, operation.io_bytes) == (None, None)
    assert operation.total == operation.completion
    assert operation.total is not None
    assert operation.total.mean_s == pytest.approx(2e-6)
