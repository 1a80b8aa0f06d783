"""Builds compared cells for tests: the numbers of a closed loop, and the verdicts one wants."""

from __future__ import annotations

from dataclasses import dataclass, replace

from leadline.analysis.comparison import ComparedCell
from leadline.analysis.explain.systems import Network, PoolFacts, SystemFacts
from leadline.analysis.figures import CellFigure, FindingMark, MetricFigure
from leadline.analysis.verdicts import Evidence, Judgement, Verdict
from leadline.findings import Severity
from leadline.inventory.ceph.model import PoolType
from leadline.inventory.diff import Difference, Topic
from leadline.metrics import IO_METRICS, Metric, Op
from leadline.model.io_paths import draw_placement


@dataclass(frozen=True, kw_only=True)
class Row:
    """Mean latencies of both sides in seconds; rates are those of `depth` I/Os in flight."""

    op: Op
    base_s: float
    candidate_s: float
    target: str = "rep3"
    depth: int | None = 1
    told_depth: bool = True
    means: bool = True
    verdict: Verdict | None = None
    workload: str = "w"
    streaming: bool = False
    band: float = 0.05
    in_turn: bool = False
    percentile: Verdict | None = None
    scatter: float | None = 0.02
    caps: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


def cells(*rows: Row) -> list[ComparedCell]:
    """Two metrics, the speed and the mean latency, of each row; with `percentile` also the verdict
    of its p99. `in_turn`: one I/O at a time, for which the audit finding_marks the depth. `scatter`
    is half the interval of every ratio, None: no interval."""
    return [one for row in rows for one in _cells(row)]


def _cells(row: Row) -> list[ComparedCell]:
    worse = row.candidate_s > row.base_s
    verdict = row.verdict or (Verdict.WORSE if worse else Verdict.BETTER)
    speed = Metric.BANDWIDTH if row.streaming else Metric.IOPS
    verdicts = {speed: verdict, Metric.LATENCY_MEAN: verdict}
    if row.percentile:
        verdicts[Metric.LATENCY_P99] = row.percentile
    return [
        ComparedCell(
            target=row.target,
            workload=row.workload,
            level=f"qd{row.depth}",
            op=row.op,
            metric=metric,
            baseline_cell=_figure(row, row.base_s),
            candidate_cell=_figure(row, row.candidate_s),
            judgement=_judgement(row, metric, one),
            depth=row.depth if row.told_depth else None,
            streaming=row.streaming,
            jobs=1,
        )
        for metric, one in verdicts.items()
    ]


def _judgement(row: Row, metric: Metric, verdict: Verdict) -> Judgement:
    ratio = row.candidate_s / row.base_s
    ratio = ratio if metric.is_latency else 1 / ratio
    interval = None
    if row.scatter is not None:
        interval = (ratio / (1 + row.scatter), ratio * (1 + row.scatter))
    return Judgement(
        verdict=verdict,
        evidence=Evidence.TRIALS,
        band=row.band,
        ratio=ratio,
        interval=interval,
        reasons=row.reasons,
    )


def _figure(row: Row, latency_s: float) -> CellFigure:
    values: dict[Metric, float | None] = {Metric.IOPS: (row.depth or 1) / latency_s}
    if row.means:
        values[Metric.LATENCY_MEAN] = latency_s
    codes = (*(("queue-depth-not-reached",) if row.in_turn else ()), *row.caps)
    finding_marks = tuple(FindingMark(code=code, severity=Severity.WARNING) for code in codes)
    return CellFigure(
        target=row.target,
        workload=row.workload,
        planned_workload=row.workload,
        level=f"qd{row.depth}",
        op=row.op,
        completed=6,
        planned=6,
        metrics=tuple(
            MetricFigure(
                metric=metric,
                value=values.get(metric),
                absence="" if metric in values else "not measured",
                finding_marks=finding_marks,
            )
            for metric in IO_METRICS
        ),
    )


def replicated(*, size: int = 3, zones: int = 3, **changes: object) -> PoolFacts:
    """A pool with its copies in different zones, or in the racks of one."""
    domain = "zone" if zones > 1 else "rack"
    facts = {"places": max(zones, 3), "apart": True, "failure_domain": domain, **changes}
    return PoolFacts(type=PoolType.REPLICATED, size=size, zones=zones, **facts)  # type: ignore[arg-type]


def erasure(*, k: int = 2, m: int = 1, zones: int = 3) -> PoolFacts:
    domain = "zone" if zones > 1 else "rack"
    return PoolFacts(
        type=PoolType.ERASURE,
        size=k + m,
        k=k,
        m=m,
        zones=zones,
        places=max(zones, 3),
        apart=True,
        failure_domain=domain,
    )


def zones_apart(
    base_rtt_s: float | None = 0.0, candidate_rtt_s: float | None = 2e-3, **targets: PoolFacts
) -> SystemFacts:
    """Every target in one zone first, then as given; `rep3` where none is named. The acting sets
    are evenly distributed over the zones, and the client is in any of them."""
    pools = targets or {"rep3": replicated()}
    single = {
        name: erasure(k=pool.k, m=pool.m, zones=1)
        if pool.type is PoolType.ERASURE
        else replicated(size=pool.size, zones=1)
        for name, pool in pools.items()
    }
    return SystemFacts(
        pools={name: (placed(single[name]), placed(pool)) for name, pool in pools.items()},
        networks=networks(base_rtt_s, candidate_rtt_s, *pools),
        base_known=True,
        candidate_known=True,
    )


def placed(pool: PoolFacts) -> PoolFacts:
    """The pool with the acting sets that CRUSH may choose, each as often as it is likely."""
    shares = {str(number): 1.0 for number in range(pool.places)}
    drawn = draw_placement(shares, pool.size, apart=pool.apart, data=max(1, pool.k))
    return replace(pool, placement=drawn, shares=tuple(shares.items()))


def networks(
    base_rtt_s: float | None, candidate_rtt_s: float | None, *targets: str
) -> dict[str, tuple[Network | None, Network | None]]:
    """Round trips of one length between all places."""
    base, candidate = (
        None if rtt_s is None else Network.uniform(rtt_s) for rtt_s in (base_rtt_s, candidate_rtt_s)
    )
    return dict.fromkeys(targets, (base, candidate))


def difference(path: str, baseline: str, candidate: str, target: str = "") -> Difference:
    return Difference(
        path=path, topic=Topic.SETTINGS, baseline=baseline, candidate=candidate, target=target
    )


RTT = difference("network.inter_zone_rtt", "0 us", "2 ms")
DOMAIN = difference("pools.*.failure_domain", "rack", "zone")
