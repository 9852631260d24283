"""The API's JSON into values: what is read, what an absent field means, what is refused."""

import json
from typing import Any

import pytest

from slackwater.adapters.kube.decode import NodeDecoder, PodDecoder, decode_budget, read_meta, version_number
from slackwater.model.ids import NodeName, PodKey, PodUid, UnixTime
from slackwater.model.interning import Shared
from slackwater.model.objects import BudgetRule, DisruptionBudget, Node, Pod, Taint
from slackwater.model.pod_constraints import (
    Kind,
    KindInterner,
    NodeSelectorTerm,
    PodConstraints,
    PodTerm,
    Toleration,
    WeightedNodeTerm,
)
from slackwater.model.selectors import Requirement
from tests.support.builders import amounts


def raw(value: Any) -> bytes:
    return json.dumps(value).encode()


def pod_json(**parts: Any) -> bytes:
    meta = {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7", **parts.pop("metadata", {})}
    return raw({"kind": "Pod", "metadata": meta, **parts})


@pytest.fixture
def pods() -> PodDecoder:
    return PodDecoder(KindInterner())


REQUIREMENT = {"key": "zone", "operator": "In", "values": ["a", "b"]}
AFFINITY = {
    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}]},
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}],
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [REQUIREMENT], "matchFields": [{"key": "metadata.name", "operator": "Exists"}]},
                {},
            ]
        },
    },
}
A_WHOLE_POD = pod_json(
    metadata={"labels": {"b": "2", "a": "1"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
    spec={
        "containers": [{"name": "app", "resources": {"requests": {"cpu": "500m"}}, "image": "x"}],
        "nodeName": "n1",
        "nodeSelector": {"z": "1", "disk": "ssd"},
        "affinity": AFFINITY,
        "tolerations": [{"operator": "Exists"}, {"key": "k", "value": "v", "effect": "NoSchedule"}],
        "schedulerName": "slackwater",
        "preemptionPolicy": "Never",
        "priority": -5,
    },
    status={
        "phase": "Running",
        "startTime": "2026-01-01T00:00:01Z",
        "nominatedNodeName": "n2",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/5 nodes"}],
    },
)
WANT_KIND = Kind(
    namespace="ns",
    requests=amounts(cpu="500m"),
    node_selector=(("disk", "ssd"), ("z", "1")),
    node_affinity=(
        NodeSelectorTerm(
            (Requirement("zone", "In", ("a", "b")),),
            (Requirement("metadata.name", "Exists", ()),),
        ),
        NodeSelectorTerm((), ()),
    ),
    tolerations=(Toleration("", "Exists", "", ""), Toleration("k", "Equal", "v", "NoSchedule")),
    scheduler_name="slackwater",
    preempts=False,
    missing_request="app: memory",
    images=("x",),
    pod_constraints=PodConstraints(
        scored=amounts(cpu="500m", memory="200Mi"),
        anti_affinity=(PodTerm(topology_key="x", selector=None, namespaces=("ns",)),),
        preferred_nodes=(WeightedNodeTerm(1, NodeSelectorTerm((), ())),),
    ),
)


def test_a_pod_is_read_whole(pods: PodDecoder) -> None:
    found = pods.decode(A_WHOLE_POD)
    assert found == Pod(
        uid=PodUid("u"),
        key=PodKey("ns", "p"),
        resource_version=7,
        labels=(("a", "1"), ("b", "2")),
        kind=WANT_KIND,
        node=NodeName("n1"),
        ended=False,
        deleting=False,
        priority=-5,
        created_at="2026-01-01T00:00:00Z",
        started_at="2026-01-01T00:00:01Z",
        nominated_node=NodeName("n2"),
        unschedulable_message="0/5 nodes",
    )


def test_what_a_pod_leaves_out_has_the_meaning_that_kubernetes_gives_it(pods: PodDecoder) -> None:
    assert pods.decode(pod_json()) == Pod(
        uid=PodUid("u"),
        key=PodKey("ns", "p"),
        resource_version=7,
        labels=(),
        kind=Kind(namespace="ns", requests=amounts()),
        node=None,
        ended=False,
        deleting=False,
        priority=0,
        created_at="",
        started_at="",
        nominated_node=None,
        unschedulable_message=None,
    )


def test_null_is_the_same_as_left_out(pods: PodDecoder) -> None:
    nulls = pod_json(
        metadata={"labels": None, "creationTimestamp": None, "deletionTimestamp": None},
        spec={
            "containers": None,
            "initContainers": None,
            "affinity": None,
            "tolerations": None,
            "nodeSelector": None,
            "overhead": None,
            "resources": None,
            "priority": None,
        },
        status={"conditions": None, "containerStatuses": None, "startTime": None, "resources": None},
    )
    assert pods.decode(nulls) == pods.decode(pod_json())


@pytest.mark.parametrize(
    ("phase", "want"), [("Pending", False), ("Running", False), ("Unknown", False), ("Succeeded", True), ("Failed", True)]
)
def test_a_pod_has_ended_when_its_phase_says_so(pods: PodDecoder, phase: str, want: bool) -> None:
    assert pods.decode(pod_json(status={"phase": phase})).ended is want


def test_a_pod_with_a_deletion_timestamp_is_being_deleted(pods: PodDecoder) -> None:
    assert pods.decode(pod_json(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})).deleting


@pytest.mark.parametrize(
    "condition",
    [
        {"type": "PodScheduled", "status": "True", "message": "m"},
        {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "m"},
        {"type": "Ready", "status": "False", "reason": "Unschedulable", "message": "m"},
    ],
    ids=["scheduled", "gated", "another condition"],
)
def test_only_the_schedulers_own_condition_counts_as_unschedulable(pods: PodDecoder, condition: dict[str, str]) -> None:
    assert pods.decode(pod_json(status={"conditions": [condition]})).unschedulable_message is None


def test_the_disruptor_of_a_pod_is_read(pods: PodDecoder) -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "evicting"}
    assert pods.decode(pod_json(status={"conditions": [condition]})).disruption == "EvictionByEvictionAPI: evicting"
    assert pods.decode(pod_json(status={"conditions": [{**condition, "status": "False"}]})).disruption is None


