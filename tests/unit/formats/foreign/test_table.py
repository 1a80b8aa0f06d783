from __future__ import annotations

import csv
from decimal import Decimal
from pathlib import Path

import pytest

from leadline.formats.foreign.table import IMPORTER, read_table
from leadline.formats.importer import Result
from leadline.formats.result import EngineOutput, FormatError, JobResult, NoteKind
from leadline.metrics import Metric, Op
from tests.conftest import ROOT, SHARED

RECORDED = ROOT / "tests" / "recorded" / "imports" / "table"
TABLES = sorted(RECORDED.glob("*.csv"))
HEAD = "cluster,target,workload,op,pattern,block_size,numjobs,iodepth,iops,bw_mib_s,lat_mean_ms\n"
ROW = "lab,rep3,rand,write,randwrite,4k,4,16,32000,125,0.5\n"
# Column -> metric, and by how many decimal places or which factor it is another unit.
METRICS = {
    "iops": (Metric.IOPS, Decimal(1)),
    "bw_mib_s": (Metric.BANDWIDTH, Decimal(1 << 20)),
    "lat_mean_ms": (Metric.LATENCY_MEAN, Decimal("0.001")),
    "lat_p50_ms": (Metric.LATENCY_P50, Decimal("0.001")),
    "lat_p99_ms": (Metric.LATENCY_P99, Decimal("0.001")),
}
OPTIONS = {"pattern": "rw", "block_size": "bs", "file_size": "size", "engine": "ioengine"}
OPTIONS |= {"numjobs": "numjobs", "iodepth": "iodepth"}


def output(result: Result) -> EngineOutput:
    assert isinstance(result.output, EngineOutput)
    return result.output


def job(result: Result) -> JobResult:
    (only,) = output(result).jobs
    return only


def table(*rows: str, head: str = HEAD) -> tuple[Result, ...]:
    return read_table((head + "".join(rows)).encode())


@pytest.mark.parametrize("path", TABLES, ids=[path.stem for path in TABLES])
def test_every_published_row_comes_back(path: Path) -> None:
    results = {
        (one.cluster, one.target, one.workload): one for one in read_table(path.read_bytes())
    }
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    seen = 0
    apart = path.stem == "kbench"  # each figure is of a test of its own
    for row in rows:
        place = (row["cluster"], row["target"])
        tests = [f"{row['workload']}-{test}" for test in ("iops", "bandwidth", "latency")]
        metrics: dict[Metric, float | None] = {}
        for name in tests if apart else [row["workload"]]:
            result = results[*place, name]
            (operation,) = [one for one in job(result).operations if one.op == row["op"]]
            values = operation.metrics()
            metrics |= {key: value for key, value in values.items() if value or not apart}
            seen += 1
        for column, (metric, factor) in METRICS.items():
            reported = float(Decimal(row[column]) * factor) if row[column] else None
            assert metrics.get(metric) == reported, (row, column)
        if apart:
            continue
        raw = job(result).options.raw
        for column, option in OPTIONS.items():
            assert raw.get(option, "") == row[column]
        assert raw.get("runtime", "") == (f"{row['runtime_s']}s" if row["runtime_s"] else "")
        assert output(result).notes == ()
    assert seen == sum(len(job(one).operations) for one in results.values())
    assert (
        seen == {"kbench": 36, "multizone-vs-singlezone": 66, "openebs-and-rook-fio": 24}[path.stem]
    )


def test_what_is_not_published_is_not_known() -> None:
    result = read_table((RECORDED / "openebs-and-rook-fio.csv").read_bytes())[0]
    options = job(result).options
    assert (options.engine, options.direct) == (None, None)
    assert (options.numjobs, options.iodepth, options.seconds("runtime")) == (4, 16, 30)
    assert not options.whole
    assert output(result).jobs[0].operations[0].runtime_s is None


def test_operations_of_one_load_are_one_result() -> None:
    (result,) = table(
        "lab,rep3,mix,read,randrw,4k,4,16,700,,1\n",
        "lab,rep3,mix,write,randrw,4k,4,16,300,,2\n",
        "lab,rep3,mix,total,randrw,4k,4,16,1000,,\n",
    )
    assert [one.op for one in job(result).operations] == [Op.READ, Op.WRITE, Op.TOTAL]
    assert [one.op for one in job(result).with_total()] == [Op.READ, Op.WRITE, Op.TOTAL]


def test_other_patterns_are_other_jobs_of_the_result() -> None:
    (result,) = table(
        "lab,rep3,rand,read,randread,4k,4,16,700,,1\n",
        "lab,rep3,rand,write,randwrite,4k,4,16,300,,2\n",
    )
    read, write = output(result).jobs
    assert (read.options.pattern, write.options.pattern) == ("randread", "randwrite")
    assert (read.group, write.group) == (0, 1)


