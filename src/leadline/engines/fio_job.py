"""Job files for fio: the workload as text. Where it goes is given on the command line, so that
paths with `:`, `#`, `;` or spaces need no quoting that fio's job files do not have."""

from __future__ import annotations

from leadline.plan.footprint import DATA_FILE, Footprint
from leadline.plan.models import EngineChoice, Phase, Workload
from leadline.runner.ports import Shape

# Small writes get fresh random data each, so that no two blocks are alike to a compressor. From
# 128 KiB on fio's default (random buffers, scrambled at each use) does not compress either, since
# a buffer comes round again only beyond a compressor's window, and refilling would cost a core
# per 5 GB/s (measured, docs/internals/performance.md).
REFILL_BELOW = 128 << 10
PREFILL_BLOCK = 1 << 20
PREFILL_DEPTH = 8


def job_text(workload: Workload, shape: Shape, seed: int) -> str:
    """A generated job file: one section a phase, each behind a stonewall and reported apart."""
    if workload.job_file:
        return workload.job_file.text
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
        "randseed": seed,
        "fallocate": "none",
        # Total latency is what a user waits for; submission and completion stand beside it.
        "lat_percentiles": 1,
        "clat_percentiles": 1,
        "percentile_list": "50:95:99:99.9:99.99",
        "log_avg_msec": 1000,
        "per_job_logs": 0,
    }
    if not workload.ramp_s:
        del settings["ramp_time"]
    if shape is Shape.FILES:
        settings["filename_format"] = DATA_FILE.format(job="$jobnum")
    lines = ["[global]", *(f"{key}={value}" for key, value in settings.items())]
    for phase in workload.phases:
        lines += ["", *_section(phase, shape)]
    return "\n".join(lines) + "\n"


def _section(phase: Phase, shape: Shape) -> list[str]:
    settings: dict[str, object] = {
        "rw": phase.pattern.value,
        "bs": phase.block_size,
        "iodepth": phase.iodepth,
        "numjobs": phase.numjobs,
        "size": phase.size,
        "write_iops_log": phase.name.replace("/", "-"),
        "write_lat_log": phase.name.replace("/", "-"),
    }
    if phase.pattern.writes and phase.block_size < REFILL_BELOW:
        settings["refill_buffers"] = 1
    if phase.read_share is not None:
        settings["rwmixread"] = phase.read_share
    if phase.fsync:
        settings["fsync"] = phase.fsync
    if shape is Shape.SPAN:
        settings["offset_increment"] = phase.size
    return [
        f"[{phase.name}]",
        "stonewall",
        "new_group",
        *(f"{key}={value}" for key, value in settings.items()),
    ]


def prefill_text(footprint: Footprint, shape: Shape, *, engine: EngineChoice, direct: bool) -> str:
    """A job that writes every byte of the footprint once, with data that does not compress."""
    lines = [
        "[global]",
        f"ioengine={engine.value}",
        f"direct={int(direct)}",
        "rw=write",
        f"bs={PREFILL_BLOCK}",
        f"iodepth={PREFILL_DEPTH}",
        "refill_buffers=1",
        "fallocate=none",
        "end_fsync=1",
        "group_reporting=1",
    ]
    if shape is Shape.SPAN:
        return "\n".join([*lines, "", "[prefill]", f"size={footprint.span}"]) + "\n"
    for job, size in enumerate(footprint.files):
        lines += ["", f"[prefill-{job}]", f"filename={DATA_FILE.format(job=job)}", f"size={size}"]
    return "\n".join(lines) + "\n"
