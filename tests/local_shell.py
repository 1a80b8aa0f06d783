"""A shell as if in a pod, but on this machine: what is tried on it needs no cluster."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from leadline import errors
from leadline.connect.shell import CommandResult
from leadline.errors import LeadlineError
from leadline.runner.ports import RemoteVolume, RemoteVolumes, Shape

# What a pod calls its scratch volume; each shell has one of its own behind that name.
SCRATCH = "/leadline/scratch"
LOST = LeadlineError(errors.SHELL_LOST, "the connection was lost")


class LocalShell:
    """`sh` of this machine, or another program that is one, with programs of its own first in
    PATH."""

    def __init__(
        self,
        root: Path,
        name: str = "pod here",
        *,
        sh: Sequence[str] = ("sh",),
        programs: Path | None = None,
    ) -> None:
        self.name = name
        self.scratch = root / "scratch"
        self.scratch.mkdir(parents=True, exist_ok=True)
        self._sh = tuple(sh)
        path = os.environ["PATH"]
        self._environment = {**os.environ, "PATH": f"{programs}:{path}" if programs else path}

    def run(
        self,
        script: str,
        *arguments: str,
        given: bytes = b"",
        bound_s: float,
        output: Callable[[bytes], None] | None = None,
    ) -> CommandResult:
        script, *rest = (text.replace(SCRATCH, str(self.scratch)) for text in (script, *arguments))
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stderr:
            stdin.write(given)
            stdin.seek(0)
            process = subprocess.Popen(
                [*self._sh, "-c", script, "sh", *rest],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=self._environment,
            )
            late = threading.Event()

            def end() -> None:
                late.set()
                process.kill()

            watchdog = threading.Timer(bound_s, end)
            watchdog.start()
            stdout = bytearray()
            assert process.stdout is not None
            with process.stdout as pipe:
                while chunk := os.read(pipe.fileno(), 1 << 16):
                    if output is None:
                        stdout += chunk
                    else:
                        output(chunk)
            status = process.wait()
            watchdog.cancel()
            if late.is_set():
                raise LeadlineError(errors.SHELL_LOST, f"no answer within {bound_s:g} s")
            stderr.seek(0)
            return CommandResult(stdout=bytes(stdout), stderr=stderr.read(), status=status)


class Flaky:
    """A shell whose connection is lost as often as a test says. `losses` is by a word that is in
    the script; `behind`: the command was carried out before."""

    def __init__(self, shell: LocalShell, losses: Mapping[str, int], *, behind: bool) -> None:
        self.name = shell.name
        self.asked: list[str] = []
        self._shell = shell
        self._losses = dict(losses)
        self._behind = behind

    def run(
        self,
        script: str,
        *arguments: str,
        given: bytes = b"",
        bound_s: float,
        output: Callable[[bytes], None] | None = None,
    ) -> CommandResult:
        word = next((word for word in self._losses if word in script), "")
        self.asked.append(word)
        lost = bool(word) and self._losses[word] > 0
        if lost:
            self._losses[word] -= 1
        if lost and not self._behind:
            raise LOST
        said = self._shell.run(script, *arguments, given=given, bound_s=bound_s, output=output)
        if lost:
            raise LOST
        return said


def folders(root: Path, count: int = 1, **settings: object) -> RemoteVolumes:
    """`count` volumes that are folders, each behind a shell of its own."""
    volumes = []
    for number in range(1, count + 1):
        own = root / f"pod-{number}"
        data = own / "volume"
        data.mkdir(parents=True)
        shell = LocalShell(own, f"pod {number}", **settings)  # type: ignore[arg-type]
        volumes.append(RemoteVolume(shell=shell, path=str(data)))
    return RemoteVolumes(shape=Shape.FILES, volumes=tuple(volumes), folder=SCRATCH)


def stub(folder: Path, name: str, body: str) -> Path:
    """A program of its own in a folder that goes first in PATH."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return folder


def real(name: str) -> str:
    found = shutil.which(name)
    assert found, f"this machine has no {name}"
    return found
