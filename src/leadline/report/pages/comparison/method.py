"""How a comparison was made: test, margin, seed, versions and checksums in one table."""

from __future__ import annotations

import hashlib
import math
import shlex
from collections.abc import Iterable, Sequence

from leadline.analysis.comparison import By, Comparison
from leadline.analysis.power import REPEATS
from leadline.analysis.verdicts import BETWEEN_RUNS, REPEATS_FACTOR, Evidence, Judgement, Verdict
from leadline.archive.reader import Run
from leadline.metrics import Metric
from leadline.report.cells import table
from leadline.report.document import Block, Code, Section
from leadline.report.pages.comparison.headline import having, rates, trials_of_each
from leadline.report.pages.comparison.takeaways import false_positive_rate
from leadline.report.pages.run.conditions import engine_texts
from leadline.report.words import (
    band_text,
    count_text,
    listed,
    percent_text,
    reason_text,
    reason_words,
    title,
)
from leadline.stats.effects import Estimate
from leadline.stats.families import ALONE
from leadline.version import __version__

# The page that explains each line.
_CONCEPTS = "docs/concepts/comparing.md"
_INDEPENDENT = (
    "each trial of a cell is independent of the one before it; fewer than six trials seldom show a "
    "disturbance that lasts longer"
)


def method_section(comparison: Comparison) -> Section:
    """Build the facts that a reader needs to judge the verdicts, and the commands."""
    rows = [(name, text) for name, text in _methods(comparison) if text]
    blocks: list[Block] = [
        table("method", ("", ""), rows, caption="Method"),
        Code(text="\n".join((*measuring_commands(comparison.runs), command(comparison)))),
    ]
    return Section(heading="Method", id="methods", blocks=tuple(blocks), folded=True)


def _methods(comparison: Comparison) -> Iterable[tuple[str, str]]:
    """Yield (name, fact); an empty fact does not apply."""
    judgements = [cell.judgement for cell in comparison.cells]
    counts = comparison.counts()
    tests = sum(judgement.p is not None for judgement in judgements)
    evidence = {judgement.evidence for judgement in judgements}
    single = evidence & {Evidence.WITHIN_RUN, Evidence.ONE_NUMBER}
    numbers = count_text(len(judgements), "number")
    yield "verdicts", f"{listed(f'{n:,} {v.value}' for v, n in counts.items())}, of {numbers}"
    if Evidence.TRIALS in evidence:
        yield "test", "Student's t of log ratios, 95 % interval; interleaved trials in pairs"
    if any(one.evidence is Evidence.TRIALS and not _of_runs(one) for one in judgements):
        yield "assumption", _INDEPENDENT
    yield "margin", f"{band_text(comparison.band)}, as requested{_noise_floor(comparison)}"
    if tests:
        family = "Benjamini-Hochberg over the matrix, Holm over limits of --fail-on"
        yield "adjustment", f"{count_text(tests, 'test')}: {family}"
    yield "trials", _trials(comparison)
    yield "looks", _looks(judgements)
    if Evidence.TRIALS in evidence:
        yield "scatter", f"moderated over cells (Smyth 2004): {_pooled(comparison)}"
    yield "between runs", _between_runs(comparison)
    if single:
        yield "one trial", _single_trials(comparison)
    yield "mean change", "geometric mean of a target's rates, if all are comparable"
    codes = dict.fromkeys(code for judgement in judgements for code in judgement.reasons)
    for code in codes:
        yield f"reason: {reason_words(code)}", reason_text(code)
    for run in comparison.runs:
        yield run.id, run_text(run)
    yield "page", f"Leadline {__version__}; details: {_CONCEPTS}"


def _looks(judgements: Sequence[Judgement]) -> str:
    """How often the run was tested to end it, and what that makes of an interval."""
    looks = max((one.looks for one in judgements if one.looks), default=None)
    if looks is None:
        return ""
    return (
        f"the run ended by its results: tested from {looks.first} to at most {looks.most} trials "
        f"per cell; intervals of {100 * looks.level(ALONE):.1f} % at each look hold the truth at "
        f"all looks together with {100 * ALONE:g} %"
    )


def _of_runs(judgement: Judgement) -> bool:
    return judgement.estimate is not None and judgement.estimate.of_runs


