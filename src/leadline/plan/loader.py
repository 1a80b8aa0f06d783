"""From a plan file, or from the command line alone, to an expanded plan or all of its faults."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from leadline import errors
from leadline.errors import LeadlineError
from leadline.files import read_small_text
from leadline.plan import document as written
from leadline.plan import models
from leadline.plan.expand import expand, follow_ups, places, with_levels
from leadline.plan.job_file import read_job_file
from leadline.plan.lab import LabDocument
from leadline.plan.labels import parse_labels
from leadline.plan.rules import engine_faults, offered, small_volumes
from leadline.plan.target_url import (
    BootImage,
    KubernetesCluster,
    TargetKind,
    TargetUrl,
    Toleration,
    VmSettings,
    parse_target_url,
)
from leadline.plan.yaml_positions import Fault, KeyPath, Positioned, YamlFault, load_positioned

# What the command line says over a plan file, or without one, put in as a plan would have it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What the command line sets over a plan or its profiles; None leaves it alone."""

    targets: Sequence[str] = ()
    profiles: Sequence[str] = ()
    job_files: Sequence[Path] = ()
    name: str | None = None
    runtime: str | None = None
    ramp: str | None = None
    size: str | None = None
    repeats: int | None = None
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


def overridden(value: dict[str, Any], overrides: Overrides) -> dict[str, Any]:
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
    for key in ("name", "repeats", "seed", "prefill", "drop_caches"):
        given = getattr(overrides, key)
        if given is not None:
            raw[key] = given
    return raw


def _labels(overrides: Overrides) -> dict[str, str]:
    """Raises LeadlineError (`usage`) for one that is not KEY=VALUE."""
    found: dict[str, str] = {}
    for text in overrides.labels:
        try:
            found |= parse_labels(text)
        except ValueError as error:
            raise LeadlineError(
                errors.USAGE, f"--label {text!r} is no label", hint="write it as --label cores=2"
            ) from error
    return found


def default_ceph_conf() -> str:
    """The configuration that Ceph's own programs would take: $CEPH_CONF, else the system's."""
    return os.environ.get("CEPH_CONF") or "/etc/ceph/ceph.conf"


