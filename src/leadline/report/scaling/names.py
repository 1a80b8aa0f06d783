"""What curves are called: as little as tells them apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leadline.analysis.scaling.curves import LoadCurve
from leadline.analysis.scaling.study import CurveStudy, ScalingStudy
from leadline.archive.reader import Run
from leadline.report.wording import op_text, visible


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCurve:
    """A curve that has levels enough. `name` tells it from all others, `label` from those of the
    same workload and operation."""

    name: str
    label: str
    study: CurveStudy

    @property
    def curve(self) -> LoadCurve:
        return self.study.curve


def named_curves(study: ScalingStudy) -> tuple[NamedCurve, ...]:
    """The curves of at least two levels, or with neighbours; what all have in common is in no
    name, unless there is one curve."""
    found = [one for one in study.curves if one.levels > 1 or one.disturbances]
    parts = [
        (run_name(study, one.run), one.curve.target, one.curve.workload, op_text(one.curve.op))
        for one in found
    ]
    told = [len({one[place] for one in parts}) > 1 for place in range(4)]
    if not any(told):
        told = [False, True, True, False]
    system = told[:2] if any(told[:2]) else [False, True]
    names = [_joined(mine, told) for mine in parts]
    return tuple(
        NamedCurve(
            name=name if names.count(name) == 1 else f"{name} · {_depth(one.curve)}",
            label=_joined(mine[:2], system)
            + (f" · {_depth(one.curve)}" if names.count(name) > 1 else ""),
            study=one,
        )
        for one, mine, name in zip(found, parts, names, strict=True)
    )


def _joined(parts: Sequence[str], told: Sequence[bool]) -> str:
    return " · ".join(visible(part) for part, one in zip(parts, told, strict=True) if part and one)


def run_name(study: ScalingStudy, run: Run) -> str:
    """What tells runs apart; empty where there is one."""
    return run.manifest.cluster_label or run.id if len(study.runs) > 1 else ""


def _depth(curve: LoadCurve) -> str:
    if curve.iodepth is None:
        return f"by {curve.axis.value}"
    jobs = f" x {curve.numjobs} jobs" if curve.numjobs not in (None, 1) else ""
    return f"depth {curve.iodepth}{jobs}"
