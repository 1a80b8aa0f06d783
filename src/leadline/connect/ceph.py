"""librados: commands to a Ceph cluster, and its objects; admin sockets, and Ceph's programs.

A command takes milliseconds; the `ceph` program needs a second to start. librados is called by
ctypes: its Python binding belongs to the distribution's Python. The C interface is stable since
Ceph 0.80 (include/rados/librados.h).
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import selectors
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from leadline import errors
from leadline.environment import CEPH, child_environment
from leadline.errors import LeadlineError

INSTALL_CLIENT = "install Ceph's client programs (Debian and Fedora: ceph-common)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CephAccess:
    """The access to a cluster: a configuration file, a name without `client.`, a keyring unless the
    configuration names it, and the network namespace of a lab."""

    conf: Path
    name: str = "admin"
    keyring: Path | None = None
    namespace: Path | None = None

    @property
    def prefix(self) -> tuple[str, ...]:
        """The words that run a command in the network namespace. nsenter, not `ip netns exec`,
        which would hide later mounts."""
        return ("nsenter", f"--net={self.namespace}", "--") if self.namespace else ()

    def command(self, program: str, *arguments: str) -> tuple[str, ...]:
        """Return the command line of a Ceph program (ceph, rbd, rados) for this cluster."""
        keyring = ("--keyring", str(self.keyring)) if self.keyring else ()
        who = ("--conf", str(self.conf), "--id", self.name, *keyring)
        return (*self.prefix, program, *who, *arguments)

    def require_conf(self) -> None:
        """Raise LeadlineError(`ceph-unreachable`, `ceph-denied`) for unreadable files."""
        name_conf = "name the cluster's ceph.conf with --ceph-conf, or a lab with --lab"
        name_keyring = "name the keyring of the user that --id names with --keyring"
        for kind, what, path, hint in (
            (errors.CEPH_UNREACHABLE, "configuration", self.conf, name_conf),
            (errors.CEPH_DENIED, "keyring", self.keyring, name_keyring),
        ):
            try:
                if path is not None:
                    path.read_bytes()
            except OSError as error:
                fact = f"the {what} {str(path)!r} cannot be read: {error.strerror}"
                raise LeadlineError(kind, fact, hint=hint) from error


_CLONE_NEWNET = 0x40000000
_Answer = TypeVar("_Answer")
_DENIED = (errno.EACCES, errno.EPERM, errno.ENOENT, errno.EINVAL)


class CommandFailed(LeadlineError):
    """A refused or failed command; `number` is its errno."""

    def __init__(self, number: int, command: str, message: str) -> None:
        self.number = number
        super().__init__(
            errors.CEPH_FAILED,
            f"the cluster refuses `ceph {command}`: {os.strerror(number)}",
            context=[message] if message else (),
        )


class Connection:
    """An open connection. Its calls block for at most `timeout_s`."""

    def __init__(self, access: CephAccess, *, timeout_s: float = 10.0) -> None:
        """Connect. Raises LeadlineError: `ceph-missing`, `ceph-unreachable`, `ceph-denied`."""
        access.require_conf()
        self.access = access
        self._timeout_s = timeout_s
        self._handle: ctypes.c_void_p | None = None
        # One thread: the threads of librados inherit its network namespace.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="librados")
        try:
            self._call(self._connect)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def mon(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes:
        """Return the output of `ceph PREFIX ARGUMENTS`. Raises CommandFailed, or LeadlineError
        (`ceph-unreachable`) without an answer."""
        return self._command(_library().rados_mon_command, prefix, data, arguments)

    def mgr(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes:
        """Send a command to the manager and its modules; as `mon`."""
        return self._command(_library().rados_mgr_command, prefix, data, arguments)

    def osd(self, number: int, prefix: str, /, **arguments: object) -> bytes:
        """Send a command to one OSD; as `mon`."""
        return self._command(_library().rados_osd_command, prefix, b"", arguments, number)

    def mon_json(self, prefix: str, /, **arguments: object) -> Any:
        return json.loads(self.mon(prefix, format="json", **arguments))

    def overwrite(self, pool: str, name: str) -> None:
        """Write an object, then a part of it. Raises OSError with the errno of librados."""

        def task() -> int:
            with _io_context(self._handle, pool) as context:
                for data, offset in ((b"leadline", 0), (b"L", 1)):
                    status: int = _library().rados_write(
                        context, name.encode(), data, ctypes.c_size_t(len(data)), _u64(offset)
                    )
                    if status:
                        break
                return status

        _raise_errno(self._call(task))

    def object_sizes(self, pool: str, names: Sequence[str]) -> tuple[int | None, ...]:
        """The sizes of objects in bytes, None for one that does not exist. Raises OSError."""
        sizes = [_u64(0) for _ in names]
        modified = _time_t()

        def stat(context: ctypes.c_void_p, number: int, completion: ctypes.c_void_p) -> int:
            name, size = names[number].encode(), ctypes.byref(sizes[number])
            return int(
                _library().rados_aio_stat(context, name, completion, size, ctypes.byref(modified))
            )

        exist = self._on_objects(pool, len(names), stat)
        return tuple(
            size.value if there else None for size, there in zip(sizes, exist, strict=True)
        )

    def remove_objects(self, pool: str, names: Sequence[str]) -> None:
        """Remove objects, of which some may not exist. Raises OSError."""

        def remove(context: ctypes.c_void_p, number: int, completion: ctypes.c_void_p) -> int:
            return int(_library().rados_aio_remove(context, names[number].encode(), completion))

        self._on_objects(pool, len(names), remove)

    def _on_objects(
        self,
        pool: str,
        count: int,
        start: Callable[[ctypes.c_void_p, int, ctypes.c_void_p], int],
    ) -> list[bool]:
        """Do an operation on each object, several at once; whether the object exists. Raises
        OSError for the first other failure."""

        def task() -> tuple[int, list[bool]]:
            exist: list[bool] = []
            with _io_context(self._handle, pool) as context:
                for first in range(0, count, _OBJECTS_AT_ONCE):
                    numbers = range(first, min(count, first + _OBJECTS_AT_ONCE))
                    statuses = _complete([partial(start, context, number) for number in numbers])
                    for status in statuses:
                        if status not in (0, -errno.ENOENT):
                            return status, exist
                        exist.append(status == 0)
            return 0, exist

        status, exist = self._call(task)
        _raise_errno(status)
        return exist

    def ask_greetings(
        self, addresses: Mapping[str, tuple[str, int]], within_s: float
    ) -> Mapping[str, str]:
        """Call `ask_greetings` in the network of the cluster."""
        return self._call(lambda: ask_greetings(addresses, within_s))

    def close(self) -> None:
        """End the connection; may be called twice."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            self._call(lambda: _library().rados_shutdown(handle))
        self._thread.shutdown()

    def _call(self, task: Callable[[], _Answer]) -> _Answer:
        return self._thread.submit(task).result()

    def _connect(self) -> None:
        library = _library()
        if self.access.namespace is not None:
            _enter(self.access)
        handle = ctypes.c_void_p()
        library.rados_create2(
            ctypes.byref(handle), b"ceph", b"client." + self.access.name.encode(), ctypes.c_uint64()
        )
        read = library.rados_conf_read_file(handle, os.fsencode(self.access.conf))
        if read:
            library.rados_shutdown(handle)
            raise LeadlineError(
                errors.CEPH_UNREACHABLE,
                f"{str(self.access.conf)!r} is not a Ceph configuration: {os.strerror(-read)}",
                hint="name the cluster's ceph.conf with --ceph-conf",
            )
        for key, value in self._settings().items():
            library.rados_conf_set(handle, key.encode(), value.encode())
        status = library.rados_connect(handle)
        if status:
            library.rados_shutdown(handle)
            raise _connect_error(-status, self.access)
        self._handle = handle

    def _settings(self) -> Mapping[str, str]:
        bound = f"{self._timeout_s:g}"
        settings = {
            "client_mount_timeout": bound,
            "rados_mon_op_timeout": bound,
            "rados_osd_op_timeout": bound,
            # stderr belongs to Leadline; librados returns its messages as errors.
            "log_to_stderr": "false",
            "err_to_stderr": "false",
            "log_file": "",
            "admin_socket": "",
        }
        if self.access.keyring is not None:
            settings["keyring"] = str(self.access.keyring)
        return settings

    def _command(
        self,
        call: Callable[..., int],
        prefix: str,
        data: bytes,
        arguments: Mapping[str, object],
        *target: int,
    ) -> bytes:
        given = {key: value for key, value in arguments.items() if value is not None}
        request = json.dumps({"prefix": prefix, **given}).encode()

        def task() -> tuple[int, bytes, str]:
            words = (ctypes.c_char_p * 1)(request)
            sent = (words, ctypes.c_size_t(1), data, ctypes.c_size_t(len(data)))
            out, message = ctypes.c_void_p(), ctypes.c_void_p()
            out_size, message_size = ctypes.c_size_t(), ctypes.c_size_t()
            buffers = map(ctypes.byref, (out, out_size, message, message_size))
            status = call(self._handle, *target, *sent, *buffers)
            answer, text = _take(out, out_size), _take(message, message_size)
            return status, answer, text.decode("utf-8", "replace").strip()

        if self._handle is None:
            raise LeadlineError(errors.CEPH_UNREACHABLE, "the connection is closed")
        status, answer, message = self._call(task)
        # A command to a manager that is silent ends with a positive number, and an empty answer
        # (C_SaferCond::wait_for of Ceph's src/common/Cond.h).
        if abs(status) == errno.ETIMEDOUT:
            raise LeadlineError(
                errors.CEPH_UNREACHABLE,
                f"the cluster gives no answer to `ceph {prefix}` within {self._timeout_s:g} s",
                hint="look at its monitors and managers",
            )
        if status < 0:
            words = [prefix, *(str(value) for key, value in given.items() if key != "format")]
            raise CommandFailed(-status, " ".join(words), message)
        return answer