def _named_cluster(overrides: Overrides) -> dict[str, dict[str, str]]:
    """The one cluster that the command line names; it stands for any that the plan has."""
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
    """What the command line says of clusters, over what the plan says, and where nobody says
    anything, kubectl's and Ceph's own choice for the targets that need it."""
    ceph, kubernetes = _named_cluster(overrides), _named_kubernetes(overrides)
    if ceph:
        raw["clusters"] = ceph
    written = raw.get("clusters", {})
    if not isinstance(written, dict):
        return  # told as a fault
    clusters = dict(written)
    of_kubernetes = [
        name for name, one in clusters.items() if isinstance(one, dict) and "kubernetes" in one
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
    if clusters:
        raw["clusters"] = clusters


def _named_kubernetes(overrides: Overrides) -> dict[str, Any]:
    """What the command line says of the Kubernetes cluster."""
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


def _mentions(targets: object, of: Callable[[TargetKind], bool]) -> bool:
    urls = [
        item.get("target") if isinstance(item, dict) else item
        for item in (targets if isinstance(targets, list) else [])
    ]
    kinds = tuple(f"{kind.value}:" for kind in TargetKind if of(kind))
    return any(isinstance(url, str) and url.startswith(kinds) for url in urls)


def _named_target(given: str) -> str | dict[str, str]:
    """`NAME=URL` of the command line as a plan writes it; a bare URL stays as it is."""
    name, equals, url = given.partition("=")
    if equals and ":" not in name and "/" not in name:
        return {"target": url, "name": name}
    return given


# Nobody has the time for more: a minute each makes ten weeks.
_MOST_TRIALS = 100_000
# Names of targets in one sentence.
_TARGETS_TOLD = 3


class PlanInvalid(LeadlineError):
    """A plan with all its faults, in the order of their lines."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(faults, key=lambda one: one.line or 0))
        count = len(self.faults)
        super().__init__(
            errors.PLAN_INVALID,
            f"the plan has {count} fault{'s' if count > 1 else ''}",
            context=[str(fault) for fault in self.faults],
            hint="mend them all, then `leadline check` the plan again",
        )


def profile_names() -> list[str]:
    """The built-in profiles, which are the files in data/profiles."""
    folder = resources.files("leadline.data") / "profiles"
    return sorted(item.name[:-5] for item in folder.iterdir() if item.name.endswith(".yaml"))


@cache
def load_profile(name: str) -> written.ProfileDocument:
    """A built-in profile. Raises KeyError for a name that is none."""
    if name not in profile_names():
        raise KeyError(name)
    text = (resources.files("leadline.data") / "profiles" / f"{name}.yaml").read_text("utf-8")
    return written.ProfileDocument.model_validate(load_positioned(text).value)


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
    raw = overridden(value, overrides)
    base = path.parent if path else Path.cwd()
    faults = _Faults(source, document if path else None)

    plan_document: written.PlanDocument | None = None
    try:
        plan_document = written.PlanDocument.model_validate(raw)
    except ValidationError as error:
        faults.take(error, raw)
    forced = _forced(overrides, faults)
    profiles = _profiles(raw, faults)
    job_files = _job_files(raw, base, faults)
    _check_names(raw, profiles, faults)
    _check_clusters(raw, faults)
    _check_workloads_targets(raw, profiles, faults)
    _check_something_to_do(raw, profiles, faults)
    _check_expansion(raw, forced, profiles, job_files, faults)
    if plan_document is not None:
        _check_number(plan_document, profiles, faults)
    if faults.found:
        raise PlanInvalid(faults.found)
    assert plan_document is not None
    plan = expand(_located(plan_document, base), profiles, job_files, forced)
    for number, sentence in small_volumes(plan):
        faults.add(("targets", number), sentence)
    if faults.found:
        raise PlanInvalid(faults.found)
    return plan


def _located(document: written.PlanDocument, base: Path) -> written.PlanDocument:
    """Files of clusters are named from the plan's own folder, as job files are."""

    def located(cluster: written.ClusterDocument) -> written.ClusterDocument:
        named = {key: getattr(cluster, key) for key in ("ceph_conf", "keyring")}
        found: dict[str, object] = {
            key: str((base / path).absolute()) for key, path in named.items() if path
        }
        kubernetes = cluster.kubernetes
        if kubernetes is not None and kubernetes.kubeconfig is not None:
            path = str((base / Path(kubernetes.kubeconfig).expanduser()).absolute())
            found["kubernetes"] = kubernetes.model_copy(update={"kubeconfig": path})
        return cluster.model_copy(update=found)

    clusters = {name: located(cluster) for name, cluster in document.clusters.items()}
    return document.model_copy(update={"clusters": clusters})


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
            f"the plan {str(path)!r} is not YAML that a plan can be written in",
            context=[f"{path}:{fault.line}: {fault}"],
        ) from fault


def _forced(overrides: Overrides, faults: _Faults) -> written.DefaultsDocument:
    """Settings of the command line that beat a workload's own; what is wrong goes to `faults`."""
    given = {key: getattr(overrides, key) for key in ("runtime", "ramp", "size")}
    try:
        return written.DefaultsDocument.model_validate(
            {key: value for key, value in given.items() if value is not None}
        )
    except ValidationError as error:
        for detail in error.errors():
            faults.add((f"--{detail['loc'][0]}",), _sentence(detail))
        return written.DefaultsDocument()


