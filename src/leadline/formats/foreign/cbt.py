"""Result trees of CBT, the Ceph Benchmarking Tool.

A folder that holds `output.N.HOST` files is one execution of one benchmark: N counts processes or
volumes of a client, and all of them ran at the same time, so that together they make one result
(benchmark/librbdfio.py, benchmark/radosbench.py). `json_output.N.HOST` is CBT's own extract of the
same file: fio's JSON without the text round it, or, of rados bench, a few lines of its text, which
are not used. The folders above name the parameters; the iteration and the digest of the
configuration (`results/00000000/id-5b2e2a9f`) are no part of the workload's name. The pool profile
comes from the `benchmark_config.yaml` above, where there is one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from leadline.formats.fio.json_import import log_prefixes
from leadline.formats.importer import Importer, Result
from leadline.formats.result import EngineOutput, FormatError, JobOptions, JobResult, Note, NoteKind
from leadline.plan.yaml_positions import YamlFault, load_positioned

TOOL: Final = "cbt"
_FILE = re.compile(r"(?P<json>json_)?output\.(?P<process>\d+)(?:\.(?P<host>.+))?", re.DOTALL)
# fio's logs of one process: `output.0_iops.1.log.client`, which _FILE does not take either.
_DIGEST = re.compile(r"id-[0-9a-zA-Z]+|id\d{6,}")
_ITERATION = re.compile(r"\d{8}")
_PARAMETER = re.compile(r"(?P<name>[a-z_]+)-0*(?P<value>\d+)", re.ASCII)
_CONFIG: Final = "benchmark_config.yaml"
_LARGEST_CONFIG: Final = 256 << 10
_FIO_JSON: Final = b'"fio version"'
_RADOS_TEXT: Final = b"Total time run"
_FIO_TEXT = re.compile(rb"\(groupid=\d+, jobs=\d+\)")
# The last folder of a rados bench, in fio's words; only it distinguishes `rand` from `seq`.
_RADOS_MODES: Final = {"prefill": "write", "write": "write", "seq": "read", "rand": "randread"}
_OPTIONS: Final = {"op_size": "bs", "concurrent_ops": "iodepth", "iodepth": "iodepth"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Output:
    """The output of one process. `extract`: CBT's own extract, unusable for a rados bench."""

    name: str
    process: int
    host: str
    extract: bool
    content: bytes


def read_cbt(contents: Mapping[str, bytes]) -> tuple[Result, ...]:
    """Read the result of one folder. It is an error if the output of one process has no numbers:
    the sum of the others would be too low. Raises FormatError with condition `unreadable-
    result`."""
    outputs = _outputs(contents)
    if not outputs:
        raise FormatError.unreadable(
            "no file is named as CBT names results",
            f"expected output.0.HOST, found {', '.join(sorted(contents))[:200]}",
        )
    folders = outputs[0].name.split("/")[:-1]
    notes: list[Note] = []
    target = _pool_profile(contents, notes)
    parts: list[tuple[_Output, EngineOutput]] = []
    for output in outputs:
        try:
            parts.append((output, _parsed(output)))
        except FormatError as error:
            refused = FormatError(
                error.condition, error.fact, context=(output.name, *error.context)
            )
            return (Result(workload=_workload(folders), output=refused, target=target, tool=TOOL),)
    return (
        Result(
            workload=_workload(folders),
            output=_joined(parts, folders, notes),
            target=target,
            tool=TOOL,
        ),
    )


def _outputs(contents: Mapping[str, bytes]) -> list[_Output]:
    """Choose one file per process and host: the extract if it holds fio's JSON, else the output."""
    best: dict[tuple[int, str], _Output] = {}
    for name, content in contents.items():
        found = _FILE.fullmatch(name.rpartition("/")[2])
        if found is None or len(found["process"]) > 9:
            continue
        one = _Output(
            name=name,
            process=int(found["process"]),
            host=found["host"] or "",
            extract=bool(found["json"]),
            content=content,
        )
        key = (one.process, one.host)
        if key not in best or (
            _FIO_JSON in content if one.extract else _FIO_JSON not in best[key].content
        ):
            best[key] = one
    return [best[key] for key in sorted(best)]


def _parsed(output: _Output) -> EngineOutput:
    """Parse an output with the importer of its content. Raises FormatError."""
    # Importers know each other only through the registry, which imports this module.
    from leadline.formats.importer import importer

    content = output.content
    if not content.strip():
        raise FormatError.empty("the output of a process is empty")
    if _FIO_JSON in content:
        kind = "fio-json"
    elif _RADOS_TEXT in content and not output.extract:
        kind = "rados-bench"
    elif _FIO_TEXT.search(content):
        kind = "fio-text"
    elif _RADOS_TEXT in content:
        raise FormatError.unreadable(
            "CBT's extract of a rados bench lacks its seconds; output.N.HOST next to it is read"
        )
    else:
        raise FormatError.truncated("the output of a process has no figures of fio or rados bench")
    results = importer(kind).read({output.name: content})
    jobs: list[JobResult] = []
    notes: list[Note] = []
    whole: EngineOutput | None = None
    for result in results:
        if isinstance(result.output, FormatError):
            raise result.output
        whole = whole or result.output
        jobs += result.output.jobs
        notes += result.output.notes
    if whole is None:
        raise FormatError.empty("the output of a process holds no result")
    return replace(whole, jobs=tuple(jobs), notes=tuple(dict.fromkeys(notes)))


