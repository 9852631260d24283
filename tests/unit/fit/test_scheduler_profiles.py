"""Each pod is judged by the filters of the profile that its schedulerName names, by every part that judges pods."""

import json
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from slackwater.adapters.kube.auxiliary import auxiliary
from slackwater.app.offline.cluster import Cluster, read_cluster, with_profiles
from slackwater.app.offline.explain import explain_offline
from slackwater.app.offline.placement import placement_lines
from slackwater.app.offline.scaledown import scale_down_answer
from slackwater.app.offline.scaleup import scale_up_answer
from slackwater.app.settings import Settings
from slackwater.fit.feasible_nodes import feasible
from slackwater.model.auxiliary import AuxiliaryGone, AuxiliaryKey, AuxiliaryKind, AuxiliarySeen
from slackwater.model.changes import Changes
from slackwater.model.eviction_facts import Owner
from slackwater.model.pod_constraints import KindInterner, NodeSelectorTerm, SpreadConstraint
from slackwater.model.scheduler_profile import FilterProfile, Profiles, SpreadSources
from slackwater.model.selectors import Requirement
from slackwater.runtime.auxiliary_intake import AuxiliaryIntake
from slackwater.runtime.planner.messages import FRAMED_TYPES
from slackwater.runtime.planner.value_frames import Decoder, Encoder
from slackwater.snapshot.snapshot_replica import SnapshotReplica
from tests.support.answers import json_of
from tests.support.builders import a_pod as plain_pod
from tests.support.builders import whole_cluster
from tests.support.manifests import Obj, node_manifest, owned_by, pod_manifest

_MINE = "mine"
_GPU = "nvidia.com/gpumem"
_SETTINGS = Settings.model_validate(
    {"autoscaler": {"enabled": True, "node_groups": [{"name": name, "max_size": 5} for name in ("a", "b")]}}
)
_IGNORING: Profiles = {_MINE: FilterProfile(ignored_groups=frozenset({"nvidia.com"}))}
_POOL_B: Profiles = {
    _MINE: FilterProfile(added_affinity=(NodeSelectorTerm((Requirement("zone", "In", ("b",)),), ()),)),
}
_SPREAD: Profiles = {
    _MINE: FilterProfile(spread=(SpreadConstraint(hard=True, max_skew=1, topology_key="zone", selector=None, by_default=True),))
}


def a_node(name: str, zone: str, cpu: str = "4") -> Obj:
    labels = {"kubernetes.io/hostname": name, "zone": zone, "slackwater.dev/node-group": zone}
    return node_manifest(name, cpu=cpu, labels=labels)


def a_pod(name: str, on: str | None = None, *, scheduler: str = _MINE, owner: str | None = "web", **more: Any) -> Obj:
    meta = {"labels": {"app": "web"}, "uid": f"uid-{name}", **({} if owner is None else owned_by(owner))}
    return pod_manifest(name, on=on, meta=meta, schedulerName=scheduler, **more)


def a_replica_set(name: str = "web", app: str = "web") -> Obj:
    meta = {"name": name, "namespace": "shop", "uid": "u"}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": app}}}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec}


