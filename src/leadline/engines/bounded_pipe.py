"""Pipes of a bounded size from senders to receivers that measure where they stall.

    python -I -S bounded_pipe.py '{"streams": [{"send": [...], "receive": [...], ...}], ...}'

runs the senders and receivers of all streams at the same time, behind each a command that makes
what was received durable, and prints a JSON line for each sample and one, `end`, with the totals of
each stream. It is a program of its own so that one process group holds all of them, which a signal
ends together, and imports nothing but the standard library.

    python -I -S -c CODE '{"receive": [...], "sync": [...], ...}'

is the same code at the other end of a connection: it gives what it reads from stdin, or from a TCP
connection, to the receiver of one stream on its host. `receive` of the first form is then the
command of ssh that runs it.

It reports how long it waited for each side. Waiting includes no copying: all reads and writes are
non-blocking, and the clock runs while there is nothing to read, or no free space.
"""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

# Most that is moved at once, and what is asked of the kernel for the pipes on either side.
CHUNK_BYTES = 1 << 20
# Exit statuses: one of the programs failed, a signal stopped them, one could not be started.
FAILED, STOPPED, NOT_STARTED = 1, 130, 127
_ENDING_S = 2.0
# F_SETPIPE_SZ of fcntl.h; Python has the name since 3.10, and other hosts may be older.
_SET_PIPE_SIZE = 1031
# The other end of a connection answers within this time, and is connected to within that one.
_READY_S, _CONNECTED_S = 60.0, 10.0
_SECRET_BYTES = 32


class Waited:
    """Seconds spent in one kind of waiting, readable while it goes on."""

    def __init__(self) -> None:
        # The total, and since when it goes on: one object, so that another thread sees both.
        self._state: tuple[float, float | None] = (0.0, None)

    def __enter__(self) -> None:
        self._state = (self._state[0], time.monotonic())

    def __exit__(self, *_: object) -> None:
        self._state = (self.seconds, None)

    @property
    def seconds(self) -> float:
        total, since = self._state
        return total if since is None else total + time.monotonic() - since


