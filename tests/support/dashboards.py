"""Clusters to look at in the dashboard: one of ten nodes with something in every view, and one of any size."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from msgspec import structs
from prometheus_client import CollectorRegistry

from slackwater.adapters.http.dashboard.routes import OpenStreams
from slackwater.adapters.http.status import SettingsView
from slackwater.adapters.http.uvicorn_listener import listen, serve_app
from slackwater.app.explain.service import ExplainService
from slackwater.app.settings import Settings, as_file
from slackwater.app.whatif.question import GroupRegistryView
from slackwater.cluster.nodegroups.status import Grow, NodeGroupBackoff, NodeGroupStatus
from slackwater.controllers.leadership.metrics import LeaderStatus, alone
from slackwater.controllers.loop_plans import PendingCounts
from slackwater.controllers.preemption.victims import Candidate, PotentialVictim
from slackwater.controllers.scaledown.loop import ScaleDownRecord
from slackwater.controllers.scaleup.costs import GroupCost
from slackwater.model.auxiliary import AuxiliaryObjects
from slackwater.model.effects import Bind, DrainOrder, Evict, FindDestinations
from slackwater.model.events import (
    BudgetSeen,
    Destination,
    DestinationsFound,
    EvictionEnded,
    NodeMarked,
    NodeSeen,
    PodSeen,
    Synced,
    TimePassed,
)
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import Generation, Instant, NodeName, PodKey, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.prices import Basis, Price
from slackwater.model.resources import amounts_of, sum_of
from slackwater.model.storage import Storage
from slackwater.ports.clock import unix_time
from slackwater.ports.protocols import HistoryQuery, Outcome
from slackwater.runtime.autoscaler.loop_record import LoopRecord, NeededBy
from slackwater.runtime.autoscaler.status_document import record_document
from slackwater.runtime.dashboard.node_use import NodeUse
from slackwater.runtime.dashboard.observer import DashboardObserver
from slackwater.runtime.decision_log import DecisionLog
from slackwater.runtime.state_machine import StateMachine
from slackwater_protocol.names import NODE_GROUP, TO_BE_DELETED_TAINT
from tests.support import installed
from tests.support.builders import a_budget, a_node, a_pod, a_vertical, amounts
from tests.support.growing import Growing
from tests.support.nodegroups import a_group
from tests.support.ops import Ready, no_history, ops_app
from tests.support.planners import Conversation, KnownAuxiliary, a_feed

#: The wall's clock of every cluster here: cluster states are the same each time.
AT = UnixTime(1790000000.0)
#: The node of the ten whose sums are in doubt.
IN_DOUBT = "memory-8"
_TWO = amounts("2", "4Gi")


#: As `runtime.autoscaler.slack_report.slack_document` tells it.
_SLACK: dict[str, Any] = {
    "sources": [
        {
            "name": "extraCapacity",
            "placeholders": 3,
            "placed": 2,
            "coming": 1,
            "homeless": 0,
            "amount": {"cpu": 3000, "memory": 6 << 30},
            "tooManySince": None,
        }
    ],
    "asked": {},
    "startTimeSLOs": [
        {
            "name": "checkout",
            "share": 0.99,
            "withinSeconds": 60,
            "keptShare": 0.975,
            "inTime": 39,
            "late": 1,
            "waiting": 2,
            "room": 4,
            "leadSeconds": 45,
            "way": "the same at all times",
            "exceededPercent": 8.0,
            "problem": None,
        }
    ],
    "nodesForSlackAlone": 1,
    "pushedOff": [],
    "placeholders": [
        {"name": f"slack/{number}", "source": "extraCapacity", "node": node, "group": group, "cpu": 1000, "memory": 2 << 30}
        for number, node, group in ((0, "general-0", None), (1, "general-2", None), (2, None, "general"))
    ],
}


ZONE: Final = "topology.kubernetes.io/zone"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
#: Of the nodes of a large cluster: four groups, three zones, two types.
_LABELS: Final = tuple(
    {NODE_GROUP: f"pool-{number % 4}", ZONE: f"zone-{number % 3}", INSTANCE_TYPE: f"standard-{16 if number % 2 else 32}"}
    for number in range(12)
)


def a_large_state_machine(n_nodes: int, pods_each: int) -> StateMachine:
    """Nodes of four groups, from nearly empty to full."""
    state_machine = StateMachine(installed.POLICY)
    now = Instant(0.0)
    for number in range(n_nodes):
        name = f"node-{number:05}"
        state_machine.apply(NodeSeen(a_node(name, cpu="16", memory="64Gi", labels=_LABELS[number % 12])), now)
        for pod in range(pods_each):
            cpu = ("250m", "500m", "2", "3500m", "3")[(number // 7 + pod % 2) % 5]
            state_machine.apply(PodSeen(a_pod(f"p-{number}-{pod}", on=name, cpu=cpu)), now)
    state_machine.apply(Synced(), now)
    return state_machine


def ten_nodes() -> tuple[StateMachine, Instant]:
    """Something in every view; the time to look at it."""
    cluster = Growing()
    for number in range(10):
        group = "general" if number < 6 else "memory"
        node = a_node(
            f"{group}-{number}",
            cpu="8" if number != 9 else "10",
            memory="32Gi" if number < 6 else "64Gi",
            labels={NODE_GROUP: group, ZONE: f"zone-{number % 3}", INSTANCE_TYPE: f"{group}-8"},
            ready=number != 4,
            unschedulable=number == 5,
        )
        cluster.has_node(structs.replace(node, scalars=(("pods", 110),)))
    sizes = (("web", "500m", "2Gi"), ("worker", "1", "3Gi"), ("cache", "250m", "6Gi"))
    for number in range(9):
        group = "general" if number < 6 else "memory"
        for index in range((number * 5) % 7 + 1):
            kind, cpu, memory = sizes[(number + index) % 3]
            name = f"{kind}-{number}{index}"
            pod = a_pod(name, on=f"{group}-{number}", cpu=cpu, memory=memory, labels={"pod": name})
            cluster.take(PodSeen(structs.replace(pod, eviction_facts=EvictionFacts(owner=Owner("apps", "ReplicaSet", kind)))))
    cluster.take(*(PodSeen(pod) for pod in _pending()), Synced())
    _move(cluster, "memory-9")
    _preempt(cluster)
    _drain(cluster)
    cluster.state_machine.state.quarantine.put(
        NodeName(IN_DOUBT), "the sum of its pods is not what is Reserved", Instant(cluster.now)
    )
    return cluster.state_machine, Instant(cluster.now + 40)


def _pending() -> list[Any]:
    short = "0/10 nodes are available: 8 Insufficient cpu, 1 node was unschedulable, 1 node was not ready."
    wrong = "0/10 nodes are available: 10 node(s) didn't match Pod's node affinity/selector."
    return [
        a_pod("report-1", cpu="12", memory="8Gi", message=short, priority=100),
        a_pod("report-2", cpu="12", memory="8Gi", message=short, priority=100),
        a_pod("gpu-train", cpu="4", memory="16Gi", message=wrong),
        structs.replace(a_pod("later", namespace="batch"), gates=("example.com/quota",)),
    ]


def _move(cluster: Growing, node: str) -> None:
    movable = a_vertical(using=_TWO, maximum=amounts("8", "16Gi"), auto_migrate=True)
    pods = [cluster.places(f"database-{number}", on=node, vertical=movable) for number in range(4)]
    for _ in range(2):
        for number, pod in enumerate(pods):
            cluster.ask(pod, _TWO, load=number * 700_000)
    for number, pod in enumerate(pods):
        cluster.ask(pod, amounts("4", "8Gi"), last=_TWO, load=number * 700_000)


def _preempt(cluster: Growing) -> None:
    victims = [cluster.state_machine.state.pods.by_key(PodKey("default", name)) for name in ("worker-10", "cache-11")]
    leaving = tuple(
        PotentialVictim(uid=pod.uid, priority=0, started_at="", reserved=amounts("1")) for pod in victims if pod is not None
    )
    candidate = Candidate(node=NodeName("general-1"), victims=leaving, awaited=())
    preemptor = a_pod("checkout", cpu="2", priority=1000)
    cluster.take(PodSeen(preemptor))
    cluster.state_machine.preemptions.begin(preemptor, candidate, installed.PREEMPTION, Instant(cluster.now))


def _drain(cluster: Growing) -> None:
    orders = []
    for name, targets in (("general-3", ("general-0", "general-2")), ("memory-7", ("memory-6", "memory-8"))):
        row = cluster.state_machine.state.nodes.row_of[NodeName(name)]
        node = cluster.state_machine.state.nodes.by_row[row]
        assert node is not None
        pods = [
            cluster.state_machine.state.pods.get(uid)
            for uid in cluster.state_machine.state.reservations.on_node(NodeName(name))
        ]
        going = tuple((pod.key, NodeName(targets[at % 2])) for at, pod in enumerate(pods) if pod is not None)
        group = GroupName(name.partition("-")[0])
        orders.append(DrainOrder(node=node.name, uid=node.uid, group=group, empty=not going, stamp=AT, destinations=going))
    cluster.state_machine.drains.begin(orders, Instant(cluster.now))
    cluster.take(*(NodeMarked(order.node, TO_BE_DELETED_TAINT, True, "") for order in orders))
    cluster.take(BudgetSeen(a_budget("web", allowed=0, pod="web-30")))
    cluster.now += 6
    cluster.take(TimePassed())
    planned = {key: node for order in orders for key, node in order.destinations}
    keys = {pod.uid: pod.key for pod in cluster.state_machine.state.pods}
    for effect in list(cluster.sent):
        if isinstance(effect, FindDestinations):
            found = tuple(Destination(uid, planned[keys[uid]]) for uid in effect.pods)
            cluster.take(DestinationsFound(effect.node, found))
    for effect in list(cluster.sent):
        if isinstance(effect, Evict) and effect.key.name.startswith("web"):
            cluster.take(EvictionEnded(effect.uid, effect.node, "blocked", "429 TooManyRequests"))


def a_loop() -> dict[str, Any]:
    """The autoscaler's last loop as the dashboard gets it."""
    return {**record_document(_record()), "slack": _SLACK}