def test_a_second_row_is_another_trial() -> None:
    rows = [ROW, ROW.replace("32000", "33000"), ROW.replace("rep3", "rep2")]
    results = table(*rows)
    assert [one.target for one in results] == ["rep3", "rep3", "rep2"]
    assert [job(one).operations[0].iops for one in results] == [32000, 33000, 32000]


def test_a_sweep_of_depths_pairs_by_the_load_and_not_by_the_order() -> None:
    rows = [
        "lab,rep3,mix,read,randrw,4k,4,1,10,,\n",
        "lab,rep3,mix,read,randrw,4k,4,8,80,,\n",
        "lab,rep3,mix,write,randrw,4k,4,8,8,,\n",
        "lab,rep3,mix,write,randrw,4k,4,1,1,,\n",
    ]
    first, second = table(*rows)
    assert [one.iops for one in job(first).operations] == [10, 1]
    assert [one.iops for one in job(second).operations] == [80, 8]


@pytest.mark.parametrize("column", ["trial", "repeat"])
def test_a_column_of_trials(column: str) -> None:
    head = f"target,workload,op,{column},iops\n"
    rows = ["a,w,read,1,10\n", "a,w,read,2,20\n", "a,w,write,2,2\n", "a,w,write,1,1\n"]
    first, second = table(*rows, head=head)
    assert [one.iops for one in job(first).operations] == [10, 1]
    assert [one.iops for one in job(second).operations] == [20, 2]
    with pytest.raises(FormatError, match=r"line 6: trial '2' .* line 3"):
        table(*rows, "a,w,read,2,21\n", head=head)


def test_other_orders_separators_line_ends_and_marks() -> None:
    (plain,) = table(ROW)
    excel = "\ufeff" + (HEAD + ROW).replace(",", ";").replace("\n", "\r\n")
    quoted = "".join(
        ",".join(f'"{cell}"' for cell in line.split(",")) + "\n"
        for line in (HEAD + ROW).splitlines()
    )
    turned = "".join(
        "\t".join(reversed(line.split(","))) + "\n" for line in (HEAD + ROW).splitlines()
    )
    padded = (
        (HEAD + ROW).replace("\n", ",,\n").replace(",", " , ").upper().replace("WRITE", "write")
    )
    for text in (excel, quoted, turned):
        assert read_table(text.encode()) == (plain,)
    assert read_table(padded.encode())[0].target == "REP3"


def test_names_may_hold_anything() -> None:
    (result,) = table('"a,b","<b>\n\x01""x""",..,read,,,,,1,,\n')
    assert (result.cluster, result.target, result.workload) == ("a,b", '<b>\n\x01"x"', "..")


def test_columns_that_are_not_known() -> None:
    head = "target,workload,op,iops,lat_p90_ms,,comment\n"
    first, second = table("a,w,read,1,5,,x\n", "b,w,read,1,5,,\n", head=head)
    assert [(note.kind, note.where) for note in output(first).notes] == [
        (NoteKind.UNKNOWN_FIELD, "line 1, column 5"),
        (NoteKind.UNKNOWN_FIELD, "line 1, column 7"),
    ]
    assert "'lat_p99_ms'" in output(first).notes[0].fact
    assert output(second).notes == ()


def test_figures_of_every_kind() -> None:
    head = "target,workload,op,direct,total_ios,lat_min_ms,lat_max_ms,lat_stddev_ms"
    head += ",lat_p95_ms,lat_p999_ms,lat_p9999_ms\n"
    (result,) = table("a,w,read,true,1000000,1,9,2,3,4,5\n", head=head)
    (read,) = job(result).operations
    assert read.total is not None
    assert (read.total.min_s, read.total.max_s, read.total.stddev_s) == (0.001, 0.009, 0.002)
    assert dict(read.total.percentiles) == {0.95: 0.003, 0.999: 0.004, 0.9999: 0.005}
    assert (read.total_ios, read.iops, job(result).options.direct) == (1000000, None, True)


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "-inf", "1e308", "1e400", "9" * 400])
def test_figures_that_cannot_be_are_left_out(value: str) -> None:
    (result,) = table(f"lab,rep3,rand,write,,,,,7,{value},1\n")
    (write,) = job(result).operations
    # In MiB/s all of these are beyond what a number can hold, or none.
    assert (write.iops, write.bandwidth_bps) == (7, None)
    (note,) = output(result).notes
    assert (note.kind, note.where) == (NoteKind.IMPOSSIBLE_VALUE, "line 2, column 'bw_mib_s'")


