"""Creation and removal of the study's pools on a Ceph cluster.

Every effect is applied, read back, noted, and undone where the command fails or is interrupted.
"""

from __future__ import annotations

import contextlib
import errno
import json
import re
import secrets
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, Self

from leadline import errors
from leadline.connect.ceph import (
    CephAccess,
    CommandFailed,
    program_missing,
    run_program,
)
from leadline.environment import CEPH, child_environment
from leadline.errors import LeadlineError
from leadline.pools.ceph_state import Commands, Effect, OwnedPool, Step, read_state, steps
from leadline.pools.recipes import OWNER_KEY, PREFIX, PoolRecipe

# This setting is switched on only while pools are deleted. A note in the cluster holds its value
# from before, so after a killed process the next one restores it (`recover`).
SETTING = "mon_allow_pool_delete"
NOTE_KEY = f"leadline/{SETTING}"
_UNSET = "unset"
# Monitors use a new setting within a second of its commit.
_OBEYED_WITHIN_S = 15.0
_PAUSE_S = 0.2


class PoolDeletion:
    """A context that deletes pools; it allows deletion only where the cluster refuses it."""

    def __init__(self, commands: Commands, warn: Callable[[str], None]) -> None:
        self._commands = commands
        self._warn = warn
        self._allowed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not self._allowed:
            return
        try:
            recover(self._commands, self._warn)
        except LeadlineError as failed:
            if error is None:
                raise
            # The first error is reported; the note stays for the next command.
            self._warn(f"{SETTING} could not be restored: {failed.fact}")

    def delete(self, pool: str) -> None:
        """Delete a pool. Raises LeadlineError(`ceph-failed`)."""
        end = time.monotonic() + _OBEYED_WITHIN_S
        while True:
            try:
                self._commands.mon(
                    "osd pool delete", pool=pool, pool2=pool, yes_i_really_really_mean_it=True
                )
            except CommandFailed as error:
                named = any(SETTING in line for line in error.context)
                if error.number != errno.EPERM or not named or time.monotonic() > end:
                    raise
            else:
                return
            if not self._allowed:
                self._allow()
            time.sleep(_PAUSE_S)

    def _allow(self) -> None:
        before = _in_database(self._commands)
        self._warn(f"switching {SETTING} on temporarily (it is {before or 'off by default'})")
        noted = _UNSET if before is None else before
        self._allowed = True
        self._commands.mon("config-key set", key=NOTE_KEY, val=noted)
        self._commands.mon("config set", who="mon", name=SETTING, value="true")


def recover(commands: Commands, warn: Callable[[str], None]) -> None:
    """Restore the setting from the note in the cluster, where one exists. Raises
    LeadlineError(`ceph-failed`) where the cluster does not show the restored value."""
    try:
        noted = commands.mon("config-key get", key=NOTE_KEY).decode().strip()
    except CommandFailed as error:
        # A user who may not read notes left none.
        if error.number in (errno.ENOENT, errno.EACCES):
            return
        raise
    before = None if noted == _UNSET else noted
    if before is None:
        commands.mon("config rm", who="mon", name=SETTING)
    else:
        commands.mon("config set", who="mon", name=SETTING, value=before)
    found = _in_database(commands)
    if found != before:
        raise LeadlineError(
            errors.CEPH_FAILED,
            f"{SETTING} was restored to {before or 'its default'}, but is {found}",
            hint=f"`ceph config rm mon {SETTING}`",
        )
    with contextlib.suppress(CommandFailed):
        commands.mon("config-key rm", key=NOTE_KEY)
    warn(f"{SETTING} is {before or 'off by default'} again")


def _in_database(commands: Commands) -> str | None:
    """Return the setting's value for all monitors; None where it is not set."""
    for entry in json.loads(commands.mon("config dump", format="json")):
        if entry["name"] == SETTING and entry["section"] == "mon" and not entry.get("mask"):
            return str(entry["value"])
    return None


Note = Callable[[str], None]
WAIT_S = 180.0
_READ_BACK_WITHIN_S = 10.0
_POLL_S = 0.5
_CREATING = (Effect.PROFILE, Effect.RULE, Effect.POOL, Effect.DATA_POOL)


def create_pools(
    commands: Commands,
    recipes: Sequence[PoolRecipe],
    *,
    note: Note,
    warn: Note,
    wait_s: float = WAIT_S,
) -> None:
    """Create pools and wait until their placement groups are active and clean.

    `note` gets progress, `warn` what the user must still see afterwards. Existing objects stay as
    they are. After any failure, also Ctrl-C, everything that this call created is removed. Raises
    LeadlineError: `ceph-failed`, `ceph-unreachable`.
    """
    recover(commands, warn)
    made: list[Step] = []
    try:
        for recipe in recipes:
            note(f"creating {recipe.name.text}")
            for step in steps(recipe, secrets.token_hex(8)):
                _apply(commands, step, made)
        await_placement_groups(
            commands, [recipe.name.text for recipe in recipes], note=note, wait_s=wait_s
        )
    except BaseException as error:
        if made:
            cause = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            note(f"{cause}: removing what was created")
            for problem in _undo(commands, made, warn):
                warn(problem)
        raise