class _Faults:
    """Collects faults, each with its line where the plan is a file."""

    def __init__(self, source: str, document: Positioned | None) -> None:
        self.source = source
        self.document = document
        # In the order of being found, each once.
        self.found: dict[Fault, None] = {}

    def add(self, path: KeyPath, message: str, nearest: str | None = None) -> None:
        line = self.document.line(path) if self.document else None
        fault = Fault(
            file=self.source, line=line, key=_dotted(path), message=message, nearest=nearest
        )
        self.found[fault] = None

    def take(self, error: ValidationError, raw: Mapping[str, Any]) -> None:
        for detail in error.errors():
            path = _written_path(detail["loc"], raw)
            value = detail.get("input")
            if detail["type"] == "extra_forbidden":
                key = str(path[-1])
                known = _keys_at(path[:-1])
                self.add(path, f"unknown key {key!r}", _nearest(key, known))
                continue
            expected = re.findall(r"'([^']*)'", str(detail.get("ctx", {}).get("expected", "")))
            told = detail["type"] in ("value_error", "missing") or isinstance(value, dict | list)
            shown = "" if told else f", got {value!r}"
            self.add(path, _sentence(detail) + shown, _nearest(str(value), expected))


def _sentence(detail: ErrorDetails) -> str:
    if detail["type"] == "value_error":
        return str(detail["ctx"]["error"])
    if detail["type"] == "missing":
        return "is missing"
    message = detail["msg"]
    return message[0].lower() + message[1:]


def _written_path(loc: Sequence[str | int], raw: object) -> KeyPath:
    """The path as the user wrote it: a target given as a bare string has no key `target`."""
    path: list[str | int] = []
    for part in loc:
        if isinstance(raw, str):
            break
        if part in written.LAB_TAGS:
            continue
        path.append(part)
        try:
            raw = raw[part]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            raw = None
    return tuple(path)


def _keys_at(path: KeyPath) -> list[str]:
    """Keys that may stand at a path of a plan."""
    model: type[BaseModel] = written.PlanDocument
    below: dict[str, type[BaseModel]] = {
        "targets": written.TargetDocument,
        "workloads": written.WorkloadDocument,
        "phases": written.PhaseDocument,
        "levels": written.LevelDocument,
        "neighbour": written.PhaseDocument,
        "density": written.DensityDocument,
        "defaults": written.DefaultsDocument,
        "clusters": written.ClusterDocument,
        "lab": LabDocument,
        "kubernetes": KubernetesCluster,
        "tolerations": Toleration,
        "vm": VmSettings,
        "boot": BootImage,
    }
    for part in path:
        if isinstance(part, str):
            model = below.get(part, model)
    return list(model.model_fields)


def _nearest(word: str, known: Iterable[str]) -> str | None:
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return found[0] if found else None


def _dotted(path: KeyPath) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "plan"


def _profiles(raw: Mapping[str, Any], faults: _Faults) -> list[written.ProfileDocument]:
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
                _nearest(str(name), known),
            )
    return loaded


def _job_files(raw: Mapping[str, Any], base: Path, faults: _Faults) -> dict[str, models.JobFile]:
    """The user's job files by the path written in the plan, relative to the plan's own folder."""
    found: dict[str, models.JobFile] = {}
    for index, workload in enumerate(_mappings(raw.get("workloads"))):
        written = workload.get("job_file")
        if isinstance(written, str) and written not in found:
            try:
                found[written] = read_job_file(base / written)
            except LeadlineError as error:
                told = "; ".join([error.fact, *error.context])
                faults.add(("workloads", index, "job_file"), told)
    return found


def _mappings(value: object) -> list[Mapping[str, Any]]:
    items = value if isinstance(value, list) else []
    return [item if isinstance(item, dict) else {} for item in items]