def _price(micros: int, basis: Basis = "configured") -> Price:
    return Price(micros=micros, currency="USD", basis=basis)


def _record() -> LoopRecord:
    """The autoscaler's last loop: one group grows, one backs off."""
    general, memory = (
        NodeGroupStatus(
            group=a_group(name, target=target, max_size=most),
            known=True,
            ready=tuple(NodeName(f"{name}-{number}") for number in range(ready)),
            unready=(),
            starting=(NodeName(f"{name}-new"),) if name == "general" else (),
            coming=2 if name == "general" else 0,
            missing=0,
            lost=(),
            leaving=1,
            backoff=backoff,
        )
        for name, target, most, ready, backoff in (
            ("general", 9, 20, 6, None),
            (
                "memory",
                4,
                8,
                4,
                NodeGroupBackoff(
                    until=Instant(160.0),
                    seconds=300.0,
                    failed_at=Instant(0.0),
                    code="STOCKOUT",
                    message="no more machines of this kind",
                ),
            ),
        )
    )
    return LoopRecord(
        number=42,
        at=AT,
        instant=Instant(40.0),
        generation=Generation(7),
        group_status={each.name: each for each in (general, memory)},
        pending=PendingCounts(helped=2, unhelpable=1, passed_over=1),
        planned={GroupName("general"): 3},
        needed_by={GroupName("general"): NeededBy(n_pods=2, first=tuple(pod.key for pod in _pending()[:2]))},
        costs={
            GroupName("general"): GroupCost(node=_price(384_000), present=_price(6 * 384_000), planned=_price(3 * 384_000)),
            GroupName("memory"): GroupCost(
                node=_price(1_344_000, "formula"), present=_price(5_376_000, "formula"), planned=None
            ),
        },
        asked=[(Grow(group=GroupName("general"), provider="kwok", seen=6, to=9), None)],
        scale_down=ScaleDownRecord(
            unneeded={GroupName("memory"): 1}, cooling={GroupName("general"): "it has grown 12 s ago"}, under_way=(2, 2)
        ),
    )


