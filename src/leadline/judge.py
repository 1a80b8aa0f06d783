"""Figures, findings and verification of runs, each worked out once and large runs in parallel.

What the command line and the notebook interface ask of the analysis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.trial import StoredTrial
from leadline.archive.verify import Discrepancy, Verification, verify
from leadline.errors import LeadlineError
from leadline.parallel import in_workers, spare_cores

if TYPE_CHECKING:
    from leadline.analysis.figures import CellFigure
    from leadline.analysis.objectives import UseCase
    from leadline.analysis.ranking import Ranking
    from leadline.analysis.recommend import Preference, Recommendation
    from leadline.analysis.requirements import Requirement
    from leadline.findings import Finding

FiguresAndFindings: TypeAlias = "tuple[tuple[CellFigure, ...], tuple[Finding, ...]]"
Verified: TypeAlias = Callable[[], tuple[Verification, ...]]

# Fewer are read before another process is there.
_WORTH_A_PROCESS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class _WorkedOut:
    """What a worker process found; the verification is None where none was requested."""

    judged: FiguresAndFindings
    verification: Verification | None


class Judge:
    """Gives a run's figures and findings, worked out once: both sides may be of one run."""

    def __init__(self, begun: Mapping[Path, Callable[[], _WorkedOut]] | None = None) -> None:
        """`begun` wait for what others work out."""
        self._begun = begun or {}
        self._judged: dict[Path, FiguresAndFindings] = {}
        self._read: dict[Path, tuple[StoredTrial, ...]] = {}

    def __call__(self, run: Run) -> FiguresAndFindings:
        if run.path not in self._judged:
            begun = self._begun.get(run.path)
            if begun is None:
                self._judged[run.path] = _judged(run)
                self._read[run.path] = run.attempts
            else:
                self._judged[run.path] = begun().judged
        return self._judged[run.path]

    def verified(self, run: Run) -> Verification:
        """The verification of a run; what was read to judge it is not read again."""
        begun = self._begun.get(run.path)
        found = begun().verification if begun else None
        return found or verified(run, self._read.get(run.path, ()))


def verified(run: Run, attempts: Sequence[StoredTrial] = ()) -> Verification:
    """Verify an archive (archive/verify.py), and the looks that ended its run.

    `attempts` are trials whose raw output is read already.
    """
    found = verify(run, attempts)
    try:
        if run.plan.stop is None:
            return found
        from leadline.analysis.looks import check_looks

        looks, problems = check_looks(run)
    except LeadlineError as error:
        looks, problems = 0, (Discrepancy(path=layout.LOOKS, message=error.fact),)
    return replace(
        found,
        numbers=found.numbers + looks,
        problems=tuple(dict.fromkeys((*found.problems, *problems))),
    )


def _judged(run: Run) -> FiguresAndFindings:
    from leadline.analysis.figures import figures
    from leadline.audit.registry import audit

    findings = audit(run)
    return figures(run, findings), findings


def _worked_out(path: Path, *, verifying: bool) -> _WorkedOut:
    run = Run(path)
    judged = _judged(run)
    verification = verified(run, run.attempts) if verifying else None
    return _WorkedOut(judged=judged, verification=verification)


def _verified(path: Path) -> Verification:
    return verified(Run(path))


@contextmanager
def judging(runs: Sequence[Run], *, verifying: bool = True) -> Iterator[tuple[Judge, Verified]]:
    """What judges each of these runs, and what gives the verification of each, in their order.

    Large runs are shared with other processes, if there are cores for them: of two the second is
    judged and verified there, of one it is verified there (if that will be asked for). Everything
    else is done when it is asked for. To be begun before there are threads. Raises
    LeadlineError(`archive-damaged`) for an archive that no verb opens.
    """
    trials = sum(len(run.trial_folders) for run in runs)
    first, others = runs[0], runs[1:]
    shared = spare_cores() > 0 and trials >= _WORTH_A_PROCESS and (verifying or others)
    if not shared:
        judge = Judge()
        yield judge, lambda: tuple(judge.verified(run) for run in runs)
        return
    # What a worker would have to import, each worker would import again.
    import leadline.analysis.figures
    import leadline.audit.registry  # noqa: F401

    calls = [partial(_worked_out, run.path, verifying=verifying) for run in others]
    with in_workers(calls or [partial(_verified, first.path)]) as begun:
        if not others:
            yield Judge(), lambda: (begun[0](),)
            return
        judge = Judge({run.path: wait for run, wait in zip(others, begun, strict=True)})
        yield judge, lambda: tuple(judge.verified(run) for run in runs)


def ranked(
    run: Run,
    judge: Judge,
    objectives: Sequence[str],
    use_case: str | UseCase | None,
    *,
    baseline: str | None,
    band: float,
) -> Ranking:
    """The ranking that is asked for in words, with the noise floor that the run measured: by a use
    case or by objectives, else by every rate. Raises LeadlineError (`usage`, `nothing-to-rank`)."""
    from leadline.analysis.noise import floor_of_objectives
    from leadline.analysis.objectives import every_rate, find_use_case, for_use_case, selected
    from leadline.analysis.ranking import rank

    figures, findings = judge(run)
    if use_case is not None:
        case = find_use_case(use_case) if isinstance(use_case, str) else use_case
        question = for_use_case(run, figures, case)
    else:
        question = selected(run, figures, objectives) if objectives else every_rate(run, figures)
    noise = floor_of_objectives(run, figures, findings)
    return rank(run, figures, question, baseline=baseline, band=band, noise=noise)


def recommended(
    run: Run,
    judge: Judge,
    case: UseCase,
    requirements: Sequence[Requirement] = (),
    *,
    band: float,
    prefer: Preference | None = None,
) -> Recommendation:
    """The recommendation for a use case. Raises LeadlineError (`usage`, `nothing-to-rank`)."""
    from leadline.analysis.recommend import Preference, imposed_conditions, recommend
    from leadline.analysis.requirements import protections

    return recommend(
        ranked(run, judge, (), case, baseline=None, band=band),
        case,
        protections(run),
        requirements,
        figures=judge(run)[0],
        imposed=imposed_conditions(run),
        prefer=prefer or Preference.FASTEST,
    )


def recommended_for_uses(
    run: Run, judge: Judge, *, band: float
) -> tuple[tuple[UseCase, Recommendation | None], ...]:
    """The recommendation for each built-in use; None where the run has no such I/O."""
    from leadline import errors
    from leadline.analysis.objectives import use_cases
    from leadline.errors import LeadlineError

    found: list[tuple[UseCase, Recommendation | None]] = []
    for case in use_cases():
        try:
            found.append((case, recommended(run, judge, case, band=band)))
        except LeadlineError as error:
            if error.kind is not errors.NOTHING_TO_RANK:
                raise
            found.append((case, None))
    return tuple(found)
