"""Placement of PGs by Ceph's own tools on a copy of a cluster's OSD map.

osdmaptool places the map as it is. It takes no CRUSH map with more OSDs than its OSD map has, and
no program of Ceph adds OSDs to an OSD map in a file. After a change, therefore, crushtool computes
what CRUSH chooses, and `leadline.model.placement` what the OSD map adds to it. The condition for a
forecast is that both together give osdmaptool's answer for the map as it is, PG by PG.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from leadline import errors, files
from leadline.environment import CEPH, child_environment, ending_with_parent
from leadline.errors import LeadlineError
from leadline.formats.ceph.pg_maps import parse_crush_mappings, parse_mapped_pgs
from leadline.inventory.ceph.crush_tree import (
    Addition,
    CrushTree,
    NewOsd,
    plan_addition,
    read_crush_tree,
)
from leadline.inventory.ceph.dumps import Node, parse
from leadline.inventory.ceph.model import Pool, PoolType
from leadline.inventory.ceph.pg_placement import (
    OsdMap,
    PoolPlacement,
    PoolPlacements,
    Unforecast,
    describe_state,
    read_osd_map,
)
from leadline.model.placement import (
    Exceptions,
    Osds,
    OsdState,
    PlacedPg,
    PoolShape,
    compute_movement,
    place,
)

# A map of thousands of OSDs takes seconds.
_TOOL_S = 300.0
_INSTALL = "install Ceph's map tools (Debian and Fedora: ceph-base)"
_GET_MAP = "write it with `ceph osd getmap -o FILE`"
# CRUSH_MAGIC (src/crush/crush.h), in the byte order of the file.
_CRUSH_MAGIC = b"\x00\x00\x01\x00"
# The bucket that OSDs of one class are in until they go to a host with OSDs of several.
_STAGING = "leadline-staging"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """`pools` by name; empty: all. `pg_num` is of the one pool that is named."""

    pools: tuple[str, ...] = ()
    addition: Addition | None = None
    pg_num: int | None = None


class _Tools:
    """Ceph's map tools and their files in a folder. Methods raise LeadlineError: `ceph-missing`,
    `ceph-failed`, `format-invalid` for output that is not understood."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._osd_map = folder / "osdmap"
        self._crush_maps = 0

    def dump(self) -> Node:
        return parse("OSD map", self._osdmaptool("--dump", "json").encode())

    def export_crush(self) -> Path:
        file = self._folder / "crush"
        self._osdmaptool("--export-crush", str(file))
        return file

    def dump_crush(self, crush: Path) -> Node:
        return parse("CRUSH map", self._crushtool("-i", str(crush), "--dump").encode())

    def placed(self, pool: Pool) -> tuple[PlacedPg, ...]:
        """Return the up sets of a pool: acting sets without temporary ones."""
        dump = self._osdmaptool("--clear-temp", "--test-map-pgs-dump", "--pool", str(pool.id))
        return next(iter(parse_mapped_pgs(dump.encode()).pools)).pgs

    def chosen(
        self, crush: Path, pool: Pool, shape: PoolShape, osds: Mapping[int, OsdState]
    ) -> Mapping[int, Osds]:
        """Return what CRUSH chooses for the PGs of a pool that are placed, by their number."""
        first = 0 if shape.hashed else shape.pool_id
        words = ["-i", str(crush), "--test", "--show-mappings"]
        words += ["--rule", str(pool.rule_id), "--num-rep", str(pool.size)]
        words += ["--min-x", str(first), "--max-x", str(first + shape.pgp_num - 1)]
        words += ["--pool-id", str(shape.pool_id)] if shape.hashed else []
        for osd, state in osds.items():
            if state.weight != 1.0:
                words += ["--weight", str(osd), _weight(state.weight)]
        mappings = parse_crush_mappings(self._crushtool(*words).encode())
        if len(mappings) != shape.pgp_num:
            raise LeadlineError(
                errors.CEPH_FAILED,
                f"crushtool places {len(mappings)} of {shape.pgp_num} PGs of {pool.name}",
                context=[f"rule {pool.rule_id}"],
            )
        return {x - first: chosen for x, chosen in mappings.items()}

    def add(self, crush: Path, osds: Sequence[NewOsd]) -> Path:
        """Return a CRUSH map with more OSDs.

        The text form of a map, which could be edited, has weights of three decimals in Pacific: the
        OSDs that are there would lose theirs.
        """
        classes: dict[str, set[str | None]] = {}
        for osd in osds:
            classes.setdefault(osd.location[0].name, set()).add(osd.device_class)
        staged: set[str] = set()
        for osd in osds:
            own = osd.location[0]
            mixed = len(classes[own.name]) > 1
            item = (str(osd.osd), _weight(osd.weight), f"osd.{osd.osd}")
            stays = [word for place in osd.location for word in ("--loc", place.level, place.name)]
            # crushtool gives a class to everything in a bucket.
            begins = ["--loc", own.level, _STAGING, "--loc", *_words(osd)] if mixed else stays
            named = _STAGING if mixed else own.name
            classed = ["--set-subtree-class", named, osd.device_class] if osd.device_class else []
            crush = self._change(crush, "--add-item", *item, *begins, *classed)
            if mixed:
                crush = self._change(crush, "--update-item", *item, *stays)
                staged.add(_STAGING)
        for name in sorted(staged):
            crush = self._change(crush, "--remove-item", name)
        # Classes are given after the copies of the tree for each class are made: once more.
        return self._change(crush, "--rebuild-class-roots")

    def _change(self, crush: Path, *words: str) -> Path:
        self._crush_maps += 1
        changed = self._folder / f"crush-{self._crush_maps}"
        self._crushtool("-i", str(crush), *words, "-o", str(changed))
        return changed

    def _osdmaptool(self, *words: str) -> str:
        return _run("osdmaptool", str(self._osd_map), *words)

    def _crushtool(self, *words: str) -> str:
        return _run("crushtool", *words)


