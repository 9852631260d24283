"""The permit annotations: which object has a pod's annotation, and its text.

It is on the VirtualMachine where there is one, since NeonVM's controller removes annotations that only its pods have; else on
the Pod. The text that a write returned counts until the watch shows it, or a newer one.
"""

from dataclasses import replace
from typing import Literal, NamedTuple

from slackwater.model.ids import PodKey, PodUid
from slackwater.model.machines import Machine
from slackwater.model.objects import Pod


class Place(NamedTuple):
    """The object that has a pod's permit annotation, and the annotation's text."""

    on: Literal["machine", "pod"]
    uid: str
    key: PodKey
    text: str | None


class PermitAnnotations:
    """The permit annotations by pod."""

    def __init__(self) -> None:
        #: By `PodKey`; looked up by a plain pair, which is quicker to create.
        self._machines: dict[tuple[str, str], Machine] = {}
        #: Results of writes to pods: (version, text).
        self._written: dict[PodUid, tuple[int, str | None]] = {}

    def machine_seen(self, machine: Machine) -> bool:
        """Takes the machine as it is now; True where its permit annotation changed."""
        known = self._machines.get(machine.key)
        if known is not None and known.uid == machine.uid and known.resource_version > machine.resource_version:
            return False
        self._machines[machine.key] = machine
        return known is None or known.permit != machine.permit

    def machine_gone(self, key: PodKey) -> None:
        self._machines.pop(key, None)

    def place_of(self, pod: Pod) -> Place:
        """The object that has the pod's permit annotation. The pod is vertical."""
        assert pod.vertical is not None
        machine = self._machine_of(pod)
        if machine is not None:
            return Place("machine", machine.uid, machine.key, machine.permit)
        version, text = self._written.get(pod.uid, (-1, None))
        return Place("pod", pod.uid, pod.key, text if version > pod.resource_version else pod.vertical.permit)

    def note(self, pod: Pod, text: str | None, version: int, *, counted: bool) -> None:
        """Notes the text at a version, as a write or a read returned it.

        For a pod that does not count (any more) only its machine's text is noted: nobody reads an entry of such a pod, and
        nobody would remove it.
        """
        machine = self._machine_of(pod)
        if machine is None:
            if counted:
                self._written[pod.uid] = (version, text)
        elif version >= machine.resource_version:
            self._machines[machine.key] = replace(machine, permit=text, resource_version=version)

    def note_pod(self, pod: PodUid, text: str | None, version: int) -> None:
        """Notes the text on the pod itself at a version."""
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
