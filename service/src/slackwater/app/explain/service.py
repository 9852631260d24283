"""Answers `/explain/...` on the running service: implements `ports.protocols.Explain`.

It reads from the state machine what only the state machine knows about the object (`read_pod`, `read_node` and so on, quick
functions that change nothing and raise `NothingThere` for an unknown object). It sends this as a question (`question`) to the
planning process, which has the replica.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import anyio.lowlevel
from msgspec import structs

from slackwater.app.explain.absent import Absent, known_text
from slackwater.app.explain.question import ExplainQuestion, PodFacts, Read
from slackwater.app.settings import Settings
from slackwater.app.whatif.question import GroupRegistryView
from slackwater.cluster.reservations import Reservation, as_counted
from slackwater.cluster.vertical_pods import VerticalPodState
from slackwater.controllers.migration.state import Migration
from slackwater.controllers.preemption.state import Preemption
from slackwater.controllers.slack.report import unmet
from slackwater.explain.nodes import NodeContext
from slackwater.explain.workloads import GatedPreemptor, GrowingPod, MigratingPod
from slackwater.model.columns import NodeColumns
from slackwater.model.history import HistoryLine
from slackwater.model.ids import Instant, NodeName, PodKey, UnixTime
from slackwater.model.nodegroups import GroupName, Membership, NodeGroup
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason, UnremovableReason
from slackwater.model.resources import RESOURCES, Amounts, amounts_of
from slackwater.ports.protocols import Explained, NothingThere
from slackwater.runtime.planner.process import Questions
from slackwater.runtime.state_machine import StateMachine

#: How many keys are looked at without a break: 1.2 ms if all are in the namespace, as measured.
_SLICE: Final = 1_000
#: For how many seconds a node has been a candidate for removal (None: it is none), and the reasons that keep it, with texts.
HeldBack = tuple[float | None, Sequence[tuple[UnremovableReason, str]]]
HeldBackOf = Callable[[NodeName, NodeGroup], HeldBack]


async def _nothing(_what: str, _namespace: str, _name: str) -> tuple[HistoryLine, ...]:
    return ()


class ExplainService:
    """Answers `/explain/...`. `questions` sends a question to the planning process and returns the answer.

    `held_back` returns for how long a node has been a candidate for removal, and what keeps it. `history` returns the newest
    history entries of an object. `clock` measures intervals; `steady` is Unix time that never jumps, to compare with objects'
    timestamps."""

    def __init__(
        self,
        state_machine: StateMachine,
        questions: Questions,
        *,
        group_registry: Callable[[], GroupRegistryView | None],
        settings: Callable[[], Settings],
        held_back: HeldBackOf,
        clock: Callable[[], Instant],
        steady: Callable[[], UnixTime],
        history: Callable[[str, str, str], Awaitable[tuple[HistoryLine, ...]]] = _nothing,
    ) -> None:
        self._history = history
        self._state_machine = state_machine
        self._questions = questions
        self._settings = settings
        self._held_back = held_back
        self._clock = clock
        self._steady = steady
        self._group_registry = group_registry

    async def __call__(self, what: Explained, namespace: str, name: str) -> bytes:
        key = PodKey(namespace, name)
        history = await self._history(what, namespace, name)
        try:
            self._read(what, key, self._group_registry())  # raises for an unknown object before a process is started for it
        except NothingThere as missing:
            if history:
                raise NothingThere(f"{missing}; `slackwater history {what} {_named(key)}` says what became of it") from missing
            raise NothingThere(f"{missing}{await self._hint(what, key)}") from missing
        return await self._questions.ask(lambda: self._question(what, key, history))

    async def _hint(self, what: Explained, key: PodKey) -> str:
        """Which object may have been meant instead of one that does not exist. Looks at all objects of its kind, in slices
        between which requests have their turn."""
        state, registry = self._state_machine.state, self._group_registry()
        if what == "group":
            return known_text(() if registry is None else registry.group_status)
        if what != "node" and state.pods.by_key(key) is not None:
            return ""  # the pod exists, and has no permit, migration or gate
        sought = Absent(key)
        keys = [PodKey("", name) for name in state.nodes.row_of] if what == "node" else state.pods.keys()
        for first in range(0, len(keys), _SLICE):
            sought.look_at(keys[first : first + _SLICE])
            await anyio.lowlevel.checkpoint()
        return sought.hint

    def _question(self, what: Explained, key: PodKey, history: tuple[HistoryLine, ...]) -> ExplainQuestion:
        group_registry = self._group_registry()
        read, columns = self._read(what, key, group_registry)
        slack = None if group_registry is None else group_registry.slack
        cuts = unmet(slack) if slack is not None and what == "group" else ()
        if slack is not None and isinstance(read, PodFacts):
            cuts = slack.cuts_for(read.pod)
        return ExplainQuestion(
            read=read,
            name=key.name,
            columns=self._state_machine.state.ledger.columns.copy() if columns is None else columns,
            row_of=dict(self._state_machine.state.nodes.row_of),
            group_registry=group_registry and replace(group_registry, slack=slack if what == "group" else None),
            slack_cuts=cuts,
            settings=self._settings(),
            pauses=self._state_machine.pauses,
            now=self._clock(),
            unix_now=self._steady(),
            history=history,
        )

    def _read(self, what: Explained, key: PodKey, group_registry: GroupRegistryView | None) -> tuple[Read, NodeColumns | None]:
        """Reads what the state machine knows about the object; for a pod also the ledger's columns for filter, else None."""
        state_machine, now = self._state_machine, self._clock()
        match what:
            case "pod":
                return read_pod(state_machine, key, now)
            case "node":
                return self._node(NodeName(key.name), group_registry), None
            case "permit":
                return read_permit(state_machine, key), None
            case "migration":
                return read_migration(state_machine, key, now), None
            case "gate":
                return read_gate(state_machine, key, now), None
            case "group":
                if group_registry is None or key.name not in group_registry.group_status:
                    raise NothingThere(f"group {key.name}: no provider has reported it")
                return GroupName(key.name), None

    def _node(self, name: NodeName, group_registry: GroupRegistryView | None) -> NodeContext:
        node = self._state_machine.state.nodes.get(name)
        groups = (
            {} if group_registry is None else {each.group.name: each.group for each in group_registry.group_status.values()}
        )
        of = None if node is None else Membership(groups.values()).group_of(node)
        group = None if of is None else groups[of]
        return read_node(self._state_machine, name, (None, ()) if group is None else self._held_back(name, group))


