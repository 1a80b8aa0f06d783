"""Request to `rados bench` or `rbd bench`, as stored in the folder of a trial.

The output of these tools does not show all of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from leadline.files import read_content
from leadline.formats.json_lines import parse_document
from leadline.formats.result import FormatError, JobOptions
from leadline.metrics import Op
from leadline.plan.workload import Pattern, Phase

# rbd bench repeats one random byte, rados bench the letter z behind a short head (measured,
# docs/internals/ceph-bench-engines.md). The values are those of fio's option.
BUFFERS = {"rbd bench": "one random byte", "rados bench": "z"}

# The request, in the folder of a trial.
REQUEST_FILE = "bench.json"


class BenchRequest(BaseModel):
    """Phases that run one after the other, each for `runtime_s` behind a ramp of its own, or
    `fill_bytes` to be laid out. Sizes are bytes, durations seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tool: Literal["rados bench", "rbd bench"]
    phases: tuple[Phase, ...] = ()
    runtime_s: float = Field(default=0.0, ge=0)
    ramp_s: float = Field(default=0.0, ge=0)
    direct: bool = True
    fill_bytes: int = Field(default=0, ge=0)

    def text(self) -> str:
        """Format the request as it is stored next to the output."""
        return self.model_dump_json(indent=2) + "\n"

    def options(self, phase: Phase) -> JobOptions:
        """A phase in the words of fio's options, where they mean the same."""
        raw = {
            "rw": phase.pattern.value,
            "bs": str(phase.block_size),
            "iodepth": str(phase.iodepth),
            "numjobs": "1",
            "ioengine": self.tool.replace(" ", "-"),
            "direct": str(int(self.direct)),
            "size": str(phase.size),
        }
        if self.fill_bytes:
            raw["size"] = str(self.fill_bytes)
        else:
            raw["runtime"] = f"{round(self.runtime_s * 1000)}ms"
            raw["time_based"] = "1"
        if phase.read_share is not None:
            raw["rwmixread"] = str(phase.read_share)
        if Op.WRITE in phase.pattern.ops:
            raw["buffer_pattern"] = BUFFERS[self.tool]
        return JobOptions(raw=raw)


def fill_phase(block_size: int, iodepth: int, size: int) -> Phase:
    """The layout of data, asked for as one phase of writing."""
    return Phase(
        name="prefill",
        pattern=Pattern.WRITE,
        block_size=block_size,
        iodepth=iodepth,
        numjobs=1,
        size=size,
    )


def read_bench_request(folder: Path, tool: Literal["rados bench", "rbd bench"]) -> BenchRequest:
    """The request of a trial's folder. Raises FormatError."""
    content = _read_content(folder / REQUEST_FILE, f"{tool} has no request")
    request = parse_bench_request(content)
    if request.tool != tool:
        raise FormatError.unreadable(f"the request is to {request.tool}, not to {tool}")
    return request


def parse_bench_request(content: bytes) -> BenchRequest:
    """Parse a request. Raises FormatError with the path of the first fault."""
    return parse_document(content, BenchRequest, "the request to the benchmark tool")


def read_output_file(path: Path, tool: str) -> bytes:
    """An output of a tool. Raises FormatError, `empty-result` where there is none."""
    content = _read_content(path, f"{tool} wrote no {path.name}")
    if not content.strip():
        raise FormatError.empty(f"{tool} wrote nothing into {path.name}")
    return content


def _read_content(path: Path, absent: str) -> bytes:
    try:
        return read_content(path)
    except FileNotFoundError as error:
        raise FormatError.empty(absent) from error
    except OSError as error:
        raise FormatError.unreadable(f"{path.name} cannot be read: {error.strerror}") from error
