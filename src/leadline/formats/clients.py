"""Concurrent clients of one trial, each with result files of its own, merged into one result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from leadline.formats.fio.logs import Window, add_windows
from leadline.formats.importer import Result, importer_of
from leadline.formats.result import EngineOutput, FormatError, JobResult, Note, NoteKind
from leadline.formats.work import work_options
from leadline.metrics import Op


def read_results(
    kind: str,
    contents: Mapping[str, bytes],
    clients: Sequence[str] = (),
    absent: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
) -> tuple[Result, ...]:
    """Read a bundle of files. `columns` are those of a table that have another name.

    `clients` are the clients of the files, in their order, where each has files of its own;
    `absent` are clients without a file. Rates are added and histograms merged; the host of a job is
    its client. Raises FormatError.
    """
    if not clients:
        return importer_of(kind, columns).read(contents)
    by_client: dict[str, dict[str, bytes]] = {}
    for (name, content), client in zip(contents.items(), clients, strict=True):
        by_client.setdefault(client, {})[name] = content
    read = {client: _read(kind, client, files, columns) for client, files in by_client.items()}
    first = next(iter(read.values()))
    if all(len(results) == 1 for results in read.values()):
        sections = [[(client, results[0]) for client, results in read.items()]]
    else:
        sections = [
            [
                (client, result)
                for client, results in read.items()
                for result in results
                if result.workload == workload
            ]
            for workload in dict.fromkeys(result.workload for result in first)
        ]
    return tuple(_merged(section, by_client, absent) for section in sections)


def _read(
    kind: str, client: str, files: Mapping[str, bytes], columns: Mapping[str, str] | None
) -> tuple[Result, ...]:
    """Read one client's results. Raises FormatError that names its file: without the client's
    figures the sum would be too low."""
    try:
        results = importer_of(kind, columns).read(files)
    except FormatError as error:
        raise _of_client(client, next(iter(files)), error) from error
    for result in results:
        if isinstance(result.output, FormatError):
            raise _of_client(client, next(iter(files)), result.output)
    return results


def _of_client(client: str, file: str, error: FormatError) -> FormatError:
    return FormatError(
        error.condition, f"client {client}: {error.fact}", context=(file, *error.context)
    )


def _merged(
    section: Sequence[tuple[str, Result]],
    files: Mapping[str, Mapping[str, bytes]],
    absent: Sequence[str],
) -> Result:
    """Merge the clients' parts of one trial. Raises FormatError where they did other work."""
    outputs: list[tuple[str, EngineOutput]] = []
    for client, result in section:
        assert isinstance(result.output, EngineOutput)
        outputs.append((client, result.output))
    _check_alike(outputs, files)
    lacking = [*absent, *(client for client in files if client not in {one for one, _ in section})]
    notes = [
        replace(note, where=f"{client}: {note.where}")
        for client, output in outputs
        for note in output.notes
    ]
    notes += [
        Note(
            NoteKind.MISSING_CLIENT,
            client,
            f"{len(outputs)} of {len(outputs) + len(lacking)} clients have a result",
        )
        for client in lacking
    ]
    first_client, first = section[0]
    base = dict(outputs)[first_client]
    name = base.jobs[0].name if base.jobs else first.workload
    one_name = all(len({job.name for job in output.jobs}) == 1 for _, output in outputs)
    jobs = tuple(
        _job(job, client, name if one_name else job.name)
        for client, output in outputs
        for job in output.jobs
    )
    return replace(
        first,
        output=replace(
            base,
            jobs=jobs,
            disks=(),
            noise="".join(output.noise for _, output in outputs),
            notes=tuple(notes),
        ),
        windows=_windows([result for _, result in section]),
        together=None,
    )


def _job(job: JobResult, client: str, name: str) -> JobResult:
    return replace(job, name=name, host=f"{client} {job.host}" if job.host else client)


def _check_alike(
    outputs: Sequence[tuple[str, EngineOutput]], files: Mapping[str, Mapping[str, bytes]]
) -> None:
    works = [
        (client, work_options(output.jobs[0].options)) for client, output in outputs if output.jobs
    ]
    if not works:
        return
    base_client, base = works[0]
    for client, work in works[1:]:
        differing = [
            f"{key}: {base.get(key, 'none')}, {work.get(key, 'none')}"
            for key in chain(base, (key for key in work if key not in base))
            if base.get(key) != work.get(key)
        ]
        if differing:
            raise FormatError.unreadable(
                f"the clients {base_client} and {client} ran other work ({'; '.join(differing)})",
                *(next(iter(files[one])) for one in (base_client, client)),
            )


def _windows(results: Sequence[Result]) -> Mapping[Op, tuple[Window, ...]]:
    """Add up the IOPS over time of clients that all have them; empty otherwise."""
    if not all(result.windows for result in results):
        return {}
    ops = dict.fromkeys(op for result in results for op in result.windows)
    return {
        op: add_windows([result.windows[op] for result in results if op in result.windows])
        for op in ops
    }
