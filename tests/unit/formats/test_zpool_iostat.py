from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.formats.importer import Result
from leadline.formats.output import EngineOutput, FormatError, NoteKind, Operation
from leadline.formats.zpool_iostat import IMPORTER, parse_zpool_iostat, read_results
from leadline.metrics import Op
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "imports" / "zpool-iostat"
ALL = sorted(RECORDED.glob("*.txt"))
LATENCY = (RECORDED / "zpool-iostat-l.txt").read_bytes()
ON_RBD = (RECORDED / "zpool_iostat_v_on_rbd.txt").read_bytes()
SINGLE = [
    *("zpool-iostat-Hp.txt", "zpool-iostat-lp.txt", "zpool-iostat-lq.txt", "zpool-iostat-qp.txt"),
    *("zpool-iostat-v.txt", "zpool-iostat-vlq.txt", "jc-zpool-iostat.txt", "jc-zpool-iostat-v.txt"),
]
HISTOGRAMS = [
    *("zpool-iostat-r.txt", "zpool-iostat-rp.txt", "zpool-iostat-r-on-rbd.txt"),
    *("zpool-iostat-w.txt", "zpool-iostat-wp.txt"),
]
K, M = 1 << 10, 1 << 20


def output(result: Result) -> EngineOutput:
    assert isinstance(result.output, EngineOutput)
    return result.output


def operations(result: Result) -> dict[Op, Operation]:
    (job,) = output(result).jobs
    return {one.op: one for one in job.operations}


def test_rows_of_pools_and_vdevs_in_base_units() -> None:
    report = parse_zpool_iostat((RECORDED / "zpool-iostat-v.txt").read_bytes())
    assert [(row.name, row.depth) for row in report.rows] == [
        ("tank", 0),
        ("mirror-0", 1),
        ("vdd", 2),
        ("vde", 2),
        ("mirror-1", 1),
        ("vdf", 2),
        ("vdg", 2),
    ]
    tank, vdd = report.rows[0], report.rows[2]
    assert dict(tank.values) == {
        "capacity_alloc": 911.0 * M,
        "capacity_free": 1009.0 * M,
        "operations_read": 9.0,
        "operations_write": 438.0,
        "bandwidth_read": 6.39 * M,
        "bandwidth_write": 131.0 * M,
    }
    assert (vdd.pool, vdd.line, vdd.values["capacity_alloc"]) == ("tank", 6, None)
    assert (report.intervals, report.since_boot, report.interval_s) == (1, None, None)


def test_waits_and_queues() -> None:
    report = parse_zpool_iostat((RECORDED / "zpool-iostat-lq.txt").read_bytes())
    values = report.rows[0].values
    assert (values["total_wait_read"], values["total_wait_write"]) == (0.005, 0.002)
    assert values["asyncq_wait_write"] == pytest.approx(515e-6)
    assert (values["scrub_wait"], values["trim_wait"], values["rebuild_wait"]) == (
        0.007,
        None,
        None,
    )
    assert (values["syncq_read_pend"], values["rebuildq_write_activ"]) == (0.0, 0.0)
    assert len(values) == 6 + 11 + 14


def test_parsable_times_are_nanoseconds() -> None:
    report = parse_zpool_iostat((RECORDED / "zpool-iostat-lp.txt").read_bytes())
    values = report.rows[0].values
    assert values["total_wait_read"] == pytest.approx(0.005688108)
    assert values["bandwidth_write"] == 132092563.0


def test_scripted_rows() -> None:
    report = parse_zpool_iostat((RECORDED / "zpool-iostat-Hp.txt").read_bytes())
    (row,) = report.rows
    assert (row.name, row.depth, row.values["bandwidth_write"]) == ("tank", None, 135213183.0)


def test_several_pools_in_one_block() -> None:
    report = parse_zpool_iostat((RECORDED / "jc-zpool-iostat-v.txt").read_bytes())
    assert [(row.pool, row.depth) for row in report.rows] == [
        ("zhgstera6", 0),
        ("zhgstera6", 1),
        ("zint500", 0),
        ("zint500", 1),
        ("zsam53", 0),
        ("zsam53", 1),
    ]
    assert report.intervals == 1


