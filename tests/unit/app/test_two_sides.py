"""What of the real cluster reaches our side: demand and failures do, and what another autoscaler does to its nodes does not."""

import gc
import json
from collections.abc import Iterable, Sequence
from types import FunctionType, ModuleType

import pytest
from msgspec import structs

from slackwater.app.counterfactual import counterfactual
from slackwater.app.counterfactual.budgets import allowed_here
from slackwater.app.counterfactual.counterfactual import Counterfactual
from slackwater.app.counterfactual.lines import SIDES, AnyLine, Decision, ModelCheck, NodeCame, NodeWent, Sample, Side, Sides
from slackwater.app.counterfactual.observation import Observation
from slackwater.app.settings import Settings, loads
from slackwater.app.whatif.question import GroupRegistryView
from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import Generation, Instant, NodeName, PodUid, UnixTime
from slackwater.model.objects import DisruptionBudget, Node, Pod, Taint
from tests.support.builders import a_budget, a_node, a_pod
from tests.support.manifests import GROUP

START = 1_800_000_000.0
KARPENTER = {"karpenter.sh/nodepool": "general"}


def settings_with(**scale_down: str) -> Settings:
    """Without arguments nothing is removed."""
    autoscaler = {
        "enabled": True,
        "scaleDown": {"enabled": bool(scale_down), **scale_down},
        "nodeGroups": [{"name": "g", "maxSize": 9}],
    }
    head = {"apiVersion": "config.slackwater.dev/v1alpha1", "kind": "SlackwaterConfiguration"}
    return loads(json.dumps({**head, "autoscaler": autoscaler}), source="test")


class Watched:
    """A real cluster by hand, and the log of both sides. It begins with one node of our group."""

    def __init__(self, *more: Node, pods: Sequence[Pod] = (), settings: Settings | None = None, sides: Sides = SIDES) -> None:
        self.lines: list[AnyLine] = []
        self._both = Counterfactual(settings or settings_with(), "test", sides)
        self._now, self._first = START, True
        self.see([node("own", labels={GROUP: "g"}), *more], pods)

    def see(self, nodes: Iterable[Node | str] = (), pods: Iterable[Pod | str] = ()) -> None:
        """Nodes and pods as they are now; a name, or a UID, of one that is gone."""
        changes = Changes(
            generation=Generation(0),
            nodes=[NodeChange(NodeName(n), None) if isinstance(n, str) else NodeChange(n.name, n) for n in nodes],
            pods=[PodChange(PodUid(p), None) if isinstance(p, str) else PodChange(p.uid, p) for p in pods],
            namespaces={"default": {}} if self._first else None,
        )
        self._take(changes, rebuild=self._first)
        self._first = False

    def passes(self, seconds: float) -> None:
        for _ in range(int(seconds / 10)):
            self._take(Changes(generation=Generation(0)), rebuild=False)

    def remembers(self, part: str) -> set[str]:
        """Texts with this part that both sides still hold."""
        self.lines.clear()
        seen, todo, found = set[int](), list[object]([self._both]), set[str]()
        while todo:
            one = todo.pop()
            keys = one if isinstance(one, dict) else ()  # of texts, which the garbage collector leaves out
            for each in (*gc.get_referents(one), *keys):
                if isinstance(each, str):
                    found |= {each} if part in each else set()
                elif id(each) not in seen and not isinstance(each, type | ModuleType | FunctionType):
                    seen.add(id(each))
                    todo.append(each)
        return found

    def _take(self, changes: Changes, *, rebuild: bool) -> None:
        seen = Observation(
            at=UnixTime(self._now),
            changes=changes,
            rebuild=rebuild,
            registry=GroupRegistryView(group_status={}),
            now=Instant(0.0),
        )
        self._now += 10.0
        self.lines += self._both.take(seen)

    def nodes(self, side: Side) -> list[str]:
        there: dict[str, None] = {}
        for line in self.lines:
            if isinstance(line, NodeCame) and line.side == side:
                there[line.node] = None
            elif isinstance(line, NodeWent) and line.side == side:
                del there[line.node]
        return list(there)

    def pending(self, side: Side) -> int:
        return [line.pending for line in self.lines if isinstance(line, Sample) and line.side == side][-1]


