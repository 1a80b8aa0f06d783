"""`leadline plan`: writes a plan for the StorageClasses of a cluster."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from leadline import errors
from leadline.cli.options import KUBERNETES_OPTIONS, KubernetesOptions, format_option, with_options
from leadline.cli.output import echo_line, echo_rendered, print_json
from leadline.errors import Exit, LeadlineError
from leadline.plan.volume_request import GIB, MOST_VOLUMES, PRESETS, RunnerKind, VolumeMode
from leadline.planning.draft import DraftRequest
from leadline.text import did_you_mean
from leadline.units import parse_size

if TYPE_CHECKING:
    from leadline.connect.kubernetes.client import KubernetesAccess
    from leadline.plan.kubernetes_cluster import KubernetesCluster
    from leadline.plan.loader import Overrides
    from leadline.planning.draft import Draft, DraftRequest, Load, Survey


# The published study of pools under OpenShift virtual machines: its volume sizes and counts.
_STUDY_VOLUMES = tuple(size * GIB for size in (150, 500, 1000))
_STUDY_COUNTS = (1, 5, 10)
STUDY_PROFILE = "odf-vm"


@click.command()
@click.option(
    "--from-cluster",
    is_flag=True,
    help="From the StorageClasses of a live Kubernetes cluster.",
)
@click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the plan there; else it goes to stdout.",
)
@click.option("--force", is_flag=True, help="Overwrite a file that is there.")
@click.option(
    "--class",
    "classes",
    multiple=True,
    metavar="NAME",
    help="Only this StorageClass. May be given several times.",
)
@click.option(
    "--runner",
    type=click.Choice([kind.value for kind in RunnerKind]),
    help="Do the I/O in pods (the default) or VMs.",
)
@click.option("--vm", "vms", metavar="LIST", help="Sizes of VMs: small,medium,large.")
@click.option("--volumes", metavar="LIST", help="Sizes of volumes: 150Gi,500Gi,1000Gi.")
@click.option("--count", "counts", metavar="LIST", help="Volumes at a time: 1,5,10.")
@click.option(
    "--mode",
    type=click.Choice([kind.value for kind in VolumeMode]),
    help="How volumes are used; else raw block where the class can.",
)
@click.option(
    "--study",
    is_flag=True,
    help="The matrix of the published study: VMs small, medium, large; 150, 500, 1000 GiB; 1, 5, "
    "10 volumes at a time; profile odf-vm. Other options narrow it.",
)
@with_options(*KUBERNETES_OPTIONS)
@click.option(
    "--namespace",
    "-n",
    metavar="NAME",
    help="A namespace that is there, whose quotas count; else each run makes its own.",
)
@click.option("--runner-image", metavar="IMAGE", help="The image that runs fio.")
@click.option("--runner-cpu", metavar="N", help="Processors of a runner pod: 2, 500m.")
@click.option("--runner-memory", metavar="SIZE", help="Memory of a runner pod: 1Gi.")
@click.option("--vm-image", metavar="IMAGE", help="The container disk that VMs boot from.")
@click.option("--profile", "profiles", multiple=True, help="Workloads; quick unless given.")
@click.option("--name", help="A word added to the run's id.")
@click.option("--runtime", help="Time of each workload phase: 10s, 1m.")
@click.option("--ramp", help="Time before each phase that is not counted.")
@click.option("--size", help="Data of each job: 256M, 4G.")
@click.option("--repeats", type=int, help="Trials of each cell.")
@click.option("--prefill/--no-prefill", default=None, help="Write all data before measuring.")
@format_option("text", "json")
def command(from_cluster: bool, path: Path | None, force: bool, output: str, **given: Any) -> Exit:
    """Write a plan for the StorageClasses of a Kubernetes cluster, with volumes that fit and the
    time it takes. Nothing is changed in the cluster.

    The plan names every StorageClass that cannot be measured, with the reason. Without options the
    plan is small: one pod and one volume for each class, four short workloads.

    \b
    Example:
        leadline plan --from-cluster -o plan.yaml
        leadline plan --from-cluster --count 1,3 --volumes 50Gi --profile kbench
        leadline plan --from-cluster --study --vm small --vm-image registry.example/debian:12
    """
    if not from_cluster:
        raise LeadlineError(
            errors.USAGE,
            "no source for the plan: --from-cluster is missing",
            hint="`leadline check PLAN.yaml` shows what an existing plan does",
        )
    if path is not None and os.path.lexists(path) and not force:
        raise LeadlineError(
            errors.OUTPUT_UNWRITABLE,
            f"{str(path)!r} already exists",
            hint="give another name, or --force",
        )
    options = PlanOptions(**given)
    overrides = options.overrides()
    load, pod = _load(overrides)
    request = options.request(pod)
    survey, context = _survey(options.kubernetes_access(), options.namespace)
    _require_classes(survey, request)
    draft = _draft(survey, request, load)
    if not draft.targets:
        raise LeadlineError(
            errors.CLASS_UNSUITABLE,
            "no StorageClass of the cluster can be measured with these options",
            context=[f"{each.name}: {each.reason}" for each in draft.left_out]
            or ["the cluster has no StorageClass"],
            hint="smaller --volumes and --count, or another --class, may fit",
        )
    from leadline.planning.text import needs_image, plan_text

    text = plan_text(draft, load, replace(overrides, context=context))
    if path is not None:
        _write(path, text, force=force)
    _print_summary(draft, load, path)
    if needs_image(draft, overrides):
        echo_line(
            "the plan names no image for its runner pods: `image:`, --runner-image or "
            "$LEADLINE_RUNNER_IMAGE (`leadline kubernetes image build` makes one)",
            err=True,
        )
    if output == "json":
        from leadline.report.answers.systems import plan_output

        named = str(path) if path else None
        print_json(plan_output(draft, load, context=context, path=named, text=text))
    elif path is None:
        echo_rendered(text.rstrip("\n"))
    return Exit.ANSWERED


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions(KubernetesOptions):
    """The options of `leadline plan` as they were given, and what follows from them."""

    classes: tuple[str, ...]
    runner: str | None
    vms: str | None
    volumes: str | None
    counts: str | None
    mode: str | None
    study: bool
    namespace: str | None
    runner_image: str | None
    runner_cpu: str | None
    runner_memory: str | None
    vm_image: str | None
    profiles: tuple[str, ...]
    name: str | None
    runtime: str | None
    ramp: str | None
    size: str | None
    repeats: int | None
    prefill: bool | None

    def overrides(self) -> Overrides:
        """The options that `run` and `check` know too, over a plan of any StorageClass."""
        from leadline.plan.loader import Overrides

        shared = {field.name for field in fields(Overrides)} & {
            field.name for field in fields(self)
        }
        given = {name: getattr(self, name) for name in sorted(shared)}
        given["kubeconfig"] = self.kubeconfig and self.kubeconfig.expanduser().absolute()
        given["profiles"] = self.profiles or (STUDY_PROFILE if self.study else "quick",)
        return Overrides(**given, targets=("storageclass:any",))

    def request(self, pod: KubernetesCluster) -> DraftRequest:
        """What the plan shall measure; options that are absent take the study's value, or a small
        one. Raises LeadlineError(`usage`) for options that contradict each other."""
        from leadline.planning.draft import DraftRequest

        kind = RunnerKind(self.runner or (RunnerKind.VM if self.study else RunnerKind.POD))
        request = DraftRequest(
            classes=self.classes,
            runner=kind,
            vms=_vms(self.vms, kind, self.study),
            sizes=_sizes(self.volumes, self.study),
            counts=_counts(self.counts, self.study),
            mode=VolumeMode(self.mode) if self.mode else None,
            cpu=pod.cpu if self.runner_cpu else None,
            memory_bytes=pod.memory if self.runner_cpu or self.runner_memory else None,
        )
        _refuse_contradictions(request, self.vm_image)
        return request


def _load(overrides: Overrides) -> tuple[Load, KubernetesCluster]:
    """What the workloads cost on one target, and what runner pods get; raises PlanInvalid for
    options that are wrong."""
    from leadline.plan.footprint import footprint_of
    from leadline.plan.loader import load_plan
    from leadline.planning.draft import Load

    # The draft may leave the image to its reader.
    plan = load_plan(None, replace(overrides, runner_image=overrides.runner_image or "unnamed"))
    footprint = footprint_of(cell.workload for cell in plan.cells)
    load = Load(
        trials=len(plan.trials),
        io_s=plan.duration_s,
        span_bytes=footprint.span,
        files_bytes=footprint.total_bytes,
        prefill=plan.prefill,
    )
    cluster = plan.clusters[0].kubernetes
    assert cluster is not None, "its only target is a StorageClass"
    return load, cluster


def _survey(access: KubernetesAccess, namespace: str | None) -> tuple[Survey, str]:
    """The cluster, and the context that it is known by; empty for the cluster that this runs in."""
    from leadline.connect.kubernetes.client import Connection
    from leadline.connect.kubernetes.survey import survey

    with Connection(access) as connection:
        found = survey(connection, namespace)
        # The account of a pod has no context that another session could name.
        usual = Path("~/.kube/config").expanduser()
        named = access.kubeconfig or os.environ.get("KUBECONFIG") or usual.is_file()
        return found, connection.context if named else ""


def _require_classes(survey: Survey, request: DraftRequest) -> None:
    known = [item.name for item in survey.inventory.storage_classes]
    for name in request.classes:
        if name not in known:
            raise LeadlineError(
                errors.CLASS_UNSUITABLE,
                f"the cluster has no StorageClass {name!r}",
                context=[f"StorageClasses: {', '.join(known) or 'none'}"],
                hint=did_you_mean(name, known, "name one of them"),
            )


def _draft(survey: Survey, request: DraftRequest, load: Load) -> Draft:
    from leadline.connect.kubernetes.survey import FOLDERS_ONLY
    from leadline.planning.draft import draft

    folders = frozenset(
        item.name
        for item in survey.inventory.storage_classes
        if f".{item.provisioner}".endswith(tuple(f".{kind}" for kind in FOLDERS_ONLY))
    )
    return draft(survey, request, load, folders)


def _print_summary(draft: Draft, load: Load, path: Path | None) -> None:
    from leadline.planning.draft import estimate_cost, sum_costs
    from leadline.planning.text import format_cost

    for item in draft.left_out:
        echo_line(f"left out: {item.name}: {item.reason}", err=True)
    for note in draft.notes:
        echo_line(f"not seen: {note}", err=True)
    if path is not None:
        targets = "1 target" if len(draft.targets) == 1 else f"{len(draft.targets)} targets"
        echo_line(f"{path} written: {targets}", err=True)
    for line in format_cost(sum_costs([estimate_cost(target, load) for target in draft.targets])):
        echo_line(line, err=True)


def _write(path: Path, text: str, *, force: bool) -> None:
    try:
        # `x`: another process may have made the file since the check.
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise LeadlineError(
            errors.OUTPUT_UNWRITABLE,
            f"{str(path)!r} cannot be written: {error.strerror}",
            hint="name another file with -o",
        ) from error


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()] if text else []


def _vms(text: str | None, runner: RunnerKind, study: bool) -> tuple[str, ...]:
    words = _words(text)
    if words and runner is not RunnerKind.VM:
        raise LeadlineError(
            errors.USAGE, "--vm has an effect with --runner vm only", hint="add --runner vm"
        )
    for word in words:
        if word not in PRESETS:
            raise LeadlineError(
                errors.USAGE,
                f"--vm: {word!r} is no size of a VM",
                context=[f"sizes: {', '.join(PRESETS)}"],
                hint=did_you_mean(word, PRESETS, "name one of them"),
            )
    return tuple(words) or (tuple(PRESETS) if study else ("small",))


def _sizes(text: str | None, study: bool) -> tuple[int, ...]:
    found = []
    for word in _words(text):
        try:
            found.append(parse_size(word))
        except ValueError as error:
            raise LeadlineError(
                errors.USAGE, f"--volumes: {error}", hint="for instance 150Gi,500Gi"
            ) from error
        if found[-1] <= 0:
            raise LeadlineError(errors.USAGE, "--volumes: a size above 0 is needed")
    return tuple(found) or (_STUDY_VOLUMES if study else ())


def _counts(text: str | None, study: bool) -> tuple[int, ...]:
    words = _words(text)
    for word in words:
        if not word.isascii() or not word.isdigit() or not 1 <= int(word) <= MOST_VOLUMES:
            raise LeadlineError(
                errors.USAGE, f"--count: numbers from 1 to {MOST_VOLUMES}, got {word!r}"
            )
    return tuple(int(word) for word in words) or (_STUDY_COUNTS if study else (1,))


def _refuse_contradictions(request: DraftRequest, vm_image: str | None) -> None:
    if request.runner is RunnerKind.VM and request.mode is VolumeMode.FILESYSTEM:
        raise LeadlineError(
            errors.USAGE,
            "a virtual machine takes its data disk as a block device",
            hint="leave --mode away",
        )
    if request.runner is RunnerKind.VM and not vm_image:
        raise LeadlineError(
            errors.USAGE,
            "virtual machines need an image to boot from: --vm-image",
            hint="for instance --vm-image registry.example/containerdisks/debian:12",
        )
