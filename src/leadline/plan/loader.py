"""Load a plan from a file and the command line: the expanded plan, or all its faults."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from leadline import errors
from leadline.errors import LeadlineError
from leadline.files import read_small_text
from leadline.plan import models
from leadline.plan.checks import (
    check_clusters,
    check_expansion,
    check_has_workloads,
    check_matrix,
    check_names,
    check_settings,
    check_trial_count,
    check_workload_targets,
    mappings,
)
from leadline.plan.document import (
    LAB_TAGS,
    BudgetDocument,
    ClusterDocument,
    DefaultsDocument,
    DensityDocument,
    DetectDocument,
    LevelDocument,
    PhaseDocument,
    PlanDocument,
    ProfileDocument,
    StopDocument,
    TargetDocument,
    WorkloadDocument,
)
from leadline.plan.drill import Drill, DrillCommand, DrillEvent
from leadline.plan.drill_rules import drill_faults
from leadline.plan.expand import expand
from leadline.plan.faults import (
    Fault,
    Faults,
    InvalidDocument,
    error_sentence,
    nearest_word,
    take_errors,
)
from leadline.plan.groups import over_budget
from leadline.plan.guard import Guard, PrometheusLimit
from leadline.plan.guard_rules import guard_faults
from leadline.plan.job_file import parse_job_file, read_job_file
from leadline.plan.kubernetes_cluster import BootImage, KubernetesCluster, Toleration, VmSettings
from leadline.plan.lab import LabDocument
from leadline.plan.labels import parse_labels
from leadline.plan.prometheus import PrometheusServer, StorageMonitoring
from leadline.plan.rules import mixed_lifecycles, small_volumes, unfit_runners, unfit_sharing
from leadline.plan.settings import APPLIED_KINDS, Setting
from leadline.plan.stop_rules import stop_faults
from leadline.plan.target_url import TargetKind
from leadline.plan.workload import JobFile
from leadline.plan.written_targets import written_targets
from leadline.plan.yaml_positions import KeyPath, Positioned, YamlFault, load_positioned

Server = TypeVar("Server", bound=PrometheusServer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Options of the command line that override a plan or its profiles; None: not given."""

    targets: Sequence[str] = ()
    profiles: Sequence[str] = ()
    job_files: Sequence[Path] = ()
    name: str | None = None
    runtime: str | None = None
    ramp: str | None = None
    size: str | None = None
    repeats: int | None = None
    detect: str | None = None
    like: str | None = None
    until_decided: bool | None = None
    seed: int | None = None
    prefill: bool | None = None
    drop_caches: bool | None = None
    labels: Sequence[str] = ()
    lab: str | None = None
    ceph_conf: Path | None = None
    keyring: Path | None = None
    ceph_id: str | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None
    runner_image: str | None = None
    runner_cpu: str | None = None
    runner_memory: str | None = None
    vm_image: str | None = None


def override(value: dict[str, Any], overrides: Overrides) -> dict[str, Any]:
    """The raw plan with the options of the command line, written as a plan would have them."""
    raw = dict(value)
    if overrides.targets:
        raw["targets"] = [_named_target(given) for given in overrides.targets]
    if overrides.profiles:
        raw["profile"] = list(overrides.profiles)
    if overrides.job_files:
        own = [
            {"name": path.stem, "job_file": str(path.absolute())} for path in overrides.job_files
        ]
        written = raw.get("workloads")
        raw["workloads"] = [*(written if isinstance(written, list) else []), *own]
    written_labels = raw.get("labels") or {}
    if overrides.labels and isinstance(written_labels, dict):
        raw["labels"] = {**written_labels, **_labels(overrides)}
    _take_clusters(raw, overrides)
    _take_detect(raw, overrides)
    if overrides.until_decided and not raw.get("stop"):
        raw["stop"] = {}
    for key in ("name", "repeats", "seed", "prefill", "drop_caches"):
        given = getattr(overrides, key)
        if given is not None:
            raw[key] = given
    return raw


