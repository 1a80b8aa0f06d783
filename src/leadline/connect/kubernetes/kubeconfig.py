"""The kubeconfig of a cluster, read as kubectl reads it.

lightkube does not read several files, `proxy-url` and current login programs.
"""

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

# lightkube supports no newer version; KUBERNETES_EXEC_INFO states the version that is used.
_EXEC_KNOWN = "client.authentication.k8s.io/v1beta1"
_EXEC_SAME = "client.authentication.k8s.io/v1"
# Paths in a kubeconfig are relative to its folder.
_FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


def read_configuration(
    kubeconfig: Path | None, context: str | None
) -> tuple[SingleConfig, str | None]:
    """Return the configuration of a context, and the proxy of its cluster.

    The order is kubectl's: the given file, else the files of $KUBECONFIG, else ~/.kube/config,
    else the service account of the pod. Raises ConfigError, OSError, ValueError, KeyError,
    TypeError or yaml.YAMLError for an unusable configuration.
    """
    named = [Path(word) for word in os.environ.get("KUBECONFIG", "").split(os.pathsep) if word]
    usual = Path("~/.kube/config").expanduser()
    if kubeconfig is not None:
        files = [kubeconfig.expanduser()]
    elif named:
        files = [file for file in named if file.is_file()]
        if not files:
            raise ConfigError(f"KUBECONFIG names no file that is there: {named[0]}")
    elif usual.is_file():
        files = [usual]
    else:
        try:
            return _select_context(KubeConfig.from_service_account(), None), None
        except (ConfigError, KeyError) as error:
            raise ConfigError(f"there is no {usual}, and this is no pod") from error
    document = _merge([_read_file(file) for file in files])
    config = _select_context(KubeConfig.from_dict(document), context)
    _require_login(config)
    for cluster in document["clusters"]:
        if cluster["name"] == config.context.cluster:
            return config, cluster["cluster"].get("proxy-url") or None
    return config, None


def _select_context(config: KubeConfig, name: str | None) -> SingleConfig:
    """Return the named context, else the current one. Raises ConfigError."""
    name = name or config.current_context
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


def _read_file(file: Path) -> dict[str, Any]:
    """Return one kubeconfig, its paths made absolute."""
    if not file.is_file():
        raise ConfigError(f"there is no file {file}")
    document = yaml.safe_load(file.read_text("utf-8"))
    if not isinstance(document, dict):
        raise ConfigError(f"{file} is no kubeconfig")
    for entry in (*_entries(document, "clusters"), *_entries(document, "users")):
        for part in entry.values():
            if isinstance(part, dict):
                _make_paths_absolute(part, file.parent)
    return document


def _make_paths_absolute(part: dict[str, Any], folder: Path) -> None:
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
        isinstance(entry, dict) and "name" in entry for entry in entries
    ):
        raise ConfigError(f"{key!r} of a kubeconfig is a list of entries with names")
    return entries


def _merge(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Merge kubeconfigs: of entries with the same name the first counts."""
    merged: dict[str, Any] = {}
    for key in ("clusters", "contexts", "users"):
        by_name: dict[str, dict[str, Any]] = {}
        for document in documents:
            for entry in _entries(document, key):
                # An entry may have only its name.
                by_name.setdefault(entry["name"], {**entry, key[:-1]: entry.get(key[:-1]) or {}})
        merged[key] = list(by_name.values())
    current = (document.get("current-context") for document in documents)
    merged["current-context"] = next((name for name in current if name), None)
    for user in merged["users"]:
        if isinstance(user["user"].get("exec"), dict):
            user["user"]["exec"] = _prepare_login(user["user"]["exec"])
    return merged


def _prepare_login(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return a login program with the input that kubectl gives it (client-go's plugins)."""
    version = written.get("apiVersion")
    credential = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    variables = [
        *(written.get("env") or ()),
        {"name": "KUBERNETES_EXEC_INFO", "value": json.dumps(credential)},
    ]
    known = _EXEC_KNOWN if version == _EXEC_SAME else version
    return {**written, "apiVersion": known, "env": variables}


def _require_login(config: SingleConfig) -> None:
    login = config.user.exec if config.user else None
    if login and shutil.which(login.command) is None:
        hint = f"; {login.installHint.strip()}" if login.installHint else ""
        raise ConfigError(f"there is no program {login.command!r} to log in with{hint}")
