"""The virtual machines of a target: made, waited for until all run, or until it is known why they
will not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lightkube import ApiError, Client

from leadline import errors
from leadline.connect.kubernetes.client import TOKEN, Connection, polls
from leadline.connect.kubernetes.machines import (
    CDI_GROUP,
    GROUP,
    DataVolume,
    Object,
    RunnerMachine,
    VirtualMachine,
    VirtualMachineInstance,
    claim,
    conditions_told,
    import_trouble,
    lost,
    machine,
    machine_trouble,
    name_of,
    running,
    seed,
    waiting,
)
from leadline.connect.kubernetes.pod_runners import claims_of, events_of, pods_of
from leadline.connect.kubernetes.pods import Trouble, told, trouble
from leadline.errors import LeadlineError
from leadline.plan.target_url import KubernetesCluster, VmSettings

MACHINES = f"virtualmachines.{GROUP}"
INSTANCES = f"virtualmachineinstances.{GROUP}"
_IMPORTS = f"datavolumes.{CDI_GROUP}"


def machines_of(connection: Connection, namespace: str, token: str) -> list[Object]:
    """The VirtualMachines that carry a token, by name; none where KubeVirt is gone."""
    return _listed(connection, VirtualMachine, MACHINES, namespace, token)


def instances_of(connection: Connection, namespace: str, token: str) -> list[Object]:
    return _listed(connection, VirtualMachineInstance, INSTANCES, namespace, token)


def instance_of(connection: Connection, namespace: str, name: str) -> Object | None:
    """One VirtualMachineInstance; None where it is not there."""
    try:
        found: Any = connection.ask(
            "get",
            INSTANCES,
            lambda client: client.get(VirtualMachineInstance, name, namespace=namespace),
            namespace=namespace,
            name=name,
        )
        return dict(found.to_dict())
    except ApiError as error:
        if error.status.code != 404:
            raise
        return None


def create_machine(
    connection: Connection, asked: RunnerMachine, cluster: KubernetesCluster, settings: VmSettings
) -> None:
    """Make a VirtualMachine, then what it owns. What is there already under its name was made by
    a request whose answer was lost, since the name holds the run's token."""
    made = machine(asked, cluster, settings)
    namespace = asked.namespace
    try:
        found: Any = connection.ask(
            "create", MACHINES, lambda client: client.create(made), namespace=namespace
        )
    except ApiError as error:
        if error.status.code == 404:
            raise LeadlineError(
                errors.KUBERNETES_FAILED,
                "the cluster no longer knows virtual machines",
                context=[str(error.status.message)],
                hint="KubeVirt, or the namespace, went away",
            ) from error
        found = connection.ask(
            "get",
            MACHINES,
            lambda client: client.get(VirtualMachine, asked.name, namespace=namespace),
            namespace=namespace,
            name=asked.name,
        )
    owner = str(found.metadata.uid)
    # The claim last: KubeVirt makes the machine's pod when it sees it, which needs the Secret.
    for resource, item in (
        ("secrets", seed(asked, settings, owner)),
        ("persistentvolumeclaims", claim(asked, owner)),
    ):
        _create(connection, resource, item, namespace)


def await_machines(
    connection: Connection,
    namespace: str,
    token: str,
    count: int,
    *,
    bound_s: float,
    go_on: Callable[[], None],
) -> tuple[Object, ...]:
    """The `count` running instances, by name. Raises LeadlineError where they do not come to run:
    `volume-pending`, `runner-failed`, `kubernetes-failed`."""
    seen: list[Object] = []
    for _ in polls(bound_s, go_on):
        seen = instances_of(connection, namespace, token)
        if len(seen) == count and all(running(item) for item in seen):
            return tuple(seen)
        for found in _troubles(connection, namespace, token, seen):
            if found.final:
                raise _told(connection, namespace, token, found, seen)
    raise _why_not(connection, namespace, token, seen, bound_s)