def _take_detect(raw: dict[str, Any], overrides: Overrides) -> None:
    """Raises LeadlineError (`usage`) where the repeats are stated as well."""
    if overrides.repeats is not None:
        if overrides.detect is not None:
            raise LeadlineError(
                errors.USAGE,
                "--detect sets the repeats, --repeats states them",
                hint="give one of the two",
            )
        raw.pop("detect", None)
    if overrides.detect is not None:
        raw["detect"] = {"change": overrides.detect}
    if overrides.like is not None:
        written = raw.get("detect")
        given = written if isinstance(written, dict) else {"change": written or "10%"}
        raw["detect"] = given | {"like": overrides.like}


def _labels(overrides: Overrides) -> dict[str, str]:
    """Raises LeadlineError (`usage`) for one that is not KEY=VALUE."""
    found: dict[str, str] = {}
    for text in overrides.labels:
        try:
            found |= parse_labels(text)
        except ValueError as error:
            raise LeadlineError(
                errors.USAGE, f"--label {text!r} is not a label", hint="write it as --label cores=2"
            ) from error
    return found


# The image of runner pods where neither the plan nor the command line names one.
RUNNER_IMAGE_VARIABLE = "LEADLINE_RUNNER_IMAGE"


def default_ceph_conf() -> str:
    """The configuration that Ceph's own programs use: $CEPH_CONF, else the system's."""
    return os.environ.get("CEPH_CONF") or "/etc/ceph/ceph.conf"


def _named_cluster(overrides: Overrides) -> dict[str, dict[str, str]]:
    """The cluster that the command line names; it replaces those of the plan."""
    if overrides.lab is not None:
        return {overrides.lab: {"lab": overrides.lab}}
    if overrides.ceph_conf is None and overrides.keyring is None and overrides.ceph_id is None:
        return {}
    written = {"ceph_conf": str(overrides.ceph_conf or default_ceph_conf())}
    if overrides.keyring is not None:
        written["keyring"] = str(overrides.keyring.absolute())
    if overrides.ceph_id is not None:
        written["id"] = overrides.ceph_id
    written["ceph_conf"] = str(Path(written["ceph_conf"]).absolute())
    return {"ceph": written}


def _take_clusters(raw: dict[str, Any], overrides: Overrides) -> None:
    """Set the clusters: those of the command line, else of the plan, else the default of kubectl
    or Ceph for targets that need one."""
    ceph, kubernetes = _named_cluster(overrides), _named_kubernetes(overrides)
    if ceph:
        raw["clusters"] = ceph
    written = raw.get("clusters", {})
    if not isinstance(written, dict):
        return  # a fault of its own
    clusters = dict(written)
    of_kubernetes = [
        name for name, item in clusters.items() if isinstance(item, dict) and "kubernetes" in item
    ]
    if kubernetes:
        for name in of_kubernetes or ["kubernetes"]:
            before = (clusters.get(name) or {}).get("kubernetes") or {}
            if isinstance(before, dict):
                clusters[name] = {"kubernetes": {**before, **kubernetes}}
    elif not of_kubernetes and _mentions(raw.get("targets"), lambda kind: kind.on_kubernetes):
        clusters["kubernetes"] = {"kubernetes": {}}
    if "clusters" not in raw and _mentions(raw.get("targets"), lambda kind: kind.on_ceph):
        clusters["ceph"] = {"ceph_conf": default_ceph_conf()}
    if image := os.environ.get(RUNNER_IMAGE_VARIABLE):
        for name, item in clusters.items():
            if not isinstance(item, dict) or "kubernetes" not in item:
                continue
            settings = item["kubernetes"] or {}
            if isinstance(settings, dict) and not settings.get("image"):
                clusters[name] = {**item, "kubernetes": {**settings, "image": image}}
    if clusters:
        raw["clusters"] = clusters


