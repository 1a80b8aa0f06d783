"""A block device is written only with a consent that names it, and never while it is in use."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leadline import errors
from leadline.archive.records import Created, RunStatus
from leadline.archive.runs import list_runs
from leadline.errors import LeadlineError
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.targets.device import DeviceTarget
from tests.real.conftest import Ended, fio_processes, sh

pytestmark = [pytest.mark.real, pytest.mark.root]
SHORT = (
    *("--profile", "quick", "--repeats", "1"),
    *("--runtime", "300ms", "--ramp", "0", "--size", "16M"),
)
# A protective MBR, as every GPT disk begins with: 0x55AA at the end of the first sector.
PROTECTIVE_MBR = (
    "import sys; disk = open(sys.argv[1], 'r+b'); disk.seek(446); "
    "disk.write(bytes.fromhex('000002 00 ee ffffff 01000000 ffff0300'.replace(' ', '')));"
    "disk.seek(510); disk.write(bytes([0x55, 0xAA]))"
)
Process = Callable[..., Ended]


def content(device: Path) -> bytes:
    with device.open("rb") as stream:
        return stream.read()


def refused(process: Process, device: Path, *consent: object) -> str:
    """The words of a refusal that left every byte alone."""
    before = content(device)
    ended = process("run", "--target", f"device:{device}", *SHORT, *consent)
    assert ended.status == 2, ended.err
    assert content(device) == before
    return ended.err


def test_without_consent_nothing_is_written(process: Process, loop_device: Path) -> None:
    assert "error[device-not-consented]" in refused(process, loop_device)


def test_consent_must_name_the_device_exactly(process: Process, loop_device: Path) -> None:
    said = refused(process, loop_device, "--destroy-data", "/dev/other")
    assert "error[usage]: consent was given for '/dev/other'" in said
    link = loop_device.parent / f"leadline-test-{os.getpid()}"
    link.symlink_to(loop_device)
    try:
        assert "error[usage]" in refused(process, loop_device, "--destroy-data", link)
    finally:
        link.unlink()


def test_a_device_that_the_kernel_holds_read_only_is_refused(
    process: Process, loop_device: Path
) -> None:
    sh("blockdev", "--setro", loop_device)
    try:
        ended = process(
            "run", "--target", f"device:{loop_device}", *SHORT, "--destroy-data", loop_device
        )
    finally:
        sh("blockdev", "--setrw", loop_device)  # it outlives the file that it is detached from
    assert ended.status == 3, ended.err
    assert "error[target-read-only]" in ended.err
    assert "is read-only" in ended.err


def test_a_mounted_device_is_refused_whatever_is_said(
    process: Process, loop_device: Path, mounted: Path
) -> None:
    consent = ("--destroy-data", loop_device, "--overwrite-signatures", loop_device)
    ended = process("run", "--target", f"device:{loop_device}", *SHORT, *consent)
    assert ended.status == 2
    assert "error[device-in-use]" in ended.err
    assert f"mounted at {mounted}" in ended.err
    assert (mounted / "lost+found").is_dir()


def test_a_device_held_by_another_is_refused(process: Process, loop_device: Path) -> None:
    held = os.open(loop_device, os.O_RDONLY | os.O_EXCL)
    try:
        said = refused(process, loop_device, "--destroy-data", loop_device)
    finally:
        os.close(held)
    assert "error[device-in-use]" in said
    assert "exclusively" in said


@pytest.mark.parametrize(
    ("make", "name"),
    [
        pytest.param(("mkfs.ext4", "-q"), "ext4", marks=pytest.mark.slow),
        (("mkswap",), "swap"),
        pytest.param(("python3", "-c", PROTECTIVE_MBR), "PMBR", marks=pytest.mark.slow),
    ],
)
def test_a_signed_device_needs_a_second_consent(
    process: Process, loop_device: Path, make: tuple[str, ...], name: str
) -> None:
    sh(*make, loop_device)
    said = refused(process, loop_device, "--destroy-data", loop_device)
    assert "error[device-signed]" in said
    assert name in said
    consent = ("--destroy-data", loop_device, "--overwrite-signatures", loop_device)
    ended = process("run", "--target", f"device:{loop_device}", *SHORT, *consent)
    assert ended.status in (0, 1), ended.err


def test_a_device_too_small_is_refused(process: Process, loop_device: Path) -> None:
    ended = process(
        "run", "--target", f"device:{loop_device}", "--profile", "quick", "--size", "1G",
        "--destroy-data", loop_device,
    )  # fmt: skip
    assert ended.status == 3
    assert "error[target-no-space]" in ended.err


def test_reading_alone_needs_no_consent_and_writes_nothing(
    process: Process, loop_device: Path, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        f"targets: [device:{loop_device}]\nrepeats: 1\nprefill: false\n"
        "workloads: [{name: r, pattern: randread, size: 16M, runtime: 300ms}]\n"
    )
    before = content(loop_device)
    ended = process("run", plan, "--format", "json")
    assert ended.status == 1, "reads of what was never written are refused by the audit"
    assert "unwritten-reads" in ended.out
    assert content(loop_device) == before


def test_a_file_and_a_missing_device_are_refused(process: Process, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", Path("/dev/leadline-nowhere")):
        ended = process("run", "--target", f"device:{path}", *SHORT, "--destroy-data", path)
        assert ended.status == 2
        assert "error[target-invalid]" in ended.err


# --- what comes between the looks and the first byte --------------------------------------------

# A program in PATH that does something before its call number $CALL, then is the real one.
MEDDLING = """#!/bin/sh
case "$*" in *{sign}*)
    echo call >>{folder}/calls
    if [ "$(wc -l <{folder}/calls)" -eq {call} ]; then {deed}; fi
