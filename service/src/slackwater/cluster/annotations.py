"""The permit annotations: which object has a pod's annotation, its text, and Events about annotations that cannot be read.

- `PermitAnnotations`, `AnnotationPlace`: the annotation of each pod.
- `unreadable_annotations`, `unreadable_permit`: Events that report unreadable annotations to people, once for each text.

With unreadable sizes a pod counts by its requests. With an unreadable permit it counts by its Max, a plain pod by at most what
its node has. With a readable one it counts by that, and by at most what its node has.
"""

from dataclasses import replace
from typing import Final, Literal, NamedTuple

from slackwater.model.effects import Announce, Effect
from slackwater.model.ids import PodKey, PodUid
from slackwater.model.objects import Pod
from slackwater.model.permits import read_written
from slackwater.model.vertical import Machine
from slackwater_protocol.names import PERMIT


class AnnotationPlace(NamedTuple):
    """The object that has a pod's permit annotation, and the annotation's text."""

    on: Literal["machine", "pod"]
    uid: str
    key: PodKey
    text: str | None


class PermitAnnotations:
    """The permit annotations by pod.

    The annotation is on the VirtualMachine if the pod has one, since NeonVM's controller removes annotations that only the
    machine's pods have; otherwise it is on the Pod. The text that a write returned counts until the watch shows that text, or a
    newer one.
    """

    def __init__(self) -> None:
        #: By `PodKey`; looked up by a plain pair, which is quicker to create.
        self._machines: dict[tuple[str, str], Machine] = {}
        #: Results of writes to pods: (version, text).
        self._written: dict[PodUid, tuple[int, str | None]] = {}

    def machine_seen(self, machine: Machine) -> bool:
        """Stores the machine as it is now; True if its permit annotation changed. An older version is ignored."""
        known = self._machines.get(machine.key)
        if known is not None and known.uid == machine.uid and known.resource_version > machine.resource_version:
            return False
        self._machines[machine.key] = machine
        return known is None or known.permit != machine.permit

    def machine_gone(self, key: PodKey) -> None:
        self._machines.pop(key, None)

    def place_of(self, pod: Pod) -> AnnotationPlace:
        """The object that has the permit annotation of the pod, which must be vertical, and the annotation's text."""
        assert pod.vertical is not None
        machine = self._machine_of(pod)
        if machine is not None:
            return AnnotationPlace("machine", machine.uid, machine.key, machine.permit)
        version, text = self._written.get(pod.uid, (-1, None))
        return AnnotationPlace("pod", pod.uid, pod.key, text if version > pod.resource_version else pod.vertical.permit)

    def note(self, pod: Pod, text: str | None, version: int, *, counted: bool) -> None:
        """Stores the text that a write or a read returned, with the resource version of the annotated object.

        For a pod that does not count (any more) only its machine's text is stored: nothing would read or remove an entry of the
        pod itself.
        """
        machine = self._machine_of(pod)
        if machine is None:
            if counted:
                self._written[pod.uid] = (version, text)
        elif version >= machine.resource_version:
            self._machines[machine.key] = replace(machine, permit=text, resource_version=version)

    def note_pod(self, pod: PodUid, text: str | None, version: int) -> None:
        """Stores the text of an annotation on the Pod itself, as of a resource version."""
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


_REASON: Final = "UnreadableAnnotation"


def unreadable_annotations(before: Pod | None, pod: Pod) -> list[Effect]:
    """Events for the pod's annotations that cannot be read, but not for texts that were the same in `before`, the pod's last
    state."""
    effects: list[Effect] = []
    if pod.vertical_problem is not None and (before is None or before.vertical_problem != pod.vertical_problem):
        effects.append(_unreadable(pod, f"{pod.vertical_problem}; it counts as missing"))
    permit = _permit(pod)
    return effects if before is not None and _permit(before) == permit else effects + unreadable_permit(pod, permit)


def unreadable_permit(pod: Pod, text: str | None) -> list[Effect]:
    """An Event if the text of the pod's permit annotation cannot be read."""
    if text is None or read_written(text) is not None:
        return []
    return [_unreadable(pod, f"annotation {PERMIT}: got {text:.200}, want what the service writes; it counts as unknown")]


def _permit(pod: Pod) -> str | None:
    return None if pod.vertical is None else pod.vertical.permit


def _unreadable(pod: Pod, problem: str) -> Effect:
    return Announce(pod.uid, pod.key, "Warning", _REASON, problem)
