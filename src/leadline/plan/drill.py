"""A drill: an event in the middle of every trial of a plan, undone while the trial runs."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from leadline.plan.base import Model
from leadline.units import parse_duration

# The rate before the event has a mean and a standard deviation of so many seconds at least.
FEWEST_BEFORE_S = 5.0

_Duration = Annotated[float, BeforeValidator(parse_duration)]
_Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x20\x7f/]+$")]
_Shell = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00\n\r]+$")]


class DrillCommand(Model):
    """Lines for `sh -c`: `begin` starts the event, `end` undoes it and may run twice. Each may take
    `within`. They run in `folder`, that of the plan."""

    begin: _Shell
    end: _Shell
    within: _Duration = Field(default=60.0, gt=0, le=3600)
    folder: str = ""


class HostToAdd(Model):
    """A host of a Ceph cluster, by its name in CRUSH. Before each trial its OSDs are out until they
    hold no data, and the event brings them in. Draining takes `within` at most, and so does the
    backfill."""

    host: _Name
    within: _Duration = Field(default=600.0, gt=0, le=86400)


def _named_host(given: Any) -> Any:
    return {"host": given} if isinstance(given, str) else given


class DrillEvent(Model):
    """One event. In a lab: `stop_osd` by number, `stop_host` and `stop_zone` by name kill the OSDs
    there, `lose_link` drops every packet between two zones or racks. On any Ceph cluster:
    `add_host`. On any system: `command`."""

    stop_osd: int | None = Field(default=None, ge=0, exclude_if=lambda given: given is None)
    stop_host: _Name | None = Field(default=None, exclude_if=lambda given: given is None)
    stop_zone: _Name | None = Field(default=None, exclude_if=lambda given: given is None)
    lose_link: tuple[_Name, _Name] | None = Field(
        default=None, exclude_if=lambda given: given is None
    )
    add_host: Annotated[HostToAdd | None, BeforeValidator(_named_host)] = Field(
        default=None, exclude_if=lambda given: given is None
    )
    command: DrillCommand | None = Field(default=None, exclude_if=lambda given: given is None)

    @model_validator(mode="after")
    def _one(self) -> Self:
        kinds = tuple(type(self).model_fields)
        if sum(getattr(self, kind) is not None for kind in kinds) != 1:
            raise ValueError(f"needs exactly one of {', '.join(kinds)}")
        return self

    @property
    def in_lab(self) -> bool:
        """Whether only a lab has such an event."""
        return self.command is None and self.add_host is None

    @property
    def is_undone(self) -> bool:
        """Whether something is undone in the trial: an added host stays."""
        return self.add_host is None

    def __str__(self) -> str:
        if self.command is not None:
            return f"command: {self.command.begin}"
        if self.add_host is not None:
            return f"add host {self.add_host.host}"
        if self.stop_osd is not None:
            return f"stop osd.{self.stop_osd}"
        if self.lose_link is not None:
            return f"lose the link {' - '.join(self.lose_link)}"
        kind = "host" if self.stop_host is not None else "zone"
        return f"stop {kind} {self.stop_host or self.stop_zone}"


class Drill(Model):
    """The event begins `after` so many seconds of measured I/O and is undone when it `lasts` so
    long. `lasts` is 0 for an event that is not undone."""

    after: _Duration = Field(ge=FEWEST_BEFORE_S, le=86400)
    lasts: _Duration = Field(default=0.0, ge=0, le=86400)
    event: DrillEvent

    @model_validator(mode="after")
    def _lasts(self) -> Self:
        if self.event.is_undone and not self.lasts:
            raise ValueError("needs lasts, such as `lasts: 20s`: the event is undone after it")
        if self.lasts and not self.event.is_undone:
            raise ValueError("an added host stays: leave out lasts")
        return self

    @property
    def end_s(self) -> float:
        """When the event is undone, in seconds of measured I/O."""
        return self.after + self.lasts
