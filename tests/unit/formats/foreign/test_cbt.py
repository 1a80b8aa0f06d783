from __future__ import annotations

import pytest
from hypothesis import given

from leadline.formats.foreign.cbt import IMPORTER, read_cbt
from leadline.formats.importer import Result
from leadline.formats.result import FormatError, NoteKind
from leadline.metrics import Op
from tests.conftest import ROOT
from tests.unit.formats.foreign.samples import IMPORTS, output_of, refused, spoiled

RECORDED = IMPORTS / "cbt"
CEPH = (RECORDED / "fioplot-3.6-ceph-ssd-first-randread-16-16.json").read_bytes()
INTEL = (RECORDED / "fioplot-3.14-intel-randread-16-16.json").read_bytes()
RADOS = (ROOT / "tests/recorded/ceph-bench/rados_bench_write_plain.txt").read_bytes()
RUN = "results/00000000/id-5b2e2a9f"
FOLDER = "op_size-00004096/concurrent_procs-002/iodepth-016/randread"
FIO = f"{RUN}/{FOLDER}"
BENCH = f"{RUN}/osd_ra-00004096/op_size-00065536/concurrent_ops-00000008/write"
CONFIG = b"cluster:\n  benchmark: librbdfio\n  iteration: 0\n  pool_profile: replicated\n"
TREE = {
    "results/cbt_config.yaml": b"cluster: {}\n",
    f"{RUN}/benchmark_config.yaml": CONFIG,
    f"{FIO}/output.0.client1": b"fio: some warning\n" + CEPH + b"\nand its text\n",
    f"{FIO}/json_output.0.client1": CEPH,
    f"{FIO}/json_output.0.client2": INTEL,
    f"{FIO}/output.0_iops.1.log.client1": b"1000, 5, 0, 0\n",
    f"{BENCH}/output.0.client1": RADOS,
    f"{BENCH}/json_output.0.client1": b'{"Total time run": "4.03873"}',
    f"{BENCH}/objecter.0.log.client1": b"",
}


def read(**changes: bytes) -> Result:
    """The result of the fio folder, with other contents for `client1` or `client2`."""
    tree = {name: content for name, content in TREE.items() if FIO in name or "benchmark" in name}
    for host, content in changes.items():
        tree[f"{FIO}/json_output.0.{host}"] = content
        if host == "client1":
            tree[f"{FIO}/output.0.{host}"] = content
    (result,) = read_cbt(tree)
    return result


def test_a_tree_falls_into_its_benchmarks_folders() -> None:
    assert IMPORTER.bundles(tuple(TREE)) == (
        (
            f"{FIO}/output.0.client1",
            f"{FIO}/json_output.0.client1",
            f"{FIO}/json_output.0.client2",
            f"{RUN}/benchmark_config.yaml",
        ),
        (
            f"{BENCH}/output.0.client1",
            f"{BENCH}/json_output.0.client1",
            f"{RUN}/benchmark_config.yaml",
        ),
    )


def test_all_clients_of_a_folder_are_one_result() -> None:
    result = read()
    jobs = output_of(result).jobs
    assert [job.host for job in jobs] == ["client1", "client2"]
    iops = [job.operations[0].iops for job in jobs]
    assert iops == pytest.approx([25544.536807, 52820.401293])
    assert jobs[0].operations[0].bandwidth_bps == 104630422
    assert (result.workload, result.target) == (FOLDER, "replicated")
    assert jobs[0].options.iodepth == 16


def test_different_versions_are_reported() -> None:
    kinds = [note.kind for note in output_of(read()).notes]
    assert NoteKind.UNKNOWN_VERSION in kinds
    alike = [note.kind for note in output_of(read(client2=CEPH)).notes]
    assert alike.count(NoteKind.UNKNOWN_VERSION) < kinds.count(NoteKind.UNKNOWN_VERSION)


@pytest.mark.parametrize(
    ("content", "condition"),
    [
        (b"", "empty-result"),
        (b"client2: Connection refused\n", "truncated-result"),
        (INTEL[:3000], "truncated-result"),
        (RADOS, "unreadable-result"),
    ],
)
def test_one_client_without_figures_spoils_the_result(content: bytes, condition: str) -> None:
    error = refused(read(client2=content))
    assert error.condition == condition
    assert error.context[0] == f"{FIO}/json_output.0.client2"


def test_rados_bench_is_read_from_its_text() -> None:
    names = [name for name in TREE if name.startswith(BENCH)]
    (result,) = IMPORTER.read({name: TREE[name] for name in names})
    (job,) = output_of(result).jobs
    (write,) = job.operations
    assert (write.op, write.total_ios, job.host) == (Op.WRITE, 1498, "client1")
    assert write.bandwidth_bps == pytest.approx(23.1818 * (1 << 20))
    assert (job.options.pattern, job.options.size("bs"), job.options.iodepth) == (
        *("write", 65536, 8),
    )
    assert result.workload == BENCH.removeprefix(f"{RUN}/")


def test_the_folder_reports_a_random_read_from_a_sequential_one() -> None:
    reads = RADOS.replace(b"writes", b"reads").replace(b"Write size", b"Read size")
    (result,) = read_cbt({f"{RUN}/op_size-00065536/rand/output.0.client1": reads})
    (job,) = output_of(result).jobs
    assert (job.operations[0].op, job.options.pattern) == (Op.READ, "randread")


def test_configurations_that_are_not_taken_are_reported() -> None:
    """Aliases are how a small file grows to fill the memory."""
    for config in (b"a: &a [x, x]\nb: [*a, *a]\n", b"{a", b"x" * 300_000, b"[" * 5000):
        tree = {f"{FIO}/json_output.0.client1": CEPH, f"{RUN}/benchmark_config.yaml": config}
        (result,) = read_cbt(tree)
        assert result.target == ""
        assert NoteKind.LEFT_OUT in [note.kind for note in output_of(result).notes]


def test_files_outside_of_a_tree() -> None:
    (result,) = read_cbt({"json_output.0.client1": CEPH})
    assert result.workload == "cbt"
    with pytest.raises(FormatError, match="no file is named"):
        read_cbt({"a.json": CEPH})


def test_its_files_are_recognised() -> None:
    assert IMPORTER.recognises(f"{FIO}/output.0.client1", b"")
    assert IMPORTER.recognises("json_output.3.node-1.example.com", b"")
    for name in ("output.0.client1", f"{FIO}/output.0_iops.1.log.client1", f"{RUN}/other.txt"):
        assert not IMPORTER.recognises(name, b"")


@given(spoiled(CONFIG))
def test_any_configuration_is_read_or_noted(content: bytes) -> None:
    tree = {f"{BENCH}/output.0.c": RADOS, f"{RUN}/benchmark_config.yaml": content}
    (result,) = read_cbt(tree)
    assert output_of(result).jobs
