"""What a rule may look at: one job's figures, a trial, a cell with its trials, or the run.

Built from an archive, or from a bare fio output (an imported file) of which nothing else is known.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from math import isfinite

from leadline import errors
from leadline.archive.records import TrialRecord, TrialStatus
from leadline.formats.ceph.status import ClusterSample, MissedSample
from leadline.formats.fio.logs import Window
from leadline.formats.result import (
    EngineOutput,
    FormatError,
    JobOptions,
    JobResult,
    Latency,
    Operation,
)
from leadline.formats.watch_records import HostSample, MissedHostSample
from leadline.formats.zfs.stream import StreamReport
from leadline.inventory.ceph.model import CephInventory, pool_of
from leadline.inventory.layer import Layer
from leadline.metrics import PERCENTILES, Op
from leadline.plan.models import Cell, Target
from leadline.plan.target_url import TargetUrl

# One execution of an engine as a whole: what ran beside what, and what the disks below did.

# Engines that do their I/O through the kernel's files, hence through its page cache if not direct.
KERNEL_SYNCHRONOUS = frozenset({"psync", "sync", "pvsync", "pvsync2", "vsync", "mmap", "splice"})
FILE_ENGINES = KERNEL_SYNCHRONOUS | {"libaio", "io_uring", "posixaio"}
_SEQUENTIAL = frozenset({"read", "rw", "readwrite"})


# Not slotted, since every section of the execution asks for the same.
@dataclass(frozen=True, kw_only=True)
class Execution:
    output: EngineOutput

    @cached_property
    def entries(self) -> Counter[tuple[str, str, int]]:
        """How many entries there are of a name, client and group."""
        return Counter((job.name, job.host, job.group) for job in self.output.jobs)

    @cached_property
    def runtimes(self) -> dict[str, float]:
        """Seconds that each name ran. Entries of one name are processes or clients of one job,
        meant to run together."""
        runtimes: dict[str, float] = {}
        for job in self.output.jobs:
            ran = max((one.runtime_s or 0.0 for one in job.operations), default=0.0)
            runtimes[job.name] = max(runtimes.get(job.name, 0.0), ran)
        return runtimes

    @cached_property
    def elapsed_s(self) -> float:
        """Seconds from the first job's start to the last one's end; 0 where not told."""
        return max((job.elapsed_s for job in self.output.jobs), default=0.0)

    @cached_property
    def suspects(self) -> tuple[tuple[str, ...], ...]:
        """Names that can have run together: those of one group, since `stonewall` begins a new
        one; all of them where no group has two (`new_group` separates reports, not jobs)."""
        groups: dict[int, dict[str, None]] = {}
        for job in self.output.jobs:
            groups.setdefault(job.group, {})[job.name] = None
        several = tuple(tuple(names) for names in groups.values() if len(names) > 1)
        return several or (tuple(self.runtimes),)

    @cached_property
    def disk_reads(self) -> tuple[int, int] | None:
        """Reads that jobs did, and reads that the disks below did for them (merged ones counted),
        ramps included. None where the two need not agree, or a disk does not count."""
        output = self.output
        # The head of an NVMe device with several paths counts nothing in older kernels.
        if not any(disk.read_ios or disk.write_ios for disk in output.disks):
            return None
        asked = 0
        for job in output.jobs:
            reads = [one for one in job.operations if one.op is Op.READ]
            if not reads:
                continue
            if not _one_to_one(job) or any(one.total_ios is None for one in reads):
                return None
            asked += sum(one.total_ios or 0 for one in reads)
        # Members of an array or a mapping are listed beside it: adding both errs to the safe side.
        done = sum(disk.read_ios + disk.read_merges for disk in output.disks)
        return (asked, done) if asked else None


def _one_to_one(job: JobResult) -> bool:
    """Whether each read of a job, unless a cache answers it, is a read of a disk of this machine:
    not those that the kernel reads ahead for, nor those of other engines or machines."""
    options = job.options
    if job.host or options.engine not in FILE_ENGINES:
        return False
    told = options.whole or bool({"rw", "readwrite"} & options.raw.keys())
    ahead = not options.direct and options.pattern in _SEQUENTIAL
    return told and not ahead


# Latencies of an operation as the rules need them: of the whole I/O, from submission on.

# With these the submission can take most of an I/O's time (on filesystems that block in it), so
# that a completion latency alone says little.
_SUBMITS_APART = frozenset({"libaio", "io_uring", "posixaio"})


def mean_s(one: Operation, options: JobOptions) -> float | None:
    """Mean seconds from submission to completion; None where it is not told."""
    if one.total is not None and one.total.mean_s is not None:
        return one.total.mean_s
    submission = _submission_s(one, options)
    if submission is None or one.completion is None or one.completion.mean_s is None:
        return None
    return one.completion.mean_s + submission


def median_s(one: Operation, options: JobOptions) -> float | None:
    """Half of the I/Os took less. Where only completion is told by percentiles, the mean
    submission is added, which is at least its median where a few submissions are slow."""
    total = one.total.quantile_s(0.5) if one.total else None
    if total is not None:
        return total
    completion = one.completion.quantile_s(0.5) if one.completion else None
    submission = _submission_s(one, options)
    return None if completion is None or submission is None else completion + submission


def told(one: Operation) -> tuple[tuple[str, Latency], ...]:
    """The latencies that are there, by what they are of."""
    parts = (("submission", one.submission), ("completion", one.completion), ("total", one.total))
    return tuple((name, latency) for name, latency in parts if latency is not None)


def _submission_s(one: Operation, options: JobOptions) -> float | None:
    if one.submission is not None:
        return one.submission.mean_s
    return None if options.engine in _SUBMITS_APART else 0.0


# What a Ceph pool lies on, and what Ceph's own limits say that this can do.

_FLASH = ("ssd", "nvme")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMedia:
    """OSDs that hold a pool's data, by what they are, and how many of them a client's write is
    written to at least."""

    pool: str
    hard_disks: int
    flash: int
    copies: int


def pool_media(inventory: CephInventory, target: TargetUrl) -> PoolMedia | None:
    """None where the pool, its CRUSH rule or the class of one of its OSDs is not known."""
    pool = pool_of(inventory, target)
    if pool is None or pool.rule is None or pool.rule.root is None:
        return None
    root, wanted = pool.rule.root, pool.rule.device_class
    classes = [
        osd.device_class
        for osd in inventory.osds
        if osd.up
        and osd.is_in
        and any(place.name == root for place in osd.location)
        and wanted in (None, osd.device_class)
    ]
    if not classes or not set(classes) <= {"hdd", *_FLASH}:
        return None
    # A partial write of an erasure-coded object touches one data chunk and all coding chunks.
    copies = pool.size if pool.erasure is None else pool.erasure.m + 1
    return PoolMedia(
        pool=pool.name,
        hard_disks=classes.count("hdd"),
        flash=sum(one in _FLASH for one in classes),
        copies=copies,
    )


# How exactly a number is told: published tables give two or three digits.

# Of a bandwidth, the unit that was printed is the one in which it has the fewest digits.
_BYTES = (1.0, 1e3, 1024.0, float(1 << 20), float(1 << 30))
_DIGITS = 10


def rounding(value: float, *, of_bytes: bool = False) -> float:
    """One step of the last digit that `value` was told with, as a share of it; trailing zeros are
    taken for rounded, too. About 1e-10 for a number with all its digits, 0 for zero."""
    if not value or not isfinite(value):
        return 0.0
    return max(_step(value / unit) for unit in (_BYTES if of_bytes else (1.0,)))


def _step(value: float) -> float:
    shown = Decimal(f"{value:.{_DIGITS}g}").normalize()
    if not shown:
        return 1.0  # a number so small that no digit of it is left in this unit
    exponent = shown.as_tuple().exponent
    return float(abs(Decimal((0, (1,), int(exponent))) / shown))


# Whether a target's I/O crosses a network, and how one knows.

# Engines of fio (and Ceph's own tools) that speak a network protocol themselves.
_ENGINES = frozenset(
    {"rbd", "rados", "http", "nfs", "libiscsi", "nbd", "libhdfs", "gfapi", "gfapi_async"}
    | {"rbd-bench", "rados-bench"}
)
# Words in names of storage whose every read crosses at least a TCP connection. Not DRBD, LINSTOR
# and Portworx, which read a local replica past the network, and not RDMA, which is faster.
_WORDS = re.compile(
    r"ceph\w*|rook|k?rbd|librbd|rados\w*|mayastor|longhorn|jiva|cstor|k?nfs|nbd|iscsi"
    r"|nvmf|nvmeof|nvmetcp|gluster\w*|beegfs|lustre|cifs|smb|azurefile|efs"
)
_LOCAL = frozenset({"local", "localpv", "hostpath", "lvm", "lvms", "topolvm", "tmpfs", "emptydir"})
_PATHS = ("filename", "directory")


def network_of_target(target: Target | None, name: str) -> str:
    """Why a target is taken for networked, as a clause; empty if it is not known to be."""
    if target is not None and target.kind is not None and target.kind.on_ceph:
        return f"the target is {target.kind.value}"
    # A name made of a file's path says nothing of the storage but in its last part.
    word = _networked_word(name.rsplit("/", 1)[-1])
    return f"the target's name says {word!r}" if word else ""


def network_of_job(options: JobOptions) -> str:
    """The same from what a job says of its engine and files."""
    if options.engine in _ENGINES:
        return f"the engine is {options.engine}"
    for key in _PATHS:
        word = _networked_word(options.text(key))
        if word:
            return f"the job's {key} says {word!r}"
    return ""


def _networked_word(name: str) -> str:
    tokens = [token.rstrip("0123456789") for token in re.split(r"[\W_]+", name.lower())]
    if _LOCAL & set(tokens):
        return ""
    for before, token in zip(["", *tokens], tokens, strict=False):
        if _WORDS.fullmatch(token):
            return token
        if before == "nvme" and token in ("tcp", "of"):
            return f"nvme-{token}"
    return ""


# Engines that hand over an I/O and wait: one in flight per job, whatever iodepth says.
SYNCHRONOUS_ENGINES = KERNEL_SYNCHRONOUS | {"libpmem", "dev-dax", "gfapi", "http", "libhdfs"}
# Options that hold a job back on purpose: its queue is then not meant to be full.
_THROTTLES = (
    *("rate", "rate_min", "rate_iops", "rate_iops_min", "rate_process", "flow"),
    *("thinktime", "latency_target", "iodepth_low", "read_iolog"),
)
_READS, _WRITES, _TRIMS = frozenset({Op.READ}), frozenset({Op.WRITE}), frozenset({Op.TRIM})
_DIRECTIONS: Mapping[str, frozenset[Op]] = {
    "read": _READS,
    "randread": _READS,
    "write": _WRITES,
    "randwrite": _WRITES,
    **dict.fromkeys(("rw", "readwrite", "randrw"), _READS | _WRITES),
    "trim": _TRIMS,
    "randtrim": _TRIMS,
    "trimwrite": _TRIMS | _WRITES,
    "randtrimwrite": _TRIMS | _WRITES,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a finding belongs; empty names mean the whole run."""

    target: str = ""
    workload: str = ""
    level: str = ""
    trial: str | None = None