_OBJECTS_AT_ONCE = 64
_u64, _time_t = ctypes.c_uint64, ctypes.c_long


@contextmanager
def _io_context(handle: ctypes.c_void_p | None, pool: str) -> Iterator[ctypes.c_void_p]:
    """The I/O context of a pool. Raises OSError."""
    context = ctypes.c_void_p()
    _raise_errno(_library().rados_ioctx_create(handle, pool.encode(), ctypes.byref(context)))
    try:
        yield context
    finally:
        _library().rados_ioctx_destroy(context)


def _complete(starts: Sequence[Callable[[ctypes.c_void_p], int]]) -> list[int]:
    """Start operations, wait until all are complete, and return their statuses in order."""
    library = _library()
    begun: list[tuple[ctypes.c_void_p, int]] = []
    for start in starts:
        completion = ctypes.c_void_p()
        library.rados_aio_create_completion(None, None, None, ctypes.byref(completion))
        begun.append((completion, start(completion)))
    statuses = []
    for completion, failure in begun:
        if not failure:
            library.rados_aio_wait_for_complete(completion)
            failure = library.rados_aio_get_return_value(completion)
        library.rados_aio_release(completion)
        statuses.append(failure)
    return statuses


def _raise_errno(status: int) -> None:
    """Raise OSError for a negative status of librados."""
    if status < 0:
        raise OSError(-status, os.strerror(-status))


