"""Forecasts of runs and inventories: systems, changes, calibration and bounds put together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from leadline import errors
from leadline.analysis.bottleneck.evidence import levels_evidence
from leadline.analysis.comparison import Side
from leadline.analysis.explain.round_trips import network_time_s
from leadline.analysis.predict.calibrate import Calibration, calibrate, forecast
from leadline.analysis.predict.changes import Changes, apply
from leadline.analysis.predict.expected import ExpectedRate, expected_rates
from leadline.analysis.predict.facts import (
    METRICS,
    Bound,
    Forecast,
    ForecastError,
    Layer,
    LeftOut,
    Refusal,
    Shift,
)
from leadline.analysis.predict.prediction import (
    CurveForecast,
    Prediction,
    validated_errors,
)
from leadline.analysis.predict.shifts import KnownBefore, shift_between
from leadline.analysis.predict.system import (
    System,
    bound_of,
    creation_bound,
    is_streaming,
    receive_bound,
    system_of,
)
from leadline.analysis.predict.validate import MeasuredCurve, forecast_errors, validate
from leadline.analysis.scaling.curves import LoadCurve, LoadPoint, load_curves, refused
from leadline.analysis.workloads import block_bytes, traits_of
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.formats.result import JobOptions
from leadline.metrics import Metric, Op
from leadline.plan.footprint import OBJECT_BYTES
from leadline.plan.workload import Workload

# Loads between two measured levels that are drawn.
_BETWEEN = 3
# Workloads of an inventory: name, operation, block size in bytes.
_TYPICAL = (
    ("random 4k", Op.READ, 4096.0),
    ("random 4k", Op.WRITE, 4096.0),
    ("sequential 1M", Op.READ, float(1 << 20)),
    ("sequential 1M", Op.WRITE, float(1 << 20)),
)
_TYPICAL_DEPTHS = (1, 32)
_CREATION = "file creation"
# Changes of round trips alone are validated across clusters, of redundancy across targets.
_OF_ROUND_TRIPS = {"failure_domain", "inter_zone_rtt", "read_affinity"}
_OF_SIZE = {"nodes", "osds", "osd_cores"}
_OF_LOAD = {"clients", "depth"}

SystemOf = Callable[[str], System]


def predict_run(side: Side, changes: Changes, *, known: SystemOf | None = None) -> Prediction:
    """Forecast every curve of a system, as it is or with changes, and bound its other work. `known`
    gives the system of a target, else the archive.

    Raises LeadlineError (`usage`) for an impossible change.
    """
    system = cache(known or (lambda target: system_of(side.run, target)))
    curves = tuple(
        _forecast_curve(side, curve, system(curve.target), apply(system(curve.target), changes))
        for curve in _curves(side)
    )
    return Prediction(
        runs=(side.run.id,),
        system=side.name,
        curves=(*curves, *_bounds_of_other_work(side, system, changes)),
        changes=_texts(changes),
        errors=_errors(changes),
        rates=_rates(side, system),
    )


def predict_against(
    baseline: Side, candidate: Side, changes: Changes, *, known: SystemOf | None = None
) -> Prediction:
    """Forecast the candidate from the baseline's measurements, and add what was measured there.
    Without changes, the candidate's system is that of its archive; its results are not looked at.

    Raises LeadlineError: `usage` for an impossible change; `not-comparable` where nothing was
    measured on both.
    """
    system = cache(known or (lambda target: system_of(baseline.run, target)))
    partners = {name: candidate.targets.get(one) for one, name in baseline.targets.items()}
    measured = {(one.target, one.workload, one.op): one for one in _curves(candidate)}
    curves = []
    for curve in _curves(baseline):
        partner = partners[curve.target]
        other = measured.get((partner or "", curve.workload, curve.op))
        if partner is None or other is None:
            continue
        before = system(curve.target)
        after = apply(before, changes) if changes.texts else system_of(candidate.run, partner)
        seen = {point.level: point for point in (*other.closed, *other.offered)}
        curves.append(_forecast_curve(baseline, curve, before, after, seen))
    if not curves:
        raise LeadlineError(
            errors.NOT_COMPARABLE,
            f"{baseline.name} and {candidate.name} have no target and workload in common",
            context=[", ".join(side.targets) for side in (baseline, candidate)],
            hint="`leadline predict RUN` forecasts one system",
        )
    return Prediction(
        runs=tuple(dict.fromkeys((baseline.run.id, candidate.run.id))),
        system=baseline.name,
        against=candidate.name,
        curves=tuple(curves),
        changes=_texts(changes),
        errors=validated_errors(LeftOut.CLUSTER),
        rates=_rates(baseline, system),
    )


def _rates(side: Side, system: SystemOf) -> tuple[ExpectedRate, ...]:
    """Return what was expected of the cells of a system before they were measured."""
    subjects = {name: subject for subject, name in side.targets.items()}
    return tuple(
        replace(rate, target=subjects[rate.target])
        for rate in expected_rates(side.run, side.figures, system)
        if rate.target in subjects
    )


def predict_inventory(name: str, systems: Iterable[System], changes: Changes) -> Prediction:
    """Compute the bounds of each pool of an inventory, for typical I/Os, and for files created on
    CephFS.

    Raises LeadlineError (`usage`) for an impossible change.
    """
    curves = tuple(
        curve for before in systems for curve in _typical_curves(before, apply(before, changes))
    )
    return Prediction(runs=(), system=name, curves=curves, changes=_texts(changes))


def _typical_curves(before: System, after: System) -> Iterator[CurveForecast]:
    """Yield the bounds of a pool for typical I/Os, and for files created on CephFS."""
    depths = (after.depth * (after.clients or 1),) if after.depth else _TYPICAL_DEPTHS
    for workload, op, size in _TYPICAL:
        bound = partial(bound_of, op=op, block_bytes=size)
        one = _bounds_alone(workload, op, bound, before, after, Refusal.NO_TRUSTED_CELL)
        levels = tuple(replace(one, level=f"iodepth={depth}", in_flight=depth) for depth in depths)
        yield CurveForecast(target=one.target, workload=workload, op=op, levels=levels)
    if before.ranks:
        one = _bounds_alone(
            _CREATION, Op.WRITE, creation_bound, before, after, Refusal.NO_TRUSTED_CELL
        )
        yield CurveForecast(target=one.target, workload=_CREATION, op=Op.WRITE, levels=(one,))


def _bounds_alone(
    workload: str,
    op: Op,
    bound: Callable[[System], Bound],
    before: System,
    after: System,
    refusal: Refusal,
) -> Forecast:
    """Return a cell that no model is calibrated for, without a load."""
    now, then = bound(before), bound(after)
    return Forecast(
        target=before.target,
        workload=workload,
        level="",
        op=op,
        in_flight=None,
        layer=Layer.BOUNDS,
        bound_now=now,
        bound=then,
        limit_before=now.capacity_of,
        limit_after=then.capacity_of,
        refusals=tuple(dict.fromkeys((refusal, *after.refusals))),
    )


def _bounds_of_other_work(
    side: Side, system: SystemOf, changes: Changes
) -> Iterator[CurveForecast]:
    """Yield the bounds of work that is no I/O of blocks, where they are known: files that are
    created on CephFS, and streams that ZFS receives."""
    run = side.run
    subjects = {name: subject for subject, name in side.targets.items()}
    streams = {
        (cell.workload.name, cell.level): cell.workload.phases[0].numjobs
        for cell in run.plan.cells
        if cell.workload.streams
    }
    traits = traits_of(run, side.figures)
    bound: Callable[[System], Bound]
    for figure in side.figures:
        if figure.op is not Op.WRITE or figure.target not in subjects:
            continue
        jobs = streams.get((figure.planned_workload, figure.level))
        if jobs is not None:
            bound, rate = partial(receive_bound, streams=jobs), Metric.BANDWIDTH
        elif traits[figure.workload, figure.level, figure.op].file_op is Op.WRITE:
            bound, rate = creation_bound, Metric.IOPS
        else:
            continue
        before = system(figure.target)
        after = apply(before, changes)
        one = _bounds_alone(figure.workload, Op.WRITE, bound, before, after, Refusal.NO_BLOCKS)
        if one.bound_now is None or one.bound_now.capacity_iops is None:
            continue
        measured = figure.metric(rate)
        if measured.value is not None and not refused(measured):
            one = replace(one, measured={rate: measured.value})
        one = replace(one, target=subjects[figure.target], level=figure.level)
        yield CurveForecast(target=one.target, workload=one.workload, op=Op.WRITE, levels=(one,))


def predict_left_out(sides: Sequence[Side], left_out: LeftOut) -> Prediction:
    """Forecast left-out cells of runs, and return the errors alone.

    Raises LeadlineError (`nothing-to-predict`) where no cell is left to forecast.
    """
    runs: dict[int, Run] = {}
    curves = []
    for side in sides:
        run = side.run
        for curve in _curves(side):
            target = run.plan.target(curve.target)
            first = (*curve.closed, *curve.offered)[0]
            one = MeasuredCurve(
                curve=curve,
                evidence=levels_evidence(run, curve.target, first.figure.planned_workload),
                cluster=target.place or target.cluster or run.id,
                system=target.subject or target.name,
                network_s=_network_s(
                    system_of(run, target.name),
                    curve.op,
                    block_bytes(run.plan.cells[first.cell].workload),
                ),
            )
            curves.append(one)
            runs[id(one)] = run

    def shift_of(source: MeasuredCurve, other: MeasuredCurve) -> Shift:
        last = (*source.curve.closed, *source.curve.offered)[-1]
        workload = runs[id(source)].plan.cells[last.cell].workload
        return shift_between(
            system_of(runs[id(source)], source.curve.target),
            system_of(runs[id(other)], other.curve.target),
            source.curve.op,
            block_bytes(workload),
            KnownBefore(
                evidence=source.evidence.get(last.level),
                load=last.load,
                objects=_objects(workload, planned=not runs[id(source)].plan.imported),
                read_share=_read_share(workload),
                most_iops=_most_iops(source.curve),
            ),
        )

    names = tuple(dict.fromkeys(side.run.id for side in sides))
    found = forecast_errors(validate(curves, left_out, shift_of), ", ".join(names), left_out)
    if not found:
        raise LeadlineError(
            errors.NOTHING_TO_PREDICT,
            f"no cell of {', '.join(names)} can be left out and forecast",
            context=[f"--leave {left_out.value}"],
            hint=_NEEDED[left_out],
        )
    return Prediction(runs=names, system=", ".join(names), curves=(), errors=found)


_NEEDED = {
    LeftOut.DEPTH: "a curve needs four trusted load levels: three remain",
    LeftOut.TARGET: "a cluster needs two targets with the same workload",
    LeftOut.CLUSTER: "a target needs the same workload on two clusters",
}


def _texts(changes: Changes) -> tuple[str, ...]:
    return tuple(f"{key}={value}" for key, value in changes.texts.items())


def _errors(changes: Changes) -> tuple[ForecastError, ...]:
    """The errors of the validation that is closest to a change. Clusters of other size have larger
    errors than those with other round trips."""
    keys = changes.texts.keys() - _OF_LOAD
    if not keys:
        return validated_errors(LeftOut.DEPTH)
    if keys <= _OF_ROUND_TRIPS:
        return validated_errors(LeftOut.CLUSTER)
    return validated_errors(LeftOut.CLUSTER if keys & _OF_SIZE else LeftOut.TARGET, worst=True)


def _curves(side: Side) -> Iterator[LoadCurve]:
    """Yield the curves of a system; the total of a mix stands for its directions. Operations on
    whole files have other bounds."""
    targets = set(side.targets.values())
    for curve in load_curves(side.run, side.figures):
        points = (*curve.closed, *curve.offered)
        if curve.target not in targets or curve.part_of_mix or not points:
            continue
        recorded = side.run.plan.cells[points[0].cell].workload.recorded
        if recorded is None or JobOptions(raw=recorded.options).file_op is None:
            yield curve


# --- one curve ----------------------------------------------------------------------------------


def _forecast_curve(
    side: Side,
    curve: LoadCurve,
    before: System,
    after: System,
    seen: Mapping[str, LoadPoint] | None = None,
) -> CurveForecast:
    """Forecast the levels of a curve, and loads between them. `seen` are the levels that were
    measured on the other system."""
    run = side.run
    subject = next(one for one, name in side.targets.items() if name == curve.target)
    points = (*curve.closed, *curve.offered)
    workload = run.plan.cells[points[0].cell].workload
    planned = points[0].figure.planned_workload
    evidence = levels_evidence(run, curve.target, planned)
    size, objects = block_bytes(workload), _objects(workload, planned=not run.plan.imported)
    share = _read_share(workload)
    found = calibrate(curve, evidence, _network_s(before, curve.op, size))

    def shift(point: LoadPoint) -> Shift:
        return shift_between(
            before,
            after,
            curve.op,
            size,
            KnownBefore(
                evidence=evidence.get(points[-1].level),
                load=point.load,
                objects=objects,
                read_share=share,
                most_iops=_most_iops(curve),
            ),
        )

    now, then = (
        bound_of(system, curve.op, size, objects=objects, read_share=share)
        for system in (before, after)
    )
    levels = []
    for point in points:
        other = (seen or {}).get(point.level)
        one = Forecast(
            target=subject,
            workload=curve.workload,
            level=point.level,
            op=curve.op,
            in_flight=None if point.open_loop else point.load.in_flight,
            layer=Layer.BOUNDS,
            measured=_usable(point),
            observed=_usable(other) if other else {},
            bound_now=now,
            bound=then,
        )
        levels.append(_forecast_level(one, found, shift(point)))
    between = []
    if isinstance(found, Calibration):
        unlike = shift(points[-1])
        # The drawn loads are those of the system as it is.
        drawn = replace(unlike, in_flight=None)
        for in_flight in _loads_between(curve):
            one = replace(levels[0], level="", in_flight=in_flight, measured={}, observed={})
            made = _forecast_level(one, found, drawn)
            if made.layer is Layer.CALIBRATED:
                between.append(made)
    return CurveForecast(
        target=subject,
        workload=curve.workload,
        op=curve.op,
        levels=_unlike(levels, points),
        between=tuple(between),
    )


def _unlike(levels: Sequence[Forecast], points: Sequence[LoadPoint]) -> tuple[Forecast, ...]:
    """Return the forecasts of different loads: where a change makes several levels one, that from
    the level nearest to it."""
    own = [None if point.open_loop else point.load.in_flight for point in points]
    if all(one.in_flight == load for one, load in zip(levels, own, strict=True)):
        return tuple(levels)
    nearest: dict[int | None, tuple[float, Forecast]] = {}
    for one, load in zip(levels, own, strict=True):
        far = abs(math.log((one.in_flight or 1) / (load or 1)))
        if one.in_flight not in nearest or far < nearest[one.in_flight][0]:
            nearest[one.in_flight] = far, one
    return tuple(one for _, one in nearest.values())


def _forecast_level(one: Forecast, found: Calibration | Refusal, shift: Shift) -> Forecast:
    """Add to a cell what its calibration expects; else why there is only the bound."""
    if isinstance(found, Refusal) or one.in_flight is None:
        reason = found if isinstance(found, Refusal) else Refusal.OPEN_LOOP
        return replace(
            one,
            in_flight=shift.in_flight or one.in_flight,
            refusals=tuple(dict.fromkeys((reason, *shift.refusals))),
        )
    made = forecast(found, shift, one.in_flight)
    in_flight = shift.in_flight or one.in_flight
    refusals, expected = made.refusals, made.expected
    most = None if one.bound is None else one.bound.most_iops(in_flight)
    if Metric.IOPS in expected and most is not None and expected[Metric.IOPS].value > most:
        # A resource that the model does not know limits the changed system.
        refusals, expected = (*refusals, Refusal.LIMIT_CHANGES), {}
    return replace(
        one,
        in_flight=in_flight,
        layer=Layer.CALIBRATED if expected else Layer.BOUNDS,
        modelled=made.modelled,
        expected=expected,
        limit_before=made.limit_before,
        limit_after=made.limit_after,
        sensitivity=made.sensitivity if expected else None,
        refusals=refusals,
    )


def _usable(point: LoadPoint) -> dict[Metric, float]:
    """The figures that the audit does not refuse."""
    values = {metric: point.usable(metric) for metric in METRICS}
    return {metric: value for metric, value in values.items() if value is not None}


def _loads_between(curve: LoadCurve) -> Iterator[int]:
    """Yield whole numbers of I/Os in flight between neighbouring levels, evenly on a log axis."""
    loads = sorted({point.load.in_flight for point in curve.closed})
    for low, high in itertools.pairwise(loads):
        factor = (high / low) ** (1 / (_BETWEEN + 1))
        found = {round(low * factor**step) for step in range(1, _BETWEEN + 1)}
        yield from sorted(found - {low, high})


def _network_s(system: System, op: Op, block_bytes: float | None) -> float:
    """Return the time of an I/O's messages between places, 0 where it is unknown."""
    if system.pool is None or system.network is None or op not in (Op.READ, Op.WRITE):
        return 0.0
    streaming = is_streaming(block_bytes)
    return network_time_s(op, system.pool, system.network, streaming=streaming).value


def _most_iops(curve: LoadCurve) -> float | None:
    rates = (point.usable(Metric.IOPS) for point in curve.closed)
    return max((rate for rate in rates if rate), default=None)


def _objects(workload: Workload, *, planned: bool) -> int | None:
    """Return the RADOS objects that a workload touches; None if unknown."""
    if not planned or not workload.phases:
        return None
    size = max(1, workload.clients) * max(phase.stretch for phase in workload.phases)
    return math.ceil(size / OBJECT_BYTES)


def _read_share(workload: Workload) -> float:
    """Return the share of reads of a mixed workload."""
    shares = [phase.read_share for phase in workload.phases if phase.read_share is not None]
    return shares[0] / 100 if shares else 0.5
