from __future__ import annotations

import json

import pytest

from leadline.formats.fio.json_import import IMPORTER as FIO
from leadline.formats.foreign.benchmark_operator import IMPORTER, parse_documents
from leadline.formats.result import FormatError, summed
from leadline.metrics import Op
from tests.unit.formats.foreign.samples import IMPORTS, output_of, refused

DUMP = (IMPORTS / "benchmark-operator" / "dump.json").read_bytes()
HITS = [json.loads(line) for line in DUMP.splitlines()]
DOCUMENTS = [hit["_source"] for hit in HITS]


def test_documents_of_one_execution_are_one_result_of_two_clients() -> None:
    results = parse_documents(DUMP)
    assert [result.workload for result in results] == ["randread", "randread", "randwrite"]
    assert {result.cluster for result in results} == {"lab-a"}
    first = output_of(results[0])
    assert {job.host for job in first.jobs} == {"127.0.0.1:8771", "127.0.0.1:8772"}
    read = summed(Op.READ, [job.operations[0] for job in first.jobs])
    # The document "All clients" has the sum.
    total = next(
        document["fio"] for document in DOCUMENTS if document["fio"]["jobname"] == "All clients"
    )
    assert read.iops == pytest.approx(total["read"]["iops"], rel=0.001)
    assert read.io_bytes == total["read"]["io_bytes"]
    assert first.version == "fio-3.33"


def test_figures_are_those_of_the_document() -> None:
    job = output_of(parse_documents(DUMP)[0]).jobs[0]
    (read,) = job.operations
    figures = DOCUMENTS[0]["fio"]["read"]
    assert (read.iops, read.bandwidth_bps) == (figures["iops"], figures["bw_bytes"])
    assert read.total is not None
    assert read.total.mean_s == pytest.approx(figures["lat_ns"]["mean"] * 1e-9)
    assert (job.options.pattern, job.options.iodepth, job.options.numjobs) == ("randread", 4, 1)
    assert (job.options.direct, job.options.size("bs")) == (True, 4096)


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(HITS).encode(),
        json.dumps({"took": 3, "hits": {"total": 10, "hits": HITS}}).encode(),
        b"".join(json.dumps(document).encode() + b"\n" for document in DOCUMENTS),
        b"\n".join(reversed(DUMP.splitlines())),
    ],
    ids=["list", "search", "documents", "reversed"],
)
def test_every_form_of_a_dump_gives_the_same_figures(content: bytes) -> None:
    assert IMPORTER.recognises("any", content[: 64 << 10])

    def figures(content: bytes) -> set[float | None]:
        return {
            operation.iops
            for result in parse_documents(content)
            for job in output_of(result).jobs
            for operation in job.operations
        }

    assert figures(content) == figures(DUMP)
    assert len(figures(DUMP)) == 6


def test_documents_without_a_result_are_noted() -> None:
    first, *_ = parse_documents(DUMP)
    assert [note.where for note in output_of(first).notes][-1] == "line 10._source"
    assert "1 documents" in output_of(first).notes[-1].fact


def test_an_execution_that_is_broken_leaves_the_others() -> None:
    documents = json.loads(json.dumps(DOCUMENTS))
    documents[0]["fio"]["read"] = "none"
    results = parse_documents(json.dumps(documents).encode())
    assert refused(results[0]).condition == "unreadable-result"
    assert [result.workload for result in results[1:]] == ["randread", "randwrite"]


@pytest.mark.parametrize(
    ("content", "condition", "fact"),
    [
        (b"\n", "empty-result", "empty"),
        (DUMP.splitlines()[-1], "empty-result", "no document"),
        (DUMP[:-40], "truncated-result", "cut off"),
        (DUMP.replace(b'"_score":1', b'"_score":x', 1), "unreadable-result", "line 1"),
        (b"[1]", "unreadable-result", "no document of benchmark-operator"),
        (b'["\\"uuid\\"", 1, {"uuid": 1}]', "unreadable-result", "no document of Elasticsearch"),
    ],
)
def test_what_is_not_understood_is_refused(content: bytes, condition: str, fact: str) -> None:
    with pytest.raises(FormatError) as error:
        parse_documents(content)
    assert error.value.condition == condition
    assert fact in error.value.fact


def test_its_files_are_recognised() -> None:
    assert IMPORTER.recognises("any", DUMP)
    assert not IMPORTER.recognises("any", b'{"fio version": "fio-3.36"}')


def test_the_log_of_k8s_io_is_fio_json_behind_text() -> None:
    """k8s-io prints fio's own JSON between two lines (pkg/workloads/fio/results.go)."""
    own = {
        "fio version": "fio-3.33",
        "client_stats": [document["fio"] for document in DOCUMENTS[:3]],
    }
    text = b"FIO Result for a\n" + json.dumps(own).encode() + b"\nEND FIO Result for a\n"
    log = b"pulling image\n" + text + text
    assert FIO.recognises("log", log)
    first, second = FIO.read({"log": log})
    assert len(output_of(first).jobs) == len(output_of(second).jobs) == 2
    assert output_of(first).jobs[0].operations[0].iops == DOCUMENTS[0]["fio"]["read"]["iops"]
