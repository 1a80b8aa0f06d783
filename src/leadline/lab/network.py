"""The network of a lab: one network namespace per zone, joined with a delay for each pair of zones.

The work is done by the forwarder (`zonelink.c`, see `forwarder`). It runs on its own, outlives the
process that started it and owns the namespaces: when it ends they end. Its file of delays is the
only thing ever told to it, and its ready file the only thing it tells.

A delay that was set has been read back from the forwarder, which says that it was understood. What
it does to packets is known only when `measure_rtt` has measured it.
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
import select
import shlex
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

# The forwarder of a lab's network, `zonelink.c`: compiled where it is first needed, and kept.

SOURCE = Path(__file__).with_name("zonelink.c")
_NO_COMPILER = "there is no C compiler (Debian: gcc libc6-dev)"


class NetworkUnavailable(Exception):
    """Zones of their own cannot be had, or have ceased to be; `reason` is a sentence without full
    stop. A lab can then run on the loopback device without any delay, and must say so."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def build() -> Path:
    """The compiled forwarder, from the user's cache or made now. Raises NetworkUnavailable."""
    binary = _binary()
    if found := _usable(binary):
        return found
    compiler = _compiler()
    if compiler is None:
        raise NetworkUnavailable(_NO_COMPILER)
    try:
        binary.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
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
        )
        if done.returncode:
            told = _first_error(done.stderr)
            raise NetworkUnavailable(
                f"{compiler[0]} cannot compile {SOURCE.name} (Debian: gcc libc6-dev): {told}"
            )
        fresh.chmod(0o755)
        # Others who build at the same time put the same program here: the last one stays.
        fresh.replace(binary)
    except OSError as error:
        raise NetworkUnavailable(f"{SOURCE.name} cannot be compiled: {error}") from error
    finally:
        fresh.unlink(missing_ok=True)
    return binary


def why_not_built() -> str | None:
    """Why there is no forwarder and none can be made, as a sentence; None if there will be one."""
    missing = _usable(_binary()) is None and _compiler() is None
    return _NO_COMPILER if missing else None


def _binary() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not Path(cache).is_absolute():  # as the XDG specification has it
        cache = str(Path(os.path.expanduser("~")) / ".cache")  # noqa: PTH111
    identity = hashlib.sha256(SOURCE.read_bytes() + platform.machine().encode()).hexdigest()
    return Path(cache) / "leadline" / f"zonelink-{identity[:12]}"


def _usable(binary: Path) -> Path | None:
    """The program if it is there and nobody but us can have put it there: it will run as root."""
    try:
        found = binary.stat()
    except OSError:
        return None
    ours = found.st_uid == os.geteuid() and not found.st_mode & 0o022
    return binary if ours and found.st_size and os.access(binary, os.X_OK) else None


def _compiler() -> list[str] | None:
    words = shlex.split(os.environ.get("CC", "")) or ["cc"]
    return words if shutil.which(words[0]) else None


def _first_error(said: str) -> str:
    lines = said.strip().splitlines() or ["it says nothing"]
    return next((line for line in lines if "error" in line), lines[0])


ZONES_MAX = 64
RTT_MAX_S = 20.0
READY = "zonelink.json"
DELAYS = "zonelink.delays"
LOG = "zonelink.log"

