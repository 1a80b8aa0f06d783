"""What command line and notebooks ask of the judging wing: runs judged, verified and ranked, the
larger ones by several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from leadline.archive.reader import Run
from leadline.archive.verify import Verification, verify
from leadline.worker import beside, spare_cores

if TYPE_CHECKING:
    from leadline.analysis.cells import CellFigure
    from leadline.analysis.ranking import Ranking
    from leadline.findings import Finding

FiguresAndFindings: TypeAlias = "tuple[tuple[CellFigure, ...], tuple[Finding, ...]]"
Verified: TypeAlias = Callable[[], tuple[Verification, ...]]

# Fewer are read before another process is there.
_WORTH_A_PROCESS = 200


class Judge:
    """Gives a run's figures and findings, worked out once: both sides may be of one run."""

    def __init__(
        self, begun: Mapping[Path, Callable[[], FiguresAndFindings]] | None = None
    ) -> None:
        """`begun` wait for what others work out."""
        self._begun = begun or {}
        self._found: dict[Path, FiguresAndFindings] = {}

    def __call__(self, run: Run) -> FiguresAndFindings:
        if run.path not in self._found:
            begun = self._begun.get(run.path)
            self._found[run.path] = begun() if begun else _judged(run)
        return self._found[run.path]


def _judged(run: Run) -> FiguresAndFindings:
    from leadline.analysis.cells import figures
    from leadline.audit.registry import audit

    findings = audit(run)
    return figures(run, findings), findings


@contextmanager
def judging(runs: Sequence[Run], *, verifying: bool = True) -> Iterator[tuple[Judge, Verified]]:
    """What judges each of these runs, and what gives the verification of each, in their order.

    Large runs are shared with other processes, if there are cores for them: the first is judged
    here, meanwhile the others are, and all are verified (if that will be asked for); small ones
    when they are asked for. To be begun before there are threads. Raises
    LeadlineError(`archive-damaged`) for an archive that no verb opens.
    """
    trials = sum(len(run.trial_folders) for run in runs)
    others = [run.path for run in runs[1:]]
    calls: list[Callable[[], Any]] = [partial(_judged_at, path) for path in others]
    calls += [partial(_verified_at, run.path) for run in runs] if verifying else []
    if not calls or spare_cores() < 1 or trials < _WORTH_A_PROCESS:
        yield Judge(), lambda: tuple(map(verify, runs))
        return
    # What a worker would have to import, each worker would import again.
    import leadline.analysis.cells
    import leadline.audit.registry  # noqa: F401

    with beside(calls) as begun:
        judge = Judge(dict(zip(others, begun[: len(others)], strict=True)))
        yield judge, lambda: tuple(one() for one in begun[len(others) :])


def ranked(
    run: Run,
    judge: Judge,
    objectives: Sequence[str],
    use_case: str | None,
    *,
    baseline: str | None,
    band: float,
) -> Ranking:
    """The ranking that is asked for in words, with the noise floor that the run measured: by a use
    case or by objectives, else by every rate. Raises LeadlineError (`usage`, `nothing-to-rank`)."""
    from leadline.analysis.aa import floor_of_objectives
    from leadline.analysis.objectives import every_rate, for_use_case, selected
    from leadline.analysis.ranking import rank
    from leadline.analysis.use_cases import find_use_case

    figures, findings = judge(run)
    if use_case is not None:
        question = for_use_case(run, figures, find_use_case(use_case))
    else:
        question = selected(run, figures, objectives) if objectives else every_rate(run, figures)
    noise = floor_of_objectives(run, figures, findings)
    return rank(run, figures, question, baseline=baseline, band=band, noise=noise)


def _judged_at(path: Path) -> FiguresAndFindings:
    return _judged(Run(path))


def _verified_at(path: Path) -> Verification:
    return verify(Run(path))
