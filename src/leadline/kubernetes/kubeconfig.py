"""The kubeconfig that kubectl would take, which may lie in several files; with what lightkube
leaves out of it: files beside each other, `proxy-url`, and login programs of today."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from lightkube import ConfigError, KubeConfig
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import User

from leadline.kubernetes.access import KubernetesAccess

# lightkube knows no newer one; a program is told by KUBERNETES_EXEC_INFO which of them is meant.
_EXEC_KNOWN = "client.authentication.k8s.io/v1beta1"
_EXEC_SAME = "client.authentication.k8s.io/v1"
# Paths, as a kubeconfig has them, are meant from its own folder.
_FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


def configuration(access: KubernetesAccess) -> tuple[SingleConfig, str | None]:
    """The configuration of a context, and the proxy on the way to its cluster.

    As kubectl: what is named, else the files of $KUBECONFIG together, else the usual file, and
    only then the account of the pod that this may run in. Raises ConfigError, OSError, ValueError,
    KeyError, TypeError or yaml.YAMLError for what is none.
    """
    named = [Path(one) for one in os.environ.get("KUBECONFIG", "").split(os.pathsep) if one]
    usual = Path("~/.kube/config").expanduser()
    if access.kubeconfig is not None:
        files = [access.kubeconfig.expanduser()]
    elif named:
        files = [one for one in named if one.is_file()]
        if not files:
            raise ConfigError(f"KUBECONFIG names no file that is there: {named[0]}")
    elif usual.is_file():
        files = [usual]
    else:
        try:
            return _known(KubeConfig.from_service_account(), None), None
        except (ConfigError, KeyError) as error:
            raise ConfigError(f"there is no {usual}, and this is no pod") from error
    document = _merged([_read(file) for file in files])
    config = _known(KubeConfig.from_dict(document), access.context)
    _require_login(config)
    for one in document["clusters"]:
        if one["name"] == config.context.cluster:
            return config, one["cluster"].get("proxy-url") or None
    return config, None


def _known(config: KubeConfig, asked: str | None) -> SingleConfig:
    """The context that is asked for, else the current one. Raises ConfigError."""
    name = asked or config.current_context
    contexts = ", ".join(config.contexts) or "none"
    if not name:
        raise ConfigError(f"no context is current (contexts: {contexts})")
    context = config.contexts.get(name)
    if context is None:
        raise ConfigError(f"there is no context {name!r} (contexts: {contexts})")
    if context.cluster not in config.clusters:
        raise ConfigError(f"the context {name!r} names a cluster {context.cluster!r} without entry")
    if context.user and context.user not in config.users:
        raise ConfigError(f"the context {name!r} names a user {context.user!r} without entry")
    user = config.users[context.user] if context.user else User()
    return SingleConfig(
        context_name=name, context=context, cluster=config.clusters[context.cluster], user=user
    )


def _read(file: Path) -> dict[str, Any]:
    """One file, the paths in it made absolute."""
    if not file.is_file():
        raise ConfigError(f"there is no file {file}")
    document = yaml.safe_load(file.read_text("utf-8"))
    if not isinstance(document, dict):
        raise ConfigError(f"{file} is no kubeconfig")
    for one in (*_entries(document, "clusters"), *_entries(document, "users")):
        for part in one.values():
            if isinstance(part, dict):
                _locate(part, file.parent)
    return document


def _locate(part: dict[str, Any], folder: Path) -> None:
    for key in _FILES:
        if part.get(key):
            part[key] = str((folder / str(part[key])).absolute())
    login = part.get("exec")
    if isinstance(login, dict):
        command = str(login.get("command", ""))
        if "/" in command:
            login["command"] = str((folder / command).absolute())


def _entries(document: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    entries = document.get(key) or []
    if not isinstance(entries, list) or not all(
        isinstance(one, dict) and "name" in one for one in entries
    ):
        raise ConfigError(f"{key!r} of a kubeconfig is a list of entries with names")
    return entries


def _merged(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Several as one: of what has the same name, the first counts."""
    merged: dict[str, Any] = {}
    for key in ("clusters", "contexts", "users"):
        by_name: dict[str, dict[str, Any]] = {}
        for document in documents:
            for one in _entries(document, key):
                # An entry may be there by its name alone.
                by_name.setdefault(one["name"], {**one, key[:-1]: one.get(key[:-1]) or {}})
        merged[key] = list(by_name.values())
    current = (document.get("current-context") for document in documents)
    merged["current-context"] = next((one for one in current if one), None)
    for one in merged["users"]:
        if isinstance(one["user"].get("exec"), dict):
            one["user"]["exec"] = _login(one["user"]["exec"])
    return merged


def _login(written: Mapping[str, Any]) -> dict[str, Any]:
    """A login program, told what kubectl tells it (client-go's credential plugins)."""
    version = written.get("apiVersion")
    told = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    variables = [
        *(written.get("env") or ()),
        {"name": "KUBERNETES_EXEC_INFO", "value": json.dumps(told)},
    ]
    known = _EXEC_KNOWN if version == _EXEC_SAME else version
    return {**written, "apiVersion": known, "env": variables}


def _require_login(config: SingleConfig) -> None:
    """Raise ConfigError where the program that logs in is not there."""
    login = config.user.exec if config.user else None
    if login and shutil.which(login.command) is None:
        hint = f"; {login.installHint.strip()}" if login.installHint else ""
        raise ConfigError(f"there is no program {login.command!r} to log in with{hint}")
