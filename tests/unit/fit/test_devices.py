"""Which devices a pod's claims get, and on which nodes: `fit.devices` and the predicate DynamicResources, through files."""

import pytest

from slackwater.app.offline.placement import pending_pods, snapshot_of
from slackwater.fit.assumed_claims import assume_claims, release_devices
from slackwater.fit.feasible_nodes import feasible
from slackwater.model.devices import NO_DEVICES
from slackwater.model.ids import PodUid, Row
from slackwater.model.reasons import Reason
from slackwater.snapshot.equivalence_groups import KindId
from tests.support.devices import (
    DRIVER,
    Obj,
    ask,
    claim_body,
    class_body,
    cluster_of,
    device,
    devices_of,
    fitting,
    gpus,
    in_turn,
    judged,
    node_body,
    pod_body,
    slice_body,
    template_body,
)

NODES = (node_body("a"), node_body("b"))
POD = pod_body("p", template="template")
SICK = {"key": "sick", "effect": "NoSchedule"}


def wanting(*asks: Obj, constraints: tuple[Obj, ...] = ()) -> tuple[Obj, ...]:
    """A pending pod with a claim of these requests, on two nodes."""
    return (*NODES, class_body(), template_body(devices_of(*asks, constraints=constraints)), POD)


def test_a_node_needs_as_many_free_devices_as_are_asked_for() -> None:
    taken = claim_body("other", devices_of(ask(1)), "b/gpu-0", node="b", users=["someone"])
    assert fitting(*wanting(ask(2)), gpus("a", 2), gpus("b", 2)) == ["a", "b"]
    assert fitting(*wanting(ask(2)), gpus("a", 2), gpus("b", 2), taken) == ["a"]
    (line,) = judged(*wanting(ask(3)), gpus("a", 2), gpus("b", 2))
    want = {"plugin": "DynamicResources", "reasons": ["cannot allocate all claims"], "code": "UnschedulableAndUnresolvable"}
    assert line["rejected"] == {"a": want, "b": want}


def test_selectors_of_the_class_and_of_the_request_both_count() -> None:
    slices = (slice_body("a", device("gpu-0", model="a100")), slice_body("b", device("gpu-0", model="h100", memory="40Gi")))
    model = f'device.attributes["{DRIVER}"].model == "h100"'
    memory = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("80Gi")) >= 0'
    assert fitting(*wanting(ask(1, model)), *slices) == ["b"]
    assert fitting(*wanting(ask(1, memory)), *slices) == ["a"]
    assert fitting(*wanting(ask(1, model, memory)), *slices) == []


def test_all_devices_are_taken_only_where_none_is_in_use() -> None:
    taken = claim_body("other", devices_of(ask(1)), "b/gpu-0", node="b", users=["someone"])
    assert in_turn(*wanting(ask("All")), gpus("b", 2), taken, gpus("a", 3)) == [("a", ["a/gpu-0", "a/gpu-1", "a/gpu-2"])]
    assert fitting(*wanting(ask("All"))) == []


def test_the_first_alternative_that_can_be_had_counts() -> None:
    either = [ask(3) | {"name": "many"}, ask(1) | {"name": "one"}]
    items = (*NODES[:1], class_body(), template_body(devices_of(either)), gpus("a", 4))
    first, second = pod_body("p", template="template"), pod_body("q", template="template")
    assert in_turn(*items, first, second) == [("a", ["a/gpu-0", "a/gpu-1", "a/gpu-2"]), ("a", ["a/gpu-3"])]


@pytest.mark.parametrize(("constraint", "want_nodes"), [("matchAttribute", ["a"]), ("distinctAttribute", ["b"])])
def test_constraints_compare_an_attribute_over_the_requests(constraint: str, want_nodes: list[str]) -> None:
    same = slice_body("a", device("gpu-0", numa=1), device("gpu-1", numa=1))
    different = slice_body("b", device("gpu-0", numa=0), device("gpu-1", numa=1))
    rules = ({constraint: f"{DRIVER}/numa"},)
    assert fitting(*wanting(ask(1), ask(1), constraints=rules), same, different) == want_nodes


def test_the_search_goes_back_where_the_first_device_leads_nowhere() -> None:
    numas = slice_body("a", device("gpu-0", numa=0), device("gpu-1", numa=1), device("gpu-2", numa=1))
    rules = ({"matchAttribute": f"{DRIVER}/numa"},)
    assert in_turn(*wanting(ask(2), constraints=rules), numas) == [("a", ["a/gpu-1", "a/gpu-2"])]