# Not slotted, since what several rules ask for is worked out once.
@dataclass(frozen=True, kw_only=True)
class TrialEvidence:
    """One planned trial. `output` and `record` are None for a trial that the archive lacks, and
    `record` alone for an imported output. `execution` is there for a trial that is one section
    of several that were run together, and holds them all. `memory_bytes` is the load generator's.
    `cluster` is the watch of the Ceph cluster, empty where there is none, `machines` that of the
    machines behind the trial; `cpu_budget` are the cores that each host of a lab may use, None for
    all; `pool` is what the target's pool lies on, `stack` are the layers below the target from the
    top down, empty where they are not known. `network` is why the target is taken for
    networked. `held_bytes` is a span that another result of the target shows to have lain in memory
    whole, `phases_apart` that most results of the workload show its reads and writes not to have
    been one mix. `stream` are the streams of ZFS of a trial that had some."""

    place: Place
    cell: Cell | None = None
    record: TrialRecord | None = None
    output: EngineOutput | FormatError | None = None
    execution: Execution | None = None
    windows: Mapping[Op, tuple[Window, ...]] | FormatError
    memory_bytes: int | None = None
    on_lab: bool = False
    cluster: tuple[ClusterSample | MissedSample, ...] | FormatError = ()
    machines: tuple[HostSample | MissedHostSample, ...] | FormatError = ()
    cpu_budget: float | None = None
    pool: PoolMedia | None = None
    stack: tuple[Layer, ...] = ()
    network: str = ""
    held_bytes: int | None = None
    phases_apart: bool = False
    stream: StreamReport | FormatError | None = None

    @property
    def ours(self) -> bool:
        """Leadline itself made the job, so that what was asked is known from the plan."""
        return self.cell is not None and bool(self.cell.workload.phases)

    @property
    def imported(self) -> bool:
        """The figures are somebody else's; nobody here saw the run."""
        return self.cell is None or (not self.ours and self.cell.workload.job_file is None)

    @property
    def engine_ended(self) -> bool:
        """The engine came to its own end; the runner calls a trial failed, too, whose output it
        could not read."""
        record = self.record
        if record is None or record.status is TrialStatus.COMPLETED:
            return True
        told = record.problem.code if record.problem else ""
        return record.status is TrialStatus.FAILED and told == errors.FORMAT_INVALID.code

    @cached_property
    def sound(self) -> bool:
        """The trial ran to its end and left figures; all other rules ask only such trials."""
        if not self.engine_ended or not isinstance(self.output, EngineOutput) or self.cut_by_signal:
            return False
        worked = any(job.operations for job in self.output.jobs)
        return worked and not any(job.error for job in self.output.jobs)

    @property
    def cut_by_signal(self) -> bool:
        """fio was told to stop: it then writes valid JSON with error 0, of a part of the run."""
        output = self.output
        return isinstance(output, EngineOutput) and "terminating on signal" in output.noise

    @cached_property
    def whole(self) -> Execution | None:
        """The execution that the trial is, or is a part of; None without an output."""
        if self.execution is not None or not isinstance(self.output, EngineOutput):
            return self.execution
        return Execution(output=self.output)

    @cached_property
    def jobs(self) -> tuple[JobEvidence, ...]:
        """The entries of a sound trial's output; none of another."""
        if not self.sound or not isinstance(self.output, EngineOutput):
            return ()
        names = {job.name for job in self.output.jobs}
        own_file = self.cell is not None and self.cell.workload.job_file is not None
        return tuple(
            JobEvidence(
                # The measurements table splits a user's job file the same way.
                place=Place(
                    target=self.place.target,
                    workload=f"{self.place.workload}/{job.name}"
                    if own_file and len(names) > 1
                    else self.place.workload,
                    level=self.place.level,
                    trial=self.place.trial,
                ),
                job=job,
                trial=self,
            )
            for job in self.output.jobs
        )


