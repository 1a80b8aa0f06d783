import pytest

from leadline.analysis.selectors import parse_metric, parse_selector
from leadline.errors import LeadlineError
from leadline.metrics import Metric, Op


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("write p99", (None, None, Op.WRITE, Metric.LATENCY_P99)),
        ("iops", (None, None, None, Metric.IOPS)),
        ("rand-4k read IOPS", ("rand-4k", None, Op.READ, Metric.IOPS)),
        ("seq 1m@qd32 bandwidth", ("seq 1m", "qd32", None, Metric.BANDWIDTH)),
        ("p99.9 total", (None, None, Op.TOTAL, Metric.LATENCY_P999)),
    ],
)
def test_words_in_any_order(text: str, parts: tuple[object, ...]) -> None:
    one = parse_selector(text)
    assert (one.workload, one.level, one.op, one.metric) == parts


@pytest.mark.parametrize("text", ["write", "p99 p95", "read write iops", ""])
def test_what_names_no_number(text: str) -> None:
    with pytest.raises(LeadlineError):
        parse_selector(text)


def test_a_selector_matches_what_it_narrows_to() -> None:
    one = parse_selector("rand-4k write p99")
    assert one.matches("rand-4k", "qd1", Op.WRITE, Metric.LATENCY_P99)
    assert not one.matches("rand-4k", "qd1", Op.READ, Metric.LATENCY_P99)
    assert not one.matches("seq", "qd1", Op.WRITE, Metric.LATENCY_P99)
    assert not one.matches("rand-4k", "qd1", Op.WRITE, Metric.IOPS)


def test_every_metric_by_its_contract_name() -> None:
    assert [parse_metric(metric.value) for metric in Metric] == list(Metric)
    with pytest.raises(LeadlineError, match="iops"):
        parse_metric("iop")
