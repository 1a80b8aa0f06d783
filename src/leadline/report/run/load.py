"""The load curves of a run on its own page."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.analysis.cells import CellFigure
from leadline.analysis.scaling.curves import load_curves
from leadline.analysis.scaling.study import ScalingStudy, study
from leadline.archive.reader import Run
from leadline.findings import Finding
from leadline.report.scaling.sections import scaling_sentences

# A summary is read at once; the section on the curves has them all.
_MOST_SENTENCES = 4


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


def load_sentences(loads: ScalingStudy) -> tuple[str, ...]:
    """What the load curves say, for the summary of a run that is about other things, too."""
    said = scaling_sentences(loads)
    if len(said) <= _MOST_SENTENCES:
        return said
    return (*said[: _MOST_SENTENCES - 1], "The other load curves: `leadline scale` tells them.")