_NAME = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]{0,62}")
_REPLY = re.compile(r"icmp_seq=(\d+) .*time=([0-9.]+) ms")
_SENT = re.compile(r"(\d+) packets transmitted, (\d+) received")
_TUN = Path("/dev/net/tun")
_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}
_START_S = 20.0
_APPLY_S = 10.0
# After SIGTERM, then after SIGKILL.
_END_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """One zone: its IPv4 address, and the file by which its network namespace is entered."""

    name: str
    address: str
    namespace: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTrip:
    """What `ping` saw from one zone to another. `replies_s` are in order of sending; ping prints
    three digits, so each is true to half a per cent at worst. `raw` is all that ping said."""

    source: str
    destination: str
    sent: int
    replies_s: tuple[float, ...]
    raw: str

    @property
    def received(self) -> int:
        return len(self.replies_s)

    @property
    def min_s(self) -> float:
        return min(self.replies_s)

    @property
    def median_s(self) -> float:
        return statistics.median(self.replies_s)

    @property
    def max_s(self) -> float:
        return max(self.replies_s)

    def percentile_s(self, percent: float) -> float:
        """Nearest-rank percentile, 0 < percent <= 100: a round trip that really happened."""
        rank = math.ceil(percent / 100 * self.received)
        return sorted(self.replies_s)[max(rank, 1) - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneNetwork:
    """A running network. `start_ticks` is when process `pid` began, in clock ticks since boot
    (field 22 of /proc/PID/stat): a recycled pid is never taken for ours. `folder` holds the
    forwarder's files."""

    pid: int
    start_ticks: int
    folder: Path
    zones: tuple[Zone, ...]

    def zone(self, name: str) -> Zone:
        """Raises KeyError if there is no such zone."""
        for zone in self.zones:
            if zone.name == name:
                return zone
        raise KeyError(name)

    def prefix(self, name: str) -> tuple[str, ...]:
        """What to put before a command so that it runs inside the zone. Only the network is
        another: mounts, files and processes stay those of the machine."""
        return ("nsenter", f"--net={self.zone(name).namespace}", "--")

    def alive(self) -> bool:
        return _start_ticks(self.pid) == self.start_ticks

    def delays_ns(self) -> dict[tuple[str, str], int]:
        """One-way delays in force, as the forwarder tells them; a pair without delay is absent."""
        return _read_ready(self.folder / READY).delays_ns

    def set_rtt(self, a: str, b: str, rtt_s: float) -> None:
        """Delay packets between two zones by half of `rtt_s` in each direction, on top of the
        floor of a few tens of microseconds. Packets on their way keep their delay and order.

        Raises NetworkUnavailable if the forwarder is gone or does not take the delay over.
        """
        self._set([(a, b)], rtt_s)

    def set_rtt_between_all(self, rtt_s: float) -> None:
        """The same for each pair of zones."""
        names = [zone.name for zone in self.zones]
        self._set([(a, b) for at, a in enumerate(names) for b in names[at + 1 :]], rtt_s)

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
                env=os.environ | {"LC_ALL": "C"},
                timeout=2 * count * interval_s + RTT_MAX_S + 30,
            )
        except subprocess.TimeoutExpired as late:
            raise NetworkUnavailable(f"ping from zone {a} to zone {b} does not end") from late
        if done.returncode > 1 or (done.returncode and not done.stdout):
            told = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise NetworkUnavailable(f"ping from zone {a} to zone {b} failed: {told}")
        return parse_ping(done.stdout, source=a, destination=b)

    def stop(self) -> None:
        """End the forwarder, and with it the network. Nothing happens if it has ended already.
        The namespaces go with their last process: end what runs in the zones first."""
        _end(self.pid, self.start_ticks)

    def to_json(self) -> dict[str, object]:
        """For a state file; `from_json` is the way back. (Pydantic also takes the class as it is
        for a field of a model.)"""
        plain = asdict(self)
        plain["folder"] = str(self.folder)
        for zone in plain["zones"]:
            zone["namespace"] = str(zone["namespace"])
        plain["zones"] = list(plain["zones"])
        return plain

    @classmethod
    def from_json(cls, raw: object) -> ZoneNetwork:
        """Raises ValueError (pydantic's) if `raw` is not what `to_json` gave."""
        from pydantic import TypeAdapter

        return TypeAdapter(cls).validate_python(raw)

    def _set(self, pairs: Sequence[tuple[str, str]], rtt_s: float) -> None:
        delay_ns = one_way_ns(rtt_s)
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
            _write_durably(self.folder / DELAYS, render_delays(wanted))
            _send(self.pid, self.start_ticks, signal.SIGHUP)
            if not _wait_for(lambda: self.delays_ns() == wanted or not self.alive(), _APPLY_S):
                told = _last_word(self.folder)
                raise NetworkUnavailable(f"the forwarder did not take the delays over{told}")
        if not self.alive():
            raise NetworkUnavailable("the forwarder of the zones has ended")


def one_way_ns(rtt_s: float) -> int:
    """Half a round trip in nanoseconds. Raises ValueError if it is not from 0 to RTT_MAX_S."""
    if not 0 <= rtt_s <= RTT_MAX_S:
        raise ValueError(f"a round trip of {rtt_s} s is not from 0 to {RTT_MAX_S:g} s")
    return round(rtt_s * 1e9 / 2)


def render_delays(delays_ns: Mapping[tuple[str, str], int]) -> str:
    """The file that zonelink reads."""
    return "".join(f"{a} {b} {delay}\n" for (a, b), delay in sorted(delays_ns.items()))


def parse_ping(text: str, *, source: str, destination: str) -> RoundTrip:
    """Every reply of iputils' `ping -n`. Raises NetworkUnavailable if there is none, ValueError if
    the text is no such output or its summary counts other replies than it shows."""
    summary = _SENT.search(text)
    if summary is None:
        raise ValueError("not the output of ping: no line tells how many packets were transmitted")
    # A reply that came twice is marked by ping and counted apart; its time means nothing.
    replies = [
        (int(found[1]), float(found[2]) / 1000)
        for line in text.splitlines()
        if "(DUP!)" not in line and (found := _REPLY.search(line))
    ]
    sent, received = int(summary[1]), int(summary[2])
    if len(replies) != received:
        raise ValueError(f"ping shows {len(replies)} replies and counts {received}")
    if not replies:
        raise NetworkUnavailable(f"no reply came from zone {destination} to zone {source}")
    return RoundTrip(
        source=source,
        destination=destination,
        sent=sent,
        replies_s=tuple(time_s for _, time_s in sorted(replies)),
        raw=text,
    )


