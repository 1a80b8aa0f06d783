"""From a study of layers to the answer for programs."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.analysis.layers.arithmetic import Step
from leadline.analysis.layers.little import Little, object_size
from leadline.analysis.layers.model import Figure, Flow, LayerFlow
from leadline.analysis.layers.sizes import Sizes
from leadline.analysis.layers.study import CellLayers, LayerStudy
from leadline.analysis.layers.sweep import RecordSweep, SweepRow
from leadline.report.layers import output as told

LAYER_COLUMNS = (
    *("target", "workload", "level", "trial", "layer", "kind", "name", "basis", "op"),
    *("rate", "bandwidth", "mean_size", "p50_size", "p99_size", "merged", "latency", "in_flight"),
    *("shared", "unobserved"),
)


def layers_output(study: LayerStudy) -> told.LayersOutput:
    return told.LayersOutput(
        run=study.run.id,
        cells=[_cell(one) for one in study.cells],
        sweeps=[_sweep(one) for one in study.sweeps],
        missing=list(study.missing),
    )


def layer_rows(answer: told.LayersOutput) -> Iterator[tuple[object, ...]]:
    """Rows under LAYER_COLUMNS: one for each direction of each layer, and one without a direction
    for a layer that has none."""
    for cell in answer.cells:
        for place, layer in enumerate(cell.layers):
            lead = (
                *(cell.target, cell.workload, cell.level, cell.trial, place),
                *(layer.kind, layer.name, layer.basis),
            )
            end = (layer.shared, layer.unobserved)
            for flow in layer.flows:
                sizes = flow.sizes
                yield (
                    *lead,
                    flow.op,
                    *(flow.rate.value, flow.bandwidth.value, flow.mean_size),
                    *((sizes.p50, sizes.p99) if sizes else (None, None)),
                    *(flow.merged.value, flow.latency.value, flow.in_flight.value),
                    *end,
                )
            if not layer.flows:
                yield (*lead, "", *(None,) * 7, layer.in_flight.value, *end)


def _cell(one: CellLayers) -> told.CellLayersOutput:
    found, explanation = one.median, one.explanation
    stalls = explanation.stalls
    size = object_size(found.layers)
    return told.CellLayersOutput(
        target=one.target,
        workload=one.workload,
        level=one.level,
        trial=found.trial.record.label,
        layers=[_layer(layer, size) for layer in found.layers],
        steps=[_step(step) for step in found.steps],
        copies=found.copies,
        explanation=list(explanation.sentences),
        little=_little(explanation.little) if explanation.little else None,
        stalls=told.StallsOutput(
            for_receiver_share=stalls.for_receiver_share,
            for_sender_share=stalls.for_sender_share,
            full_share=stalls.full_share,
            empty_share=stalls.empty_share,
            slower=stalls.slower,
        )
        if stalls
        else None,
        lost_at=found.steps.index(explanation.lost_at) if explanation.lost_at else None,
        settings=[
            told.SettingOutput(
                name=setting.name,
                value=setting.value,
                relevance=setting.relevance.value,
                sentence=setting.sentence,
                evidence=dict(setting.evidence),
            )
            for setting in one.settings
        ],
        sums=[
            told.SumOutput(
                trial=part.trial,
                op=part.op.value,
                above=part.above,
                below=part.below,
                difference=part.difference,
                adds_up=part.adds_up,
            )
            for part in one.sums
        ],
        refused=list(one.refused),
        notes=list(found.notes),
    )


def _layer(layer: LayerFlow, object_bytes: int | None) -> told.LayerOutput:
    return told.LayerOutput(
        kind=layer.kind.value if layer.kind else "engine",
        name=layer.name,
        devices=list(layer.devices),
        facts=dict(layer.facts),
        basis=layer.basis.value,
        flows=[_flow(flow, object_bytes) for flow in layer.flows.values()],
        in_flight=_figure(layer.in_flight),
        shared=layer.shared,
        unobserved=layer.unobserved,
        notes=list(layer.notes),
    )


def _flow(flow: Flow, object_bytes: int | None) -> told.FlowOutput:
    return told.FlowOutput(
        op=flow.op.value,
        rate=_figure(flow.rate),
        bandwidth=_figure(flow.bandwidth),
        mean_size=flow.mean_size_bytes,
        merged=_figure(flow.merged),
        latency=_figure(flow.latency),
        in_flight=_figure(flow.in_flight),
        sizes=_sizes(flow.sizes, object_bytes) if flow.sizes else None,
        sizes_absent="" if flow.sizes else flow.sizes_absent,
    )


def _figure(one: Figure) -> told.FigureOutput:
    return told.FigureOutput(value=one.value, source=one.source, absent=one.absent)


def _sizes(sizes: Sizes, object_bytes: int | None) -> told.SizesOutput:
    return told.SizesOutput(
        source=sizes.source,
        exact=sizes.exact,
        requests=sizes.requests,
        lost=sizes.lost,
        p50=sizes.quantile_bytes(0.5),
        p90=sizes.quantile_bytes(0.9),
        p99=sizes.quantile_bytes(0.99),
        full_object_share=sizes.share_from(object_bytes) if object_bytes else None,
        counts=[
            told.SizeOutput(bytes=size, requests=count)
            for size, count in sorted(sizes.counts.items())
            if count
        ],
    )


def _step(step: Step) -> told.StepOutput:
    return told.StepOutput(
        op=step.op.value,
        above=step.above,
        below=step.below,
        through=list(step.through),
        bytes_ratio=step.bytes_ratio,
        bytes_ratio_least=step.ratio_bounds[0] if step.ratio_bounds else None,
        bytes_ratio_most=step.ratio_bounds[1] if step.ratio_bounds else None,
        operations_ratio=step.operations_ratio,
        size_ratio=step.size_ratio,
        in_flight_ratio=step.in_flight_ratio,
        one_to_one=step.one_to_one,
        difference=step.difference,
        adds_up=step.adds_up,
        open_for=step.open_for,
        reasons=list(step.reasons),
    )


def _little(one: Little) -> told.LittleOutput:
    return told.LittleOutput(
        op=one.op.value,
        layer=one.place,
        size=one.size_bytes,
        median_size=one.median_bytes,
        in_flight=one.in_flight,
        latency=one.latency_s,
        product=one.product_bps,
        throughput=one.throughput_bps,
        difference=one.difference,
        closes=one.closes,
        object_bytes=one.object_bytes,
        requests_per_object=one.objects,
    )


def _sweep(sweep: RecordSweep) -> told.SweepOutput:
    return told.SweepOutput(
        workload=sweep.workload, level=sweep.level, rows=[_row(one) for one in sweep.rows]
    )


def _row(one: SweepRow) -> told.SweepRowOutput:
    little = one.little
    return told.SweepRowOutput(
        target=one.target,
        record_bytes=one.record_bytes,
        throughput=one.throughput_bps,
        throughputs=list(one.throughputs_bps),
        refused=list(one.refused),
        block_size=one.block_bytes,
        layer=one.little_at,
        size=little.size_bytes if little else None,
        in_flight=little.in_flight if little else None,
        latency=little.latency_s if little else None,
        product=little.product_bps if little else None,
        requests_per_object=little.objects if little else None,
    )
