"""`leadline predict`: what would a change do?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from leadline import errors
from leadline.cli.document_file import Destination, destination_options
from leadline.cli.options import FILE, runs_option
from leadline.cli.output import print_json
from leadline.errors import Exit, LeadlineError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leadline.analysis.comparison import Side
    from leadline.analysis.predict.prediction import Prediction
    from leadline.analysis.predict.system import System
    from leadline.archive.reader import Run
    from leadline.judge import Judge
    from leadline.report.answers.predict import PredictAskedOutput
    from leadline.report.document import Document
    from leadline.report.render.html import Download


@click.command()
@click.argument("names", metavar="[RUN]...", nargs=-1)
@runs_option
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A change of the system: failure_domain, inter_zone_rtt, nodes, osds, replicas, ec=K+M, "
    "osd_cores, media_latency, clients, depth, record_size, read_affinity, pg_num.",
)
@click.option(
    "--cluster", metavar="CLUSTER", help="Forecast from this cluster of the run.  [default: all]"
)
@click.option(
    "--against",
    metavar="CLUSTER|RUN",
    help="Forecast this cluster of the run, or this run, and compare with what was measured there.",
)
@click.option(
    "--from-inventory",
    "folder",
    type=FILE,
    metavar="DIR",
    help="Saved dumps of the cluster, for bounds: instead of a run, or of a run without inventory.",
)
@click.option(
    "--validate", is_flag=True, help="Forecast left-out cells of the runs, and show the errors."
)
@click.option(
    "--leave",
    type=click.Choice(["depth", "target", "cluster"]),
    help="What --validate leaves out.  [default: depth]",
)
@click.option("--details", is_flag=True, help="Also latencies, and how forecasts are made.")
@destination_options("text", "json", "markdown")
def command(
    names: tuple[str, ...],
    runs: Path,
    details: bool,
    destination: Destination,
    **given: Any,
) -> Exit:
    """Forecast each cell of a run, as the system is or after a change, with a 90 % interval, the
    station that limits it, and the assumption that matters most. A queueing model is calibrated on
    the run's trusted load levels; three depths suffice. Outside its validated range there are only
    bounds, with the reason.

    Without RUN the latest run is used. Exit status 6: there is neither a forecast nor a bound.

    \b
    Example:
        leadline predict @latest --set failure_domain=zone --set inter_zone_rtt=1ms
        leadline predict @latest --set replicas=2 -o forecast.html
        leadline predict @latest --cluster single-zone --against multi-zone
        leadline predict --from-inventory dumps --set osds=24
        leadline predict --validate @latest --leave cluster
    """
    from leadline.archive.runs import find_run
    from leadline.judge import judging

    question = PredictRequest(**given)
    question.check(names)
    asked = question.asked()
    if question.folder is not None and not names:
        found = predict_inventory_again(asked)
        _print(found, (), asked, destination, details=details)
        return Exit.ANSWERED
    archives = [find_run(name, runs) for name in names or ("@latest",)]
    if question.validate:
        archives = list({run.id: run for run in archives}.values())
    elif other := _other_run(archives[0], question.against, runs):
        archives.append(other)
    with judging(archives, verifying=False) as (judge, _):
        prediction = predict_again(archives, judge, asked)
    if not question.validate and not prediction.answered:
        raise _nothing_predicted(prediction)
    _print(prediction, archives, asked, destination, details=details)
    return Exit.ANSWERED


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictRequest:
    """What is asked for on the command line."""

    settings: tuple[str, ...]
    cluster: str | None
    against: str | None
    folder: Path | None
    validate: bool
    leave: str | None

    def check(self, names: Sequence[str]) -> None:
        """Raise LeadlineError (`usage`) for options that exclude each other."""
        given = {
            "--set": bool(self.settings),
            "--cluster": self.cluster is not None,
            "--against": self.against is not None,
            "--from-inventory": self.folder is not None,
        }
        present = [option for option, is_given in given.items() if is_given]
        if self.validate and present:
            raise _exclusive("--validate", present[0], "it forecasts the runs as they are")
        if self.leave is not None and not self.validate:
            raise LeadlineError(
                errors.USAGE, "--leave needs --validate", hint="`leadline predict --validate RUN`"
            )
        if len(names) > 1 and not self.validate:
            raise LeadlineError(
                errors.USAGE,
                f"{len(names)} runs are named, and one is forecast",
                hint=f"`leadline predict {names[0]} --against {names[1]}` compares two",
            )
        if self.folder is None:
            return
        if self.against is not None:
            why = "bounds of an inventory have no partner"
            raise _exclusive("--from-inventory", "--against", why)
        if self.cluster is not None and not names:
            raise _exclusive("--from-inventory", "--cluster", "an inventory is of one cluster")

    def asked(self) -> PredictAskedOutput:
        """The question as a page keeps it."""
        from leadline.report.answers.predict import PredictAskedOutput

        return PredictAskedOutput(
            set=list(self.settings),
            cluster=self.cluster,
            against=self.against,
            inventory=None if self.folder is None else str(self.folder),
            leave=(self.leave or "depth") if self.validate else None,
        )


def _exclusive(first: str, second: str, why: str) -> LeadlineError:
    return LeadlineError(errors.USAGE, f"{first} and {second} exclude each other", hint=why)


# --- what is forecast ---------------------------------------------------------------------------


def predict_again(runs: Sequence[Run], judge: Judge, asked: PredictAskedOutput) -> Prediction:
    """The forecast of a run, or the errors of several, as `-o` writes it and `verify` makes it
    again; a second run is that of --against.

    Raises LeadlineError (`usage`, `nothing-to-predict`, `not-comparable`, `dumps-invalid`,
    `facts-invalid`).
    """
    from leadline.analysis.predict.changes import parse_changes
    from leadline.analysis.predict.facts import LeftOut
    from leadline.analysis.predict.predict import predict_against, predict_left_out, predict_run

    if asked.leave is not None:
        return predict_left_out([_side(run, judge, None) for run in runs], LeftOut(asked.leave))
    changes = parse_changes(asked.set)
    run, other = runs[0], next(iter(runs[1:]), None)
    known = None if asked.inventory is None else _systems_for(run, Path(asked.inventory))
    if asked.against is None:
        return predict_run(_side(run, judge, asked.cluster), changes, known=known)
    return predict_against(*_pair(run, other, judge, asked), changes)


def _other_run(run: Run, against: str | None, runs: Path) -> Run | None:
    """The run of --against; None where it is a cluster of the run."""
    from leadline.archive.runs import find_run

    if against is None or against in _clusters(run):
        return None
    try:
        return find_run(against, runs)
    except LeadlineError as error:
        if error.kind is not errors.RUN_NOT_FOUND or not _clusters(run):
            raise
        raise LeadlineError(
            errors.USAGE,
            f"--against {against!r} is neither a cluster of run {run.id} nor a run",
            context=[f"clusters: {', '.join(_clusters(run))}"],
            hint="name one of them, or a run of `leadline list`",
        ) from error


def _clusters(run: Run) -> tuple[str, ...]:
    from leadline.analysis.comparison import places

    named = (target.cluster for target in run.plan.targets if target.cluster)
    return tuple(dict.fromkeys((*places(run), *named)))


def _side(run: Run, judge: Judge, cluster: str | None) -> Side:
    """All targets of a run, or those on a cluster."""
    from leadline.analysis.comparison import By, Side, within_run

    if cluster is not None:
        return within_run(run, By.CLUSTER, cluster, cluster, judge)[0]
    figures, findings = judge(run)
    targets = {target.name: target.name for target in run.plan.targets}
    return Side(name=run.id, run=run, targets=targets, figures=figures, findings=findings)


def _pair(
    run: Run, other: Run | None, judge: Judge, asked: PredictAskedOutput
) -> tuple[Side, Side]:
    """The system that is calibrated and the one that is forecast: of two runs, or two clusters."""
    from leadline.analysis.comparison import By, places, two_runs, within_run

    assert asked.against is not None
    if other is not None:
        return two_runs(run, other, judge)
    rest = [place for place in places(run) if place != asked.against]
    if asked.cluster is None and len(rest) != 1:
        raise LeadlineError(
            errors.USAGE,
            f"--against {asked.against} needs the cluster to forecast it from",
            context=[f"other clusters of run {run.id}: {', '.join(rest) or 'none'}"],
            hint="name it with --cluster",
        )
    return within_run(run, By.CLUSTER, asked.cluster or rest[0], asked.against, judge)


def predict_inventory_again(asked: PredictAskedOutput) -> Prediction:
    """The bounds of an inventory, as `-o` writes them and `verify` makes them again.

    Raises LeadlineError (`usage`, `dumps-invalid`).
    """
    from leadline.analysis.predict.changes import parse_changes
    from leadline.analysis.predict.predict import predict_inventory
    from leadline.analysis.predict.system import systems_of_dumps
    from leadline.inventory.kubernetes.folder import read_folder

    folder = asked.inventory or ""
    dumps = read_folder(Path(folder), "--from-inventory").dumps
    return predict_inventory(folder, systems_of_dumps(dumps), parse_changes(asked.set))


def _systems_for(run: Run, folder: Path) -> Callable[[str], System]:
    """Give the system of each target from saved dumps.

    Raises LeadlineError (`facts-invalid`) for dumps of another cluster, or without its pools.
    """
    from dataclasses import replace

    from leadline.analysis.predict.system import system_of, systems_of_dumps
    from leadline.inventory.kubernetes.folder import read_folder
    from leadline.inventory.system import system_of as read_dumps

    dumps = read_folder(folder, "--from-inventory").dumps
    ceph = read_dumps(dumps).ceph
    pools = {system.target: system for system in systems_of_dumps(dumps)}
    for cluster in (cluster.name for cluster in run.plan.clusters):
        known = run.cluster("start", cluster)
        if known is not None and ceph is not None and known.fsid != ceph.fsid:
            raise LeadlineError(
                errors.FACTS_INVALID,
                f"{str(folder)!r} is the inventory of another cluster than {cluster}",
                context=[f"fsid {ceph.fsid}", f"fsid of {cluster} in run {run.id}: {known.fsid}"],
                hint="leave --from-inventory out: the run has the inventory of its cluster",
            )

    def pool_of(name: str) -> str:
        target = run.plan.target(name)
        written = target.parsed.location.partition("/")[0] if target.url else ""
        return next((one for one in (written, target.subject, name) if one in pools), "")

    if not any(pool_of(target.name) for target in run.plan.targets):
        raise LeadlineError(
            errors.FACTS_INVALID,
            f"{str(folder)!r} has none of the pools of run {run.id}",
            context=[f"pools: {', '.join(pools)}"],
            hint="name the dumps of the cluster that was measured",
        )

    def find(name: str) -> System:
        pool = pool_of(name)
        own = system_of(run, name)
        return replace(pools[pool], target=name, network=own.network) if pool else own

    return find


# --- what is printed ----------------------------------------------------------------------------


def _nothing_predicted(prediction: Prediction) -> LeadlineError:
    """Why there is neither a forecast nor a bound."""
    from leadline.report.pages.predict.words import REFUSALS, refusal_lines
    from leadline.text import count_text

    return LeadlineError(
        errors.NOTHING_TO_PREDICT,
        f"nothing of {prediction.system} can be forecast: no calibrated curve, and no bound",
        context=[
            f"{count_text(cells, 'cell')}: {REFUSALS[reason]}"
            for reason, cells in refusal_lines(prediction.forecasts)
        ]
        or ["no level states its load: depth and jobs"],
        hint="measure three depths: `levels: [{iodepth: 1}, {iodepth: 4}, {iodepth: 16}]`; an "
        "inventory of the cluster gives bounds",
    )


def of_prediction(
    prediction: Prediction, asked: PredictAskedOutput, runs: Sequence[Run]
) -> tuple[Document, tuple[Download, ...]]:
    """The page of a forecast, as `-o` writes it and `verify` makes it again."""
    from leadline.report.answers.predict import predict_output
    from leadline.report.pages.predict.page import predict_document
    from leadline.report.render.html import Download

    text = predict_output(prediction, asked).to_json() + "\n"
    name = f"{'-'.join(prediction.runs) or 'bounds'}-forecast.json"
    return predict_document(prediction, runs), (
        Download(name=name, media_type="application/json", text=text),
    )


def _print(
    prediction: Prediction,
    runs: Sequence[Run],
    asked: PredictAskedOutput,
    destination: Destination,
    *,
    details: bool,
) -> None:
    if destination.form == "json":
        from leadline.report.answers.predict import predict_output

        print_json(predict_output(prediction))
        return
    destination.put(*of_prediction(prediction, asked, runs), full=details)