def _check_names(
    raw: Mapping[str, Any], profiles: Sequence[written.ProfileDocument], faults: _Faults
) -> None:
    seen: set[str] = set()
    for profile in profiles:
        names_here = {workload.name for workload in profile.workloads}
        if names_here & seen:
            twice = ", ".join(sorted(names_here & seen))
            faults.add(("profile",), f"{profile.name!r} repeats workloads that are there: {twice}")
        seen |= names_here
    for index, workload in enumerate(_mappings(raw.get("workloads"))):
        name = workload.get("name")
        if isinstance(name, str) and name in seen:
            faults.add(("workloads", index, "name"), f"two workloads are called {name!r}")
        seen.add(str(name))
    names: set[tuple[str, str]] = set()
    clusters = raw.get("clusters")
    targets = raw.get("targets")
    for index, item in enumerate(targets if isinstance(targets, list) else []):
        written = item if isinstance(item, dict) else {"target": item}
        url = written.get("target")
        name = written.get("name", url)
        here = written.get("clusters") or (list(clusters) if isinstance(clusters, dict) else [])
        try:
            found = places(parse_target_url(str(url)), [here] if isinstance(here, str) else here)
        except (ValueError, TypeError):
            continue  # told already
        called = {(str(name), place) for place in found.values()}
        if name is not None and called & names:
            faults.add(("targets", index), f"two targets are called {name!r}; give one a name")
        names |= called


def _check_clusters(raw: Mapping[str, Any], faults: _Faults) -> None:
    """Targets name clusters that there are, of their own sort; a delay needs a lab."""
    clusters = raw.get("clusters")
    known = list(clusters) if isinstance(clusters, dict) else []
    targets = raw.get("targets")
    for index, item in enumerate(targets if isinstance(targets, list) else []):
        written = item if isinstance(item, dict) else {"target": item}
        named = written.get("clusters") or []
        named = [named] if isinstance(named, str) else named
        for name in named if isinstance(named, list) else []:
            if name not in known:
                faults.add(
                    ("targets", index, "clusters"),
                    f"there is no cluster {name!r} in the plan (clusters: "
                    f"{', '.join(map(str, known)) or 'none'})",
                    _nearest(str(name), map(str, known)),
                )
        try:
            url = parse_target_url(str(written.get("target")))
        except ValueError:
            continue  # told already
        documents = clusters if isinstance(clusters, dict) else {}
        fitting = [name for name in known if _fits(url, documents[name])]
        if url.kind.on_cluster and known and not fitting:
            sort = "Kubernetes" if url.kind.on_kubernetes else "Ceph"
            faults.add(("targets", index), f"the plan names no {sort} cluster for {str(url)!r}")
        for name in named if isinstance(named, list) else []:
            if url.kind.on_cluster and name in known and name not in fitting:
                other = "a Ceph" if url.kind.on_kubernetes else "a Kubernetes"
                faults.add(("targets", index, "clusters"), f"{name!r} is {other} cluster")
        if url.inter_zone_rtt_s is None:
            continue
        for name in named or fitting:
            document = documents.get(name)
            if isinstance(document, dict) and "lab" not in document:
                faults.add(
                    ("targets", index),
                    f"inter_zone_rtt is a condition of a lab, and {name!r} is none",
                )


def _check_workloads_targets(
    raw: Mapping[str, Any], profiles: Sequence[written.ProfileDocument], faults: _Faults
) -> None:
    """Workloads name targets that there are, and no target is left without any."""
    targets = raw.get("targets")
    names = [
        str(item.get("name", item.get("target")) if isinstance(item, dict) else item)
        for item in (targets if isinstance(targets, list) else [])
    ]
    for_all = bool(profiles) or not raw.get("workloads")
    named: set[str] = set()
    for index, workload in enumerate(_mappings(raw.get("workloads"))):
        given = workload.get("targets") or []
        given = [given] if isinstance(given, str) else given
        for_all = for_all or not given
        for name in given if isinstance(given, list) else []:
            named.add(str(name))
            if str(name) not in names:
                faults.add(
                    ("workloads", index, "targets"),
                    f"there is no target {name!r} in the plan",
                    _nearest(str(name), names),
                )
    for index, name in enumerate(names):
        if not for_all and name not in named:
            faults.add(("targets", index), f"no workload is for the target {name!r}")


def _fits(url: TargetUrl, cluster: object) -> bool:
    """Whether a cluster is of the sort that a target lies on; of one that is no mapping nothing
    is known, which is told already."""
    if not isinstance(cluster, dict):
        return True
    return ("kubernetes" in cluster) is url.kind.on_kubernetes