def _named_kubernetes(overrides: Overrides) -> dict[str, Any]:
    """The settings of the Kubernetes cluster on the command line."""
    kubeconfig = overrides.kubeconfig and str(overrides.kubeconfig.expanduser().absolute())
    given: dict[str, Any] = {
        "kubeconfig": kubeconfig,
        "context": overrides.context,
        "namespace": overrides.namespace,
        "image": overrides.runner_image,
        "cpu": overrides.runner_cpu,
        "memory": overrides.runner_memory,
        "vm": overrides.vm_image and {"boot": {"container_disk": overrides.vm_image}},
    }
    return {key: value for key, value in given.items() if value}


def _mentions(targets: object, matches: Callable[[TargetKind], bool]) -> bool:
    urls = [
        item.get("target") if isinstance(item, dict) else item
        for item in (targets if isinstance(targets, list) else [])
    ]
    kinds = tuple(f"{kind.value}:" for kind in TargetKind if matches(kind))
    return any(isinstance(url, str) and url.startswith(kinds) for url in urls)


def _named_target(given: str) -> str | dict[str, str]:
    """`NAME=URL` of the command line as a plan writes it; a bare URL stays as it is."""
    name, equals, url = given.partition("=")
    if equals and ":" not in name and "/" not in name:
        return {"target": url, "name": name}
    return given


