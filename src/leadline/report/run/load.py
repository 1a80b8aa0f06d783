"""The load curves of a run on its own page."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.analysis.cells import CellFigure
from leadline.analysis.scaling.curves import load_curves
from leadline.analysis.scaling.study import ScalingStudy, study
from leadline.archive.reader import Run
from leadline.findings import Finding


def study_of(
    run: Run, figures: Sequence[CellFigure], findings: Sequence[Finding]
) -> ScalingStudy | None:
    """None where no workload was measured at two load levels, which most runs are."""
    curves = load_curves(run, figures)
    if not any(len(one.closed) + len(one.offered) > 1 or one.disturbed for one in curves):
        return None
    judged = (tuple(figures), tuple(findings))
    found = study((run,), lambda _: judged)
    return found if found.several_levels else None
