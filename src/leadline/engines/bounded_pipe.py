"""A pipe of a bounded size between two programs that measures where it stalls.

    python -I -S bounded_pipe.py '{"send": [...], "receive": [...], ...}'

runs the sender, the receiver, and behind them a command that makes what was received durable, and
prints a JSON line for each sample and one, `end`, with the totals. It is a program of its own so
that one process group holds all three, which a signal ends together, and imports nothing but the
standard library.

It reports how long it waited for each side. Waiting includes no copying: all reads and writes are
non-blocking, and the clock runs while there is nothing to read, or no free space.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
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
                fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, CHUNK_BYTES)
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
        except BrokenPipeError:
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


class Stream:
    """One stream from a sender to a receiver: its processes, and the relay between them."""

    def __init__(self) -> None:
        self.stopped = False
        self.processes: list[subprocess.Popen[bytes]] = []

    def stop(self, number: int, frame: FrameType | None) -> None:
        self.stopped = True
        self.end()

    def end(self) -> None:
        """Terminate all programs, then kill them."""
        for process in self.processes:
            process.terminate()
        later = threading.Timer(_ENDING_S, self.kill)
        later.daemon = True
        later.start()

    def kill(self) -> None:
        for process in self.processes:
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
        self.processes.append(process)
        if self.stopped:
            process.terminate()
        return process

    def run(
        self,
        send: Sequence[str],
        receive: Sequence[str],
        sync: Sequence[str],
        *,
        buffer_bytes: int,
        sample_s: float,
        report: Callable[[dict[str, float]], None],
    ) -> dict[str, Any]:
        """The totals of the stream. Raises OSError if a program cannot be started."""
        relay = Relay(buffer_bytes)
        began_at, began = time.time(), time.monotonic()
        receiver = self.start(receive, reads=True, writes=False)
        sender = self.start(send, reads=False, writes=True)
        assert sender.stdout is not None
        assert receiver.stdin is not None
        source, sink = os.dup(sender.stdout.fileno()), os.dup(receiver.stdin.fileno())
        sender.stdout.close()
        receiver.stdin.close()
        relay.start(source, sink, began)
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
            self.end()  # a sender that writes nothing does not notice that the receiver has gone
        sender.wait()
        relay.join(_ENDING_S)
        report(relay.sample())
        sync_status = 0
        if sync and not receiver.returncode and not sender.returncode:
            sync_status = self.start(sync, reads=False, writes=False).wait()
        seconds = time.monotonic() - began
        return {
            "began_at": round(began_at, 3),
            "bytes": relay.written_bytes,
            "seconds": _rounded(seconds if sync else stream_s),
            "stream_s": _rounded(stream_s),
            "finishing_s": _rounded(max(0.0, ended_at - (relay.drained_at or ended_at))),
            "most_buffered_bytes": relay.most_buffered_bytes,
            "mean_buffered_bytes": round(relay.mean_buffered_bytes),
            "relay_cpu_s": _rounded(relay.cpu_s),
            "statuses": [sender.returncode, receiver.returncode, sync_status],
            **relay.waits(),
        }


def _rounded(seconds: float) -> float:
    return round(seconds, 6)


def _print_line(line: object) -> None:
    sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def _end(command: Sequence[str], status: int) -> str:
    """How a program ended: `zfs send ended by SIGKILL`."""
    how = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
    return f"{' '.join([command[0].rpartition('/')[2], *command[1:2]])} ended {how}"


def main(arguments: Sequence[str]) -> int:
    """The exit status; what was measured is on stdout."""
    asked = json.loads(arguments[0])
    stream = Stream()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stream.stop)
    try:
        totals = stream.run(
            asked["send"],
            asked["receive"],
            asked["sync"],
            buffer_bytes=asked["buffer_bytes"],
            sample_s=asked["sample_s"],
            report=lambda sample: _print_line({"stream": asked["stream"], **sample}),
        )
    except OSError as error:
        stream.kill()
        sys.stderr.write(f"cannot be started: {error}\n")
        return NOT_STARTED
    _print_line({"stream": asked["stream"], "end": totals})
    if stream.stopped:
        return STOPPED
    commands = (asked["send"], asked["receive"], asked["sync"])
    ends = [_end(*pair) for pair in zip(commands, totals["statuses"], strict=True) if pair[1]]
    if ends:
        # A program that was killed, for instance for lack of memory, prints nothing itself.
        sys.stderr.write(f"{'; '.join(ends)}\n")
    return FAILED if ends else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