def _single_trials(comparison: Comparison) -> str:
    by_chance = percent_text(false_positive_rate(comparison.band))
    return (
        f"single runs differ by up to {percent_text(REPEATS_FACTOR - 1)} (published scatter: CV "
        f"{percent_text(REPEATS.median)} median, {percent_text(REPEATS.ninetieth)} 90th "
        f"percentile); the margin alone flags {by_chance} of unchanged cells"
    )


def _noise_floor(comparison: Comparison) -> str:
    bands = [cell.judgement.band for cell in comparison.cells]
    noisy = [band for band in bands if band > comparison.band]
    if not noisy:
        return ""
    return f"; in {len(noisy):,} numbers the noise floor, up to {band_text(max(noisy))}"


def _trials(comparison: Comparison) -> str:
    """`3 per system and cell`, and the cells without enough."""
    cells = rates(comparison) or comparison.cells
    known = [
        count
        for cell in cells
        if cell.verdict is not Verdict.NOT_COMPARABLE
        for count in trials_of_each(cell)
    ]
    if not known:
        return ""
    span = f"{min(known):,}" if min(known) == max(known) else f"{min(known):,} to {max(known):,}"
    undecided = len(having(cells, Verdict.INCONCLUSIVE))
    rest = f"; {undecided:,} of {count_text(len(cells), 'rate')} inconclusive" if undecided else ""
    return f"{span} per system and cell{rest}"


def run_text(run: Run) -> str:
    """`seed 7, fio 3.36, Leadline 0.2.0, SHA-256 of its 724 files 3f2a...`"""
    by = dict.fromkeys(session.leadline_version for session in run.manifest.sessions)
    files = run.manifest.files
    names = "".join(f"{files[name].sha256}  {name}\n" for name in sorted(files))
    digest = hashlib.sha256(names.encode()).hexdigest()
    parts = (
        "" if run.plan.imported else f"seed {run.plan.seed}",
        engine_texts(run),
        f"Leadline {listed(by)}" if by else "",
        f"SHA-256 of {count_text(len(files), 'file')} {digest}" if files else "",
    )
    return ", ".join(filter(None, parts))


def _pooled(comparison: Comparison) -> str:
    """Word the priors of the moderated scatter by metric."""
    texts = []
    found: dict[Metric, Estimate] = {}
    for cell in comparison.cells:
        if cell.judgement.estimate is not None and cell.verdict is not Verdict.NOT_COMPARABLE:
            found.setdefault(cell.metric, cell.judgement.estimate)
    for metric, estimate in found.items():
        known = [prior for prior in estimate.priors if prior.freedom]
        if not known:
            continue
        deviations = listed(percent_text(math.sqrt(prior.variance)) for prior in known)
        weights = listed(
            f"{prior.freedom:.1f}" if math.isfinite(prior.freedom) else "unlimited"
            for prior in known
        )
        texts.append(f"{title(metric)} {deviations} ({weights} degrees of freedom)")
    return "; ".join(texts) or "own of each cell: fewer than three are comparable"


def _between_runs(comparison: Comparison) -> str:
    if comparison.has_several_runs:
        return "estimated; each run is one value"
    if not comparison.between_runs:
        return "none: both systems are of one run"
    return f"{band_text(comparison.between_runs)} standard deviation, assumed"


def command(comparison: Comparison) -> str:
    """Return the command that makes this comparison."""
    base, other = comparison.baseline, comparison.candidate
    names = tuple(",".join(run.id for run in side.runs) for side in (base, other))
    by: tuple[str, ...] = ()
    if comparison.by is not By.RUN and base.run.path != other.run.path:
        by = ("--by", base.name.partition("=")[0])
    elif comparison.by is not By.RUN:
        names = (base.name, other.name)
        by = ("--by", comparison.by.value, "--run", base.run.id)
    margin = ("--band", f"{comparison.band * 100:g}%")
    between: tuple[str, ...] = ()
    apart = base.run.id != other.run.id or comparison.between_runs
    assumed = apart and not comparison.has_several_runs
    if assumed and comparison.between_runs != BETWEEN_RUNS:
        between = ("--between-runs", f"{comparison.between_runs * 100:g}%")
    return shlex.join(("leadline", "compare", *names, *by, *margin, *between))


def measuring_commands(runs: Iterable[Run]) -> Iterable[str]:
    """List the commands of the sessions. Older archives hold the path of the program, which is not
    repeatable."""
    return dict.fromkeys(
        shlex.join(("leadline", *session.command[1:]))
        for run in runs
        for session in run.manifest.sessions
        if session.command
    )