def test_node_affinity_without_terms_matches_nothing_and_is_not_the_same_as_none(pods: PodDecoder) -> None:
    required: Any = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
    assert pods.decode(pod_json(spec={"affinity": {"nodeAffinity": required}})).kind.node_affinity == ()
    assert pods.decode(pod_json(spec={"affinity": {"nodeAffinity": {}}})).kind.node_affinity is None


def test_pods_alike_share_their_kind_labels_and_texts(pods: PodDecoder) -> None:
    spec = {
        "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}],
        "nodeName": "n1",
        "nodeSelector": {"a": "b"},
    }
    meta = {"labels": {"app": "web"}, "creationTimestamp": "2026-01-01T00:00:00Z"}
    one = pods.decode(pod_json(metadata={**meta, "name": "p1", "uid": "u1"}, spec=spec))
    two = pods.decode(pod_json(metadata={**meta, "name": "p2", "uid": "u2"}, spec=spec))
    assert one.kind is two.kind
    assert one.labels is two.labels
    assert one.node is two.node
    assert one.key.namespace is two.key.namespace
    assert one.created_at is two.created_at
    assert len(pods.kinds) == 1


@pytest.mark.parametrize(
    "broken",
    [
        b"{",
        raw({"metadata": {"name": "p"}}),
        raw({"metadata": {"uid": "u"}}),
        pod_json(spec={"containers": [{"resources": {"requests": {"cpu": "lots"}}}]}),
        pod_json(spec={"containers": {}}),
        pod_json(spec={"tolerations": [7]}),
        pod_json(spec={"affinity": "none"}),
    ],
    ids=["cut short", "no uid", "no name", "no quantity", "no list", "odd toleration", "odd affinity"],
)
def test_a_pod_that_cannot_be_read_is_refused(pods: PodDecoder, broken: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):  # it says why, whoever refuses: msgspec, units or we
        pods.decode(broken)


def node_json(**parts: Any) -> bytes:
    return raw({"metadata": {"name": "n1", "uid": "u", "resourceVersion": "9", **parts.pop("metadata", {})}, **parts})


def test_a_node_is_read_whole() -> None:
    taint = {"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
    found = NodeDecoder().decode(
        node_json(
            metadata={"labels": {"zone": "a"}, "creationTimestamp": "1970-01-01T00:01:00Z"},
            spec={"unschedulable": True, "providerID": "cloud://1", "taints": [taint, {"key": "bare", "effect": "NoExecute"}]},
            status={
                "allocatable": {"cpu": "3900m", "memory": "15Gi", "pods": "110"},
                "capacity": {"cpu": "4", "memory": "16Gi"},
                "conditions": [{"type": "MemoryPressure", "status": "True"}, {"type": "Ready", "status": "True"}],
            },
        )
    )
    assert found == Node(
        name=NodeName("n1"),
        uid="u",
        resource_version=9,
        allocatable=amounts("3900m", "15Gi"),
        labels={"zone": "a"},
        taints=(Taint("k", "v", "NoSchedule"), Taint("bare", "", "NoExecute")),
        unschedulable=True,
        ready=True,
        scalars=(("pods", 110),),
        provider_id="cloud://1",
        created_at=UnixTime(60.0),
    )


@pytest.mark.parametrize(
    ("status", "want_cpu", "want_ready"),
    [
        ({}, "0", False),
        ({"capacity": {"cpu": "4"}}, "4", False),
        ({"allocatable": {"cpu": "3"}, "capacity": {"cpu": "4"}}, "3", False),
        ({"conditions": [{"type": "Ready", "status": "Unknown"}]}, "0", False),
    ],
    ids=["nothing", "capacity alone", "allocatable first", "readiness unknown"],
)
def test_what_a_node_leaves_out(status: dict[str, Any], want_cpu: str, want_ready: bool) -> None:
    found = NodeDecoder().decode(node_json(status=status))
    assert found.allocatable.cpu == amounts(cpu=want_cpu).cpu
    assert found.ready is want_ready
    assert found.labels == {}


META = {"name": "b", "namespace": "ns", "uid": "u", "resourceVersion": "3"}


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        (None, None),
        ({}, ()),
        (
            {"matchLabels": {"b": "2", "a": "1"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]},
            (Requirement("a", "In", ("1",)), Requirement("b", "In", ("2",)), Requirement("c", "Exists", ())),
        ),
    ],
    ids=["none", "empty", "both forms"],
)
def test_a_disruption_budget_is_read(selector: Any, want: tuple[Requirement, ...] | None) -> None:
    found = decode_budget(raw({"metadata": META, "spec": {"selector": selector}, "status": {"disruptionsAllowed": 2}}))
    none = BudgetRule(amount=0, percent=False, unavailable=True)
    assert found == DisruptionBudget(
        namespace="ns", name="b", uid="u", resource_version=3, selector=want, disruptions_allowed=2, rule=none
    )