def test_admin_access_shares_devices_in_use_and_takes_none() -> None:
    taken = claim_body("other", devices_of(ask(1)), "a/gpu-0", node="a", users=["someone"])
    items = (*wanting(ask(1, adminAccess=True)), gpus("a", 1), taken)
    assert in_turn(*items) == [("a", ["a/gpu-0"])]
    watching = claim_body("watching", devices_of(ask(1)), "b/gpu-0", node="b", users=["w"], adminAccess=True)
    assert fitting(*wanting(ask(1)), gpus("b", 1), watching) == ["b"]


def test_taints_of_devices_have_to_be_tolerated() -> None:
    tainted = slice_body("a", device("gpu-0", taints=[SICK]))
    only_noted = slice_body("b", device("gpu-0", taints=[{**SICK, "effect": "None"}]))
    assert fitting(*wanting(ask(1)), tainted, only_noted) == ["b"]
    tolerant = ask(1, tolerations=[{"key": "sick", "operator": "Exists"}])
    assert fitting(*wanting(tolerant), tainted, only_noted) == ["a", "b"]


def test_parts_of_a_device_share_its_counters() -> None:
    def part(name: str, memory: str) -> Obj:
        return device(name, more={"consumesCounters": [{"counterSet": "gpu", "counters": {"memory": {"value": memory}}}]})

    pool = {"name": "a", "generation": 1, "resourceSliceCount": 2}
    sets = [{"name": "gpu", "counters": {"memory": {"value": "80Gi"}}}]
    counters = slice_body("a", name="counters", pool=pool, sharedCounters=sets)
    del counters["spec"]["devices"]
    parts = slice_body("a", part("half-0", "40Gi"), part("half-1", "40Gi"), part("whole", "80Gi"), pool=pool)
    whole_in_use = claim_body("other", devices_of(ask(1)), "a/whole", node="a", users=["someone"])
    assert in_turn(*wanting(ask(2)), counters, parts) == [("a", ["a/half-0", "a/half-1"])]
    assert fitting(*wanting(ask(3)), counters, parts) == []
    assert fitting(*wanting(ask(1)), counters, parts, whole_in_use) == []


def test_a_pool_may_share_its_counters_over_nodes() -> None:
    pool = {"name": "rack", "generation": 1, "resourceSliceCount": 3}
    sets = [{"name": "power", "counters": {"watts": {"value": "500"}}}]
    counters = slice_body("a", name="counters", pool=pool, sharedCounters=sets)
    del counters["spec"]["devices"]
    draws = {"consumesCounters": [{"counterSet": "power", "counters": {"watts": {"value": "400"}}}]}
    slices = [slice_body(node, device(f"gpu-{node}", more=draws), pool=pool) for node in ("a", "b")]
    items = (*NODES, class_body(), template_body(devices_of(ask(1))), counters, *slices)
    pods = [pod_body(name, template="template") for name in ("p", "q")]
    assert fitting(*items, pods[0]) == ["a", "b"]
    assert in_turn(*items, *pods) == [("a", ["rack/gpu-a"]), (None, [])]


def test_requests_share_the_capacity_of_a_device_that_allows_it() -> None:
    shareable = device("gpu-0", memory="80Gi", more={"allowMultipleAllocations": True})
    shareable["capacity"]["memory"]["requestPolicy"] = {"default": "10Gi", "validRange": {"min": "10Gi", "step": "10Gi"}}
    items = (*NODES[:1], class_body(), template_body(devices_of(ask(1, capacity={"requests": {"memory": "25Gi"}}))))
    pods = [pod_body(f"p{at}", template="template") for at in range(3)]
    # 25Gi becomes 30Gi, of which 80Gi has room for two.
    assert in_turn(*items, slice_body("a", shareable), *pods) == [("a", ["a/gpu-0"]), ("a", ["a/gpu-0"]), (None, [])]


def test_a_claim_that_is_allocated_binds_its_pods_to_the_nodes_that_reach_its_devices() -> None:
    claim = claim_body("shared", devices_of(ask(1)), "b/gpu-0", node="b", users=["uid-other"])
    (line,) = judged(*NODES, class_body(), gpus("b", 1), claim, pod_body("p", "shared"))
    assert line["feasible"] == ["b"]
    assert line["rejected"]["a"]["reasons"] == ["resourceclaim not available on the node"]


def test_pods_that_share_a_claim_follow_the_first_of_them() -> None:
    items = (*NODES, class_body(), gpus("b", 2), claim_body("shared", devices_of(ask(1))))
    assert in_turn(*items, pod_body("p", "shared"), pod_body("q", "shared")) == [("b", ["b/gpu-0"]), ("b", ["b/gpu-0"])]


