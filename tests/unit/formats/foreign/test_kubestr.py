from __future__ import annotations

import pytest

from leadline.formats.foreign.kubestr import IMPORTER, parse_kubestr, parse_kubestr_json
from leadline.formats.importer import Result
from leadline.formats.result import FormatError, NoteKind
from leadline.metrics import Op
from tests.unit.formats.foreign.samples import (
    IMPORTS,
    job_of,
    latency_of,
    only,
    output_of,
    refused,
    shared,
)

RECORDED = IMPORTS / "kubestr"
TEXT = (RECORDED / "three-jobs.txt").read_bytes()
GARBLED = (RECORDED / "garbled.txt").read_bytes()
JSON = (RECORDED / "output.json").read_bytes()


def read(content: bytes) -> tuple[Result, ...]:
    return IMPORTER.read({"it": content})


def test_every_job_is_a_result_on_its_storage_class() -> None:
    first, second, third = parse_kubestr(TEXT)
    assert [one.workload for one in (first, second, third)] == ["read_iops", "write_bw", "job 3"]
    assert {one.target for one in (first, second, third)} == {"fast-rwo"}
    assert (only(first).op, only(first).iops) == (Op.READ, 692.495239)
    assert only(first).bandwidth_bps == 2786 * 1024
    assert only(second).op is Op.WRITE
    assert only(second).bandwidth_bps == 47566 * 1024
    assert output_of(first).version == "fio-3.20"


def test_there_is_no_latency_with_gtod_reduce() -> None:
    first, *_ = parse_kubestr(TEXT)
    assert (only(first).total, only(first).completion) == (None, None)


def test_options_are_the_jobs_and_the_global_ones() -> None:
    first, second, third = (job_of(one).options for one in parse_kubestr(TEXT))
    assert (first.pattern, first.size("bs"), first.iodepth) == ("randread", 4096, 64)
    assert (first.engine, first.direct, first.flag("gtod_reduce")) == ("libaio", True, True)
    assert second.size("bs") == 128 << 10
    assert (third.iodepth, "rw" in third.raw, third.engine) == (None, False, "libaio")


def test_the_jobs_ran_together() -> None:
    """kubestr's own job file has no `stonewall`."""
    results = parse_kubestr(TEXT)
    for result in results:
        assert result.together is not None
        assert len(result.together.jobs) == 3


def test_a_job_without_a_name_has_both_directions_and_a_note() -> None:
    *_, third = parse_kubestr(TEXT)
    reads, writes = job_of(third).operations
    assert (reads.iops, writes.iops) == (10.5, 3.5)
    assert [note.kind for note in output_of(parse_kubestr(TEXT)[0]).notes] == [NoteKind.LEFT_OUT]


def test_disks_are_read() -> None:
    (disk,) = output_of(parse_kubestr(TEXT)[0]).disks
    assert (disk.name, disk.read_ios, disk.write_ios) == ("rbd4", 30022, 11982)
    assert (disk.read_merges, disk.write_merges) == (0, 313)
    assert disk.busy_share == pytest.approx(0.99671234)


def test_overwritten_text_is_refused_with_its_line() -> None:
    with pytest.raises(FormatError) as refused:
        parse_kubestr(GARBLED)
    assert refused.value.condition == "unreadable-result"
    assert refused.value.context == ("line 3",)


def test_a_job_that_is_cut_off() -> None:
    *_, last = parse_kubestr(TEXT[: TEXT.index(b"write:\n  IOPS=367")])
    assert last.workload == "write_bw"
    assert refused(last).condition == "truncated-result"
    first, second = parse_kubestr(
        TEXT[: TEXT.index(b"read:")] + TEXT[TEXT.index(b"JobName: write_bw") : -400]
    )
    assert refused(first).condition == "empty-result"
    assert second.workload == "write_bw"


def test_runs_in_a_document_end_with_their_fence() -> None:
    document = b"# One\n```\n" + TEXT + b"```\nprose\n# Two\n```\n" + TEXT + b"```\n"
    assert len(parse_kubestr(document)) == 6
    unnamed = document.replace(b"Running FIO test", b"Ran")
    assert {one.target for one in parse_kubestr(unnamed)} == {"One", "Two"}