esac
exec {program} "$@"
"""
# In the order of a session: of the host, before the device is acquired; on the device, before any
# write; and after the prefill of another target, before that of this one.
MOMENTS = {
    "before it is acquired": ("lsblk", "--json", 1),
    "before the test I/O": ("fio", "--name=try", 1),
    "before the prefill": ("wipefs", "--no-act", 3),
}


@pytest.fixture
def file_system(tmp_path: Path) -> Path:
    """An image of a file system with a file of a user's."""
    image, holds = tmp_path / "file-system.img", tmp_path / "holds"
    holds.mkdir()
    (holds / "thesis").write_bytes(b"a user's data..." * 1000)
    with image.open("wb") as stream:
        stream.truncate(8 << 20)
    sh("mkfs.ext4", "-q", "-m", "0", "-d", holds, image)
    return image


def meddled(
    process: Process, folder: Path, device: Path, moment: tuple[str, str, int], deed: str
) -> Ended:
    """Run on a device to which something is done at that moment."""
    program, sign, call = moment
    programs = folder / "programs"
    programs.mkdir()
    real = shutil.which(program)
    script = MEDDLING.format(sign=sign, folder=folder, call=call, deed=deed, program=real)
    (programs / program).write_text(script)
    (programs / program).chmod(0o755)
    ended = process(
        *("run", "--target", f"device:{device}", *SHORT, "--destroy-data", device),
        PATH=f"{programs}:{os.environ['PATH']}",
    )
    assert len((folder / "calls").read_text().split()) >= call, "the moment was reached"
    return ended


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_a_file_system_made_after_the_inspection_is_not_overwritten(
    process: Process,
    tmp_path: Path,
    loop_device: Path,
    file_system: Path,
    moment: tuple[str, str, int],
) -> None:
    write = f"dd if={file_system} of={loop_device} conv=notrunc,fsync status=none"
    ended = meddled(process, tmp_path, loop_device, moment, write)
    assert ended.status == 2, ended.err
    assert "error[device-signed]" in ended.err
    assert "carries ext4" in ended.err
    held = content(loop_device)
    assert held[: 8 << 20] == file_system.read_bytes()
    assert not any(held[8 << 20 :])
    (run,) = list_runs(tmp_path / "runs")
    assert run.manifest.status is RunStatus.INTERRUPTED
    assert run.left_behind == ()
    assert not fio_processes(loop_device)


DETACH = "losetup --noheadings --output NAME --associated {device} | xargs losetup --detach"


