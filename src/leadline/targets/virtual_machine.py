"""The target `storageclass:` with `runner=vm`: one volume for each KubeVirt guest."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from leadline import errors
from leadline.archive.records import CacheDrop, Runner
from leadline.connect.kubernetes.client import poll
from leadline.connect.kubernetes.console import ConsoleLink, ConsoleShell
from leadline.connect.kubernetes.machines import (
    DEVICES,
    SCRATCH,
    SETUP_DONE,
    Object,
    Placement,
    RunnerMachine,
    await_machines,
    create_machine,
    find_loss,
    instance_of,
    name_of,
    read_placement,
)
from leadline.connect.kubernetes.objects import labels_of
from leadline.connect.kubernetes.permissions import RUN_RULES, VM_RULES, Rule
from leadline.connect.kubernetes.pods import PodSecurity
from leadline.connect.kubernetes.survey import (
    require_data_source,
    require_imports,
    require_kubevirt,
)
from leadline.errors import LeadlineError
from leadline.plan.footprint import Footprint
from leadline.plan.kubernetes_cluster import VmSettings
from leadline.plan.models import Target
from leadline.plan.volume_request import VolumeMode
from leadline.runner.ports import RemoteVolume, RemoteVolumes, Shape
from leadline.targets.kubernetes import KubernetesTarget
from leadline.targets.kubernetes_cluster import OpenKubernetes

_SHORT_S = 60.0
# Permissions that machines do not need: they execute commands by their console.
_NO_PODS = ("jobs.batch", "pods/exec")


def require_machines(cluster: OpenKubernetes, target: str) -> VmSettings:
    """Return the settings of the cluster's virtual machines. Raises LeadlineError without settings,
    without KubeVirt, or without CDI where it makes the boot disk."""
    settings, where = cluster.settings.vm, [f"target {target!r}"]
    if settings is None:
        raise LeadlineError(
            errors.TARGET_INVALID,
            "virtual machines need an image to boot from",
            context=where,
            hint="name one with --vm-image, or in the plan: `vm: {boot: {container_disk: ...}}`"
            " of the cluster",
        )
    require_kubevirt(cluster.connection, where)
    boot = settings.boot
    if boot.imported:
        require_imports(cluster.connection, where)
    if boot.data_source is not None:
        source = boot.data_source
        try:
            require_data_source(cluster.connection, source, where)
        except LeadlineError as error:
            if error.kind is not errors.KUBERNETES_DENIED:
                raise
            cluster.note(f"this user may not read the DataSource {source}: its state is unknown")
    return settings


def machine_rules(settings: VmSettings) -> tuple[Rule, ...]:
    """Return the permissions for virtual machines, with those of CDI where it makes boot disks."""
    imports = settings.boot.imported
    return tuple(rule for rule in VM_RULES if imports or "datavolumes" not in rule.resource)


class VirtualMachineTarget(KubernetesTarget):
    """`storageclass:NAME?runner=vm&vm=...`. Each new volume gets a new machine: a disk that is
    replaced in a running guest would leave traces in it."""

    kind = "virtualmachines"

    def __init__(
        self, target: Target, cluster: OpenKubernetes, *, number: int, asked_s: float
    ) -> None:
        super().__init__(target, cluster, number=number)
        self._links: list[ConsoleLink] = []

    @property
    def _settings(self) -> VmSettings:
        settings = self.cluster.settings.vm
        assert settings is not None, "inspect comes first"
        return settings

    def inspect(self, footprint: Footprint, *, prefill: bool, claimed_bytes: int = 0) -> None:
        settings = require_machines(self.cluster, self.name)
        rules = tuple(rule for rule in RUN_RULES if rule.qualified not in _NO_PODS)
        self.cluster.require((*rules, *machine_rules(settings)))
        self._volumes.inspect(footprint, asked=VolumeMode.BLOCK)
        # KubeVirt makes the pods of machines, with the privileges that they need.
        self.cluster.register_security(PodSecurity.PRIVILEGED)
        preset = self._request.runner_size(None)
        self._volumes.require_quota(
            cores=preset.cores, memory_bytes=preset.memory_bytes, claimed_bytes=claimed_bytes
        )

    def _start(self) -> None:
        instances, token = self._machines()
        shells, device = self._shells(instances), DEVICES[self._request.bus]
        with ThreadPoolExecutor(max_workers=len(shells)) as pool:
            list(pool.map(self._await_setup, shells))
        for shell in shells:
            self._volumes.check(shell, device)
        self._note_runners(instances, token)
        self._location = RemoteVolumes(
            shape=Shape.SPAN,
            volumes=tuple(RemoteVolume(shell=shell, path=device) for shell in shells),
            folder=SCRATCH,
        )

    def _machines(self) -> tuple[tuple[Object, ...], str]:
        """Make the virtual machines, all with one token, and wait until they run."""
        name, token = self._note_created()
        count = self._request.count
        for number in range(count):
            asked = RunnerMachine(
                name=f"{name}-{number:02d}",
                namespace=self._namespace,
                labels=labels_of(self._run, token, self._number),
                storage_class=self._volumes.storage_class,
                request=self._request,
                size_bytes=self._volumes.size_bytes,
            )
            create_machine(self.cluster.connection, asked, self.cluster.settings, self._settings)
        return await_machines(self._group(token)), token

    def _shells(self, instances: Sequence[Object]) -> list[ConsoleShell]:
        self._links = [
            ConsoleLink(self.cluster.connection, self._namespace, name_of(instance))
            for instance in instances
        ]
        return [
            ConsoleShell(
                link,
                f"virtual machine {self._namespace}/{name_of(one)}",
                self._guard(name_of(one), read_placement(one)),
            )
            for link, one in zip(self._links, instances, strict=True)
        ]

    def _guard(self, name: str, before: Placement) -> _Guard:
        return _Guard(cluster=self.cluster, namespace=self._namespace, name=name, before=before)

    def _await_setup(self, shell: ConsoleShell) -> None:
        """Wait for the guest's agent, then for the end of its setup."""
        bound_s = self.cluster.settings.ready_s
        shell.meet(bound_s, self.cluster.go_on)
        for _ in poll(bound_s, self.cluster.go_on, pause_s=2.0):
            result = shell.run(SETUP_DONE, bound_s=_SHORT_S)
            if result.text == "0":
                return
            if result.text:
                lines = result.stderr.decode("utf-8", "replace").splitlines()
                raise LeadlineError(
                    errors.RUNNER_FAILED,
                    f"the {shell.name} lacks programs and could not install them",
                    context=lines,
                    hint="boot an image that has fio and GNU coreutils, or give `proxy:` and "
                    "`packages:` in the plan's `vm:`",
                )
        raise LeadlineError(
            errors.RUNNER_FAILED,
            f"the setup of the {shell.name} does not end within {bound_s:g} s",
            hint="it installs packages; boot an image that has fio, or give a proxy",
        )

    def _note_runners(self, instances: Sequence[Object], token: str) -> None:
        """Record the nodes of the machines and their volumes, for each trial's folder."""
        claims, preset = self._claims(token), self._request.runner_size(None)
        boot, threads = self._settings.boot, self._request.io_threads
        self._runners = tuple(
            Runner(
                kind="vm",
                name=name_of(instance),
                node=read_placement(instance).node,
                image=boot.text,
                cores=preset.cores,
                memory_bytes=preset.memory_bytes,
                io_threads=self._settings.io_threads if threads is None else threads,
                volume=self._volumes.claimed(claims.get(f"{name_of(instance)}-volume")),
            )
            for instance in instances
        )

    def drop_caches(self) -> CacheDrop | None:
        """Drop the guest's cache; direct I/O bypasses it, and `cache: none` the host's. None: a
        guest cannot verify the cache of its host."""
        for volume in self.location.volumes:
            volume.shell.run("sync && echo 3 >/proc/sys/vm/drop_caches", bound_s=_SHORT_S)
        return None

    def _stop(self) -> tuple[str, ...]:
        """Remove the machines and their volumes, and wait until they are gone."""
        for link in self._links:
            link.close()
        self._links = []
        return super()._stop()


class _Guard:
    """Raises LeadlineError(`runner-failed`) for a machine that is lost or was restarted."""

    def __init__(
        self, *, cluster: OpenKubernetes, namespace: str, name: str, before: Placement
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._name = name
        self._before = before

    def __call__(self) -> None:
        found = instance_of(self._cluster.connection, self._namespace, self._name)
        if found is None:
            raise LeadlineError(
                errors.RUNNER_FAILED,
                f"the virtual machine {self._name!r} is lost: it no longer exists",
                hint="`leadline run --resume --retry-failed` makes a new one and continues",
            )
        problem = find_loss(found, self._before)
        if problem is not None:
            raise LeadlineError(problem.kind, problem.fact, hint=problem.hint)