def some_decisions() -> DecisionLog:
    """A few binds, an eviction, a bind that was refused, and the growth of the autoscaler's last loop."""
    moment = iter(range(100))
    decision_log = DecisionLog(lambda: AT + next(moment))
    for number in range(4):
        effect = Bind(PodUid(f"u{number}"), PodKey("default", f"web-0{number}"), NodeName(f"general-{number}"))
        decision_log.note(effect, Outcome("done"))
    for name in ("worker-30", "worker-31", "web-30"):
        decision_log.note(Evict(uid=PodUid(name), key=PodKey("default", name), node=NodeName("general-3")), Outcome("done"))
    for name in ("proxy-a", "proxy-b"):
        decision_log.seen("bind", "pods", f"kube-system/{name}", "to general-0 after 0 s", related=("daemonset proxy",))
    refused = Outcome("refused", code=409, detail="pod is already assigned")
    decision_log.note(Bind(PodUid("w"), PodKey("default", "cache-55"), NodeName("general-2")), refused)
    decision_log.loop(_record())
    return decision_log


def explains(state_machine: StateMachine, now: Instant) -> ExplainService:
    """Explanations as the service makes them, with the node groups of the autoscaler's last loop."""
    registry = GroupRegistryView(group_status=_record().group_status)
    auxiliary = AuxiliaryObjects(namespaces={"default": {}, "batch": {}}, storage=Storage(), daemons=())
    return ExplainService(
        state_machine,
        Conversation(a_feed(state_machine, KnownAuxiliary(auxiliary))),
        group_registry=lambda: registry,
        settings=Settings,
        held_back=lambda _node, _group: (None, ()),
        clock=lambda: now,
        steady=lambda: AT,
    )


