"""The network of a lab: one network namespace per zone, and a delay for each pair of zones.

The forwarder (`zonelink.c`) runs on its own, outlives the process that started it and owns the
namespaces: they end with it. Its file of delays is its only input, its ready file its only output.

A delay that was set is read back from the forwarder. Its effect on packets is known only after
`measure_rtt`.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import math
import os
import platform
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from leadline.environment import COMPILER, child_environment
from leadline.files import user_cache
from leadline.lab import processes

# The forwarder is compiled at its first use, and kept in the user's cache.
SOURCE = Path(__file__).with_name("zonelink.c")
_NO_COMPILER = "there is no C compiler (Debian: gcc libc6-dev)"


class NetworkUnavailable(Exception):
    """Zones are unavailable, or have ended; `reason` is a sentence without full stop. A lab can
    then run on the loopback device without delay, and reports it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def build() -> Path:
    """Return the compiled forwarder from the cache, or compile it. Raises NetworkUnavailable."""
    binary = _binary()
    if found := _usable(binary):
        return found
    compiler = _compiler()
    if compiler is None:
        raise NetworkUnavailable(_NO_COMPILER)
    try:
        binary.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _require_own(binary.parent)
        descriptor, name = tempfile.mkstemp(prefix=f"{binary.name}.", dir=binary.parent)
        os.close(descriptor)
    except OSError as error:
        raise NetworkUnavailable(f"the cache cannot be written: {error}") from error
    fresh = Path(name)
    try:
        done = subprocess.run(
            [*compiler, "-O2", "-Wall", "-Wextra", "-o", str(fresh), str(SOURCE)],
            capture_output=True,
            text=True,
            errors="replace",
            env=child_environment(*COMPILER),
        )
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no message"]
            raise NetworkUnavailable(
                f"{compiler[0]} cannot compile {SOURCE.name} (Debian: gcc libc6-dev): "
                f"{next((line for line in lines if 'error' in line), lines[0])}"
            )
        fresh.chmod(0o755)
        # A process that compiles at the same time writes the same program: the last one stays.
        fresh.replace(binary)
    except OSError as error:
        raise NetworkUnavailable(f"{SOURCE.name} cannot be compiled: {error}") from error
    finally:
        fresh.unlink(missing_ok=True)
    return binary


def _binary() -> Path:
    identity = hashlib.sha256(SOURCE.read_bytes() + platform.machine().encode()).hexdigest()
    return user_cache() / f"zonelink-{identity[:12]}"


def _usable(binary: Path) -> Path | None:
    """Return the program if only this user can have written it: it will run as root."""
    try:
        found = binary.stat()
    except OSError:
        return None
    owned = _is_own(found) and _is_own(binary.parent.lstat())
    return binary if owned and found.st_size and os.access(binary, os.X_OK) else None


def _is_own(found: os.stat_result) -> bool:
    return found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _require_own(folder: Path) -> None:
    """Keep other users from writing in the folder. Raises NetworkUnavailable for another user's,
    and OSError."""
    found = folder.lstat()
    if found.st_uid != os.geteuid():
        raise NetworkUnavailable(
            f"the cache {folder} belongs to another user (name one of your own in XDG_CACHE_HOME)"
        )
    if not _is_own(found):
        folder.chmod(found.st_mode & ~0o022)


def _compiler() -> list[str] | None:
    words = shlex.split(os.environ.get("CC", "")) or ["cc"]
    return words if shutil.which(words[0]) else None


ZONES_MAX = 64
RTT_MAX_S = 20.0
READY = "zonelink.json"
DELAYS = "zonelink.delays"
LOG = "zonelink.log"

_NAME = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]{0,62}")
_REPLY = re.compile(r"icmp_seq=\d+ .*time=([0-9.]+) ms")
_SENT = re.compile(r"(\d+) packets transmitted, (\d+) received")
_TUN = Path("/dev/net/tun")
_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}
# In place of a delay: the link is lost (zonelink.c).
_LOST_NS = -1
_START_S = 20.0
_APPLY_S = 10.0
# After SIGTERM, then after SIGKILL.
_END_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """One zone: its IPv4 address, and the file of its network namespace."""

    name: str
    address: str
    namespace: Path


