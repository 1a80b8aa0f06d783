"""Makes the pools of the study on a cluster, and removes them: every effect is applied, read back,
noted, and undone where the command that wanted it fails or is interrupted."""

from __future__ import annotations

import errno
import json
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from leadline import errors
from leadline.ceph.access import CephAccess
from leadline.ceph.connection import CommandFailed
from leadline.ceph.pool_deletion import PoolDeletion, recover
from leadline.ceph.pool_recipes import PREFIX, PoolRecipe
from leadline.ceph.pool_state import Commands, OurPool, read_state
from leadline.ceph.pool_steps import Effect, Step, steps
from leadline.errors import LeadlineError

Note = Callable[[str], None]
WAIT_S = 180.0
_READ_BACK_WITHIN_S = 10.0
_PAUSE_S = 0.2
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
        states = Counter(str(one["state"]) for one in listed["pg_stats"])
        clean = sum(count for one, count in states.items() if one.startswith("active+clean"))
        wanted = int(state.pools[name]["pg_num"])
        if clean < wanted or clean < states.total():
            others = [f"{count} {one}" for one, count in states.items() if "clean" not in one]
            rest = f" ({', '.join(others)})" if others else ""
            found.append(f"{name} {clean} of {wanted} active+clean{rest}")
    return found
