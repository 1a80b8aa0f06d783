"""Which numbers a user means: `write p99`, `rand-4k read iops`, `seq-1m@qd32 bandwidth`."""

from __future__ import annotations

from dataclasses import dataclass

from leadline import errors
from leadline.errors import LeadlineError
from leadline.metrics import METRIC_WORDS, Metric, Op
from leadline.text import did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """A metric, narrowed to a workload, a level or an operation; None is any."""

    metric: Metric
    workload: str | None = None
    level: str | None = None
    op: Op | None = None

    def matches(self, workload: str, level: str, op: Op | None, metric: Metric) -> bool:
        return (
            metric is self.metric
            and self.workload in (None, workload)
            and self.level in (None, level)
            and self.op in (None, op)
        )


def parse_metric(text: str) -> Metric:
    """A metric by its contract name or as people write it. Raises LeadlineError (`usage`)."""
    found = METRIC_WORDS.get(text.strip().lower())
    if found is None:
        raise LeadlineError(
            errors.USAGE,
            f"there is no metric {text!r}",
            context=[f"metrics: {', '.join(METRIC_WORDS)}"],
            hint=did_you_mean(text, METRIC_WORDS, "name one of them"),
        )
    return found


def parse_selector(text: str) -> Selector:
    """`[WORKLOAD[@LEVEL]] [OP] METRIC`, in this order or with OP and METRIC anywhere.

    Raises LeadlineError(`usage`) for words that are not understood; a workload's name may hold
    spaces.
    """
    words = text.split()
    metrics = [word for word in words if word.lower() in METRIC_WORDS]
    ops = [word for word in words if word.lower() in {op.value for op in Op}]
    if len(metrics) != 1:
        raise LeadlineError(
            errors.USAGE,
            f"{text!r} names {'no metric' if not metrics else 'several metrics'}",
            context=[f"metrics: {', '.join(METRIC_WORDS)}"],
            hint="write it as '[WORKLOAD[@LEVEL]] [read|write|total] METRIC', like 'write p99'",
        )
    if len(ops) > 1:
        raise LeadlineError(
            errors.USAGE,
            f"{text!r} names several operations",
            hint="name one of read, write, trim and total, or none for all",
        )
    rest = " ".join(word for word in words if word not in (*metrics, *ops))
    workload, _, level = rest.partition("@")
    return Selector(
        metric=METRIC_WORDS[metrics[0].lower()],
        workload=workload or None,
        level=level or None,
        op=Op(ops[0].lower()) if ops else None,
    )
