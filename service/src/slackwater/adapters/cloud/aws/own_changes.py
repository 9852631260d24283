"""What this process has changed and AWS may not show yet, for some seconds after each change.

AWS is eventually consistent: an answer may be older than our last change. Without this, a group that has just grown from 3 to 5
seems to want 3 machines, and to set it to 4 would end one. Deliberately absent: what another process has changed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from slackwater.adapters.cloud.aws.groups import ScalingGroup
from slackwater.model.nodegroups import GroupName


@dataclass(slots=True)
class _Changes:
    """Of one group: the desired capacity that we have set last, and when; the machines that we have ended, and when, and those
    of which no answer said whether they were."""

    desired: int | None = None
    desired_at: float = 0.0
    ended: dict[str, float] = field(default_factory=dict)
    unsure: dict[str, float] = field(default_factory=dict)


class OwnChanges:
    """Of all groups. `now`: seconds. `seconds`: how old an answer of AWS may be."""

    def __init__(self, now: Callable[[], float], *, seconds: float) -> None:
        self._now = now
        self._seconds = seconds
        self._groups: dict[GroupName, _Changes] = {}

    def known(self, group: ScalingGroup) -> ScalingGroup:
        """The group as it is with what we have changed lately."""
        changes = self._groups.get(group.name)
        if changes is None:
            return group
        self._forget(changes)
        shown = {machine.id for machine in group.machines if machine.state == "deleting"}
        changes.unsure = {id_: at for id_, at in changes.unsure.items() if id_ not in shown}
        machines = tuple(
            replace(machine, state="deleting") if machine.id in changes.ended else machine for machine in group.machines
        )
        return replace(group, machines=machines, desired=group.desired if changes.desired is None else changes.desired)

    def resized(self, group: GroupName, desired: int) -> None:
        """The desired capacity was set."""
        changes = self._groups.setdefault(group, _Changes())
        changes.desired, changes.desired_at = desired, self._now()

    def ended(self, group: GroupName, id_: str) -> None:
        """A machine was ended."""
        changes = self._groups.setdefault(group, _Changes())
        changes.ended[id_] = self._now()
        changes.unsure.pop(id_, None)

    def maybe_ended(self, group: GroupName, id_: str) -> None:
        """No answer said whether a machine was ended."""
        self._groups.setdefault(group, _Changes()).unsure[id_] = self._now()

    def unsure(self, group: GroupName) -> frozenset[str]:
        """The machines of which it is not known yet whether they were ended."""
        changes = self._groups.get(group)
        if changes is None:
            return frozenset()
        self._forget(changes)
        return frozenset(changes.unsure)

    def keep(self, groups: Iterable[GroupName]) -> None:
        """Forgets all other groups."""
        wanted = frozenset(groups)
        self._groups = {name: changes for name, changes in self._groups.items() if name in wanted}

    def _forget(self, changes: _Changes) -> None:
        begin = self._now() - self._seconds
        if changes.desired_at <= begin:
            changes.desired = None
        changes.ended = {id_: at for id_, at in changes.ended.items() if at > begin}
        changes.unsure = {id_: at for id_, at in changes.unsure.items() if at > begin}
