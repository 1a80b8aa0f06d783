"""Makes the pools of the study on a cluster, and removes them: every effect is applied, read back,
noted, and undone where the command that wanted it fails or is interrupted."""

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
from types import TracebackType
from typing import IO, Any, Self

from leadline import errors
from leadline.connect.ceph import INSTALL_CLIENT, CephAccess, CommandFailed
from leadline.errors import LeadlineError
from leadline.pools.ceph_state import Commands, Effect, OurPool, Step, read_state, steps
from leadline.pools.recipes import OWNER_KEY, PREFIX, PoolRecipe

# Deleting pools on clusters that do not allow it: allowed for the moment, and put back.
#  What the setting was is noted in the cluster itself before it is changed. A process that is
# killed in between leaves the note, and the next one puts the setting back (`recover`).

SETTING = "mon_allow_pool_delete"
NOTE_KEY = f"leadline/{SETTING}"
_UNSET = "unset"
# Monitors take a new setting within a second of its commit.
_OBEYED_WITHIN_S = 15.0
_PAUSE_S = 0.2


class PoolDeletion:
    """Deletes pools while it is entered; allows that only where it is refused."""

    def __init__(self, commands: Commands, warn: Callable[[str], None]) -> None:
        self._commands = commands
        self._warn = warn
        self._allowed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._allowed:
            return
        try:
            recover(self._commands, self._warn)
        except LeadlineError as failed:
            if error is None:
                raise
            # The first error is the one to be told; the note stays for the next time.
            self._warn(f"{SETTING} could not be put back: {failed.fact}")

    def delete(self, pool: str) -> None:
        """Raises LeadlineError(`ceph-failed`)."""
        end = time.monotonic() + _OBEYED_WITHIN_S
        while True:
            try:
                self._commands.mon(
                    "osd pool delete", pool=pool, pool2=pool, yes_i_really_really_mean_it=True
                )
            except CommandFailed as error:
                if not _forbidden(error) or time.monotonic() > end:
                    raise
            else:
                return
            if not self._allowed:
                self._allow()
            time.sleep(_PAUSE_S)

    def _allow(self) -> None:
        before = _in_database(self._commands)
        self._warn(f"switching {SETTING} on for the moment (it is {before or 'off by default'})")
        noted = _UNSET if before is None else before
        self._allowed = True
        self._commands.mon("config-key set", key=NOTE_KEY, val=noted)
        self._commands.mon("config set", who="mon", name=SETTING, value="true")


def recover(commands: Commands, warn: Callable[[str], None]) -> None:
    """Put the setting back to what the note in the cluster says, if there is one.

    Raises LeadlineError(`ceph-failed`) where it is not read back as it was.
    """
    try:
        noted = commands.mon("config-key get", key=NOTE_KEY).decode().strip()
    except CommandFailed as error:
        # Who may not read notes left none.
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
            f"{SETTING} was put back to {before or 'its default'}, and is {found} all the same",
            hint=f"`ceph config rm mon {SETTING}`",
        )
    with contextlib.suppress(CommandFailed):
        commands.mon("config-key rm", key=NOTE_KEY)
    warn(f"{SETTING} is {before or 'off by default'} again")


def _in_database(commands: Commands) -> str | None:
    """Its value for all monitors; None where it is not set."""
    for entry in json.loads(commands.mon("config dump", format="json")):
        if entry["name"] == SETTING and entry["section"] == "mon" and not entry.get("mask"):
            return str(entry["value"])
    return None


def _forbidden(error: CommandFailed) -> bool:
    return error.number == errno.EPERM and any(SETTING in said for said in error.context)


Note = Callable[[str], None]
WAIT_S = 180.0
_READ_BACK_WITHIN_S = 10.0
_POLL_S = 0.5
_MADE = (Effect.PROFILE, Effect.RULE, Effect.POOL, Effect.DATA_POOL)


def create_pools(
    commands: Commands,
    recipes: Sequence[PoolRecipe],
    *,
    note: Note,
    warn: Note,
    wait_s: float = WAIT_S,
) -> None:
    """Make pools and wait until their placement groups are active and clean. `note` is told what
    goes on, `warn` what the user should still see afterwards.

    What is there already is left as it is. Whatever goes wrong, Ctrl-C included, what this call
    made is undone. Raises LeadlineError: `ceph-failed`, `ceph-unreachable`.
    """
    recover(commands, warn)
    made: list[Step] = []
    try:
        for recipe in recipes:
            note(f"making {recipe.name.text}")
            for step in steps(recipe, secrets.token_hex(8)):
                _apply(commands, step, made)
        _wait(commands, [recipe.name.text for recipe in recipes], note, wait_s)
    except BaseException as error:
        if made:
            why = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            note(f"{why}: undoing what was made")
            for problem in _undo(commands, made, warn):
                warn(problem)
        raise


