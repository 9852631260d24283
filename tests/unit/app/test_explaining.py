"""`/explain/...` from HTTP to the simulator and back, on a real world."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import httpx
import pytest
from msgspec import structs

from slackwater.app.explain.service import ExplainService
from slackwater.app.settings import Settings
from slackwater.app.whatif.question import GroupRegistryView
from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.policy import Policy
from slackwater.controllers.slack.headroom_limits import HeadroomCut
from slackwater.controllers.slack.scale_up import SlackPlan
from slackwater.controllers.slack.state import Placeholder, SlackState
from slackwater.model.auxiliary import AuxiliaryObjects
from slackwater.model.events import BudgetSeen, Event, NodeSeen, PodGone, PodSeen, Synced
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.history import HistoryAction, HistoryEntry, HistoryLine
from slackwater.model.ids import Instant, NodeName, UnixTime
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.objects import Node, Pod
from slackwater.model.pod_constraints import ClaimMount, PodConstraints, SpreadConstraint
from slackwater.model.prices import PriceBook
from slackwater.model.reasons import UnremovableReason
from slackwater.model.scheduler_profile import FilterProfile, SpreadSources
from slackwater.model.storage import Storage
from slackwater.runtime.state_machine import StateMachine
from slackwater_protocol.names import NODE_GROUP
from tests.support import installed
from tests.support.builders import a_budget, a_node, a_pod, a_vertical, amounts
from tests.support.ops import ops_app
from tests.support.planners import Conversation, KnownAuxiliary, a_feed
from tests.support.scalingup import a_template

pytestmark = pytest.mark.anyio
NOW = Instant(100.0)
_POLICY = installed.POLICY
NOTHING_ELSE = AuxiliaryObjects(namespaces={"default": {}}, storage=Storage(), daemons=())
OWNED = EvictionFacts(owner=Owner("apps", "ReplicaSet", "web"))


class Bench:
    """A state machine, and its ops listener."""

    def __init__(
        self,
        *objects: Node | Pod,
        group_registry: GroupRegistryView | None = None,
        past: Mapping[str, HistoryEntry] = MappingProxyType({}),
        policy: Policy = _POLICY,
        auxiliary: AuxiliaryObjects = NOTHING_ELSE,
    ) -> None:
        """With groups, an autoscaler watches the auxiliary objects."""

        async def history(_what: str, _namespace: str, name: str) -> tuple[HistoryLine, ...]:
            return (HistoryLine.of(past[name]),) if name in past else ()

        self.state_machine = StateMachine(policy)
        self.state_machine.apply(Synced(), NOW)
        for item in objects:
            self.tell(NodeSeen(item) if isinstance(item, Node) else PodSeen(item))
        known = None if group_registry is None else KnownAuxiliary(auxiliary)
        self.conversation = Conversation(a_feed(self.state_machine, known))
        self.explaining = ExplainService(
            self.state_machine,
            self.conversation,
            group_registry=lambda: group_registry,
            settings=Settings,
            held_back=lambda _node, _group: (5.0, [(UnremovableReason.IN_COOLDOWN, "pool: it has grown 5 s ago")]),
            clock=lambda: NOW,
            steady=lambda: UnixTime(1e9),
            history=history,
        )
        self.app: Any = ops_app(state_machine=self.state_machine, clock=lambda: NOW, explain=self.explaining)

    def tell(self, event: Event) -> None:
        self.state_machine.apply(event, NOW)

    async def get(self, path: str, *, status: int = 200) -> dict[str, Any]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=self.app), base_url="http://ops") as http:
            answer = await http.get(f"/explain/{path}")
        assert answer.status_code == status, answer.text
        found: dict[str, Any] = answer.json()
        return found


def roomy(name: str, **more: Any) -> Node:
    return structs.replace(a_node(name, **more), scalars=(("pods", 110),))


def a_group_registry(*nodes: str, largest: int = 1, smallest: int = 0, size: int = 1) -> GroupRegistryView:
    group = NodeGroup(
        name=GroupName("pool"),
        provider="kwok",
        min_size=smallest,
        max_size=largest,
        target=size,
        instances=(),
        template=a_template(cpu="4"),
    )
    ready = tuple(map(NodeName, nodes))
    group_status = NodeGroupStatus(
        group=group, known=True, ready=ready, unready=(), starting=(), coming=0, missing=0, lost=(), leaving=0
    )
    return GroupRegistryView(group_status={group.name: group_status})


async def test_a_pending_pod_by_both_accounts() -> None:
    bench = Bench(roomy("n1"), a_pod("a", on="n1", cpu="3"), a_pod("big", cpu="1500m"))
    answer = await bench.get("pods/default/big")
    (reason,) = answer["reasons"]
    assert (answer["object"], answer["state"]) == ("pod default/big", "pending")
    assert (reason["code"], reason["short"], reason["nodes"]) == ("resources_short", {"milliCPU": 500}, 1)
    assert answer["remedies"] == [
        {
            "change": "lower the request of pod default/big for cpu by 500m, from 1500m to 1",
            "checked": True,
            "changes": ["lower the request of pod default/big for cpu by 500m, from 1500m to 1"],
        }
    ]
    assert "notes" not in answer


async def test_a_node_and_its_group_are_explained_with_their_cost() -> None:
    book = PriceBook(configured={GroupName("pool"): 96_000})
    view = replace(a_group_registry("n1"), prices=book)
    bench = Bench(roomy("n1", labels={NODE_GROUP: "pool"}), roomy("n2"), group_registry=view)
    want = {"perHour": "0.096", "currency": "USD", "basis": "configured"}
    assert (await bench.get("nodes/n1"))["facts"]["price"] == want
    assert (await bench.get("nodes/n2"))["facts"]["price"]["basis"] == "formula"
    assert (await bench.get("groups/pool"))["facts"]["cost"] == {"node": want, "present": want}


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("pods/default/web-1", "pods of this name are in namespace shop"),
        ("permits/default/web-1", "pods of this name are in namespace shop"),
        ("pods/shop/wbe-1", "did you mean web-1?"),
        ("pods/shop/cache", "there are cache-0, cache-1, cache-2, cache-3 and 1 more"),
        ("pods/shop/other", None),
        ("nodes/ndoe-a", "did you mean node-a?"),
        ("nodes/web-1", None),
        ("groups/Pool", "known: pool"),
    ],
)
async def test_for_what_does_not_exist_there_is_a_hint_what_may_have_been_meant(path: str, hint: str | None) -> None:
    names = ["web-1", *(f"cache-{number}" for number in range(5))]
    pods = [a_pod(name, namespace="shop", on="node-a") for name in names]
    bench = Bench(roomy("node-a"), *pods, group_registry=a_group_registry("node-a"))
    detail = (await bench.get(path, status=404))["detail"]
    assert detail.endswith(f"; {hint}") if hint else ";" not in detail


async def test_the_next_answer_knows_what_happened_since() -> None:
    running_pods = a_pod("a", on="n1", cpu="3")
    bench = Bench(roomy("n1"), running_pods, a_pod("big", cpu="1500m"))
    assert (await bench.get("pods/default/big"))["state"] == "pending"
    bench.tell(PodGone(running_pods.uid, running_pods.key))
    assert (await bench.get("pods/default/big"))["state"] == "schedulable"
    bench.tell(NodeSeen(roomy("n1", unschedulable=True)))
    answer = await bench.get("pods/default/big")
    assert [remedy["change"] for remedy in answer["remedies"]] == ["uncordon node n1"]


async def test_a_process_that_knows_nothing_gets_the_whole_cluster() -> None:
    bench = Bench(roomy("n1"), a_pod("big", cpu="8"))
    before = await bench.get("pods/default/big")
    bench.conversation.forget()
    bench.tell(NodeSeen(roomy("n2")))
    after = await bench.get("pods/default/big")
    assert (before["reasons"][0]["nodes"], after["reasons"][0]["nodes"]) == (1, 2)


async def test_room_held_for_others_is_reported_as_held_and_its_own_hold_is_not() -> None:
    rival, pod = a_pod("rival", cpu="3"), a_pod("web", cpu="3")
    bench = Bench(roomy("n1"), rival, pod)
    rows = bench.state_machine.state.nodes.live_rows()
    bench.state_machine.filter(pod, rows, NOW)
    assert (await bench.get("pods/default/web"))["state"] == "schedulable"
    answer = await bench.get("pods/default/rival")
    assert [reason["code"] for reason in answer["reasons"]] == ["held_for_others"]


async def test_a_missing_request_is_reported_for_our_pods_alone() -> None:
    ours = a_pod("ours", missing_request="app: memory")
    other = a_pod("other", missing_request="app: memory")
    other = structs.replace(other, kind=replace(other.kind, scheduler_name="default-scheduler"))
    bench = Bench(roomy("n1"), ours, other)
    answer = await bench.get("pods/default/ours")
    assert answer["reasons"][0]["code"] == "missing_request"
    assert "give pod default/ours a request for app: memory" in [remedy["change"] for remedy in answer["remedies"]]
    assert (await bench.get("pods/default/other"))["state"] == "schedulable"


async def test_a_group_at_its_maximum_is_named_with_the_number_that_helps() -> None:
    bench = Bench(roomy("n1", cpu="1"), a_pod("web", cpu="3"), group_registry=a_group_registry())
    answer = await bench.get("pods/default/web")
    assert "raise max of group pool from 1 to 2" in [remedy["change"] for remedy in answer["remedies"]]
    group = await bench.get("groups/pool")
    assert [remedy["change"] for remedy in group["remedies"]] == ["raise max of group pool from 1 to 2"]
    assert group["facts"]["target"] == 1


async def test_a_node_names_the_budget_that_keeps_it() -> None:
    nodes = [roomy(name, labels={"slackwater.dev/node-group": "pool"}) for name in ("n1", "n2")]
    web = structs.replace(a_pod("web", on="n1", labels={"app": "web"}), eviction_facts=OWNED)
    bench = Bench(*nodes, web, group_registry=a_group_registry("n1", "n2", largest=5, size=2))
    bench.tell(BudgetSeen(a_budget("web", allowed=0, app="web")))
    answer = await bench.get("nodes/n1")
    assert [reason["code"] for reason in answer["reasons"]] == ["NotEnoughPdb", "ScaleDownInCooldown"]
    assert answer["reasons"][0]["objects"][0] == "PodDisruptionBudget default/web"
    assert len(answer["remedies"]) == 1
    assert answer["facts"]["utilization"] == {"resource": "cpu", "share": 0.125}


async def test_without_an_autoscaler_nodes_belong_to_no_group_and_rules_about_volumes_are_not_judged() -> None:
    bench = Bench(roomy("n1"))
    assert (await bench.get("nodes/n1"))["reasons"][0]["code"] == "NotAutoscaled"


async def test_a_node_in_quarantine_is_reported_as_quarantined_and_not_as_cordoned() -> None:
    bench = Bench(roomy("n1"), a_pod("web"))
    bench.state_machine.state.quarantine.put(NodeName("n1"), "a test says so", NOW)
    for _ in range(2):
        answer = await bench.get("pods/default/web")
        assert [reason["code"] for reason in answer["reasons"]] == ["node_quarantined"]
    bench.state_machine.state.quarantine.lift(NodeName("n1"))
    assert (await bench.get("pods/default/web"))["state"] == "schedulable"


async def test_what_is_not_there_is_named() -> None:
    bench = Bench(roomy("n1"), a_pod("web", on="n1"))
    for path, named in (
        ("pods/default/none", "pod default/none"),
        ("nodes/none", "node none"),
        ("groups/none", "group none"),
        ("permits/default/web", "permit default/web"),
        ("migrations/default/none", "pod default/none"),
        ("gates/default/web", "gate default/web"),
    ):
        answer = await bench.get(path, status=404)
        assert named in answer["detail"]


async def test_a_permit_that_was_denied_says_what_the_node_lacks() -> None:
    vm = structs.replace(
        a_pod("vm", on="n1", cpu="1", memory="4Gi"), vertical=a_vertical(using=amounts("1", "4Gi"), auto_migrate=True)
    )
    bench = Bench(roomy("n1"), roomy("n2", cpu="8"), vm, a_pod("other", on="n1", cpu="2"))
    answer = await bench.get("permits/default/vm")
    assert answer["object"] == "permit default/vm"
    assert answer["facts"]["node"] == "n1"
    migration = await bench.get("migrations/default/vm")
    assert migration["facts"]["nodesWithRoom"] == ["n2"]


EVICTED = HistoryEntry(at_ms=0, action=HistoryAction.EVICTED, pod="default/web", uid="u", node="n1", why="not needed: empty")


async def test_an_explanation_ends_with_what_happened_last() -> None:
    bench = Bench(roomy("n1"), a_pod("web", cpu="6"), a_pod("other", cpu="6"), past={"web": EVICTED})
    (entry,) = (await bench.get("pods/default/web"))["history"]
    assert entry["text"] == "evicted from n1, because the node was being removed: not needed: empty"
    assert "history" not in await bench.get("pods/default/other")


async def test_of_a_pod_that_is_gone_the_answer_names_the_command_that_knows_it() -> None:
    bench = Bench(roomy("n1"), past={"web": EVICTED})
    missing = await bench.get("pods/default/web", status=404)
    assert "`slackwater history pod default/web`" in missing["detail"]
    assert "slackwater history" not in (await bench.get("pods/default/other", status=404))["detail"]


async def test_a_node_can_go_whose_pods_lack_requests_that_our_filter_does_not_ask_of_them() -> None:
    """A pod of another scheduler never comes to our filter, so the rule does not keep it from another node."""
    nodes = [roomy(name, labels={"slackwater.dev/node-group": "pool"}) for name in ("n1", "n2")]
    other = a_pod("other", on="n1", missing_request="app: memory")
    other = structs.replace(other, kind=replace(other.kind, scheduler_name="x"), eviction_facts=OWNED)
    bench = Bench(*nodes, other, group_registry=a_group_registry("n1", "n2", largest=5, size=2))
    answer = await bench.get("nodes/n1")
    assert (answer["state"], answer["facts"]["moves"]) == ("removable", [{"pod": "default/other", "node": "n2"}])


async def test_a_pod_fits_for_certain_only_if_every_rule_could_be_judged() -> None:
    """Without an autoscaler nobody watches claims and classes: kube-scheduler may refuse the pod on every node."""
    web = a_pod("web")
    web = structs.replace(web, kind=replace(web.kind, pod_constraints=PodConstraints(claims=(ClaimMount("data"),))))
    answer = await Bench(roomy("n1"), web).get("pods/default/web")
    assert (answer["state"], [reason["code"] for reason in answer["reasons"]]) == ("unknown", ["partly_judged"])
    assert any("StorageClass" in note for note in answer["notes"])
    assert (await Bench(roomy("n1"), a_pod("plain")).get("pods/default/plain"))["state"] == "schedulable"


async def test_a_pod_of_a_scheduler_that_nobody_knows_waits_for_it() -> None:
    def of(pod: Pod, scheduler: str) -> Pod:
        return structs.replace(pod, kind=replace(pod.kind, scheduler_name=scheduler))

    tried = structs.replace(of(a_pod("tried"), "quiet"), unschedulable_message="0/1 nodes are available")
    pods = [of(a_pod("typo"), "slackwatr"), of(a_pod("default"), "default-scheduler"), of(a_pod("other"), "volcano"), tried]
    bench = Bench(roomy("n1"), of(a_pod("placed", on="n1"), "volcano"), *pods)
    answer = await bench.get("pods/default/typo")
    (reason,) = answer["reasons"]
    assert (answer["state"], reason["code"], reason["objects"], reason["detail"]) == (
        "waiting",
        "scheduler_unknown",
        ["schedulerName slackwatr"],
        "did you mean slackwater?",
    )
    assert [(await bench.get(f"pods/default/{name}"))["state"] for name in ("default", "other", "tried")] == ["schedulable"] * 3


async def test_a_pod_is_explained_by_the_filters_of_its_profile() -> None:
    hard = SpreadConstraint(hard=True, max_skew=1, topology_key="zone", selector=None, by_default=True)
    profiles = {"slackwater": FilterProfile(spread=(hard,), ignored_resources=frozenset({"x.io/a"}))}
    nodes = [roomy("n1", cpu="64", labels={"zone": "a"}), roomy("n2", cpu="1", labels={"zone": "b"})]
    web = [a_pod(f"web-{number}", on="n1" if number == 0 else None, cpu="2", labels={"app": "web"}) for number in range(2)]
    asks = a_pod("asks")
    asks = structs.replace(asks, kind=replace(asks.kind, pod_constraints=PodConstraints(scalars=(("x.io/a", 1),))))
    bench = Bench(
        *nodes,
        *web,
        asks,
        group_registry=a_group_registry(),
        policy=replace(installed.POLICY, profiles=profiles),
        auxiliary=replace(NOTHING_ELSE, spread_sources=SpreadSources(services={"default": ({"app": "web"},)})),
    )
    answer = await bench.get("pods/default/web-1")
    assert answer["state"] == "pending"
    assert {reason["code"] for reason in answer["reasons"]} >= {"spread_skew", "resources_above_node"}
    assert (await bench.get("pods/default/asks"))["state"] == "schedulable"


@pytest.mark.anyio
async def test_a_pod_learns_what_of_its_slack_is_not_kept() -> None:
    asking, other = a_pod("asking", on="n1"), a_pod("other", on="n1")
    cut = HeadroomCut(source="Pod default/asking", pod=asking, wanted=50, kept=8, why="the namespace gets no more nodes")
    slack = SlackPlan(state=SlackState(), coming={}, unhelpable=(), cuts={}, pushed=(), alone_in={}, cuts_of_headroom=(cut,))
    bench = Bench(roomy("n1"), asking, other, group_registry=replace(a_group_registry("n1"), slack=slack))
    assert (await bench.get("pods/default/asking"))["remarks"] == [cut.text]
    assert "remarks" not in await bench.get("pods/default/other")
    group = await bench.get("groups/pool")
    assert (group["state"], group["remarks"]) == ("idle", [cut.text])


@pytest.mark.anyio
async def test_a_group_that_grows_for_slack_alone_says_so() -> None:
    """As the autoscaler's last plan has it."""
    placeholder = Placeholder(number=1, source="buffer default/web", pod=a_pod("1"))
    slack = SlackPlan(
        state=SlackState(placeholders=(placeholder,)),
        coming={1: GroupName("pool")},
        unhelpable=(),
        cuts={},
        pushed=(),
        alone_in={},
    )
    bench = Bench(roomy("n1"), group_registry=replace(a_group_registry("n1", largest=2), slack=slack))
    group = await bench.get("groups/pool")
    assert (group["state"], [reason["code"] for reason in group["reasons"]]) == ("grows", ["grows"])
    assert group["reasons"][0]["detail"] == "for 1 placeholder of slack"
