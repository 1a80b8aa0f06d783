"""The forwarder of a lab's network, `zonelink.c`: compiled where it is first needed, and kept."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

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
