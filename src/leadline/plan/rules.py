"""Rules that need the plan alone: which workloads cannot run on which targets.

`leadline check` reports by these rules what `leadline run` would refuse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leadline.plan.footprint import OBJECT_BYTES, target_footprint
from leadline.plan.job_file import Place, fits_job_name, misplaced_options
from leadline.plan.models import Plan
from leadline.plan.target_url import TargetKind, TargetUrl
from leadline.plan.volume_request import Access, Lifetime, RunnerKind, VolumeMode, VolumeSharing
from leadline.plan.workload import EngineChoice, JobFile, Pattern, Phase, Workload
from leadline.units import format_size

# Each stream has two programs and, between hosts, a connection of its own.
MOST_STREAMS = 32


def stream_faults(workload: Workload) -> Iterator[str]:
    """Settings that a ZFS stream does not support, each as the end of a sentence; none for a
    workload of another engine."""
    if not workload.streams:
        return
    patterns = [phase.pattern for phase in workload.phases]
    if patterns != [Pattern.WRITE]:
        yield "writes what it receives: it takes `pattern: write` and nothing else"
        return
    (phase,) = workload.phases
    if phase.rate_iops is not None or workload.clients or workload.neighbours:
        # An open loop has a default depth, which the next check would report.
        yield "has neither clients nor a rate"
        return
    if phase.iodepth > 1:
        yield "has no depth: numjobs is the number of streams at the same time"
    if phase.numjobs > MOST_STREAMS:
        yield f"has at most {MOST_STREAMS} streams at the same time (numjobs)"
    if phase.sharing is not None:
        yield "sends a dataset of its own in each stream: sharing has no meaning for it"
    if phase.fsync:
        yield "has no fsync: a stream is on disk when it has been received"


# The memory of one fio for the names of its objects, those of each job counted, is 128 MiB
# (`smalloc`): 262,144 are too many, measured with fio 3.33.
_MOST_OBJECTS = 200_000
_OF_RADOS = (Pattern.WRITE, Pattern.READ, Pattern.RANDREAD)
# pgbench and sysbench need a file system on this machine or in a pod.
_WITH_PROGRAMS = (
    *(kind for kind in TargetKind if kind.in_files and kind is not TargetKind.HOSTS),
    TargetKind.STORAGE_CLASS,
)
# Engines that are for some kinds of target only; all others are fio's on files and devices.
_FOR = {
    EngineChoice.RBD: (TargetKind.RBD,),
    EngineChoice.NBD: (TargetKind.RBD,),
    EngineChoice.RBD_BENCH: (TargetKind.RBD,),
    EngineChoice.RADOS_BENCH: (TargetKind.RADOS,),
    EngineChoice.RADOS: (TargetKind.RADOS,),
    EngineChoice.ZFS_STREAM: (TargetKind.ZFS, TargetKind.ZFS_ON_RBD),
    EngineChoice.VOLUME_LIFECYCLE: (TargetKind.STORAGE_CLASS,),
    EngineChoice.PGBENCH: _WITH_PROGRAMS,
    EngineChoice.SYSBENCH: _WITH_PROGRAMS,
}
_PATTERNS = {
    EngineChoice.PGBENCH: (Pattern.RANDREAD, Pattern.RANDWRITE, Pattern.RANDRW),
    EngineChoice.SYSBENCH: tuple(pattern for pattern in Pattern if pattern is not Pattern.RW),
}


def engine_faults(workload: Workload, url: TargetUrl) -> Iterator[str]:
    """Reasons why a workload cannot run on a target, each a sentence with the remedy."""
    kind, choice = url.kind, workload.engine
    fitting = _FOR.get(choice, (kind,))
    if kind not in fitting:
        named = " and ".join(f"{item.value}:" for item in fitting)
        yield (
            f"the engine {choice.value!r} is for {named} targets, not for {kind.value}: ones; "
            "`targets:` of a workload names those that it is for"
        )
        return
    if workload.lifecycle:
        yield from _of_lifecycles(workload, url)
        return
    yield from _of_names(workload)
    if kind.on_kubernetes:
        yield from _of_volumes(workload, url)
    if url.by_nbd:
        yield from _of_nbd(workload)
    if workload.own_data:
        yield from _of_programs(workload, url)
    elif workload.streams:
        for fault in stream_faults(workload):
            yield f"the engine {choice.value!r} {fault}"
    elif url.fio_objects:
        yield from _of_fio_objects(workload)
    elif kind is TargetKind.RADOS:
        yield from _of_rados_bench(workload)
    elif choice is EngineChoice.RBD_BENCH:
        yield from _of_one_process("rbd bench", workload)
    elif workload.job_file is not None:
        yield from _of_job_files(workload.job_file, url)
    elif choice is EngineChoice.IO_URING and kind is not TargetKind.RBD and not workload.fits_rings:
        yield (
            "fio's io_uring rounds a depth up to a power of two and would do more than asked: use "
            "`engine: auto` or `libaio`, or a depth of 1, 2, 4, 8, 16, ..."
        )


# qemu-nbd works on 16 requests of a connection, and leaves more of them in the socket
# (MAX_NBD_REQUESTS in QEMU's nbd/server.c). fio has a connection for each job.
_NBD_REQUESTS = 16


def _of_nbd(workload: Workload) -> Iterator[str]:
    """Settings that an image behind qemu-nbd does not support."""
    if workload.engine is EngineChoice.RBD_BENCH:
        yield "rbd bench opens the image by librbd itself: omit path=nbd and encryption"
    if workload.generators or workload.neighbour is not None:
        yield "an image behind NBD has one fio: use numjobs instead of clients and neighbours"
    for phase in workload.phases:
        # An open loop divides its depth among jobs.
        if phase.rate_iops is None and phase.iodepth > _NBD_REQUESTS:
            yield (
                f"qemu-nbd works on {_NBD_REQUESTS} requests of a job at once, so iodepth "
                f"{phase.iodepth} would not be in flight: use numjobs for more"
            )


def _of_lifecycles(workload: Workload, url: TargetUrl) -> Iterator[str]:
    """Settings that have no meaning for the lifecycle of volumes."""
    engine = f"the engine {EngineChoice.VOLUME_LIFECYCLE.value!r}"
    if [phase.pattern for phase in workload.phases] != [Pattern.WRITE]:
        yield f"{engine} writes the data of each volume: it takes `pattern: write` and nothing else"
        return
    (phase,) = workload.phases
    if phase.rate_iops is not None or workload.neighbours or phase.iodepth > 1 or phase.numjobs > 1:
        yield f"{engine} has volumes at once (`clients`), and neither depth, jobs nor a rate"
    if url.request.lifetime is Lifetime.FRESH:
        yield f"{engine} makes new volumes in every trial: omit volume=fresh"
    if url.request.sharing is not None:
        yield f"{engine} has a volume for each pod: omit sharing= and access=rox"


def _of_programs(workload: Workload, url: TargetUrl) -> Iterator[str]:
    """Settings that have no meaning for pgbench and sysbench."""
    engine = f"the engine {workload.engine.value!r}"
    fitting = _PATTERNS[workload.engine]
    if [phase.pattern in fitting for phase in workload.phases] != [True]:
        yield f"{engine} takes one pattern of {', '.join(sorted(fitting))}"
        return
    (phase,) = workload.phases
    if phase.rate_iops is not None or workload.neighbours or phase.iodepth > 1:
        yield f"{engine} has connections or threads (`numjobs`), and neither depth nor rate"
    if phase.sharing is not None:
        yield f"{engine} shares its files among all jobs: omit sharing"
    if workload.database and phase.fsync:
        yield f"{engine} has its own fsyncs: omit fsync"
    if not url.kind.on_kubernetes:
        if workload.clients:
            yield f"{engine} is one program on this machine: omit clients"
        return
    request = url.request
    if request.runner is RunnerKind.VM:
        yield f"{engine} runs in pods: omit runner=vm"
    elif request.mode is not VolumeMode.FILESYSTEM:
        yield f"{engine} needs a file system: write mode=filesystem in the target"
    if request.sharing is not None or request.access is Access.ROX:
        yield f"{engine} needs a volume for each pod: omit sharing= and access=rox"


def _of_volumes(workload: Workload, url: TargetUrl) -> Iterator[str]:
    """In Kubernetes each client needs a pod, with a volume of its own or a shared one."""
    request = url.request
    if request.access is Access.ROX and workload.writes:
        yield (
            "this workload writes, and access=rox is mounted read-only: use read patterns, or "
            "access=rwx"
        )
    if request.sharing is not None and workload.job_file is not None:
        yield (
            "the pods of one volume would lay out the same files of a job file: write it as a "
            "workload of the plan"
        )
    if workload.neighbours:
        yield (
            "volumes of a StorageClass cannot be neighbours yet: use them on dir:, rbd:, cephfs: "
            "and hosts: targets"
        )
    if workload.clients > request.count and not request.everywhere:
        need = "a volume" if request.sharing is None else "a pod"
        yield (
            f"{workload.clients} clients need {need} each, and the target has "
            f"{request.count}: write count={workload.clients} in the target"
        )


def _of_job_files(job_file: JobFile, url: TargetUrl) -> Iterator[str]:
    kind = url.kind
    if kind is TargetKind.RBD:
        yield (
            "a job file names its I/O engine itself and cannot be used on an RBD image: write it "
            "as a workload of the plan, or map the image and use device:"
        )
    elif kind is TargetKind.HOSTS:
        yield (
            "several clients would write the same files of a job file: write it as a workload of "
            "the plan"
        )
    else:
        in_volume = kind.on_kubernetes and url.request.mode is VolumeMode.FILESYSTEM
        in_files = kind.in_files or in_volume
        yield from misplaced_options(job_file, Place.FILES if in_files else Place.DEVICE)


def _of_names(workload: Workload) -> Iterator[str]:
    """Names of phases that fio would read as something else in a job file."""
    neighbour = (workload.neighbour,) if workload.neighbour is not None else ()
    for phase in (*workload.phases, *neighbour):
        if not fits_job_name(phase.name):
            yield (
                f"the phase {phase.name!r} is a job of fio, which would misread the name: use "
                "letters, digits and .+@%,=()~:- and begin with a letter or a digit"
            )


_BY_FIO = "rados:POOL?engine=fio"


def _of_rados_bench(workload: Workload) -> Iterator[str]:
    if workload.engine not in (EngineChoice.AUTO, EngineChoice.RADOS_BENCH):
        yield (
            f"rados bench is the engine of rados:POOL, not {workload.engine.value}: use "
            f"`engine: auto`, or the target {_BY_FIO}"
        )
        return
    yield from _of_one_process("rados bench", workload)
    for phase in workload.phases:
        if phase.pattern not in _OF_RADOS:
            yield (
                f"rados bench cannot do {phase.pattern.value}, since it writes new objects only, "
                "one behind the other, and never mixes reads with writes: use write, read or "
                f"randread, or the target {_BY_FIO}"
            )
            continue
        yield from _of_objects("rados bench", phase, in_blocks=phase.pattern.reads)


def _of_objects(tool: str, phase: Phase, *, in_blocks: bool) -> Iterator[str]:
    """Sizes that do not fit the objects; `in_blocks`: the tool uses parts of an object."""
    if phase.size % OBJECT_BYTES:
        yield (
            f"the data of {tool} are objects of 4 MiB, and size {phase.size} is no multiple of it"
        )
    if in_blocks and OBJECT_BYTES % phase.block_size:
        yield (
            f"{tool} cannot use objects of 4 MiB in blocks of {phase.block_size} bytes: use a "
            "block size that divides 4M: 4k, 64k, 1M, 4M"
        )


def _of_fio_objects(workload: Workload) -> Iterator[str]:
    tool = "fio's rados engine"
    if workload.engine not in (EngineChoice.AUTO, EngineChoice.RADOS):
        yield (
            f"{tool} is the engine of {_BY_FIO} and of rados: targets with hosts, not "
            f"{workload.engine.value}: use `engine: auto`"
        )
        return
    if workload.job_file is not None:
        yield "a job file names its I/O engine itself: write it as a workload of the plan"
    neighbour = (workload.neighbour,) if workload.neighbour is not None else ()
    for phase in (*workload.phases, *neighbour):
        yield from _of_objects(tool, phase, in_blocks=True)
        if phase.fsync:
            yield f"{tool} has no fsync: omit it, RADOS acknowledges a write when it is durable"
        if phase.rate_iops is not None:
            yield f"{tool} offers no rate: use an rbd: target of the same pool"
        if phase.sharing is not None and phase.pattern.sequential and phase.numjobs > 1:
            yield (
                f"{tool} has no parts of shared objects for the jobs of a sequence: omit sharing"
            )
    count = sum(phase.numjobs * (phase.size // OBJECT_BYTES) for phase in workload.phases)
    if count > _MOST_OBJECTS:
        yield (
            f"{tool} has memory for {_MOST_OBJECTS:,} objects of all jobs of a workload, not for "
            f"{count:,}: use fewer jobs or a smaller size"
        )


def _of_one_process(tool: str, workload: Workload) -> Iterator[str]:
    """Settings that neither of Ceph's own tools supports."""
    if workload.job_file is not None:
        yield f"{tool} does not read fio's job files: write it as a workload of the plan"
    if workload.generators or workload.neighbour is not None:
        yield f"{tool} is one process and has no clients: use `engine: auto` on an rbd: target"
    for phase in workload.phases:
        if phase.rate_iops is not None:
            yield f"{tool} offers no rate: use `engine: auto` on an rbd: target"
        if phase.numjobs > 1:
            yield (
                f"{tool} is one process, so numjobs {phase.numjobs} has no meaning for it: use "
                f"numjobs 1 and iodepth {phase.iodepth * phase.numjobs}"
            )
        if phase.sharing is not None:
            yield f"{tool} is one process, so sharing has no meaning for it"
        if phase.fsync:
            yield (
                f"{tool} cannot call fsync between its writes: leave fsync out, RADOS acknowledges "
                "a write when it is durable"
            )