class PlanInvalid(InvalidDocument):
    """A plan with all its faults."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        hint = "correct them all, then `leadline check` the plan again"
        super().__init__(errors.PLAN_INVALID, "the plan", faults, hint)


def profile_names() -> list[str]:
    """The built-in profiles, which are the files in data/profiles."""
    folder = resources.files("leadline.data") / "profiles"
    return sorted(item.name[:-5] for item in folder.iterdir() if item.name.endswith(".yaml"))


@cache
def load_profile(name: str) -> ProfileDocument:
    """A built-in profile. Raises KeyError for an unknown name."""
    if name not in profile_names():
        raise KeyError(name)
    text = (resources.files("leadline.data") / "profiles" / f"{name}.yaml").read_text("utf-8")
    return ProfileDocument.model_validate(load_positioned(text).value)


def load_plan(path: Path | None, overrides: Overrides) -> models.Plan:
    """The expanded plan, or a LeadlineError(`plan-invalid`) that lists every fault at once."""
    source = str(path) if path else "command line"
    document = _read(path) if path else Positioned(value={})
    value = document.value if document.value is not None else {}
    if not isinstance(value, dict):
        raise LeadlineError(
            errors.PLAN_INVALID,
            "a plan is a mapping of keys",
            context=[f"{source}:1: found {type(value).__name__}"],
            hint="start from the example in `leadline run --help`",
        )
    raw = override(value, overrides)
    base = path.parent if path else Path.cwd()
    faults = Faults(source, document if path else None, "plan")

    plan_document: PlanDocument | None = None
    try:
        plan_document = PlanDocument.model_validate(raw)
    except ValidationError as error:
        take_errors(error, faults, _keys_at, lambda loc: _written_path(loc, raw))
    forced = _forced(overrides, faults)
    profiles = _profiles(raw, faults)
    job_files = _job_files(raw, base, faults) | _built_in_job_files(profiles)
    check_matrix(raw, faults)
    check_names(raw, profiles, faults)
    check_clusters(raw, faults)
    check_workload_targets(raw, profiles, faults)
    check_has_workloads(raw, profiles, faults, profile_names())
    check_expansion(raw, forced, profiles, job_files, faults)
    if plan_document is not None and not faults.found:
        check_settings(plan_document, faults)
    if plan_document is not None:
        check_trial_count(plan_document, profiles, faults)
    if faults.found:
        raise PlanInvalid(faults.found)
    assert plan_document is not None
    plan = expand(_located(plan_document, base), profiles, job_files, forced)
    entry = {one.target.name: one.number for one in written_targets(plan_document)}
    found = (small_volumes, mixed_lifecycles, unfit_sharing, over_budget)
    for name, sentence in (pair for rule in found for pair in rule(plan)):
        faults.add(("targets", entry[name]), sentence)
    found_at = (unfit_runners, guard_faults, drill_faults, stop_faults)
    for place, sentence in (pair for rule in found_at for pair in rule(plan)):
        faults.add(place, sentence)
    if faults.found:
        raise PlanInvalid(faults.found)
    return plan


def _located(document: PlanDocument, base: Path) -> PlanDocument:
    """Paths of clusters' files are relative to the plan's own folder, as those of job files."""

    def located(cluster: ClusterDocument) -> ClusterDocument:
        named = {key: getattr(cluster, key) for key in ("ceph_conf", "keyring")}
        found: dict[str, object] = {
            key: str((base / path).absolute()) for key, path in named.items() if path
        }
        kubernetes = cluster.kubernetes
        if kubernetes is not None and kubernetes.kubeconfig is not None:
            path = str((base / Path(kubernetes.kubeconfig).expanduser()).absolute())
            found["kubernetes"] = kubernetes.model_copy(update={"kubeconfig": path})
        if cluster.prometheus is not None:
            found["prometheus"] = _located_server(cluster.prometheus, base)
        return cluster.model_copy(update=found)

    clusters = {name: located(cluster) for name, cluster in document.clusters.items()}
    update = {
        "clusters": clusters,
        "guard": _located_guard(document.guard, base),
        "drill": _located_drill(document.drill, base),
        "settings": {
            name: _located_setting(setting, base) for name, setting in document.settings.items()
        },
    }
    return document.model_copy(update=update)


def _located_drill(drill: Drill | None, base: Path) -> Drill | None:
    if drill is None or drill.event.command is None:
        return drill
    folder = str((base / Path(drill.event.command.folder).expanduser()).absolute())
    command = drill.event.command.model_copy(update={"folder": folder})
    return drill.model_copy(update={"event": DrillEvent(command=command)})


def _located_setting(setting: Setting, base: Path) -> Setting:
    """Programs that are written as relative paths are those next to the plan; a killed run is
    cleaned from any folder."""
    command = setting.command
    if command is None:
        return setting

    def located(text: str) -> str:
        program, *words = shlex.split(text)
        if "/" in program:
            program = str((base / program).absolute())
        return shlex.join([program, *words])

    texts = {key: located(getattr(command, key)) for key in ("apply", "read", "restore")}
    return setting.model_copy(update={"command": command.model_copy(update=texts)})


def _located_guard(guard: Guard | None, base: Path) -> Guard | None:
    if guard is None:
        return None
    limits = tuple(_located_server(limit, base) for limit in guard.prometheus)
    return guard.model_copy(update={"prometheus": limits})


def _located_server(server: Server, base: Path) -> Server:
    named = {key: getattr(server, key) for key in ("token_file", "ca_file")}
    found = {
        key: str((base / Path(path).expanduser()).absolute()) for key, path in named.items() if path
    }
    return server.model_copy(update=found)


def _read(path: Path) -> Positioned:
    try:
        text = read_small_text(path)
    except FileNotFoundError as error:
        raise LeadlineError(
            errors.PLAN_UNREADABLE,
            f"there is no plan {str(path)!r}",
            hint="name a plan file, or use --target and --profile without one",
        ) from error
    except (OSError, ValueError) as error:
        raise LeadlineError(
            errors.PLAN_UNREADABLE, f"the plan {str(path)!r} cannot be read", context=[str(error)]
        ) from error
    try:
        return load_positioned(text)
    except YamlFault as fault:
        raise LeadlineError(
            errors.PLAN_UNREADABLE,
            f"the plan {str(path)!r} is not valid YAML of a plan",
            context=[f"{path}:{fault.line}: {fault}"],
        ) from fault


def _forced(overrides: Overrides, faults: Faults) -> DefaultsDocument:
    """Settings of the command line that override a workload's own; errors go to `faults`."""
    given = {key: getattr(overrides, key) for key in ("runtime", "ramp", "size")}
    try:
        return DefaultsDocument.model_validate(
            {key: value for key, value in given.items() if value is not None}
        )
    except ValidationError as error:
        for detail in error.errors():
            faults.add((f"--{detail['loc'][0]}",), error_sentence(detail))
        return DefaultsDocument()