class Relay:
    """Moves all bytes from a descriptor to another through a buffer of `capacity` bytes, with a
    thread for each side."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        # The reader had nothing to read; the buffer was full, so that nothing was read.
        self.for_sender, self.holding_sender = Waited(), Waited()
        # The receiver took no data; the buffer was empty, so that there was nothing to write.
        self.for_receiver, self.starving_receiver = Waited(), Waited()
        self.read_bytes = self.written_bytes = self.most_buffered_bytes = 0
        self.cpu_s = 0.0
        # time.monotonic() when the receiver had taken all there was.
        self.drained_at: float | None = None
        self.broken = False
        self._source = self._sink = -1
        self._ring = memoryview(bytearray(capacity))
        self._changed = threading.Condition()
        self._over = False
        # Bytes x seconds, for the mean fill level.
        self._area, self._since, self._began = 0.0, time.monotonic(), time.monotonic()
        self._threads: list[threading.Thread] = []

    def start(self, source: int, sink: int, began: float) -> None:
        """Both descriptors become non-blocking and are closed at the end. `began` is the
        time.monotonic() that samples are counted from."""
        self._source, self._sink = source, sink
        for end in (source, sink):
            os.set_blocking(end, False)
            # Refused beyond the user's share of such pages: a smaller pipe only costs turns.
            with contextlib.suppress(OSError):
                fcntl.fcntl(end, _SET_PIPE_SIZE, CHUNK_BYTES)
        self._threads = [
            threading.Thread(target=self._side, args=(work, end), daemon=True)
            for work, end in ((self._fill, source), (self._drain, sink))
        ]
        self._since, self._began = time.monotonic(), began
        for thread in self._threads:
            thread.start()

    def join(self, timeout_s: float) -> bool:
        """Whether both sides have come to their end, for which it waits."""
        until = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    @property
    def buffered_bytes(self) -> int:
        return self.read_bytes - self.written_bytes

    @property
    def mean_buffered_bytes(self) -> float:
        lasted = self._since - self._began
        return self._area / lasted if lasted else 0.0

    def _side(self, work: Callable[[], None], end: int) -> None:
        try:
            work()
        finally:
            os.close(end)
            with self._changed:
                self.cpu_s += time.thread_time()

    def _account(self) -> None:
        """To be called with the lock, before the fill level changes."""
        now = time.monotonic()
        self._area += self.buffered_bytes * (now - self._since)
        self._since = now

    def _fill(self) -> None:
        ready = select.poll()
        ready.register(self._source, select.POLLIN)
        try:
            while free := self._free_bytes():
                begin = self.read_bytes % self.capacity
                space = self._ring[begin : min(begin + min(free, CHUNK_BYTES), self.capacity)]
                try:
                    count = os.readv(self._source, [space])
                except BlockingIOError:
                    with self.for_sender:
                        ready.poll()
                    continue
                except ConnectionError:
                    return  # a stream that is cut is what its receiver refuses
                if not count:
                    return
                with self._changed:
                    self._account()
                    self.read_bytes += count
                    self.most_buffered_bytes = max(self.most_buffered_bytes, self.buffered_bytes)
                    self._changed.notify()
        finally:
            with self._changed:
                self._over = True
                self._changed.notify()

    def _free_bytes(self) -> int:
        """Free bytes, at least one; 0 once the receiver has gone."""
        with self._changed:
            if self.buffered_bytes == self.capacity and not self.broken:
                with self.holding_sender:
                    self._changed.wait_for(
                        lambda: self.broken or self.buffered_bytes < self.capacity
                    )
            return 0 if self.broken else self.capacity - self.buffered_bytes

    def _drain(self) -> None:
        ready = select.poll()
        ready.register(self._sink, select.POLLOUT)
        try:
            while held := self._held():
                begin = self.written_bytes % self.capacity
                piece = self._ring[begin : min(begin + min(held, CHUNK_BYTES), self.capacity)]
                try:
                    count = os.write(self._sink, piece)
                except BlockingIOError:
                    with self.for_receiver:
                        ready.poll()
                    continue
                with self._changed:
                    self._account()
                    self.written_bytes += count
                    self._changed.notify()
            self.drained_at = time.monotonic()
        except ConnectionError:
            with self._changed:
                self.broken = True
                self._changed.notify()

    def _held(self) -> int:
        """Bytes to be written, at least one; 0 at the end."""
        with self._changed:
            if not self.buffered_bytes and not self._over:
                with self.starving_receiver:
                    self._changed.wait_for(lambda: self._over or self.buffered_bytes > 0)
            return self.buffered_bytes

    def sample(self) -> dict[str, float]:
        """The counters now, from the start on."""
        with self._changed:
            read, written = self.read_bytes, self.written_bytes
        return {
            "at_s": _rounded(time.monotonic() - self._began),
            "read_bytes": read,
            "written_bytes": written,
            **self.waits(),
        }

    def waits(self) -> dict[str, float]:
        return {
            "waited_for_sender_s": _rounded(self.for_sender.seconds),
            "held_sender_s": _rounded(self.holding_sender.seconds),
            "waited_for_receiver_s": _rounded(self.for_receiver.seconds),
            "starved_receiver_s": _rounded(self.starving_receiver.seconds),
        }


class Programs:
    """The programs of all streams, which end together."""

    def __init__(self) -> None:
        self.stopped = False
        self._processes: list[subprocess.Popen[bytes]] = []

    def stop(self, number: int = 0, frame: FrameType | None = None) -> None:
        self.stopped = True
        self.end()

    def end(self) -> None:
        """Terminate all programs, then kill them."""
        for process in self._processes:
            process.terminate()
        later = threading.Timer(_ENDING_S, self.kill)
        later.daemon = True
        later.start()

    def kill(self) -> None:
        for process in self._processes:
            process.kill()

    def start(
        self, command: Sequence[str], *, reads: bool, writes: bool
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if reads else subprocess.DEVNULL,
            stdout=subprocess.PIPE if writes else sys.stderr,
            bufsize=0,
        )
        self._processes.append(process)
        if self.stopped:
            process.terminate()
        return process


class Ending(Exception):
    """A stream cannot begin, or ended without totals; its text is for the user."""


class Receiving:
    """The receiver of a stream on this host, or the command that runs it on another one."""

    def __init__(self, programs: Programs, command: Sequence[str], via: str) -> None:
        """`via` is `ssh` or `tcp` for another host, and empty for this one."""
        self._programs, self._command, self._via = programs, command, via
        self._process: subprocess.Popen[bytes] | None = None
        self._sink = -1
        self.address: list[Any] = []

    def connect(self) -> None:
        """Start a receiver on another host and wait until it is ready. Raises Ending, OSError."""
        if not self._via:
            return
        process = self.start()
        secret = secrets.token_hex(_SECRET_BYTES // 2).encode()
        assert process.stdin is not None
        assert process.stdout is not None
        if self._via == "tcp":
            with contextlib.suppress(BrokenPipeError):  # its own message says why it has ended
                process.stdin.write(secret)
        ready = select.poll()
        ready.register(process.stdout, select.POLLIN)
        line = process.stdout.readline() if ready.poll(1000 * _READY_S) else b""
        if not line:
            raise Ending("ssh: the other end of the stream did not begin")
        if self._via == "tcp":
            self.address = json.loads(line)["ready"]
            address, port = self.address
            try:
                connection = socket.create_connection((address, port), timeout=_CONNECTED_S)
                connection.sendall(secret)
            except OSError as error:
                raise Ending(f"no TCP connection to {address} port {port}: {error}") from error
            self._sink = connection.detach()

    def start(self) -> subprocess.Popen[bytes]:
        """The process, which runs already on another host."""
        if self._process is None:
            self._process = self._programs.start(self._command, reads=True, writes=bool(self._via))
        return self._process

    def sink(self) -> int:
        """A descriptor for what is to be received, whose end is that of the stream."""
        if self._via == "tcp":
            return self._sink
        stdin = self.start().stdin
        assert stdin is not None
        found = os.dup(stdin.fileno())
        stdin.close()
        return found

    def totals(self) -> dict[str, Any] | None:
        """Totals of the pipe on the other host, after its end; None on this one, and where it
        failed. Raises Ending."""
        process = self.start()
        if process.stdout is None:
            return None
        *_, last = [b"", *process.stdout.readlines()]
        process.stdout.close()
        if process.returncode == 0 and b'"end"' not in last:
            raise Ending("ssh: the other end of the stream reported nothing")
        return json.loads(last)["end"] if b'"end"' in last else None


class Stream:
    """One stream from a sender to a receiver: its processes, and the relay between them."""

    def __init__(self, programs: Programs, receiving: Receiving) -> None:
        self._programs = programs
        self.receiving = receiving

    def run(
        self,
        send: Sequence[str],
        sync: Sequence[str],
        *,
        began: float,
        buffer_bytes: int,
        sample_s: float,
        report: Callable[[dict[str, float]], None],
    ) -> dict[str, Any]:
        """The totals of the stream, from the time.monotonic() `began` on. Raises OSError if a
        program cannot be started."""
        relay = Relay(buffer_bytes)
        receiver = self.receiving.start()
        sender = self._programs.start(send, reads=False, writes=True)
        assert sender.stdout is not None
        source, sink = os.dup(sender.stdout.fileno()), self.receiving.sink()
        sender.stdout.close()
        relay.start(source, sink, began)
        totals = relayed(
            relay,
            receiver,
            began,
            self._programs,
            sender=sender,
            sync=sync,
            sample_s=sample_s,
            report=report,
        )
        far = self.receiving.totals()
        if far is not None:
            # What the other end did after its receiver had ended is no part of the stream.
            after_s = min(far["seconds"] - far["stream_s"], totals["finishing_s"])
            totals["stream_s"] = _rounded(totals["stream_s"] - after_s)
            totals["finishing_s"] = _rounded(totals["finishing_s"] - after_s)
            del far["statuses"]
            totals["far"] = far
        return totals


def relayed(
    relay: Relay,
    receiver: subprocess.Popen[bytes],
    began: float,
    programs: Programs,
    *,
    sender: subprocess.Popen[bytes] | None = None,
    sync: Sequence[str],
    sample_s: float,
    report: Callable[[dict[str, float]], None],
) -> dict[str, Any]:
    """Follow a relay that has started until the programs of its stream have ended; the totals."""
    ended = select.poll()
    ended.register(os.pidfd_open(receiver.pid), select.POLLIN)
    due = sample_s
    while not ended.poll(max(0.0, 1000 * (began + due - time.monotonic()))):
        report(relay.sample())
        due += sample_s
    ended_at = time.monotonic()
    stream_s = ended_at - began
    receiver.wait()
    if not relay.join(_ENDING_S) and receiver.returncode:
        programs.end()  # a sender that writes nothing does not notice that the receiver has gone
    status = sender.wait() if sender is not None else 0
    relay.join(_ENDING_S)
    report(relay.sample())
    sync_status = 0
    if sync and not receiver.returncode and not status:
        sync_status = programs.start(sync, reads=False, writes=False).wait()
    seconds = time.monotonic() - began
    return {
        "bytes": relay.written_bytes,
        "seconds": _rounded(seconds if sync else stream_s),
        "stream_s": _rounded(stream_s),
        "finishing_s": _rounded(max(0.0, ended_at - (relay.drained_at or ended_at))),
        "most_buffered_bytes": relay.most_buffered_bytes,
        "mean_buffered_bytes": round(relay.mean_buffered_bytes),
        "relay_cpu_s": _rounded(relay.cpu_s),
        "statuses": [status, receiver.returncode, sync_status],
        **relay.waits(),
    }


def _rounded(seconds: float) -> float:
    return round(seconds, 6)


_PRINTING = threading.Lock()


def _print_line(line: object) -> None:
    with _PRINTING:
        sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n")
        sys.stdout.flush()


def _end(command: Sequence[str], status: int) -> str:
    """How a program ended: `zfs send ended by SIGKILL`."""
    how = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
    words = [command[0].rpartition("/")[2], *command[1:2]]
    return f"{' '.join(words[:1] if words[0] == 'ssh' else words)} ended {how}"


def _ends(asked: dict[str, Any], statuses: Sequence[int]) -> Sequence[str]:
    """How the programs of a stream ended that failed. A program that was killed, for instance for
    lack of memory, prints nothing itself; the other end of a connection has already done so."""
    commands = (asked["send"], asked["receive"], asked["sync"])
    quiet = (0, FAILED, NOT_STARTED) if asked.get("via") else (0,)
    return [
        _end(command, status)
        for command, status in zip(commands, statuses, strict=True)
        if status not in (quiet if command is asked["receive"] else (0,))
    ]


def send_all(asked: dict[str, Any], programs: Programs) -> int:
    """Run all streams at the same time; the exit status. Raises OSError, Ending."""
    streams = [
        Stream(programs, Receiving(programs, one["receive"], one.get("via", "")))
        for one in asked["streams"]
    ]
    # All start their other ends, then wait for them.
    for stream, one in zip(streams, asked["streams"], strict=True):
        if one.get("via"):
            stream.receiving.start()
    for stream in streams:
        stream.receiving.connect()
    began_at, began = time.time(), time.monotonic()
    failed: list[Sequence[str]] = []
    raised: list[OSError | Ending] = []

    def run(stream: Stream, one: dict[str, Any]) -> None:
        number = one["stream"]
        try:
            totals = stream.run(
                one["send"],
                one["sync"],
                began=began,
                buffer_bytes=asked["buffer_bytes"],
                sample_s=asked["sample_s"],
                report=lambda sample: _print_line({"stream": number, **sample}),
            )
        except (OSError, Ending) as error:
            raised.append(error)
            programs.end()
            return
        address = {"address": stream.receiving.address} if stream.receiving.address else {}
        _print_line(
            {"stream": number, "end": {"began_at": round(began_at, 3), **totals, **address}}
        )
        if any(totals["statuses"]):
            failed.append(_ends(one, totals["statuses"]))
            if len(streams) > 1:
                programs.end()

    threads = [
        threading.Thread(target=run, args=pair)
        for pair in zip(streams, asked["streams"], strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
    if programs.stopped:
        return STOPPED
    if failed and failed[0]:  # the other streams were ended for it
        sys.stderr.write(f"{'; '.join(failed[0])}\n")
    return FAILED if failed else 0


def receive_one(asked: dict[str, Any], programs: Programs) -> int:
    """Receive the stream of another host from stdin, or from a connection to a TCP `port`; the exit
    status. Raises OSError, Ending."""
    source = 0
    if asked["port"] is None:
        _print_line({"ready": []})
    else:
        source = _accept(asked["port"], programs).detach()
    select.select([source], [], [])
    began = time.monotonic()
    receiver = programs.start(asked["receive"], reads=True, writes=False)
    assert receiver.stdin is not None
    sink = os.dup(receiver.stdin.fileno())
    receiver.stdin.close()
    relay = Relay(asked["buffer_bytes"])
    relay.start(source, sink, began)
    totals = relayed(
        relay,
        receiver,
        began,
        programs,
        sync=asked["sync"],
        sample_s=asked["sample_s"],
        report=lambda sample: None,
    )
    _print_line({"end": totals})
    _, status, sync_status = totals["statuses"]
    ends = [_end(asked["receive"], status)] if status else []
    ends += [_end(asked["sync"], sync_status)] if sync_status else []
    if ends:
        sys.stderr.write(f"{'; '.join(ends)}\n")
    return FAILED if ends or programs.stopped else 0


def _accept(port: int, programs: Programs) -> socket.socket:
    """The connection of the other end, which knows the secret from stdin. It listens at the address
    that ssh came to; when stdin ends, all ends. Raises OSError, Ending."""
    secret = b""
    while len(secret) < _SECRET_BYTES and (piece := os.read(0, _SECRET_BYTES - len(secret))):
        secret += piece
    # "CLIENT PORT SERVER PORT", of sshd.
    words = os.environ.get("SSH_CONNECTION", "").split()
    address = words[2] if len(words) == 4 else "UNKNOWN"
    if address == "UNKNOWN" or len(secret) < _SECRET_BYTES:
        raise Ending("the address of this host is unknown: sshd gives no SSH_CONNECTION")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        server = socket.create_server((address, port), family=family)
    except OSError as error:
        raise Ending(f"cannot listen at {address} port {port}: {error.strerror}") from error
    with server:
        _print_line({"ready": [address, server.getsockname()[1]]})
        until = time.monotonic() + _READY_S
        while (left_s := until - time.monotonic()) > 0:
            server.settimeout(left_s)
            connection, _ = server.accept()
            connection.settimeout(_CONNECTED_S)
            given = b""
            with contextlib.suppress(OSError):
                while piece := connection.recv(_SECRET_BYTES - len(given)):
                    given += piece
                    if len(given) == _SECRET_BYTES:
                        break
            if hmac.compare_digest(given, secret):
                threading.Thread(target=_follow, args=(programs,), daemon=True).start()
                return connection
            connection.close()
    raise Ending(f"nothing came to {address} port {port}")


def _follow(programs: Programs) -> None:
    """End with stdin, which is that of the connection by ssh."""
    while os.read(0, 4096):
        pass
    programs.stop()


def main(arguments: Sequence[str]) -> int:
    """The exit status; what was measured is on stdout."""
    asked = json.loads(arguments[0])
    programs = Programs()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, programs.stop)
    try:
        return (send_all if "streams" in asked else receive_one)(asked, programs)
    except Ending as error:
        programs.kill()
        sys.stderr.write(f"{error}\n")
        return STOPPED if programs.stopped else FAILED
    except OSError as error:
        programs.kill()
        sys.stderr.write(f"cannot be started: {error}\n")
        return NOT_STARTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
