"""The permit annotations: which object carries a pod's, and what it says.

On the VirtualMachine where there is one, since NeonVM's controller removes what stands only on its pods; else on the Pod. What
a write answered counts until the watch shows it, or something newer.
"""

from dataclasses import replace
from typing import Literal, NamedTuple

from slackwater.model.ids import PodKey, PodUid
from slackwater.model.machines import Machine
from slackwater.model.objects import Pod


class Place(NamedTuple):
    """The object that carries a pod's permit, and the text that stands there."""

    on: Literal["machine", "pod"]
    uid: str
    key: PodKey
    text: str | None


class PermitAnnotations:
    """By pod."""

    def __init__(self) -> None:
        #: By `PodKey`; looked up by a plain pair, which is quicker to make.
        self._machines: dict[tuple[str, str], Machine] = {}
        #: What writes on pods answered: (version, text).
        self._written: dict[PodUid, tuple[int, str | None]] = {}

    def machine_seen(self, machine: Machine) -> bool:
        """True where what it says about a permit is news."""
        known = self._machines.get(machine.key)
        if known is not None and known.uid == machine.uid and known.resource_version > machine.resource_version:
            return False
        self._machines[machine.key] = machine
        return known is None or known.permit != machine.permit

    def machine_gone(self, key: PodKey) -> None:
        self._machines.pop(key, None)

    def place_of(self, pod: Pod) -> Place:
        """Where the pod's permit stands. The pod is vertical."""
        assert pod.vertical is not None
        machine = self._machine_of(pod)
        if machine is not None:
            return Place("machine", machine.uid, machine.key, machine.permit)
        version, text = self._written.get(pod.uid, (-1, None))
        return Place("pod", pod.uid, pod.key, text if version > pod.resource_version else pod.vertical.permit)

    def note(self, pod: Pod, text: str | None, version: int, *, counted: bool) -> None:
        """A write or a read has told what stands there at a version. Of a pod that is not counted (any more) nobody asks, and
        nobody would forget it: only its machine's text is taken in."""
        machine = self._machine_of(pod)
        if machine is None:
            if counted:
                self._written[pod.uid] = (version, text)
        elif version >= machine.resource_version:
            self._machines[machine.key] = replace(machine, permit=text, resource_version=version)

    def note_pod(self, pod: PodUid, text: str | None, version: int) -> None:
        """What stands on the pod itself at a version."""
        self._written[pod] = (version, text)

    def written(self) -> list[tuple[PodUid, int, str | None]]:
        return [(uid, version, text) for uid, (version, text) in self._written.items()]

    def forget(self, pod: PodUid) -> None:
        self._written.pop(pod, None)

    def _machine_of(self, pod: Pod) -> Machine | None:
        if pod.vertical is None or pod.vertical.machine is None:
            return None
        return self._machines.get((pod.key.namespace, pod.vertical.machine))

    def machines(self) -> list[Machine]:
        return list(self._machines.values())
