"""Tables made of real runs: as people make them, wrong in the way that the name says, or right."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from benchmarks.audit.bench import Bench

TABLE = "table.csv"
_COLUMNS = (
    *("cluster", "target", "workload", "op", "pattern", "block_size", "numjobs", "iodepth"),
    *("runtime_s", "engine", "file_size", "iops", "bw_mib_s"),
    *("lat_mean_ms", "lat_p50_ms", "lat_p99_ms"),
)
_DEPTH = 16
_RUNTIME_S = 4
_OPTIONS = (
    "--filename=data", "--size=256M", "--direct=1", "--randrepeat=0", "--bs=4k",
    "--ioengine=libaio", f"--iodepth={_DEPTH}", "--time_based", f"--runtime={_RUNTIME_S}",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of `leadline import table`: IOPS, MiB/s and milliseconds."""

    op: str
    pattern: str
    iops: float
    mib_s: float
    mean_ms: float | None
    p99_ms: float | None


def _measured(bench: Bench, *sections: str) -> list[Row]:
    """What fio says of each direction of each section, once its file is gone."""
    bench.lay_out()
    bench.fio(*_OPTIONS, *sections)
    bench.audited.clear()
    path = bench.out / "fio.json"
    document = json.loads(path.read_text())
    path.unlink()
    shared = document.get("global options", {})
    return [
        Row(
            op=op,
            pattern=(shared | job["job options"])["rw"],
            iops=job[op]["iops"],
            mib_s=job[op]["bw_bytes"] / 2**20,
            mean_ms=job[op]["lat_ns"]["mean"] / 1e6,
            p99_ms=job[op]["clat_ns"]["percentile"]["99.000000"] / 1e6,
        )
        for job in document["jobs"]
        for op in ("read", "write")
        if job[op]["total_ios"]
    ]


def _mix(bench: Bench) -> list[Row]:
    return _measured(bench, "--name=mix", "--rw=randrw", "--rwmixread=70")


def _reads(bench: Bench) -> Row:
    (row,) = _measured(bench, "--name=reads", "--rw=randread")
    return row


def _total(parts: Iterable[Row], pattern: str) -> Row:
    rows = list(parts)
    return Row(
        op="total",
        pattern=pattern,
        iops=sum(row.iops for row in rows),
        mib_s=sum(row.mib_s for row in rows),
        mean_ms=None,
        p99_ms=None,
    )


def _write(bench: Bench, rows: Iterable[Row], workload: str) -> None:
    with (bench.out / TABLE).open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(_COLUMNS)
        for row in rows:
            table.writerow(
                (
                    "lab", "disk", workload, row.op, row.pattern, "4k", 1, _DEPTH, _RUNTIME_S,
                    "libaio", "256M", f"{row.iops:.1f}", f"{row.mib_s:.3f}",
                    "" if row.mean_ms is None else f"{row.mean_ms:.6f}", "",
                    "" if row.p99_ms is None else f"{row.p99_ms:.6f}",
                )
            )  # fmt: skip
    bench.audited.append(TABLE)


def table_honest(bench: Bench) -> None:
    """Reads and writes of a mix, and their total without percentiles."""
    rows = _mix(bench)
    _write(bench, [*rows, _total(rows, "randrw")], "mix")


def table_of_averaged_percentiles(bench: Bench) -> None:
    """The total's p99 is the mean of the p99 of reads and of writes."""
    read, write = _mix(bench)
    assert read.p99_ms is not None
    assert write.p99_ms is not None
    total = replace(_total([read, write], "randrw"), p99_ms=(read.p99_ms + write.p99_ms) / 2)
    _write(bench, [read, write, total], "mix")


def table_of_summed_phases(bench: Bench) -> None:
    """The total adds reads to writes that ran after them."""
    rows = _measured(
        bench, "--name=reads", "--rw=randread", "--name=writes", "--stonewall", "--rw=randwrite"
    )
    _write(bench, [*rows, _total(rows, "randrw")], "reads-then-writes")


def table_with_latency_in_another_unit(bench: Bench) -> None:
    """Microseconds stand in the column for milliseconds."""
    row = _reads(bench)
    assert row.mean_ms is not None
    assert row.p99_ms is not None
    _write(bench, [replace(row, mean_ms=1e3 * row.mean_ms, p99_ms=1e3 * row.p99_ms)], "reads")


def table_with_edited_iops(bench: Bench) -> None:
    """The IOPS were raised by half by hand, and the bandwidth was forgotten."""
    row = _reads(bench)
    _write(bench, [replace(row, iops=1.5 * row.iops)], "reads")


RUNS = (
    table_honest,
    table_of_averaged_percentiles,
    table_of_summed_phases,
    table_with_latency_in_another_unit,
    table_with_edited_iops,
)
