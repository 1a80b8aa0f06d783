from __future__ import annotations

import csv
from decimal import Decimal
from pathlib import Path

import pytest

from leadline.formats.foreign.columns import figure_column
from leadline.formats.foreign.table import IMPORTER, read_table
from leadline.formats.importer import Result
from leadline.formats.result import EngineOutput, FormatError, JobResult, NoteKind
from leadline.metrics import Metric, Op, Spread
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


def test_published_tables_of_one_row_per_figure() -> None:
    folder = SHARED / "reference" / "published"
    if not folder.exists():
        pytest.skip(f"needs ../shared: {folder}")
    joined = {
        "ceph_io_2023_encryption": "pool+stat_note",
        "ceph_io_2023_reef_osds_per_nvme": "cluster",
    }
    for path in folder.glob("*.csv"):
        content = path.read_bytes()
        assert IMPORTER.recognises(path.name, content[:65536])
        with path.open(newline="") as stream:
            rows = list(csv.DictReader(stream))
        if path.stem not in joined:
            with pytest.raises(FormatError, match="names no figure with its unit"):
                IMPORTER.read({path.name: content})
            continue
        with pytest.raises(FormatError, match="which is not read"):
            read_table(content, columns=guessed(content, {"target": "pool", "cluster": ""}))
        results = read_table(content, columns=guessed(content, {"target": joined[path.stem]}))
        values = [
            value
            for one in results
            for operation in job(one).operations
            for value in operation.metrics().values()
            if value is not None
        ]
        wanted = {"iops": 1, "throughput": 1e9, "lat_avg": 1e-3, "lat_p99": 1e-3}
        expected = [
            float(row["value"]) * wanted[row["metric"]] for row in rows if row["metric"] in wanted
        ]
        assert sorted(values) == pytest.approx(sorted(expected))


def guessed(content: bytes, given: dict[str, str] | None = None) -> dict[str, str]:
    assert IMPORTER.guess_columns is not None
    return IMPORTER.guess_columns({"a.csv": content}, given or {})


def test_other_names_and_units_are_guessed() -> None:
    head = "pool,test,rw,bs,jobs,qd,IOPS mean,Avg latency (us),p99.9 (ms),Throughput MB/s,CPU usr\n"
    content = f"{head}rep3,rand,randwrite,4k,2,16,10000,1600,9,40.96,12.5\n".encode()
    columns = guessed(content)
    assert columns["target"] == "pool"
    assert columns["iops"] == "iops mean"
    (result,) = read_table(content, columns=columns)
    (operation,) = job(result).operations
    assert (result.target, result.workload, operation.op) == ("rep3", "rand", Op.WRITE)
    assert operation.iops == 10000
    assert operation.bandwidth_bps == pytest.approx(40.96e6)
    assert operation.total is not None
    assert operation.total.mean_s == pytest.approx(0.0016)
    assert operation.total.percentiles[0.999] == pytest.approx(0.009)
    assert "cpu usr" not in columns.values(), "per cent of what is not stated"


@pytest.mark.parametrize(
    ("text", "unit", "column"),
    [
        ("iops_stddev", "", "iops_sd"),
        ("CV of IOPS", "", None),
        ("iops cv", "", "iops_cv"),
        ("latency", "", None),
        ("latency", "ms", "lat_mean_ms"),
        ("median", "us", "lat_p50_us"),
        ("p99.99", "ns", "lat_p9999_ns"),
        ("throughput", "GB/s", "bw_gb_s"),
        ("bw", "bytes/s", "bw_bytes_s"),
        ("bandwidth_mib_s", "", "bw_mib_s"),
        ("iops", "1/s", "iops"),
        ("iops_per_cpu_thread", "1/s", None),
        ("pg_num", "PGs", None),
        ("cpu_threads_used_per_nvme", "threads", None),
    ],
)
def test_names_of_figures(text: str, unit: str, column: str | None) -> None:
    assert figure_column(text, unit) == column


SUMMARY = "target,workload,op,iops,iops_sd,iops_cv,n,lat_mean_ms,lat_mean_sd_us,clients,numjobs,"
SUMMARY += "iodepth,read_share,rate_cap_iops,usr_cpu,sys_cpu\n"


