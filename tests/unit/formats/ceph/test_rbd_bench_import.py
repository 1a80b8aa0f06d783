from __future__ import annotations

import pytest

from leadline.formats.ceph.rbd_bench import IMPORTER, read_results
from leadline.formats.importer import Result
from leadline.formats.result import EngineOutput, FormatError, JobResult, NoteKind
from leadline.metrics import Op
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "ceph-bench"
WRITE = (RECORDED / "rbd_bench_write_4k_rand.txt").read_bytes()
MIXED = (RECORDED / "rbd_bench_rw70_4k_rand.txt").read_bytes()
OLD = (ROOT / "tests/recorded/imports/rbd-bench/bench-write.log").read_bytes()


def job(result: Result) -> JobResult:
    assert isinstance(result.output, EngineOutput)
    (only,) = result.output.jobs
    return only


def test_a_write() -> None:
    (result,) = read_results(WRITE)
    (write,) = job(result).operations
    assert (write.op, write.iops, write.total_ios) == (Op.WRITE, 503.607, 3072)
    assert write.total is None
    raw = job(result).options.raw
    assert (raw["rw"], raw["bs"], raw["iodepth"]) == ("randwrite", "4096", "8")
    assert (raw["io_size"], raw["ioengine"]) == ("12582912", "rbd-bench")
    assert not job(result).options.whole
    assert [w.value for w in result.windows[Op.WRITE]] == [392, 496, 504, 544, 496, 576]
    assert isinstance(result.output, EngineOutput)
    assert result.output.notes == ()


def test_before_kraken() -> None:
    (result,) = read_results(OLD)
    (write,) = job(result).operations
    assert (write.iops, write.bandwidth_bps, write.total_ios) == (4000.0, 4000.0 * 4096, 40000)
    assert (job(result).options.pattern, job(result).options.iodepth) == ("write", 16)
    assert [window.value for window in result.windows[Op.WRITE]] == [4000] * 9
    assert isinstance(result.output, EngineOutput)
    assert "bench-write img" in result.output.noise


def test_several_in_one_file_with_others_words_between() -> None:
    both = b"$ rbd bench a\n" + WRITE + b"\n$ rbd bench b\n" + MIXED + b"$ exit\n"
    first, second = read_results(both)
    assert [one.op for one in job(second).operations] == [Op.READ, Op.WRITE]
    assert isinstance(first.output, EngineOutput)
    assert isinstance(second.output, EngineOutput)
    assert (first.output.noise, second.output.noise) == ("$ rbd bench a", "$ rbd bench b")
    (note,) = second.output.notes
    assert (note.kind, note.where) == (NoteKind.LEFT_OUT, "line 21")


def test_the_lines_are_those_of_the_file() -> None:
    broken = WRITE + MIXED.replace(b"    2      1896", b"    2        96")
    with pytest.raises(FormatError, match="line 13"):
        read_results(broken)


def test_a_summary_is_missing() -> None:
    (result,) = read_results((RECORDED / "rbd_bench_signalled_twice.txt").read_bytes())
    assert isinstance(result.output, FormatError)
    assert result.output.condition == "truncated-result"


@pytest.mark.parametrize(
    "content",
    [
        (RECORDED / "rbd_bench_json_attempt.txt").read_bytes(),
        WRITE.replace(b"    6      3008", b"    ...\n    6      3008"),
        # Rates that are no number, and seconds that would fill the memory.
        WRITE.replace(b"ops/sec: 503.607", b"ops/sec: " + b"9" * 400),
        WRITE.replace(b"    6      3008", b"999999999  3008"),
        WRITE.replace(
            b"elapsed: 6   ops: 3072   ops/sec: 503.607   bytes/sec: 2.0 MiB/s",
            b"elapsed: 99999999   ops: 1   ops/sec: 1e-8   bytes/sec: 0 B/s",
        ),
    ],
)
def test_what_is_not_understood_is_refused(content: bytes) -> None:
    with pytest.raises(FormatError) as refused:
        read_results(content)
    assert refused.value.condition == "unreadable-result"


def test_an_empty_file() -> None:
    (result,) = read_results(b"")
    assert isinstance(result.output, FormatError)
    assert result.output.condition == "empty-result"


def test_what_is_recognised() -> None:
    assert all(IMPORTER.recognises("x", one) for one in (WRITE, MIXED, OLD))
    assert not any(IMPORTER.recognises("x", one) for one in (b"", b"bench type", b"hints = 1\n"))