def remove_pools(
    commands: Commands, pools: Sequence[OwnedPool], stray: Iterable[str], *, note: Note, warn: Note
) -> None:
    """Remove pools that Leadline created, with their rules and profiles, and those named by
    `stray`. Rules and profiles that other pools use stay, with a warning. Raises LeadlineError:
    `ceph-failed`, `ceph-unreachable`."""
    recover(commands, warn)
    with PoolDeletion(commands, warn) as deletion:
        for pool in pools:
            note(f"removing {pool.name}")
            _remove_pool(commands, pool.name, pool.filesystem, deletion)
    for mark in [*(name for pool in pools for name in (pool.rule, pool.profile) if name), *stray]:
        for kept in _remove_mark(commands, mark):
            warn(kept)


@contextmanager
def explain_denials(access: CephAccess) -> Iterator[None]:
    """Turn a refusal for missing capabilities into LeadlineError(`ceph-denied`)."""
    try:
        yield
    except CommandFailed as error:
        if error.number != errno.EACCES:
            raise
        raise LeadlineError(
            errors.CEPH_DENIED,
            f"the user client.{access.name} lacks capabilities",
            context=[error.fact, *error.context],
            hint="creating and removing pools needs mon 'allow *', mgr 'allow r' "
            "and osd 'allow rwx' (`ceph auth get` shows those of a user)",
        ) from error


def _apply(commands: Commands, step: Step, made: list[Step]) -> None:
    state = read_state(commands)
    if state.shows(step):
        return
    if state.exists(step) and step.effect in (Effect.PROFILE, Effect.RULE):
        # Left by an earlier pool of that name, when the cluster had another layout.
        for kept in _remove_mark(commands, step.name):
            raise LeadlineError(errors.CEPH_FAILED, kept)
    elif state.exists(step) and step.effect is Effect.POOL:
        raise LeadlineError(
            errors.CEPH_FAILED,
            f"another pool {step.name!r} was created meanwhile",
            hint="run the command again: it leaves foreign pools alone",
        )
    if step.effect in _CREATING:
        made.append(step)  # first: an interrupted command may still take effect
    commands.mon(step.prefix, **step.arguments)
    end = time.monotonic() + _READ_BACK_WITHIN_S
    while not read_state(commands).shows(step):
        if time.monotonic() > end:
            raise LeadlineError(
                errors.CEPH_FAILED,
                f"the cluster accepted a {step.effect.value} for {step.name} and does not show it",
                context=[str(step)],
            )
        time.sleep(_PAUSE_S)


def _undo(commands: Commands, made: Sequence[Step], warn: Note) -> list[str]:
    """Undo steps; return the problems as sentences, so that they do not hide the first error."""
    problems = []
    with PoolDeletion(commands, warn) as deletion:
        for step in reversed(made):
            try:
                match step.effect:
                    case Effect.DATA_POOL:
                        _leave_filesystem(commands, step.name, str(step.arguments["fs_name"]))
                    case Effect.POOL:
                        _remove_pool(commands, step.name, None, deletion)
                    case _:
                        problems += _remove_mark(commands, step.name)
            except LeadlineError as error:
                reason = "; ".join([error.fact, *error.context])
                problems.append(
                    f"the {step.effect.value} {step.name} stays: {reason}; "
                    f"`leadline pools remove {step.name.removeprefix(PREFIX)}` removes it"
                )
    return problems


def _remove_pool(
    commands: Commands, name: str, filesystem: str | None, deletion: PoolDeletion
) -> None:
    if filesystem is not None:
        _leave_filesystem(commands, name, filesystem)
    if name not in read_state(commands).pools:
        return
    deletion.delete(name)
    if name in read_state(commands).pools:
        raise LeadlineError(
            errors.CEPH_FAILED, f"the cluster accepted to delete the pool {name!r} and still has it"
        )


def _leave_filesystem(commands: Commands, pool: str, filesystem: str) -> None:
    if pool not in read_state(commands).filesystems.get(filesystem, ()):
        return
    commands.mon("fs rm_data_pool", fs_name=filesystem, pool=pool)
    if pool in read_state(commands).filesystems.get(filesystem, ()):
        raise LeadlineError(
            errors.CEPH_FAILED,
            f"the cluster accepted to take the pool {pool!r} out of the file system "
            f"{filesystem!r} and still has it there",
        )


