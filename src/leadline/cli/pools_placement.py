"""`leadline pools placement`: PGs of pools on OSDs, and what a change of the cluster moves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from leadline import errors
from leadline.cli.options import CLUSTER_OPTIONS, FILE, ClusterOptions, format_option, with_options
from leadline.cli.output import echo_line, print_document, print_json
from leadline.cli.progress import stopping
from leadline.errors import Exit, LeadlineError

if TYPE_CHECKING:
    from leadline.inventory.ceph.crush_tree import Addition
    from leadline.inventory.ceph.model import CephInventory


@click.command()
@with_options(*CLUSTER_OPTIONS)
@click.option(
    "--map",
    "map_file",
    type=FILE,
    metavar="FILE",
    help="An OSD map written by `ceph osd getmap -o FILE`, instead of a live cluster.",
)
@click.option(
    "--pool",
    "pools",
    multiple=True,
    metavar="NAME",
    help="Only this pool. May be given several times.",
)
@click.option(
    "--add",
    metavar="LEVEL=N",
    help="N more buckets of a level of the CRUSH map, for instance host=2 or zone=1.",
)
@click.option(
    "--pg-num",
    type=click.IntRange(1, 65536),
    metavar="N",
    help="Another number of PGs of the pool.",
)
@click.option("--full", is_flag=True, help="Also the OSDs of each pool, of several.")
@format_option("text", "json", "markdown")
def command(
    map_file: Path | None,
    pools: tuple[str, ...],
    add: str | None,
    pg_num: int | None,
    full: bool,
    output: str,
    **cluster: Any,
) -> Exit:
    """Show the PGs and primaries of pools on OSDs, the imbalance, and the autoscaler's choice.

    With --add and --pg-num also the share of the data and of the primaries that moves. Placement is
    computed by Ceph's osdmaptool and crushtool on a copy of the OSD map. The cluster is not
    changed. --map works without a cluster, and without the autoscaler's choice.

    \b
    Example:
        leadline pools placement --lab study
        leadline pools placement --lab study --add zone=1
        leadline pools placement --map osdmap --pool rep3 --pg-num 256
        leadline pools placement --map osdmap --add host=2 --format json
    """
    from leadline.inventory.ceph.pg_placement import choose_pg_nums
    from leadline.pools.placement import PlacementRequest, compute_placements

    request = PlacementRequest(pools=pools, addition=_addition(add), pg_num=pg_num)
    options = PlacementOptions(map_file=map_file, kubeconfig=None, context=None, **cluster)
    content, inventory, source = options.read()
    with stopping("nothing was changed"):
        placements = compute_placements(content, request)
    if inventory is not None:
        choices = choose_pg_nums(inventory, placements.new_osds)
        known = [replace(pool, autoscaler=choices.get(pool.pool.id)) for pool in placements.pools]
        placements = replace(placements, pools=tuple(known))
    if output == "json":
        from leadline.report.answers.placement import pools_placement_output

        print_json(pools_placement_output(placements, source))
    elif not placements.pools:
        echo_line("the map has no pools", err=True)
    else:
        from leadline.report.pages.placement import placement_document

        print_document(placement_document(placements, source), output, full=full)
    return Exit.ANSWERED


def _addition(text: str | None) -> Addition | None:
    from leadline.pools.placement import parse_addition

    if text is None:
        return None
    try:
        return parse_addition(text)
    except ValueError as error:
        raise LeadlineError(
            errors.USAGE, f"--add: {error}", hint="for instance --add host=2"
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementOptions(ClusterOptions):
    """The options that name a cluster, or a file with its OSD map."""

    map_file: Path | None

    def read(self) -> tuple[bytes, CephInventory | None, str]:
        """Return the OSD map, the inventory of a live cluster, and what to call the cluster.

        Raises:
            LeadlineError: `usage`: two clusters are named; `dumps-invalid`: the file is unreadable.
        """
        if self.map_file is None:
            return self._capture()
        named = self.given("lab", "ceph_conf", "keyring", "ceph_id")
        if named:
            raise LeadlineError(
                errors.USAGE,
                f"--map and {named[0]} name two clusters",
                hint="leave one of them away",
            )
        from leadline.files import read_content

        try:
            return read_content(self.map_file), None, f"map {self.map_file}"
        except OSError as error:
            raise LeadlineError(
                errors.DUMPS_INVALID,
                f"the OSD map {str(self.map_file)!r} cannot be read: {error.strerror}",
                hint="write it with `ceph osd getmap -o FILE`",
            ) from error

    def _capture(self) -> tuple[bytes, CephInventory, str]:
        from leadline.connect.ceph import Connection
        from leadline.inventory.ceph.reading import cluster_inventory
        from leadline.probes.ceph import capture

        access, source = self.ceph_access()
        with Connection(access) as connection:
            inventory = cluster_inventory(capture(connection))
            return connection.mon("osd getmap"), inventory, source