def remove_pools(
    commands: Commands,
    pools: Sequence[OurPool],
    stray: Iterable[str],
    *,
    note: Note,
    warn: Note,
) -> None:
    """Remove pools of ours with the rules and profiles made for them, and the rules and profiles
    named by `stray`. What others use by now stays, and is told.

    Raises LeadlineError: `ceph-failed`, `ceph-unreachable`.
    """
    recover(commands, warn)
    with PoolDeletion(commands, warn) as deletion:
        for pool in pools:
            note(f"removing {pool.name}")
            _remove_pool(commands, pool.name, pool.filesystem, deletion)
    for mark in [*(name for pool in pools for name in (pool.rule, pool.profile) if name), *stray]:
        for kept in _remove_mark(commands, mark):
            warn(kept)


@contextmanager
def telling_denials(access: CephAccess) -> Iterator[None]:
    """Turn the refusal of a command for want of rights into LeadlineError(`ceph-denied`)."""
    try:
        yield
    except CommandFailed as error:
        if error.number != errno.EACCES:
            raise
        raise LeadlineError(
            errors.CEPH_DENIED,
            f"the user client.{access.name} may not do what is needed",
            context=[error.fact, *error.context],
            hint="making and removing pools needs the capabilities mon 'allow *', mgr 'allow r' "
            "and osd 'allow rwx' (`ceph auth get` shows those of a user)",
        ) from error


def _apply(commands: Commands, step: Step, made: list[Step]) -> None:
    state = read_state(commands)
    if state.shows(step):
        return
    if state.exists(step) and step.effect in (Effect.PROFILE, Effect.RULE):
        # Of an earlier pool of the name, on a cluster that was built otherwise then.
        for kept in _remove_mark(commands, step.name):
            raise LeadlineError(errors.CEPH_FAILED, kept)
    elif state.exists(step) and step.effect is Effect.POOL:
        raise LeadlineError(
            errors.CEPH_FAILED,
            f"somebody made a pool {step.name!r} meanwhile, and it is another",
            hint="run the command again: it leaves what others made alone",
        )
    if step.effect in _MADE:
        made.append(step)  # before: an interrupted command may still take effect
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
    """What could not be undone, as sentences: it must not hide why there is something to undo."""
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
                said = "; ".join([error.fact, *error.context])
                problems.append(
                    f"the {step.effect.value} {step.name} stays: {said}; "
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
    """Remove the rule and the profile of a name; sentences about what others use."""
    state = read_state(commands)
    kept = []
    # The rule first: it was made from the profile.
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


def _wait(commands: Commands, pools: Sequence[str], note: Note, wait_s: float) -> None:
    """Until all placement groups are there, active and clean."""
    end = time.monotonic() + wait_s
    told = ""
    while pools:
        unclean = _unclean(commands, pools)
        if not unclean:
            return
        if time.monotonic() > end:
            raise LeadlineError(
                errors.CEPH_FAILED,
                f"after {wait_s:g} s placement groups are not yet active and clean",
                context=unclean,
                hint="`ceph health detail` tells what holds them; --wait gives them longer",
            )
        telling = "waiting for placement groups: " + ", ".join(unclean)
        if telling != told:
            note(telling)
            told = telling
        time.sleep(_POLL_S)


def _unclean(commands: Commands, pools: Sequence[str]) -> list[str]:
    """`rep2 10 of 16 active+clean (6 peering)` for each pool that is not yet so."""
    state = read_state(commands)
    found = []
    for name in pools:
        try:
            listed = json.loads(commands.mgr("pg ls-by-pool", poolstr=name, format="json"))
        except CommandFailed as error:
            if error.number != errno.ENOENT:  # the manager has not heard of the pool yet
                raise
            listed = {"pg_stats": []}
        states = Counter(str(pg_stat["state"]) for pg_stat in listed["pg_stats"])
        clean = sum(count for item, count in states.items() if item.startswith("active+clean"))
        wanted = int(state.pools[name]["pg_num"])
        if clean < wanted or clean < states.total():
            others = [f"{count} {item}" for item, count in states.items() if "clean" not in item]
            rest = f" ({', '.join(others)})" if others else ""
            found.append(f"{name} {clean} of {wanted} active+clean{rest}")
    return found


# What pools hold: images and objects of Leadline's own, which may go with a pool, and all else,
# which may not.

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
        for image in _images(access, pool, every=any(pool in erasure for pool in pools))
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
