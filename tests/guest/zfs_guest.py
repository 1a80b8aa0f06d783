"""A machine with real OpenZFS, krbd and NVMe over TCP: Debian's cloud kernel under QEMU.

Without KVM, so that its figures mean nothing; what is real is the kernel, its modules and the way
of every byte. It stands in the network it is begun in: with a lab's prefix it reaches the monitors
(10.0.2.15 behind QEMU's own address translation).
"""

from __future__ import annotations

import io
import json
import shlex
import socket
import subprocess
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tests.guest import image

_BOOT_S = 300.0
_LATE = 124
# A kernel that stumbles ends the guest, and the tests at once. Checks of copies go, since they take
# what NVMe over TCP sends to its own machine for a fault: the loopback device passes the sender's
# pages on, and a piece of them may lie across two huge pages ("Kernel memory exposure attempt").
_KERNEL = "net.ifnames=0 oops=panic panic=-1 hardened_usercopy=off"
_SOURCES = "/leadline/src"
_ENVIRONMENT = {
    "PYTHONPATH": f"{_SOURCES}:/leadline/libraries",
    "NO_COLOR": "1",
    "COLUMNS": "100",
    "LEADLINE_RUNS": "/var/runs",
}


_LEADLINE = (
    *("env", *(f"{name}={value}" for name, value in _ENVIRONMENT.items())),
    *("python3", "-m", "leadline"),
)
_BEGUN = "/begun"


class GuestFailure(Exception):
    """The guest, or a command in it, did not do what it should; says what is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a command in the guest ended with."""

    status: int
    out: str
    err: str


