"""How a comparison judges, in plain words with its thresholds."""

from __future__ import annotations

from leadline.analysis.comparison import Comparison
from leadline.analysis.evidence import REPEATS_FACTOR
from leadline.analysis.intervals import TRIALS_FOR_INTERVAL
from leadline.analysis.verdicts import Verdict
from leadline.report.change_words import band_text, percent_text, reason_text, reason_words
from leadline.report.comparison.band_alone import REPEATS, called_by_chance
from leadline.report.document import Block, KeyValues


def method_blocks(comparison: Comparison) -> tuple[Block, ...]:
    counts = comparison.counts()
    told = ", ".join(f"{counts[verdict]:,} {verdict.value}" for verdict in Verdict)
    judgements = [one.judgement for one in comparison.cells]
    noisy = [one.band for one in judgements if one.band > comparison.band]
    band = f"{band_text(comparison.band)} as asked"
    if noisy:
        band += (
            f"; in {len(noisy):,} numbers the noise floor, measured on a target that ran twice, is "
            f"larger and counts instead, up to {band_text(max(noisy))}"
        )
    else:
        band += "; no larger noise floor was measured"
    alone = called_by_chance(comparison.band)
    tested = sum(one.p is not None for one in judgements)
    few = TRIALS_FOR_INTERVAL - 1
    codes = dict.fromkeys(code for one in judgements for code in one.reasons)
    texts = {
        "verdicts here": f"{told}, of {len(comparison.cells):,} numbers",
        "change": (
            "the candidate's figure divided by the baseline's; figures are medians of trials, "
            "percentiles those of all trials' I/Os together, never averaged"
        ),
        "band": band,
        "better, worse": (
            "the 95 % interval of the change lies wholly outside of the band and the adjusted p is "
            "at most 0.05; more is better of rates, less of latencies"
        ),
        "same": "the interval lies wholly inside the band",
        "inconclusive": "everything else: more trials may decide it",
        "not comparable": (
            "one side has no number, the audit refuses one (error), or the two did different work"
        ),
        "interval": (
            f"from {TRIALS_FOR_INTERVAL} trials a side on: bootstrap of the medians over trials, "
            "by block where trials of both sides ran next to each other; from 2 to "
            f"{few}: Student's t of logarithms, and all trials of one side must lie beyond all of "
            "the other"
        ),
        "one trial": (
            "measured here: its own seconds, as many as are independent, and a change must exceed "
            f"{percent_text(REPEATS_FACTOR - 1)}, by which repeats of one thing are known to "
            "differ; a published number: the band alone, which of cells in which nothing changed "
            f"calls {percent_text(alone)} changed where repeats scatter as in 180 published groups "
            f"of three runs (median {percent_text(REPEATS.median)}, 90th percentile "
            f"{percent_text(REPEATS.ninetieth)}, worst {percent_text(REPEATS.worst)})"
        ),
        "p": (
            f"adjusted over {tested:,} tests: Benjamini-Hochberg over the matrix, Holm over what "
            "was named before looking (--fail-on)"
        ),
        "more trials": (
            "how many a side would probably decide an open question: 80 % power, if the change is "
            "what it seems"
        ),
        "mean change": (
            "the geometric mean of the ratios of a target's rates; none where one is missing or "
            "refused; a total of reads and writes is left out beside its parts"
        ),
        "reasons": "; ".join(f"{reason_words(code)}: {reason_text(code)}" for code in codes)
        or "none",
        "marks": (
            "E, W, I: error, warning, info; of two runs, b is the baseline's and c the candidate's"
        ),
        "units": (
            "MiB/s = 1,048,576 bytes/s; us = 0.000001 s; rates are IOPS, and MiB/s of blocks of "
            "64 KiB and more"
        ),
    }
    return (KeyValues(pairs=tuple(texts.items())),)
