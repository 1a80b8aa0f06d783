"""Several watches of one trial as one."""

from __future__ import annotations

from typing import Protocol


class Watch(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...


class Watches:
    """Begun in their order, ended the other way round."""

    def __init__(self, *watches: Watch) -> None:
        self._watches = watches
        for one in watches:
            one.start()

    def stop(self) -> None:
        for one in reversed(self._watches):
            one.stop()
