"""A file system that does not answer: a FUSE mount of the kernel whose server reads requests and
never replies. Not even SIGKILL ends a process that waits for it."""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from leadline.archive.records import Created
from leadline.errors import TARGET_GONE, LeadlineError
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.targets.file_system import FileSystem
from leadline.targets.local import DirectoryTarget, remove_folder
from tests.real.conftest import Ended, sh

pytestmark = [pytest.mark.real, pytest.mark.root]

# include/uapi/linux/fuse.h
_FUSE_INIT = 26
_IN_HEADER = struct.Struct("=IIQQIIII")
_OUT_HEADER = struct.Struct("=IiQ")
_INIT_OUT = struct.Struct("=IIIIHHIIHH32x")


def serve(mount_point: Path) -> None:
    """Mount a file system that answers the kernel's first request, and no other."""
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"hung", os.fsencode(mount_point), b"fuse", 0, options):
        os.close(device)
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def answer() -> None:
        with suppress(OSError):  # aborted
            while request := os.read(device, 1 << 17):
                header = _IN_HEADER.unpack_from(request)
                if header[1] == _FUSE_INIT:
                    body = _INIT_OUT.pack(7, 31, 0, 0, 16, 12, 1 << 16, 1, 16, 0)
                    size = _OUT_HEADER.size + len(body)
                    os.write(device, _OUT_HEADER.pack(size, 0, header[2]) + body)
        os.close(device)

    threading.Thread(target=answer, daemon=True).start()


@dataclass(frozen=True)
class Hung:
    folder: Path
    called: list[FileSystem] = field(default_factory=list)

    def calls(self, bound_s: float) -> FileSystem:
        self.called.append(FileSystem(answer_s=bound_s, remove_s=bound_s))
        return self.called[-1]

    def abort(self) -> None:
        """Let the kernel answer all requests with an error."""
        row = next(
            line.split()
            for line in Path("/proc/self/mountinfo").read_text().splitlines()
            if line.split()[4] == str(self.folder)
        )
        connection = f"/sys/fs/fuse/connections/{row[2].partition(':')[2]}"
        script = f"mount -t fusectl x /sys/fs/fuse/connections; echo 1 > {connection}/abort"
        sh("unshare", "--mount", "sh", "-c", script)


@pytest.fixture
def hung(tmp_path: Path) -> Iterator[Hung]:
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        pytest.skip("needs root and /dev/fuse: NO file system that hangs is tested here")
    folder = tmp_path / "hung"
    folder.mkdir()
    serve(folder)
    found = Hung(folder)
    yield found
    found.abort()
    for called in found.called:
        if called._waiting is not None:
            called._waiting.wait(30)
    sh("umount", folder)


def test_a_call_ends_within_its_bound_and_the_next_does_not_wait_as_long(hung: Hung) -> None:
    slow = hung.calls(2.0)
    with pytest.raises(TimeoutError, match="gives no answer within 2 s"):
        slow.inspect(hung.folder)
    with pytest.raises(TimeoutError, match="still gives no answer"):
        slow.look(hung.folder / "leadline-run-1")
    hung.abort()
    # The server is gone, and the kernel says so: the abandoned process has ended.
    with pytest.raises(OSError, match=r"not connected|aborted"):
        slow.inspect(hung.folder)


def test_a_removal_says_what_was_left(hung: Hung) -> None:
    created = Created(target="here", path=str(hung.folder / "leadline-run-1"), token="1")
    (left,) = remove_folder(created, "run", hung.calls(1.0))
    assert left.startswith(created.path)
    assert "no answer within 1 s" in left


def test_a_target_there_is_refused(hung: Hung, monkeypatch: pytest.MonkeyPatch) -> None:
    target = DirectoryTarget(Target(name="here", url=f"dir:{hung.folder}"))
    monkeypatch.setattr(target, "_file_system", hung.calls(1.0))
    small = Footprint(files={"a": 4096}, span=4096, job_file_bytes=0, writes=True)
    with pytest.raises(LeadlineError) as caught:
        target.inspect(small, prefill=True)
    assert caught.value.kind is TARGET_GONE
    assert target.volume() is None


@pytest.mark.slow
def test_a_run_there_ends(hung: Hung, process: Callable[..., Ended]) -> None:
    ended = process("run", "--target", f"dir:{hung.folder}", "--profile", "quick", "--size", "16M")
    assert ended.status == 4, ended.err
    assert "error[target-gone]" in ended.err
