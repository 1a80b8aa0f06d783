"""What uses a new volume, and reports its first I/O: a pod, or the guest of a virtual machine."""

from __future__ import annotations

import time
from collections.abc import Callable

from leadline import errors
from leadline.connect.kubernetes.console import ConsoleLink, ConsoleShell
from leadline.connect.kubernetes.lifecycle import (
    AWAIT_FIRST_IO,
    AWAIT_GUEST_IO,
    GUEST_RESULT,
    INSTANCE,
    RESULT,
    LifecycleObjects,
)
from leadline.connect.kubernetes.machines import INSTANCES, find_loss
from leadline.connect.kubernetes.objects import get_object
from leadline.connect.kubernetes.pod_shell import PodShell
from leadline.connect.kubernetes.pods import CONTAINER
from leadline.connect.shell import Shell
from leadline.engines.volume_waits import Stuck
from leadline.errors import LeadlineError
from leadline.formats.volume_lifecycle import FirstIo, Role
from leadline.metrics import Op
from leadline.runner.events import StopRequest

# The volume that is used: its role and number.
Owner = tuple[Role, int]


def pod_first_io(
    objects: LifecycleObjects,
    name: str,
    uid: str,
    owner: Owner,
    now: Callable[[], float],
    bound_s: float,
) -> tuple[FirstIo, str]:
    """Return the report of a pod, and what its volume holds. Raises Stuck."""
    shell = PodShell(objects.connection, objects.namespace, name, uid, CONTAINER)
    asked, lines = _ask(shell, AWAIT_FIRST_IO, RESULT, now, bound_s)
    try:
        now_s, result = lines
        return _report(owner, asked, result, now_s=float(now_s))
    except ValueError as error:
        raise Stuck(Op.FIRST_IO, "the pod reports no first I/O") from error


def guest_first_io(
    objects: LifecycleObjects,
    name: str,
    owner: Owner,
    stop: StopRequest,
    now: Callable[[], float],
    bound_s: float,
) -> tuple[FirstIo, str]:
    """Return the report of a guest by its console, and what its volume holds. Raises Stuck: a guest
    whose agent does not answer within `bound_s` has not booted."""
    link = ConsoleLink(objects.connection, objects.namespace, name)

    def require() -> None:
        found = get_object(objects.connection, INSTANCE, INSTANCES, name, objects.namespace)
        problem = find_loss(dict(found)) if found is not None else None
        if problem is not None or found is None:
            fact = problem.fact if problem else f"the virtual machine {name!r} is gone"
            raise LeadlineError(errors.RUNNER_FAILED, fact)

    def go_on() -> None:
        if stop.requested:
            raise LeadlineError(errors.INTERRUPTED, "stopped in a storm of volumes")

    shell = ConsoleShell(link, f"virtual machine {name}", require)
    end = time.monotonic() + bound_s
    try:
        try:
            shell.meet(bound_s, go_on)
        except LeadlineError as error:
            raise Stuck(Op.VM_BOOT, "; ".join([error.fact, *error.context])) from error
        left_s = max(1.0, end - time.monotonic())
        asked, lines = _ask(shell, AWAIT_GUEST_IO, GUEST_RESULT, now, left_s)
    finally:
        link.close()
    try:
        uptime_now, result, uptime = lines
        return _report(owner, asked, result, uptimes_s=(float(uptime), float(uptime_now)))
    except ValueError as error:
        raise Stuck(Op.FIRST_IO, "the guest reports no first I/O") from error


def _report(
    owner: Owner,
    asked: tuple[float, float],
    result: str,
    *,
    now_s: float = 0.0,
    uptimes_s: tuple[float, float] | None = None,
) -> tuple[FirstIo, str]:
    """Return the line of a report and what the volume holds. `uptimes_s` of a guest at the start of
    its process and of its answer replace `now_s`. Raises ValueError."""
    started, done, content = result.split()
    if uptimes_s is not None:
        now_s = float(started) + uptimes_s[1] - uptimes_s[0]
    line = FirstIo(
        line="first-io",
        at_s=asked[0],
        role=owner[0],
        volume=owner[1],
        answered_s=asked[1],
        started_s=float(started),
        done_s=float(done),
        now_s=now_s,
        uptime_s=uptimes_s[0] if uptimes_s else None,
    )
    return line, content


def _ask(
    shell: Shell, script: str, path: str, now: Callable[[], float], bound_s: float
) -> tuple[tuple[float, float], list[str]]:
    """Return when the report was asked for and when its begin arrived, and its lines."""
    output, arrived = bytearray(), [0.0]

    def take(chunk: bytes) -> None:
        arrived[0] = arrived[0] or now()
        output.extend(chunk)

    asked_s = now()
    try:
        shell.run(script, path, bound_s=bound_s, output=take)
    except LeadlineError as error:
        raise Stuck(Op.FIRST_IO, error.fact) from error
    return (asked_s, max(asked_s, arrived[0])), output.decode("utf-8", "replace").splitlines()
