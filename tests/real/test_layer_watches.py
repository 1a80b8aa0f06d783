"""What watches see of real layers, next to what was really done: a loop device, ext4 on it, an
image by librbd and a mount of ceph-fuse."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import pytest

from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.trial import StoredTrial
from leadline.formats.ceph.counters import CounterDump, ImageSample, operation_sizes
from leadline.formats.json_lines import Missed
from leadline.formats.result import FormatError
from leadline.formats.watch_records import (
    BlockSample,
    FuseSample,
    MissedBlock,
    MountSample,
    RequestSizes,
    parse_block_requests,
    request_sizes,
)
from leadline.inventory.layer import Layer, LayerKind
from leadline.lab.cluster import open_lab
from leadline.lab.state import labs_folder
from leadline.probes.stacks import layers_of_path
from leadline.probes.watches.base import open_kernel_file, read_kernel_file
from leadline.probes.watches.block import BlockWatch, parse_format
from leadline.probes.watches.selection import select_watches
from tests.awaiting import wait_for
from tests.real.conftest import Ended

pytestmark = [pytest.mark.real, pytest.mark.root]

KIB = 1024


def image_growth(samples: Sequence[ImageSample | Missed]) -> tuple[dict[str, int], float]:
    """Return the growth of an image's counters from the first to the last sample, and that of the
    seconds of its writes."""
    known = [sample for sample in samples if isinstance(sample, ImageSample)]
    first, last = known[0], known[-1]
    counts = {name: count - first.counts.get(name, 0) for name, count in last.counts.items()}
    before = first.latencies.get("wr_latency")
    return counts, last.latencies["wr_latency"].seconds - (before.seconds if before else 0.0)


def waiting_requests(samples: Sequence[MountSample], mount: str) -> tuple[int, ...]:
    """Return the requests in flight on a FUSE mount, over time."""
    return tuple(
        sample.waiting
        for sample in samples
        if isinstance(sample, FuseSample) and sample.mount == mount
    )


def fio(folder: Path, enough: Callable[[], bool], *options: str) -> None:
    """Works until there is enough to see, however busy the machine is."""
    common = ("--name=x", "--time_based", "--runtime=120", "--size=64m", "--output-format=json")
    with subprocess.Popen(
        ["fio", *common, *options], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as working:

        def seen_enough() -> bool:
            assert working.poll() is None, working.communicate()
            return enough()

        try:
            wait_for(seen_enough)
        finally:
            working.terminate()


def requests(folder: Path) -> tuple[BlockSample | MissedBlock, ...]:
    """What a watch reported up to now, in whole lines."""
    content = (folder / layout.BLOCK_REQUESTS).read_bytes()
    return parse_block_requests(content[: content.rfind(b"\n") + 1])


def seen(device: Path, folder: Path, *options: str) -> RequestSizes:
    """Sizes of requests to the device while fio works."""

    def enough() -> bool:
        told = requests(folder)
        windows = [item for item in told if isinstance(item, BlockSample) and item.writes]
        missed = len(told) > sum(isinstance(item, BlockSample) for item in told)
        return missed or (
            len(windows) > 2 and sum(sum(window.writes.values()) for window in windows) > 50
        )

    with BlockWatch([device.name], folder, period_s=0.4):
        fio(folder, enough, *options)
    told = StoredTrial(folder, None).block_requests
    missed = [item for item in told if isinstance(item, MissedBlock)]
    if missed:
        pytest.skip(f"requests cannot be seen here, so their sizes are NOT tested: {missed[0]}")
    return request_sizes(told)[device.name]


def test_requests_of_16_kib_are_seen_as_such(loop_device: Path, tmp_path: Path) -> None:
    sizes = seen(
        loop_device,
        tmp_path,
        *(f"--filename={loop_device}", "--rw=randwrite", "--bs=16k", "--direct=1"),
        *("--ioengine=libaio", "--iodepth=4"),
    )
    assert set(sizes.writes) == {16 * KIB}
    assert sizes.writes[16 * KIB] > 20
    assert not sizes.reads
    assert sizes.seconds > 0


def test_large_writes_through_ext4_are_split_at_what_the_device_takes(
    loop_device: Path, mounted: Path, tmp_path: Path
) -> None:
    queue = Path("/sys/block") / loop_device.name / "queue"
    most = int((queue / "max_sectors_kb").read_text()) * KIB
    sizes = seen(
        loop_device,
        tmp_path,
        *(f"--directory={mounted}", "--rw=write", f"--bs={2 * most}", "--direct=1"),
        *("--ioengine=psync", "--fallocate=none"),
    )
    # Memory that does not lie together is as many segments, of which a request has so many.
    segments = int((queue / "max_segments").read_text())
    least = min(most, segments * os.sysconf("SC_PAGE_SIZE"))
    largest = max(sizes.writes)
    assert least <= largest <= most
    # Of the data all but the ends of extents; the journal's and the metadata's are small.
    total = sum(size * count for size, count in sizes.writes.items())
    assert (
        sum(sizes.writes[write] * write for write in sizes.writes if write >= least) > 0.8 * total
    )


def test_what_no_user_has_mounted_is_read_and_still_not_mounted() -> None:
    def mounts() -> list[str]:
        """Others may mount something here meanwhile, but no tracefs."""
        lines = Path("/proc/self/mounts").read_text().splitlines()
        return sorted(line for line in lines if line.split()[2] == "tracefs")

    before = mounts()
    path = "events/block/block_rq_issue/format"
    handle = open_kernel_file("tracefs", Path("/sys/kernel/tracing"), path)
    try:
        assert mounts() == before
        # The namespace that it was mounted in is gone by now.
        assert parse_format(read_kernel_file(handle).decode()).fields["rwbs"]
    finally:
        os.close(handle)


def test_a_stack_of_ext4_on_a_loop_device(loop_device: Path, mounted: Path, tmp_path: Path) -> None:
    """All that is watched of it lies in files of its own, and what was written is there."""
    stack = (
        Layer(kind=LayerKind.FILESYSTEM, name="ext4", facts={"mount_point": str(mounted)}),
        Layer(kind=LayerKind.BLOCK, name=loop_device.name, devices=(loop_device.name,)),
    )
    watches = select_watches(stack, tmp_path)
    before = _written(loop_device)
    for watch in watches:
        watch.start()
    what = ("--rw=write", "--bs=64k", "--direct=1")

    def enough() -> bool:
        found = request_sizes(requests(tmp_path)).get(loop_device.name)
        return found is not None and found.writes.get(64 * KIB, 0) > 0

    fio(tmp_path, enough, f"--directory={mounted}", *what)
    for watch in watches:
        watch.stop()
    sizes = request_sizes(StoredTrial(tmp_path, None).block_requests)[loop_device.name]
    assert sizes.writes[64 * KIB] > 0
    assert _written(loop_device) > before
    assert [path.name for path in tmp_path.glob("*.jsonl")] == ["block-requests.jsonl"]


def _written(device: Path) -> int:
    words = (Path("/sys/block") / device.name / "stat").read_text().split()
    return int(words[6])


def done_before(at: str, trial: StoredTrial) -> float:
    """I/Os that fio had done by then for sure, by its log of each second: it began so long before
    the trial's end, or earlier."""
    ended, then = (datetime.fromisoformat(item) for item in (trial.record.ended_at, at))
    elapsed_s = trial.record.asked_s - (ended - then).total_seconds()
    windows = [serie for series in trial.iops_windows.values() for serie in series]
    return sum(window.value for window in windows if window.end_s <= elapsed_s)