def with_rate(workload: Workload) -> Workload:
    """A workload like a step of an open loop, at any rate."""
    phases = tuple(phase.model_copy(update={"rate_iops": 1.0}) for phase in workload.phases)
    return workload.model_copy(update={"phases": phases})


def mixed_lifecycles(plan: Plan) -> Iterator[tuple[str, str]]:
    """Targets whose volumes are both made in every trial and used by all trials, by their name."""
    for target in plan.own_targets:
        kinds = {workload.lifecycle for workload in plan.workloads_on(target.name)}
        if len(kinds) > 1:
            sentence = (
                "the engine 'volume-lifecycle' makes volumes of its own: give the other "
                "workloads another target of the same class (`targets:` of a workload)"
            )
            yield target.name, sentence


def small_volumes(plan: Plan) -> Iterator[tuple[str, str]]:
    """Targets whose volumes are too small for the data of their workloads, by their name. The run
    leaves out an optional one."""
    for target in plan.own_targets:
        url = target.parsed
        if not url.kind.on_kubernetes or target.name in plan.optional:
            continue
        footprint = target_footprint(plan, target.name)
        size, needed = url.request.size_bytes, footprint.span + footprint.own_bytes
        if size is not None and size < needed:
            fact = f"a volume of {format_size(size)} is too small for the {format_size(needed)}"
            hint = "ask for more with size=, or make those smaller"
            yield target.name, f"{fact} of its workloads: {hint}"


