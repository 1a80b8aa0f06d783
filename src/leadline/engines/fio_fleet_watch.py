"""What is seen of a fleet while its client runs, which tells nothing itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from leadline import errors
from leadline.archive.records import Problem
from leadline.engines.fio_fleet_clients import names_of
from leadline.engines.fio_fleet_servers import Servers
from leadline.engines.fio_rate import Pace, Section, Watched
from leadline.runner.ports import Job, Progress
from leadline.runner.stop import StopRequest

_LOOK_S = 1.0


class FleetWatch(Watched):
    """Sees while the client runs which servers are lost, and how fast the fleet is."""

    def __init__(
        self,
        user: StopRequest,
        servers: Servers,
        job: Job,
        sections: Sequence[Section],
        progress: Callable[[Progress], None],
    ) -> None:
        super().__init__(user)
        self._servers = servers
        self._clients = {name: None for name in names_of(job) if name.startswith("c")}
        self._sections = sections
        self._pace = Pace(sections, len(self._clients))
        self._progress = progress
        self._began: float | None = None
        self._looked_s = 0.0
        self._bytes = 0
        self.lost = ""
        self.seen: Problem | None = None

    def begin(self) -> None:
        """The client starts now."""
        self._began = time.monotonic()

    def problem(self) -> Problem | None:
        if self.seen is None:
            self._look()
            self.seen = lost_problem(self.lost) if self.lost else self._pace.problem
        return self.seen

    def _look(self) -> None:
        elapsed_s = time.monotonic() - self._began if self._began is not None else 0.0
        gone = self._servers.gone(whole=bool(self._sections))
        # At the end all servers are done within a moment of each other.
        number, _ = self._pace.at(elapsed_s)
        if gone and self._sections and number >= len(self._sections):
            return
        if gone:
            at = f"{elapsed_s:.1f} s after the start" if self._began is not None else "at its start"
            self.lost = f"client {gone[0]} was lost {at}"
            return
        since_s = elapsed_s - self._looked_s
        if since_s < _LOOK_S or self._began is None:
            return
        moved = self._servers.moved_bytes(self._clients)
        if moved is None or number >= len(self._sections):
            return
        iops = max(0, moved - self._bytes) / self._sections[number].block_size / since_s
        self._bytes, self._looked_s = moved, elapsed_s
        self._pace.see(iops, elapsed_s)
        self._progress(Progress(iops=iops))


def lost_problem(fact: str, context: Sequence[str] = ()) -> Problem:
    return Problem(
        code=errors.CLIENT_LOST.code,
        fact=fact,
        context=tuple(context),
        hint="see that the load generator is there and has memory enough, then "
        "`leadline run --resume --retry-failed`",
    )
