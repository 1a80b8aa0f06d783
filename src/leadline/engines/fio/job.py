"""Job files for fio: the workload as text.

The command line names the target: job files cannot quote paths with `:`, `#`, `;` or spaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from leadline.formats.fio import job_file
from leadline.formats.fio.histogram_logs import ROW_S
from leadline.plan.footprint import (
    DATA_FILE,
    OBJECT_BYTES,
    OBJECT_NAME,
    PREFILL_BLOCK,
    Footprint,
    client_job,
    job_of,
)
from leadline.plan.job_file import Place, write_job_file
from leadline.plan.workload import EngineChoice, Pattern, Phase, Workload
from leadline.runner.ports import Shape

# In one job the next I/O waits for those in flight before it sleeps until its time
# (docs/internals/fleet.md). So an open loop uses several jobs, each of which rarely has an I/O in
# flight when the next one is due.
_MOST_JOBS = 16
# fio accepts whole I/Os per second per job; the sum differs from the plan's rate by this at most.
_ROUNDING = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A value that differs between clients. fio reads it from the environment: with the variables
    set, the archived text is a job file for one client."""

    name: str
    comment: str = ""

    @property
    def place(self) -> str:
        return f"${{{self.name}}}"


FILES = Variable(
    name=job_file.FILES, comment=f"# {job_file.FILES} of client k = ck. (nothing for client 1)"
)


class Vary(Enum):
    """What differs between the clients of a job: nothing, the offsets of their I/O (by fio's seed),
    or also their data."""

    NOTHING = auto()
    OFFSETS = auto()
    DATA = auto()


def _growing(name: str, first: int, step: int) -> Variable:
    return Variable(name=name, comment=f"# {name} of client k = {first} + {step} x (k - 1)")


def offset(number: int, phase: Phase) -> Variable:
    """The start of a client's stretch of a device in the phase of that number."""
    return _growing(f"LEADLINE_OFFSET_{number}", 0, phase.stretch)


def open_loop(phase: Phase, *, splits: bool) -> Mapping[str, object]:
    """fio's options for Poisson arrivals at the phase's rate. Of random I/O that `splits` the jobs
    are as many as may be in flight, up to 16; together they never have more in flight than the
    phase says. A sequence stays in its own jobs."""
    assert phase.rate_iops is not None
    read_share, write_share = phase.shares
    rates = (phase.rate_iops * read_share, phase.rate_iops * write_share)
    jobs, iodepth = phase.numjobs, phase.iodepth
    if splits and not phase.pattern.sequential:
        jobs = _jobs(rates, phase.iodepth * phase.numjobs)
        iodepth = phase.iodepth * phase.numjobs // jobs
    per_job = [max(1, round(rate / jobs)) if rate else 0 for rate in rates]
    return {
        "iodepth": iodepth,
        "numjobs": jobs,
        "rate_iops": ",".join(str(rate) if rate else "" for rate in per_job).rstrip(","),
        "rate_process": "poisson",
    }


def _jobs(rates: tuple[float, float], in_flight: int) -> int:
    """The largest number of jobs whose whole rates add up to the rates that are offered."""

    def error(jobs: int) -> float:
        return max(abs(round(rate / jobs) * jobs - rate) / rate for rate in rates if rate)

    most = max(1, min(_MOST_JOBS, in_flight))
    fitting = [jobs for jobs in range(most, 0, -1) if error(jobs) <= _ROUNDING]
    return fitting[0] if fitting else min(range(most, 0, -1), key=error)


# Of a drill: times since 1970, as those of its event, and the completion latencies of every quarter
# of a second. fio holds 15 KB for each of these, direction and job until its end; neighbouring
# buckets are added up, so that a latency is exact to 1.6 %.
_DRILL_LOGS: Mapping[str, object] = {
    "log_unix_epoch": 1,
    "log_hist_msec": round(ROW_S * 1000),
    "log_hist_coarseness": 1,
}
# Small writes get fresh random data each, so that no two blocks are alike to a compressor. From
# 128 KiB on fio's default (random buffers, scrambled at each use) does not compress either, since
# a buffer comes round again only beyond a compressor's window, and refilling would cost a core
# per 5 GB/s (measured, docs/internals/performance.md).
REFILL_BELOW = 128 << 10
PREFILL_DEPTH = 8


