"""The conditions of a run: host, targets, runners, times, order, settings."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import resources

from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.records import LookEnd, LookState, Runner, TrialStatus
from leadline.archive.verify import Verification
from leadline.errors import LeadlineError
from leadline.files import read_content
from leadline.formats.result import EngineOutput
from leadline.inventory.diff.host import format_layer, format_layers
from leadline.inventory.host import BlockDevice, HostInventory, NvmeController, TargetInventory
from leadline.inventory.layer import Layer
from leadline.plan.models import Cell as PlanCell
from leadline.plan.stop import Stop
from leadline.plan.target_url import TargetKind
from leadline.report.cells import number_column, quantity, table
from leadline.report.document import Block, Code, Column, Paragraph, Table
from leadline.report.words import (
    NOT_SHOWN,
    band_text,
    count_text,
    level_name,
    listed,
    place,
    share_text,
)
from leadline.units import format_block_size, format_duration, format_size

_UNKNOWN = "not recorded"
_LONGEST_PLAN = 20_000


def moment(text: str | None) -> str:
    """Format an ISO 8601 time in UTC; any other text stays."""
    if not text:
        return _UNKNOWN
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return text
    zone = " UTC" if parsed.utcoffset() is not None and not parsed.utcoffset() else ""
    return f"{parsed:%Y-%m-%d %H:%M:%S}{zone}"


def elapsed(start: str | None, end: str | None) -> str:
    """Format the time between two ISO 8601 times; empty where one is unknown."""
    try:
        between = datetime.fromisoformat(end or "") - datetime.fromisoformat(start or "")
    except (ValueError, TypeError):
        return ""
    return format_duration(max(0.0, between.total_seconds()))


def engine_texts(run: Run) -> str:
    """List the engines of the trials with their versions."""
    names = []
    for trial in run.trials:
        engine, version = trial.record.engine, trial.record.engine_version
        names.append(version if version.startswith(engine) else f"{engine} {version}")
    return listed(sorted(set(names)))


def checked_text(verifications: Iterable[Verification]) -> str:
    """`12 files and 40 derived numbers`, of all archives together."""
    found = list(verifications)
    files = count_text(sum(item.files for item in found), "file")
    return f"{files} and {count_text(sum(item.numbers for item in found), 'derived number')}"


def described_methods(template: str, **values: object) -> tuple[tuple[str, str], ...]:
    """Fill a template with a line `NAME: TEXT` per method; returns (name, text)."""
    text = (resources.files("leadline.report") / "templates" / template).read_text("utf-8")
    lines = (line.partition(": ") for line in text.format(**values).splitlines())
    return tuple((name, method) for name, _, method in lines)


def condition_blocks(run: Run) -> tuple[Block, ...]:
    """Host, procedure, targets and sessions."""
    if run.plan.imported:
        return _imported(run)
    start, end = run.inventory("start"), run.inventory("end")
    host = start or end
    blocks: list[Block] = []
    if host:
        called = "controlled from" if elsewhere(run) else "host"
        rows = ((called, host.hostname), *_host(host, start, end))
        blocks.append(table("host", ("", ""), rows, caption="Host"))
    else:
        blocks.append(Paragraph(text="The archive holds no inventory of the host."))
    blocks.append(table("procedure", ("", ""), _procedure(run), caption="Procedure"))
    blocks.append(_targets(run, host))
    blocks += _runners(run)
    if host and host.block_devices and not elsewhere(run):
        blocks.append(_devices(host.block_devices))
        blocks += nvme_blocks(host.nvme)
    blocks.append(_sessions(run))
    return tuple(blocks)


def elsewhere(run: Run) -> bool:
    """Whether all I/O was done in clusters and this machine only controlled it."""
    kinds = [target.kind for target in run.plan.targets]
    return bool(kinds) and all(kind is not None and kind.on_kubernetes for kind in kinds)


def _imported(run: Run) -> tuple[Block, ...]:
    """The conditions of imported results: files and time of import."""
    rows: dict[tuple[str, ...], tuple[str, ...]] = {}
    for trial in run.trials:
        source = trial.record.source
        if source is None:
            continue
        name = ", ".join(source.names)
        version = trial.record.engine_version or _UNKNOWN
        rows.setdefault(source.files, (name, source.kind, version, moment(trial.record.ended_at)))
    label = run.manifest.cluster_label
    pairs = [("cluster", label)] if label else []
    pairs.append(("imported", moment(run.manifest.created_at)))
    return (
        Paragraph(text="Imported results: machines, load, prefill and caches are unknown."),
        table("import", ("", ""), pairs),
        table(
            "files",
            ("file", "kind", "version", "ended"),
            rows.values(),
            caption="Files, kept byte for byte in the archive",
        ),
    )


def _host(
    host: HostInventory, start: HostInventory | None, end: HostInventory | None
) -> Iterable[tuple[str, str]]:
    system = f"{host.operating_system}, kernel {host.kernel}, {host.architecture}"
    yield "system", system
    yield "virtualization", host.virtualization or "none found"
    yield "processor", f"{host.cpu_model}, {count_text(host.cores, 'core')}"
    yield "memory", format_size(host.memory_bytes)
    if host.fio_version:
        yield "fio", host.fio_version
    if start and end:
        before, after = start.model_dump(), end.model_dump()
        changed = [name for name in before if name != "taken_at" and before[name] != after[name]]
        same = "the inventory is the same as at the start"
        yield "at the end", f"changed: {', '.join(changed)}" if changed else same


def _procedure(run: Run) -> Iterable[tuple[str, str]]:
    plan, manifest = run.plan, run.manifest
    last = manifest.sessions[-1].ended_at if manifest.sessions else None
    took = elapsed(manifest.created_at, last)
    yield "started", moment(manifest.created_at)
    yield "ended", moment(last) + (f" (after {took})" if took else "")
    yield (
        "engine",
        ", ".join(part for part in (engine_texts(run), _io_engines(run)) if part) or "none",
    )
    repeats = count_text(plan.repeats, "randomised block")
    cells = "every cell" if plan.stop is None else "every open cell"
    yield "order", f"{repeats}, each with {cells} once; seed {plan.seed}"
    if plan.stop is not None:
        yield "ends when decided", _looks(run, plan.stop)
    yield "prefill", _prefill(run)
    yield "caches", _caches(run)
    yield "load generator", _processor(run)


_ENDS = {
    LookEnd.DECIDED: "no rate was open",
    LookEnd.MAX_REPEATS: "the last round was over",
    LookEnd.MAX_TIME: "the next round would have exceeded the time",
}


def _looks(run: Run, stop: Stop) -> str:
    """The rule that ended the run, and what its last look found."""
    limit = f", {format_duration(stop.max_time_s)} of trials" if stop.max_time_s else ""
    rule = (
        f"rates of each {stop.compare} compared with {stop.baseline}, margin "
        f"{band_text(stop.within)}, after {stop.first} to {stop.max_repeats} rounds{limit}"
    )
    if not run.looks:
        return f"{rule}; no look yet"
    last = run.looks[-1]
    states = ", ".join(
        f"{number} {state.value}" for state in LookState if (number := last.count(state))
    )
    ended = f"ended because {_ENDS[last.end]}" if last.end else "not ended"
    return f"{rule}; {count_text(len(run.looks), 'look')}: {states or 'no rate'}; {ended}"


def _io_engines(run: Run) -> str:
    """The I/O engines that fio used, from one trial of each cell."""
    found: set[str] = set()
    seen: set[tuple[str, str, str]] = set()
    for trial in run.trials:
        record = trial.record
        cell = (record.target, record.workload, record.level)
        if record.status is not TrialStatus.COMPLETED or cell in seen:
            continue
        seen.add(cell)
        if isinstance(trial.output, EngineOutput):
            found |= {job.options.engine or _UNKNOWN for job in trial.output.jobs}
    return f"ioengine {listed(sorted(found))}" if found else ""


def _prefill(run: Run) -> str:
    """The prefill as the trials recorded it."""
    asked = "asked for" if run.plan.prefill else "not asked for"
    extents = [extent for trial in run.trials if (extent := trial.record.extent)]
    if not extents:
        return f"{asked}; no trial recorded what was written before it"
    whole = sum(extent.written_bytes >= extent.span_bytes for extent in extents)
    span = format_size(max(extent.span_bytes for extent in extents))
    of = f"{whole:,} of {count_text(len(extents), 'trial')}"
    return f"{asked}; {of} had all that they may read written before, up to {span}"


def _caches(run: Run) -> str:
    if not run.plan.drop_caches:
        return "not dropped, as the plan asks"
    drops = [drop for trial in run.trials if (drop := trial.record.cache_drop)]
    in_pools = {TargetKind.RBD, TargetKind.RADOS}
    if {target.kind for target in run.plan.targets} <= in_pools:
        return "this machine caches no data: librbd's cache is off; OSD caches are not dropped"
    if not drops:
        return "to be dropped before each trial; no drop is recorded"
    left = max(drop.resident_after_bytes for drop in drops)
    methods = listed(sorted({drop.method for drop in drops}))
    read_back = "nothing stayed resident" if not left else f"up to {format_size(left)} stayed"
    return f"dropped before {count_text(len(drops), 'trial')} ({methods}); read back: {read_back}"


def _processor(run: Run) -> str:
    busy = [one.busy_share for trial in run.trials if (one := trial.record.processor)]
    if not busy:
        return "processor use not recorded"
    steal = max(one.steal_share for trial in run.trials if (one := trial.record.processor))
    shares = dict.fromkeys((share_text(min(busy)), share_text(max(busy))))
    text = f"cores busy {' to '.join(shares)} of the time"
    return text + (f", up to {share_text(steal)} stolen by the hypervisor" if steal else "")


def _targets(run: Run, host: HostInventory | None) -> Table:
    known = {mounted.target: mounted for mounted in host.targets} if host else {}
    stacks = _stacks(run)
    rows = []
    for target in run.plan.targets:
        found = known.get(target.name)
        below = _below(found)
        layers = stacks.get(target.name, ())
        if target.kind is not None and (target.kind.on_zfs or target.kind.on_shared_image):
            below = _of_layers(layers)
        elif target.cluster and (found is None or found.mount is None):
            on_kubernetes = target.kind is not None and target.kind.on_kubernetes
            below = (
                NOT_SHOWN if on_kubernetes else "Ceph",
                NOT_SHOWN,
                f"cluster {target.cluster}",
                NOT_SHOWN,
            )
        rows.append((target.name, target.url, *below))
    titles = ("target", "URL", "filesystem", "mount point", "device", "mount options")
    return table("targets", titles, rows, caption="Targets and their devices")


def _stacks(run: Run) -> Mapping[str, tuple[Layer, ...]]:
    try:
        return run.stacks
    except LeadlineError:
        return {}  # the section on layers reports it


def _of_layers(layers: tuple[Layer, ...]) -> tuple[str, str, str, str]:
    """Columns of a file system that Leadline created."""
    if not layers:
        return (_UNKNOWN, NOT_SHOWN, NOT_SHOWN, NOT_SHOWN)
    top = layers[0]
    place, options = (top.facts.get(key, NOT_SHOWN) for key in ("mount_point", "options"))
    return (format_layer(top), place, format_layers(layers[1:]) or NOT_SHOWN, options)


def _below(found: TargetInventory | None) -> tuple[str, str, str, str]:
    if found is None:
        return (_UNKNOWN, NOT_SHOWN, NOT_SHOWN, NOT_SHOWN)
    if found.mount is None:
        return ("none", NOT_SHOWN, found.device or _UNKNOWN, NOT_SHOWN)
    mount = found.mount
    return (mount.filesystem, mount.mount_point, found.device or mount.source, mount.options)


def _devices(devices: Iterable[BlockDevice]) -> Table:
    rows = (
        (
            device.name,
            device.kind,
            device.model,
            "rotational" if device.rotational else "solid state",
            device.scheduler,
            device.parent,
            quantity(format_size(device.size_bytes), device.size_bytes),
        )
        for device in devices
    )
    titles = ("device", "kind", "model", "medium by the kernel", "scheduler", "part of")
    columns = (*titles, number_column("size"))
    return table("devices", columns, rows, caption="Block devices of the host")


def _sessions(run: Run) -> Table:
    rows = (
        (
            moment(session.started_at),
            moment(session.ended_at),
            session.hostname,
            session.leadline_version,
            session.python_version,
        )
        for session in run.manifest.sessions
    )
    titles = ("from", "to", "host", "Leadline", "Python")
    return table("sessions", titles, rows, caption="Sessions: the first, and one for each resume")


def nvme_blocks(controllers: Sequence[NvmeController]) -> tuple[Block, ...]:
    """A row for each controller; none of a machine without any."""
    if not controllers:
        return ()
    rows = []
    for controller in controllers:
        spaces = [
            f"{space.name} ({format_size(space.size_bytes)})" for space in controller.namespaces
        ]
        limits = {
            space.max_transfer_bytes for space in controller.namespaces if not space.has_no_limit
        }
        free = any(space.has_no_limit for space in controller.namespaces)
        most = "no limit" if free else format_size(max(limits)) if max(limits, default=0) else ""
        # The first queue is for administration.
        queues = (
            count_text(max(0, controller.queues - 1), "queue") if controller.queues else NOT_SHOWN
        )
        depth = (
            f" of {controller.queue_depth}" if controller.queues and controller.queue_depth else ""
        )
        rows.append(
            (
                controller.name,
                controller.model,
                controller.transport,
                controller.address,
                controller.state,
                queues + depth,
                most,
                ", ".join(spaces),
                controller.multipath_policy,
                controller.subsystem_nqn,
            )
        )
    titles = (
        *("controller", "model", "transport", "address", "state", "I/O queues"),
        *("largest transfer", "namespaces", "multipath policy", "subsystem"),
    )
    columns = (Column(title=title, rank=max(0, at - 3)) for at, title in enumerate(titles))
    return (table("nvme", columns, rows, caption="NVMe controllers of the host"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunnerKind:
    """The configuration that runners of one row share."""

    target: str
    runner: str
    image: str
    digest: str
    user: int | None
    cores: float
    memory_bytes: int
    storage_class: str
    mode: str
    size_bytes: int
    driver: str


def _runners(run: Run) -> tuple[Block, ...]:
    """Build a row per kind of runner of a target; nothing where this machine did the I/O."""
    nodes: dict[_RunnerKind, set[str]] = {}
    # The most runners of a trial, and their volumes.
    most: dict[_RunnerKind, tuple[int, int]] = {}
    for trial in run.trials:
        volumes: dict[_RunnerKind, list[str]] = {}
        for runner in trial.runners:
            kind = _kind_of(trial.record.target, runner)
            nodes.setdefault(kind, set()).add(runner.node)
            volumes.setdefault(kind, []).append(runner.volume.volume or runner.name)
        for kind, names in volumes.items():
            most[kind] = max(most.get(kind, (0, 0)), (len(names), len(set(names))))
    if not most:
        return ()
    rows = (
        (
            *_runner_texts(kind, nodes[kind], *counts),
            quantity(f"{kind.cores:g}", kind.cores),
            quantity(format_size(kind.memory_bytes), kind.memory_bytes),
        )
        for kind, counts in most.items()
    )
    titles = ("target", "runner", "nodes", "image", "volumes")
    columns = (*titles, number_column("processors"), number_column("memory"))
    own = all(runners == volumes for runners, volumes in most.values())
    caption = f"Runners that did the I/O, {'each with its own volume' if own else 'and volumes'}"
    others = sorted({other for trial in run.trials for other in trial.other_runs})
    if others:
        shared = sum(bool(trial.other_runs) for trial in run.trials)
        trials = count_text(shared, "trial")
        caption += f". Other runs at work in the cluster during {trials}: {listed(others)}"
    return (table("runners", columns, rows, caption=caption),)


def _kind_of(target: str, runner: Runner) -> _RunnerKind:
    volume = runner.volume
    return _RunnerKind(
        target=target,
        runner=runner.kind,
        image=runner.image,
        digest=runner.image_id.rpartition("@")[2],
        user=runner.user,
        cores=runner.cores,
        memory_bytes=runner.memory_bytes,
        storage_class=volume.storage_class,
        mode=volume.mode,
        size_bytes=volume.size_bytes,
        driver=volume.driver,
    )


def _runner_texts(
    kind: _RunnerKind, nodes: set[str], count: int, volume_count: int
) -> tuple[str, ...]:
    who = {"pod": "pod", "vm": "virtual machine"}[kind.runner]
    runner = f"{who} of user {kind.user}" if kind.user is not None else who
    image = f"{kind.image} ({kind.digest[:19]})" if kind.digest else kind.image
    shared = f", shared by {count} runners" if volume_count < count else ""
    volumes = f"{volume_count} of {format_size(kind.size_bytes)}, {kind.mode}{shared}"
    driver = f", driver {kind.driver}" if kind.driver else ""
    return (
        kind.target,
        runner if count == 1 else f"{count} x {runner}",
        listed(sorted(nodes)),
        image,
        f"{volumes} ({kind.storage_class}{driver})",
    )


def matrix_blocks(run: Run) -> tuple[Block, ...]:
    """The settings of every workload and level, and the users' job files."""
    if run.plan.imported:
        return (_recorded_matrix(run),)
    cells: dict[tuple[str, str], PlanCell] = {}
    for cell in run.plan.cells:
        cells.setdefault((cell.workload.name, cell.level), cell)
    rows = []
    for cell in cells.values():
        load = cell.workload
        for phase in load.phases:
            numbers = [
                quantity(format_block_size(phase.block_size), phase.block_size),
                quantity(str(phase.iodepth), phase.iodepth),
                quantity(str(phase.numjobs), phase.numjobs),
                quantity(format_size(phase.size), phase.size),
                quantity(format_duration(load.ramp_s), load.ramp_s),
                quantity(format_duration(load.runtime_s), load.runtime_s),
            ]
            if not load.in_blocks:  # which have no blocks and no depth
                numbers[:3] = [quantity(NOT_SHOWN, 0)] * 3
            rows.append(
                (
                    load.name,
                    level_name(cell.level),
                    phase.pattern.value,
                    f"{phase.read_share} % reads" if phase.read_share else "",
                    load.engine.value,
                    "" if not load.in_blocks else "yes" if load.direct else "no",
                    f"every {phase.fsync}" if phase.fsync else "",
                    *numbers,
                )
            )
    titles = ("workload", "level", "pattern", "share", "engine", "direct", "fsync")
    numeric = ("block", "depth", "jobs", "size per job", "ramp", "runtime")
    matrix = table("matrix", (*titles, *map(number_column, numeric)), rows)
    files = {
        cell.workload.name: cell.workload.job_file
        for cell in cells.values()
        if cell.workload.job_file
    }
    codes = [Code(text=file.text, caption=f"{name}: {file.path}") for name, file in files.items()]
    return (*((matrix,) if rows else ()), *codes)


