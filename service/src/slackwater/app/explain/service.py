"""Answers `/explain/...` on the running service: implements `ports.protocols.Explain`.

It reads from the state machine what only the state machine knows about the object. It sends this as a question (`question`) to
the planning process, which has the replica.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from slackwater.app.explain.object_state import (
    HeldBack,
    PodFacts,
    read_gate,
    read_migration,
    read_node,
    read_permit,
    read_pod,
)
from slackwater.app.explain.question import ExplainQuestion, Read
from slackwater.app.settings import Settings
from slackwater.app.whatif.question import GroupRegistryView
from slackwater.explain.nodes import NodeContext
from slackwater.model.columns import NodeColumns
from slackwater.model.history import HistoryLine
from slackwater.model.ids import Instant, NodeName, PodKey, UnixTime
from slackwater.model.nodegroups import GroupName, Membership, NodeGroup
from slackwater.ports.protocols import Explained, NothingThere
from slackwater.runtime.planner.process import Questions
from slackwater.runtime.state_machine import StateMachine

HeldBackOf = Callable[[NodeName, NodeGroup], HeldBack]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainClocks:
    """Two clocks. `clock` measures intervals. `steady` is Unix time that never jumps, to compare with objects' timestamps."""

    clock: Callable[[], Instant]
    steady: Callable[[], UnixTime]


async def _nothing(_what: str, _namespace: str, _name: str) -> tuple[HistoryLine, ...]:
    return ()


class ExplainService:
    """Answers `/explain/...`. `questions` sends a question to the planning process and returns the answer.

    `held_back` returns for how long a node has been a candidate for removal, and what keeps it. `history` returns the newest
    history entries of an object."""

    def __init__(
        self,
        state_machine: StateMachine,
        questions: Questions,
        *,
        group_registry: Callable[[], GroupRegistryView | None],
        settings: Callable[[], Settings],
        held_back: HeldBackOf,
        clocks: ExplainClocks,
        history: Callable[[str, str, str], Awaitable[tuple[HistoryLine, ...]]] = _nothing,
    ) -> None:
        self._history = history
        self._state_machine = state_machine
        self._questions = questions
        self._settings = settings
        self._held_back = held_back
        self._clocks = clocks
        self._group_registry = group_registry

    async def __call__(self, what: Explained, namespace: str, name: str) -> bytes:
        key = PodKey(namespace, name)
        history = await self._history(what, namespace, name)
        try:
            self._read(what, key, self._group_registry())  # raises for an unknown object before a process is started for it
        except NothingThere as missing:
            if history:
                raise NothingThere(f"{missing}; `slackwater history {what} {_named(key)}` says what became of it") from missing
            raise
        return await self._questions.ask(lambda: self._question(what, key, history))

    def _question(self, what: Explained, key: PodKey, history: tuple[HistoryLine, ...]) -> ExplainQuestion:
        group_registry, clocks = self._group_registry(), self._clocks
        read, columns = self._read(what, key, group_registry)
        watched = group_registry is not None
        slack = None if group_registry is None else group_registry.slack
        return ExplainQuestion(
            read=read,
            name=key.name,
            columns=self._state_machine.state.ledger.columns.copy() if columns is None else columns,
            row_of=dict(self._state_machine.state.nodes.row_of),
            watched=watched,
            group_status=group_registry.group_status if group_registry is not None else {},
            slack=slack if what == "group" else None,
            slack_cuts=slack.cuts_for(read.pod) if slack is not None and isinstance(read, PodFacts) else (),
            priorities=group_registry.priorities if group_registry is not None else None,
            settings=self._settings(),
            pauses=self._state_machine.pauses,
            now=clocks.clock(),
            unix_now=clocks.steady(),
            history=history,
        )

    def _read(self, what: Explained, key: PodKey, group_registry: GroupRegistryView | None) -> tuple[Read, NodeColumns | None]:
        """Reads what the state machine knows about the object; for a pod also the ledger's columns for filter, else None."""
        state_machine, now = self._state_machine, self._clocks.clock()
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
