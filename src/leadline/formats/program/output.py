"""The output of a benchmark program as results: one job for each volume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from leadline.formats.fio.logs import Window, add_windows
from leadline.formats.program import pgbench, sysbench
from leadline.formats.program.request import (
    Program,
    ProgramRequest,
    output_prefixes,
    read_file,
    read_request,
)
from leadline.formats.result import EngineOutput, JobResult, Note
from leadline.metrics import Op

_FILES = {Program.PGBENCH: pgbench.OUTPUT_FILE, Program.SYSBENCH: sysbench.OUTPUT_FILE}


def read_program_output(folder: Path) -> EngineOutput:
    """Parse what the programs left in a trial's folder. Raises FormatError."""
    request = read_request(folder)
    jobs: list[JobResult] = []
    notes: list[Note] = []
    for host, prefix in output_prefixes(folder, _FILES[request.program]).items():
        job, found = _read(folder, prefix, request)
        jobs.append(replace(job, host=host))
        notes += found
    return EngineOutput(version=request.program.value, jobs=tuple(jobs), notes=tuple(notes))


def _read(folder: Path, prefix: str, request: ProgramRequest) -> tuple[JobResult, tuple[Note, ...]]:
    if request.program is Program.PGBENCH:
        return pgbench.read_pgbench(folder, prefix, request)
    return sysbench.read_sysbench(folder, prefix, request), ()


def read_program_windows(folder: Path) -> Mapping[Op, tuple[Window, ...]]:
    """Operations per second of all volumes. Raises FormatError."""
    request = read_request(folder)
    name = _FILES[request.program]
    series: dict[Op, list[tuple[Window, ...]]] = {}
    for prefix in output_prefixes(folder, name).values():
        content = read_file(folder / f"{prefix}{name}")
        if request.program is Program.PGBENCH:
            found: Mapping[Op, tuple[Window, ...]] = {
                Op.TRANSACTION: pgbench.parse_windows(content)
            }
        else:
            found = sysbench.parse_windows(content, request.phase.block_size)
        for op, windows in found.items():
            series.setdefault(op, []).append(windows)
    return {op: add_windows(each) for op, each in series.items()}
