"""The target `rbd:POOL?path=nbd`: a new image, encrypted or not, which qemu-nbd serves to fio.

librbd encrypts: `rbd encryption format` writes the LUKS header, and QEMU's driver loads it as for a
virtual machine. The passphrase of an image goes through pipes alone, and is known to this process
and to qemu-nbd only.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from leadline import errors, files
from leadline.archive.records import Created
from leadline.connect import programs
from leadline.connect.ceph import CephAccess
from leadline.environment import CEPH, child_environment
from leadline.errors import LeadlineError
from leadline.inventory.layer import Layer
from leadline.lab import processes
from leadline.plan.footprint import Footprint
from leadline.plan.models import Target
from leadline.probes.stacks import QEMU_NBD, image_layers
from leadline.runner.ports import Journal, NbdExport
from leadline.targets import daemons
from leadline.targets.ceph import RbdTarget, remove_image
from leadline.targets.ceph_cluster import OpenCluster
from leadline.targets.naming import is_token, own_name

SCHEME = "nbd:"
SOCKET = "nbd.sock"
_LOG = "qemu-nbd.log"
# A key from the passphrase takes two seconds of a core by design, and on a busy cluster the header
# takes half a minute.
_FORMAT_S = 300.0
_SERVED_WITHIN_S = 60.0
_TRY_S = 20.0
# The first bytes of a server's greeting (the protocol's doc/proto.md).
_GREETING = b"NBDMAGIC"
# QEMU's names (RbdImageEncryptionFormat in its block-core schema).
_FORMATS = {"luks1": "luks", "luks2": "luks2"}
# A LUKS2 header; librbd rounds it up to whole stripes.
_HEADER_BYTES = 16 << 20


def served_folder(token: str) -> Path:
    """The private folder of a server's socket and log."""
    return Path(files.SHORT) / f"leadline-{token}"


def require_possible(encryption: str, where: Sequence[str]) -> None:
    """Raise LeadlineError(`image-not-mapped`) where this machine cannot serve such an image."""
    missing = []
    if programs.find(QEMU_NBD) is None:
        missing.append(f"no {QEMU_NBD!r} (qemu-utils)")
    else:
        missing += _missing_driver(encryption)
    _, engines, _ = programs.run("fio", "--enghelp", bound_s=_TRY_S)
    if "nbd" not in engines.split():
        missing.append("this fio has no engine 'nbd'")
    if encryption:
        status, _, _ = programs.run("rbd", "help", "encryption", "format", bound_s=_TRY_S)
        if status != 0:
            missing.append("this rbd has no `rbd encryption format` (Ceph 16 or newer)")
    if missing:
        raise LeadlineError(
            errors.IMAGE_NOT_MAPPED,
            "an image cannot be served by NBD on this machine",
            context=[*where, *missing],
            hint="`apt-get install qemu-utils qemu-block-extra`; rbd:POOL measures an image that "
            "is not encrypted without any of it",
        )


def _missing_driver(encryption: str) -> list[str]:
    """What QEMU's driver of RBD lacks. It is asked for an image with an option too few: it names
    the option, where it knows all others."""
    form = "driver=rbd"
    if encryption:
        form += f",pool=x,image=y,encrypt.format={_FORMATS[encryption]}"
    expected = "encrypt.key-secret" if encryption else "'pool'"
    with files.ScratchFolder("nbd", files.SHORT) as folder:
        command = (QEMU_NBD, "-k", f"{folder}/{SOCKET}", "--image-opts", form)
        _, _, err = programs.run(*command, bound_s=_TRY_S)
    if "Unknown driver" in err:
        return ["QEMU has no driver for RBD (qemu-block-extra)"]
    return [] if expected in err else [f"QEMU's driver for RBD cannot open it: {err.strip()}"]


@contextmanager
def _pipe_with(secret: str) -> Iterator[int]:
    """The reading end of a pipe that holds a secret: it is in no file, argument or variable."""
    reading, writing = os.pipe()
    try:
        os.write(writing, secret.encode())
        os.close(writing)
        yield reading
    finally:
        os.close(reading)


