from __future__ import annotations

import pytest

from leadline.formats.importer import Result
from leadline.formats.result import EngineOutput, FormatError, NoteKind, Operation
from leadline.formats.zfs.iostat_import import IMPORTER, parse_zpool_iostat, read_results
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


def test_the_command_line_reports_the_interval_and_what_y_left_out() -> None:
    (plain,) = read_results(b"# zpool iostat -v labr 5 4\n" + ON_RBD)
    assert [(w.end_s, w.value) for w in plain.windows[Op.WRITE]] == [(5, 443), (10, 517), (15, 434)]
    assert output(plain).jobs[0].job_runtime_s == 15
    (without,) = read_results(b"# zpool iostat -vy labr 5\n" + ON_RBD)
    assert [(w.end_s, w.value) for w in without.windows[Op.WRITE]][:2] == [(5, 315), (10, 443)]
    assert output(without).notes == ()
    block = ON_RBD[: len(ON_RBD) // 4]
    assert read_results(b"$ zpool iostat -yv 5 1\n" + block)


def test_timestamps_report_the_interval() -> None:
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
    with pytest.raises(FormatError, match="average since the pool was imported") as refused:
        read_results(content)
    assert refused.value.condition == "unreadable-result"


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_histograms_are_refused(name: str) -> None:
    content = (RECORDED / name).read_bytes()
    assert IMPORTER.recognises(name, content)
    mode = "-r" if "-r" in name else "-w"
    with pytest.raises(FormatError, match=f"line 2: histograms of zpool iostat {mode} .* -l 1"):
        read_results(content)


def test_a_copy_from_a_terminal_has_blanks_for_tabs_and_prompts() -> None:
    content = (RECORDED / "openzfs-12866-pH.txt").read_bytes()
    (result,) = read_results(content)
    both = operations(result)
    assert result.target == "zpool"
    assert both[Op.READ].iops == (128 + 94 + 121 + 101) / 4
    assert both[Op.WRITE].bandwidth_bps == (2595750 + 6364099) / 4
    assert [(w.end_s, w.value) for w in result.windows[Op.READ]] == [
        *((1.0, 128.0), (2.0, 94.0), (3.0, 121.0), (4.0, 101.0))
    ]
    bare = b"".join(content.splitlines(keepends=True)[1:-1])
    assert IMPORTER.recognises("x", bare)
    assert operations(read_results(bare)[0])[Op.READ].iops == both[Op.READ].iops
    with pytest.raises(FormatError, match=r"line 3 .* not understood"):
        parse_zpool_iostat(content.replace(b"47      527325", b"47      "))
    for other in (b"a 1 2 3 4 5 6\nb 1 2 3 4 5 6\n", b"sda 7 9 1024 5 2 2048 1\n"):
        assert not IMPORTER.recognises("x", other)


def test_each_run_of_a_session_begins_with_an_average_of_its_own() -> None:
    content = (RECORDED / "openzfs-3633-session.txt").read_bytes()
    report = parse_zpool_iostat(content)
    assert (report.intervals, report.averages, report.interval_s) == (5, {0, 1, 2}, 1.0)
    busy = b"backup      34.1T  1.11T      0     %d      0   4.0K\n"
    (result,) = read_results(content + busy % 40 + b"^C\n")
    (write,) = output(result).jobs[0].operations
    assert (write.iops, write.bandwidth_bps) == (40 / 3, 4096 / 3)
    assert [note.where for note in output(result).notes] == ["line 5", "line 10", "line 15"]
    # Without -y in the second run its first block is left out; with it, it counts.
    second = b"# zpool iostat backup%s 1\n"
    rows = busy % 10 + busy % 20
    for option, means in ((b"", (0 + 0 + 20) / 3), (b" -y", (0 + 0 + 10 + 20) / 4)):
        heads = b"".join(content.splitlines(keepends=True)[11:14])
        (result,) = read_results(content + second % option + heads + rows)
        assert operations(result)[Op.WRITE].iops == means
    with pytest.raises(FormatError, match="line 18: a run of zpool iostat every 5 s begins behind"):
        read_results(content + b"$ zpool iostat backup 5\n" + rows)


def test_runs_without_a_word_of_their_command_are_noteed() -> None:
    """`zpool iostat >> log`, time and again: the file cannot report it from `-y 1 1`."""
    run = b"".join(
        (RECORDED / "openzfs-3633-session.txt").read_bytes().splitlines(keepends=True)[1:5]
    )
    (result,) = read_results(run * 3)
    note = output(result).notes[0]
    assert (note.kind, note.where) == (NoteKind.UNKNOWN_FIELD, "line 4")
    assert "as runs without an interval print it" in note.fact
    for known in (b"$ zpool iostat -y backup 5\n" + run * 3, ON_RBD, LATENCY):
        facts = [one.fact for one in output(read_results(known)[0]).notes]
        assert not any("heads of its own" in fact for fact in facts)


def test_columns_to_the_left_and_commas_are_the_same_figures() -> None:
    (left,) = read_results((RECORDED / "openzfs-14749-left.txt").read_bytes())
    write = operations(left)[Op.WRITE]
    assert write.iops == pytest.approx((392 + 225 + 740 + (1.59 + 1.32) * 1024 + 304) / 8)
    report = parse_zpool_iostat((RECORDED / "openzfs-10253-comma.txt").read_bytes())
    first, second = report.rows
    assert first.values["capacity_alloc"] == pytest.approx(11.4 * (1 << 40))
    assert first.values["bandwidth_read"] == pytest.approx(2.96 * M)
    assert first.values["asyncq_wait_write"] == pytest.approx(0.097)
    assert (first.values["scrub_wait"], first.values["trim_wait"]) == (1.0, None)
    assert second.values["trimq_write_activ"] == 0


def test_a_device_behind_the_dashes_of_its_head() -> None:
    report = parse_zpool_iostat((RECORDED / "openzfs-5852-joined.txt").read_bytes())
    last = report.rows[-1]
    assert (last.name, last.depth, last.group) == ("loop0", 1, "cache")
    assert last.values["capacity_free"] == pytest.approx(60.7 * (1 << 30))


def test_blocks_with_a_cache_on_another_system() -> None:
    (result,) = read_results((RECORDED / "openzfs-12779-cache.txt").read_bytes())
    assert operations(result)[Op.WRITE].iops == 10
    assert [(one.end_s, one.value) for one in result.windows[Op.WRITE]] == [(15.0, 10.0)]


def test_a_vdev_without_its_pool_is_refused() -> None:
    """As where the first row was lost, or the heads lost the blanks before them."""
    lines = (RECORDED / "zpool-iostat-v.txt").read_bytes().splitlines(keepends=True)
    with pytest.raises(FormatError, match=r"line 4 .* is a vdev with no pool above it"):
        parse_zpool_iostat(b"".join([*lines[:3], *lines[4:]]))


def test_a_row_that_lost_its_end_is_no_row() -> None:
    """`131M` without its unit is a figure, too."""
    content = (RECORDED / "zpool-iostat-v.txt").read_bytes()
    row = content.splitlines()[3]
    assert row.endswith(b"131M")
    for lost in (1, 2, 3):
        with pytest.raises(FormatError, match="is cut off") as refused:
            parse_zpool_iostat(content + row[:-lost])
        assert refused.value.condition == "truncated-result"
    assert parse_zpool_iostat(content + row).intervals == 2


def test_heads_of_old_zfs() -> None:
    (result,) = read_results(LATENCY.replace(b"alloc   free", b" used  avail"))
    assert result == read_results(LATENCY)[0]


DATES = [
    ("Sat Nov 21 23:59:%d UTC 2026", "Sun Nov 22 00:00:%d UTC 2026"),
    ("Wed 14 Apr 2021 11:59:%d PM UTC", "Thu 15 Apr 2021 12:00:%d AM UTC"),
    ("March 18, 2022 11:59:%d AM UTC", "March 18, 2022 12:00:%d PM UTC"),
    ("Fri Mar 18 11:59:%d PM UTC 2022", "Sat Mar 19 12:00:%d AM UTC 2022"),
]


@pytest.mark.parametrize(("one", "other"), DATES)
def test_dates_report_the_interval_in_any_locale(one: str, other: str) -> None:
    blocks = ON_RBD.decode().split("\n\n")[:3]
    stamps = (one % 54, one % 59, (other % 4).replace(":4 ", ":04 "))
    dated = "".join(f"{stamp}\n{block}\n" for stamp, block in zip(stamps, blocks, strict=True))
    report = parse_zpool_iostat(dated.encode())
    assert (report.intervals, report.interval_s) == (3, 5.0)


def test_colours_line_ends_and_fences_are_no_figures() -> None:
    lines = LATENCY.decode().splitlines()
    reported = read_results(LATENCY)
    assert read_results("\r\n".join([*lines, ""]).encode()) == reported
    coloured = LATENCY.replace(b" 654", b" \x1b[0;34m654\x1b[0m")
    assert IMPORTER.recognises("x", coloured)
    assert read_results(coloured) == reported
    fenced = read_results("\n".join([*lines, "```", ""]).encode())
    assert fenced == reported


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
def test_scripted_vdevs_cannot_be_reported_from_pools(vdev: bytes) -> None:
    with pytest.raises(FormatError, match="-H -v"):
        read_results((b"tank\t5\t5\t1\t1\t1\t1\n" + vdev) * 2)


def test_scripted_disks_that_add_up_are_no_pools() -> None:
    """A vdev of one disk has a capacity as its pool has."""
    pool = b"tank\t700000\t800000\t30\t40\t5000\t6000\n"
    sda = b"sda\t300000\t400000\t10\t15\t2000\t2500\n"
    sdb = b"sdb\t400000\t400000\t20\t25\t3000\t3500\n"
    with pytest.raises(FormatError, match="-H -v"):
        read_results((pool + sda + sdb) * 2)
    other = sda.replace(b"sda", b"pool2")
    assert [one.target for one in read_results((pool + other) * 2)] == ["tank", "pool2"]
    idle = b"%s\t700000\t800000\t0\t0\t0\t0\n"
    twins = (idle % b"a" + idle % b"b") * 2
    assert [one.target for one in read_results(twins)] == ["a", "b"]


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
    with pytest.raises(FormatError, match="line") as refused:
        read_results(LATENCY.replace(old, new))
    assert refused.value.condition == condition


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