def _joined(
    parts: Sequence[tuple[_Output, EngineOutput]], folders: Sequence[str], notes: list[Note]
) -> EngineOutput:
    versions = list(dict.fromkeys(parsed.version for _, parsed in parts))
    if len(versions) > 1:
        notes.append(
            Note(
                NoteKind.UNKNOWN_VERSION,
                parts[0][0].name,
                f"the clients have different versions: {', '.join(versions)[:200]}",
            )
        )
    for output, parsed in parts:
        notes += [replace(note, where=f"{output.name}: {note.where}") for note in parsed.notes]
    starts = [parsed.timestamp_s for _, parsed in parts if parsed.timestamp_s is not None]
    return EngineOutput(
        version=versions[0],
        timestamp_s=min(starts) if starts else None,
        noise="\n".join(parsed.noise for _, parsed in parts if parsed.noise),
        jobs=tuple(
            replace(job, host=output.host, options=_options(job.options, folders))
            for output, parsed in parts
            for job in parsed.jobs
        ),
        disks=tuple(
            replace(disk, name=f"{output.host}:{disk.name}") if output.host else disk
            for output, parsed in parts
            for disk in parsed.disks
        ),
        notes=tuple(notes),
    )


def _options(options: JobOptions, folders: Sequence[str]) -> JobOptions:
    """Add options that the output does not echo, from the names of the folders."""
    if options.whole:
        return options
    raw: dict[str, str] = {}
    for folder in folders:
        found = _PARAMETER.fullmatch(folder)
        if found and found["name"] in _OPTIONS:
            raw[_OPTIONS[found["name"]]] = found["value"]
    if folders and folders[-1] in _RADOS_MODES:
        raw["rw"] = _RADOS_MODES[folders[-1]]
    return replace(options, raw={**raw, **options.raw})


def _workload(folders: Sequence[str]) -> str:
    """The folders below the iteration and the digest; of another tree, those from the first that
    names a parameter."""
    for index in reversed(range(len(folders))):
        if _DIGEST.fullmatch(folders[index]) or _ITERATION.fullmatch(folders[index]):
            return "/".join(folders[index + 1 :]) or folders[index]
    for index, folder in enumerate(folders):
        if _PARAMETER.fullmatch(folder):
            return "/".join(folders[max(0, index - 1) :])
    return folders[-1] if folders else TOOL


def _pool_profile(contents: Mapping[str, bytes], notes: list[Note]) -> str:
    """Read the pool profile of the benchmark's configuration; empty where unknown."""
    for name, content in contents.items():
        if name.rpartition("/")[2] != _CONFIG:
            continue
        if len(content) > _LARGEST_CONFIG:
            fact = f"is larger than {_LARGEST_CONFIG >> 10} KiB"
        else:
            try:
                value = load_positioned(content.decode("utf-8", "replace")).value
            except YamlFault as fault:
                fact = f"line {fault.line}: {fault}"
            else:
                settings = value.get("cluster") if isinstance(value, dict) else None
                profile = settings.get("pool_profile") if isinstance(settings, dict) else None
                return profile if isinstance(profile, str) else ""
        notes.append(Note(NoteKind.LEFT_OUT, name, f"not read: {fact}"))
    return ""


def _bundles(names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Bundle the outputs of each folder with the nearest configuration above them."""
    folders: dict[str, list[str]] = {}
    for name in names:
        folder, _, file = name.rpartition("/")
        if _FILE.fullmatch(file):
            folders.setdefault(folder, []).append(name)
    known = frozenset(names)
    return tuple((*together, *_config_above(folder, known)) for folder, together in folders.items())


def _config_above(folder: str, known: frozenset[str]) -> tuple[str, ...]:
    while True:
        name = f"{folder}/{_CONFIG}".lstrip("/")
        if name in known:
            return (name,)
        if not folder:
            return ()
        folder = folder.rpartition("/")[0]


def _recognises(name: str, head: bytes) -> bool:
    *folders, file = name.split("/")
    found = _FILE.fullmatch(file)
    if found is None:
        return False
    if found["json"]:
        return True
    return any(_DIGEST.fullmatch(folder) or _PARAMETER.fullmatch(folder) for folder in folders)


IMPORTER = Importer(
    kind=TOOL,
    summary="CBT: result trees of librbdfio, kvmrbdfio and radosbench",
    recognises=_recognises,
    read=read_cbt,
    bundles=_bundles,
    log_prefixes=log_prefixes,
)
