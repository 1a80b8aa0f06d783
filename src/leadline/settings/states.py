"""The states of a plan on running systems: applied before trials, and restored on every way out.

What a change undoes is durable in the archive before the system changes (`archive.records.
SettingChange`). A value that another user has set meanwhile is never overwritten.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Protocol

from leadline import errors
from leadline.archive.records import SettingChange, SettingStep
from leadline.errors import LeadlineError
from leadline.plan.models import Plan, Target
from leadline.plan.settings import Setting, state_text
from leadline.settings.parameter import Parameter, System, same_value

# The parameters of a setting on a cluster of the plan; empty where it has none.
Finder = Callable[[Plan, Setting, str], Sequence[Parameter]]


# How the text in the place of a secret begins.
REDACTED = "[redacted"
# Hexadecimal digits of a digest in a mark.
_DIGITS = 32


class Journal(Protocol):
    """Records a step durably."""

    def note_change(self, change: SettingChange) -> None: ...


@dataclass(slots=True, kw_only=True)
class _Held:
    """A parameter with its value before the run, the values that it may have by this run's doing,
    and whether it is changed."""

    parameter: Parameter
    setting: str
    cluster: str
    before: str | None
    may_have: tuple[str | None, ...] = ()
    changed: bool = False
    value: str | None = None

    @property
    def label(self) -> str:
        return f"{self.setting}: {self.parameter.name}"

    def note(
        self, journal: Journal, step: SettingStep, value: str | None = None, read: str | None = None
    ) -> None:
        journal.note_change(
            SettingChange(
                at=_now(),
                setting=self.setting,
                cluster=self.cluster,
                parameter=self.parameter.name,
                step=step,
                before=self.before,
                value=value,
                read=read,
            )
        )

    def is_own(self, found: str | None) -> bool:
        """Whether a value is what this run may have set."""
        return any(same_value(found, text) for text in self.may_have)


class States:
    """The states of one session. `note` gets messages about changes."""

    def __init__(self, find: Finder, note: Callable[[str], None] = lambda sentence: None) -> None:
        self._plan: Plan | None = None
        self._find = find
        self._note = note
        self._held: dict[tuple[str, str], list[_Held]] = {}
        self._systems: dict[str, System] = {}
        # The parameter for which each system got the mark of the run, by the system's name.
        self._claimed: dict[str, _Held] = {}
        self._refused: dict[tuple[tuple[str, str], ...], LeadlineError] = {}
        # Why no further trial can run: what the system was cannot be had again.
        self._lost: LeadlineError | None = None
        # What is not as before, by parameter.
        self._left: dict[str, str] = {}

    def require(self, plan: Plan) -> None:
        """Lock the systems of a plan, read every parameter and check every value; nothing is
        changed.

        Raises LeadlineError: `setting-invalid`, `settings-in-use`, and those of the systems.
        """
        self._plan = plan
        for setting, cluster in used_settings(plan):
            held = []
            for parameter in self._find(plan, setting, cluster):
                self._systems[parameter.system.name] = parameter.system
                parameter.system.lock()
                parameter.check(setting.values)
                held.append(
                    _Held(
                        parameter=parameter,
                        setting=setting.name,
                        cluster=cluster,
                        before=parameter.read(),
                    )
                )
            self._held[setting.name, cluster] = held

    def enter(self, target: Target, run: str, journal: Journal, go_on: Callable[[], None]) -> None:
        """Bring the systems into the state of a target, and wait until they have settled.

        `go_on` raises after a request to stop. Raises LeadlineError: `setting-not-applied` with the
        setting restored.
        """
        if self._lost is not None:
            raise self._lost
        plan = self._plan
        assert plan is not None, "require comes first"
        applied = plan.applied(target.name)
        state = tuple(sorted({**applied, "": target.cluster}.items()))
        if state in self._refused:
            raise self._refused[state]
        wanted = {
            id(held): value
            for name, value in applied.items()
            for held in self._held[name, cluster_of(plan.setting(name), target)]
        }
        touched = [
            *self._leave_others(wanted, journal),
            *(held for held in self._all if wanted.get(id(held)) not in (None, held.value)),
        ]
        if not touched:
            return
        self._note(f"state: {state_text(applied) or 'present'}")
        try:
            for held in touched:
                if id(held) in wanted:
                    self._apply(held, wanted[id(held)], run, journal)
            for name in dict.fromkeys(held.parameter.system.name for held in touched):
                self._systems[name].settle(go_on)
        except LeadlineError as error:
            if error.kind is errors.INTERRUPTED:
                raise
            refusal = _refusal(error, applied)
            self._refused[state] = refusal
            for held in touched:
                self._restore(held, journal)
            raise self._lost or refusal from error

    def _undos(self, system: str) -> tuple[str, ...]:
        """What undoes each change that the run may make on a system, as digests for its mark."""
        assert self._plan is not None, "require comes first"
        return tuple(
            undo_digest(self._plan.setting(held.setting), held)
            for held in self._all
            if held.parameter.system.name == system
        )

    @property
    def _all(self) -> Iterable[_Held]:
        return (held for several in self._held.values() for held in several)

    def _leave_others(self, wanted: Mapping[int, str], journal: Journal) -> list[_Held]:
        """Restore what the next state does not need; return it. Raises LeadlineError."""
        others = [held for held in self._all if held.changed and id(held) not in wanted]
        for held in others:
            self._restore(held, journal)
        if self._lost is not None:
            raise self._lost
        return others

    def _apply(self, held: _Held, value: str, run: str, journal: Journal) -> None:
        """Set a value, read it back, and see that it is in effect. Raises LeadlineError."""
        parameter = held.parameter
        found = parameter.read()
        if not (held.is_own(found) if held.changed else same_value(found, held.before)):
            self._keep(held, found, journal)
            assert self._lost is not None
            raise self._lost
        held.note(journal, SettingStep.APPLY, value)
        held.may_have, held.changed = (*dict.fromkeys((found, held.before, value)),), True
        if parameter.system.name not in self._claimed:
            note_mark(journal, held, SettingStep.APPLY)
            self._claimed[parameter.system.name] = held
            parameter.system.claim(run, self._undos(parameter.system.name))
            note_mark(journal, held, SettingStep.APPLIED)
        parameter.write(value)
        held.value = value
        read = parameter.read()
        fault = parameter.fault(value)
        held.note(journal, SettingStep.REFUSED if fault else SettingStep.APPLIED, value, read)
        held.may_have = (*held.may_have, read) if fault else (value, read)
        if fault:
            raise LeadlineError(
                errors.SETTING_NOT_APPLIED,
                f"{held.label} is not in effect after it was set to {value!r}: {fault}",
            )

    def _restore(self, held: _Held, journal: Journal) -> None:
        """Restore a parameter; what fails is kept as a sentence, and stops further trials."""
        if not held.changed:
            return
        held.value = None
        try:
            kept = restore(held, journal)
        except (LeadlineError, OSError, LookupError, ValueError) as error:
            # Whatever a system answers, all other parameters are restored.
            reason = error.fact if isinstance(error, LeadlineError) else repr(error)
            kept = f"{held.label} was not restored to {_shown(held.before)}: {reason}"
        if kept:
            self._lose(held, kept)
        else:
            self._left.pop(held.label, None)

    def _keep(self, held: _Held, found: str | None, journal: Journal) -> None:
        """Leave a value that another user has set."""
        held.note(journal, SettingStep.KEPT, read=found)
        held.changed = False
        self._lose(held, _foreign(held, found))

    def _lose(self, held: _Held, sentence: str) -> None:
        self._left[held.label] = sentence
        self._lost = self._lost or LeadlineError(
            errors.SETTING_NOT_APPLIED,
            sentence,
            hint="the trials after it would not measure the states of the plan: "
            "start a new run when the system is as it should be",
        )

    def leave(self, run: str, journal: Journal) -> tuple[str, ...]:
        """Restore everything and unlock the systems; sentences about what is not as before. May be
        called twice and never raises."""
        for held in self._all:
            self._restore(held, journal)
        changed = {held.parameter.system.name for held in self._all if held.changed}
        for name in sorted(self._claimed.keys() - changed):
            claimed = self._claimed[name]
            try:
                self._systems[name].disclaim(run)
                note_mark(journal, claimed, SettingStep.RESTORED)
                del self._claimed[name]
            except LeadlineError as error:
                self._left[name] = f"the mark of the run on {name} remains: {error.fact}"
        self.unlock()
        return tuple(self._left.values())

    def unlock(self) -> None:
        """Let other runs change the systems. May be called twice."""
        for system in self._systems.values():
            system.unlock()


def restore(held: _Held, journal: Journal) -> str:
    """Restore a parameter and compare it with its value before the run.

    Returns a sentence where another user has changed it: then it stays. Raises LeadlineError.
    """
    parameter = held.parameter
    found = parameter.read()
    if found != held.before:
        if not held.is_own(found):
            held.note(journal, SettingStep.KEPT, read=found)
            held.changed = False
            return _foreign(held, found)
        # An archive that cannot be written is no reason to leave the system changed.
        with suppress(LeadlineError):
            held.note(journal, SettingStep.RESTORE, held.before)
        held.may_have = (*held.may_have, held.before)
        parameter.restore(held.before)
        found = parameter.read()
        if found != held.before:
            raise LeadlineError(
                errors.LEFT_BEHIND, f"it is {_shown(found)} after it was set to the value before"
            )
    held.note(journal, SettingStep.RESTORED, held.before, found)
    held.changed = False
    return ""


def restore_unrestored(
    plan: Plan,
    run: str,
    changes: Iterable[Sequence[SettingChange]],
    find: Finder,
    journal: Journal,
    allowed: Sequence[str] = (),
) -> tuple[list[str], list[str]]:
    """Restore what a killed session of a run changed.

    An archive of unknown origin could name any program or file: a system without the mark of the
    run is left as it is, and stays recorded as changed. A setting that is `allowed` needs no mark.

    Returns sentences about what was restored, and about what is not as before.
    """
    done: list[str] = []
    problems: list[str] = []
    locked: dict[str, System] = {}
    failed: set[str] = set()
    # The mark of a system goes last: until then it keeps other runs away.
    ordered = sorted(changes, key=lambda steps: steps[-1].parameter == MARK)
    marks = {steps[-1].read: steps[-1] for steps in ordered if steps[-1].parameter == MARK}
    for steps in ordered:
        last = steps[-1]
        system = ""
        try:
            setting = plan.setting(last.setting)
            if setting.option:
                raise LeadlineError(errors.PLAN_INVALID, "it is no setting of a running system")
            if REDACTED in (last.before or "") or REDACTED in setting.model_dump_json():
                raise LeadlineError(
                    errors.LEFT_BEHIND, "the archive lacks a secret that is needed to restore it"
                )
            named = {parameter.name: parameter for parameter in find(plan, setting, last.cluster)}
            parameter = named.get(last.parameter, *list(named.values())[:1])
            if parameter is None:
                # Of a lab that is gone, with its settings.
                journal.note_change(last.model_copy(update={"step": SettingStep.RESTORED}))
                continue
            system = parameter.system.name
            parameter.system.lock(run)
            locked[system] = parameter.system
            held = _Held(
                parameter=parameter,
                setting=last.setting,
                cluster=last.cluster,
                before=last.before,
                may_have=values_set(steps),
                changed=True,
            )
            # Versions before 0.3 did not record the system and place of a mark.
            mark = marks.get(system, marks.get(None))
            place = mark.value if mark is not None else None
            if last.parameter == MARK:
                if system not in failed:
                    remaining = _remove_mark(held, place or "", run, journal)
                    problems += remaining
                    if not remaining and not done:
                        done.append(f"removed the mark of the run on {system}")
            elif last.setting in allowed or _is_claimed(held, setting, run):
                kept = restore(held, journal)
                problems += [kept] if kept else []
                done += [] if kept else [f"restored {held.label} to {_shown(last.before)}"]
            elif _is_unchanged(held, setting, steps, mark):
                held.note(journal, SettingStep.RESTORED)
            else:
                failed.add(system)
                problems.append(
                    f"{held.label} was not restored to {_shown(last.before)}: "
                    f"{_marked_elsewhere(parameter.system, place)}; or restore it by hand, then "
                    f"`leadline clean {run} --allow-archived {last.setting}`"
                )
        except LeadlineError as error:
            what = f"{last.setting}: {last.parameter or 'the mark of the run'}"
            problems.append(f"{what} was not restored to {_shown(last.before)}: {error.fact}")
            failed.add(system)
    for opened in locked.values():
        opened.unlock()
    return done, problems


def undo_digest(setting: Setting, held: _Held) -> str:
    """Return the digest of what undoes a change: the setting, the parameter, the value before."""
    parts = [setting.model_dump_json(), held.cluster, held.parameter.name, held.before]
    return sha256(json.dumps(parts).encode()).hexdigest()[:_DIGITS]


def _is_claimed(held: _Held, setting: Setting, run: str) -> bool:
    """Return whether the system of a parameter has the mark of the run for what undoes its change:
    an archive may have been edited since."""
    system = held.parameter.system
    earlier = setting.command is None and system.is_claimed(run, "")
    return earlier or system.is_claimed(run, undo_digest(setting, held))


def _is_unchanged(
    held: _Held, setting: Setting, steps: Sequence[SettingChange], mark: SettingChange | None
) -> bool:
    """Return whether a parameter of a system without the mark of the run is as before the run.
    `mark` is the last record of that mark."""
    # A change is recorded, then the mark, which is set and recorded again before the change.
    begun = {step.step for step in steps} == {SettingStep.APPLY}
    unset = mark is None or (mark.step is SettingStep.APPLY and mark.read is not None)
    # A command of the archive is not run.
    return (begun and unset) or (setting.command is None and held.parameter.read() == held.before)


def _remove_mark(held: _Held, place: str, run: str, journal: Journal) -> tuple[str, ...]:
    """Remove the mark of a system of which all is restored; sentences about what failed."""
    system = held.parameter.system
    if system.marked_by() != run and place != system.mark_place:
        return (f"the mark of the run remains: {_marked_elsewhere(system, place)}",)
    system.disclaim(run)
    note_mark(journal, held, SettingStep.RESTORED)
    return ()


def _marked_elsewhere(system: System, place: str | None) -> str:
    if place and place != system.mark_place:
        return (
            f"the mark of the run on {system.name} is {place}, and {system.mark_place} is looked "
            "at here: run `leadline clean` as the user of the run, with the same HOME"
        )
    return f"{system.name} has no mark of this run for these settings ({system.mark_place})"


# The mark of a run on a system is recorded as a parameter without a name.
MARK = ""


def note_mark(journal: Journal, held: _Held, step: SettingStep) -> None:
    """Record that the mark of the run on the system of a parameter is about to be set, is set, or
    is removed."""
    system = held.parameter.system
    journal.note_change(
        SettingChange(
            at=_now(),
            setting=held.setting,
            cluster=held.cluster,
            parameter=MARK,
            step=step,
            before=None,
            value=system.mark_place,
            read=system.name,
        )
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def values_set(steps: Sequence[SettingChange]) -> tuple[str | None, ...]:
    """The values that a parameter may have by a run's own doing, after these recorded steps.

    The last step may be done or not, as it is recorded first.
    """
    sure: tuple[str | None, ...] = (steps[0].before,)
    maybe: tuple[str | None, ...] = ()
    for step in steps:
        if step.step is SettingStep.APPLIED:
            sure, maybe = (step.value, step.read), ()
        else:
            maybe = (*maybe, step.value, *([step.read] if step.step is SettingStep.REFUSED else []))
    return (*sure, *maybe)


def used_settings(plan: Plan) -> list[tuple[Setting, str]]:
    """The settings of running systems with each cluster that they are applied on."""
    found = {
        (name, cluster_of(plan.setting(name), target)): None
        for target in plan.targets
        for name in plan.applied(target.name)
    }
    return [(plan.setting(name), cluster) for name, cluster in found]


def cluster_of(setting: Setting, target: Target) -> str:
    """The cluster that a setting is applied on for a target; empty for one of hosts."""
    if setting.cluster:
        return setting.cluster
    on_cluster = setting.ceph_config or setting.pool or setting.kubernetes
    return target.cluster if on_cluster is not None else ""


def _refusal(error: LeadlineError, state: Mapping[str, str]) -> LeadlineError:
    """The error for the trials of a state, whatever went wrong while it was applied."""
    if error.kind is errors.SETTING_NOT_APPLIED:
        return error
    return LeadlineError(
        errors.SETTING_NOT_APPLIED,
        f"the state {state_text(state) or 'before the run'} could not be reached: {error.fact}",
        context=error.context,
        hint=error.hint,
    )


def _foreign(held: _Held, found: str | None) -> str:
    return (
        f"{held.label} is {_shown(found)}, which this run did not set: it stays; "
        f"before the run it was {_shown(held.before)}"
    )


def _shown(value: str | None) -> str:
    return "unset" if value is None else repr(value)