class RoundTrip(BaseModel):
    """The result of `ping` from one zone to another, in seconds: ping prints three digits, so the
    error is at most 0.5 %. `raw` is its output."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    destination: str
    sent: int
    received: int
    min_s: float
    median_s: float
    p95_s: float | None = None
    max_s: float
    raw: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneNetwork:
    """A running network. `start_ticks` is the start of process `pid` in clock ticks since boot
    (field 22 of /proc/PID/stat): a recycled pid is detected. `folder` holds the forwarder's
    files."""

    pid: int
    start_ticks: int
    folder: Path
    zones: tuple[Zone, ...]

    def zone(self, name: str) -> Zone:
        """Return a zone. Raises KeyError for an unknown name."""
        for zone in self.zones:
            if zone.name == name:
                return zone
        raise KeyError(name)

    def prefix(self, name: str) -> tuple[str, ...]:
        """Return the words that run a command inside the zone. Only the network differs: mounts,
        files and processes stay those of the machine."""
        return ("nsenter", f"--net={self.zone(name).namespace}", "--")

    def alive(self) -> bool:
        return _start_ticks(self.pid) == self.start_ticks

    def delays_ns(self) -> dict[tuple[str, str], int]:
        """Return the one-way delays that the forwarder reports; a pair without delay is absent, a
        lost link has -1."""
        return _read_ready(self.folder / READY)[1]

    def set_rtt(self, a: str, b: str, rtt_s: float) -> None:
        """Delay packets between two zones by half of `rtt_s` in each direction, in
        addition to the floor of a few tens of microseconds. Packets in flight keep their delay and
        order. Raises NetworkUnavailable if the forwarder is gone or does not report the delay.
        """
        self._set([(a, b)], one_way_ns(rtt_s))

    def set_rtt_between_all(self, rtt_s: float) -> None:
        pairs = list(combinations([zone.name for zone in self.zones], 2))
        self._set(pairs, one_way_ns(rtt_s))

    def lose_link(self, a: str, b: str) -> None:
        """Drop every packet between two zones until `set_rtt`. Raises as `set_rtt`, also for a
        forwarder of an earlier version."""
        self._set([(a, b)], _LOST_NS)

    def measure_rtt(self, a: str, b: str, count: int = 100, interval_s: float = 0.005) -> RoundTrip:
        """Ping zone `b` from inside zone `a`. Raises NetworkUnavailable if there is no ping or no
        reply at all."""
        if shutil.which("ping") is None:
            raise NetworkUnavailable(
                "the round trip cannot be measured: there is no ping (Debian: iputils-ping)"
            )
        command = [
            *self.prefix(a),
            *("ping", "-n", "-c", str(count), "-i", f"{interval_s:g}", "-W", "2"),
            self.zone(b).address,
        ]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                env=child_environment(LC_ALL="C"),
                timeout=2 * count * interval_s + RTT_MAX_S + 30,
            )
        except subprocess.TimeoutExpired as late:
            raise NetworkUnavailable(f"ping from zone {a} to zone {b} does not end") from late
        if done.returncode > 1 or (done.returncode and not done.stdout):
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise NetworkUnavailable(f"ping from zone {a} to zone {b} failed: {reason}")
        return parse_ping(done.stdout, source=a, destination=b)

    def stop(self) -> None:
        """End the forwarder and the network; no effect after their end. A namespace goes with its
        last process: end the processes in the zones first."""
        processes.end(self.pid, self.start_ticks, _END_S)
        _start_ticks(self.pid)  # waits for a child

    def _set(self, pairs: Sequence[tuple[str, str]], delay_ns: int) -> None:
        for a, b in pairs:
            if self.zone(a) == self.zone(b):
                raise ValueError(f"traffic within zone {a} is never delayed")
        with _locked(self.folder):
            if not self.alive():
                raise NetworkUnavailable("the forwarder of the zones has ended")
            wanted = self.delays_ns()
            for a, b in pairs:
                wanted[a, b] = wanted[b, a] = delay_ns
            wanted = {pair: delay for pair, delay in wanted.items() if delay}
            write_durably(self.folder / DELAYS, render_delays(wanted))
            _send(self.pid, self.start_ticks, signal.SIGHUP)
            if not _wait_for(lambda: self.delays_ns() == wanted or not self.alive(), _APPLY_S):
                reason = _last_message(self.folder)
                raise NetworkUnavailable(f"the forwarder does not report the delays{reason}")
        if not self.alive():
            raise NetworkUnavailable("the forwarder of the zones has ended")


def one_way_ns(rtt_s: float) -> int:
    """Return half a round trip in nanoseconds. Raises ValueError outside of 0 to RTT_MAX_S."""
    if not 0 <= rtt_s <= RTT_MAX_S:
        raise ValueError(f"a round trip of {rtt_s} s is not from 0 to {RTT_MAX_S:g} s")
    return round(rtt_s * 1e9 / 2)


def render_delays(delays_ns: Mapping[tuple[str, str], int]) -> str:
    return "".join(f"{a} {b} {delay}\n" for (a, b), delay in sorted(delays_ns.items()))


def parse_ping(text: str, *, source: str, destination: str) -> RoundTrip:
    """Parse the replies in the output of iputils' `ping -n`. Raises NetworkUnavailable without a
    reply, ValueError for other text or a summary that contradicts the replies."""
    summary = _SENT.search(text)
    if summary is None:
        raise ValueError("not the output of ping: no line with the number of transmitted packets")
    # ping marks a duplicate reply and counts it apart; its time is not a round trip.
    replies_s = [
        float(found[1]) / 1000
        for line in text.splitlines()
        if "(DUP!)" not in line and (found := _REPLY.search(line))
    ]
    sent, received = int(summary[1]), int(summary[2])
    if len(replies_s) != received:
        raise ValueError(f"ping shows {len(replies_s)} replies and counts {received}")
    if not replies_s:
        raise NetworkUnavailable(f"no reply came from zone {destination} to zone {source}")
    return RoundTrip(
        source=source,
        destination=destination,
        sent=sent,
        received=received,
        min_s=min(replies_s),
        median_s=statistics.median(replies_s),
        p95_s=sorted(replies_s)[math.ceil(0.95 * len(replies_s)) - 1],
        max_s=max(replies_s),
        raw=text,
    )


def find_obstacle() -> str | None:
    """Return why zones are unavailable here, without trying; None if no reason is known. `start`
    finds other reasons."""
    missing = _missing_capabilities(Path("/proc/self/status").read_text())
    if missing:
        return f"this process lacks {' and '.join(missing)} (run as root)"
    if not _TUN.exists():
        return f"there is no {_TUN} (kernel module tun)"
    if shutil.which("nsenter") is None:
        return "there is no nsenter (Debian: util-linux)"
    return _NO_COMPILER if _usable(_binary()) is None and _compiler() is None else None


def start(folder: Path, zones: Sequence[str], environment: Mapping[str, str]) -> ZoneNetwork:
    """Create the zones and forward between them without delay. The forwarder runs in its own
    session with `environment`, and keeps its files in the existing `folder`.

    Raises ValueError for names that are not distinct or invalid for zonelink, and
    NetworkUnavailable; then no process remains. If this process is killed before the network is
    ready, the kernel ends the forwarder.
    """
    faults = [name for name in zones if not _NAME.fullmatch(name)]
    if faults or len(set(zones)) != len(zones) or not 1 <= len(zones) <= ZONES_MAX:
        raise ValueError(f"not from 1 to {ZONES_MAX} distinct names of zones: {list(zones)}")
    if reason := find_obstacle():
        raise NetworkUnavailable(reason)
    binary = build()
    folder = folder.resolve()
    ready = folder / READY
    try:
        ready.unlink(missing_ok=True)
        write_durably(folder / DELAYS, "")
        pid = processes.start(
            [str(binary), "--ready", str(ready), "--delays", str(folder / DELAYS), *zones],
            folder=folder,
            output=folder / LOG,
            environment=environment,
        )
    except OSError as error:
        raise NetworkUnavailable(f"the forwarder of the zones does not start: {error}") from error
    started = None
    try:
        started = _start_ticks(pid)
        if not _wait_for(lambda: ready.exists() or _start_ticks(pid) is None, _START_S):
            raise NetworkUnavailable(f"the forwarder of the zones was not ready in {_START_S:g} s")
        if started is None or _start_ticks(pid) is None:
            raise NetworkUnavailable(f"network namespaces are unavailable{_last_message(folder)}")
        found, _ = _read_ready(ready)
        return ZoneNetwork(pid=pid, start_ticks=started, folder=folder, zones=found)
    except BaseException:
        # The child is not reaped yet, so the pid is still its own.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
        raise


def _read_ready(path: Path) -> tuple[tuple[Zone, ...], dict[tuple[str, str], int]]:
    """Return the zones, and the one-way delays in nanoseconds."""
    try:
        raw = json.loads(path.read_text())
        zones = tuple(
            Zone(
                name=zone["name"],
                address=zone["address"],
                namespace=Path(f"/proc/{int(raw['pid'])}/fd/{int(zone['namespace_fd'])}"),
            )
            for zone in raw["zones"]
        )
        return zones, {(a, b): int(delay) for a, b, delay in raw["delays"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NetworkUnavailable(f"{path} is not valid: {error}") from error


def _start_ticks(pid: int) -> int | None:
    """Return the start of a process as processes.start_ticks, and reap it if it is a dead child."""
    ticks = processes.start_ticks(pid)
    if ticks is None:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return ticks


def _send(pid: int, start_ticks: int, number: signal.Signals) -> None:
    """Send a signal, never to another process with a recycled pid. Raises ProcessLookupError."""
    descriptor = os.pidfd_open(pid)
    try:
        if _start_ticks(pid) != start_ticks:
            raise ProcessLookupError(errno.ESRCH, "the process has ended")
        signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)


def _wait_for(holds: Callable[[], bool], bound_s: float) -> bool:
    deadline = time.monotonic() + bound_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder: two concurrent changes of different pairs must both stay."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_durably(path: Path, text: str) -> None:
    """Write a file: a new one, fsync, rename."""
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _last_message(folder: Path) -> str:
    """Return the last log line of the forwarder, as the end of a reason."""
    with suppress(OSError):
        lines = (folder / LOG).read_text(errors="replace").strip().splitlines()
        if lines:
            return f": {lines[-1].removeprefix('zonelink: ')}"
    return ""


def _missing_capabilities(status: str) -> list[str]:
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    held = int(found[1], 16) if found else 0
    return [name for name, bit in _CAPABILITIES.items() if not held >> bit & 1]