def _troubles(
    connection: Connection, namespace: str, token: str, instances: Sequence[Object]
) -> list[Trouble]:
    """All that speaks against the machines of a token, the surest first."""
    machines = machines_of(connection, namespace, token)
    imports = _imports(connection, namespace, token, machines)
    pods = pods_of(connection, namespace, token)
    found = [
        *(lost(instance) for instance in instances),
        *(import_trouble(item) for item in imports),
        *(trouble(pod) for pod in pods),
        *(machine_trouble(item) for item in machines),
        *(waiting(instance) for instance in instances),
    ]
    return [item for item in found if item is not None]


def _imports(
    connection: Connection, namespace: str, token: str, machines: Sequence[Object]
) -> list[Object]:
    """The DataVolumes of machines that boot from one."""
    names = [
        template["metadata"]["name"]
        for item in machines
        for template in item.get("spec", {}).get("dataVolumeTemplates") or ()
    ]
    found = []
    for name in names:
        try:
            found.append(
                connection.ask(
                    "get",
                    _IMPORTS,
                    lambda client, name=name: client.get(DataVolume, name, namespace=namespace),  # type: ignore[misc]
                    namespace=namespace,
                    name=name,
                ).to_dict()
            )
        except ApiError as error:
            if error.status.code != 404:
                raise
    return found


def _why_not(
    connection: Connection,
    namespace: str,
    token: str,
    instances: Sequence[Object],
    bound_s: float,
) -> LeadlineError:
    """Why machines did not come to run in time."""
    found = _troubles(connection, namespace, token, instances)
    for item in claims_of(connection, namespace, token):
        if item.metadata is None or (item.status and item.status.phase == "Bound"):
            continue
        name = str(item.metadata.name)
        said = told(events_of(connection, namespace, name))
        return LeadlineError(
            errors.VOLUME_PENDING,
            f"the volume claim {name!r} is still pending after {bound_s:g} s",
            context=[*said, *(item.fact for item in found)]
            or ["no event says why; the class's provisioner may not be running"],
            hint="look at the provisioner of the StorageClass; `ready:` of the cluster in the plan "
            "sets how long to wait",
        )
    if found:
        return _told(connection, namespace, token, found[0], instances)
    names = [name_of(item) for item in machines_of(connection, namespace, token)]
    first = names[0] if names else "NAME"
    return LeadlineError(
        errors.RUNNER_FAILED,
        f"the virtual machines {', '.join(names)} do not run after {bound_s:g} s",
        context=_context(connection, namespace, token, instances),
        hint=f"look with `kubectl -n {namespace} describe vm,vmi {first}`",
    )


def _told(
    connection: Connection,
    namespace: str,
    token: str,
    found: Trouble,
    instances: Sequence[Object],
) -> LeadlineError:
    return LeadlineError(
        found.kind,
        found.fact,
        context=_context(connection, namespace, token, instances),
        hint=found.hint,
    )


def _context(
    connection: Connection, namespace: str, token: str, instances: Sequence[Object]
) -> list[str]:
    """What the machines and the cluster's events say: of those that do not run, a few."""
    concerned = [instance for instance in instances if not running(instance)][:2]
    machines = [] if concerned else machines_of(connection, namespace, token)[:2]
    lines = [line for item in (*concerned, *machines) for line in conditions_told(item)]
    names = [name_of(item) for item in (*concerned, *machines)]
    lines += [line for name in names for line in told(events_of(connection, namespace, name), 3)]
    return list(dict.fromkeys(lines))[:10]


def _create(connection: Connection, resource: str, made: Any, namespace: str) -> None:
    try:
        connection.ask("create", resource, lambda client: client.create(made), namespace=namespace)
    except ApiError as error:
        if error.status.code != 409:
            raise


def _listed(
    connection: Connection, kind: Any, resource: str, namespace: str, token: str
) -> list[Object]:
    def call(client: Client) -> list[Object]:
        return [
            item.to_dict() for item in client.list(kind, namespace=namespace, labels={TOKEN: token})
        ]

    try:
        found = connection.ask("list", resource, call, namespace=namespace)
    except ApiError as error:
        if error.status.code == 404:
            return []
        raise
    return sorted(found, key=name_of)
