"""Images behind qemu-nbd: what a machine lacks is refused by name, and nothing else is removed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from leadline import errors
from leadline.archive.records import Created
from leadline.connect import programs
from leadline.engines.fio.local import FioEngine
from leadline.errors import LeadlineError
from leadline.plan.rules import engine_faults
from leadline.plan.target_url import parse_target_url
from leadline.plan.workload import EngineChoice, Phase, Workload
from leadline.runner.ports import NbdExport
from leadline.targets import rbd_by_nbd
from leadline.targets.rbd_by_nbd import remove_served_image, require_possible
from tests.unit.targets.journals import OTHER, TOKEN

# What qemu-nbd 7.2 prints for an image with an option too few.
PLAIN = "qemu-nbd: Failed to blk_new_open 'driver=rbd': Parameter 'pool' is missing"
ENCRYPTED = "qemu-nbd: Failed to blk_new_open: Parameter 'encrypt.key-secret' is missing"
OLD = "qemu-nbd: Failed to blk_new_open: Parameter 'format' does not accept value 'luks2'"
NO_DRIVER = "qemu-nbd: Failed to blk_new_open 'driver=rbd': Unknown driver 'rbd'"
PLACE = NbdExport(
    pool="rep3",
    image="leadline-r-t",
    socket=Path("/tmp/leadline-t/nbd.sock"),
    server=1,
    settings=(("rbd_cache", "false"),),
    encryption="luks2",
)


def machine(
    monkeypatch: pytest.MonkeyPatch,
    *,
    qemu: str | None,
    engines: str = "rbd nbd",
    rbd: int = 0,
) -> None:
    """A machine whose programs answer so; without `qemu` there is no qemu-nbd."""
    answers: Mapping[str, tuple[int, str, str]] = {
        "qemu-nbd": (1, "", qemu or ""),
        "fio": (0, f"Available IO engines:\n{engines}", ""),
        "rbd": (rbd, "", ""),
    }
    monkeypatch.setattr(programs, "find", lambda name: None if qemu is None else name)
    monkeypatch.setattr(programs, "run", lambda name, *words, bound_s: answers[name])


def test_a_machine_with_everything_serves_both(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, qemu=PLAIN, rbd=1)
    require_possible("", [])
    machine(monkeypatch, qemu=ENCRYPTED)
    require_possible("luks2", [])


@pytest.mark.parametrize(
    ("qemu", "engines", "rbd", "missing"),
    [
        (None, "rbd nbd", 0, "no 'qemu-nbd' (qemu-utils)"),
        (NO_DRIVER, "rbd nbd", 0, "QEMU has no driver for RBD (qemu-block-extra)"),
        (OLD, "rbd nbd", 0, "does not accept value 'luks2'"),
        (ENCRYPTED, "rbd", 0, "this fio has no engine 'nbd'"),
        (ENCRYPTED, "rbd nbd", 1, "this rbd has no `rbd encryption format`"),
    ],
)
def test_what_a_machine_lacks_is_named(
    qemu: str | None, engines: str, rbd: int, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, qemu=qemu, engines=engines, rbd=rbd)
    with pytest.raises(LeadlineError) as caught:
        require_possible("luks2", ["target 'x'"])
    assert caught.value.kind is errors.IMAGE_NOT_MAPPED
    (line,) = [line for line in caught.value.context if missing in line]
    assert line


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({}, ""),
        ({"numjobs": 8}, ""),
        ({"iodepth": 17}, "use numjobs for more"),
        ({"iodepth": 64, "rate_iops": 100.0}, ""),
    ],
)
def test_a_depth_that_would_not_be_in_flight_is_refused(
    changes: Mapping[str, float], fault: str
) -> None:
    fields = {"name": "p", "pattern": "randread", "block_size": 4096, "size": 1 << 20}
    phase = Phase.model_validate({**fields, "iodepth": 16, "numjobs": 1, **changes})
    workload = Workload(name="w", phases=(phase,), runtime_s=1.0)
    url = parse_target_url("rbd:rep3?encryption=luks2")
    assert [fault in one for one in engine_faults(workload, url)] == [True] * bool(fault)
    assert not list(engine_faults(workload, parse_target_url("rbd:rep3")))
    bench = workload.model_copy(update={"engine": EngineChoice.RBD_BENCH})
    assert "rbd bench" in next(engine_faults(bench, url))
    many = workload.model_copy(update={"clients": 2})
    assert "has one fio" in next(engine_faults(many, url))


def test_the_command_names_the_socket_and_the_job_the_path() -> None:
    engine = FioEngine()
    assert engine.where(PLACE) == ["--uri=nbd+unix:///?socket=/tmp/leadline-t/nbd.sock"]
    assert engine.client_comments(PLACE) == [
        "# client: rbd_cache = false",
        "# path: NBD on a Unix socket, qemu-nbd, librbd",
        "# encryption: luks2",
    ]


@pytest.mark.parametrize(
    ("image", "token"),
    [
        *(("leadline-r-0123", "4567"), ("x-../../etc", "../../etc"), ("vm-1", "vm-1")),
        *((f"leadline-r-{TOKEN}", OTHER), (f"leadline-other-{TOKEN}", TOKEN)),
        *((f"x-{TOKEN}", TOKEN), ("leadline-r-", ""), (f"x/leadline-r-{TOKEN}.log", TOKEN)),
    ],
)
def test_a_name_that_is_none_of_leadlines_is_kept(
    image: str, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(token: str) -> tuple[str, ...]:
        raise AssertionError(token)

    monkeypatch.setattr(rbd_by_nbd, "stop_server", refuse)
    created = Created(target="t", cluster="c", path=f"nbd:rep3/{image}", token=token)
    (problem,) = remove_served_image(created, "r", None)
    assert "was kept" in problem


def test_a_folder_of_a_server_that_is_a_link_or_another_users_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, link = tmp_path / "mine", tmp_path / "link"
    mine.mkdir()
    (mine / rbd_by_nbd.SOCKET).write_text("precious")
    link.symlink_to(mine)
    monkeypatch.setattr(rbd_by_nbd, "served_folder", lambda token: tmp_path / token)
    assert "could not be removed" in rbd_by_nbd.stop_server("link")[0]
    with monkeypatch.context() as other:
        other.setattr(rbd_by_nbd.os, "geteuid", lambda: mine.stat().st_uid + 1)
        assert "belongs to another user" in rbd_by_nbd.stop_server("mine")[0]
    assert (mine / rbd_by_nbd.SOCKET).read_text() == "precious"
    assert rbd_by_nbd.stop_server("mine") == ()
    assert not mine.exists()
    assert rbd_by_nbd.stop_server("mine") == ()
