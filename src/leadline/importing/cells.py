"""From imported results to cells: which are repeats of one load, and what sets loads apart."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from leadline.formats.importer import Result
from leadline.formats.result import EngineOutput, JobOptions
from leadline.formats.work import WORK_OPTIONS, work_options
from leadline.plan.models import Cell, Plan, Target, Trial
from leadline.plan.target_url import parse_target_url
from leadline.plan.workload import Recorded, Workload

_LONGEST_NAME = 300
_NOT_IN_NAMES = re.compile(r"[\x00-\x1f\x7f/]")
# The least that describes a load: one that does not have them is no repeat of one that has.
_MAIN = frozenset({"rw", "bs", "iodepth", "numjobs"})
_TOOL = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTrial:
    """One result on its way into an archive. `options` are those of its first job, `work` those
    that change the work, and its tool; empty for a result without figures. `level` is what the path
    of its file says, `clients` the number of its concurrent clients, 0 where it is unknown."""

    id: str
    target: str
    workload: str
    tool: str
    options: JobOptions
    work: Mapping[str, str]
    level: str = ""
    clients: int = 0


def imported_trial(
    number: int, target: str, file: str, tool: str, result: Result, level: str = ""
) -> ImportedTrial:
    """The trial that a result becomes; `file` names it where it has no name of its own."""
    jobs = result.output.jobs if isinstance(result.output, EngineOutput) else ()
    options = jobs[0].options if jobs else JobOptions(raw={}, whole=False)
    work = {**work_options(options), _TOOL: tool} if jobs else {}
    return ImportedTrial(
        id=f"t{number:04d}",
        target=target[:_LONGEST_NAME],
        workload=_name(result.workload or file_stem(file)),
        tool=tool,
        options=options,
        work=work,
        level=_name(level) if level else "",
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
            _target(target, labels.get(target, {}))
            for target in dict.fromkeys(trial.target for trial in trials)
        ),
        cells=tuple(made),
        trials=tuple(planned),
        repeats=max(repeats.values(), default=1),
        seed=0,
        prefill=False,
        drop_caches=False,
    )


def _levels(trials: Sequence[ImportedTrial]) -> list[str]:
    """Name the options that differ between loads of one name, for each trial; empty for one
    load."""
    works: dict[tuple[str, str, str], list[Mapping[str, str]]] = {}
    for trial in trials:
        if trial.work:
            key = (trial.target, trial.workload, trial.level)
            works.setdefault(key, []).append(trial.work)
    varying = {key: _varying(found) for key, found in works.items()}
    return [
        " ".join(
            (
                *([trial.level] if trial.level else ()),
                *(
                    f"{key}={_name(trial.work.get(key, '?'))}"
                    for key in varying.get((trial.target, trial.workload, trial.level), ())
                ),
            )
        )
        for trial in trials
    ]


def _varying(works: Sequence[Mapping[str, str]]) -> list[str]:
    """List the options that make different work; an option that a tool does not report is no
    difference, unless it is one of those without which a load is unknown."""
    options = []
    for key in (*WORK_OPTIONS, _TOOL):
        values = {work.get(key) for work in works}
        known = values - {None}
        if len(known) > 1 or (known and None in values and key in _MAIN):
            options.append(key)
    return options


def _workload(trial: ImportedTrial) -> Workload:
    return Workload(
        name=trial.workload,
        recorded=Recorded(tool=trial.tool, options=dict(trial.options.raw)),
        direct=trial.options.direct or False,
        runtime_s=trial.options.seconds("runtime") or 0.0,
        clients=trial.clients,
    )


def _target(name: str, labels: Mapping[str, str]) -> Target:
    try:
        parse_target_url(name)
    except ValueError:
        return Target(name=name, url="", labels=dict(labels))
    return Target(name=name, url=name, labels=dict(labels))


def _name(text: str) -> str:
    return _NOT_IN_NAMES.sub("_", text)[:_LONGEST_NAME].strip() or "unnamed"