def _recorded_matrix(run: Run) -> Table:
    """The loads of imported results by fio's options."""
    rows = []
    for cell in run.plan.cells:
        recorded = cell.workload.recorded
        options = recorded.options if recorded else {}
        text = " ".join(f"{key}={value}" for key, value in options.items())
        name = level_name(cell.level)
        rows.append((cell.target, cell.workload.name, name, text or _UNKNOWN))
    return table("matrix", ("target", "workload", "level", "options as recorded"), rows)


def unfinished_table(run: Run) -> Table | None:
    """List the trials that did not complete, with reasons; None where all did."""
    rows = []
    for trial in run.trials:
        record = trial.record
        if record.status is TrialStatus.COMPLETED:
            continue
        cell = place(record.target, record.workload, record.level)
        reason = ": ".join((record.problem.code, record.problem.fact)) if record.problem else ""
        rows.append((record.trial, cell, record.status.value, reason or _UNKNOWN))
    for planned in run.missing:
        its = run.plan.cells[planned.cell]
        cell = place(its.target, its.workload.name, its.level)
        rows.append((planned.id, cell, "not run", "the run ended before"))
    return table("unfinished", ("trial", "cell", "status", "reason"), rows) if rows else None


def reproduction_blocks(run: Run) -> tuple[Block, ...]:
    """The commands of the sessions and the original plan."""
    # Older archives hold the path of the program, which is not repeatable.
    commands = [
        shlex.join(("leadline", *session.command[1:]))
        for session in run.manifest.sessions
        if session.command
    ]
    blocks: list[Block] = []
    if commands:
        blocks.append(Code(text="\n".join(commands), caption="Commands of the sessions"))
    else:
        blocks.append(Paragraph(text="The archive holds no command."))
    if run.plan.imported:
        return tuple(blocks)
    blocks.append(
        Paragraph(
            text=f"The seed {run.plan.seed} gives the same order of trials and the same offsets."
        )
    )
    try:
        content = read_content(run.path / layout.PLAN_AS_GIVEN, 4 * _LONGEST_PLAN + 1)
        given = content.decode("utf-8", "replace")
    except OSError:
        given = ""
    if given.strip():
        cut = given[:_LONGEST_PLAN] + ("\n..." if len(given) > _LONGEST_PLAN else "")
        blocks.append(Code(text=cut, caption="The original plan"))
    return tuple(blocks)
