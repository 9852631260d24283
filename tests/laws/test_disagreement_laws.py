"""With a kube-scheduler that keeps to the rules that we know there is no disagreement, however late each of us sees what."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import anyio
import hypothesis.strategies as st
from hypothesis import given, settings
from msgspec import structs

from slackwater.model.events import PodGone
from slackwater.model.ids import NodeName
from slackwater.model.objects import Node, Pod, Taint
from tests.support.builders import a_pod
from tests.support.disagreeing import Looking, a_machine
from tests.support.seeds import examples

SECONDS = 60
CLOSED = Taint("closed", "", "NoSchedule")


@dataclass
class View:
    """The cluster as one of us sees it, so many seconds late."""

    nodes_late: float
    pods_late: float
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)

    def fitting(self, pod: Pod) -> list[str]:
        left: dict[str, int] = {name: node.allocatable.cpu for name, node in self.nodes.items() if not node.taints}
        for each in self.pods.values():
            if each.node in left:
                left[each.node] -= each.kind.requests.cpu
        return sorted(name for name, cpu in left.items() if cpu >= pod.kind.requests.cpu)


class Cluster:
    """A kube-scheduler beside the service. It tries a pod again when it has seen a change since, after its back-off."""

    def __init__(self, ours: tuple[float, float], theirs: tuple[float, float]) -> None:
        self.looking = Looking()
        self._ours, self._theirs = View(*ours), View(*theirs)
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self.truth: dict[str, Pod | Node] = {}
        self._tries: dict[str, tuple[int, float, int]] = {}
        self._changes = 0

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.looking.now + seconds, next(self._numbers), act))

    def writes(self, name: str, to: Pod | Node | None) -> None:
        """Into the API server; either of us sees it later."""
        before = self.truth.pop(name, None)
        if to is not None:
            self.truth[name] = to
        self.after(self._late(self._ours, to or before), lambda: self._seen_by_us(name, before, to))
        self.after(self._late(self._theirs, to or before), lambda: self._seen_by_scheduler(name, to))

    def _late(self, view: View, what: Pod | Node | None) -> float:
        return view.nodes_late if isinstance(what, Node) else view.pods_late

    def _seen_by_us(self, name: str, before: Pod | Node | None, to: Pod | Node | None) -> None:
        if to is not None:
            self.looking.sees(to)
        elif isinstance(before, Pod):
            self.looking.state_machine.apply(PodGone(before.uid, before.key), self.looking.at())

    def _seen_by_scheduler(self, name: str, to: Pod | Node | None) -> None:
        table: dict[str, Node] | dict[str, Pod] = self._theirs.nodes if isinstance(to, Node) else self._theirs.pods
        if to is None:
            self._theirs.pods.pop(name, None)
        elif isinstance(to, Node) or name not in table or self._theirs.pods[name].node is None:
            table[name] = to  # type: ignore[assignment]
        if not (isinstance(to, Pod) and to.node is None):
            self._changes += 1

    def second(self) -> None:
        while self._due and self._due[0][0] <= self.looking.now:
            heapq.heappop(self._due)[2]()
        for name, pod in list(self._theirs.pods.items()):
            if pod.node is None and name in self.truth:
                self._try(name, pod)

    def _try(self, name: str, pod: Pod) -> None:
        tries, at, seen = self._tries.get(name, (0, -100.0, -1))
        if seen == self._changes or self.looking.now < at + min(10.0, 2.0 ** (tries - 1)):
            return
        self._tries[name] = tries + 1, self.looking.now, self._changes
        fitting = self._theirs.fitting(pod)
        current = self.truth[name]
        assert isinstance(current, Pod)
        words = f"0/{len(self._theirs.nodes)} nodes are available: {len(self._theirs.nodes)} no room."
        version = current.resource_version + 1
        if fitting:
            bound = structs.replace(current, node=NodeName(fitting[-1]), unschedulable_message=None, resource_version=version)
            self._theirs.pods[name] = bound  # assumed
            self.writes(name, bound)
        elif current.unschedulable_message != words:
            self.writes(name, structs.replace(current, unschedulable_message=words, resource_version=version))


LATE = st.sampled_from((0.0, 1.0))
ACTS = st.tuples(
    st.integers(0, SECONDS - 1),
    st.sampled_from(("node", "pod", "large pod", "large pod", "end", "end", "close", "open")),
    st.integers(0, 3),
)


@given(ours=st.tuples(LATE, LATE), theirs=st.tuples(LATE, LATE), acts=st.lists(ACTS, min_size=30, max_size=90))
@settings(max_examples=examples(75), deadline=None)
def test_with_a_kube_scheduler_of_the_same_rules_there_is_no_disagreement(
    ours: tuple[float, float], theirs: tuple[float, float], acts: list[tuple[int, str, int]]
) -> None:
    cluster = Cluster(ours, theirs)

    def act(what: str, which: int) -> None:
        node, running = f"n{which}", sorted(n for n, each in cluster.truth.items() if isinstance(each, Pod) and each.node)
        known = cluster.truth.get(node)
        match what:
            case "node" if known is None:
                cluster.writes(node, a_machine(node, cpu="2"))
            case "pod" | "large pod":
                pod = a_pod(f"p{len(cluster.truth)}-{cluster.looking.now}", cpu="2" if what == "large pod" else "1")
                cluster.writes(pod.key.name, pod)
            case "end" if running:
                cluster.writes(running[which % len(running)], None)
            case "close" | "open" if isinstance(known, Node):
                cluster.writes(node, a_machine(node, cpu="2", taints=[CLOSED] if what == "close" else []))

    async def main() -> None:
        await cluster.looking.begins(a_machine("n0", cpu="2"))
        cluster.truth["n0"] = cluster._theirs.nodes["n0"] = a_machine("n0", cpu="2")
        for at, what, which in acts:
            cluster.after(at, lambda what=what, which=which: act(what, which))  # type: ignore[misc]
        for _ in range(SECONDS + 30):
            await cluster.looking.goes_on(1.0, cluster.second)
            found = cluster.looking.state_machine.disagreements
            assert (found.disputed, found.binds_disagreed, cluster.looking.said) == (0, 0, [])

    anyio.run(main)