def node(name: str, labels: dict[str, str] | None = None) -> Node:
    """A node of 4 CPUs."""
    return structs.replace(a_node(name, labels=labels), scalars=(("pods", 110),))


def owned(name: str, *, on: str | None = None, cpu: str = "500m", kind: str = "ReplicaSet") -> Pod:
    group = "batch" if kind == "Job" else "apps"
    return structs.replace(a_pod(name, on=on, cpu=cpu, uid=name), eviction_facts=EvictionFacts(owner=Owner(group, kind, "web")))


def tainted(found: Node, key: str) -> Node:
    return structs.replace(found, taints=(Taint(key, "", "NoSchedule"),))


def test_nodes_that_nobody_owns_come_and_go_on_both_sides() -> None:
    watched = Watched()
    watched.see([node("by-hand")])
    watched.passes(60)
    assert [watched.nodes(side) for side in ("real", "ours")] == [["own", "by-hand"]] * 2
    watched.see(["by-hand"])
    watched.passes(60)
    assert [watched.nodes(side) for side in ("real", "ours")] == [["own"]] * 2


def test_another_autoscalers_nodes_come_on_its_side_only() -> None:
    watched = Watched()
    watched.see([node("theirs", labels=KARPENTER)])
    watched.passes(60)
    assert (watched.nodes("real"), watched.nodes("ours")) == (["own", "theirs"], ["own"])
    (decision,) = (line for line in watched.lines if isinstance(line, Decision))
    assert (decision.side, decision.action, decision.by, decision.nodes) == ("real", "add", "Karpenter", 1)


