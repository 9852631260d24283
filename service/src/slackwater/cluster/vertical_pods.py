"""The state of each counted pod that grows in place, and which resources it counts for, at first and after each change.

- `VerticalPods`: the states. Each lives as long as the pod's reservation. The formulas are in `model.pod_resources`; this
  module decides which formula applies.
- `PermitAnnotations`: which object has a pod's permit annotation, and its text.
- `unreadable_annotations`, `unreadable_permit`: Events that report unreadable annotations to people, once for each text.

Invariant: until its agent has asked, a pod counts at least for what any earlier process may have permitted it. An annotation is
evidence of that only as long as it was written before this process listed it; a later one may be a late write (`doubtful`).

With unreadable sizes a pod counts by its requests. With an unreadable permit it counts by its Max, a plain pod by at most what
its node has. With a readable one it counts by that, and by at most what its node has.
"""

from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from slackwater.cluster.nodes import NodeTable
from slackwater.model.effects import Announce, Effect
from slackwater.model.ids import Instant, PodKey, PodUid
from slackwater.model.objects import Pod
from slackwater.model.permits import Load, PersistedPermit, read_written
from slackwater.model.pod_resources import (
    PodResources,
    bounds_changed,
    certain_resources,
    migration_found,
    ordinary_resources,
    resources_of_unknown_permit,
    restored_resources,
    scaling_disabled,
    use_changed,
)
from slackwater.model.resources import NOTHING, Amounts
from slackwater.model.vertical import Machine, Vertical
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


@dataclass(slots=True)
class VerticalPodState:
    """The state of one pod that grows in place. `exact`: what it may use is known, not assumed after a restart."""

    vertical: Vertical
    machine: PodKey | None
    exact: bool
    #: For a plain pod: what its agent was permitted. The node may not have resized the pod to that yet.
    permitted: Amounts | None = None
    resized_from: Amounts | None = None  #: what the pod had before it last grew
    #: The most that its agent may use: what it was permitted, minus what it has asked to give back since. None: the agent has
    #: not asked yet.
    has: Amounts | None = None
    heard_at: Instant | None = None
    load: Load | None = None
    denied_since: Instant | None = None
    odd: bool = False  #: the agent has asked for an amount that is not a multiple of its compute unit
    # State of the annotation: only `controllers.permits.permit_limits` changes these fields.
    writing: PersistedPermit | None = None
    unconfirmed: tuple[PersistedPermit, ...] = ()  #: texts of failed writes; the annotation may have any of them
    fenced: bool = True  #: no write of an earlier process can change the annotation any more
    found_on: str | None = None  #: the text from which its resources are computed until its agent has asked
    doubtful: bool = False  #: `found_on` may be a late write: until the agent has asked, all of Reserved is Buffer
    urgent: bool = False  #: an agent waits for its permit limit to be written
    lagging: bool = False  #: it has grown into room that persisted permits of other pods still cover
    attempts: int = 0
    oscillating: int = 0  #: how often in a row its permit limit was lowered too soon
    lowered_from: Amounts | None = None  #: the permit limit before it was last lowered, until it has to be raised
    written_at: Instant = Instant(float("-inf"))
    settle_at: Instant | None = None
    settle_for: Amounts | None = None


