from __future__ import annotations

from typing import Any

import orjson
import pytest

from leadline.formats.fio.json_output import parse_fio_json
from leadline.formats.result import DiskUse, EngineOutput, FormatError, Latency, NoteKind, Operation
from leadline.metrics import PERCENTILES, Metric, Op
from leadline.stats.histogram import LatencyHistogram
from tests.conftest import RECORDED

MIXED = (RECORDED / "mixed-70-30-4k-qd32" / "fio.json").read_bytes()


def test_a_mixed_job_gives_read_write_and_their_total() -> None:
    output = parse_fio_json(MIXED)
    assert output.version == "fio-3.33"
    (job,) = output.jobs
    read, write, total = job.with_total()
    assert (read.op, write.op, total.op) == (Op.READ, Op.WRITE, Op.TOTAL)
    assert total.iops == read.iops + write.iops
    assert total.total is not None
    assert read.total is not None
    assert write.total is not None
    assert total.total.count == read.total.count + write.total.count
    assert total.total.histogram is not None
    assert total.total.histogram.count == total.total.count


def test_figures_are_in_base_units() -> None:
    raw = orjson.loads(MIXED)["jobs"][0]["read"]
    read = parse_fio_json(MIXED).jobs[0].operations[0]
    assert read.bandwidth_bps == raw["bw_bytes"]
    assert read.runtime_s == raw["runtime"] / 1000
    assert read.total is not None
    assert read.total.mean_s == raw["lat_ns"]["mean"] / 1e9


def test_percentiles_from_bins_are_fios_own() -> None:
    """fio computes percentiles from the same buckets; ours must be the same to the bucket."""
    for folder in RECORDED.iterdir():
        content = (folder / "fio.json").read_bytes()
        for raw, job in zip(
            orjson.loads(content)["jobs"], parse_fio_json(content).jobs, strict=True
        ):
            for operation in job.operations:
                theirs = raw[operation.op.value]["lat_ns"]["percentile"]
                ours = operation.metrics()
                for metric in PERCENTILES:
                    if ours[metric] is not None:
                        assert metric.quantile is not None
                        assert ours[metric] == theirs[f"{metric.quantile * 100:.6f}"] / 1e9


def test_a_percentile_without_enough_samples_is_not_shown() -> None:
    document = orjson.loads(MIXED)
    document["jobs"][0]["read"]["lat_ns"]["bins"] = {"1000": 999}
    operation = parse_fio_json(orjson.dumps(document)).jobs[0].operations[0]
    metrics = operation.metrics()
    assert metrics[Metric.LATENCY_P95] == 1e-6
    assert metrics[Metric.LATENCY_P99] is None


def test_latency_that_was_not_measured_is_none_and_not_zero() -> None:
    document = orjson.loads(MIXED)
    for key in ("slat_ns", "clat_ns", "lat_ns"):
        document["jobs"][0]["read"][key] = {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0}
    operation = parse_fio_json(orjson.dumps(document)).jobs[0].operations[0]
    assert operation.total is None
    assert operation.metrics()[Metric.LATENCY_MEAN] is None
    assert operation.metrics()[Metric.IOPS] == operation.iops