def test_a_result_without_figures_is_empty() -> None:
    whole, empty = table(ROW, "lab,rep2,rand,write,,,,,,,\n")
    assert job(whole)
    assert isinstance(empty.output, FormatError)
    assert (empty.output.condition, empty.target) == ("empty-result", "rep2")


def test_sizes_are_those_of_everybody_and_not_fios() -> None:
    """To fio 4KiB are 4000 bytes and 4kB are 4096."""
    for reported, size in (
        ("4k", 4096),
        ("4KiB", 4096),
        ("4 kB", 4000),
        ("1M", 1 << 20),
        ("512", 512),
    ):
        (result,) = table(f"lab,rep3,rand,write,,{reported},,,1,,\n")
        assert job(result).options.size("bs") == size


@pytest.mark.parametrize(
    ("row", "fact"),
    [
        ("lab,rep3,rand,write,,,,,fast,,\n", "line 3, column 'iops'"),
        ('lab,rep3,rand,write,,,,,"1,234",,\n', "separators of thousands"),
        ("lab,rep3,rand,write,,,,,1_000,,\n", "column 'iops'"),
        ("lab,rep3,rand,write,,,,,0x10,,\n", "column 'iops'"),
        ("lab,rep3,rand,wrte,,,,,1,,\n", "line 3, column 'op'"),
        ("lab,rep3,rand,write,zipf,,,,1,,\n", "column 'pattern'"),
        ("lab,rep3,rand,write,,4q,,,1,,\n", "column 'block_size'"),
        ("lab,rep3,rand,write,,,0,,1,,\n", "column 'numjobs'"),
        ("lab,rep3,rand,write,,,,16.5,1,,\n", "column 'iodepth'"),
        ("lab,,rand,write,,,,,1,,\n", "line 3: the column 'target' is blank"),
        ("lab,rep3,rand,write,,,,,1\n", "line 3 has 9 cells"),
        ("lab,rep3,rand,write,,,,,1,,,7\n", "line 3 has 12 cells"),
        ('lab,rep3,"rand"x,write,,,,,1,,\n', "line 3"),
        ("lab,rep3," + "x" * 140000 + ",write,,,,,1,,\n", "line 3: field larger"),
    ],
)
def test_rows_that_are_not_understood(row: str, fact: str) -> None:
    with pytest.raises(FormatError) as refused:
        table(ROW, row)
    assert refused.value.condition == "unreadable-result"
    assert fact in refused.value.fact


@pytest.mark.parametrize(
    ("head", "reported"),
    [
        ("cluster,targt,workload,op,iops\n", "target: the nearest column is 'targt'"),
        ("target,workload,op,iop\n", "iops: the nearest column is 'iop'"),
        ("target,workload,iops\n", "op: the nearest column is 'iops'"),
    ],
)
def test_columns_that_are_missing(head: str, reported: str) -> None:
    with pytest.raises(FormatError, match="line 1") as error:
        table(head=head)
    assert reported in error.value.context


def test_a_column_twice_and_too_many() -> None:
    with pytest.raises(FormatError, match="'iops' is there twice"):
        table(head="target,workload,op,iops,iops\n")
    with pytest.raises(FormatError, match="trial and repeat"):
        table(head="target,workload,op,iops,trial,repeat\n")
    with pytest.raises(FormatError, match="900 columns"):
        table(head=",".join(["x"] * 900) + "\n")


@pytest.mark.parametrize(
    ("content", "condition"),
    [
        (b"", "empty-result"),
        (b"\xef\xbb\xbf\r\n", "empty-result"),
        (HEAD.encode(), "empty-result"),
        (b',,"",\n\n', "empty-result"),
        ((HEAD + ROW + "lab,rep3,ra").encode(), "truncated-result"),
        ((HEAD + ROW + 'lab,rep3,"ra').encode(), "truncated-result"),
        ((HEAD + ROW).encode("utf-16"), "unreadable-result"),
        ((HEAD + ROW).replace("rep3", "r\xe9p").encode("latin-1"), "unreadable-result"),
    ],
)
def test_files_that_are_no_whole_table(content: bytes, condition: str) -> None:
    with pytest.raises(FormatError) as refused:
        read_table(content)
    assert refused.value.condition == condition


def test_one_row_per_figure_is_another_layout() -> None:
    folder = SHARED / "reference" / "published"
    if not folder.exists():
        pytest.skip(f"needs ../shared: {folder}")
    for path in folder.glob("*.csv"):
        assert not IMPORTER.recognises(path.name, path.read_bytes()[:65536])
        with pytest.raises(FormatError, match="needs the columns target, workload, op, iops"):
            read_table(path.read_bytes())