@dataclass(frozen=True, kw_only=True)
class JobEvidence:
    """One entry of an output: a job, or a group of equal jobs."""

    place: Place
    job: JobResult
    trial: TrialEvidence

    @cached_property
    def pattern(self) -> str | None:
        """fio's `rw`; None where it is not known."""
        options = self.job.options
        told = options.whole or bool({"rw", "readwrite"} & options.raw.keys())
        return options.pattern if told else None

    @property
    def sequential(self) -> bool:
        return self.pattern in ("read", "write", "rw", "readwrite", "trim", "trimwrite")

    @property
    def network(self) -> str:
        """Why the I/O is taken to cross a network, as a clause; empty if it is not known to."""
        return self.trial.network or network_of_job(self.job.options)

    @cached_property
    def processes(self) -> int | None:
        """Jobs behind this entry: all of numjobs where they were reported as a group, else one.
        None where that cannot be known."""
        options, job = self.job.options, self.job
        if options.numjobs is None:
            return None
        numjobs = max(1, options.numjobs)
        if numjobs == 1 or options.flag("group_reporting"):
            return numjobs
        whole = self.trial.whole
        alike = whole.entries[job.name, job.host, job.group] if whole else 1
        if alike <= 1:
            # fio does not record a group_reporting that was given on the command line.
            return numjobs
        return 1 if alike % numjobs == 0 else None

    @cached_property
    def asked_depth(self) -> int | None:
        """I/Os that this entry was asked to keep in flight, as fio takes it; None where it is not
        told."""
        processes, depth = self.processes, self.job.options.queue_depth
        return None if processes is None or depth is None else processes * max(1, depth)

    @property
    def jobs_hidden(self) -> bool:
        """Several jobs may be behind the entry without the options saying so: numjobs and
        group_reporting were given on the command line."""
        known = {"numjobs", "group_reporting"} <= self.job.options.raw.keys()
        return not self.trial.ours and not known

    @cached_property
    def in_flight(self) -> float | None:
        """Mean I/Os in flight by Little's law, N = X R, all operations added: they share the
        queue. None where a rate or latency is not told or there was no I/O."""
        parts = self.parts
        if not parts:
            return None
        both = {one.op for one in parts} >= {Op.READ, Op.WRITE}
        mixed = self.pattern in ("rw", "readwrite", "randrw")
        if mixed and not self.job.options.whole and not both and parts[0].op is not Op.TOTAL:
            return None  # the other direction had its share of the queue, and nobody tells it
        return _little(parts, self.job.options)

    @cached_property
    def in_flight_rounding(self) -> float:
        """By which share `in_flight` may be off, since its figures are told with few digits."""
        worst = 0.0
        for one in self.parts:
            mean = mean_s(one, self.job.options)
            worst = max(worst, self.rounding(one.iops or 0.0) + self.rounding(mean or 0.0))
        return worst

    def rounding(self, value: float, *, of_bytes: bool = False) -> float:
        """By which share a figure may be off for want of digits. An engine's own output, which
        echoes its options, has them all: a round number there is one, or was typed in."""
        return 0.0 if self.job.options.whole else rounding(value, of_bytes=of_bytes)

    @cached_property
    def parts(self) -> tuple[Operation, ...]:
        """The operations without their total, unless the total is all that tells rates and
        latencies."""
        operations = self.job.operations
        parts = tuple(one for one in operations if one.op is not Op.TOTAL)
        if not parts or _little(parts, self.job.options) is None:
            total = tuple(one for one in operations if one.op is Op.TOTAL)
            if total and (not parts or _little(total, self.job.options) is not None):
                return total
        return parts

    @cached_property
    def total_ios(self) -> int | None:
        """I/Os that were done; from the rate and the time where they were not counted."""
        done = 0.0
        for one in self.parts:
            ran = one.runtime_s or self.job.options.seconds("runtime")
            if one.total_ios is not None:
                done += one.total_ios
            elif one.iops is not None and ran:
                done += one.iops * ran
            else:
                return None
        return int(done) if math.isfinite(done) else None

    @cached_property
    def longest_s(self) -> float | None:
        """How long the longest operation ran, ramp excluded; None where not told."""
        ran = [one.runtime_s for one in self.job.operations if one.runtime_s is not None]
        return max(ran, default=None)

    @cached_property
    def throttled(self) -> bool:
        return any(self.job.options.flag(key) for key in _THROTTLES)

    @cached_property
    def merged_sections(self) -> bool:
        """fio folded several sections into one entry: it carries the first one's name and the last
        one's options, so that nothing says what was measured (seen in 316 of 11,500 files)."""
        named = self.job.options.text("name")
        # fio cuts long names, at 127 characters in 3.40.
        renamed = bool(named) and not named.startswith(self.job.name)
        allowed = _DIRECTIONS.get(self.pattern or "")
        return renamed or (
            allowed is not None
            and any(one.op not in allowed and one.op is not Op.TOTAL for one in self.parts)
        )

    @cached_property
    def edges_matter(self) -> bool:
        """The run is too short for Little's law: filling and draining the queue take about one
        latency R each, so N is off by up to R / runtime = asked / I/Os, here more than 5 %."""
        done, asked = self.total_ios, self.asked_depth
        return done is not None and done < 20 * (asked or self.job.options.iodepth or 1)

    @cached_property
    def carried_over(self) -> float:
        """By which share `in_flight` may be too high: what was in flight when counting began (the
        end of a ramp) is counted with its whole latency, one I/O for each place in the queue, so
        N / asked is at most 1 + the longest latency / runtime. 0 where neither is told."""
        worst = 0.0
        for one in self.parts:
            latency = one.total or one.completion
            if latency is not None and latency.max_s and one.runtime_s:
                worst = max(worst, latency.max_s / one.runtime_s)
        return worst

    @cached_property
    def block_size(self) -> int | None:
        """The one block size of the entry; None where there are several or nobody knows."""
        raw = self.job.options.raw
        mixed = {"bsrange", "blocksize_range", "bssplit", "bs_unaligned", "kb_base"} & raw.keys()
        text = raw.get("bs", raw.get("blocksize", ""))
        # `4kb` is 4096 bytes to fio and 4000 to others: no ground for an accusation.
        if mixed or "," in text or text.lower().endswith("b") or self.merged_sections:
            return None
        return self.job.options.size("bs" if "bs" in raw else "blocksize")

    @property
    def span_bytes(self) -> int | None:
        """Bytes that the entry's jobs lie on, by the options; jobs may share them."""
        size, processes = self.job.options.size("size"), self.processes
        return size * (processes or 1) if size else None


