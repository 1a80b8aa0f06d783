from __future__ import annotations

import contextlib

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.formats.ceph.rados_bench_import import IMPORTER, read_results
from leadline.formats.importer import Result
from leadline.formats.result import EngineOutput, FormatError, JobResult, NoteKind, Operation
from leadline.metrics import Op
from tests.conftest import ROOT, SHARED

RECORDED = ROOT / "tests" / "recorded" / "ceph-bench"
LOG = (ROOT / "tests/recorded/imports/rados-bench/luminous.log").read_bytes()
PLAIN = (RECORDED / "rados_bench_write_plain.txt").read_bytes()
WRITE = (RECORDED / "rados_bench_write_64k_out.json").read_bytes()
RAND = (RECORDED / "rados_bench_rand.stdout").read_bytes()
READING_ONLY = SHARED / "corpus" / "public" / "reading-only" / "rados-bench"
MIB = 1 << 20


def reading_only(name: str) -> bytes:
    path = READING_ONLY / name
    if not path.exists():
        pytest.skip(f"needs ../shared: {path}")
    return path.read_bytes()


def output(result: Result) -> EngineOutput:
    assert isinstance(result.output, EngineOutput)
    return result.output


def job(result: Result) -> JobResult:
    (only,) = output(result).jobs
    return only


def operation(result: Result) -> Operation:
    (only,) = job(result).operations
    return only


def test_a_write_reports_its_load_and_its_figures() -> None:
    (result,) = read_results(PLAIN)
    write = operation(result)
    assert (result.workload, result.target, result.tool) == ("", "", "rados bench")
    assert (write.op, write.total_ios, write.io_bytes) == (Op.WRITE, 1498, 1498 * 65536)
    assert write.iops == 1498 / 4.03873
    assert write.bandwidth_bps == 23.1818 * MIB
    assert write.runtime_s == 4.03873
    assert write.total is not None
    assert (write.total.mean_s, write.total.stddev_s) == (0.0214727, 0.00876346)
    assert (write.total.min_s, write.total.max_s) == (0.0038096, 0.0658516)
    options = job(result).options
    assert dict(options.raw) == {
        "rw": "write",
        "bs": "65536",
        "iodepth": "8",
        "numjobs": "1",
        "ioengine": "rados-bench",
        "runtime": "4s",
        "time_based": "1",
        "buffer_pattern": "z",
    }
    assert not options.whole
    assert [window.value for window in result.windows[Op.WRITE]] == [421, 428, 330, 312]
    assert output(result).notes == ()


def test_a_log_of_a_write_and_a_read_with_their_commands() -> None:
    write, read = read_results(LOG)
    assert (write.workload, read.workload) == ("write", "seq")
    assert (write.target, read.target) == ("rados:tank", "rados:tank")
    assert operation(write).bandwidth_bps == 104.094 * MIB
    assert operation(write).iops == 553 / 21.25
    assert len(write.windows[Op.WRITE]) == 21
    assert [window.value for window in write.windows[Op.WRITE]][:4] == [25, 27, 25, 27]
    assert operation(read).iops == 553 / 3.6
    assert operation(read).total is not None
    assert job(read).options.raw["rw"] == "read"
    assert job(read).options.iodepth == 8
    assert [window.value for window in read.windows[Op.READ]] == [150, 150, 150]
    assert "BlockSize(MB):4M" in output(write).noise


def test_a_seq_that_ran_out_of_objects_is_no_short_run() -> None:
    _, read = read_results(LOG)
    assert "runtime" not in job(read).options.raw
    (note,) = output(read).notes
    assert note.kind is NoteKind.LEFT_OUT
    assert "3.6 s of the 30 s" in note.fact


def test_reads_do_not_report_whether_they_were_random() -> None:
    text = LOG[LOG.index(b"hints = 1", 200) :]
    (result,) = read_results(text)
    assert operation(result).op is Op.READ
    assert set(job(result).options.raw) == {"bs", "numjobs", "ioengine"}
    (note,) = output(result).notes
    assert "seq" in note.fact


def test_two_reads_without_commands_are_no_repeats_of_each_other() -> None:
    text = LOG[LOG.index(b"hints = 1", 200) :]
    assert [result.workload for result in read_results(text + text)] == ["read 1", "read 2"]


def test_a_cut_write_before_a_whole_read() -> None:
    lines = LOG.splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith((b"Total writes", b"Average L"))]
    start = next(number for number, line in enumerate(lines) if b"Total time" in line)
    end = next(number for number, line in enumerate(lines) if b"30 seq" in line)
    cut, read = read_results(b"".join(lines[:start] + lines[end:]))
    assert isinstance(cut.output, FormatError)
    assert cut.output.condition == "truncated-result"
    assert read.workload == "seq"
    with pytest.raises(FormatError, match="lacks its") as refused:
        read_results(b"".join(kept))
    assert refused.value.condition == "unreadable-result"