def test_a_broken_device_of_an_allocated_claim_keeps_its_pod_off_every_node() -> None:
    claim = claim_body("bound", devices_of(ask(1)), "a/gpu-0", node="a")
    result = claim["status"]["allocation"]["devices"]["results"][0]
    result |= {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    reported = {"driver": DRIVER, "pool": "a", "device": "gpu-0", "conditions": [{"type": "broken", "status": "False"}]}
    claim["status"]["devices"] = [reported]
    assert fitting(*NODES, class_body(), gpus("a", 1), claim, pod_body("p", "bound")) == ["a"]
    reported["conditions"] = [{"type": "broken", "status": "True"}]
    assert fitting(*NODES, class_body(), gpus("a", 1), claim, pod_body("p", "bound")) == []


def test_slices_may_serve_many_nodes_and_one_allocation_then_counts_on_all() -> None:
    everywhere = slice_body("net", device("gpu-0"), allNodes=True)
    items = (*NODES, class_body(), template_body(devices_of(ask(1))), everywhere)
    pods = [pod_body(f"p{at}", template="template") for at in range(2)]
    assert in_turn(*items, *pods) == [("a", ["net/gpu-0"]), (None, [])]


def test_slices_select_nodes_by_labels_or_leave_it_to_each_device() -> None:
    on_b = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}]}]}
    assert fitting(*wanting(ask(1)), slice_body("net", device("gpu-0"), nodeSelector=on_b)) == ["b"]
    each = slice_body("net", device("gpu-0", more={"nodeName": "a"}), perDeviceNodeSelection=True)
    assert fitting(*wanting(ask(1)), each) == ["a"]


def test_pools_that_are_incomplete_or_contradict_themselves_give_nothing() -> None:
    missing = slice_body("a", device("gpu-0"), pool={"name": "a", "generation": 1, "resourceSliceCount": 2})
    twice = slice_body("b", device("gpu-0"), device("gpu-0"))
    (line,) = judged(*wanting(ask(1)), missing, twice)
    assert line["rejected"]["a"]["reasons"] == ["cannot allocate all claims"]
    assert line["rejected"]["b"]["reasons"] == ["invalid resource pools were encountered"]


def test_the_newest_generation_of_a_pool_counts() -> None:
    old = slice_body("a", device("gpu-0"), device("gpu-1"), name="old")
    new = slice_body("a", device("gpu-0"), name="new", pool={"name": "a", "generation": 2, "resourceSliceCount": 1})
    assert fitting(*wanting(ask(1)), old, new) == ["a"]
    assert fitting(*wanting(ask(2)), old, new) == []


def test_the_pod_is_given_up_where_kube_scheduler_fails_on_one_node() -> None:
    reads = ask(1, f'device.attributes["{DRIVER}"].fast')
    (line,) = judged(*wanting(reads), slice_body("a", device("gpu-0")), slice_body("b", device("gpu-0", fast=True)))
    assert line["feasible"] == []
    assert "fast" in line["failed"]


def test_a_selector_with_a_function_that_is_not_modelled_is_refused_with_its_name() -> None:
    (line,) = judged(*wanting(ask(1, "sets.contains([1], [1])")), gpus("a", 1))
    assert line["rejected"]["a"]["plugin"] == "Slackwater"
    assert "sets" in line["rejected"]["a"]["reasons"][0]
    assert "failed" not in line


@pytest.mark.parametrize(
    ("items", "want_reason"),
    [
        ([pod_body("p", "absent")], 'could not find ResourceClaim "default/absent"'),
        ([pod_body("p", template="absent")], 'pod "default/p": ResourceClaim not created yet'),
        (
            [pod_body("p", "here"), claim_body("here", devices_of(ask(1, of="gone")))],
            "request r0: device class gone does not exist",
        ),
    ],
)
def test_a_pod_whose_claim_cannot_be_used_is_refused_on_every_node(items: list[Obj], want_reason: str) -> None:
    (line,) = judged(*NODES, class_body(), gpus("a", 1), *items)
    assert {each["reasons"][0] for each in line["rejected"].values()} == {want_reason}


