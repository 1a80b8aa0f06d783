"""`leadline check`: what a plan would do, without doing it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from leadline.cli.options import format_option, plan_options, power_of, runs_option
from leadline.cli.output import echo_line, echo_rendered
from leadline.errors import Exit
from leadline.plan.drill_rules import drill_consents, plan_drill
from leadline.plan.faults import nearest_word
from leadline.plan.follow_ups import follow_up_bound
from leadline.plan.footprint import shared_layouts, target_footprint
from leadline.plan.groups import Demand, peak_demand, planned_groups
from leadline.plan.guard import Guard
from leadline.plan.guard_rules import guarded_course
from leadline.plan.loader import Overrides, PlanInvalid, load_plan
from leadline.plan.models import FollowUp, OpenLoop, Plan
from leadline.plan.setting_commands import setting_commands
from leadline.plan.stop import Stop
from leadline.plan.stop_rules import compared_pairs, most_seconds
from leadline.plan.target_url import TargetKind
from leadline.plan.volume_request import Access, VolumeRequest
from leadline.settings.states import used_settings
from leadline.text import count_text, shortened, visible
from leadline.units import (
    format_bandwidth,
    format_block_size,
    format_duration,
    format_iops,
    format_size,
)

if TYPE_CHECKING:
    from leadline.analysis.power import CellPower, Power


@click.command()
@plan_options
@runs_option
@format_option("text", "json")
def command(plan: Path | None, runs: Path, output: str, **given: object) -> Exit:
    """Show what a plan would do: every cell, the time, and the bytes it would write.

    All faults of a plan are reported at once, each with its line and the nearest valid name.
    Nothing is touched; targets are not looked at. The queries of a `guard:` are sent to their
    Prometheus once. With --detect it shows how many trials each cell needs.

    \b
    Example:
        leadline check plans/demo.yaml
        leadline check plans/demo.yaml --detect 10% --like @latest
        leadline check --target dir:/mnt/pool --profile odf-vm --runtime 30s
    """
    try:
        checked = load_plan(plan, Overrides(**given))  # type: ignore[arg-type]
    except PlanInvalid as error:
        if output == "json":
            from leadline.report.answers.run import faulty_output

            echo_rendered(faulty_output(error.faults).to_json())
        raise
    power = power_of(checked, runs)
    if output == "json":
        from leadline.report.answers.run import check_output

        course = None
        if checked.guard is not None:
            course = guarded_course(checked, checked.guard, datetime.now(UTC))
        echo_rendered(check_output(checked, power, course).to_json())
    else:
        echo_rendered(describe(checked, power))
    if checked.guard is not None:
        for line in _read_limits(checked.guard):
            echo_line(line, err=True)
    return Exit.ANSWERED


def describe(plan: Plan, power: Power | None = None) -> str:
    """The plan for people: the matrix, then what it costs, and how many trials find a change."""
    from leadline.report.words import workload_text

    rows: list[tuple[str, ...]] = [("target", "workload", "level", "what", "time a trial")]
    for cell in plan.cells:
        phases = [
            f"{phase.pattern.value} {format_block_size(phase.block_size)}"
            f" {format_size(phase.size)} {'for' if phase.sharing else 'x'} {phase.numjobs}"
            for phase in cell.workload.phases
        ]
        what = ", then ".join(phases) if phases else f"job file {cell.workload.name}"
        if cell.workload.own_data:
            what = workload_text(cell.workload)
        if cell.workload.streams:
            (phase,) = cell.workload.phases
            jobs = f" x {phase.numjobs}" if phase.numjobs > 1 else ""
            what = f"zfs send | receive {format_size(phase.size)}{jobs}"
        duration = format_duration(cell.workload.duration_s)
        texts = (cell.target, cell.workload.name, cell.level, what, duration)
        rows.append(tuple(map(visible, texts)))
    lines = _table(rows)
    if not plan.cells:
        lines = ["nothing at first: what is measured decides what comes next"]
    trials, cells = count_text(len(plan.trials), "trial"), count_text(len(plan.cells), "cell")
    repeats = count_text(plan.repeats, "repeat")
    io_time = format_duration(plan.duration_s)
    order = f"interleaved in random blocks (seed {plan.seed})"
    if plan.groups:
        order = f"in {count_text(len(plan.groups), 'group')}, {order} inside each"
    lines += [
        "",
        f"{trials}: {cells} x {repeats}, {order}",
        f"time: {io_time} of I/O, besides prefill and about half a second a trial",
    ]
    lines += [_later(plan, follow_up) for follow_up in plan.follow_ups]
    if plan.stop is not None:
        lines.append(_describe_stop(plan, plan.stop))
    lines += describe_groups(plan)
    if plan.guard is not None:
        lines += _describe_guard(plan, plan.guard)
    drill = plan_drill(plan)
    if drill is not None:
        lasts = f", for {format_duration(drill.lasts)}" if drill.event.is_undone else ""
        after = format_duration(drill.after)
        lines.append(f"drill: {drill.event} after {after} of each trial{lasts}")
        lines += [f"drill: needs --allow-drill {name}" for name in drill_consents(plan)]
    for (cluster, image), layout in shared_layouts(plan).items():
        parts = ", ".join(
            f"{part.value} {format_size(extent.size)}" for part, extent in layout.items()
        )
        whole = format_size(sum(file.size for file in layout.values()))
        pool = image.data_pool or image.pool
        on = f"{pool} of {cluster}" if len(plan.clusters) > 1 else pool
        lines.append(f"image shared on {on}: {whole} ({parts}), made for the run")
        lines += [
            f"image of the {vdev.vdev_class} vdev on {vdev.pool}: {format_size(vdev.size)}, "
            "made for the run"
            for vdev in image.vdevs
        ]
    if plan.settings:
        lines += _describe_settings(plan)
    for target in plan.own_targets:
        footprint = target_footprint(plan, target.name)
        if footprint.own_bytes:
            lines.append(
                f"data of {target.name}: {format_size(footprint.own_bytes)} at most, made and "
                "removed in each trial"
            )
        in_files = target.parsed.kind.in_files
        size = footprint.prefilled_bytes if in_files else footprint.span
        if plan.prefill and (size or not footprint.own_bytes):
            where = _where(target.parsed.request) if target.parsed.kind.on_kubernetes else ""
            lines.append(
                f"prefill of {target.name}: {format_size(size)} written and verified{where}"
            )
        url = target.parsed
        if not (plan.prefill or footprint.writes):
            continue
        if url.kind is TargetKind.DEVICE:
            lines.append(
                f"{target.name}: what is on the device is destroyed "
                f"(needs --destroy-data {url.location})"
            )
        elif url.kind is TargetKind.RBD and url.image:
            lines.append(
                f"{target.name}: what is in the image is destroyed "
                f"(needs --destroy-data rbd:{url.location})"
            )
    if power is not None:
        lines += _power_lines(power, plan)
    return "\n".join(map(visible, lines))


def _describe_stop(plan: Plan, stop: Stop) -> str:
    """What ends the run, and the most that it may add."""
    pairs = count_text(len(compared_pairs(plan)), "comparison")
    limit = f" (trials of {format_duration(stop.max_time_s)} at most)" if stop.max_time_s else ""
    return (
        f"then rounds of the cells whose rates are open: {pairs} of a {stop.compare} with "
        f"{stop.baseline}, margin {stop.within:.0%}; at most {stop.max_repeats} trials of a cell"
        f"{limit}, {format_duration(most_seconds(plan, plan.repeats))} more of I/O"
    )


def _describe_guard(plan: Plan, guard: Guard) -> list[str]:
    """The guard, and what it makes of a run that starts now."""
    from leadline.audit.rules.cluster_not_healthy import CHECKS
    from leadline.report.pages.run.guard import guard_rows

    lines = [f"guard: {key}: {text}" for key, text in guard_rows(guard)]
    course = guarded_course(plan, guard, datetime.now(UTC))
    if course.peak_iops is not None and course.peak_bps is not None:
        lines.append(
            f"guard: peak {format_iops(course.peak_iops)} IOPS, "
            f"{format_bandwidth(course.peak_bps)} MiB/s, prefill included"
        )
    if guard.quiet_hours:
        ends = f"{course.ends.astimezone():%a %d %b %H:%M}"
        lines.append(
            f"guard: a run that starts now waits {format_duration(round(course.waits_s))} for "
            f"quiet hours, and ends about {ends} without its set-up"
        )
    known = ("HEALTH_ERR", "HEALTH_WARN", *CHECKS)
    for code in guard.ceph_health:
        # Each type of the CRUSH map has a code: OSD_HOST_DOWN, OSD_RACK_DOWN.
        if code not in known and not (code.startswith("OSD_") and code.endswith("_DOWN")):
            near = nearest_word(code, known)
            hint = f"; did you mean {near}?" if near else ""
            lines.append(f"guard: {code} is no health check that this version knows{hint}")
    return lines


def _read_limits(guard: Guard) -> Iterator[str]:
    """Read the limits on Prometheus; a line for each. Raises LeadlineError where one has no
    reading: the run would be refused."""
    from leadline.runner.guard import QueryLimit, require_reading

    for limit in map(QueryLimit, guard.prometheus):
        reading = require_reading(limit)
        state = "CROSSED, the run would be refused" if reading.crossed else "kept"
        yield f"guard: {limit.name} is {reading.text} now, stops {limit.text}: {state}"


def _where(request: VolumeRequest) -> str:
    """The volumes that get the data of a StorageClass target; empty for a single one."""
    if request.access is Access.ROX:
        return f" on one volume; its copy is read by {count_text(request.count, 'pod')}"
    if request.sharing is not None:
        return f" on one volume of {count_text(request.count, 'pod')}"
    return f" on each of {request.count} volumes" if request.count > 1 else ""


def describe_groups(plan: Plan) -> list[str]:
    """The groups of a plan with the most that each holds, and the peak; none without groups."""
    if not plan.groups:
        return []
    groups = planned_groups(plan)
    rows = [("group", "volumes", "requested", "written", "cores", "trials", "I/O", "targets")]
    for number, one in enumerate(groups, start=1):
        blocks = ", ".join(str(block + 1) for block in one.group.blocks)
        repeat = f" (repeat {blocks})" if blocks else ""
        rows.append(
            (
                str(number),
                *_amounts(one.demand),
                str(len(one.trials)),
                format_duration(one.seconds),
                shortened(one.group.targets, 4) + repeat,
            )
        )
    peak = peak_demand(groups)
    total = str(len(plan.trials)), format_duration(plan.duration_s)
    rows.append(("peak", *_amounts(peak), *total, ""))
    lines = _table(rows)
    lines.insert(len(lines) - 1, lines[1])
    unknown = [target.name for target in plan.targets if target.copies is None]
    if unknown:
        lines.append(
            f"copies unknown, counted once: {shortened(unknown, 4)} "
            "(`copies: 3` of a target states them)"
        )
    return ["", *lines, ""]


def _describe_settings(plan: Plan) -> list[str]:
    """The settings of a plan, and the states that they make."""
    states = len({tuple(target.settings.items()) for target in plan.targets})
    lines = [f"settings: {states} states, the present one included ({plan.design.value})"]
    for setting in plan.settings:
        restarts = "; may restart daemons (--restart-daemons)" if setting.restarts else ""
        values = ", ".join(setting.values)
        lines.append(f"setting {setting.name} ({setting.kind}): {values}{restarts}")
    return lines


def describe_changes(plan: Plan) -> Iterator[str]:
    """Every change of a setting of running systems, each with its undo."""
    for setting, cluster in used_settings(plan):
        on = f" on {cluster}" if cluster else ""
        yield f"# setting {setting.name}{on}"
        for value in setting.values:
            yield from setting_commands(plan, setting, value, cluster)
        may_lack = setting.ceph_config or setting.pool or setting.kubernetes
        second = "; the second form where there was none" if may_lack else ""
        yield f"# undo, with the value before the run{second}"
        yield from setting_commands(plan, setting, "BEFORE", cluster, undo=True)
        if may_lack:
            yield from setting_commands(plan, setting, None, cluster, undo=True)


def _power_lines(power: Power, plan: Plan) -> list[str]:
    """The trials that each cell needs to show a change."""
    from leadline.analysis.verdicts import BETWEEN_RUNS, REPEATS_DEVIATION

    rows: list[tuple[str, ...]] = [
        ("workload", "level", "operation", "scatter", "trials", "planned", "I/O time")
    ]
    seconds = {
        (cell.workload.name, cell.level): cell.workload.duration_s * len(plan.targets)
        for cell in plan.cells
    }
    for one in power.cells:
        time = seconds[one.workload, one.level]
        operation = one.op.value if one.op else "all"
        rows.append(
            (
                one.workload,
                one.level,
                operation,
                f"{one.scatter:.1%}{'' if one.measured else ' *'}",
                _trials_text(one),
                str(plan.repeats),
                format_duration(one.trials.number * time) if one.trials else "",
            )
        )
    comparisons = count_text(power.comparisons, "comparison")
    scatter = f"; scatter of {power.run}" if power.run else ""
    title = (
        f"trials of each target to find a change of {power.change:.0%} beyond a margin of "
        f"{power.margin:.0%} in 4 of 5 cases (rates; {comparisons}{scatter}):"
    )
    lines = ["", title, "", *_table(rows)]
    if not all(one.measured for one in power.cells):
        lines.append(
            "* the median of published repeats, and up to their 90th percentile, "
            f"{REPEATS_DEVIATION:.0%}; "
            "`--like RUN` takes the scatter of a run of yours"
        )
    if power.across_runs:
        lines.append(
            "one target is compared with another run, and runs of one system differ by "
            f"{BETWEEN_RUNS:.0%}; "
            "targets of one plan are compared without that"
        )
    return lines


def _trials_text(cell: CellPower) -> str:
    found = cell.trials
    if found is None:
        return "more than 1,000"
    most = "more than 1,000" if found.high is None else f"{found.high:,}"
    return f"{found.number:,} ({found.low:,} to {most})"


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Lines of columns as wide as their texts; the first row is ruled off."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


def _amounts(demand: Demand) -> tuple[str, str, str, str]:
    return (
        str(demand.volumes),
        format_size(demand.capacity_bytes),
        format_size(demand.written_bytes),
        f"{demand.cores:g}",
    )


def _later(plan: Plan, asked: FollowUp) -> str:
    """What is added when there are results."""
    bound = follow_up_bound(plan, asked)
    if isinstance(asked, OpenLoop):
        shares = ", ".join(f"{share:.0%}" for share in asked.shares)
        what = f"an open loop at {shares} of its peak"
    else:
        rate = asked.workload.load.offered_iops or 0.0
        what = (
            f"how many clients at {rate:g} IOPS each stay within {asked.limit} (up to {asked.most})"
        )
    return (
        f"then {bound.workload} on {asked.target}: {what}; at most {bound.trials} trials, "
        f"{format_duration(bound.asked_s)} of I/O"
    )
