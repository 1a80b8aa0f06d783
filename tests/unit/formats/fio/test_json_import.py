from __future__ import annotations

import orjson
import pytest

from leadline.formats.fio.json_import import IMPORTER
from leadline.formats.importer import Result
from leadline.formats.result import EngineOutput, FormatError, NoteKind
from leadline.metrics import Op
from tests.conftest import RECORDED, ROOT

FILES = ROOT / "tests" / "recorded" / "imports" / "fio-json"
OWN = (RECORDED / "randread-4k-qd1" / "fio.json").read_bytes()

REFUSED = (
    b"<node-a> error: failed to setup shm segment\n"
    b'{"fio version": "fio-3.43", "global options": {}, "client_stats": [], "disk_util": []}'
)


def recorded(name: str) -> bytes:
    return (FILES / f"{name}.json").read_bytes()


def read(content: bytes, name: str = "x.json", **logs: bytes) -> tuple[Result, ...]:
    return IMPORTER.read({name: content, **{f"x_{log}.log": text for log, text in logs.items()}})


def output(result: Result) -> EngineOutput:
    assert isinstance(result.output, EngineOutput)
    return result.output


def document(*jobs: dict[str, object], **more: object) -> bytes:
    return orjson.dumps({"fio version": "fio-3.33", "jobs": jobs, **more})


def job(name: str, ios: int = 1000, runtime_ms: int = 10_000) -> dict[str, object]:
    return {
        "jobname": name,
        "error": 0,
        "job options": {"rw": "randread", "bs": "4k"},
        "read": {"total_ios": ios, "io_bytes": 4096 * ios, "runtime": runtime_ms, "iops": 100.0},
    }


@pytest.mark.parametrize("path", sorted(FILES.glob("*.json")), ids=lambda path: path.name)
def test_every_recorded_file_is_recognised_whatever_it_is_called(path: object) -> None:
    content = (FILES / str(path)).read_bytes()
    assert IMPORTER.recognises("-", content[: 64 << 10])


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("a.json", b""),
        ("a.json", b"\n \n"),
        ("a.json", b'{\n  "fio'),
        ("a.json", b"\xef\xbb\xbf{"[:3]),
        ("a.json", b"\nfio: terminating on signal 2\n"),
        ("a.json", b"fio: io_u error on file x: Connection timed out: write offset=1\n" * 900),
        ("reads-100-0", b'>{ "fio version" : "fio-3.12"'),
        ("02", b'Warning: Permanently added\r\n{\r\n "fio version" : "fio-3.33"'),
        ("a.txt", b'[{"fio version": "fio-3.1"}, {"fio version": "fio-3.1"}]'),
        ("a.txt", b'{"jobs": [{"jobname": "a", "iodepth_level": {}'),
    ],
)
def test_what_fio_left_is_recognised(name: str, head: bytes) -> None:
    assert IMPORTER.recognises(name, head)


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("a.txt", b""),
        ("a.json", b"{}"),
        ("a.json", b"{"),
        ("a.json", b'{"pgmap": {"num_pgs": 1}, "jobs": 3}'),
        ("a.json", b'{"jobs": [{"name": "ci"}]}'),
        ("a.out", b"fio: io_u error on file x: Connection timed out"),
        ("a.json", b'{"storageClass": "x", "result": {"fio version": "fio-3.20"}}'),
        ("a.log", b'= Dbench Summary =\n{ "fio version" : "fio-3.13"'),
        ("a.txt", b"{'head': '{\\n  \"fio version\" : \"fio-3.33\"'}"),
    ],
)
def test_what_others_left_is_not(name: str, head: bytes) -> None:
    assert not IMPORTER.recognises(name, head)


def test_a_result_is_bundled_with_the_logs_next_to_it() -> None:
    names = (
        *("d/x.json", "d/x_iops.1.log", "d/x_clat.2.log", "d/x_lat.log", "d/x.out"),
        *("x_iops.1.log", "y", "y_bw.1.log", "z.txt", "d/x_clat_hist.1.log", "e/x_iops.1.log"),
    )
    assert IMPORTER.bundles(names) == (
        ("d/x.json", "d/x_clat.2.log", "d/x_iops.1.log", "d/x_lat.log"),
        ("d/x.out",),
        ("x_iops.1.log",),
        ("y", "y_bw.1.log"),
        ("z.txt",),
        ("d/x_clat_hist.1.log",),
        ("e/x_iops.1.log",),
    )