def test_a_mean_with_its_spread_clients_mix_cap_and_cpu() -> None:
    content = f"{SUMMARY}a,rand,total,1000,20,,5,2,40,4,2,8,70,2000,25,10%\n".encode()
    (result,) = read_table(content)
    (operation,) = job(result).operations
    assert operation.spreads == {
        Metric.IOPS: Spread(deviation=20.0, number=5),
        Metric.LATENCY_MEAN: Spread(deviation=pytest.approx(4e-5), number=5),
    }
    raw = job(result).options.raw
    assert (raw["clients"], raw["numjobs"], raw["rwmixread"]) == ("4", "8", "70")
    assert float(raw["rate_iops"]) * 8 == 2000
    assert (job(result).user_cpu, job(result).system_cpu) == (0.25, 0.1)
    (by_share,) = read_table(f"{SUMMARY}a,rand,total,1000,,2 %,5,,,,,,,,,\n".encode())
    assert job(by_share).operations[0].spreads[Metric.IOPS].deviation == pytest.approx(20)


@pytest.mark.parametrize(
    ("row", "fact"),
    [
        ("a,r,read,1000,20,,,,,,,,,,,", r"line 2, column 'iops_sd': '20'; expected a column 'n'"),
        ("a,r,read,1000,20,,1,,,,,,,,,", r"line 2, column 'n': '1'; one trial has no scatter"),
        ("a,r,read,1000,20,,x,,,,,,,,,", r"line 2, column 'n': 'x'; expected the number"),
        ("a,r,read,1000,20,0.1,3,,,,,,,,,", r"column 'iops_cv': '0.1'; iops_sd is given as well"),
        ("a,r,read,1000,,3,3,,,,,,,,,", r"line 2, column 'iops_cv': '3'; expected a share below 1"),
        ("a,r,read,1000,,,,,,0,,,,,,", r"line 2, column 'clients': '0'; expected a whole number"),
        ("a,r,read,1000,,,,,,,,,120,,,", r"column 'read_share': '120'; expected per cent of reads"),
        ("a,r,read,1000,,,,,,,,,,-1,,", r"column 'rate_cap_iops': '-1'; expected I/Os per second"),
        ("a,r,read,1000,,,,,,,,,,,250,", r"column 'usr_cpu': '250'; expected per cent of one core"),
        ("a,r,read,1000,,,,2,fast,,,,,,,", r"column 'lat_mean_sd_us': 'fast'; expected a"),
    ],
)
def test_errors_of_summaries_name_row_and_column(row: str, fact: str) -> None:
    with pytest.raises(FormatError, match=fact):
        read_table(f"{SUMMARY}{row}\n".encode())


def test_errors_of_mapped_columns_name_the_table_s_own() -> None:
    content = b"pool,rw,bs,Mean IOPS,p99 us\nrep3,randread,4k,many,5\n"
    with pytest.raises(FormatError, match=r"line 2, column 'mean iops': 'many'; expected a number"):
        read_table(content, columns=guessed(content))
    content = b"pool,rw,bs,iops,p99 us\nrep3,randread,4k,1,slow\n"
    with pytest.raises(FormatError, match=r"line 2, column 'p99 us': 'slow'; expected a number"):
        read_table(content, columns=guessed(content))
    with pytest.raises(FormatError, match="there is no column 'pol', which is to be 'target'"):
        guessed(content, {"target": "pol"})


def test_rows_that_differ_in_an_unread_column_are_not_trials() -> None:
    content = b"pool,rw,bs,iops,note\nrep3,randread,4k,1000,plain\nrep3,randread,4k,900,luks\n"
    with pytest.raises(FormatError, match=r"lines 2 and 3 .* differ in the column 'note'") as error:
        read_table(content, columns=guessed(content))
    assert "of two systems: --columns 'target=pool+note'" in error.value.context
    both = read_table(content, columns=guessed(content, {"target": "pool+note"}))
    assert [one.target for one in both] == ["rep3 plain", "rep3 luks"]
    trials = read_table(content, columns=guessed(content, {"trial": "note"}))
    assert [one.target for one in trials] == ["rep3", "rep3"]


def test_unknown_metrics_of_a_long_table_are_noted() -> None:
    content = (
        b"pool,rw,bs,metric,value,unit\nrep3,randread,4k,iops,1000,1/s\n"
        b"rep3,randread,4k,p99,5,ms\nrep3,randread,4k,joules,7,J\n"
    )
    (result,) = read_table(content, columns=guessed(content))
    assert job(result).operations[0].metrics()[Metric.LATENCY_P99] == pytest.approx(0.005)
    (note,) = output(result).notes
    assert (note.where, note.fact) == (
        "line 4, column 'metric'", "'joules J' is no known figure and is left out (1 rows)"
    )  # fmt: skip


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