class RbdByNbdTarget(RbdTarget):
    """`rbd:POOL?path=nbd`, `rbd:POOL?encryption=luks2`."""

    scheme = SCHEME

    def __init__(self, target: Target, cluster: OpenCluster) -> None:
        super().__init__(target, cluster, destroy=())
        self._encryption = target.parsed.encryption
        self._folder: Path | None = None
        self._server = 0

    @property
    def location(self) -> NbdExport:
        assert self._folder is not None, "acquire comes first"
        return NbdExport(
            pool=self._pool,
            image=self._image,
            socket=self._folder / SOCKET,
            server=self._server,
            settings=self._settings,
            encryption=self._encryption,
            read_only=not self._writes,
        )

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        require_possible(self._encryption, [f"target {self.name!r}"])
        super().inspect(self._with_header(footprint), prefill=prefill, claimed_bytes=claimed_bytes)

    def _with_header(self, footprint: Footprint) -> Footprint:
        if not self._encryption:
            return footprint
        layout = self._url.image_layout
        object_bytes = int(layout.get("--object-size", f"{4 << 20}B").removesuffix("B"))
        stripe = object_bytes * int(layout.get("--stripe-count", "1"))
        return replace(footprint, span=footprint.span + -(-_HEADER_BYTES // stripe) * stripe)

    def acquire(self, footprint: Footprint, run: str, journal: Journal) -> None:
        super().acquire(self._with_header(footprint), run, journal)
        self._span = footprint.span
        assert self._created is not None, "the image is new"
        self._folder = served_folder(self._created.token)
        self._folder.mkdir(mode=0o700)
        passphrase = secrets.token_urlsafe(32) if self._encryption else ""
        if passphrase:
            self._encrypt(passphrase)
        self._serve(passphrase)

    def _encrypt(self, passphrase: str) -> None:
        words = ("encryption", "format", f"{self._pool}/{self._image}", self._encryption)
        command = self.cluster.access.command("rbd", *words, "/dev/stdin")
        with _pipe_with(passphrase) as stdin:
            status, out, err = programs.run(*command, bound_s=_FORMAT_S, stdin=stdin)
        if status != 0:
            lines = [line for line in (out + err).splitlines() if line.strip()]
            raise LeadlineError(
                errors.IMAGE_NOT_MAPPED,
                f"the image {self._pool}/{self._image} cannot be encrypted",
                context=lines[-3:] if status is not None else [f"no answer within {_FORMAT_S:g} s"],
            )

    def _serve(self, passphrase: str) -> None:
        """Start the server and wait for its greeting. Raises LeadlineError(`image-not-mapped`)."""
        assert self._folder is not None
        assert self._access is not None
        command = self._server_command(self._folder / SOCKET, self._access)
        environment = child_environment(*CEPH)
        log = self._folder / _LOG
        with _pipe_with(passphrase) as stdin:
            self._server = processes.start(
                command, folder=self._folder, output=log, environment=environment, stdin=stdin
            )
        end = time.monotonic() + _SERVED_WITHIN_S
        while not _greets(self._folder / SOCKET):
            status = processes.exit_status(self._server)
            if status is not None or time.monotonic() > end:
                ended = f"it ended with status {status}"
                silent = f"no greeting within {_SERVED_WITHIN_S:g} s"
                lines = log.read_text("utf-8", "replace").splitlines()
                raise LeadlineError(
                    errors.IMAGE_NOT_MAPPED,
                    f"{QEMU_NBD} does not serve the image {self._pool}/{self._image}",
                    context=[silent if status is None else ended, *filter(None, lines[-2:])],
                )
            time.sleep(0.05)

    def _server_command(self, path: Path, access: CephAccess) -> tuple[str, ...]:
        """qemu-nbd for any number of connections, which do I/O at the same time, without a
        cache."""
        options = {
            "driver": "rbd",
            "pool": self._pool,
            "image": self._image,
            "conf": str(access.conf),
            "user": access.name,
        }
        key: tuple[str, ...] = ()
        if self._encryption:
            format_ = _FORMATS[self._encryption]
            options |= {"encrypt.format": format_, "encrypt.key-secret": "passphrase"}
            key = ("--object", "secret,id=passphrase,file=/dev/stdin")
        # A comma within a value is written twice.
        form = ",".join(f"{name}={value.replace(',', ',,')}" for name, value in options.items())
        read_only = () if self._writes else ("--read-only",)
        words = ("--persistent", "--shared=0", "--cache=none", *read_only, *key)
        return (*access.prefix, QEMU_NBD, *words, "-k", str(path), "--image-opts", form)

    def layers(self) -> tuple[Layer, ...]:
        facts = {
            **self._facts,
            "admin_socket": str(self.cluster.sockets),
            "encryption": self._encryption or "none",
        }
        return image_layers(self._pool, self._image, QEMU_NBD, facts)

    def present(self) -> bool:
        assert self._folder is not None
        return super().present() and bool(daemons.find_processes(QEMU_NBD, self._folder))

    def _remove(self, created: Created) -> tuple[str, ...]:
        return remove_served_image(created, self._run, self.cluster.access)

    def release(self) -> tuple[str, ...]:
        # With a lab that is destroyed the image goes, and the server stays.
        stopped = stop_server(self._created.token) if self._created is not None else ()
        return (*stopped, *super().release())


def _greets(path: Path) -> bool:
    """Whether the server has opened its image: it listens before that."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1.0)
        connection.connect(str(path))
        return connection.recv(len(_GREETING)) == _GREETING
    return False


def stop_server(token: str) -> tuple[str, ...]:
    """End the server of a token and remove its folder; sentences about what failed."""
    folder = served_folder(token)
    if not daemons.end(QEMU_NBD, folder):
        return (f"{QEMU_NBD}, which serves {folder / SOCKET}, does not end",)
    try:
        _remove_folder(folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        return (f"{folder} could not be removed: {error.strerror}",)
    return ()


def _remove_folder(folder: Path) -> None:
    """Remove the private folder of a server by its descriptor: every user may make one of that name
    in the folder above, or a link. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(handle).st_uid != os.geteuid():
            raise OSError(errno.EPERM, "it belongs to another user", str(folder))
        for name in (SOCKET, _LOG):
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=handle)
    finally:
        os.close(handle)
    folder.rmdir()


def remove_served_image(created: Created, run: str, access: CephAccess | None) -> tuple[str, ...]:
    """Remove an image and its server; sentences about what failed. Without `access` the image is
    gone with its lab."""
    spec = created.path.removeprefix(SCHEME)
    # A token is a part of a path that is removed.
    if not is_token(created.token) or not spec.endswith(f"/{own_name(run, created.token)}"):
        return (f"{created.path} has no name of this run's and was kept",)
    problems = stop_server(created.token)
    if problems or access is None:
        return problems
    return remove_image(access, created.model_copy(update={"path": f"rbd:{spec}"}), run)
