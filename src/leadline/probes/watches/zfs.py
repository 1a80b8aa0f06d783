"""Counters of a ZFS pool during a trial.

`zpool-iostat.txt` is the output of `zpool iostat` every second, raw, after its command line.
`zfs.jsonl` has the answers at the start and the end, a line each: `{"at", "elapsed_s", "pool",
"asked", "text"}`; `asked` is a command of `zpool` or a file below /proc/spl/kstat/zfs
(`kstat arcstats`, `kstat txgs` of the pool), or `error` in place of `text`.
`leadline.formats.watch_records` reads it, `leadline.formats.zfs` the texts.

The programs of zfs-fuse have neither histograms nor waits: the line states it, and the plain form
is used. Programs wait in the kernel for a suspended pool and cannot be ended: the watch leaves them
behind.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from leadline.archive import layout
from leadline.connect import programs
from leadline.environment import child_environment, ending_with_parent
from leadline.probes.watches.base import Line, SamplingWatch

_KSTATS: Final = Path("/proc/spl/kstat/zfs")
# Of the module; the folder of the pool has its own.
_ASKED_KSTATS: Final = ("arcstats", "dmu_tx", "zil", "zfetchstats")
_POOL_KSTATS: Final = ("txgs", "iostats")
_FULL: Final = ("-v", "-l", "-q", "-p")
_ASKED: Final = (("-r", "-p"), ("-w", "-p"), _FULL)
# An answer takes milliseconds, with zfs-fuse a tenth of a second.
_ANSWER_S: Final = 3.0
_END_S: Final = 1.0
_NEVER_S: Final = 86_400.0


class ZfsWatch(SamplingWatch):
    """Asks at `start` and `stop`; `zpool iostat` prints in between."""

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
            fields = {"pool": self._pool, "asked": " ".join(("iostat", *words))}
            try:
                answer = read_answer((_zpool(), "iostat", *words, self._pool))
                lines.append({**fields, "text": answer})
            except TimeoutError as error:
                lines.append({**fields, "error": str(error)})
                if first:  # The printing program may get an answer later.
                    self._begin_child(full=False)
                return lines  # no other command would get an answer now
            except (OSError, subprocess.SubprocessError) as error:
                lines.append({**fields, "error": str(error)})
        if first:
            self._begin_child(full="text" in lines[-1])
        return [*lines, *self._kstats()]

    def _kstats(self) -> list[Line]:
        """Return the kstats of this ZFS: zfs-fuse has none."""
        found: list[Line] = []
        files = [_KSTATS / name for name in _ASKED_KSTATS]
        files += [_KSTATS / self._pool / name for name in _POOL_KSTATS]
        for path in files:
            with suppress(FileNotFoundError, NotADirectoryError):
                fields = {"pool": self._pool, "asked": f"kstat {path.name}"}
                try:
                    text = path.read_text("utf-8", "replace")
                except FileNotFoundError:
                    raise
                except OSError as error:
                    found.append({**fields, "error": f"{path}: {error.strerror}"})
                else:
                    found.append({**fields, "text": text})
        return found

    def _begin_child(self, *, full: bool) -> None:
        """Start the printing program. Raises OSError."""
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
        # In the kernel, with a suspended pool, it cannot be ended.
        with suppress(subprocess.TimeoutExpired):
            child.wait(_END_S)


def _zpool() -> str:
    """Return the path of the program. Raises FileNotFoundError."""
    path = programs.find("zpool")
    if path is None:
        raise FileNotFoundError("there is no 'zpool' on this machine")
    return path


def _print_into(stream: IO[bytes], command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a program whose output goes to a stream. Raises OSError."""
    return subprocess.Popen(
        ending_with_parent(command, "KILL"),
        stdin=subprocess.DEVNULL,
        stdout=stream,
        stderr=subprocess.DEVNULL,
        env=child_environment(LC_ALL="C"),
        start_new_session=True,  # Ctrl-C on the terminal reaches only Leadline
    )


def read_answer(command: Sequence[str], bound_s: float = _ANSWER_S) -> str:
    """Return the stdout of a command. Raises OSError where it cannot be started, TimeoutError where
    it gives no answer and is left behind, subprocess.SubprocessError where it fails."""
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=child_environment(LC_ALL="C"),
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
        lines = [line for line in err.splitlines() if line.strip()]
        reason = lines[0] if lines else "no message"
        raise subprocess.SubprocessError(f"status {child.returncode}: {reason}")
    return out