def job_text(
    workload: Workload,
    shape: Shape,
    seed: int,
    *,
    vary: Vary = Vary.NOTHING,
    fleet: bool = False,
    objects: str = "",
) -> str:
    """A generated job file: one section a phase, each behind a stonewall and reported apart; of a
    user's own job file what Leadline writes of it, LeadlineError(`job-file-invalid`) else. For
    clients that `vary` it holds variables, and says above what each client puts in their place. In
    a `fleet` one fio writes the logs of all clients. `objects` is the prefix of RADOS objects,
    which are the files."""
    if workload.job_file:
        place = Place.FILES if shape is Shape.FILES else Place.DEVICE
        return write_job_file(workload.job_file, place)
    own = vary is Vary.DATA
    # Clients do not read the same offsets at the same time.
    variables = [] if vary is Vary.NOTHING else [_growing("LEADLINE_SEED", seed, 1)]
    settings: dict[str, object] = {
        "ioengine": workload.engine.value,
        "direct": int(workload.direct),
        "time_based": 1,
        "runtime": f"{round(workload.runtime_s * 1000)}ms",
        "ramp_time": f"{round(workload.ramp_s * 1000)}ms",
        "group_reporting": 1,
        # Threads end with fio itself; forked workers would outlive a fio that is killed.
        "thread": 1,
        # Offsets differ from trial to trial, so that no repeat finds its blocks cached by the
        # one before, and are the same again when the run is done again with its seed.
        "randrepeat": 0,
        "randseed": variables[0].place if variables else seed,
        "fallocate": "none",
        # Total latency is what a user waits for; submission and completion are reported too.
        "lat_percentiles": 1,
        "clat_percentiles": 1,
        "percentile_list": "50:95:99:99.9:99.99",
        "log_avg_msec": 1000,
        # A fio client writes the logs of all jobs of a server to one file, each over the one
        # before, unless each has a name of its own.
        "per_job_logs": int(fleet),
    }
    if not workload.ramp_s:
        del settings["ramp_time"]
    if workload.drill is not None:
        settings |= _DRILL_LOGS
    if shape is Shape.FILES:
        settings["filename_format"] = _file("$jobnum", own, objects)
        variables += [FILES] * own
    lines = ["[global]", *(f"{key}={value}" for key, value in settings.items())]
    for number, phase in enumerate(workload.phases, start=1):
        lines += ["", *_section(phase, shape, own, fleet, objects)]
        if workload.drill is not None:
            lines.append(f"write_hist_log={phase.name.replace('/', '-')}")
        if own and shape is Shape.SPAN:
            variables.append(offset(number, phase))
            lines.append(f"offset={variables[-1].place}")
    return "\n".join([*(variable.comment for variable in variables), *lines]) + "\n"


def _file(job: int | str, own: bool, objects: str = "") -> str:
    name = f"{FILES.place}{job}" if own else str(job)
    if objects:
        return OBJECT_NAME.format(prefix=objects, job=name, number="$filenum")
    return DATA_FILE.format(job=name)


