"""One volume's share of a remote execution: begun, followed, its results fetched whole."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from importlib import resources

from leadline import errors
from leadline.engines.fio_outcome import Talk
from leadline.engines.remote_files import DamagedTransfer, unpacked
from leadline.errors import LeadlineError
from leadline.runner.ports import Job, RemoteVolume
from leadline.shell import insist

_SHORT_S = 60.0
_SIGNAL_S = 10.0
# timeout(1) gives fio so long between SIGINT and SIGKILL; then its results are looked for.
_KILLED_S = 25.0
_COLLECT_S = 300.0
# The same of a runner that never told of fio's end, and may not be reached at all.
_LAST_S = 30.0
_ATTEMPTS = 3
_POLL_S = 0.2
# How remote_follow.sh ends where there is nothing to follow.
_NO_FOLDER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the execution beside one volume ended. `status` None: it never told."""

    status: int | None
    files: dict[str, bytes]
    wall_s: float
    problem: LeadlineError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One volume's share of an execution; `at` is its folder there."""

    volume: RemoteVolume
    at: str
    command: tuple[str, ...]
    job: Job
    talk: Talk

    def clock_ms(self) -> float | None:
        """How far the volume's clock is ahead of ours, in ms: of three questions the one that was
        answered fastest, half of whose round trip is the error (Cristian's algorithm). None where
        it does not tell."""
        found = []
        for _ in range(3):
            before = time.time()
            try:
                said = self.volume.shell.run("date +%s%3N", bound_s=_SHORT_S)
                after = time.time()
                found.append((after - before, int(said.text) - (before + after) / 2 * 1e3))
            except (LeadlineError, ValueError):
                continue
        return min(found)[1] if found else None

    def run(self, start_ms: int) -> Ended:
        """Begin, follow, collect. What goes wrong on the way is in the answer."""
        began = time.monotonic()
        try:
            self._begin(start_ms)
            status = self._follow(began)
            files = self._collect(_LAST_S if status is None else _COLLECT_S)
        except LeadlineError as error:
            return Ended(status=None, files={}, wall_s=time.monotonic() - began, problem=error)
        return Ended(status=status, files=files, wall_s=time.monotonic() - began)

    def _begin(self, start_ms: int) -> None:
        text = self.job.text.encode()
        arguments = (self.at, digest(text), str(start_ms), f"{self.job.bound_s:g}", *self.command)
        said = insist(self.volume.shell, _script("begin"), *arguments, given=text, bound_s=_SHORT_S)
        if said.status:
            raise LeadlineError(
                errors.RUNNER_FAILED,
                f"fio could not be begun in the {self.volume.shell.name}: {said.complaint}",
                hint="the runner needs GNU coreutils, and room in its scratch volume",
            )

    def _follow(self, began: float) -> int | None:
        """fio's exit status; None where it did not end in its time, nor by force."""
        while (left := self.job.bound_s + _KILLED_S - (time.monotonic() - began)) > 0:
            try:
                said = self.volume.shell.run(
                    _script("follow"), self.at, bound_s=left, output=self.talk.take
                )
            except LeadlineError as error:
                if error.kind is not errors.SHELL_LOST:
                    raise
                time.sleep(_POLL_S)
                continue
            told = said.stderr.decode("utf-8", "replace").strip()
            if told.isascii() and told.isdigit():
                return int(told)
            if said.status == _NO_FOLDER:
                raise LeadlineError(
                    errors.RUNNER_FAILED,
                    f"what fio wrote in the {self.volume.shell.name} is gone: {said.complaint}",
                    hint="was it started anew? `leadline run --resume --retry-failed` does the "
                    "trial again",
                )
            time.sleep(_POLL_S)  # somebody ended the script itself
        return None

    def _collect(self, bound_s: float) -> dict[str, bytes]:
        damage = ""
        for _ in range(_ATTEMPTS):
            said = insist(self.volume.shell, _script("collect"), self.at, bound_s=bound_s)
            try:
                files = dict(unpacked(said.stdout))
            except DamagedTransfer as error:
                damage = str(error)
                continue
            return files
        raise LeadlineError(
            errors.SHELL_LOST,
            f"the results in the {self.volume.shell.name} do not arrive whole: {damage}",
            hint="`leadline run --resume --retry-failed` does the trial again",
        )

    def signal(self, name: str) -> bool:
        """Ask fio to end. False where it could not be asked, or has not begun yet."""
        try:
            said = self.volume.shell.run(_script("signal"), self.at, name, bound_s=_SIGNAL_S)
        except LeadlineError:
            return False
        return said.status == 0


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _script(name: str) -> str:
    return (resources.files("leadline.engines") / f"remote_{name}.sh").read_text("utf-8")