@pytest.mark.parametrize(
    ("moment", "deed", "undo", "said"),
    [
        ("before it is acquired", "losetup --find {device}", DETACH, "the backing device of"),
        ("before the test I/O", "losetup --find {device}", DETACH, "the backing device of"),
        ("before it is acquired", "mkswap {device}; swapon {device}", "swapoff {device}", "swap"),
        (
            "before it is acquired",
            "mkfs.ext4 -q {device}; mount {device} {folder}",
            "umount {device}",
            "mounted at",
        ),
        (
            "before it is acquired",
            "echo 0 1000 linear {device} 0 | dmsetup create {name}",
            "dmsetup remove {name}",
            "is part of dm-",
        ),
    ],
)
def test_a_device_that_comes_into_use_after_the_inspection_is_not_written(
    process: Process,
    tmp_path: Path,
    loop_device: Path,
    moment: str,
    deed: str,
    undo: str,
    said: str,
) -> None:
    if "dmsetup" in deed and subprocess.run(["dmsetup", "version"], capture_output=True).returncode:
        pytest.skip("no device mapper can be had here: its members do NOT get tested")
    folder = tmp_path / "mounted"
    folder.mkdir()
    words = {"device": loop_device, "folder": folder, "name": f"leadline-test-{os.getpid()}"}
    kept = tmp_path / "kept"
    deed = deed.format(**words)
    done = f"{{ {deed}; sync; cat {loop_device} >{kept}; }} >/dev/null 2>&1"
    try:
        ended = meddled(process, tmp_path, loop_device, MOMENTS[moment], done)
    finally:
        sh("sh", "-c", undo.format(**words))
    assert ended.status == 2, ended.err
    assert "error[device-in-use]" in ended.err
    assert said in ended.err
    if "mount" not in deed:  # a file system writes to itself
        assert content(loop_device) == kept.read_bytes()


def test_the_look_before_the_first_byte_is_repeated_for_the_held_device(
    nodes: tuple[Path, Path], file_system: Path
) -> None:
    disk, _ = nodes
    target = DeviceTarget(Target(name="t", url=f"device:{disk}"), (str(disk),), ())
    target.inspect(SPAN, prefill=True)
    target.acquire(SPAN, "run", _NoJournal())
    try:
        target.look_again()
        sh("dd", f"if={file_system}", f"of={disk}", "conv=notrunc,fsync", "status=none")
        before = content(disk)
        with pytest.raises(LeadlineError) as caught:
            target.look_again()
        assert caught.value.kind is errors.DEVICE_SIGNED
        sh("wipefs", "--all", "--quiet", "--force", disk)
        target.look_again()
        sh("blockdev", "--setro", disk)
        with pytest.raises(LeadlineError) as caught:
            target.look_again()
        assert caught.value.kind is errors.TARGET_READ_ONLY
    finally:
        sh("blockdev", "--setrw", disk)
        target.release()
    assert len(content(disk)) == len(before)


def test_a_signature_that_came_while_the_device_was_held_is_not_taken_for_our_own(
    nodes: tuple[Path, Path], file_system: Path
) -> None:
    """Held again by the same session, for another repeat: a program without O_EXCL can write."""
    disk, _ = nodes
    target = DeviceTarget(Target(name="t", url=f"device:{disk}"), (str(disk),), ())
    target.inspect(SPAN, prefill=True)
    target.acquire(SPAN, "run", _NoJournal())
    target.look_again()
    sh("dd", f"if={file_system}", f"of={disk}", "conv=notrunc,fsync", "status=none")
    before = content(disk)
    assert target.release() == ()
    with pytest.raises(LeadlineError) as caught:
        target.acquire(SPAN, "run", _NoJournal())
    assert caught.value.kind is errors.DEVICE_SIGNED
    assert content(disk) == before


def test_without_a_prefill_the_first_trial_that_writes_looks_again(
    process: Process, tmp_path: Path, loop_device: Path, file_system: Path
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        f"targets: [device:{loop_device}]\nrepeats: 1\nprefill: false\nseed: 5\n"
        "workloads:\n"
        "  - {name: r, pattern: randread, size: 16M, runtime: 300ms}\n"
        "  - {name: w, pattern: randwrite, size: 16M, runtime: 300ms}\n"
    )
    programs = tmp_path / "programs"
    programs.mkdir()
    write = f"dd if={file_system} of={loop_device} conv=notrunc,fsync status=none"
    # The trials' own calls follow those of the test I/O, which have no file of output.
    script = MEDDLING.format(
        sign="--output=", folder=tmp_path, call=1, deed=write, program=shutil.which("fio")
    )
    (programs / "fio").write_text(script)
    (programs / "fio").chmod(0o755)
    ended = process(
        *("run", plan, "--destroy-data", loop_device),
        PATH=f"{programs}:{os.environ['PATH']}",
    )
    (run,) = list_runs(tmp_path / "runs")
    assert [one.record.workload for one in run.attempts] == ["r", "w"], "the reader comes first"
    assert ended.status == 4, ended.err
    assert "carries ext4" in ended.err
    assert content(loop_device)[: 8 << 20] == file_system.read_bytes()


