"""What the state machine costs by itself, in this process: an event, a filter, a whole placement; beside each the same on
dicts.

The dict reference does the least that could be called the same: the pod under its UID and its requests added to its node;
for filter, one comparison for each resource and node. No server, no JSON.
"""

import gc
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import anyio.to_thread
from msgspec import structs

from slackwater.model.columns import Rows
from slackwater.model.events import BindEnded, ComingNodes, NodeSeen, NodesPlanned, PodGone, PodSeen, Synced
from slackwater.model.ids import Instant, NodeName
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from slackwater.runtime.state_machine import StateMachine
from tests.bench.options import BenchFailed, Options, WriteFrame
from tests.bench.report import Bounds, Measurement, Ratio, Report, ratio_of
from tests.support import installed
from tests.support.builders import a_node, a_pod, amounts

NAME: Final = "state-machine-events"

_NOW: Final = Instant(0.0)
#: As many as kube-scheduler shows to an extender of 1,000 nodes.
_SAMPLE: Final = 420
_FILTERS: Final = 200
_PLACEMENTS: Final = 1000
#: Of so many nodes one has just come for pods of a plan.
_ONE_IN: Final = 5
_EVENTS: Final = Bounds(low=0.5, high=100.0, why="an event costs a few dict operations and a few numpy scalars, not a scan")
_FILTER: Final = Bounds(low=0.0, high=1.5, why="columns that are slower than a Python loop over nodes have no reason to exist")

_T = TypeVar("_T")
#: Of one round: what was done -> nanoseconds for each.
_Times = dict[str, float]


async def measure(options: Options, tell: WriteFrame) -> Report:
    """Rounds alternate between the state machine and the dicts."""
    nodes = options.nodes or 5000
    pods = options.pods or (1000 if options.quick else 50_000)
    rounds = options.rounds or (3 if options.quick else 7)
    state_machine, plain = await anyio.to_thread.run_sync(_measure, nodes, pods, rounds)
    tell(f"{NAME}: {rounds} rounds done")
    return Report(
        bench=NAME,
        quick=options.quick,
        parameters={"nodes": nodes, "pods": pods, "rounds": rounds},
        measurements=(*_measurements("state machine", state_machine), *_measurements("dicts", plain)),
        ratios=tuple(_ratios(state_machine, plain)),
        notes=(
            f"Rooms are held on one of {_ONE_IN} nodes, for two pods each, as the expander `price` holds them.",
            f"A placement is filter over {_SAMPLE} rows, prioritize, bind, the end of the bind, and the pod seen bound.",
            "Below 1 the state machine is faster than the dicts. Times are CPU times of the one thread that computes.",
        ),
    )


def _measurements(subject: str, rounds: list[_Times]) -> Iterator[Measurement]:
    for quantity in rounds[0]:
        samples = tuple(times[quantity] / 1000 for times in rounds)
        yield Measurement(subject=subject, quantity=quantity, unit="µs", samples=samples)


def _ratios(state_machine: list[_Times], plain: list[_Times]) -> Iterator[Ratio]:
    for quantity in plain[0]:
        bounds = _FILTER if quantity.startswith("filter") else _EVENTS
        above, below = ([times[quantity] for times in rounds] for rounds in (state_machine, plain))
        yield ratio_of(f"{quantity}: state machine / dicts", above, below, bounds=bounds)


def _measure(nodes: int, pods: int, rounds: int) -> tuple[list[_Times], list[_Times]]:
    state_machine: list[_Times] = []
    plain: list[_Times] = []
    for _ in range(rounds):
        pending = [a_pod(f"p{n}") for n in range(pods)]
        bound = [a_pod(f"p{n}", on=f"n{n % nodes}") for n in range(pods)]
        # As in the service, which freezes what it has listed.
        gc.collect()
        gc.freeze()
        state_machine.append(_of_state(nodes, pending, bound))
        plain.append(_of_dicts(nodes, pending, bound))
        gc.unfreeze()
    return state_machine, plain


def _each(things: Collection[_T], work: Callable[[_T], object]) -> float:
    """CPU nanoseconds of `work` for each of the things; calling it is in the figure.

    By the wall clock the reference would be measured between two turns of other processes, and the state machine over many."""
    started = time.thread_time_ns()
    for thing in things:
        work(thing)
    return (time.thread_time_ns() - started) / len(things)


def _of_state(nodes: int, pending: list[Pod], bound: list[Pod]) -> _Times:
    state_machine = StateMachine(installed.POLICY, seed=1)
    state_machine.apply(Synced(), _NOW)
    for number in range(nodes):
        state_machine.apply(NodeSeen(a_node(f"n{number}", cpu="64", memory="256Gi")), _NOW)

    def take(events: Sequence[PodSeen | PodGone]) -> float:
        return _each(events, lambda event: state_machine.apply(event, _NOW))

    times = {
        "pod seen pending": take([PodSeen(pod) for pod in pending]),
        "pod seen bound": take([PodSeen(pod) for pod in bound]),
    }
    rows = state_machine.state.nodes.rows_of([f"n{number}" for number in range(nodes)])
    asked = [a_pod("asked")] * _FILTERS
    times["filter, all nodes"] = _each(asked, lambda pod: state_machine.filter(pod, rows, _NOW))
    times["pod gone"] = take([PodGone(pod.uid, pod.key) for pod in bound])
    placed = [a_pod(f"placed{number}") for number in range(_PLACEMENTS)]
    times["placement"] = _each(placed, lambda pod: _place(state_machine, pod, rows[:_SAMPLE]))
    _check(state_machine, nodes)
    return times | _beside_planned_pods(nodes, held=False) | _beside_planned_pods(nodes, held=True)


