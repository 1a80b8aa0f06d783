"""Numbered labels of one run's targets (cores, replicas), beside each other on the run's page."""

from __future__ import annotations

from collections.abc import Iterator

from leadline import errors
from leadline.analysis.comparing import compare
from leadline.analysis.comparison import By, Comparison
from leadline.analysis.label_partners import undecided_pairs, values_of
from leadline.analysis.sides import Judged, within_run
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.label_words import is_number

# More values are a curve, which the sections on scaling draw.
_MOST_VALUES = 3
_MOST_PAIRS = 4


def label_comparisons(run: Run, judged: Judged) -> tuple[Comparison, ...]:
    """Each higher value of a label whose values are numbers against the lowest, with all other
    labels held fixed. Where a target does not tell a label that its partners have, it stands
    against each of them, and the difference is told."""
    found = [
        compare(*within_run(run, By.LABEL, *names, judged), by=By.LABEL) for names in _pairs(run)
    ]
    return tuple(one for one in found if one.cells)


def _pairs(run: Run) -> Iterator[tuple[str, str]]:
    for key in dict.fromkeys(key for one in run.plan.targets for key in one.labels):
        values = values_of(run, key)
        if not 1 < len(values) <= _MOST_VALUES or not all(map(is_number, values)):
            continue
        for value in values[1:]:
            names = f"{key}={values[0]}", f"{key}={value}"
            try:
                within_run(run, By.LABEL, *names, lambda _: ((), ()))
            except LeadlineError as error:
                # Nobody asked for it, so that partners which cannot be told are no fault.
                if error.kind is errors.NOT_COMPARABLE:
                    yield from undecided_pairs(run, *names)[:_MOST_PAIRS]
                continue
            yield names
