"""fio's JSON of every version and trap in the corpus, with figures read from the files by eye."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest

from leadline.formats.fio.json_import import IMPORTER
from leadline.formats.fio.json_output import parse_fio_json
from leadline.formats.result import EngineOutput, FormatError, JobResult, Latency, Operation
from leadline.metrics import Metric, Op
from tests.conftest import ROOT

FILES = ROOT / "tests" / "recorded" / "imports" / "fio-json"

# Files of the corpus that are recognised and hold no figures.
WITHOUT_FIGURES = {
    "ceph-lab/drills/cut_SIGKILL.json": "empty-result",
    "ceph-lab/drills/hang_SIGINT.json": "truncated-result",
    "ceph-lab/drills/hang_SIGTERM.json": "truncated-result",
    "ceph-lab/drills/two_osds_down_r2.json": "empty-result",
    # Not fio's; but nothing in an empty file says whose it is, and a lost result must not hide.
    "ceph-lab/multi-az-6osd/rbd_perf_image_iostat.json": "empty-result",
    "ceph-lab/single-az-3osd/rbd_perf_image_iostat.json": "empty-result",
}
# Files that quote fio's JSON and are no output of it.
QUOTED = {"ceph-lab/drills/timeline_sig.txt", "public/dbench/openebs-dbench-README.md"}


def only(path: Path) -> JobResult:
    (job,) = parse_fio_json(path.read_bytes()).jobs
    return job


def test_every_file_of_the_corpus_is_read_or_reported_why_not(shared: Path) -> None:
    corpus = shared / "corpus"
    # These came later: their indexes say what each of their files must show.
    files = {
        str(path.relative_to(corpus)): path
        for path in sorted(corpus.rglob("*"))
        if path.is_file() and not {"public2", "public3"} & set(path.parts)
    }
    known = {
        name
        for name, path in files.items()
        if IMPORTER.recognises(name, path.read_bytes()[: 64 << 10])
    }
    marked = {name for name, path in files.items() if b'"fio version"' in path.read_bytes()}
    assert marked - known == QUOTED
    assert known - marked == WITHOUT_FIGURES.keys()
    failed: dict[str, str] = {}
    versions: Counter[str] = Counter()
    for bundle in IMPORTER.bundles(tuple(files)):
        if bundle[0] not in known:
            continue
        for result in IMPORTER.read({name: files[name].read_bytes() for name in bundle}):
            if isinstance(result.output, FormatError):
                failed[bundle[0]] = result.output.condition
                continue
            versions[result.output.version] += 1
            assert result.workload
            assert result.output.notes == (), "all of it is known"
            for job in result.output.jobs:
                assert all(map(sound, job.operations))
    assert failed == WITHOUT_FIGURES
    assert len(versions) >= 17
    assert sum(versions.values()) == 183 - 1, "entries of one name are one result"


def sound(operation: Operation) -> bool:
    figures = [
        *(operation.iops, operation.bandwidth_bps, operation.total_ios, operation.io_bytes),
        operation.runtime_s,
    ]
    for latency in (operation.submission, operation.completion, operation.total):
        if latency is not None:
            figures += [latency.min_s, latency.max_s, latency.mean_s, latency.stddev_s]
            figures += [latency.count, *latency.percentiles.values()]
    return all(figure is None or (math.isfinite(figure) and figure >= 0) for figure in figures)


def test_fio_2_1_has_no_totals_and_microseconds() -> None:
    output = parse_fio_json((FILES / "yardstick-2.1.3.json").read_bytes())
    (job,) = output.jobs
    read, write = job.operations
    assert (read.iops, read.bandwidth_bps, read.io_bytes) == (20972, 83888 << 10, 839056 << 10)
    assert (read.total_ios, read.runtime_s) == (None, 10.002)
    assert read.total == Latency(
        min_s=45e-6, max_s=0.776676, mean_s=236.8 / 1e6, stddev_s=4668.12 / 1e6
    )
    assert write.percentile_s(0.99) == 358e-6
    assert write.metrics()[Metric.LATENCY_P999] == 756e-6
    assert (job.user_cpu, job.system_cpu) == (2.87 / 100, 12.37 / 100)
    assert job.depth_levels["1"] == 1.1192
    assert (job.options.raw, job.options.whole) == ({}, False)
    assert output.timestamp_s is None
    assert [disk.name for disk in output.disks] == ["dm-0", "vda"]
    assert (output.disks[0].read_ios, output.disks[0].busy_share) == (233492, 0.9722)
    assert output.notes == ()


def test_fio_2_2_cut_out_of_a_test() -> None:
    output = parse_fio_json((FILES / "storperf-2.2.10-trimmed.json").read_bytes())
    (read,) = output.jobs[0].operations
    assert (read.iops, read.total_ios, read.io_bytes) == (68.99, 1779, 7116 << 10)
    assert (read.bandwidth_bps, read.runtime_s) == (275 << 10, 25.788)
    assert (read.submission, read.completion, read.total) == (None, None, None)
    assert output.timestamp_s == 1444144664
    assert (output.jobs[0].user_cpu, output.jobs[0].options.whole) == (None, False)


def test_fio_2_18_pads_its_percentiles_with_a_repeated_key() -> None:
    output = parse_fio_json((FILES / "fioplot-2.18-randread-01.json").read_bytes())
    (job,) = output.jobs
    (read,) = job.operations
    assert (read.iops, read.bandwidth_bps, read.io_bytes) == (73.184143, 292 << 10, 17568 << 10)
    assert read.total is not None
    assert read.total.mean_s == 13652.220173 / 1e6
    assert read.completion is not None
    assert len(read.completion.percentiles) == 17
    assert read.completion.quantile_s(0.9999) == 26240e-6
    assert (job.options.iodepth, job.options.engine, job.options.direct) == (1, "libaio", True)
    assert output.timestamp_s == 1491067859.551
    assert output.notes == ()


def test_fio_3_1_has_no_bandwidth_in_bytes_and_no_counts() -> None:
    job = only(FILES / "fioplot-3.1-p420i-randrw-64-64.json")
    read, write = job.operations
    assert (read.op, write.op) == (Op.READ, Op.WRITE)
    assert (read.iops, read.bandwidth_bps) == (24806.048488, 99224 << 10)
    assert (read.io_bytes, read.total_ios) == (6097858560, 1488735)
    assert read.total is not None
    assert (read.total.mean_s, read.total.count) == (83790956.8422 / 1e9, None)
    assert read.percentile_s(0.99) == 0.130547712
    assert (job.user_cpu, job.job_runtime_s, job.elapsed_s) == (0.215655 / 100, 0.0, 61.0)


def test_latencies_that_were_not_measured() -> None:
    output = parse_fio_json((FILES / "kubestr-3.20-gtod-reduce.json").read_bytes())
    (read,) = output.jobs[0].operations
    assert (read.total_ios, read.io_bytes, read.bandwidth_bps) == (15046, 61886464, 4039322)
    assert (read.submission, read.completion, read.total) == (None, None, None)
    assert [disk.name for disk in output.disks] == ["rbd4"]
    assert (output.disks[0].read_ios, output.disks[0].write_merges) == (16957, 207)


def test_a_byte_order_mark_and_a_file_named_twice() -> None:
    output = parse_fio_json((FILES / "vc-3.26-bom-odd.json").read_bytes())
    (job,) = output.jobs
    folder = "/home/azureuser/VirtualClient/linux-x64"
    assert job.options.raw["filename"] == ":".join(
        f"{folder}/remote_disk_1_{number}/fio-test.dat" for number in (0, 1)
    )
    assert output.notes == ()
    assert job.operations[0].bandwidth_bps == 149343283
    assert job.operations[0].percentile_s(0.95) == 0.101187584
    assert output.noise == ""


def test_words_before_the_json_and_an_error() -> None:
    output = parse_fio_json((FILES / "fioplot-3.33-error22-noise.json").read_bytes())
    (job,) = output.jobs
    assert (job.name, job.error, job.operations) == ("1m", 22, ())
    assert output.noise.splitlines()[0] == "fio: time_based requires a runtime/timeout setting"
    assert "err=22/file:filesetup.c" in output.noise


def test_sections_that_were_merged_keep_the_name_of_one_and_the_options_of_another() -> None:
    output = parse_fio_json((FILES / "stonet-3.35-two-sections-grouped.json").read_bytes())
    (job,) = output.jobs
    read, write = job.operations
    assert (read.iops, write.iops) == (120418.616134, 67705.421576)
    assert (write.io_bytes, write.bandwidth_bps, write.total_ios) == (
        *(133117014016, 277322490, 32499144),
    )
    assert write.percentile_s(0.99) == 0.016318464
    assert (output.disks[0].name, output.disks[0].busy_share) == ("nvme5n1", 1.0)


@pytest.mark.parametrize(
    ("name", "op", "iops", "bandwidth_bps", "io_bytes", "mean_s"),
    [
        ("pkb-2.1.4", Op.WRITE, 133, 68118 << 10, 361984 << 10, 478737.47 / 1e6),
        ("fiosynth-3.1-s1", Op.READ, 9.431456, 151 << 10, 4685824, 15769259.961538 / 1e9),
        (
            *("fioplot-3.6-ceph-hdd-first-randwrite-1-1", Op.WRITE, 48.911775, 200342),
            *(12021760, 20426465.223509 / 1e9),
        ),
        (
            *("fioplot-3.14-intel-randread-16-16", Op.READ, 52820.401293, 216352363),
            *(12982439936, 4841682.279166 / 1e9),
        ),
        ("zns-3.28-35ms-run", Op.WRITE, 58514.285714, 239674514, 8388608, None),
        (
            *("zns-3.28-optane-qd1", Op.WRITE, 49769.341022, 203855220, 6115860480),
            19363.369616 / 1e9,
        ),
        ("troubleshoot-3.28-1", Op.WRITE, 1612.483001, 1651182, 23068672, 95169.335405 / 1e9),
        (
            "fioplot-3.34-sigint-short",
            Op.READ,
            10102.601156,
            41380254,
            114540544,
            96095.658704 / 1e9,
        ),
        ("stonet-3.35-qd1", Op.READ, 14482.862643, 59321805, 7118675968, 68289.067627 / 1e9),
        ("vc-3.26-write", Op.WRITE, 734.70852, 192599430, 1073741824, 87058217.758301 / 1e9),
    ],
)
def test_figures_of_other_versions(
    shared: Path,
    name: str,
    op: Op,
    iops: float,
    bandwidth_bps: int,
    io_bytes: int,
    mean_s: float | None,
) -> None:
    content = (shared / "corpus" / "public" / "fio-json" / f"{name}.json").read_bytes()
    first = parse_fio_json(content).jobs[0].operations[0]
    assert (first.op, first.iops, first.bandwidth_bps, first.io_bytes) == (
        *(op, iops, bandwidth_bps, io_bytes),
    )
    assert (first.total.mean_s if first.total else None) == mean_s


def test_histograms_of_completion_latency_count_what_fio_counted(shared: Path) -> None:
    job = only(shared / "corpus/ceph-lab/fio/delay2/r3-w4q1-0s-1.json")
    (write,) = job.operations
    assert (write.iops, write.total_ios) == (423.894026, 1696)
    assert write.completion is not None
    assert write.completion.histogram is not None
    assert (write.completion.histogram.count, len(write.completion.histogram.counts)) == (1696, 154)
    assert write.completion.histogram.values_ns[:3].tolist() == [1105920, 1187840, 1204224]
    assert write.completion.histogram.counts[:3].tolist() == [1, 2, 1]


def test_drills_that_were_cut_short_come_with_their_windows(shared: Path) -> None:
    drills = shared / "corpus" / "ceph-lab" / "drills"
    names = ("cut_SIGINT.json", "cut_SIGINT_iops.1.log", "cut_SIGINT_clat.1.log")
    (result,) = IMPORTER.read({name: (drills / name).read_bytes() for name in names})
    assert isinstance(result.output, EngineOutput)
    assert result.output.noise == "fio: terminating on signal 2"
    assert len(result.windows[Op.WRITE]) == 3