@pytest.mark.slow
def test_an_image_by_librbd_adds_up_from_fio_to_the_osds(
    lab: str, process: Callable[..., Ended], tmp_path: Path
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        f"clusters: {{c: {{lab: {lab}}}}}\n"
        'targets: ["rbd:rep3"]\n'
        "workloads: [{name: w, pattern: randwrite, numjobs: 2}]\n"
        "defaults: {size: 32M, runtime: 4s, ramp: 0s, block_size: 64k, iodepth: 4}\n"
        "repeats: 1\n"
    )
    ended = process("run", plan, "--quiet")
    assert ended.status in (0, 1), ended.err
    (folder,) = (tmp_path / "runs").iterdir()
    (trial,) = Run(folder).trials
    output = trial.output
    assert not isinstance(output, FormatError)
    asked = sum(operation.total_ios or 0 for job in output.jobs for operation in job.operations)
    assert asked > 8, "more than are in flight at a time"

    counts, write_s = image_growth(trial.image_counters)
    # Two clients, one for each job; what they did behind the last answer is missing: of a quarter
    # of a second, or more where the machine is busy.
    samples = [
        image_counter
        for image_counter in trial.image_counters
        if isinstance(image_counter, ImageSample)
    ]
    assert 0.9 * done_before(samples[-1].at, trial) <= counts["wr"] <= asked
    assert counts["wr_bytes"] == counts["wr"] * 64 * KIB
    assert counts["objecter.op_w"] == pytest.approx(counts["wr"], rel=0.02, abs=10)
    assert 0 < write_s / counts["wr"] < trial.record.wall_s
    # A write is of one object, and served by one OSD. No trial waits for the first dump, so that
    # what was written while the OSDs were asked is not in it, but all behind the next line is.
    served = operation_sizes(trial.ceph_counters).get("op_w", {}).get(64 * KIB, 0)
    later = [sample for sample in samples if sample.at >= trial.ceph_counters[1].at]
    dumps = [
        ceph_counter
        for ceph_counter in trial.ceph_counters
        if isinstance(ceph_counter, CounterDump)
    ]
    if later and all(len(dump.sizes) == 3 for dump in dumps):
        assert served >= later[-1].counts["wr"] - later[0].counts["wr"] - 10
    assert served <= asked
    # The sockets go with the run.
    (image,) = (item for item in Run(folder).stacks["rbd:rep3"] if item.kind is LayerKind.IMAGE)
    assert not Path(image.facts["admin_socket"]).exists()


@pytest.mark.slow
def test_one_writer_of_a_fuse_mount_is_one_request_at_a_time(lab: str, tmp_path: Path) -> None:
    opened = open_lab(lab, labs_folder(None))
    assert opened.cephfs is not None
    stack = layers_of_path(opened.cephfs)
    assert stack[0].kind is LayerKind.FUSE
    folder = opened.cephfs / "watched"
    folder.mkdir()
    watches = select_watches(stack, tmp_path)
    for watch in watches:
        watch.start()

    def seen_at_work() -> bool:
        waiting = waiting_requests(StoredTrial(tmp_path, None).mount_counters, stack[0].name)
        return len(waiting) > 3 and max(waiting) >= 1

    fio(folder, seen_at_work, "--rw=write", "--bs=1m", "--direct=1", "--ioengine=psync")
    for watch in watches:
        watch.stop()
    assert seen_at_work()
