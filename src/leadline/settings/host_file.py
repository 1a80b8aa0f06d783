"""`host_file`: a file of a host that holds one value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from leadline import errors
from leadline.connect.shell import Shell, run_repeatable
from leadline.errors import LeadlineError
from leadline.settings.parameter import Host, invalid, same_value

_BOUND_S = 30.0
_LONGEST = 4096
_KERNEL = ("/proc/", "/sys/")
# A file of the kernel that offers choices marks the present one: `none [mq-deadline] kyber`.
_CHOSEN = re.compile(r"(?:^|\s)\[(\S+)\](?:\s|$)")
_READ = 'head -c 4097 -- "$1"'
# Never makes a file. The kernel gets the value in one write.
_WRITE = '[ -f "$1" ] && printf \'%s\\n\' "$2" > "$1"'


class HostFileParameter:
    """One file of one host; `shell` None: of this machine."""

    def __init__(self, path: str, host: Host, shell: Shell | None = None, where: str = "") -> None:
        self.system: Host = host
        self.name = f"{where}:{path}" if where else path
        self._path = path
        self._shell = shell

    def check(self, values: Sequence[str]) -> None:
        self.read()

    def read(self) -> str | None:
        """The value without its line break; of choices, the present one."""
        try:
            content = self._content()
        except OSError as error:
            raise invalid(f"{self.name} cannot be read: {error.strerror}") from error
        if len(content) > _LONGEST:
            raise invalid(f"{self.name} is no file of one value: it has more than {_LONGEST} bytes")
        text = content.decode("utf-8", "surrogateescape").strip()
        chosen = _CHOSEN.search(text) if self._path.startswith(_KERNEL) else None
        return chosen[1] if chosen else text

    def _content(self) -> bytes:
        if self._shell is None:
            with Path(self._path).open("rb") as stream:
                return stream.read(_LONGEST + 1)
        found = run_repeatable(self._shell, _READ, self._path, bound_s=_BOUND_S)
        if found.status:
            raise invalid(f"{self.name} cannot be read", found.error_line)
        return found.stdout

    def write(self, value: str) -> None:
        if self._shell is not None:
            found = run_repeatable(self._shell, _WRITE, self._path, value, bound_s=_BOUND_S)
            if found.status:
                raise self._refused(value, found.error_line)
            return
        try:
            # Never makes a file. The kernel gets the value in one write.
            with Path(self._path).open("r+b", buffering=0) as stream:
                stream.write(value.encode("utf-8", "surrogateescape") + b"\n")
                if not self._path.startswith(_KERNEL):
                    stream.truncate()
        except OSError as error:
            raise self._refused(value, error.strerror or str(error)) from error

    def restore(self, before: str | None) -> None:
        self.write(before or "")

    def _refused(self, text: str, reason: str) -> LeadlineError:
        return LeadlineError(
            errors.SETTING_NOT_APPLIED, f"{self.name} does not take {text!r}", context=[reason]
        )

    def fault(self, value: str) -> str:
        found = self.read()
        # Files of several numbers have tabs between them.
        if same_value(found, value) or (found or "").split() == value.split():
            return ""
        return f"it holds {found!r}"