@pytest.mark.parametrize("mark", ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"])
def test_a_node_that_another_autoscaler_removes_stays_on_our_side(mark: str) -> None:
    large, pod = node("large", labels=KARPENTER), owned("web-1", on="large")
    watched = Watched(large, pods=[pod])
    watched.see([tainted(large, mark)])
    watched.see(pods=[structs.replace(pod, deleting=True), owned("web-2", on="own")])
    watched.see(["large"], ["web-1"])
    watched.passes(90)
    assert (watched.nodes("real"), watched.nodes("ours")) == (["own"], ["own", "large"])
    evictions = {
        side: sum(s.evictions for s in watched.lines if isinstance(s, Sample) and s.side == side) for side in ("real", "ours")
    }
    assert evictions == {"real": 1, "ours": 0}
    (went,) = (line for line in watched.lines if isinstance(line, NodeWent))
    assert went.decision is not None


def test_a_service_that_serves_says_that_it_decided_itself() -> None:
    """Its taint is Cluster Autoscaler's."""
    watched = Watched(sides=("real",))
    new = node("new", labels={GROUP: "g"})
    watched.see([new])
    watched.see([tainted(new, "ToBeDeletedByClusterAutoscaler")])
    watched.see(["new"])
    watched.passes(60)
    decisions = [line for line in watched.lines if isinstance(line, Decision)]
    assert [(line.action, line.by) for line in decisions] == [("add", "Slackwater"), ("remove", "Slackwater")]
    assert {line.side for line in watched.lines if isinstance(line, Sample)} == {"real"}


def test_a_node_that_fails_fails_on_both_sides_and_its_pods_are_made_again() -> None:
    watched = Watched(
        node("weak", labels={GROUP: "g"}), pods=[owned("web-1", on="weak", cpu="4"), owned("web-2", on="own", cpu="3")]
    )
    watched.see(["weak"], ["web-1"])
    watched.see(pods=[owned("web-3", cpu="4")])
    watched.passes(90)
    assert "weak" not in watched.nodes("real") + watched.nodes("ours")
    assert watched.pending("real") == 1
    added = [line for line in watched.lines if isinstance(line, Decision) and line.side == "ours"]
    assert [(line.action, line.nodes, line.example) for line in added] == [("add", 1, "default/web-1")]


def test_demand_that_ends_ends_on_our_side_and_a_job_runs_as_long_as_it_really_did() -> None:
    """The node is full on our side only, since the other one's pods have moved to a node of Karpenter's."""
    watched = Watched(pods=[owned("web-1", on="own", cpu="4")])
    watched.see([node("theirs", labels=KARPENTER)], [owned("late-job", on="theirs", cpu="4", kind="Job")])
    watched.passes(20)
    watched.see(pods=["late-job", "web-1"])  # the job ran for 30 s
    watched.passes(60)
    assert watched.pending("ours") == 0
    watched.passes(60)
    watched.see(pods=[owned("late", cpu="4")])
    watched.passes(90)
    assert watched.pending("ours") == 0
    assert not watched.remembers("late-job"), "it ended here after it had ended there"


def test_nothing_is_kept_of_pods_that_ended() -> None:
    """A day of a large cluster has tens of thousands of them."""
    watched = Watched(node("theirs", labels=KARPENTER), pods=[owned("here", on="own")])
    for number, kind in enumerate(("ReplicaSet", "ReplicaSet", "Job", "Job")):
        name = f"gone-{number}"
        watched.see(pods=[owned(name, cpu="3", kind=kind)])
        watched.passes(60)
        if number % 2:  # in the real cluster the others never get a node
            watched.see(pods=[owned(name, on="theirs", cpu="3", kind=kind)])
        watched.see(pods=[name])
        watched.passes(90)
    assert (watched.remembers("here"), watched.remembers("gone-")) == ({"here"}, set())


def test_a_budget_allows_what_our_healthy_pods_leave() -> None:
    pods = [structs.replace(a_pod(f"web-{n}", on="n", labels={"app": "web"}), ready=n < 3) for n in range(4)]
    budgets = [a_budget("web", allowed=1, app="web"), a_budget("other", allowed=2, app="other")]
    more = [structs.replace(pod, ready=True) for pod in pods]
    assert [each.disruptions_allowed for each in allowed_here(budgets, more, pods)] == [2, 2]
    assert [each.disruptions_allowed for each in allowed_here(budgets, pods[:1], pods)] == [0, 2]


def test_budgets_are_counted_again_only_when_pods_change(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counting(*_: object) -> list[DisruptionBudget]:
        calls.append(1)
        return []

    monkeypatch.setattr(counterfactual, "allowed_here", counting)
    watched = Watched(pods=[owned("web", on="own")])
    watched.passes(60)
    assert len(calls) == 1
    watched.see([node("b")])
    watched.passes(60)
    assert len(calls) == 1, "no pod has changed on either side"
    watched.see(pods=[owned("more", on="own")])
    watched.passes(120)
    assert 1 < len(calls) < 8, "when it came, and our side bound it"


def test_a_removal_that_another_autoscaler_gives_up_is_no_difference() -> None:
    theirs = node("theirs", labels=KARPENTER)
    watched = Watched(theirs)
    watched.see([tainted(theirs, "karpenter.sh/disrupted")])
    watched.see([theirs])
    watched.passes(30)
    watched.see(["theirs"])  # it fails
    watched.passes(60)
    assert [watched.nodes(side) for side in ("real", "ours")] == [["own"]] * 2


def test_a_node_that_fails_while_we_remove_it_is_gone() -> None:
    """Its pod takes minutes to end. A node that comes meanwhile keeps its pods."""
    slow = structs.replace(owned("web-1", on="spare", cpu="1"), grace_seconds=300)
    settings = settings_with(unneededTime="10s", delayAfterAdd="0s")
    watched = Watched(node("spare", labels={GROUP: "g"}), pods=[slow, a_pod("stays", on="own")], settings=settings)
    watched.passes(90)
    (begun,) = (line for line in watched.lines if isinstance(line, Decision))
    assert (begun.side, begun.action) == ("ours", "remove")
    assert watched.nodes("ours") == ["own", "spare"], "it still leaves"
    watched.see(["spare"])
    watched.see([node("fresh")], [owned("web-3", on="fresh", cpu="3")])
    watched.passes(900)
    assert [watched.nodes(side) for side in ("real", "ours")] == [["own", "fresh"]] * 2
    assert sum(line.evictions for line in watched.lines if isinstance(line, Sample) and line.side == "ours") == 1


def test_the_model_is_checked_on_places_that_others_took_before() -> None:
    """In the second hour, the pod of a place is another one than the first; it ends in the model, too."""
    watched = Watched(pods=[owned("web-1", on="own")])
    watched.see(pods=["web-1", owned("web-2", on="own")])
    watched.passes(3700)
    watched.see(pods=["web-2"])
    watched.passes(3700)
    last = [line for line in watched.lines if isinstance(line, ModelCheck)][-1]
    assert (last.modelled_empty_nodes, last.real_empty_nodes) == (1, 1)