def test_an_extended_resource_is_a_claim_on_nodes_that_do_not_offer_it_themselves() -> None:
    items = (class_body(resource="example.com/gpu"), gpus("a", 2))
    plugged, bare = node_body("b", example__com="0") | {}, node_body("c")
    plugged["status"]["allocatable"]["example.com/gpu"] = "2"
    pod = pod_body("p", requests={"example.com/gpu": "2"})
    (line,) = judged(node_body("a"), plugged, bare, *items, pod)
    assert line["feasible"] == ["a", "b"]
    assert line["rejected"]["c"]["plugin"] == "DynamicResources"
    pods = [pod_body(name, requests={"example.com/gpu": "1"}) for name in ("p", "q", "r")]
    assert in_turn(node_body("a"), *items, *pods) == [("a", ["a/gpu-0"]), ("a", ["a/gpu-1"]), (None, [])]


@pytest.mark.parametrize(
    ("created", "asked", "want"),
    [
        (("1", "2"), "deviceclass.resource.kubernetes.io/a", ["a"]),
        (("1", "2"), "deviceclass.resource.kubernetes.io/b", ["a"]),
        (("2", "1"), "deviceclass.resource.kubernetes.io/b", []),
        (("1", "1"), "deviceclass.resource.kubernetes.io/b", []),
        (("2", "1"), "example.com/gpu", ["a"]),
    ],
)
def test_a_class_whose_resource_a_newer_one_backs_is_passed_over_with_its_own_name(
    created: tuple[str, str], asked: str, want: list[str]
) -> None:
    """kube-scheduler takes the classes in by name: the older one is passed over only if it comes after the newer one."""
    classes = [class_body(name, resource="example.com/gpu") for name in ("a", "b")]
    for each, day in zip(classes, created, strict=True):
        each["metadata"]["creationTimestamp"] = f"2026-01-0{day}T00:00:00Z"
    assert fitting(*NODES[:1], *classes, gpus("a", 1), pod_body("p", requests={asked: "1"})) == want


def test_without_a_class_the_extended_resource_is_insufficient() -> None:
    (line,) = judged(node_body("a"), class_body(), gpus("a", 2), pod_body("p", requests={"example.com/gpu": "2"}))
    want = {"plugin": "NodeResourcesFit", "reasons": ["Insufficient example.com/gpu"], "code": "UnschedulableAndUnresolvable"}
    assert line["rejected"]["a"] == want


def test_a_search_without_end_is_cut_off_and_says_so() -> None:
    many = slice_body("a", *(device(f"gpu-{at}", numa=at % 4) for at in range(40)))
    asks = [ask(1) for _ in range(8)]
    (line,) = judged(*wanting(*asks, constraints=({"distinctAttribute": f"{DRIVER}/numa"},)), many)
    want = {"plugin": "Slackwater", "reasons": ["Slackwater: no allocation was found within 100,000 steps"]}
    assert line["rejected"]["a"] == {**want, "code": "UnschedulableAndUnresolvable"}
    assert line["rejected"]["b"]["reasons"] == ["cannot allocate all claims"]


def test_a_long_search_tries_no_set_of_devices_twice() -> None:
    """The first requests have to leave all large devices to the last one: kube-scheduler tries every split of them."""
    large, small = ([device(f"{size}-{at}", memory=size) for at in range(6)] for size in ("80Gi", "40Gi"))
    of_size = f'device.capacity["{DRIVER}"].memory == quantity("80Gi")'
    (line,) = judged(*wanting(ask(2), ask(2), ask(2), ask(6, of_size)), slice_body("a", *large, *small))
    assert line["feasible"] == ["a"]


def test_a_dropped_trial_gives_devices_back() -> None:
    cluster = cluster_of(*wanting(ask(2)), gpus("a", 3), claim_body("other", devices_of(ask(1)), "a/gpu-0", node="a"))
    snapshot = snapshot_of(cluster)
    kind = KindId(int(snapshot.number(pending_pods(cluster))[0]))
    want_in_use, want_codes = dict(snapshot.devices.in_use), feasible(snapshot, kind).codes.tolist()
    with snapshot.fork():
        claims = assume_claims(snapshot, kind, Row(0))
        snapshot.place(kind, 0)
        assert [str(each.device) for each in claims[0].allocation.devices] == [f"{DRIVER}/a/gpu-1", f"{DRIVER}/a/gpu-2"]  # type: ignore[union-attr]
        assert feasible(snapshot, kind).codes[0] == Reason.OK  # the claim has its devices now
        release_devices(snapshot, kind, Row(0), [PodUid("uid-p")])
        assert dict(snapshot.devices.in_use) == want_in_use
        snapshot.put_devices(NO_DEVICES)
        assert feasible(snapshot, kind).refusal is not None
    assert dict(snapshot.devices.in_use) == want_in_use
    assert feasible(snapshot, kind).codes.tolist() == want_codes
