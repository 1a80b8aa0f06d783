"""Rules about several load generators, and about load that is offered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from leadline.audit.evidence import Place, TrialEvidence
from leadline.findings import Finding, Severity
from leadline.formats.result import JobResult
from leadline.metrics import Op
from leadline.plan.models import Cell
from leadline.plan.workload import Pattern, Phase, Workload
from tests.unit.audit.audit_archives import Judge, Stored
from tests.unit.audit.published import ask, done, job, output, output_evidence

OPTIONS: dict[str, Any] = {
    "rw": "randread",
    "bs": "4k",
    "iodepth": "16",
    "numjobs": "1",
    "ioengine": "libaio",
}


def client(name: str, iops: float, runtime_s: float = 60.0, **options: str) -> JobResult:
    one = done(iops=iops, mean_s=16 / iops)
    one = replace(one, runtime_s=runtime_s, total_ios=int(iops * runtime_s))
    return replace(job(one, name="randread", **(OPTIONS | options)), host=name)


def stragglers(*clients: JobResult) -> list[Finding]:
    return ask(output_evidence(output(*clients)), "client-straggles")


def test_client_straggles_fires_on_a_client_with_less_than_half() -> None:
    (found,) = stragglers(
        client("a", 1000), client("b", 1020), client("c", 980), client("d\x1b[31m", 300)
    )
    assert found.severity is Severity.WARNING
    assert found.evidence["share"] == pytest.approx(300 / 990)
    assert found.evidence["stragglers"] == 1
    assert found.message.startswith("Client d\x1b[31m did 300 IOPS"), "renderers escape names"


def test_client_straggles_fires_on_a_client_that_ends_early() -> None:
    (found,) = stragglers(client("a", 100), client("b", 100), client("c", 100, runtime_s=50))
    assert found.evidence["runtime_s"] == 50
    assert "Client c" in found.message


def test_client_straggles_names_the_worst_and_counts_the_others() -> None:
    (found,) = stragglers(*(client(name, 1000) for name in "abcd"), client("e", 90), client("f", 9))
    assert "Client f" in found.message
    assert "1 more" in found.message


def three(*iops: float, runtimes_s: tuple[float, ...] = (60, 60, 60)) -> list[JobResult]:
    return [client(*one) for one in zip("abc", iops, runtimes_s, strict=True)]


RATES = (("a", 9.0), ("b", 9.0), ("c", 3.0))
SILENT = client("d", 1)
SILENT = replace(SILENT, operations=(replace(SILENT.operations[0], iops=None),))


@pytest.mark.parametrize(
    "clients",
    [
        pytest.param([client("a", 1000), client("b", 100)], id="two"),
        pytest.param(three(990, 1000, 510), id="half"),
        pytest.param(three(50 / 60, 50 / 60, 20 / 60), id="few I/Os"),
        pytest.param(three(99, 99, 99, runtimes_s=(5, 5, 5.9)), id="the last I/O"),
        pytest.param([*three(99, 99, 99)[:2], client("c", 9, iodepth="1")], id="another job"),
        pytest.param([client(*one, rate_iops="9") for one in RATES], id="offered"),
        pytest.param([replace(one, host="") for one in three(99, 99, 9)], id="no clients"),
        pytest.param([*three(99, 99, 9), SILENT], id="one has no figures"),
    ],
)
def test_client_straggles_is_silent(clients: list[JobResult]) -> None:
    assert not stragglers(*clients)


def offered(rate_iops: float | None, clients: int = 0, **more: Any) -> Cell:
    phase = Phase(
        name="randread",
        pattern=Pattern.RANDREAD,
        block_size=4096,
        iodepth=256,
        numjobs=1,
        size=1 << 30,
        rate_iops=rate_iops,
    )
    return Cell(
        target="pool",
        workload=Workload(name="w", phases=(phase,), clients=clients, runtime_s=60.0, **more),
        level="c4",
    )


def ours(cell: Cell, *clients: JobResult) -> list[Finding]:
    place = Place(target="pool", workload="w", level="c4", trial="t0001")
    trial = TrialEvidence(place=place, cell=cell, output=output(*clients), windows={})
    return ask(trial, "rate-not-reached")


def test_rate_not_reached_fires_on_all_clients_together() -> None:
    (found,) = ours(offered(500, clients=4), *(client(name, 400) for name in "abcd"))
    assert found.severity is Severity.ERROR
    assert found.latency_only
    assert found.evidence["offered_iops"] == 2000
    assert found.evidence["iops"] == 1600


def test_rate_not_reached_counts_the_volumes_where_no_clients_are_asked_for() -> None:
    assert not ours(offered(500), *(client(f"volume {one}", 499) for one in (1, 2)))
    assert ours(offered(500), *(client(f"volume {one}", 400) for one in (1, 2)))


def test_rate_not_reached_leaves_neighbours_out() -> None:
    neighbour = replace(client("n", 5000), name="neighbour")
    assert ours(offered(500, clients=1), client("a", 400), neighbour)
    assert not ours(offered(500, clients=1), client("a", 490), neighbour)


def test_rate_not_reached_is_silent_on_closed_loops_and_on_what_was_reached() -> None:
    assert not ours(offered(None), client("a", 10))
    assert not ours(offered(500, clients=4), *(client(name, 480) for name in "abcd"))


def test_rate_not_reached_is_silent_on_chance() -> None:
    """600 arrivals scatter by 24: 560 are 93 %, and 500 are too few by four times that."""
    assert not ours(offered(10, clients=1), client("a", 560 / 60))
    assert ours(offered(10, clients=1), client("a", 500 / 60))


def imported(rate: str, *iops: tuple[Op, float], **options: str) -> list[Finding]:
    parts = [done(op=op, iops=value, mean_s=0.001) for op, value in iops]
    return ask(
        output_evidence(output(job(*parts, **(OPTIONS | options), rate_iops=rate))),
        "rate-not-reached",
    )


def test_rate_not_reached_fires_on_a_job_of_others() -> None:
    (found,) = imported("1000", (Op.READ, 700.0))
    assert found.severity is Severity.WARNING
    assert found.op is Op.READ


def test_rate_not_reached_holds_each_process_and_direction_by_itself() -> None:
    mix = {"rw": "randrw", "numjobs": "4", "group_reporting": "1"}
    assert not imported("1000,500", (Op.READ, 3990.0), (Op.WRITE, 1990.0), **mix)
    (found,) = imported("1000,500", (Op.READ, 3990.0), (Op.WRITE, 1000.0), **mix)
    assert found.op is Op.WRITE
    assert found.evidence["offered_iops"] == 2000


@pytest.mark.parametrize("rate", ["", "0", "fast", ",", "1e400", "9" * 40])
def test_rate_not_reached_is_silent_on_a_rate_that_is_none(rate: str) -> None:
    assert not imported(rate, (Op.READ, 700.0))


def test_rate_not_reached_is_silent_on_the_recorded_rate(judge: Judge) -> None:
    found = judge(Stored("rate-limited"))
    assert not [one for one in found if one.code == "rate-not-reached"]