def why_unavailable() -> str | None:
    """Why zones cannot be had here, as far as can be told without trying; None if nothing is
    known to stand against them. `start` finds out the rest."""
    missing = _missing_capabilities(Path("/proc/self/status").read_text())
    if missing:
        return f"this process lacks {' and '.join(missing)} (run as root)"
    if not _TUN.exists():
        return f"there is no {_TUN} (kernel module tun)"
    if shutil.which("nsenter") is None:
        return "there is no nsenter (Debian: util-linux)"
    return why_not_built()


def start(folder: Path, zones: Sequence[str], environment: Mapping[str, str]) -> ZoneNetwork:
    """Make the zones and begin to forward between them, without delay. The forwarder runs in a
    session of its own with `environment`, and keeps its files in `folder`, which must exist.

    Raises ValueError for names that are not distinct or not such as zonelink takes, and
    NetworkUnavailable; then nothing is left running. If this process is killed before the network
    is ready, the kernel ends the forwarder.
    """
    faults = [name for name in zones if not _NAME.fullmatch(name)]
    if faults or len(set(zones)) != len(zones) or not 1 <= len(zones) <= ZONES_MAX:
        raise ValueError(f"not from 1 to {ZONES_MAX} distinct names of zones: {list(zones)}")
    if reason := why_unavailable():
        raise NetworkUnavailable(reason)
    binary = build()
    folder = folder.resolve()
    ready = folder / READY
    try:
        ready.unlink(missing_ok=True)
        _write_durably(folder / DELAYS, "")
        pid = _spawn(
            [str(binary), "--ready", str(ready), "--delays", str(folder / DELAYS), *zones],
            log=folder / LOG,
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
            raise NetworkUnavailable(f"network namespaces cannot be had{_last_word(folder)}")
        told = _read_ready(ready)
        return ZoneNetwork(pid=pid, start_ticks=started, folder=folder, zones=told.zones)
    except BaseException:
        # It is our child and not yet reaped, so the pid is its own whatever else went wrong.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    zones: tuple[Zone, ...]
    delays_ns: dict[tuple[str, str], int]


def _read_ready(path: Path) -> _Ready:
    try:
        told = json.loads(path.read_text())
        return _Ready(
            zones=tuple(
                Zone(
                    name=zone["name"],
                    address=zone["address"],
                    namespace=Path(f"/proc/{int(told['pid'])}/fd/{int(zone['namespace_fd'])}"),
                )
                for zone in told["zones"]
            ),
            delays_ns={(a, b): int(delay) for a, b, delay in told["delays"]},
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NetworkUnavailable(f"{path} cannot be understood: {error}") from error


def _spawn(command: Sequence[str], *, log: Path, environment: Mapping[str, str]) -> int:
    """Start in a session of its own; not by subprocess, whose objects want to see the end."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    defaults = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGUSR1]
    return os.posix_spawn(
        command[0],
        list(command),
        dict(environment),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, str(log), flags, 0o644),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=defaults,
    )


def _start_ticks(pid: int) -> int | None:
    """When the process began, in clock ticks since boot; None if there is none, or only its
    remains that nobody has waited for. A child of ours that has ended is waited for here."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The name stands in parentheses and may itself hold spaces and parentheses.
    fields = stat.rpartition(")")[2].split()
    if fields[0] in "ZX":
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        return None
    return int(fields[19])


def _send(pid: int, start_ticks: int, number: signal.Signals) -> None:
    """To that process and no other that has come by its pid. Raises ProcessLookupError."""
    descriptor = os.pidfd_open(pid)
    try:
        if _start_ticks(pid) != start_ticks:
            raise ProcessLookupError(errno.ESRCH, "the process has ended")
        signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)


def _end(pid: int, start_ticks: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if _start_ticks(pid) != start_ticks:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            signal.pidfd_send_signal(descriptor, number)
            if select.select([descriptor], [], [], _END_S)[0]:
                break
    except ProcessLookupError:
        return
    finally:
        os.close(descriptor)
        _start_ticks(pid)  # waits for it if it was our child


def _wait_for(holds: Callable[[], bool], patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One at a time: two who change different pairs must not undo each other's change."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write_durably(path: Path, text: str) -> None:
    beside = path.with_name(f"{path.name}.new")
    with beside.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _last_word(folder: Path) -> str:
    """What the forwarder said last, to go behind a reason."""
    with suppress(OSError):
        lines = (folder / LOG).read_text(errors="replace").strip().splitlines()
        if lines:
            return f": {lines[-1].removeprefix('zonelink: ')}"
    return ""


def _missing_capabilities(status: str) -> list[str]:
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    held = int(found[1], 16) if found else 0
    return [name for name, bit in _CAPABILITIES.items() if not held >> bit & 1]
