"""The service reads an object whose fields are null like one without them, as API machinery does."""

import copy
import json
from typing import Any

import pytest

from slackwater.adapters.kube.auxiliary import auxiliary
from slackwater.adapters.kube.decode import NodeDecoder, PodDecoder, decode_budget
from slackwater.model.pod_constraints import KindInterner
from tests.support.bodies import bind_args, pod_json, whole_nodes_args
from tests.support.builders import a_node, a_pod
from tests.support.manifests import Obj, pod_manifest
from tests.support.service import a_service
from tests.unit.app.test_clusters_as_people_have_them import below, fields_of, the_cluster

_SELECTOR = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
_TERM = {"topologyKey": "zone", "labelSelector": _SELECTOR, "namespaces": ["shop"], "matchLabelKeys": ["app"]}
_NODE_TERM = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
_SPREAD = {
    "maxSkew": 2,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": _SELECTOR,
    "minDomains": 2,
}
_AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_NODE_TERM]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 2, "preference": _NODE_TERM}],
    },
    "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 2, "podAffinityTerm": _TERM}]},
    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]},
}
_VOLUME = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}


def of_kind(kind: str, **parts: Any) -> Obj:
    return {"kind": kind, "metadata": {"name": "x", "namespace": "shop"}, **parts}


def the_objects() -> list[Obj]:
    constrained = pod_manifest("b", affinity=_AFFINITY, topologySpreadConstraints=[_SPREAD], volumes=[_VOLUME])
    template = {"metadata": {"labels": {"app": "web"}}, "spec": constrained["spec"]}
    workload = {"selector": _SELECTOR, "template": template}
    found = [
        *the_cluster(),
        constrained,
        of_kind("Service", spec={"selector": {"app": "web"}}),
        of_kind("StatefulSet", spec={"replicas": 2, **workload}),
        of_kind("DaemonSet", spec=workload),
        of_kind("Job", spec={"parallelism": 3, "completions": 2, "suspend": False, **workload}, status={"succeeded": 1}),
        of_kind("PersistentVolumeClaim", spec={"volumeName": "pv", "storageClassName": "s"}, status={"phase": "Bound"}),
        of_kind("CSINode", spec={"drivers": [{"name": "d", "allocatable": {"count": 3}}]}),
        of_kind("ResourceClaim", spec={"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}),
    ]
    for at, each in enumerate(found):
        each["metadata"].setdefault("uid", f"u{at}")
    return copy.deepcopy(found)


def read(item: Obj) -> object:
    """What the service has of the object, or why it has nothing."""
    kinds = KindInterner()
    types = auxiliary(kinds, lambda *_: None, templates=True, spreading=True)
    decoders: dict[str, Any] = {
        **{each.name: each.decode for each in types},
        "nodes": NodeDecoder().decode,
        "pods": PodDecoder(kinds).decode,
        "poddisruptionbudgets": decode_budget,
    }
    try:
        return decoders[f"{item['kind'].lower()}s"](json.dumps(item).encode())
    except ValueError as err:
        return str(err)


def test_a_null_field_of_a_watched_object_is_an_unset_one() -> None:
    """A law: with any field null the object, or why it cannot be read, is that without it; in a map of texts, with ""."""
    count = 0
    for at, each in enumerate(the_objects()):
        assert not isinstance(read(each), str), read(each)
        for path in fields_of(each):
            null, unset = the_objects()[at], the_objects()[at]
            below(null, path[:-1])[path[-1]] = None
            if path[-2:-1] and path[-2] in {"labels", "annotations", "nodeSelector", "matchLabels"}:
                below(unset, path[:-1])[path[-1]] = ""
            elif isinstance(path[-1], int):
                continue  # an element of a list is no field
            else:
                del below(unset, path[:-1])[path[-1]]
            assert read(null) == read(unset), (each["kind"], path)
            count += 1
    assert count > 200


@pytest.mark.anyio
async def test_null_fields_of_kube_schedulers_requests_are_unset_ones() -> None:
    pod, victim = a_pod("p", priority=10, cpu="3"), a_pod("v", on="n", cpu="3")
    nulls: Obj = pod_json(pod)
    nulls["spec"] |= {"nodeName": None, "schedulerName": None, "tolerations": [{"key": "a", "value": None}]}
    nulls |= {"status": None}
    nulls["metadata"] |= {"labels": {"a": None}, "resourceVersion": None}
    async with a_service() as service:
        service.has(a_node("n"), a_node("m"), victim)
        whole = whole_nodes_args(pod, "n", "m") | {"Pod": nulls}
        whole["Nodes"]["items"][0]["metadata"] |= {"resourceVersion": None, "namespace": None}
        whole["Nodes"] |= {"metadata": None}
        answer = await service.ask("filter", whole)
        assert [each["metadata"]["name"] for each in answer["Nodes"]["items"]] == ["m"]
        victims = {"n": {"Pods": [{"UID": victim.uid}], "NumPDBViolations": None}}
        answer = await service.ask("preempt", {"Pod": nulls, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims})
        assert list(answer["NodeNameToMetaVictims"]) == ["n"]
        refused = await service.http.post("/scheduler/bind", json=bind_args(pod, "m") | {"PodUID": None})
        assert refused.json()["Error"] == "PodUID: missing or empty, want PodName, PodNamespace, PodUID and Node"