class VerticalPods:
    """The states of vertical pods by UID, and the rules for the resources that they count for."""

    def __init__(self, annotations: PermitAnnotations, nodes: NodeTable) -> None:
        self._annotations = annotations
        self._nodes = nodes
        self._vertical_pods: dict[PodUid, VerticalPodState] = {}
        self._of_machine: dict[PodKey, dict[PodUid, None]] = {}
        #: What would count after a restart, as last computed; cached because each request reads it several times.
        self._restored: dict[PodUid, tuple[Vertical, str | None, str, Amounts | None, PodResources]] = {}
        #: By the migration's key: what the source pod was permitted. The source may still grow to that before it leaves.
        self.arriving: dict[PodKey, Amounts] = {}
        #: True until everything was listed once. Annotations seen until then were written by an earlier process.
        self.listing = True
        #: The epoch that this process writes into permit annotations: one more than all epochs that it found.
        self.epoch = 1

    def get(self, uid: PodUid) -> VerticalPodState | None:
        return self._vertical_pods.get(uid)

    def forget(self, uid: PodUid) -> VerticalPodState | None:
        self._annotations.forget(uid)
        self._restored.pop(uid, None)
        vertical_pod = self._vertical_pods.pop(uid, None)
        if vertical_pod is not None and vertical_pod.machine is not None:
            pods = self._of_machine[vertical_pod.machine]
            del pods[uid]
            if not pods:
                del self._of_machine[vertical_pod.machine]
        return vertical_pod

    def of_machine(self, machine: PodKey) -> list[PodUid]:
        """The counted pods of a VirtualMachine: one, or two while it migrates."""
        return list(self._of_machine.get(machine, ()))

    def put(self, uid: PodUid, namespace: str, vertical_pod: VerticalPodState) -> None:
        """Sets the state of the pod."""
        machine = vertical_pod.vertical.machine
        vertical_pod.machine = None if machine is None else PodKey(namespace, machine)
        self._vertical_pods[uid] = vertical_pod
        if vertical_pod.machine is not None:
            self._of_machine.setdefault(vertical_pod.machine, {})[uid] = None

    def _begin(self, pod: Pod, vertical: Vertical, *, exact: bool) -> None:
        self.forget(pod.uid)
        self.put(pod.uid, pod.key.namespace, VerticalPodState(vertical, machine=None, exact=exact))

    def items(self) -> list[tuple[PodUid, VerticalPodState]]:
        return list(self._vertical_pods.items())

    def __len__(self) -> int:
        return len(self._vertical_pods)

    # --- how a pod begins to count ----------------------------------------------------------------------------------------

    def placed(self, pod: Pod) -> PodResources:
        """The resources of a pod that we have placed: no scheduler has permitted it more than it uses."""
        if pod.vertical is None:
            return ordinary_resources(pod.kind.requests)
        self._begin(pod, pod.vertical, exact=True)
        return self.expecting(_placed_resources(pod.vertical), pod)

    def expecting(self, pod_resources: PodResources, pod: Pod) -> PodResources:
        """Adds, if the pod is the target of a migration, room for what the machine may have when it arrives; this room is
        Buffer until the agent asks on this node. Other pods have no Buffer in the result."""
        certain = pod_resources.reserved.minus(pod_resources.buffer)
        reserved = certain.at_least(self._arriving(pod))
        return replace(pod_resources, reserved=reserved, buffer=reserved.minus(certain))

    def _arriving(self, pod: Pod) -> Amounts:
        vertical = pod.vertical
        if vertical is None or vertical.migration is None or not (vertical.scaling and vertical.is_target):
            return NOTHING
        return self.arriving.get(PodKey(pod.key.namespace, vertical.migration.name), NOTHING)

    def need(self, pod: Pod) -> Amounts:
        """The amounts that the pod will count for on the node where it is placed."""
        return pod.need.at_least(self._arriving(pod))

    def found(self, pod: Pod, *, scheduler_name: str) -> PodResources:
        """The resources of a pod that was already bound when we first saw it: bound before our start, or by another
        scheduler."""
        vertical = pod.vertical
        if vertical is None:
            return ordinary_resources(pod.kind.requests)
        self._begin(pod, vertical, exact=not vertical.scaling or vertical.is_target)
        vertical_pod = self._vertical_pods[pod.uid]
        vertical_pod.fenced = not self.listing or not vertical.scaling or vertical.is_target
        vertical_pod.found_on = self._annotations.place_of(pod).text
        pod_resources = self._restored_resources(pod, vertical, vertical_pod.found_on, scheduler_name)
        return self.expecting(pod_resources, pod) if vertical.is_target else pod_resources

    def _found_again(self, pod: Pod, vertical: Vertical, vertical_pod: VerticalPodState, scheduler_name: str) -> PodResources:
        """The resources of a pod whose agent has not asked yet, after the pod or its machine changed."""
        if self.listing:  # otherwise the text is a late write of an earlier process: no agent was answered from it
            vertical_pod.found_on = self._annotations.place_of(pod).text
        pod_resources = self._restored_resources(pod, vertical, vertical_pod.found_on, scheduler_name)
        return replace(pod_resources, buffer=pod_resources.reserved) if vertical_pod.doubtful else pod_resources

    def listed(self) -> None:
        """Ends the initial listing, and chooses the epoch for what is written from now on."""
        self.listing = False
        found = (read_written(vertical_pod.found_on) for vertical_pod in self._vertical_pods.values())
        self.epoch = 1 + max((written.epoch for written in found if written is not None), default=0)

    def epoch_of(self, uid: PodUid) -> int | None:
        """The epoch of the persisted permit from which the pod's resources were computed. None if they were not, or the permit
        is already in doubt."""
        vertical_pod = self._vertical_pods.get(uid)
        if vertical_pod is None or vertical_pod.exact or vertical_pod.doubtful:
            return None
        written = read_written(vertical_pod.found_on)
        return written.epoch if written is not None and written.pod in {"", uid} else None

    def own(self, pod: Pod) -> PersistedPermit | None:
        """The persisted permit of this pod; None if no permit can be read, or it is another pod's."""
        return _own(read_written(self._annotations.place_of(pod).text), pod)

    def may_write(self, pod: Pod) -> bool:
        """Whether a permit of the pod may be written to its annotation. False if the pod does not grow in place, or is the
        target of a migration. False also for the source if the machine's annotation has the target's permit by now, which must
        not be overwritten."""
        if pod.vertical is None or pod.vertical.is_target:
            return False
        written = read_written(self._annotations.place_of(pod).text)
        return pod.vertical.migration is None or written is None or _own(written, pod) is not None

    def after_restart(self, pod: Pod, *, scheduler_name: str) -> PodResources:
        """The resources that a new process, which knows only the API's objects, would compute for the pod."""
        vertical = pod.vertical
        assert vertical is not None
        text, on_node = self._annotations.place_of(pod).text, self._allocatable(pod)
        known = self._restored.get(pod.uid)
        if known is not None and known[0] is vertical and known[1] is text and known[2:4] == (scheduler_name, on_node):
            return known[4]
        pod_resources = self._restored_resources(pod, vertical, text, scheduler_name)
        if pod.uid in self._vertical_pods:
            self._restored[pod.uid] = (vertical, text, scheduler_name, on_node, pod_resources)
        return pod_resources

    def _allocatable(self, pod: Pod) -> Amounts | None:
        """What the pod's node has to allocate; None if the node is not known."""
        node = None if pod.node is None else self._nodes.get(pod.node)
        return None if node is None else node.allocatable

    def _restored_resources(self, pod: Pod, vertical: Vertical, text: str | None, scheduler_name: str) -> PodResources:
        written, migration = read_written(text), vertical.migration
        own = _own(written, pod)
        if not vertical.scaling or vertical.is_target:
            return _placed_resources(vertical)
        if own is not None:
            most = self._allocatable(pod)
            return restored_resources(vertical, permit=own.permit, permit_limit=own.permit_limit, most=most)
        if migration is None and (pod.kind.scheduler_name != scheduler_name or _is_new(vertical, text, written)):
            return _placed_resources(vertical)
        if vertical.resizing is not None:
            return resources_of_unknown_permit(vertical, most=self._allocatable(pod))
        pod_resources = resources_of_unknown_permit(vertical)
        if migration is None or written is None:
            return pod_resources
        # Its machine has arrived on another node, so what it shows as used may be used there.
        return replace(pod_resources, buffer=pod_resources.reserved.minus(vertical.using.at_most(vertical.min)))

    # --- how it changes ---------------------------------------------------------------------------------------------------

    def seen(self, pod: Pod, pod_resources: PodResources, *, scheduler_name: str) -> PodResources:
        """The resources of a counted pod after the watch has shown it. They stay the same if its annotations cannot be read any
        more."""
        vertical_pod = self._vertical_pods.get(pod.uid)
        vertical = pod.vertical
        if vertical is None:
            if pod.vertical_problem is not None and vertical_pod is not None:
                return pod_resources
            self.forget(pod.uid)
            return ordinary_resources(pod.kind.requests)
        if vertical_pod is None:
            return self.placed(pod)
        before, vertical_pod.vertical = vertical_pod.vertical, vertical
        if not vertical_pod.exact and vertical_pod.heard_at is None:
            found = self._found_again(pod, vertical, vertical_pod, scheduler_name)
            return found if pod_resources.accounted_for == NOTHING else migration_found(found)
        if before != vertical:
            resized = vertical.resizing is not None
            pod_resources = (
                _resized(before, vertical_pod, pod_resources) if resized else _followed(before, vertical, pod_resources)
            )
            if vertical.is_target and vertical_pod.heard_at is None:
                pod_resources = self.expecting(pod_resources, pod)
        return pod_resources