# --- the name comes to mean another device ------------------------------------------------------


@pytest.fixture
def nodes(tmp_path: Path, loop_device: Path) -> Iterator[tuple[Path, Path]]:
    """A node of the test's own for a device, and a node for another device full of data."""
    image = tmp_path / "other.img"
    with image.open("wb") as stream:
        stream.write(b"a user's data..." * (16 << 16))
        stream.truncate(128 << 20)  # as large as the first one
    other = Path(sh("losetup", "--find", "--show", image))
    found = []
    for name, device in (("disk", loop_device), ("other", other)):
        node = tmp_path / name
        os.mknod(node, 0o600 | stat.S_IFBLK, device.stat().st_rdev)
        found.append(node)
    yield found[0], found[1]
    sh("losetup", "--detach", other)


# fio, before whose call number $CALL with a file name the nodes change places.
EXCHANGING = """#!/bin/sh
case "$*" in *--filename=*)
    echo call >>{folder}/calls
    if [ "$(wc -l <{folder}/calls)" -eq {call} ]; then mv {folder}/other {folder}/disk; fi
esac
exec {fio} "$@"
"""


@pytest.mark.parametrize("call", [1, 2, 3, 4], ids=["try", "prefill", "trial", "second trial"])
def test_another_device_under_its_name_is_never_written(
    process: Process, tmp_path: Path, nodes: tuple[Path, Path], call: int
) -> None:
    disk, other = nodes
    number, before = other.stat().st_rdev, content(other)
    programs = tmp_path / "programs"
    programs.mkdir()
    fio = shutil.which("fio")
    (programs / "fio").write_text(EXCHANGING.format(folder=tmp_path, call=call, fio=fio))
    (programs / "fio").chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    run = ("run", "--target", f"device:{disk}", *SHORT, "--destroy-data", disk)
    ended = process(*run, PATH=path)
    assert len((tmp_path / "calls").read_text().split()) >= call, "the moment was reached"
    assert disk.stat().st_rdev == number, "the nodes changed places"
    assert content(disk) == before
    assert ended.status == 4, ended.err
    assert "error[target-gone]" in ended.err
    assert "it is no longer what was acquired" in ended.err


class _NoJournal:
    def note_created(self, created: Created) -> None: ...
    def note_removed(self, created: Created) -> None: ...


SPAN = Footprint(files={}, span=1 << 20, job_file_bytes=0, writes=True)


def test_another_device_than_the_inspected_one_is_not_acquired(nodes: tuple[Path, Path]) -> None:
    disk, other = nodes
    before = content(other)
    target = DeviceTarget(Target(name="t", url=f"device:{disk}"), (str(disk),), ())
    target.inspect(SPAN, prefill=True)
    other.rename(disk)
    with pytest.raises(LeadlineError) as caught:
        target.acquire(SPAN, "run", _NoJournal())
    assert caught.value.kind is errors.DEVICE_EXCHANGED
    assert content(disk) == before


def test_a_number_that_is_used_again_is_another_device(
    tmp_path: Path, nodes: tuple[Path, Path]
) -> None:
    disk, _ = nodes
    target = DeviceTarget(Target(name="t", url=f"device:{disk}"), (str(disk),), ())
    target.inspect(SPAN, prefill=True)
    loop = Path("/dev/loop" + str(os.minor(disk.stat().st_rdev)))
    sh("losetup", "--detach", loop)
    sh("losetup", loop, tmp_path / "disk.img")
    with pytest.raises(LeadlineError) as caught:
        target.acquire(SPAN, "run", _NoJournal())
    assert caught.value.kind is errors.DEVICE_EXCHANGED


def test_a_device_that_comes_into_use_is_not_acquired(
    tmp_path: Path, nodes: tuple[Path, Path]
) -> None:
    disk, _ = nodes
    target = DeviceTarget(Target(name="t", url=f"device:{disk}"), (str(disk),), ())
    target.inspect(SPAN, prefill=True)
    second = Path(sh("losetup", "--find", "--show", tmp_path / "disk.img"))
    try:
        with pytest.raises(LeadlineError) as caught:
            target.acquire(SPAN, "run", _NoJournal())
    finally:
        sh("losetup", "--detach", second)
    assert caught.value.kind is errors.DEVICE_IN_USE
