"""What pools hold: images and objects of Leadline's own, which may go with a pool, and all else,
which may not."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

from leadline import errors
from leadline.ceph.access import INSTALL_CLIENT, CephAccess
from leadline.ceph.pool_recipes import OWNER_KEY, PREFIX
from leadline.errors import LeadlineError

_TOOL_S = 60.0
_REMOVAL_S = 600.0
_SHOWN = 3
_NOT_FOUND = 127  # what nsenter ends with where it finds no program
# What librbd and the manager's rbd_support keep in a pool whether or not it has images
# (src/cls/rbd and src/pybind/mgr/rbd_support of Ceph).
_FURNITURE = frozenset({
    "rbd_directory", "rbd_info", "rbd_children", "rbd_trash", "rbd_mirroring", "rbd_namespace",
    "rbd_task", "rbd_mirror_snapshot_schedule", "rbd_trash_purge_schedule", "rbd_group_directory",
})  # fmt: skip
_PART = re.compile(r"rbd_(?:header|object_map|data)\.(?:\d+\.)?(?P<id>[0-9a-f]+)(?:\.[0-9a-f]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """`spec` is `POOL[/NAMESPACE]/NAME`; `data_pool` is where its data lies, `number` the id in
    the names of its objects. `ours`: a run of Leadline's made it, and was killed."""

    spec: str
    pool: str
    data_pool: str
    number: str
    ours: bool

    @property
    def name(self) -> str:
        return self.spec.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """`foreign` names some of what is not Leadline's; empty where there is nothing."""

    own: tuple[Image, ...]
    foreign: tuple[str, ...]


def held_in(
    access: CephAccess, pools: Sequence[str], rbd_pools: Iterable[str], *, erasure: Collection[str]
) -> dict[str, Held]:
    """What each of `pools` holds. `rbd_pools` are all replicated pools for RBD: images whose data
    lies in one pool may be named in another. Those with data in an `erasure`-coded one are asked
    for one by one, since an image that was never written has no object there.

    Raises LeadlineError: `ceph-missing`, `ceph-failed`.
    """
    images = [
        image
        for pool in rbd_pools
        for image in _images(access, pool, every=any(one in erasure for one in pools))
    ]
    found = {}
    for pool in pools:
        here = [image for image in images if pool in (image.pool, image.data_pool)]
        own = tuple(image for image in here if image.ours)
        others = [f"image {image.spec}" for image in here if not image.ours]
        foreign = others[:_SHOWN] or _foreign(access, pool, own)
        found[pool] = Held(own=own, foreign=tuple(foreign))
    return found


def remove_images(access: CephAccess, images: Iterable[Image]) -> None:
    """Raises LeadlineError(`ceph-failed`), for instance where a run uses one right now."""
    for image in images:
        words = ("rbd", "rm", "--no-progress", image.spec)
        _ask(access.command(*words), f"removing the image {image.spec}", bound_s=_REMOVAL_S)


def _images(access: CephAccess, pool: str, *, every: bool) -> Iterator[Image]:
    """Images of a pool: those of ours, and `every` other too."""
    spaces = _json(access, "listing namespaces", "namespace", "ls", pool) if every else []
    for place in [pool, *(f"{pool}/{space['name']}" for space in spaces)]:
        for name in _json(access, "listing images", "ls", place):
            spec = f"{place}/{name}"
            ours = place == pool and name.startswith(PREFIX) and _labelled(access, spec)
            if not (ours or every):
                continue
            told = _json(access, "looking at an image", "info", spec)
            yield Image(
                spec=spec,
                pool=pool,
                data_pool=str(told.get("data_pool", pool)),
                number=str(told["id"]),
                ours=ours,
            )


def _labelled(access: CephAccess, spec: str) -> bool:
    """A name alone proves nothing."""
    return OWNER_KEY in (_json(access, "reading a label", "image-meta", "ls", spec) or {})


def _json(access: CephAccess, what: str, *words: str) -> Any:
    answer = _ask(access.command("rbd", *words[:-1], "--format", "json", words[-1]), what)
    return json.loads(answer) if answer.strip() else []


def _foreign(access: CephAccess, pool: str, own: Sequence[Image]) -> tuple[str, ...]:
    """Some of the objects, in all namespaces, that are not ours: the listing ends at the third."""
    command = access.command("rados", "--pool", pool, "ls", "--all")
    names = {image.name for image in own}
    numbers = {image.number for image in own}
    found: list[str] = []
    # Into a file: a pipe that nobody reads while the objects are would stop the program.
    with tempfile.TemporaryFile() as said, _started(command, said) as lister:
        assert lister.stdout is not None, "it is a pipe"
        for line in lister.stdout:
            # `NAMESPACE<tab>NAME`; part of a name with a line break in it has none, and is foreign.
            namespace, tab, name = line.decode("utf-8", "replace").rstrip("\n").partition("\t")
            if tab and not namespace and _is_ours(name, names, numbers):
                continue
            image = name.removeprefix("rbd_id.")
            found.append(f"image {image}" if image != name else f"object {name or namespace}")
            if len(found) == _SHOWN:
                lister.kill()
                break
        status = lister.wait()
        said.seek(0)
        lines = said.read().decode("utf-8", "replace").splitlines()
    if status and len(found) < _SHOWN:
        raise LeadlineError(
            errors.CEPH_FAILED,
            f"the objects of the pool {pool!r} cannot be listed",
            context=[line for line in lines if line.strip()][-3:],
        )
    return tuple(found)


def _is_ours(name: str, images: set[str], numbers: set[str]) -> bool:
    """Furniture, objects of a run (their names begin with ours), or parts of our images."""
    if name in _FURNITURE or name.startswith(PREFIX):
        return True
    if name.startswith("rbd_id."):
        return name.removeprefix("rbd_id.") in images
    part = _PART.fullmatch(name)
    return part is not None and part["id"] in numbers


def _started(command: Sequence[str], said: IO[bytes]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said
        )
    except FileNotFoundError as error:
        raise _missing(str(error.filename)) from error


def _ask(command: Sequence[str], what: str, *, bound_s: float = _TOOL_S) -> str:
    """stdout of one of Ceph's programs."""
    program = next(word for word in command if word in ("rbd", "rados"))
    try:
        asked = subprocess.run(
            command, capture_output=True, text=True, timeout=bound_s, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError as error:
        raise _missing(str(error.filename)) from error
    except subprocess.TimeoutExpired as error:
        raise LeadlineError(
            errors.CEPH_FAILED,
            f"{what}: {program} gives no answer within {bound_s:g} s",
            hint="look at the cluster's health: its I/O may not come back",
        ) from error
    if asked.returncode == _NOT_FOUND and "nsenter" in asked.stderr:
        raise _missing(program)
    if asked.returncode:
        raise LeadlineError(
            errors.CEPH_FAILED,
            f"{what}: {program} ended with status {asked.returncode}",
            context=[line for line in asked.stderr.splitlines() if line.strip()][-3:],
        )
    return asked.stdout


def _missing(program: str) -> LeadlineError:
    return LeadlineError(
        errors.CEPH_MISSING, f"there is no {program!r} on this machine", hint=INSTALL_CLIENT
    )