def _written_path(loc: Sequence[str | int], raw: object) -> KeyPath:
    """The path as the user wrote it: a target written as a string has no key `target`."""
    path: list[str | int] = []
    for part in loc:
        if isinstance(raw, str):
            break
        if part in LAB_TAGS:
            continue
        path.append(part)
        try:
            raw = raw[part]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            raw = None
    return tuple(path)


def _keys_at(path: KeyPath) -> list[str]:
    """The valid keys at a path of a plan."""
    model: type[BaseModel] = PlanDocument
    below: dict[str, type[BaseModel]] = {
        "targets": TargetDocument,
        "workloads": WorkloadDocument,
        "phases": PhaseDocument,
        "levels": LevelDocument,
        "neighbour": PhaseDocument,
        "density": DensityDocument,
        "defaults": DefaultsDocument,
        "clusters": ClusterDocument,
        "budget": BudgetDocument,
        "guard": Guard,
        "prometheus": PrometheusLimit,
        "drill": Drill,
        "event": DrillEvent,
        "command": DrillCommand,
        "detect": DetectDocument,
        "stop": StopDocument,
        "lab": LabDocument,
        "kubernetes": KubernetesCluster,
        "tolerations": Toleration,
        "vm": VmSettings,
        "boot": BootImage,
    }
    if path[:1] == ("settings",):
        below = {"settings": Setting, **APPLIED_KINDS}
    for part in path:
        if part == "prometheus" and model is ClusterDocument:
            model = StorageMonitoring
        elif isinstance(part, str):
            model = below.get(part, model)
    return [field.alias or name for name, field in model.model_fields.items()]


def _profiles(raw: Mapping[str, Any], faults: Faults) -> list[ProfileDocument]:
    given = raw.get("profile", ())
    names = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    loaded = []
    for index, name in enumerate(names):
        try:
            loaded.append(load_profile(str(name)))
        except KeyError:
            known = profile_names()
            path: KeyPath = ("profile",) if isinstance(given, str) else ("profile", index)
            faults.add(
                path,
                f"unknown profile {name!r} (known: {', '.join(known)})",
                nearest_word(str(name), known),
            )
    return loaded


def _built_in_job_files(profiles: Sequence[ProfileDocument]) -> dict[str, JobFile]:
    """The job files of built-in profiles, next to these, by the path in the profile."""
    folder = resources.files("leadline.data") / "profiles"
    found = {}
    for workload in (workload for profile in profiles for workload in profile.workloads):
        if workload.job_file is not None:
            text = (folder / workload.job_file.removeprefix("built-in/")).read_text("utf-8")
            found[workload.job_file] = parse_job_file(workload.job_file, text)
    return found


def _job_files(raw: Mapping[str, Any], base: Path, faults: Faults) -> dict[str, JobFile]:
    """The user's job files by the path written in the plan, relative to the plan's own folder."""
    found: dict[str, JobFile] = {}
    for index, workload in enumerate(mappings(raw.get("workloads"))):
        written = workload.get("job_file")
        if isinstance(written, str) and written not in found:
            try:
                found[written] = read_job_file(base / written)
            except LeadlineError as error:
                message = "; ".join([error.fact, *error.context])
                faults.add(("workloads", index, "job_file"), message)
    return found