def _library() -> ctypes.CDLL:
    """Load librados. Raises LeadlineError(`ceph-missing`)."""
    try:
        return ctypes.CDLL("librados.so.2")
    except OSError as error:
        raise LeadlineError(
            errors.CEPH_MISSING,
            "there is no librados on this machine",
            context=[str(error)],
            hint=INSTALL_CLIENT,
        ) from error


def _enter(access: CephAccess) -> None:
    """Move this thread into the network namespace of a lab."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        handle = os.open(str(access.namespace), os.O_RDONLY | os.O_CLOEXEC)
        try:
            if libc.setns(handle, _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        finally:
            os.close(handle)
    except OSError as error:
        raise LeadlineError(
            errors.CEPH_UNREACHABLE,
            f"the network of the cluster cannot be entered: {error.strerror}",
            context=[str(access.namespace)],
            hint="a lab's network is gone when the lab is down, and needs root",
        ) from error


def _take(buffer: ctypes.c_void_p, size: ctypes.c_size_t) -> bytes:
    """Copy and free a buffer of librados."""
    if not buffer.value:
        return b""
    taken = ctypes.string_at(buffer.value, size.value)
    _library().rados_buffer_free(buffer)
    return taken


def _connect_error(number: int, access: CephAccess) -> LeadlineError:
    context = [f"configuration {access.conf}", f"name client.{access.name}"]
    if access.keyring:
        context.append(f"keyring {access.keyring}")
    if number in _DENIED:
        return LeadlineError(
            errors.CEPH_DENIED,
            f"the cluster does not accept the name and key: {os.strerror(number)}",
            context=context,
            hint="--id NAME (without `client.`) and --keyring FILE must belong together",
        )
    return LeadlineError(
        errors.CEPH_UNREACHABLE,
        f"no monitor of the cluster answers: {os.strerror(number)}",
        context=context,
        hint="check that its monitors run and are reachable from here",
    )


# Every daemon sends it first, before any authentication: `ceph v2`, or `ceph v027` in the protocol
# before Nautilus (src/msg/async/ProtocolV2.cc and ProtocolV1.cc).
_GREETING = b"ceph v"


def ask_greetings(addresses: Mapping[str, tuple[str, int]], within_s: float) -> Mapping[str, str]:
    """Return, by daemon, why it does not greet a new connection; empty where it does.

    The addresses are hosts by number, and ports. Blocks for `within_s` at most.
    """
    reasons: dict[str, str] = {}
    with ExitStack() as stack:
        waiting = stack.enter_context(selectors.DefaultSelector())
        for name, (host, port) in addresses.items():
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            stream = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            stream.setblocking(False)
            number = stream.connect_ex((host, port))
            if number in (0, errno.EINPROGRESS):
                waiting.register(stream, selectors.EVENT_READ, (name, stream))
            else:
                reasons[name] = os.strerror(number)
        end = time.monotonic() + within_s
        while waiting.get_map() and time.monotonic() < end:
            for key, _ in waiting.select(max(0.0, end - time.monotonic())):
                name, stream = key.data
                waiting.unregister(stream)
                try:
                    greeting = stream.recv(len(_GREETING))
                except OSError as error:
                    reasons[name] = error.strerror or str(error)
                else:
                    reasons[name] = "" if greeting == _GREETING else "no greeting of Ceph"
        for key in waiting.get_map().values():
            reasons[key.data[0]] = f"no greeting within {within_s:g} s"
    return reasons


_ANSWER_LENGTH = struct.Struct(">I")
# An answer of one process has tens of KB.
_LONGEST_ANSWER_BYTES = 16 << 20


def ask_admin_socket(path: Path, prefix: str, timeout_s: float) -> bytes:
    """Return a daemon's or client's answer on its admin socket. Raises OSError, ValueError.

    The protocol is Ceph's (src/common/admin_socket.cc): JSON and a NUL as the request; a length in
    four bytes and JSON as the answer.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.settimeout(timeout_s)
        stream.connect(str(path))
        request = json.dumps({"prefix": prefix, "format": "json"}, separators=(",", ":"))
        stream.sendall(request.encode() + b"\0")
        (length,) = _ANSWER_LENGTH.unpack(_receive(stream, _ANSWER_LENGTH.size))
        if length > _LONGEST_ANSWER_BYTES:
            raise ValueError(f"an answer of {length} bytes")
        return _receive(stream, length)