def _remove_mark(commands: Commands, mark: str) -> list[str]:
    """Remove the rule and the profile of a name; return sentences about those still in use."""
    state = read_state(commands)
    kept = []
    # The rule first: it refers to the profile.
    for what, there, users, prefix in (
        ("rule", mark in state.rules, state.users_of_rule(mark), "osd crush rule rm"),
        (
            "erasure-code profile",
            mark in state.profiles,
            state.users_of_profile(mark),
            "osd erasure-code-profile rm",
        ),
    ):
        if there and users:
            kept.append(f"the {what} {mark} stays: {', '.join(users)} uses it")
        elif there:
            commands.mon(prefix, name=mark)
    after = read_state(commands)
    if not kept and (mark in after.rules or mark in after.profiles):
        raise LeadlineError(
            errors.CEPH_FAILED, f"the cluster accepted to remove {mark!r} and still has it"
        )
    return kept


def await_placement_groups(
    commands: Commands, pools: Sequence[str], *, note: Note, wait_s: float
) -> None:
    """Wait until the placement groups of pools are active and clean, as many as the autoscaler
    wants. Raises LeadlineError: `ceph-failed` after `wait_s` seconds, `ceph-unreachable`."""
    end = time.monotonic() + wait_s
    reported = ""
    while pools:
        unsettled = _unsettled(commands, pools)
        if not unsettled:
            return
        if time.monotonic() > end:
            raise LeadlineError(
                errors.CEPH_FAILED,
                f"after {wait_s:g} s placement groups are not yet active and clean",
                context=unsettled,
                hint="`ceph health detail` shows the cause; --wait allows more time",
            )
        progress = "waiting for placement groups: " + ", ".join(unsettled)
        if progress != reported:
            note(progress)
            reported = progress
        time.sleep(_POLL_S)


def _unsettled(commands: Commands, pools: Sequence[str]) -> list[str]:
    """Return, for example, `rep2 10 of 16 active+clean (6 peering)` for each pool whose placement
    groups are not clean, or whose number still changes."""
    state = read_state(commands)
    wanted = _autoscaled(commands, pools)
    found = []
    for name in pools:
        if name not in state.pools:
            raise LeadlineError(errors.CEPH_FAILED, f"the pool {name!r} was removed meanwhile")
        try:
            listed = json.loads(commands.mgr("pg ls-by-pool", poolstr=name, format="json"))
        except CommandFailed as error:
            if error.number != errno.ENOENT:  # the manager does not know the new pool yet
                raise
            listed = {"pg_stats": []}
        states = Counter(str(pg_stat["state"]) for pg_stat in listed["pg_stats"])
        clean = sum(count for key, count in states.items() if key.startswith("active+clean"))
        pool = state.pools[name]
        count = int(pool["pg_num"])
        target = wanted.get(name) or int(pool.get("pg_num_target", count))
        placed = int(pool.get("pg_placement_num", count))
        if clean < count or clean < states.total():
            others = [f"{count} {key}" for key, count in states.items() if "clean" not in key]
            rest = f" ({', '.join(others)})" if others else ""
            found.append(f"{name} {clean} of {count} active+clean{rest}")
        elif target != count:
            found.append(f"{name} changes from {count} to {target} placement groups")
        elif placed != count:
            found.append(f"{name} has placed {placed} of {count} placement groups")
    return found


def _autoscaled(commands: Commands, pools: Sequence[str]) -> dict[str, int]:
    """Return the placement groups to which the autoscaler is about to change each of `pools`. It
    reports nothing of pools whose CRUSH rules overlap."""
    try:
        answer = commands.mgr("osd pool autoscale-status", format="json")
    except CommandFailed:
        return {}  # the module is off
    return {
        str(pool["pool_name"]): int(pool["pg_num_final"])
        for pool in json.loads(answer)
        if pool["pool_name"] in pools
        and pool.get("would_adjust")
        and pool.get("pg_autoscale_mode") == "on"
    }


