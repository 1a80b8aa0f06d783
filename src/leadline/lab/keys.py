"""Keys of a lab with authentication, made here and handed to the monitor before it starts, so
that no daemon waits for another to be given one."""

from __future__ import annotations

import base64
import os
import struct
import time
from collections.abc import Mapping

from leadline.lab.conf import CLIENT, MDS, MGR, MON

_AES = 1
_KEY_BYTES = 16
_ALL = {"mon": "allow *", "osd": "allow *", "mds": "allow *", "mgr": "allow *"}


def capabilities(osds: int) -> dict[str, dict[str, str]]:
    """What each of a lab's own may do, by its name."""
    return {
        MON: {"mon": "allow *"},
        CLIENT: _ALL,
        MGR: {"mon": "allow profile mgr", "osd": "allow *", "mds": "allow *"},
        MDS: {
            "mon": "allow profile mds",
            "osd": "allow rw tag cephfs *=*",
            "mds": "allow",
            "mgr": "allow profile mds",
        },
        **{
            f"osd.{number}": {
                "mon": "allow profile osd",
                "osd": "allow *",
                "mgr": "allow profile osd",
            }
            for number in range(osds)
        },
    }


def entity(name: str) -> str:
    """A keyring's name for it: all monitors have one key."""
    return "mon." if name == MON else name


def new_key() -> str:
    """A cephx key: type, time of making, length, and random bytes, as base64 (CryptoKey::encode of
    Ceph's src/auth/Crypto.cc)."""
    made = time.time_ns()
    header = struct.pack("<HIIH", _AES, made // 10**9, made % 10**9, _KEY_BYTES)
    return base64.b64encode(header + os.urandom(_KEY_BYTES)).decode("ascii")


def render_keyring(keys: Mapping[str, str], allowed: Mapping[str, Mapping[str, str]]) -> str:
    """A keyring of the names in `keys`."""
    lines = []
    for name, key in keys.items():
        lines += [f"[{entity(name)}]", f"\tkey = {key}"]
        lines += [f'\tcaps {service} = "{what}"' for service, what in allowed[name].items()]
    return "\n".join(lines) + "\n"
