"""Every operation has a noun wherever one is named."""

from __future__ import annotations

from leadline.metrics import Metric, Op
from leadline.report.pages.comparison import explanations
from leadline.report.words import OP_NOUNS, title


def test_every_operation_has_a_noun() -> None:
    assert set(OP_NOUNS) == set(Op)
    assert set(explanations._OPS) == set(Op)


def test_the_rate_of_transactions_and_fsyncs_is_not_called_iops() -> None:
    assert title(Metric.IOPS, Op.TRANSACTION) == title(Metric.IOPS, Op.SYNC) == "rate"
    assert title(Metric.IOPS, Op.READ) == title(Metric.IOPS) == "IOPS"
