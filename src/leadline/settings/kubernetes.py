"""`kubernetes`: a field of a Kubernetes resource, changed by a JSON merge patch (RFC 7386)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from lightkube import ApiError
from lightkube.resources.core_v1 import Pod
from lightkube.types import PatchType

from leadline import errors
from leadline.connect.kubernetes.client import Connection, raw_kind
from leadline.errors import LeadlineError
from leadline.plan.setting_commands import field_value
from leadline.plan.settings import KubernetesField
from leadline.settings.parameter import Locked, invalid, not_settled, same_value

SETTLED_WITHIN_S = 900.0
# An operator that reverts a field does so when it next reconciles the resource.
_KEPT_S = 5.0
_PAUSE_S = 0.5


class KubernetesResource(Locked):
    """One resource. It has settled when its controller has seen the change, and its conditions,
    replicas and the pods of its namespace are as well as before."""

    def __init__(self, connection: Connection, setting: KubernetesField) -> None:
        self._connection = connection
        self._namespace = setting.namespace
        self._setting = setting
        where = f"{setting.namespace}/{setting.name}" if setting.namespace else setting.name
        server = connection.client.config.cluster.server
        super().__init__(f"{setting.kind} {where} of {server}")
        self._before: tuple[frozenset[str], int] | None = None

    @cached_property
    def _kind(self) -> Any:
        """Raises LeadlineError(`setting-invalid`) for a kind that the cluster does not serve."""
        group, _, version = self._setting.api.rpartition("/")
        root = f"apis/{self._setting.api}" if group else f"api/{version}"

        def call(client: Any) -> Any:
            # lightkube has no method for the resources of a group, its HTTP client has.
            answer = client._client._client.get(root)
            if answer.status_code == 404:
                return {}
            client._client.raise_for_status(answer)
            return answer.json()

        found = self._connection.ask("get", f"/{root}", call)
        for resource in found.get("resources", ()):
            if resource["kind"] == self._setting.kind and "/" not in resource["name"]:
                namespaced = bool(resource["namespaced"])
                if namespaced != bool(self._namespace):
                    fact = "needs `namespace:`" if namespaced else "lies in no namespace"
                    raise invalid(f"a {self._setting.kind} {fact}")
                self._plural = f"{resource['name']}.{group}" if group else resource["name"]
                plural = resource["name"]
                kind = self._setting.kind
                return raw_kind(group, version, plural, kind, namespaced=namespaced)
        raise invalid(f"the cluster serves no {self._setting.kind} of {self._setting.api}")

    def get(self) -> dict[str, Any]:
        """The resource. Raises LeadlineError(`setting-invalid`) where it is not there."""
        kind, setting = self._kind, self._setting
        space = self._namespace or None
        try:
            found = self._connection.ask(
                "get",
                self._plural,
                lambda client: client.get(kind, setting.name, namespace=space),
                namespace=self._namespace,
                name=setting.name,
            )
        except ApiError as error:
            raise invalid(f"there is no {self.name}", str(error.status.message)) from error
        return dict(found)

    def patch(self, patch: Mapping[str, Any]) -> None:
        kind, setting = self._kind, self._setting
        space = self._namespace or None
        try:
            self._connection.ask(
                "patch",
                self._plural,
                lambda client: client.patch(
                    kind, setting.name, patch, namespace=space, patch_type=PatchType.MERGE
                ),
                namespace=self._namespace,
                name=setting.name,
            )
        except ApiError as error:
            raise LeadlineError(
                errors.SETTING_NOT_APPLIED,
                f"{self.name} does not take the change",
                context=[str(error.status.message)],
            ) from error

    def lock(self, run: str = "") -> None:
        super().lock(run)
        if self._before is None:
            found = self.get()
            self._before = (_conditions(found), len(self._unready_pods()))

    def settle(self, go_on: Callable[[], None]) -> None:
        end = time.monotonic() + SETTLED_WITHIN_S
        while True:
            go_on()
            faults = self._faults()
            if not faults:
                return
            if time.monotonic() > end:
                raise not_settled(self.name, SETTLED_WITHIN_S, faults)
            time.sleep(_PAUSE_S)

    def _faults(self) -> list[str]:
        found = self.get()
        conditions, unready = self._before or (frozenset(), 0)
        status = found.get("status") or {}
        faults = []
        generation = found["metadata"].get("generation")
        if status.get("observedGeneration", generation) != generation:
            faults.append("its controller has not seen the change yet")
        faults += [f"it is no longer {name}" for name in sorted(conditions - _conditions(found))]
        replicas = (found.get("spec") or {}).get("replicas")
        for key in ("updatedReplicas", "readyReplicas"):
            if isinstance(replicas, int) and key in status and status[key] != replicas:
                faults.append(f"{status[key]} of {replicas} {key}")
        pods = self._unready_pods()
        if len(pods) > unready:
            faults.append(f"pods that are not ready: {', '.join(pods[:4])}")
        return faults

    def _unready_pods(self) -> list[str]:
        """The pods of the namespace that are neither ready nor over."""
        if not self._namespace:
            return []
        pods = self._connection.ask(
            "list",
            "pods",
            lambda client: list(client.list(Pod, namespace=self._namespace)),
            namespace=self._namespace,
        )
        found = []
        for pod in pods:
            status = pod.status
            conditions = (status.conditions or ()) if status else ()
            ready = any(one.type == "Ready" and one.status == "True" for one in conditions)
            if not ready and (status is None or status.phase != "Succeeded"):
                found.append(str(pod.metadata.name if pod.metadata else ""))
        return found


def _conditions(found: Mapping[str, Any]) -> frozenset[str]:
    """The conditions of a resource that are true, and its phase."""
    status = found.get("status") or {}
    true = {
        str(one.get("type"))
        for one in status.get("conditions") or ()
        if one.get("status") == "True" and one.get("type") != "Progressing"
    }
    return frozenset(true | {str(status["phase"])} if status.get("phase") else true)


class KubernetesParameter:
    """One field of a resource."""

    def __init__(self, setting: KubernetesField, resource: KubernetesResource) -> None:
        self.system: KubernetesResource = resource
        space = f" -n {setting.namespace}" if setting.namespace else ""
        self.name = f"{setting.kind} {setting.name}{space} {setting.path}"
        self._keys = setting.keys

    def check(self, values: Sequence[str]) -> None:
        parents = self._keys[:-1]
        for number in range(1, len(parents) + 1):
            if self._value(parents[:number]) is None:
                raise invalid(
                    f"{self.system.name} has no {'.'.join(parents[:number])!r}",
                    hint="add it to the resource first: the run could not restore what it adds",
                )
        if isinstance(self._value(), dict | list):
            raise invalid(f"{self.name} is no single value")

    def _value(self, keys: Sequence[str] | None = None) -> object:
        found: object = self.system.get()
        for key in self._keys if keys is None else keys:
            if isinstance(found, list):
                raise invalid(f"{self.name} lies in a list, which a merge patch would replace")
            found = found.get(key) if isinstance(found, dict) else None
        return found

    def read(self) -> str | None:
        """The value as JSON; a text as it is. None where the field is absent."""
        found = self._value()
        if found is None or isinstance(found, str):
            return found
        return json.dumps(found)

    def write(self, value: str) -> None:
        found = self._value()
        # A text stays one, as "4" and 4 are different values.
        self._patch(value if isinstance(found, str) else field_value(value))

    def restore(self, before: str | None) -> None:
        now = self._value()
        self._patch(before if isinstance(now, str) else field_value(before))

    def _patch(self, value: object) -> None:
        for key in reversed(self._keys):
            value = {key: value}
        assert isinstance(value, dict)
        self.system.patch(value)

    def fault(self, value: str) -> str:
        """An operator that owns the field sets it back when it next sees the resource."""
        end = time.monotonic() + _KEPT_S
        while True:
            found = self.read()
            if not same_value(found, value):
                return f"it is {found!r}: an operator or webhook sets this field"
            if time.monotonic() > end:
                return ""
            time.sleep(_PAUSE_S)
