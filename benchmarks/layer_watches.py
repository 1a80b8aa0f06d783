"""What watching requests to a block device costs, on a loop device over memory.

    uv run --frozen python benchmarks/layer_watches.py [SECONDS]

While fio reads 4 KiB at depth 32, stretches of 60 ms with and without an open event follow each
other in random order, some hundred of each, so that what else the machine does falls on both; from
the medians comes what a request that is seen costs. Then the watch itself: what it sees, and this
process's own time.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leadline.archive.trial import StoredTrial
from leadline.formats.watch_records import request_sizes
from leadline.probes.watches.block import BlockWatch, TracepointEvents, tracepoint

STRETCH_S = 0.06
SIZE = 128 << 20


@contextmanager
def loop_device() -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        image = Path(folder) / "image"
        image.write_bytes(bytes(SIZE))
        made = subprocess.run(
            ["losetup", "--find", "--show", str(image)], capture_output=True, text=True, check=True
        )
        device = made.stdout.strip()
        try:
            yield device.removeprefix("/dev/")
        finally:
            subprocess.run(["losetup", "--detach", device], check=True)


@contextmanager
def load(device: str, seconds: float) -> Iterator[None]:
    what = ("--rw=randread", "--bs=4k", "--direct=1", "--ioengine=io_uring", "--iodepth=32")
    span = ("--time_based", f"--runtime={seconds:.0f}", "--minimal")
    fio = subprocess.Popen(
        ("fio", "--name=x", f"--filename=/dev/{device}", *what, *span), stdout=subprocess.DEVNULL
    )
    time.sleep(1.0)
    try:
        yield
    finally:
        fio.terminate()
        fio.wait()


def reads(device: str) -> int:
    return int(Path(f"/sys/block/{device}/stat").read_text().split()[0])


def rates(device: str, seconds: float) -> tuple[list[float], list[float]]:
    """Reads per second of stretches without and with an open event."""
    major, minor = map(int, Path(f"/sys/block/{device}/dev").read_text().split(":"))
    point = tracepoint("block", "block_rq_issue")
    found: dict[bool, list[float]] = {False: [], True: []}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for watched in random.sample([False, True], 2):
            events = TracepointEvents(point, f"dev == {major << 20 | minor}") if watched else None
            if events:
                events.enable()
            began, before = time.monotonic(), reads(device)
            time.sleep(STRETCH_S)
            rate = (reads(device) - before) / (time.monotonic() - began)
            if events:
                events.disable()
                events.close()
            found[watched].append(rate)
    return found[False], found[True]


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 40.0
    with loop_device() as device:
        with load(device, seconds + 5):
            without, watched = rates(device, seconds)
        plain, seen = statistics.median(without), statistics.median(watched)
        print(f"{len(without)} stretches of each: {plain:,.0f} IOPS, {seen:,.0f} while seen")
        print(f"a request that is seen costs {(1 / seen - 1 / plain) * 1e6:.2f} us")
        with tempfile.TemporaryDirectory() as folder, load(device, seconds + 5):
            used, began = time.process_time(), reads(device)
            with BlockWatch([device], Path(folder)):
                time.sleep(seconds)
            used, done = time.process_time() - used, reads(device) - began
            sizes = request_sizes(StoredTrial(Path(folder), None).block_requests)[device]
            size = sum(one.stat().st_size for one in Path(folder).iterdir())
    told = sum(sizes.reads.values())
    share = (told + sizes.lost) / done
    print(f"the watch: {told:,} of {done:,} requests seen and {sizes.lost:,} lost ({share:.2%})")
    print(f"  in {sizes.seconds:.2f} s of {seconds:.0f} s; {size / seconds:.0f} bytes a second")
    print(f"  so {share * (plain / seen - 1):.3%} of fio's rate")
    print(f"  {used / seconds:.3%} of one core here")


if __name__ == "__main__":
    main()
