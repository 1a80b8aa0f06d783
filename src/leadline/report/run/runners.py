"""What did the I/O in a Kubernetes cluster: pods and virtual machines, and the volumes they had."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.archive.reader import Run
from leadline.archive.records import Runner
from leadline.report.document import Block, Cell, Column, Kind, Table
from leadline.report.wording import NOT_SHOWN, listed, visible
from leadline.units import format_size


@dataclass(frozen=True, slots=True, kw_only=True)
class _Like:
    """What runners of one row have in common."""

    target: str
    kind: str
    image: str
    digest: str
    user: int | None
    cores: float
    memory_bytes: int
    storage_class: str
    mode: str
    size_bytes: int
    driver: str


def runner_blocks(run: Run) -> tuple[Block, ...]:
    """A row for all runners of a target that were alike; nothing where this machine did the I/O."""
    nodes: dict[_Like, set[str]] = {}
    most: dict[_Like, int] = {}
    for trial in run.trials:
        alike: dict[_Like, int] = {}
        for runner in trial.runners:
            like = _like(trial.record.target, runner)
            nodes.setdefault(like, set()).add(runner.node)
            alike[like] = alike.get(like, 0) + 1
        for like, count in alike.items():
            most[like] = max(most.get(like, 0), count)
    if not most:
        return ()
    titles = ("target", "runner", "nodes", "image", "volumes")
    rows = tuple(
        (
            *(Cell(text=visible(text)) for text in _texts(like, nodes[like], count)),
            Cell(text=f"{like.cores:g}", sort=like.cores),
            Cell(text=format_size(like.memory_bytes), sort=float(like.memory_bytes)),
        )
        for like, count in most.items()
    )
    columns = (
        *(Column(title=text) for text in titles),
        Column(title="processors", kind=Kind.NUMBER),
        Column(title="memory", kind=Kind.NUMBER),
    )
    return (
        Table(
            id="runners",
            caption="Runners: what did the I/O, each with a volume of its own",
            columns=columns,
            rows=rows,
        ),
    )


def _like(target: str, runner: Runner) -> _Like:
    volume = runner.volume
    return _Like(
        target=target,
        kind=runner.kind,
        image=runner.image,
        digest=runner.image_id.rpartition("@")[2],
        user=runner.user,
        cores=runner.cores,
        memory_bytes=runner.memory_bytes,
        storage_class=volume.storage_class,
        mode=volume.mode,
        size_bytes=volume.size_bytes,
        driver=volume.driver,
    )


def _texts(like: _Like, nodes: set[str], count: int) -> tuple[str, ...]:
    who = {"pod": "pod", "vm": "virtual machine"}[like.kind]
    runner = f"{who} of user {like.user}" if like.user is not None else who
    image = f"{like.image} ({like.digest[:19]})" if like.digest else like.image
    volumes = f"{count} of {format_size(like.size_bytes)}, {like.mode}"
    driver = f", driver {like.driver}" if like.driver else ""
    return (
        like.target,
        runner if count == 1 else f"{count} x {runner}",
        listed(sorted(nodes)) or NOT_SHOWN,
        image or NOT_SHOWN,
        f"{volumes} ({like.storage_class}{driver})",
    )
