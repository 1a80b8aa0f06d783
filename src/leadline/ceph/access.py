"""Where a cluster is and who we are to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leadline import errors
from leadline.errors import LeadlineError

INSTALL_CLIENT = "install Ceph's client programs (Debian and Fedora: ceph-common)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CephAccess:
    """A configuration file, a name without `client.`, a keyring unless the configuration names
    it, and the network namespace from which the cluster can be reached (a lab's)."""

    conf: Path
    name: str = "admin"
    keyring: Path | None = None
    namespace: Path | None = None

    @property
    def prefix(self) -> tuple[str, ...]:
        """What a command line begins with to run where the cluster can be reached. nsenter, not
        `ip netns exec`, which would hide mounts made under it."""
        return ("nsenter", f"--net={self.namespace}", "--") if self.namespace else ()

    def command(self, program: str, *arguments: str) -> tuple[str, ...]:
        """The command line of one of Ceph's own programs (ceph, rbd, rados) for this cluster."""
        keyring = ("--keyring", str(self.keyring)) if self.keyring else ()
        who = ("--conf", str(self.conf), "--id", self.name, *keyring)
        return (*self.prefix, program, *who, *arguments)

    def require_conf(self) -> None:
        """Raise LeadlineError(`ceph-unreachable`, `ceph-denied`) for files that are not there."""
        try:
            self.conf.read_bytes()
        except OSError as error:
            raise LeadlineError(
                errors.CEPH_UNREACHABLE,
                f"the configuration {str(self.conf)!r} cannot be read: {error.strerror}",
                hint="name the cluster's ceph.conf with --ceph-conf, or a lab with --lab",
            ) from error
        if self.keyring is None:
            return
        try:
            self.keyring.read_bytes()
        except OSError as error:
            raise LeadlineError(
                errors.CEPH_DENIED,
                f"the keyring {str(self.keyring)!r} cannot be read: {error.strerror}",
                hint="name the keyring of the user that --id names with --keyring",
            ) from error
