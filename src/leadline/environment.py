"""The environment of every program that Leadline starts.

An allow-list: a program gets the variables that it needs and no other. Secrets in the user's
environment then reach no log, core dump or /proc/PID/environ of a child.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence

_ALWAYS = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "TMPDIR", "LANG", "LANGUAGE"),
    "LD_LIBRARY_PATH",
)
_ALWAYS_PREFIXES = ("LC_", "XDG_")
# Of Ceph's programs and of those that link its libraries, such as fio.
CEPH = ("CEPH_CONF", "CEPH_ARGS", "CEPH_KEYRING", "CEPH_LIB")
SSH = ("SSH_AUTH_SOCK", "KRB5CCNAME", "KRB5_CONFIG")
# Of programs that build images and load them: their storage, logins and proxies.
IMAGES = (
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    *("CONTAINERS_STORAGE_CONF", "BUILDAH_ISOLATION", "REGISTRY_AUTH_FILE", "CONTAINER_HOST"),
    *("DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "MINIKUBE_HOME", "CONTAINERD_ADDRESS"),
)
COMPILER = ("CC", "CPATH", "LIBRARY_PATH")


def child_environment(*names: str, **settings: str) -> Mapping[str, str]:
    """Return the environment of a program: what every program needs, the variables `names` where
    they are set, and `settings`, which come first."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _ALWAYS or name in names or name.startswith(_ALWAYS_PREFIXES)
    }
    return kept | settings


def ending_with_parent(command: Sequence[str], signal: str = "TERM") -> list[str]:
    """Return the command under util-linux's setpriv: the kernel sends it a signal when the thread
    that started it ends, also by kill -9 or while it is being started. Unchanged without setpriv.
    """
    program = shutil.which("setpriv")
    return [program, "--pdeathsig", signal, *command] if program else list(command)
