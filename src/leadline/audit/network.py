"""Whether a target's I/O crosses a network, and how one knows."""

from __future__ import annotations

import re

from leadline.formats.output import JobOptions
from leadline.plan.models import Target

# Engines of fio (and Ceph's own tools) that speak a network protocol themselves.
_ENGINES = frozenset(
    {"rbd", "rados", "http", "nfs", "libiscsi", "nbd", "libhdfs", "gfapi", "gfapi_async"}
    | {"rbd-bench", "rados-bench"}
)
# Words in names of storage whose every read crosses at least a TCP connection. Not DRBD, LINSTOR
# and Portworx, which read a local replica past the network, and not RDMA, which is faster.
_WORDS = re.compile(
    r"ceph\w*|rook|k?rbd|librbd|rados\w*|mayastor|longhorn|jiva|cstor|k?nfs|nbd|iscsi"
    r"|nvmf|nvmeof|nvmetcp|gluster\w*|beegfs|lustre|cifs|smb|azurefile|efs"
)
_LOCAL = frozenset({"local", "localpv", "hostpath", "lvm", "lvms", "topolvm", "tmpfs", "emptydir"})
_PATHS = ("filename", "directory")


def network_of_target(target: Target | None, name: str) -> str:
    """Why a target is taken for networked, as a clause; empty if it is not known to be."""
    if target is not None and target.kind is not None and target.kind.on_ceph:
        return f"the target is {target.kind.value}"
    # A name made of a file's path says nothing of the storage but in its last part.
    word = _networked_word(name.rsplit("/", 1)[-1])
    return f"the target's name says {word!r}" if word else ""


def network_of_job(options: JobOptions) -> str:
    """The same from what a job says of its engine and files."""
    if options.engine in _ENGINES:
        return f"the engine is {options.engine}"
    for key in _PATHS:
        word = _networked_word(options.text(key))
        if word:
            return f"the job's {key} says {word!r}"
    return ""


def _networked_word(name: str) -> str:
    tokens = [token.rstrip("0123456789") for token in re.split(r"[\W_]+", name.lower())]
    if _LOCAL & set(tokens):
        return ""
    for before, token in zip(["", *tokens], tokens, strict=False):
        if _WORDS.fullmatch(token):
            return token
        if before == "nvme" and token in ("tcp", "of"):
            return f"nvme-{token}"
    return ""