def _figures(observer: DashboardObserver) -> None:
    """An hour of figures, as the observer would have taken them."""
    for step in range(240):
        wave = math.sin(step / 20)
        figures = {
            "cpuPermille": round(380 + 90 * wave),
            "memoryPermille": round(340 + 50 * wave),
            "cpuUsedPermille": round(190 + 40 * wave) if step >= 60 else None,
            "memoryUsedPermille": round(170 + 20 * wave) if step >= 60 else None,
            "pending": max(0, round(5 * wave)),
            "nodes": 8 if step < 100 else 10,
            "nodesAdded": 2 * (step == 100),
            "binds": step % 7,
            "failures": int(step % 40 == 0),
            "evictions": 3 * (step in {120, 121, 180}),
            "costMicros": (8 if step < 100 else 10) * 768_000,
            "decisions.bind": step % 7,
            "decisions.grow": int(step == 95),
            "decisions.wait": int(step % 40 == 0),
        }
        observer.series.take(UnixTime(unix_time() - 15 * (240 - step)), figures)


def some_use(state_machine: StateMachine) -> NodeUse:
    """All nodes but the first use half of what is reserved on them."""
    rows, reserved = state_machine.state.nodes.row_of, state_machine.state.ledger.columns.reserved
    of = {name: amounts_of((reserved[:, row] // 2).tolist()) for name, row in list(rows.items())[1:]}
    return NodeUse(of, sum_of(of.values()))


@asynccontextmanager
async def served(
    state_machine: StateMachine,
    now: Instant,
    *,
    loop: dict[str, Any] | None,
    decision_log: DecisionLog,
    what_happened: HistoryQuery = no_history,
    shadow: bool = False,
    node_use: NodeUse | None = None,
    leader: LeaderStatus | None = None,
) -> AsyncIterator[str]:
    """The ops listener on a free port; gives its address."""
    moment = anyio.current_time()
    listeners = OpenStreams()
    app = ops_app(
        state_machine=state_machine,
        readiness=Ready(),
        registry=CollectorRegistry(),
        settings=SettingsView(as_file(Settings())),
        clock=lambda: Instant(now + anyio.current_time() - moment),
        autoscaler=lambda: loop,
        decision_log=decision_log,
        listeners=listeners,
        explain=explains(state_machine, now),
        what_happened=what_happened,
        shadow=shadow,
        node_use=lambda: node_use,
        leader=lambda: leader or alone(),
    )
    _figures(app.state.observer)
    with listen("ops", "127.0.0.1", 0) as sock:
        async with anyio.create_task_group() as group:
            await group.start(serve_app, app, sock, None, listeners.close)
            yield f"http://127.0.0.1:{sock.getsockname()[1]}"
            group.cancel_scope.cancel()
