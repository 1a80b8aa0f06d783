"""What a trial asks of a benchmark program that makes its own data, and its output files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from leadline.files import ReadingCost, read_content
from leadline.formats.json_lines import parse_document
from leadline.formats.result import FormatError
from leadline.plan.workload import Pattern, Phase, Workload

REQUEST_FILE: Final = "program.json"
# Bytes of one unit of pgbench's scale, 100,000 accounts with their index (PostgreSQL 15).
SCALE_BYTES: Final = 16 << 20
# Latencies of all transactions are kept for so many seconds; of longer trials, a random share.
LOGGED_S: Final = 120.0
_VOLUME = re.compile(r"(volume-([1-9]\d{0,3})\.)(?P<name>.+)")


class Program(StrEnum):
    """The benchmark programs, by the name of their engine in the archive."""

    PGBENCH = "pgbench"
    SYSBENCH = "sysbench fileio"


# pgbench's built-in scripts: reads and writes of a bank, its updates of one table, its reads.
SCRIPTS: Final[Mapping[Pattern, str]] = {
    Pattern.RANDRW: "tpcb-like",
    Pattern.RANDWRITE: "simple-update",
    Pattern.RANDREAD: "select-only",
}
# `seqrewr` writes files that exist, as all other modes do; `seqwr` would make new ones.
MODES: Final[Mapping[Pattern, str]] = {
    Pattern.READ: "seqrd",
    Pattern.WRITE: "seqrewr",
    Pattern.RANDREAD: "rndrd",
    Pattern.RANDWRITE: "rndwr",
    Pattern.RANDRW: "rndrw",
}


class ProgramRequest(BaseModel):
    """One trial: the phase's `numjobs` are connections of pgbench or threads of sysbench, its
    `size` all data together."""

    schema_: Literal["leadline/program/1"] = Field(default="leadline/program/1", alias="schema")
    program: Program
    phase: Phase
    direct: bool
    runtime_s: float = Field(gt=0)
    ramp_s: float = Field(ge=0)
    seed: int = Field(ge=0)

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True
    )

    @classmethod
    def of_workload(cls, program: Program, workload: Workload, seed: int) -> ProgramRequest:
        (phase,) = workload.phases
        return cls(
            program=program,
            phase=phase,
            direct=workload.direct,
            # Both programs take whole seconds.
            runtime_s=max(1, round(workload.runtime_s)),
            ramp_s=round(workload.ramp_s),
            # Both programs take 31 bits.
            seed=seed % (1 << 31),
        )

    @property
    def scale(self) -> int:
        return max(1, self.phase.size // SCALE_BYTES)

    @property
    def logged_share(self) -> float:
        """The share of transactions whose latency is kept."""
        return min(1.0, round(LOGGED_S / self.runtime_s, 4))

    def text(self) -> str:
        return self.model_dump_json(indent=2, by_alias=True) + "\n"


def parse_program_request(content: bytes) -> ProgramRequest:
    """Raises FormatError with the path of the first fault."""
    return parse_document(content, ProgramRequest, "the request to the benchmark program")


def read_request(folder: Path) -> ProgramRequest:
    """The request of a trial's folder. Raises FormatError."""
    return parse_program_request(read_file(folder / REQUEST_FILE))


def read_file(path: Path, cost: ReadingCost | None = None) -> bytes:
    """An output file. Raises FormatError: `empty-result` where there is none."""
    try:
        return read_content(path) if cost is None else read_content(path, cost=cost)
    except FileNotFoundError as error:
        raise FormatError.empty(f"the program wrote no {path.name}") from error
    except OSError as error:
        raise FormatError.unreadable(f"{path.name} cannot be read: {error.strerror}") from error


def output_prefixes(folder: Path, name: str) -> dict[str, str]:
    """What the output files of each volume begin with, by the volume's name; both are empty for a
    single volume. Raises FormatError where a volume has no file `name`."""
    if (folder / name).exists() or not folder.is_dir():
        return {"": ""}
    found = [match for path in folder.iterdir() if (match := _VOLUME.fullmatch(path.name))]
    numbers = {int(match[2]) for match in found}
    complete = {int(match[2]): match[1] for match in found if match["name"] == name}
    for number in range(1, max(numbers, default=1) + 1):
        if number not in complete:
            raise FormatError.empty(
                f"the program wrote no {name}" + (f" for volume {number}" if numbers else "")
            )
    return {f"volume {number}": complete[number] for number in sorted(complete)}