def _weight(weight: float) -> str:
    """Return a weight with all of its 16 bits behind the point: crushtool cuts the rest off."""
    return f"{weight:.16f}"


def _words(osd: NewOsd) -> tuple[str, str]:
    """Return the bucket that is there already, for `--loc`."""
    return osd.location[-1].level, osd.location[-1].name


def _run(program: str, *words: str) -> str:
    path = shutil.which(program)
    if path is None:
        fact = f"there is no {program!r} on this machine"
        raise LeadlineError(errors.CEPH_MISSING, fact, hint=_INSTALL)
    try:
        # A signal that arrives while the program is being started leaves it running.
        done = subprocess.run(
            ending_with_parent((path, *words), "KILL"),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TOOL_S,
            stdin=subprocess.DEVNULL,
            env=child_environment(*CEPH, LC_ALL="C"),
        )
    except subprocess.TimeoutExpired as error:
        raise LeadlineError(
            errors.CEPH_FAILED, f"{program} gives no answer within {_TOOL_S:g} s"
        ) from error
    if not done.returncode:
        return done.stdout
    lines = [line for line in done.stderr.splitlines() if line.strip()][-3:]
    if any("error decoding" in line for line in lines):
        raise LeadlineError(
            errors.DUMPS_INVALID,
            "the file is no OSD map, or one of a later release than osdmaptool",
            context=lines,
            hint=_GET_MAP,
        )
    raise LeadlineError(
        errors.CEPH_FAILED,
        f"{program} ended with status {done.returncode}",
        context=[" ".join((program, *words)), *lines],
    )


@contextmanager
def _open_map(content: bytes) -> Iterator[_Tools]:
    """Yield the tools for an OSD map, in a private folder that is removed afterwards."""
    if not content.strip() or content.lstrip()[:1] in (b"{", b"["):
        kind = "is JSON" if content.strip() else "is empty"
        raise LeadlineError(
            errors.DUMPS_INVALID, f"the OSD map {kind}: its binary form is needed", hint=_GET_MAP
        )
    if content.startswith(_CRUSH_MAGIC):
        raise LeadlineError(
            errors.DUMPS_INVALID, "the file is a CRUSH map, without pools and OSDs", hint=_GET_MAP
        )
    with tempfile.TemporaryDirectory(prefix=files.prefix("maps")) as name:
        folder = Path(name)
        (folder / "osdmap").write_bytes(content)
        yield _Tools(folder)


