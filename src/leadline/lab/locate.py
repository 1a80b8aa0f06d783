"""Labs by name: where they lie, and the way to the cluster of one."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

from leadline import errors
from leadline.ceph.access import CephAccess
from leadline.errors import LeadlineError
from leadline.lab.conf import CLIENT, CONF, SOCKET_PATH_BYTES
from leadline.lab.state import STATE, LabState, Phase, read_state
from leadline.lab.topology import sites

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
# Below a lab's folder, with two digits of an OSD.
_LONGEST_SOCKET = len("/run/osd.47.asok")


def labs_folder(given: Path | None) -> Path:
    """`given`, else $LEADLINE_LABS, else leadline/labs where the XDG specification puts state."""
    named = given or os.environ.get("LEADLINE_LABS")
    if named:
        return Path(named).absolute()
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if Path(state).is_absolute() else Path("~/.local/state").expanduser()
    return base / "leadline" / "labs"


def lab_folder(name: str, labs: Path) -> Path:
    """The folder of a lab, whether it is there or not. Raises LeadlineError(`lab-invalid`) for a
    name that is none, or a path that is too long for sockets or not to be written in ceph.conf."""
    if not _NAME.fullmatch(name):
        raise LeadlineError(
            errors.LAB_INVALID,
            f"{name!r} cannot be the name of a lab",
            hint="a name has letters, digits, `-`, `_` and `.`, at most 40, and no other first "
            "than a letter or a digit",
        )
    folder = labs.absolute() / name
    excess = len(os.fsencode(folder)) + _LONGEST_SOCKET - SOCKET_PATH_BYTES
    if excess > 0:
        raise LeadlineError(
            errors.LAB_INVALID,
            f"the folder of the lab is {excess} bytes too long for the sockets in it",
            context=[str(folder), f"a socket's path has {SOCKET_PATH_BYTES} bytes at most"],
            hint="name a shorter folder with --labs or LEADLINE_LABS",
        )
    if re.search(r"[\s#;\"'\\$=,]", str(folder)):
        raise LeadlineError(
            errors.LAB_INVALID,
            f"the folder {str(folder)!r} has characters that a ceph.conf cannot hold",
            hint="name a folder without blanks, quotes, `#`, `;`, `$`, `=`, `,` by --labs",
        )
    return folder


def require_state(name: str, labs: Path) -> LabState:
    """What is known of a lab. Raises LeadlineError: `lab-not-found`, with the nearest name;
    `lab-not-ready` for one that is not up."""
    folder = lab_folder(name, labs)
    state = read_state(folder)
    if state is None:
        raise not_found(name, labs)
    if state.phase is not Phase.UP:
        raise LeadlineError(
            errors.LAB_NOT_READY,
            f"the lab {name!r} is not up: it is {state.phase.value}, or was when it was left",
            context=[str(folder)],
            hint=f"`leadline lab status {name}`; `leadline lab down {name}` removes what there is",
        )
    return state


def not_found(name: str, labs: Path) -> LeadlineError:
    try:
        known = sorted(entry.parent.name for entry in labs.glob(f"*/{STATE}"))
    except OSError:
        known = []
    near = difflib.get_close_matches(name, known, n=1)
    return LeadlineError(
        errors.LAB_NOT_FOUND,
        f"there is no lab {name!r}",
        context=[f"labs in {labs}: {', '.join(known) or 'none'}"],
        hint=f"did you mean {near[0]!r}?" if near else f"`leadline lab up {name}` makes one",
    )


def access_of(folder: Path, state: LabState) -> CephAccess:
    """The way to a lab's cluster, from the zone of its clients."""
    namespace = None
    if state.network is not None:
        namespace = state.network.zone(sites(state.description)[0]).namespace
    keyring = folder / "keyrings" / CLIENT if state.description.authentication else None
    return CephAccess(conf=folder / CONF, keyring=keyring, namespace=namespace)


def lab_access(name: str, labs: Path | None = None) -> CephAccess:
    """The way to the cluster of a lab by name; nothing is contacted. Raises LeadlineError:
    `lab-not-found`, `lab-not-ready`."""
    where = labs_folder(labs)
    return access_of(lab_folder(name, where), require_state(name, where))
