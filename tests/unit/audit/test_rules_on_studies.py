"""Rules for what people publish: writes of the page cache, limits, caches, names and logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leadline.audit.evidence import Place, TrialEvidence
from leadline.audit.registry import audit
from leadline.audit.rules.name_contradicts_work import words_of
from leadline.findings import Finding, Severity
from leadline.formats.fio.logs import Window
from leadline.formats.result import DiskUse, JobResult
from leadline.metrics import Op
from leadline.plan.workload import Pattern
from tests.unit.audit.audit_archives import Stored, build, cell
from tests.unit.audit.published import ask, audit_output, audited, done, job, of, output, row

# --- buffered-writes -----------------------------------------------------------------------------


def buffered(half_s: float, **options: str) -> JobResult:
    """4 KiB writes without direct I/O, by psync unless another engine is given."""
    wrote = done(Op.WRITE, iops=20_000.0, mean_s=5e-5, percentiles={0.5: half_s})
    return job(replace(wrote, io_bytes=1 << 30), **({"rw": "write", "bs": "4k"} | options))


def test_buffered_writes_fires_on_copies_in_memory() -> None:
    (found,) = of("buffered-writes", audit_output(output(buffered(3e-6))))
    assert found.severity is Severity.WARNING
    assert "at most 3 us" in found.message.replace("3.00", "3")


def test_buffered_writes_fires_on_what_the_disks_did_not_write() -> None:
    disk = DiskUse(name="sda", read_ios=9, write_ios=9, write_bytes=1 << 20)
    slow = buffered(1e-4)
    (found,) = of("buffered-writes", audit_output(output(slow, disks=(disk,))))
    assert found.severity is Severity.WARNING
    assert found.evidence["disk_share"] == pytest.approx(1 / 1024)
    # Without a proof the share of the storage is unknown.
    (found,) = of("buffered-writes", audit_output(output(slow)))
    assert found.severity is Severity.INFO


@pytest.mark.parametrize(
    "options",
    [
        {"direct": "1"},
        {"fsync": "16"},
        {"fdatasync": "1"},
        {"end_fsync": "1"},
        {"sync": "1"},
        {"sync": "dsync"},
        {"verify": "crc32c"},
        {"ioengine": "rbd"},
        {"rw": "read"},
    ],
)
def test_buffered_writes_is_silent_where_writes_wait_for_storage(options: dict[str, str]) -> None:
    assert not of("buffered-writes", audit_output(output(buffered(3e-6, **options))))


def test_buffered_writes_fires_with_fsync_set_to_nothing() -> None:
    none = buffered(3e-6, fsync="0", sync="none")
    assert of("buffered-writes", audit_output(output(none)))


def test_buffered_writes_is_silent_where_the_options_are_unknown() -> None:
    table = replace(buffered(3e-6), options=replace(buffered(3e-6).options, whole=False))
    assert not of("buffered-writes", audit_output(output(table)))


# --- verify-failed -------------------------------------------------------------------------------


def test_verify_failed_fires_on_fios_error_and_is_its_only_finding() -> None:
    failed = replace(job(done(), rw="read", verify="crc32c"), error=84)
    assert [one.code for one in audit_output(output(failed))] == ["verify-failed"]


def test_verify_failed_fires_on_the_message_of_a_job_that_went_on() -> None:
    noise = "crc32c: verify failed at file data offset 5242880, length 65536 (requested block ...)"
    made = output(job(done(), rw="read", verify="crc32c"), noise=noise)
    (found,) = of("verify-failed", audit_output(made))
    assert "offset 5242880" in found.message


def test_verify_failed_is_silent_on_other_errors_and_on_success() -> None:
    for error in (0, 5, 28):
        made = replace(job(done(), rw="read", verify="crc32c"), error=error)
        assert not of("verify-failed", audit_output(output(made)))


# --- name-contradicts-work -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rw", "fact"),
    [
        ("random-read", "randwrite", "did writes, no reads"),
        ("seq_write_1M", "read", "did reads, no writes"),
        ("SeqWrite64k", "randwrite", "is random (rw=randwrite), not sequential"),
        ("4k-randread", "read", "is sequential (rw=read), not random"),
        ("readers", "write", "did writes, no reads"),
        ("randrw-70-30", "randread", "did only reads, not a mix"),
    ],
)
def test_name_contradicts_work_fires(name: str, rw: str, fact: str) -> None:
    op = Op.WRITE if rw.endswith("write") else Op.READ
    (found,) = of("name-contradicts-work", audit_output(output(job(done(op), name=name, rw=rw))))
    assert fact in found.message


@pytest.mark.parametrize(
    ("name", "rw"),
    [
        ("randread", "randread"),
        ("read-after-write", "randread"),
        ("write-cache-off-randread", "randread"),
        ("spread-threads", "randwrite"),
        ("rw_randread", "randread"),
        ("random-data-read", "read"),
        ("seq3", "randread"),
        ("job1", "randwrite"),
        ("SEQ1M-Q8-read", "read"),
    ],
)
def test_name_contradicts_work_is_silent(name: str, rw: str) -> None:
    op = Op.WRITE if rw.endswith("write") else Op.READ
    assert not of("name-contradicts-work", audit_output(output(job(done(op), name=name, rw=rw))))


def test_name_contradicts_work_is_silent_on_verification_and_unknown_orders() -> None:
    verified = job(done(Op.READ), name="write", rw="write", verify="md5")
    zoned = job(done(Op.READ), name="randread", rw="read", percentage_random="100")
    # One end of a sweep over the share of reads.
    swept = job(done(Op.READ), name="randrw", rw="randrw", rwmixread="100")
    for made in (verified, zoned, swept):
        assert not of("name-contradicts-work", audit_output(output(made)))


def test_words_of_names() -> None:
    assert words_of("kubestr_BLOCK_4K_readwrite").mixed
    assert words_of("SeqRead").orders == {"sequential"}
    assert words_of("rnd-writes").directions == {"write"}


# --- log-contradicts-result ----------------------------------------------------------------------


def logged(*rates: float, iops: float = 1000.0) -> list[Finding]:
    """A result of 60 s with a log of one-second windows."""
    windows = tuple(Window(second + 1.0, rate) for second, rate in enumerate(rates))
    trial = TrialEvidence(
        place=Place(), output=output(job(done(iops=iops), rw="read")), windows={Op.READ: windows}
    )
    return ask(trial, "log-contradicts-result")


def test_log_contradicts_result_fires_on_half_the_rate() -> None:
    (found,) = logged(*[500.0] * 60)
    assert found.evidence["log_iops"] == pytest.approx(500)
    assert found.op is Op.READ


@pytest.mark.parametrize(
    "rates",
    [
        [1000.0] * 60,
        [1000.0] * 57,  # the first and the last windows are missing
        [950.0, 1050.0] * 30,
        [2000.0] * 10,  # too few windows
    ],
)
def test_log_contradicts_result_is_silent(rates: list[float]) -> None:
    assert not logged(*rates)


def test_log_contradicts_result_is_silent_on_a_stall() -> None:
    """No window for 20 s; fio divides by the time since the last window."""
    before = [Window(second + 1.0, 1500.0) for second in range(20)]
    after = [Window(second + 41.0, 1500.0) for second in range(20)]
    trial = TrialEvidence(
        place=Place(),
        output=output(job(done(iops=1000.0), rw="read")),
        windows={Op.READ: (*before, *after)},
    )
    assert not ask(trial, "log-contradicts-result")


# --- flat-ceiling --------------------------------------------------------------------------------


def swept(folder: Path, *rates: tuple[int, int, float], pattern: str = "randread") -> list[Finding]:
    """Rows of a table: depth, block size in KiB and IOPS, with the latency of a full queue."""
    rows = [
        row(
            workload=f"q{depth}-{block}k",
            op="read" if "read" in pattern else "write",
            pattern=pattern,
            block_size=f"{block}k",
            numjobs=1,
            iodepth=depth,
            runtime_s=60,
            engine="libaio",
            iops=iops,
            bw_mib_s=iops * block / 1024,
            lat_mean_ms=1e3 * depth / iops,
        )
        for depth, block, iops in rates
    ]
    return of("flat-ceiling", audited(folder, *rows))


def test_flat_ceiling_fires_on_one_rate_at_every_depth(tmp_path: Path) -> None:
    (found,) = swept(tmp_path, (1, 4, 499.2), (128, 4, 495.9))
    assert found.severity is Severity.WARNING
    assert (found.evidence["fewest_in_flight"], found.evidence["most_in_flight"]) == (1, 128)


def test_flat_ceiling_fires_with_the_name_of_a_round_limit(tmp_path: Path) -> None:
    (found,) = swept(tmp_path, (1, 4, 499.2), (16, 4, 500.1), (128, 4, 499.9))
    assert "A limit of 500 IOPS" in found.message


def test_flat_ceiling_fires_on_one_bandwidth_for_all_blocks(tmp_path: Path) -> None:
    rates = [(8, block, 117.0e6 / 1024 / block) for block in (16, 64, 256, 1024)]
    (found,) = swept(tmp_path, *rates)
    assert found.severity is Severity.WARNING
    assert "A 1 GbE link" in found.message


def test_flat_ceiling_fires_as_an_info_on_sequential_io(tmp_path: Path) -> None:
    rates = [(8, block, 200.0e6 / 1024 / block) for block in (16, 64, 256, 1024)]
    (found,) = swept(tmp_path, *rates, pattern="write")
    assert found.severity is Severity.INFO


@pytest.mark.parametrize(
    "rates",
    [
        [(1, 4, 1100.0), (128, 4, 5000.0)],  # more depth, more I/Os
        [(16, 4, 5000.0), (128, 4, 5001.0)],  # the maximum of the storage
        [(1, 4, 500.0), (4, 4, 500.0)],  # too near
        [(8, 64, 8000.0), (8, 256, 2000.0), (8, 1024, 500.0)],  # large blocks saturate
        [(1, 4, 500.0)],
    ],
)
def test_flat_ceiling_is_silent(tmp_path: Path, rates: list[tuple[int, int, float]]) -> None:
    assert not swept(tmp_path, *rates)


@pytest.mark.parametrize(("core", "found"), [(0.5, 1), (1.0, 0)])
def test_flat_ceiling_is_silent_on_a_client_without_cores(
    tmp_path: Path, core: float, found: int
) -> None:
    def stored(depth: int) -> Stored:
        def edit(document: dict[str, Any]) -> None:
            one = document["jobs"][0]
            one["job options"]["iodepth"] = str(depth)
            one["usr_cpu"], one["sys_cpu"] = 50 * core, 50 * core
            for key in ("lat_ns", "clat_ns"):
                factor = depth * 1e9 / one["read"]["iops"] / one["read"][key]["mean"]
                for name in ("min", "max", "mean"):
                    one["read"][key][name] *= factor

        return Stored("good-randread-qd16", edit=edit)

    cells = {"a": (cell("q1"), [stored(1)]), "b": (cell("q16"), [stored(16)])}
    run = build(tmp_path / "run", cells)
    assert len(of("flat-ceiling", audit(run))) == found


def test_flat_ceiling_is_silent_where_the_depth_was_ignored(tmp_path: Path) -> None:
    rows = [
        row(workload=f"q{depth}", block_size="4k", numjobs=1, iodepth=depth, runtime_s=60,
            engine="psync", iops=9000, lat_mean_ms=0.11)
        for depth in (1, 32)
    ]  # fmt: skip
    assert not of("flat-ceiling", audited(tmp_path, *rows))


# --- host-cache ----------------------------------------------------------------------------------


def at_depth_1(seconds: float, op: str) -> Stored:
    """A result at depth 1 with that mean latency, from a real one."""

    def edit(document: dict[str, Any]) -> None:
        one = document["jobs"][0]
        one["job options"].update({"rw": f"rand{op}", "iodepth": "1", "direct": "1"})
        read = one["read"]
        for key in ("lat_ns", "clat_ns"):
            factor = seconds * 1e9 / read[key]["mean"]
            for name in ("min", "max", "mean"):
                read[key][name] *= factor
            read[key].pop("bins", None)
        if op == "write":
            one["write"], one["read"] = one["read"], one["write"]

    return Stored("good-randread-qd1", edit=edit)


def caches(folder: Path, read_s: float, write_s: float) -> list[Finding]:
    cells = {
        "r": (cell("reads"), [at_depth_1(read_s, "read")]),
        "w": (cell("writes", pattern=Pattern.RANDWRITE), [at_depth_1(write_s, "write")]),
    }
    return of("host-cache", audit(build(folder / "run", cells)))


@pytest.mark.parametrize(("read_s", "write_s", "op"), [(8e-3, 4e-5, "write"), (1e-4, 2e-2, "read")])
def test_host_cache_fires_on_a_factor_of_a_hundred(
    tmp_path: Path, read_s: float, write_s: float, op: str
) -> None:
    (found,) = caches(tmp_path, read_s, write_s)
    assert found.op is Op(op)
    assert found.evidence["ratio"] == pytest.approx(200, rel=0.01)


def test_host_cache_is_silent_on_media(tmp_path: Path) -> None:
    assert not caches(tmp_path, 8e-3, 2e-3)


# --- cache-served-reads: read-ahead and remote re-reads ------------------------------------------


def read_at_depth_1(folder: Path, sequential_s: float, target: str = "disk") -> list[Finding]:
    def edit(seconds: float, rw: str) -> Stored:
        stored = at_depth_1(seconds, "read")

        def edited(document: dict[str, Any]) -> None:
            assert stored.edit is not None
            stored.edit(document)
            document["jobs"][0]["job options"]["rw"] = rw

        return Stored("good-randread-qd1", edit=edited)

    cells = {
        "random": (cell("random", target=target), [edit(8e-4, "randread")]),
        "sequential": (
            cell("sequential", pattern=Pattern.READ, target=target),
            [edit(sequential_s, "read")],
        ),
    }
    found = of("cache-served-reads", audit(build(folder / "run", cells)))
    return [one for one in found if "random_latency_mean_s" in one.evidence]


def test_cache_served_reads_fires_on_read_ahead_over_a_network(tmp_path: Path) -> None:
    (found,) = read_at_depth_1(tmp_path, 1e-4, target="ceph-rbd")
    assert found.severity is Severity.WARNING
    assert "read ahead" in found.message


def test_cache_served_reads_fires_as_an_info_on_a_drives_own_read_ahead(tmp_path: Path) -> None:
    (found,) = read_at_depth_1(tmp_path, 1e-4)
    assert found.severity is Severity.INFO


def test_cache_served_reads_is_silent_on_nearly_equal_reads(tmp_path: Path) -> None:
    assert not read_at_depth_1(tmp_path, 4e-4, target="ceph-rbd")


def test_cache_served_reads_fires_as_an_info_on_remote_rereads() -> None:
    options = {"rw": "randread", "bs": "4k", "ioengine": "rbd", "size": "1G"}
    read = replace(done(iops=9000.0, mean_s=1e-4), io_bytes=11 << 30, runtime_s=60.0)
    (found,) = of("cache-served-reads", audit_output(output(job(read, **options))))
    assert found.severity is Severity.INFO
    assert "11 times over" in found.message
    once = replace(read, io_bytes=2 << 30)
    assert not of("cache-served-reads", audit_output(output(job(once, **options))))
