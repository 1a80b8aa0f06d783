"""The way to a cluster's nest: starts it in namespaces of its own, commands it, ends it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.kubernetes import sweep
from tests.kubernetes.apart import apart

_HERE = Path(__file__).resolve().parent
NAMESPACES = apart(
    "--pid", "--net", "--mount", "--propagation=private", "--mount-proc", "--fork", "--kill-child"
)


class NestFault(RuntimeError):
    """A command to the nest failed, or the nest is gone."""


class Keeper:
    """A shell that waits for the nest to end and then sweeps the host: it does so however this
    process ended, also by `kill -9`. Safe to use from several threads."""

    def __init__(self, folder: Path, number: int, *, whole: bool) -> None:
        self.folder, self.whole = folder, whole
        self.interface, self.cgroup = f"leadlab{number}", f"leadline-lab-{number}"
        self._lock = threading.Lock()
        self._state = sweep.states() / f"{number}.json"
        self._state.parent.mkdir(parents=True, exist_ok=True)
        # Written before there is anything to sweep; the keeper's own identity follows.
        self._write_state(os.getpid(), exclusive=True)
        nest = [sys.executable, "-I", str(_HERE / "nest.py")]
        inner = [*NAMESPACES, *nest] if whole else [*nest, "--bare"]
        script = '"$@"; exec "$PYTHON" -I "$SWEEP" "$STATE"'
        with (folder / "nest.log").open("wb") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", script, "keeper", *inner],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env={
                    **_environment(),
                    "PYTHON": sys.executable,
                    "SWEEP": str(_HERE / "sweep.py"),
                    "STATE": str(self._state),
                },
            )
        self._write_state(self._process.pid)

    def _write_state(self, pid: int, *, exclusive: bool = False) -> None:
        text = json.dumps(
            {
                "pid": pid,
                "started": sweep.started(pid),
                "folder": str(self.folder),
                "whole": self.whole,
                "interface": self.interface,
                "cgroup": self.cgroup,
            }
        )
        # Never there in part: another test session may be reading it.
        aside = self._state.with_suffix(f".{os.getpid()}")
        aside.write_text(text)
        if not exclusive:
            aside.replace(self._state)
            return
        try:
            self._state.hardlink_to(aside)
        finally:
            aside.unlink()

    @property
    def namespace_pid(self) -> int:
        """A process of the nest's network namespace, as the host counts."""
        self.run(["true"])  # Its answer shows that the namespaces are made.
        pid = self._process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def _ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with self._lock:
            try:
                stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
                stdin.flush()
                line = stdout.readline()
            except (OSError, ValueError) as fault:
                raise NestFault(f"the nest is gone: {fault}") from fault
        if not line:
            log = self.log("nest")  # Swept already, where the nest was killed.
            text = log.read_text(errors="replace") if log.exists() else ""
            raise NestFault(f"the nest ended:\n{text}")
        answer: dict[str, Any] = json.loads(line)
        if "fault" in answer:
            raise NestFault(f"{do} {arguments}: {answer['fault']}")
        return answer

    def log(self, name: str) -> Path:
        """Where the process of this name writes its stdout and stderr."""
        return self.folder / f"{name}.log"

    def start(self, name: str, argv: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        """Start `argv` in the namespaces under this name."""
        self._ask("start", name=name, argv=list(argv), log=str(self.log(name)), env=dict(env or {}))

    def ended(self, name: str) -> int | None:
        """The exit status (negative: signal) of what runs under this name; None while it lives."""
        status: int | None = self._ask("state", name=name)["ended"]
        return status

    def signal(self, name: str, number: int) -> bool:
        """Send a signal; False where the process had ended already."""
        return bool(self._ask("signal", name=name, number=number)["sent"])

    def run(self, argv: Sequence[str], bound_s: float = 120) -> str:
        """Run `argv` in the namespaces and return what it printed; NestFault where it fails."""
        answer = self._ask("run", argv=list(argv), bound_s=bound_s)
        if answer["status"]:
            raise NestFault(f"{list(argv)} ended with {answer['status']}:\n{answer['output']}")
        output: str = answer["output"]
        return output

    def close(self) -> None:
        """End everything and wait until the host is swept."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def _environment() -> dict[str, str]:
    """This process's environment without proxies: the cluster's addresses are local."""
    return {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
