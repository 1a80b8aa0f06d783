"""The second look at the job file of a user: what fio itself would open."""

from __future__ import annotations

import re
from collections.abc import Callable

from leadline import errors
from leadline.errors import LeadlineError
from leadline.plan.job_file import Place, allowed_options, write_job_file
from leadline.plan.workload import JobFile

# fio reads the job file from its standard input, starts nothing, prints the options that it read
# and reports each file that it would open.
LOOK = ("--parse-only", "--showcmd", "--debug=file")
FROM_STDIN = "-"
LOOK_S = 60.0
_OPTION = re.compile(r"(?:^|\s)--([A-Za-z][\w-]*)(?:=(\S*))?", re.MULTILINE)
_FILE = re.compile(r'^file .*"(.*)" added at \d+', re.MULTILINE)
_WHERE = {Place.FILES: "directory", Place.DEVICE: "filename"}

# Runs fio with these options and this standard input: its exit status and its output.
AskFio = Callable[[tuple[str, ...], bytes], tuple[int | None, str]]


def check_job_file(job_file: JobFile, place: Place, path: str, ask: AskFio) -> None:
    """Raise LeadlineError(`job-file-invalid`) where Leadline refuses the job file, fio does, or fio
    would open anything but `path`, a folder or a device."""
    text = write_job_file(job_file, place)
    where = f"--{_WHERE[place]}={path}"
    status, output = ask((*LOOK, where, FROM_STDIN), text.encode())
    if status != 0:
        raise LeadlineError(
            errors.JOB_FILE_INVALID,
            f"fio refuses the job file {job_file.path!r}",
            context=_error_lines(output) or [f"fio --parse-only: exit status {status}"],
            hint="correct the option in the job file; `fio --cmdhelp=OPTION` says what it takes",
        )
    strays = find_strays(output, place, path)
    if strays:
        raise LeadlineError(
            errors.JOB_FILE_INVALID,
            f"fio would leave the target with the job file {job_file.path!r}",
            context=strays,
            hint="leave out what fio reads in another way; please report the job file as a bug of "
            "Leadline",
        )


def find_strays(output: str, place: Place, path: str) -> list[str]:
    """The options and files in the output of a look that Leadline did not write."""
    strays = []
    for match in _OPTION.finditer(output):
        option, value = match[1], match[2]
        if option == _WHERE[place] and value == path:
            continue
        if option not in allowed_options() and option != "name":
            strays.append(match[0].strip())
    opened = {match[1] for match in _FILE.finditer(output)}
    if place is Place.DEVICE:
        opened -= {path}
    # fio names the files in a folder when it starts, by `filename_format`.
    return [*strays, *sorted(opened)]


def _error_lines(output: str) -> list[str]:
    lines = [line.strip() for line in output.splitlines()]
    return [line for line in lines if "fio:" in line or line.startswith("Bad option")][-4:]
