"""How load curves were computed: definitions, margins, labs, versions and commands."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator

from leadline.analysis.scaling.study import ScalingStudy
from leadline.report.cells import section, table
from leadline.report.document import Code, Section
from leadline.report.pages.comparison.method import measuring_commands, run_text
from leadline.report.pages.scaling.sentences import lab_sentences
from leadline.report.pages.scaling.words import text
from leadline.report.words import band_text, count_text
from leadline.stats.usl import Unfitted
from leadline.version import __version__


def method_section(study: ScalingStudy) -> Section:
    """Build the table of definitions and facts, and the commands."""
    rows = [(name, fact) for name, fact in _methods(study) if fact]
    runs = [studied.run for studied in study.runs]
    limit = ("--latency-limit", f"{study.limit}".replace(" ", "")) if study.limit else ()
    command = shlex.join(("leadline", "scale", *(run.id for run in runs), *limit))
    return section(
        "Method",
        "method",
        table("method-table", ("", ""), rows, caption="Method"),
        Code(text="\n".join((*measuring_commands(runs), command))),
        folded=True,
    )


def _methods(study: ScalingStudy) -> Iterator[tuple[str, str]]:
    """Yield (name, fact); an empty fact does not apply."""
    opened = any(curve.curve.offered for curve in study.curves)
    yield (
        "closed loop",
        "the next I/O starts when one completes: too low percentiles in a stall",
    )
    if opened:
        yield "open loop", "I/Os are offered at a fixed rate; fio delays them in a stall"
    yield "knee", "the load from which on a doubling gives less than a tenth more throughput"
    yield "axes", "latency is logarithmic; throughput too where rates differ by more than 4 times"
    yield "limited by", "of the level with the highest throughput; a question mark: suspected"
    yield "margin", f"{band_text(study.band)}; Student's t of log ratios, 95 % intervals"
    if study.between_runs:
        yield "between runs", f"{band_text(study.between_runs)} standard deviation, assumed"
    laws = (curve.shape.law for curve in study.curves if curve.curve.closed)
    reasons = Counter(text(law) for law in laws if isinstance(law, Unfitted))
    for reason, number in reasons.items():
        yield "no fitted law", f"{count_text(number, 'curve')}: {reason}"
    for growth in study.growths[:1]:
        for sentence in lab_sentences(growth.labs) if growth.labs else ():
            yield "labs", sentence
    for studied in study.runs:
        yield studied.run.id, run_text(studied.run)
    yield "page", f"Leadline {__version__}; details: docs/concepts/scaling.md"
