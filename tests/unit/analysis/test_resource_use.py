"""Costs of an I/O: what counts, what is unknown, and how they are compared and ranked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leadline.analysis.compare import compare, paired_samples
from leadline.analysis.comparison import By, Comparison, within_run
from leadline.analysis.figures import Absence, CellFigure, figures
from leadline.analysis.gate import Outcome as GateOutcome
from leadline.analysis.gate import Policy, PolicyRule, decide
from leadline.analysis.gate_rates import gate_rates
from leadline.analysis.limits import check_limits, parse_limit
from leadline.analysis.objectives import selected
from leadline.analysis.ranking import rank
from leadline.analysis.resource_use import ResourceUse, resource_use
from leadline.analysis.verdicts import Verdict
from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.formats.watch_records import Role
from leadline.metrics import COSTS, IO_METRICS, Metric, Op
from leadline.plan.workload import Pattern
from tests.unit.audit.audit_archives import Stored, build, cell
from tests.unit.formats.test_prometheus import DISK, NODE, POD, disk, line, modes

HZ = 100
BOTH = (Role.CLIENT.value, Role.STORAGE.value)


def sample(elapsed_s: float, processes: dict[str, list[int]], **more: Any) -> bytes:
    """A line of a machine that is client and storage unless `more` says otherwise."""
    fields = {"machine": "here", "roles": BOTH, "clock_s": elapsed_s, "cores": 4, "hz": HZ}
    return json.dumps(
        {"at": "", "elapsed_s": elapsed_s, **fields, "processes": processes, **more}
    ).encode()


def daemons(cores: float, *, until_s: float = 4.0, pid: int = 7) -> bytes:
    """Two OSDs that use `cores` cores together, with 1 and 2 MiB of memory."""
    ticks = round(cores / 2 * HZ * (until_s - 1.0))
    first = {"osd.0": [7, 1, 50, 50, 1 << 20], "osd.1": [8, 1, 50, 50, 2 << 20]}
    last = {
        "osd.0": [pid, 1, 50 + ticks, 50, 1 << 20],
        "osd.1": [8, 1, 50, 50 + ticks, 2 << 20],
    }
    return b"\n".join((sample(1.0, first), sample(until_s, last)))


def watched(run: Run, *contents: bytes, name: str = layout.RESOURCES) -> Run:
    """Write a record of a watch into the folder of each trial, in their order."""
    for folder, content in zip(run.trial_folders, contents, strict=True):
        (folder / name).write_bytes(content)
    return Run(run.path)


def one_row(run: Run) -> CellFigure:
    (row,) = figures(run, ())
    return row


def test_daemons_and_the_engine_are_divided_by_the_rate(tmp_path: Path) -> None:
    run = watched(build(tmp_path / "r", {"a": (cell(), [Stored()])}), daemons(0.6))
    row = one_row(run)
    rate = row.metric(Metric.IOPS).value
    assert rate is not None
    assert row.metric(Metric.STORAGE_CPU).value == pytest.approx(0.6 / rate, rel=0.02)
    asked_s = run.trials[0].record.asked_s
    assert row.metric(Metric.CLIENT_CPU).value == pytest.approx(1.9 / asked_s / rate)
    assert row.metric(Metric.STORAGE_MEMORY).value == 3 << 20
    absent = row.metric(Metric.DISK_BYTES)
    assert (absent.value, absent.absence) == (None, Absence.NOT_MEASURED)
    assert [one.metric for one in row.metrics] == list(IO_METRICS)


def test_a_daemon_that_restarted_leaves_the_sum_unknown(tmp_path: Path) -> None:
    run = watched(build(tmp_path / "r", {"a": (cell(), [Stored()])}), daemons(0.6, pid=9))
    assert [one.metric for one in one_row(run).costs] == [Metric.CLIENT_CPU]


def test_memory_is_unknown_in_archives_of_earlier_versions(tmp_path: Path) -> None:
    content = daemons(0.6).replace(b", 1048576]", b"]").replace(b", 2097152]", b"]")
    run = watched(build(tmp_path / "r", {"a": (cell(), [Stored()])}), content)
    row = one_row(run)
    assert row.metric(Metric.STORAGE_CPU).value
    assert row.metric(Metric.STORAGE_MEMORY).value is None


def test_machines_of_the_storage_alone_give_bytes_of_disks_and_links(tmp_path: Path) -> None:
    names = ("sda", "dm-0", "loop1")
    links = ("eth0", "lo", "veth12", "bond0", "eth0.100")
    first = {
        "disks": {name: [0] * 11 for name in names},
        "interfaces": {name: [0] * 4 for name in links},
    }
    last = {
        "disks": {name: [10, 0, 1000, 5, 10, 0, 500, 5, 0, 10, 10] for name in names},
        "interfaces": {name: [3000, 3, 6000, 6] for name in links},
    }
    roles = [Role.STORAGE.value]
    content = b"\n".join(
        sample(at, {}, machine=host, roles=roles, **counters)
        for host in ("s1", "s2")
        for at, counters in ((1.0, first), (4.0, last))
    )
    run = watched(build(tmp_path / "r", {"a": (cell(), [Stored()])}), content)
    use = resource_use(run.trials[0], cell().workload, frozenset())
    assert use.disk_bps == pytest.approx(2 * 1500 * 512 / 3)
    assert use.network_bps == pytest.approx(2 * 9000 / 3)
    assert use.storage_cores is None, "the load of a whole machine is not that of its daemons"


def test_disks_below_a_local_target_are_those_of_its_layers(tmp_path: Path) -> None:
    disks = {"disks": {name: [0] * 11 for name in ("sda1", "sdb")}}
    more = {"disks": {name: [10, 0, 1000, 5, 0, 0, 0, 0, 0, 5, 5] for name in ("sda1", "sdb")}}
    content = b"\n".join((sample(1.0, {}, **disks), sample(4.0, {}, **more)))
    run = watched(build(tmp_path / "r", {"a": (cell(), [Stored()])}), content)
    trial, work = run.trials[0], cell().workload
    assert resource_use(trial, work, frozenset({"sda1"})).disk_bps == pytest.approx(512000 / 3)
    assert resource_use(trial, work, frozenset()).disk_bps is None


def test_prometheus_gives_the_storages_side_outside_labs(tmp_path: Path) -> None:
    content = b"\n".join(
        (
            line("container_cpu", (POD, 1.25), ({**POD, "pod": "rook-ceph-mon-a"}, 0.05)),
            line("container_memory", (POD, 4e9), ({**POD, "pod": "rook-ceph-mon-a"}, 1e9)),
            line("cpu", *modes(NODE, idle=6.0, user=2.0)),
            *disk(NODE, **DISK),
        )
    )
    run = build(tmp_path / "r", {"a": (cell(), [Stored()])})
    run = watched(run, content, name=layout.PROMETHEUS)
    row = one_row(run)
    rate = row.metric(Metric.IOPS).value or 0.0
    assert row.metric(Metric.STORAGE_CPU).value == pytest.approx(1.3 / rate)
    assert row.metric(Metric.STORAGE_MEMORY).value == 5e9
    assert row.metric(Metric.DISK_BYTES).value == pytest.approx(1228800 / rate)
    assert row.metric(Metric.NETWORK_BYTES).value is None
    watched(run, b"no record", name=layout.PROMETHEUS)
    assert [one.metric for one in one_row(Run(run.path)).costs] == [Metric.CLIENT_CPU]


def test_kubelets_give_processor_time_and_memory_of_the_storages_pods(tmp_path: Path) -> None:
    osd = {"namespace": "rook-ceph", "pod": "osd-0", "container": "osd", "age_s": 0.0}

    def sampled(at_s: float, cpu_s: float) -> bytes:
        read = {**osd, "read_at_s": 1e9 + at_s, "cpu_s": cpu_s, "memory_bytes": 5e9}
        line = {"at": "", "elapsed_s": at_s, "node": "a", "cores": 8, "containers": [read]}
        return json.dumps(line).encode()

    run = build(tmp_path / "r", {"a": (cell(), [Stored()])})
    content = b"\n".join((sampled(0.0, 10.0), sampled(10.0, 25.0)))
    row = one_row(watched(run, content, name=layout.KUBELETS))
    rate = row.metric(Metric.IOPS).value or 0.0
    assert row.metric(Metric.STORAGE_CPU).value == pytest.approx(1.5 / rate)
    assert row.metric(Metric.STORAGE_MEMORY).value == 5e9
    assert row.metric(Metric.DISK_BYTES).value is None
    assert row.metric(Metric.NETWORK_BYTES).value is None


def test_nothing_is_computed_without_a_rate() -> None:
    use = ResourceUse(storage_cores=1.0, storage_memory_bytes=5.0)
    assert use.costs(0.0) == {Metric.STORAGE_MEMORY: 5.0}
    assert use.costs(4.0)[Metric.STORAGE_CPU] == 0.25


def two_targets(folder: Path, cores: dict[str, list[float]]) -> Run:
    """Targets with the same recorded rates, whose daemons use other numbers of cores."""
    cells = {
        name: (cell(target=name), [Stored() for _ in trials]) for name, trials in cores.items()
    }
    flat = [daemons(used) for trials in cores.values() for used in trials]
    return watched(build(folder, cells), *flat)


def compared(run: Run, *metrics: Metric) -> Comparison:
    def judged(run: Run) -> Any:
        return figures(run, ()), ()

    sides = within_run(run, By.TARGET, "a", "b", judged)
    return compare(*sides, by=By.TARGET, metrics=metrics or tuple(Metric))


COSTLY = {"a": [0.50, 0.51, 0.50, 0.49], "b": [1.00, 1.02, 1.00, 0.98]}


def test_a_comparison_tests_costs_apart_from_the_rates(tmp_path: Path) -> None:
    run = two_targets(tmp_path / "r", COSTLY)
    comparison = compared(run)
    assert not any(one.metric.is_cost for one in comparison.cells)
    by_metric = {one.metric: one for one in comparison.costs}
    spent = by_metric[Metric.STORAGE_CPU]
    assert spent.verdict is Verdict.WORSE
    assert spent.judgement.ratio == pytest.approx(2.0, rel=0.02)
    assert spent.judgement.interval is not None
    assert by_metric[Metric.CLIENT_CPU].verdict is not Verdict.WORSE
    # A look at a running study tests the same family as the comparison afterwards.
    pairs = paired_samples(comparison.baseline, comparison.candidate)
    assert len(pairs) == len(comparison.cells)
    alone = compared(run, *IO_METRICS)
    assert alone.costs == ()
    assert [one.judgement for one in alone.cells] == [one.judgement for one in comparison.cells]
    (result,) = check_limits(comparison.costs, [parse_limit("storage-cpu > +20%")])
    assert result.outcome.value == "exceeded"


def test_costs_alone_are_next_to_the_usual_rate(tmp_path: Path) -> None:
    comparison = compared(two_targets(tmp_path / "r", COSTLY), Metric.STORAGE_CPU)
    assert [one.metric for one in comparison.cells] == [Metric.IOPS]
    assert [one.metric for one in comparison.costs] == [Metric.STORAGE_CPU]


def test_a_gate_has_limits_on_costs_next_to_those_on_rates(tmp_path: Path) -> None:
    run = two_targets(tmp_path / "r", COSTLY)
    policy = Policy(
        rules=(PolicyRule(limit="storage-cpu > +20%"), PolicyRule(limit="read iops < -50%"))
    )
    comparison = compared(run, *policy.metrics)
    gate = decide(policy, comparison, comparison)
    outcomes = {one.rule.limit: (one.outcome, one.confirmed) for one in gate.results}
    assert outcomes == {
        "storage-cpu > +20%": (GateOutcome.FAIL, True),
        "read iops < -50%": (GateOutcome.PASS, None),
    }
    rows = paired_samples(comparison.baseline, comparison.candidate, metrics=policy.metrics)
    rates = gate_rates(policy, comparison, rows, simulations=40)
    assert rates.unchanged[GateOutcome.FAIL] <= 6
    assert rates.changed[GateOutcome.FAIL] > rates.unchanged[GateOutcome.FAIL]


def test_a_ranking_by_a_cost_has_the_cheapest_first(tmp_path: Path) -> None:
    run = two_targets(tmp_path / "r", {"b": COSTLY["b"], "a": COSTLY["a"]})
    found = figures(run, ())
    ranking = rank(run, found, selected(run, found, ["randread storage-cpu"]))
    assert {one.target: one.rank for one in ranking.standings} == {"a": 1, "b": 2}
    with pytest.raises(LeadlineError, match="no target has a disk-bytes"):
        selected(run, found, ["disk-bytes"])


def test_of_reads_and_writes_at_once_the_total_has_the_costs(tmp_path: Path) -> None:
    mixed = cell("mixed", pattern=Pattern.RANDRW)

    def both(document: dict[str, Any]) -> None:
        job = document["jobs"][0]
        job["write"] = dict(job["read"])

    run = watched(build(tmp_path / "r", {"a": (mixed, [Stored(edit=both)])}), daemons(0.6))
    rows = {row.op: row for row in figures(run, ())}
    assert {op for op, row in rows.items() if row.costs} == {Op.TOTAL}
    question = selected(run, tuple(rows.values()), ["storage-cpu"])
    assert [one.op for one in question.objectives] == [Op.TOTAL]
    assert question.not_measured == ()


def test_every_metric_has_a_unit_and_a_direction() -> None:
    assert {metric for metric in Metric if metric.is_cost} == set(COSTS)
    assert all(metric.lower_is_better and not metric.is_latency for metric in COSTS)
    assert Metric.STORAGE_CPU.unit == "s"
    assert Metric.DISK_BYTES.unit == "bytes"
    assert {metric for metric in Metric if not metric.lower_is_better} == {
        Metric.IOPS,
        Metric.BANDWIDTH,
    }