def test_each_job_name_is_a_result_and_all_are_known_to_each() -> None:
    results = read(recorded("kbench-3.16-samsung_850_pro_512gb-raw-block-benchmark"))
    assert [result.workload for result in results] == [
        *("read-rand-iops", "write-rand-iops", "read-rand-bw", "write-rand-bw"),
        *("read-rand-lat", "write-rand-lat", "read-seq-iops", "write-seq-iops"),
        *("read-seq-bw", "write-seq-bw", "read-seq-lat", "write-seq-lat"),
    ]
    last = output(results[-1])
    assert [entry.name for entry in last.jobs] == ["write-seq-lat"]
    assert last.jobs[0].operations[0].iops == 85800.509975
    assert results[-1].together is not None
    assert len(results[-1].together.jobs) == 12
    assert last.disks == ()
    assert len(results[-1].together.disks) == 1


def test_processes_of_one_name_are_one_result() -> None:
    (result,) = read(document(job("a"), job("a"), job("a")))
    assert (result.workload, result.together) == ("a", None)
    assert len(output(result).jobs) == 3


def test_a_job_without_a_name_is_called_by_what_it_does() -> None:
    (result,) = read(document(job("")))
    assert result.workload == "randread-4k"


def test_a_note_is_by_the_job_that_it_speaks_of() -> None:
    jobs = [{**job(f"job {number}")} for number in range(12)]
    jobs[1]["odd"] = 1
    jobs[10]["job options"] = {"rw": ["read"]}
    results = read(document(*jobs, strange=1))
    reported = {
        result.workload: [note.where for note in output(result).notes] for result in results
    }
    assert reported["job 0"] == ["$.strange"]
    assert reported["job 1"] == ["$.strange", "$.jobs[1].odd"]
    assert reported["job 10"] == ["$.strange", "$.jobs[10]['job options'].rw"]


def test_several_executions_in_one_file_are_results_of_their_own() -> None:
    content = OWN + b"\nsecond run:\n" + OWN
    first, second = read(content)
    assert output(first).jobs == output(second).jobs
    assert output(second).noise == "second run:"


def test_a_whole_execution_before_a_cut_one_is_kept() -> None:
    whole, cut = read(OWN + OWN[:5000])
    assert output(whole).jobs[0].operations
    assert isinstance(cut.output, FormatError)
    assert (cut.workload, cut.output.condition) == ("", "truncated-result")


def test_interim_states_of_an_execution_are_no_repeats() -> None:
    def state(second: int, name: str = "a") -> bytes:
        entry = job(name, 100 * second, 1000 * second)
        return document(entry, timestamp_ms=1_700_000_000_000 + 1000 * second)

    (only,) = read(state(1) + state(2) + state(3))
    assert output(only).jobs[0].operations[0].total_ios == 300
    assert [(note.kind, note.where) for note in output(only).notes] == [(NoteKind.LEFT_OUT, "$")]
    assert len(read(state(1) + state(2, "b"))) == 2
    again = document(job("a", 300, 3000), timestamp_ms=1_700_000_007_000)
    assert len(read(state(3) + again)) == 2, "another run of the same length"


@pytest.mark.parametrize(
    ("content", "condition"),
    [
        (b"", "empty-result"),
        (b"\nfio: terminating on signal 2\n", "truncated-result"),
        (OWN[:3000], "truncated-result"),
        (
            REFUSED,
            "empty-result",
        ),
    ],
)
def test_what_was_killed_is_one_result_that_says_so(content: bytes, condition: str) -> None:
    (result,) = read(content)
    assert isinstance(result.output, FormatError)
    assert (result.workload, result.output.condition) == ("", condition)


@pytest.mark.parametrize(
    "content",
    [b"hello", b'{"fio version": 7}', OWN + b'{"jobs": [}]', OWN.replace(b'"iops" : ', b'"iops" ')],
)
def test_what_is_not_understood_is_refused_with_its_position(content: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        read(content)
    assert "line" in caught.value.context[0] or "$" in caught.value.context[0]


def test_iops_over_time_come_from_the_log_of_a_job_that_is_alone() -> None:
    log = b"".join(b"%d, %d, 0, 0\n" % (1000 * second, 50 + second) for second in range(1, 6))
    (result,) = read(document(job("a")), **{"iops.1": log, "iops.2": log, "clat.1": b"x"})
    assert [window.value for window in result.windows[Op.READ]] == [102, 104, 106, 108, 110]
    assert output(result).notes == ()
    assert not read(document(job("a"), job("b")), **{"iops.1": log})[0].windows


def test_a_log_that_is_not_read_is_reported() -> None:
    log = b"1000, 50, 0, 0\nwhat\n"
    (result,) = read(document(job("a")), **{"iops.1": log})
    (note,) = output(result).notes
    assert (note.kind, note.where) == (NoteKind.LEFT_OUT, "x_iops.1.log")
    assert "line 2" in note.fact
    first, _ = read(document(job("a")) * 2, **{"iops.1": b"1000, 50, 0, 0\n"})
    assert [note.where for note in output(first).notes] == ["x_iops.1.log"]