def compute_placements(content: bytes, request: PlacementRequest) -> PoolPlacements:
    """Return the placement of the pools of a binary OSD map, as it is and after a change.

    Raises LeadlineError: `ceph-missing` without osdmaptool or crushtool, `dumps-invalid` for
    another file, `pool-missing`, `usage` for a change that the map does not allow, `ceph-failed`.
    """
    with _open_map(content) as tools:
        dump = tools.dump()
        crush = tools.export_crush()
        osd_map = read_osd_map(dump, tools.dump_crush(crush))
        pools = osd_map.choose(request.pools)
        if request.pg_num is not None and len(pools) != 1:
            raise LeadlineError(
                errors.USAGE,
                f"--pg-num is for one pool, and the map has {len(pools)}",
                context=[f"pools: {', '.join(pool.name for pool in pools) or 'none'}"],
                hint="name it with --pool",
            )
        new: tuple[NewOsd, ...] = ()
        changed, tree = crush, osd_map.tree
        if request.addition is not None:
            roots = {pool.rule.root for pool in pools if pool.rule and pool.rule.root}
            new = plan_addition(osd_map.tree, roots, request.addition, osd_map.first_free_osd)
            changed = tools.add(crush, new)
            tree = read_crush_tree(tools.dump_crush(changed))
        forecast = _Forecast(
            tools=tools,
            osd_map=osd_map,
            before=crush,
            after=changed,
            tree=tree,
            new=frozenset(osd.osd for osd in new),
            pg_num=request.pg_num,
        )
        wanted = request.addition is not None or request.pg_num is not None
        return PoolPlacements(
            fsid=osd_map.fsid,
            epoch=osd_map.epoch,
            pools=tuple(forecast.compute(pool, changes=wanted) for pool in pools),
            addition=request.addition,
            new_osds=new,
            pg_num=request.pg_num,
            temporary=osd_map.temporary,
            hosts=tree.hosts(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Forecast:
    """A change: CRUSH maps `before` and `after` it with the `tree` of the latter, `new` OSDs."""

    tools: _Tools
    osd_map: OsdMap
    before: Path
    after: Path
    tree: CrushTree
    new: frozenset[int]
    pg_num: int | None

    def compute(self, pool: Pool, *, changes: bool) -> PoolPlacement:
        """Return the placement of a pool, after the change only where there is one."""
        osd_map = self.osd_map
        placed = self.tools.placed(pool)
        now = describe_state(pool, placed, osd_map.osds, osd_map.tree)
        if not changes:
            return PoolPlacement(pool=pool, now=now)
        shape = osd_map.shape(pool)
        if self._place(self.before, pool, shape, osd_map.osds) != placed:
            return PoolPlacement(pool=pool, now=now, unforecast=Unforecast.NOT_REPRODUCED)
        if self.pg_num is not None:
            shape = replace(shape, pg_num=self.pg_num, pgp_num=self.pg_num)
        osds = {**osd_map.osds, **{osd: OsdState() for osd in sorted(self.new)}}
        later = self._place(self.after, pool, shape, osds)
        return PoolPlacement(
            pool=pool,
            now=now,
            after=describe_state(pool, later, osds, self.tree),
            movement=compute_movement(
                placed, later, ordered=pool.type is PoolType.ERASURE, new=self.new
            ),
        )

    def _place(
        self, crush: Path, pool: Pool, shape: PoolShape, osds: Mapping[int, OsdState]
    ) -> tuple[PlacedPg, ...]:
        chosen = self.tools.chosen(crush, pool, shape, osds)
        return place(chosen, shape, osds, self.osd_map.exceptions.get(pool.id, Exceptions()))


_ADDITION = re.compile(r"(?P<level>[A-Za-z][\w-]*)=(?P<count>\d{1,4})")


def parse_addition(text: str) -> Addition:
    """Parse `zone=1`. Raises ValueError."""
    found = _ADDITION.fullmatch(text.strip())
    if not found or not int(found["count"]):
        raise ValueError(f"{text!r} is no addition, such as host=2 or zone=1")
    return Addition(level=found["level"], count=int(found["count"]))