def unfit_sharing(plan: Plan) -> Iterator[tuple[str, str]]:
    """Targets whose pods cannot share a volume as requested, by their name."""
    for target in plan.own_targets:
        if not target.parsed.kind.on_kubernetes:
            continue
        request = target.parsed.request
        if request.sharing is None:
            continue
        own = request.sharing is VolumeSharing.OWN_FILES
        if request.runner is RunnerKind.VM:
            yield target.name, "a virtual machine has a volume of its own: omit runner=vm"
        if request.access is Access.RWO:
            yield target.name, "pods on several nodes share a volume with access=rwx or access=rox"
        if request.access is Access.ROX and own:
            yield target.name, "the pods of a read-only volume have the same files: omit sharing="
        if request.access is Access.ROX and not plan.prefill:
            yield target.name, "a read-only volume needs its data: omit `prefill: false`"
        if own and request.everywhere:
            fact = "the files of count=all are unknown before the run"
            yield target.name, f"{fact}: write a number, or sharing=same-files"


# The memory of fio's own program and of the shell that starts it, next to its I/O buffers.
_FIO_BYTES = 8 << 20
_NO_IMAGE = (
    "no image is named for the pods that run fio: set `image:`, --runner-image or "
    "$LEADLINE_RUNNER_IMAGE (`leadline kubernetes image build` makes one)"
)