def _beside_planned_pods(nodes: int, *, held: bool) -> _Times:
    """The median and p99 of filter, of a pod that no plan is about. `held`: every fifth node has come for two waiting pods, and
    holds their room; then of these pods, too."""
    state_machine, new = StateMachine(replace(installed.POLICY, place_as_planned=held)), range(nodes // _ONE_IN)
    state_machine.apply(Synced(), _NOW)
    awaited = [a_pod(f"awaited{number}", cpu="2", memory="4Gi") for number in range(2 * len(new))]
    for pod in awaited:
        state_machine.apply(PodSeen(pod), _NOW)
    for_pods = tuple((awaited[2 * at].uid, awaited[2 * at + 1].uid) for at in new)
    coming = ComingNodes(labels=(("pool", "new"),), allocatable=amounts("64", "256Gi"), nodes=for_pods)
    state_machine.apply(NodesPlanned((coming,) if held else (), _NOW), _NOW)
    for number in range(nodes):
        labels = {"pool": "new" if number in new else "old"}
        state_machine.apply(NodeSeen(a_node(f"n{number}", cpu="64", memory="256Gi", labels=labels)), _NOW)
    if (found := len(state_machine.state.holds.planned)) != len(awaited) * held:
        raise BenchFailed(f"{NAME}: room is held for {found} pods, want {len(awaited) * held}")
    rows = state_machine.state.nodes.rows_of([f"n{number}" for number in range(nodes)])
    times: _Times = {}
    rooms = f"room held for {len(awaited)}" if held else "none held"
    asked = {"others": [a_pod("asked")] * _FILTERS} | ({"planned pods": awaited[:_FILTERS]} if held else {})
    for what, pods in asked.items():
        took = sorted(_each([pod], lambda pod: state_machine.filter(pod, rows, _NOW)) for pod in pods)
        times[f"filter of {what}, {rooms}, p50"] = took[len(took) // 2]
        times[f"filter of {what}, {rooms}, p99"] = took[len(took) * 99 // 100]
    return times


def _place(state_machine: StateMachine, pod: Pod, rows: Rows) -> None:
    state_machine.apply(PodSeen(pod), _NOW)
    fitting = rows[state_machine.filter(pod, rows, _NOW) == Reason.OK]
    scores = state_machine.prioritize(pod, fitting, _NOW)
    node = NodeName(f"n{fitting[scores.argmax()]}")  # rows were given in the order of the names
    state_machine.bind(pod.uid, pod.key, node, _NOW)
    state_machine.apply(BindEnded(pod.uid, node, "bound", ""), _NOW)
    state_machine.apply(PodSeen(structs.replace(pod, node=node, resource_version=pod.resource_version + 1)), _NOW)


def _check(state_machine: StateMachine, nodes: int) -> None:
    """Nothing is left of the pods that went, and every placement counts."""
    reserved = int(state_machine.state.ledger.columns.reserved[0, :nodes].sum())
    if (state_machine.state.event_counts.confirmed, reserved) != (_PLACEMENTS, 500 * _PLACEMENTS):
        seen = f"{state_machine.state.event_counts.confirmed} placements confirmed, {reserved}m CPU reserved"
        raise BenchFailed(f"{NAME}: {seen}, want {_PLACEMENTS} and {500 * _PLACEMENTS}m")


class _Dicts:
    """The reference."""

    def __init__(self, nodes: int) -> None:
        self.total = {f"n{number}": (64_000, 256 << 30) for number in range(nodes)}
        self.reserved = {name: [0, 0] for name in self.total}
        self.pods: dict[str, Pod] = {}
        self.on_node: dict[str, set[str]] = defaultdict(set)

    def pending(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod

    def bound(self, pod: Pod) -> None:
        assert pod.node is not None
        self.pods[pod.uid] = pod
        self.on_node[pod.node].add(pod.uid)
        reserved = self.reserved[pod.node]
        reserved[0] += pod.kind.requests.cpu
        reserved[1] += pod.kind.requests.memory

    def gone(self, uid: str) -> None:
        pod = self.pods.pop(uid)
        assert pod.node is not None
        self.on_node[pod.node].discard(uid)
        reserved = self.reserved[pod.node]
        reserved[0] -= pod.kind.requests.cpu
        reserved[1] -= pod.kind.requests.memory

    def filter(self, pod: Pod) -> list[bool]:
        cpu, memory = pod.kind.requests
        reserved = self.reserved
        verdicts = []
        for name, (total_cpu, total_memory) in self.total.items():
            used_cpu, used_memory = reserved[name]
            verdicts.append(cpu <= total_cpu - used_cpu and memory <= total_memory - used_memory)
        return verdicts


def _of_dicts(nodes: int, pending: list[Pod], bound: list[Pod]) -> _Times:
    dicts = _Dicts(nodes)
    times = {"pod seen pending": _each(pending, dicts.pending), "pod seen bound": _each(bound, dicts.bound)}
    asked = [a_pod("asked")] * _FILTERS
    if not all(dicts.filter(asked[0])):
        raise BenchFailed(f"{NAME}: not all nodes pass in the reference")
    times["filter, all nodes"] = _each(asked, dicts.filter)
    times["pod gone"] = _each(bound, lambda pod: dicts.gone(pod.uid))
    return times