@pytest.mark.parametrize(
    ("content", "condition"),
    [
        (b"", "empty-result"),
        (b"no", "unreadable-result"),
        (b"FIO test results:\n\n", "truncated-result"),
        (TEXT.replace(b"IOPS=692.495239", b"IOPS=692.4x"), "unreadable-result"),
        (TEXT.replace(b"  iops: min", b"iops: min"), "unreadable-result"),
    ],
)
def test_what_is_not_understood_is_refused(content: bytes, condition: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse_kubestr(content)
    assert refused.value.condition == condition


def test_json_gives_the_same_and_latency_where_it_was_measured() -> None:
    measured, idle = read(JSON)
    assert (measured.workload, measured.target) == ("read_lat", "fast-rwo")
    operation = only(measured)
    assert (operation.iops, operation.bandwidth_bps) == (1000.5, 4096000)
    assert (operation.total_ios, operation.io_bytes, operation.runtime_s) == (20000, 81920000, 20)
    latency = latency_of(operation)
    assert latency.mean_s == pytest.approx(999000.5e-9)
    assert (latency.min_s, latency.max_s) == (pytest.approx(5e-4), pytest.approx(9e-3))
    assert operation.completion is None
    job = job_of(measured)
    assert (job.options.iodepth, job.options.engine, job.elapsed_s) == (1, "libaio", 21)
    assert job.user_cpu == pytest.approx(0.015)
    assert output_of(measured).disks[0].busy_share == pytest.approx(0.995)
    assert refused(idle).condition == "empty-result"
    assert measured.together is not None


def test_json_of_older_versions_is_one_object() -> None:
    start, end = JSON.index(b"["), JSON.rindex(b"]")
    assert len(read(JSON[start + 1 : end])) == 2


@pytest.mark.parametrize(
    ("content", "condition"),
    [
        (b'"fioConfig"', "truncated-result"),
        (JSON[:-200], "truncated-result"),
        (JSON.replace(b'"jobs"', b'"jabs"'), "empty-result"),
        (JSON.replace(b"1000.5", b'"fast"'), "unreadable-result"),
        (b'{"TestName": "CSI"}', "empty-result"),
        (b'[3, "fioConfig"]', "unreadable-result"),
    ],
)
def test_json_that_is_not_understood_is_refused(content: bytes, condition: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse_kubestr_json(content)
    assert refused.value.condition == condition


def test_an_impossible_figure_of_json_is_reported() -> None:
    measured, _ = read(JSON.replace(b"1000.5", b"-1000.5"))
    assert only(measured).iops is None
    assert [note.kind for note in output_of(measured).notes] == [NoteKind.IMPOSSIBLE_VALUE]


def test_its_files_are_recognised() -> None:
    assert all(IMPORTER.recognises("any", content) for content in (TEXT, GARBLED, JSON))
    assert not IMPORTER.recognises("any", b'{"fio version": "fio-3.36"}')


@pytest.mark.parametrize("end", ["  -  OK", "  -  \x1b[1;32mOK\x1b[0m", "  -> OK"])
def test_a_run_ends_with_its_status(end: str) -> None:
    text = TEXT.replace(b"  -> OK", end.encode())
    assert parse_kubestr(text) == parse_kubestr(TEXT)


def test_a_real_run_with_a_job_file_of_its_own() -> None:
    content = shared("kubestr/own-job-ends-with-ok.txt", "public2").read_bytes()
    (result,) = parse_kubestr(content)
    assert (result.target, only(result).op, only(result).iops) == ("high", Op.WRITE, 377553.28125)
    assert only(result).bandwidth_bps == 1510221 * 1024
    (disk,) = output_of(result).disks
    assert (disk.name, disk.write_ios, disk.write_merges) == ("nvme5n1", 46436180, 2240)


def test_the_corpus() -> None:
    reads, *_, writes = parse_kubestr(shared("kubestr/gke-premium-rwo.txt").read_bytes())
    assert (reads.target, only(reads).iops) == ("premium-rwo", 692.495239)
    assert only(writes).bandwidth_bps == 47566 * 1024
    capped = parse_kubestr(shared("kubestr/nfs-rwx-1086.txt").read_bytes())
    assert [only(one).iops for one in capped] == [
        *(1086.609985, 1085.600220, 1086.641846, 1087.179199)
    ]
    with pytest.raises(FormatError, match="overwritten"):
        parse_kubestr(shared("kubestr/synology-garbled.txt").read_bytes())
