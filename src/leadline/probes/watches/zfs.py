"""A pool of ZFS during a trial.

`zpool-iostat.txt` is what `zpool iostat` prints every second, raw, behind its command line.
`zfs.jsonl` is what was asked at the start and the end, a line each: `{"at", "elapsed_s", "pool",
"asked", "text"}`, `asked` being a command behind `zpool` or a file below /proc/spl/kstat/zfs
(`kstat arcstats`, `kstat txgs` of the pool), or `error` in place of `text`.
`leadline.formats.watch_records` reads it, `leadline.formats.zfs` the texts.

The programs of zfs-fuse know neither histograms nor waits: it tells that, and the plain form is
taken. A pool that is suspended lets its programs wait in the kernel, where nothing ends them: they
are left behind then, not waited for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from leadline.archive import layout
from leadline.connect import programs
from leadline.probes.watches.base import AskingWatch, Line

_KSTATS: Final = Path("/proc/spl/kstat/zfs")
# Of the module; `txgs` is the pool's own and lies in its folder.
_ASKED_KSTATS: Final = ("arcstats", "dmu_tx", "zil", "zfetchstats")
_POOL_KSTATS: Final = ("txgs", "iostats")
_FULL: Final = ("-v", "-l", "-q", "-p")
_ASKED: Final = (("-r", "-p"), ("-w", "-p"), _FULL)
# An answer comes within milliseconds, from zfs-fuse within a tenth of a second.
_ANSWER_S: Final = 3.0
_END_S: Final = 1.0
_NEVER_S: Final = 86_400.0


class ZfsWatch(AskingWatch):
    """Asks at `start` and `stop`, and lets `zpool iostat` print in between."""

    def __init__(
        self, pool: str, folder: Path, *, interval_s: int = 1, patience_s: float = 15.0
    ) -> None:
        super().__init__(folder / layout.ZFS, period_s=_NEVER_S, patience_s=patience_s)
        self._pool = pool
        self._text = folder / layout.ZPOOL_IOSTAT
        self._interval_s = interval_s
        self._child: subprocess.Popen[bytes] | None = None
        self._begun = False

    def _sample(self, *, end: bool) -> Sequence[Line]:
        first, self._begun = not self._begun, True
        if not first:
            self._end_child()
        lines: list[Line] = []
        for words in _ASKED:
            told = {"pool": self._pool, "asked": " ".join(("iostat", *words))}
            try:
                answer = answer_of((_zpool(), "iostat", *words, self._pool))
                lines.append({**told, "text": answer})
            except TimeoutError as error:
                lines.append({**told, "error": str(error)})
                if first:  # What prints all along may be answered a moment later.
                    self._begin_child(full=False)
                return lines  # nothing else would be answered now
            except (OSError, subprocess.SubprocessError) as error:
                lines.append({**told, "error": str(error)})
        if first:
            self._begin_child(full="text" in lines[-1])
        return [*lines, *self._kstats()]

    def _kstats(self) -> list[Line]:
        """Those that this ZFS has: zfs-fuse has none."""
        found: list[Line] = []
        files = [_KSTATS / name for name in _ASKED_KSTATS]
        files += [_KSTATS / self._pool / name for name in _POOL_KSTATS]
        for path in files:
            with suppress(FileNotFoundError, NotADirectoryError):
                told = {"pool": self._pool, "asked": f"kstat {path.name}"}
                try:
                    text = path.read_text("utf-8", "replace")
                except FileNotFoundError:
                    raise
                except OSError as error:
                    found.append({**told, "error": f"{path}: {error.strerror}"})
                else:
                    found.append({**told, "text": text})
        return found

    def _begin_child(self, *, full: bool) -> None:
        """Raises OSError."""
        words = (*_FULL, "-y") if full else ("-v",)
        command = ("zpool", "iostat", *words, self._pool, str(self._interval_s))
        with self._text.open("wb") as stream:
            stream.write(f"# {' '.join(command)}\n".encode())
            stream.flush()
            self._child = _print_into(stream, (_zpool(), *command[1:]))

    def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        # In the kernel, with a pool that answers nothing, it cannot be ended.
        with suppress(subprocess.TimeoutExpired):
            child.wait(_END_S)


def _zpool() -> str:
    """Raises FileNotFoundError."""
    path = programs.find("zpool")
    if path is None:
        raise FileNotFoundError("there is no 'zpool' on this machine")
    return path


def _print_into(stream: IO[bytes], command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Raises OSError."""
    return subprocess.Popen(
        _ending_with_parent(command),
        stdin=subprocess.DEVNULL,
        stdout=stream,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"LC_ALL": "C"},
        start_new_session=True,  # Ctrl-C on the terminal reaches us, and it through us
    )


def _ending_with_parent(command: Sequence[str]) -> tuple[str, ...]:
    """The command under util-linux's setpriv: kill -9 of Leadline is to leave nothing behind that
    prints for ever. The parent is the thread that starts it."""
    path = shutil.which("setpriv")
    return (path, "--pdeathsig", "KILL", *command) if path else tuple(command)


def answer_of(command: Sequence[str], bound_s: float = _ANSWER_S) -> str:
    """stdout of a command that ended well. Raises OSError where it cannot be started, TimeoutError
    where it gives no answer in time and is left behind, subprocess.SubprocessError where it
    fails."""
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=os.environ | {"LC_ALL": "C"},
        start_new_session=True,
    )
    try:
        out, err = child.communicate(timeout=bound_s)
    except subprocess.TimeoutExpired as error:
        child.kill()
        with suppress(subprocess.TimeoutExpired):
            child.communicate(timeout=_END_S)
        raise TimeoutError(f"no answer within {bound_s:g} s") from error
    if child.returncode:
        said = [line for line in err.splitlines() if line.strip()]
        why = said[0] if said else "it says nothing"
        raise subprocess.SubprocessError(f"status {child.returncode}: {why}")
    return out