def unfit_runners(plan: Plan) -> Iterator[tuple[tuple[str, ...], str]]:
    """Settings of Kubernetes clusters that a run would refuse or that no runner pod could work
    with, each with its key path. Virtual machines have their own image and memory."""
    for cluster in plan.clusters:
        settings = cluster.kubernetes
        if settings is None:
            continue
        path = ("clusters", cluster.name, "kubernetes")
        pods = [
            target.name
            for target in plan.targets
            if target.cluster == cluster.name and target.parsed.request.runner is RunnerKind.POD
        ]
        if settings.service_account not in (None, "default") and settings.namespace is None:
            sentence = (
                f"the service account {settings.service_account!r} needs `namespace:`: a run "
                "without one makes its own, which has no such account"
            )
            yield (*path, "service_account"), sentence
        if not pods:
            continue
        if settings.image is None:
            yield path, _NO_IMAGE
        least = min(
            (plan.target(name).parsed.request.runner_size(settings).memory_bytes, name)
            for name in pods
        )
        workload, buffers = _largest_buffers(plan, pods)
        if least[0] < buffers + _FIO_BYTES:
            sentence = (
                f"{format_size(least[0])} of memory is too little for {workload!r}: fio "
                f"has {format_size(buffers)} of I/O buffers (jobs x queue depth x block size)"
            )
            yield (*path, "memory"), sentence


def _largest_buffers(plan: Plan, targets: Sequence[str]) -> tuple[str, int]:
    """Return the workload on these targets with the most bytes in fio's I/O buffers."""
    found = ("", 0)
    for name in targets:
        for cell in plan.cells_of(name):
            for phase in cell.workload.phases:
                size = phase.numjobs * phase.iodepth * phase.block_size
                found = max(found, (cell.workload.name, size), key=lambda pair: pair[1])
    return found