@pytest.mark.parametrize("end", [200, 700, 1500, 2400])
def test_a_file_that_is_cut_says_so(end: int) -> None:
    (result,) = read_results(LOG[:end])
    assert isinstance(result.output, FormatError)
    assert result.output.condition == "truncated-result"
    assert any("line" in line for line in result.output.context)


def test_an_empty_file() -> None:
    assert not IMPORTER.recognises("read.log", b"")
    (result,) = IMPORTER.read({"read.log": b""})
    assert isinstance(result.output, FormatError)
    assert result.output.condition == "empty-result"


def test_another_text_is_refused() -> None:
    with pytest.raises(FormatError, match="no output of rados bench"):
        read_results(b"error opening pool testpool: (2) No such file or directory\n")


def test_figures_that_cannot_be_are_left_out() -> None:
    wrong = LOG.replace(b"Min IOPS:               25", b"Min IOPS:               -1537890352")
    wrong = wrong.replace(b"Max latency(s):         0.702", b"Max latency(s):         nan")
    write, _ = read_results(wrong)
    kinds = [(note.kind, note.where) for note in output(write).notes]
    assert kinds == [
        (NoteKind.IMPOSSIBLE_VALUE, "line 43"),
        (NoteKind.IMPOSSIBLE_VALUE, "line 46"),
    ]
    assert operation(write).total is not None
    assert operation(write).total.max_s is None


def test_iops_that_contradict_the_rest_are_kept_for_the_audit() -> None:
    write, _ = read_results(LOG.replace(b"Average IOPS:           26", b"Average IOPS: 260"))
    assert operation(write).iops == 260


def test_old_releases() -> None:
    """No IOPS, no object size, no "(s)"; blank lines; three digits."""
    old = b"""\
 Maintaining 16 concurrent writes of 4194304 bytes for at least 60 seconds.
   sec Cur ops   started  finished  avg MB/s  cur MB/s  last lat   avg lat
     0       0         0         0         0         0         -         0
     1      16       136       120   479.916       480  0.129      0.1290
 Total time run:         60.231902
Total writes made:      7430
Write size:             4194304
Bandwidth (MB/sec):     493.426

Stddev Bandwidth:       83.2429
Max bandwidth (MB/sec): 580
Min bandwidth (MB/sec): 0
Average Latency:        0.129699
Stddev Latency:         0.117525
Max latency:            0.793961
Min latency:            0.023329
"""
    (result,) = read_results(old)
    write = operation(result)
    assert write.iops == 7430 / 60.231902
    assert write.total is not None
    assert (write.total.mean_s, write.total.stddev_s) == (0.129699, 0.117525)
    assert job(result).options.raw["runtime"] == "60s"
    # Nothing is reported of the seconds 2 to 60.
    assert result.windows == {}
    assert output(result).notes[0].kind is NoteKind.LEFT_OUT


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"    3       8        85", b"    5       8        85"),
        (b"        85        77 ", b"        85        17 "),
        (b"        85        77 ", b"        85       977 "),
        (b"Total time run:         21.250000", b"Total time run:         9021.250000"),
    ],
    ids=["gap", "backwards", "beyond the total", "silence"],
)
def test_seconds_that_cannot_be_are_not_used(old: bytes, new: bytes) -> None:
    assert LOG.count(old) == 1
    write, _ = read_results(LOG.replace(old, new))
    assert write.windows == {}
    assert "seconds are not used" in output(write).notes[-1].fact


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        (b"rados bench -p tank 21 write -t 8 --no-cleanup", ("rados:tank", 8)),
        (b"$ sudo rados -p tank bench 21 write", ("rados:tank", 16)),
        (b"rados --pool=tank -b 4M bench 21 -t 4 write | tee log", ("rados:tank", 4)),
        (b"rados bench 21 rand", ("", None)),
        (b"rados bench SECONDS write -p tank", ("", None)),
    ],
)
def test_command_lines(line: bytes, reported: tuple[str, int | None]) -> None:
    """A command that does not fit to the output is not its own."""
    start = LOG.index(b"hints = 1")
    text = LOG[start:].replace(b"Maintaining 8 concurrent", b"Maintainin")
    result, _ = read_results(b"root@gw1:~# " + line + b"\n" + text)
    assert (result.target, job(result).options.iodepth) == reported


def test_lines_of_others_are_counted() -> None:
    lines = LOG.splitlines(keepends=True)
    warned = b"".join([*lines[:9], b"2026-11-21 -1 WARNING: slow\n", *lines[9:]])
    write, _ = read_results(warned)
    (note,) = output(write).notes
    assert (note.kind, note.where) == (NoteKind.LEFT_OUT, "line 10")


