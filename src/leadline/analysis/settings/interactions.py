"""Whether settings that were tried in all combinations change each other's effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from leadline.analysis.comparison import ComparedCell
from leadline.analysis.settings.changes import combine_samples, common_blocks, mean_changes
from leadline.analysis.settings.facts import Interaction, InteractionCell
from leadline.analysis.verdicts import Pair, Sample, judge
from leadline.metrics import Metric, Op
from leadline.plan.models import Plan
from leadline.plan.settings import State

_Place = tuple[str, str, str, Op | None, Metric]
_Key = tuple[tuple[str, str], ...]
_Samples = Mapping[_Key, Mapping[_Place, Sample]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contrast:
    """Two values next to the values that they replace."""

    first: tuple[str, str]
    second: tuple[str, str]
    references: tuple[str, str]


def interactions(
    plan: Plan, tried: Sequence[tuple[State, ComparedCell, Sample]], band: float
) -> tuple[Interaction, ...]:
    """Test each two values of two settings. `tried` are the cells of each state with the sample of
    the state; the references are the first values of the plan. Without four states with common
    blocks there is no test."""
    samples: dict[_Key, dict[_Place, Sample]] = {}
    for state, cell, sample in tried:
        if cell.rate and cell.judgement.estimate is not None:
            place = cell.target, cell.workload, cell.level, cell.op, cell.metric
            samples.setdefault(_key(state), {})[place] = sample
    values = {setting.name: setting.values for setting in plan.settings}
    names = dict.fromkeys(tuple(state) for state, *_ in tried)
    tests: dict[_Contrast, list[tuple[_Place, Pair]]] = {}
    for together in names:
        for contrast in _contrasts(together, values):
            others = {
                name: values[name]
                for name in together
                if name not in (contrast.first[0], contrast.second[0])
            }
            found = list(_pairs(contrast, others, samples))
            if found:
                tests.setdefault(contrast, []).extend(found)
    return _tested(tests, band)


def _key(state: State) -> _Key:
    return tuple(sorted(state.items()))


def _contrasts(names: Sequence[str], values: Mapping[str, Sequence[str]]) -> Iterator[_Contrast]:
    for first, second in combinations(names, 2):
        for one, other in product(values[first][1:], values[second][1:]):
            yield _Contrast(
                first=(first, one),
                second=(second, other),
                references=(values[first][0], values[second][0]),
            )


def _pairs(
    contrast: _Contrast, others: Mapping[str, Sequence[str]], samples: _Samples
) -> Iterator[tuple[_Place, Pair]]:
    """Yield the pair whose ratio is that of an interaction, for each cell of all its states: both
    values times neither, over the first times the second, in each block."""
    (first, one), (second, other) = contrast.first, contrast.second
    above, below = [], []
    for chosen in product(*others.values()):
        rest = dict(zip(others, chosen, strict=True))
        corners = [
            samples.get(_key({**rest, first: a, second: b}), {})
            for a in (one, contrast.references[0])
            for b in (other, contrast.references[1])
        ]
        above += [corners[0], corners[3]]
        below += [corners[1], corners[2]]
    for place in above[0]:
        parts = [[state.get(place) for state in side] for side in (above, below)]
        sides = [[sample for sample in side if sample is not None] for side in parts]
        if [len(side) for side in sides] != [len(above), len(below)]:
            continue
        blocks = common_blocks([sample for side in sides for sample in side])
        if len(blocks) > 1:
            both, each = (combine_samples(side, blocks, 2 / len(above)) for side in sides)
            yield place, Pair(metric=place[-1], candidate=both, baseline=each)


def _tested(
    tests: Mapping[_Contrast, Sequence[tuple[_Place, Pair]]], band: float
) -> tuple[Interaction, ...]:
    judgements = iter(judge([pair for found in tests.values() for _, pair in found], band))
    cells = {
        contrast: tuple(
            InteractionCell(
                target=target,
                workload=workload,
                level=level,
                op=op,
                metric=metric,
                judgement=next(judgements),
            )
            for (target, workload, level, op, metric), _ in found
        )
        for contrast, found in tests.items()
    }
    changes = mean_changes(
        [[pair for _, pair in found] for found in tests.values()], Metric.IOPS, band
    )
    return tuple(
        Interaction(
            first=contrast.first,
            second=contrast.second,
            references=contrast.references,
            change=change,
            cells=found,
        )
        for (contrast, found), change in zip(cells.items(), changes, strict=True)
        if change is not None
    )
