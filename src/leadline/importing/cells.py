"""From results of anybody's tools to the cells and trials of a plan."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from leadline.formats.importer import Result
from leadline.formats.output import EngineOutput, JobOptions
from leadline.plan.models import Cell, Plan, Recorded, Target, Trial, Workload
from leadline.plan.target_url import parse_target_url

_LONGEST_NAME = 300
_NOT_IN_NAMES = re.compile(r"[\x00-\x1f\x7f/]")
# What makes two results of one name different loads, by fio's option and its other spelling.
_SHAPE = {
    "rw": "readwrite",
    "bs": "blocksize",
    "rwmixread": "",
    "iodepth": "",
    "numjobs": "",
    "rate_iops": "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTrial:
    """One result on its way into an archive. `options` are those of its first job, `shape` what
    of them tells one load from another."""

    id: str
    target: str
    workload: str
    tool: str
    options: JobOptions
    shape: tuple[tuple[str, str], ...]


def imported_trial(number: int, target: str, file: str, tool: str, result: Result) -> ImportedTrial:
    """The trial that a result becomes; `file` names it where it has no name of its own."""
    jobs = result.output.jobs if isinstance(result.output, EngineOutput) else ()
    options = jobs[0].options if jobs else JobOptions(raw={}, whole=False)
    shape = []
    for key, other in _SHAPE.items():
        value = options.raw.get(key, options.raw.get(other, ""))
        if value:
            shape.append((key, value))
    return ImportedTrial(
        id=f"t{number:04d}",
        target=target[:_LONGEST_NAME],
        workload=_name(result.workload or file_stem(file)),
        tool=tool,
        options=options,
        shape=tuple(shape),
    )


def file_stem(file: str) -> str:
    """A file's name without its ending, with the folders that lead to it."""
    path = PurePath(file)
    return str(path.with_suffix("")) if path.stem else file


def imported_plan(
    name: str,
    kinds: Sequence[str],
    trials: Sequence[ImportedTrial],
    labels: Mapping[str, Mapping[str, str]],
) -> Plan:
    """The plan that the trials look like they followed: a cell for each load on each target, and
    results of one cell as its repeats, in the order of `trials`. `labels` are those of the targets
    that have any."""
    levels = _levels(trials)
    cells: dict[tuple[str, str, str], int] = {}
    made: list[Cell] = []
    planned: list[Trial] = []
    repeats: dict[int, int] = {}
    for position, trial in enumerate(trials):
        level = levels[position]
        key = (trial.target, trial.workload, level)
        if key not in cells:
            cells[key] = len(made)
            made.append(Cell(target=trial.target, workload=_workload(trial), level=level))
        cell = cells[key]
        block = repeats[cell] = repeats.get(cell, 0) + 1
        planned.append(Trial(id=trial.id, position=position, block=block, cell=cell, seed=0))
    return Plan(
        name=name,
        description=f"Imported results ({', '.join(sorted(set(kinds)))})",
        targets=tuple(
            _target(one, labels.get(one, {}))
            for one in dict.fromkeys(trial.target for trial in trials)
        ),
        cells=tuple(made),
        trials=tuple(planned),
        repeats=max(repeats.values(), default=1),
        seed=0,
        prefill=False,
        drop_caches=False,
    )


def _levels(trials: Sequence[ImportedTrial]) -> list[str]:
    """What tells the loads of one name apart, for each trial; empty where there is one only."""
    shapes: dict[tuple[str, str], list[dict[str, str]]] = {}
    for trial in trials:
        shapes.setdefault((trial.target, trial.workload), []).append(dict(trial.shape))
    varying = {
        key: [option for option in _SHAPE if len({shape.get(option, "") for shape in found}) > 1]
        for key, found in shapes.items()
    }
    levels = []
    for trial in trials:
        shape = dict(trial.shape)
        options = varying[trial.target, trial.workload]
        levels.append(" ".join(f"{key}={_name(shape.get(key, '?'))}" for key in options))
    return levels


def _workload(trial: ImportedTrial) -> Workload:
    return Workload(
        name=trial.workload,
        recorded=Recorded(tool=trial.tool, options=dict(trial.options.raw)),
        direct=trial.options.direct or False,
        runtime_s=trial.options.seconds("runtime") or 0.0,
    )


def _target(name: str, labels: Mapping[str, str]) -> Target:
    try:
        parse_target_url(name)
    except ValueError:
        return Target(name=name, url="", labels=dict(labels))
    return Target(name=name, url=name, labels=dict(labels))


def _name(text: str) -> str:
    return _NOT_IN_NAMES.sub("_", text)[:_LONGEST_NAME].strip() or "unnamed"