def test_what_is_recognised() -> None:
    assert all(IMPORTER.recognises(path.name, path.read_bytes()[:65536]) for path in TABLES)
    assert IMPORTER.recognises("x", b"\xef\xbb\xbftarget;workload;operation;iops\n")
    for other in (b"", b"target\n", b"operation,IOPS\nread,5\n", b"1,2,3\n"):
        assert not IMPORTER.recognises("x", other)


LABELLED = HEAD.replace("iops", "label:Cores,iops")


def labelled(target: str, cores: str, op: str = "write") -> str:
    return f"lab,{target},rand,{op},rand{op},4k,4,16,{cores},32000,125,0.5\n"


def test_a_column_of_labels_is_of_the_target() -> None:
    results = table(
        labelled("a", "1"), labelled("b", ""), labelled("a", "", op="read"), head=LABELLED
    )
    assert [(one.target, dict(one.labels)) for one in results] == [("a", {"cores": "1"}), ("b", {})]
    assert all(not output(one).notes for one in results), "the column is known"


def test_a_target_has_one_value_of_a_label() -> None:
    with pytest.raises(FormatError, match=r"line 3: .* has the cores '2', and '1' on line 2"):
        table(labelled("a", "1"), labelled("a", "2"), head=LABELLED)
    other_cluster = labelled("a", "2").replace("lab,", "other,")
    ours, theirs = table(labelled("a", "1"), other_cluster, head=LABELLED)
    assert (ours.labels, theirs.labels) == ({"cores": "1"}, {"cores": "2"})


@pytest.mark.parametrize(
    ("head", "value", "fact"),
    [
        ("label:", "1", "names no label"),
        ("label:a=b", "1", "names no label"),
        ("label:cores,label:cores", "1,1", "there twice"),
        ("label:cores", "k=v", "expected a word"),
    ],
)
def test_labels_that_cannot_be(head: str, value: str, fact: str) -> None:
    with pytest.raises(FormatError, match=fact):
        table(labelled("a", value), head=HEAD.replace("iops", f"{head},iops"))


KBENCH = """target,workload,op,pattern,iops,bw_mib_s,lat_mean_ms
zfs,seq-write,write,write,19712,86,0.018
rbd,seq-write,write,write,3848,168,8.645
"""


def options_by_test(content: str, name: str) -> dict[tuple[str, str], dict[str, str]]:
    found = {}
    for result in read_table(content.encode(), name):
        assert isinstance(result.output, EngineOutput)
        (job,) = result.output.jobs
        found[result.target, result.workload] = dict(job.options.raw)
    return found


def test_a_row_of_kbench_is_three_tests() -> None:
    found = options_by_test(KBENCH, "results/kbench.csv")
    assert len(found) == 6
    assert found["zfs", "seq-write-iops"] | {"rw": ""} == {
        "rw": "",
        "bs": "4k",
        "iodepth": "64",
        "numjobs": "1",
        "ioengine": "libaio",
        "direct": "1",
    }
    assert found["rbd", "seq-write-bandwidth"]["bs"] == "128k"
    assert "iodepth" not in found["rbd", "seq-write-latency"]


def test_each_test_has_its_own_figure_only() -> None:
    for result in read_table(KBENCH.encode(), "kbench.csv"):
        assert isinstance(result.output, EngineOutput)
        (operation,) = result.output.jobs[0].operations
        known = (operation.iops, operation.bandwidth_bps, operation.total)
        assert [value is not None for value in known].count(True) == 1


def test_a_column_names_the_tool() -> None:
    lines = KBENCH.splitlines()
    given = "\n".join([f"tool,{lines[0]}", *(f"kbench,{line}" for line in lines[1:])])
    assert options_by_test(given, "published.csv") == options_by_test(KBENCH, "kbench.csv")


def test_figures_that_contradict_each_other_are_of_tests_of_unknown_block_size() -> None:
    found = options_by_test(KBENCH, "published.csv")
    assert len(found) == 6
    assert not any("bs" in options for options in found.values())
    (note,) = [
        note
        for result in read_table(KBENCH.encode())
        if isinstance(result.output, EngineOutput)
        for note in result.output.notes
    ]
    assert note.kind is NoteKind.LEFT_OUT
    assert "separate tests" in note.fact


@pytest.mark.parametrize(
    "row",
    ["zfs,seq-write,write,write,22016,86,0.018", "zfs,seq-write,write,write,,86,0.018"],
)
def test_one_row_that_can_be_one_test_leaves_the_table_as_it_is(row: str) -> None:
    found = options_by_test(KBENCH + row.replace("zfs", "c"), "published.csv")
    assert {workload for _, workload in found} == {"seq-write"}
