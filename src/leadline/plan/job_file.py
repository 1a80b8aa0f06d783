"""A user's own fio job file: parsed, checked, and written anew for fio.

fio never gets the user's text. Leadline reads the text as fio does, or refuses it, and writes a job
file from the options that `data/fio_options.yaml` allows. The target decides where the I/O goes.
Leadline also reads the duration (to bound a trial) and the size (to check free space).
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from leadline import errors
from leadline.data import load_table
from leadline.errors import LeadlineError
from leadline.files import read_small_text
from leadline.plan.footprint import DATA_FILE
from leadline.plan.workload import JobFile
from leadline.units import parse_duration, parse_fio_size

_GLOBAL = "global"
# fio reads lines into a buffer of 4,096 or 8,192 bytes and takes the rest of a longer line for a
# line of its own; names of sections into one of 256.
_LONGEST_LINE = 1000
_LONGEST_NAME = 200
_LENGTH = f"at most {_LONGEST_NAME} bytes"
_MOST_BYTES = 64 << 10
# Without `$`, quotes, backslashes, parentheses and backticks, which fio or a shell replaces.
_VALUE = re.compile(r"[A-Za-z0-9_.,:/%+*^@=~ -]+")
# Numbers, texts in double quotes and `%o`. A text in single quotes is the path of a file.
_PATTERN = re.compile(r"(?:[A-Za-z0-9%-]|\"[A-Za-z0-9_.,:+ -]*\")+")
_PATTERN_OPTIONS = ("buffer_pattern", "verify_pattern")
_LOG_OPTIONS = ("write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log")
_LOG_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_FORMAT = "filename_format"
_FILE_NAME = re.compile(r"(?:[A-Za-z0-9_]|\$(?:jobname|jobnum|filenum))"
                        r"(?:[A-Za-z0-9_.-]|\$(?:jobname|jobnum|filenum)(?![a-z]))*")  # fmt: skip
_RW = re.compile(r"([a-z]+)(?::-?[0-9]+[kKmMgG]?)?")
_NOT_IN_NAMES = re.compile(r"[^\w .+@%,=()~:-]")
_NOT_IN_TEXTS = re.compile(r"[^A-Za-z0-9_.,:%+@ -]")
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_FALSE = "0"


class Place(StrEnum):
    """Where options and I/O engines have a meaning: on any target, in files, on a device."""

    ANY = "any"
    FILES = "files"
    DEVICE = "device"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedOptions:
    """Options that are refused for a reason, with their aliases."""

    reason: str
    options: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedEngines:
    """I/O engines of fio that are refused for a reason."""

    reason: str
    engines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FioOptions:
    """The content of `data/fio_options.yaml`."""

    allowed: Mapping[Place, Mapping[str, str | None]]
    choices: Mapping[str, tuple[str, ...]]
    engines: Mapping[Place, tuple[str, ...]]
    refused: tuple[RefusedOptions, ...]
    refused_engines: tuple[RefusedEngines, ...]


@functools.cache
def fio_options() -> FioOptions:
    return load_table("fio_options", FioOptions)


@functools.cache
def allowed_options() -> Mapping[str, tuple[str, Place]]:
    """The option and its place by each of its names."""
    return {
        name: (option, place)
        for place, options in fio_options().allowed.items()
        for option, alias in options.items()
        for name in (option, alias)
        if name is not None
    }


@functools.cache
def _reasons() -> Mapping[str, str]:
    """Why an option is refused, by each of its names."""
    return {
        name: refusal.reason
        for refusal in fio_options().refused
        for option, alias in refusal.options.items()
        for name in (option, alias)
        if name is not None
    }


@dataclass(slots=True)
class _Option:
    value: str | None
    line: int


@dataclass(slots=True)
class _Section:
    """A section by its name for fio; `shared` are the options of the [global] sections before."""

    name: str
    line: int
    shared: Mapping[str, _Option]
    options: dict[str, _Option] = field(default_factory=dict)

    @property
    def merged(self) -> Mapping[str, _Option]:
        return {**self.shared, **self.options}

    def value(self, option: str, default: str) -> str:
        """The value, `1` for an option without one, or the default."""
        written = self.merged.get(option)
        if written is None:
            return default
        return "1" if written.value is None else written.value

    def flag(self, option: str) -> bool:
        return self.value(option, _FALSE) != _FALSE


@dataclass(slots=True)
class _Parsed:
    sections: list[_Section] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def jobs(self) -> list[_Section]:
        return [section for section in self.sections if section.name != _GLOBAL]


def read_job_file(path: Path) -> JobFile:
    """Raises LeadlineError(`job-file-invalid`) naming every fault with its line."""
    try:
        text = read_small_text(path)
    except (OSError, ValueError) as error:
        raise LeadlineError(
            errors.JOB_FILE_INVALID, f"the job file {str(path)!r} cannot be read: {error}"
        ) from error
    return parse_job_file(str(path), text)


def parse_job_file(path: str, text: str) -> JobFile:
    """Like read_job_file, for text already read; `path` is for messages and the record."""
    parsed = _parse(text)
    faults = parsed.faults
    durations: list[float] = []
    ramps: list[float] = []
    footprint = 0
    writes = False
    for number, job in enumerate(parsed.jobs):
        try:
            count = int(job.value("numjobs", "1"))
            runtime = parse_duration(job.value("runtime", "0"))
            timed = job.flag("time_based")
            ramp = parse_duration(job.value("ramp_time", "0")) if timed else 0.0
            footprint += _footprint(job) * count
        except ValueError as error:
            faults.append(f"{job.line}: [{job.name}]: {error}")
            continue
        if not runtime:
            faults.append(
                f"{job.line}: [{job.name}] has no runtime, so that a trial could not be bounded"
            )
        writes = writes or job.value("rw", "read").partition(":")[0] not in ("read", "randread")
        if number == 0 or job.flag("stonewall") or not durations:
            durations.append(runtime)
            ramps.append(ramp)
        else:
            durations[-1] = max(durations[-1], runtime)
            ramps[-1] = max(ramps[-1], ramp)
    if faults:
        raise _refused(path, faults)
    return JobFile(
        path=path,
        text=text,
        runtime_s=sum(durations),
        ramp_s=sum(ramps),
        footprint_bytes=footprint,
        writes=writes,
    )


def _footprint(job: _Section) -> int:
    """Return the most bytes that the files of one job have. Raises ValueError.

    `size` may be a share of the device; in files a share needs `filesize`, which is then the most.
    """
    size, filesize = job.value("size", "0"), job.value("filesize", "0").rpartition("-")[2]
    files = int(job.value("nrfiles", "1")) * (parse_fio_size(filesize) if filesize != "0" else 0)
    reach = 0 if "%" in size else parse_fio_size(size)
    for option in ("offset", "offset_increment"):
        text = job.value(option, "0").partition(",")[0]
        # A share of the size: the region ends within twice the size.
        reach += reach if "%" in text else parse_fio_size(text)
    return max(files, reach)


def misplaced_options(job_file: JobFile, place: Place) -> Iterator[str]:
    """Sentences about the options and engines of a job file that its target cannot have."""
    for fault in _misplaced(_parse(job_file.text), place):
        yield f"{job_file.path}:{fault}"


def write_job_file(job_file: JobFile, place: Place) -> str:
    """Write the job file that fio gets, from the options of the user's.

    Its files have names by the number of the section, or those of `filename_format`.
    Raises LeadlineError(`job-file-invalid`), also where the text writes and the record says that
    it does not: the record may come from an archive.
    """
    job_file_now = parse_job_file(job_file.path, job_file.text)
    parsed = _parse(job_file.text)
    faults = list(_misplaced(parsed, place))
    if job_file_now.writes and not job_file.writes:
        faults.append("1: it writes, and its plan says that it only reads")
    if faults:
        raise _refused(job_file.path, faults)
    lines = ["# Written by Leadline from the options of the user's own job file."]
    # Jobs of one name share their files, as fio has it, and job files do not.
    own = hashlib.sha256(job_file.text.encode()).hexdigest()[:8]
    numbers: dict[str, int] = {}
    for job in parsed.jobs:
        numbers.setdefault(job.name, len(numbers) + 1)
    for section in parsed.sections:
        lines += ["", f"[{section.name}]"]
        for key, option in section.options.items():
            if key == _FORMAT and place is Place.FILES and option.value is not None:
                # A removal knows the files by that name.
                begin, end = DATA_FILE.split("{job}")
                has_form = option.value.startswith(begin) and option.value.endswith(end)
                name = option.value if has_form else DATA_FILE.format(job=option.value)
                lines.append(f"{_FORMAT}={name}")
            elif key != _FORMAT:
                lines.append(key if option.value is None else f"{key}={option.value}")
        if section.name != _GLOBAL and place is Place.FILES and _FORMAT not in section.merged:
            files = f"{own}.{numbers[section.name]}.$jobnum.$filenum"
            lines.append(f"{_FORMAT}={DATA_FILE.format(job=files)}")
    return "\n".join(lines) + "\n"


def _refused(path: str, faults: list[str]) -> LeadlineError:
    return LeadlineError(
        errors.JOB_FILE_INVALID,
        f"the job file {path!r} cannot be used",
        context=[f"{path}:{fault}" for fault in faults],
        hint="leave them out: Leadline gives the job its target, and the plan reference lists the "
        "options that a job file may have",
    )


def _parse(text: str) -> _Parsed:
    """The sections as fio reads them. What fio may read in another way is a fault."""
    parsed = _Parsed()
    names: dict[str, str] = {}
    shared: dict[str, _Option] = {}
    if len(text) > _MOST_BYTES:
        parsed.faults.append(f"1: the job file is larger than {_MOST_BYTES} characters")
        return parsed
    for number, written in enumerate(text.split("\n"), start=1):
        line = written.removesuffix("\r")
        fault = _unreadable(line)
        if fault:
            parsed.faults.append(f"{number}: {fault}")
            continue
        line = line.split(";")[0].split("#")[0].strip(" \t")
        if not line:
            continue
        if not line.startswith("["):
            if parsed.sections:
                _add_option(parsed, line, number)
            else:
                key = line.partition("=")[0].strip()
                parsed.faults.append(f"{number}: {key!r} comes before any [section]")
            continue
        if parsed.sections and parsed.sections[-1].name == _GLOBAL:
            shared = {**shared, **parsed.sections[-1].options}
        name, fault = _section_name(line, names)
        if fault:
            parsed.faults.append(f"{number}: {fault}")
        parsed.sections.append(_Section(name, number, {} if name == _GLOBAL else shared))
    if not parsed.jobs:
        parsed.faults.append("1: there is no job section")
    _rename(parsed, names)
    return parsed


def _unreadable(line: str) -> str:
    """Why fio may not read the line as Leadline does; empty where it does."""
    if len(line.encode("utf-8", "surrogatepass")) > _LONGEST_LINE:
        return f"the line is longer than {_LONGEST_LINE} bytes, and fio would split a long one"
    if control := _CONTROLS.search(line):
        return f"the line holds the character U+{ord(control[0]):04X}"
    return ""


def _section_name(line: str, names: dict[str, str]) -> tuple[str, str]:
    """The name of a section for fio, and a fault or an empty text."""
    match = re.fullmatch(r"\[([^\[\]]+)\]", line)
    if not match:
        return "?", f"{line[:40]!r} is no [section]"
    name = match[1]
    # fio compares the first six characters.
    if name.startswith(_GLOBAL) and name != _GLOBAL:
        return "?", f"fio takes the section {name!r} for [{_GLOBAL}]: use another name"
    if not _fits_name(name):
        return "?", f"the name of the section is too long: {_LENGTH}"
    return (name if name == _GLOBAL else _job_name(name, names)), ""


def _fits_name(name: str) -> bool:
    return len(name.encode("utf-8", "surrogatepass")) <= _LONGEST_NAME


def fits_job_name(name: str) -> bool:
    """Whether fio takes the name of a generated job as it is, and for nothing but a name."""
    return _fits_name(name) and _job_name(name, {}) == name


def _job_name(name: str, names: dict[str, str]) -> str:
    """A name that is no path, the same for the same name, another one for another name."""
    if name not in names:
        plain = _NOT_IN_NAMES.sub("_", name).strip(" ")
        plain = re.sub(r"^(?:[.-]|(?=global))", "_", plain) or "_"
        taken, number, unique = set(names.values()), 1, plain
        while unique in taken:
            number += 1
            unique = f"{plain}-{number}"
        names[name] = unique
    return names[name]


def _add_option(parsed: _Parsed, line: str, number: int) -> None:
    key, equals, value = (part.strip(" \t") for part in line.partition("="))
    section = parsed.sections[-1]
    known = allowed_options().get(key)
    if known is None:
        parsed.faults.append(f"{number}: {_refusal(key)}")
        return
    option = known[0]
    if option == "description":
        value = _NOT_IN_TEXTS.sub("_", value)
    if fault := _value_fault(option, value if equals else None):
        parsed.faults.append(f"{number}: {fault}")
    elif option in section.options:
        line_before = section.options[option].line
        parsed.faults.append(f"{number}: {option!r} is in line {line_before} too")
    else:
        section.options[option] = _Option(value if equals else None, number)


def _refusal(key: str) -> str:
    """Why an option that is not allowed is refused."""
    word = key.split()[0] if key else key
    reason = _reasons().get(word)
    if reason is None and word.startswith("include"):
        word, reason = "include", _reasons()["include"]
    if reason is not None:
        return f"{word!r} is refused: {reason}"
    if "$" in key:
        return f"{key[:80]!r} is refused: fio would replace `$` in the name of an option"
    near = difflib.get_close_matches(key[:80], allowed_options(), n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    return f"{key[:80]!r} is no option of fio that Leadline knows{meant}"


def _value_fault(option: str, value: str | None) -> str:
    """Why the value of an allowed option is refused; empty where it is not."""
    if value is None:
        return ""
    shown = f"{option}={value[:80]}"
    if option == "ioengine":
        return _engine_fault(value)
    if option == _FORMAT:
        if _FILE_NAME.fullmatch(value):
            return ""
        return f"{shown!r} must not hold a path: letters, digits, $jobname, $jobnum and $filenum"
    if "$" in value:
        return f"{shown!r} is refused: fio would replace `$`; write the value itself"
    if option in _LOG_OPTIONS:
        return "" if _LOG_NAME.fullmatch(value) else f"{shown!r} must not hold a path"
    if option in ("name", "wait_for"):
        # Characters are replaced, as in the names of sections.
        return "" if value and _fits_name(value) else f"{option!r} needs a name: {_LENGTH}"
    choices = fio_options().choices.get(option, ())
    match = _RW.fullmatch(value) if option == "rw" else None
    if choices and (match[1] if match else value) not in choices:
        return f"{shown!r} is refused: use {', '.join(choices)}"
    if not (_PATTERN if option in _PATTERN_OPTIONS else _VALUE).fullmatch(value):
        return f"{shown!r} is refused: a value has letters, digits and .,:/%+*^@=~-"
    return ""


def _engine_fault(value: str) -> str:
    engines = [engine for group in fio_options().engines.values() for engine in group]
    if value in engines:
        return ""
    name = value.partition(":")[0]
    for refusal in fio_options().refused_engines:
        if name in refusal.engines:
            return f"the I/O engine {value[:80]!r} is refused: {refusal.reason}"
    return f"the I/O engine {value[:80]!r} is refused: use {', '.join(sorted(engines))}"


def _rename(parsed: _Parsed, names: dict[str, str]) -> None:
    """Let `name=` name the job of a section, and `wait_for` the job that it means."""
    jobs: set[str] = set()
    for section in parsed.sections:
        name = section.options.pop("name", None)
        if name is not None and name.value and section.name != _GLOBAL:
            section.name = _job_name(name.value, names)
        awaited = section.options.get("wait_for")
        if awaited is not None:
            awaited.value = names.get(awaited.value or "")
            if awaited.value not in jobs:
                parsed.faults.append(f"{awaited.line}: 'wait_for' names no section before this one")
        if section.name != _GLOBAL:
            jobs.add(section.name)


def _misplaced(parsed: _Parsed, place: Place) -> Iterator[str]:
    """Options and engines for another kind of target, as `line: message`."""
    engines = fio_options().engines
    elsewhere = {Place.FILES: "on a device", Place.DEVICE: "in files"}[place]
    for section in parsed.sections:
        for key, option in section.options.items():
            meant = allowed_options()[key][1]
            if meant not in (Place.ANY, place) and key != _FORMAT:
                yield f"{option.line}: {key!r} has an effect {elsewhere} only"
            if key == "ioengine" and option.value not in (*engines[Place.ANY], *engines[place]):
                yield f"{option.line}: the I/O engine {option.value!r} works {elsewhere} only"
        if place is Place.FILES and section.name != _GLOBAL:
            unbounded = "%" in section.value("size", "0") and not _footprint(section)
            if unbounded:
                yield f"{section.line}: a share as 'size' fills the file system: give it in bytes"
