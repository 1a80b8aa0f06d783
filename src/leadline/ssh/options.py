"""How the OpenSSH client is called: nobody is asked anything, and nothing that a user typed can
become an option."""

from __future__ import annotations

import base64
import os
import shlex
from collections.abc import Sequence

# Names another configuration than ~/.ssh/config, as `ssh -F` does.
CONFIG = "LEADLINE_SSH_CONFIG"
# A host that is gone is told within ALIVE_S x ALIVE_COUNT.
ALIVE_S = 5
ALIVE_COUNT = 3
CONNECT_S = 10

_FIXED = (
    "BatchMode=yes",
    f"ConnectTimeout={CONNECT_S}",
    "ConnectionAttempts=1",
    f"ServerAliveInterval={ALIVE_S}",
    f"ServerAliveCountMax={ALIVE_COUNT}",
    "LogLevel=ERROR",
    "RequestTTY=no",
    "EscapeChar=none",
    "RemoteCommand=none",
    "PermitLocalCommand=no",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ControlPersist=no",
)


def ssh(destination: str, options: Sequence[str], command: str) -> tuple[str, ...]:
    """The OpenSSH client's command line that has `command` done at `destination` (`name`,
    `user@name`, `[IPv6]`); the user's configuration gives port, key and jump hosts. `options` go
    before those that all calls have."""
    config = os.environ.get(CONFIG)
    given = [argument for one in (*options, *_FIXED) for argument in ("-o", one)]
    user, at, name = destination.rpartition("@")
    bare = user + at + name.removeprefix("[").removesuffix("]")
    return ("ssh", *(("-F", config) if config else ()), *given, "--", bare, command)


def spelt(script: str, *arguments: str) -> str:
    """`sh -c SCRIPT sh ARGUMENTS...` as text that every login shell takes for the same (fish and
    csh read backslashes, exclamation marks and line breaks in quotes otherwise than POSIX says).
    Script and arguments may have some 90 KiB in all, as Linux takes no longer argument."""
    line = shlex.join(("sh", "-c", script, "sh", *arguments))
    packed = base64.b64encode(line.encode("utf-8", "surrogateescape")).decode()
    return f"exec sh -c 'eval \"exec $(echo {packed} | base64 -d)\"'"
