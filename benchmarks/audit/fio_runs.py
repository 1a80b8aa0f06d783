"""Results of the real fio, each with one defect made on purpose, or good in a way that looks like
one. A table: what is laid out, the limits, and fio's job file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks.audit.bench import Bench
from benchmarks.audit.conditions import Limits, disk_of, limits, loop_device

Section = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit of the disk below the files: I/Os or bytes per second, of reads and of writes each.
    `reads_only` leaves writes free."""

    iops: int | None = None
    bps: int | None = None
    reads_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One fio run. `common` are options of all sections, `sections` names with their options, in
    fio's own words. `size` is laid out in the file `data` before (empty: nothing is); `on_loop`
    puts a loop device over it that uses the host's page cache. `damage` overwrites bytes of the
    file after the first of `sections` ran; the rest run then, and are audited."""

    name: str
    why: str
    common: str
    sections: Sequence[Section]
    size: str = "128M"
    limit: Limit | None = None
    on_loop: bool = False
    damage: bool = False
    form: str = "json"


def _recipes() -> Iterator[Recipe]:
    yield from _merged()
    yield from _buffered()
    yield from _capped()
    yield from _ended()
    yield from _named()
    yield from _others()


_READ = "filename=data size=128M rw=randread ioengine=libaio direct=1 time_based=1 runtime=3"
_GROUP = f"{_READ} group_reporting=1"
_APART = f"{_READ} stonewall=1"


def _merged() -> Iterator[Recipe]:
    def merged(
        name: str, why: str, *sections: str, common: str = _GROUP, form: str = "json"
    ) -> Recipe:
        named = tuple((f"s{number}", text) for number, text in enumerate(sections, start=1))
        return Recipe(name=f"merged-{name}", why=why, common=common, sections=named, form=form)

    yield merged("block-sizes", "4k and 64k in one entry", "bs=4k iodepth=4", "bs=64k iodepth=4")
    yield merged("depths", "depth 4 and 32 in one entry", "bs=4k iodepth=4", "bs=4k iodepth=32")
    yield merged("read-and-write", "reads and writes of two sections in one entry",
                 "bs=4k iodepth=8", "bs=4k iodepth=8 rw=randwrite")  # fmt: skip
    yield merged("three-equal", "three sections alike in one entry", *["bs=4k iodepth=8"] * 3)
    yield merged("three-files", "three files in one entry", *(
        f"bs=4k iodepth=8 filename=data{number} size=32M" for number in (1, 2, 3)
    ))  # fmt: skip
    yield merged("depth-1", "three synchronous sections in one entry",
                 *["bs=4k iodepth=1 ioengine=psync"] * 3)  # fmt: skip
    yield merged("jobs", "two jobs and one job in one entry",
                 "bs=4k iodepth=4 numjobs=2", "bs=4k iodepth=4")  # fmt: skip
    yield merged("runtimes", "a section of 2 s and one of 4 s in one entry",
                 "bs=4k iodepth=4 runtime=2", "bs=4k iodepth=4 runtime=4")  # fmt: skip
    yield merged("mix-and-writes", "a mix and a section of writes in one entry",
                 "bs=4k iodepth=4 rw=randrw", "bs=16k iodepth=4 rw=write")  # fmt: skip
    yield merged("bins", "4k and 1M in one entry, json+", "bs=4k iodepth=4", "bs=1M iodepth=2",
                 form="json+")  # fmt: skip
    good = "numjobs=3 bs=4k iodepth=4"
    yield merged("not-equal-jobs", "good: three jobs of one section, grouped", good)
    yield merged("not-new-group", "good: two sections with groups of their own",
                 "bs=4k iodepth=4", "bs=64k iodepth=4 new_group=1 stonewall=1")  # fmt: skip
    yield merged("not-verify", "good: writes that are read back in the same entry",
                 "rw=write bs=64k iodepth=4 verify=crc32c do_verify=1 time_based=0 runtime=0",
                 common="filename=data size=128M ioengine=libaio direct=1 group_reporting=1",
                 )  # fmt: skip


def _buffered() -> Iterator[Recipe]:
    def buffered(name: str, why: str, options: str) -> Recipe:
        common = "filename=data size=128M direct=0 time_based=1 runtime=3"
        return Recipe(name=f"buffered-{name}", why=why, common=common, sections=(("job", options),))

    yield buffered("sequential", "1M writes into the page cache", "rw=write bs=1M ioengine=psync")
    yield buffered("random", "4k random writes into the page cache",
                   "rw=randwrite bs=4k ioengine=psync")  # fmt: skip
    yield buffered("libaio", "libaio writes into the page cache",
                   "rw=write bs=128k ioengine=libaio iodepth=8")  # fmt: skip
    yield buffered("io-uring", "io_uring random writes into the page cache",
                   "rw=randwrite bs=4k ioengine=io_uring iodepth=8")  # fmt: skip
    yield buffered("jobs", "two jobs write into the page cache",
                   "rw=randwrite bs=16k ioengine=psync numjobs=2 group_reporting=1")  # fmt: skip
    yield buffered("pvsync2", "pvsync2 writes into the page cache",
                   "rw=write bs=64k ioengine=pvsync2")  # fmt: skip
    yield buffered("posixaio", "posixaio writes into the page cache",
                   "rw=write bs=64k ioengine=posixaio iodepth=4")  # fmt: skip
    yield buffered("default-engine", "no engine and no direct given", "rw=write bs=1M")
    yield buffered("once", "128 MiB once into the page cache: a tenth of a second",
                   "rw=write bs=1M ioengine=psync time_based=0 runtime=0")  # fmt: skip
    yield buffered("not-fsync", "good: fsync after every 16 writes",
                   "rw=write bs=64k ioengine=psync fsync=16")  # fmt: skip
    yield buffered("not-fdatasync", "good: fdatasync after every write",
                   "rw=randwrite bs=4k ioengine=psync fdatasync=1")  # fmt: skip
    yield buffered("not-synchronous", "good: O_SYNC", "rw=write bs=64k ioengine=psync sync=1")
    yield buffered("not-direct", "good: direct I/O",
                   "rw=write bs=1M ioengine=libaio iodepth=4 direct=1")  # fmt: skip
    yield buffered("not-reads", "good: cold buffered reads", "rw=read bs=1M ioengine=psync")


def _capped() -> Iterator[Recipe]:
    def cells(blocks: str, *patterns: str, depth: int = 8) -> tuple[Section, ...]:
        return tuple(
            (f"{pattern}-{block}", f"rw={pattern} bs={block} iodepth={depth}")
            for pattern in patterns
            for block in blocks.split()
        )

    def depths(pattern: str, *given: int) -> tuple[Section, ...]:
        return tuple((f"qd{depth}", f"rw={pattern} bs=4k iodepth={depth}") for depth in given)

    def clients(pattern: str, *given: int) -> tuple[Section, ...]:
        return tuple(
            (f"jobs{jobs}", f"rw={pattern} bs=4k iodepth=1 numjobs={jobs} group_reporting=1")
            for jobs in given
        )

    def capped(
        name: str, why: str, sections: Sequence[Section], limit: Limit | None, more: str = ""
    ) -> Recipe:
        return Recipe(
            name=f"capped-{name}", why=why, common=f"{_APART} {more}".strip(), sections=sections,
            limit=limit,
        )  # fmt: skip

    few = Limit(iops=300)
    slow = Limit(bps=16 << 20)
    both = ("randread", "randwrite")
    yield capped("matrix-iops", "300 I/Os a second, 4k to 64k, reads and writes",
                 cells("4k 16k 64k", *both), few)  # fmt: skip
    yield capped("matrix-bytes", "16 MiB/s, 64k to 1M, reads and writes",
                 cells("64k 256k 1M", *both), slow)  # fmt: skip
    yield capped("depths-read", "300 reads a second at depth 1 to 64",
                 depths("randread", 1, 4, 16, 64), few)  # fmt: skip
    yield capped("depths-write", "300 writes a second at depth 1 to 64",
                 depths("randwrite", 1, 4, 16, 64), few)  # fmt: skip
    yield capped("clients", "300 reads a second with 1 to 16 jobs",
                 clients("randread", 1, 4, 16), few)  # fmt: skip
    yield capped("blocks-read", "16 MiB/s of reads, 16k to 1M",
                 cells("16k 64k 256k 1M", "randread"), slow)  # fmt: skip
    yield capped("blocks-write", "16 MiB/s of writes, 16k to 1M, sequential",
                 cells("16k 64k 256k 1M", "write"), slow)  # fmt: skip
    yield capped("not-matrix", "good: no limit, 4k to 1M, reads and writes",
                 cells("4k 64k 1M", *both), None)  # fmt: skip
    yield capped("not-depths", "good: no limit, depth 1 to 64",
                 depths("randread", 1, 4, 16, 64), None)  # fmt: skip
    yield capped("not-clients", "good: no limit, 1 to 16 jobs",
                 clients("randread", 1, 4, 16), None)  # fmt: skip
    yield capped("by-rate-matrix", "good: rate_iops, which the options say",
                 cells("4k 16k 64k", *both), None, "rate_iops=200")  # fmt: skip
    yield capped("by-rate-depths", "good: rate at every depth, which the options say",
                 depths("randread", 1, 4, 16), None, "rate=1M")  # fmt: skip


def _ended() -> Iterator[Recipe]:
    def timed(
        name: str, why: str, *sections: str, common: str = "", limit: Limit | None = None
    ) -> Recipe:
        named = tuple((f"s{number}", text) for number, text in enumerate(sections, start=1))
        common = common or _READ.replace(" time_based=1 runtime=3", "")
        return Recipe(name=name, why=why, common=common, sections=named, limit=limit)

    other = "filename=data2 size=32M rw=randread bs=4k time_based=1 exitall=1 new_group=1"
    yield timed("short-below-half", "ended by another job's exitall after 2 of 8 s",
                f"{other} runtime=2", "bs=4k iodepth=4 time_based=1 runtime=8")  # fmt: skip
    yield timed("short-above-half", "ended by another job's exitall after 5 of 8 s",
                f"{other} runtime=5", "bs=4k iodepth=4 time_based=1 runtime=8")  # fmt: skip
    yield timed("short-of-its-size", "ended by another job's exitall before its size was done",
                f"{other} runtime=2",
                "rw=randread bs=4k iodepth=1 size=128M loops=100 runtime=20")  # fmt: skip
    zoned = "filename=data size=64M zonemode=zbd zonesize=8M zonecapacity=4M ioengine=libaio "
    zoned += "direct=1 bs=64k runtime=60"
    yield timed("zoned-write", "good: eight zones written to their capacity, 32 of 64 MiB",
                "rw=write iodepth=4", common=zoned)  # fmt: skip
    yield timed("zoned-random-write", "good: random writes of eight zones",
                "rw=randwrite iodepth=1", common=zoned)  # fmt: skip
    yield timed("zoned-read", "good: eight zones read to their capacity, written before",
                "rw=write iodepth=4", "stonewall=1 rw=read iodepth=4", common=zoned)  # fmt: skip
    yield timed("zoned-two-jobs", "good: two jobs, each with its own zones",
                "rw=write iodepth=1 numjobs=2 group_reporting=1 max_open_zones=8 "
                "offset_increment=64M filesize=128M", common=zoned)  # fmt: skip
    yield timed("size-with-a-ramp", "good: ended by its size, of which the ramp did a part",
                "rw=randread bs=16k iodepth=4 runtime=30 ramp_time=2",
                limit=Limit(bps=24 << 20))  # fmt: skip
    yield timed("size-with-a-ramp-writes", "good: ended by its size behind a ramp, writes",
                "rw=write bs=16k iodepth=4 size=64M runtime=20 ramp_time=2",
                limit=Limit(bps=16 << 20))  # fmt: skip
    yield timed("zoned-short", "zones ended by another job's exitall long before their capacity",
                f"{other} runtime=2", f"{zoned.replace('64k', '4k')} rw=write iodepth=1 loops=100",
                common="ioengine=libaio direct=1")  # fmt: skip
    yield timed("size-in-loops", "good: its size four times, then over",
                "bs=64k iodepth=4 loops=4 runtime=60")  # fmt: skip


def _named() -> Iterator[Recipe]:
    def named(name: str, section: str, options: str, why: str) -> Recipe:
        return Recipe(
            name=name, why=why, common=f"{_READ} iodepth=4", sections=((section, options),)
        )

    yield named("name-read-writes", "randread-4k", "rw=randwrite bs=4k", "called read, writes")
    yield named("name-write-reads", "seq_write_1M", "rw=read bs=1M", "called write, reads")
    yield named("name-random-sequential", "rand-read-4k", "rw=read bs=4k",
                "called random, sequential")  # fmt: skip
    yield named("name-sequential-random", "SeqWrite64k", "rw=randwrite bs=64k",
                "called sequential, random")  # fmt: skip
    yield named("name-mixed-reads", "randrw-70-30", "rw=randread bs=4k", "called a mix, reads only")
    yield named("name-not-mix", "read-write-70-30", "rw=randrw rwmixread=70 bs=4k",
                "good: a mix with both words")  # fmt: skip
    yield named("name-not-thread", "spread-threads", "rw=randwrite bs=4k",
                "good: words that only hold `read`")  # fmt: skip
    yield named("name-not-after", "read-after-write", "rw=randread bs=4k",
                "good: both words")  # fmt: skip
    yield named("name-not-plain", "rand-write-4k", "rw=randwrite bs=4k", "good: as it is called")


def _others() -> Iterator[Recipe]:
    def polled(name: str, why: str, options: str) -> Recipe:
        return Recipe(name=f"polling-{name}", why=f"good: {why}", common=f"{_READ} bs=4k",
                      sections=(("job", options),))  # fmt: skip

    sq = "ioengine=io_uring sqthread_poll=1"
    yield polled("depth-1", "a kernel thread polls for one job of depth 1", f"{sq} iodepth=1")
    yield polled("depth-4", "a kernel thread polls, depth 4", f"{sq} iodepth=4")
    yield polled("depth-32", "a kernel thread polls, depth 32", f"{sq} iodepth=32")
    yield polled("writes", "a kernel thread polls for writes", f"{sq} iodepth=8 rw=randwrite")
    yield polled("preadv2", "RWF_HIPRI with pvsync2", "ioengine=pvsync2 hipri=1 iodepth=1")

    cached = "size=128M ioengine=libaio direct=1 iodepth=1 bs=4k time_based=1 runtime=4 stonewall=1"
    slow = Limit(iops=20, reads_only=True)
    yield Recipe(name="host-cache-writes", why="a loop device over a slow disk: the host's page "
                 "cache takes the writes", common=cached, on_loop=True, limit=slow,
                 sections=(("reads", "rw=randread"), ("writes", "rw=randwrite")))  # fmt: skip
    yield Recipe(name="host-cache-mix", why="a mix on it at depth 1",
                 common=cached, on_loop=True, limit=slow,
                 sections=(("mix", "rw=randrw norandommap=1"),))  # fmt: skip
    yield Recipe(name="host-cache-64k", why="64k on it",
                 common=cached.replace("4k", "64k"), on_loop=True, limit=slow,
                 sections=(("r64", "rw=randread"), ("w64", "rw=randwrite")))  # fmt: skip
    yield Recipe(name="host-cache-not", why="good: reads and writes of the disk at depth 1",
                 common=f"{cached} filename=data",
                 sections=(("reads", "rw=randread"), ("writes", "rw=randwrite")))  # fmt: skip

    written = ("written", "rw=write")
    check = "filename=data size=16M ioengine=libaio direct=1 iodepth=4 bs=64k"
    yield Recipe(name="verify-failed", why="a byte of the file changed between write and verify",
                 common=f"{check} verify=crc32c", damage=True, size="",
                 sections=(written, ("reread", "rw=read")))  # fmt: skip
    yield Recipe(name="verify-failed-md5", why="the same with md5 and a text",
                 common=f"{check} verify=md5", damage=True, size="", form="normal",
                 sections=(written, ("reread", "rw=read")))  # fmt: skip
    yield Recipe(name="verify-failed-continued", why="the same, and fio goes on",
                 common=f"{check} verify=crc32c continue_on_error=verify", damage=True, size="",
                 sections=(written, ("reread", "rw=read")))  # fmt: skip
    yield Recipe(name="verify-not-failed", why="good: nothing changed in between",
                 common=f"{check} verify=crc32c", size="",
                 sections=(written, ("reread", "rw=read stonewall=1")))  # fmt: skip

    yield Recipe(name="few-ios-deep", why="good: 250 I/Os, 128 always in flight",
                 common=_READ, limit=Limit(iops=50),
                 sections=(("deep", "bs=4k iodepth=128"),))  # fmt: skip
    yield Recipe(name="few-ios-jobs", why="eight jobs of depth 32 on a disk of 50 a second",
                 common=_GROUP, limit=Limit(iops=50),
                 sections=(("deep", "bs=4k iodepth=32 numjobs=8"),))  # fmt: skip
    yield Recipe(name="fills-its-buffers", why="good: depth 1, time to fill 4 MiB between I/Os",
                 common=_READ, sections=(
                     ("job", "rw=write bs=4M iodepth=1 ioengine=psync refill_buffers=1"),
                 ))  # fmt: skip


def _make(recipe: Recipe) -> Callable[[Bench], None]:
    def make(bench: Bench) -> None:
        if recipe.size:
            bench.lay_out(size=recipe.size)
        with contextlib.ExitStack() as stack:
            device = ""
            if recipe.on_loop:
                device = f" filename={stack.enter_context(loop_device(bench.data / 'data'))}"
            inside = bench
            if recipe.limit is not None:
                group = stack.enter_context(limits())
                _set(group, recipe.limit, disk_of(bench.data))
                inside = replace(bench, wrap=group.command)
            if recipe.on_loop:
                with (bench.data / "data").open("rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            sections = list(recipe.sections)
            if recipe.damage:
                _run(inside, recipe, sections[:1], device, "written.json")
                bench.audited.clear()
                with (bench.data / "data").open("r+b") as file:
                    file.seek((5 << 20) + 1234)
                    file.write(b"\x00\xff" * 32)
                    os.fsync(file.fileno())
                sections = sections[1:]
            _run(inside, recipe, sections, device, "fio.json")

    make.__name__ = recipe.name.replace("-", "_")
    make.__doc__ = recipe.why
    return make


def _set(group: Limits, limit: Limit, device: str) -> None:
    for direction in ("read",) if limit.reads_only else ("read", "write"):
        if limit.iops is not None:
            group.throttle(device, f"{direction}_iops", limit.iops)
        if limit.bps is not None:
            group.throttle(device, f"{direction}_bps", limit.bps)


def _run(
    bench: Bench, recipe: Recipe, sections: Sequence[Section], device: str, output: str
) -> None:
    """fio with a job file, as people publish results."""
    parts = [("global", f"{recipe.common}{device}"), *sections]
    text = "\n".join("\n".join((f"[{name}]", *options.split(" "))) for name, options in parts)
    (bench.out / "job.fio").write_text(f"{text}\n")
    bench.fio(str(bench.out / "job.fio"), output=output, form=recipe.form)


RUNS = tuple(_make(recipe) for recipe in _recipes())