def _check_something_to_do(
    raw: Mapping[str, Any], profiles: Sequence[written.ProfileDocument], faults: _Faults
) -> None:
    if not profiles and not raw.get("workloads") and not raw.get("profile"):
        faults.add(
            (), f"has neither a profile nor workloads (profiles: {', '.join(profile_names())})"
        )


def _check_number(
    document: written.PlanDocument,
    profiles: Sequence[written.ProfileDocument],
    faults: _Faults,
) -> None:
    """A plan multiplies targets, levels and repeats; a short file could fill the memory."""
    places = sum(len(item.clusters or document.clusters) or 1 for item in document.targets)
    workloads = [*document.workloads, *(item for one in profiles for item in one.workloads)]
    trials = places * sum(len(item.levels) or 1 for item in workloads) * document.repeats
    if trials > _MOST_TRIALS:
        faults.add((), f"makes {trials:,} trials; {_MOST_TRIALS:,} are the most")


def _check_expansion(
    raw: Mapping[str, Any],
    forced: written.DefaultsDocument,
    profiles: Sequence[written.ProfileDocument],
    job_files: Mapping[str, models.JobFile],
    faults: _Faults,
) -> None:
    """Settings that are right alone and do not fit together, once defaults are filled in, or that
    cannot be done on a target."""
    try:
        defaults = written.DefaultsDocument.model_validate(raw.get("defaults", {}))
    except ValidationError:
        return  # told already, and without it nothing can be filled in
    found: list[tuple[KeyPath, written.WorkloadDocument, written.DefaultsDocument]] = [
        (("profile",), item, profile.defaults) for profile in profiles for item in profile.workloads
    ]
    for index, given in enumerate(_mappings(raw.get("workloads"))):
        with contextlib.suppress(ValidationError):  # told already
            item = written.WorkloadDocument.model_validate(given)
            found.append((("workloads", index), item, written.DefaultsDocument()))
    targets = _readable_targets(raw)
    for path, item, last in found:
        if item.job_file is not None and item.job_file not in job_files:
            continue  # told already
        try:
            layers = (forced, item, defaults, last)
            asked = [workload for workload, _ in with_levels(item, layers, job_files)]
            later = follow_ups(item, layers, "") if item.job_file is None else []
        except ValidationError as error:
            for detail in error.errors():
                faults.add(path, f"{item.name!r}: {_sentence(detail)}")
        except ValueError as error:
            faults.add(path, f"{item.name!r}: {error}")
        else:
            asked += [one.largest for one in later if isinstance(one, models.Density)]
            asked += [offered(asked[0]) for one in later if isinstance(one, models.OpenLoop)]
            _check_engines(path, item, asked, targets, faults)


def _check_engines(
    path: KeyPath,
    item: written.WorkloadDocument,
    asked: Sequence[models.Workload],
    targets: Sequence[tuple[str, TargetUrl]],
    faults: _Faults,
) -> None:
    """What cannot be done on the targets that a workload is for: each fault once, with them."""
    found: dict[str, dict[str, None]] = {}
    for name, url in targets:
        if item.targets and name not in item.targets:
            continue
        for workload in asked:
            for sentence in engine_faults(workload, url):
                found.setdefault(sentence, {})[name] = None
    for sentence, names in found.items():
        on = ", ".join(map(repr, list(names)[:_TARGETS_TOLD]))
        more = f" and {len(names) - _TARGETS_TOLD} more" if len(names) > _TARGETS_TOLD else ""
        faults.add(path, f"{item.name!r} on {on}{more}: {sentence}")


def _readable_targets(raw: Mapping[str, Any]) -> list[tuple[str, TargetUrl]]:
    """Those of the plan whose URL can be read, by their names; the others are told already."""
    targets = raw.get("targets")
    found = []
    for item in targets if isinstance(targets, list) else []:
        given = item if isinstance(item, dict) else {"target": item}
        with contextlib.suppress(ValueError):
            url = parse_target_url(str(given.get("target")))
            found.append((str(given.get("name", given.get("target"))), url))
    return found