def _in_objects(size: int, pattern: Pattern) -> Mapping[str, object]:
    """fio's options for data in objects: all of them in order, or any at random."""
    order = "sequential" if pattern.sequential else "random"
    return {"nrfiles": size // OBJECT_BYTES, "file_service_type": order}


def _section(phase: Phase, shape: Shape, own: bool, fleet: bool, objects: str = "") -> list[str]:
    settings: dict[str, object] = {
        "rw": phase.pattern.value,
        "bs": phase.block_size,
        "iodepth": phase.iodepth,
        "numjobs": phase.numjobs,
        "size": phase.part,
        "write_iops_log": phase.name.replace("/", "-"),
        "write_lat_log": phase.name.replace("/", "-"),
    }
    if fleet:
        del settings["write_lat_log"]  # unused, and there would be three per job
    if phase.pattern.writes and phase.block_size < REFILL_BELOW:
        settings["refill_buffers"] = 1
    if phase.read_share is not None:
        settings["rwmixread"] = phase.read_share
    if phase.fsync:
        settings["fsync"] = phase.fsync
    if objects:
        settings |= _in_objects(phase.part, phase.pattern)
    one_file = "filename_format" if objects else "filename"
    if phase.sharing is not None and shape is Shape.FILES:
        settings[one_file] = _file(0, own, objects)
    if phase.part < phase.size or (shape is Shape.SPAN and phase.sharing is None):
        settings["offset_increment"] = phase.part
    if phase.rate_iops is not None:
        # Several jobs may share one file or stretch. Of several files fio 3.33 fails at the end of
        # an open loop (`rate_ddir: Assertion`), so these keep a job each.
        splits = shape is Shape.SPAN or phase.stretch == phase.size
        settings |= open_loop(phase, splits=splits)
        if settings["numjobs"] != phase.numjobs:
            settings["size"] = phase.stretch
            settings.pop("offset_increment", None)
            if shape is Shape.FILES:
                settings[one_file] = _file(0, own, objects)
    elif phase.limit_bps is not None:
        # In bytes, which a budget of few I/Os for many jobs needs: fio's rate_iops is whole.
        rates = [round(phase.limit_bps * share / phase.numjobs) for share in phase.shares]
        settings["rate"] = ",".join(str(rate) if rate else "" for rate in rates).rstrip(",")
    return [
        f"[{phase.name}]",
        "stonewall",
        "new_group",
        *(f"{key}={value}" for key, value in settings.items()),
    ]


def prefill_text(
    footprint: Footprint,
    shape: Shape,
    *,
    engine: EngineChoice,
    direct: bool,
    own: bool = False,
    objects: str = "",
) -> str:
    """A job that writes every byte of the footprint once, with data that does not compress; each
    client writes the files that are its `own`. `objects` as in `job_text`."""
    lines = [
        "[global]",
        f"ioengine={engine.value}",
        f"direct={int(direct)}",
        "rw=write",
        f"bs={PREFILL_BLOCK}",
        f"iodepth={PREFILL_DEPTH}",
        "refill_buffers=1",
        "fallocate=none",
        # fio's rados engine has no fsync: RADOS acknowledges a write when it is durable.
        *([] if objects else ["end_fsync=1"]),
        "group_reporting=1",
    ]
    # One section writes a stretch; of files each has a section, and all run at the same time.
    writers = 1 if shape is Shape.SPAN else len(footprint.files)
    if footprint.limit_bps is not None and writers:
        lines.append(f"rate={max(1, int(footprint.limit_bps / writers))}")
    if shape is Shape.SPAN:
        return "\n".join([*lines, "", "[prefill]", f"size={footprint.span}"]) + "\n"
    if own:
        return _fleet_prefill(footprint, lines)
    for number, (name, size) in enumerate(footprint.files.items()):
        lines += ["", f"[prefill-{number}]"]
        if objects:
            places = _in_objects(size, Pattern.WRITE)
            lines += [f"filename_format={_file(job_of(name), False, objects)}"]
            lines += [f"{key}={value}" for key, value in places.items()]
        else:
            lines += [f"filename={name}"]
        lines += [f"size={size}"]
    return "\n".join(lines) + "\n"


def _fleet_prefill(footprint: Footprint, lines: list[str]) -> str:
    """A section for each job number; a client that has no file of that number has no size for it,
    and leaves the section out."""
    comments = [FILES.comment]
    job = 0
    while True:
        size = Variable(name=f"LEADLINE_SIZE_{job}")
        names = {
            client: DATA_FILE.format(job=client_job(client, job))
            for client in range(1, max(1, footprint.clients) + 1)
        }
        found = {client: name for client, name in names.items() if name in footprint.files}
        if not found:
            return "\n".join([*comments, *lines]) + "\n"
        comments += [
            f"# {size.name} of client {client} = {footprint.files[name]}"
            for client, name in found.items()
        ]
        lines += ["", f"[prefill-{job}]", f"filename={_file(job, True)}", f"size={size.place}"]
        job += 1
