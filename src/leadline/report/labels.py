"""Names at charts: long ones shortened in the middle, since a chart says them many times and its
table says them in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from leadline.report.wording import visible

LONGEST_LABEL = 80


def chart_labels(names: Iterable[str]) -> Mapping[str, str]:
    """What each name is called at a chart; two names never share a label that they need not."""
    shown = {name: visible(name) for name in names}
    short = {name: _shortened(text) for name, text in shown.items()}
    count = Counter(short.values())
    return {name: text if count[text] == 1 else shown[name] for name, text in short.items()}


def _shortened(text: str) -> str:
    if len(text) <= LONGEST_LABEL:
        return text
    head = LONGEST_LABEL // 2
    return f"{text[:head]}…{text[head + 1 - LONGEST_LABEL :]}"
