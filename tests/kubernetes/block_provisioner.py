"""A small dynamic provisioner of block volumes for tests: loop devices over sparse files.

A claim of class `block` whose consumer is scheduled gets a file of its exact size, a loop device
and a `local` PersistentVolume, raw or (kubelet makes the ext4) as a file system. A released volume
loses its device and its file, after DELETE_DELAY_S, and then its object: while the object is there,
the backend is too. Growth of a claim grows all three. Stdlib only, so that it runs anywhere.

Environment: SERVER, TOKEN, AUTHORITY (file), FOLDER, DELETE_DELAY_S.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

CLASS, PROVISIONER = "block", "leadline-lab/block"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_VOLUMES, _CLAIMS = "/api/v1/persistentvolumes", "/api/v1/persistentvolumeclaims"
# Between steps: where something is due, and where nothing was reported to have changed.
_TICK_S, _IDLE_S = 0.3, 10.0
_SUFFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_SUFFIXES |= {f"{letter}i": 1024**power for power, letter in enumerate("KMGTP", start=1)}

Object = dict[str, Any]


def size_bytes(quantity: str) -> int:
    """Bytes of a Kubernetes quantity such as 1Gi, 500M, 1.5G or 1e9; ValueError if it is none."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?(?:e\d+)?)([kMGTP]?|[KMGTP]i)", quantity)
    if found is None:
        raise ValueError(f"no quantity: {quantity}")
    return int(float(found[1]) * _SUFFIXES[found[2]])


class Api:
    """The API server over plain HTTPS. One connection serves all requests: most of the time of a
    short request would go into a new one, at both ends."""

    def __init__(self) -> None:
        self._server = urlsplit(os.environ["SERVER"])
        self._context = ssl.create_default_context(cafile=os.environ["AUTHORITY"])
        self._authorization = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
        self._connection: http.client.HTTPSConnection | None = None

    def _connect(self, timeout_s: float | None) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            self._server.hostname or "",
            self._server.port,
            timeout=timeout_s,
            context=self._context,
        )

    def watch(self, path: str, changed: threading.Event) -> None:
        """Set `changed` at each change of what is listed at `path`, until the server ends the
        watch; OSError where there is none."""
        connection = self._connect(timeout_s=None)
        try:
            connection.request("GET", f"{path}?watch=true", headers=self._authorization)
            answer = connection.getresponse()
            if answer.status >= 400:
                raise OSError(f"{path}: {answer.status}")
            while answer.readline():
                changed.set()
        except http.client.HTTPException as fault:
            raise ConnectionError(f"{path}: {fault!r}") from fault
        finally:
            connection.close()

    def __call__(self, method: str, path: str, body: Object | None = None) -> Object:
        """The answer; OSError where there is none, or where it is an error."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {**self._authorization, "Content-Type": kind}
        connection = self._connection or self._connect(timeout_s=20)
        self._connection = None
        text = None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, text, headers)
            answer = connection.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException) as fault:
            connection.close()
            raise ConnectionError(f"{method} {path}: {fault!r}") from fault
        self._connection = connection
        if answer.status >= 400:
            raise OSError(f"{method} {path}: {answer.status} {said[:500].decode()}")
        parsed: Object = json.loads(said)
        return parsed


class Volumes:
    """Files and loop devices, by the name of their PersistentVolume."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def file(self, name: str) -> Path:
        return self._folder / f"{name}.img"

    def device(self, name: str) -> str | None:
        """The volume's loop device, if it has one."""
        for found in Path("/sys/block").glob("loop*/loop/backing_file"):
            if found.read_text().strip() == str(self.file(name)):
                return f"/dev/{found.parent.parent.name}"
        return None

    def make(self, name: str, size: int) -> str:
        """The volume's device; made where it is not there yet."""
        file = self.file(name)
        if not file.exists():
            with file.open("wb") as opened:
                opened.truncate(size)
        if device := self.device(name):
            return device
        device = _run("losetup", "--find", "--show", str(file))
        # Past the page cache, where the file system below can.
        subprocess.run(["losetup", "--direct-io=on", device], capture_output=True, check=False)
        return device

    def grow(self, name: str, size: int) -> None:
        os.truncate(self.file(name), size)
        if device := self.device(name):
            _run("losetup", "--set-capacity", device)

    def remove(self, name: str) -> bool:
        """Detach and remove; whether nothing of the volume is left."""
        if device := self.device(name):
            # Where kubelet still holds it, it goes with kubelet's hold.
            _run("losetup", "--detach", device)
            if self.device(name):
                return False
        self.file(name).unlink(missing_ok=True)
        return True


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