@pytest.mark.parametrize(
    ("policy", "healthy", "desired", "want"),
    [
        (None, 3, 3, True),
        ("IfHealthyBudget", 4, 3, True),
        ("IfHealthyBudget", 2, 3, False),
        (None, 3, 0, False),  # the Eviction API wants at least one to be wanted
        ("AlwaysAllow", 0, 3, True),
    ],
)
def test_whether_pods_that_are_not_ready_may_be_evicted_is_read(
    policy: str | None, healthy: int, desired: int, want: bool
) -> None:
    status = {"disruptionsAllowed": 0, "currentHealthy": healthy, "desiredHealthy": desired}
    found = decode_budget(raw({"metadata": META, "spec": {"unhealthyPodEvictionPolicy": policy}, "status": status}))
    assert (found.unready_may_go, found.is_counted) == (want, True)


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"minAvailable": 2}, BudgetRule(amount=2, percent=False, unavailable=False)),
        ({"minAvailable": "20%", "maxUnavailable": None}, BudgetRule(amount=20, percent=True, unavailable=False)),
        ({"maxUnavailable": "0%"}, BudgetRule(amount=0, percent=True, unavailable=True)),
        ({"maxUnavailable": "000000000000050%"}, BudgetRule(amount=50, percent=True, unavailable=True)),
        ({}, None),
    ],
)
def test_what_a_budget_asks_for_is_read_where_it_has_no_status(spec: dict[str, Any], want: BudgetRule | None) -> None:
    zeros = {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}  # of --dry-run=client
    without: tuple[dict[str, Any], ...] = ({}, {"status": None}, {"status": {}}, {"status": zeros})
    for status in without:
        found = decode_budget(raw({"metadata": META, "spec": spec, **status}))
        assert (found.is_counted, None if found.is_counted else found.rule) == (want is None, want)
    for status in ({"observedGeneration": 1}, {"expectedPods": 2}, {"disruptionsAllowed": 1}, {"conditions": [{"type": "x"}]}):
        assert decode_budget(raw({"metadata": META, "spec": spec, "status": zeros | status})).is_counted


def test_what_a_budget_would_need_is_read() -> None:
    status = {"observedGeneration": 1, "currentHealthy": 2, "desiredHealthy": 5}
    found = decode_budget(raw({"metadata": META, "spec": {"minAvailable": 5}, "status": status}))
    assert (found.rule, found.lacking) == (BudgetRule(amount=5, percent=False, unavailable=False), 3)
    found = decode_budget(raw({"metadata": META, "spec": {}, "status": status}))
    assert found.rule is not None
    assert found.rule.allows_none, "one that says nothing never allows a disruption"


@pytest.mark.parametrize(("phase", "want"), [("Pending", True), ("Running", False), (None, False)])
def test_whether_a_pod_is_pending_is_read(phase: str | None, want: bool) -> None:
    body = {"metadata": {**META, "name": "p"}, "spec": {"nodeName": "n"}, "status": {} if phase is None else {"phase": phase}}
    assert PodDecoder(KindInterner()).decode(raw(body)).starting is want


def test_of_a_bookmark_only_the_version_is_read() -> None:
    assert read_meta(raw({"kind": "Pod", "metadata": {"resourceVersion": "12"}, "spec": 7})).resource_version == "12"


@pytest.mark.parametrize(("text", "want"), [("12", 12), ("", 0), ("v12", 0), ("-1", 0), ("٣", 0)])
def test_a_version_that_is_no_number_is_older_than_every_other(text: str, want: int) -> None:
    assert version_number(text) == want


def test_sharing_is_bounded() -> None:
    shared: Shared[str] = Shared(most=2)
    for number in range(5):
        text = shared.share(f"text {number}")
        assert shared.share("".join(["text ", str(number)])) is text
        assert len(shared) <= 2
