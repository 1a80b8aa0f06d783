"""The JSON answer of `leadline drill`: the contract `leadline/drill/1`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from leadline.analysis.drill import DrilledCell
from leadline.plan.drill import Drill
from leadline.report.answers.base import CellOutput, Output


class MeanOutput(Output):
    """A mean over trials with its 95 % interval. `value` is null where a trial has none, and
    `interval` is null with fewer than two trials."""

    value: float | None
    interval: tuple[float, float] | None
    trials: int


class PhaseMeanOutput(Output):
    """`name` is `before`, `during`, `recovery` or `after`. `ratio` is the rate divided by that
    before. `latency_p99_s` is that of all trials' I/Os together, null with too few."""

    name: str
    iops: MeanOutput
    ratio: MeanOutput
    latency_p99_s: float | None


class DrillPhaseOutput(Output):
    """A phase of a trial, in seconds from the begin of the event."""

    name: str
    begin_s: float
    end_s: float
    iops: float
    latency_p99_s: float | None


class DrillSecondOutput(Output):
    """One second from `begin_s` on. `latency_p99_s` is null with too few I/Os."""

    begin_s: int
    iops: float
    latency_p99_s: float | None


class RecoverySampleOutput(Output):
    at_s: float
    recovering_bps: float


class DrilledTrialOutput(Output):
    """Times are in seconds from the begin of the event. `ended_s`: it was undone, null for a host
    that was added. `whole_s`: all OSDs were up and all PGs active+clean again. `back_s`: from then
    on the rate was at least `floor_iops`. Null: not in the trial. `longest_gap_s` is the longest
    time without a completed I/O, `lost_ios` those missing from the rate before."""

    trial: str
    ended_s: float | None
    whole_s: float | None
    floor_iops: float
    longest_gap_s: float
    gap_begin_s: float
    back_s: float | None
    lost_ios: float
    lost_s: float
    recovered_bytes: float | None
    phases: list[DrillPhaseOutput]
    seconds: list[DrillSecondOutput]
    recovery: list[RecoverySampleOutput]


class MissingTrialOutput(Output):
    """A trial without an answer: `fact` is its error, empty where its drill did not begin."""

    trial: str
    status: str
    fact: str


class DrilledCellOutput(CellOutput):
    """The drills of a cell, over its `trials`."""

    drill: Drill
    event: str
    phases: list[PhaseMeanOutput]
    longest_gap_s: MeanOutput
    back_s: MeanOutput
    whole_s: MeanOutput
    lost_s: MeanOutput
    recovered_bytes: MeanOutput
    trials: list[DrilledTrialOutput]
    missing: list[MissingTrialOutput]


class DrillOutput(Output):
    """What the drills of a run cost its clients, by cell."""

    schema_: Literal["leadline/drill/1"] = Field(default="leadline/drill/1", alias="schema")
    run: str
    cells: list[DrilledCellOutput]


def drill_output(run: str, cells: Sequence[DrilledCell]) -> DrillOutput:
    """The answer about a run."""
    found = [DrilledCellOutput.from_records(cell, event=str(cell.drill.event)) for cell in cells]
    return DrillOutput(run=run, cells=found)