class Provisioner:
    def __init__(self, api: Api, volumes: Volumes, delete_delay_s: float) -> None:
        self._api, self._volumes, self._delay_s = api, volumes, delete_delay_s
        self._released: dict[str, float] = {}
        self._refused: set[str] = set()

    def step(self) -> bool:
        """Look at every claim and volume once and do what is due; whether some has to wait."""
        volumes = {
            item["metadata"]["name"]: item
            for item in self._api("GET", _VOLUMES)["items"]
            if item["metadata"].get("annotations", {}).get(_PROVISIONED_BY) == PROVISIONER
        }
        for claim in self._api("GET", _CLAIMS)["items"]:
            if claim["spec"].get("storageClassName") == CLASS:
                volume = volumes.get(f"pvc-{claim['metadata']['uid']}")
                if volume is None:
                    self._provision(claim)
                elif claim["status"]["phase"] == "Bound":
                    self._grow(claim, volume)
        waits = False
        for volume in volumes.values():
            if volume["status"].get("phase") in ("Released", "Failed"):
                waits |= not self._release(volume)
        return waits

    def _provision(self, claim: Object) -> None:
        metadata, spec = claim["metadata"], claim["spec"]
        node = metadata.get("annotations", {}).get(_SELECTED_NODE)
        if node is None or spec.get("volumeName") or "deletionTimestamp" in metadata:
            return
        if set(spec["accessModes"]) - {"ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany"}:
            self._refuse(claim, f"access modes {spec['accessModes']} are not to be had")
            return
        name, quantity = f"pvc-{metadata['uid']}", spec["resources"]["requests"]["storage"]
        device = self._volumes.make(name, size_bytes(quantity))
        place = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        self._api(
            "POST",
            _VOLUMES,
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": name, "annotations": {_PROVISIONED_BY: PROVISIONER}},
                "spec": {
                    "accessModes": spec["accessModes"],
                    "capacity": {"storage": quantity},
                    "claimRef": {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "name": metadata["name"],
                        "namespace": metadata["namespace"],
                        "uid": metadata["uid"],
                    },
                    "local": {"path": device},
                    "nodeAffinity": {
                        "required": {"nodeSelectorTerms": [{"matchExpressions": [place]}]}
                    },
                    "persistentVolumeReclaimPolicy": "Delete",
                    "storageClassName": CLASS,
                    "volumeMode": spec["volumeMode"],
                },
            },
        )
        print(f"made {name}: {device}, {quantity}", flush=True)  # noqa: T201

    def _refuse(self, claim: Object, why: str) -> None:
        metadata = claim["metadata"]
        if metadata["uid"] in self._refused:
            return
        self._refused.add(metadata["uid"])
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        involved = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        self._api(
            "POST",
            f"/api/v1/namespaces/{metadata['namespace']}/events",
            {
                "metadata": {"generateName": f"{metadata['name']}."},
                "involvedObject": involved
                | {key: metadata[key] for key in ("name", "namespace", "uid")},
                "type": "Warning",
                "reason": "ProvisioningFailed",
                "message": f'failed to provision volume with StorageClass "{CLASS}": {why}',
                "source": {"component": PROVISIONER},
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
            },
        )

    def _grow(self, claim: Object, volume: Object) -> None:
        name, wanted = volume["metadata"]["name"], claim["spec"]["resources"]["requests"]["storage"]
        if size_bytes(wanted) <= size_bytes(volume["spec"]["capacity"]["storage"]):
            return
        if claim["spec"]["volumeMode"] == "Filesystem":
            return  # Nothing here would grow the file system.
        self._volumes.grow(name, size_bytes(wanted))
        capacity = {"capacity": {"storage": wanted}}
        self._api("PATCH", f"{_VOLUMES}/{name}", {"spec": capacity})
        metadata = claim["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/persistentvolumeclaims"
        self._api("PATCH", f"{path}/{metadata['name']}/status", {"status": capacity})
        print(f"grew {name} to {wanted}", flush=True)  # noqa: T201

    def _release(self, volume: Object) -> bool:
        """Remove a volume where that is asked for; whether that is done."""
        name = volume["metadata"]["name"]
        if volume["spec"]["persistentVolumeReclaimPolicy"] != "Delete":
            return True
        since = self._released.setdefault(name, time.monotonic())
        if time.monotonic() - since < self._delay_s or not self._volumes.remove(name):
            return False
        if "deletionTimestamp" not in volume["metadata"]:
            self._api("DELETE", f"{_VOLUMES}/{name}")
        print(f"removed {name}", flush=True)  # noqa: T201
        return True


def _watch(path: str, changed: threading.Event) -> None:
    api = Api()
    while True:
        # The API server may be away for a while.
        with contextlib.suppress(OSError):
            api.watch(path, changed)
        changed.set()  # What came meanwhile was not seen.
        time.sleep(_TICK_S)


def main() -> None:
    delay_s = float(os.environ.get("DELETE_DELAY_S", "0"))
    provisioner = Provisioner(Api(), Volumes(Path(os.environ["FOLDER"])), delay_s)
    changed = threading.Event()
    for path in (_VOLUMES, _CLAIMS):
        threading.Thread(target=_watch, args=(path, changed), daemon=True).start()
    while True:
        changed.clear()
        waits = True
        try:
            waits = provisioner.step()
        except (OSError, subprocess.CalledProcessError, json.JSONDecodeError) as fault:
            # The API server may be away for a while, a device busy: the next step tries again.
            told = fault.stderr if isinstance(fault, subprocess.CalledProcessError) else ""
            print(f"{fault} {told}", file=sys.stderr, flush=True)  # noqa: T201
        # Changes come several at a time.
        time.sleep(_TICK_S)
        if not waits:
            changed.wait(_IDLE_S)


if __name__ == "__main__":
    main()