def _named(key: PodKey) -> str:
    return str(key) if key.namespace else key.name


def read_pod(state_machine: StateMachine, key: PodKey, now: Instant) -> tuple[PodFacts, NodeColumns]:
    """Reads a pod, and the ledger's columns by which filter would judge nodes for it. Raises `NothingThere`."""
    pod = _pod(state_machine, key)
    reservation = state_machine.state.reservations.get(pod.uid)
    word, columns = state_machine.seen(pod, now)
    counted = pod if pod.ended else as_counted(pod, reservation)
    if word.reason is Reason.POD_BOUND_ELSEWHERE and pod.node is None:
        counted = structs.replace(counted, node=None)  # its bind is under way, so it must not be explained as a bound pod
    return PodFacts(pod=counted, word=word, disagreement=state_machine.disagreements.about(pod.uid)), columns


def read_node(state_machine: StateMachine, name: NodeName, held_back: HeldBack) -> NodeContext:
    """Reads a node's ledger entries and its removal, if one is under way. Raises `NothingThere`."""
    row = state_machine.state.nodes.row_of.get(name)
    if row is None:
        raise NothingThere(f"node {name}: is not in the cluster state")
    columns = state_machine.state.ledger.columns
    phase = next((drain.phase for drain in state_machine.drains.active if drain.order.node == name), None)
    since, waits = held_back
    ledger: dict[str, Any] = {
        str(resource): {
            "total": int(columns.total[line, row]),
            "reserved": int(columns.reserved[line, row]),
            "buffer": int(columns.buffer[line, row]),
            "watermark": int(columns.watermark[line, row]),
            "capacityPressure": int(columns.capacity_pressure[line, row]),
            "held": int(columns.held[line, row]),
        }
        for line, resource in enumerate(RESOURCES)
    }
    if (doubt := dict(state_machine.state.quarantine.items()).get(name)) is not None:
        ledger["quarantined"] = doubt.why
    return NodeContext(begun=phase, unneeded_seconds=since, waits=waits, ledger=ledger)