@pytest.mark.parametrize(
    ("content", "condition"),
    [
        (b"", "empty-result"),
        (b"\n \n", "empty-result"),
        (b"fio: terminating on signal 15\n", "truncated-result"),
        (MIXED[: len(MIXED) // 2], "truncated-result"),
        (MIXED[:1000], "truncated-result"),
        (b'{"fio version": fio-3.33, "jobs": []}', "unreadable-result"),
        (b"[1, 2]", "truncated-result"),
        (b'{"osd": 1}', "unreadable-result"),
        (b'{"fio version": "fio-3.33"}', "unreadable-result"),
        (b'{"fio version": "fio-3.33", "jobs": [7]}', "unreadable-result"),
        (MIXED.replace(b'"iops" : ', b'"iops" : [], "x" : ', 1), "unreadable-result"),
        (MIXED + MIXED, "unreadable-result"),
        (MIXED + MIXED[:5000], "truncated-result"),
        (b'{"jobs": ' + b"[" * 100_000, "unreadable-result"),
    ],
)
def test_what_cannot_be_understood_is_an_error_with_its_kind(
    content: bytes, condition: str
) -> None:
    with pytest.raises(FormatError) as caught:
        parse_fio_json(content)
    assert caught.value.condition == condition


def test_an_error_says_where() -> None:
    with pytest.raises(FormatError) as caught:
        parse_fio_json(MIXED.replace(b'"total_ios" : ', b'"total_ios" : "x', 1))
    assert "line" in str(caught.value)


def job(**changed: object) -> dict[str, Any]:
    """A job as fio 3.33 writes it, with other figures or members; None takes one away."""
    read = {
        "io_bytes": 4096000,
        "io_kbytes": 4000,
        "bw_bytes": 409600,
        "bw": 400,
        "iops": 100.0,
        "runtime": 10000,
        "total_ios": 1000,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": {"min": 1000, "max": 9000, "mean": 2000.0, "stddev": 10.0, "N": 1000},
        "clat_ns": {
            "min": 4000,
            "max": 90000,
            "mean": 8000.0,
            "stddev": 100.0,
            "N": 1000,
            "percentile": {"50.000000": 7000, "99.000000": 80000, "99.900000": 89000},
        },
        "lat_ns": {"min": 5000, "max": 99000, "mean": 10000.0, "stddev": 200.0, "N": 1000},
    }
    whole = {
        "jobname": "a",
        "groupid": 0,
        "error": 0,
        "elapsed": 11,
        "job_runtime": 10000,
        "job options": {"name": "a", "rw": "randread", "bs": "4k"},
        "read": read,
        "usr_cpu": 1.0,
        "sys_cpu": 2.0,
    }
    for key, value in changed.items():
        (read if key in read or key not in whole else whole)[key] = value
    for part in (read, whole):
        for key in [key for key, value in part.items() if value is None]:
            del part[key]
    return whole


def document(*jobs: dict[str, Any], version: str = "fio-3.33", **more: object) -> bytes:
    return orjson.dumps({"fio version": version, "jobs": jobs, **more})


def notes(output: EngineOutput) -> list[tuple[NoteKind, str]]:
    return [(note.kind, note.where) for note in output.notes]


def test_a_sound_document_has_no_notes() -> None:
    for content in (MIXED, document(job())):
        assert notes(parse_fio_json(content)) == []


@pytest.mark.parametrize(
    ("version", "reported"),
    [
        *(("fio-2.1.3", False), ("fio-2.18-59-g618e", False), ("fio-3.43", False)),
        *(("fio-3.28-261-gc3773-dirty", False), ("fio-3.99", True), ("fio-4.0", True)),
        *(("fio-1.60", True), ("fio 3.33", True), ("", True), ("fio-3.33-custom\x1b[31m", True)),
        ("fio-" + "9" * 5000 + ".1", True),
    ],
)
def test_a_version_never_seen_is_reported(version: str, reported: bool) -> None:
    output = parse_fio_json(document(job(), version=version))
    assert ((NoteKind.UNKNOWN_VERSION, "$['fio version']") in notes(output)) is reported
    assert output.jobs[0].operations[0].iops == 100.0


def test_fio_2_counts_in_kibibytes_and_microseconds() -> None:
    old = {"min": 5, "max": 99, "mean": 10.5, "stddev": 2.0}
    entry = job(slat_ns=None, clat_ns=None, lat_ns=None, io_kbytes=None, bw_bytes=None, lat=old)
    entry["read"]["clat"] = {**old, "percentile": {"99.000000": 80, "0.00": 0}}
    output = parse_fio_json(document(entry, version="fio-2.18"))
    (read,) = output.jobs[0].operations
    assert (read.io_bytes, read.bandwidth_bps) == (4096000 * 1024, 400 * 1024)
    assert read.total == Latency(min_s=5e-6, max_s=99e-6, mean_s=10.5e-6, stddev_s=2e-6)
    assert read.completion is not None
    assert read.completion.percentiles == {0.99: 80e-6}
    assert notes(output) == []


def test_bytes_or_kibibytes_of_an_unknown_version_are_not_guessed() -> None:
    (read,) = parse_fio_json(document(job(), version="mine")).jobs[0].operations
    assert read.io_bytes == 4096000, "io_kbytes next to it shows the unit"
    output = parse_fio_json(document(job(io_kbytes=None), version="mine"))
    assert output.jobs[0].operations[0].io_bytes is None
    assert (NoteKind.UNKNOWN_VERSION, "$.jobs[0].read.io_bytes") in notes(output)


def test_a_stray_unit_is_reported_and_not_read() -> None:
    stray = {"min": 1, "max": 2, "mean": 1.5}
    output = parse_fio_json(document(job(lat_us=stray, slat_ms=stray, clat=stray)))
    (read,) = output.jobs[0].operations
    assert read.total is not None
    assert read.total.mean_s == 10e-6
    assert notes(output) == [
        (NoteKind.UNKNOWN_FIELD, "$.jobs[0].read.lat_us"),
        (NoteKind.UNKNOWN_FIELD, "$.jobs[0].read.slat_ms"),
        (NoteKind.UNKNOWN_FIELD, "$.jobs[0].read.clat"),
    ]
    alone = parse_fio_json(document(job(lat_ns=None, lat=stray))).jobs[0].operations[0]
    assert alone.total is None


def test_unknown_fields_of_every_level_are_reported_once_for_the_jobs_of_a_name() -> None:
    entry = {**job(), "new thing": 1}
    entry["read"]["lat_ns"]["p100"] = 5
    disk = {"name": "sda", "read_ios": 1, "write_ios": 2, "colour": 3}
    output = parse_fio_json(
        document(entry, entry, {**entry, "jobname": "b"}, disk_util=[disk], extra={"deep": 1})
    )
    assert [where for kind, where in notes(output) if kind is NoteKind.UNKNOWN_FIELD] == [
        "$.extra",
        "$.jobs[0]['new thing']",
        "$.jobs[0].read.lat_ns.p100",
        "$.jobs[2]['new thing']",
        "$.jobs[2].read.lat_ns.p100",
        "$.disk_util[0].colour",
    ]


def test_a_file_of_nothing_but_notes_makes_a_bounded_report() -> None:
    output = parse_fio_json(document({**job(), **{f"key {n}": n for n in range(10_000)}}))
    assert len(output.notes) == 201
    assert output.notes[-1].fact == "9800 more notes are left out"


@pytest.mark.parametrize("value", ["-1", "1e308", "NaN", "-nan", "inf", "Infinity", "9" * 5000])
@pytest.mark.parametrize("key", ["iops", "io_bytes", "bw_bytes", "runtime", "total_ios"])
def test_a_figure_that_cannot_be_is_none_and_reported(key: str, value: str) -> None:
    content = document(job(**{key: 77_777_777})).replace(b"77777777", value.encode())
    output = parse_fio_json(content)
    (read,) = output.jobs[0].operations
    field = {"bw_bytes": "bandwidth_bps", "runtime": "runtime_s"}.get(key, key)
    assert getattr(read, field) is None
    assert notes(output) == [(NoteKind.IMPOSSIBLE_VALUE, f"$.jobs[0].read.{key}")]
    assert read.total is not None


def test_a_latency_that_cannot_be_is_none_and_reported() -> None:
    latency = {"min": -5, "max": 99000, "mean": 1e308, "stddev": 1.0, "N": 2.5}
    output = parse_fio_json(document(job(lat_ns=latency)))
    total = output.jobs[0].operations[0].total
    assert total == Latency(max_s=99e-6, stddev_s=1e-9)
    assert sorted(where for _, where in notes(output)) == [
        f"$.jobs[0].read.lat_ns.{key}" for key in ("N", "mean", "min")
    ]


@pytest.mark.parametrize(
    "bins",
    [
        *({"-5": 3}, {"5": -3}, {"5": 1.5}, {"5": "3"}, {"": 3}, {"5,6": 3, "7": 1}, {"x": 1}),
        *({"9" * 30: 3}, {"5": 2**63}, {"5": 2**62, "6": 2**62}, {"5": [1]}, {",": 1, "": 2}),
        *({"FIO_IO_U_PLAT_BITS": 6, "0": 5}, {"1_0": 1}, {"\u0665": 1}, {"1.5": 1}),
    ],
)
def test_bins_that_cannot_be_leave_the_rest_of_the_latency(bins: dict[str, object]) -> None:
    entry = job()
    entry["read"]["lat_ns"]["bins"] = bins
    output = parse_fio_json(document(entry))
    total = output.jobs[0].operations[0].total
    assert total is not None
    assert (total.histogram, total.count, total.mean_s) == (None, 1000, 10e-6)
    assert notes(output) == [(NoteKind.IMPOSSIBLE_VALUE, "$.jobs[0].read.lat_ns.bins")]


def test_only_the_histogram_that_percentiles_come_from_is_kept() -> None:
    entry = job()
    for key in ("slat_ns", "clat_ns", "lat_ns"):
        entry["read"][key]["bins"] = {"9000": 400, "7000": 600, "8000": 0}
    (read,) = parse_fio_json(document(entry)).jobs[0].operations
    assert (read.submission, read.completion, read.total) != (None, None, None)
    assert read.submission is not None
    assert read.completion is not None
    assert read.total is not None
    assert read.total.histogram == LatencyHistogram.from_bins({7000: 600, 9000: 400})
    assert (read.submission.histogram, read.completion.histogram) == (None, None)
    del entry["read"]["lat_ns"]["bins"]
    (read,) = parse_fio_json(document(entry)).jobs[0].operations
    assert read.completion is not None
    assert read.completion.histogram is not None
    assert read.completion.histogram.count == 1000


def test_a_histogram_that_contradicts_its_count_is_kept_for_the_audit() -> None:
    entry = job()
    for key in ("slat_ns", "lat_ns"):
        entry["read"][key]["bins"] = {"7000": 600}
    (read,) = parse_fio_json(document(entry)).jobs[0].operations
    assert read.submission is not None
    assert read.submission.count == 1000
    assert read.submission.histogram is not None
    assert read.submission.histogram.count == 600


def test_bins_of_fio_2_are_microseconds_and_count_where_it_does_not() -> None:
    old = {"min": 5, "max": 99, "mean": 10.5, "stddev": 2.0, "bins": {"7": 3, "8": 2}}
    entry = job(slat_ns=None, clat_ns=None, lat_ns=None, clat=old)
    (read,) = parse_fio_json(document(entry, version="fio-2.17")).jobs[0].operations
    assert read.completion is not None
    assert read.completion.count == 5
    assert read.completion.histogram == LatencyHistogram.from_bins({7000: 3, 8000: 2})


def test_percentiles_are_reported_by_quantile_and_only_if_they_were_asked_for() -> None:
    entry = job()
    given = {"0.00": 0, "12.5": 5, "99.950000": 6, "100.000000": 9, "many": 1, "9" * 99: 1}
    entry["read"]["lat_ns"]["percentile"] = given
    entry["read"]["clat_ns"]["percentile"] = {"50.000000": 0, "99.000000": 0}
    output = parse_fio_json(document(entry))
    (read,) = output.jobs[0].operations
    assert read.total is not None
    assert read.completion is not None
    assert read.total.percentiles == {0.125: 5e-9, 0.9995: 6e-9}
    assert read.completion.percentiles == {}, "all zero of a mean that is not"
    assert [kind for kind, _ in notes(output)] == [NoteKind.UNKNOWN_FIELD] * 2


def test_a_printed_percentile_of_completion_is_in_for_that_of_total_latency() -> None:
    (read,) = parse_fio_json(document(job())).jobs[0].operations
    assert read.metrics()[Metric.LATENCY_P50] == 7e-6
    assert read.metrics()[Metric.LATENCY_P99] == 80e-6
    assert read.metrics()[Metric.LATENCY_P999] is None, "of 1,000 I/Os"


def test_repeated_keys() -> None:
    content = document(job(), disk_util=[])
    same = content.replace(b'"iops":100.0', b'"iops":100.0,"iops":100.0')
    output = parse_fio_json(same)
    assert output.jobs[0].operations[0].iops == 100.0
    assert notes(output) == [], "fio echoes some options twice"
    other = content.replace(b'"iops":100.0', b'"iops":100.0,"iops":200.0')
    output = parse_fio_json(other)
    assert output.jobs[0].operations[0].iops is None, "it is unknown which one counts"
    assert notes(output) == [(NoteKind.REPEATED_FIELD, "$.jobs[0].read.iops")]
    with pytest.raises(FormatError, match="list of jobs"):
        parse_fio_json(content.replace(b'"jobs":', b'"jobs":[],"jobs":'))


def test_a_repeated_option_is_what_fio_made_of_it() -> None:
    twice = b'"rw":"read","rw":"randread","filename":"/a","filename":"/b"'
    output = parse_fio_json(document(job()).replace(b'"rw":"randread"', twice))
    assert output.jobs[0].options.raw["rw"] == "randread"
    assert output.jobs[0].options.raw["filename"] == "/a:/b"
    assert notes(output) == [(NoteKind.LEFT_OUT, "$.jobs[0]['job options'].rw")]


def test_a_value_in_quotes_is_no_repeated_key() -> None:
    options = {"name": 'a "quoted" {"x": 1} \\ name', "rw": "read"}
    output = parse_fio_json(document(job(**{"job options": options})))
    assert output.jobs[0].options.raw == options
    assert notes(output) == []


def test_options_are_the_global_ones_overridden_by_the_jobs_own() -> None:
    options = {"name": "a", "bs": "8k", "stonewall": None, "direct": True, "odd": {"x": 1}}
    output = parse_fio_json(
        document(job(**{"job options": options}), **{"global options": {"bs": "4k", "size": "1g"}})
    )
    (only,) = output.jobs
    assert only.options.raw == {
        "name": "a",
        "bs": "8k",
        "stonewall": "",
        "direct": "1",
        "size": "1g",
    }
    assert only.options.whole
    assert notes(output) == [(NoteKind.UNKNOWN_FIELD, "$.jobs[0]['job options'].odd")]
    bare = parse_fio_json(document(job(**{"job options": None}))).jobs[0]
    assert (bare.options.raw, bare.options.whole) == ({}, False), "fio before 2.15 echoes none"


def client(host: str, name: str = "a", **changed: object) -> dict[str, Any]:
    return {**job(jobname=name, **changed), "hostname": host, "port": 8765}


def test_client_mode_keeps_the_clients_and_not_their_sum() -> None:
    both = client("node-b", "All clients", **{"job options": None})
    content = orjson.dumps(
        {
            "fio version": "fio-3.43",
            "global options": [
                {"hostname": "node-b", "port": 8765, "ioengine": "libaio"},
                {"hostname": "node-a", "port": 8765, "ioengine": "psync"},
            ],
            "client_stats": [client("node-a"), client("node-b"), both],
            "disk_util": [{"name": "vda", "read_ios": 1, "write_ios": 2, "hostname": "node-a"}],
        }
    )
    output = parse_fio_json(b"hostname=node-a, be=0, 64-bit, os=Linux\n" + content)
    assert [job.host for job in output.jobs] == ["node-a:8765", "node-b:8765"]
    assert [job.options.engine for job in output.jobs] == ["psync", "libaio"]
    assert [disk.name for disk in output.disks] == ["node-a/vda"]
    assert notes(output) == [(NoteKind.LEFT_OUT, "$.client_stats[2]")]


def test_the_sum_over_clients_alone_is_what_somebody_kept() -> None:
    kept = client("node-b", "All clients", **{"job options": None})
    output = parse_fio_json(
        orjson.dumps({"fio version": "fio-2.6", "client_stats": [kept], "global options": {}})
    )
    (only,) = output.jobs
    assert (only.name, only.host, only.options.whole) == ("All clients", "", False)


def test_unified_reporting_is_a_total_of_its_own() -> None:
    entry = job()
    entry["mixed"] = entry.pop("read")
    (mixed,) = parse_fio_json(document(entry)).jobs[0].with_total()
    assert (mixed.op, mixed.iops) == (Op.TOTAL, 100.0)
    both = {**job(), "mixed": entry["mixed"]}
    output = parse_fio_json(document(both))
    assert [one.op for one in output.jobs[0].operations] == [Op.READ]
    assert notes(output) == [(NoteKind.LEFT_OUT, "$.jobs[0].mixed")]


def test_disks_steady_state_and_old_names_of_cpu_shares() -> None:
    disks = [
        {
            "name": "md0",
            "read_ios": 7,
            "write_ios": 8,
            "read_merges": 1,
            "write_merges": 2,
            "read_sectors": 16,
            "write_sectors": 24,
            "util": 12.5,
            "aggr_read_ios": 99,
        },
        {"name": "sda", "read_ios": -1, "write_ios": 0},
    ]
    entry = {**job(usr_cpu=None, sys_cpu=None), "usr_cp": 2.5, "sys_cp": 12.5}
    entry["steadystate"] = {"ss": "iops:10%", "attained": 1, "criterion": "5.740913%"}
    output = parse_fio_json(document(entry, disk_util=disks))
    assert output.disks == (
        DiskUse(
            name="md0",
            read_ios=7,
            write_ios=8,
            read_merges=1,
            write_merges=2,
            read_bytes=8192,
            write_bytes=12288,
            busy_share=0.125,
        ),
    )
    (only,) = output.jobs
    assert (only.user_cpu, only.system_cpu, only.steady) == (0.025, 0.125, True)
    assert notes(output) == [
        (NoteKind.IMPOSSIBLE_VALUE, "$.disk_util[1].read_ios"),
        (NoteKind.LEFT_OUT, "$.disk_util[1]"),
    ]


def test_what_is_unknown_is_none() -> None:
    bare = {"jobname": "a", "error": 0, "read": {"total_ios": 5, "iops": None}}
    (only,) = parse_fio_json(document(bare)).jobs
    assert only.operations == (Operation(op=Op.READ, total_ios=5),)
    assert (only.user_cpu, only.system_cpu, only.depth_levels) == (None, None, {})
    unknown = parse_fio_json(document({"jobname": "a"}))
    assert notes(unknown) == [(NoteKind.LEFT_OUT, "$.jobs[0].error")]


def test_names_in_another_encoding_are_read() -> None:
    content = document(job(jobname="caf\u00e9")).replace("\u00e9".encode(), b"\xe9")
    assert parse_fio_json(content).jobs[0].name == "caf\ufffd"