def a_service(**selector: str) -> Obj:
    meta = {"name": "s", "namespace": "shop", "uid": "s"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": selector}}


def cluster_of(profiles: Profiles, *items: Obj) -> Cluster:
    return with_profiles(read_cluster({"apiVersion": "v1", "kind": "List", "items": list(items)}), profiles)


def placed(profiles: Profiles, *items: Obj) -> dict[str, list[str]]:
    return {line["pod"]: line["feasible"] for line in map(json_of, placement_lines(cluster_of(profiles, *items)))}


def grown(profiles: Profiles, *items: Obj) -> tuple[dict[str, int], list[str]]:
    answer = json_of(scale_up_answer(cluster_of(profiles, *items), _SETTINGS))
    new = {group["name"]: group["newNodes"] for group in answer["groups"] if group["newNodes"]}
    return new, [unhelpable["pod"] for unhelpable in answer["unhelpable"]]


# --- ignored resources ----------------------------------------------------------------------------------------------------


def test_an_ignored_resource_is_judged_for_pods_of_other_schedulers_only() -> None:
    asks = {_GPU: "3000"}
    items = [a_node("n", "a"), a_pod("m", asks=asks), a_pod("o", scheduler="other", asks=asks)]
    assert placed(_IGNORING, *items) == {"shop/m": ["n"], "shop/o": []}
    assert grown(_IGNORING, *items) == ({}, ["shop/o"])


def test_what_pods_take_of_an_ignored_resource_counts_for_others() -> None:
    node = a_node("n", "a")
    node["status"]["allocatable"][_GPU] = "10"
    items = [node, a_pod("r", on="n", asks={_GPU: "8"}), a_pod("o", scheduler="other", asks={_GPU: "3"})]
    assert placed(_IGNORING, *items) == {"shop/o": []}


def test_new_nodes_take_as_many_pods_as_their_other_resources_allow() -> None:
    pods = [a_pod(f"p{number}", cpu="2", asks={_GPU: "3000"}) for number in range(5)]
    assert grown(_IGNORING, a_node("n", "a", cpu="1"), *pods, a_node("m", "b"), a_pod("r", on="m", cpu="4")) == ({"b": 3}, [])


# --- added affinity -------------------------------------------------------------------------------------------------------


def test_an_added_affinity_holds_for_placement_growth_and_removal() -> None:
    nodes = [a_node("a0", "a"), a_node("b0", "b")]
    pods = [a_pod("m"), a_pod("o", scheduler="other")]
    assert placed(_POOL_B, *nodes, *pods) == {"shop/m": ["b0"], "shop/o": ["a0", "b0"]}
    (line,) = [each for each in map(json_of, placement_lines(cluster_of(_POOL_B, *nodes, *pods))) if each["pod"] == "shop/m"]
    assert line["rejected"]["a0"] == {
        "plugin": "NodeAffinity",
        "reasons": ["node(s) didn't match scheduler-enforced node affinity"],
        "code": "UnschedulableAndUnresolvable",
    }
    assert grown(_POOL_B, *nodes, a_pod("full", on="b0", cpu="4"), *pods) == ({"b": 1}, [])
    answer = json_of(scale_down_answer(cluster_of(_POOL_B, *nodes, a_pod("m", on="b0")), _SETTINGS))
    assert {one["node"]: one["reason"] for one in answer["kept"]} == {"b0": "NoPlaceToMovePods"}


# --- default constraints --------------------------------------------------------------------------------------------------


def two_zones(*more: Obj) -> list[Obj]:
    """One pod of the ReplicaSet runs in zone a, none in zone b, whose node is full."""
    full = a_pod("full", on="b0", owner=None)
    full["metadata"]["labels"] = {}
    return [a_node("a0", "a"), a_node("b0", "b", cpu="1"), a_pod("r", on="a0"), full, *more]


@pytest.mark.parametrize("sources", [[a_replica_set()], [a_service(app="web")], [a_replica_set(), a_service(app="web")]])
def test_hard_default_constraints_spread_the_pods_of_a_controller_or_service(sources: list[Obj]) -> None:
    items = two_zones(*sources, a_pod("m"))
    assert placed(_SPREAD, *items) == {"shop/m": []}
    assert grown(_SPREAD, *items) == ({"b": 1}, [])
    document = json_of(explain_offline(cluster_of(_SPREAD, *items), _SETTINGS, "pod", "shop", "m"))
    assert {reason["code"] for reason in document["reasons"]} >= {"spread_skew", "resources_short"}


def test_pods_with_constraints_of_their_own_or_without_a_selector_are_not_spread_by_default() -> None:
    own = [
        {
            "maxSkew": 9,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
    pods = [
        a_pod("own", topologySpreadConstraints=own),
        a_pod("alone", owner=None),
        a_pod("other", scheduler="other"),
        a_pod("unknown", owner="gone"),
    ]
    assert placed(_SPREAD, *two_zones(a_replica_set(), *pods)) == {
        f"shop/{name}": ["a0"] for name in ("own", "alone", "other", "unknown")
    }


def test_a_node_stays_whose_pod_has_to_stay_in_its_zone() -> None:
    nodes = [a_node("a0", "a"), a_node("b0", "b"), a_pod("r0", on="a0"), a_pod("r1", on="b0")]
    assert {
        one["reason"] for one in json_of(scale_down_answer(cluster_of(_SPREAD, *nodes, a_replica_set()), _SETTINGS))["kept"]
    } == {"NoPlaceToMovePods"}


def test_a_file_without_services_and_controllers_says_that_the_rule_was_skipped() -> None:
    (line,) = map(json_of, placement_lines(cluster_of(_SPREAD, a_node("a0", "a"), a_pod("m"))))
    assert "PodTopologySpread (default constraints): no Service in the file" in line["skipped"]


# --- disabled filters -----------------------------------------------------------------------------------------------------


def test_a_disabled_filter_does_not_judge() -> None:
    tainted = {**a_node("a0", "a"), "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
    pods = [a_pod("m"), a_pod("o", scheduler="other")]
    profiles = {_MINE: FilterProfile(disabled=frozenset({"TaintToleration"}))}
    assert placed(profiles, tainted, *pods) == {"shop/m": ["a0"], "shop/o": []}


# --- in the service -------------------------------------------------------------------------------------------------------

_TYPES = {resource.name: resource for resource in auxiliary(KindInterner(), lambda *_: None, spreading=True)}


def seen(kind: AuxiliaryKind, body: Obj) -> AuxiliarySeen:
    meta = {"resourceVersion": "7", **body["metadata"]}
    event = _TYPES[kind].decode(json.dumps({**body, "metadata": meta}).encode()).event
    assert isinstance(event, AuxiliarySeen)
    return event


def an_intake(*kinds: AuxiliaryKind) -> AuxiliaryIntake:
    return AuxiliaryIntake(dict.fromkeys(kinds, None))  # type: ignore[arg-type]  # nothing is drained here


def test_selectors_are_sent_when_they_change_and_alone() -> None:
    intake = an_intake("services", "replicasets", "namespaces")
    reader = intake.reader()
    intake.take(seen("replicasets", a_replica_set()))
    intake.take(seen("services", a_service(app="web")))
    first = reader.changes().spread_sources
    assert first is not None
    assert (dict(first.services), len(first.controllers)) == ({"shop": ({"app": "web"},)}, 1)
    intake.take(seen("replicasets", {**a_replica_set(), "spec": {**a_replica_set()["spec"], "replicas": 9}}))
    assert reader.changes().spread_sources is None
    intake.take(AuxiliaryGone("services", AuxiliaryKey("shop", "s")))
    last = reader.changes().spread_sources
    assert last is not None
    assert last.services == {}
    assert an_intake("replicasets", "namespaces").reader().changes().spread_sources is None


def through_the_pipe(changes: Changes) -> Changes:
    encoder, decoder = Encoder(FRAMED_TYPES), Decoder()
    (found,) = [arrived.value for frame in encoder.frames(changes) if (arrived := decoder.take(frame)) is not None]
    assert isinstance(found, Changes)
    return found


def fitting(replica: SnapshotReplica, uid: str) -> list[str]:
    pod, snapshot = next(pod for pod in replica.pending.values() if pod.uid == uid), replica.snapshot
    nodes = snapshot.facts.nodes
    return [nodes[row].name for row in feasible(snapshot, snapshot.kind_id(pod.kind, pod.labels)).rows.tolist()]


def test_the_replica_judges_by_the_profiles_and_follows_services_and_controllers() -> None:
    read = read_cluster({"kind": "List", "items": two_zones(a_pod("m"), a_pod("o", scheduler="other"))})
    replica, intake = SnapshotReplica(), an_intake("services", "replicasets")
    reader = intake.reader()
    whole = replace(whole_cluster(read.nodes, read.pods), namespaces={}, profiles=_SPREAD)
    replica.take(through_the_pipe(whole))
    assert [fitting(replica, "uid-m"), fitting(replica, "uid-o")] == [["a0"], ["a0"]]
    intake.take(seen("replicasets", a_replica_set()))
    replica.take(through_the_pipe(replace(whole_cluster([], []), spread_sources=reader.changes().spread_sources)))
    assert [fitting(replica, "uid-m"), fitting(replica, "uid-o")] == [[], ["a0"]]
    builds = replica.builds
    replica.take(through_the_pipe(whole_cluster([], [])))
    assert replica.builds == builds
    intake.take(AuxiliaryGone("replicasets", AuxiliaryKey("shop", "web")))
    replica.take(through_the_pipe(replace(whole_cluster([], []), spread_sources=reader.changes().spread_sources)))
    assert fitting(replica, "uid-m") == ["a0"]


@pytest.mark.parametrize(("kind", "want"), [("ReplicationController", {"b"}), ("ReplicaSet", {"a", "b"})])
def test_the_labels_of_a_replication_controller_replace_those_of_services(kind: str, want: set[str]) -> None:
    """kube-scheduler merges them; the selector of any other controller counts beside those of Services."""
    owner = Owner("" if kind == "ReplicationController" else "apps", kind, "web")
    sources = SpreadSources(
        services={"default": ({"app": "a"},)}, controllers={("default", owner): (Requirement("app", "In", ("b",)),)}
    )
    pod = plain_pod("p")
    pod = structs.replace(pod, labels=(("app", "a"),), eviction_facts=replace(pod.eviction_facts, owner=owner))
    assert {value for requirement in sources.selector_of(pod) or () for value in requirement.values} == want