def _receive(stream: socket.socket, length: int) -> bytes:
    parts = []
    while length:
        part = stream.recv(length)
        if not part:
            raise ConnectionError("the answer ends early")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


# The status of nsenter for a program that does not exist.
_NOT_FOUND = 127


def run_program(command: Sequence[str], program: str, what: str, bound_s: float) -> str:
    """Run a command line of one of Ceph's programs (`CephAccess.command`); return its stdout.

    Raises LeadlineError: `ceph-missing`, `ceph-failed`.
    """
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=bound_s,
            stdin=subprocess.DEVNULL,
            env=child_environment(*CEPH),
        )
    except FileNotFoundError as error:
        raise program_missing(str(error.filename)) from error
    except subprocess.TimeoutExpired as error:
        raise LeadlineError(
            errors.CEPH_FAILED,
            f"{what}: {program} gives no answer within {bound_s:g} s",
            hint="check the cluster's health: its I/O may not complete",
        ) from error
    if done.returncode == _NOT_FOUND and "nsenter" in done.stderr:
        raise program_missing(program)
    if done.returncode:
        raise LeadlineError(
            errors.CEPH_FAILED,
            f"{what}: {program} ended with status {done.returncode}",
            context=[line for line in done.stderr.splitlines() if line.strip()][-3:],
        )
    return done.stdout


def program_missing(program: str) -> LeadlineError:
    """Return the error(`ceph-missing`) for a program that is not installed."""
    return LeadlineError(
        errors.CEPH_MISSING, f"there is no {program!r} on this machine", hint=INSTALL_CLIENT
    )
