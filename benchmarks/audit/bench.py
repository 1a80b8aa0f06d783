"""What one run is made with: fio and Leadline in a folder of its own, every command kept."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ARCHIVE = "run"
_SLICE_S = 0.05


@dataclass(frozen=True, kw_only=True)
class Bench:
    """`data` is where I/O goes, `out` what is kept; both lie in one folder, so that the paths in
    fio's output say nothing of this machine. `audited` are the files to audit, in `out`; an
    archive (`ARCHIVE`) stands there by itself. `wrap` puts commands elsewhere (into a cgroup).
    """

    data: Path
    out: Path
    audited: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    wrap: Callable[[list[str]], list[str]] = list

    def lay_out(self, name: str = "data", size: str = "256M") -> None:
        """A file written to the disk to its end, through no cache."""
        self._run(
            [
                "fio", "--name=layout", f"--filename={name}", f"--size={size}", "--rw=write",
                "--bs=1M", "--direct=1", "--end_fsync=1", "--output=layout.txt",
            ]
        )  # fmt: skip

    def fio(
        self,
        *options: str,
        output: str = "fio.json",
        form: str = "json",
        stop: signal.Signals | None = None,
        after_s: float = 0.0,
        meanwhile: Callable[[], None] = lambda: None,
        cwd: Path | None = None,
    ) -> int:
        """fio's exit status. `stop` is sent `after_s` after its start, `meanwhile` called then."""
        command = ["fio", f"--output={self.out / output}", f"--output-format={form}", *options]
        status = self._run(command, stop=stop, after_s=after_s, meanwhile=meanwhile, cwd=cwd)
        self.audited.append(output)
        return status

    def logs(self, *names: str) -> None:
        self.audited.extend(names)

    def leadline(
        self,
        plan: str,
        *options: str,
        target: str = "",
        meanwhile: Callable[[Path], None] | None = None,
    ) -> None:
        """`leadline run` of a plan, on `data` if no target is named; `meanwhile` gets the folder of
        runs."""
        file = self.out / "plan.yaml"
        where = target or f"dir:{self.data}"
        file.write_text(f"targets: [{{target: '{where}', name: disk}}]\n{plan}")
        runs = self.out / "runs"
        command = [sys.executable, "-m", "leadline", "run", str(file), "--runs", str(runs)]
        command += ["--quiet", *options]
        self._run(command, meanwhile=(lambda: meanwhile(runs)) if meanwhile else lambda: None)
        (made,) = (one for one in runs.iterdir() if not one.name.startswith("."))
        made.rename(self.out / ARCHIVE)
        shutil.rmtree(runs)
        file.unlink()
        self.audited.append(ARCHIVE)

    def _run(
        self,
        command: list[str],
        *,
        stop: signal.Signals | None = None,
        after_s: float = 0.0,
        meanwhile: Callable[[], None] = lambda: None,
        cwd: Path | None = None,
    ) -> int:
        shown = " ".join(command).replace(f"{sys.executable} -m ", "")
        signal = f" then {stop.name} after {after_s:g} s" if stop else ""
        # An argument list: nothing here comes from a user.
        began = subprocess.Popen(
            self.wrap(command),
            cwd=cwd or self.data,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(after_s)
        meanwhile()
        if stop is not None:
            began.send_signal(stop)
        status = began.wait()
        self.commands.append(f"{shown}{signal}: exit {status}")
        return status


def until(ready: Callable[[], bool], *, at_most_s: float = 60.0) -> None:
    """Wait for something that a run does. Raises TimeoutError."""
    bound = time.monotonic() + at_most_s
    while not ready():
        if time.monotonic() > bound:
            raise TimeoutError(f"did not come to pass within {at_most_s:g} s")
        time.sleep(_SLICE_S)