def test_data_that_was_not_what_had_been_written() -> None:
    wrong = LOG.replace(
        b"Total time run:       3.6",
        b"benchmark_data_gw1_4711_object7 is not correct!\nTotal time run:       3.6",
    )
    _, read = read_results(wrong)
    assert job(read).error == 84


def test_json_reports_the_load_of_a_write() -> None:
    (result,) = read_results(WRITE)
    raw = job(result).options.raw
    assert (raw["rw"], raw["bs"], raw["iodepth"]) == ("write", "65536", "8")
    assert (raw["runtime"], raw["time_based"]) == ("6s", "1")
    assert operation(result).iops == 2263 / 6.007512
    assert [w.value for w in result.windows[Op.WRITE]] == [452, 364, 352, 321, 371, 402]
    assert output(result).notes == ()


def test_json_of_a_read() -> None:
    (result,) = read_results(RAND)
    assert "rw" not in job(result).options.raw
    assert operation(result).total is not None
    assert operation(result).total.stddev_s is None
    assert len(result.windows[Op.READ]) == 4


def test_json_fields_that_are_not_known_or_reported_twice() -> None:
    document = orjson.loads(WRITE)
    document["omap_size"] = "7"
    twice = orjson.dumps(document).replace(b'"bandwidth":', b'"bandwidth":"1.0","bandwidth":', 1)
    (result,) = read_results(twice)
    assert [(note.kind, note.where) for note in output(result).notes] == [
        (NoteKind.UNKNOWN_FIELD, "$['omap_size']"),
        (NoteKind.REPEATED_FIELD, "$['bandwidth']"),
    ]


def test_a_bounded_number_of_objects_ends_a_run_rightly() -> None:
    content = (RECORDED / "rados_bench_100_objects.json").read_bytes()
    (result,) = read_results(content)
    assert job(result).options.raw["runtime"] == "1000s"
    assert "time_based" not in job(result).options.raw


def test_a_cut_json_and_a_python_print() -> None:
    for content in (WRITE[:900], b"{'concurrent_ios': '16', 'datas': [{'sec': '0', 'finis"):
        (result,) = read_results(content)
        assert isinstance(result.output, FormatError)
        assert result.output.condition == "truncated-result"
    with pytest.raises(FormatError, match="not JSON"):
        read_results(b"{'concurrent_ios': '16', 'datas': []}")


@pytest.mark.parametrize(
    ("key", "value"),
    [("total_time_run", "1e300"), ("total_writes_made", "1e300"), ("write_size", "9" * 5000)],
)
def test_json_figures_beyond_all_bounds_are_refused(key: str, value: str) -> None:
    document = orjson.loads(WRITE)
    document[key] = value
    with pytest.raises(FormatError):
        read_results(orjson.dumps(document))


def test_published_logs() -> None:
    (write,) = read_results(reading_only("stfc-rados-logs-write_60_4M.log"))
    assert operation(write).total_ios == 1693
    assert operation(write).bandwidth_bps == 112.149 * MIB
    assert operation(write).iops == 1693 / 60.383984
    assert operation(write).total is not None
    assert (operation(write).total.mean_s, operation(write).total.stddev_s) == (0.570351, 0.175997)
    assert (job(write).options.iodepth, job(write).options.raw["runtime"]) == (16, "60s")
    values = [window.value for window in write.windows[Op.WRITE]]
    assert (len(values), values[0], values[1], values[-1]) == (60, 24, 26, 28)
    (read,) = read_results(reading_only("stfc-rados-logs-read_60_4M.log"))
    assert operation(read).total_ios == 1640
    assert len(read.windows[Op.READ]) == 60
    (seq,) = read_results(reading_only("cbt-issue-153-seq.txt"))
    assert operation(seq).iops == 248 / 1.103127
    assert operation(seq).bandwidth_bps == 899.261 * MIB
    (part,) = read_results(reading_only("ocsci-pr-431-json-part.txt"))
    assert isinstance(part.output, FormatError)


def test_what_is_recognised() -> None:
    for content in (LOG, PLAIN, WRITE, RAND, LOG[LOG.index(b"  sec Cur") :]):
        assert IMPORTER.recognises("x", content[:65536])
    for content in (b"", b"{}", b"finished\n", b"iops,bw\n1,2\n"):
        assert not IMPORTER.recognises("x", content)


@given(st.text("0123456789.e+-nainf ", max_size=30), st.integers(0, 60))
def test_any_number_is_taken_or_left(number: str, line: int) -> None:
    lines = LOG.decode().splitlines()
    label = lines[line % len(lines)].split(":")[0]
    lines[line % len(lines)] = f"{label}: {number}"
    with contextlib.suppress(FormatError):
        for result in read_results("\n".join(lines).encode()):
            if isinstance(result.output, EngineOutput):
                for one in job(result).operations:
                    assert all(value is None or value >= 0 for value in one.metrics().values())
