"""What the OpenSSH client complains of, in Leadline's words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from leadline import errors
from leadline.errors import ErrorKind, LeadlineError


@dataclass(frozen=True, slots=True, kw_only=True)
class _Complaint:
    """`pattern` in what ssh says; `fact` goes on from the host's name; `{host}` in the hint.
    `lasting`: to ask again would be in vain."""

    pattern: str
    fact: str
    hint: str
    lasting: bool = True


_BY_HAND = "try `ssh {host} true` by hand, which has to work without a question"
_KNOWN = (
    _Complaint(
        pattern="Could not resolve hostname",
        fact="has a name that is not known here",
        hint="write the host as `ssh` takes it, or give it a name in ~/.ssh/config",
    ),
    _Complaint(
        pattern="IDENTIFICATION HAS CHANGED",
        fact="has another host key than the one that is known",
        hint="find out why before anything else: it may be another machine. If it was installed "
        "anew: `ssh-keygen -R {host}`, then `ssh {host}` and compare the fingerprint",
    ),
    _Complaint(
        pattern="Host key verification failed|host key is known for",
        fact="has a host key that is not known here",
        hint="connect once by hand, `ssh {host}`, and compare the fingerprint",
    ),
    _Complaint(
        pattern="Permission denied|Too many authentication failures",
        fact="does not let this user in",
        hint="nobody is asked for a password: `ssh-copy-id {host}`, with a key that needs no "
        "passphrase or lies in an agent",
    ),
    _Complaint(
        pattern="Bad configuration option|Bad owner or permissions|Can't open user config|"
        "terminating, .* bad configuration|unsupported option",
        fact="cannot be reached with this configuration of ssh",
        hint="correct ~/.ssh/config, or the file that LEADLINE_SSH_CONFIG names",
    ),
    _Complaint(
        pattern="Connection refused",
        fact="refuses the connection",
        hint="is sshd running there, at that port? " + _BY_HAND,
        lasting=False,
    ),
    _Complaint(
        pattern="timed out|Timeout|No route to host|Network is unreachable|Host is down",
        fact="does not answer",
        hint="is it up, and is there a way to it? " + _BY_HAND,
        lasting=False,
    ),
)
_OTHER = _Complaint(pattern="", fact="is not reached by ssh", hint=_BY_HAND, lasting=False)


class NotReached(Exception):
    """No connection could be made; `lasting`: nor will one."""

    def __init__(self, host: str, said: str) -> None:
        super().__init__(said)
        self._host = host
        self._said = [line.strip() for line in said.splitlines() if line.strip()]
        self._complaint = next(
            (one for one in _KNOWN if re.search(one.pattern, said, re.IGNORECASE)), _OTHER
        )
        self.lasting = self._complaint.lasting

    def error(self, kind: ErrorKind) -> LeadlineError:
        return LeadlineError(
            kind,
            f"the host {self._host!r} {self._complaint.fact}",
            context=[f"ssh: {line}" for line in self._said[-2:]],
            hint=self._complaint.hint.format(host=self._host),
        )


def no_client() -> LeadlineError:
    return LeadlineError(
        errors.HOST_UNREACHABLE,
        "there is no ssh on this machine",
        hint="install it: apt-get install openssh-client",
    )


def no_shell(host: str, complaint: str) -> LeadlineError:
    return LeadlineError(
        errors.HOST_UNREACHABLE,
        f"the host {host!r} lets this user in, but runs no commands: {complaint}",
        hint="it needs a login shell, sh and base64, and a key that is bound to no command",
    )


def lost(host: str, why: str) -> LeadlineError:
    return LeadlineError(
        errors.SHELL_LOST,
        f"the connection to the host {host!r} was lost: {why}",
        hint="look at the host and the network between; " + _BY_HAND.format(host=host),
    )


def silent(host: str, bound_s: float) -> LeadlineError:
    return LeadlineError(
        errors.SHELL_LOST,
        f"the host {host!r} gave no answer within {bound_s:.0f} s",
        hint="look at the host: its storage may hang",
    )
