"""The fio versions that Leadline supports, and the I/O engine of fio that runs a workload."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

from leadline import errors
from leadline.connect.shell import Shell, run_repeatable
from leadline.errors import LeadlineError
from leadline.plan.footprint import DATA_FILE
from leadline.plan.workload import EngineChoice, Workload
from leadline.runner.ports import Location

# Percentiles and json+ bins of total latency came with 3.18 (fio's pull requests 920 and 948).
OLDEST = (3, 18)
INSTALL = "install it: apt-get install fio (Debian), dnf install fio (Fedora, RHEL)"
NO_DIRECT = (
    "direct I/O or the block size is not supported here; try `direct: false` in the workload "
    "(reads may then come from the page cache)"
)
# What every fio prints: all percentiles in JSON, and its rate each second. `lat_percentiles` is a
# default for a user's own job file, whose own setting wins.
REPORT_OPTIONS = ("--output-format=json+", "--eta=always", "--eta-newline=1", "--lat_percentiles=1")
TRY_S = 20.0
TRY_FILE = DATA_FILE.format(job="try")
_CONNECT_S = 60.0


def require_version(version: str, where: str) -> None:
    """Raise LeadlineError(`fio-too-old`) for a fio that Leadline does not support."""
    match = re.match(r"fio-(\d+)\.(\d+)", version)
    if not match or (int(match[1]), int(match[2])) < OLDEST:
        raise LeadlineError(
            errors.FIO_TOO_OLD,
            f"{version or 'this fio'} is too old; Leadline needs {OLDEST[0]}.{OLDEST[1]} or newer",
            context=[where],
            hint=INSTALL,
        )


def candidates(workload: Workload, engines: Collection[str]) -> list[EngineChoice]:
    """The engines to try, best first, of those that a fio was built with."""
    if workload.engine is not EngineChoice.AUTO:
        return [workload.engine]
    rings = (EngineChoice.IO_URING,) if workload.fits_rings else ()
    return [choice for choice in (*rings, EngineChoice.LIBAIO) if choice.value in engines]


def prefill_choice(engines: Collection[str]) -> EngineChoice:
    return EngineChoice.LIBAIO if EngineChoice.LIBAIO.value in engines else EngineChoice.PSYNC


def choose_engine(
    workload: Workload,
    location: Location,
    choices: Sequence[EngineChoice],
    attempt: Callable[[EngineChoice], str | None],
) -> Workload:
    """The workload with the first engine that works; `attempt` returns fio's error line or None.

    Raises LeadlineError: `target-unsuitable` without direct I/O, `engine-unknown`.
    """
    failures: list[str] = []
    for choice in choices:
        failure = attempt(choice)
        if failure is None:
            return workload.model_copy(update={"engine": choice})
        failures.append(f"{choice.value}: {failure}")
    if workload.direct and any("Invalid argument" in line for line in failures):
        raise LeadlineError(
            errors.TARGET_UNSUITABLE,
            f"{location} does not support direct I/O",
            context=failures,
            hint=NO_DIRECT,
        )
    raise LeadlineError(
        errors.ENGINE_UNKNOWN,
        f"no asynchronous I/O engine works on {location}"
        if workload.engine is EngineChoice.AUTO
        else f"the engine {workload.engine.value!r} does not work on {location}",
        context=failures or ["this fio has neither io_uring nor libaio"],
        hint="a synchronous engine (`engine: psync`) never has more than one I/O in flight "
        "per job, so it needs `iodepth: 1`",
    )


def try_options(choice: EngineChoice, direct: bool, *, in_files: bool) -> list[str]:
    """fio's options for one small I/O: a write to TRY_FILE, or a read of a device or image."""
    # By a thread: a worker process waits for ever for the start sign of a fio that was killed.
    io = ["--rw=write", f"--filename={TRY_FILE}"] if in_files else ["--rw=read", "--readonly"]
    how = [f"--ioengine={choice.value}", f"--direct={int(direct)}", "--thread"]
    return [*how, "--bs=4k", "--size=4k", *io]


def try_in_shell(
    shell: Shell,
    folder: str,
    options: Sequence[str],
    *,
    remove: str = "",
    environment: Mapping[str, str] = MappingProxyType({}),
) -> str | None:
    """Run fio once on another machine; its error line, or None where it works."""
    assignments = [f"{name}={value}" for name, value in environment.items()]
    command = ["env", *assignments, "fio", "--name=try", *options]
    script = f'cd "$1" && timeout {TRY_S:g} {shlex.join(command)}'
    if remove:
        script += f"; status=$?; rm -f {shlex.quote(remove)}; exit $status"
    result = run_repeatable(shell, script, folder, bound_s=TRY_S + _CONNECT_S)
    if result.status == 0:
        return None
    output = (result.stderr + result.stdout).decode("utf-8", "replace")
    return error_line(output, result.status)


def error_line(output: str, status: int | None) -> str:
    """The first line in which fio itself reports an error."""
    lines = (line.strip() for line in output.splitlines() if "fio:" in line)
    return next(lines, f"exit status {status}")