def _little(parts: Iterable[Operation], options: JobOptions) -> float | None:
    total = 0.0
    for one in parts:
        mean = mean_s(one, options)
        if one.iops is None or mean is None:
            return None
        total += one.iops * mean
    # Figures of strangers may overflow when they are multiplied.
    return total if total and math.isfinite(total) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One operation of a cell over its sound trials.

    `rates` are of each trial, IOPS or, where some trial does not tell them, bytes/s; `latencies`
    how many I/Os percentiles can be taken from, None where nobody counted, and `quantiles` the
    percentiles that can be had at all."""

    workload: str
    op: Op
    rates: tuple[float, ...]
    in_bytes: bool
    latencies: int | None
    quantiles: frozenset[float]


@dataclass(frozen=True, kw_only=True)
class CellEvidence:
    """One cell with all its trials in the order in which they ran."""

    place: Place
    cell: Cell
    trials: tuple[TrialEvidence, ...]

    @property
    def sound(self) -> tuple[TrialEvidence, ...]:
        return tuple(trial for trial in self.trials if trial.sound)

    @cached_property
    def series(self) -> tuple[Series, ...]:
        """Per workload (a job file's sections apart) and operation; entries of one name are
        processes or clients of one job, so their rates add up."""
        found: dict[tuple[str, Op], list[list[Operation]]] = {}
        for trial in self.sound:
            mine: dict[tuple[str, Op], list[Operation]] = {}
            for job in trial.jobs:
                for one in job.job.operations:
                    mine.setdefault((job.place.workload, one.op), []).append(one)
            for key, entries in mine.items():
                found.setdefault(key, []).append(entries)
        return tuple(_series(workload, op, trials) for (workload, op), trials in found.items())


def _series(workload: str, op: Op, trials: list[list[Operation]]) -> Series:
    rates = _rates(trials, lambda one: one.iops)
    in_bytes = len(rates) < len(trials)
    latencies = [(one.total or one.completion, one) for entries in trials for one in entries]
    histograms = [part.histogram for part, _ in latencies if part and part.histogram]
    quantiles = frozenset(q for metric in PERCENTILES if (q := metric.quantile) is not None)
    counted: int | None
    if histograms:
        counted = sum(one.count for one in histograms)
    else:
        # Percentiles that a tool printed cannot be merged: each stands on its own I/Os.
        known = [part.count or one.total_ios for part, one in latencies if part]
        counted = min((number for number in known if number is not None), default=None)
        printed = {q for part, one in latencies for q in _printed(one)}
        quantiles &= printed
    return Series(
        workload=workload,
        op=op,
        rates=_rates(trials, lambda one: one.bandwidth_bps) if in_bytes else rates,
        in_bytes=in_bytes,
        latencies=counted,
        quantiles=quantiles,
    )


def _printed(one: Operation) -> set[float]:
    return {q for part in (one.total, one.completion) if part for q in part.percentiles}


def _rates(
    trials: list[list[Operation]], pick: Callable[[Operation], float | None]
) -> tuple[float, ...]:
    """The rate of each trial that tells it for all its entries."""
    rates = []
    for entries in trials:
        known = [rate for one in entries if (rate := pick(one)) is not None]
        if len(known) == len(entries) and math.isfinite(sum(known)):
            rates.append(sum(known))
    return tuple(rates)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """A run's cells in the order of the plan."""

    place: Place
    cells: tuple[CellEvidence, ...]


Evidence = JobEvidence | TrialEvidence | CellEvidence | RunEvidence


def every(run: RunEvidence) -> Iterator[Evidence]:
    """All evidence of a run, in the order in which findings of equal gravity are told."""
    yield run
    for cell in run.cells:
        yield cell
        yield from of_trials(cell.trials)


def of_trials(trials: Iterable[TrialEvidence]) -> Iterator[Evidence]:
    for trial in trials:
        yield trial
        yield from trial.jobs
