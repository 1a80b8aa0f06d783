"""What making and removing pools must do, on the double and on a real cluster alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from leadline.errors import LeadlineError
from leadline.inventory.ceph.model import CephInventory
from leadline.pools.ceph import create_pools, remove_pools
from leadline.pools.ceph_state import Commands, PoolState, read_state, steps
from leadline.pools.recipes import PREFIX, PoolRecipe, decide, owner_of, pool_name


def quiet(what: str) -> None:
    """No user listens."""


class Breaking:
    """Commands that fail, or are interrupted, when a command is given; before or after it."""

    def __init__(self, within: Commands, prefix: str, error: BaseException, *, after: bool) -> None:
        self.within, self.prefix, self.error, self.after = within, prefix, error, after
        self.spent = False

    def mon(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes:
        breaks = prefix == self.prefix and not self.spent
        if breaks and not self.after:
            self.spent = True
            raise self.error
        answer = self.within.mon(prefix, data, **arguments)
        if breaks:
            self.spent = True
            raise self.error
        return answer

    def mgr(self, prefix: str, data: bytes = b"", /, **arguments: object) -> bytes:
        return self.within.mgr(prefix, data, **arguments)


class _Contract:
    """A subclass gives the fixtures `commands`, `look` (asks for an inventory) and `domain`; the
    cluster has none of the pools that are made here, and room for them."""

    @pytest.fixture
    def recipes(
        self, commands: Commands, look: Callable[[], CephInventory]
    ) -> tuple[PoolRecipe, ...]:
        wanted = [pool_name(name) for name in ("rep2", "ec-2-1")]
        found = decide(wanted, look(), read_state(commands).marks).recipes
        assert [item.name.text for item in found] == ["rep2", "ec-2-1"]
        return found


class PoolContract(_Contract):
    def test_pools_are_made_as_their_recipes_say(
        self, commands: Commands, recipes: tuple[PoolRecipe, ...], domain: str
    ) -> None:
        before = seen(commands)
        create_pools(commands, recipes, note=quiet, warn=quiet)
        try:
            state = read_state(commands)
            rep2, erasure = state.pools["rep2"], state.pools["ec-2-1"]
            assert (rep2["size"], rep2["min_size"]) == (2, 1)
            assert (erasure["size"], erasure["min_size"]) == (3, 2)
            assert "ec_overwrites" in erasure["flags_names"].split(",")
            for name in ("rep2", "ec-2-1"):
                assert owner_of(state.pools[name])
                assert state.rule_of(name) == PREFIX + name
                place = state.place_of(name)
                assert place is not None
                assert place.failure_domain == domain
            assert {our.name for our in state.owned} == {"rep2", "ec-2-1"}
        finally:
            remove_pools(commands, read_state(commands).owned, (), note=quiet, warn=quiet)
        assert seen(commands) == before

    def test_making_them_again_changes_nothing(
        self, commands: Commands, recipes: tuple[PoolRecipe, ...]
    ) -> None:
        create_pools(commands, recipes, note=quiet, warn=quiet)
        try:
            made = seen(commands)
            create_pools(commands, recipes, note=quiet, warn=quiet)
            assert seen(commands) == made
        finally:
            remove_pools(commands, read_state(commands).owned, (), note=quiet, warn=quiet)

    def test_a_pool_that_another_user_made_meanwhile_stays(
        self, commands: Commands, recipes: tuple[PoolRecipe, ...]
    ) -> None:
        rule = next(iter(read_state(commands).rules))
        commands.mon(
            "osd pool create", pool="ec-2-1", pool_type="replicated", rule=rule, pg_num=8, size=2
        )
        try:
            before = seen(commands)
            with pytest.raises(LeadlineError, match="another pool 'ec-2-1' was created meanwhile"):
                create_pools(commands, recipes, note=quiet, warn=quiet)
            assert seen(commands) == before
        finally:
            commands.mon(
                "osd pool delete", pool="ec-2-1", pool2="ec-2-1", yes_i_really_really_mean_it=True
            )

    def test_a_killed_call_leaves_what_a_later_one_finds(
        self, commands: Commands, recipes: tuple[PoolRecipe, ...]
    ) -> None:
        """Killed after the pool, before its application and label; and once after the profile."""
        before = seen(commands)
        rep2, erasure = (list(steps(recipe, "token")) for recipe in recipes)
        for step in [*rep2[:2], erasure[0]]:
            commands.mon(step.prefix, **step.arguments)
        state = read_state(commands)
        assert state.marks.unfinished == {"rep2"}
        assert state.stray == ("leadline-ec-2-1",)
        create_pools(commands, recipes, note=quiet, warn=quiet)
        assert read_state(commands).marks.finished == {"rep2", "ec-2-1"}
        remove_pools(commands, read_state(commands).owned, (), note=quiet, warn=quiet)
        assert seen(commands) == before

    def test_traces_without_a_pool_are_removed(
        self, commands: Commands, recipes: tuple[PoolRecipe, ...]
    ) -> None:
        before = seen(commands)
        for step in [*steps(recipes[1], "token")][:2]:
            commands.mon(step.prefix, **step.arguments)
        remove_pools(commands, (), read_state(commands).stray, note=quiet, warn=quiet)
        assert seen(commands) == before


class InterruptionContract(_Contract):
    """The same commands are undone whatever the failure domain is."""

    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    @pytest.mark.parametrize(
        "prefix",
        [
            "osd erasure-code-profile set",
            "osd crush rule create-erasure",
            "osd pool create",
            "osd pool set",
            "osd pool application enable",
            "osd pool application set",
        ],
    )
    def test_what_an_interrupted_call_made_is_undone(
        self, commands: Commands, recipes: tuple[PoolRecipe, ...], prefix: str, after: bool
    ) -> None:
        before = seen(commands)
        breaking = Breaking(commands, prefix, KeyboardInterrupt(), after=after)
        with pytest.raises(KeyboardInterrupt):
            create_pools(breaking, recipes, note=quiet, warn=quiet)
        assert breaking.spent
        assert seen(commands) == before


def seen(commands: Commands) -> tuple[Any, ...]:
    """What pools change of a cluster."""
    state: PoolState = read_state(commands)
    pools = {
        name: (pool["size"], pool["min_size"], pool["crush_rule"], pool["application_metadata"])
        for name, pool in state.pools.items()
    }
    return pools, dict(state.rules), dict(state.profiles), dict(state.filesystems)