def test_the_average_since_the_import_is_left_out() -> None:
    (result,) = read_results(LATENCY)
    assert (result.target, result.tool) == ("tank", "zpool iostat")
    assert set(operations(result)) == {Op.WRITE}
    write = operations(result)[Op.WRITE]
    assert (write.iops, write.bandwidth_bps) == (654.0, 213.0 * M)
    assert write.total is not None
    assert write.total.mean_s == 0.001
    assert [(note.kind, note.where) for note in output(result).notes] == [
        (NoteKind.LEFT_OUT, "line 4"),
        (NoteKind.LEFT_OUT, "line 5"),
    ]
    assert result.windows == {}
    assert not output(result).jobs[0].options.whole


def test_means_over_the_intervals() -> None:
    (result,) = read_results(ON_RBD)
    both = operations(result)
    assert result.target == "labr"
    assert both[Op.WRITE].iops == (443 + 517 + 434) / 3
    assert both[Op.WRITE].bandwidth_bps == pytest.approx((35.3 + 45.7 + 17.4) / 3 * M)
    assert both[Op.READ].iops == 0
    assert both[Op.READ].bandwidth_bps == pytest.approx(64.0 * K / 3)
    assert both[Op.WRITE].total is None


def test_the_command_line_tells_the_interval_and_what_y_left_out() -> None:
    (plain,) = read_results(b"# zpool iostat -v labr 5 4\n" + ON_RBD)
    assert [(w.end_s, w.value) for w in plain.windows[Op.WRITE]] == [(5, 443), (10, 517), (15, 434)]
    assert output(plain).jobs[0].job_runtime_s == 15
    (without,) = read_results(b"# zpool iostat -vy labr 5\n" + ON_RBD)
    assert [(w.end_s, w.value) for w in without.windows[Op.WRITE]][:2] == [(5, 315), (10, 443)]
    assert output(without).notes == ()
    block = ON_RBD[: len(ON_RBD) // 4]
    assert read_results(b"$ zpool iostat -yv 5 1\n" + block)


def test_timestamps_tell_the_interval() -> None:
    blocks = ON_RBD.split(b"\n\n")[:3]
    stamped = b"".join(b"%d\n%s\n\n" % (1700000000 + 2 * n, one) for n, one in enumerate(blocks))
    (result,) = read_results(stamped)
    assert [window.end_s for window in result.windows[Op.WRITE]] == [2, 4]
    dated = b"".join(b"Sat Nov 21 09:13:4%d UTC 2026\n%s\n\n" % pair for pair in enumerate(blocks))
    assert len(read_results(dated)) == 1


def test_waits_are_weighted_by_the_io_that_waited() -> None:
    lines = LATENCY.decode().splitlines()
    busier = lines[4].replace("654", "218").replace("1ms    ", "5ms    ", 1)
    (result,) = read_results("\n".join([*lines, busier]).encode())
    total = operations(result)[Op.WRITE].total
    assert total is not None
    assert total.mean_s == pytest.approx((654 * 0.001 + 218 * 0.005) / (654 + 218))


@pytest.mark.parametrize("name", SINGLE)
def test_a_single_block_is_no_measurement(name: str) -> None:
    content = (RECORDED / name).read_bytes()
    assert IMPORTER.recognises(name, content)
    with pytest.raises(FormatError, match="average since the pool was imported") as told:
        read_results(content)
    assert told.value.condition == "unreadable-result"


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_histograms_are_refused(name: str) -> None:
    content = (RECORDED / name).read_bytes()
    assert IMPORTER.recognises(name, content)
    with pytest.raises(FormatError, match="line 2: histograms"):
        read_results(content)


def test_scripted_intervals() -> None:
    row = b"tank\t955486208\t1057779712\t9\t%d\t6586023\t135213183\n"
    (result,) = read_results(row % 430 + row % 600)
    assert operations(result)[Op.WRITE].iops == 600
    more = row.replace(b"\n", b"\t5688108\t2407315\n") % 1
    (result,) = read_results(more + more)
    assert "2 columns behind bandwidth" in output(result).notes[0].fact
    assert operations(result)[Op.WRITE].total is None


@pytest.mark.parametrize(
    "vdev",
    [b"mirror-0\t5\t5\t1\t1\t1\t1\n", b"vdd\t0\t0\t1\t1\t1\t1\n", b"vdd\t-\t-\t1\t1\t1\t1\n"],
)
def test_scripted_vdevs_cannot_be_told_from_pools(vdev: bytes) -> None:
    with pytest.raises(FormatError, match="-H -v"):
        read_results((b"tank\t5\t5\t1\t1\t1\t1\n" + vdev) * 2)


def test_log_and_cache_devices() -> None:
    block = b"""\
               capacity     operations     bandwidth
pool         alloc   free   read  write   read  write
-----------  -----  -----  -----  -----  -----  -----
my pool       911M  1009M      9    438  6.39M   131M
  vdd         911M  1009M      9    438  6.39M   131M
logs             -      -      -      -      -      -
  vde           0      9M      0      1      0     4K
-----------  -----  -----  -----  -----  -----  -----
"""
    report = parse_zpool_iostat(block)
    assert [(row.pool, row.name) for row in report.rows] == [
        ("my pool", "my pool"),
        ("my pool", "vdd"),
        ("my pool", "vde"),
    ]
    indented = b"".join(b"    " + line for line in (block * 2).splitlines(keepends=True))
    (result,) = read_results(indented)
    assert result.target == "my pool"


def test_a_column_that_is_not_known() -> None:
    lines = LATENCY.decode().splitlines()
    later = [
        lines[0] + "    zipq_read",
        lines[1] + "   pend  activ",
        *(line + "     7      8" for line in lines[3:]),
    ]
    (result,) = read_results("\n".join(later).encode())
    note = output(result).notes[0]
    assert (note.kind, note.where) == (NoteKind.UNKNOWN_FIELD, "line 1")
    assert "zipq_read" in note.fact


@pytest.mark.parametrize(
    ("old", "new", "condition"),
    [
        (b"654", b"fast", "unreadable-result"),
        (b"654", b"6ms", "unreadable-result"),
        (b"654", b"-654", "unreadable-result"),
        (b"654", b"6 5 4", "unreadable-result"),
        (b"alloc   free", b"alloc", "unreadable-result"),
        (b"   wait   wait   wait", b"   wait", "unreadable-result"),
    ],
)
def test_what_is_not_understood_is_refused(old: bytes, new: bytes, condition: str) -> None:
    with pytest.raises(FormatError, match="line") as told:
        read_results(LATENCY.replace(old, new))
    assert told.value.condition == condition


def test_a_file_that_is_cut() -> None:
    for content in (LATENCY[:-20], LATENCY[:300]):
        (result,) = read_results(content)
        assert isinstance(result.output, FormatError)
        assert result.output.condition == "truncated-result"
    (result,) = read_results(b"\n")
    assert isinstance(result.output, FormatError)
    assert result.output.condition == "empty-result"


def test_what_is_recognised() -> None:
    assert all(IMPORTER.recognises(path.name, path.read_bytes()[:65536]) for path in ALL)
    for other in (
        b"",
        b"a\tb\tc\td\te\tf\tg\n1\t2\t3\t4\t5\t6\t7\n",
        b"1000, 5, 0, 0\n",
        b"Linux 6.1\n\nDevice r/s w/s\n",
    ):
        assert not IMPORTER.recognises("x", other)


@given(
    st.sampled_from([path.read_bytes() for path in ALL]),
    st.floats(0, 1),
    st.floats(0, 1),
    st.binary(max_size=20) | st.from_regex(rb"[-\d.KMGnums \t]{1,30}", fullmatch=True),
)
def test_it_is_total(content: bytes, start: float, end: float, put: bytes) -> None:
    first, last = sorted((int(start * len(content)), int(end * len(content))))
    for broken in (content[:first] + put + content[last:], content[first:last], put):
        IMPORTER.recognises("x", broken)
        with contextlib.suppress(FormatError):
            for row in parse_zpool_iostat(broken).rows:
                told = [value for value in row.values.values() if value is not None]
                assert all(math.isfinite(value) and value >= 0 for value in told)
        with contextlib.suppress(FormatError):
            assert read_results(broken)
