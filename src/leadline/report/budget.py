"""How much a page may draw: what is beyond it is left out, and said to be."""

from __future__ import annotations

from collections import Counter

from leadline.report.wording import listed

# A point is about 150 bytes of a page, and a chart with its axes as much as fifteen of them.
MOST_POINTS = 4000
_CHART_AS_POINTS = 15


class PageBudget:
    """The points that the charts of a page may still have, each kind for itself: otherwise the
    series over time would leave no room for the few points of a percentile ladder."""

    def __init__(self, most: int = MOST_POINTS) -> None:
        self._most = most
        self._spent: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()

    def allows(self, kind: str, points: int) -> bool:
        """Whether there is room for a chart of `kind`, which then takes it."""
        cost = points + _CHART_AS_POINTS
        if self._spent[kind] + cost > self._most:
            self._left_out[kind] += 1
            return False
        self._spent[kind] += cost
        return True

    @property
    def said(self) -> str:
        """What was left out, in a sentence; empty where everything was drawn."""
        if not self._left_out:
            return ""
        charts = listed(f"{count:,} of {kind}" for kind, count in self._left_out.items())
        return (
            f"Charts that are not drawn, to keep the page small: {charts}. The tables have every "
            "figure, and the downloads every trial."
        )
