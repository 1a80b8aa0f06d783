"""`zfs_parameter`: a parameter of the ZFS kernel module of this machine."""

from __future__ import annotations

import difflib
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from leadline import errors
from leadline.errors import LeadlineError
from leadline.plan.setting_commands import ZFS_PARAMETERS, module_value
from leadline.settings.host_file import HostFileParameter
from leadline.settings.parameter import Host, invalid, same_value

ARC = Path("/proc/spl/kstat/zfs/arcstats")
# The module keeps the text of these, and ignores a value out of range and the default 0
# (module/zfs/arc.c, arc_tuning_update). Where there is one: the statistic of the value in effect.
_IN_EFFECT = {
    "zfs_arc_max": "c_max",
    "zfs_arc_min": "c_min",
    "zfs_arc_sys_free": "arc_sys_free",
    "zfs_arc_grow_retry": "",
    "zfs_arc_shrink_shift": "",
    "zfs_arc_min_prefetch_ms": "",
    "zfs_arc_min_prescient_prefetch_ms": "",
}


class ZfsModuleParameter(HostFileParameter):
    """A parameter in `folder`; `arc` holds the statistics of the cache (ARC)."""

    def __init__(
        self, name: str, host: Host, folder: Path = Path(ZFS_PARAMETERS), arc: Path = ARC
    ) -> None:
        super().__init__(str(folder / name), host)
        self._key = name
        self._file = folder / name
        self._arc = arc

    def check(self, values: Sequence[str]) -> None:
        """Raise LeadlineError: `zfs-missing` without a module, `setting-invalid` for a parameter
        that it does not have, that is read when the module is loaded, or that cannot be restored.
        """
        try:
            known = sorted(entry.name for entry in self._file.parent.iterdir())
        except OSError as error:
            raise LeadlineError(
                errors.ZFS_MISSING,
                f"the ZFS kernel module is not loaded: no parameter {self._key!r} can be set",
                context=[f"{error.filename}: {error.strerror}"],
                hint="`modprobe zfs` loads it; zfs-fuse has no parameters",
            ) from error
        if self._key not in known:
            near = difflib.get_close_matches(self._key, known, n=1)
            raise invalid(
                f"the ZFS kernel module has no parameter {self._key!r}",
                hint=f"did you mean {near[0]!r}?" if near else f"`ls {self._file.parent}`",
            )
        if not self._file.stat().st_mode & stat.S_IWUSR:
            raise invalid(
                f"the ZFS kernel module reads {self._key!r} only when it is loaded",
                hint="set it in /etc/modprobe.d and load the module again, once for each value",
            )
        if self.read() == "0" and self._key in _IN_EFFECT:
            value = self._in_effect() or "VALUE"
            raise invalid(
                f"{self._key} is 0, the module's default, which has no effect when it is set again",
                hint=f"set the present value: echo {value} > {self._file}",
            )

    def write(self, value: str) -> None:
        super().write(module_value(value))

    def fault(self, value: str) -> str:
        found = super().fault(value)
        in_effect = self._in_effect()
        if found or not in_effect or same_value(in_effect, value):
            return found
        return f"the module ignores it, and {in_effect} stays in effect"

    def _in_effect(self) -> str:
        """The value in effect, of the parameters that have such a statistic; else empty."""
        statistic = _IN_EFFECT.get(self._key)
        with suppress(OSError):
            rows = (line.split() for line in self._arc.read_text("utf-8", "replace").splitlines())
            return next((row[2] for row in rows if row[:1] == [statistic]), "")
        return ""