def read_permit(state_machine: StateMachine, key: PodKey) -> GrowingPod:
    """Reads a pod that grows in place. Raises `NothingThere`, also if the pod does not grow or has no reservation."""
    pod = _pod(state_machine, key)
    reservation, vertical_pod = state_machine.state.reservations.get(pod.uid), state_machine.state.vertical_pods.get(pod.uid)
    if reservation is None or vertical_pod is None:
        raise NothingThere(f"permit {key}: the pod does not grow in place, or counts on no node")
    pod_resources = reservation.pod_resources
    return GrowingPod(
        pod=pod,
        node=reservation.node,
        reserved=amounts_of(pod_resources.reserved),
        denied=amounts_of(pod_resources.capacity_pressure),
        held=amounts_of(pod_resources.buffer),
        writing=vertical_pod.writing is not None,
        fenced=vertical_pod.fenced,
        facts=_figures(reservation, vertical_pod),
    )


def read_migration(state_machine: StateMachine, key: PodKey, now: Instant) -> MigratingPod:
    """Reads a pod that migrates, or that may migrate. Raises `NothingThere`, also if the pod is no virtual machine."""
    pod = _pod(state_machine, key)
    grower = read_permit(state_machine, key)
    if pod.vertical is None or pod.vertical.machine is None:
        raise NothingThere(f"migration {key}: the pod is no virtual machine, and migrates never")
    migration = next((each for each in state_machine.migrating.migrations.values() if pod.uid in (each.pod, each.target)), None)
    choice = state_machine.migrating.choice
    queue = [uid for node, uid, _, _ in choice.queue.entries() if node == grower.node]
    machine = PodKey(key.namespace, pod.vertical.machine)
    until = choice.backoffs.get(machine)
    before = queue.index(pod.uid) if pod.uid in queue else 0
    return MigratingPod(
        grower=grower,
        phase=None if migration is None else _phase(state_machine, migration),
        target_node=None if migration is None else migration.target_node,
        before=before,
        backing_off=None if until is None or until.until <= now else until.until - now,
    )


def read_gate(state_machine: StateMachine, key: PodKey, now: Instant) -> GatedPreemptor:
    """Reads a pod for which a preemption is under way. Raises `NothingThere` if the pod is unknown or no preemption runs."""
    pod = _pod(state_machine, key)
    found: Preemption | None = dict(state_machine.preemptions.items()).get(pod.uid)
    if found is None:
        raise NothingThere(f"gate {key}: no preemption runs for the pod")
    facts = {"sinceSeconds": round(now - found.since, 3), "endsInSeconds": round(found.deadline - now, 3)}
    return GatedPreemptor(
        pod=pod,
        node=found.node,
        phase=found.phase,
        shut=found.shut,
        waiting=state_machine.preemptions.waits_for(pod.uid),
        facts=facts,
    )


def _pod(state_machine: StateMachine, key: PodKey) -> Pod:
    pod = state_machine.state.pods.by_key(key)
    if pod is None:
        raise NothingThere(f"pod {key}: is not in the cluster state")
    return pod


def _figures(reservation: Reservation, vertical_pod: VerticalPodState) -> dict[str, Any]:
    pod_resources = reservation.pod_resources
    return {
        "node": reservation.node,
        "reserved": _amounts(amounts_of(pod_resources.reserved)),
        "buffer": _amounts(amounts_of(pod_resources.buffer)),
        "capacityPressure": _amounts(amounts_of(pod_resources.capacity_pressure)),
        "min": _amounts(amounts_of(pod_resources.min)),
        "max": _amounts(amounts_of(pod_resources.max)),
        "has": None if vertical_pod.has is None else _amounts(vertical_pod.has),
    }


def _amounts(amounts: Amounts) -> dict[str, int]:
    return {"milliCPU": amounts.cpu, "bytes": amounts.memory}


def _phase(state_machine: StateMachine, migration: Migration) -> str:
    known = state_machine.migrating.objects.get(migration.key)
    return (known.phase if known is not None and known.phase else "") or ("created" if migration.created else "being created")