class ZfsGuest:
    """A running guest between `with ... :` and the end of the block; then nothing of it is left.

    `disks` are files (or other things that QEMU opens, such as `rbd:POOL/IMAGE:conf=FILE`) by
    serial number, under which the guest finds them in /dev/disk/by-id/virtio-*. `prefix` begins
    QEMU's command line: the way into a network namespace. `folder` gets the console and QEMU's
    complaints.
    """

    processors = 2
    memory_mib = 2560

    def __init__(
        self, folder: Path, disks: Mapping[str, object], prefix: Sequence[str] = ()
    ) -> None:
        self.folder = folder
        self._disks = dict(disks)
        self._prefix = tuple(prefix)
        self._process: subprocess.Popen[bytes] | None = None
        self._port = socket.socket(socket.AF_UNIX)

    def __enter__(self) -> ZfsGuest:
        self.folder.mkdir(parents=True, exist_ok=True)
        command = self._command(image.image(), image.libraries())
        with (self.folder / "qemu.log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            self._connect()
            self._port.settimeout(_BOOT_S)
            if self._line() != {"ready": True}:
                raise GuestFailure("the agent began with something else")
            self._put_leadline()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it at once: its disks of the system are snapshots that nobody wants."""
        self._port.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def run(self, *argv: object, given: bytes = b"", bound_s: float = 300.0) -> Ended:
        """Carry out a command. Raises GuestFailure where it has not ended after `bound_s` (it is
        killed) or the guest is gone."""
        status, out, err = self._ask([str(word) for word in argv], given, bound_s)
        ended = Ended(
            status=status, out=out.decode(errors="replace"), err=err.decode(errors="replace")
        )
        if status == _LATE:
            raise GuestFailure(f"{argv}: not done after {bound_s} s\n{ended.out}\n{ended.err}")
        return ended

    def sh(self, script: str, bound_s: float = 300.0) -> str:
        """The output of a shell script; raises GuestFailure for any that fails."""
        ended = self.run("bash", "-euo", "pipefail", "-c", script, bound_s=bound_s)
        if ended.status:
            raise GuestFailure(f"{script}\nstatus {ended.status}\n{ended.out}\n{ended.err}")
        return ended.out

    def leadline(self, *arguments: object, bound_s: float = 600.0) -> Ended:
        """`leadline ARGUMENTS` in the guest."""
        return self.run(*_LEADLINE, *arguments, bound_s=bound_s)

    def begin(self, *arguments: object) -> None:
        """`leadline ARGUMENTS` in the guest, beside what is asked next; one at a time. `end` waits
        for it."""
        line = shlex.join([*_LEADLINE, *map(str, arguments)])
        told = f"{line} >{_BEGUN}/out 2>{_BEGUN}/err && s=0 || s=$?; echo $s >{_BEGUN}/ended"
        self.sh(f"rm -rf {_BEGUN}; mkdir {_BEGUN}; {{ {told}; }} </dev/null >/dev/null 2>&1 &")

    def end(self, bound_s: float) -> Ended:
        """How what was begun ended; raises GuestFailure where it has not after `bound_s`."""
        status = self.sh(
            f"until [ -s {_BEGUN}/ended ]; do sleep 1; done; cat {_BEGUN}/ended", bound_s
        )
        out, err = (self.sh(f"cat {_BEGUN}/{name}") for name in ("out", "err"))
        return Ended(status=int(status), out=out, err=err)

    def write(self, path: str, content: str | bytes) -> None:
        """A file in the guest."""
        given = content.encode() if isinstance(content, str) else content
        self._must(["install", "-D", "-m", "600", "/dev/stdin", path], given)

    def put(self, folder: Path, into: str) -> None:
        """Copy what a folder of this machine holds into one of the guest."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            tar.add(folder, arcname=".", filter=_without_bytecode)
        self._must(["mkdir", "-p", into], b"")
        self._must(["tar", "-x", "-C", into], packed.getvalue())

    def fetch(self, folder: str, into: Path) -> Path:
        """Copy what a folder of the guest holds into one of this machine."""
        packed = self._must(["tar", "-c", "-C", folder, "."], b"")
        into.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            tar.extraction_filter = getattr(tarfile, "data_filter", None)
            tar.extractall(into)
        return into

    def console(self) -> str:
        """What the kernel and the first process said."""
        try:
            return (self.folder / "console.log").read_text(errors="replace")
        except OSError:
            return ""

    def _put_leadline(self) -> None:
        self.put(image.ROOT / "src" / "leadline", f"{_SOURCES}/leadline")
        self.put(image.ROOT / "docs" / "rules", f"{_SOURCES}/leadline/audit/pages")

    def _must(self, argv: list[str], given: bytes) -> bytes:
        status, out, err = self._ask(argv, given, 300.0)
        if status:
            raise GuestFailure(f"{argv}: status {status}\n{err.decode(errors='replace')}")
        return out

    def _ask(self, argv: list[str], given: bytes, bound_s: float) -> tuple[int, bytes, bytes]:
        asked = {"argv": argv, "stdin_bytes": len(given), "bound_s": bound_s}
        # The agent keeps the bound; this one is for a guest that hangs.
        self._port.settimeout(bound_s + 60)
        try:
            self._port.sendall(json.dumps(asked).encode() + b"\n" + given)
            told = self._line()
            out = self._read(int(told["out_bytes"]))
            err = self._read(int(told["err_bytes"]))
        except OSError as fault:
            raise GuestFailure(f"{argv}: {fault}\n{self._last_words()}") from fault
        return int(told["status"]), out, err

    def _line(self) -> dict[str, int | bool]:
        said = b""
        while not said.endswith(b"\n"):
            said += self._read(1)
        told: dict[str, int | bool] = json.loads(said)
        return told

    def _read(self, wanted: int) -> bytes:
        pieces = []
        while wanted:
            piece = self._port.recv(min(wanted, 1 << 20))
            if not piece:
                raise GuestFailure(f"the guest has ended\n{self._last_words()}")
            pieces.append(piece)
            wanted -= len(piece)
        return b"".join(pieces)

    def _last_words(self) -> str:
        return self.console()[-3000:] + (self.folder / "qemu.log").read_text(errors="replace")

    def _connect(self) -> None:
        deadline = time.monotonic() + 60
        assert self._process is not None
        while True:
            try:
                self._port.connect(str(self._socket))
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise GuestFailure(self._last_words()) from None
                time.sleep(0.1)

    @property
    def _socket(self) -> Path:
        return self.folder / "port"

    def _command(self, made: Path, libraries: Path) -> list[str]:
        disks = [
            *_disk("root", made / "root.img", "snapshot=on"),
            *_disk("libraries", libraries, "readonly=on"),
        ]
        for serial, file in self._disks.items():
            disks += _disk(serial, file, "cache=unsafe,discard=unmap")
        port = f"socket,id=port,path={self._socket},server=on,wait=off"
        return [
            *self._prefix,
            *("setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64"),
            *("-accel", "tcg,thread=multi", "-machine", "q35", "-cpu", "max"),
            *("-smp", str(self.processors), "-m", str(self.memory_mib)),
            *("-nodefaults", "-display", "none", "-no-reboot"),
            *("-kernel", str(made / "vmlinuz"), "-initrd", str(made / "initrd.img")),
            "-append",
            f"root=/dev/vda rw console=ttyS0 quiet init=/leadline/begin.sh {_KERNEL}",
            *disks,
            *("-netdev", "user,id=n", "-device", "virtio-net-pci,netdev=n"),
            *("-device", "virtio-rng-pci", "-device", "virtio-serial-pci"),
            *("-chardev", port, "-device", "virtserialport,chardev=port,name=leadline"),
            *("-serial", f"file:{self.folder / 'console.log'}"),
        ]


def _disk(serial: str, file: object, more: str) -> list[str]:
    drive = f"file={file},if=none,id={serial},format=raw,{more}"
    return ["-drive", drive, "-device", f"virtio-blk-pci,drive={serial},serial={serial}"]


def _without_bytecode(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if entry.name.endswith("__pycache__") else entry