_TOOL_S = 60.0
_REMOVAL_S = 600.0
_SHOWN = 3
# Objects that librbd and the manager's rbd_support keep in a pool, also without images
# (src/cls/rbd and src/pybind/mgr/rbd_support of Ceph).
_RBD_OBJECTS = frozenset({
    "rbd_directory", "rbd_info", "rbd_children", "rbd_trash", "rbd_mirroring", "rbd_namespace",
    "rbd_task", "rbd_mirror_snapshot_schedule", "rbd_trash_purge_schedule", "rbd_group_directory",
})  # fmt: skip
_PART = re.compile(r"rbd_(?:header|object_map|data)\.(?:\d+\.)?(?P<id>[0-9a-f]+)(?:\.[0-9a-f]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An RBD image: `spec` is `POOL[/NAMESPACE]/NAME`, `data_pool` holds its data, `number` is the
    id in the names of its objects. `owned`: a killed run of Leadline created it."""

    spec: str
    pool: str
    data_pool: str
    number: str
    owned: bool

    @property
    def name(self) -> str:
        return self.spec.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The content of a pool: Leadline's images, and the names of some foreign objects."""

    own: tuple[Image, ...]
    foreign: tuple[str, ...]


def held_in(
    access: CephAccess, pools: Sequence[str], rbd_pools: Iterable[str], *, erasure: Collection[str]
) -> dict[str, Held]:
    """Return what each of `pools` holds. Raises LeadlineError: `ceph-missing`, `ceph-failed`.

    `rbd_pools` are all replicated RBD pools: an image may have its data in another pool. Images
    with data in an `erasure`-coded pool are queried one by one, since an unwritten image has no
    object there.
    """
    images = [
        image
        for pool in rbd_pools
        for image in _images(access, pool, every=any(pool in erasure for pool in pools))
    ]
    found = {}
    for pool in pools:
        here = [image for image in images if pool in (image.pool, image.data_pool)]
        own = tuple(image for image in here if image.owned)
        others = [f"image {image.spec}" for image in here if not image.owned]
        foreign = others[:_SHOWN] or _foreign(access, pool, own)
        found[pool] = Held(own=own, foreign=tuple(foreign))
    return found


def remove_images(access: CephAccess, images: Iterable[Image]) -> None:
    """Remove images. Raises LeadlineError(`ceph-failed`), for example while a run uses one."""
    for image in images:
        words = ("rbd", "rm", "--no-progress", image.spec)
        run_program(access.command(*words), "rbd", f"removing the image {image.spec}", _REMOVAL_S)


def _images(access: CephAccess, pool: str, *, every: bool) -> Iterator[Image]:
    """Yield the images of a pool that Leadline created; with `every` also the others."""
    spaces = _json(access, "listing namespaces", "namespace", "ls", pool) if every else []
    for place in [pool, *(f"{pool}/{space['name']}" for space in spaces)]:
        for name in _json(access, "listing images", "ls", place):
            spec = f"{place}/{name}"
            owned = place == pool and name.startswith(PREFIX) and _labelled(access, spec)
            if not (owned or every):
                continue
            info = _json(access, "reading an image", "info", spec)
            yield Image(
                spec=spec,
                pool=pool,
                data_pool=str(info.get("data_pool", pool)),
                number=str(info["id"]),
                owned=owned,
            )


def _labelled(access: CephAccess, spec: str) -> bool:
    """Return whether an image carries Leadline's label: its name proves nothing."""
    return OWNER_KEY in (_json(access, "reading a label", "image-meta", "ls", spec) or {})


def _json(access: CephAccess, what: str, *words: str) -> Any:
    command = access.command("rbd", *words[:-1], "--format", "json", words[-1])
    answer = run_program(command, "rbd", what, _TOOL_S)
    return json.loads(answer) if answer.strip() else []


def _foreign(access: CephAccess, pool: str, own: Sequence[Image]) -> tuple[str, ...]:
    """Return up to three foreign objects of a pool, from all namespaces."""
    command = access.command("rados", "--pool", pool, "ls", "--all")
    names = {image.name for image in own}
    numbers = {image.number for image in own}
    found: list[str] = []
    # stderr goes to a file: an unread pipe would stop the program.
    with tempfile.TemporaryFile() as stderr, _start(command, stderr) as lister:
        assert lister.stdout is not None
        for line in lister.stdout:
            # `NAMESPACE<tab>NAME`; part of a name with a line break has no tab, and is foreign.
            namespace, tab, name = line.decode("utf-8", "replace").rstrip("\n").partition("\t")
            if tab and not namespace and _is_owned(name, names, numbers):
                continue
            image = name.removeprefix("rbd_id.")
            found.append(f"image {image}" if image != name else f"object {name or namespace}")
            if len(found) == _SHOWN:
                lister.kill()
                break
        status = lister.wait()
        stderr.seek(0)
        lines = stderr.read().decode("utf-8", "replace").splitlines()
    if status and len(found) < _SHOWN:
        raise LeadlineError(
            errors.CEPH_FAILED,
            f"the objects of the pool {pool!r} cannot be listed",
            context=[line for line in lines if line.strip()][-3:],
        )
    return tuple(found)


def _is_owned(name: str, images: set[str], numbers: set[str]) -> bool:
    """Return whether an object is RBD's own, a run's (by its prefix), or part of an owned image."""
    if name in _RBD_OBJECTS or name.startswith(PREFIX):
        return True
    if name.startswith("rbd_id."):
        return name.removeprefix("rbd_id.") in images
    part = _PART.fullmatch(name)
    return part is not None and part["id"] in numbers


def _start(command: Sequence[str], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=child_environment(*CEPH),
        )
    except FileNotFoundError as error:
        raise program_missing(str(error.filename)) from error