def _own(written: PersistedPermit | None, pod: Pod) -> PersistedPermit | None:
    return written if written is not None and written.pod in {"", pod.uid} else None


def _is_new(vertical: Vertical, text: str | None, written: PersistedPermit | None) -> bool:
    """Whether no permit of a plain pod was persisted yet: `written` is what its annotation's `text` says, at most the permit of
    another pod. No agent was then permitted more than the pod requests. Whoever may create a pod chooses its bounds, so these
    alone must reserve nothing. Permits of a machine may be another scheduler's, so nothing is known of them."""
    return vertical.resizing is not None and (text is None or written is not None)


def _placed_resources(vertical: Vertical) -> PodResources:
    return replace(certain_resources(vertical), capacity_pressure=_withheld(vertical))


def _withheld(vertical: Vertical) -> Amounts:
    """The growth that the spec of a plain pod requests and the node has put off."""
    if vertical.resizing is None or vertical.resizing.pending is None:
        return NOTHING
    return vertical.resizing.whole.minus(vertical.using).not_below_zero()


def _resized(before: Vertical, vertical_pod: VerticalPodState, pod_resources: PodResources) -> PodResources:
    """The resources of a plain pod after a resize: Reserved is what the pod has or was permitted, whichever is more; growth
    that the node puts off is CapacityPressure."""
    vertical, resizing = vertical_pod.vertical, vertical_pod.vertical.resizing
    pod_resources = replace(pod_resources, min=vertical.min, max=vertical.max)
    if resizing is not None and resizing.pending is not None:
        held = vertical.using
        if held == resizing.whole and vertical_pod.resized_from is not None:  # the node does not report what the pod has
            held = held.at_most(vertical_pod.resized_from)
        withheld = resizing.whole.minus(held).not_below_zero()
        return replace(pod_resources, reserved=held, buffer=NOTHING, capacity_pressure=withheld)
    if before.resizing is not None and before.resizing.pending is not None:
        pod_resources = replace(pod_resources, capacity_pressure=NOTHING)
    certain = pod_resources.reserved.minus(pod_resources.buffer)
    reserved = vertical.using.at_least(certain if vertical_pod.permitted is None else vertical_pod.permitted)
    return replace(pod_resources, reserved=reserved, buffer=NOTHING)


def _followed(before: Vertical, after: Vertical, pod_resources: PodResources) -> PodResources:
    """The resources of a machine's pod after annotations or labels changed (neondatabase/autoscaling v0.36.1)."""
    if before.scaling and not after.scaling:
        pod_resources = scaling_disabled(pod_resources)
    if (before.min, before.max) != (after.min, after.max):
        grows = after.scaling and after.migration is None
        pod_resources = (
            bounds_changed(pod_resources, minimum=after.min, maximum=after.max)
            if grows
            else replace(pod_resources, min=after.min, max=after.max)
        )
    if before.using != after.using and (not (before.scaling and after.scaling) or after.is_target):
        pod_resources = use_changed(pod_resources, after.using)
    return pod_resources
